@file:JvmName("TidegateOpenTelemetry")

package dev.tidegate.opentelemetry

import dev.tidegate.Engine
import dev.tidegate.Measured
import dev.tidegate.MetricFamily
import dev.tidegate.Metrics
import dev.tidegate.guarded
import io.opentelemetry.api.GlobalOpenTelemetry
import io.opentelemetry.api.common.Attributes
import io.opentelemetry.api.common.AttributesBuilder
import io.opentelemetry.api.metrics.DoubleHistogram
import io.opentelemetry.api.metrics.Meter
import io.opentelemetry.api.metrics.MeterProvider
import io.opentelemetry.api.metrics.ObservableDoubleMeasurement
import java.util.concurrent.ConcurrentHashMap

/**
 * Exports an engine's metrics to OpenTelemetry.
 *
 * Names are those of `docs/telemetry.md` with a dot after the first word, and without the suffixes that OpenTelemetry's units express:
 * `tidegate.calls`, `tidegate.call_duration` in `s`. A Prometheus exporter adds those suffixes again.
 *
 * @param engine Engine to measure.
 * @param meterProvider Provider of the meters; the global one by default.
 * @param maxRoutes Routes of each policy with series of their own, 0 to 10,000. The first value for an engine applies.
 * @return Ends the export when closed.
 */
@JvmOverloads
public fun instrument(
    engine: Engine = Engine.default,
    meterProvider: MeterProvider = GlobalOpenTelemetry.getMeterProvider(),
    maxRoutes: Int = 20,
): AutoCloseable {
    val metrics = Metrics(engine, maxRoutes)
    val meter = meterProvider.get("tidegate")
    val pulled = Metrics.families.filter { it.instrument != MetricFamily.Instrument.HISTOGRAM }
    val observers = pulled.associateWith { observer(meter, it) }
    val measurements = observers.values.toTypedArray()
    val histograms = (Metrics.families - pulled.toSet()).associateWith { histogram(meter, it) }
    val known = ConcurrentHashMap<Measured, Attributes>()
    val timing = engine.time(meterProvider) { family, of, us ->
        val labels = known.getOrPut(of) { attributes(mapOf("policy" to of.policy, "route" to of.route)) }
        histograms.getValue(family).record(us / 1e6, labels)
    }
    // Last, because a closed engine refuses to be timed.
    val callback = meter.batchCallback({ guarded { observe(metrics, observers) } }, measurements[0], *measurements.drop(1).toTypedArray())
    return AutoCloseable {
        timing.close()
        callback.close()
    }
}

private fun observe(metrics: Metrics, observers: Map<MetricFamily, ObservableDoubleMeasurement>) {
    for (series in metrics.read()) {
        observers[series.family]?.record(series.value, attributes(series.labels))
    }
}

private fun attributes(labels: Map<String, String>): Attributes =
    labels.entries.fold(Attributes.builder()) { made: AttributesBuilder, (name, value) -> made.put(name, value) }.build()

private fun named(family: MetricFamily) = family.base.replaceFirst('_', '.')

private fun unit(family: MetricFamily) = if (family.isSeconds) "s" else "1"

private fun observer(meter: Meter, family: MetricFamily): ObservableDoubleMeasurement =
    if (family.instrument == MetricFamily.Instrument.COUNTER) {
        meter.counterBuilder(named(family)).ofDoubles().setUnit(unit(family)).setDescription(family.meaning).buildObserver()
    } else {
        meter.gaugeBuilder(named(family)).setUnit(unit(family)).setDescription(family.meaning).buildObserver()
    }

private fun histogram(meter: Meter, family: MetricFamily): DoubleHistogram =
    meter.histogramBuilder(named(family)).setUnit(unit(family)).setDescription(family.meaning)
        .setExplicitBucketBoundariesAdvice(Metrics.bounds).build()
