import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// `URLSession` under a policy, against the faulty origin: the rules that every adapter keeps.
@Suite(.serialized, LeavesNothing(.shared)) struct URLSessionTests {
    let origin: Origin
    let engine = made(Engine(seed: 5))
    let session = made(URLSession(configuration: .ephemeral))

    init() throws {
        origin = try Origin.shared.get()
    }

    /// The preset for HTTP, with waits that tests can afford.
    private func http(
        deadline: Duration? = nil, attemptTimeout: Duration? = nil, bulkhead: Bulkhead? = nil
    ) throws -> Policy {
        try Policy(
            preset: .http, deadline: deadline, attemptTimeout: attemptTimeout,
            retry: Retry(backoff: Backoff.constant(.milliseconds(1)).maximum(.milliseconds(5))), bulkhead: bulkhead,
            engine: engine)
    }

    private func request(_ url: URL, _ method: String, _ body: String? = nil) -> URLRequest {
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        return request
    }

    private func code(_ ended: Ended<Answer>) throws -> Int? {
        (try ended.result.get().response as? HTTPURLResponse)?.statusCode
    }

    @Test func dataIsSentAgainAsItIs() async throws {
        let url = try await origin.scripted(status(503), status(200))
        let (data, response) = try await session.data(for: request(url, "PUT", "hello"), policy: try http())
        #expect((response as? HTTPURLResponse)?.statusCode == 200)
        #expect(String(decoding: data, as: UTF8.self) == "OK\n")
        #expect(try await origin.log().map(\.body) == ["hello", "hello"])
        let again = try await origin.scripted(status(503), status(200))
        _ = try await session.upload(for: request(again, "PUT"), from: Data("more".utf8), policy: try http())
        #expect(try await origin.log().map(\.body) == ["more", "more"])
    }

    @Test func aFileIsReadAnewForEachAttempt() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try Data("from a file".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let url = try await origin.scripted(status(503), status(503), status(200))
        let (_, response) = try await session.upload(for: request(url, "PUT"), fromFile: file, policy: try http())
        #expect((response as? HTTPURLResponse)?.statusCode == 200)
        #expect(try await origin.log().map(\.body) == ["from a file", "from a file", "from a file"])
    }

    @Test func anUploadRefusesASecondBodyAndIsRepeatedWhateverItsRequestHas() async throws {
        let url = try await origin.scripted(status(503), status(200))
        let options = RequestOptions(bodyStream: { InputStream(data: Data("other".utf8)) })
        let refused = await session.answer(for: request(url, "PUT"), from: Data("x".utf8), policy: try http(), options: options)
        guard case .failure(let error as PolicyError) = refused.result else { throw Broken() }
        #expect(error.mistakes.map(\.key) == ["bodyStream"] && refused.report.attempts == 0)
        #expect(try await origin.log().isEmpty)
        var odd = request(url, "PUT")
        odd.httpBodyStream = InputStream(data: Data("ignored".utf8))
        let plan = Plan(odd, RequestOptions(), try http(), body: Data("x".utf8))
        #expect(plan.flags & Wire.replayable != 0, "Foundation sends the upload's own body each time")
    }

    @Test func aStreamIsSentOnceAndTheReportSaysWhy() async throws {
        let url = try await origin.scripted(status(503), status(200))
        var once = request(url, "PUT")
        once.httpBodyStream = InputStream(data: Data("stream".utf8))
        let ended = await session.answer(for: once, policy: try http())
        #expect(try code(ended) == 503)
        #expect(ended.report.reason == .oneShotBody)
        #expect(ended.report.note == "body cannot be replayed")
        #expect(try await origin.log().map(\.body) == ["stream"])
    }

    @Test func aFactoryMakesAStreamAnew() async throws {
        let url = try await origin.scripted(status(503), status(200))
        let options = RequestOptions(bodyStream: { InputStream(data: Data("stream".utf8)) })
        let ended = await session.answer(for: request(url, "PUT"), policy: try http(), options: options)
        #expect(try code(ended) == 200)
        #expect(try await origin.log().map(\.body) == ["stream", "stream"])
    }

    @Test(arguments: ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]) func isRepeated(_ method: String) async throws {
        let url = try await origin.scripted(status(503), status(200))
        #expect(try code(await session.answer(for: request(url, method), policy: try http())) == 200)
    }

    @Test func aPostIsRepeatedWithAKey() async throws {
        var url = try await origin.scripted(status(503), status(200))
        let bare = await session.answer(for: request(url, "POST", "pay"), policy: try http())
        #expect(try code(bare) == 503)
        #expect(bare.report.reason == .method)
        url = try await origin.scripted(status(503), status(200))
        var keyed = request(url, "POST", "pay")
        keyed.setValue("k1", forHTTPHeaderField: "Idempotency-Key")
        #expect(try code(await session.answer(for: keyed, policy: try http())) == 200)
        #expect(try await origin.log().map { $0.headers["idempotency-key"] } == ["k1", "k1"])
        url = try await origin.scripted(status(503), status(503), status(200))
        let made = await session.answer(
            for: request(url, "POST", "pay"), policy: try http(), options: RequestOptions(idempotencyKey: true))
        #expect(try code(made) == 200)
        let keys = try await origin.log().map { $0.headers["idempotency-key"] }
        #expect(keys.count == 3 && Set(keys).count == 1 && keys[0]?.count == 36)
        url = try await origin.scripted(status(503), status(200))
        let said = RequestOptions(CallOptions(idempotent: true))
        #expect(try code(await session.answer(for: request(url, "POST", "pay"), policy: try http(), options: said)) == 200)
    }

    @Test func anyIsRepeatedWhereNothingWasSent() async throws {
        let nobody = URL(string: "http://127.0.0.1:1/")!
        let ended = await session.answer(for: request(nobody, "POST", "pay"), policy: try http())
        #expect(throws: URLError.self) { try ended.result.get() }
        #expect(ended.report == Report(attempts: 3, reason: .attempts, note: "gave up after 3 attempts"))
    }

    @Test func theLastAnswerIsTheCallers() async throws {
        let url = try await origin.scripted(status(503, "\"body\": \"try later\""))
        let ended = await session.answer(for: request(url, "GET"), policy: try http())
        #expect(try code(ended) == 503)
        #expect(String(decoding: try ended.result.get().data, as: UTF8.self) == "try later")
        #expect((ended.report.attempts, ended.report.reason) == (3, .attempts))
        let broken = await session.answer(for: request(try await origin.scripted("{\"fault\": \"reset\"}"), "GET"), policy: try http())
        #expect(throws: URLError.self) { try broken.result.get() }
        #expect(broken.report.attempts == 3)
        let missing = await session.answer(for: request(try await origin.scripted(status(404)), "GET"), policy: try http())
        #expect(try code(missing) == 404)
        #expect(missing.report == Report(attempts: 1, reason: .notRetryable))
    }

    @Test(arguments: ["reset", "close", "reset_after_headers", "truncate"]) func whatBreaksOffIsRepeated(_ fault: String) async throws {
        let url = try await origin.scripted("{\"fault\": \"\(fault)\", \"body_bytes\": 1000}", status(200))
        let ended = await session.answer(for: request(url, "GET"), policy: try http())
        #expect(try code(ended) == 200 && ended.report.attempts == 2, "\(ended)")
        let once = try await origin.scripted("{\"fault\": \"\(fault)\", \"body_bytes\": 1000}", status(200))
        let post = await session.answer(for: request(once, "POST", "pay"), policy: try http())
        #expect(post.report.reason == .method && post.report.attempts == 1, "it may have been done")
    }

    @Test func smallAnswersKeepTheirConnection() async throws {
        let url = try await origin.scripted(status(503), status(503), status(200))
        _ = try await session.data(from: url, policy: try http())
        #expect(Set(try await origin.log().map(\.connection)).count == 1)
    }

    @Test func retryAfterIsNotCutShort() async throws {
        var url = try await origin.scripted(status(429, "\"retry_after\": \"1\""), status(200))
        let began = ContinuousClock.now
        #expect(try code(await session.answer(for: request(url, "GET"), policy: try http())) == 200)
        #expect(ContinuousClock.now - began >= .seconds(1))
        url = try await origin.scripted(status(429, "\"retry_after\": \"120\""))
        let long = await session.answer(for: request(url, "GET"), policy: try http())
        #expect(long.report.reason == .retryAfterTooLong)
        #expect(long.report.note == "Retry-After 120 s exceeds maxRetryAfter 60 s")
        #expect(long.report.retryIn == .seconds(120))
        url = try await origin.scripted(status(429, "\"retry_after\": \"20\""))
        let late = await session.answer(for: request(url, "GET"), policy: try http(deadline: .seconds(5)))
        #expect(late.report.reason == .wouldOutliveDeadline)
        #expect(late.report.attempts == 1)
    }

    @Test(arguments: ["{\"fault\": \"hang\"}", "{\"status\": 429, \"retry_after\": \"50\"}", "{\"fault\": \"slow_body\", \"body_bytes\": 100000}"])
    func everyWaitIsCancellable(_ answer: String) async throws {
        let url = try await origin.scripted(answer)
        let policy = try http(deadline: .seconds(600))
        let call = Task { await session.answer(for: request(url, "GET"), policy: policy) }
        try await eventually { try await origin.stats().requests == 1 }
        try await Task.sleep(for: .milliseconds(30))
        let began = ContinuousClock.now
        call.cancel()
        #expect(await call.value.report.reason == .cancelled)
        #expect(ContinuousClock.now - began < .seconds(30))
        try await eventually { try await origin.stats().in_flight == 0 }
        #expect(engine.idle == (0, 0))
        #expect(engine.snapshot().live == 0)
    }

    @Test func anAttemptsTimeoutIsTriedAgainAfter() async throws {
        let url = try await origin.scripted("{\"fault\": \"hang\"}", status(200))
        #expect(try code(await session.answer(for: request(url, "GET"), policy: try http(attemptTimeout: .milliseconds(500)))) == 200)
        let slow = try await origin.scripted("{\"fault\": \"hang\"}")
        let ended = await session.answer(for: request(slow, "GET"), policy: try http(attemptTimeout: .milliseconds(50)))
        #expect(throws: AttemptTimeout.self) { try ended.result.get() }
        #expect(ended.report.attempts == 3)
        try await eventually { try await origin.stats().in_flight == 0 }
    }

    @Test func theDeadlineCoversTheBody() async throws {
        for answer in ["{\"fault\": \"hang\"}", "{\"fault\": \"slow_body\", \"body_bytes\": 100000, \"chunk_every\": 20}"] {
            let url = try await origin.scripted(answer)
            let ended = await session.answer(for: request(url, "GET"), policy: try http(deadline: .milliseconds(150)))
            #expect(throws: DeadlineExceeded.self) { try ended.result.get() }
            try await eventually { try await origin.stats().in_flight == 0 }
        }
    }

    @Test func aSlotLastsUntilTheBodyIsRead() async throws {
        let policy = try http(bulkhead: Bulkhead(maxConcurrency: 1))
        let slow = try await origin.scripted("{\"fault\": \"slow_body\", \"body_bytes\": 64, \"chunk_every\": 50}")
        let first = Task { await session.answer(for: request(slow, "GET"), policy: policy) }
        try await eventually { try await origin.stats().requests == 1 }
        let refused = await session.answer(for: request(slow, "GET"), policy: policy)
        #expect(refused.report.reason == .queueFull)
        #expect(try code(await first.value) == 200)
        #expect(engine.snapshot().routes.first { $0.bulkhead != nil }?.bulkhead?.inFlight == 0)
    }

    @Test func repeatsCarryTheirNumber() async throws {
        var url = try await origin.scripted(status(503), status(503), status(200))
        var mine = request(url, "GET")
        mine.setValue("1", forHTTPHeaderField: "X-Mine")
        _ = try await session.data(for: mine, policy: try http())
        #expect(try await origin.log().map { $0.headers["retry-attempt"] } == [nil, "1", "2"])
        #expect(try await origin.log().map { $0.headers["x-mine"] } == ["1", "1", "1"])
        url = try await origin.scripted(status(503), status(200))
        _ = try await session.data(from: url, policy: try http(), options: RequestOptions(retryHeader: false))
        #expect(try await origin.log().map { $0.headers["retry-attempt"] } == [nil, nil])
    }

    @Test func nestedPoliciesDoNotMultiply() async throws {
        let url = try await origin.scripted(status(503))
        let inner = try http()
        let outer = try Policy("outer", retry: Retry(backoff: .constant(.zero)), engine: engine)
        let reason = try await outer.run { _ in await session.answer(for: request(url, "GET"), policy: inner).report.reason }
        #expect(reason == .nested)
        #expect(try await origin.stats().requests == 1)
    }

    @Test func routesAreOrigins() async throws {
        let url = try await origin.scripted(status(200))
        let policy = try http()
        _ = try await session.data(from: url, policy: policy)
        _ = try await session.data(from: url, policy: policy, options: RequestOptions(CallOptions(route: "mine")))
        let keys = Set(engine.snapshot().routes.map(\.key))
        withExtendedLifetime(policy) {}
        #expect(keys == ["http://127.0.0.1:\(origin.url.port!)", "mine"])
    }
}
