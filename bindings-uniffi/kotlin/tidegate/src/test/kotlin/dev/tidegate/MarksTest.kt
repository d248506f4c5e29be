package dev.tidegate

import dev.tidegate.testing.FakeTime
import java.io.IOException
import java.lang.ref.WeakReference
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.delay
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows

/** A judgement that an inner call leaves is for the call around it, and for no other call with the same object (semantics 1.6.3, 1.6.5). */
@OptIn(ExperimentalCoroutinesApi::class)
class MarksTest {
    private object Shared : RuntimeException("shared") {
        private fun readResolve(): Any = Shared
    }

    private val engine = Engine(seed = 7, timeSource = FakeTime())
    private val outer = policy("outer", engine) { retry { maxAttempts = 2 } }

    private fun attempts(value: () -> Boolean): Int {
        var made = 0
        runCatching { policy("plain", engine) { retry { maxAttempts = 3 } }.call { made++; value() } }
        return made
    }

    @Test
    fun `an exception that is an object`() {
        val inner = policy("inner", engine) { retry { maxAttempts = 2 }; retryOn<Shared>() }
        assertEquals("replaced", outer.call { runCatching { inner.call { throw Shared } }.getOrElse { "replaced" } })
        assertEquals(1, attempts { throw Shared }, "no rule knows it here")
        var made = 0
        runCatching { outer.call { made++; inner.call { throw Shared } } }
        assertEquals(2, made, "the call around repeats it")
    }

    @Test
    fun `a value`() {
        val inner = policy("inner", engine) {
            retry { maxAttempts = 2 }
            classify { result, _ -> if (result == false) Outcome(Outcome.TRANSIENT) else null }
        }
        assertEquals("replaced", outer.call { inner.call { false }; "replaced" })
        assertEquals(1, attempts { false }, "false is a result like any other")
        var made = 0
        outer.call { made++; inner.call { false } }
        assertEquals(2, made, "the call around repeats it")
    }

    /** An engine that nothing refers to any more, after a call whose judgement nobody has taken. */
    private fun abandoned(): WeakReference<Engine> {
        val own = Engine(seed = 8, timeSource = FakeTime())
        val around = policy("outer", own) { retry { maxAttempts = 2 } }
        val inner = policy("inner", own) {
            retry { maxAttempts = 2 }
            classify { result, _ -> if (result == false) Outcome(Outcome.TRANSIENT) else null }
        }
        assertEquals("replaced", around.call { inner.call { false }; "replaced" })
        return WeakReference(own)
    }

    @Test
    fun `a judgement that nobody takes does not keep its engine`() {
        val engine = abandoned()
        val until = System.nanoTime() + 60_000_000_000
        while (engine.get() != null && System.nanoTime() < until) {
            System.gc()
            Thread.sleep(10)
        }
        assertNull(engine.get())
    }

    private class Mine : RuntimeException()

    @Test
    fun `a fallback knows what an inner call has judged (7_4_2)`() {
        val inner = policy("inner", engine) { retry { maxAttempts = 2 }; retryOn<Mine>(); retryOn<Shared>() }
        for (error in listOf(Mine(), Shared)) {
            assertEquals("stood in", outer.call({ "stood in" }) { inner.call { throw error } })
            assertEquals("stood in", outer.call({ "outer" }) { inner.call({ "stood in" }) { throw error } })
        }
        assertThrows<Mine>("no rule knows it here") { outer.call({ "stood in" }) { throw Mine() } }
        var asked = 0
        val own = policy("own", engine) { retry { maxAttempts = 1 }; classify { _, error -> error?.let { asked++; Outcome(Outcome.PERMANENT) } } }
        assertEquals("stood in", own.call({ "stood in" }) { throw Mine() })
        assertEquals(1, asked, "the call's own judgement counts")
    }

    @Test
    fun `a suspending fallback knows it, too (7_4_2)`() = runTest {
        val own = Engine(seed = 7, timeSource = testTimeSource)
        val outer = policy("outer", own) { retry { maxAttempts = 2 } }
        val inner = policy("inner", own) { retry { maxAttempts = 2 }; retryOn<Mine>() }
        assertEquals("stood in", outer.run({ "stood in" }) { inner.run { throw Mine() } })
        assertThrows<Mine>("no rule knows it here") { outer.run({ "stood in" }) { throw Mine() } }
    }

