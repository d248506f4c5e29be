import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Rules of every adapter (`hosts.md`) that need many trials, or all ends there are.
@Suite(.serialized) struct RuleTests {
    /// Rule 5: with 1,000 trials no retry is early. The seed that fails is printed, and replays.
    @Test(arguments: [Retry.RetryAfter.floor, .exact]) func retryAfterIsNeverCutShort(_ mode: Retry.RetryAfter) async throws {
        for seed in 0..<1_000 as Range<UInt64> {
            let clock = ManualClock()
            let engine = Engine(seed: seed, clock: clock)
            let asked = Duration.milliseconds(Int64(seed % 250) * 13)
            let policy = try Policy(
                "p",
                retry: Retry(
                    maxAttempts: 2, retryAfter: mode, maxRetryAfter: .seconds(60),
                    backoff: Backoff(base: .milliseconds(40), max: .seconds(1), jitter: .full), budget: .off),
                classify: { _ in Outcome(.throttled, retryAfter: asked) }, engine: engine)
            let times = Locked<[ManualClock.Instant]>([])
            let done = Counter()
            let call = Task {
                defer { done.add() }
                return await policy.ended { _ -> Int in
                    times.withLock { $0.append(clock.now) }
                    throw Broken()
                }
            }
            // What waits is known by its timer, and moved to exactly its moment.
            for _ in 0..<100_000 where done.value == 0 {
                if let due = clock.due { await clock.advance(by: due.elapsed - clock.now.elapsed) } else { await Task.yield() }
            }
            let ended = await call.value
            try #require(ended.report.reason == .attempts && times.withLock { $0.count } == 2, "seed \(seed): \(ended.report)")
            let waited = times.withLock { $0[0].duration(to: $0[1]) }
            // The mode `exact` is the server's word and nothing of ours beside it.
            #expect(waited >= asked && waited <= asked + .seconds(1), "seed \(seed), \(mode): asked \(asked), waited \(waited)")
            if mode == .exact, asked > .zero { #expect(waited == asked, "seed \(seed)") }
        }
    }

    private static let slow = Backoff.constant(.seconds(10)).maximum(.seconds(10)).withoutJitter()
    private static let quick = Backoff.constant(.zero)

    /// Rule 13: what ends a call without a further attempt, and the record that says so.
    private struct Case: Sendable, CustomTestStringConvertible {
        let verdict: Verdict
        var settings = Settings(retry: Retry(maxAttempts: 3, backoff: RuleTests.quick))
        var options = CallOptions()
        var outcome = Outcome(.transient)
        var calls = 1
        var testDescription: String { verdict.rawValue }
    }

    private static let cases: [Case] = [
        Case(verdict: .notRetryable, outcome: Outcome(.permanent)),
        Case(verdict: .attempts),
        Case(verdict: .method, options: CallOptions(idempotent: false)),
        Case(verdict: .oneShotBody, options: CallOptions(replayable: false)),
        Case(verdict: .opinion, outcome: Outcome(.transient, opinion: .doNot)),
        Case(verdict: .nested),
        Case(verdict: .retryAfterTooLong, outcome: Outcome(.throttled, retryAfter: .seconds(3600))),
        Case(verdict: .wouldOutliveDeadline, settings: Settings(deadline: .seconds(5), retry: Retry(backoff: slow))),
        Case(verdict: .timeLimit, settings: Settings(retry: Retry(retryTimeLimit: .seconds(5), backoff: slow))),
        Case(
            verdict: .budget,
            settings: Settings(retry: Retry(backoff: quick, budget: Budget(kind: .tokens, ratio: 0.1, max: 2)))),
        Case(
            verdict: .readmission,
            settings: Settings(
                retry: Retry(backoff: quick), rateLimit: RateLimit(permits: 1, per: .seconds(60), unit: .attempt))),
    ]

    @Test(arguments: cases.indices) func everySuppressedRetryHasAReason(_ place: Int) async throws {
        let each = Self.cases[place]
        let engine = Engine(seed: 4, clock: ManualClock())
        let policy = try Policy(
            "p", each.settings, classify: { if case .failure(let error) = $0, error is Broken { each.outcome } else { nil } }, engine: engine)
        let outer = try Policy("outer", retry: Retry(maxAttempts: 2, backoff: Self.quick), engine: engine)
        let metrics = try Metrics(engine)
        var events = engine.events([.retrySuppressed, .gaveUp]).makeAsyncIterator()
        let call: @Sendable () async -> Ended<Int> = { await policy.ended(each.options) { _ in throw Broken() } }
        let ended = each.verdict == .nested ? try await outer.run { _ in await call() } : await call()
        #expect(ended.report.reason == each.verdict)
        #expect(throws: Broken()) { try ended.result.get() }
        let event = await events.next()
        #expect((event?.reason, event?.policy) == (each.verdict.rawValue, "p"))
        #expect(event?.type == (each.verdict == .attempts ? .gaveUp : .retrySuppressed))
        let counted = metrics.read().first { $0["reason"] == each.verdict.rawValue && $0["policy"] == "p" }
        #expect(counted?.family.name == "tidegate_retries_suppressed_total" && counted?.reading == .number(1))
        // In words, wherever something was held back.
        #expect((ended.report.note == nil) == (each.verdict == .notRetryable), "\(ended.report.note ?? "no note")")
    }

    @Test func allReasonsAreThere() {
        let ends = Verdict.allCases.drop { $0 == .ok }.prefix { $0 != .forcedOpen }
        #expect(Self.cases.map(\.verdict) == Array(ends))
    }
}
