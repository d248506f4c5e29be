import Foundation
internal import TidegateNative

/// How a call ended. It is beside the result and not in the error, because Swift's errors are values that cannot carry it.
public struct Report: Sendable, Hashable {
    /// Number of attempts started.
    public let attempts: Int
    /// Why the call ended.
    public let reason: Verdict
    /// Why there was no further attempt, in words; nil if nothing was held back.
    public let note: String?
    /// Time after which another try makes sense.
    public let retryIn: Duration?
    /// Moment from which another try makes sense.
    public let retryAt: Date?
    /// Call that this is about; nil if the call just worked.
    let origin: Origin

    init(attempts: Int, reason: Verdict, note: String? = nil, retryIn: Duration? = nil, origin: Origin = .none) {
        self.origin = origin
        self.attempts = attempts
        self.reason = reason
        self.note = note
        self.retryIn = retryIn
        retryAt = retryIn.map { Date().addingTimeInterval($0.microseconds / 1e6) }
    }
}

extension Report {
    /// Report of a call that was refused because the arguments are wrong.
    static let refused = Report(attempts: 0, reason: .notRetryable)
}

/// Formats a span: `120 s`, `0.25 s`.
private func seconds(_ span: Duration) -> String {
    let number = span.microseconds / 1e6
    return number == number.rounded() && number < 1e15 ? "\(Int(number)) s" : "\(number) s"
}

extension Verdict {
    /// Why there was no further attempt; nil if nothing was held back.
    func note(attempts: Int, retryIn: Duration?, maxRetryAfter: () -> Duration?) -> String? {
        switch self {
        case .attempts: return attempts == 1 ? nil : "gave up after \(attempts) attempts"
        case .method: return "not retried: a repeat could happen twice (not idempotent, and no idempotency key)"
        case .oneShotBody: return "body cannot be replayed"
        case .opinion: return "not retried: the policy's statuses, its predicate or the server said not to"
        case .nested: return "not retried: a call around this one retries already"
        case .retryAfterTooLong:
            let bound = maxRetryAfter().map { " " + seconds($0) } ?? ""
            return "Retry-After \(seconds(retryIn ?? .zero)) exceeds maxRetryAfter\(bound)"
        case .wouldOutliveDeadline:
            let asked = retryIn.map { " (Retry-After \(seconds($0)))" } ?? ""
            return "not retried: the next wait\(asked) would outlive the deadline"
        case .timeLimit: return "not retried: the next wait would exceed retryTimeLimit"
        case .budget: return "retry budget exhausted"
        case .readmission: return "not retried: the next attempt was refused a slot"
        case .offline: return "not retried: the device was offline for longer than a retry may wait"
        case .deadline: return "the deadline passed while waiting for the next attempt"
        default: return nil
        }
    }

    /// Error of a call that has no result of its own.
    func refusal(
        _ policy: Policy, route: String, retryIn: Duration?, last: (any Error)?, origin: Origin, by: Refusal? = nil
    ) -> any Error {
        var text = "\(words) (policy \"\(policy.name)\", route \(quoted(route))"
        if cause == .bulkheadFull {
            let queue = policy.setting("bulkhead.max_queue").map { "\(Int($0))" } ?? "unbounded"
            let patience = policy.span("bulkhead.acquire_timeout").map(seconds) ?? "unbounded"
            let most = policy.setting("bulkhead.max_concurrency").map { "\(Int($0))" } ?? "none"
            text += ", maxConcurrency \(most), maxQueue \(queue), acquireTimeout \(patience)"
        }
        if let by { text += ", \(by.text)" }
        let details = Details(
            message: text + ")", reason: self, retryIn: retryIn,
            retryAt: retryIn.map { Date().addingTimeInterval($0.microseconds / 1e6) }, policy: policy.name, route: route,
            limit: by?.limit, weight: by?.weight, amount: by?.amount.map(Int.init), origin: origin
        )
        if let cause { return Rejected(cause: cause, details: details, lastError: last) }
        switch self {
        case .deadlineBefore, .deadlineQueued, .deadline:
            // An attempt that the deadline stopped has not failed by itself; the one before it may have.
            let stopped = last as? AttemptTimeout
            return DeadlineExceeded(details: details, lastError: stopped == nil ? last : stopped?.lastError)
        case .costAboveBurst: return CostAboveBurst(details: details, lastError: nil)
        case .streamStalled: return StreamStalled(details: details, lastError: nil)
        case .cancelled: return CancellationError()
        default: return CallLost(details: details, lastError: last)
        }
    }

    private var cause: Rejected.Cause? {
        switch self {
        case .forcedOpen: .forcedOpen
        case .breakerOpen: .breakerOpen
        case .throttled: .throttled
        case .rateLimited: .rateLimited
        case .queueFull, .acquireTimeout, .queueShed, .displaced: .bulkheadFull
        case .holdFull: .holdFull
        case .cooldown: .coolingDown
        case .storeUnavailable: .storeUnavailable
        case .noTarget: .noTarget
        case .targetsLimited: .targetsLimited
        default: nil
        }
    }

    private var words: String {
        switch self {
        case .forcedOpen: "an operator refuses all calls"
        case .breakerOpen: "the circuit breaker is open"
        case .throttled: "the adaptive throttle refused the call"
        case .rateLimited: "the rate limit is used up"
        case .queueFull: "all slots are taken, and so is the queue"
        case .acquireTimeout: "no slot came free within acquireTimeout"
        case .queueShed: "the queue's delay was over target"
        case .displaced: "a call of higher criticality took its place in the queue"
        case .holdFull: "too many calls are held already"
        case .cooldown: "too many requests: no attempt may start yet"
        case .storeUnavailable: "the shared store is gone"
        case .noTarget: "no target of its group admits it"
        case .targetsLimited: "each target of its group has used up its rate limit, or cools down"
        case .deadlineBefore: "the deadline had passed before the call began"
        case .deadlineQueued: "the deadline passed while the call was waiting"
        case .deadline: "the deadline passed"
        case .streamStalled: "no piece of the body came for idleTimeout"
        case .costAboveBurst: "the call costs more than the rate limit can ever hold"
        default: "the call was given up: nothing was heard of it for too long"
        }
    }
}

extension AttemptTimeout {
    init(policy: Policy, route: String, lastError: (any Error)?, origin: Origin) {
        let text = "the attempt ran out of attemptTimeout (policy \"\(policy.name)\", route \(quoted(route)))"
        details = Details(
            message: text, reason: nil, retryIn: nil, retryAt: nil, policy: policy.name, route: route, origin: origin
        )
        self.lastError = lastError
    }
}

/// Quotes a text. It may come from outside, so characters that would control a terminal or a log are escaped.
func quoted(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
        switch scalar.value {
        case 0..<0x20, 0x7f...0x9f, 0x61c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069, 0xfeff:
            out += "\\u{" + String(scalar.value, radix: 16) + "}"
        default:
            out.unicodeScalars.append(scalar)
        }
    }
    return out + "\""
}
