import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

/// What stands around calls: settings and their mistakes, documents, pools, events, saved state.
@Suite struct EngineTests {
    let clock = ManualClock()
    let engine: Engine

    init() {
        engine = Engine(seed: 11, clock: clock)
    }

    @Test func everyMistakeIsToldInSwiftsNames() throws {
        do {
            _ = try Policy("p", attemptTimeout: .zero, retry: Retry(maxAttempts: 0), engine: engine)
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect(error.mistakes.map(\.key).sorted() == ["attemptTimeout", "retry.maxAttempts"])
            #expect(error.description.contains("retry.maxAttempts = 0: must be a whole number from 1 to 255"))
        }
        do {
            _ = try Policy("p", bulkhead: Bulkhead(maxConcurrency: 1, queueTarget: .seconds(1)), engine: engine)
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect("\(error)".contains("maxQueue") && !"\(error)".contains("_"))
        }
    }

    /// Records how late each of its timers may fire.
    private final class Recording: Clock {
        let inner = ManualClock()
        let tolerances = Locked<[Duration?]>([])
        var now: ManualClock.Instant { inner.now }
        var minimumResolution: Duration { .zero }

        func sleep(until deadline: ManualClock.Instant, tolerance: Duration?) async throws {
            tolerances.withLock { $0.append(tolerance) }
            try await inner.sleep(until: deadline, tolerance: tolerance)
        }
    }

    @Test(arguments: [(Duration.milliseconds(500), Duration.milliseconds(50)), (.seconds(60), .milliseconds(100))])
    func aTimerMayFireALittleLate(wait: Duration, tolerance: Duration) async throws {
        let clock = Recording()
        let policy = try Policy(
            "late", retry: Retry(maxAttempts: 2, backoff: .constant(wait).maximum(wait).withoutJitter()), engine: Engine(seed: 1, clock: clock))
        let call = Task { try await policy.run { attempt in if attempt.number == 1 { throw POSIXError(.ECONNRESET) } } }
        try await eventually { clock.inner.sleeping == 1 }
        #expect(clock.tolerances.withLock { $0 } == [tolerance])
        await clock.inner.advance(by: wait)
        try await call.value
    }

    @Test func aFleetIsRefusedWithOneClearError() throws {
        let rule = "must be local: the Swift package has no host for a fleet's store (docs/swift.md, \"Fleets\")"
        let rate = RateLimit(permits: 1, per: .seconds(1), store: .fleet)
        let breaker = Breaker(consecutive: 1, breakDuration: .seconds(1), store: .fleet)
        do {
            _ = try Policy("p", rateLimit: rate, breaker: breaker, engine: engine)
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect(error.mistakes.map(\.key).sorted() == ["breaker.store", "rateLimit.store"])
            #expect(error.mistakes.allSatisfy { $0.value == "fleet" && $0.rule == rule })
        }
        let local = RateLimit(permits: 1, per: .seconds(1), store: .local)
        let policy = try Policy("p", rateLimit: local, engine: engine)
        #expect(throws: PolicyError.self) { try policy.retune(Settings(rateLimit: rate)) }
        #expect(throws: PolicyError.self) { try Pool("rates", .rateLimit(rate), engine: engine) }
        let pool = try Pool("rates", .rateLimit(local), engine: engine)
        #expect(throws: PolicyError.self) { try pool.retune(.rateLimit(rate)) }
        for text in ["[policy.q.rate_limit]\npermits = 1\nper = \"1s\"\nstore = \"fleet\"", "[pool.r.rate_limit]\npermits = 1\nper = \"1s\"\nstore = \"fleet\""] {
            do {
                _ = try Policies(toml: text, engine: engine)
                Issue.record("taken")
            } catch let error as PolicyError {
                #expect(error.mistakes.map(\.rule) == [rule], "\(error)")
            }
        }
    }

