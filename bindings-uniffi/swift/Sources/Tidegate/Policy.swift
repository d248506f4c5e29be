import Foundation
internal import TidegateNative

/// Options of a call.
public struct CallOptions: Sendable {
    /// Key under which limits and statistics are kept: an origin, an endpoint, a tenant. For requests, their origin.
    public var route: String?
    /// Time for the whole call, from its beginning. The policy's own deadline and the surrounding ones apply too.
    public var deadline: Duration?
    /// Importance where queues have to choose.
    public var criticality: Criticality?
    /// Tokens that the call takes from a rate limit.
    public var cost: UInt16
    /// Whether the call may happen twice. If nil, a closure may; for a request its method or its idempotency key decides.
    public var idempotent: Bool?
    /// Whether the call can be made a second time at all.
    public var replayable: Bool
    /// Types of errors to repeat, beside those that the policy names.
    public var on: [any Error.Type]
    /// Called before each wait for a further attempt, after the policy's own callback.
    public var onRetry: OnRetry?
    /// Amounts that the call will use of the weights that its rate limit counts, such as `["tokens": 1_800]`, from 0 to 2^53 - 1. Each attempt
    /// reserves them; `Attempt.settle` reports what it has used.
    public var weights: [String: Int]

    public init(
        route: String? = nil, deadline: Duration? = nil, criticality: Criticality? = nil, cost: UInt16 = 1,
        idempotent: Bool? = nil, replayable: Bool = true, on: [any Error.Type] = [], onRetry: OnRetry? = nil,
        weights: [String: Int] = [:]
    ) {
        self.route = route
        self.deadline = deadline
        self.criticality = criticality
        self.cost = cost
        self.idempotent = idempotent
        self.replayable = replayable
        self.on = on
        self.onRetry = onRetry
        self.weights = weights
    }
}

extension CallOptions {
    /// Flags of a request for a closure.
    fileprivate var flags: UInt64 {
        (replayable ? Wire.replayable : 0) | (idempotent == false ? 0 : Wire.idempotent)
    }
}

/// The attempt that an operation is about to make.
public struct Attempt: Sendable, Hashable {
    /// Number of the attempt, from 1.
    public let number: Int
    /// Time limit of the attempt; nil if there is none.
    public let remaining: Duration?
    /// Name of the target that the attempt goes to, if its policy has targets; `target()` finds it from inside.
    public let target: String?
    /// Call that the attempt belongs to.
    let origin: Origin

    /// Settles the total that this attempt has used so far of a weight: `attempt.settle("tokens", 1_200)`. Call it whenever a better total is
    /// known. What exceeds the reservation is charged at once, and a lower total than before is ignored; a negative one counts as 0. When
    /// the attempt ends, what it has reserved and not used comes back.
    ///
    /// - Returns: Whether the total was taken: false once the attempt has ended, and for a weight that it does not count.
    @discardableResult
    public func settle(_ weight: String, _ total: Int) -> Bool {
        guard let engine = origin.engine, let number = UInt8(exactly: number) else { return false }
        return engine.native.settle(
            call: origin.call, attempt: number, name: weight, total: UInt64(clamping: total), now: engine.now())
    }
}

/// Result of a call, with its report.
public struct Ended<Value: Sendable>: Sendable {
    /// Value or error of the deciding attempt, or an error of Tidegate.
    public let result: Result<Value, any Error>
    public let report: Report
    /// Error that a fallback was called for, even if the fallback itself has failed; nil if none was called.
    public let replaced: (any Error)?
    /// Number of the call, as in events and for `Engine.explain`; 0 if no call was begun.
    public let call: UInt64
    /// Whether the error is the policy's, and not the operation's.
    let isOurs: Bool
    /// Judgement of the deciding attempt; nil if the result is the policy's.
    let judged: Judged?

    init(
        result: Result<Value, any Error>, report: Report, replaced: (any Error)? = nil, call: UInt64 = 0, isOurs: Bool = false,
        judged: Judged? = nil
    ) {
        (self.result, self.report, self.replaced, self.call) = (result, report, replaced, call)
        (self.isOurs, self.judged) = (isOurs, judged)
    }
}

extension Ended<any Kept> {
    /// The same with the type of the operation's values.
    func typed<T: Sendable>() -> Ended<T> {
        Ended<T>(
            result: result.map { ($0 as! KeptValue<T>).value }, report: report, replaced: replaced, call: call, isOurs: isOurs, judged: judged)
    }
}

