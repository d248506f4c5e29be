import Foundation
internal import TidegateNative

/// A bound that can be switched off.
public enum Bound<Value: Sendable & Hashable>: Sendable, Hashable {
    /// At most this value, or at most this long.
    case at(Value)
    /// No bound.
    case unbounded
}

extension Bound: ExpressibleByIntegerLiteral where Value: ExpressibleByIntegerLiteral {
    public init(integerLiteral value: Value.IntegerLiteralType) {
        self = .at(Value(integerLiteral: value))
    }
}

extension Bound: ExpressibleByFloatLiteral where Value: ExpressibleByFloatLiteral {
    public init(floatLiteral value: Value.FloatLiteralType) {
        self = .at(Value(floatLiteral: value))
    }
}

extension Bound where Value == Duration {
    /// At most this number of seconds.
    public static func seconds(_ seconds: Double) -> Self { .at(.seconds(seconds)) }
    /// At most this number of milliseconds.
    public static func milliseconds(_ milliseconds: Double) -> Self { .at(.milliseconds(milliseconds)) }
}

extension Duration {
    /// Microseconds, core's unit of time.
    var microseconds: Double {
        // `components` ends the process for more seconds than an `Int64` has.
        if self >= .seconds(Int64.max) { return 0x1p63 * 1e6 }
        if self <= .seconds(Int64.min) { return -0x1p63 * 1e6 }
        let (seconds, attoseconds) = components
        return Double(seconds) * 1e6 + Double(attoseconds) / 1e12
    }

    static func microseconds(_ us: UInt64) -> Duration {
        .microseconds(Int64(clamping: us))
    }
}

extension [Pair] {
    /// Rejects settings that need a fleet's shared store. Swift has no host for one, and without a host core would always decide by
    /// `onLoss`, which is never intended.
    func noFleet(camelCase: Bool = true) throws {
        let named = camelCase ? PolicyError.camel : { $0 }
        let wrong = filter { $0.key.hasSuffix("store") && $0.value == .word(value: "fleet") }
        if wrong.isEmpty { return }
        let rule = "must be local: the Swift package has no host for a fleet's store (docs/swift.md, \"Fleets\")"
        throw PolicyError(wrong.map { PolicyError.Mistake(key: named($0.key), value: "fleet", rule: rule) })
    }
}

/// Settings as core takes them.
struct Pairs: Sendable {
    private(set) var list: [Pair] = []
    /// Whether the settings start from a preset.
    var preset: Bool
    var count: Int { list.count }

    mutating func add(_ key: String, _ value: TidegateNative.Value) {
        list.append(Pair(key: key, value: value))
    }

    mutating func add(_ key: String, number: Double?) {
        if let number { add(key, .number(value: number)) }
    }

    mutating func add(_ key: String, _ count: Int?) { add(key, number: count.map(Double.init)) }
    mutating func add(_ key: String, _ real: Double?) { add(key, number: real) }
    mutating func add(_ key: String, _ flag: Bool?) { add(key, number: flag.map { $0 ? 1 : 0 }) }
    mutating func add(_ key: String, _ span: Duration?) { add(key, number: span?.microseconds.rounded()) }
    mutating func add(_ key: String, _ name: String?) {
        if let name { add(key, .word(value: name)) }
    }

    mutating func add<Choice: RawRepresentable>(_ key: String, _ choice: Choice?) where Choice.RawValue == String {
        add(key, choice?.rawValue)
    }

    mutating func add(_ key: String, _ bound: Bound<Int>?) { add(key, bound) { Double($0) } }
    mutating func add(_ key: String, _ bound: Bound<Double>?) { add(key, bound) { $0 } }
    mutating func add(_ key: String, _ bound: Bound<Duration>?) { add(key, bound) { $0.microseconds.rounded() } }

    private mutating func add<V>(_ key: String, _ bound: Bound<V>?, _ number: (V) -> Double) {
        switch bound {
        case .at(let value): add(key, number: number(value))
        case .unbounded: add(key, "none")
        case nil: break
        }
    }

    mutating func add(_ key: String, _ words: [String]?) {
        guard let words else { return }
        if words.isEmpty { add(key, "") }
        for word in words { add(key, word) }
    }

    mutating func add(_ key: String, _ counts: [Int]?) {
        guard let counts else { return }
        if counts.isEmpty { add(key, "") }
        for count in counts { add(key, count) }
    }

    /// Adds kinds in the order of their names, which is the order of their numbers.
    mutating func add(_ key: String, _ kinds: [String: Base]?) {
        guard let kinds else { return }
        if kinds.isEmpty { add(key, "") }
        for (name, base) in kinds.sorted(by: { $0.key < $1.key }) { add(key, "\(name)=\(base.rawValue)") }
    }

    /// Adds a component that is present although all its keys are left to core.
    mutating func present(since before: Int, _ key: String, _ value: TidegateNative.Value, inPresets: Bool) {
        if count == before && !(preset && inPresets) { add(key, value) }
    }

    /// Pairs for a pool, whose keys do not have the name of their table.
    func without(_ table: String) -> [Pair] {
        list.map { pair in
            Pair(key: pair.key.hasPrefix(table) ? String(pair.key.dropFirst(table.count)) : pair.key, value: pair.value)
        }
    }
}
