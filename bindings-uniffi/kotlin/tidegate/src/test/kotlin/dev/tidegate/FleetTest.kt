package dev.tidegate

import dev.tidegate.fleet.RedisStore
import dev.tidegate.fleet.Store
import dev.tidegate.fleet.StoreException
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runCurrent
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows
import java.io.IOException
import kotlin.coroutines.ContinuationInterceptor
import kotlin.time.Duration
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds

@Timeout(60)
@OptIn(ExperimentalCoroutinesApi::class)
class FleetTest {
    private fun Engine.limited(loss: RateLimitOnLoss = RateLimitOnLoss.LOCAL, name: String = "p", patience: Duration? = null): Policy {
        val own = this
        return policy(name, own) {
            storeTimeout = patience
            rateLimit { permits = 10; per = 1.minutes; store = RateLimitStore.FLEET; lease = 1; onLoss = loss }
        }
    }

    private fun TestScope.dispatcher() = coroutineContext[ContinuationInterceptor] as CoroutineDispatcher

    /** Of the script `rate`: how many tokens are wanted. */
    private fun wanted(words: List<ByteArray>) = words[5].decodeToString().split(" ")[3]

    /** Its answer that there were as many: granted, wait, processes. */
    private fun granted(words: List<ByteArray>) = "${wanted(words)} 0 1"

    /** How many of so many calls are let through. */
    private fun passed(policy: Policy, calls: Int): Int = (1..calls).count {
        try {
            policy.call { true }
        } catch (_: RateLimited) {
            false
        }
    }

    @Test
    fun `two engines share one rate through Redis`() = Redis.start().use { redis ->
        redis.connection().use { connection ->
            val (one, other) = List(2) { Engine().also { it.attach(RedisStore(connection)) }.limited(patience = 10.seconds) }
            val there = passed(one, 6)
            assertEquals(10, there + passed(other, 10))
            assertEquals(6 to 0, there to passed(one, 3))
            leftNothing(one.engine)
            leftNothing(other.engine)
        }
    }

    @Test
    fun `a store that is killed is gone at once, and comes back by itself`() {
        val redis = Redis.start()
        val told = java.util.concurrent.CopyOnWriteArrayList<String>()
        val engine = Engine()
        engine.listen(setOf("store_degraded", "store_recovered")) { told += it.kind }
        engine.attach(RedisStore(redis.connection()))
        val policy = engine.limited(RateLimitOnLoss.OPEN)
        assertEquals(2, passed(policy, 2))
        redis.kill()
        assertEquals(20, passed(policy, 20), "open lets all calls pass")
        val soon = System.nanoTime() + 60_000_000_000 // another thread may be telling
        while (told.isEmpty() && System.nanoTime() < soon) Thread.sleep(1)
        assertEquals(listOf("store_degraded"), told.toList())
        Redis.start(redis.port).use {
            val until = System.nanoTime() + 30_000_000_000
            while (told.size < 2 && System.nanoTime() < until) {
                passed(policy, 1)
                Thread.sleep(20)
            }
            assertEquals(listOf("store_degraded", "store_recovered"), told.toList())
        }
        redis.close()
        leftNothing(engine)
    }

    @Test
    fun `a call waits for the store as long as the policy says, and no longer`() = withEngine { engine ->
        val asked = mutableListOf<String>()
        val store = Store { words, key ->
            asked += words[key].decodeToString()
            awaitCancellation()
        }
        engine.attach(store, "mine", plain = false, dispatcher())
        val policy = engine.limited(RateLimitOnLoss.CLOSED)
        val error = failure { policy.run { "never" } }
        assertTrue(error is StoreUnavailable && currentTime in 50..51, "$error after $currentTime ms")
        assertTrue(asked.single().startsWith("mine:{r|p|default}:"), "$asked")
    }

    @Test
    fun `whatever a store throws or answers is a loss, and breaks no call`() {
        val broken = listOf<Store>(
            Store { _, _ -> throw StoreException("READONLY a replica") },
            Store { _, _ -> throw IOException("reset") },
            Store { _, _ -> throw AssertionError("a bug") },
            Store { _, _ -> "garbage" },
            Store { _, _ -> null },
            Store { _, _ -> ByteArray(3) },
        )
        for (store in broken) {
            withEngine { engine ->
                val told = mutableListOf<String?>()
                engine.listen(setOf("store_degraded")) { told += it.kind }
                engine.attach(store, "", plain = false, dispatcher())
                assertEquals("fine", engine.limited(RateLimitOnLoss.OPEN).run { "fine" })
                assertEquals(listOf<String?>("store_degraded"), told)
            }
        }
    }

    @Test
    fun `a caller that gives up while the store is asked leaves nothing`() = withEngine { engine ->
        val answer = CompletableDeferred<Unit>()
        val asked = mutableListOf<String>()
        engine.attach({ words, _ -> asked += wanted(words); answer.await(); granted(words) }, "", plain = false, dispatcher())
        val policy = engine.limited()
        val job = launch { policy.run { "never" } }
        runCurrent()
        assertEquals(1, engine.snapshot().waiting)
        job.cancel()
        runCurrent()
        assertEquals(0, engine.snapshot().waiting)
        answer.complete(Unit)
        runCurrent()
        assertEquals(listOf("1", "0"), asked, "what was granted in vain is given back")
    }

    @Test
    fun `an engine that has let its store go goes on alone`() = withEngine { engine ->
        val attached = engine.attach({ words, _ -> granted(words) }, "", plain = false, dispatcher())
        val policy = engine.limited(RateLimitOnLoss.OPEN)
        assertEquals("shared", policy.run { "shared" })
        attached.close()
        repeat(20) { assertEquals("alone", policy.run { "alone" }) }
    }

    @Test
    fun `mistakes are told`() {
        val engine = Engine(seed = 7)
        val told = assertThrows<PolicyException> { engine.limited() }
        assertTrue("rateLimit.store" in told.message!!, told.message)
        engine.attach({ _, _ -> null })
        assertThrows<IllegalStateException> { engine.attach({ _, _ -> null }) }
    }
}
