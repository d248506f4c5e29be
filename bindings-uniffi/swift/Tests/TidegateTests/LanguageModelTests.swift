import Foundation
import Testing

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

private struct Chat: Encodable {
    var model = "gpt-5"
    let stream: Bool
    let messages: [Message]
}

private struct Message: Encodable {
    var role = "user"
    let content: String
}

private func tokens(of answer: Data) throws -> Int {
    struct Answer: Decodable {
        struct Usage: Decodable { let total_tokens: Int }
        let usage: Usage
    }
    return try JSONDecoder().decode(Answer.self, from: answer).usage.total_tokens
}

/// `docs/swift/language-models.md`: each of its blocks stands here, word for word, against a fake provider whose first answer is a 503.
@Suite(.serialized) struct LanguageModelTests {
    private let session = URLSession(configuration: .ephemeral)
    private let key = "key"
    private let origin: Origin
    private var server: URL { origin.url }

    init() throws {
        origin = try Origin.models.get()
    }

    private func failsFirst() async throws {
        try await origin.script("{\"provider\": {\"faults\": [{\"fault\": \"unavailable\", \"first\": 1}]}}")
    }

    func chat(_ question: String, stream: Bool = false) throws -> URLRequest {
        var request = URLRequest(url: server.appendingPathComponent("v1/chat/completions"), timeoutInterval: 600)
        request.httpMethod = "POST"
        request.setValue("Bearer \(key)", forHTTPHeaderField: "Authorization")
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.httpBody = try JSONEncoder().encode(Chat(stream: stream, messages: [Message(content: question)]))
        return request
    }

