package dev.tidegate.http

import dev.tidegate.BackoffJitter
import dev.tidegate.BudgetKind
import dev.tidegate.BulkheadFull
import dev.tidegate.CallOptions
import dev.tidegate.Configure
import dev.tidegate.DeadlineExceeded
import dev.tidegate.Engine
import dev.tidegate.Metrics
import dev.tidegate.Outcome
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.Preset
import dev.tidegate.Verdict
import dev.tidegate.blockingWithBounds
import dev.tidegate.carried
import dev.tidegate.leftNothing
import dev.tidegate.policy
import dev.tidegate.report
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows
import java.io.IOException
import java.io.InterruptedIOException
import java.net.ConnectException
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.Callable
import java.util.concurrent.CountDownLatch
import java.util.concurrent.ExecutionException
import java.util.concurrent.Executors
import kotlin.concurrent.thread
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.measureTime

/** The rules for every adapter where the "client" is any function: `policy.call`. Those about requests are of no use there (`MatrixTest`). */
@Timeout(60)
class BlockingTest {
    private val time = FakeTime()
    private val start = time.markNow()
    private val engine = Engine(seed = 7, timeSource = time)

    private fun policy(of: Engine = engine, name: String = "p", configure: Configure<PolicyOptions> = Configure { }): Policy = policy(name, of) {
        retry { backoff { base = 1.seconds; max = 60.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
        with(configure) { configure() }
    }

    private val lost = IOException("lost")

    @AfterEach
    fun nothingIsLeft() = leftNothing(engine)

    @Test
    fun `rule 1, what cannot be made again is made once`() {
        val error = assertThrows<IOException> { policy().at(CallOptions(replayable = false)).call { throw lost } }
        assertSame(lost, error)
        assertEquals(Verdict.ONE_SHOT_BODY, error.report?.reason)
    }

    @Test
    fun `rule 2, what is not idempotent is repeated only where it was never sent`() {
        val caller = policy().at(CallOptions(idempotent = false))
        assertEquals(Verdict.METHOD, assertThrows<IOException> { caller.call { throw lost } }.report?.reason)
        assertEquals(2, caller.call { if (it.number == 1) throw ConnectException("refused") else it.number })
    }

    @Test
    fun `rule 3, the last exception is the caller's, or the last result`() {
        val errors = List(3) { IOException("no. $it") }
        val error = assertThrows<IOException> { policy().call { throw errors[it.number - 1] } }
        assertSame(errors[2], error)
        assertEquals("gave up after 3 attempts", error.report?.note)
        val busy = policy { classify { result, _ -> if (result == "busy") Outcome(Outcome.TRANSIENT) else null } }
        assertEquals("busy", busy.call { "busy" })
    }

    @Test
    fun `rule 5, in a thousand trials no repeat is early`() {
        val asking = policy {
            retry { maxAttempts = 2; maxRetryAfter = 120.seconds; backoff { jitter = BackoffJitter.FULL_FLOOR } }
            classify { result, _ -> (result as? Duration)?.let { Outcome(Outcome.TRANSIENT, retryAfter = it) } }
        }
        repeat(1_000) { trial ->
            val at = mutableListOf<Duration>()
            asking.call<Any> { at += start.elapsedNow(); if (it.number == 1) (trial % 90).seconds else "fine" }
            assertTrue(at[1] - at[0] >= (trial % 90).seconds, "trial $trial: $at")
        }
        val long = policy(Engine(timeSource = time)) { classify { _, _ -> Outcome(Outcome.TRANSIENT, retryAfter = 500.seconds) } }
        val before = time.slept
        assertEquals("busy" to before, long.call { "busy" } to time.slept)
    }

    @Test
    fun `rule 6, a wait is given up at once`() {
        val real = Engine(seed = 7)
        val slow = policy(real) { retry { backoff { base = 60.seconds } } }
        val began = CountDownLatch(1)
        var error: Throwable? = null
        val thread = thread { error = runCatching { slow.call { began.countDown(); throw lost } }.exceptionOrNull() }
        began.await()
        val took = measureTime {
            thread.interrupt()
            thread.join(60_000)
        }
        assertTrue(error is InterruptedException && took < 30.seconds, "$error after $took")
        assertEquals(1L, real.snapshot().policies.getValue("p").ends["cancelled"])
        leftNothing(real)
    }

    @Test
    fun `rule 6, an interrupt that I-O has noticed is the caller's giving up, and no failure`() {
        val narrow = policy { breaker { consecutive = 1; breakDuration = 60.seconds }; retry { maxAttempts = 1 } }
        for (error in listOf(InterruptedIOException("interrupted"), ClosedByInterruptException())) {
            Thread.currentThread().interrupt()
            assertSame(error, assertThrows<IOException> { narrow.call({ "cached" }) { throw error } })
            assertTrue(Thread.interrupted(), "the mark stays")
        }
        assertEquals(2L, engine.snapshot().policies.getValue("p").ends["cancelled"])
        assertEquals("closed", narrow.call { "closed" })
        Thread.currentThread().interrupt()
        assertThrows<SocketTimeoutException> { policy(name = "late") { retry { maxAttempts = 1 } }.call { throw SocketTimeoutException("read") } }
        assertTrue(Thread.interrupted())
        assertEquals(2L, engine.snapshot().policies.getValue("p").ends["cancelled"], "a timeout is a failure")
    }

    @Test
    fun `rule 7, an attempt is told its time, and nothing begins that cannot end in time`() {
        val timed = policy { attemptTimeout = 8.seconds; deadline = 10.seconds; retry { maxAttempts = 2 } }
        val times = mutableListOf<Duration?>()
        assertThrows<IOException> { timed.call { times += it.time; time.advance(5.seconds); throw lost } }
        assertEquals(listOf(8.seconds, 4.seconds), times)
        val late = IOException("late")
        assertSame(late, assertThrows<IOException> { timed.call { time.advance(9_500.milliseconds); throw late } })
        assertEquals(Verdict.WOULD_OUTLIVE_DEADLINE, late.report?.reason)
        val exceeded = assertThrows<DeadlineExceeded> { blockingWithBounds(deadline = 0.seconds) { timed.call { "never" } } }
        assertEquals(504, exceeded.httpStatus)
    }

    @Test
    fun `rule 8, a slot is kept until the function returns, and given back when it throws`() {
        val narrow = policy { bulkhead { maxConcurrency = 1 }; retry { maxAttempts = 1 } }
        narrow.call { assertThrows<BulkheadFull> { thread { }.join(); otherThread { narrow.at(CallOptions()).call { } } } }
        assertThrows<IOException> { narrow.call { throw lost } }
        assertEquals("free", narrow.call { "free" })
    }

    private fun otherThread(work: () -> Unit) {
        var error: Throwable? = null
        thread { error = runCatching(work).exceptionOrNull() }.join()
        error?.let { throw it }
    }

    @Test
    fun `rule 9, a policy within a policy makes one attempt`() {
        var calls = 0
        val inner = policy(engine) { retry { maxAttempts = 5 } }
        val around = policy("around", this@BlockingTest.engine) { retry { maxAttempts = 2; backoff { base = 1.seconds } } }
        assertThrows<IOException> { around.call { inner.call { calls++; throw lost } } }
        assertEquals(2, calls)
        runCatching { inner.call { calls++; throw lost } }
        assertEquals(7, calls, "and not what comes after it")
    }

    @Test
    fun `rule 9, what is around reaches through calls of the fast way, on this thread alone`() {
        val outer = policy { retry { maxAttempts = 1 } }
        val other = Engine(seed = 8, timeSource = time)
        val inner = policy(other)
        outer.call {
            outer.call { assertThrows<DeadlineExceeded> { blockingWithBounds(deadline = 0.seconds) { inner.call { "late" } } } }
            assertEquals("in time", inner.call { blockingWithBounds(deadline = 5.seconds) { outer.call { inner.call { "in time" } } } })
            otherThread { assertEquals("another", inner.call { "another" }) }
        }
        assertEquals("after", inner.call { "after" })
        leftNothing(other)
    }

    @Test
    fun `rule 9, what an executor carries out is within the call that has asked for it, where it is carried (S14)`() {
        val pool = Executors.newSingleThreadExecutor()
        val inner = policy(name = "inner")
        val outer = policy { retry { maxAttempts = 2 }; classify { _, error -> error?.let { Outcome(Outcome.TRANSIENT) } } }
        fun sends(asked: (Callable<Unit>) -> Callable<Unit>): Int {
            var calls = 0
            assertThrows<ExecutionException> { outer.call { pool.submit(asked { inner.call { calls++; throw lost } }).get() } }
            return calls
        }
        assertEquals(2, sends { carried(it) })
        assertEquals(6, sends { it }, "retries multiply: it is nobody's child")
        val error = outer.call { runBlocking(carried()) { withContext(Dispatchers.Default) { runCatching { inner.run { throw IOException("lost") } } } } }
        assertEquals(Verdict.NESTED, error.exceptionOrNull()?.report?.reason)
        pool.shutdown()
    }

    @Test
    fun `rule 10, an injected clock drives every wait`() {
        val at = mutableListOf<Duration>()
        policy { retry { backoff { base = 60.seconds } } }.call { at += start.elapsedNow(); if (it.number < 3) throw lost }
        assertEquals(listOf(0, 60, 120), at.map { it.inWholeSeconds.toInt() })
    }

    @Test
    fun `rule 12, finite and safe by default`() {
        var calls = 0
        val preset = policy("preset", this@BlockingTest.engine) { preset = Preset.HTTP }
        assertThrows<IOException> { preset.call { calls++; throw lost } }
        assertEquals(3, calls)
        assertTrue(time.slept > Duration.ZERO && time.slept < 1.seconds, "${time.slept}")
    }

    @Test
    fun `rule 13, a repeat that is held back has its reason`() {
        val metrics = Metrics(engine)
        val told = mutableListOf<String?>()
        engine.listen(setOf("retry_suppressed", "gave_up")) { told += it.reason }.use {
            assertThrows<IOException> { policy().call { throw lost } }
            assertThrows<IllegalStateException> { policy().call { throw IllegalStateException("no") } }
            assertThrows<IOException> { policy(name = "short") { deadline = 1.seconds; retry { backoff { base = 2.seconds } } }.call { throw lost } }
        }
        assertEquals(listOf("attempts", "not_retryable", "would_outlive_deadline"), told)
        val counted = metrics.read().filter { it.family.name == "tidegate_retries_suppressed_total" }
        assertEquals(told.toSet(), counted.map { it.labels["reason"] }.toSet())
    }

    @Test
    fun `rule 14, many at once leave nothing`() {
        val real = Engine(seed = 7)
        val narrow = policy(real) { bulkhead { maxConcurrency = 2; maxQueue = 100; acquireTimeout = 60.seconds }; retry { backoff { base = 1.milliseconds } } }
        val threads = List(8) { thread { repeat(50) { narrow.call { if (it.number == 1) throw lost } } } }
        threads.forEach { it.join() }
        assertEquals(400L, real.snapshot().policies.getValue("p").ends["ok"])
        leftNothing(real)
        assertNotNull(real)
    }
}