    private fun outerAttempts(inner: Caller, configure: Configure<PolicyOptions> = Configure { }): Int =
        outerAttempts(configure) { inner.call { throw IOException("reset") } }

    private fun outerAttempts(configure: Configure<PolicyOptions> = Configure { }, work: () -> Any): Int {
        var made = 0
        val outer = policy(engine = engine) { retry { maxAttempts = 3; budget { kind = BudgetKind.NONE } }; with(configure) { configure() } }
        runCatching { outer.call { made++; work() } }
        return made
    }

    @Test
    fun `what an inner call must not repeat, the call around it does not repeat (1_6_4)`() {
        for (own in listOf(engine, Engine(seed = 8, timeSource = FakeTime()))) {
            val inner = policy("writes", own) { retry { maxAttempts = 2; budget { kind = BudgetKind.NONE } } }
            assertEquals(3, outerAttempts(inner))
            assertEquals(1, outerAttempts(inner.at(CallOptions(idempotent = false))), "its method")
            assertEquals(1, outerAttempts(inner.at(CallOptions(replayable = false))), "its body")
            assertEquals(3, outerAttempts(inner.at(CallOptions(idempotent = false)), { retryOn<IOException>() }), "its own `on` goes before that")
            val says = policy("says", own) { retry { maxAttempts = 2 }; classify { _, _ -> Outcome(Outcome.TRANSIENT, Opinion.DO_NOT) } }
            assertEquals(1, outerAttempts(says), "an opinion")
        }
    }

    /** An answer, and the errors that clients make of it. */
    class Answer(private val code: Int) {
        fun code() = code
    }

    class ByStatus(val statusCode: Int) : RuntimeException()

    class ByResponse(val response: Answer) : RuntimeException()

    private fun answering(status: Int, options: CallOptions = CallOptions(idempotent = false)) =
        policy("writes", engine) {
            retry { maxAttempts = 2; budget { kind = BudgetKind.NONE } }
            classify { result, _ -> if (result is Answer) Outcome(Outcome.TRANSIENT) else null }
        }.at(options).let { inner -> { inner.call { Answer(status) } } }

    @Test
    fun `an error with the status of an answer that must not be repeated is not repeated (1_6_7)`() {
        val makes: List<(Answer) -> Throwable> = listOf(
            { ByStatus(it.code()) },
            { ByResponse(it) },
            { ByResponse(Answer(it.code())) },
            { IOException("the SDK's own", ByStatus(it.code())) },
        )
        for (error in makes) {
            val write = answering(503)
            assertEquals(1, outerAttempts { throw error(write()) })
            assertEquals(3, outerAttempts({ retryOn<RuntimeException>(); retryOn<IOException>() }) { throw error(write()) }, "`on` goes before that")
            val read = answering(503, CallOptions())
            assertEquals(3, outerAttempts { throw error(read()) }, "a call that may be repeated")
        }
    }

    @Test
    fun `an error with another status, or of another call, says nothing of it (1_6_7)`() {
        val write = answering(503)
        assertEquals(3, outerAttempts { throw ByStatus(write().code() - 1) })
        outerAttempts { write() }
        assertEquals(3, outerAttempts { throw ByStatus(503) })
        assertEquals(1, outerAttempts { write() }, "an answer is a result like any other")
    }

    @Test
    fun `nor does it repeat an attempt that ran out of time (1_6_4)`() = runTest {
        val own = Engine(seed = 7, timeSource = testTimeSource)
        val outer = policy("outer", own) { retry { maxAttempts = 3; budget { kind = BudgetKind.NONE } } }
        val inner = policy("inner", own) { attemptTimeout = 1.seconds; retry { maxAttempts = 2 } }
        for ((caller, attempts) in listOf(inner to 3, inner.at(CallOptions(idempotent = false)) to 1)) {
            var made = 0
            runCatching { outer.run { made++; caller.run { delay(10.seconds) } } }
            assertEquals(attempts, made)
        }
    }
}
