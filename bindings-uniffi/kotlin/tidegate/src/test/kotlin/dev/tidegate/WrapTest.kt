package dev.tidegate

import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flowOf
import kotlinx.coroutines.flow.single
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.withContext
import kotlinx.coroutines.Dispatchers
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.util.concurrent.CompletableFuture
import kotlin.time.Duration.Companion.seconds

interface Orders {
    val region: String

    suspend fun place(item: String): Int

    suspend fun find(id: Int, wait: Long = 0): String?

    suspend fun follow(): Flow<Int>

    fun watch(): Flow<Int>

    fun close()
}

interface Store {
    @Throws(IOException::class)
    fun read(key: String): String

    @Throws(IOException::class)
    fun write(key: String, value: String)

    fun keys(): Sequence<String>

    fun later(): CompletableFuture<String>
}

interface Undeclared {
    fun read(): String
}

interface OnlyStreams {
    fun all(): Iterator<Int>
}

private class Shop : Orders {
    val calls = mutableListOf<String>()
    var failure: Throwable? = null

    override val region get() = "eu"

    private fun told(name: String) {
        calls += name
        failure?.let { throw it }
    }

    override suspend fun place(item: String): Int {
        told("place")
        return item.length
    }

    override suspend fun find(id: Int, wait: Long): String? {
        delay(wait)
        told("find")
        return if (id == 0) null else "no. $id"
    }

    override suspend fun follow() = flowOf(7)

    override fun watch() = flowOf(8)

    override fun close() = told("close")

    override fun toString() = "shop"
}

private class Shelf(private val broken: Int = 0) : Store {
    var reads = 0

    override fun read(key: String): String {
        reads++
        if (reads <= broken) throw IOException("no. $reads")
        return "$key!"
    }

    override fun write(key: String, value: String) = throw IllegalStateException("read only")

    override fun keys() = sequenceOf("a")

    override fun later(): CompletableFuture<String> = CompletableFuture.completedFuture("later")
}

@OptIn(ExperimentalCoroutinesApi::class)
class WrapTest {
    private fun Engine.with(name: String = "p", configure: Configure<PolicyOptions> = Configure { bulkhead { maxConcurrency = 9 } }): Policy {
        val own = this
        return policy(name, own) {
            with(configure) { configure() }
        }
    }

    private fun Engine.ends() = snapshot().policies.getValue("p").ends

    private fun refusal(work: () -> Any): String = try {
        throw AssertionError("taken: ${work()}")
    } catch (error: IllegalArgumentException) {
        error.message!!
    }

    @Test
    fun `suspending methods are calls, and the rest is the object's`() = withEngine { engine ->
        val shop = Shop()
        val orders = engine.with { bulkhead { maxConcurrency = 1 } }.wrap<Orders>(shop)
        assertEquals(listOf<Any?>(5, "no. 3", null), listOf(orders.place("socks"), orders.find(3, 20), orders.find(0)))
        assertEquals(mapOf("ok" to 3L), engine.ends().filterValues { it > 0L })
        orders.close()
        assertEquals(listOf("eu", 7, 8), listOf(orders.region, orders.follow().single(), orders.watch().single()))
        assertEquals(3L, engine.ends()["ok"], "no stream, no property and no plain method is a call")
        assertEquals("shop behind \"p\"", orders.toString())
        assertEquals(setOf(orders), hashSetOf(orders, orders))
        assertNotEquals(orders, shop)
    }

    @Test
    fun `a suspending method's failure is the caller's, the same object, of whatever type`() = withEngine { engine ->
        val shop = Shop()
        val orders = engine.with().wrap<Orders>(shop)
        for (error in listOf(IOException("lost"), IllegalStateException("odd"), Exception("checked"), AssertionError("no"))) {
            shop.failure = error
            val thrown = try {
                orders.place("x")
                null
            } catch (thrown: Throwable) {
                thrown
            }
            assertSame(error, thrown)
        }
        assertEquals(4, shop.calls.size)
    }

    fun interface Slow {
        @Throws(IOException::class)
        fun get(): String
    }

    @Test
    fun `an interrupt is an exception that a blocking method declares`() {
        val engine = Engine(seed = 7)
        val slow = engine.with { retry { maxAttempts = 3; backoff { base = 60.seconds; max = 60.seconds; jitter = BackoffJitter.NONE } } }
            .wrap<Slow>(Slow { throw IOException("lost") }, methods = listOf("get"))
        Thread.currentThread().interrupt()
        val error = runCatching { slow.get() }.exceptionOrNull()
        assertTrue(Thread.interrupted(), "the thread is interrupted still")
        assertTrue(error is java.io.InterruptedIOException && error.cause is InterruptedException, "$error")
        leftNothing(engine)
    }

