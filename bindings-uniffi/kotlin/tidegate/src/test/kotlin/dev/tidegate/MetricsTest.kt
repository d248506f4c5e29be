package dev.tidegate

import dev.tidegate.micrometer.TidegateMetrics
import dev.tidegate.opentelemetry.ResendCount
import dev.tidegate.opentelemetry.instrument
import dev.tidegate.testing.FakeTime
import io.micrometer.core.instrument.MockClock
import io.micrometer.prometheusmetrics.PrometheusConfig
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry
import io.opentelemetry.api.common.AttributeKey
import io.opentelemetry.api.trace.SpanKind
import io.opentelemetry.sdk.metrics.SdkMeterProvider
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter
import io.opentelemetry.sdk.trace.SdkTracerProvider
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.delay
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import io.prometheus.metrics.model.registry.PrometheusRegistry
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import java.io.File
import java.io.IOException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds

@OptIn(ExperimentalCoroutinesApi::class)
class MetricsTest {
    private val time = FakeTime()
    private val engine = Engine(seed = 7, timeSource = time)

    private fun stack(name: String = "p"): Policy {
        val own = engine
        return policy(name, own) {
            retry { maxAttempts = 2; backoff { base = 1.seconds; max = 1.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.WINDOW } }
            bulkhead { maxConcurrency = 1 }
            breaker { failureRatio = 0.99; window = 10.seconds; breakDuration = 1.seconds; minThroughput = 100 }
            hedge { delay = 3.seconds }
        }
    }

    /** One call that works after a second and a retry, and one that fails for good. */
    private fun calls(policy: Policy) {
        policy.call { if (it.number == 1) throw IOException("lost") else Unit }
        runCatching { policy.call { throw IllegalStateException("no") } }
    }

    private fun Metrics.of(name: String) = read().filter { it.family.name == name }.associate { it.labels to it.value }

    /** Bytes that this thread allocates for one call, after some calls to warm up. */
    private fun bytes(policy: Policy): Long {
        val threads = java.lang.management.ManagementFactory.getThreadMXBean() as com.sun.management.ThreadMXBean
        repeat(2_000) { policy.call { } }
        val before = threads.currentThreadAllocatedBytes
        repeat(10_000) { policy.call { } }
        return (threads.currentThreadAllocatedBytes - before) / 10_000
    }

    @Test
    fun `metrics make no garbage`() {
        val real = Engine(seed = 7)
        val policy = policy("p", real) { retry { } }
        val bare = bytes(policy)
        Metrics(real)
        var told = 0
        real.time { _, _, _ -> told += 1 }.use {
            val listened = bytes(policy)
            assertTrue(listened <= bare + 64, "$listened bytes where spans are taken, $bare without")
        }
        assertTrue(told >= 12_000, "$told spans of 12,000 calls")
        TidegateMetrics(real).use {
            val registry = PrometheusMeterRegistry(PrometheusConfig.DEFAULT)
            it.bindTo(registry)
            val measured = bytes(policy)
            // What is left is Micrometer's own; a call that took the long way would be at 1,430.
            assertTrue(measured <= bare + 64, "$measured bytes with metrics, $bare without")
            assertEquals(12_000.0, registry["tidegate.call.duration"].timer().count().toDouble())
        }
    }

    @Test
    fun `a receiver of spans that makes calls changes no span of the others`() {
        val policy = stack()
        val other = policy("other", engine) { bulkhead { maxConcurrency = 1 } }
        Metrics(engine)
        val told = mutableListOf<Pair<String, Long>>()
        engine.time { _, of, _ -> if (of.policy == "p") other.call { } }.use {
            engine.time { _, of, us -> told += of.policy to us }.use { calls(policy) }
        }
        assertEquals(listOf("other" to 0L, "p" to 1_000_000L, "other" to 0L, "p" to 0L), told)
    }

    @Test
    fun `a registry that gets the metrics twice counts each span once`() {
        val policy = stack()
        val registry = PrometheusMeterRegistry(PrometheusConfig.DEFAULT)
        val (first, second) = List(2) { TidegateMetrics(engine).also { it.bindTo(registry) } }
        val reader = InMemoryMetricReader.create()
        val provider = SdkMeterProvider.builder().registerMetricReader(reader).build()
        val (one, other) = List(2) { instrument(engine, provider) }
        calls(policy)
        assertEquals(2L, registry["tidegate.call.duration"].timer().count())
        one.close()
        first.close()
        calls(policy)
        assertEquals(4L, registry["tidegate.call.duration"].timer().count())
        second.bindTo(registry) // reads all values, so that the test need not wait for the next scrape
        assertEquals(4.0, registry["tidegate.calls"].functionCounters().sumOf { it.count() }, "the second one keeps its meters")
        first.close()
        assertEquals(1.0, registry["tidegate.bulkhead.capacity"].gauge().value(), "one that is closed twice gives up once")
        assertEquals(4L, reader.collectAllMetrics().single { it.name == "tidegate.call_duration" }.histogramData.points.single().count)
        second.close()
        assertEquals(emptyList<Any>(), registry.meters)
        listOf(other, provider).forEach { it.close() }
    }

