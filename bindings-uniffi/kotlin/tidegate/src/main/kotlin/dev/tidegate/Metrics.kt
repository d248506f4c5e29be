package dev.tidegate

import dev.tidegate.ffi.Reading
import dev.tidegate.ffi.metricBounds
import dev.tidegate.ffi.metricFamilies
import dev.tidegate.internal.Library
import java.util.Collections
import java.util.concurrent.ConcurrentHashMap

/**
 * All series of one name (`docs/telemetry.md`).
 *
 * @property name Name, the same in every language.
 * @property instrument Kind of the metric.
 * @property labels Labels beside `policy` and `route`, which all families have.
 * @property meaning Meaning, in one sentence.
 */
public class MetricFamily internal constructor(
    public val name: String,
    public val instrument: Instrument,
    public val labels: List<String>,
    public val meaning: String,
) {
    /** Kind of a metric. */
    public enum class Instrument {
        /** Total that only grows. */
        COUNTER,

        /** Current value. */
        GAUGE,

        /** Counts by [Metrics.bounds], and a sum. */
        HISTOGRAM,
    }

    /** Its name without the words for its unit, and whether that unit is seconds. */
    internal val base: String = name.removeSuffix("_total").removeSuffix("_seconds")
    internal val isSeconds: Boolean = name.removeSuffix("_total").endsWith("_seconds")

    override fun toString(): String = name
}

/**
 * Counts of a histogram.
 *
 * @property counts Number of values in each bucket: at most this one of [Metrics.bounds], but above the one before. The last bucket has the
 * values above all bounds.
 * @property sum Sum of all values, in seconds.
 */
public class Histogram internal constructor(public val counts: List<Long>, public val sum: Double)

/**
 * One series.
 *
 * @property family Family of the series.
 * @property labels Values of the labels, by name. The first `maxRoutes` routes of a policy have series of their own; all others share
 * `other`.
 * @property value Value of a counter or a gauge; for a histogram the number of values.
 * @property histogram Counts of a histogram; null for other kinds.
 */
public class Series internal constructor(
    public val family: MetricFamily,
    public val labels: Map<String, String>,
    public val value: Double,
    public val histogram: Histogram?,
)

/**
 * Metrics of an engine. The engine starts counting when the first `Metrics` of it is made. For Micrometer use
 * [dev.tidegate.micrometer.TidegateMetrics], for OpenTelemetry [dev.tidegate.opentelemetry.instrument].
 *
 * ```kotlin
 * val metrics = Metrics()
 * val calls = metrics.read().filter { it.family.name == "tidegate_calls_total" }.sumOf { it.value }
 * ```
 *
 * @property engine Engine to measure.
 * @param maxRoutes Routes of each policy with series of their own, 0 to 10,000. The first value for an engine applies.
 * @throws IllegalArgumentException if [maxRoutes] is out of range.
 */
public class Metrics @JvmOverloads constructor(public val engine: Engine = Engine.default, maxRoutes: Int = 20) {
    init {
        require(maxRoutes in 0..10_000) { "maxRoutes = $maxRoutes: must be from 0 to 10000" }
        engine.native.engine.measure(maxRoutes.toUInt())
    }

    /** Reads all series. */
    public fun read(): List<Series> = engine.native.engine.series(engine.now().toULong()).map { one ->
        val family = families[one.family.toInt()]
        val labels = mapOf("policy" to one.policy, "route" to one.route) + family.labels.zip(one.labels)
        when (val reading = one.reading) {
            is Reading.Number -> Series(family, labels, reading.value, null)
            is Reading.Histogram -> {
                val counts = reading.counts.map { it.toLong() }
                Series(family, labels, counts.sum().toDouble(), Histogram(counts, reading.sum))
            }
        }
    }

    public companion object {
        /** All families: a closed list. */
        @JvmStatic
        public val families: List<MetricFamily> by lazy {
            Library.loaded(::metricFamilies).map {
                MetricFamily(it.name, MetricFamily.Instrument.valueOf(it.instrument.uppercase()), it.labels, it.meaning)
            }
        }

        /** The upper bounds of histograms, in seconds. */
        @JvmStatic
        public val bounds: List<Double> by lazy { Library.loaded(::metricBounds) }
    }
}

/** Policy and route that a duration belongs to. */
internal class Measured(val policy: String, val route: String) {
    private val hash = 31 * policy.hashCode() + route.hashCode()

    override fun hashCode(): Int = hash

    override fun equals(other: Any?): Boolean = this === other || other is Measured && policy == other.policy && route == other.route
}

/** Receives single durations, for the histograms of another library. */
internal fun interface Timed {
    fun time(family: MetricFamily, of: Measured, us: Long)
}

/** Buffer of a thread for durations, and the labels of the last one: most calls of a thread have the same route. */
internal class Spans {
    /** Four numbers for each duration. */
    val words = LongArray(4 * Timings.MOST)
    private var timings: Timings? = null
    private var route = 0L
    private var last: Measured? = null

    fun of(timings: Timings, route: Long): Measured? = if (this.timings === timings && this.route == route) last else null

    fun keep(timings: Timings, route: Long, of: Measured) {
        this.timings = timings
        this.route = route
        last = of
    }
}

/** Passes single durations on as numbers, which JNI carries. An event for each call would cost two hundred times as much. */
internal class Timings(private val engine: Engine) {
    /** Replaced as a whole, so that a call creates no iterator. */
    @Volatile var sinks: List<Timed> = Collections.emptyList()
    private val labels = ConcurrentHashMap<Long, Measured>()

    fun handOn() {
        val sinks = sinks
        if (sinks.isEmpty()) return
        val here = Scope.here()
        val spans = here.takeSpans()
        val words = spans.words
        do {
            val count = engine.native.timings(engine.native.handle, words)
            var at = 0
            while (at < 4 * count) {
                val of = spans.of(this, words[at + 1]) ?: labels(words[at], words[at + 1]).also { spans.keep(this, words[at + 1], it) }
                val family = Metrics.families[words[at + 2].toInt()]
                for (place in sinks.indices) guarded { sinks[place].time(family, of, words[at + 3]) }
                at += 4
            }
        } while (count == MOST)
        here.giveSpans(spans)
    }

    private fun labels(policy: Long, route: Long): Measured {
        labels[route]?.let { return it }
        if (labels.size >= MOST_ROUTES) labels.clear()
        val made = Measured(engine.nameOf(policy), engine.native.engine.label(policy.toUInt(), route.toULong()))
        return made.also { labels[route] = it }
    }

    companion object {
        /** Durations taken at once. */
        const val MOST = 16
        private const val MOST_ROUTES = 10_000
    }
}
