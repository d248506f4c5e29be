import Foundation
internal import TidegateNative

/// What every error of ours tells.
///
/// The last answer, or the original error, is what a caller gets wherever there is one; ours are for calls refused before an
/// attempt, and for attempts that we stopped ourselves.
///
/// As an `NSError` they have the failure before as `NSUnderlyingErrorKey`, as Apple's own errors do.
public protocol TidegateError: LocalizedError, CustomNSError, CustomStringConvertible, Sendable {
    /// The kind of error, the same in every language.
    var code: String { get }
    /// What an HTTP server would answer its own caller with.
    var httpStatus: Int { get }
    /// Where, why, and when to come back.
    var details: Details { get }
    /// The failure of the last attempt before, as it was thrown; nil where no attempt had failed.
    var lastError: (any Error)? { get }
}

/// Where, why, and when to come back.
public struct Details: Sendable, Hashable {
    /// In words.
    public let message: String
    /// The verdict of the engine, finer than `code`: a bulkhead refuses with `queueFull` or `acquireTimeout`.
    public let reason: Verdict?
    /// After this time another try would make sense.
    public let retryIn: Duration?
    /// The moment from which another try would make sense.
    public let retryAt: Date?
    /// The policy's name.
    public let policy: String
    /// The route's key.
    public let route: String
}

extension TidegateError {
    public var reason: Verdict? { details.reason }
    public var retryIn: Duration? { details.retryIn }
    public var retryAt: Date? { details.retryAt }
    public var policy: String { details.policy }
    public var route: String { details.route }
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
    /// What refused it.
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
        /// The shared store is gone, and the policy says to refuse.
        case storeUnavailable = "store_unavailable"
    }

    /// What refused it.
    public let cause: Cause
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { cause.rawValue }
    public var httpStatus: Int { cause == .rateLimited || cause == .throttled ? 429 : 503 }
}

/// The call costs more than the rate limit can ever hold.
public struct CostAboveBurst: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "cost_above_burst" }
    public var httpStatus: Int { 503 }
}

/// The call was given up, because nothing was heard of it for so long.
public struct CallLost: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "call_lost" }
    public var httpStatus: Int { 503 }
}

/// The last attempt ran out of `attemptTimeout`, and we stopped it.
public struct AttemptTimeout: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "attempt_timeout" }
    public var httpStatus: Int { 504 }
}

/// The deadline passed: before the call, while it waited, or during an attempt.
public struct DeadlineExceeded: TidegateError {
    public let details: Details
    public let lastError: (any Error)?
    public var code: String { "deadline_exceeded" }
    public var httpStatus: Int { 504 }
}

/// A policy, a pool or a document that cannot be, with every mistake there is.
public struct PolicyError: LocalizedError, CustomStringConvertible, Sendable, Hashable {
    /// One mistake: the key, the value and the rule that it breaks.
    public struct Mistake: Sendable, Hashable {
        public let key: String
        public let value: String
        public let rule: String
    }

    /// Every mistake there is.
    public let mistakes: [Mistake]
    public var description: String {
        mistakes.map { $0.key.isEmpty ? $0.rule : "\($0.key) = \($0.value): \($0.rule)" }.joined(separator: "; ")
    }
    public var errorDescription: String? { description }

    init(_ mistakes: [Mistake]) {
        self.mistakes = mistakes
    }

    /// One mistake of a host's own keys.
    init(_ key: String, _ value: String, _ rule: String) {
        self.init([Mistake(key: key, value: value, rule: rule)])
    }

    /// Core's mistakes, in Swift's names where the author has used those.
    init(_ error: any Error, camelCase: Bool = true) {
        guard let invalid = error as? Invalid else {
            // Nothing of core's: its binding could not be talked to.
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

    /// `max_attempts` as Swift has it, wherever it stands in a text.
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
