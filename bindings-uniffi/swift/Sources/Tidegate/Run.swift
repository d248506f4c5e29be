import Foundation

/// The value of an attempt, whatever its type.
protocol Kept: AnyObject, Sendable {
    var plain: any Sendable { get }
}

/// The value of an attempt, with its type.
final class KeptValue<T: Sendable>: Kept {
    let value: T
    var plain: any Sendable { value }

    init(_ value: T) { self.value = value }
}

/// The values of a result as they are. (`map` would look the type of its result up.)
func plain(_ result: Result<any Kept, any Error>) -> Result<any Sendable, any Error> {
    switch result {
    case .success(let value): .success(value.plain)
    case .failure(let error): .failure(error)
    }
}

/// The shell: carries out the steps of one call, waits, wakes and cancels. It decides nothing.
///
/// Events drive a call: an attempt ends, a timer fires, the call is woken, its caller cancels. Each event is reported to the engine under
/// the call's own lock, and the returned step is carried out under it. Effects on others follow when the lock is free. The caller's own
/// task starts the attempts and runs `onRetry`, so that both have its task-local values.
///
/// Unchecked: the variables below "Behind the lock" are only used under it, or before a second task knows the call (`first`).
/// It knows nothing of the type of the call's values, because Swift looks up each generic type of a generic function whenever it runs: that took
/// most of the time of a call.
final class Run: Timed, Waiter, BodyOwner, @unchecked Sendable {
    typealias Operation = @Sendable (Attempt) async throws -> any Kept
    
    private let policy: Policy
    private let engine: Engine
    private let call: UInt64
    /// First step of the call.
    private let first: UInt64
    private let route: String
    private let around: Scope?
    private let operation: Operation
    private let values: Policy.Values
    private let on: [any Error.Type]
    private let onRetry: OnRetry?

    /// Number of attempts that are kept.
    static let most = 8
    private static let empty = [AttemptSlot?](repeating: nil, count: most)

    // Behind the lock.
    private let lock = NSLock()
    private var attempts = 0
    private var conclusion: Conclusion?
    private var slots = Run.empty
    /// Number of attempts that have not ended.
    private var out = 0
    private var parked = false
    private var aimed = false
    private var started = false
    private var cancelled = false
    /// Body that is read after the conclusion.
    private weak var body: (any Body)?
    private var streaming = false
    /// What the caller's task does next, and what it does later.
    private var next: Order?
    private var later: [Order] = []
    /// The caller's task, where it waits. It is removed when it is resumed, so it is resumed once; the checked kind is expensive to copy.
    private var caller: UnsafeContinuation<Order, Never>?
    /// Judgement of the result, for the call around this one.
    private var left: UInt64?
    /// Number of the last attempt whose retry was passed to `onRetry`.
    private var retried = 0

    /// One attempt. Unchecked: its variables are only used under the lock of its run.
    private final class AttemptSlot: @unchecked Sendable {
        let number: Int
        let us: UInt64?
        let target: String?
        var task: Task<Void, Never>?
        var stopped = false
        var settled = false
        var result: Result<any Kept, any Error>?
        var judged: Judged?

        init(_ number: Int, _ us: UInt64?, _ target: String? = nil) {
            (self.number, self.us, self.target) = (number, us, target)
        }
    }

    /// How the call has ended. An object, because so large a value is expensive to copy.
    private final class Conclusion: Sendable {
        let result: Result<any Kept, any Error>
        let report: Report
        let isOurs: Bool
        let judged: Judged?

        init(_ result: Result<any Kept, any Error>, _ report: Report, isOurs: Bool = false, judged: Judged? = nil) {
            (self.result, self.report, self.isOurs, self.judged) = (result, report, isOurs, judged)
        }
    }

    /// What the caller's task does for the call.
    private enum Order {
        case attempt(AttemptSlot)
        indirect case retrying(Retrying)
        case end
    }

    /// Effects that are carried out when the lock is free.
    private struct Effects {
        var step: UInt64 = 0
        var stop: [Task<Void, Never>] = []
        var resume: (UnsafeContinuation<Order, Never>, Order)?
        var failed: (body: any Body, error: any Error)?
        /// Values and errors that nobody gets, and the attempts of a call that has ended. Releasing them may run code of the user, which may
        /// come back to this call.
        var gone: [Any] = []
        var ended: [AttemptSlot?] = []
    }

