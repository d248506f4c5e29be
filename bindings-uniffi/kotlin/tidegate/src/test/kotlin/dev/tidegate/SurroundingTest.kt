package dev.tidegate

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds

/** The context of a thread is a weak reference; it must outlive every collection for as long as something surrounds the code that runs there. */
class SurroundingTest {
    private val policy = policy { attemptTimeout = 3600.seconds }

    private fun left(): Duration {
        System.gc()
        return policy.call { it.time!! }
    }

    @Test
    fun `a deadline outlives a collection, for blocking calls`() {
        assertTrue(blockingWithBounds(5.seconds) { left() } < 6.seconds)
        assertTrue(left() > 6.seconds)
    }

    @Test
    fun `a deadline outlives a collection, for calls inside a coroutine`() = runBlocking {
        withContext(Dispatchers.Default) {
            withBounds(5.seconds) {
                assertTrue(left() < 6.seconds)
                yield()
                assertTrue(left() < 6.seconds)
            }
            assertTrue(left() > 6.seconds)
        }
    }

    @Test
    fun `a call outlives a collection, for a call inside it`() {
        val outer = policy { deadline = 5.seconds }
        assertTrue(outer.call { left() } < 6.seconds)
        assertTrue(runBlocking { outer.run { left() } } < 6.seconds)
    }
}
