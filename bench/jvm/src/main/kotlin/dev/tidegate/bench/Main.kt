package dev.tidegate.bench

import dev.tidegate.BackoffJitter
import dev.tidegate.BudgetKind
import dev.tidegate.Configure
import dev.tidegate.Engine
import dev.tidegate.Metrics
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.ktor.Tidegate
import dev.tidegate.parts.TokenBucket
import dev.tidegate.policy
import io.github.resilience4j.bulkhead.Bulkhead
import io.github.resilience4j.bulkhead.BulkheadConfig
import io.github.resilience4j.circuitbreaker.CircuitBreaker
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig
import io.github.resilience4j.decorators.Decorators
import io.github.resilience4j.ratelimiter.RateLimiter
import io.github.resilience4j.ratelimiter.RateLimiterConfig
import io.github.resilience4j.retry.Retry
import io.github.resilience4j.retry.RetryConfig
import io.ktor.client.HttpClient
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respond
import io.ktor.client.plugins.HttpRequestRetry
import io.ktor.client.request.get
import io.ktor.http.HttpStatusCode
import kotlinx.coroutines.runBlocking
import com.sun.management.OperatingSystemMXBean
import java.io.File
import java.io.IOException
import java.lang.management.ManagementFactory
import java.util.concurrent.Callable
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

// What a call costs on the JVM, side by side with peers in one process: the median over rounds that take turns, so that what
// else the machine does falls on all alike. The failure is one and the same exception object, whose making costs more than
// everything here.

private const val ROUNDS = 15
private val lost = object : IOException("lost") {
    override fun fillInStackTrace(): Throwable = this
}

private class Bench(val name: String, val times: Int, val run: (times: Int) -> Unit) {
    val rounds = mutableListOf<Double>()
}

private val threads = ManagementFactory.getThreadMXBean()
private val process = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean::class.java)

/** CPU time, so that what else the machine does is not counted: of this thread, or of all where others work too. */
private fun measure(title: String, vararg benches: Bench, clock: () -> Long = { threads.currentThreadCpuTime }) {
    for (bench in benches) repeat(3) { bench.run(bench.times) }
    repeat(ROUNDS) {
        for (bench in benches) {
            val before = clock()
            bench.run(bench.times)
            bench.rounds += (clock() - before).toDouble() / bench.times
        }
    }
    println("\n$title (ns of CPU for each, median of $ROUNDS rounds; quarter … three quarters)")
    for (bench in benches) {
        val sorted = bench.rounds.sorted()
        val (low, middle, high) = listOf(ROUNDS / 4, ROUNDS / 2, ROUNDS * 3 / 4).map(sorted::get)
        println("  %-58s %10.0f   (%.0f … %.0f)".format(bench.name, middle, low, high))
        keep(title, bench.name, middle)
    }
}

/** Appends one figure to the file that `TIDEGATE_BENCH_ROWS` names, for `bench/page.py`. */
private fun keep(group: String, row: String, ns: Double) {
    val path = System.getenv("TIDEGATE_BENCH_ROWS") ?: return
    File(path).appendText("JVM\t$group\t$row\tns\t$ns\t\n")
}

/** The name of the jar that a type is from, which has its version. */
private inline fun <reified T> jarOf(): String =
    File(T::class.java.protectionDomain.codeSource.location.path).nameWithoutExtension

private fun Engine.named(name: String, configure: Configure<PolicyOptions>): Policy = policy(name, this, configure)

