package dev.tidegate.http

import dev.tidegate.AttemptTimeout
import dev.tidegate.BackoffJitter
import dev.tidegate.BudgetKind
import dev.tidegate.BulkheadFull
import dev.tidegate.Configure
import dev.tidegate.DeadlineExceeded
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.Preset
import dev.tidegate.Report
import dev.tidegate.RequestOptions
import dev.tidegate.Verdict
import dev.tidegate.leftNothing
import dev.tidegate.policy
import dev.tidegate.report
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import java.io.IOException
import kotlin.concurrent.thread
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.measureTime

/** A request body, as the adapters' clients have them. */
enum class Body { NONE, BYTES, ONE_SHOT }

/** What came of a request. */
class Answer(val status: Int, val text: String?, val report: Report?, val shouldRetry: String? = null)

/** A client under a policy. */
interface Client : AutoCloseable {
    fun send(
        method: String = "GET",
        path: String = "/x",
        body: Body = Body.NONE,
        headers: Map<String, String> = emptyMap(),
        options: RequestOptions? = null,
    ): Answer

    /** Begins a request, and reads nothing of its body: reads on, and closes. */
    fun open(path: String = "/x"): Pair<() -> String, () -> Unit>

    /** Sends a request, and returns the client's own answer. */
    fun raw(): Any

    /** Status of such an answer, which is then closed. */
    fun status(raw: Any): Int

    /** A body that can be read once, for a factory. */
    fun body(text: String): Any

    /** Begins a request on another thread: how to cancel it, and how it ended. */
    fun start(path: String = "/x"): Pair<() -> Unit, () -> Throwable?>
}

/** The rules for every adapter (`hosts.md`), against the faulty server. */
@Timeout(300)
abstract class Rules {
    protected val engine = Engine(seed = 7)
    private val clients = mutableListOf<Client>()

    /** A client of one connection at most, which leaves repeats to the policy. */
    protected abstract fun client(policy: Policy, retryHeader: Boolean = true, idempotencyKey: Boolean = false): Client

    /** Sends so many requests to `/x` by a policy whose engine's time moves on when somebody waits: when each attempt began. */
    protected abstract fun trials(count: Int, make: (Engine) -> Policy): List<Duration>

    /** Sends a request whose answer's body fails on its way: how reading it ended. */
    protected abstract fun cut(policy: Policy): Throwable

    /** Is it the client's error for a connection that is lost? */
    protected open fun isLost(error: Throwable) = error is IOException

    /** Does the client send a request again by itself if its connection is lost before the answer begins? */
    protected open val resendsLost: Boolean get() = false

    /** Does the client keep connections? */
    protected open val keepsConnections: Boolean get() = true

    protected fun using(policy: Policy, retryHeader: Boolean = true, idempotencyKey: Boolean = false) =
        client(policy, retryHeader, idempotencyKey).also { clients += it }

