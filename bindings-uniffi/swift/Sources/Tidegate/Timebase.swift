import Foundation

/// Clock of an engine: microseconds from its own origin, and a way to wait.
struct Timebase: Sendable {
    let now: @Sendable () -> UInt64
    /// Waits until this moment; throws when the task is cancelled.
    let sleep: @Sendable (UInt64) async throws -> Void

    /// Clock of the platform, which counts the time that the device sleeps.
    static let platform = Timebase(
        now: platformTime,
        sleep: { until in
            let now = platformTime()
            try await ContinuousClock().sleep(for: .microseconds(until > now ? until - now : 0))
        }
    )

    init(now: @escaping @Sendable () -> UInt64, sleep: @escaping @Sendable (UInt64) async throws -> Void) {
        self.now = now
        self.sleep = sleep
    }

    /// Wraps a clock of the user.
    init<C: Clock>(_ clock: C) where C.Duration == Duration {
        let origin = clock.now
        now = { @Sendable in
            let us = origin.duration(to: clock.now).microseconds
            return us > 0 ? UInt64(us.rounded(.down)) : 0
        }
        sleep = { @Sendable until in
            try await clock.sleep(until: origin.advanced(by: .microseconds(until)), tolerance: nil)
        }
    }
}

/// Microseconds of the clock behind `ContinuousClock`, without its 128-bit arithmetic.
private func platformTime() -> UInt64 {
    var time = timespec()
    #if canImport(Darwin)
    clock_gettime(CLOCK_MONOTONIC_RAW, &time)
    #else
    clock_gettime(CLOCK_BOOTTIME, &time)
    #endif
    return UInt64(time.tv_sec) * 1_000_000 + UInt64(time.tv_nsec) / 1000
}
