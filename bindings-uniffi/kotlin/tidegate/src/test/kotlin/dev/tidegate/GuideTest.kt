package dev.tidegate

import dev.tidegate.fleet.MemoryStore
import dev.tidegate.fleet.RedisStore
import dev.tidegate.fleet.Store
import dev.tidegate.grpc.grpcInterceptor
import dev.tidegate.ktor.Tidegate
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.okhttp.tidegate
import dev.tidegate.parts.TokenBucket
import dev.tidegate.spring.TidegateFilter
import dev.tidegate.spring.TidegateRequestInterceptor
import dev.tidegate.spring.restInterceptor
import dev.tidegate.spring.webFilter
import io.grpc.ClientInterceptors
import io.grpc.inprocess.InProcessChannelBuilder
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.lettuce.core.RedisClient
import io.lettuce.core.codec.ByteArrayCodec
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import okhttp3.OkHttpClient
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.springframework.web.client.RestClient
import org.springframework.web.reactive.function.client.WebClient
import java.io.File
import java.io.IOException
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds

/** The blocks of `docs/kotlin.md`, run; and a look that they are those. */
@OptIn(ExperimentalCoroutinesApi::class)
class GuideTest {
    @Test
    fun `the blocks of the guide run`() = kotlinx.coroutines.runBlocking {
        val orders = policy("orders") {
            deadline = 10.seconds // for the whole call: queueing, waiting, attempts, reading the body
            attemptTimeout = 2.seconds
            retry {
                maxAttempts = 3 // the first one counts
                backoff { base = 100.milliseconds; max = 5.seconds }
                budget { percentCanRetry = 0.2 }
            }
            bulkhead { maxConcurrency = 20; maxQueue = 50; acquireTimeout = 1.seconds }
        }
        val answer = orders.run { attempt ->
            if (attempt.number < 2) throw IOException("reset")
            "placed by attempt ${attempt.number}"
        }
        assertEquals("placed by attempt 2", answer)
        val refunds = orders.at(CallOptions(route = "refunds", idempotent = false, criticality = Criticality.CRITICAL))
        val refunded = refunds.run { "refunded" }
        assertEquals("refunded", refunded)
        val cached = orders.run(fallback = { "cached" }) { throw IOException("lost") }
        assertEquals("cached", cached)
        val within = withBounds(deadline = 3.seconds, criticality = Criticality.DEGRADED) {
            orders.run { "in time" }
        }
        assertEquals("in time", within)
        val late = try {
            withBounds(deadline = 100.milliseconds) {
                orders.run { delay(10.seconds); "too late" }
            }
        } catch (error: DeadlineExceeded) {
            "no answer in time"
        }
        assertEquals("no answer in time", late)
        coroutineScope {
            val call = launch { orders.run { delay(10.seconds) } }
            delay(50.milliseconds)
            call.cancelAndJoin() // the attempt has ended, and its slot is free
        }
        assertEquals(0, orders.engine.snapshot().live)
        val mail = policy("mail") {
            rateLimit { permits = 2; per = 1.minutes } // wait = true makes calls wait for a permit, at most maxWait
            bulkhead { maxConcurrency = 20 } // calls at once; maxQueue more of them wait
        }
        for (n in 1..3) {
            try {
                println(mail.run { "sent letter $n" })
            } catch (refused: RateLimited) {
                println("${refused.message}: again in ${refused.retryIn}")
            }
        }
        assertTrue(runCatching { mail.run { } }.exceptionOrNull() is RateLimited)
        // Both policies take their tokens from one limit; how long a call waits for them is set by each policy.
        val quota = Pool.rateLimit("partner key") { permits = 2; per = 1.seconds }
        val reads = policy("partner reads") { rateLimit { pool = quota } }
        val writes = policy("partner writes") { rateLimit { pool = quota; wait = true; maxWait = 2.seconds } }
        repeat(2) { reads.run { } }
        assertTrue(runCatching { reads.run { } }.exceptionOrNull() is RateLimited)
        writes.run { } // waits for the next token of both
        val client = object : Shop {
            override suspend fun find(id: Int) = "no. $id"
        }
        val shop = orders.wrap<Shop>(client, methods = listOf("find"), route = "shop")
        assertEquals("no. 7", shop.find(7))
        try {
            orders.run { throw IOException("reset") }
        } catch (error: IOException) {
            println(error.report) // tidegate: gave up after 3 attempts
            println(error.report?.explain()) // each retry with its wait, the budget, the breaker
        }
        val bucket = TokenBucket(now = Duration.ZERO) { permits = 3; per = 1.seconds; burst = 2 }
        val wait = bucket.acquire(now = Duration.ZERO, cost = 2)
        assertEquals(Duration.ZERO, wait)
        val metrics = Metrics()
        val calls = metrics.read().filter { it.family.name == "tidegate_calls_total" }
        orders.run { "measured" }
        val after = metrics.read().filter { it.family.name == "tidegate_calls_total" }
        // Other tests use the same engine, so series may exist before this call.
        assertTrue(after.sumOf { it.value } > calls.sumOf { it.value })
    }