    protected fun http(name: String = "p", configure: Configure<PolicyOptions> = Configure { }): Policy {
        val own = engine
        return policy(name, own) {
            preset = Preset.HTTP
            retry { backoff { base = 1.milliseconds; max = 60.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
            with(configure) { configure() }
        }
    }

    @AfterEach
    fun nothingIsLeft() {
        clients.forEach { it.close() }
        leftNothing(engine)
    }

    protected fun attempts() = Origin.log().filter { it["path"].asText() == "/x" }

    protected inline fun failure(work: () -> Any?): Throwable {
        val got = try {
            work()
        } catch (error: Throwable) {
            return error
        }
        throw AssertionError("no error, but $got")
    }

    @Test
    fun `a failure that may pass is repeated, and repeats say so`() {
        Origin.sequence(503, mapOf("fault" to "reset"), 200)
        val answer = using(http()).send()
        assertEquals(200 to "OK", answer.status to answer.text)
        val last = if (resendsLost) 2 else 3
        assertEquals(listOf(null, "1", "${last - 1}"), attempts().map { Origin.header(it, "retry-attempt") })
        assertEquals(last to Verdict.OK, answer.report?.attempts to answer.report?.reason)
    }

    @Test
    fun `rule 11, the retry header can be switched off`() {
        Origin.sequence(503, 200)
        using(http(), retryHeader = false).send()
        assertEquals(listOf(null, null), attempts().map { Origin.header(it, "retry-attempt") })
    }

    @Test
    fun `rule 1, bytes are sent again, whole`() {
        Origin.sequence(503, mapOf("echo" to true))
        assertEquals("hello", using(http()).send("PUT", body = Body.BYTES).text)
        assertEquals(listOf("hello", "hello"), attempts().map { it["body"].asText() })
    }

    @Test
    fun `rule 1, a body that can be read once is sent once, and the original failure says why`() {
        Origin.sequence(503, 200)
        val answer = using(http()).send("PUT", body = Body.ONE_SHOT)
        assertEquals(listOf(503, 1), listOf(answer.status, attempts().size))
        assertEquals("body cannot be replayed", answer.report?.note)
    }

    @Test
    fun `rule 2, a method that is not idempotent is not repeated, unless it has a key or was never sent`() {
        Origin.sequence(503, 200)
        assertEquals(503, using(http()).send("POST", body = Body.BYTES).status)
        Origin.sequence(503, 200)
        assertEquals(200, using(http()).send("POST", body = Body.BYTES, headers = mapOf("Idempotency-Key" to "k")).status)
        assertEquals(listOf("k", "k"), attempts().map { Origin.header(it, "idempotency-key") })
        Origin.sequence(503, 200)
        assertEquals(200, using(http(), idempotencyKey = true).send("POST", body = Body.BYTES).status)
        val keys = attempts().map { Origin.header(it, "idempotency-key") }
        assertTrue(keys.size == 2 && keys[0] != null && keys[0] == keys[1], "$keys")
    }

    @Test
    fun `rule 3, the last response is the caller's, with its body`() {
        Origin.sequence(503, mapOf("status" to 503, "body" to "the last"))
        val answer = using(http { retry { maxAttempts = 2 } }).send()
        assertEquals(503 to "the last", answer.status to answer.text)
        assertEquals("gave up after 2 attempts", answer.report?.note)
    }

    @Test
    fun `rule 3, the last exception is the caller's`() {
        Origin.sequence(mapOf("fault" to "reset"))
        val error = failure { using(http { retry { maxAttempts = 2 } }).send() }
        assertTrue(isLost(error) && error !is dev.tidegate.TidegateException, "$error")
        assertEquals(Verdict.ATTEMPTS, error.report?.reason)
        assertEquals(if (resendsLost) 4 else 2, attempts().size)
    }

    @Test
    fun `rule 4, a client of one connection is never stuck behind its own failed answer`() {
        Origin.sequence(mapOf("status" to 503, "body_bytes" to 1_000), mapOf("status" to 503, "body_bytes" to 300_000), 200)
        assertEquals(200, using(http()).send().status)
        val connections = attempts().map { it["connection"].asInt() }
        if (keepsConnections) assertEquals(connections[0], connections[1], "a small answer's connection is kept")
    }

    @Test
    fun `rule 5, Retry-After is never cut short`() {
        Origin.sequence(mapOf("status" to 503, "retry_after" to "1"), 200)
        val client = using(http { retry { maxRetryAfter = 5.seconds } })
        val took = measureTime { assertEquals(200, client.send().status) }
        assertTrue(took >= 1.seconds, "$took")
        val times = attempts().map { it["t"].asDouble() }
        assertTrue(times[1] - times[0] >= 1.0, "$times")
    }

    @Test
    fun `rule 5, a Retry-After that is too long ends the call, and says when to come back`() {
        Origin.sequence(mapOf("status" to 503, "retry_after" to "120"), 200)
        val answer = using(http { retry { maxRetryAfter = 60.seconds } }).send()
        assertEquals(503, answer.status)
        assertEquals("Retry-After 120 s exceeds maxRetryAfter 60 s", answer.report?.note)
        assertNotNull(answer.report?.retryAt)
    }

    @Test
    fun `rule 6, a wait is given up at once`() {
        Origin.sequence(503)
        val policy = http { retry { backoff { base = 20.seconds; max = 20.seconds } } }
        val (cancel, ended) = using(policy).start()
        until { attempts().isNotEmpty() && engine.snapshot().routes.any { it.active == 1 } }
        Thread.sleep(100)
        val took = measureTime {
            cancel()
            assertNotNull(ended())
        }
        assertTrue(took < 10.seconds, "$took")
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends["cancelled"])
    }

    @Test
    fun `rule 6, an attempt is given up at once`() {
        Origin.sequence(mapOf("fault" to "hang"))
        val (cancel, ended) = using(http()).start()
        while (attempts().isEmpty()) Thread.sleep(1)
        cancel()
        assertNotNull(ended())
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends["cancelled"])
    }

    @Test
    fun `rule 7, an attempt that takes too long is stopped, and repeated`() {
        Origin.sequence(mapOf("fault" to "hang"), 200)
        assertEquals(200, using(http { attemptTimeout = 1.seconds }).send().status)
        Origin.sequence(mapOf("fault" to "hang"))
        val error = failure { using(http("once") { attemptTimeout = 200.milliseconds; retry { maxAttempts = 1 } }).send() }
        assertTrue(error is AttemptTimeout, "$error")
    }

