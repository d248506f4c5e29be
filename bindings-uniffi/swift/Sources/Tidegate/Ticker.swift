import Foundation

/// An object with a timer.
protocol Timed: AnyObject, Sendable {
    /// Runs when the timer fires.
    func tick()
}

/// One timer for all calls of an engine: their moments, and one task that sleeps until the first.
///
/// The task is replaced only for an earlier moment. A task that wakes too early finds nothing due and sleeps again, which costs less than a
/// task for each call.
final class Ticker: Sendable {
    private struct State {
        var dues: [ObjectIdentifier: (due: UInt64, owner: any Timed)] = [:]
        var next = UInt64.max
        var sleeper: Task<Void, Never>?
        var round = 0
    }

    private let state = Locked(State())
    private let time: Timebase

    init(_ time: Timebase) {
        self.time = time
    }

    deinit {
        state.withLock { $0.sleeper }?.cancel()
    }

    /// Number of calls with a timer.
    var count: Int { state.withLock { $0.dues.count } }

    /// Moment at which it looks at the timers next.
    var next: UInt64 { state.withLock { $0.next } }

    /// Ticks `owner` once, after this span. Replaces its earlier moment.
    func set(_ owner: any Timed, after us: UInt64) {
        let due = time.now() &+ us
        let replaced: Task<Void, Never>? = state.withLock { state in
            state.dues[ObjectIdentifier(owner)] = (due, owner)
            return due < state.next ? sleep(until: due, &state) : nil
        }
        replaced?.cancel()
    }

    /// Removes the timer of `owner`.
    func drop(_ owner: any Timed) {
        state.withLock { $0.dues[ObjectIdentifier(owner)] = nil }
    }

    /// Starts a sleeping task and returns the one that it replaces.
    private func sleep(until due: UInt64, _ state: inout State) -> Task<Void, Never>? {
        let before = state.sleeper
        state.next = due
        state.round += 1
        let (round, time) = (state.round, time)
        state.sleeper = Task.detached { [weak self] in
            do { try await time.sleep(due) } catch {
                // A replaced task is cancelled. Otherwise the user's clock has failed, and without another sleeper no timer would fire again.
                do { try await Task.sleep(for: .milliseconds(10)) } catch { return }
            }
            self?.fire(round)
        }
        return before
    }

    private func fire(_ round: Int) {
        let now = time.now()
        let ready: [any Timed]? = state.withLock { state in
            // Another task sleeps already, until an earlier moment, and checks all moments when it wakes.
            guard state.round == round else { return nil }
            state.sleeper = nil
            state.next = .max
            let ready = state.dues.values.filter { $0.due <= now }.map(\.owner)
            for owner in ready { state.dues[ObjectIdentifier(owner)] = nil }
            return ready
        }
        guard let ready else { return }
        // Before the ticks: a slow one, such as one that releases values of the user, must not hold up the timers of other calls.
        arm()
        for owner in ready { owner.tick() }
    }

    /// Starts a task that sleeps until the first moment, if there is one.
    private func arm() {
        let replaced: Task<Void, Never>? = state.withLock { state in
            guard let first = state.dues.values.map(\.due).min() else { return nil }
            // Groups moments that are close together: one microsecond for each call, so that scans do not dominate.
            let due = max(first, time.now() + UInt64(state.dues.count))
            return due < state.next ? sleep(until: due, &state) : nil
        }
        replaced?.cancel()
    }
}