    init(
        _ policy: Policy, _ options: CallOptions, _ begun: Policy.Begun, _ values: Policy.Values,
        _ operation: @escaping Operation
    ) {
        (self.policy, self.engine, route, around) = (policy, policy.engine, begun.route, begun.around)
        (call, first) = (begun.call, begun.step)
        (self.operation, self.values, onRetry) = (operation, values, options.onRetry)
        on = options.on.isEmpty ? policy.on : policy.on + options.on
    }

    // MARK: The caller's task

    /// An attempt that has ended before the call had this object.
    struct Made {
        let result: Result<any Kept, any Error>
        let judged: Judged
    }

    /// Drives a call on from a step, by default its first one.
    ///
    /// - Parameters:
    ///   - made: The attempts before, `most` at most.
    ///   - step: Step after them; nil if the end of the last one has not been reported.
    func drive(after made: [Made] = [], _ step: UInt64? = nil) async -> Ended<any Kept> {
        await withTaskCancellationHandler {
            event { effects in
                for (place, made) in made.enumerated() {
                    let slot = AttemptSlot(place + 1, nil)
                    (slot.settled, slot.result, slot.judged) = (true, made.result, made.judged)
                    self.slots[place] = slot
                    self.attempts = slot.number
                }
                if step == nil, let last = made.last, let slot = self.slots[self.attempts - 1] {
                    self.carry(self.reported(slot, last.judged.outcome), &effects)
                } else {
                    self.carry(step ?? self.first, &effects)
                }
                self.started = true
                self.giveUp(&effects)
            }
            while true {
                var order = lock.withLock { ready() }
                if order == nil { order = await waited() }
                switch order! {
                case .end: return
                case .attempt(let slot):
                    // Without a timer, and without others beside it, only the caller can stop it.
                    if slot.us == nil, lock.withLock({ out == 1 }) { await run(slot) } else { begin(slot) }
                case .retrying(let retrying): policy.notify([policy.onRetry, onRetry].compactMap { $0 }, retrying)
                }
            }
        } onCancel: {
            // This may run before the start.
            event { effects in
                self.cancelled = true
                self.giveUp(&effects)
            }
        }
        let (ended, left) = lock.withLock {
            let ended = conclusion!
            // A body that is still read keeps this object. This object must not keep the body, because releasing the body ends it.
            if streaming { conclusion = Conclusion(.failure(CancellationError()), ended.report) }
            return (ended, self.left)
        }
        engine.forgetMarks(call)
        // With a plain value only the advice to repeat is left (1.6.4).
        if let left, let around = around?.call {
            let plain = plain(ended.result)
            if let of = Wire.mayRepeat(left) ? Delivered(left: plain) : Delivered(plain) {
                around.engine.leave(of, left, for: around.id)
            }
            if !Wire.mayRepeat(left), let status = Delivered(plain)?.status(under: policy) {
                around.engine.leave(.value(RefusedStatus(status: status)), left, for: around.id)
            }
        }
        return Ended(result: ended.result, report: ended.report, call: call, isOurs: ended.isOurs, judged: ended.judged)
    }

    private func giveUp(_ effects: inout Effects) {
        if started, cancelled, conclusion == nil { carry(engine.advance(call, Wire.cancel), &effects) }
    }

    /// Waits for what the caller's task does next.
    private func waited() async -> Order {
        await withUnsafeContinuation { continuation in
            let ready = lock.withLock {
                let ready = self.ready()
                if ready == nil { caller = continuation }
                return ready
            }
            if let ready { continuation.resume(returning: ready) }
        }
    }

    /// Takes what the caller's task does next, where that is known, under the lock.
    private func ready() -> Order? {
        guard let order = next else { return conclusion != nil && out == 0 ? .end : nil }
        next = later.isEmpty ? nil : later.removeFirst()
        return order
    }

    /// Makes an attempt in a task of its own.
    private func begin(_ slot: AttemptSlot) {
        let task = Task { await run(slot) }
        let stopped = lock.withLock {
            if !slot.settled { slot.task = task }
            return slot.stopped
        }
        if stopped { task.cancel() }
    }

    /// Makes an attempt, unless it has been stopped meanwhile.
    @inline(__always)
    private func run(_ slot: AttemptSlot) async {
        let result: Result<any Kept, any Error>
        do {
            if lock.withLock({ slot.stopped }) { throw CancellationError() }
            let value = try await engine.attempt(slot.number, of: call, around, slot.us, slot.target, operation)
            result = .success(value)
        } catch { result = .failure(error) }
        settle(slot, result)
    }