/// A named set of components around a call. One policy serves any number of tasks at once.
public final class Policy: Sendable {
    /// Name in errors and telemetry.
    public let name: String
    /// Engine that keeps the policy's state.
    public let engine: Engine
    let classify: Classify?
    /// Types of errors to repeat.
    let on: [any Error.Type]
    let onRetry: OnRetry?
    let metering: Metering?
    let shared: Shared
    /// Whether the engine keeps the policy's counts under its name when nobody holds it any more.
    private let keeps: Bool
    let complained = Locked(Set<Kind>())
    /// Whether an `onRetry` has thrown.
    let failed = Locked(false)
    /// Whether a total that was not settled has been reported.
    let complainedTotals = Locked(false)
    private let routes = Locked(KnownRoutes())
    private static let fresh = Locked(0)

    /// Makes a policy with these settings.
    ///
    /// Policies of one name and engine are one: they share their state. The same name with other settings is an error while somebody holds
    /// the policy, unless the same line of the source makes it again: that retunes it, with a warning. A policy that nobody holds is freed.
    /// The engine keeps the counts of the last 1,024 names, so that making a policy again refills no budget.
    ///
    /// - Parameters:
    ///   - on: Types of errors to repeat, beside those that may pass: `on: [ShopError.self]`.
    ///   - classify: Judges each attempt, before `on` and the rule for errors.
    ///   - onRetry: Called before each wait for a further attempt.
    ///   - metering: How the weights of HTTP requests are known.
    /// - Throws: `PolicyError` with all mistakes, each with its key, value and rule.
    public convenience init(
        _ name: String?, _ settings: Settings, on: [any Error.Type] = [], classify: Classify? = nil, onRetry: OnRetry? = nil,
        metering: Metering? = nil, engine: Engine = .shared, fileID: StaticString = #fileID, line: UInt = #line
    ) throws {
        var pairs = Pairs(preset: settings.preset != nil)
        settings.write(&pairs)
        try self.init(name, pairs: pairs.list, camelCase: true, Judging(on, classify, onRetry, metering), engine, Place(fileID, line))
    }

    convenience init(
        _ name: String?, pairs: [Pair], camelCase: Bool, _ judging: Judging = Judging(), _ engine: Engine, _ place: Place? = nil
    ) throws {
        let own = name ?? Self.fresh.withLock { count in
            count += 1
            return "policy-\(count)"
        }
        try pairs.noFleet(camelCase: camelCase)
        let shared = try engine.take(own, pairs, place, camelCase: camelCase)
        self.init(own, shared, judging, engine, keeps: name != nil)
    }

    /// Makes an owner of a policy that the engine has.
    init(_ name: String, _ shared: Shared, _ judging: Judging, _ engine: Engine, keeps: Bool = true) {
        (self.name, self.engine, self.shared, self.keeps) = (name, engine, shared, keeps)
        (on, classify, onRetry, metering) = (judging.on, judging.classify, judging.onRetry, judging.metering)
    }

    deinit {
        engine.release(name, number, keep: keeps)
    }

    /// Callbacks of a policy, and the errors that it names.
    struct Judging: Sendable {
        var on: [any Error.Type] = []
        var classify: Classify?
        var onRetry: OnRetry?
        var metering: Metering?

        init(
            _ on: [any Error.Type] = [], _ classify: Classify? = nil, _ onRetry: OnRetry? = nil, _ metering: Metering? = nil
        ) {
            (self.on, self.classify, self.onRetry, self.metering) = (on, classify, onRetry, metering)
        }
    }

    var number: UInt32 { shared.number }

    /// Numbers of the kinds that `classify` may return.
    var kinds: [Kind: UInt64] { shared.kinds }

    /// Makes a call: as many attempts of `operation` as the policy allows and the call needs.
    ///
    /// When `run` returns, no attempt is running any more. Attempts are stopped by cancelling their task, and end before that. Until then
    /// they keep their slot, at most 60 s, so a limit counts the attempts that are really running. An attempt with a timer or with another one
    /// beside it runs in a task of its own, which inherits priority and task-local values; every other one runs in the caller's task.
    ///
    /// - Returns: Result of `operation`.
    /// - Throws: The error of `operation`, as it is, if there is one; else `Rejected`, `DeadlineExceeded`, `AttemptTimeout`,
    ///   `CostAboveBurst` or `CallLost`; `CancellationError` if the task is cancelled before an attempt.
    public func run<T: Sendable>(
        _ options: CallOptions = CallOptions(), _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        // No generic type is used on the happy path: Swift looks each one up whenever it runs, which takes longer than the rest.
        let start = start(options, options.flags)
        guard case .begun(let begun) = start, begun.isPlain else {
            return try await goOn(start, options, operation)
        }
        let value: T
        do { value = try await attempt(1, begun, operation) } catch {
            return try await goOnAfter(.failure(error), begun, options, operation)
        }
        if hasWorked(begun) { return value }
        return try await goOnAfter(.success(kept(value)), begun, options, operation)
    }

