import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

/// Deadlines and calls of several engines (semantics 7.3).
@Suite struct DeadlineTests {
    let clock = ManualClock()
    static let thrice = Retry(maxAttempts: 3, backoff: .constant(.zero), budget: .off)

    /// A clock with a state, of which nothing says whether another value tells the same time.
    private struct Shifted: Clock {
        let clock: ManualClock
        var now: ManualClock.Instant { clock.now }
        var minimumResolution: Duration { .zero }
        func sleep(until: ManualClock.Instant, tolerance: Duration?) async throws { try await clock.sleep(until: until, tolerance: tolerance) }
    }

    /// Time that an attempt of the inner policy has inside of an attempt of the outer one.
    private func inside(_ outer: Engine, _ inner: Engine, _ options: CallOptions = CallOptions(), deadline: Duration = .seconds(5)) async throws -> Duration? {
        let outer = try Policy("outer", deadline: deadline, retry: Retry(maxAttempts: 1), engine: outer)
        let inner = try Policy("inner", retry: Self.thrice, engine: inner)
        return try await outer.run { _ in try await inner.run(options) { $0.remaining } }
    }

    /// Semantics 7.3.3.
    @Test func aCallOfAnotherEngineEndsWithTheCallAroundIt() async throws {
        let (outer, inner) = (Engine(seed: 1, clock: clock), Engine(seed: 2, clock: clock))
        #expect(try await inside(outer, inner) == .seconds(5))
        #expect(try await inside(outer, inner, CallOptions(deadline: .seconds(2))) == .seconds(2))
        #expect(try await inside(outer, inner, CallOptions(deadline: .seconds(9))) == .seconds(5))
        #expect(try await withDeadline(.seconds(3)) { try await inside(outer, inner) } == .seconds(3))
        #expect(try await withDeadline(.seconds(7)) { try await inside(outer, inner) } == .seconds(5))
    }

    /// Semantics 7.3.4: a judgement belongs to the error that carries it.
    @Test func theJudgementOfAnErrorCrosses() async throws {
        let (outer, inner) = (Engine(seed: 1, clock: clock), Engine(seed: 2, clock: clock))
        let asks = try Policy("asks", retry: Self.thrice, engine: outer)
        let repeats = try Policy("repeats", retry: Self.thrice, engine: inner)
        let count = Counter()
        _ = await asks.ended { _ in
            try await repeats.run(CallOptions(idempotent: false)) { _ -> Int in
                count.add()
                throw POSIXError(.ECONNRESET)
            }
        }
        #expect(count.value == 1, "1.6.4: it must not be repeated")
    }

    @Test func enginesOnTheProcessesClockReadOneClock() async throws {
        for (outer, inner) in [(Engine(), Engine()), (Engine(), Engine(clock: ContinuousClock()))] {
            let left = try #require(try await inside(outer, inner, deadline: .seconds(3_600)))
            #expect(left <= .seconds(3_600))
        }
    }

    @Test func theEarliestOfAllCallsAroundCounts() async throws {
        let clock = clock
        let engines = (1...3).map { Engine(seed: $0, clock: clock) }
        let one = try Policy("one", deadline: .seconds(5), retry: Retry(maxAttempts: 1), engine: engines[0])
        let two = try Policy("two", deadline: .seconds(60), retry: Retry(maxAttempts: 1), engine: engines[1])
        let three = try Policy("three", retry: Self.thrice, engine: engines[2])
        let left = try await one.run { _ in
            await clock.advance(by: .seconds(1))
            return try await two.run { _ in try await three.run { $0.remaining } }
        }
        #expect(left == .seconds(4))
    }

    @Test func aTaskThatOutlivesTheCallHasItsTimeBack() async throws {
        let (first, second) = (Engine(seed: 1, clock: clock), Engine(seed: 2, clock: clock))
        let outer = try Policy("outer", deadline: .seconds(5), retry: Retry(maxAttempts: 1), engine: first)
        let inner = try Policy("inner", retry: Self.thrice, engine: second)
        let gate = AsyncStream<Void>.makeStream()
        let later = try await outer.run { _ in
            Task {
                for await _ in gate.stream { break }
                return try await inner.run { $0.remaining }
            }
        }
        gate.continuation.yield()
        #expect(try await later.value == nil)
    }

    /// Semantics 7.3.4.
    @Test func noDeadlineCrossesFromOneClockToAnother() async throws {
        let first = Engine(seed: 1, clock: clock)
        for other in [Engine(seed: 2, clock: ManualClock()), Engine(), Engine(seed: 3, clock: Shifted(clock: clock))] {
            #expect(try await inside(first, other) == nil)
            #expect(try await inside(other, first) == nil)
        }
    }

    /// Semantics 7.3.4.
    @Test func retriesAndPermitsAreEachEnginesOwn() async throws {
        let (first, second) = (Engine(seed: 1, clock: clock), Engine(seed: 2, clock: clock))
        let slots = Bulkhead(maxConcurrency: 1, maxQueue: 0)
        let outer = try Policy("p", retry: Self.thrice, bulkhead: slots, on: [Broken.self], engine: first)
        let inner = try Policy("p", retry: Self.thrice, bulkhead: slots, on: [Broken.self], engine: second)
        let count = Counter()
        _ = await outer.ended { _ in
            try await inner.run { _ -> Int in
                count.add()
                #expect(first.snapshot().routes.first?.bulkhead?.inFlight == 1)
                #expect(second.snapshot().routes.first?.bulkhead?.inFlight == 1)
                throw Broken()
            }
        }
        #expect(count.value == 9)
    }

    @Test func anEngineThatIsMadeInsideADeadlineHasItToo() async throws {
        let clock = clock
        let first = Engine(seed: 1, clock: clock)
        let left = try await withDeadline(.seconds(3)) {
            let policy = try Policy("late", retry: Self.thrice, engine: Engine(seed: 2, clock: clock))
            return try await policy.run { $0.remaining }
        }
        #expect(left == .seconds(3))
        withExtendedLifetime(first) {}
    }
}