    /// Judges an attempt. Of a good response, only the head has come.
    func judged(_ result: Result<any Kept, any Error>) -> Judged {
        var judged = policy.judge(result, of: call, on: on, known: values.known)
        if values.streams, judged.outcome == 0, case .success = result { judged.outcome = Wire.head }
        return judged
    }

    // MARK: Events

    /// Reports that the call's timer has fired.
    func tick() {
        event { effects in
            if self.streaming, let silence = self.body?.silence {
                // The last piece that counts is this old; nil puts the report off.
                guard let age = silence.age() else { return self.aim(silence.mercy) }
                self.carry(self.engine.advance(self.call, Wire.progress(self.attempts, age)), &effects)
            } else if self.conclusion == nil, let (number, silence) = self.silent() {
                guard let age = silence.age() else { return self.aim(silence.mercy) }
                self.carry(self.engine.advance(self.call, Wire.progress(number, age)), &effects)
            } else if self.conclusion == nil || self.streaming {
                self.carry(self.engine.advance(self.call, Wire.timer), &effects)
            }
        }
    }

    /// Newest running attempt whose body has begun to come, if its silence is reported.
    private func silent() -> (Int, Silence)? {
        guard let silence = values.silence else { return nil }
        let running = slots.compactMap { $0 }.filter { !$0.settled && !$0.stopped }.sorted { $0.number > $1.number }
        return running.lazy.compactMap { slot in silence(slot.number).map { (slot.number, $0) } }.first
    }

    /// Polls for what the call waits for.
    func wake() {
        event { effects in
            if self.conclusion == nil { self.carry(self.engine.advance(self.call, Wire.poll), &effects) }
        }
    }

    /// Reports the end of an attempt, even of a stopped one: until then its permit may be out.
    private func settle(_ slot: AttemptSlot, _ result: Result<any Kept, any Error>) {
        let judged = judged(result)
        let outcome = judged.outcome
        event { effects in
            slot.settled = true
            slot.task = nil
            self.out -= 1
            if let ended = self.conclusion {
                effects.step |= self.engine.advance(self.call, Wire.finished(slot.number, Wire.outcome(8)))
                self.late(ended.report, result, &effects)
            } else if slot.stopped, case .failure = result {
                self.carry(self.engine.advance(self.call, Wire.finished(slot.number, Wire.outcome(3))), &effects)
            } else {
                (slot.result, slot.judged) = (result, judged)
                let step = self.reported(slot, outcome)
                self.carry(step, &effects)
                // If the call has ended before this head was reported, its body is not read.
                if outcome == Wire.head, step & 3 == Wire.done {
                    effects.step |= self.engine.advance(self.call, Wire.finished(slot.number, Wire.outcome(8)))
                }
            }
            if self.conclusion != nil, self.out == 0 { self.handOver(.end, &effects) }
        }
    }

    /// Reports to the engine how an attempt ended, or that the head of a good response has arrived.
    private func reported(_ slot: AttemptSlot, _ outcome: UInt64) -> UInt64 {
        guard outcome == Wire.head else { return engine.advance(call, Wire.finished(slot.number, outcome)) }
        if slot.stopped { return engine.advance(call, Wire.finished(slot.number, 0)) }
        attempts = slot.number
        return engine.advance(call, Wire.headers | UInt64(slot.number & 0xff) << 3)
    }

    /// Reports that the body has been read, has failed, or was released.
    func bodyEnded(_ outcome: UInt64) {
        event { effects in
            guard self.streaming else { return }
            self.body = nil
            self.carry(self.engine.advance(self.call, Wire.finished(self.attempts, outcome)), &effects)
        }
    }

    /// Takes the result of an attempt that has ended after the call, if the caller has nothing better.
    private func late(_ report: Report, _ result: Result<any Kept, any Error>, _ effects: inout Effects) {
        guard report.reason == .cancelled || report.reason == .deadline else { return }
        if case .failure = result {
            if report.reason == .deadline { return }
            // Of several attempts that end late, a value counts, whichever is last.
            if case .success = conclusion?.result { return }
        }
        if let conclusion { effects.gone.append(conclusion.result) }
        conclusion = Conclusion(result, report)
    }

    private func event(_ work: (inout Effects) -> Void) {
        var effects = Effects()
        lock.withLock { work(&effects) }
        for task in effects.stop { task.cancel() }
        engine.after(effects.step)
        if let (continuation, order) = effects.resume { continuation.resume(returning: order) }
        if let (body, error) = effects.failed { body.fail(error) }
    }

