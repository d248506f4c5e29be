package dev.tidegate.bench

import dev.tidegate.Configure
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.ktor.Tidegate
import dev.tidegate.policy
import io.github.resilience4j.retry.Retry
import io.ktor.client.HttpClient
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respond
import io.ktor.client.plugins.HttpRequestRetry
import io.ktor.client.request.get
import io.ktor.http.HttpStatusCode
import kotlinx.coroutines.runBlocking
import kotlin.time.Duration.Companion.seconds

private fun Engine.named(name: String, configure: Configure<PolicyOptions>): Policy = policy(name, this, configure)

private fun client(status: (Int) -> HttpStatusCode, install: io.ktor.client.HttpClientConfig<*>.() -> Unit): HttpClient {
    var count = 0
    return HttpClient(MockEngine { respond("x", status(count++)) }) { install() }
}

/** What a call costs on the JVM, beside peers in the same process. */
fun main() {
    val engine = Engine(seed = 7)
    val happy = Stacks.tidegate(engine)
    val silent = Stacks.tidegate(Engine(seed = 7, history = 0), "silent")
    val heard = Stacks.tidegate(engine, "heard", more = Configure { onRetry { } })
    val counted = Stacks.counted()
    val peer = Stacks.resilience4j({ 42 })
    val peerCounted = Stacks.counted { 42 }
    val light = Stacks.slots(engine)
    val peerLight = Stacks.slots { 42 }
    measure(
        "Happy path, blocking: retry + bulkhead + breaker + rate limit",
        Bench("bare call", 2_000_000) { times -> var sum = 0; repeat(times) { sum += it }; check(sum != 1) },
        Bench("tidegate policy.call", 200_000) { times -> repeat(times) { happy.call { 42 } } },
        Bench("the same, without a history of failed calls", 200_000) { times -> repeat(times) { silent.call { 42 } } },
        Bench("the same, with a listener of retries", 200_000) { times -> repeat(times) { heard.call { 42 } } },
        Bench("the same, with metrics", 200_000) { times -> repeat(times) { counted.call { 42 } } },
        Bench("resilience4j decorated callable", 200_000) { times -> repeat(times) { peer.call() } },
        Bench("resilience4j, with a listener and a timer", 200_000) { times -> repeat(times) { peerCounted.call() } },
        Bench("tidegate policy.call, bulkhead alone", 200_000) { times -> repeat(times) { light.call { 42 } } },
        Bench("resilience4j, bulkhead alone", 200_000) { times -> repeat(times) { peerLight.call() } },
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

    val once = Stacks.tidegate(engine, "once")
    val flaky = Flaky()
    val retried = Stacks.resilience4j(flaky)
    measure(
        "One retry without a wait, blocking",
        Bench("tidegate policy.call", 50_000) { times -> repeat(times) { once.call { flaky.call() } } },
        Bench("resilience4j decorated callable", 50_000) { times -> repeat(times) { retried.call() } },
    )

    val plain = client({ HttpStatusCode.OK }) { }
    val ours = client({ HttpStatusCode.OK }) { install(Tidegate) { policy = Stacks.tidegate(engine, "ktor") } }
    val theirs = client({ HttpStatusCode.OK }) { install(HttpRequestRetry) { retryOnServerErrors(2) } }
    val half = { count: Int -> if (count % 2 == 0) HttpStatusCode.ServiceUnavailable else HttpStatusCode.OK }
    val oursRetry = client(half) {
        install(Tidegate) {
            policy = Stacks.tidegate(engine, "ktor-retry")
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
    val bucket = Stacks.bucket()
    val limiter = Stacks.limiter()
    measure(
        "A part on its own",
        Bench("tidegate TokenBucket.tryTake", 100_000) { times -> repeat(times) { Stacks.take(bucket) } },
        Bench("resilience4j RateLimiter.acquirePermission", 100_000) { times -> repeat(times) { limiter.acquirePermission() } },
    )
    val ran = "JVM ${System.getProperty("java.version")}, Kotlin ${KotlinVersion.CURRENT}; ${jarOf<Retry>()}, ${jarOf<HttpClient>()}"
    println("\n$ran")
    keep("versions", ran, 0.0)
}
