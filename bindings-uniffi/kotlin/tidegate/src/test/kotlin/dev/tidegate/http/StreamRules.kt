package dev.tidegate.http

import dev.tidegate.AttemptTimeout
import dev.tidegate.BackoffJitter
import dev.tidegate.BreakerOpen
import dev.tidegate.BreakerUnit
import dev.tidegate.BudgetKind
import dev.tidegate.Configure
import dev.tidegate.Counts
import dev.tidegate.DeadlineExceeded
import dev.tidegate.DeadlineUntil
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.Preset
import dev.tidegate.Report
import dev.tidegate.SlotUntil
import dev.tidegate.StreamStalled
import dev.tidegate.Verdict
import dev.tidegate.leftNothing
import dev.tidegate.policy
import dev.tidegate.report
import dev.tidegate.testing.FakeTime
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import java.io.IOException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** What a reader of a stream has got: the text, the error that ended it, and the report of an answer. */
class Seen(val text: String, val error: Throwable?, val report: Report? = null)

/** A request for a streamed answer of the fake provider. */
class Asked(
    val accept: String? = "text/event-stream",
    /** The request's own word on whether its answer is a stream. */
    val stream: Boolean? = null,
    val path: String = "/v1/chat/completions",
    val question: String = QUESTION,
    /** Called once the answer is delivered. */
    val delivered: () -> Unit = { },
    /** Called with what each read has got. */
    val went: (String) -> Unit = { },
)

internal const val QUESTION = """{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi."}]}"""

/** A question whose answer is no stream. */
internal const val WHOLE = """{"model": "m", "messages": [{"role": "user", "content": "Hi."}]}"""

/** Timeouts of streams (semantics 7.7) for every adapter that serves them, against a fake provider that stalls, drips, pings and fails. */
@Timeout(120)
abstract class StreamRules {
    protected val engine = Engine(seed = 7)

    /** Sends a request and reads its answer as it comes. */
    protected abstract fun ask(policy: Policy, asked: Asked = Asked()): Seen

    /** Whether the client notices that a connection is lost before the end of a body. */
    protected open val seesBreaks: Boolean get() = true