    // MARK: Steps, under the lock

    /// Carries out a step.
    private func carry(_ first: UInt64, _ effects: inout Effects) {
        var step = first
        var polls = 0
        while true {
            effects.step |= step & Wire.wakes
            let stop = Wire.stop(step)
            if stop != 0 { self.stop(stop, step, &effects) }
            if policy.onRetry != nil || onRetry != nil { noteRetry(step, &effects) }
            switch step & 3 {
            case Wire.done:
                end(step, &effects)
                return
            case Wire.attempt:
                unpark()
                aim(Wire.span(step))
                attempts = Wire.number(step)
                let target = step & Wire.target == 0 ? nil : engine.native.targetOf(call: call)
                let slot = AttemptSlot(attempts, Wire.span(step), target)
                if let old = slots[(attempts - 1) & 7] { effects.gone.append(old) }
                slots[(attempts - 1) & 7] = slot
                out += 1
                handOver(.attempt(slot), &effects)
                return
            default:
                let us = Wire.span(step)
                if Wire.why(step) == Wire.body {
                    headArrived(&effects)
                    aim(us)
                    return
                }
                // Running attempts and a backoff are never woken. Every other wait registers first, and polls then (R3).
                let registers = Wire.why(step) > 1 && !parked
                if registers {
                    parked = true
                    engine.park(call, self)
                }
                if registers || us == 0, polls < 3 {
                    polls += 1
                    step = engine.advance(call, Wire.poll)
                    continue
                }
                aim(us)
                return
            }
        }
    }

    /// Notes for `onRetry` that the last attempt has failed and another one will follow.
    private func noteRetry(_ step: UInt64, _ effects: inout Effects) {
        let follows = step & 3 == Wire.attempt || step & 3 == Wire.wait && Wire.why(step) != Wire.body
        guard follows, attempts > retried, !slots.contains(where: { $0.map { !$0.settled && !$0.stopped } ?? false }),
            let slot = slots[(attempts - 1) & 7], policy.setting("retry.max_attempts") ?? 1 > 1
        else { return }
        retried = attempts
        let waits = step & 3 == Wire.wait && Wire.why(step) == Wire.backoff
        let kind = slot.judged.map { Wire.kind($0.outcome) }
        var (error, value): ((any Error)?, (any Sendable)?)
        switch slot.result {
        case .failure(let failed): error = failed
        case .success(let failed): value = failed.plain
        case nil: break
        }
        let retrying = Retrying(
            error: error, value: value, attempt: attempts, wait: .microseconds(waits ? Wire.span(step) ?? 0 : 0),
            reason: policy.kinds.first { $0.value == kind }?.key ?? .timeout, policy: policy.name, route: route, call: call)
        handOver(.retrying(retrying), &effects)
    }

    /// Stops attempts. A stopped attempt ends with `AttemptTimeout`, unless the call has succeeded or was cancelled.
    private func stop(_ stopped: UInt8, _ step: UInt64, _ effects: inout Effects) {
        let verdict = step & 3 == Wire.done ? Wire.verdict(step) : nil
        for (place, slot) in slots.enumerated() where stopped >> place & 1 == 1 {
            guard let slot, !slot.settled else { continue }
            slot.stopped = true
            if verdict != .ok, verdict != .cancelled {
                slot.result = .failure(
                    AttemptTimeout(policy: policy, route: route, lastError: failure(before: slot), origin: origin))
            }
            if let task = slot.task { effects.stop.append(task) }
        }
    }

    /// Failure of the attempt before.
    private func failure(before slot: AttemptSlot) -> (any Error)? {
        let before = slots.compactMap { $0 }.filter { $0.number < slot.number }.max { $0.number < $1.number }
        guard case .failure(let error) = before?.result else { return nil }
        return error
    }

    /// Gives the caller its response; the call continues until the body is read.
    private func headArrived(_ effects: inout Effects) {
        guard conclusion == nil, let result = slots[(attempts - 1) & 7]?.result else { return }
        conclusion = Conclusion(result, Report(attempts: attempts, reason: .ok))
        effects.ended = slots
        slots = Self.empty
        if case .success(let value) = result, let answer = value.plain as? any Streaming {
            streaming = true
            body = answer.body
            answer.body.follow(self)
        }
        if out == 0 { handOver(.end, &effects) }
    }

