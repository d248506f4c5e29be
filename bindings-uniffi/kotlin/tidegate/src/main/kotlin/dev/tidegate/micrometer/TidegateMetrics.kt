package dev.tidegate.micrometer

import dev.tidegate.Engine
import dev.tidegate.Measured
import dev.tidegate.MetricFamily
import dev.tidegate.Metrics
import io.micrometer.core.instrument.FunctionCounter
import io.micrometer.core.instrument.Gauge
import io.micrometer.core.instrument.Meter
import io.micrometer.core.instrument.MeterRegistry
import io.micrometer.core.instrument.Tag
import io.micrometer.core.instrument.Timer
import io.micrometer.core.instrument.binder.MeterBinder
import java.time.Duration
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit

/**
 * An engine's metrics for Micrometer (`docs/telemetry.md`): `TidegateMetrics().bindTo(registry)`, or a bean of Spring Boot.
 *
 * Names have dots, and no words for units, as Micrometer wants them (`tidegate.calls`, `tidegate.call.duration`): a Prometheus
 * registry spells them out again. Figures are pulled when a registry is read, all of a scrape at once; the two histograms
 * are timers, told of each call when it ends.
 *
 * @param engine Whose metrics.
 * @param maxRoutes How many routes of each policy have series of their own, 0 to 10,000. The first to ask decides.
 */
public class TidegateMetrics @JvmOverloads constructor(
    engine: Engine = Engine.default,
    maxRoutes: Int = 20,
) : MeterBinder, AutoCloseable {
    private val metrics = Metrics(engine, maxRoutes)
    private val bound = ConcurrentHashMap<MeterRegistry, Bound>()

    /** Registers what there is, and what comes later, until this is closed. */
    override fun bindTo(registry: MeterRegistry) {
        bound.computeIfAbsent(registry) { Bound(metrics, it) }.refresh()
    }

    /** Ends it: the meters are removed from their registries. */
    override fun close() {
        for (registry in bound.keys) bound.remove(registry)?.close()
    }
}

/** One registry. */
private class Bound(private val metrics: Metrics, private val registry: MeterRegistry) : AutoCloseable {
    private class Key(val family: MetricFamily, val labels: Map<String, String>) {
        override fun hashCode(): Int = 31 * family.name.hashCode() + labels.hashCode()

        override fun equals(other: Any?): Boolean = other is Key && family === other.family && labels == other.labels
    }

    private val clock = registry.config().clock()
    @Volatile private var values: Map<Key, Double> = emptyMap()
    @Volatile private var readAt = 0L
    @Volatile private var closed = false
    private val meters = ConcurrentHashMap<Key, Meter>()
    private val timers = ConcurrentHashMap<MetricFamily, ConcurrentHashMap<Measured, Timer>>()
    private val timing = metrics.engine.time { family, of, us ->
        timer(family, of).record(us, TimeUnit.MICROSECONDS)
    }

    private fun timer(family: MetricFamily, of: Measured): Timer {
        val timers = timers[family] ?: timers.computeIfAbsent(family) { ConcurrentHashMap() }
        timers[of]?.let { return it }
        val made = Timer.builder(named(family))
            .description(family.meaning)
            .serviceLevelObjectives(*Metrics.bounds.map { Duration.ofNanos((it * 1e9).toLong()) }.toTypedArray())
            .tag("policy", of.policy).tag("route", of.route)
            .register(registry)
        // A route's first call brings its meters with it.
        return made.also { timers[of] = it; refresh() }
    }

    private fun named(family: MetricFamily) = family.base.replace('_', '.')

    /** Reads all figures, and registers those that are new. */
    @Synchronized
    fun refresh() {
        if (closed) return
        values = metrics.read().filter { it.histogram == null }.associate { Key(it.family, it.labels) to it.value }
        readAt = clock.monotonicTime()
        for (key in values.keys) if (!meters.containsKey(key)) meters[key] = register(key)
    }

    private fun register(key: Key): Meter {
        val tags = key.labels.map { (name, value) -> Tag.of(name, value) }
        val (name, told) = named(key.family) to key.family.meaning
        if (key.family.instrument == MetricFamily.Instrument.COUNTER) {
            return FunctionCounter.builder(name, this) { it.value(key) }.tags(tags).description(told).register(registry)
        }
        val gauge = Gauge.builder(name) { value(key) }.tags(tags).description(told)
        if (key.family.isSeconds) gauge.baseUnit("seconds")
        return gauge.register(registry)
    }

    private fun value(key: Key): Double {
        if (clock.monotonicTime() - readAt > FRESH_NS) refresh()
        return values[key] ?: Double.NaN // of a route that has been evicted
    }

    override fun close() {
        synchronized(this) { closed = true }
        timing.close()
        for (meter in meters.values + timers.values.flatMap { it.values }) registry.remove(meter)
    }

    private companion object {
        /** As long as all meters show one reading: longer than a scrape takes, too short to disagree with the timers, which are live. */
        const val FRESH_NS = 20_000_000L
    }
}
