import Foundation
@testable import TidegateTesting

/// Runs tasks on one thread, and knows when all of them wait.
///
/// The runtime asks a hook where each job goes. A job enqueued by the runner's own thread stays on it: a task that a task of the
/// runner starts, resumes or cancels is the runner's, too. All other jobs go where they would have gone, so other tests run beside it.
/// When no job is left, nothing happens until the clock moves; so the runner moves it, to the first sleeper. No wall clock is read.
@available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
final class SerialRunner {
    private typealias Enqueue = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Enqueue) -> Void

    /// The jobs of one runner. Only its thread touches them.
    fileprivate final class Queue: TaskExecutor, @unchecked Sendable {
        var jobs: [UnownedJob] = []
        var first = 0

        func enqueue(_ job: UnownedJob) { jobs.append(job) }
        func enqueue(_ job: consuming ExecutorJob) { jobs.append(UnownedJob(job)) }

        /// Runs jobs until none is left.
        func drain() {
            while first < jobs.count {
                let job = jobs[first]
                first += 1
                job.runSynchronously(on: asUnownedTaskExecutor())
            }
            jobs.removeAll(keepingCapacity: true)
            first = 0
        }
    }

    /// The queue of the thread that asks, if it is a runner's.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// Whether the runtime has the hook, which is set once and stays.
    private static let isHooked: Bool = {
        guard let found = dlsym(dlopen(nil, RTLD_LAZY), "swift_task_enqueueGlobal_hook") else { return false }
        _ = key
        found.assumingMemoryBound(to: Hook.self).pointee = { job, original in
            guard let queue = pthread_getspecific(SerialRunner.key) else { return original(job) }
            Unmanaged<Queue>.fromOpaque(queue).takeUnretainedValue().enqueue(job)
        }
        return true
    }()

    struct Unhooked: Error, CustomStringConvertible {
        let description = "this Swift runtime has no swift_task_enqueueGlobal_hook"
    }

    /// Work that waits for ever: no job is left and nobody sleeps.
    struct Stuck: Error {}

    /// Runs the work, and moves the clock whenever all tasks wait.
    static func run<T: Sendable>(_ clock: ManualClock, _ work: @escaping @Sendable () async throws -> T) async throws -> T {
        guard isHooked else { throw Unhooked() }
        return try await withCheckedThrowingContinuation { continuation in
            let thread = Thread { continuation.resume(with: Result { try play(clock, work) }) }
            thread.stackSize = 8 << 20
            thread.start()
        }
    }

    private static func play<T: Sendable>(_ clock: ManualClock, _ work: @escaping @Sendable () async throws -> T) throws -> T {
        let queue = Queue()
        pthread_setspecific(key, Unmanaged.passUnretained(queue).toOpaque())
        defer { pthread_setspecific(key, nil) }
        let box = Box<T>()
        Task.detached {
            do { box.result = .success(try await work()) } catch { box.result = .failure(error) }
        }
        queue.drain()
        while box.result == nil {
            guard clock.wakeFirst() else { throw Stuck() }
            queue.drain()
        }
        return try box.result!.get()
    }

    /// Where the work leaves its result. Only the runner's thread touches it.
    private final class Box<T>: @unchecked Sendable {
        var result: Result<T, any Error>?
    }
}
