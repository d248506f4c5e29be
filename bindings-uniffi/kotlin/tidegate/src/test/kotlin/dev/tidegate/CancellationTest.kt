package dev.tidegate

import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.advanceTimeBy
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.withContext
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.CsvSource
import java.io.IOException
import kotlin.time.Duration.Companion.milliseconds

/** A caller that gives up at any moment of its call's life: nothing stays behind, and its place is the next one's. */
@OptIn(ExperimentalCoroutinesApi::class)
class CancellationTest {
    /** It queues for 30 ms, fails after 20, waits 50, runs out of its 40, waits 50, and takes 39: 229 ms, or what a hedge makes of them. */
    @ParameterizedTest
    @CsvSource("CALL,false,46", "ATTEMPT,false,46", "CALL,true,20", "ATTEMPT,true,20")
    fun `at any moment`(unit: BulkheadUnit, hedged: Boolean, least: Int) {
        val ends = (0..270 step 5).map { after -> end(unit, hedged, after) }
        assertTrue(ends.count { it == "cancelled" } in least..54, "$ends")
        assertEquals("ok", ends.last())
    }

    private fun end(unit: BulkheadUnit, hedged: Boolean, after: Int): String {
        var told = ""
        withEngine { engine ->
            val policy = policy("p", engine) {
                attemptTimeout = 40.milliseconds
                retry { backoff { base = 50.milliseconds; max = 50.milliseconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
                bulkhead { maxConcurrency = 1; maxQueue = 5; this.unit = unit }
                if (hedged) hedge { delay = 10.milliseconds }
            }
            val first = launch { policy.run { delay(30) } }
            runCurrent()
            var running = 0
            val job = launch {
                policy.run { attempt ->
                    running++
                    try {
                        when (attempt.number) {
                            1 -> { delay(20); throw IOException("reset") }
                            2 -> awaitCancellation()
                            else -> delay(39)
                        }
                    } finally {
                        running--
                    }
                }
            }
            advanceTimeBy(after.milliseconds)
            runCurrent()
            job.cancelAndJoin()
            assertEquals(0, running, "attempts that still run after $after ms")
            first.join()
            assertEquals("next", policy.at("default").run { "next" }, "its place is free after $after ms")
            val ends = engine.snapshot().policies.getValue("p").ends.filterValues { it > 0L }
            assertEquals(3L, ends.values.sum(), "$ends after $after ms")
            told = if ("cancelled" in ends) "cancelled" else if (ends["ok"] == 3L) "ok" else ends.keys.joinToString()
        }
        return told
    }

    @Test
    fun `inside a policy, a block with bounds and a wrapped method`() {
        for (after in 0..60 step 5) {
            withEngine { engine ->
                val outer = policy("outer", engine) { bulkhead { maxConcurrency = 1 } }
                val inner = policy("inner", engine) { bulkhead { maxConcurrency = 1 }; retry { } }
                val job = launch { runCatching { outer.run { withBounds(deadline = 40.milliseconds) { inner.run { delay(100) } } } } }
                advanceTimeBy(after.milliseconds)
                runCurrent()
                job.cancelAndJoin()
                assertEquals("next", outer.run { inner.run { "next" } }, "after $after ms")
            }
        }
    }

    @Test
    fun `the limit counts an attempt that is being cancelled, until it has ended (R12)`() = withEngine { engine ->
        val strict = policy("strict", engine) { attemptTimeout = 40.milliseconds; bulkhead { maxConcurrency = 1 } }
        val first = launch {
            val error = failure {
                strict.run {
                    try {
                        awaitCancellation()
                    } finally {
                        withContext(NonCancellable) { delay(100) }
                    }
                }
            }
            assertTrue(error is AttemptTimeout, "$error")
        }
        advanceTimeBy(60.milliseconds)
        runCurrent()
        val error = failure { strict.run { "beside it" } }
        assertTrue(error is BulkheadFull, "$error")
        advanceTimeBy(100.milliseconds)
        runCurrent()
        assertEquals("next", strict.run { "next" })
        first.join()
    }
}