    interface Shop {
        suspend fun find(id: Int): String
    }

    @Test
    fun `the clients of the guide are made`() {
        val payments = policy("payments") { preset = Preset.HTTP }
        val client = OkHttpClient.Builder().addInterceptor(payments.okHttpInterceptor()).build()
        assertEquals(1, client.interceptors.size)
        val http = OkHttpClient.Builder().tidegate(payments).build()
        assertEquals(1, http.interceptors.size)
        val ktor = HttpClient(CIO) {
            install(Tidegate) { policy = payments }
        }
        ktor.close()
        val rest = RestClient.builder().requestInterceptor(payments.restInterceptor()).build()
        val web = WebClient.builder().filter(payments.webFilter()).build()
        rest.mutate().requestInterceptors { assertTrue(it.single() is TidegateRequestInterceptor, "$it") }
        web.mutate().filters { assertTrue(it.single() is TidegateFilter, "$it") }
        val channel = InProcessChannelBuilder.forName("nobody").build()
        val stubs = ClientInterceptors.intercept(channel, payments.grpcInterceptor())
        assertEquals(channel.authority(), stubs.authority())
        channel.shutdownNow()
    }

    private class StockException : Exception()

    /** Compiled, and not run: there is no such server. `FleetTest` has one. */
    @Suppress("unused")
    private fun aFleet() {
        val connection = RedisClient.create("redis://localhost").connect(ByteArrayCodec.INSTANCE)
        val fleet = Engine()
        fleet.attach(RedisStore(connection))
        val shared = policy("shared", fleet) {
            rateLimit { permits = 100; per = 1.seconds; store = RateLimitStore.FLEET; onLoss = RateLimitOnLoss.LOCAL }
        }
        shared.call { }
    }

    /** A client of somebody's own. */
    private class Client {
        val memory = MemoryStore()

        suspend fun execute(words: List<ByteArray>): Any? = memory.execute(words, 1)
    }

    @Test
    fun `a store of one's own is one function`() {
        val client = Client()
        val own = Store { words, _ -> client.execute(words) }
        val apart = Engine()
        apart.attach(own, namespace = "apart")
        val limited = policy("limited", apart) {
            storeTimeout = 2.seconds
            rateLimit { permits = 5; per = 1.seconds; store = RateLimitStore.FLEET }
        }
        assertEquals("through", limited.call { "through" })
        assertTrue(client.memory.describe().first().startsWith("apart:{r|limited|default}:rl"))
    }

    @Test
    fun `the fleet of the guide shares its rate`() {
        runTest {
            val memory = MemoryStore(testTimeSource)
            val (here, there) = List(2) { seed ->
                val member = Engine(seed = seed.toLong(), timeSource = testTimeSource)
                member.attach(memory)
                policy("partner", member) {
                    rateLimit { permits = 10; per = 1.seconds; store = RateLimitStore.FLEET; lease = 1 }
                }
            }
            repeat(5) { here.run { }; there.run { } }
            val refused = runCatching { here.run { } }.exceptionOrNull()
            assertTrue(refused is RateLimited)
            memory.up = false // and both go on without it
        }
    }

    @Test
    fun `a document of the guide is reloaded`() {
        val policies = Policy.load("[policy.charges]\ndeadline = '10s'\nretry.max_attempts = 3")
        val charges = policies.getValue("charges")
        val done = policies.reload("[policy.charges]\ndeadline = '5s'\nretry.max_attempts = 3")
        check(done.changed == listOf("policy.charges") && done.digest == policies.digest)
        assertEquals("paid", charges.call { "paid" })
        val listed = Policy.load("[policy.refunds]\nretry.max_attempts = 3") { name ->
            retryOn<StockException>()
            onRetry { println("$name: attempt ${it.attempt} failed, the next one follows in ${it.wait}") }
        }
        assertEquals(2, listed.getValue("refunds").call { if (it.number == 1) throw StockException() else it.number })
    }

    @Test
    fun `the test of the guide is one`() {
        runTest {
            val engine = Engine(seed = 7, timeSource = testTimeSource)
            val slow = policy("slow", engine) {
                retry { backoff { base = 10.seconds; max = 10.seconds; jitter = BackoffJitter.NONE } }
            }
            slow.run { if (it.number < 3) throw IOException("reset") }
            assertEquals(20_000L, currentTime)
        }
    }

    @Test
    fun `every block of the guide stands in this file`() {
        val root = File(System.getProperty("tidegate.vectors")).resolve("../..")
        val plain = { text: String -> text.lines().joinToString("\n") { it.trim() } }
        pageIsIn("docs/kotlin.md", "GuideTest.kt", 20)
        val java = plain(File("src/test/java/dev/tidegate/JavaCallerTest.java").readText())
        val written = Regex("```java\n(.*?)```", RegexOption.DOT_MATCHES_ALL).findAll(root.resolve("docs/kotlin.md").readText()).toList()
        assertTrue(written.size >= 2, "${written.size}")
        for (block in written) assertTrue(plain(block.groupValues[1]).trim() in java, block.groupValues[1])
    }
}
