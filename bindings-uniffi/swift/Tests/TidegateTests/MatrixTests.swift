import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A way to send a request under a policy.
enum Adapter: String, CaseIterable, CustomTestStringConvertible {
    case data, uploadData, uploadFile, bytes

    var testDescription: String { rawValue }
}

/// The rules that every adapter keeps (`hosts.md`), for each way to send a request. Rule 4 for streams is in `StreamingTests`, 5 with
/// 1,000 trials and 13 in `RuleTests`, 10 in `RunTests`, 12 in `EngineTests` and core's own.
@Suite(.serialized, LeavesNothing(.matrix)) struct MatrixTests {
    let origin: Origin
    let engine = made(Engine(seed: 5))
    let session = made(URLSession(configuration: .ephemeral))
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("tidegate-\(UUID().uuidString)")

    /// What came of it: nil of `status` where there is an error, which is in `error`.
    private struct Sent: Sendable {
        let report: Report
        var status: Int?
        var body = ""
        var error: (any Error)?
    }

    init() throws {
        origin = try Origin.matrix.get()
        try Data("sent".utf8).write(to: file)
    }

    private func http(
        deadline: Duration? = nil, attemptTimeout: Duration? = nil, bulkhead: Bulkhead? = nil, attempts: Int? = nil
    ) throws -> Policy {
        try Policy(
            preset: .http, deadline: deadline, attemptTimeout: attemptTimeout,
            retry: Retry(maxAttempts: attempts, backoff: Backoff.constant(.milliseconds(1)).maximum(.milliseconds(5))),
            bulkhead: bulkhead, engine: engine)
    }

    private func send(
        _ adapter: Adapter, _ url: URL, _ policy: Policy, _ method: String = "PUT", _ options: RequestOptions = RequestOptions(),
        over other: URLSession? = nil
    ) async -> Sent {
        let session = other ?? session
        var request = URLRequest(url: url)
        request.httpMethod = method
        let ended: Ended<Answer>
        switch adapter {
        case .data:
            request.httpBody = Data("sent".utf8)
            ended = await session.answer(for: request, policy: policy, options: options)
        case .uploadData: ended = await session.answer(for: request, from: Data("sent".utf8), policy: policy, options: options)
        case .uploadFile: ended = await session.answer(for: request, fromFile: file, policy: policy, options: options)
        case .bytes:
            request.httpBody = Data("sent".utf8)
            let streamed = await session.streamed(for: request, policy: policy, options: options)
            do {
                let answer = try streamed.result.get()
                var body = Data()
                for try await chunk in answer.bytes.chunks { body += chunk }
                return told(streamed.report, answer.response, body)
            } catch { return Sent(report: streamed.report, error: error) }
        }
        do {
            let answer = try ended.result.get()
            return told(ended.report, answer.response, answer.data)
        } catch { return Sent(report: ended.report, error: error) }
    }

    private func told(_ report: Report, _ response: URLResponse, _ body: Data) -> Sent {
        Sent(report: report, status: (response as? HTTPURLResponse)?.statusCode, body: String(decoding: body, as: UTF8.self))
    }

    private func nothingIsLeft() async throws {
        try await eventually { try await origin.stats().in_flight == 0 }
        try await eventually { engine.idle == (0, 0) && engine.snapshot().live == 0 }
        #expect(engine.snapshot().routes.allSatisfy { ($0.bulkhead?.inFlight ?? 0) == 0 })
    }

    @Test(arguments: Adapter.allCases) func rules1And11BodiesAreSentAgainWithTheirNumber(_ adapter: Adapter) async throws {
        let url = try await origin.scripted(status(503), status(503), status(200))
        #expect(await send(adapter, url, try http()).status == 200)
        let log = try await origin.log()
        #expect(log.map(\.body) == ["sent", "sent", "sent"])
        #expect(log.map { $0.headers["retry-attempt"] } == [nil, "1", "2"])
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule2OnlyWhatMayHappenTwice(_ adapter: Adapter) async throws {
        let url = try await origin.scripted(status(503), status(200))
        let bare = await send(adapter, url, try http(), "POST")
        #expect(bare.status == 503 && bare.report.reason == .method)
        let keyed = try await origin.scripted(status(503), status(200))
        #expect(await send(adapter, keyed, try http(), "POST", RequestOptions(idempotencyKey: true)).status == 200)
        let keys = try await origin.log().map { $0.headers["idempotency-key"] }
        #expect(keys.count == 2 && Set(keys).count == 1 && keys[0] != nil)
        let nobody = await send(adapter, URL(string: "http://127.0.0.1:1/")!, try http(), "POST")
        #expect(nobody.report.attempts == 3 && nobody.error is URLError)
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule3TheLastAnswerIsTheCallers(_ adapter: Adapter) async throws {
        let url = try await origin.scripted(status(503, "\"body\": \"later\""))
        let sent = await send(adapter, url, try http())
        #expect((sent.status, sent.body, sent.report.note) == (503, "later", "gave up after 3 attempts"))
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule4AFailedAnswerIsReleased(_ adapter: Adapter) async throws {
        // A pool of one connection does not deadlock.
        let one = URLSessionConfiguration.ephemeral
        one.httpMaximumConnectionsPerHost = 1
        let url = try await origin.scripted("{\"status\": 503, \"body_bytes\": 200000}", "{\"status\": 503, \"body_bytes\": 40000}", status(200))
        let began = ContinuousClock.now
        let sent = await send(adapter, url, try http(deadline: .seconds(60)), over: URLSession(configuration: one))
        #expect(sent.status == 200)
        #expect(ContinuousClock.now - began < .seconds(20))
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule5RetryAfterIsKeptOrTheCallEnds(_ adapter: Adapter) async throws {
        let long = try await origin.scripted(status(429, "\"retry_after\": \"120\""))
        let sent = await send(adapter, long, try http())
        #expect((sent.status, sent.report.reason, sent.report.retryIn) == (429, .retryAfterTooLong, .seconds(120)))
        let url = try await origin.scripted(status(503, "\"retry_after\": \"1\""), status(200))
        let began = ContinuousClock.now
        #expect(await send(adapter, url, try http()).status == 200)
        #expect(ContinuousClock.now - began >= .seconds(1))
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule6ACallersCancellationIsNoFailure(_ adapter: Adapter) async throws {
        let url = try await origin.scripted("{\"fault\": \"hang\"}")
        let policy = try http(bulkhead: Bulkhead(maxConcurrency: 1))
        let call = Task { await send(adapter, url, policy) }
        try await eventually { try await origin.stats().requests == 1 }
        let began = ContinuousClock.now
        call.cancel()
        #expect(await call.value.report.reason == .cancelled)
        #expect(ContinuousClock.now - began < .seconds(30))
        #expect(engine.snapshot().policies[policy.name]?.ends == ["cancelled": 1])
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule7TwoTimeouts(_ adapter: Adapter) async throws {
        let hang = try await origin.scripted("{\"fault\": \"hang\"}")
        let attempt = await send(adapter, hang, try http(attemptTimeout: .milliseconds(50), attempts: 2))
        #expect(attempt.error is AttemptTimeout && attempt.report.attempts == 2)
        let deadline = await send(adapter, hang, try http(deadline: .milliseconds(100)))
        #expect(deadline.error is DeadlineExceeded)
        let slow = try await origin.scripted("{\"fault\": \"slow_body\", \"body_bytes\": 100000, \"chunk_every\": 20}")
        let body = await send(adapter, slow, try http(deadline: .milliseconds(200)))
        #expect(body.error is DeadlineExceeded)
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule8TheSlotSpansTheBody(_ adapter: Adapter) async throws {
        let slow = try await origin.scripted("{\"fault\": \"slow_body\", \"body_bytes\": 64, \"chunk_every\": 500}")
        let policy = try http(bulkhead: Bulkhead(maxConcurrency: 1))
        let first = Task { await send(adapter, slow, policy) }
        try await eventually { try await origin.stats().requests == 1 }
        #expect(await send(adapter, slow, policy).report.reason == .queueFull)
        #expect(await first.value.body.count == 64)
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule9NestedPoliciesDoNotMultiply(_ adapter: Adapter) async throws {
        let url = try await origin.scripted(status(503))
        let inner = try http()
        let outer = try Policy("outer", retry: Retry(backoff: .constant(.zero)), engine: engine)
        #expect(try await outer.run { _ in await send(adapter, url, inner).report.reason } == .nested)
        #expect(try await origin.stats().requests == 1)
        try await nothingIsLeft()
    }

    /// Foundation on Linux has ended the process here: a cancelled task was looked for where it was no more, or its file went on being read.
    @Test(arguments: Adapter.allCases) func rule6ATransferMayBeCancelledAtAnyMoment(_ adapter: Adapter) async throws {
        let url = try await origin.scripted("{\"status\": 200, \"body_bytes\": 2000}", "{\"fault\": \"reset\"}", status(503))
        let policy = try http(attempts: 2)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let call = Task { await send(adapter, url, policy) }
                    try? await Task.sleep(for: .microseconds(number * 37 % 4_000))
                    call.cancel()
                    _ = await call.value
                }
            }
        }
        try await nothingIsLeft()
    }

    @Test(arguments: Adapter.allCases) func rule14NothingIsLeftOfManyCallsThatEndAnyhow(_ adapter: Adapter) async throws {
        let url = try await origin.scripted(
            status(200), status(503), "{\"fault\": \"reset\"}", "{\"fault\": \"truncate\", \"body_bytes\": 500}",
            "{\"status\": 200, \"delay\": 30}", "{\"status\": 404, \"body_bytes\": 100000}", status(200))
        let policy = try http(
            deadline: .seconds(5), attemptTimeout: .milliseconds(200),
            bulkhead: Bulkhead(maxConcurrency: 4, maxQueue: .unbounded, acquireTimeout: .unbounded))
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask {
                    let call = Task { await send(adapter, url, policy) }
                    if number % 4 == 0 {
                        try? await Task.sleep(for: .milliseconds(number))
                        call.cancel()
                    }
                    _ = await call.value
                }
            }
        }
        try await nothingIsLeft()
        let ends = engine.snapshot().policies[policy.name]?.ends.values.reduce(0, +) ?? 0
        #expect((30...40).contains(ends), "\(ends)")
    }
}
