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

private class Base: Error, @unchecked Sendable {}
private final class Derived: Base, @unchecked Sendable {}

/// An error without equality.
private struct Opaque: Error {
    let text = "token=hunter2"
}

private struct Refused: Error {
    let statusCode: Int
}

private class Answered: Error, @unchecked Sendable {
    let status: Int
    init(_ status: Int) { self.status = status }
}
private final class Unavailable: Answered, @unchecked Sendable {
    let hint = "later"
}

private struct Narrow: Error {
    let statusCode: UInt16
}

/// What a user says of retries: `on`, `onRetry`; and policies within policies (semantics 1.6).
@Suite struct RetryTests {
    let clock = ManualClock()
    let engine: Engine
    static let quick = Retry(maxAttempts: 3, backoff: .constant(.zero), budget: .off)

    init() {
        engine = Engine(seed: 21, clock: clock)
    }

    private func attempts(_ policy: Policy, _ error: any Error, _ options: CallOptions = CallOptions()) async -> Int {
        await policy.ended(options) { _ -> Int in throw error }.report.attempts
    }

    // MARK: on

    @Test func errorsThatOnNamesAreRepeated() async throws {
        let policy = try Policy("p", retry: Self.quick, on: [ShopError.self, Base.self], engine: engine)
        #expect(await attempts(policy, ShopError.soldOut(1)) == 3)
        #expect(await attempts(policy, Derived()) == 3, "a subclass is meant too")
        #expect(await attempts(policy, Broken()) == 1)
        #expect(await attempts(policy, Broken(), CallOptions(on: [Broken.self])) == 3, "a call names more")
        #expect(await attempts(policy, ShopError.soldOut(1), CallOptions(on: [Broken.self])) == 3)
        #expect(await attempts(policy, URLError(.networkConnectionLost)) == 3, "it restricts nothing")
    }

    @Test func aCallMayMakeMoreAttemptsThanAreKept() async throws {
        let policy = try Policy(
            "p", retry: Retry(maxAttempts: 12, backoff: .constant(.zero), budget: .off), on: [ShopError.self], engine: engine)
        let ended = await policy.ended { attempt -> Int in throw ShopError.soldOut(attempt.number) }
        #expect((ended.report.attempts, ended.report.reason) == (12, .attempts))
        #expect(throws: ShopError.soldOut(12)) { try ended.result.get() }
        let value = try await policy.run { attempt in
            if attempt.number < 12 { throw ShopError.soldOut(attempt.number) }
            return attempt.number
        }
        #expect(value == 12)
        await #expect(throws: ShopError.soldOut(12)) { try await policy.run { attempt -> Int in throw ShopError.soldOut(attempt.number) } }
        let report = try #require(policy.report(of: ShopError.soldOut(12)))
        #expect((report.attempts, report.note) == (12, "gave up after 12 attempts"))
        #expect(engine.idle == (0, 0))
    }

    @Test func aStatusIsFoundInAClassAboveAndInAnyWholeNumber() async throws {
        let policy = try Policy("p", retry: Self.quick, engine: engine)
        #expect(await attempts(policy, Answered(503)) == 3)
        #expect(await attempts(policy, Unavailable(503)) == 3)
        #expect(await attempts(policy, Unavailable(404)) == 1)
        #expect(await attempts(policy, Narrow(statusCode: 503)) == 3)
    }

    @Test func onKeepsAClassThatIsRetryable() async throws {
        let policy = try Policy("p", retry: Self.quick, on: [Refused.self, URLError.self], engine: engine)
        let kind = { (error: any Error) in Wire.kind(policy.judge(.failure(error), on: policy.on).outcome) }
        #expect(kind(Refused(statusCode: 429)) == Kind.numbers[.throttled])
        #expect(kind(Refused(statusCode: 404)) == Kind.numbers[.transient])
        #expect(kind(URLError(.timedOut)) == Kind.numbers[.timeout])
        #expect(kind(URLError(.badURL)) == Kind.numbers[.transient])
    }

