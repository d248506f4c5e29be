import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

/// A caller gives up: noticed at once wherever the call is, nothing is counted, nothing is left.
@Suite(.serialized) struct CancellationTests {
    enum Point: String, CaseIterable, CustomTestStringConvertible {
        case attempt, timedAttempt, backoff, queue, rateLimit, hedges

        var testDescription: String { rawValue }
    }

    static func hang(_ begun: Counter) async throws -> Int {
        begun.add()
        try await Task.sleep(for: .seconds(3600))
        return 0
    }

    @Test(arguments: Point.allCases) func atEverySuspensionPoint(_ point: Point) async throws {
        let engine = Engine(seed: 1)
        let begun = Counter()
        var calls = 1
        let policy: Policy
        var operation: @Sendable (Attempt) async throws -> Int = { _ in try await Self.hang(begun) }
        var there: () -> Bool = { begun.value == calls }
        switch point {
        case .attempt:
            policy = try Policy("p", bulkhead: Bulkhead(maxConcurrency: 1), engine: engine)
        case .timedAttempt:
            policy = try Policy(
                "p", deadline: .seconds(600), attemptTimeout: .seconds(60), bulkhead: Bulkhead(maxConcurrency: 1), engine: engine)
        case .backoff:
            policy = try Policy(
                "p", retry: Retry(backoff: .constant(.seconds(60)).maximum(.seconds(60))), bulkhead: Bulkhead(maxConcurrency: 1),
                classify: transient, engine: engine)
            operation = { _ in
                begun.add()
                throw Broken()
            }
            there = { begun.value == 1 && engine.idle.timers == 1 }
        case .queue:
            policy = try Policy(
                "p", bulkhead: Bulkhead(maxConcurrency: 1, maxQueue: 1, acquireTimeout: .unbounded), engine: engine)
            calls = 2
            there = { begun.value == 1 && engine.idle.waiters == 1 }
        case .rateLimit:
            policy = try Policy(
                "p", rateLimit: RateLimit(permits: 1, per: .seconds(60), wait: true, maxWait: .seconds(600)), engine: engine)
            operation = { _ in begun.add() }
            #expect(try await policy.run(CallOptions(), operation) == 1)
            there = { engine.idle.waiters == 1 }
        case .hedges:
            policy = try Policy("p", hedge: Hedge(delay: .zero, budget: HedgeBudget(kind: .off)), engine: engine)
            there = { begun.value == 2 }
        }
        let tasks = (0..<calls).map { [operation] _ in Task { await policy.ended(CallOptions(), operation) } }
        try await eventually { there() }
        let counted = engine.snapshot().policies["p"]!
        let began = ContinuousClock.now
        // The last one first: with a queue, that is the one that waits, or the one that holds what it waits for.
        for task in tasks.reversed() {
            task.cancel()
            let ended = await task.value
            #expect(ended.report.reason == .cancelled, "\(ended)")
            if point != .backoff { #expect(throws: CancellationError.self) { try ended.result.get() } }
        }
        #expect(ContinuousClock.now - began < .seconds(30), "promptly")
        #expect(engine.idle == (0, 0))
        let snapshot = engine.snapshot()
        #expect((snapshot.live, snapshot.waiting, snapshot.lingering) == (0, 0, 0))
        #expect(snapshot.policies["p"]!.attempts == counted.attempts, "no attempt was started after it")
        #expect(snapshot.routes.allSatisfy { ($0.bulkhead?.inFlight ?? 0) == 0 })
    }

    @Test func beforeTheStartNothingIsBegun() async throws {
        let engine = Engine(seed: 1)
        let policy = try Policy("p", retry: Retry(), engine: engine)
        let counter = Counter()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await policy.ended { _ in counter.add() }
        }
        #expect(await task.value.report == Report(attempts: 0, reason: .cancelled))
        #expect(counter.value == 0)
    }

