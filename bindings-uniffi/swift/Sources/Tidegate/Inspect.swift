import Foundation
internal import TidegateNative

/// Learned state of an engine.
public struct SavedState: Sendable, Hashable, Codable {
    /// Time of saving.
    public let at: Date
    /// State as core's JSON.
    public let state: String
}

/// Types of events: a closed list, which `docs/telemetry.md` explains.
public enum EventType: String, Sendable, Hashable, CaseIterable {
    case callDone = "call_done"
    case attemptStarted = "attempt_started"
    case attemptDone = "attempt_done"
    case retryScheduled = "retry_scheduled"
    case retrySuppressed = "retry_suppressed"
    case gaveUp = "gave_up"
    case rejected
    case queued
    case granted
    case shed
    case hedgeStarted = "hedge_started"
    case hedgeWon = "hedge_won"
    case breakerChanged = "breaker_changed"
    case limitChanged = "limit_changed"
    case throttleChanged = "throttle_changed"
    case holdChanged = "hold_changed"
    case deadlineExceeded = "deadline_exceeded"
    case leaseReclaimed = "lease_reclaimed"
    case storeDegraded = "store_degraded"
    case storeRecovered = "store_recovered"
    case policyRetuned = "policy_retuned"
    case forcedOpen = "forced_open"
    case forcedCleared = "forced_cleared"
    case fallback
    case cooldownChanged = "cooldown_changed"
    case streamDelivered = "stream_delivered"
    case streamStalled = "stream_stalled"
}

extension Event {
    /// Type of the event; nil if it is newer than this list.
    public var type: EventType? { EventType(rawValue: kind) }
}

extension Engine {
    /// Explains why a call waits, or why it ended, with the numbers of that decision.
    ///
    /// - Parameter call: Number of the call: `Ended.call`, or `Event.call`.
    /// - Returns: Nil if the engine does not know the call. A call that has ended is known from the journal (`Engine(journal: true)`), as
    ///   long as nothing has been taken from the journal.
    public func explain(call: UInt64) -> CallExplanation? {
        native.explainCall(call: call).map(CallExplanation.init)
    }

    /// Tells the engine the state of the device's link to its networks, as the platform reports it; `.ok` at first.
    ///
    /// While it is `.offline`, first attempts still start, retries and hedges wait until it is back (at most until the deadline or
    /// `retryTimeLimit`; without both, `maxRetryAfter` after the failure), and failures to connect are no evidence for a breaker. Then they start
    /// within a second, spread evenly. While it is `.metered`, no hedges start.
    public func setLink(_ link: Link) {
        native.setLink(link: link.rawValue, now: now())
    }

    /// Grants every retry without asking its budget while `on`, for tests that expect a number of attempts. Such a retry costs nothing.
    /// Budgets still count calls and results, and decide again afterwards.
    public func liftBudgets(_ on: Bool) {
        native.liftBudgets(on: on)
    }

    /// Inputs of the engine, one a line, for `Engine.replay` in any language. At most the last 100,000 inputs are kept; a line `dropped`
    /// replaces the missing ones, and `replay` rejects it.
    ///
    /// - Parameter take: Whether to remove the lines, so that the journal stops growing. The next lines continue where these end: all
    ///   texts, one after the other, are one journal.
    /// - Throws: `PolicyError` if the engine records no journal.
    public func journal(take: Bool = false) throws -> String {
        guard let journals else {
            throw PolicyError("journal", "false", "must be true: make the engine with Engine(journal: true)")
        }
        // Under the lock, so that of two concurrent takers one gets the head and the first lines.
        return journals.withLock { taken in
            let head = taken ? [] : ["tidegate journal 1 seed \(seed) routes \(maxRoutes)"]
            taken = taken || take
            return (head + (take ? native.takeJournal() : native.journal())).map { $0 + "\n" }.joined()
        }
    }

    /// Makes an engine from a journal: with the same seed and inputs, and so the same decisions. Use it to explain what happened elsewhere.
    /// The clock of the engine stands still where the journal ends, and the engine records a journal itself.
    ///
    /// - Throws: `PolicyError` with the first line that is not a line of a journal, and the reason.
    public static func replay(_ journal: String) throws -> (engine: Engine, answers: [String]) {
        // Split by bytes: splitting by characters would take longer than the replay.
        let lines = journal.utf8.split { $0 == 10 || $0 == 13 }.map { String(Substring($0)) }
        guard let head = lines.first?.wholeMatch(of: /tidegate journal 1 seed ([0-9]+) routes ([0-9]+)/),
            let seed = UInt64(head.1), let routes = UInt32(head.2)
        else {
            throw PolicyError("journal", lines.first ?? "", "must begin with \"tidegate journal 1 seed … routes …\"")
        }
        let now = Locked<UInt64>(0)
        // Nothing falls due while the clock stands still.
        let time = Timebase(now: { now.withLock { $0 } }, sleep: { _ in try await Task.sleep(for: .seconds(1 << 40)) })
        let engine = Engine(seed, time, clock: ClockIdentity(), Int(routes), true)
        let replayed = try checked(camelCase: false) { try engine.native.replay(lines: Array(lines.dropFirst())) }
        now.withLock { $0 = replayed.nowUs }
        return (engine, replayed.answers)
    }
}
