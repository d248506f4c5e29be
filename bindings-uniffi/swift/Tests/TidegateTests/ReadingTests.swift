import Foundation
import Testing

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Policies with `readErrors` read why an answer has failed, and their callers get it unread (semantics 15.5 and 15.8).
@Suite(.serialized, LeavesNothing(.reading)) struct ReadingTests {
    let origin: Origin
    let engine = made(Engine(seed: 7))
    let session = made(URLSession(configuration: .ephemeral))
    private let spent = "{\"error\":{\"message\":\"You exceeded your quota.\",\"code\":\"insufficient_quota\"}}"

    init() throws {
        origin = try Origin.reading.get()
    }

    private func reading(_ reads: Bool = true) throws -> Policy {
        try Policy(
            preset: .http,
            retry: Retry(
                statuses: [408, 409, 429, 500, 502, 503, 504, 529], readErrors: reads,
                backoff: Backoff.constant(.milliseconds(1)).maximum(.milliseconds(5))),
            engine: engine)
    }

    private func answer(_ status: Int, _ body: String, _ more: String = "") -> String {
        let text = body.replacingOccurrences(of: "\"", with: "\\\"")
        return "{\"status\": \(status), \"body\": \"\(text)\"\(more)}"
    }

    /// The body as it is read, in one piece or as it comes.
    private func read(_ url: URL, _ policy: Policy, streamed: Bool) async throws -> (Int?, String, Report) {
        if streamed {
            let ended = await session.streamed(for: URLRequest(url: url), policy: policy)
            let answer = try ended.result.get()
            var body = Data()
            for try await chunk in answer.bytes.chunks { body += chunk }
            return ((answer.response as? HTTPURLResponse)?.statusCode, String(decoding: body, as: UTF8.self), ended.report)
        }
        let ended = await session.answer(for: URLRequest(url: url), policy: policy)
        let answer = try ended.result.get()
        return ((answer.response as? HTTPURLResponse)?.statusCode, String(decoding: answer.data, as: UTF8.self), ended.report)
    }

    @Test(arguments: [false, true]) func aSpentQuotaIsNotRepeatedAndItsAnswerCanBeRead(_ streamed: Bool) async throws {
        let url = try await origin.scripted(answer(429, spent))
        let (status, body, report) = try await read(url, try reading(), streamed: streamed)
        #expect((status, body) == (429, spent))
        #expect((report.attempts, report.reason) == (1, .notRetryable))
    }

    @Test(arguments: [false, true]) func withoutTheKeyNoBodyIsRead(_ streamed: Bool) async throws {
        let url = try await origin.scripted(answer(429, spent))
        let (_, body, report) = try await read(url, try reading(false), streamed: streamed)
        #expect(body == spent && report.attempts == 3)
    }

    @Test(arguments: [false, true]) func anOverloadThatTheBodyNamesIsAThrottle(_ streamed: Bool) async throws {
        let url = try await origin.scripted(
            answer(400, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}"), status(200))
        let (status, _, report) = try await read(url, try reading(), streamed: streamed)
        #expect(status == 200 && report.attempts == 2)
    }

    @Test(arguments: [false, true]) func aLargeAnswerIsDeliveredWhole(_ streamed: Bool) async throws {
        let large = spent + String(repeating: "x", count: 300_000)
        let url = try await origin.scripted(answer(429, large))
        let (_, body, report) = try await read(url, try reading(), streamed: streamed)
        #expect(body == large && report.attempts == 1)
    }

    /// Semantics 15.8.2 and 15.8.4: after a second the head decides, and the rest still comes.
    @Test func aBodyThatStallsIsWaitedForASecond() async throws {
        let slow = ", \"fault\": \"slow_body\", \"chunk_bytes\": \(spent.utf8.count - 10), \"chunk_every\": 3000"
        let url = try await origin.scripted(answer(402, spent, slow))
        let began = ContinuousClock.now
        let ended = await session.streamed(for: URLRequest(url: url), policy: try reading())
        #expect(ContinuousClock.now - began >= .seconds(1))
        #expect((ended.report.attempts, ended.report.reason) == (1, .notRetryable))
        var body = Data()
        for try await chunk in try ended.result.get().bytes.chunks { body += chunk }
        #expect(String(decoding: body, as: UTF8.self) == spent)
    }

    @Test func usersOfSDKsAreToldThatTheyRepeatToo() async throws {
        let url = try await origin.scripted(status(503))
        var request = URLRequest(url: url)
        request.setValue("1", forHTTPHeaderField: "x-stainless-retry-count")
        let ended = await session.answer(for: request, policy: try reading())
        #expect(ended.report.note == "gave up after 3 attempts; the SDK retries too: set its maxRetries to 0")
        let other = await session.answer(for: request, policy: try reading(false))
        #expect(other.report.note == "gave up after 3 attempts")
    }

    @Test func thePresetForLanguageModelsReadsErrors() throws {
        let policy = try Policy(preset: .llm, engine: engine)
        #expect(policy.readsErrors && policy.kinds["quota_spent"] == 9)
        let document = try Policies(toml: "[policy.chat]\npreset = \"llm\"", engine: engine)
        #expect(try document["chat"].readsErrors)
    }
}