    /// Makes a call and returns its report too: how many attempts, and why there was no further one.
    public func ended<T: Sendable>(
        _ options: CallOptions = CallOptions(), _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<T> {
        await make(options, flags: options.flags, operation: operation)
    }

    /// How an adapter judges the values of its attempts.
    struct Values: Sendable {
        /// Outcome of a value, at its bit position in a word; nil if it is not known.
        var known: (@Sendable (any Sendable) -> UInt64?)?
        /// Whether a good value is the head of a response, whose body follows.
        var streams = false
        /// Addition to the note of a failed call.
        var sdkNote: String?
        /// Silence of a running attempt's body, by the attempt's number.
        var silence: (@Sendable (Int) -> Silence?)?
    }

    /// How a call starts.
    enum Start: Sendable {
        case begun(Begun)
        /// No call was begun.
        case refused(any Error, Report)
    }

    /// A call that has begun.
    struct Begun: Sendable {
        let call, step: UInt64
        let route: String
        /// Context of the caller.
        let around: Scope?

        /// Whether the first step is to make an attempt that only the caller can stop.
        var isPlain: Bool { step & ~Wire.wakes == Wire.plain(1) }
    }

    /// Makes a call with its own flags.
    func make<T: Sendable>(
        _ options: CallOptions, flags: UInt64, path: String? = nil, values: Values = Values(),
        operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<T> {
        await make(start(options, flags, path), options, values, operation)
    }

    private func make<T: Sendable>(
        _ start: Start, _ options: CallOptions, _ values: Values,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<T> {
        let begun: Begun
        switch start {
        case .begun(let it): begun = it
        case .refused(let error, let report): return Ended(result: .failure(error), report: report, isOurs: true)
        }
        guard begun.isPlain else { return await run(options, begun, values, operation).drive().typed() }
        let result: Result<T, any Error>
        do { result = .success(try await attempt(1, begun, operation)) } catch { result = .failure(error) }
        if case .success = result, values.known == nil, hasWorked(begun) {
            return Ended(result: result, report: Report(attempts: 1, reason: .ok), call: begun.call)
        }
        return await goOn(begun, options, result.map { KeptValue($0) }, values, operation).typed()
    }

    private func start(_ options: CallOptions, _ flags: UInt64, _ path: String? = nil) -> Start {
        if Task.isCancelled { return .refused(CancellationError(), Report(attempts: 0, reason: .cancelled)) }
        let key = options.route ?? KnownRoutes.usualKey
        let around = Scope.current
        var request = Request(flags: flags | Wire.mayPark, remaining: 0, parent: 0)
        var criticality = options.criticality
        if let around {
            let from = around.inherited(engine)
            (request.remaining, request.parent) = (from.remaining, from.parent)
            criticality = criticality ?? from.criticality
        }
        if let deadline = options.deadline {
            let own = Wire.remaining(deadline.microseconds)
            request.remaining = request.remaining == 0 ? own : min(own, request.remaining)
        }
        request.flags |= UInt64((criticality ?? .normal).rawValue) | UInt64(options.cost) << 7
        let call, step: UInt64
        do { (call, step) = try begun(key, path, &request, options.weights) } catch { return .refused(error, .refused) }
        engine.after(step)
        return .begun(Begun(call: call, step: step, route: key, around: around))
    }

    /// Makes an attempt of a plain call, in the caller's own task, because only the caller can stop it.
    @inline(__always)
    private func attempt<T: Sendable>(
        _ number: Int, _ begun: Begun, _ operation: @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        let (engine, call) = (engine, begun.call)
        return try await withTaskCancellationHandler {
            try await engine.attempt(number, of: call, begun.around, nil, nil, operation)
        } onCancel: {
            // Its permit is passed on when the operation has returned (R12), or after 60 s.
            _ = engine.on(call, Wire.cancel)
        }
    }

    /// Reports that the first attempt of a plain call has returned, if nobody has to judge its value. Returns whether the call has worked.
    private func hasWorked(_ begun: Begun) -> Bool {
        guard classify == nil, !engine.marked.isSet, !Task.isCancelled,
            engine.on(begun.call, Wire.finished(1, 0)) & 3 == Wire.done
        else { return false }
        engine.forgetMarks(begun.call)
        return true
    }

    /// Continues a call that is not plain, or that no attempt is made for. Apart from `run`, as the one below.
    @inline(never)
    private func goOn<T: Sendable>(
        _ start: Start, _ options: CallOptions, _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        let ended: Ended<any Kept> =
            switch start {
            case .begun(let begun): await run(options, begun, Values(), operation).drive()
            case .refused(let error, let report): Ended(result: .failure(error), report: report, isOurs: true)
            }
        return try ended.delivered(by: engine, as: T.self)
    }

    /// Continues a plain call whose first attempt has failed, or has returned a value that has to be judged. Apart from `run`, which would
    /// look up types for it in each call.
    @inline(never)
    private func goOnAfter<T: Sendable>(
        _ first: Result<any Kept, any Error>, _ begun: Begun, _ options: CallOptions,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        try await goOn(begun, options, first, Values(), operation).delivered(by: engine, as: T.self)
    }

    /// Continues a plain call whose first attempt has ended: with further attempts in the caller's task while these are plain, too, and then
    /// with a `Run`.
    @inline(__always)
    private func goOn<T: Sendable>(
        _ begun: Begun, _ options: CallOptions, _ first: Result<any Kept, any Error>, _ values: Values,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<any Kept> {
        let call = begun.call
        let isHeard = onRetry != nil || options.onRetry != nil
        let names = options.on.isEmpty ? on : on + options.on
        var result = first
        var made: [Run.Made] = []
        while true {
            let number = made.count + 1
            if Task.isCancelled {
                _ = engine.on(call, Wire.finished(number, Wire.outcome(8)))
                engine.forgetMarks(call)
                let report = Report(attempts: number, reason: .cancelled, origin: engine.origin(of: call))
                return Ended(result: result, report: report, call: call)
            }
            if values.streams {
                let run = run(options, begun, values, operation)
                return await run.drive(after: [Run.Made(result: result, judged: run.judged(result))])
            }
            let judged = judge(result, of: call, on: names, known: values.known)
            made.append(Run.Made(result: result, judged: judged))
            let step = engine.on(call, Wire.finished(number, judged.outcome))
            if step & 3 == Wire.done, Wire.verdict(step) == .ok {
                engine.forgetMarks(call)
                return Ended(result: result, report: Report(attempts: number, reason: .ok), call: call, judged: judged)
            }
            let isPlain = step & ~Wire.wakes == Wire.plain(number + 1) && number < Run.most
            guard isPlain, !isHeard, !Task.isCancelled else { return await run(options, begun, values, operation).drive(after: made, step) }
            do { result = .success(kept(try await attempt(number + 1, begun, operation))) } catch { result = .failure(error) }
        }
    }

    /// Apart from its callers, which would copy the value first.
    @inline(never)
    private func kept<T: Sendable>(_ value: T) -> any Kept { KeptValue(value) }

    private func run<T: Sendable>(
        _ options: CallOptions, _ begun: Begun, _ values: Values, _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) -> Run {
        Run(self, options, begun, values) { KeptValue(try await operation($0)) }
    }

    /// Deadline of a call that begins now, on the engine's clock.
    func ends(_ options: CallOptions) -> UInt64? {
        let spans = [span("deadline")?.microseconds, options.deadline?.microseconds, Scope.current?.left(engine)]
        return spans.compactMap { $0 }.min().map { engine.now() + UInt64(min(max($0, 0), 1e15)) }
    }

    /// Begins a call on the route of a key, which is looked up again if the engine has evicted it.
    ///
    /// - Throws: `PolicyError` if a weight is wrong or missing.
    private func begun(
        _ key: String, _ path: String?, _ request: inout Request, _ weights: [String: Int]
    ) throws -> (call: UInt64, step: UInt64) {
        while true {
            let route = route(key)
            if let path { request.target = engine.native.target(route: route, path: path, now: engine.now()) }
            let begun = weights.isEmpty ? engine.begin(route, request) : try engine.begin(route, request, weights)
            guard begun.step & 3 == Wire.done else { return begun }
            if Wire.verdict(begun.step) == .staleRoute {
                routes.withLock { $0[key] = nil }
                continue
            }
            if weights.isEmpty, Wire.verdict(begun.step) == .costAboveBurst {
                do { try checked { try engine.native.checkUnweighted(route: route) } } catch {
                    engine.after(begun.step)
                    throw error
                }
            }
            return begun
        }
    }

    /// Reports to core that a fallback ran, and whether it returned a result.
    func noteFallback(_ key: String?, _ worked: Bool) {
        engine.native.noteFallback(route: route(key ?? KnownRoutes.usualKey), ok: worked, now: engine.now())
        engine.publish()
    }

    private func route(_ key: String) -> UInt64 {
        if let known = routes.withLock({ $0[key] }) { return known }
        let route = engine.native.route(policy: number, key: key, now: engine.now())
        routes.withLock { $0[key] = route }
        return route
    }

    /// Changes the settings of the policy while it is in use. `settings` must contain all of them: those left out return to their defaults.
    /// Calls in flight finish under the settings that they began with. Limits and budgets, which calls share, change at once.
    ///
    /// - Throws: `PolicyError` with all mistakes; the policy is unchanged then.
    public func retune(_ settings: Settings) throws {
        var pairs = Pairs(preset: settings.preset != nil)
        settings.write(&pairs)
        try pairs.list.noFleet()
        try checked { try engine.native.retune(policy: number, name: name, pairs: pairs.list, now: engine.now()) }
        shared.refresh(engine)
        engine.wake()
        engine.publish()
    }

    /// Refuses all calls, or those of one route, before any other component is asked, until it is called with `false`. Waiting calls are
    /// refused too. Calls that have started finish without further attempts.
    public func forceOpen(_ on: Bool = true, route: String? = nil) {
        let which = route.map { engine.native.route(policy: number, key: $0, now: engine.now()) }
        engine.native.forceOpen(policy: number, route: which, on: on, now: engine.now())
        engine.wake()
        engine.publish()
    }

    /// Refuses all attempts at one of the policy's targets, for all policies with this group of targets, until it is called with `false`, which
    /// also resets the target's breaker. Running attempts finish, and calls go to the other targets.
    ///
    /// - Parameter target: Name of the target, as in the document.
    /// - Throws: `PolicyError` if the policy has no such target.
    public func forceTarget(_ target: String, _ on: Bool = true) throws {
        try checked(camelCase: false) {
            try engine.native.forceTarget(policy: number, target: target, on: on, now: engine.now())
        }
        engine.wake()
        engine.publish()
    }

    /// Describes the policy in words: its components in order, the longest wait and the highest cost of a call, and settings that may be
    /// mistakes.
    public func explain() -> String {
        engine.native.explain(policy: number)
    }

    /// Number in force for a key; spans are in microseconds.
    func setting(_ key: String) -> Double? {
        guard case .number(let value) = engine.native.setting(policy: number, key: key) else { return nil }
        return value
    }

    /// Word in force for a key.
    func word(_ key: String) -> String? {
        guard case .word(let value) = engine.native.setting(policy: number, key: key) else { return nil }
        return value
    }

    /// Span in force for a key.
    func span(_ key: String) -> Duration? {
        setting(key).map { .microseconds($0) }
    }
}

/// Routes of a policy that core has given, by their keys; at most 10,000.
private struct KnownRoutes {
    /// Key of the calls that give none.
    static let usualKey = "default"
    /// Route of that key, which is found without a hash.
    private var usual: UInt64?
    private var others: [String: UInt64] = [:]

    subscript(key: String) -> UInt64? {
        get { key == Self.usualKey ? usual : others[key] }
        set {
            if key == Self.usualKey {
                usual = newValue
            } else {
                if newValue != nil, others.count >= 10_000 { others.removeAll() }
                others[key] = newValue
            }
        }
    }
}

/// One component for several policies: one queue, one bucket or one budget for all their routes. Each policy that names it keeps its own
/// limit for waiting.
public final class Pool: Sendable {
    /// Name of the pool, unique in its engine.
    public let name: String
    /// Engine that keeps the state of the pool and of its policies.
    public let engine: Engine

    /// - Throws: `PolicyError` with all mistakes, or if the name is taken with other settings. If the same line of the source makes the pool
    ///   again with other settings, it is retuned, with a warning.
    public init(
        _ name: String, _ settings: PoolSettings, engine: Engine = .shared, fileID: StaticString = #fileID, line: UInt = #line
    ) throws {
        (self.name, self.engine) = (name, engine)
        let (kind, table, pairs) = settings.parts
        try pairs.list.noFleet()
        try engine.takePool(name, kind, pairs.without(table), Place(fileID, line))
    }

    /// Makes a pool that the engine has already.
    init(_ taken: NamedPool, engine: Engine) {
        (name, self.engine) = (taken.name, engine)
    }

    /// Changes the settings of the pool. `settings` must contain all of them. Counts are kept, and a higher limit admits waiting calls at
    /// once.
    ///
    /// - Throws: `PolicyError` with all mistakes; the pool is unchanged then.
    public func retune(_ settings: PoolSettings) throws {
        let (kind, table, pairs) = settings.parts
        try pairs.list.noFleet()
        try checked {
            try engine.native.retunePool(name: name, kind: kind, pairs: pairs.without(table), now: engine.now())
        }
        engine.wake()
        engine.publish()
    }
}
