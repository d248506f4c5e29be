import Foundation
import Testing

@testable import Tidegate

/// What is Swift's own about the parts: spans, mistakes, copies. The vectors are in `PartsVectorTests`.
@Suite struct PartsTests {
    @Test func momentsAreWholeMicroseconds() {
        #expect(Duration(exact: .max).moment == .max)
        #expect(Duration(exact: 1 << 53 + 1).moment == 1 << 53 + 1)
        #expect((Duration.seconds(Int64.max).moment, Duration.seconds(-1).moment) == (.max, 0))
        #expect((Duration.nanoseconds(1_500).moment, Duration.nanoseconds(1_500).span, Duration.nanoseconds(1_499).span) == (1, 2, 1))
    }

    @Test func mistakesNameTheKeyTheValueAndTheRule() throws {
        func mistake(_ work: () throws -> Void) -> String {
            do { try work() } catch { return "\(error)" }
            return "taken"
        }
        #expect(mistake { _ = try Parts.TokenBucket(RateLimit(permits: 0, per: .seconds(1)), now: .zero) }.hasPrefix("rateLimit.permits = 0: "))
        #expect(mistake { _ = try Parts.RatioBudget(Budget(ratio: 2)) }.hasPrefix("retry.budget.ratio = 2: "))
        #expect(mistake { _ = try Parts.P2Quantile(1) } == "p = 1.0: must be a number from 0.001 to 0.999")
        #expect(mistake { _ = try Parts.P2Quantile(.nan) } == "p = nan: must be a number from 0.001 to 0.999")
        #expect(mistake { _ = try Parts.WindowedP2Quantile(0.5, window: 9) } == "window = 9: must be a whole number from 10 to 4294967295")
        #expect(mistake { _ = try Parts.DDSketch().quantile(2) } == "q = 2.0: must be a number from 0 to 1")
        #expect(mistake { _ = try Parts.DDSketch(words: [1]) }.hasPrefix("words"))
        #expect(mistake { try Parts.DDSketch(alpha: 0.01).merge(Parts.DDSketch(alpha: 0.02)) } != "taken")
        let bucket = mistake { _ = try Parts.TokenBucket(RateLimit(permits: 1, per: .seconds(1), pool: "p"), now: .zero) }
        #expect(bucket != "taken" && bucket.hasPrefix("rateLimit") || bucket.contains("settings of this part"))
    }

    @Test func anEarnedBudgetKeepsWhatTheCallsOf14SecondsCouldEarn() throws {
        let budget = try Parts.EarnedBudget()
        #expect((1...3).map { _ in budget.tryWithdraw(now: .zero) } == [true, true, false])
        for _ in 1...100 {
            budget.onCall(now: .zero)
            budget.onAnswer(now: .zero)
        }
        #expect([0, 12, 14].map { budget.balance(now: .seconds($0)) } == [18, 18, 4])
        let other = budget.copy()
        #expect((1...5).map { _ in other.tryWithdraw(now: .seconds(14)) } == [true, true, true, true, false])
        other.refund(now: .seconds(14))
        #expect((other.balance(now: .seconds(14)), budget.balance(now: .seconds(14))) == (1, 4))
    }

    @Test func aCopyGoesItsOwnWay() throws {
        let bucket = try Parts.TokenBucket(RateLimit(permits: 1, per: .seconds(1)), now: .zero)
        let twin = bucket.copy()
        #expect(bucket.tryTake(now: .zero) && !bucket.tryTake(now: .zero) && twin.tryTake(now: .zero))
        #expect(bucket.acquire(now: .zero) == .after(.seconds(1)) && bucket.acquire(2, now: .zero) == .never)
        let backoff = try Parts.Backoff(Backoff(jitter: .full), seed: 9)
        let other = backoff.copy()
        #expect((1...20).map { backoff.delay($0) } == (1...20).map { other.delay($0) })
        #expect(backoff.delay(3, call: 7) == other.delay(3, call: 7))
    }

    @Test func retryTokens() throws {
        let backoff = try Parts.Backoff(Backoff(base: .milliseconds(25), jitter: .off))
        let strategy = try Parts.RetryStrategy(Retry(maxAttempts: 2), backoff: backoff)
        var token = strategy.acquireInitialRetryToken(scope: "orders")
        #expect((token.retryCount, token.retryDelay) == (0, .zero))
        let error = Parts.ErrorInfo(isRetrySafe: true, retryAfter: .seconds(3))
        token = try strategy.refreshRetryTokenForRetry(token, error)
        #expect((token.retryCount, token.retryDelay) == (1, .seconds(3)))
        #expect(strategy.available(scope: "orders") == 495 && strategy.available(scope: "others") == 500)
        #expect(throws: Parts.RetryError(reason: "attempts", retryDelay: nil)) { try strategy.refreshRetryTokenForRetry(token, error) }
        strategy.recordSuccess(token)
        #expect(strategy.available(scope: "orders") == 500)
        let unsure = try Parts.RetryStrategy(quota: nil)
        #expect(unsure.available() == nil)
        #expect(throws: Parts.RetryError(reason: "not_safe", retryDelay: nil)) {
            try unsure.refreshRetryTokenForRetry(unsure.acquireInitialRetryToken(), Parts.ErrorInfo())
        }
        let poor = try Parts.RetryStrategy(backoff: backoff, quota: Parts.RetryQuota(Budget(capacity: 1)))
        #expect(throws: Parts.RetryError(reason: "quota", retryDelay: .milliseconds(25))) {
            try poor.refreshRetryTokenForRetry(poor.acquireInitialRetryToken(), Parts.ErrorInfo(isRetrySafe: true))
        }
    }

    @Test func aSendRateIsCutByThrottles() throws {
        let rate = try Parts.CubicRate(now: .zero)
        #expect(rate.acquire(now: .seconds(1)) == .now && rate.rate == nil)
        rate.onResponse(throttled: true, now: .seconds(1))
        #expect(rate.rate != nil)
        #expect(rate.copy().acquire(now: .seconds(1)) != .now)
    }

    @Test func theWorkedExampleOfP2() throws {
        let data = try Data(contentsOf: VectorTests.vectors.appendingPathComponent("published/p2_worked_example.json"))
        let example = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        let median = try Parts.P2Quantile((example["p"] as! NSNumber).doubleValue)
        let observations = example["observations"] as! [NSNumber]
        for each in observations { median.observe(each.doubleValue) }
        let estimate = try #require(median.estimate)
        #expect(abs(estimate - 4.440634) < 1e-6)
        #expect(median.count == UInt64(observations.count))
    }
}
