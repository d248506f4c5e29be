import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

/// Weights of calls, and what their attempts settle (semantics 3.4 to 3.6).
@Suite struct WeightTests {
    let clock = ManualClock()
    let engine: Engine

    init() {
        engine = Engine(seed: 7, clock: clock)
    }

    private func metered() throws -> Policy {
        let limits = ["rpm: permits=60 per=1m burst=3", "tpm: permits=60000 per=1m burst=10000 weight=tokens"]
        return try Policy("metered", rateLimit: RateLimit(limits: limits), engine: engine)
    }

    private func tokens(_ limit: String) -> Int? { engine.snapshot().routes.first?.rate?.limits[limit]?.tokens }

    private func weighing(_ tokens: Int) -> CallOptions { CallOptions(weights: ["tokens": tokens]) }

    @Test func anAttemptReservesAndSettles() async throws {
        let policy = try metered()
        let kept = try await policy.run(weighing(4_000)) { attempt in
            #expect(tokens("tpm") == 6_000)
            #expect(attempt.settle("tokens", 1_000))
            #expect(attempt.settle("tokens", 5_500))
            #expect(!attempt.settle("other", 5_500))
            #expect(tokens("tpm") == 4_500)
            return attempt
        }
        #expect(!kept.settle("tokens", 9_000), "it has ended")
        let limit = try #require(engine.snapshot().routes.first?.rate?.limits["tpm"])
        #expect((limit.tokens, limit.burst, limit.reserved, limit.settled) == (4_500, 10_000, 4_000, 5_500))
        #expect(limit.weight == "tokens" && tokens("rpm") == 2)
    }

    @Test func callsReserveAndTheRestWaits() async throws {
        let policy = try metered()
        #expect(try await policy.run(weighing(6_000)) { _ in 7 } == 7)
        let refused = await policy.ended(weighing(6_000)) { _ in 7 }
        #expect(refused.report.reason == .rateLimited)
        await clock.advance(by: .seconds(2))
        #expect(try await policy.run(weighing(6_000)) { _ in 7 } == 7)
        await #expect(throws: CostAboveBurst.self) { try await policy.run(weighing(10_001)) { _ in 7 } }
    }

    /// Semantics 3.4.6 and 3.8.14.
    @Test func aRefusalNamesTheLimitTheWeightAndTheAmount() async throws {
        let policy = try metered()
        func refusal(_ policy: Policy, _ options: CallOptions = CallOptions()) async throws -> any TidegateError {
            guard case .failure(let error as any TidegateError) = await policy.ended(options, { _ in 7 }).result else {
                throw CancellationError()
            }
            return error
        }
        _ = try await policy.run(weighing(6_000)) { _ in 7 }
        let refused = try await refusal(policy, weighing(6_000))
        #expect((refused.limit, refused.weight, refused.amount) == ("tpm", "tokens", 6_000))
        let place = "policy \"metered\", route \"default\""
        #expect("\(refused)" == "the rate limit is used up (\(place), limit tpm, 6000 tokens)")
        let large = try await refusal(policy, weighing(10_001))
        #expect(large is CostAboveBurst && large.description.hasSuffix("(\(place), limit tpm, 10001 tokens)"))
        #expect((large.limit, large.weight, large.amount) == ("tpm", "tokens", 10_001))
        for _ in 1...2 { _ = try await policy.run(weighing(1)) { _ in 7 } }
        let counted = try await refusal(policy, weighing(1))
        #expect((counted.limit, counted.weight, counted.amount) == ("rpm", nil, nil))
        #expect("\(counted)".hasSuffix("(\(place), limit rpm)"))
        let plain = try Policy("plain", rateLimit: RateLimit(permits: 1, per: .seconds(60)), engine: engine)
        _ = try await plain.run { _ in 7 }
        let unnamed = try await refusal(plain)
        #expect((unnamed.limit, unnamed.weight, unnamed.amount) == (nil, nil, nil))
    }

    @Test func aWrongOrMissingWeightIsOneClearError() async throws {
        let policy = try metered()
        func error(_ policy: Policy, _ options: CallOptions = CallOptions()) async -> String {
            let ended = await policy.ended(options) { _ in 7 }
            guard case .failure(let error as PolicyError) = ended.result else { return "" }
            return "\(error)"
        }
        #expect(
            await error(policy) == "weights: the rate limit counts tokens; give each call an amount, or the limit a default")
        let wrong = await error(policy, CallOptions(weights: ["token": 5]))
        #expect(wrong == "weights = \"token\": no limit counts it; the weights are tokens")
        #expect(await error(policy, weighing(-1)) == "weights = [\"tokens\": -1]: must be whole numbers from 0 to 2^53 - 1")
        #expect(await error(policy, weighing(1 << 53)).hasPrefix("weights"))
        let plain = try Policy("plain", deadline: .seconds(5), engine: engine)
        #expect(await error(plain, weighing(5)).contains("has no weights; leave weights out"))
        #expect(engine.snapshot().live == 0)
    }

    @Test func aLimitWithADefaultNeedsNoAmountAndStillSettles() async throws {
        let limit = "permits = 60000\nper = \"1m\"\nweight = \"tokens\"\ndefault = 500"
        let policies = try Policies(toml: "[policy.chat.rate_limit.limits.tpm]\n\(limit)", engine: engine)
        let chat = try policies["chat"]
        _ = try await chat.run { _ in 7 }
        #expect(tokens("tpm") == 59_500)
        _ = try await chat.run { $0.settle("tokens", 100) }
        #expect(tokens("tpm") == 59_400)
    }
}
