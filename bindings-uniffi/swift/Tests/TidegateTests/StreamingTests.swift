import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Answers whose bodies are read as they come: slot, deadline and connection go on until they have been.
@Suite(.serialized, LeavesNothing(.streaming)) struct StreamingTests {
    let origin: Origin
    let engine = made(Engine(seed: 5))
    let session = made(URLSession(configuration: .ephemeral))

    init() throws {
        origin = try Origin.streaming.get()
    }

    private func http(
        deadline: Duration? = nil, attemptTimeout: Duration? = nil, slotUntil: SlotUntil? = nil, breaker: Breaker? = nil
    ) throws -> Policy {
        try Policy(
            preset: .http, deadline: deadline, attemptTimeout: attemptTimeout, slotUntil: slotUntil,
            retry: Retry(backoff: Backoff.constant(.milliseconds(1)).maximum(.milliseconds(5))),
            bulkhead: Bulkhead(maxConcurrency: 1), breaker: breaker, engine: engine)
    }

    private var inFlight: Int { engine.snapshot().routes.first { $0.bulkhead != nil }?.bulkhead?.inFlight ?? 0 }

    private func nothingIsLeft() async throws {
        try await eventually { try await origin.stats().in_flight == 0 }
        try await eventually { engine.idle == (0, 0) && engine.snapshot().live == 0 }
        #expect(inFlight == 0)
    }

    private let slowly = "{\"fault\": \"slow_body\", \"body_bytes\": 100000, \"chunk_every\": 20}"

    @Test func aBodyIsReadAsItComes() async throws {
        let url = try await origin.scripted(status(503), status(200, "\"body\": \"hello\""))
        let policy = try http()
        let (bytes, response) = try await session.bytes(from: url, policy: policy)
        #expect((response as? HTTPURLResponse)?.statusCode == 200)
        #expect(inFlight == 1 && engine.snapshot().live == 1, "the slot lasts until it is read")
        var text = ""
        for try await byte in bytes { text.append(Character(UnicodeScalar(byte))) }
        #expect(text == "hello")
        #expect(try await origin.log().count == 2)
        try await nothingIsLeft()
        let ends = engine.snapshot().policies[policy.name]?.ends
        #expect(ends == ["ok": 1])
    }

    private let notFoundSlowly = "{\"status\": 404, \"fault\": \"slow_body\", \"body_bytes\": 100000, \"chunk_every\": 20}"

    @Test func aStatusThatClassifyCallsGoodHoldsTheSlotUntilItsBodyIsClosed() async throws {
        let url = try await origin.scripted(notFoundSlowly)
        let policy = try Policy(
            preset: .http, deadline: .seconds(600), bulkhead: Bulkhead(maxConcurrency: 1),
            classify: { result in if case .success(is StreamedAnswer) = result { Outcome(.ok) } else { nil } }, engine: engine)
        let (bytes, response) = try await session.bytes(from: url, policy: policy)
        #expect((response as? HTTPURLResponse)?.statusCode == 404 && inFlight == 1)
        bytes.close()
        #expect(inFlight == 0 && engine.snapshot().live == 0, "the slot is free at once, not at the deadline")
        try await nothingIsLeft()
    }

    @Test func aHedgeLeavesTheAnswerAloneThatIsBeingRead() async throws {
        let url = try await origin.scripted(notFoundSlowly, "{\"fault\": \"hang\"}")
        let policy = try Policy(
            preset: .http, hedge: Hedge(delay: .milliseconds(100), budget: HedgeBudget(kind: .off)), engine: engine)
        let (bytes, response) = try await session.bytes(from: url, policy: policy)
        #expect((response as? HTTPURLResponse)?.statusCode == 404)
        let first = try await bytes.chunks.first { _ in true }
        #expect(first?.isEmpty == false, "the last answer can be read")
        bytes.close()
        try await nothingIsLeft()
    }

    @Test func aLargeBodyIsWhole() async throws {
        let size = 30_000_000
        let url = try await origin.scripted("{\"status\": 200, \"body_bytes\": \(size)}")
        let (bytes, _) = try await session.bytes(from: url, policy: try http())
        try await Task.sleep(for: .milliseconds(100))
        var read = 0
        for try await chunk in bytes.chunks { read += chunk.count }
        #expect(read == size)
        try await nothingIsLeft()
    }

    @Test func theSlotGoesOnAtTheHeadIfThatIsSaid() async throws {
        let url = try await origin.scripted(slowly)
        let (bytes, _) = try await session.bytes(from: url, policy: try http(slotUntil: .headers))
        #expect(inFlight == 0 && engine.snapshot().live == 0)
        bytes.close()
        try await nothingIsLeft()
    }

    @Test func aBodyThatIsLetGoGivesEverythingBack() async throws {
        let url = try await origin.scripted(slowly)
        let policy = try http()
        do {
            let (bytes, _) = try await session.bytes(from: url, policy: policy)
            #expect(inFlight == 1)
            for try await _ in bytes { break }
        }
        try await nothingIsLeft()
        do { _ = try await session.bytes(from: url, policy: policy) }
        try await nothingIsLeft()
        let (bytes, _) = try await session.bytes(from: url, policy: policy)
        bytes.close()
        try await nothingIsLeft()
        await #expect(throws: CancellationError.self) { for try await _ in bytes {} }
    }

    @Test func theDeadlineCoversTheBody() async throws {
        let url = try await origin.scripted(slowly)
        let (bytes, _) = try await session.bytes(from: url, policy: try http(deadline: .seconds(1)))
        let began = ContinuousClock.now
        await #expect(throws: DeadlineExceeded.self) { for try await _ in bytes {} }
        #expect(ContinuousClock.now - began < .seconds(20))
        try await nothingIsLeft()
    }

    @Test func anAttemptsTimeoutEndsAtTheHead() async throws {
        let url = try await origin.scripted("{\"fault\": \"hang\"}", "{\"fault\": \"slow_body\", \"body_bytes\": 40, \"chunk_every\": 50}")
        let (bytes, _) = try await session.bytes(from: url, policy: try http(attemptTimeout: .milliseconds(500)))
        var count = 0
        for try await _ in bytes { count += 1 }
        #expect(count == 40)
        try await nothingIsLeft()
    }

    @Test func aBodyThatFailsIsOneFailureAndNotRepeated() async throws {
        let url = try await origin.scripted("{\"fault\": \"truncate\", \"body_bytes\": 1000}", status(200))
        let policy = try http(breaker: Breaker(consecutive: 1, breakDuration: .seconds(60)))
        let (bytes, _) = try await session.bytes(from: url, policy: policy)
        await #expect(throws: URLError.self) { for try await _ in bytes {} }
        #expect(try await origin.log().count == 1)
        let refused = await session.streamed(for: URLRequest(url: url), policy: policy)
        #expect(refused.report.reason == .breakerOpen)
        try await nothingIsLeft()
    }

    @Test(arguments: [100, 200_000]) func theLastFailedAnswerIsTheCallers(_ size: Int) async throws {
        let url = try await origin.scripted("{\"status\": 503, \"body_bytes\": \(size)}")
        let ended = await session.streamed(for: URLRequest(url: url), policy: try http())
        #expect((ended.report.attempts, ended.report.reason) == (3, .attempts))
        let answer = try ended.result.get()
        #expect((answer.response as? HTTPURLResponse)?.statusCode == 503)
        var read = 0
        for try await chunk in answer.bytes.chunks { read += chunk.count }
        #expect(read == size)
        // A small one has kept its connection.
        let connections = Set(try await origin.log().map(\.connection)).count
        #expect(size > 65_536 || connections == 1, "\(connections)")
        try await nothingIsLeft()
    }

    /// A server that drips: neither the bytes nor the time of what is read of a failed answer may be without bound.
    @Test func aFailedAnswerThatDripsHoldsNothingUp() async throws {
        let dripping = "{\"fault\": \"slow_body\", \"status\": 503, \"body_bytes\": 60000, \"chunk_every\": 60000}"
        let url = try await origin.scripted(dripping, status(200, "\"body\": \"hello\""))
        let ended = await session.streamed(for: URLRequest(url: url), policy: try http())
        #expect((ended.report.attempts, ended.report.reason) == (2, .ok))
        for try await _ in try ended.result.get().bytes {}
        try await nothingIsLeft()
    }

    /// The last answer is the caller's also where it has failed: what is left of its body ends by the deadline.
    @Test(arguments: ["\"chunk_every\": 60000", "\"chunk_every\": 1, \"chunk_bytes\": 100"]) func theDeadlineCoversTheBodyOfAFailedAnswer(_ pace: String) async throws {
        let url = try await origin.scripted("{\"fault\": \"slow_body\", \"status\": 404, \"body_bytes\": 60000000, \(pace)}")
        let ended = await session.streamed(for: URLRequest(url: url), policy: try http(deadline: .seconds(3)))
        let answer = try ended.result.get()
        #expect((answer.response as? HTTPURLResponse)?.statusCode == 404)
        await #expect(throws: DeadlineExceeded.self) { for try await _ in answer.bytes.chunks {} }
        try await nothingIsLeft()
    }

    @Test func theBodyOfAFailedAnswerThatIsLetGoLeavesNoTimer() async throws {
        let url = try await origin.scripted("{\"fault\": \"slow_body\", \"status\": 404, \"body_bytes\": 60000000, \"chunk_every\": 60000}")
        do {
            let ended = await session.streamed(for: URLRequest(url: url), policy: try http(deadline: .seconds(3_600)))
            _ = try ended.result.get()
            #expect(engine.idle.timers == 1)
        }
        try await nothingIsLeft()
    }

    @Test(arguments: ["{\"fault\": \"hang\"}", "{\"status\": 429, \"retry_after\": \"50\"}"]) func theWaitForAHeadIsCancellable(_ answer: String) async throws {
        let url = try await origin.scripted(answer)
        let policy = try http(deadline: .seconds(600))
        let call = Task { await session.streamed(for: URLRequest(url: url), policy: policy).report.reason }
        try await eventually { try await origin.stats().requests == 1 }
        try await Task.sleep(for: .milliseconds(30))
        let began = ContinuousClock.now
        call.cancel()
        #expect(await call.value == .cancelled)
        #expect(ContinuousClock.now - began < .seconds(30))
        try await nothingIsLeft()
    }

    @Test func readingIsCancellable() async throws {
        let url = try await origin.scripted(slowly)
        let (bytes, _) = try await session.bytes(from: url, policy: try http())
        let reader = Task { for try await _ in bytes {} }
        try await Task.sleep(for: .milliseconds(50))
        reader.cancel()
        await #expect(throws: CancellationError.self) { try await reader.value }
        try await nothingIsLeft()
    }

    @Test func aLargeBodyIsClosedWhileItComes() async throws {
        let policy = try http()
        for round in 0..<30 {
            let url = try await origin.scripted("{\"status\": 200, \"body_bytes\": 30000000}")
            let (bytes, _) = try await session.bytes(from: url, policy: policy)
            if round % 2 == 0 { for try await _ in bytes.chunks { break } }
            bytes.close()
        }
        try await nothingIsLeft()
    }

    @Test func aLargeFailedAnswerIsClosedBeforeTheNextAttempt() async throws {
        let url = try await origin.scripted("{\"status\": 503, \"body_bytes\": 30000000}", "{\"fault\": \"hang\"}")
        let policy = try http()
        let call = Task { await session.streamed(for: URLRequest(url: url), policy: policy).report.reason }
        try await eventually { try await origin.stats().requests == 2 }
        try await eventually { try await origin.stats().in_flight == 1 }
        call.cancel()
        #expect(await call.value == .cancelled)
        try await nothingIsLeft()
    }

    @Test func aHedgesLoserIsClosed() async throws {
        let url = try await origin.scripted("{\"fault\": \"hang\"}", status(200, "\"body\": \"second\""))
        let policy = try Policy(
            hedge: Hedge(delay: .milliseconds(30), budget: HedgeBudget(kind: .off)), engine: engine)
        let (bytes, _) = try await session.bytes(from: url, policy: policy)
        var text = Data()
        for try await chunk in bytes.chunks { text += chunk }
        #expect(String(decoding: text, as: UTF8.self) == "second")
        try await nothingIsLeft()
    }
}
