package dev.tidegate

import dev.tidegate.fleet.MemoryStore
import dev.tidegate.fleet.Store
import dev.tidegate.fleet.StoreException
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.delay
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.coroutines.ContinuationInterceptor
import kotlin.coroutines.resume
import kotlin.coroutines.suspendCoroutine
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource

/** A fleet without a server: the store in memory, one of one's own, and such as misbehave. */
@OptIn(ExperimentalCoroutinesApi::class)
class MemoryStoreTest {
    private fun Engine.limited(rate: Int = 100, loss: RateLimitOnLoss = RateLimitOnLoss.LOCAL): Policy {
        val own = this
        return policy("partner", own) {
            rateLimit { permits = rate; per = 1.seconds; burst = 20; lease = 1; store = RateLimitStore.FLEET; onLoss = loss }
        }
    }

    private fun TestScope.dispatcher() = coroutineContext[ContinuationInterceptor] as CoroutineDispatcher

    private fun fleet(time: TimeSource, store: MemoryStore, processes: Int = 3) =
        List(processes) { seed -> Engine(seed = seed.toLong(), timeSource = time).also { it.attach(store, "shop") } }

    @Test
    fun `coroutines of several engines share one rate in virtual time`() = runTest {
        val store = MemoryStore(testTimeSource)
        val engines = fleet(testTimeSource, store)
        val policies = engines.map { it.limited() }
        suspend fun passed(calls: Int) = (0 until calls).count {
            try {
                policies[it % 3].run { true }
            } catch (_: RateLimited) {
                false
            }
        }
        assertEquals(20, passed(60))
        assertEquals(0L, currentTime, "it answers at once")
        var later = 0
        repeat(50) {
            delay(100)
            later += passed(30)
        }
        assertEquals(500, later)
        assertTrue(store.describe().first().startsWith("shop:{r|partner|default}:rl "), "${store.describe()}")
        engines.forEach(::leftNothing)
    }

    @Test
    fun `blocking calls on a time that stands still find a store that answers`() {
        val time = FakeTime()
        val store = MemoryStore(time)
        val (here, there) = fleet(time, store, 2).map { it.limited() }
        val passed = (0 until 40).count {
            try {
                (if (it % 2 == 0) here else there).call { true }
            } catch (_: RateLimited) {
                false
            }
        }
        assertEquals(20, passed)
        time.advance(500.milliseconds)
        assertEquals("on", here.call { "on" })
    }

    @Test
    fun `it can be gone, and forget, and be there again`() = runTest {
        val store = MemoryStore(testTimeSource)
        val engine = fleet(testTimeSource, store, 1).single()
        val told = mutableListOf<String>()
        engine.listen(setOf("store_degraded", "store_recovered")) { told += it.kind }
        val policy = engine.limited(loss = RateLimitOnLoss.OPEN)
        assertEquals(1, policy.run { 1 })
        store.flush()
        assertEquals(emptyList<String>(), store.describe())
        assertEquals(2, policy.run { 2 })
        assertEquals(emptyList<String>(), told, "scripts that are forgotten are sent again")
        val before = store.commands
        store.up = false
        repeat(50) { policy.run { } }
        assertEquals(listOf("store_degraded"), told)
        assertEquals(before + 1, store.commands, "who knows that it is gone does not ask")
        store.up = true
        repeat(20) {
            delay(500)
            policy.run { }
        }
        assertEquals(listOf("store_degraded", "store_recovered"), told)
        leftNothing(engine)
    }

    @Test
    fun `an engine that has let it go goes on alone`() = runTest {
        val store = MemoryStore(testTimeSource)
        val engine = Engine(seed = 7, timeSource = testTimeSource)
        val attached = engine.attach(store)
        val policy = engine.limited(loss = RateLimitOnLoss.OPEN)
        policy.run { }
        attached.close()
        repeat(20) { n -> assertEquals(n, policy.run { n }) }
        assertEquals(2L, store.commands, "one by its name, one by its source")
    }

    @Test
    fun `as a store it answers and refuses`() = runTest {
        val store = MemoryStore()
        suspend fun execute(command: String) = store.execute(command.split(' ').map { it.encodeToByteArray() }, 1)
        assertEquals("OK", (execute("SET k 7 PX 1000") as ByteArray).decodeToString())
        assertEquals("8", (execute("INCRBY k 1") as ByteArray).decodeToString())
        assertEquals("NOSCRIPT", failure { execute("EVALSHA 0 2 k l") }.message!!.substringBefore(' '))
        store.up = false
        assertThrows(IllegalStateException::class.java) { kotlinx.coroutines.runBlocking { execute("GET k") } }
    }

    /** The whole of a store of one's own: one function, and here a map behind it. */
    private class Dictionary(private val now: () -> Long) : Store {
        private val held = HashMap<String, Pair<String, Long>>()

