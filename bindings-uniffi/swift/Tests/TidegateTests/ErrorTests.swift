import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

private enum ShopError: Error, Equatable {
    case soldOut(Int)
}

/// Which errors callers get, what they keep, and functions that are wrapped.
@Suite struct ErrorTests {
    let clock = ManualClock()
    let engine: Engine

    init() {
        engine = Engine(seed: 3, clock: clock)
    }

    static let quick = Backoff.constant(.zero)

    private struct Refused: Error {
        let statusCode: Int
    }

    private struct Answered: Error {
        let response: HTTPURLResponse
    }

    private struct Wrapped: CustomNSError {
        let cause: URLError
        var errorUserInfo: [String: Any] { [NSUnderlyingErrorKey: cause] }
    }

    private static func answered(_ status: Int) -> Answered {
        let url = URL(string: "http://localhost/")!
        return Answered(response: HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: ["Retry-After": "0"])!)
    }

    /// Semantics 1.5: by core's table, then by a status, then by the cause.
    @Test func errorsOfPlainFunctionsHaveTheirClass() throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        let cases: [(any Error, Kind)] = [
            (URLError(.cannotConnectToHost), .neverSent), (URLError(.notConnectedToInternet), .neverSent),
            (URLError(.timedOut), .timeout), (URLError(.networkConnectionLost), .transient),
            (URLError(.serverCertificateUntrusted), .permanent), (URLError(.badURL), .permanent), (URLError(.cancelled), .ignored),
            (POSIXError(.ECONNREFUSED), .neverSent), (POSIXError(.ECONNRESET), .transient), (POSIXError(.ETIMEDOUT), .timeout),
            (POSIXError(.ENOENT), .permanent), (POSIXError(.EACCES), .permanent),
            (NSError(domain: NSURLErrorDomain, code: -1001), .timeout), (NSError(domain: NSPOSIXErrorDomain, code: Int(EPIPE)), .transient),
            (Wrapped(cause: URLError(.cannotFindHost)), .neverSent),
            (Refused(statusCode: 503), .transient), (Refused(statusCode: 429), .throttled), (Refused(statusCode: 404), .permanent),
            (Self.answered(502), .transient), (Self.answered(422), .permanent),
            (CancellationError(), .ignored), (Broken(), .permanent),
        ]
        for (error, expected) in cases {
            #expect(outcome(of: error, under: policy) >> 11 & 31 == Kind.numbers[expected], "\(error)")
        }
    }

    private struct Several: CustomNSError {
        let members: [any Error]
        var errorUserInfo: [String: Any] { ["NSMultipleUnderlyingErrorsKey": members] }
    }

    /// Semantics 1.5.14.
    @Test func aGroupMayBeRepeatedIfEachOfItsFirstMembersMay() throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        let (reset, late) = (POSIXError(.ECONNRESET), URLError(.timedOut))
        let several = NSError(domain: "shop", code: 7, userInfo: ["NSMultipleUnderlyingErrorsKey": [late, reset] as [any Error]])
        let cases: [(any Error, Kind)] = [
            (Several(members: [late, reset]), .timeout), (several, .timeout), (Several(members: [Refused(statusCode: 429)]), .throttled),
            (Several(members: [late, Broken()]), .permanent), (Several(members: [late, Refused(statusCode: 404)]), .permanent),
            (Several(members: []), .permanent), (Several(members: [Several(members: [late])]), .permanent),
            (Several(members: [late] + Array(repeating: reset, count: 7) + [Broken()]), .timeout),
        ]
        for (error, expected) in cases {
            #expect(outcome(of: error, under: policy) >> 11 & 31 == Kind.numbers[expected], "\(error)")
        }
        #expect(outcome(of: Several(members: [late, reset])) >> 11 & 31 == Kind.numbers[.timeout], "without a policy")
    }

    @Test func anErrorOfWhichNothingIsKnownSaysSo() async throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        let note = await policy.ended { _ -> Int in throw Broken() }.report.note
        #expect(note == "not retried: Broken is not listed as an error that may pass; to repeat it: on: [Broken.self], or classify")
        #expect(await policy.ended { _ -> Int in throw Refused(statusCode: 404) }.report.note == nil)
        let never = try Policy("never", deadline: .seconds(9), engine: engine)
        #expect(await never.ended { _ -> Int in throw Broken() }.report.note == nil)
    }

    @Test func aPlainFunctionAroundAClientIsRepeated() async throws {
        let policy = try Policy("p", retry: Retry(maxAttempts: 3, backoff: Self.quick), engine: engine)
        let attempts = try await policy.run { attempt in
            if attempt.number < 3 { throw Self.answered(503) }
            return attempt.number
        }
        #expect(attempts == 3)
    }

    @Test func typedThrowsTellWhereAnErrorComesFrom() async throws {
        let policy = try Policy("p", retry: Retry(maxAttempts: 2, backoff: Self.quick), classify: { _ in Outcome(.transient) }, engine: engine)
        do {
            try await policy.run(throwing: ShopError.self) { attempt throws(ShopError) in throw .soldOut(attempt.number) }
            Issue.record("no error")
        } catch {
            guard case .operation(let own, let report) = error else { throw error }
            #expect(own == .soldOut(2))
            #expect((report.attempts, report.reason) == (2, .attempts))
        }
        policy.forceOpen()
        do {
            _ = try await policy.run(throwing: ShopError.self) { _ throws(ShopError) in 1 }
            Issue.record("no error")
        } catch {
            guard case .policy(let ours as Rejected, let report) = error else { throw error }
            #expect((ours.cause, report.reason) == (.forcedOpen, .forcedOpen))
        }
        policy.forceOpen(false)
        #expect(try await policy.run(throwing: ShopError.self) { _ throws(ShopError) in 5 } == 5)
    }

    @Test func wrongOptionsAreNoCancellation() async throws {
        let policy = try Policy("p", retry: Retry(maxAttempts: 1), engine: engine)
        do {
            _ = try await policy.run(throwing: ShopError.self, CallOptions(weights: ["tokens": -1])) { _ throws(ShopError) in 1 }
            Issue.record("no error")
        } catch {
            guard case .invalid(let mistakes, let report) = error else { throw error }
            #expect(mistakes.mistakes.map(\.key) == ["weights"])
            #expect((report.attempts, error.report) == (0, report))
        }
    }

    @Test func anInnerPolicysRefusalIsTheOperations() async throws {
        let outer = try Policy("outer", retry: Retry(maxAttempts: 1), engine: engine)
        let inner = try Policy("inner", retry: Retry(maxAttempts: 1), engine: engine)
        inner.forceOpen()
        do {
            _ = try await outer.run(throwing: Rejected.self) { _ throws(Rejected) in
                do { return try await inner.run { _ in 1 } } catch { throw error as! Rejected }
            }
            Issue.record("no error")
        } catch {
            guard case .operation(let own, _) = error else { throw error }
            #expect(own.policy == "inner")
        }
        outer.forceOpen()
        do {
            _ = try await outer.run(throwing: Rejected.self) { _ throws(Rejected) in 1 }
            Issue.record("no error")
        } catch {
            guard case .policy(let ours, _) = error else { throw error }
            #expect(ours.policy == "outer")
        }
    }

    @Test func anAttemptThatWeStoppedIsOurs() async throws {
        let inner = try Policy("inner", retry: Retry(maxAttempts: 1), engine: engine)
        let outer = try Policy("outer", attemptTimeout: .seconds(1), retry: Retry(maxAttempts: 1), engine: engine)
        let told = Locked<CallError<AttemptTimeout>?>(nil)
        let task = Task {
            do throws(CallError<AttemptTimeout>) {
                try await outer.run(throwing: AttemptTimeout.self) { _ throws(AttemptTimeout) in
                    try? await Task.sleep(for: .seconds(3600))
                    throw AttemptTimeout(policy: inner, route: "r", lastError: nil, origin: .none)
                }
            } catch { told.withLock { $0 = error } }
        }
        try await eventually { engine.idle.timers == 1 }
        await clock.advance(by: .seconds(1))
        await task.value
        guard case .policy(let ours, _) = told.withLock({ $0 }) else { throw Broken() }
        #expect(ours.policy == "outer")
    }

    @Test func aCancelledCallIsToldApart() async throws {
        let policy = try Policy("p", retry: Retry(backoff: .constant(.seconds(60)).maximum(.seconds(60))), classify: { _ in Outcome(.transient) }, engine: engine)
        let told = Locked<CallError<ShopError>?>(nil)
        let task = Task {
            do throws(CallError<ShopError>) {
                try await policy.run(throwing: ShopError.self) { attempt throws(ShopError) in
                    if attempt.number == 1 { throw .soldOut(1) }
                }
            } catch { told.withLock { $0 = error } }
        }
        try await eventually { engine.idle.timers == 1 }
        task.cancel()
        await task.value
        let error = try #require(told.withLock { $0 })
        guard case .cancelled(let report) = error else { throw error }
        #expect((report.attempts, report.reason) == (1, .cancelled))
        told.withLock { $0 = nil }
        let before = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            do throws(CallError<ShopError>) {
                _ = try await policy.run(throwing: ShopError.self) { _ throws(ShopError) in 1 }
            } catch { told.withLock { $0 = error } }
        }
        await before.value
        #expect(told.withLock { $0 }?.report == Report(attempts: 0, reason: .cancelled))
    }

    @Test func oursKeepTheFailureBefore() async throws {
        let policy = try Policy(
            "p", attemptTimeout: .seconds(1), retry: Retry(maxAttempts: 2, backoff: Self.quick), classify: transient, engine: engine)
        let task = Task {
            await policy.ended { attempt in
                if attempt.number == 1 { throw Broken(number: 1) }
                try await Task.sleep(for: .seconds(3600))
            }
        }
        try await advance(until: { engine.snapshot().live == 0 && engine.snapshot().policies["p"]?.attempts == 2 })
        guard case .failure(let error as AttemptTimeout) = await task.value.result else { throw Broken() }
        #expect(error.lastError as? Broken == Broken(number: 1))
        let bridged = error.errorUserInfo
        #expect(bridged[NSUnderlyingErrorKey] as? Broken == Broken(number: 1))
        #expect((bridged[NSLocalizedDescriptionKey] as? String)?.contains("attemptTimeout") == true)
    }

    @Test func aDeadlineKeepsTheFailureBefore() async throws {
        let policy = try Policy(
            "p", deadline: .seconds(5), retry: Retry(maxAttempts: 2, backoff: Self.quick), classify: transient, engine: engine)
        let begun = Counter()
        let task = Task {
            await policy.ended { attempt in
                if attempt.number == 1 { throw Broken(number: 1) }
                begun.add()
                try await Task.sleep(for: .seconds(3600))
            }
        }
        try await eventually { begun.value == 1 }
        await clock.advance(by: .seconds(5))
        guard case .failure(let error as DeadlineExceeded) = await task.value.result else { throw Broken() }
        #expect(error.lastError as? Broken == Broken(number: 1))
        // The one that the deadline stopped has not failed by itself.
        let alone = try Policy("alone", deadline: .seconds(5), engine: engine)
        let other = Task { await alone.ended { _ in try await Task.sleep(for: .seconds(3600)) } }
        try await eventually { engine.idle.timers == 1 }
        await clock.advance(by: .seconds(5))
        guard case .failure(let bare as DeadlineExceeded) = await other.value.result else { throw Broken() }
        #expect(bare.lastError == nil && bare.errorUserInfo[NSUnderlyingErrorKey] == nil)
    }

    @Test func aFallbackKeepsWhatItReplaced() async throws {
        let policy = try Policy("p", retry: Retry(maxAttempts: 1), engine: engine)
        let good = await policy.ended(on: { _ in true }, fallback: { _ in "cached" }) { _ -> String in throw Broken(number: 1) }
        #expect(try good.result.get() == "cached")
        #expect(good.replaced as? Broken == Broken(number: 1))
        #expect(good.report.reason == .notRetryable)
        let bad = await policy.ended(on: { _ in true }, fallback: { _ in throw Broken(number: 2) }) { _ -> String in throw Broken(number: 1) }
        #expect(throws: Broken(number: 2)) { try bad.result.get() }
        #expect(bad.replaced as? Broken == Broken(number: 1))
        let none = await policy.ended(fallback: { _ in "cached" }) { _ in "fresh" }
        #expect(try none.result.get() == "fresh" && none.replaced == nil)
        let others = await policy.ended(on: { $0 is Rejected }, fallback: { _ in "cached" }) { _ -> String in throw Broken(number: 1) }
        #expect(throws: Broken(number: 1)) { try others.result.get() }
        policy.forceOpen()
        #expect(try await policy.run(on: { $0 is Rejected }, fallback: { _ in "cached" }) { _ in "fresh" } == "cached")
    }

    /// Core's rule, as in every language: an outage and a refusal, no bug that nobody has judged.
    @Test func aFallbackHidesNoBug() async throws {
        let plain = try Policy("p", retry: Retry(maxAttempts: 1), engine: engine)
        func stands(_ policy: Policy, for error: any Error) async -> Bool {
            await policy.ended(fallback: { _ in 1 }) { _ -> Int in throw error }.replaced != nil
        }
        #expect(await stands(plain, for: URLError(.networkConnectionLost)))
        #expect(await stands(plain, for: URLError(.cannotConnectToHost)))
        #expect(await stands(plain, for: POSIXError(.ECONNRESET)))
        #expect(await !stands(plain, for: Broken(number: 1)))
        #expect(await !stands(plain, for: URLError(.badURL)))
        let judging = try Policy("q", retry: Retry(maxAttempts: 1), classify: { _ in Outcome(.permanent) }, engine: engine)
        #expect(await stands(judging, for: Broken(number: 1)), "its classifier has judged it")
        let judgedAway = try Policy("r", retry: Retry(maxAttempts: 1), classify: { _ in Outcome(.ignored) }, engine: engine)
        #expect(await !stands(judgedAway, for: URLError(.networkConnectionLost)))
        plain.forceOpen()
        #expect(await plain.ended(fallback: { _ in 1 }) { _ in 2 }.replaced is Rejected)
    }

    @Test func aFallbackIsTold() async throws {
        let policy = try Policy("p", retry: Retry(maxAttempts: 1), engine: engine)
        var events = engine.events([.fallback]).makeAsyncIterator()
        _ = await policy.ended(CallOptions(route: "eu"), on: { _ in true }, fallback: { _ in 1 }) { _ -> Int in throw Broken() }
        _ = await policy.ended(CallOptions(route: "eu"), on: { _ in true }, fallback: { _ in throw Broken() }) { _ -> Int in throw Broken() }
        let (first, second) = (await events.next(), await events.next())
        #expect((first?.kind, first?.outcome, first?.route) == ("fallback", "ok", "eu"))
        #expect((second?.kind, second?.outcome) == ("fallback", "permanent"))
    }

    @Test func aCancelledCallHasNoFallback() async throws {
        let policy = try Policy("p", retry: Retry(maxAttempts: 1), engine: engine)
        let counter = Counter()
        let task = Task {
            await policy.ended(fallback: { _ in counter.add() }) { _ -> Int in
                try await Task.sleep(for: .seconds(3600))
                return 0
            }
        }
        try await eventually { engine.snapshot().live == 1 }
        task.cancel()
        #expect(await task.value.report.reason == .cancelled)
        #expect(counter.value == 0)
    }

    @Test func functionsAreWrappedWithTheirTypes() async throws {
        let policy = try Policy("p", retry: Retry(maxAttempts: 3, backoff: Self.quick), classify: transient, engine: engine)
        let counter = Counter()
        @Sendable func join(_ number: Int, _ word: String) async throws -> String {
            if counter.add() < 3 { throw Broken() }
            return word + String(number)
        }
        let wrapped: @Sendable (Int, String) async throws -> String = policy.wrapping(CallOptions(route: "joins"), join)
        #expect(try await wrapped(7, "n") == "n7")
        #expect(counter.value == 3)
        let once = policy.wrapping(CallOptions(replayable: false)) { (_: Int) -> Int in throw Broken() }
        await #expect(throws: Broken()) { try await once(1) }
        let none = policy.wrapping { 5 }
        #expect(try await none() == 5)
        #expect(Set(engine.snapshot().routes.map(\.key)) == ["joins", "default"])
        #expect(engine.snapshot().policies["p"]?.ends["one_shot_body"] == 1)
        #expect(try await policy { $0.number } == 1)
    }

    private func advance(until what: () -> Bool) async throws {
        for _ in 0..<1_000 {
            if what() { return }
            await clock.advance(by: .milliseconds(100))
        }
        throw CancellationError()
    }
}
