import Foundation

/// Context that calls inherit.
final class Scope: Sendable {
    @TaskLocal static var current: Scope?

    /// Engine of the call that runs here.
    let engine: Engine?
    let id: UInt64
    /// Deadline that applies here, on every clock.
    let ends: Ends?
    let criticality: Criticality?
    let around: Scope?
    /// Target of the attempt that runs here, if it has one.
    private let own: String?

    init(
        engine: Engine?, call: UInt64, ends: Ends? = nil, criticality: Criticality? = nil, around: Scope?, target: String? = nil
    ) {
        self.engine = engine
        own = target
        id = call
        self.ends = ends
        self.criticality = criticality
        self.around = around
    }

    /// One moment on the platform's clock, and on every injected clock.
    struct Ends: Sendable {
        struct Other: Sendable {
            let clock: ClockIdentity
            let now: @Sendable () -> UInt64
            var end: UInt64
        }

        var platform: UInt64
        var others: [Other]

        /// Microseconds left on an engine's clock; nil if no engine had that clock when the deadline was set.
        func left(_ engine: Engine) -> Double? {
            guard let clock = engine.clock else { return Double(platform) - Double(engine.now()) }
            return others.first { $0.clock == clock }.map { Double($0.end) - Double($0.now()) }
        }
    }

    /// Target of the innermost attempt that has one.
    var target: String? { own ?? around?.target }

    /// The call that runs here, the nearest one.
    var call: (engine: Engine, id: UInt64)? { engine.map { ($0, id) } ?? around?.call }

    private var deepest: Ends? { ends ?? around?.deepest }

    /// Microseconds left on an engine's clock; nil where there is no deadline.
    func left(_ engine: Engine) -> Double? {
        var least = deepest.flatMap { $0.left(engine) }
        for scope in levels {
            if let left = scope.callLeft(engine) { least = min(left, least ?? left) }
        }
        return least
    }

    /// Microseconds until the deadline of the call that runs here; nil without one, for a call that has ended, and for a call on another
    /// clock than this engine's.
    private func callLeft(_ of: Engine) -> Double? {
        guard let engine, engine === of || (engine.clock ?? .platform) == (of.clock ?? .platform) else { return nil }
        return engine.native.callTimeLeft(call: id, now: engine.now()).map { Double($0) }
    }

    /// This scope and those around it, innermost first.
    private var levels: some Sequence<Scope> { sequence(first: self, next: \.around) }

    /// Context that a call inherits: time left (0 for no limit), surrounding call (0 for none), criticality.
    ///
    /// Core knows the deadlines of the calls around of its own engine. Those of other engines' calls on the same clock are passed with the
    /// time left (semantics 7.3.3).
    func inherited(_ engine: Engine) -> (remaining: UInt64, parent: UInt64, criticality: Criticality?) {
        var parent: UInt64 = 0
        var criticality: Criticality?
        var least = deepest.flatMap { $0.left(engine) }
        for scope in levels {
            if scope.engine === engine {
                if parent == 0 { parent = scope.id }
            } else if let left = scope.callLeft(engine) {
                least = min(left, least ?? left)
            }
            criticality = criticality ?? scope.criticality
        }
        return (least.map(Wire.remaining) ?? 0, parent, criticality)
    }

    /// Scope with a deadline from now on; the earlier of nested ones wins.
    static func bounded(_ deadline: Duration?, _ criticality: Criticality?) -> Scope {
        let around = current
        guard let deadline else {
            return Scope(engine: nil, call: 0, criticality: criticality, around: around)
        }
        let us = UInt64(min(max(deadline.microseconds, 0), 1e15))
        let outer = around?.deepest
        var ends = Ends(platform: Timebase.platform.now() + us, others: outer?.others ?? [])
        ends.platform = min(ends.platform, outer?.platform ?? .max)
        for engine in Engine.injected() {
            guard let clock = engine.clock else { continue }
            if let place = ends.others.firstIndex(where: { $0.clock == clock }) {
                ends.others[place].end = min(ends.others[place].now() + us, ends.others[place].end)
            } else {
                ends.others.append(Ends.Other(clock: clock, now: engine.now, end: engine.now() + us))
            }
        }
        return Scope(engine: nil, call: 0, ends: ends, criticality: criticality, around: around)
    }
}

extension Engine {
    /// Runs the operation as this attempt of a call, in the context that calls inside inherit.
    @inline(__always)
    func attempt<T: Sendable>(
        _ number: Int, of call: UInt64, _ around: Scope?, _ us: UInt64?, _ target: String?,
        _ operation: @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        let attempt = Attempt(
            number: number, remaining: us.map { .microseconds($0) }, target: target, origin: Origin(call: call, engine: self))
        return try await Scope.$current.withValue(Scope(engine: self, call: call, around: around, target: target)) {
            try await operation(attempt)
        }
    }
}

/// Every call that is made inside, under any policy, ends by the deadline. The earlier of nested deadlines wins.
///
/// The deadline is a task-local value: child tasks and `Task { }` inherit it, detached tasks do not. Zero or less refuses every call.
///
/// ```swift
/// try await withDeadline(.seconds(2)) { try await payments.run { _ in try await charge() } }
/// ```
public func withDeadline<T>(
    _ deadline: Duration, criticality: Criticality? = nil, isolation: isolated (any Actor)? = #isolation,
    _ work: () async throws -> T
) async rethrows -> T {
    try await Scope.$current.withValue(.bounded(deadline, criticality), operation: work)
}

/// Sets the importance, where queues have to choose, of every call made inside without one of its own.
public func withCriticality<T>(
    _ criticality: Criticality, isolation: isolated (any Actor)? = #isolation, _ work: () async throws -> T
) async rethrows -> T {
    try await Scope.$current.withValue(.bounded(nil, criticality), operation: work)
}
