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
        var platform: UInt64
        var others: [ObjectIdentifier: UInt64]

        /// Microseconds left on an engine's clock.
        func left(_ engine: Engine) -> Double {
            let now = Double(engine.now())
            if !engine.isInjected { return Double(platform) - now }
            return others[ObjectIdentifier(engine)].map { Double($0) - now } ?? 1e15
        }
    }

    /// Target of the innermost attempt that has one.
    var target: String? { own ?? around?.target }

    /// The call that runs here, the nearest one.
    var call: (engine: Engine, id: UInt64)? { engine.map { ($0, id) } ?? around?.call }

    private var deepest: Ends? { ends ?? around?.deepest }

    /// Microseconds left on an engine's clock; nil where there is no deadline.
    func left(_ engine: Engine) -> Double? { deepest?.left(engine) }

    /// Context that a call inherits: time left (0 for no limit), surrounding call (0 for none), criticality.
    func inherited(_ engine: Engine) -> (remaining: UInt64, parent: UInt64, criticality: Criticality?) {
        var parent: UInt64 = 0
        var criticality: Criticality?
        var level: Scope? = self
        while let scope = level {
            if parent == 0, scope.engine === engine { parent = scope.id }
            criticality = criticality ?? scope.criticality
            level = scope.around
        }
        return (deepest.map { Wire.remaining($0.left(engine)) } ?? 0, parent, criticality)
    }

    /// Scope with a deadline from now on; the earlier of nested ones wins.
    static func bounded(_ deadline: Duration?, _ criticality: Criticality?) -> Scope {
        let around = current
        guard let deadline else {
            return Scope(engine: nil, call: 0, criticality: criticality, around: around)
        }
        let us = UInt64(min(max(deadline.microseconds, 0), 1e15))
        let outer = around?.deepest
        var ends = Ends(platform: Timebase.platform.now() + us, others: outer?.others ?? [:])
        ends.platform = min(ends.platform, outer?.platform ?? .max)
        for engine in Engine.injected() {
            let id = ObjectIdentifier(engine)
            ends.others[id] = min(engine.now() + us, ends.others[id] ?? .max)
        }
        return Scope(engine: nil, call: 0, ends: ends, criticality: criticality, around: around)
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
