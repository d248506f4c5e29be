package dev.tidegate

import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import java.io.ByteArrayInputStream
import java.io.ByteArrayOutputStream
import java.io.IOException
import java.io.ObjectInputStream
import java.io.ObjectOutputStream
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import dev.tidegate.testing.FakeTime

/** Why a call ended (finding K5), and listeners of retries. */
@OptIn(ExperimentalCoroutinesApi::class)
class WhyTest {
    private val engine = Engine(seed = 7, timeSource = FakeTime())

    private class Mine(message: String) : Exception(message)

    private fun failure(work: () -> Any?): Throwable = try {
        throw AssertionError("no error, but ${work()}")
    } catch (error: AssertionError) {
        throw error
    } catch (error: Throwable) {
        error
    }

    private fun twice(engine: Engine, name: String? = null, configure: Configure<PolicyOptions> = Configure { }) = policy(name, engine) {
        retry { maxAttempts = 2; backoff { base = 3.seconds; max = 3.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
        with(configure) { configure() }
    }

    @Test
    fun `an error explains itself by default, and tells no secret`() {
        val error = failure { twice(engine, "p").call { throw IOException("token=hunter2") } }
        val why = error.report!!.explain()!!
        assertEquals(listOf("p", "default", 2, "attempts"), listOf(why.policy, why.route, why.attempts, why.reason))
        assertTrue(why.story.any { it.kind == "retry_scheduled" } && why.story.last().kind == "call_done", "${why.story.map { it.kind }}")
        assertTrue("hunter2" !in why.text, why.text)
        assertEquals(why.text, engine.explain(error.report!!.call)!!.text)
    }

    @Test
    fun `a refusal has a report, and explains itself`() {
        val limited = policy("limited", engine) { rateLimit { permits = 1; per = 1.seconds } }
        limited.call { }
        val refused = assertThrows<RateLimited> { limited.call { } }
        assertEquals(Verdict.RATE_LIMITED to 0, refused.report?.reason to refused.report?.attempts)
        assertEquals("rate_limited", refused.report!!.explain()!!.reason)
        assertEquals("rate_limited", Report.of(refused)!!.explain()!!.reason)
    }

    @Test
    fun `the history is bounded, and can be switched off`() {
        val none = Engine(seed = 7, timeSource = FakeTime(), history = 0)
        assertNull(failure { twice(none).call { throw IOException("lost") } }.report!!.explain())
        val small = Engine(seed = 7, timeSource = FakeTime(), history = 4)
        val policy = twice(small)
        val errors = List(3) { failure { policy.call { throw IOException("lost") } } }
        assertNull(errors.first().report!!.explain(), "newer records have replaced it")
        assertEquals("attempts", errors.last().report!!.explain()!!.reason)
        val wrong = assertThrows<IllegalArgumentException> { Engine(history = -1) }
        assertEquals("history = -1: must be from 0 to 1000000", wrong.message)
    }

    @Test
    fun `a report is that of the call which delivers the error last`() {
        val shared = IOException("shared")
        val inner = twice(engine, "inner")
        val outer = twice(engine, "outer")
        val error = failure { outer.call { inner.call { throw shared } } }
        assertSame(shared, error)
        assertEquals("outer" to 2, error.report!!.explain()!!.policy to error.report!!.attempts)
        failure { inner.call { throw shared } }
        assertEquals("inner", shared.report!!.explain()!!.policy)
        assertEquals(1, shared.suppressed.size, "it does not collect reports")
    }

    @Test
    fun `an error of Tidegate's own can be serialized`() {
        val mail = policy("mail", engine) { rateLimit { permits = 1; per = 60.seconds; burst = 1 } }
        val slot = policy("slot", engine) { bulkhead { maxConcurrency = 1; maxQueue = 1; acquireTimeout = 0.seconds } }
        mail.call { }
        val errors = listOf(
            failure { mail.call { } }, slot.call { CompletableFuture.supplyAsync { failure { slot.call { } } }.get() },
            failure { blockingWithBounds(0.seconds) { mail.call { } } },
        )
        for (error in errors) {
            val bytes = ByteArrayOutputStream().also { ObjectOutputStream(it).use { out -> out.writeObject(error) } }.toByteArray()
            val read = ObjectInputStream(ByteArrayInputStream(bytes)).use { it.readObject() } as TidegateException
            error as TidegateException
            assertEquals(listOf(error.message, error.reason, error.retryIn, error.policy), listOf(read.message, read.reason, read.retryIn, read.policy))
        }
        val wrong = assertThrows<PolicyException> { policy("wrong", engine) { deadline = 0.seconds } }
        val bytes = ByteArrayOutputStream().also { ObjectOutputStream(it).use { out -> out.writeObject(wrong) } }.toByteArray()
        val read = ObjectInputStream(ByteArrayInputStream(bytes)).use { it.readObject() } as PolicyException
        assertEquals(wrong.mistakes, read.mistakes)
    }

    @Test
    fun `an error with a report can be serialized`() {
        val error = failure { twice(engine).call { throw IOException("lost") } }
        val bytes = ByteArrayOutputStream().also { ObjectOutputStream(it).use { out -> out.writeObject(error) } }.toByteArray()
        val read = ObjectInputStream(ByteArrayInputStream(bytes)).use { it.readObject() } as Throwable
        assertEquals("lost" to "tidegate: gave up after 2 attempts", read.message to read.suppressed.single().toString())
        assertNull(read.report)
    }

    @Test
    fun `a listener hears of a retry before its wait, with error, attempt, wait and reason`() {
        val heard = mutableListOf<Retrying>()
        val at = mutableListOf<Long>()
        val policy = twice(engine, "told") { onRetry { heard += it; at += engine.now() } }
        val lost = IOException("lost")
        assertEquals(2, policy.at("eu").call { if (it.number == 1) throw lost else it.number })
        assertEquals(listOf(0L), at, "the wait has not begun")
        val told = heard.single()
        assertSame(lost, told.error)
        assertEquals(listOf(1, 3.seconds, "transient", "told", "eu", null), listOf(told.attempt, told.wait, told.reason, told.policy, told.route, told.result))
        assertEquals("told", engine.explain(told.call)!!.policy)
        heard.clear()
        failure { policy.call { throw IllegalStateException("a mistake") } }
        assertEquals(emptyList<Retrying>(), heard, "this error is not repeated")
        failure { policy.call { throw lost } }
        assertEquals(listOf(1), heard.map { it.attempt }, "the last failure is followed by no retry")
    }

    @Test
    fun `a call has a listener of its own, and one that throws breaks nothing`() {
        val heard = mutableListOf<String>()
        val policy = twice(engine) {
            onRetry { throw IllegalStateException("a listener's mistake") }
            classify { result, _ -> if (result == "busy") Outcome(Outcome.THROTTLED) else null }
        }
        val thread = Thread.currentThread()
        val handler = thread.uncaughtExceptionHandler
        val broken = mutableListOf<Throwable>()
        thread.setUncaughtExceptionHandler { _, error -> broken += error }
        try {
            val caller = policy.at(CallOptions(onRetry = { heard += "${it.result} ${it.reason}" }))
            assertEquals("fine", caller.call { if (it.number == 1) "busy" else "fine" })
        } finally {
            thread.uncaughtExceptionHandler = handler
        }
        assertEquals(listOf("busy throttled"), heard)
        assertEquals("a listener's mistake", broken.single().message)
    }

    @Test
    fun `a suspending call tells of retries and not of hedges`() = runTest {
        val own = Engine(seed = 7, timeSource = testTimeSource)
        val heard = mutableListOf<String>()
        val hedged = policy("hedged", own) {
            attemptTimeout = 5.seconds
            retry { maxAttempts = 3; backoff { base = 1.seconds; max = 1.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
            hedge { delay = 200.milliseconds }
            onRetry { heard += "${it.attempt} ${it.reason} ${it.wait}" }
        }
        assertEquals(2, hedged.run { if (it.number == 1) kotlinx.coroutines.delay(1.seconds); it.number })
        assertEquals(emptyList<String>(), heard, "a hedge is no retry")
        val slow = policy("slow", own) {
            attemptTimeout = 2.seconds
            retry { maxAttempts = 2; backoff { base = 1.seconds; max = 1.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
            onRetry { heard += "${it.attempt} ${it.reason} ${it.wait} ${it.error is AttemptTimeout}" }
        }
        assertEquals(2, slow.run { if (it.number == 1) kotlinx.coroutines.delay(60.seconds); it.number })
        assertEquals(listOf("1 timeout 1s true"), heard)
    }

    @Test
    fun `the policies of a document have errors to repeat, a classifier and listeners`() {
        val heard = mutableListOf<String>()
        val text = "[policy.a]\nretry.max_attempts = 2\nretry.backoff.base = '1ms'\n[policy.b]\nretry.max_attempts = 2"
        val policies = Policy.load(text, engine = engine) { name ->
            onRetry { heard += "$name ${it.error?.message}" }
            if (name == "a") retryOn<Mine>()
            if (name == "b") classify { _, error -> error?.let { Outcome(Outcome.PERMANENT) } }
        }
        assertEquals(2, policies.getValue("a").call { if (it.number == 1) throw Mine("now") else it.number })
        failure { policies.getValue("b").call { throw IOException("lost") } }
        assertEquals(listOf("a now"), heard)
        policies.reload("$text\n[policy.c]\nretry.max_attempts = 2\nretry.backoff.base = '1ms'")
        assertEquals(2, policies.getValue("c").call { if (it.number == 1) throw IOException("late") else it.number })
        assertEquals(listOf("a now", "c late"), heard, "a policy that a reload adds has them too")
    }

    @Test
    fun `a future's failure explains itself`() {
        val own = Engine(seed = 7)
        val policy = policy("async", own) { retry { maxAttempts = 1 } }
        val failed = policy.callAsync<Any> { java.util.concurrent.CompletableFuture.failedFuture(IOException("lost")) }
        val error = assertThrows<ExecutionException> { failed.get(60, TimeUnit.SECONDS) }.cause!!
        assertEquals("async", error.report!!.explain()!!.policy)
    }
}