    @Test func everyBlockOfThePageIsATest() throws {
        let page = VectorTests.vectors.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("docs/swift/language-models.md")
        let plain = { (text: String) in
            text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: "\n")
        }
        let here = plain(try String(contentsOfFile: #filePath, encoding: .utf8))
        let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```")
        let blocks = stride(from: 1, to: parts.count, by: 2).map { parts[$0] }.filter { $0.hasPrefix("swift\n") }
        for block in blocks { #expect(here.contains(plain(String(block.dropFirst(6)))), "\(block)") }
        #expect(blocks.count == 7)
    }

    @Test func aQuestionIsAnsweredByTheSecondAttempt() async throws {
        try await failsFirst()
        let chats = try Policy("chats", preset: .llm)  // 4 attempts, POST too, 600 s in all
        let (data, response) = try await session.data(for: chat("When is high tide?"), policy: chats)
        #expect((response as? HTTPURLResponse)?.statusCode == 200)
        #expect(try tokens(of: data) > 0)
        #expect(try await origin.log().count == 2)
    }

    @Test func aStreamIsReadAsItComes() async throws {
        try await failsFirst()
        let streamed = try Policy(
            "streamed", preset: .llm,
            firstByteTimeout: .seconds(30),  // to the first token; a stream without one is repeated
            idleTimeout: .seconds(60),  // between two pieces; a stream that stalls later ends
            deadlineUntil: .delivery,  // the deadline ends with the first token
            counts: .sseData)  // pings and comments do not count
        var request = try chat("Tell me.", stream: true)
        request.setValue("text/event-stream", forHTTPHeaderField: "Accept")
        let (bytes, head) = try await session.bytes(for: request, policy: streamed)
        var text = Data()
        for try await chunk in bytes.chunks { text += chunk }
        let events = String(decoding: text, as: UTF8.self).split(separator: "\n").filter { $0.hasPrefix("data: {") }
        #expect((head as? HTTPURLResponse)?.statusCode == 200 && events.count >= 8)
    }

    private func limit(_ policy: String, _ name: String = "tpm") throws -> LimitView {
        let route = Engine.shared.snapshot().routes.first { $0.policy == policy }
        return try #require(route?.rate?.limits[name])
    }

    @Test func requestsAndTokensAreCounted() async throws {
        try await failsFirst()
        let limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens"]
        let metered = try Policy(
            "metered", preset: .llm,
            rateLimit: RateLimit(
                wait: true, maxWait: .seconds(20), limits: limits,
                estimateQuantile: 0.95),  // from 20 answers on, reserve what was enough for 95 % of them
            metering: .tokens(output: 800))  // what an answer is taken to have if its request sets no maximum
        let (answer, _) = try await session.data(for: chat("And low tide?"), policy: metered)
        let tpm = try limit("metered")
        // The first answer was a 503, of which nobody knows what it has used.
        #expect(tpm.reserved == 2 * 804)
        let used = try tokens(of: answer)
        #expect(tpm.settled == 804 + UInt64(used))
    }

    @Test func aStreamSettlesWhatItSays() async throws {
        try await origin.script("{\"provider\": {\"answer_tokens\": 8}}")
        let limits = ["tpm: permits=200000 per=1m weight=tokens"]
        let metered = try Policy("metered stream", preset: .llm, rateLimit: RateLimit(limits: limits), metering: .tokens(output: 800))
        var request = try chat("And low tide?")
        let body = #"{"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{"content": "Hi."}]}"#
        request.httpBody = Data(body.utf8)
        let (bytes, _) = try await session.bytes(for: request, policy: metered)
        var text = Data()
        for try await chunk in bytes.chunks { text += chunk }
        let said = String(decoding: text, as: UTF8.self)
        let total = try #require(said.range(of: #""total_tokens": ?[0-9]+"#, options: [.regularExpression, .backwards]))
        let tpm = try limit("metered stream")
        #expect("\(tpm.settled)" == said[total].drop { !$0.isNumber } && tpm.reserved == 801)
        // One that is closed early counts what it had reserved.
        try await origin.script("{\"provider\": {\"answer_tokens\": 400, \"token_every\": 20}}")
        let (early, _) = try await session.bytes(for: request, policy: metered)
        early.close()
        #expect(try limit("metered stream").settled == tpm.settled + 801)
    }

    @Test func aClosureSettlesByHand() async throws {
        let counting = try Policy("counting", rateLimit: RateLimit(limits: ["tpm: permits=200000 per=1m weight=tokens"]))
        try await counting.run(CallOptions(weights: ["tokens": 1_800])) { attempt in
            _ = attempt.settle("tokens", 1_200)  // whenever a better total is known
        }
        let tpm = try limit("counting")
        #expect(tpm.reserved == 1_800 && tpm.settled == 1_200)
    }

    /// Semantics 3.8.1 and 3.8.13.
    @Test func aBudgetOfMoneyIsALimit() async throws {
        let daily = try Policy(
            "daily", rateLimit: RateLimit(limits: ["usd: permits=5000000 per=24h weight=usd max_debt=none refill=window"]))
        do {
            try await daily.run(CallOptions(weights: ["usd": 40_000])) { attempt in  // four cents at most
                _ = attempt.settle("usd", 12_500)  // what it has cost
            }
        } catch let error as Rejected where error.cause == .rateLimited {
            print(error)  // names the limit, the weight and the amount
        }
        #expect(try limit("daily", "usd").tokens == 5_000_000 - 12_500)
    }

    @Test func aFailureGoesToTheNextTarget() async throws {
        try await failsFirst()
        let document = """
            [targets.chat]
            pick = "ladder" # or "balanced": by shares, load and latency
            members = ["large", "small"]
            max_queue = 200 # calls that wait where no target admits them,
            max_wait = "5s" # each for so long
            default.breaker = { consecutive = 3, break_duration = "30s" }
            default.rate_limit = { permits = 500, per = "1m" }
            [policy.answers]
            targets = "chat"
            retry = { max_attempts = 4 }
            """
        struct Failed: Error { let status: Int }
        let answers = try Policies(toml: document, on: [Failed.self])["answers"]
        let paths = ["large": "v1/chat/completions", "small": "v2/chat/completions"]
        let reply = try await answers.run { attempt in
            var request = try chat("Hi.")
            request.url = server.appendingPathComponent(paths[attempt.target ?? ""] ?? "")
            let (data, response) = try await session.data(for: request)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            guard status == 200 else { throw Failed(status: status) }
            return data
        }
        #expect(try tokens(of: reply) > 0)
        #expect(Engine.shared.snapshot().targets.map(\.attempts) == [1, 1])
    }
}
