package dev.tidegate

import kotlinx.coroutines.async
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import kotlin.time.Duration.Companion.seconds

/** The device's link (semantics 2.22), and the blocks of `docs/kotlin/android.md` that can run here. */
class LinkTest {
    @AfterEach
    fun `leaves the process's engine as it was`() = Engine.default.setLink(Link.OK)

    @Test
    fun `a retry waits until the link is back`() =
        runTest {
            val engine = Engine(seed = 7, timeSource = testTimeSource)
            val policy = policy("link", engine) { deadline = 60.seconds; retry { backoff { base = 0.seconds } } }
            engine.setLink(Link.OFFLINE)
            val attempts = mutableListOf<Long>()
            val call = async {
                policy.run {
                    attempts += currentTime
                    if (it.number == 1) throw IOException("reset")
                    "there"
                }
            }
            testScheduler.advanceTimeBy(20_000)
            testScheduler.runCurrent()
            assertEquals(listOf(0L), attempts)
            engine.setLink(Link.OK)
            assertEquals("there", call.await())
            assertTrue(attempts.last() in 20_000..21_000, "$attempts")
        }

    @Test
    fun `the states of the page`() {
        val engine = Engine.default
        engine.setLink(Link.OFFLINE) // in a tunnel
        engine.setLink(Link.METERED) // on mobile data
        engine.setLink(Link.OK)      // at home
        pageIsIn("docs/kotlin/android.md", "LinkTest.kt", 1)
    }
}
