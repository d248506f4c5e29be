internal import TidegateNative

/// Metrics of an engine: the series of `docs/telemetry.md`. The engine starts counting when the first `Metrics` of it is made; before that
/// they cost nothing.
///
/// ```swift
/// let metrics = try Metrics(engine)
/// for series in metrics.read() where series.family.name == "tidegate_calls_total" {
///     print(series.labels, series.reading)
/// }
/// ```
public struct Metrics: Sendable {
    /// All series of one name.
    public struct Family: Sendable, Hashable {
        public enum Instrument: String, Sendable, Hashable, CaseIterable {
            /// Total that only grows.
            case counter
            /// Current value.
            case gauge
            /// Counts by `Metrics.bounds`, and a sum.
            case histogram
        }

        /// Name, the same for every backend and language.
        public let name: String
        public let instrument: Instrument
        /// Labels beside `policy` and `route`, which all families have.
        public let labels: [String]
        /// Meaning, in one sentence.
        public let meaning: String
    }

    /// Value of a series.
    public enum Reading: Sendable, Hashable {
        /// Value of a counter or a gauge.
        case number(Double)
        /// Number of values in each bucket: at most this one of `Metrics.bounds`, but above the one before. The last bucket has the values
        /// above all bounds. `sum` is in seconds.
        case histogram(counts: [UInt64], sum: Double)
    }

    /// One series.
    public struct Series: Sendable, Hashable {
        public let family: Family
        /// Names and values: `policy` (empty for a pool that policies share), `route` (its key, or `other`; for a pool its name), and those
        /// of the family, in this order.
        public let labels: [(name: String, value: String)]
        public let reading: Reading

        /// Value of a label.
        public subscript(_ label: String) -> String? { labels.first { $0.name == label }?.value }

        public static func == (one: Series, other: Series) -> Bool {
            one.family == other.family && one.reading == other.reading && one.labels.elementsEqual(other.labels, by: ==)
        }

        public func hash(into hasher: inout Hasher) {
            hasher.combine(family)
            hasher.combine(reading)
            for label in labels { hasher.combine(label.value) }
        }
    }

    /// The closed list of families.
    public static let families = metricFamilies().map { family in
        Family(
            name: family.name, instrument: Family.Instrument(rawValue: family.instrument) ?? .gauge, labels: family.labels,
            meaning: family.meaning)
    }
    /// The upper bounds of histograms, in seconds.
    public static let bounds = metricBounds()

    /// Engine to measure.
    public let engine: Engine

    /// Starts counting.
    ///
    /// - Parameter maxRoutes: Routes of each policy with series of their own, 0 to 10,000; all others share `other`. The first value for an
    ///   engine applies.
    /// - Throws: `PolicyError` if `maxRoutes` is out of range.
    public init(_ engine: Engine = .shared, maxRoutes: Int = 20) throws {
        guard 0...10_000 ~= maxRoutes else {
            throw PolicyError("maxRoutes", "\(maxRoutes)", "must be a whole number from 0 to 10,000")
        }
        self.engine = engine
        engine.native.measure(maxRoutes: UInt32(maxRoutes))
    }

    /// Reads all series.
    public func read() -> [Series] {
        engine.publish()
        return engine.native.series(now: engine.now()).map { series in
            let family = Self.families[Int(series.family)]
            let own = zip(family.labels, series.labels).map { (name: $0, value: $1) }
            let reading: Reading =
                switch series.reading {
                case .number(let value): .number(value)
                case .histogram(let counts, let sum): .histogram(counts: counts, sum: sum)
                }
            return Series(
                family: family, labels: [("policy", series.policy), ("route", series.route)] + own, reading: reading)
        }
    }

    /// Reads all series, in the text format that Prometheus scrapes.
    public func prometheus() -> String {
        var text = ""
        var family: Family?
        for series in read() {
            if series.family != family {
                family = series.family
                text += "# HELP \(series.family.name) \(series.family.meaning)\n"
                text += "# TYPE \(series.family.name) \(series.family.instrument.rawValue)\n"
            }
            line(series, &text)
        }
        return text
    }

    private func line(_ series: Series, _ text: inout String) {
        let labels = series.labels.map { "\($0.name)=\"\(escaped($0.value))\"" }.joined(separator: ",")
        let name = series.family.name
        switch series.reading {
        case .number(let value): text += "\(name){\(labels)} \(value)\n"
        case .histogram(let counts, let sum):
            var below: UInt64 = 0
            for (place, count) in counts.enumerated() {
                below += count
                let bound = place < Self.bounds.count ? "\(Self.bounds[place])" : "+Inf"
                text += "\(name)_bucket{\(labels),le=\"\(bound)\"} \(below)\n"
            }
            text += "\(name)_sum{\(labels)} \(sum)\n\(name)_count{\(labels)} \(below)\n"
        }
    }

    private func escaped(_ value: String) -> String {
        value.reduce(into: "") { text, character in
            switch character {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n", "\r\n": text += "\\n"
            default: text.append(character)
            }
        }
    }
}