    @Test
    fun `a closed engine that is instrumented leaves nothing with its provider`() {
        val reader = InMemoryMetricReader.create()
        val provider = SdkMeterProvider.builder().registerMetricReader(reader).build()
        stack().call { }
        engine.close()
        assertThrows<IllegalStateException> { instrument(engine, provider) }
        assertEquals(emptyList<String>(), reader.collectAllMetrics().map { it.name })
        provider.close()
    }

    @Test
    fun `the families are those of the telemetry page`() {
        val page = File(System.getProperty("tidegate.vectors")).resolve("../../docs/telemetry.md").readText()
        val told = page.lines().filter { it.startsWith("| `tidegate_") }.flatMap { line ->
            val names = Regex("`(_?[a-z_]+)`").findAll(line.split("|")[1]).map { it.groupValues[1] }.toList()
            names.map { if (it.startsWith("_")) names[0].removeSuffix("_in_flight") + it else it }
        }
        assertEquals(told.toSet(), Metrics.families.map { it.name }.toSet())
        assertEquals(Metrics.bounds.sorted(), Metrics.bounds)
    }

    @Test
    fun `it counts once somebody has asked, and not before`() {
        val policy = stack()
        calls(policy)
        val metrics = Metrics(engine)
        assertEquals(emptyMap<Any, Any>(), metrics.of("tidegate_calls_total"))
        calls(policy)
        val here = mapOf("policy" to "p", "route" to "default")
        assertEquals(mapOf(here + ("outcome" to "ok") to 1.0, here + ("outcome" to "not_retryable") to 1.0), metrics.of("tidegate_calls_total"))
        assertEquals(mapOf(here + ("reason" to "transient") to 1.0), metrics.of("tidegate_retries_total"))
        assertEquals(mapOf(here to 1.0), metrics.of("tidegate_bulkhead_capacity"))
        val duration = metrics.read().single { it.family.name == "tidegate_call_duration_seconds" }
        assertEquals(2.0 to 1.0, duration.value to duration.histogram!!.sum)
        assertEquals(1L, duration.histogram!!.counts[Metrics.bounds.indexOf(1.0)], "${duration.histogram!!.counts}")
        assertThrows<IllegalArgumentException> { Metrics(engine, maxRoutes = -1) }
    }

    @Test
    fun `listeners and metrics do not take from each other`() {
        val policy = stack()
        val heard = mutableListOf<String>()
        val metrics = Metrics(engine, maxRoutes = 1)
        val listening = engine.listen(setOf("retry_scheduled")) { heard += it.kind }
        calls(policy)
        assertEquals(listOf("retry_scheduled"), heard)
        assertEquals(2.0, metrics.of("tidegate_calls_total").values.sum())
        listening.close()
        policy.at("second").call { }
        assertEquals(listOf("retry_scheduled"), heard)
        assertEquals(setOf("default", "other"), metrics.of("tidegate_calls_total").keys.map { it["route"] }.toSet())
        val told = assertThrows<IllegalArgumentException> { engine.listen(setOf("no_such")) { } }
        assertTrue(told.message!!.startsWith("types: \"no_such\" must be one of call_done, "), told.message)
    }