    @Test func theStandardNamesAreCoresSettings() throws {
        let backoff = Backoff.exponential(factor: 3, initial: .milliseconds(100)).maximum(.seconds(5)).fullJitter()
        let policy = try Policy("p", retry: Retry(maxAttempts: 4, backoff: backoff), engine: engine)
        #expect(policy.setting("retry.max_attempts") == 4)
        #expect(policy.setting("retry.backoff.multiplier") == 3)
        #expect(policy.span("retry.backoff.base") == .milliseconds(100))
        #expect(policy.span("retry.backoff.max") == .seconds(5))
        #expect(policy.engine.native.setting(policy: policy.number, key: "retry.backoff.jitter") == .word(value: "full"))
        #expect(policy.explain().contains("retry"))
    }

    @Test func anEmptyComponentIsThere() throws {
        let policy = try Policy("p", throttle: Throttle(), engine: engine)
        #expect(policy.setting("throttle.k") == 2)
        #expect(throws: PolicyError.self) { try Policy("empty", engine: engine) }
    }

    @Test func documentsAreReadByCore() async throws {
        let text = """
            [pool.db.bulkhead]
            max_concurrency = 1
            [policy.payments]
            preset = "http"
            deadline = "10s"
            [policy.reads]
            bulkhead = { pool = "db" }
            """
        let policies = try Policies(toml: text, engine: engine)
        #expect(policies.names == ["payments", "reads"])
        #expect(try policies["payments"].span("deadline") == .seconds(10))
        #expect(try await policies["reads"].run { _ in 1 } == 1)
        #expect(throws: UnknownPolicy(name: "pay", known: ["payments", "reads"])) { try policies["pay"] }
        do {
            _ = try Policies(toml: "[policy.p]\nretry = { max_attempts = 0 }", engine: engine)
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect("\(error)".contains("retry.max_attempts") && "\(error)".contains("(line 2)"))
        }
        #expect(try Policies(json: #"{"policy": {"q": {"preset": "occ"}}}"#, engine: engine).names == ["q"])
    }

    @Test func aDocumentIsReloadedAsAWhole() async throws {
        let retry = { (attempts: Int) in "retry = { max_attempts = \(attempts), backoff = { base = \"0s\", max = \"0s\" }, budget = { kind = \"none\" } }" }
        let policies = try Policies(toml: "[policy.charges]\n\(retry(3))\n[policy.gone]\ndeadline = \"1s\"", engine: engine)
        let (charges, before) = (try policies["charges"], policies.digest)
        let done = try policies.reload(toml: "[policy.charges]\n\(retry(2))\n[policy.search]\ndeadline = \"1s\"")
        #expect(done.added == ["policy.search"] && done.changed == ["policy.charges"] && done.removed == ["policy.gone"])
        #expect(done.digest == policies.digest && done.digest != before)
        #expect(try policies["charges"] === charges)
        #expect(charges.setting("retry.max_attempts") == 2)
        #expect(policies.names == ["charges", "search"])
        #expect(try await policies["search"].run { _ in 1 } == 1)
        let mine = try Policy("mine", deadline: .seconds(7), engine: engine)
        #expect(throws: PolicyError.self) { try policies.reload(toml: "[policy.mine]\ndeadline = \"1s\"") }
        #expect(throws: PolicyError.self) { try policies.reload(json: #"{"policy": {"charges": {"rate_limit": {"permits": 1, "per": "1s", "store": "fleet"}}}}"#) }
        #expect(mine.span("deadline") == .seconds(7) && policies.digest == done.digest)
    }

    @Test func poolsAreShared() async throws {
        let pool = try Pool("db", .bulkhead(Bulkhead(maxConcurrency: 1)), engine: engine)
        let (reads, writes) = (
            try Policy("reads", bulkhead: Bulkhead(pool: "db"), engine: engine),
            try Policy("writes", bulkhead: Bulkhead(pool: "db"), engine: engine)
        )
        let inside = await reads.ended { _ in await Task.detached { await writes.ended { _ in 1 } }.value.report.reason }
        #expect(try inside.result.get() == .queueFull)
        try pool.retune(.bulkhead(Bulkhead(maxConcurrency: 2)))
        let now = await reads.ended { _ in await Task.detached { await writes.ended { _ in 1 } }.value.report.reason }
        #expect(try now.result.get() == .ok)
        #expect(throws: PolicyError.self) { try Pool("db", .bulkhead(Bulkhead(maxConcurrency: 9)), engine: engine) }
    }