    @Test func classifyGoesBeforeOn() async throws {
        let never = try Policy(
            "never", retry: Self.quick, on: [Broken.self], classify: { _ in Outcome(.permanent) }, engine: engine)
        #expect(await attempts(never, Broken()) == 1)
        let silent = try Policy("silent", retry: Self.quick, on: [Broken.self], classify: { _ in nil }, engine: engine)
        #expect(await attempts(silent, Broken()) == 3)
    }

    @Test func anUnknownErrorSaysHowToRepeatItAlsoBesideClassify() async throws {
        let policy = try Policy("p", retry: Self.quick, classify: { _ in nil }, engine: engine)
        let note = await policy.ended { _ -> Int in throw Broken() }.report.note
        #expect(note == "not retried: Broken is not listed as an error that may pass; to repeat it: on: [Broken.self], or classify")
        let judged = try Policy("judged", retry: Self.quick, classify: { _ in Outcome(.permanent) }, engine: engine)
        #expect(await judged.ended { _ -> Int in throw Broken() }.report.note == nil)
        let unlisted = await policy.ended { _ -> Int in throw URLError(.badURL) }.report.note
        #expect(unlisted?.contains("on: [URLError.self]") == true, "an unlisted code of a known type")
        #expect(await policy.ended { _ -> Int in throw Refused(statusCode: 404) }.report.note == nil, "a status decided")
    }

    // MARK: onRetry

    @Test func eachRetryIsTold() async throws {
        let seen = Locked<[Retrying]>([])
        let policy = try Policy(
            "p", retry: Retry(maxAttempts: 3, backoff: .constant(.seconds(2)).withoutJitter()), on: [ShopError.self],
            onRetry: { retrying in seen.withLock { $0.append(retrying) } }, engine: engine)
        let call = Task { await policy.ended(CallOptions(route: "eu")) { attempt -> Int in throw ShopError.soldOut(attempt.number) } }
        for times in 1...2 {
            try await eventually { engine.idle.timers == 1 && seen.withLock { $0.count } == times }
            await clock.advance(by: .seconds(2))
        }
        let ended = await call.value
        let all = seen.withLock { $0 }
        #expect(all.map(\.attempt) == [1, 2] && all.map(\.wait) == [.seconds(2), .seconds(2)])
        #expect(all.map { $0.error as? ShopError } == [.soldOut(1), .soldOut(2)])
        #expect(all.allSatisfy { $0.reason == .transient && $0.policy == "p" && $0.route == "eu" && $0.call == ended.call })
    }

    @Test func theCallbackOfACallRunsAfterThePolicys() async throws {
        let seen = Locked<[String]>([])
        let policy = try Policy(
            "p", retry: Self.quick, on: [Broken.self], onRetry: { told in seen.withLock { $0.append("policy \(told.attempt)") } },
            engine: engine)
        let options = CallOptions(onRetry: { told in seen.withLock { $0.append("call \(told.attempt) \(told.wait == .zero)") } })
        #expect(await attempts(policy, Broken(), options) == 3)
        #expect(seen.withLock { $0 } == ["policy 1", "call 1 true", "policy 2", "call 2 true"])
    }

