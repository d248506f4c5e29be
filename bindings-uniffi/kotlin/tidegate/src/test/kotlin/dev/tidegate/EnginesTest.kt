package dev.tidegate

import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.delay
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.util.concurrent.Callable
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** Calls inside a call of another engine (semantics 7.3.3, 7.3.4). */
@OptIn(ExperimentalCoroutinesApi::class)
class EnginesTest {
    private val time = FakeTime()

    private fun outer(engine: Engine, span: Duration? = 1.seconds) = policy("outer", engine) {
        deadline = span
        retry { maxAttempts = 1 }
    }

    private fun inner(engine: Engine) = policy("inner", engine) {
        retry { maxAttempts = 5; backoff { base = 400.milliseconds; max = base; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
    }

    @Test
    fun `a call ends at the deadline of another engine's call around it (7_3_3)`() {
        val inner = inner(Engine(seed = 8, timeSource = time))
        val report = outer(Engine(seed = 7, timeSource = time)).call {
            runCatching { inner.call { throw IOException("no") } }.exceptionOrNull()!!.report!!
        }
        assertEquals(3 to Verdict.WOULD_OUTLIVE_DEADLINE, report.attempts to report.reason)
        assertEquals(800.milliseconds, time.slept)
    }

    @Test
    fun `its attempts have the time that is left (7_3_3)`() {
        val outer = outer(Engine(seed = 7, timeSource = time))
        val inner = inner(Engine(seed = 8, timeSource = time))
        assertEquals(700.milliseconds, outer.call { time.advance(300.milliseconds); inner.call { it.time } })
        val third = policy("third", Engine(seed = 9, timeSource = time)) { deadline = 900.milliseconds }
        assertEquals(600.milliseconds, outer.call { third.call { time.advance(300.milliseconds); inner.call { it.time } } }, "the earliest counts")
        assertEquals(400.milliseconds, outer.call { time.advance(600.milliseconds); third.call { inner.call { it.time } } })
        assertEquals(100.milliseconds, outer.call { blockingWithBounds(100.milliseconds, timeSource = time) { inner.call { it.time } } })
    }

    @Test
    fun `a call that has ended gives no deadline (7_3_2)`() {
        val inner = inner(Engine(seed = 8, timeSource = time))
        val later = outer(Engine(seed = 7, timeSource = time)).call { carried(Callable { inner.call { it.time } }) }
        assertNull(later.call())
    }

    @Test
    fun `no deadline crosses where the clocks differ, and nothing else crosses at all (7_3_4)`() {
        for (others in listOf(FakeTime(), null)) {
            val inner = inner(Engine(seed = 8, timeSource = others))
            assertNull(outer(Engine(seed = 7, timeSource = time)).call { inner.call { it.time } }, "$others")
            assertNull(outer(Engine(seed = 7, timeSource = others)).call { inner(Engine(seed = 8, timeSource = time)).call { it.time } }, "$others")
        }
        // The same clock, and still its own retries: the outer call refuses none.
        val around = policy("around", Engine(seed = 7, timeSource = time)) { retry { maxAttempts = 3 } }
        val inner = inner(Engine(seed = 8, timeSource = time))
        assertEquals("third", around.call { inner.call { if (it.number < 3) throw IOException("no") else "third" } })
    }

    @Test
    fun `real clocks are one clock (7_3_3)`() {
        val left = outer(Engine(seed = 7), 30.seconds).call { inner(Engine(seed = 8)).call { it.time } }
        assertTrue(left != null && left <= 30.seconds, "$left")
        assertTrue(outer(Engine(seed = 7), 30.seconds).call { inner(Engine(seed = 8, timeSource = PlatformTime)).call { it.time } } != null)
    }

    @Test
    fun `a suspending call is stopped at the deadline of another engine's call (7_3_3)`() = runTest {
        val outer = outer(Engine(seed = 7, timeSource = testTimeSource))
        val inner = inner(Engine(seed = 8, timeSource = testTimeSource))
        assertTrue(failure { outer.run { inner.run { delay(10.seconds) } } } is DeadlineExceeded)
        assertEquals(1_000, currentTime)
        assertEquals(1.seconds, outer.run { inner.run { it.time } })
        assertEquals(1.seconds, outer.run { blocking(inner) }, "a blocking call inside a suspending one")
        assertNull(outer(Engine(seed = 7, timeSource = time)).run { inner.run { it.time } }, "another clock (7.3.4)")
        leftNothing(outer.engine)
        leftNothing(inner.engine)
    }

    private fun blocking(inner: Policy): Duration? = inner.call { it.time }

    @Test
    fun `a future's call has the deadline, too (7_3_3)`() {
        val outer = outer(Engine(seed = 7, timeSource = time))
        val inner = inner(Engine(seed = 8, timeSource = time))
        val left = outer.call { inner.callAsync { CompletableFuture.completedFuture(it.time) }.get(10, TimeUnit.SECONDS) }
        assertEquals(1.seconds, left)
    }
}
