package dev.tidegate

import dev.tidegate.fleet.MemoryStore
import dev.tidegate.fleet.Store
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import kotlin.time.Duration.Companion.minutes

/** Stores of a user's own. */
@Timeout(60)
class OwnStoreTest {
    private fun Engine.limited(name: String): Policy {
        val own = this
        return policy(name, own) {
            storeTimeout = 1.minutes
            rateLimit { permits = 10; per = 1.minutes; store = RateLimitStore.FLEET; lease = 1; onLoss = RateLimitOnLoss.OPEN }
        }
    }

    @Test
    fun `a detached store gets no commands`() {
        val memory = MemoryStore()
        val asked = AtomicInteger()
        val own = Engine()
        val store = Store { words, key -> memory.execute(words, key).also { asked.incrementAndGet() } }
        val attached = own.attach(store, "", false, Dispatchers.Unconfined)
        own.limited("before").call { }
        val before = asked.get()
        attached.close()
        own.limited("after").call { }
        assertEquals(before, asked.get())
        leftNothing(own)
    }

    @Test
    fun `a store that blocks its thread takes none from the program's coroutines`() {
        val calls = Runtime.getRuntime().availableProcessors() + 2
        val (memory, come) = MemoryStore() to CountDownLatch(calls)
        val own = Engine()
        val alone = AtomicInteger()
        // Answers once as many commands as there are calls wait beside each other.
        val store = Store { words, key ->
            come.countDown()
            if (!come.await(10, TimeUnit.SECONDS)) alone.incrementAndGet()
            memory.execute(words, key)
        }
        own.attach(store).use {
            val policies = List(calls) { own.limited("p$it") }
            runBlocking { policies.map { async { it.run { } } }.awaitAll() }
        }
        assertEquals(0, alone.get(), "of the first $calls commands, those that kept others from being sent")
    }
}
