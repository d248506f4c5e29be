import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// What a reader of a stream has got.
private struct Seen {
    var text = ""
    var error: (any Error)?
    var attempts = 0
}

/// Timeouts of streams (semantics 7.7), against a fake provider that stalls, pings and fails.
@Suite(.serialized, LeavesNothing(.timeouts)) struct StreamTimeoutTests {
    private let origin: Origin
    private let engine = made(Engine(seed: 5))
    private let session = made(URLSession(configuration: .ephemeral))

    init() throws {
        origin = try Origin.timeouts.get()
    }

    private func http(
        _ name: String = "p", deadline: Duration? = .seconds(60), deadlineUntil: DeadlineUntil? = nil, firstByteTimeout: Duration? = nil,
        idleTimeout: Duration? = nil, counts: Counts? = .sseData, breaker: Breaker? = nil, classify: Classify? = nil
    ) throws -> Policy {
        try Policy(
            name, preset: .http, deadline: deadline, firstByteTimeout: firstByteTimeout, idleTimeout: idleTimeout,
            deadlineUntil: deadlineUntil, counts: counts,
            retry: Retry(backoff: Backoff.constant(.milliseconds(1)).maximum(.milliseconds(5))), breaker: breaker, classify: classify,
            engine: engine)
    }

    /// Faults of the provider: JSON. Its pings come every 20 ms.
    private func provider(_ faults: String = "", more: String = "") async throws {
        try await origin.script("{\"provider\": {\"ping_every\": 0.02, \"faults\": [\(faults)]\(more)}}")
    }

    private func ask(
        _ policy: Policy, accept: String? = "text/event-stream", stream: Bool? = nil, asks: Bool = true,
        delivered: () async throws -> Void = {}
    ) async -> Seen {
        var request = URLRequest(url: origin.url.appendingPathComponent("v1/chat/completions"), timeoutInterval: 60)
        request.httpMethod = "POST"
        if let accept { request.setValue(accept, forHTTPHeaderField: "Accept") }
        request.httpBody = Data("{\"model\": \"m\", \"stream\": \(asks), \"messages\": [{\"role\": \"user\", \"content\": \"Hi.\"}]}".utf8)
        let options = RequestOptions(CallOptions(idempotent: true), stream: stream)
        let ended = await session.streamed(for: request, policy: policy, options: options)
        var seen = Seen(attempts: ended.report.attempts)
        do {
            let answer = try ended.result.get()
            try await delivered()
            for try await chunk in answer.bytes.chunks { seen.text += String(decoding: chunk, as: UTF8.self) }
        } catch {
            seen.error = error
        }
        return seen
    }

    private var requests: Int { get async throws { try await origin.log().count } }

    @Test func aStreamWithoutAFirstPieceIsRepeated() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 0, \"first\": 1}")
        let seen = await ask(try http(firstByteTimeout: .seconds(2)))
        #expect(seen.error == nil && seen.attempts == 2, "7.7.3: \(seen)")
        #expect(seen.text.hasPrefix("data: {") && seen.text.hasSuffix("data: [DONE]\n\n"), "7.7.8: \(seen.text)")
        #expect(try await requests == 2)
    }

    @Test func aFirstPieceThatNeverComesIsAnAttemptOutOfTime() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 0}")
        let clock = ManualClock()
        let policy = try Policy(
            "never", preset: .http, firstByteTimeout: .milliseconds(100), counts: .sseData, retry: Retry(backoff: .constant(.zero)),
            engine: Engine(seed: 5, clock: clock))
        let call = Task { await ask(policy) }
        for number in 1...3 {
            try await eventually { try await requests == number }
            await clock.advance(by: .milliseconds(100))
        }
        let seen = await call.value
        #expect(seen.error is AttemptTimeout && seen.attempts == 3, "7.7.3: \(seen)")
        #expect(try await requests == 3)
    }

    @Test func pingsCountAsBytesAndNotAsData() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 0}")
        let bytes = await ask(try http("bytes", deadline: .seconds(2), firstByteTimeout: .seconds(30), counts: .bytes))
        #expect(bytes.error is DeadlineExceeded && !bytes.text.isEmpty, "7.7.13: \(bytes)")
        let data = await ask(try http("data", deadline: .milliseconds(500), firstByteTimeout: .seconds(30)))
        #expect(data.error is DeadlineExceeded && data.text.isEmpty, "7.7.13: \(data)")
    }

    @Test func silenceAfterTheDeliveryEndsTheCall() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 60}")
        let began = ContinuousClock.now
        let seen = await ask(try http(firstByteTimeout: .seconds(30), idleTimeout: .milliseconds(300)))
        let error = try #require(seen.error as? StreamStalled, "7.7.11: \(seen)")
        #expect(error.code == "stream_stalled" && error.reason == .streamStalled && error.httpStatus == 504)
        #expect(ContinuousClock.now - began >= .milliseconds(290), "7.7.9")
        #expect(try await requests == 1, "nothing is repeated")
        #expect(engine.snapshot().live == 0)
    }

    @Test func aBodyThatStallsIsAFailureOfTheBreaker() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 60}")
        let policy = try http(idleTimeout: .milliseconds(100), breaker: Breaker(consecutive: 1, breakDuration: .seconds(60)))
        #expect(await ask(policy).error is StreamStalled)
        #expect((await ask(policy).error as? Rejected)?.cause == .breakerOpen, "7.7.11")
    }

    @Test func aRequestThatIsNoStreamIsDeliveredAtItsHead() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 0}")
        let plain = await ask(
            try http("plain", deadline: .seconds(1), firstByteTimeout: .milliseconds(100)), accept: "application/json", asks: false)
        #expect(plain.error is DeadlineExceeded, "7.7.4: \(plain)")
        #expect(try await requests == 1)
        try await provider("{\"fault\": \"stall\", \"at\": 0, \"first\": 1}")
        let streamed = await ask(try http("streamed", firstByteTimeout: .seconds(2)), accept: nil, stream: true)
        #expect(streamed.error == nil && streamed.attempts == 2, "7.7.4: \(streamed)")
        try await provider("{\"fault\": \"stall\", \"at\": 0, \"first\": 1}")
        let asks = await ask(try http("asks", firstByteTimeout: .seconds(2)), accept: nil)
        #expect(asks.error == nil && asks.attempts == 2, "7.7.4, its body asks for a stream: \(asks)")
    }

    @Test func anAnswerThatClassifyTakesForAFailureIsNotHeldBack() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 0, \"first\": 1}")
        let seen = Locked(0)
        let policy = try http(
            firstByteTimeout: .seconds(30),
            classify: { result in
                guard case .success = result else { return nil }
                let first = seen.withLock { count in
                    defer { count += 1 }
                    return count < 2
                }
                return first ? Outcome(.transient) : nil
            })
        let began = ContinuousClock.now
        let answer = await ask(policy)
        #expect(answer.error == nil && answer.attempts == 2, "7.7.5: \(answer)")
        #expect(ContinuousClock.now - began < .seconds(20), "the first answer was not held for its first piece")
    }

    @Test func aWholeAnswerThatFallsSilentIsAnAttemptOutOfTime() async throws {
        try await provider("{\"fault\": \"stall\", \"at\": 1, \"first\": 1}")
        var request = URLRequest(url: origin.url.appendingPathComponent("v1/chat/completions"), timeoutInterval: 60)
        request.httpMethod = "POST"
        request.httpBody = Data("{\"model\": \"m\", \"stream\": true, \"messages\": []}".utf8)
        let policy = try http(idleTimeout: .milliseconds(300))
        let options = RequestOptions(CallOptions(idempotent: true))
        let ended = await session.answer(for: request, policy: policy, options: options)
        #expect(ended.report.attempts == 2, "7.7.10: \(ended.report)")
        #expect(String(decoding: try ended.result.get().data, as: UTF8.self).hasSuffix("data: [DONE]\n\n"))
        try await provider("{\"fault\": \"stall\", \"at\": 1}")
        let late = await session.answer(for: request, policy: policy, options: options)
        guard case .failure(let error) = late.result else { throw URLError(.unknown) }
        #expect(error is AttemptTimeout, "7.7.10: \(error)")
        #expect(engine.snapshot().live == 0)
    }

    @Test func anErrorEventIsAFailedAnswerBeforeTheDeliveryAndAFailedBodyAfterIt() async throws {
        try await provider("{\"fault\": \"error_event\", \"at\": 0, \"first\": 1}")
        let breaker = Breaker(consecutive: 1, breakDuration: .seconds(60), failureOn: ["throttled"], unit: .call)
        let policy = try http(firstByteTimeout: .seconds(30), breaker: breaker)
        let repeated = await ask(policy)
        #expect(repeated.error == nil && repeated.attempts == 2 && !repeated.text.contains("overloaded"), "7.7.21: \(repeated)")
        try await provider("{\"fault\": \"error_event\", \"at\": 2}")
        let late = await ask(policy)
        #expect(late.error == nil && late.text.contains("error"), "its reader gets it as it came: \(late)")
        #expect((await ask(policy).error as? Rejected)?.cause == .breakerOpen, "7.7.21")
    }

    @Test func theDeadlineMayEndAtTheDelivery() async throws {
        try await provider(more: ", \"token_every\": 250")
        let bound = await ask(try http("body", deadline: .seconds(1), firstByteTimeout: .seconds(30)))
        #expect(bound.error is DeadlineExceeded, "\(bound)")
        var delivered = false
        let free = await ask(
            try http("delivery", deadline: .seconds(1), deadlineUntil: .delivery, firstByteTimeout: .seconds(30))
        ) { delivered = true }
        // A busy machine may deliver late; then the deadline ends the attempt.
        #expect(delivered ? free.text.hasSuffix("[DONE]\n\n") : free.error is DeadlineExceeded, "7.7.15: \(free)")
    }

    @Test func aCallerThatDoesNotReadIsNoStalledServer() async throws {
        try await provider()
        let policy = try http(firstByteTimeout: .seconds(30), idleTimeout: .milliseconds(400))
        let seen = await ask(policy) { try await Task.sleep(for: .seconds(1)) }
        #expect(seen.error == nil && seen.text.hasSuffix("[DONE]\n\n"), "7.7.17: \(seen)")
    }

    @Test func aFunctionHasNoPiecesToWaitFor() async throws {
        let clock = ManualClock()
        let policy = try Policy(
            "function", firstByteTimeout: .seconds(1), idleTimeout: .seconds(1), engine: Engine(seed: 5, clock: clock))
        let begun = Counter()
        let call = Task {
            try await policy.run { _ in
                begun.add()
                try await clock.sleep(for: .seconds(60))
                return 7
            }
        }
        try await eventually { begun.value == 1 && clock.sleeping == 1 }
        await clock.advance(by: .seconds(60))
        #expect(try await call.value == 7, "7.7.23")
    }

    @Test func uploadsRefuseThePolicy() async throws {
        let policy = try http(deadlineUntil: .delivery, firstByteTimeout: .seconds(30), idleTimeout: .seconds(5))
        let rule = "an upload does not serve timeouts of streams: use data(for:policy:) or bytes(for:policy:), or leave the key out"
        let answer = await session.answer(for: URLRequest(url: origin.url), from: Data("x".utf8), policy: policy)
        guard case .failure(let failure) = answer.result, let error = failure as? PolicyError else {
            Issue.record("7.7.23: \(answer.result)")
            return
        }
        #expect(error.mistakes.map(\.key) == ["firstByteTimeout", "idleTimeout", "deadlineUntil"])
        #expect(error.mistakes.allSatisfy { $0.rule == rule })
    }
}
