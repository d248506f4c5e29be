/// The numeric border, as `core/src/wire.rs` lays it out. Low bits come first.
enum Wire {
    // Actions of a step: bits 0 and 1.
    static let done: UInt64 = 0
    static let attempt: UInt64 = 1
    static let wait: UInt64 = 2

    static let wakes: UInt64 = 4
    /// Flag of a step that starts an attempt: the attempt goes to a target.
    static let target: UInt64 = 1 << 21
    /// "Start this attempt", without a timer and a target, and without stopping another one.
    static func plain(_ attempt: Int) -> UInt64 { 1 | UInt64(attempt & 0xff) << 12 }
    /// No step: the request or the event was invalid.
    static let none = UInt64.max

    // Events.
    static let timer: UInt64 = 0
    static let poll: UInt64 = 1
    static let cancel: UInt64 = 2
    static let headers: UInt64 = 3
    static let finished: UInt64 = 4
    private static let progress: UInt64 = 5
    /// Reason of a wait before a retry.
    static let backoff: UInt64 = 1
    /// Reason of a wait while the body of a response is read.
    static let body: UInt64 = 6
    /// In place of an outcome: the head of a good response has arrived, and its body follows.
    static let head = UInt64.max

    // Request flags.
    static let replayable: UInt64 = 1 << 2
    static let idempotent: UInt64 = 1 << 3
    static let abortable: UInt64 = 1 << 4
    static let mayPark: UInt64 = 1 << 5
    static let slotUntilBody: UInt64 = 1 << 6
    static let stream: UInt64 = 1 << 24

    private static let longestMilliseconds = UInt64(1) << 31 - 2
    private static let longest = UInt64(1) << 53 - 2
    private static let longestAge = UInt64(1) << 42 - 1

    static func stop(_ step: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: step >> 4) }
    static func verdict(_ step: UInt64) -> Verdict { Verdict.allCases[Int(step >> 12 & 63)] }
    /// Index of the attempt whose result the caller gets, 0 to 7; nil if there is none.
    static func slot(_ step: UInt64) -> Int? { step >> 21 & 1 == 1 ? Int(step >> 18 & 7) : nil }
    static func number(_ step: UInt64) -> Int { Int(step >> 12 & 0xff) }
    static func why(_ step: UInt64) -> UInt64 { step >> 12 & 15 }
    /// Span of a step: microseconds of an Attempt or a Wait, milliseconds of a Done.
    static func span(_ step: UInt64) -> UInt64? { step >> 22 == 0 ? nil : step >> 22 - 1 }

    static func finished(_ attempt: Int, _ outcome: UInt64) -> UInt64 {
        finished | UInt64(attempt & 0xff) << 3 | outcome
    }

    /// Report of the age of the last piece that an attempt's body has brought, in microseconds.
    static func progress(_ attempt: Int, _ age: UInt64) -> UInt64 {
        progress | UInt64(attempt & 0xff) << 3 | min(age, longestAge) << 11
    }

    /// Outcome at its bit position in the word of a Finished event.
    static func outcome(_ kind: UInt64, opinion: UInt64 = 0, retryAfter: Duration? = nil) -> UInt64 {
        var word = kind << 11 | opinion << 16
        if let retryAfter {
            let ms = (max(retryAfter.microseconds, 0) / 1000).rounded(.up)
            word |= (1 + (ms < Double(longestMilliseconds) ? UInt64(ms) : longestMilliseconds)) << 18
        }
        return word
    }

    /// Wait in an outcome.
    static func retryAfter(_ outcome: UInt64) -> Duration? {
        let word = outcome >> 18
        return word == 0 ? nil : .milliseconds(Int64(clamping: word - 1))
    }

    /// Classes of failures that may be retried, by number: transient to conflict.
    static let retryable: ClosedRange<UInt64> = 1...5

    /// Number of an outcome's kind.
    static func kind(_ outcome: UInt64) -> UInt64 { outcome >> 11 & 31 }
    static func withKind(_ outcome: UInt64, _ kind: UInt64) -> UInt64 { outcome & ~(31 << 11) | kind << 11 }
    static func withOpinion(_ outcome: UInt64, _ opinion: UInt64) -> UInt64 { outcome & ~(3 << 16) | opinion << 16 }
    /// Whether an outcome has the opinion that the attempt may be repeated.
    static func mayRepeat(_ outcome: UInt64) -> Bool { outcome >> 16 & 3 == Outcome.Opinion.retry.rawValue }

    /// Time left of a deadline, in the encoding of a request.
    static func remaining(_ us: Double) -> UInt64 {
        let us = max(us, 0)
        return 1 + (us < Double(longest) ? UInt64(us) : longest)
    }
}