    @Test
    fun `a listener that throws breaks nothing`() {
        val policy = stack()
        val thrown = mutableListOf<Throwable>()
        val thread = thread(start = false) {
            engine.listen { throw IllegalStateException("listener") }
            engine.time { _, _, _ -> throw AssertionError("timer") }
            Metrics(engine)
            engine.time { _, _, _ -> throw AssertionError("timer") }
            policy.call { }
        }
        thread.setUncaughtExceptionHandler { _, error -> thrown += error }
        thread.start()
        thread.join()
        assertEquals(setOf("listener", "timer"), thrown.map { it.message }.toSet())
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends["ok"])
    }

    @Test
    fun `a fallback is told, and whether it worked`() {
        val policy = stack()
        val told = mutableListOf<String?>()
        engine.listen(setOf("fallback")) { told += it.outcome }
        assertEquals(7, policy.call({ 7 }) { throw IOException("lost") })
        runCatching { policy.call<Int>({ throw it }) { throw IOException("lost") } }
        assertEquals(listOf("ok", "permanent"), told)
        assertEquals(1L to 1L, engine.snapshot().policies.getValue("p").let { it.fallbacks to it.fallbackFailures })
        assertTrue("fallback" in Engine.eventTypes)
    }

    @Test
    fun `Prometheus through Micrometer has the names of every language`() {
        val clock = MockClock()
        val registry = PrometheusMeterRegistry(PrometheusConfig.DEFAULT, PrometheusRegistry(), clock)
        val binder = TidegateMetrics(engine)
        binder.bindTo(registry)
        calls(stack())
        registry.scrape() // what was new is there from the next one on
        clock.add(1_100, TimeUnit.MILLISECONDS)
        registry.scrape()
        val text = registry.scrape()
        for (line in listOf(
            "tidegate_calls_total{outcome=\"ok\",policy=\"p\",route=\"default\"} 1.0",
            "tidegate_call_duration_seconds_count{policy=\"p\",route=\"default\"} 2",
            "tidegate_call_duration_seconds_sum{policy=\"p\",route=\"default\"} 1.0",
            "tidegate_call_duration_seconds_bucket{policy=\"p\",route=\"default\",le=\"0.5\"} 1",
            "tidegate_retries_total{policy=\"p\",reason=\"transient\",route=\"default\"} 1.0",
            "tidegate_bulkhead_capacity{policy=\"p\",route=\"default\"} 1.0",
            "tidegate_hedge_delay_seconds{policy=\"p\",route=\"default\"} 3.0",
        )) {
            assertTrue(text.lines().contains(line), "$line is not in\n$text")
        }
        val names = text.lines().filter { it.startsWith("# TYPE tidegate") }.map { it.split(" ")[2] }.toSet()
        assertTrue(Metrics.families.map { it.name }.toSet().containsAll(names - names.filter { it.endsWith("_max") }.toSet()), "$names")
        calls(stack())
        assertTrue("tidegate_calls_total{outcome=\"ok\",policy=\"p\",route=\"default\"} 2.0" in registry.scrape())
        binder.close()
        assertEquals(emptyList<Any>(), registry.meters)
        calls(stack("q"))
        assertEquals(emptyList<Any>(), registry.meters)
    }

    @Test
    fun `the meters of one scrape show one moment, however long it takes`() {
        val clock = MockClock()
        val registry = PrometheusMeterRegistry(PrometheusConfig.DEFAULT, PrometheusRegistry(), clock)
        val binder = TidegateMetrics(engine)
        val policy = policy("p", engine) { deadline = 5.seconds }
        policy.call { }
        binder.bindTo(registry)
        fun calls() = registry.get("tidegate.calls").functionCounter().count()
        fun attempts() = registry.get("tidegate.attempts").functionCounters().sumOf { it.count() }
        clock.add(1, TimeUnit.SECONDS)
        repeat(3) {
            val first = calls()
            policy.call { }
            clock.add(50, TimeUnit.MILLISECONDS) // a slow scrape
            assertEquals(first, attempts(), "a call has one attempt")
        }
        assertEquals(4.0, calls(), "each scrape has a reading of its own")
        clock.add(1, TimeUnit.SECONDS)
        policy.call { }
        assertEquals(5.0, attempts(), "after a pause, too")
        binder.close()
    }

    @Test
    fun `OpenTelemetry`() {
        val reader = InMemoryMetricReader.create()
        val provider = SdkMeterProvider.builder().registerMetricReader(reader).build()
        val ending = instrument(engine, provider)
        calls(stack())
        val told = reader.collectAllMetrics().associateBy { it.name }
        val calls = told.getValue("tidegate.calls")
        assertTrue(calls.doubleSumData.isMonotonic)
        assertEquals(2.0, calls.doubleSumData.points.sumOf { it.value })
        val duration = told.getValue("tidegate.call_duration")
        val point = duration.histogramData.points.single()
        assertEquals(listOf("s", 2L, 1.0), listOf(duration.unit, point.count, point.sum))
        assertEquals(Metrics.bounds, point.boundaries)
        assertEquals(1.0, told.getValue("tidegate.bulkhead_capacity").doubleGaugeData.points.single().value)
        ending.close()
        calls(stack("q"))
        assertTrue(reader.collectAllMetrics().none { it.name == "tidegate.calls" })
        provider.close()
    }

    @Test
    fun `spans of repeats say how many they are, and no others`() {
        val exporter = InMemorySpanExporter.create()
        val provider = SdkTracerProvider.builder().addSpanProcessor(ResendCount()).addSpanProcessor(SimpleSpanProcessor.create(exporter)).build()
        val tracer = provider.get("http")
        val send = { kind: SpanKind, name: String -> tracer.spanBuilder(name).setSpanKind(kind).setAttribute("http.request.method", "GET").startSpan().end() }
        val policy = stack()
        policy.call { attempt ->
            send(SpanKind.CLIENT, "blocking ${attempt.number}")
            send(SpanKind.INTERNAL, "inside ${attempt.number}")
            if (attempt.number == 1) throw IOException("lost")
        }
        runTest {
            val timed = policy("suspending", Engine(seed = 7, timeSource = testTimeSource)) { retry { maxAttempts = 2 } }
            timed.run { attempt ->
                delay(1)
                send(SpanKind.CLIENT, "suspending ${attempt.number}")
                if (attempt.number == 1) throw IOException("lost")
            }
        }
        send(SpanKind.CLIENT, "after")
        val told = exporter.finishedSpanItems.associate { it.name to it.attributes.get(AttributeKey.longKey("http.request.resend_count")) }
        assertEquals(mapOf("blocking 2" to 1L, "suspending 2" to 1L), told.filterValues { it != null })
        assertEquals(7, told.size)
        provider.close()
    }

    @Test
    fun `spans for histograms are neither lost nor counted twice when many threads work`() {
        val own = engine
        val policy = policy("many", own) { bulkhead { maxConcurrency = 100 } }
        val reader = InMemoryMetricReader.create()
        val provider = SdkMeterProvider.builder().registerMetricReader(reader).build()
        instrument(engine, provider).use {
            val go = CountDownLatch(1)
            val threads = List(8) { thread { go.await(); repeat(250) { policy.call { } } } }
            go.countDown()
            threads.forEach { it.join() }
            val duration = reader.collectAllMetrics().single { it.name == "tidegate.call_duration" }
            assertEquals(2_000L, duration.histogramData.points.single().count)
        }
        provider.close()
        leftNothing(engine)
    }

    @Test
    fun `a journal gives an engine of the same seed the same state`() {
        val kept = Engine(seed = 7, timeSource = time, journal = true)
        var call: Long? = null
        kept.listen(setOf("call_done")) { call = it.call }
        policy("p", kept) { retry { } }.call { }
        assertTrue(kept.explain(call!!)!!.text.contains("of policy p on route default"), kept.explain(call!!)!!.text)
        assertEquals(null, engine.explain(call!!))
        val again = Engine(seed = 7, timeSource = time, journal = true)
        assertEquals(kept.journal().size, again.replay(kept.journal()).answers.size)
        assertEquals(kept.snapshot().policies.getValue("p").ends, again.snapshot().policies.getValue("p").ends)
        assertThrows<IllegalArgumentException> { Engine().replay(listOf("nonsense")) }
        val journal = kept.takeJournal()
        assertTrue(journal.any { it.startsWith("begin ") } && journal.any { it.startsWith("on ") }, "$journal")
        assertEquals(emptyList<String>(), kept.takeJournal())
        assertEquals(emptyList<String>(), engine.takeJournal())
    }

    @Test
    fun `a journal that nobody takes is bounded, and says what it lacks`() {
        val kept = Engine(seed = 7, timeSource = time, journal = true)
        repeat(100_005) { kept.liftBudgets(it % 2 == 0) }
        val lines = kept.takeJournal()
        assertEquals(listOf("dropped 5", "lift_budgets 0"), lines.take(2))
        assertEquals(100_001, lines.size)
        val refused = assertThrows<IllegalArgumentException> { Engine().replay(lines) }
        assertTrue("journal, line 1: dropped = 5: so many inputs before this line are missing" in refused.message!!, refused.message)
        assertEquals(emptyList<String>(), kept.takeJournal())
    }

    @Test
    fun `lifted budgets refuse no retry`() {
        val lifted = Engine(seed = 7, timeSource = time)
        val policy = policy("p", lifted) { retry { maxAttempts = 9; backoff { base = Duration.ZERO }; budget { kind = BudgetKind.EARNED; start = 1 } } }
        fun attempts(): Int {
            var made = 0
            assertThrows<IOException> { policy.call { made += 1; throw IOException("down") } }
            return made
        }
        lifted.liftBudgets(true)
        assertEquals(9, attempts())
        lifted.liftBudgets(false)
        assertEquals(listOf(2, 1), List(2) { attempts() }, "the budget has its start")
    }
}
