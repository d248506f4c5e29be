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
 * Exports an engine's metrics to Micrometer (`docs/telemetry.md`): `TidegateMetrics().bindTo(registry)`, or a bean of Spring Boot.
 *
 * Names have dots and no words for units, as Micrometer expects (`tidegate.calls`, `tidegate.call.duration`); a Prometheus registry adds
 * those words again. Values are read when a registry is read, all of a scrape at once. The histograms are timers, recorded when a call
 * ends.
 *
 * @param engine Engine to measure.
 * @param maxRoutes Routes of each policy with series of their own, 0 to 10,000. The first value for an engine applies.
 */
public class TidegateMetrics @JvmOverloads constructor(
    engine: Engine = Engine.default,
    maxRoutes: Int = 20,
) : MeterBinder, AutoCloseable {
    private val metrics = Metrics(engine, maxRoutes)
    private val bound = ConcurrentHashMap<MeterRegistry, Bound>()

    /** Registers all series, present and later ones, until this object is closed. */
    override fun bindTo(registry: MeterRegistry) {
        bound.computeIfAbsent(registry) { Bound.take(metrics, it) }.refresh()
    }

    /** Removes the meters from their registries, except from those to which another object has bound the same engine. */
    override fun close() {
        for (registry in bound.keys) bound.remove(registry)?.close()
    }
}

/** Meters of one engine in one registry, which the objects share that bind the engine to it. */
private class Bound(private val metrics: Metrics, private val registry: MeterRegistry) : AutoCloseable {
    private class Key(val family: MetricFamily, val labels: Map<String, String>) {
        override fun hashCode(): Int = 31 * family.name.hashCode() + labels.hashCode()

        override fun equals(other: Any?): Boolean = other is Key && family === other.family && labels == other.labels
    }

    /** Number of objects that have bound it and are not closed. */
    private var owners = 0
    private val clock = registry.config().clock()

    /** All values at one moment, and the meters that have shown theirs. */
    private class Reading(val values: Map<Key, Double>, val shown: MutableSet<Key> = ConcurrentHashMap.newKeySet())

    @Volatile private var reading = Reading(emptyMap())

    /** When a meter has shown its value last, in nanoseconds of [clock]. */
    @Volatile private var shownAt = 0L
    @Volatile private var closed = false
    private val meters = ConcurrentHashMap<Key, Meter>()
    private val timers = ConcurrentHashMap<MetricFamily, ConcurrentHashMap<Measured, Timer>>()
    private val timing = metrics.engine.time(registry) { family, of, us ->
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
        // The first call of a route brings the route's other meters with it.
        return made.also { timers[of] = it; extend() }
    }

    private fun named(family: MetricFamily) = family.base.replace('_', '.')

    /** Reads all values, and registers new series. */
    fun refresh() = become { Reading(it) }

    /** Registers new series. A scrape that goes on meanwhile keeps the values of the others. */
    private fun extend() = become { Reading(it + reading.values, reading.shown) }

    @Synchronized
    private fun become(made: (values: Map<Key, Double>) -> Reading) {
        if (closed) return
        reading = made(metrics.read().filter { it.histogram == null }.associate { Key(it.family, it.labels) to it.value })
        shownAt = clock.monotonicTime()
        for (key in reading.values.keys) if (!meters.containsKey(key)) meters[key] = register(key)
    }

    private fun register(key: Key): Meter {
        val tags = key.labels.map { (name, value) -> Tag.of(name, value) }
        val (name, meaning) = named(key.family) to key.family.meaning
        if (key.family.instrument == MetricFamily.Instrument.COUNTER) {
            val counter = FunctionCounter.builder(name, this) { it.value(key) }.tags(tags).description(meaning)
            if (key.family.isSeconds) counter.baseUnit("seconds")
            return counter.register(registry)
        }
        val gauge = Gauge.builder(name) { value(key) }.tags(tags).description(meaning)
        if (key.family.isSeconds) gauge.baseUnit("seconds")
        return gauge.register(registry)
    }

    /**
     * Value of a meter. All meters of one scrape show one reading, however long the scrape takes: the next reading is made when a meter is
     * asked a second time, or when none has been asked for a while.
     */
    private fun value(key: Key): Double {
        if (clock.monotonicTime() - shownAt > PAUSE_NS || !reading.shown.add(key)) {
            refresh()
            reading.shown.add(key)
        }
        shownAt = clock.monotonicTime()
        return reading.values[key] ?: Double.NaN // the route has been evicted
    }

    /** Gives it up for one owner. The last one removes the meters. */
    override fun close(): Unit = synchronized(metrics.engine.bindings) {
        if (--owners > 0) return
        metrics.engine.bindings.remove(registry)
        synchronized(this) { closed = true }
        timing.close()
        for (meter in meters.values + timers.values.flatMap { it.values }) registry.remove(meter)
    }

    companion object {
        /** Pause that ends a scrape, in nanoseconds: longer than one between two meters of a scrape. */
        private const val PAUSE_NS = 100_000_000L

        /** The one of this engine and registry, for one owner more. */
        fun take(metrics: Metrics, registry: MeterRegistry): Bound {
            val all = metrics.engine.bindings
            return synchronized(all) { (all.getOrPut(registry) { Bound(metrics, registry) } as Bound).also { it.owners += 1 } }
        }
    }
}