    @Test
    fun `off the dispatcher's thread too`() {
        val engine = Engine(seed = 7)
        val shop = Shop().also { it.failure = IOException("lost") }
        val orders = engine.with().wrap<Orders>(shop)
        repeat(200) {
            val error = runBlocking(Dispatchers.Unconfined) { runCatching { withContext(Dispatchers.Unconfined) { orders.place("x") } }.exceptionOrNull() }
            assertTrue(error is IOException && error.message == "lost", "$error")
        }
    }

    @Test
    fun `a cancelled caller's method is cancelled`() = withEngine { engine ->
        val shop = Shop()
        val orders = engine.with { bulkhead { maxConcurrency = 1 } }.wrap<Orders>(shop)
        val job = launch { orders.find(1, 60_000) }
        runCurrent()
        job.cancelAndJoin()
        assertEquals(listOf<Any?>(emptyList<String>(), 1L), listOf(shop.calls, engine.ends()["cancelled"]))
    }

    @Test
    fun `a policy that repeats wants names, or classes after which nothing has happened`() = withEngine { engine ->
        val told = refusal { engine.with("r") { retry { } }.wrap<Orders>(Shop()) }
        assertEquals(
            "methods = null: policy \"r\" repeats calls, and what a method of dev.tidegate.Orders writes may happen twice; " +
                "name the methods that may be repeated, or let retryOn have only never_sent, throttled, conflict",
            told,
        )
        refusal { engine.with("h") { hedge { delay = 1.seconds } }.wrap<Orders>(Shop()) }
        refusal { engine.with("t") { retry { retryOn = listOf("never_sent", "transient") } }.wrap<Orders>(Shop()) }
        engine.with("o") { retry { retryOn = listOf("never_sent", "conflict") } }.wrap<Orders>(Shop())
        engine.with("k") { kinds = mapOf("busy" to FailureBase.THROTTLED); retry { retryOn = listOf("busy") } }.wrap<Orders>(Shop())
        refusal {
            val policy = engine.with("again") { retry { retryOn = listOf("conflict") } }
            policy.retune { retry { retryOn = listOf("timeout") } }
            policy.wrap<Orders>(Shop())
        }
        engine.with("one") { retry { maxAttempts = 1 } }.wrap<Orders>(Shop())
        val shop = Shop().also { it.failure = IOException("lost") }
        val orders = engine.with { retry { maxAttempts = 3 } }.wrap<Orders>(shop, methods = listOf("find"), route = "shop")
        failure { orders.find(1) }
        failure { orders.place("socks") }
        assertEquals(listOf("find", "find", "find", "place"), shop.calls)
        assertEquals(listOf("shop"), engine.snapshot().routes.filter { it.policy == "p" }.map { it.key })
    }

    @Test
    fun `blocking methods`() {
        val engine = Engine(seed = 7)
        val shelf = Shelf(broken = 1)
        val policy = engine.with { retry { retryOn = listOf("never_sent", "conflict") }; bulkhead { maxConcurrency = 1 } }
        val store = policy.wrap(Store::class.java, shelf)
        assertEquals("no. 1", runCatching { store.read("a") }.exceptionOrNull()?.message)
        assertEquals("a!", store.read("a"))
        assertTrue(runCatching { store.write("a", "b") }.exceptionOrNull() is IllegalStateException)
        assertEquals(listOf("a", "later"), listOf(store.keys().single(), store.later().get()))
        assertEquals(3L, engine.snapshot().policies.getValue("p").attempts)
        policy.forceOpen()
        assertTrue(runCatching { store.read("a") }.exceptionOrNull() is ForcedOpen)
        leftNothing(engine)
    }

    @Test
    fun `mistakes are named`() = withEngine { engine ->
        val policy = engine.with()
        assertEquals("type = java.lang.String: must be an interface", refusal { policy.wrap("text") })
        assertEquals("methods: \"sell\" is no method of dev.tidegate.Orders", refusal { policy.wrap<Orders>(Shop(), listOf("sell")) })
        for (name in listOf("follow", "watch")) {
            val told = refusal { policy.wrap<Orders>(Shop(), listOf(name)) }
            assertEquals("methods: \"$name\" of dev.tidegate.Orders is a stream, which is never wrapped", told)
        }
        val told = refusal { policy.wrap<Store>(Shelf(), listOf("later")) }
        assertEquals("methods: \"later\" of dev.tidegate.Store answers later, which is never wrapped", told)
        assertTrue("does not declare that it throws IOException" in refusal { policy.wrap<Undeclared>(object : Undeclared { override fun read() = "" }) })
        assertTrue("has no method" in refusal { policy.wrap<OnlyStreams>(object : OnlyStreams { override fun all() = listOf(1).iterator() }) })
    }
}
