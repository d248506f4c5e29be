import Foundation
import Tidegate

/// A clock that stands still until it is advanced: `Engine(seed: 1, clock: ManualClock())`.
public final class ManualClock: Clock, Sendable {
    /// A moment on it.
    public struct Instant: InstantProtocol {
        /// Time since the clock was made.
        public let elapsed: Duration

        public func advanced(by duration: Duration) -> Instant { Instant(elapsed: elapsed + duration) }
        public func duration(to other: Instant) -> Duration { other.elapsed - elapsed }
        public static func < (one: Instant, other: Instant) -> Bool { one.elapsed < other.elapsed }
    }

    private struct Sleeper: Sendable {
        let until: Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State: Sendable {
        var time = Instant(elapsed: .zero)
        var sleepers: [Int: Sleeper] = [:]
        var cancelled: Set<Int> = []
        var next = 0
        var due: Instant? { sleepers.values.map(\.until).min() }
    }

    private let state = Locked(State())

    public init() {}

    public var now: Instant { state.withLock { $0.time } }
    public var minimumResolution: Duration { .zero }
    /// Number of tasks that sleep on the clock.
    public var sleeping: Int { state.withLock { $0.sleepers.count } }
    /// Moment at which the first sleeper wakes; nil if there is none.
    public var due: Instant? { state.withLock { $0.due } }

    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let over: Result<Void, any Error>? = state.withLock { state in
                    if state.cancelled.remove(id) != nil || Task.isCancelled { return .failure(CancellationError()) }
                    if deadline <= state.time { return .success(()) }
                    state.sleepers[id] = Sleeper(until: deadline, continuation: continuation)
                    return nil
                }
                if let over { continuation.resume(with: over) }
            }
        } onCancel: {
            let sleeper = state.withLock { state in
                let sleeper = state.sleepers.removeValue(forKey: id)
                if sleeper == nil { state.cancelled.insert(id) }
                return sleeper
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
        state.withLock { _ = $0.cancelled.remove(id) }
    }

    /// Advances the clock through everything that falls due, and lets the woken tasks run each time.
    public func advance(by duration: Duration) async {
        let target = now.advanced(by: duration)
        await settle()
        while let due, due <= target, wakeFirst() { await settle() }
        state.withLock { $0.time = max(target, $0.time) }
        await settle()
    }

    /// Moves the clock to the first sleeper's moment, and wakes all sleepers of that moment; false if there is none.
    func wakeFirst() -> Bool {
        let awake: [Sleeper] = state.withLock { state in
            guard let due = state.due else { return [] }
            let time = max(due, state.time)
            state.time = time
            let awake = state.sleepers.filter { $0.value.until <= time }.sorted { ($0.value.until, $0.key) < ($1.value.until, $1.key) }
            for (id, _) in awake { state.sleepers[id] = nil }
            return awake.map(\.value)
        }
        for sleeper in awake { sleeper.continuation.resume() }
        return !awake.isEmpty
    }

    /// Lets all other tasks run: tasks that are ready run before one of the lowest priority does.
    private func settle() async {
        for _ in 0..<20 {
            await Task.detached(priority: .background) { await Task.yield() }.value
        }
    }
}
