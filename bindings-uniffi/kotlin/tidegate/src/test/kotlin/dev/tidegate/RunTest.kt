package dev.tidegate

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOf
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.flow.takeWhile
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import kotlin.time.Duration.Companion.hours
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** An engine whose time is that of the test, and a look at what is left when it is over. */
@OptIn(ExperimentalCoroutinesApi::class)
internal fun withEngine(test: suspend TestScope.(Engine) -> Unit) = runTest {
    val engine = Engine(seed = 7, timeSource = testTimeSource)
    test(engine)
    leftNothing(engine)
}

internal fun leftNothing(engine: Engine) {
    val left = engine.snapshot()
    assertEquals(listOf(0, 0, 0), listOf(left.live, left.waiting, left.lingering), "calls that are left: $left")
    assertEquals(0, engine.waiters.size, "waiters that are left")
    assertTrue(left.routes.all { it.bulkhead?.inFlight ?: 0 == 0 }, "permits that are left: ${left.routes}")
}

internal suspend fun failure(work: suspend () -> Any?): Throwable = try {
    throw AssertionError("no error, but ${work()}")
} catch (error: AssertionError) {
    throw error
} catch (error: Throwable) {
    error
}

@OptIn(ExperimentalCoroutinesApi::class)
class RunTest {
    private fun Engine.policy(configure: Configure<PolicyOptions>): Policy {
        val own = this
        return policy("p", own) {
            with(configure) { configure() }
        }
    }

