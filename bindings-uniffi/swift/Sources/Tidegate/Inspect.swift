import Foundation
internal import TidegateNative

/// What an engine has learned.
public struct SavedState: Sendable, Hashable, Codable {
    /// When it was saved.
    public let at: Date
    /// JSON of the core's.
    public let state: String
}

/// The closed list of the types of events, which `docs/telemetry.md` explains.
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
}

extension Event {
    /// Its type; nil for one that is newer than this list.
    public var type: EventType? { EventType(rawValue: kind) }
}

extension Engine {
    /// Why a call waits, or ended as it did, with the numbers that were looked at.
    ///
    /// - Parameter call: Its number: `Ended.call`, or `Event.call`.
    /// - Returns: Nil where the engine knows nothing of it. A call that has ended is known from the journal
    ///   (`Engine(journal: true)`), as long as nothing has been taken from that.
    public func explain(call: UInt64) -> CallExplanation? {
        native.explainCall(call: call).map(CallExplanation.init)
    }

    /// Grants every retry without asking its budget while `on`, for tests that want a number of attempts. Such a retry costs nothing.
    /// Budgets still count calls and answers, and decide again afterwards.
    public func liftBudgets(_ on: Bool) {
        native.liftBudgets(on: on)
    }

    /// Everything that was put into the engine, a line each, for `Engine.replay`, in any language. At most the last 100,000 inputs are
    /// kept; a line `dropped` stands for those that are missing, and `replay` refuses it.
    ///
    /// - Parameter take: Whether the lines are taken out, so that the journal stops growing. The next ones go on where these end:
    ///   the texts of all of them, one behind the other, are one journal.
    /// - Throws: `PolicyError` if the engine keeps none.
    public func journal(take: Bool = false) throws -> String {
        guard let journals else {
            throw PolicyError("journal", "false", "must be true: make the engine with Engine(journal: true)")
        }
        // Under the lock, so that of two who take, one has the head and the first lines.
        return journals.withLock { taken in
            let head = taken ? [] : ["tidegate journal 1 seed \(seed) routes \(maxRoutes)"]
            taken = taken || take
            return (head + (take ? native.takeJournal() : native.journal())).map { $0 + "\n" }.joined()
        }
    }

    /// An engine that was told what stands in a journal: the same seed, and so the same decisions. For explanations of what
    /// happened elsewhere. Its clock stands where the journal ends, and it keeps a journal itself.
    ///
    /// - Throws: `PolicyError` for a line that is none of a journal's: which, and why.
    public static func replay(_ journal: String) throws -> (engine: Engine, answers: [String]) {
        // By bytes: by characters, it would take longer than the replay.
        let lines = journal.utf8.split { $0 == 10 || $0 == 13 }.map { String(Substring($0)) }
        guard let head = lines.first?.wholeMatch(of: /tidegate journal 1 seed ([0-9]+) routes ([0-9]+)/),
            let seed = UInt64(head.1), let routes = UInt32(head.2)
        else {
            throw PolicyError("journal", lines.first ?? "", "must begin with \"tidegate journal 1 seed … routes …\"")
        }
        let now = Locked<UInt64>(0)
        // Nothing is due while it stands.
        let time = Timebase(now: { now.withLock { $0 } }, sleep: { _ in try await Task.sleep(for: .seconds(1 << 40)) })
        let engine = Engine(seed, time, isInjected: true, Int(routes), true)
        let replayed = try checked(camelCase: false) { try engine.native.replay(lines: Array(lines.dropFirst())) }
        now.withLock { $0 = replayed.nowUs }
        return (engine, replayed.answers)
    }
}
