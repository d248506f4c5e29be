import Foundation
import Tidegate

/// A clock that stands still until it is told: `Engine(seed: 1, clock: ManualClock())`.
public final class ManualClock: Clock, @unchecked Sendable {
    /// A moment on it.
    public struct Instant: InstantProtocol {
        /// Since it was made.
        public let elapsed: Duration

        public func advanced(by duration: Duration) -> Instant { Instant(elapsed: elapsed + duration) }
        public func duration(to other: Instant) -> Duration { other.elapsed - elapsed }
        public static func < (one: Instant, other: Instant) -> Bool { one.elapsed < other.elapsed }
    }

    private struct Sleeper {
        let until: Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private let lock = NSLock()
    private var time = Instant(elapsed: .zero)
    private var sleepers: [Int: Sleeper] = [:]
    private var cancelled: Set<Int> = []
    private var next = 0

    public init() {}

    public var now: Instant { lock.withLock { time } }
    public var minimumResolution: Duration { .zero }
    /// How many tasks sleep on it.
    public var sleeping: Int { lock.withLock { sleepers.count } }
    /// When the first of them wakes.
    public var due: Instant? { lock.withLock { sleepers.values.map(\.until).min() } }

    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = lock.withLock {
            next += 1
            return next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let over: Result<Void, any Error>? = lock.withLock {
                    if cancelled.remove(id) != nil || Task.isCancelled { return .failure(CancellationError()) }
                    if deadline <= time { return .success(()) }
                    sleepers[id] = Sleeper(until: deadline, continuation: continuation)
                    return nil
                }
                if let over { continuation.resume(with: over) }
            }
        } onCancel: {
            let sleeper = lock.withLock {
                let sleeper = sleepers.removeValue(forKey: id)
                if sleeper == nil { cancelled.insert(id) }
                return sleeper
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
        lock.withLock { _ = cancelled.remove(id) }
    }

    /// Moves the clock through everything that falls due, and lets what waits for it run each time.
    public func advance(by duration: Duration) async {
        let target = now.advanced(by: duration)
        await settle()
        while let due, due <= target, wakeFirst() { await settle() }
        lock.withLock { time = max(target, time) }
        await settle()
    }

    /// Moves the clock to the first sleeper's moment, and wakes those whose moment that is; false where nobody sleeps.
    func wakeFirst() -> Bool {
        let awake: [Sleeper] = lock.withLock {
            guard let due = sleepers.values.map(\.until).min() else { return [] }
            time = max(due, time)
            let awake = sleepers.filter { $0.value.until <= time }.sorted { ($0.value.until, $0.key) < ($1.value.until, $1.key) }
            for (id, _) in awake { sleepers[id] = nil }
            return awake.map(\.value)
        }
        for sleeper in awake { sleeper.continuation.resume() }
        return !awake.isEmpty
    }

    /// Lets everybody else have a turn. Tasks that are ready run before one of the lowest priority does.
    private func settle() async {
        for _ in 0..<20 {
            await Task.detached(priority: .background) { await Task.yield() }.value
        }
    }
}
