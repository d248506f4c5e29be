import Foundation
internal import TidegateNative

/// Common part of all errors of Tidegate.
///
/// The caller gets the last response, or the original error, wherever there is one. Tidegate's own errors are for calls that were refused
/// before an attempt, and for attempts that Tidegate stopped.
///
/// As an `NSError` they have the failure before as `NSUnderlyingErrorKey`, as Apple's own errors do.
public protocol TidegateError: LocalizedError, CustomNSError, CustomStringConvertible, Sendable {
    /// The kind of error, the same in every language.
    var code: String { get }
    /// Status that an HTTP server would return to its own client.
    var httpStatus: Int { get }
    /// Where the error comes from, why, and when to try again.
    var details: Details { get }
    /// Failure of the attempt before, as it was thrown; nil if no attempt had failed.
    var lastError: (any Error)? { get }
}

/// Where an error comes from, why, and when to try again.
public struct Details: Sendable, Hashable {
    /// The error in words.
    public let message: String
    /// Verdict of the engine, finer than `code`: a bulkhead refuses with `queueFull` or `acquireTimeout`.
    public let reason: Verdict?
    /// Time after which another try makes sense.
    public let retryIn: Duration?
    /// Moment from which another try makes sense.
    public let retryAt: Date?
    /// Name of the policy.
    public let policy: String
    /// Key of the route.
    public let route: String
    /// Name of the limit of a set that refused the call: of several that lack tokens the one that frees last, and of a call above a burst the
    /// one that never holds so much. Nil for other errors, and for a rate limit without `limits`.
    public internal(set) var limit: String?
    /// Weight that this limit counts; nil for a limit that counts calls.
    public internal(set) var weight: String?
    /// The call's amount of that weight; nil without a weight.
    public internal(set) var amount: Int?
    /// Call that the error ended; nil in the engine without a history.
    let origin: Origin
}

extension TidegateError {
    public var reason: Verdict? { details.reason }
    public var retryIn: Duration? { details.retryIn }
    public var retryAt: Date? { details.retryAt }
    public var policy: String { details.policy }
    public var route: String { details.route }
    public var limit: String? { details.limit }
    public var weight: String? { details.weight }
    public var amount: Int? { details.amount }
    public var description: String { details.message }
    public var errorDescription: String? { details.message }
    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: details.message]
        if let lastError { info[NSUnderlyingErrorKey] = lastError }
        return info
    }
}

/// The call was refused before any attempt.
public struct Rejected: TidegateError {
    /// Component that refused a call.
    public enum Cause: String, Sendable, Hashable, CaseIterable {
        /// The rate limit is used up.
        case rateLimited = "rate_limited"
        /// No slot was free, or none came free in time.
        case bulkheadFull = "bulkhead_full"
        /// The circuit breaker is open.
        case breakerOpen = "breaker_open"
        /// The adaptive throttle refused the call.
        case throttled
        /// An operator refuses all calls.
        case forcedOpen = "forced_open"
        /// Too many calls are held already.
        case holdFull = "hold_full"
        /// The server has said that there are too many requests; no attempt starts until `retryAt`.
        case coolingDown = "cooling_down"
        /// The shared store is unreachable, and the policy refuses calls without it.
        case storeUnavailable = "store_unavailable"
        /// No target of its group admits the call's attempt: each is open, out of tokens or full.
        case noTarget = "no_target"
        /// No target of its group admits the call's attempt: each has used up its rate limit, or cools down.
        case targetsLimited = "targets_limited"
    }

    /// Component that refused the call.
    public let cause: Cause
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { cause.rawValue }
    public var httpStatus: Int { [.rateLimited, .throttled, .coolingDown, .targetsLimited].contains(cause) ? 429 : 503 }
}

/// The call costs more than the rate limit can ever hold.
public struct CostAboveBurst: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "cost_above_burst" }
    public var httpStatus: Int { 503 }
}

/// The call was abandoned: the engine received no event of it for too long.
public struct CallLost: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "call_lost" }
    public var httpStatus: Int { 503 }
}

/// The last attempt exceeded `attemptTimeout`, and Tidegate stopped it.
public struct AttemptTimeout: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "attempt_timeout" }
    public var httpStatus: Int { 504 }
}

/// No piece of the answer's body that counts came for `idleTimeout`. The connection is closed.
public struct StreamStalled: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "stream_stalled" }
    public var httpStatus: Int { 504 }
}

/// The deadline passed: before the call, while it waited, or during an attempt.
public struct DeadlineExceeded: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "deadline_exceeded" }
    public var httpStatus: Int { 504 }
}

/// An invalid policy, pool or document, with all its mistakes.
public struct PolicyError: LocalizedError, CustomStringConvertible, Sendable, Hashable {
    /// One mistake: the key, the value and the rule that it breaks.
    public struct Mistake: Sendable, Hashable {
        public let key: String
        public let value: String
        public let rule: String
    }

    /// All mistakes.
    public let mistakes: [Mistake]
    public var description: String {
        mistakes.map { $0.key.isEmpty ? $0.rule : "\($0.key) = \($0.value): \($0.rule)" }.joined(separator: "; ")
    }
    public var errorDescription: String? { description }

    init(_ mistakes: [Mistake]) {
        self.mistakes = mistakes
    }

    /// Makes an error of one mistake in a key that core does not know.
    init(_ key: String, _ value: String, _ rule: String) {
        self.init([Mistake(key: key, value: value, rule: rule)])
    }

    /// Converts core's mistakes, in Swift's names if the author has used those.
    init(_ error: any Error, camelCase: Bool = true) {
        guard let invalid = error as? Invalid else {
            // Not an error of core: the binding to it failed.
            mistakes = [Mistake(key: "", value: "", rule: "\(error)")]
            return
        }
        let named = camelCase ? Self.camel : { $0 }
        switch invalid {
        case .Settings(let list):
            mistakes = list.map { Mistake(key: named($0.key), value: $0.value, rule: named($0.rule)) }
        case .State(let reason), .Argument(let reason):
            mistakes = [Mistake(key: "", value: "", rule: reason)]
        }
    }

    /// Replaces names such as `max_attempts` in a text by Swift's.
    static func camel(_ text: String) -> String {
        var out = "", word = ""
        func flush() {
            out += camelCased[word] ?? word
            word = ""
        }
        for character in text {
            if character.isASCII, character.isLetter || character.isNumber || character == "_" {
                word.append(character)
            } else {
                flush()
                out.append(character)
            }
        }
        flush()
        return out
    }
}
