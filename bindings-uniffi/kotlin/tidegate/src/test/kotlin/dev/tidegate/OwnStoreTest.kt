package dev.tidegate

import dev.tidegate.fleet.MemoryStore
import dev.tidegate.fleet.Store
import kotlinx.coroutines.Dispatchers
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
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
}