    @Test
    fun `what works is returned, and counted`() = withEngine { engine ->
        val policy = engine.policy { retry { } }
        assertEquals("attempt 1", policy.run { "attempt ${it.number}" })
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends["ok"])
    }

    @Test
    fun `a failure that may pass is repeated after its backoff, in virtual time`() = withEngine { engine ->
        val policy = engine.policy { retry { backoff { base = 10.seconds; max = 10.seconds; jitter = BackoffJitter.NONE } } }
        val answer = policy.run { attempt -> if (attempt.number < 3) throw IOException("reset") else attempt.number }
        assertEquals(3 to 20_000L, answer to currentTime)
    }

    @Test
    fun `the last failure is the caller's, the same object, and says why it was the last`() = withEngine { engine ->
        val policy = engine.policy { retry { maxAttempts = 2 } }
        val errors = List(2) { IOException("no. $it") }
        val thrown = failure { policy.run { throw errors[it.number - 1] } }
        assertSame(errors[1], thrown)
        assertEquals(Verdict.ATTEMPTS, thrown.report?.reason)
        assertEquals("gave up after 2 attempts", thrown.report?.note)
        assertNull(errors[0].report)
    }

    @Test
    fun `a report is that of the call that delivers the exception`() = withEngine { engine ->
        val inner = policy("inner", engine) { retry { maxAttempts = 2 } }
        val outer = policy("outer", engine) { retry { maxAttempts = 3 } }
        var seen: Report? = null
        val thrown = failure {
            outer.run { failure { inner.run { throw IOException("lost") } }.let { seen = it.report; throw it } }
        }
        assertEquals(Verdict.NESTED to 1, seen?.reason to seen?.attempts)
        assertEquals(Verdict.ATTEMPTS to 3, thrown.report?.reason to thrown.report?.attempts)
        val shared = IOException("the same object")
        val first = failure { policy("two", engine) { retry { maxAttempts = 2 } }.run { throw shared } }.report
        val second = failure { policy("one", engine) { retry { maxAttempts = 1 } }.run { throw shared } }.report
        assertEquals(2 to 1, first?.attempts to second?.attempts)
        assertEquals(1, shared.suppressed.size, "nothing piles up")
        assertEquals("tidegate: attempts", "${shared.suppressed.single()}")
    }

    @Test
    fun `an engine of real time in a test of virtual time is an error, and does not spin`() = runTest {
        val policy = policy(engine = Engine(seed = 7)) { retry { backoff { base = 3.seconds; max = 3.seconds; jitter = BackoffJitter.NONE } } }
        var made = 0
        val thrown = failure { policy.run { made += 1; throw IOException("lost") } }
        assertTrue(thrown is IllegalStateException && "testTimeSource" in "${thrown.message}", "$thrown")
        assertEquals(1, made)
        assertTrue(currentTime < 10_000, "virtual time went on to $currentTime ms")
        leftNothing(policy.engine)
    }

    @Test
    fun `a failure tells its report also where coroutines have handed on a copy`() = runTest {
        val policy = Engine(seed = 7).policy { retry { maxAttempts = 2; backoff { base = 1.milliseconds } } }
        val thrown = failure { withContext(Dispatchers.Default) { policy.run { throw IOException("lost") } } }
        assertEquals("gave up after 2 attempts", thrown.report?.note)
        // Whether that was a copy depends on who was faster. A copy is of the same class, with the original as its cause.
        val original = generateSequence(thrown) { it.cause }.last()
        assertEquals("gave up after 2 attempts", IOException("lost", original).report?.note)
        assertEquals("gave up after 2 attempts", IllegalStateException(original).report?.note, "as clients wrap what a policy has delivered")
    }

    @Test
    fun `what cannot pass is not repeated`() = withEngine { engine ->
        val policy = engine.policy { retry { } }
        var made = 0
        val thrown = failure { policy.run { made += 1; throw IllegalStateException("a mistake") } }
        assertEquals(1 to Verdict.NOT_RETRYABLE, made to thrown.report?.reason)
    }

    @Test
    fun `an attempt is stopped when its time is up, and what comes of it is told apart from the caller's cancelling`() = withEngine { engine ->
        val policy = engine.policy { attemptTimeout = 1.seconds; retry { maxAttempts = 2; budget { kind = BudgetKind.NONE }; backoff { base = 1.seconds; jitter = BackoffJitter.NONE } } }
        val seen = mutableListOf<Throwable>()
        val thrown = failure {
            policy.run<Unit> {
                try {
                    awaitCancellation()
                } catch (stopped: CancellationException) {
                    seen += stopped
                    throw stopped
                }
            }
        }
        assertTrue(thrown is AttemptTimeout, "$thrown")
        assertEquals(listOf(3_000L, 2L), listOf(currentTime, seen.size.toLong()))
        assertEquals("gave up after 2 attempts", thrown.report?.note)
    }

    @Test
    fun `a function knows the whole of its time, however long`() = withEngine { engine ->
        val long = policy("long", engine) { deadline = 10.hours; attemptTimeout = 2.hours }
        assertEquals(2.hours to 2.hours, long.run { it.time } to long.call { it.time })
    }

    @Test
    fun `a timeout inside an attempt is a failure, not the caller's cancelling`() = withEngine { engine ->
        val policy = engine.policy { retry { } }
        assertEquals(2, policy.run { attempt -> if (attempt.number == 1) withTimeout(10) { awaitCancellation() } else attempt.number })
    }

    @Test
    fun `the deadline ends the call`() = withEngine { engine ->
        val policy = engine.policy { deadline = 2.seconds; retry { } }
        val thrown = failure { policy.run { awaitCancellation() } }
        assertTrue(thrown is DeadlineExceeded, "$thrown")
        assertEquals(2_000L, currentTime)
        assertEquals(504, (thrown as TidegateException).httpStatus)
    }

    @Test
    fun `a hedge is started beside a slow attempt, and the loser is cancelled`() = withEngine { engine ->
        val policy = engine.policy { hedge { delay = 100.milliseconds; budget { kind = HedgeBudgetKind.NONE } } }
        val stopped = mutableListOf<Int>()
        val winner = policy.run { attempt ->
            try {
                delay(if (attempt.number == 1) 10_000 else 50)
            } catch (cancelled: CancellationException) {
                stopped += attempt.number
                throw cancelled
            }
            attempt.number
        }
        assertEquals(Triple(2, listOf(1), 150L), Triple(winner, stopped, currentTime))
    }

    @Test
    fun `calls queue for a slot, in their order, and a full queue refuses`() = withEngine { engine ->
        val policy = engine.policy { bulkhead { maxConcurrency = 1; maxQueue = 1 } }
        val gate = CompletableDeferred<Unit>()
        val order = mutableListOf<Int>()
        val first = async { policy.run { gate.await(); order += 1 } }
        runCurrent()
        val second = async { policy.run { order += 2 } }
        runCurrent()
        val thrown = failure { policy.run { order += 3 } }
        assertTrue(thrown is BulkheadFull, "$thrown")
        assertEquals(1 to 1, (thrown as BulkheadFull).maxConcurrency to thrown.maxQueue)
        assertEquals(Verdict.QUEUE_FULL, thrown.reason)
        gate.complete(Unit)
        first.await()
        second.await()
        assertEquals(listOf(1, 2), order)
    }

    @Test
    fun `a caller that gives up in the queue takes nothing, and its place goes to the next`() = withEngine { engine ->
        val policy = engine.policy { bulkhead { maxConcurrency = 1; maxQueue = 5 } }
        val gate = CompletableDeferred<Unit>()
        val first = async { policy.run { gate.await() } }
        runCurrent()
        val second = launch { policy.run { throw AssertionError("it has been cancelled") } }
        val third = async { policy.run { "third" } }
        runCurrent()
        second.cancelAndJoin()
        assertEquals(1, engine.snapshot().routes.single().bulkhead?.waiting)
        gate.complete(Unit)
        first.await()
        assertEquals("third", third.await())
    }

    @Test
    fun `cancelling is transparent at every point where a call may wait`() = withEngine { engine ->
        val backoff = engine.policy { retry { backoff { base = 60.seconds; max = 60.seconds; jitter = BackoffJitter.NONE } } }
        val timed = policy("timed", engine) { attemptTimeout = 60.seconds }
        val hedged = policy("hedged", engine) { hedge { delay = 1.seconds } }
        val paced = policy("paced", engine) { rateLimit { permits = 1; per = 60.seconds; wait = true; maxWait = 90.seconds } }
        paced.run { }
        val waits = mapOf<String, suspend () -> Unit>(
            "in an attempt of the fast path" to { engine.policyNamed().run { awaitCancellation() } },
            "in an attempt that is timed" to { timed.run { awaitCancellation() } },
            "beside a hedge" to { hedged.run { awaitCancellation() } },
            "in the backoff" to { backoff.run { throw IOException("reset") } },
            "for a token" to { paced.run { } },
        )
        for ((where, wait) in waits) {
            var seen: Throwable? = null
            val job = launch {
                try {
                    wait()
                } catch (error: Throwable) {
                    seen = error
                    throw error
                }
            }
            runCurrent()
            if (where == "beside a hedge") delay(2_000)
            assertTrue(job.isActive, where)
            val before = currentTime
            job.cancel(CancellationException("the caller's own"))
            job.join()
            assertEquals("the caller's own", seen?.message, where)
            assertEquals(before, currentTime, where)
            leftNothing(engine)
        }
        val ends = engine.snapshot().policies.values.flatMap { it.ends.entries }.filter { it.key != "ok" }
        assertEquals(setOf("cancelled"), ends.map { it.key }.toSet())
    }

    private fun Engine.policyNamed(): Policy {
        val own = this
        return policy("plain", own) { retry { } }
    }

    @Test
    fun `a policy within a policy makes one attempt`() = withEngine { engine ->
        val outer = policy("outer", engine) { retry { maxAttempts = 2 } }
        val inner = policy("inner", engine) { retry { maxAttempts = 5 } }
        var made = 0
        val thrown = failure { outer.run { inner.run { made += 1; throw IOException("reset") } } }
        assertEquals(2, made)
        assertTrue(thrown is IOException)
    }

    @Test
    fun `a deadline around holds for every call within, and so does the criticality`() = withEngine { engine ->
        val policy = engine.policy { retry { } }
        val thrown = failure { withBounds(deadline = 1.seconds, timeSource = testTimeSource) { policy.run { awaitCancellation() } } }
        assertTrue(thrown is DeadlineExceeded, "$thrown")
        assertEquals(1_000L, currentTime)
        val full = policy("full", engine) { bulkhead { maxConcurrency = 1; maxQueue = 1; prioritized = true } }
        val gate = CompletableDeferred<Unit>()
        val first = async { full.run { gate.await() } }
        runCurrent()
        val second = async { failure { full.run { } } }
        runCurrent()
        val third = async { withBounds(criticality = Criticality.CRITICAL) { full.run { "mattered more" } } }
        runCurrent()
        assertEquals(Verdict.DISPLACED, (second.await() as BulkheadFull).reason)
        gate.complete(Unit)
        first.await()
        assertEquals("mattered more", third.await())
    }

    @Test
    fun `a fallback stands in for what has failed for good, not for the caller's giving up`() = withEngine { engine ->
        val policy = engine.policy { retry { maxAttempts = 1 } }
        assertEquals("cached: no", policy.run({ "cached: ${it.message}" }) { throw IOException("no") })
        var asked = false
        val job = launch { policy.run({ asked = true }) { awaitCancellation() } }
        runCurrent()
        job.cancelAndJoin()
        assertFalse(asked)
    }

    @Test
    fun `a fallback hides no bug, unless somebody says so`() = withEngine { engine ->
        val policy = engine.policy { retry { maxAttempts = 1 }; classify { _, error -> if (error is ArithmeticException) Outcome(Outcome.PERMANENT) else null } }
        val bug = IllegalStateException("bug")
        assertSame(bug, failure { policy.run({ "cached" }) { throw bug } })
        assertEquals("chosen", policy.run({ "chosen" }, on = { it === bug }) { throw bug })
        assertSame(bug, failure { policy.run({ "cached" }, on = { false }) { throw bug } })
        assertEquals("judged", policy.run({ "judged" }) { throw ArithmeticException() })
        policy.forceOpen()
        assertEquals("refused", policy.run({ "refused" }) { "never" })
    }

    @Test
    fun `a fallback whose choice is broken does not stand in`() = withEngine { engine ->
        val policy = engine.policy { retry { maxAttempts = 1 } }
        val error = IOException("lost")
        assertSame(error, failure { policy.run({ "cached" }, on = { throw IllegalStateException("broken") }) { throw error } })
    }

    @Test
    fun `classify tells what a result was, and cannot break a call`() = withEngine { engine ->
        val policy = engine.policy {
            kinds = mapOf("locked" to FailureBase.CONFLICT)
            retry { }
            classify { result, _ -> if (result == "locked") Outcome("locked") else if (result == "broken") error("a bug") else null }
        }
        assertEquals("fine", policy.run { if (it.number == 1) "locked" else "fine" })
        assertEquals("broken", policy.run { "broken" })
        assertEquals(mapOf("locked" to "conflict"), policy.kinds)
    }

    @Test
    fun `events tell what happened, in order, and a listener breaks nothing`() = withEngine { engine ->
        val policy = engine.policy { retry { } }
        val seen = mutableListOf<TidegateEvent>()
        val broken = engine.listen { throw IllegalStateException("a listener's bug") }
        val subscription = engine.listen { seen += it }
        val collected = async { engine.events.takeWhile { it.kind != "call_done" }.toList() }
        runCurrent()
        policy.run { if (it.number == 1) throw IOException("reset") }
        assertEquals(listOf("attempt_started", "attempt_done", "retry_scheduled"), collected.await().take(3).map { it.kind })
        assertEquals((1..seen.size).map { it.toLong() }, seen.map { it.seq })
        assertEquals(setOf("p"), seen.map { it.policy }.toSet())
        subscription.close()
        broken.close()
        assertFalse(engine.watched)
        policy.run { }
        assertEquals("call_done", seen.last().kind)
    }

    @Test
    fun `a retuned policy does otherwise from then on, and a forced one refuses`() = withEngine { engine ->
        val policy = engine.policy { retry { maxAttempts = 1 } }
        policy.retune { retry { maxAttempts = 2 } }
        assertEquals(2, policy.run { if (it.number == 1) throw IOException("reset") else it.number })
        policy.forceOpen()
        assertTrue(failure { policy.run { } } is ForcedOpen)
        policy.forceOpen(false)
        policy.run { }
    }

    @Test
    fun `mistakes are told all together, in Kotlin's names`() = withEngine { engine ->
        val error = failure { engine.policy { retry { maxAttempts = 0; backoff { multiplier = 0.5 } } } } as PolicyException
        assertEquals(listOf("retry.maxAttempts", "retry.backoff.multiplier"), error.mistakes.map { it.key })
        assertTrue("retry.maxAttempts = 0: must be a whole number from 1 to 255" in error.message!!, error.message)
    }

    @Test
    fun `a document gives its policies, and an engine goes on from what another has learned`() = withEngine { engine ->
        val text = "[pool.db]\nbulkhead = { max_concurrency = 3 }\n[policy.reads]\nretry = {}\nbulkhead = { pool = \"db\" }\n"
        val reads = Policy.load(text, engine = engine).getValue("reads")
        assertEquals("fine", reads.at("eu").run { "fine" })
        assertEquals(3, engine.snapshot().pools.getValue("db").bulkhead?.limit)
        val next = Engine(seed = 7, timeSource = testTimeSource)
        Policy.load(text, engine = next)
        assertEquals(1, next.restore(engine.save()).routes)
        val error = failure { Policy.load("policy.p.deadline = 1", engine = engine) } as PolicyException
        assertEquals("policy.p.deadline", error.mistakes.single().key)
        assertTrue("bulkhead" in reads.explain(), reads.explain())
    }

    @Test
    fun `what many coroutines do at once leaves nothing`() = runTest {
        val engine = Engine(seed = 7)
        val policy = policy("many", engine) {
            attemptTimeout = 5.seconds
            retry { maxAttempts = 3; budget { kind = BudgetKind.NONE }; backoff { base = 1.milliseconds } }
            bulkhead { maxConcurrency = 4; maxQueue = 10_000; acquireTimeout = 60.seconds }
        }
        kotlinx.coroutines.withContext(kotlinx.coroutines.Dispatchers.Default) {
            val jobs = List(500) { n ->
                async {
                    policy.run { attempt ->
                        kotlinx.coroutines.yield()
                        if (n % 5 == 0 && attempt.number < 3) throw IOException("reset")
                        if (n % 7 == 0) delay(1)
                        n
                    }
                }
            }
            for ((n, job) in jobs.withIndex()) if (n % 11 == 0) job.cancel() else assertEquals(n, job.await())
        }
        leftNothing(engine)
    }

    @Test
    fun `flows as the guide has them`() = runTest {
        val own = Engine(seed = 7, timeSource = testTimeSource)
        val orders = policy("orders", own) { retry { maxAttempts = 2 } }
        val source = flowOf(1, 2)
        val wrong = runCatching { flow { orders.run { delay(1.seconds); emit(1) } }.toList() }.exceptionOrNull()
        assertTrue("Flow invariant is violated" in wrong!!.message!!, "$wrong")
        assertEquals(listOf(1), flow { emit(orders.run { delay(1.seconds); 1 }) }.toList())
        val repeated = channelFlow { orders.run { attempt -> source.collect { send(it) }; if (attempt.number == 1) throw IOException("reset") } }
        assertEquals(listOf(1, 2, 1, 2), repeated.toList())
    }
}
