import Foundation
internal import TidegateNative

/// What a call says of itself.
public struct CallOptions: Sendable, Hashable {
    /// The key that state is kept under: an origin, an endpoint, a tenant. For requests, their origin.
    public var route: String?
    /// The call ends by this time from its beginning on; the policy's own deadline and those around it hold too.
    public var deadline: Duration?
    /// How much it matters where queues have to choose.
    public var criticality: Criticality?
    /// Tokens of a rate limit that it takes.
    public var cost: UInt16
    /// May it happen twice? Nil: a closure may, a request by its method or its idempotency key.
    public var idempotent: Bool?
    /// Can it be made a second time at all?
    public var replayable: Bool

    public init(
        route: String? = nil, deadline: Duration? = nil, criticality: Criticality? = nil, cost: UInt16 = 1,
        idempotent: Bool? = nil, replayable: Bool = true
    ) {
        self.route = route
        self.deadline = deadline
        self.criticality = criticality
        self.cost = cost
        self.idempotent = idempotent
        self.replayable = replayable
    }
}

/// What an operation is told of the attempt that it makes.
public struct Attempt: Sendable, Hashable {
    /// Its number, from 1 on.
    public let number: Int
    /// The time that it has; nil without end.
    public let remaining: Duration?
}

/// A result, and what became of the call that it comes from.
public struct Ended<Value: Sendable>: Sendable {
    /// The value of the attempt that decided, or its error, or an error of ours.
    public let result: Result<Value, any Error>
    public let report: Report
    /// The error that a fallback has stood in for, or was to and has failed itself; nil without one.
    public let replaced: (any Error)?
    /// The call's number, as events have it and `Engine.explain` takes it; 0 where none was begun.
    public let call: UInt64
    /// Is the error the policy's, and not what the operation has thrown?
    let isOurs: Bool

    init(
        result: Result<Value, any Error>, report: Report, replaced: (any Error)? = nil, call: UInt64 = 0, isOurs: Bool = false
    ) {
        (self.result, self.report, self.replaced, self.call, self.isOurs) = (result, report, replaced, call, isOurs)
    }
}

/// A named set of components: what happens around a call. One policy serves any number of tasks at once.
public final class Policy: Sendable {
    /// Its name in errors and telemetry.
    public let name: String
    /// The engine that keeps its state.
    public let engine: Engine
    let number: UInt32
    let classify: Classify?
    private let known: Locked<[Kind: UInt64]>
    let complained = Locked(Set<Kind>())
    private let routes = Locked<[String: UInt64]>([:])
    private static let fresh = Locked(0)

    /// A policy with these settings.
    ///
    /// - Throws: `PolicyError` with every mistake there is: the key, the value and the rule.
    public convenience init(
        _ name: String?, _ settings: Settings, classify: Classify? = nil, engine: Engine = .shared
    ) throws {
        var pairs = Pairs(preset: settings.preset != nil)
        settings.write(&pairs)
        try self.init(name, pairs: pairs.list, camelCase: true, classify, engine)
    }

    convenience init(_ name: String?, pairs: [Pair], camelCase: Bool, _ classify: Classify?, _ engine: Engine) throws {
        let name = name ?? Self.fresh.withLock { count in
            count += 1
            return "policy-\(count)"
        }
        try pairs.noFleet(camelCase: camelCase)
        let number = try checked(camelCase: camelCase) { try engine.native.policy(name: name, pairs: pairs) }
        self.init(name, number, classify, engine)
    }

    /// A policy that the engine has.
    init(_ name: String, _ number: UInt32, _ classify: Classify?, _ engine: Engine) {
        (self.name, self.engine, self.number, self.classify) = (name, engine, number, classify)
        known = Locked(Self.kinds(engine, number))
    }

    /// The numbers of the names that `classify` may answer.
    var kinds: [Kind: UInt64] { known.withLock { $0 } }

    private static func kinds(_ engine: Engine, _ number: UInt32) -> [Kind: UInt64] {
        var kinds = Kind.numbers
        for (place, kind) in engine.native.kinds(policy: number).enumerated() {
            kinds[Kind(rawValue: kind.name)] = UInt64(place + 9)
        }
        return kinds
    }

    /// Asks for what is kept of settings, which have changed.
    func refresh() {
        let kinds = Self.kinds(engine, number)
        known.withLock { $0 = kinds }
    }

    /// Makes a call: as many attempts of `operation` as the policy allows and needs.
    ///
    /// When it returns, no attempt runs any more. Attempts are stopped by cancelling their task, and unwind before that; until then they
    /// keep their slot, at most 60 s, so that a limit counts what really runs. One that
    /// has a timer, and every repeat, runs in a task of its own, which inherits priority and task-local values.
    ///
    /// - Returns: What `operation` returned.
    /// - Throws: The error of `operation`, as it is, where there is one; else `Rejected`, `DeadlineExceeded`, `AttemptTimeout`,
    ///   `CostAboveBurst` or `CallLost`; `CancellationError` if the task is cancelled before an attempt.
    public func run<T: Sendable>(
        _ options: CallOptions = CallOptions(), _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        try await ended(options, operation).result.get()
    }