    @Test func aCallbackThatThrowsBreaksNothing() async throws {
        let count = Counter()
        let policy = try Policy(
            "p", retry: Self.quick, on: [Broken.self],
            onRetry: { _ in
                count.add()
                throw Broken()
            }, engine: engine)
        #expect(try await policy.run { attempt in
            if attempt.number < 3 { throw Broken() }
            return attempt.number
        } == 3)
        #expect(count.value == 2)
    }

    @Test func aValueThatIsJudgedAFailureAndATimeoutAreTold() async throws {
        let seen = Locked<[Retrying]>([])
        let keep: OnRetry = { told in seen.withLock { $0.append(told) } }
        let busy = try Policy(
            "busy", retry: Self.quick, classify: { if case .success(let value) = $0, value as? Int == 0 { Outcome(.throttled) } else { nil } },
            onRetry: keep, engine: engine)
        #expect(try await busy.run { $0.number - 1 } == 1)
        #expect(seen.withLock { $0.map { ($0.value as? Int, $0.reason) } }.first! == (0, .throttled))
        let slow = try Policy("slow", attemptTimeout: .seconds(1), retry: Self.quick, onRetry: keep, engine: engine)
        let call = Task {
            try await slow.run { attempt in
                if attempt.number == 1 { try await Task.sleep(for: .seconds(3600)) }
                return attempt.number
            }
        }
        try await eventually { engine.idle.timers == 1 }
        await clock.advance(by: .seconds(1))
        #expect(try await call.value == 2)
        let last = try #require(seen.withLock { $0.last })
        #expect(last.error is AttemptTimeout && last.reason == .timeout && last.attempt == 1)
    }

    @TaskLocal private static var trace = "none"

    @Test func theCallbackHasTheCallersTaskLocalValuesWhateverFailsTheAttempt() async throws {
        let seen = Locked<[String]>([])
        let policy = try Policy(
            "slow", attemptTimeout: .seconds(1), retry: Self.quick, onRetry: { told in seen.withLock { $0.append("\(Self.trace) \(told.attempt)") } },
            engine: engine)
        let call = Self.$trace.withValue("caller") {
            Task {
                try await policy.run { attempt in
                    if attempt.number == 1 { try await Task.sleep(for: .seconds(3600)) }
                    if attempt.number == 2 { throw POSIXError(.ECONNRESET) }
                    return attempt.number
                }
            }
        }
        try await eventually { engine.idle.timers == 1 }
        await clock.advance(by: .seconds(1))
        #expect(try await call.value == 3)
        #expect(seen.withLock { $0 } == ["caller 1", "caller 2"])
    }

    @Test func aLastFailureIsNoRetry() async throws {
        let count = Counter()
        let policy = try Policy("p", retry: Retry(maxAttempts: 1), on: [Broken.self], onRetry: { _ in count.add() }, engine: engine)
        #expect(await attempts(policy, Broken()) == 1)
        let hedged = try Policy("h", hedge: Hedge(delay: .seconds(1)), on: [Broken.self], onRetry: { _ in count.add() }, engine: engine)
        _ = await attempts(hedged, Broken())
        #expect(count.value == 0)
    }

    // MARK: Policies within policies

    private func nested(_ inner: Policy, _ error: any Error) async throws -> Int {
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let count = Counter()
        _ = await outer.ended { _ in
            try await inner.run { _ -> Int in
                count.add()
                throw error
            }
        }
        return count.value
    }

    @Test func aValueThatAnInnerPolicyCallsAFailureIsRepeatedByTheOuterOne() async throws {
        let inner = try Policy(
            "inner", retry: Self.quick, classify: { if case .success(false as Bool) = $0 { Outcome(.transient) } else { nil } }, engine: engine)
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let count = Counter()
        #expect(try await outer.run { _ in try await inner.run { _ in count.add() == 3 } })
        #expect(count.value == 3, "1.6.1")
        let replaced = await outer.ended { _ -> String in "\(try await inner.run { _ in count.add() < 0 })" }
        #expect(replaced.report.attempts == 1, "1.6.6")
        #expect(engine.marks.withLock { $0.isEmpty } && engine.report(of: Broken()) == nil)
    }

    @Test func aJudgementOfAnInnerPolicyReachesTheOuterOne() async throws {
        let classified = try Policy("classified", retry: Self.quick, classify: { _ in Outcome(.transient) }, engine: engine)
        #expect(try await nested(classified, Opaque()) == 3)
        #expect(try await nested(classified, ShopError.soldOut(1)) == 3)
        #expect(try await nested(classified, Base()) == 3)
        let named = try Policy("named", retry: Self.quick, on: [Opaque.self], engine: engine)
        #expect(try await nested(named, Opaque()) == 3)
        let plain = try Policy("plain", retry: Self.quick, engine: engine)
        #expect(try await nested(plain, Opaque()) == 1)
        #expect(engine.marks.withLock { $0.isEmpty } && !engine.marked.isSet, "nothing is left of it")
    }

    @Test func aTaskThatOutlivesTheCallAroundItLeavesNoJudgement() async throws {
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let inner = try Policy("inner", retry: Self.quick, on: [Broken.self], engine: engine)
        let gate = AsyncStream<Void>.makeStream()
        let later = try await outer.run { _ in
            Task {
                for await _ in gate.stream { break }
                return await inner.ended(CallOptions(idempotent: false)) { _ -> Int in throw Broken() }.report.reason
            }
        }
        gate.continuation.yield()
        #expect(await later.value == .method)
        #expect(engine.marks.withLock { $0.isEmpty } && !engine.marked.isSet, "nobody would ever drop it")
    }

    @Test func aKindOfTheInnerPolicyIsItsClassOutside() async throws {
        let inner = try Policy(
            "inner", kinds: ["stale_read": .conflict], retry: Retry(maxAttempts: 3, retryOn: ["stale_read"], backoff: .constant(.zero)),
            classify: { if case .failure = $0 { Outcome("stale_read") } else { nil } }, engine: engine)
        #expect(try await nested(inner, Opaque()) == 3)
    }

    @Test func aJudgementCountsForItsOwnErrorAlone() async throws {
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let inner = try Policy("inner", retry: Self.quick, classify: { _ in Outcome(.transient) }, engine: engine)
        let ended = await outer.ended { _ -> Int in
            do { return try await inner.run { _ in throw Opaque() } } catch { throw Broken() }
        }
        #expect(ended.report.attempts == 1 && ended.report.reason == .notRetryable)
    }

    @Test func whatAnInnerCallMayNotRepeatTheOuterOneDoesNotEither() async throws {
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let inner = try Policy("inner", retry: Self.quick, engine: engine)
        let ended = await outer.ended { _ -> Int in
            try await inner.run(CallOptions(idempotent: false)) { _ in throw URLError(.networkConnectionLost) }
        }
        #expect(ended.report.attempts == 1 && ended.report.reason == .opinion)
    }

    @Test func aValueThatAnInnerCallMayNotRepeatIsAValueForTheOuterOne() async throws {
        let inner = try Policy(
            "inner", retry: Self.quick, classify: { if case .success(false as Bool) = $0 { Outcome(.transient) } else { nil } }, engine: engine)
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let left = Locked<Bool?>(nil)
        let ended = await outer.ended { _ in
            let value = try await inner.run(CallOptions(idempotent: false)) { _ in false }
            left.withLock { $0 = !engine.marks.withLock { $0.isEmpty } }
            return value
        }
        #expect(ended.report.attempts == 1 && ended.report.reason == .ok, "1.6.4: only an error says that it must not be repeated")
        #expect(left.withLock { $0 } == false && engine.marks.withLock { $0.isEmpty })
    }

    private struct ByStatus: Error { let statusCode: Int }
    private struct ByResponse: Error { let response: HTTPURLResponse }

    private func answer(_ status: Int) -> HTTPURLResponse {
        HTTPURLResponse(url: URL(string: "http://here.test/")!, statusCode: status, httpVersion: nil, headerFields: nil)!
    }

    /// Attempts of a policy around a client that throws an error of its own for an answer of status 503.
    private func around(
        _ inner: Policy, _ options: CallOptions, on: [any Error.Type] = [], _ error: @escaping @Sendable (HTTPURLResponse) -> any Error
    ) async throws -> Int {
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let failed = answer(503)
        let count = Counter()
        _ = await outer.ended(CallOptions(on: on)) { _ -> Int in
            count.add()
            throw error(try await inner.run(options) { _ in failed })
        }
        return count.value
    }

    @Test func anErrorWithTheStatusOfAnAnswerThatMustNotBeRepeatedIsNotRepeatedEither() async throws {
        let transient: @Sendable (Result<any Sendable, any Error>) -> Outcome? = { result in
            if case .success(is HTTPURLResponse) = result { Outcome(.transient) } else { nil }
        }
        let inner = try Policy("inner", retry: Self.quick, classify: transient, engine: engine)
        let once = CallOptions(idempotent: false)
        let errors: [@Sendable (HTTPURLResponse) -> any Error] = [
            { ByStatus(statusCode: $0.statusCode) },
            { ByResponse(response: $0) },
            { NSError(domain: "SDK", code: 1, userInfo: [NSUnderlyingErrorKey: ByStatus(statusCode: $0.statusCode)]) },
        ]
        for error in errors {
            #expect(try await around(inner, once, error) == 1, "1.6.7")
            #expect(try await around(inner, CallOptions(), error) == 3, "it may be repeated")
        }
        #expect(try await around(inner, once, on: [ByStatus.self]) { ByStatus(statusCode: $0.statusCode) } == 3, "1.5.17: its own `on` goes before")
        #expect(try await around(inner, once) { ByStatus(statusCode: $0.statusCode - 1) } == 3, "another status")
        #expect(engine.marks.withLock { $0.isEmpty })
    }

    /// A value that asks for something when it is compared, and when nobody holds it any more.
    private struct Asking: Equatable, Sendable {
        final class Last: Sendable {
            let ask: @Sendable () -> Void
            init(_ ask: @escaping @Sendable () -> Void) { self.ask = ask }
            deinit { ask() }
        }
        let isGood: Bool
        let last: Last

        static func == (one: Asking, other: Asking) -> Bool {
            one.last.ask()
            return one.last === other.last
        }
    }

    @Test(.timeLimit(.minutes(1))) func whatAJudgementIsOfIsComparedAndReleasedUnderNoLock() async throws {
        let inner = try Policy(
            "inner", retry: Self.quick,
            classify: { if case .success(let value as Asking) = $0, !value.isGood { Outcome(.transient) } else { nil } }, engine: engine)
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let (asked, waited, count) = (Counter(), Counter(), Counter())
        // Another thread takes the lock, so that a failure is told, and the test goes on.
        let ask: @Sendable () -> Void = { [engine] in
            asked.add()
            guard waited.value == 0 else { return }
            let answered = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                engine.marks.withLock { _ in }
                answered.signal()
            }
            if answered.wait(timeout: .now() + 30) == .timedOut { waited.add() }
        }
        let attempts = await outer.ended { _ in
            try await inner.run { _ in Asking(isGood: count.add() == 2, last: Asking.Last(ask)) }
        }.report.attempts
        #expect(attempts == 2 && waited.value == 0, "compared")
        _ = try await outer.run { _ in
            for _ in 0..<257 { _ = try await inner.run { _ in Asking(isGood: false, last: Asking.Last(ask)) } }
        }
        try await eventually { asked.value == 1 + 2 + 257 }
        #expect(waited.value == 0, "one gives way to a later one, and the others are dropped at the end of their call")
    }

    @Test func aFailedResponseOfAnInnerPolicyIsRepeatedByTheOuterOne() async throws {
        let response = HTTPURLResponse(url: URL(string: "http://localhost/")!, statusCode: 503, httpVersion: nil, headerFields: nil)!
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let inner = try Policy("inner", retry: Self.quick, classify: { if case .success = $0 { Outcome(.transient) } else { nil } }, engine: engine)
        let ended = await outer.ended { _ in (Data(), try await inner.run { _ in response as URLResponse }) }
        #expect(ended.report.attempts == 3)
        #expect(try ended.result.get().1 === response)
    }

    @Test func aFallbackOfTheOuterPolicyKnowsTheJudgement() async throws {
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let inner = try Policy("inner", retry: Self.quick, classify: { _ in Outcome(.transient) }, engine: engine)
        #expect(try await outer.run(fallback: { _ in 7 }) { _ in try await inner.run { _ -> Int in throw Opaque() } } == 7)
    }

    // MARK: Why?

    @Test func aReportAndAnErrorExplainThemselves() async throws {
        let policy = try Policy("p", retry: Self.quick, on: [Opaque.self], engine: engine)
        let ended = await policy.ended(CallOptions(route: "eu")) { _ -> Int in throw Opaque() }
        let told = try #require(ended.report.explain())
        #expect((told.attempts, told.reason, told.policy, told.route) == (3, "attempts", "p", "eu"))
        #expect(told.story.filter { $0.type == .retryScheduled }.count == 2)
        #expect(!told.text.contains("hunter2"), "no text of an error is in it")
        do {
            _ = try await policy.run { _ -> Int in throw Opaque() }
            Issue.record("no error")
        } catch {
            #expect(policy.report(of: error)?.attempts == 3)
            #expect(policy.report(of: error)?.explain()?.reason == "attempts")
        }
        policy.forceOpen()
        do {
            _ = try await policy.run { _ in 1 }
            Issue.record("no error")
        } catch let error as Rejected {
            #expect(error.explain()?.reason == "forced_open")
            #expect(engine.report(of: error)?.reason == .forcedOpen)
        }
        #expect(policy.report(of: Opaque()) == nil)
    }

    @Test func reportsBelongToTheCallThatAsks() async throws {
        let outer = try Policy("outer", retry: Self.quick, engine: engine)
        let inner = try Policy("inner", retry: Self.quick, on: [Opaque.self], engine: engine)
        let inside = Locked<Report?>(nil)
        do {
            _ = try await outer.run { attempt in
                do { return try await inner.run { _ -> Int in throw Opaque() } } catch {
                    inside.withLock { $0 = inner.report(of: error) }
                    throw error
                }
            }
            Issue.record("no error")
        } catch {
            #expect(outer.report(of: error)?.attempts == 3)
            #expect(outer.report(of: error)?.explain()?.policy == "outer")
        }
        #expect(inside.withLock { $0 }?.reason == .nested)
    }

    @Test func aCallThatIsRefusedForItsOptionsHasAReport() async throws {
        let policy = try Policy("p", retry: Self.quick, engine: engine)
        do {
            try await policy.run(CallOptions(weights: ["tokens": 1])) { _ in }
            Issue.record("no limit counts tokens")
        } catch {
            #expect(policy.report(of: error)?.attempts == 0)
        }
    }

    @Test func anEngineWithoutAHistoryKeepsNothing() async throws {
        let plain = Engine(seed: 1, clock: clock, history: 0)
        let policy = try Policy("p", retry: Self.quick, on: [Broken.self], engine: plain)
        let ended = await policy.ended { _ -> Int in throw Broken() }
        #expect(ended.report.attempts == 3 && ended.report.explain() == nil)
        do { _ = try await policy.run { _ -> Int in throw Broken() } } catch { #expect(policy.report(of: error) == nil) }
    }

    @Test func theHistoryIsBounded() async throws {
        let few = Engine(seed: 1, clock: clock, history: 4)
        let policy = try Policy("p", retry: Retry(maxAttempts: 1), on: [Broken.self], engine: few)
        let first = await policy.ended { _ -> Int in throw Broken() }
        #expect(first.report.explain() != nil)
        for number in 1...100 {
            do { _ = try await policy.run { _ -> Int in throw Broken(number: number) } } catch {}
        }
        #expect(first.report.explain() == nil)
        #expect(policy.report(of: Broken(number: 1)) == nil && policy.report(of: Broken(number: 100)) != nil)
    }

    @Test func whatIsKeptForExplanationsHoldsNoObjects() async throws {
        let policy = try Policy("p", retry: Self.quick, engine: engine)
        weak var freed: Base?
        do {
            let error = Base()
            freed = error
            do { _ = try await policy.run { _ -> Int in throw error } } catch { #expect(policy.report(of: error)?.attempts == 1) }
        }
        try await eventually { freed == nil }
    }
}
