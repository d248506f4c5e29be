import TidegateNative

private let quantiles = 0.001...0.999

extension Parts {
    /// One quantile in constant memory (Jain and Chlamtac, 1985).
    ///
    /// ```swift
    /// let median = try Parts.P2Quantile(0.5)
    /// for latency in [0.02, 0.15, 0.74] { median.observe(latency) }
    /// ```
    public final class P2Quantile: Sendable {
        private let native: TidegateNative.P2Quantile

        /// - Parameter p: The quantile, 0.001 to 0.999.
        /// - Throws: `PolicyError` if it is out of range.
        public init(_ p: Double) throws { native = TidegateNative.P2Quantile(p: try within("p", p, quantiles)) }

        private init(_ native: TidegateNative.P2Quantile) { self.native = native }

        /// Takes in one value. NaN and the infinities are ignored.
        public func observe(_ x: Double) { native.observe(x: x) }
        /// The estimate; nil before the first value.
        public var estimate: Double? { native.estimate() }
        /// How many values have been taken in.
        public var count: UInt64 { native.count() }
        /// Heights of the five markers, and their ranks from 1; nil below five values.
        public var markers: (heights: [Double], ranks: [UInt64])? { native.markers().map { ($0.heights, $0.ranks) } }
        public func copy() -> P2Quantile { P2Quantile(native.copy()) }
    }

    /// One quantile of the last ½ to 1 windows, whatever came before.
    public final class WindowedP2Quantile: Sendable {
        private let native: TidegateNative.WindowedP2Quantile

        /// - Parameters:
        ///   - p: The quantile, 0.001 to 0.999.
        ///   - window: How many values are remembered at most; 10 to 2^32 − 1. An odd window is one value shorter.
        /// - Throws: `PolicyError` if one is out of range.
        public init(_ p: Double, window: Int) throws {
            let p = try within("p", p, quantiles)
            guard let window = UInt32(exactly: window), window >= 10 else {
                throw PolicyError("window", "\(window)", "must be a whole number from 10 to \(UInt32.max)")
            }
            native = TidegateNative.WindowedP2Quantile(p: p, window: window)
        }

        private init(_ native: TidegateNative.WindowedP2Quantile) { self.native = native }

        /// Takes in one value. NaN and the infinities are ignored.
        public func observe(_ x: Double) { native.observe(x: x) }
        /// The estimate; nil before the first value, exact below five.
        public var estimate: Double? { native.estimate() }
        /// How many values are behind the estimate.
        public var count: Int { Int(native.count()) }
        /// Forgets all values.
        public func reset() { native.reset() }
        public func copy() -> WindowedP2Quantile { WindowedP2Quantile(native.copy()) }
    }

    /// All quantiles within a relative accuracy, and sketches that can be merged (Masson, Rim and Lee, 2019): the same bins on every
    /// machine and in every language, at most 2,048 of them. A sketch is data: it compares, and encodes as its words.
    public final class DDSketch: Sendable, Equatable, Codable {
        private let native: TidegateNative.DdSketch

        /// - Parameter alpha: The relative accuracy, 0.001 to 0.25.
        /// - Throws: `PolicyError` if it is out of range.
        public init(alpha: Double = 0.01) throws {
            native = TidegateNative.DdSketch(alpha: try within("alpha", alpha, 0.001...0.25))
        }

        /// The sketch that these words are: `words` of one in any language.
        ///
        /// - Throws: `PolicyError` if they are none; with the rule that they break.
        public init(words: [UInt64]) throws {
            native = try checked { try TidegateNative.DdSketch.fromWords(words: words) }
        }

        public convenience init(from decoder: any Decoder) throws {
            try self.init(words: [UInt64](from: decoder))
        }

        private init(_ native: TidegateNative.DdSketch) { self.native = native }

        public func encode(to encoder: any Encoder) throws { try words.encode(to: encoder) }
        /// Whole numbers of 64 bits: five, and one for each bin that holds values. Exact.
        public var words: [UInt64] { native.toWords() }
        /// Takes in one value. NaN and the infinities are ignored; a negative value counts as zero.
        public func add(_ x: Double) { native.add(x: x) }
        /// Takes in all that another sketch holds, as if each of its values had been added here.
        ///
        /// - Throws: `PolicyError` if the other has another `alpha`, or the two hold more than 2^53 − 1 values. Neither has changed.
        public func merge(_ other: DDSketch) throws { try checked { try native.merge(other: other.native) } }
        /// What stands for the value of rank ⌊q·(count − 1)⌋, from 0 on: 0 is the least, 1 the greatest. Those two are exact, all others
        /// within `alpha` of the true value. Nil of an empty sketch.
        ///
        /// - Throws: `PolicyError` if `q` is not from 0 to 1.
        public func quantile(_ q: Double) throws -> Double? { native.quantile(q: try within("q", q, 0...1)) }
        /// How many values have been taken in.
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
        public func copy() -> DDSketch { DDSketch(native.copy()) }
        public static func == (one: DDSketch, other: DDSketch) -> Bool { one.native.equals(other: other.native) }
    }
}
