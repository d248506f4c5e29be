import Foundation

/// What calls inherit from around them.
final class Scope: Sendable {
    @TaskLocal static var current: Scope?

    /// The call that runs here.
    let engine: Engine?
    let call: UInt64
    /// The deadline that holds here, on every clock there is.
    let ends: Ends?
    let criticality: Criticality?
    let around: Scope?

    init(engine: Engine?, call: UInt64, ends: Ends? = nil, criticality: Criticality? = nil, around: Scope?) {
        self.engine = engine
        self.call = call
        self.ends = ends
        self.criticality = criticality
        self.around = around
    }

    /// One moment: on the platform's clock, and on those that have been injected.
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

    private var deepest: Ends? { ends ?? around?.deepest }

    /// Microseconds left on an engine's clock; nil where there is no deadline.
    func left(_ engine: Engine) -> Double? { deepest?.left(engine) }

    /// What a call takes from around it: time left (0 none), the call it is made in (0 none), how much it matters.
    func inherited(_ engine: Engine) -> (remaining: UInt64, parent: UInt64, criticality: Criticality?) {
        var parent: UInt64 = 0
        var criticality: Criticality?
        var level: Scope? = self
        while let scope = level {
            if parent == 0, scope.engine === engine { parent = scope.call }
            criticality = criticality ?? scope.criticality
            level = scope.around
        }
        return (deepest.map { Wire.remaining($0.left(engine)) } ?? 0, parent, criticality)
    }

    /// A scope with a deadline from here on; the earlier of nested ones wins.
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

/// Every call that is made inside ends by the deadline, in whatever policy; the earlier of nested deadlines wins.
///
/// It follows task-local values: child tasks and `Task { }` have it, detached tasks do not. Zero or less refuses every call.
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

/// Every call that is made inside matters this much where queues have to choose, unless it says otherwise.
public func withCriticality<T>(
    _ criticality: Criticality, isolation: isolated (any Actor)? = #isolation, _ work: () async throws -> T
) async rethrows -> T {
    try await Scope.$current.withValue(.bounded(nil, criticality), operation: work)
}