    /// Repeats without a timer run in the caller's own task too. A cancellation has to reach them, and they have to be counted once.
    @Test func aRepeatInTheCallersTaskIsCancelled() async throws {
        let engine = Engine(seed: 1)
        let policy = try Policy(
            "p", retry: Retry(maxAttempts: 3, backoff: .constant(.zero), budget: .off), bulkhead: Bulkhead(maxConcurrency: 1),
            on: [Broken.self], engine: engine)
        let (begun, own) = (Counter(), Counter())
        let task = Task {
            let caller = withUnsafeCurrentTask { $0?.hashValue }
            return await policy.ended { attempt in
                if withUnsafeCurrentTask(body: { $0?.hashValue }) == caller { own.add() }
                if attempt.number == 1 { throw Broken() }
                begun.add()
                try await Task.sleep(for: .seconds(600))
            }
        }
        try await eventually { begun.value == 1 }
        task.cancel()
        let ended = await task.value
        #expect((ended.report.reason, ended.report.attempts) == (.cancelled, 2))
        #expect(throws: CancellationError.self) { try ended.result.get() }
        #expect(own.value == 2, "both attempts ran in the caller's task")
        #expect(ended.report.explain() != nil)
        #expect(engine.idle == (0, 0))
        let snapshot = engine.snapshot()
        #expect((snapshot.live, snapshot.lingering, snapshot.routes.first?.bulkhead?.inFlight) == (0, 0, 0))
    }

    /// Values keep their types on the way through a call that does not know them.
    @Test func aCallThatIsCancelledWhileAnAttemptIsJudgedMakesNoFurtherOne() async throws {
        let engine = Engine(seed: 1)
        let policy = try Policy(
            "p", retry: Retry(maxAttempts: 3, backoff: .constant(.zero), budget: .off), bulkhead: Bulkhead(maxConcurrency: 1),
            classify: { _ in
                withUnsafeCurrentTask { $0?.cancel() }
                return Outcome(.transient)
            }, engine: engine)
        let begun = Counter()
        let ended = await Task {
            await policy.ended { _ in
                begun.add()
                throw Broken()
            }
        }.value
        #expect(begun.value == 1)
        #expect(ended.report.reason == .cancelled)
        #expect(throws: CancellationError.self) { try ended.result.get() }
        #expect(engine.idle == (0, 0))
        let snapshot = engine.snapshot()
        #expect((snapshot.live, snapshot.lingering, snapshot.routes.first?.bulkhead?.inFlight) == (0, 0, 0))
    }

    @Test func aRepeatReturnsOptionalsAsTheyAre() async throws {
        let policy = try Policy(
            "p", retry: Retry(backoff: .constant(.zero), budget: .off), on: [Broken.self], engine: Engine(seed: 1))
        func second<T: Sendable>(_ value: T) async throws -> T {
            try await policy.run { attempt in
                if attempt.number == 1 { throw Broken() }
                return value
            }
        }
        let none = try await second(Int?.none)
        #expect(none == nil)
        let nested: Int?? = try await second(.some(.none))
        #expect(nested != nil && nested! == nil)
        let erased: any Sendable = try await second(Int?.none as any Sendable)
        #expect(erased is Int?)
    }

    @Test func aPermitGoesOnWhenAnOperationThatDoesNotListenHasEnded() async throws {
        let engine = Engine(seed: 1)
        let policy = try Policy(
            "p", bulkhead: Bulkhead(maxConcurrency: 1, maxQueue: 1, acquireTimeout: .unbounded), engine: engine)
        let (begun, gate) = (Counter(), AsyncStream<Void>.makeStream())
        let deaf = Task {
            try await policy.run { _ in
                begun.add()
                await Task.detached { for await _ in gate.stream { break } }.value
                return "done"
            }
        }
        try await eventually { begun.value == 1 }
        let next = Task { try await policy.run { _ in "next" } }
        try await eventually { engine.idle.waiters == 1 }
        deaf.cancel()
        try await eventually { engine.snapshot().lingering == 1 }
        #expect(engine.idle.waiters == 1, "the limit counts what really runs (R12)")
        gate.continuation.yield()
        #expect(try await deaf.value == "done", "what it has brought is not thrown away")
        #expect(try await next.value == "next")
    }

    @Test func aLateValueCountsWhateverEndsAfterIt() async throws {
        let engine = Engine(seed: 1)
        let policy = try Policy("p", hedge: Hedge(delay: .zero, budget: HedgeBudget(kind: .off)), engine: engine)
        let (begun, ended) = (Counter(), Counter())
        let gates = [AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream()]
        let task = Task {
            await policy.ended { attempt in
                begun.add()
                let stream = gates[attempt.number - 1].stream
                await Task.detached { for await _ in stream { break } }.value
                defer { ended.add() }
                if attempt.number == 2 { throw Broken() }
                return "done"
            }
        }
        try await eventually { begun.value == 2 }
        task.cancel()
        try await eventually { engine.snapshot().lingering == 1 }
        gates[0].continuation.yield()
        try await eventually { ended.value == 1 }
        gates[1].continuation.yield()
        let last = await task.value
        #expect(try last.result.get() == "done")
        #expect(last.report.reason == .cancelled)
    }