    @Test
    open fun `rule 7, the deadline ends an attempt, and the reading of a body`() {
        Origin.sequence(mapOf("fault" to "hang"))
        val error = failure { using(http { deadline = 300.milliseconds }).send() }
        assertTrue(error is DeadlineExceeded, "$error")
        Origin.script("default" to mapOf("body_bytes" to 100_000, "fault" to "slow_body"))
        val took = measureTime { assertNotNull(failure { using(http("read") { deadline = 1500.milliseconds }).open("/slow").first() }) }
        assertTrue(took < 60.seconds, "$took") // and not the ten minutes that it takes
    }

    @Test
    open fun `rule 7, the deadline of a call around it ends the reading of a body, whatever its engine (7_3_1, 7_3_3)`() {
        Origin.script("default" to mapOf("body_bytes" to 100_000, "fault" to "slow_body"))
        for (own in listOf(engine, Engine(seed = 8))) {
            val around = policy("around", own) { deadline = 1500.milliseconds }
            val client = using(http())
            val took = measureTime { assertNotNull(failure { around.call { client.open("/slow").first() } }) }
            assertTrue(took < 20.seconds, "$took") // and not the 30 s of its own deadline
            until(20.seconds) { engine.snapshot().live == 0 } // a timer's thread ends the call, and may be later than the reader
        }
    }

    @Test
    fun `rule 8, a slot is kept until the body has been read or closed`() {
        Origin.script("default" to mapOf("body_bytes" to 200_000))
        val client = using(http { bulkhead { maxConcurrency = 1 } })
        val (read, _) = client.open()
        val error = failure { client.send() }
        assertTrue(error is BulkheadFull, "$error")
        assertEquals(200_000, read().length)
        val (_, close) = client.open()
        close()
        until { engine.snapshot().live == 0 }
        assertEquals(200, client.send().status)
    }

    @Test
    fun `rule 8, a body that nobody reads gives its slot back at the deadline`() {
        Origin.script("default" to mapOf("body_bytes" to 200_000))
        val client = using(http { deadline = 3.seconds; bulkhead { maxConcurrency = 1 } })
        val (_, close) = client.open()
        assertEquals(1, engine.snapshot().live)
        until { engine.snapshot().live == 0 }
        assertEquals(200, client.send().status)
        runCatching { close() }
    }

    @Test
    fun `rule 9, a policy around makes this one's attempts one`() {
        Origin.sequence(503)
        val own = engine
        val around = policy("around", own) { retry { maxAttempts = 2 } }
        val client = using(http())
        assertEquals(503, around.call { client.send() }.status)
        assertEquals(1, attempts().size)
    }

    @Test
    fun `rule 12, what is fine costs one request, and a plain failure is the caller's`() {
        Origin.sequence(404, 500)
        val client = using(http())
        val answer = client.send()
        assertEquals(listOf(404, 1), listOf(answer.status, attempts().size))
        assertEquals(Verdict.NOT_RETRYABLE to null, answer.report?.reason to answer.report?.note)
        assertEquals("not_retryable", answer.report!!.explain()!!.reason)
        Origin.sequence(500, 200)
        assertEquals(500, client.send().status)
        assertNull(client.send().report)
    }

    @Test
    fun `options of a request`() {
        Origin.sequence(503, 200)
        val client = using(http())
        assertEquals(503, client.send(options = RequestOptions(idempotent = false)).status)
        val own = engine
        val other = policy("other", own) { retry { maxAttempts = 1 } }
        client.send(options = RequestOptions(policy = other, route = "mine"))
        assertEquals(listOf("mine"), engine.snapshot().routes.filter { it.policy == "other" }.map { it.key })
        assertTrue(engine.snapshot().routes.any { it.policy == "p" && it.key == Origin.url })
    }

    @Test
    fun `rule 14, many at once leave nothing`() {
        Origin.script("rules" to listOf(mapOf("match" to mapOf("path" to "/x"), "probability" to 0.3, "respond" to mapOf("status" to 503))))
        val client = using(http { bulkhead { maxConcurrency = 4; maxQueue = 1_000; acquireTimeout = 60.seconds } })
        val done = java.util.concurrent.atomic.AtomicInteger()
        List(8) { thread { repeat(10) { client.send(); done.incrementAndGet() } } }.forEach { it.join() }
        assertEquals(80, done.get())
        assertFalse(engine.snapshot().policies.getValue("p").ends.isEmpty())
    }

    protected fun until(within: Duration = 60.seconds, condition: () -> Boolean) {
        val end = System.nanoTime() + within.inWholeNanoseconds
        while (!condition() && System.nanoTime() < end) Thread.sleep(1)
        assertTrue(condition())
    }
}