        override suspend fun execute(words: List<ByteArray>, key: Int): Any? {
            val (command, name) = words.map { it.decodeToString() }
            val rest = words.drop(2).map { it.decodeToString() }
            val found = held[name]?.takeIf { it.second > now() }
            return when (command) {
                "GET" -> found?.first
                "PTTL" -> found?.let { it.second - now() } ?: -2
                "DEL" -> if (held.remove(name) == null) 0 else 1
                "INCRBY" -> ((found?.first?.toLong() ?: 0) + rest[0].toLong()).also { held[name] = "$it" to (found?.second ?: Long.MAX_VALUE) }
                "PEXPIRE" -> if (found == null) 0 else 1.also { held[name] = found.first to now() + rest[0].toLong() }
                "SET" -> // SET key value PX milliseconds [NX]
                    if (found != null && rest.last() == "NX") null else "OK".also { held[name] = rest[0] to now() + rest[2].toLong() }
                else -> throw StoreException("ERR unknown command '$command'")
            }
        }
    }

    @Test
    fun `one function makes a store`() = runTest {
        val store = Dictionary { currentTime }
        val policies = List(2) { seed ->
            val engine = Engine(seed = seed.toLong(), timeSource = testTimeSource)
            engine.attach(store, "", plain = true, dispatcher())
            engine.limited(loss = RateLimitOnLoss.CLOSED)
        }
        suspend fun passed() = (0 until 100).count {
            try {
                policies[it % 2].run { true }
            } catch (_: RateLimited) {
                false
            }
        }
        assertEquals(20, passed())
        delay(200)
        assertTrue(passed() > 0)
        policies.forEach { leftNothing(it.engine) }
    }

    private class Unsayable : RuntimeException() {
        override val message: String get() = throw ArithmeticException("a message that cannot be had")
    }

    private object Unprintable {
        override fun toString(): String = throw ArithmeticException("a text that cannot be had")
    }

    private val hostile = mapOf<String, suspend () -> Any?>(
        "throws a refusal" to { throw StoreException("READONLY You can't write against a read only replica.") },
        "throws a refusal without a word" to { throw StoreException("") },
        "throws what cannot be said" to { throw Unsayable() },
        "throws an error" to { throw StackOverflowError() },
        "throws an interrupt" to { throw InterruptedException() },
        "throws a cancellation" to { throw CancellationException("not yours") },
        "runs out of a time of its own" to { withTimeout(1.milliseconds) { delay(1.seconds) } },
        "answers with what cannot be printed" to { Unprintable },
        "answers with a list" to { listOf(1, 0, 1) },
        "answers with nothing" to { Unit },
        "answers with a number beyond all" to { Long.MAX_VALUE },
        "answers with a negative number" to { -1 },
        "answers with megabytes" to { "1 ".repeat(1_000_000) },
        "answers with bytes that are no text" to { byteArrayOf(-1, 32, 0) },
        "never answers" to { suspendCoroutine { } },
        "answers twice" to {
            suspendCoroutine {
                it.resume("garbage")
                runCatching { it.resume("1 0 1") }
            }
        },
    )

    @Test
    fun `whatever a store does, no call is broken or held up`() {
        for ((how, does) in hostile) {
            withEngine { engine ->
                val told = mutableListOf<String>()
                engine.listen(setOf("store_degraded")) { told += it.kind }
                engine.attach({ _, _ -> does() }, "", plain = false, dispatcher())
                val policy = engine.limited(loss = RateLimitOnLoss.OPEN)
                assertEquals("through", policy.run { "through" }, how)
                assertTrue(currentTime <= 51, "a store that $how: $currentTime ms")
                assertEquals(listOf("store_degraded"), told, how)
                val at = currentTime
                repeat(20) { n -> assertEquals(n, policy.run { n }, how) }
                assertEquals(at, currentTime, "nobody waits for what is known to be gone: it $how")
            }
        }
    }

    @Test
    fun `an answer that comes late is of a command that has been given up`() = withEngine { engine ->
        val late = CompletableDeferred<Unit>()
        val memory = MemoryStore(testTimeSource)
        val told = mutableListOf<String>()
        engine.listen(setOf("store_degraded", "store_recovered")) { told += it.kind }
        val store = Store { words, key ->
            // It does not hear that its time is up.
            kotlinx.coroutines.withContext(kotlinx.coroutines.NonCancellable) { late.await() }
            memory.execute(words, key)
        }
        engine.attach(store, "", plain = false, dispatcher())
        val policy = engine.limited(loss = RateLimitOnLoss.CLOSED)
        assertTrue(failure { policy.run { "never" } } is StoreUnavailable)
        assertTrue(currentTime in 50..51, "$currentTime ms")
        late.complete(Unit)
        runCurrent()
        assertEquals(listOf("store_degraded"), told)
    }
}