    /// A value that does something when nobody holds it any more.
    private final class Last: Sendable {
        let work: @Sendable () -> Void
        init(_ work: @escaping @Sendable () -> Void) { self.work = work }
        deinit { work() }
    }

    @Test(.timeLimit(.minutes(1))) func aValueThatIsLetGoMayCancelItsCall() async throws {
        let engine = Engine(seed: 1)
        let policy = try Policy(
            "p", retry: Retry(maxAttempts: 3, backoff: .constant(.zero), budget: .off), classify: { _ in Outcome(.transient) }, engine: engine)
        let (gone, caller) = (Counter(), Locked<Task<Int, Never>?>(nil))
        let (gate, open) = AsyncStream<Void>.makeStream()
        let task = Task {
            for await _ in gate { break }
            return await policy.ended { _ in
                Last {
                    gone.add()
                    caller.withLock { $0 }?.cancel()
                }
            }.report.attempts
        }
        caller.withLock { $0 = task }
        open.yield()
        #expect(await task.value == 3)
        #expect(gone.value == 3)
        #expect(engine.idle == (0, 0) && engine.snapshot().live == 0)
    }

    /// An error that is kept for `report(of:)`.
    private struct Failing: Error {
        let last: Last
    }

    @Test(.timeLimit(.minutes(1))) func anErrorThatIsLetGoMayAskForReports() async throws {
        let engine = Engine(seed: 1)
        let policy = try Policy("p", retry: Retry(maxAttempts: 1), engine: engine)
        let gone = Counter()
        for _ in 0..<70 {
            _ = try? await policy.run { _ -> Int in
                throw Failing(
                    last: Last { [weak engine] in
                        _ = engine?.report(of: Broken())
                        gone.add()
                    })
            }
        }
        #expect(gone.value == 6, "64 are kept")
    }

    @Test(.timeLimit(.minutes(5))) func aThousandCallsThatEndAnyhowLeaveNothing() async throws {
        let engine = Engine(seed: 3)
        let policy = try Policy(
            "p", deadline: .seconds(3600), attemptTimeout: .milliseconds(3),
            retry: Retry(backoff: Backoff.constant(.milliseconds(1)), budget: .off),
            bulkhead: Bulkhead(maxConcurrency: 8, maxQueue: .unbounded, acquireTimeout: .unbounded), classify: transient,
            engine: engine)
        let (running, never, most) = (Counter(), Counter(), Locked(0))
        var random = SystemRandomNumberGenerator()
        // A call whose timer was lost would hang until its deadline, and the test would run out of its own time.
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<1000 {
                let (patience, work) = (Int.random(in: 0..<40, using: &random), Int.random(in: 0..<6, using: &random))
                group.addTask {
                    let call = Task {
                        await policy.ended { attempt in
                            let now = running.add()
                            most.withLock { $0 = max($0, now) }
                            defer { running.add(-1) }
                            if work == 0, attempt.number == 1 { throw Broken() }
                            if work > 1 { try await Task.sleep(for: .milliseconds(work)) }
                        }
                    }
                    if number % 3 == 0 {
                        try? await Task.sleep(for: .milliseconds(patience))
                        call.cancel()
                    }
                    // One that was cancelled before its task ran has not begun.
                    if await call.value.call == 0 { never.add() }
                }
            }
        }
        #expect(running.value == 0)
        #expect(engine.idle == (0, 0))
        let snapshot = engine.snapshot()
        #expect((snapshot.live, snapshot.waiting, snapshot.lingering) == (0, 0, 0))
        #expect(snapshot.routes.first?.bulkhead?.inFlight == 0)
        let ends = snapshot.policies["p"]!.ends.values.reduce(0, +)
        #expect(ends + UInt64(never.value) == 1000, "\(snapshot.policies["p"]!.ends)")
        // A call keeps one slot for all its attempts, and the next one may start while the one before unwinds.
        #expect(most.withLock { $0 } <= 32)
    }
}