    /// The same, with what became of the call: how many attempts, and why there was no further one.
    public func ended<T: Sendable>(
        _ options: CallOptions = CallOptions(), _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<T> {
        let flags = (options.replayable ? Wire.replayable : 0) | (options.idempotent == false ? 0 : Wire.idempotent)
        var judge: Judge?
        if classify != nil { judge = { self.judge($0) } }
        return await make(options, flags: flags, operation: operation, judge: judge)
    }

    /// How a good value is looked at; nil where it is simply good.
    typealias Judge = @Sendable (Result<any Sendable, any Error>) -> UInt64

    /// A call with flags of its own.
    func make<T: Sendable>(
        _ options: CallOptions, flags: UInt64, path: String? = nil,
        operation: @escaping @Sendable (Attempt) async throws -> T, judge: Judge?
    ) async -> Ended<T> {
        if Task.isCancelled {
            return Ended(result: .failure(CancellationError()), report: Report(attempts: 0, reason: .cancelled), isOurs: true)
        }
        let key = options.route ?? "default"
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
        var route = self.route(key)
        var (call, step) = begin(route, path, &request)
        while step & 3 == Wire.done, Wire.verdict(step) == .staleRoute {
            routes.withLock { _ = $0.removeValue(forKey: key) }
            route = self.route(key)
            (call, step) = begin(route, path, &request)
        }
        engine.after(step)
        let run = Run(self, key, around, operation, judge)
        guard step & ~Wire.wakes == Wire.first else { return await run.drive(call, step) }
        return await run.first(call)
    }

    /// The deadline of a call that begins now, on the engine's clock.
    func ends(_ options: CallOptions) -> UInt64? {
        let spans = [span("deadline")?.microseconds, options.deadline?.microseconds, Scope.current?.left(engine)]
        return spans.compactMap { $0 }.min().map { engine.now() + UInt64(min(max($0, 0), 1e15)) }
    }

    private func begin(_ route: UInt64, _ path: String?, _ request: inout Request) -> (call: UInt64, step: UInt64) {
        if let path { request.target = engine.native.target(route: route, path: path, now: engine.now()) }
        return engine.begin(route, request)
    }

    /// Tells core that a fallback has stood in for an error, or was to.
    func noteFallback(_ key: String?, _ worked: Bool) {
        engine.native.noteFallback(route: route(key ?? "default"), ok: worked, now: engine.now())
        engine.publish()
    }

    private func route(_ key: String) -> UInt64 {
        if let known = routes.withLock({ $0[key] }) { return known }
        let route = engine.native.route(policy: number, key: key, now: engine.now())
        routes.withLock { routes in
            if routes.count >= 10_000 { routes.removeAll() }
            routes[key] = route
        }
        return route
    }

    /// Gives the policy other settings, while it is in use. They say all of it: what is left out has its default again. Calls in
    /// flight finish under the settings that they began with; limits and budgets, which calls share, change at once.
    ///
    /// - Throws: `PolicyError` with every mistake there is; the policy stays as it was.
    public func retune(_ settings: Settings) throws {
        var pairs = Pairs(preset: settings.preset != nil)
        settings.write(&pairs)
        try pairs.list.noFleet()
        try checked { try engine.native.retune(policy: number, name: name, pairs: pairs.list, now: engine.now()) }
        refresh()
        engine.wake()
        engine.publish()
    }

    /// Refuses all calls, or those of one route, before anything else is asked, until it is told `false`. Calls that wait are
    /// refused too, and those that have started finish without further attempts.
    public func forceOpen(_ on: Bool = true, route: String? = nil) {
        let which = route.map { engine.native.route(policy: number, key: $0, now: engine.now()) }
        engine.native.forceOpen(policy: number, route: which, on: on, now: engine.now())
        engine.wake()
        engine.publish()
    }

    /// What it does, in words: its components in their order, the most that a call waits and costs, and what may not be meant.
    public func explain() -> String {
        engine.native.explain(policy: number)
    }

    /// The number that is in force for a key; spans in microseconds.
    func setting(_ key: String) -> Double? {
        guard case .number(let value) = engine.native.setting(policy: number, key: key) else { return nil }
        return value
    }

    /// The word that is in force for a key.
    func word(_ key: String) -> String? {
        guard case .word(let value) = engine.native.setting(policy: number, key: key) else { return nil }
        return value
    }

    /// The span that is in force for a key.
    func span(_ key: String) -> Duration? {
        setting(key).map { .microseconds($0) }
    }
}

/// One component for several policies: one queue, one bucket or one budget for all their routes. Policies name it, and keep how long
/// they wait.
public final class Pool: Sendable {
    /// Its name, the same for all policies of the engine.
    public let name: String
    /// The engine that keeps its state, and that of its policies.
    public let engine: Engine

    /// - Throws: `PolicyError` with every mistake there is, or where the name is taken with other settings.
    public init(_ name: String, _ settings: PoolSettings, engine: Engine = .shared) throws {
        (self.name, self.engine) = (name, engine)
        let (kind, table, pairs) = settings.parts
        try pairs.list.noFleet()
        try checked {
            try engine.native.pool(name: name, kind: kind, pairs: pairs.without(table), now: engine.now())
        }
    }

    /// A pool that the engine has.
    init(_ taken: NamedPool, engine: Engine) {
        (name, self.engine) = (taken.name, engine)
    }

    /// Gives it other settings, all of them anew. What is counted stays counted, and a limit that grows admits waiters at once.
    ///
    /// - Throws: `PolicyError` with every mistake there is; the pool stays as it was.
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
