import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

private enum Tag {
    @TaskLocal static var name = "none"
}

/// The shell on a clock that stands still until it is told.
@Suite struct RunTests {
    let clock = ManualClock()
    let engine: Engine

    init() {
        engine = Engine(seed: 7, clock: clock)
    }

    static let quick = Backoff.constant(.seconds(1)).withoutJitter()

    /// Starts a call.
    private func started<T: Sendable>(
        _ policy: Policy, _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) -> Task<Ended<T>, Never> {
        Task { await policy.ended(CallOptions(), operation) }
    }

    /// Moves the clock in small steps until something holds.
    private func advance(until what: () -> Bool) async throws {
        for _ in 0..<10_000 {
            if what() { return }
            await clock.advance(by: .milliseconds(100))
        }
        Issue.record("it never came to that")
        throw CancellationError()
    }

    private func nothingIsLeft() async throws {
        #expect(engine.idle == (0, 0))
        let snapshot = engine.snapshot()
        #expect((snapshot.live, snapshot.waiting, snapshot.lingering) == (0, 0, 0))
        #expect(snapshot.routes.allSatisfy { ($0.bulkhead?.inFlight ?? 0) == 0 })
    }

    @Test func aValueIsTheCallers() async throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        #expect(try await policy.run { $0.number } == 1)
        let ended = await policy.ended { _ in "x" }
        #expect(try ended.result.get() == "x")
        #expect(ended.report == Report(attempts: 1, reason: .ok))
        try await nothingIsLeft()
    }

    @Test func repeatsWaitOnTheClock() async throws {
        let policy = try Policy("p", retry: Retry(backoff: Self.quick), classify: transient, engine: engine)
        let counter = Counter()
        let task = started(policy) { attempt in
            if counter.add() < 3 { throw Broken(number: attempt.number) }
            return attempt.number
        }
        try await eventually { counter.value == 1 && engine.idle.timers == 1 }
        await clock.advance(by: .milliseconds(999))
        #expect(counter.value == 1)
        await clock.advance(by: .milliseconds(1))
        try await eventually { counter.value == 2 && engine.idle.timers == 1 }
        await clock.advance(by: .seconds(1))
        let ended = await task.value
        #expect(try ended.result.get() == 3)
        #expect(ended.report == Report(attempts: 3, reason: .ok))
        try await nothingIsLeft()
    }

    @Test func theOriginalErrorIsTheCallers() async throws {
        let policy = try Policy("p", retry: Retry(backoff: .constant(.zero)), classify: transient, engine: engine)
        let ended = await policy.ended { attempt -> Int in throw Broken(number: attempt.number) }
        #expect(throws: Broken(number: 3)) { try ended.result.get() }
        #expect(ended.report == Report(attempts: 3, reason: .attempts, note: "gave up after 3 attempts"))
        let plain = try Policy("q", retry: Retry(), engine: engine)
        let once = await plain.ended { _ -> Int in throw Broken() }
        #expect(once.report == Report(
                attempts: 1, reason: .notRetryable,
                note: "not retried: Broken is not listed as an error that may pass; to repeat it: on: [Broken.self], or classify"))
        try await nothingIsLeft()
    }

    @Test func anAttemptIsStoppedAndRepeated() async throws {
        let policy = try Policy(
            "p", attemptTimeout: .seconds(2), retry: Retry(maxAttempts: 2, backoff: Self.quick), engine: engine)
        let (begun, unwound) = (Counter(), Counter())
        let task = started(policy) { attempt in
            #expect(attempt.remaining == .seconds(2))
            begun.add()
            defer { unwound.add() }
            try await Task.sleep(for: .seconds(3600))
        }
        try await eventually { begun.value == 1 }
        await clock.advance(by: .milliseconds(1_900))
        #expect(unwound.value == 0)
        try await advance(until: { begun.value == 2 })
        try await advance(until: { unwound.value == 2 })
        let ended = await task.value
        #expect(throws: AttemptTimeout.self) { try ended.result.get() }
        #expect(unwound.value == 2)
        #expect(ended.report.attempts == 2)
        try await nothingIsLeft()
    }

    @Test func theDeadlineEndsEverything() async throws {
        let policy = try Policy(
            "p", deadline: .seconds(5), retry: Retry(backoff: Self.quick), classify: transient, engine: engine)
        let task = started(policy) { _ in try await Task.sleep(for: .seconds(3600)) }
        try await eventually { engine.idle.timers == 1 }
        await clock.advance(by: .seconds(5))
        let ended = await task.value
        #expect(throws: DeadlineExceeded.self) { try ended.result.get() }
        let short = CallOptions(deadline: .milliseconds(500))
        let early = await policy.ended(short) { _ -> Int in throw Broken() }
        #expect(throws: Broken()) { try early.result.get() }
        #expect(early.report.reason == .wouldOutliveDeadline)
        let none = await policy.ended(CallOptions(deadline: .zero)) { _ in 1 }
        #expect(none.report == Report(attempts: 0, reason: .deadlineBefore))
        try await nothingIsLeft()
    }

    @Test func deadlinesNestAndFollowTheTask() async throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        let left = try await withDeadline(.seconds(10)) {
            try await withDeadline(.seconds(60)) { try await policy.run { $0.remaining } }
        }
        #expect(left == .seconds(10))
        let own = try await withDeadline(.seconds(10)) {
            try await policy.run(CallOptions(deadline: .seconds(3))) { $0.remaining }
        }
        #expect(own == .seconds(3))
        let refused = await withDeadline(.zero) { await policy.ended { _ in 1 } }
        #expect(refused.report.reason == .deadlineBefore)
    }

    @Test func attemptsHaveTheCallersTaskLocalValues() async throws {
        let policy = try Policy(
            "p", attemptTimeout: .seconds(9), retry: Retry(backoff: .constant(.zero)), classify: transient, engine: engine)
        let names = try await Tag.$name.withValue("mine") {
            try await policy.run { attempt in
                if attempt.number < 3 { throw Broken() }
                return Tag.name
            }
        }
        #expect(names == "mine")
    }

    @Test func nestedPoliciesDoNotMultiply() async throws {
        let retry = Retry(backoff: .constant(.zero))
        let outer = try Policy("outer", retry: retry, classify: transient, engine: engine)
        let inner = try Policy("inner", retry: retry, classify: transient, engine: engine)
        let counter = Counter()
        let ended = await outer.ended { _ in
            try await inner.run { _ in
                counter.add()
                throw Broken()
            }
        }
        #expect(throws: Broken()) { try ended.result.get() }
        #expect(counter.value == 3)
    }

    @Test func aHedgeWinsAndTheOtherIsStopped() async throws {
        let policy = try Policy("p", hedge: Hedge(delay: .seconds(1), budget: HedgeBudget(kind: .off)), engine: engine)
        let (begun, stopped) = (Counter(), Counter())
        let task = started(policy) { attempt in
            begun.add()
            if attempt.number == 1 {
                do { try await Task.sleep(for: .seconds(3600)) } catch {
                    stopped.add()
                    throw error
                }
            }
            return attempt.number
        }
        try await eventually { begun.value == 1 }
        await clock.advance(by: .milliseconds(900))
        #expect(begun.value == 1)
        try await advance(until: { begun.value == 2 })
        let ended = await task.value
        #expect(try ended.result.get() == 2)
        #expect((begun.value, stopped.value) == (2, 1))
        try await nothingIsLeft()
    }

    @Test func aFallbackGetsTheError() async throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        let value = try await policy.run(on: { _ in true }, fallback: { error in "\(error)" }) { _ -> String in throw Broken(number: 4) }
        #expect(value.contains("4"))
    }

    @Test func slotsGoOnInTurn() async throws {
        let policy = try Policy("p", bulkhead: Bulkhead(maxConcurrency: 1, maxQueue: 2, acquireTimeout: .seconds(5)), engine: engine)
        let gate = AsyncStream<Void>.makeStream()
        let first = started(policy) { _ in
            for await _ in gate.stream { break }
            return 1
        }
        try await eventually { engine.snapshot().routes.first?.bulkhead?.inFlight == 1 }
        let second = started(policy) { _ in 2 }
        try await eventually { engine.idle.waiters == 1 }
        let third = started(policy) { _ in 3 }
        try await eventually { engine.idle.waiters == 2 }
        let full = await policy.ended { _ in 4 }
        #expect(throws: Rejected.self) { try full.result.get() }
        #expect(full.report.reason == .queueFull)
        if case .failure(let error as Rejected) = full.result {
            #expect(error.cause == .bulkheadFull && error.code == "bulkhead_full" && error.httpStatus == 503)
            #expect(
                error.description
                    == "all slots are taken, and so is the queue (policy \"p\", route \"default\", maxConcurrency 1, maxQueue 2, acquireTimeout 5 s)"
            )
        }
        gate.continuation.yield()
        #expect(try await first.value.result.get() == 1)
        #expect(try await second.value.result.get() == 2)
        #expect(try await third.value.result.get() == 3)
        try await nothingIsLeft()
    }

    @Test func patienceEndsOnTheClock() async throws {
        let policy = try Policy("p", bulkhead: Bulkhead(maxConcurrency: 1, maxQueue: 1, acquireTimeout: .seconds(5)), engine: engine)
        let holder = started(policy) { _ in try? await Task.sleep(for: .seconds(3600)) }
        try await eventually { engine.snapshot().routes.first?.bulkhead?.inFlight == 1 }
        let waiter = started(policy) { _ in 2 }
        try await eventually { engine.idle == (1, 1) }
        try await advance(until: { engine.idle == (0, 0) })
        #expect(await waiter.value.report.reason == .acquireTimeout)
        holder.cancel()
        _ = await holder.value
        try await nothingIsLeft()
    }

    @Test func aBreakerSaysWhenToComeBack() async throws {
        let breaker = Breaker(consecutive: 1, breakDuration: .seconds(30), breakFactor: 1)
        let policy = try Policy("p", breaker: breaker, classify: transient, engine: engine)
        _ = await policy.ended { _ -> Int in throw Broken() }
        let refused = await policy.ended { _ in 1 }
        guard case .failure(let error as Rejected) = refused.result else {
            Issue.record("not refused: \(refused)")
            return
        }
        #expect((error.cause, error.retryIn) == (.breakerOpen, .seconds(30)))
        await clock.advance(by: .seconds(30))
        #expect(try await policy.run { _ in 1 } == 1)
    }

    @Test func aCallbackThatAnswersNonsenseBreaksNothing() async throws {
        let policy = try Policy("p", retry: Retry(), classify: { _ in Outcome("no_such_kind") }, engine: engine)
        #expect(try await policy.run { _ in 1 } == 1)
        await #expect(throws: Broken()) { try await policy.run { _ -> Int in throw Broken() } }
    }

    @Test func kindsOfOnesOwn() async throws {
        let policy = try Policy(
            "p", kinds: ["stale_read": .conflict], retry: Retry(retryOn: ["stale_read"], backoff: .constant(.zero)),
            classify: { if case .failure = $0 { Outcome("stale_read") } else { nil } }, engine: engine)
        let counter = Counter()
        _ = await policy.ended { _ -> Int in
            counter.add()
            throw Broken()
        }
        #expect(counter.value == 3)
    }
}
