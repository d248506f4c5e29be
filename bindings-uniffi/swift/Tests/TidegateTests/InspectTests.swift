import Foundation
import Testing
import TidegateNative
import TidegateTesting

@testable import Tidegate

/// What an engine tells: metrics, events, explanations, journals.
@Suite struct InspectTests {
    let clock = ManualClock()
    let engine: Tidegate.Engine

    init() {
        engine = Engine(seed: 5, clock: clock, journal: true)
    }

    private func policy(_ attempts: Int = 2) throws -> Policy {
        try Policy(
            "p", retry: Retry(maxAttempts: attempts, backoff: .constant(.zero)), bulkhead: Bulkhead(maxConcurrency: 3),
            classify: transient, engine: engine)
    }

    private func count(_ metrics: Metrics, _ family: String, _ labels: [String: String]) -> Metrics.Reading? {
        metrics.read().first { series in
            series.family.name == family && labels.allSatisfy { series[$0.key] == $0.value }
        }?.reading
    }

    @Test func metricsAreCountedFromTheirMakingOn() async throws {
        let policy = try policy()
        _ = try await policy.run { _ in 1 }
        let metrics = try Metrics(engine, maxRoutes: 1)
        #expect(count(metrics, "tidegate_calls_total", [:]) == nil)
        #expect(count(metrics, "tidegate_bulkhead_capacity", ["policy": "p", "route": "default"]) == .number(3))
        _ = try await policy.run { _ in 1 }
        _ = await policy.ended { _ -> Int in throw Broken() }
        let all = ["policy": "p", "route": "default"]
        #expect(count(metrics, "tidegate_calls_total", all.merging(["outcome": "ok"]) { $1 }) == .number(1))
        #expect(count(metrics, "tidegate_calls_total", all.merging(["outcome": "attempts"]) { $1 }) == .number(1))
        #expect(count(metrics, "tidegate_attempts_total", all.merging(["outcome": "transient"]) { $1 }) == .number(2))
        #expect(count(metrics, "tidegate_retries_suppressed_total", ["reason": "attempts"]) == .number(1))
        guard case .histogram(let counts, let sum) = count(metrics, "tidegate_call_duration_seconds", all) else { throw Broken() }
        #expect(counts.count == Metrics.bounds.count + 1 && counts[0] == 2 && sum == 0)
        // There is room for one route.
        _ = try await policy.run(CallOptions(route: "eu")) { _ in 1 }
        #expect(count(metrics, "tidegate_calls_total", ["route": "other", "outcome": "ok"]) == .number(1))
    }

    @Test func metricsAndListenersDoNotTakeFromEachOther() async throws {
        let policy = try policy()
        let metrics = try Metrics(engine)
        var events = engine.events([.gaveUp]).makeAsyncIterator()
        _ = await policy.ended { _ -> Int in throw Broken() }
        #expect(await events.next()?.type == .gaveUp)
        #expect(count(metrics, "tidegate_calls_total", ["outcome": "attempts"]) == .number(1))
    }

    @Test func aBoundOnRoutesIsChecked() throws {
        for wrong in [-1, 10_001] {
            do {
                _ = try Metrics(engine, maxRoutes: wrong)
                Issue.record("taken")
            } catch let error as PolicyError {
                #expect(error.description == "maxRoutes = \(wrong): must be a whole number from 0 to 10,000")
            }
        }
    }

    @Test func prometheusReadsThem() async throws {
        let policy = try policy()
        let metrics = try Metrics(engine)
        _ = try await policy.run(CallOptions(route: "a \"b\"\\c\n")) { _ in 1 }
        let text = metrics.prometheus()
        // The engine writes control characters of a key out (S8); Prometheus escapes the backslash.
        let labels = #"policy="p",route="a \"b\"\\c\\u{a}""#
        #expect(text.contains("# TYPE tidegate_calls_total counter\ntidegate_calls_total{\(labels),outcome=\"ok\"} 1.0\n"))
        #expect(text.contains("tidegate_call_duration_seconds_bucket{\(labels),le=\"0.001\"} 1\n"))
        #expect(text.contains("tidegate_call_duration_seconds_bucket{\(labels),le=\"+Inf\"} 1\n"))
        #expect(text.contains("tidegate_call_duration_seconds_count{\(labels)} 1\n"))
        #expect(text.contains("tidegate_bulkhead_in_flight{\(labels)} 0.0\n"))
        let helps = text.split(separator: "\n").filter { $0.hasPrefix("# HELP") }
        #expect(helps.count == Set(helps).count && helps.count >= 5)
    }

    @Test func familiesAndTypesAreCores() {
        #expect(Metrics.families.map(\.name).contains("tidegate_hedge_delay_seconds"))
        #expect(metricFamilies().allSatisfy { Metrics.Family.Instrument(rawValue: $0.instrument) != nil })
        #expect(Set(EventType.allCases.map(\.rawValue)) == Set(eventTypes()))
    }

    @Test func fallbacksAreCounted() async throws {
        let policy = try policy(1)
        _ = await policy.ended(on: { _ in true }, fallback: { _ in 1 }) { _ -> Int in throw Broken() }
        _ = await policy.ended(on: { _ in true }, fallback: { _ in 1 }) { _ -> Int in throw Broken() }
        _ = await policy.ended(on: { _ in true }, fallback: { _ in throw Broken() }) { _ -> Int in throw Broken() }
        let counts = try #require(engine.snapshot().policies["p"])
        #expect((counts.fallbacks, counts.fallbackFailures) == (2, 1))
    }