    private func end(_ step: UInt64, _ effects: inout Effects) {
        unpark()
        aim(nil)
        if streaming {
            streaming = false
            if let body { effects.failed = (body, refusal(Wire.verdict(step), nil, nil)) }
            // The body is closed now. Until that is reported, its attempt holds a permit (R12).
            effects.step |= engine.advance(call, Wire.finished(attempts, Wire.outcome(8)))
            return
        }
        // Ordered attempts that have not been started are dropped.
        if let ordered = next {
            let all = [ordered] + later
            (next, later) = (nil, [])
            for order in all {
                guard case .attempt(let slot) = order else { handOver(order, &effects); continue }
                slot.settled = true
                out -= 1
                effects.step |= engine.advance(call, Wire.finished(slot.number, Wire.outcome(8)))
            }
        }
        let verdict = Wire.verdict(step)
        let retryIn = Wire.span(step).map { Duration.milliseconds(Int64(clamping: $0)) }
        let latest = attempts > 0 ? slots[(attempts - 1) & 7] : nil
        let last = latest?.result
        var slot = Wire.slot(step).flatMap { slots[$0] }
        if slot?.result == nil, verdict == .stale || verdict == .lost { slot = latest }
        let decided = slot?.result
        if let judged = slot?.judged, let opinion = Self.opinion(verdict) {
            left = Wire.withOpinion(Wire.withKind(judged.outcome, policy.base(of: judged.outcome)), opinion.rawValue)
        }
        let note = decided == nil ? nil : verdict.note(attempts: attempts, retryIn: retryIn) {
            policy.span("retry.max_retry_after")
        }
        let result = decided ?? .failure(refusal(verdict, retryIn, last))
        let why = noted(note ?? unlisted(verdict, slot), verdict)
        var isOurs = decided == nil
        if case .failure = result, slot?.stopped == true { isOurs = true }
        let report = Report(
            attempts: attempts, reason: verdict, note: why, retryIn: retryIn, origin: verdict == .ok ? .none : origin)
        conclusion = Conclusion(result, report, isOurs: isOurs, judged: decided == nil ? nil : slot?.judged)
        effects.ended = slots
        slots = Self.empty
        if out == 0 { handOver(.end, &effects) }
    }

    /// Opinion that a call which made no retry leaves for the call around it (1.6.2, 1.6.4); nil if it leaves none.
    private static func opinion(_ verdict: Verdict) -> Outcome.Opinion? {
        switch verdict {
        case .nested: .retry
        case .method, .oneShotBody, .opinion: .doNot
        default: nil
        }
    }

    /// Note with what the adapter adds to it.
    private func noted(_ note: String?, _ verdict: Verdict) -> String? {
        guard verdict != .ok, let more = values.sdkNote else { return note }
        return note.map { "\($0); \(more)" } ?? more
    }

    /// Note of an error that is permanent because no rule lists it.
    private func unlisted(_ verdict: Verdict, _ slot: AttemptSlot?) -> String? {
        guard verdict == .notRetryable, slot?.judged?.isUnlisted == true, policy.setting("retry.max_attempts") ?? 1 > 1,
            case .failure(let error) = slot?.result
        else { return nil }
        let type = "\(Swift.type(of: error))"
        return ErrorsGen.note.replacingOccurrences(of: "{error}", with: type)
            .replacingOccurrences(of: "{on}", with: "on: [\(type).self]")
    }

    /// This call, for reports and errors.
    private var origin: Origin { engine.origin(of: call) }

    private func refusal(_ verdict: Verdict, _ retryIn: Duration?, _ last: Result<any Kept, any Error>?) -> any Error {
        var failure: (any Error)?
        if case .failure(let error) = last { failure = error }
        let ofLimit = verdict == .rateLimited || verdict == .costAboveBurst
        let by = ofLimit ? engine.native.refusalOf(call: call) : nil
        return verdict.refusal(policy, route: route, retryIn: retryIn, last: failure, origin: origin, by: by)
    }

    /// Passes what is to be done to the caller's task. One that does not wait finds the end by itself.
    private func handOver(_ order: Order, _ effects: inout Effects) {
        if let caller {
            self.caller = nil
            effects.resume = (caller, order)
        } else if case .end = order {
            return
        } else if next == nil {
            next = order
        } else {
            later.append(order)
        }
    }

    private func unpark() {
        if parked {
            parked = false
            engine.unpark(call)
        }
    }

    /// Sets or clears the call's only timer.
    private func aim(_ us: UInt64?) {
        if let us {
            aimed = true
            engine.ticker.set(self, after: us)
        } else if aimed {
            aimed = false
            engine.ticker.drop(self)
        }
    }
}
