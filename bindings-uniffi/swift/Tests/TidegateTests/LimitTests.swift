import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

/// Values at the ends of their types, and clocks and callbacks that behave badly: none of them ends the process or stops other calls.
@Suite struct LimitTests {
    /// Longer than an `Int64` of seconds.
    static let endless = Duration.seconds(1e19)

    @Test func spansLongerThanAnIntOfSeconds() async throws {
        let clock = ManualClock()
        let engine = Engine(seed: 1, clock: clock)
        let policy = try Policy("p", retry: Retry(), engine: engine)
        #expect(try await policy.run(CallOptions(deadline: Self.endless)) { _ in 1 } == 1)
        #expect(try await withDeadline(Self.endless) { try await policy.run { _ in 2 } } == 2)
        let refused = await policy.ended(CallOptions(deadline: .zero - Self.endless)) { _ in 3 }
        #expect(refused.report.reason == .deadlineBefore)
        for span in [Self.endless, .zero - Self.endless] {
            #expect(throws: PolicyError.self) { try Policy("q", attemptTimeout: span, engine: engine) }
        }
        let long = try Policy("r", retry: Retry(), classify: { _ in Outcome(.throttled, retryAfter: Self.endless) }, engine: engine)
        #expect(await long.ended { _ in 4 }.report.reason == .retryAfterTooLong)
        let bucket = try Parts.TokenBucket(RateLimit(permits: 1, per: .seconds(1)), now: .zero)
        #expect(bucket.tryTake(now: Self.endless) && bucket.level(now: .zero - Self.endless) >= 0)
    }

    @Test func aClockThatIsFarAhead() async throws {
        let clock = ManualClock()
        let engine = Engine(seed: 1, clock: clock)
        let policy = try Policy("p", deadline: .seconds(5), retry: Retry(), engine: engine)
        for _ in 0..<2 {
            await clock.advance(by: .seconds(Int64.max))
            #expect(try await withDeadline(.seconds(5)) { try await policy.run { _ in 1 } } == 1)
        }
    }

    @Test func aFactorThatIsNoNumberCountsAsOne() throws {
        let metering = Metering.tokens(factors: Factors(input: .nan, cached: .infinity, output: -.infinity))
        #expect(metering.weigh?(Estimate(input: 7, output: 3, stream: false)) == ["tokens": 7])
    }

    /// Sleeping on it fails the first time.
    private final class Failing: Clock, Sendable {
        let clock = ManualClock()
        let failed = Counter()
        var now: ManualClock.Instant { clock.now }
        var minimumResolution: Duration { .zero }
        func sleep(until: ManualClock.Instant, tolerance: Duration?) async throws {
            if failed.add() == 1 { throw Broken() }
            try await clock.sleep(until: until, tolerance: tolerance)
        }
    }

    @Test func aClockThatFailsOnceStopsNoTimer() async throws {
        let clock = Failing()
        let engine = Engine(seed: 1, clock: clock)
        let policy = try Policy("p", retry: Retry(backoff: Backoff.constant(.seconds(1)).withoutJitter()), on: [Broken.self], engine: engine)
        let task = Task {
            try await policy.run { attempt in
                if attempt.number == 1 { throw Broken() }
                return attempt.number
            }
        }
        try await eventually { clock.clock.sleeping == 1 }
        await clock.clock.advance(by: .seconds(1))
        #expect(try await task.value == 2)
    }

    /// Notes when its ticker looks at the timers next, while it holds up the ticks.
    private final class Slow: Timed {
        let ticker: Ticker
        let next = Locked<UInt64?>(nil)
        init(_ ticker: Ticker) { self.ticker = ticker }
        func tick() { next.withLock { $0 = ticker.next } }
    }

    @Test func aSlowTickHoldsUpNoOtherTimer() async throws {
        let time = Timebase(
            now: { 10 },
            sleep: { until in if until > 10 { try await Task.sleep(for: .seconds(3600)) } })
        let ticker = Ticker(time)
        let (other, slow) = (Slow(ticker), Slow(ticker))
        ticker.set(other, after: 2_000_000)
        ticker.set(slow, after: 0)
        try await eventually { slow.next.withLock { $0 } != nil }
        #expect(slow.next.withLock { $0 } == 2_000_010, "the other's timer runs on while this one ticks")
        #expect(other.next.withLock { $0 } == nil && ticker.count == 1)
        ticker.drop(other)
    }
}
