import Testing
import TidegateTesting

@testable import Tidegate

/// The order of a set's queue, declared by typed options (semantics 3.10).
@Suite struct FairTests {
    let clock = ManualClock()
    let engine: Engine
    /// One a second.
    let calls = ["calls: permits=1 per=1s"]

    init() {
        engine = Engine(seed: 7, clock: clock)
    }

    /// A policy whose calls wait for tokens of this pool.
    private func pooled(_ limits: RateLimit) throws -> Policy {
        _ = try Pool("shared", .rateLimit(limits), engine: engine)
        return try Policy("tenants", rateLimit: RateLimit(wait: true, maxWait: .seconds(60), pool: "shared"), engine: engine)
    }

    /// Takes the first token, begins these calls one after the other, and returns the order in which they get theirs, by their places.
    private func served(_ policy: Policy, _ waiting: [CallOptions]) async throws -> [Int] {
        try await policy.run { _ in }
        let order = Locked<[Int]>([])
        var tasks: [Task<Void, any Error>] = []
        for (place, options) in waiting.enumerated() {
            tasks.append(Task { try await policy.run(options) { _ in order.withLock { $0.append(place) } } })
            try await eventually { engine.idle.waiters == place + 1 }
        }
        for second in 1...waiting.count {
            await clock.advance(by: .seconds(1))
            try await eventually { order.withLock { $0.count } == second }
        }
        for task in tasks { try await task.value }
        #expect(engine.snapshot().live == 0)
        return order.withLock { $0 }
    }

    /// Semantics 3.10.3.
    @Test func keysThatWaitShareAPoolByTheirShares() async throws {
        let policy = try pooled(RateLimit(limits: calls, fairBy: .key, shares: ["big=3"]))
        let (small, big) = (CallOptions(route: "small"), CallOptions(route: "big"))
        let order = try await served(policy, Array(repeating: small, count: 6) + Array(repeating: big, count: 6))
        #expect(order == [0, 6, 7, 8, 1, 9, 10, 11, 2, 3, 4, 5], "three to one while both wait")
    }

    /// Semantics 3.10.2. The first call has begun to wait before the critical ones (3.10.4).
    @Test func criticalCallsComeBeforeOthersOfTheirPool() async throws {
        let policy = try pooled(RateLimit(limits: calls, prioritized: true))
        let (normal, critical) = (CallOptions(criticality: .normal), CallOptions(criticality: .critical))
        #expect(try await served(policy, [normal, normal, normal, critical, critical]) == [0, 3, 4, 1, 2])
    }

    /// Semantics 3.10.1.
    @Test func withoutAnOrderCallsAreServedAsTheyCame() async throws {
        let policy = try pooled(RateLimit(limits: calls, prioritized: false, fairBy: .off))
        let (small, critical) = (CallOptions(route: "small"), CallOptions(criticality: .critical))
        #expect(try await served(policy, [small, small, critical, critical]) == [0, 1, 2, 3])
    }

    /// Semantics 3.10.13.
    @Test func aPolicysOwnLimitsCanBePrioritizedAndNotSharedByKeys() async throws {
        let limits = RateLimit(wait: true, maxWait: .seconds(60), limits: calls, prioritized: true)
        let own = try Policy("own", rateLimit: limits, engine: engine)
        let (low, critical) = (CallOptions(criticality: .bestEffort), CallOptions(criticality: .critical))
        #expect(try await served(own, [low, low, critical]) == [0, 2, 1])
        do {
            let wrong = RateLimit(wait: true, maxWait: .seconds(60), limits: calls, fairBy: .key)
            _ = try Policy("wrong", rateLimit: wrong, engine: engine)
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect(error.mistakes.map(\.key) == ["rateLimit.fairBy"] && "\(error)".contains("belongs to a pool"), "\(error)")
        }
    }
}
