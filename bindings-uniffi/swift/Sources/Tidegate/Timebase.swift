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
            let wait = Duration.microseconds(until > now ? until - now : 0)
            try await ContinuousClock().sleep(for: wait, tolerance: tolerance(of: wait))
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
            return us > 0 ? UInt64(min(us, latest).rounded(.down)) : 0
        }
        sleep = { @Sendable until in
            let end = origin.advanced(by: .microseconds(until))
            try await clock.sleep(until: end, tolerance: tolerance(of: clock.now.duration(to: end)))
        }
    }
}

/// Latest moment of a clock, in microseconds: 292,000 years. Later ones count as this one.
private let latest = 0x1p63

/// Which clock an engine reads. Two engines read the same one if they were given the same object, or values of one type that has no state,
/// such as `ContinuousClock`. Other values are clocks of their own, because nothing says whether they tell the same time.
enum ClockIdentity: Equatable, Sendable {
    case type(ObjectIdentifier)
    case object(Kept)

    /// An object that lives as long as its identity, so that no other object gets its address.
    final class Kept: Equatable, Sendable {
        private let object: (any Sendable)?

        init(_ object: (any Sendable)? = nil) { self.object = object }

        static func == (one: Kept, other: Kept) -> Bool {
            guard let object = one.object, let another = other.object else { return one === other }
            return object as AnyObject === another as AnyObject
        }
    }

    /// The platform's clock, which `ContinuousClock` reads too.
    static let platform = Self(ContinuousClock())

    /// Identity of a clock that no other engine reads.
    init() { self = .object(Kept()) }

    init<C: Clock>(_ clock: C) {
        if C.self is AnyObject.Type {
            self = .object(Kept(clock))
        } else if MemoryLayout<C>.size == 0 {
            self = .type(ObjectIdentifier(C.self))
        } else {
            self.init()
        }
    }
}

/// How late a timer may fire, so that a device can wake once for several timers: a tenth of the wait, at most 100 ms. Without a value
/// Dispatch would take up to 60 s on Apple's platforms.
private func tolerance(of wait: Duration) -> Duration {
    max(.zero, min(wait / 10, .milliseconds(100)))
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