    protected fun http(name: String = "p", of: Engine = engine, configure: Configure<PolicyOptions>): Policy = policy(name, of) {
        preset = Preset.HTTP
        deadline = 60.seconds
        retry { backoff { base = 1.milliseconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
        with(configure) { configure() }
    }

    /** Faults of the provider; its pings come every 20 ms. */
    protected fun provider(vararg fault: Pair<String, Any>) {
        val faults = if (fault.isEmpty()) emptyList() else listOf(fault.toMap())
        Origin.script("provider" to mapOf("ping_every" to 0.02, "faults" to faults))
    }

    /** Whether the adapter reads what a request's body asks for. */
    protected open val readsQuestions: Boolean get() = true

    @AfterEach
    fun nothingIsLeft() = leftNothing(engine)

    private fun requests() = Origin.log().size

    @Test
    fun `a stream without a first piece that counts is repeated (7_7_2, 7_7_3, 7_7_13)`() {
        for ((fault, counted) in listOf("stall" to Counts.SSE_DATA, "break" to Counts.BYTES)) {
            if (fault == "break" && !seesBreaks) continue
            provider("fault" to fault, "at" to 0, "first" to 1)
            val seen = ask(http(fault) { firstByteTimeout = 2.seconds; counts = counted })
            assertNull(seen.error, fault)
            assertEquals(listOf(2, 2), listOf(seen.report?.attempts, requests()), fault)
            assertTrue(seen.text.startsWith("data: {") && seen.text.endsWith("data: [DONE]\n\n"), seen.text)
        }
    }

    @Test
    fun `a first piece that never comes is an attempt out of time (7_7_3)`() {
        provider("fault" to "stall", "at" to 0)
        val seen = ask(http { firstByteTimeout = 100.milliseconds; counts = Counts.SSE_DATA })
        val error = seen.error as? AttemptTimeout ?: throw AssertionError("${seen.error}")
        assertEquals(3, error.report?.attempts)
        assertTrue(requests() <= 3, "a busy machine gives an attempt up before its request has been sent")
    }

    @Test
    fun `pings count as bytes, and not as data (7_7_13)`() {
        provider("fault" to "stall", "at" to 0)
        val bytes = ask(http("bytes") { firstByteTimeout = 30.seconds; deadline = 2.seconds })
        assertTrue(bytes.error is DeadlineExceeded, "${bytes.error}")
        assertTrue(bytes.text.isNotEmpty(), "it was delivered with a ping")
        val data = ask(http("data") { firstByteTimeout = 30.seconds; deadline = 500.milliseconds; counts = Counts.SSE_DATA })
        assertTrue(data.error is DeadlineExceeded, "${data.error}")
        assertEquals("", data.text)
    }

    @Test
    fun `silence after the delivery ends the call (7_7_9, 7_7_11)`() {
        for ((at, counted) in listOf(1 to Counts.BYTES, 60 to Counts.BYTES, 60 to Counts.SSE_DATA)) {
            // A ping is a piece where bytes count.
            val every = if (counted == Counts.BYTES) 1_000.0 else 0.02
            Origin.script("provider" to mapOf("ping_every" to every, "faults" to listOf(mapOf("fault" to "stall", "at" to at))))
            val begun = System.nanoTime()
            val seen = ask(http("$at $counted") { firstByteTimeout = 30.seconds; counts = counted; idleTimeout = 300.milliseconds })
            val error = seen.error as? StreamStalled ?: throw AssertionError("at $at, $counted: ${seen.error}")
            assertEquals(listOf("stream_stalled", Verdict.STREAM_STALLED, 504), listOf(error.code, error.reason, error.httpStatus))
            assertTrue(System.nanoTime() - begun >= 290_000_000, "it came early")
            assertEquals(1, requests(), "nothing is repeated")
        }
    }

    @Test
    fun `a first byte's timeout does not bound the reads after it (7_7_9)`() {
        Origin.script("provider" to mapOf("token_every" to 700, "answer_tokens" to listOf(3, 3)))
        val seen = ask(http { firstByteTimeout = 3.seconds; idleTimeout = 30.seconds; counts = Counts.SSE_DATA })
        assertNull(seen.error)
        provider("fault" to "stall", "at" to 60)
        val stalled = ask(http("stalled") { firstByteTimeout = 300.milliseconds; idleTimeout = 1.seconds; counts = Counts.SSE_DATA; retry { maxAttempts = 1 } })
        // A busy machine may answer too late; then the attempt was out of time.
        assertTrue(stalled.error is StreamStalled || stalled.error is AttemptTimeout, "${stalled.error}")
    }

    @Test
    fun `a body that stalls is a failure of the breaker (7_7_11)`() {
        provider("fault" to "stall", "at" to 60)
        val policy = http { idleTimeout = 100.milliseconds; counts = Counts.SSE_DATA; breaker { consecutive = 1; breakDuration = 60.seconds } }
        assertTrue(ask(policy).error is StreamStalled)
        assertTrue(ask(policy).error is BreakerOpen)
    }

    @Test
    fun `a request that is no stream is delivered at its head (7_7_4)`() {
        provider("fault" to "stall", "at" to 0)
        val plain = http("plain") { firstByteTimeout = 100.milliseconds; deadline = 1.seconds }
        assertTrue(ask(plain, Asked(accept = "application/json", question = WHOLE)).error is DeadlineExceeded)
        assertEquals(1, requests())
        provider("fault" to "stall", "at" to 0, "first" to 1)
        val streamed = ask(http("streamed") { firstByteTimeout = 2.seconds; counts = Counts.SSE_DATA }, Asked(accept = null, stream = true))
        assertEquals(null to 2, streamed.error to streamed.report?.attempts)
        provider("fault" to "stall", "at" to 0, "first" to 1)
        if (readsQuestions) {
            val asks = ask(http("asks") { firstByteTimeout = 2.seconds; counts = Counts.SSE_DATA }, Asked(accept = null))
            assertEquals(null to 2, asks.error to asks.report?.attempts, "its body asks for a stream")
        }
        provider("fault" to "stall", "at" to 0)
        val denied = http("denied") { firstByteTimeout = 100.milliseconds; deadline = 1.seconds }
        assertTrue(ask(denied, Asked(stream = false)).error is DeadlineExceeded)
    }

    @Test
    fun `an error event is a failed answer before the delivery, and a failed body after it (7_7_21)`() {
        provider("fault" to "error_event", "at" to 0, "first" to 1)
        val policy = http {
            firstByteTimeout = 30.seconds
            counts = Counts.SSE_DATA
            breaker { consecutive = 1; breakDuration = 60.seconds; failureOn = listOf("throttled"); unit = BreakerUnit.CALL }
        }
        val repeated = ask(policy)
        assertEquals(2, repeated.report?.attempts, "${repeated.error}")
        assertFalse("overloaded" in repeated.text)
        provider("fault" to "error_event", "at" to 2)
        val late = ask(policy)
        assertNull(late.error)
        assertTrue("error" in late.text, "its reader gets it as it came: ${late.text}")
        // Ktor tells of a body's end beside its reader, so one more request may still begin.
        assertTrue((1..20).any { ask(policy).error is BreakerOpen })
    }

    @Test
    fun `an error event that comes each time is the answer (7_7_8, 7_7_21)`() {
        provider("fault" to "error_event", "at" to 0)
        val seen = ask(http { firstByteTimeout = 30.seconds; counts = Counts.SSE_DATA })
        assertEquals(null to 3, seen.error to seen.report?.attempts)
        assertTrue("error" in seen.text, seen.text)
    }

    @Test
    fun `the deadline may end at the delivery (7_7_15)`() {
        Origin.script("provider" to mapOf("token_every" to 250))
        fun policy(name: String, until: DeadlineUntil) =
            http(name) { deadline = 1.seconds; firstByteTimeout = 30.seconds; counts = Counts.SSE_DATA; deadlineUntil = until }
        assertTrue(ask(policy("body", DeadlineUntil.BODY)).error is DeadlineExceeded)
        var delivered = false
        val whole = ask(policy("delivery", DeadlineUntil.DELIVERY), Asked(delivered = { delivered = true }))
        // A busy machine may deliver late; then the deadline ends the attempt.
        assertTrue(if (delivered) whole.text.endsWith("[DONE]\n\n") else whole.error is DeadlineExceeded, "${whole.error}")
    }

    @Test
    fun `answers without a body, and failed ones, are delivered (7_7_5, 7_7_6)`() {
        Origin.sequence(204, mapOf("status" to 200, "body" to ""), mapOf("status" to 200, "body" to "x"), mapOf("status" to 404, "body" to "no"))
        val policy = http { firstByteTimeout = 30.seconds; idleTimeout = 30.seconds; counts = Counts.SSE_DATA }
        for (text in listOf("", "", "x", "no")) {
            val seen = ask(policy, Asked(path = "/x"))
            assertEquals(text to null, seen.text to seen.error)
        }
    }

    @Test
    fun `64 kB deliver it too (7_7_8)`() {
        Origin.sequence(mapOf("status" to 200, "body" to ": comment\n\n".repeat(20_000)))
        var delivered = false
        val seen = ask(http { firstByteTimeout = 30.seconds; counts = Counts.SSE_DATA }, Asked(path = "/x", delivered = { delivered = true }))
        assertTrue(delivered && seen.error == null, "${seen.error}")
        assertEquals(": comment\n\n".repeat(20_000), seen.text)
    }

    @Test
    fun `a slot until the headers ends the call at the delivery (7_7_1)`() {
        provider("fault" to "stall", "at" to 0, "first" to 1)
        val seen = ask(http { firstByteTimeout = 2.seconds; counts = Counts.SSE_DATA; slotUntil = SlotUntil.HEADERS })
        assertEquals(null to 2, seen.error to seen.report?.attempts)
    }

    @Test
    fun `a caller that does not read is no stalled server (7_7_17)`() {
        provider()
        val policy = http { firstByteTimeout = 30.seconds; idleTimeout = 400.milliseconds; counts = Counts.SSE_DATA }
        val seen = ask(policy, Asked(delivered = { Thread.sleep(1_000) }))
        assertNull(seen.error)
        assertTrue(seen.text.endsWith("[DONE]\n\n"), seen.text)
    }

    @Test
    fun `silence is as long as the engine's clock says (7_7_16, 7_7_18)`() {
        provider("fault" to "stall", "at" to 60)
        val time = FakeTime()
        val own = Engine(seed = 7, timeSource = time)
        val policy = http("fake", own) { deadline = null; idleTimeout = 150.milliseconds; counts = Counts.SSE_DATA }
        val ended = CompletableFuture<Seen>()
        val begun = CompletableFuture<Unit>()
        thread { ended.complete(ask(policy, Asked(went = { if ("data" in it) begun.complete(Unit) }))) }
        begun.get(60, TimeUnit.SECONDS)
        time.advance(149.milliseconds)
        Thread.sleep(500)
        assertEquals(1, own.snapshot().live, "it still waits")
        while (!ended.isDone) {
            time.advance(10.milliseconds)
            Thread.sleep(5)
        }
        assertTrue(ended.get().error is StreamStalled, "${ended.get().error}")
        leftNothing(own)
    }

    @Test
    fun `a caller that leaves early has read its body (7_7_11)`() {
        provider("fault" to "stall", "at" to 60)
        val policy = http { firstByteTimeout = 30.seconds; idleTimeout = 30.seconds; counts = Counts.SSE_DATA; breaker { consecutive = 1; breakDuration = 60.seconds } }
        val seen = ask(policy, Asked(went = { throw IOException("enough") }))
        assertEquals("enough", seen.error?.message)
        provider()
        assertNull(ask(policy).error, "it was no failure")
    }
}
