package dev.tidegate

import dev.tidegate.ffi.Reading
import dev.tidegate.ffi.metricBounds
import dev.tidegate.ffi.metricFamilies
import dev.tidegate.internal.Library
import java.util.concurrent.ConcurrentHashMap

/**
 * All series of one name (`docs/telemetry.md`).
 *
 * @property name Its name, the same in every language.
 * @property instrument What kind of figure it is.
 * @property labels Its labels beside `policy` and `route`, which all have.
 * @property meaning What it says, in one sentence.
 */
public class MetricFamily internal constructor(
    public val name: String,
    public val instrument: Instrument,
    public val labels: List<String>,
    public val meaning: String,
) {
    /** What kind of figure a metric is. */
    public enum class Instrument {
        /** Only ever grows. */
        COUNTER,

        /** A level. */
        GAUGE,

        /** Counts by [Metrics.bounds], and a sum. */
        HISTOGRAM,
    }

    /** Its name without the words for its unit, and whether that unit is seconds. */
    internal val base: String = name.removeSuffix("_total").removeSuffix("_seconds")
    internal val isSeconds: Boolean = name.endsWith("_seconds")

    override fun toString(): String = name
}

/**
 * What a histogram has counted.
 *
 * @property counts How many values were at most each of [Metrics.bounds] but more than the one before, and at the end how many
 * were more.
 * @property sum Of all values, in seconds.
 */
public class Histogram internal constructor(public val counts: List<Long>, public val sum: Double)

/**
 * One series.
 *
 * @property family What it is one of.
 * @property labels Their values by name. The first `maxRoutes` routes of a policy have their own, all others share `other`.
 * @property value A counter's or a gauge's; how many values a histogram has.
 * @property histogram A histogram's counts; null for others.
 */
public class Series internal constructor(
    public val family: MetricFamily,
    public val labels: Map<String, String>,
    public val value: Double,
    public val histogram: Histogram?,
)

/**
 * The metrics of an engine, pulled: it counts from the moment on that the first of these is made, and not before. For
 * Micrometer there is [dev.tidegate.micrometer.TidegateMetrics], for OpenTelemetry [dev.tidegate.opentelemetry.instrument].
 *
 * ```kotlin
 * val metrics = Metrics()
 * val calls = metrics.read().filter { it.family.name == "tidegate_calls_total" }.sumOf { it.value }
 * ```
 *
 * @property engine Whose.
 * @param maxRoutes How many routes of each policy have series of their own, 0 to 10,000. The first to ask decides.
 * @throws IllegalArgumentException if [maxRoutes] is out of range.
 */
public class Metrics @JvmOverloads constructor(public val engine: Engine = Engine.default, maxRoutes: Int = 20) {
    init {
        require(maxRoutes in 0..10_000) { "maxRoutes = $maxRoutes: must be from 0 to 10000" }
        engine.native.engine.measure(maxRoutes.toUInt())
    }

    /** All series there are, now. */
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

/** Whose span it is. */
internal class Measured(val policy: String, val route: String) {
    private val hash = 31 * policy.hashCode() + route.hashCode()

    override fun hashCode(): Int = hash

    override fun equals(other: Any?): Boolean = this === other || other is Measured && policy == other.policy && route == other.route
}

/** Takes single spans, for histograms that are not ours. */
internal fun interface Timed {
    fun time(family: MetricFamily, of: Measured, us: Long)
}

/** Where a thread takes spans out, and whose the last one was: most calls of a thread have one route. */
internal class Spans {
    /** Four numbers each. */
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

/** Hands single spans on as numbers, which JNI carries: an event for each call would cost two hundred times as much. */
internal class Timings(private val engine: Engine) {
    /** Replaced as a whole: no iterator is made for a call. */
    @Volatile var sinks: List<Timed> = emptyList()
    private val labels = ConcurrentHashMap<Long, Measured>()

    fun handOn() {
        val sinks = sinks
        if (sinks.isEmpty()) return
        val spans = Scope.here().spans
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
    }

    private fun labels(policy: Long, route: Long): Measured {
        labels[route]?.let { return it }
        if (labels.size >= MOST_ROUTES) labels.clear()
        val made = Measured(engine.nameOf(policy), engine.native.engine.label(policy.toUInt(), route.toULong()))
        return made.also { labels[route] = it }
    }

    companion object {
        /** How many spans are taken at once. */
        const val MOST = 16
        private const val MOST_ROUTES = 10_000
    }
}