    @Test func aStreamThatIsLetGoListensNoMore() async throws {
        let policy = try policy()
        do {
            var events = engine.events().makeAsyncIterator()
            #expect(engine.listening == 1)
            _ = try await policy.run { _ in 1 }
            #expect(await events.next() != nil)
        }
        #expect(engine.listening == 0)
        _ = try await policy.run { _ in 1 }
        #expect(engine.native.takeEvents().isEmpty, "nothing is recorded for nobody")
        let stream = engine.events()
        let reader = Task { for await _ in stream {} }
        reader.cancel()
        await reader.value
        #expect(engine.listening == 0)
    }

    @Test func aSlowReaderLosesTheOldestAndSeesTheGap() async throws {
        let policy = try policy()
        let few = engine.events([.callDone], buffer: 2)
        for _ in 0..<5 { _ = try await policy.run { _ in 1 } }
        var all = engine.events([.callDone]).makeAsyncIterator()
        _ = try await policy.run { _ in 1 }
        var events = few.makeAsyncIterator()
        let (one, two) = (await events.next(), await events.next())
        let last = await all.next()
        #expect(two?.seq == last?.seq, "the last one is there")
        #expect((one?.seq ?? 0) > 1)
    }

    @Test(.timeLimit(.minutes(1))) func readersOfAnEngineThatIsGoneAreNotLeftWaiting() async throws {
        var stream: AsyncStream<Tidegate.Event>?
        do { stream = Engine(seed: 1).events() }
        for await _ in stream! { Issue.record("nothing has happened") }
    }

    @Test func callsAreExplained() async throws {
        let policy = try policy(3)
        let ended = await policy.ended { _ -> Int in throw Broken() }
        let told = try #require(engine.explain(call: ended.call))
        #expect((told.policy, told.route, told.reason, told.attempts) == ("p", "default", "attempts", 3))
        #expect(told.story.contains { $0.type == .retryScheduled } && told.text.contains("default"))
        #expect(engine.explain(call: 0) == nil)
        let plain = Engine(seed: 1)
        let other = try Policy("q", retry: Retry(), engine: plain)
        let unknown = await other.ended { _ in 1 }
        #expect(unknown.call != 0 && plain.explain(call: unknown.call) == nil, "it keeps no journal")
    }

    @Test func aWaitingCallIsExplained() async throws {
        let policy = try Policy(
            "p", retry: Retry(backoff: .constant(.seconds(30)).maximum(.seconds(30)).withoutJitter()), classify: transient, engine: engine)
        var events = engine.events([.retryScheduled]).makeAsyncIterator()
        let task = Task { await policy.ended { _ -> Int in throw Broken() } }
        let call = try #require(await events.next()?.call)
        try await eventually { engine.idle.timers == 1 }
        let told = try #require(engine.explain(call: call))
        #expect((told.why, told.until, told.reason) == ("backoff", .seconds(30), nil))
        task.cancel()
        _ = await task.value
    }

    @Test func aJournalIsPlayedAgain() async throws {
        let policy = try policy()
        let ended = await policy.ended { _ -> Int in throw Broken() }
        let journal = try engine.journal()
        let (again, answers) = try Engine.replay(journal)
        #expect(answers.count == journal.split(separator: "\n").count - 1)
        #expect(again.explain(call: ended.call)?.text == engine.explain(call: ended.call)?.text)
        #expect(try again.journal() == journal)
        #expect(try engine.journal(take: true) == journal)
        _ = try await policy.run { _ in 1 }
        let rest = try engine.journal(take: true)
        #expect(!rest.isEmpty && !rest.contains("tidegate journal"))
        #expect(try Engine.replay(journal + rest).engine.snapshot().policies["p"]?.ends["ok"] == 1)
    }

    @Test func aJournalThatNobodyTakesIsBoundedAndSaysWhatItLacks() throws {
        let engine = Engine(seed: 5, journal: true)
        for n in 1...100_005 { engine.liftBudgets(n % 2 == 0) }
        let journal = try engine.journal(take: true)
        let lines = journal.split(separator: "\n")
        #expect(lines.prefix(3) == ["tidegate journal 1 seed 5 routes 10000", "dropped 5", "lift_budgets 1"])
        #expect(lines.count == 100_002)
        do {
            _ = try Engine.replay(journal)
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect(error.description.hasPrefix("journal, line 1: dropped = 5: so many inputs before this line are missing"))
        }
        #expect(try engine.journal() == "")
    }

    @Test func liftedBudgetsRefuseNoRetry() async throws {
        let engine = Engine(seed: 5)
        let policy = try Policy(
            "p", retry: Retry(maxAttempts: 9, backoff: .constant(.zero), budget: Budget(kind: .earned, start: 1)),
            classify: transient, engine: engine)
        func attempts() async -> UInt64 {
            let before = engine.snapshot().policies["p"]?.attempts ?? 0
            _ = await policy.ended { _ -> Int in throw Broken() }
            return (engine.snapshot().policies["p"]?.attempts ?? 0) - before
        }
        engine.liftBudgets(true)
        #expect(await attempts() == 9)
        engine.liftBudgets(false)
        #expect(await attempts() == 2)
        #expect(await attempts() == 1)
    }

    @Test func whatIsNoJournalIsRefused() throws {
        #expect(throws: PolicyError.self) { try Engine(seed: 1).journal() }
        for wrong in ["", "hello", "tidegate journal 2 seed 1 routes 1"] {
            #expect(throws: PolicyError.self) { try Engine.replay(wrong) }
        }
        do {
            _ = try Engine.replay("tidegate journal 1 seed 1 routes 10\nnonsense\n")
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect(error.description.hasPrefix("journal, line 1: ") && error.description.hasSuffix(": nonsense"))
        }
    }
}