    @Test func eventsComeInTheirOrder() async throws {
        let policy = try Policy(
            "p", retry: Retry(maxAttempts: 2, backoff: .constant(.zero)), classify: transient, engine: engine)
        let some = engine.events([.retryScheduled])
        let all = engine.events()
        _ = await policy.ended { _ -> Int in throw Broken() }
        var seen: [Event] = []
        for await event in all {
            seen.append(event)
            if event.kind == "call_done" { break }
        }
        #expect(seen.map(\.seq) == seen.map(\.seq).sorted())
        #expect(seen.filter { $0.kind == "attempt_done" }.map(\.attempt) == [1, 2])
        #expect(seen.last?.reason == "attempts" && seen.last?.policy == "p" && seen.last?.route == "default")
        var first: Event?
        for await event in some {
            first = event
            break
        }
        #expect(first?.kind == "retry_scheduled")
    }

    @Test func operatorsCloseAndTune() async throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        policy.forceOpen()
        #expect(await policy.ended { _ in 1 }.report.reason == .forcedOpen)
        policy.forceOpen(false)
        #expect(try await policy.run { _ in 1 } == 1)
        policy.forceOpen(route: "eu")
        #expect(await policy.ended(CallOptions(route: "eu")) { _ in 1 }.report.reason == .forcedOpen)
        #expect(try await policy.run { _ in 1 } == 1)
        try policy.retune(Settings(retry: Retry(maxAttempts: 7)))
        #expect(policy.setting("retry.max_attempts") == 7)
        #expect(throws: PolicyError.self) { try policy.retune(Settings(retry: Retry(maxAttempts: 0))) }
        #expect(policy.setting("retry.max_attempts") == 7)
    }

    @Test func whatWasLearnedIsKept() async throws {
        let breaker = Breaker(consecutive: 1, breakDuration: .seconds(300))
        let policy = try Policy("p", breaker: breaker, classify: transient, engine: engine)
        _ = await policy.ended { _ -> Int in throw Broken() }
        let saved = try JSONDecoder().decode(SavedState.self, from: JSONEncoder().encode(engine.save()))
        let other = Engine(seed: 12, clock: ManualClock())
        let again = try Policy("p", breaker: breaker, engine: other)
        #expect(try other.restore(saved).routes == 1)
        #expect(await again.ended { _ in 1 }.report.reason == .breakerOpen)
        #expect(throws: PolicyError.self) { try other.restore(SavedState(at: Date(), state: "{}")) }
    }

    @Test func routesThatWereEvictedAreAskedForAgain() async throws {
        let small = Engine(seed: 1, maxRoutes: 2)
        let policy = try Policy("p", retry: Retry(), engine: small)
        for _ in 0..<3 {
            for number in 0..<20 { #expect(try await policy.run(CallOptions(route: "r\(number)")) { _ in number } == number) }
        }
        #expect(small.snapshot().policies["p"]?.ends["ok"] == 60)
    }

    @Test func criticalityDecidesWhoWaits() async throws {
        let policy = try Policy(
            "p", bulkhead: Bulkhead(maxConcurrency: 1, maxQueue: 1, acquireTimeout: .unbounded, prioritized: true), engine: engine)
        let holder = Task { await policy.ended { _ in try await Task.sleep(for: .seconds(3600)) } }
        try await eventually { engine.snapshot().routes.first?.bulkhead?.inFlight == 1 }
        let low = Task { await withCriticality(.bestEffort) { await policy.ended { _ in 1 } } }
        try await eventually { engine.idle.waiters == 1 }
        let high = Task { await policy.ended(CallOptions(criticality: .critical)) { _ in 2 } }
        #expect(await low.value.report.reason == .displaced)
        holder.cancel()
        _ = await holder.value
        #expect(try await high.value.result.get() == 2)
    }

    @Test func anEngineIsFreedWhenNobodyHasIt() async throws {
        weak var freed: Engine?
        do {
            let engine = Engine(seed: 1)
            freed = engine
            let policy = try Policy("p", deadline: .seconds(60), retry: Retry(), engine: engine)
            #expect(try await policy.run { _ in 1 } == 1)
            #expect(engine.idle == (0, 0))
        }
        try await eventually { freed == nil }
    }
}