internal fun stack(engine: Engine, name: String, wait: Duration = 0.seconds, more: Configure<PolicyOptions> = Configure { }) = engine.named(name) {
    with(more) { configure() }
    retry { maxAttempts = 3; backoff { base = wait; max = 1.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
    bulkhead { maxConcurrency = 25 }
    breaker { failureRatio = 0.99; window = 10.seconds; breakDuration = 1.seconds; minThroughput = 100 }
    rateLimit { permits = 1_000_000_000; per = 1.milliseconds }
}

private fun <T> resilience4j(work: Callable<T>): Callable<T> {
    val retry = RetryConfig.custom<T>().maxAttempts(3).intervalFunction { 0L }.build()
    val breaker = CircuitBreakerConfig.custom().failureRateThreshold(99f).minimumNumberOfCalls(100).build()
    val limiter = RateLimiterConfig.custom().limitForPeriod(1_000_000_000).limitRefreshPeriod(java.time.Duration.ofMillis(1)).build()
    return Decorators.ofCallable(work)
        .withBulkhead(Bulkhead.of("b", BulkheadConfig.custom().maxConcurrentCalls(25).build()))
        .withCircuitBreaker(CircuitBreaker.of("c", breaker))
        .withRateLimiter(RateLimiter.of("l", limiter))
        .withRetry(Retry.of("r", retry))
        .decorate()
}

private fun client(status: (Int) -> HttpStatusCode, install: io.ktor.client.HttpClientConfig<*>.() -> Unit): HttpClient {
    var count = 0
    return HttpClient(MockEngine { respond("x", status(count++)) }) { install() }
}

fun main() {
    val engine = Engine(seed = 7)
    val happy = stack(engine, "happy")
    val silent = stack(Engine(seed = 7, history = 0), "silent")
    val heard = stack(engine, "heard", more = Configure { onRetry { } })
    val counted = Engine(seed = 7).let { own -> Metrics(own).read(); stack(own, "counted") }
    val peer = resilience4j { 42 }
    val light = engine.named("light") { bulkhead { maxConcurrency = 25 } }
    measure(
        "Happy path, blocking: retry + bulkhead + breaker + rate limit",
        Bench("bare call", 2_000_000) { times -> var sum = 0; repeat(times) { sum += it }; check(sum != 1) },
        Bench("tidegate policy.call", 200_000) { times -> repeat(times) { happy.call { 42 } } },
        Bench("the same, without a history of failed calls", 200_000) { times -> repeat(times) { silent.call { 42 } } },
        Bench("the same, with a listener of retries", 200_000) { times -> repeat(times) { heard.call { 42 } } },
        Bench("the same, with metrics", 200_000) { times -> repeat(times) { counted.call { 42 } } },
        Bench("resilience4j decorated callable", 200_000) { times -> repeat(times) { peer.call() } },
        Bench("tidegate policy.call, bulkhead alone", 200_000) { times -> repeat(times) { light.call { 42 } } },
    )
    runBlocking {
        measure(
            "Happy path, suspending",
            Bench("tidegate policy.run, the same stack", 200_000) { times -> runBlocking { repeat(times) { happy.run { 42 } } } },
            Bench("the same with an attempt timeout and a deadline", 20_000) { times ->
                val timed = engine.named("timed") { attemptTimeout = 10.seconds; deadline = 60.seconds; bulkhead { maxConcurrency = 25 } }
                runBlocking { repeat(times) { timed.run { 42 } } }
            },
            Bench("withTimeout alone", 20_000) { times -> runBlocking { repeat(times) { kotlinx.coroutines.withTimeout(10_000) { 42 } } } },
        )
    }

    val once = stack(engine, "once")
    var failed = false
    val flaky = {
        failed = !failed
        if (failed) throw lost else 42
    }
    val retried = resilience4j(flaky)
    measure(
        "One retry without a wait, blocking",
        Bench("tidegate policy.call", 50_000) { times -> repeat(times) { once.call { flaky() } } },
        Bench("resilience4j decorated callable", 50_000) { times -> repeat(times) { retried.call() } },
    )

    val plain = client({ HttpStatusCode.OK }) { }
    val ours = client({ HttpStatusCode.OK }) { install(Tidegate) { policy = stack(engine, "ktor") } }
    val theirs = client({ HttpStatusCode.OK }) { install(HttpRequestRetry) { retryOnServerErrors(2) } }
    val half = { count: Int -> if (count % 2 == 0) HttpStatusCode.ServiceUnavailable else HttpStatusCode.OK }
    val oursRetry = client(half) {
        install(Tidegate) {
            policy = stack(engine, "ktor-retry")
            retryHeader = false
        }
    }
    val theirsRetry = client(half) { install(HttpRequestRetry) { retryOnServerErrors(2); delayMillis { 0 } } }
    measure(
        "Ktor over its mock engine",
        *listOf("bare client" to plain, "tidegate" to ours, "HttpRequestRetry" to theirs, "tidegate, one retry" to oursRetry, "HttpRequestRetry, one retry" to theirsRetry)
            .map { (name, client) -> Bench(name, 1_000) { times -> runBlocking { repeat(times) { client.get("http://x/") } } } }.toTypedArray(),
        clock = { process.processCpuTime },
    )
    val bucket = TokenBucket(Duration.ZERO) { permits = 1_000_000; per = 1.seconds; burst = 1_000_000 }
    measure(
        "A part on its own",
        Bench("TokenBucket.tryTake", 1_000) { times -> repeat(times) { bucket.tryTake(Duration.ZERO, 0) } },
    )
    val ran = "JVM ${System.getProperty("java.version")}, Kotlin ${KotlinVersion.CURRENT}; ${jarOf<Retry>()}, ${jarOf<HttpClient>()}"
    println("\n$ran")
    keep("versions", ran, 0.0)
}
