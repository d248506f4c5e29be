// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

internal import TidegateNative

extension Parts {
    /// One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).
    ///
    /// Jain and Chlamtac, CACM 28(10), 1985. 88 bytes, whatever the number of values; there is no forgetting. Exact below five values; a
    /// quantile far from the middle is estimated too low (or high) until some 3 ÷ (1 − p) values have moved the marker to its place.
    ///
    /// ```swift
    /// let median = try Parts.P2Quantile(0.5)
    /// for latency in [0.02, 0.15, 0.74] { median.observe(latency) }
    /// ```
    public final class P2Quantile: Sendable {
        let native: TidegateNative.P2Quantile

        /// - Parameter p: The quantile, 0.001 to 0.999; 0.5 is the median.
        /// - Throws: `PolicyError` if one is out of range.
        public init(_ p: Double) throws {
            native = TidegateNative.P2Quantile(p: try within("p", p, 0.001...0.999))
        }

        private init(_ native: TidegateNative.P2Quantile) { self.native = native }

        /// Adds one value. NaN and the infinities are ignored.
        public func observe(_ x: Double) { native.observe(x: x) }
        /// The estimate; nil before the first value.
        public var estimate: Double? { native.estimate() }
        /// Number of values.
        public var count: UInt64 { native.count() }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> P2Quantile { P2Quantile(native.copy()) }
    }

    /// One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).
    ///
    /// Two overlapping `P2Quantile`s, so that old values are forgotten and there is always an answer.
    public final class WindowedP2Quantile: Sendable {
        let native: TidegateNative.WindowedP2Quantile

        /// - Parameter p: The quantile, 0.001 to 0.999; 0.5 is the median.
        /// - Parameter window: How many values are remembered at most; 10 to 2^32 − 1. An odd window is one value shorter.
        /// - Throws: `PolicyError` if one is out of range.
        public init(_ p: Double, window: Int) throws {
            native = TidegateNative.WindowedP2Quantile(p: try within("p", p, 0.001...0.999), window: try whole("window", window, from: 10))
        }

        private init(_ native: TidegateNative.WindowedP2Quantile) { self.native = native }

        /// Adds one value. NaN and the infinities are ignored.
        public func observe(_ x: Double) { native.observe(x: x) }
        /// The estimate; nil before the first value, exact below five.
        public var estimate: Double? { native.estimate() }
        /// Number of values behind the estimate.
        public var count: Int { Int(native.count()) }
        /// Forgets all values.
        public func reset() { native.reset() }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> WindowedP2Quantile { WindowedP2Quantile(native.copy()) }
    }

    /// All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).
    ///
    /// Masson, Rim and Lee, VLDB 2019, with integer arithmetic: the same bins on every machine and in every language. At most 2,048 bins,
    /// 16 KiB; a negative value counts as zero. A sketch is data: equal ones compare equal, and it can be sent as words.
    public final class DDSketch: Sendable, Equatable, Codable {
        let native: TidegateNative.DdSketch

        /// - Parameter alpha: The relative accuracy, 0.001 to 0.25; by default 0.01, so 1 %.
        /// - Throws: `PolicyError` if one is out of range.
        public init(alpha: Double = 0.01) throws {
            native = TidegateNative.DdSketch(alpha: try within("alpha", alpha, 0.001...0.25))
        }

        private init(_ native: TidegateNative.DdSketch) { self.native = native }

        /// Adds one value. NaN and the infinities are ignored.
        public func add(_ x: Double) { native.add(x: x) }
        /// Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
        ///
        /// Those two are exact, all others within `alpha` of the true value, relative to it. Nil of an empty sketch. `q` is 0 to 1.
        ///
        /// - Throws: `PolicyError` if `q` is outside its range.
        public func quantile(_ q: Double) throws -> Double? { native.quantile(q: try within("q", q, 0.0...1.0)) }
        /// Number of values.
        public var count: UInt64 { native.count() }
        /// The sum of the values, in the order in which they came.
        public var sum: Double { native.sum() }
        /// The least value, exactly; nil of an empty sketch.
        public var min: Double? { native.min() }
        /// The greatest value, exactly; nil of an empty sketch.
        public var max: Double? { native.max() }
        /// The relative accuracy that is kept: at most what was asked for.
        public var alpha: Double { native.alpha() }
        /// (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged.
        public var gamma: Double { native.gamma() }
        /// Forgets all values and keeps the accuracy.
        public func clear() { native.clear() }
        /// Takes in all that another sketch holds, as if each of its values had been added here.
        ///
        /// - Throws: `PolicyError` if the other has another `alpha`, or the two hold more than 2^53 − 1 values. Neither has changed.
        public func merge(_ other: DDSketch) throws { try checked { try native.merge(other: other.native) } }
        /// The sketch that these words are: `words` of one in any language.
        ///
        /// - Throws: `PolicyError` if they are none; with the rule that they break.
        public init(words: [UInt64]) throws {
            native = try checked { try TidegateNative.DdSketch.fromWords(words: words) }
        }
        public convenience init(from decoder: any Decoder) throws {
            try self.init(words: [UInt64](from: decoder))
        }
        public func encode(to encoder: any Encoder) throws { try words.encode(to: encoder) }
        /// Whole numbers of 64 bits: five, and one for each bin that holds values. Exact.
        public var words: [UInt64] { native.toWords() }
        public static func == (one: DDSketch, other: DDSketch) -> Bool { one.native.equals(other: other.native) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> DDSketch { DDSketch(native.copy()) }
    }
}
