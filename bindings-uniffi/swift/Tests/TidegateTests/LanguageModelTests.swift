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
        #expect(blocks.count == 4)
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

    @Test func requestsAndTokensAreCounted() async throws {
        try await failsFirst()
        let chats = try Policy("chats", preset: .llm)
        let limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens"]
        let metered = try Policy("metered", rateLimit: RateLimit(wait: true, maxWait: .seconds(20), limits: limits))
        let answer = try await metered.run(CallOptions(weights: ["tokens": 1_800])) { attempt in
            let (data, _) = try await session.data(for: chat("And low tide?"), policy: chats)
            attempt.settle("tokens", try tokens(of: data))  // the usage that the answer reports
            return data
        }
        let route = Engine.shared.snapshot().routes.first { $0.policy == "metered" }
        let tpm = try #require(route?.rate?.limits["tpm"])
        let used = try tokens(of: answer)
        #expect(tpm.reserved == 1_800 && tpm.settled == UInt64(used))
    }
}
