#if canImport(FoundationNetworking)
import FoundationNetworking
#else
import Foundation
#endif

/// Call that a report is about. It takes no part in comparisons.
struct Origin: Sendable, Hashable, CustomReflectable, CustomStringConvertible {
    static let none = Origin(call: 0, engine: nil)

    let call: UInt64
    private let owner: WeakEngine?
    var engine: Engine? { owner?.engine }

    init(call: UInt64, engine: Engine?) {
        (self.call, owner) = (call, engine?.itself)
    }

    static func == (one: Origin, other: Origin) -> Bool { true }

    func hash(into hasher: inout Hasher) {}

    /// Without the engine, whose state would be printed with every report.
    var customMirror: Mirror { Mirror(self, children: []) }

    var description: String { "call \(call)" }
}

/// A weak reference to an engine, which all origins of its calls share: each value with a weak reference of its own is expensive to copy.
///
/// Unchecked: the engine sets it once, as it is made, and Swift reads weak references atomically.
final class WeakEngine: @unchecked Sendable {
    weak var engine: Engine?
}

/// The last calls that have thrown an error or returned a failed response, so that these can be explained. Objects are kept weakly.
struct Failures: Sendable {
    private enum Kept: Sendable {
        case value(any Error)
        case object(Weak)
    }

    /// Unchecked: a reference to an error or a response, both of which are `Sendable`.
    private struct Weak: @unchecked Sendable {
        weak var object: AnyObject?
    }

    static let most = 64
    private var all: [(of: Kept, report: Report)] = []
    private var next = 0

    /// Returns what it replaces. Releasing that may run code of the user, which the caller must not do under a lock.
    mutating func add(_ of: Delivered, _ report: Report) -> Any? {
        let kept: Kept
        switch of {
        case .response(let response): kept = .object(Weak(object: response))
        case .error(let error) where type(of: error) is AnyObject.Type: kept = .object(Weak(object: error as AnyObject))
        case .error(let error): kept = .value(error)
        case .value: return nil
        }
        let replaced = all.count < Self.most ? nil : all[next]
        if all.count < Self.most { all.append((kept, report)) } else { all[next] = (kept, report) }
        next = (next + 1) % Self.most
        return replaced
    }

    /// Report of the last call that has delivered this.
    func report(of: Delivered) -> Report? {
        for step in 1...Self.most {
            let place = (next - step + 2 * Self.most) % Self.most
            guard place < all.count else { continue }
            switch (all[place].of, of) {
            case (.value(let error), .error(let other)) where Delivered.isSame(error, other): return all[place].report
            case (.object(let kept), .error(let error)) where type(of: error) is AnyObject.Type:
                if kept.object === error as AnyObject { return all[place].report }
            case (.object(let kept), .response(let response)) where kept.object === response: return all[place].report
            default: continue
            }
        }
        return nil
    }
}

extension Engine {
    /// Report of the last call under this engine that has thrown this error; nil if there is none, or 64 later calls have failed.
    ///
    /// An error of Swift cannot carry a report. So the engine keeps the errors of its last 64 failed calls, objects among them weakly. With
    /// `Engine(history: 0)` it keeps none.
    public func report(of error: any Error) -> Report? {
        // Comparing errors runs code of the user, so it does so under no lock.
        failures.withLock { $0 }.report(of: .error(error))
    }

    /// Report of the call under this engine that has returned this failed response; nil as for an error.
    public func report(of response: URLResponse) -> Report? {
        failures.withLock { $0 }.report(of: .response(response))
    }
}

extension Policy {
    /// Report of the last call under the policy's engine that has thrown this error; see `Engine.report(of:)`.
    public func report(of error: any Error) -> Report? { engine.report(of: error) }

    /// Report of the call under the policy's engine that has returned this failed response; see `Engine.report(of:)`.
    public func report(of response: URLResponse) -> Report? { engine.report(of: response) }
}

extension Engine {
    /// A call, for its report; none if the engine could not explain it.
    func origin(of call: UInt64) -> Origin {
        history > 0 || journals != nil ? Origin(call: call, engine: self) : .none
    }

    /// Remembers the report of a call whose caller gets none, for `report(of:)`, if the call has not just worked.
    fileprivate func remember(_ report: Report, of result: @autoclosure () -> Result<any Sendable, any Error>) {
        guard report.reason != .ok, history > 0, let of = Delivered(result()) else { return }
        _ = failures.withLock { $0.add(of, report) }
    }
}

extension Ended {
    /// Result for a caller who gets no report.
    func delivered(by engine: Engine) throws -> Value {
        engine.remember(report, of: result.map { $0 as any Sendable })
        return try result.get()
    }
}

extension Ended<any Kept> {
    /// The same for a caller who knows the type of the value.
    func delivered<T: Sendable>(by engine: Engine, as _: T.Type) throws -> T {
        engine.remember(report, of: plain(result))
        return (try result.get() as! KeptValue<T>).value
    }
}

extension Report {
    /// Explains why the call ended as it did: each retry with its wait, the decision, and the limits as they are now. It contains no path, no
    /// query and no text of an error.
    ///
    /// - Returns: Nil for a call that just worked, if later calls have filled the engine's history, or if the engine keeps none.
    public func explain() -> CallExplanation? {
        origin.engine?.explain(call: origin.call)
    }
}

extension TidegateError {
    /// Explains why the call ended as it did; see `Report.explain`.
    public func explain() -> CallExplanation? {
        details.origin.engine?.explain(call: details.origin.call)
    }
}