/// State of the device's link to its networks: see `Engine.setLink`.
public enum Link: UInt8, Sendable, Hashable, CaseIterable {
    /// Nothing stands against retries and hedges.
    case ok
    /// Traffic costs money: no hedges start.
    case metered
    /// There is no network: retries and hedges wait.
    case offline
}

/// Why a call ended. `docs/spec.md` has the words.
public enum Verdict: String, Sendable, Hashable, CaseIterable {
    case ok
    // The caller gets the failure. Why there was no further attempt:
    case notRetryable = "not_retryable"
    case attempts
    case method
    case oneShotBody = "one_shot_body"
    case opinion
    case nested
    case retryAfterTooLong = "retry_after_too_long"
    case wouldOutliveDeadline = "would_outlive_deadline"
    case timeLimit = "time_limit"
    case budget
    case readmission
    // The call was refused before any attempt.
    case forcedOpen = "forced_open"
    case breakerOpen = "breaker_open"
    case throttled
    case rateLimited = "rate_limited"
    case queueFull = "queue_full"
    case acquireTimeout = "acquire_timeout"
    case queueShed = "queue_shed"
    case displaced
    case holdFull = "hold_full"
    case storeUnavailable = "store_unavailable"
    case deadlineBefore = "deadline_before"
    case deadlineQueued = "deadline_queued"
    case costAboveBurst = "cost_above_burst"
    // Tidegate or the caller ended the call.
    case deadline
    case cancelled
    case lost
    case stale
    case staleRoute = "stale_route"
    case streamStalled = "stream_stalled"
    // Refused before any attempt, as those above.
    case noTarget = "no_target"
    // The caller gets the failure, because the device stayed offline.
    case offline
    // Refused before any attempt, as those above.
    case cooldown
    case targetsLimited = "targets_limited"
}

/// Kind of an outcome: a class that every policy knows, or the name of a kind that a policy declares.
public struct Kind: RawRepresentable, ExpressibleByStringLiteral, Sendable, Hashable {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public init(stringLiteral value: String) {
        self.init(rawValue: value)
    }

    /// Success.
    public static let ok: Kind = "ok"
    /// Failure that may pass: the network, a server that is overloaded or restarts.
    public static let transient: Kind = "transient"
    /// The server asked for less load.
    public static let throttled: Kind = "throttled"
    /// The attempt ran out of time.
    public static let timeout: Kind = "timeout"
    /// Failure before the request was sent, so any request may be repeated.
    public static let neverSent: Kind = "never_sent"
    /// Conflict with a concurrent change.
    public static let conflict: Kind = "conflict"
    /// Failure that the caller caused; the server is healthy.
    public static let permanent: Kind = "permanent"
    /// No evidence about the server; not repeated.
    public static let ignored: Kind = "ignored"
    /// The caller cancelled.
    public static let cancelled: Kind = "cancelled"

    /// Classes in the order of their numbers.
    static let classes: [Kind] = [
        .ok, .transient, .throttled, .timeout, .neverSent, .conflict, .permanent, .ignored, .cancelled,
    ]
    static let numbers = Dictionary(uniqueKeysWithValues: zip(classes, 0...).map { ($0, UInt64($1)) })
}

/// Importance of a call when not all calls can be served.
public enum Criticality: Int, Sendable, Hashable, Comparable {
    case bestEffort, degraded, normal, critical

    public static func < (one: Criticality, other: Criticality) -> Bool {
        one.rawValue < other.rawValue
    }
}
