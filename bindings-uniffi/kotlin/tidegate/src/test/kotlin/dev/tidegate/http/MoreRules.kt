package dev.tidegate.http

import dev.tidegate.BackoffJitter
import dev.tidegate.BudgetKind
import dev.tidegate.BulkheadFull
import dev.tidegate.Configure
import dev.tidegate.Metrics
import dev.tidegate.PolicyOptions
import dev.tidegate.RateLimitUnit
import dev.tidegate.RequestOptions
import dev.tidegate.SlotUntil
import dev.tidegate.Verdict
import dev.tidegate.policy
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import java.io.IOException
import java.util.concurrent.CopyOnWriteArrayList
import kotlin.concurrent.thread
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds

/** What holds a repeat back, and how that comes about; all reasons that rule 13 names. */
enum class Held(
    val reason: Verdict,
    val answer: Any = 503,
    val method: String = "GET",
    val body: Body = Body.NONE,
    val configure: Configure<PolicyOptions> = Configure { },
) {
    NOT_RETRYABLE(Verdict.NOT_RETRYABLE, answer = 404),
    ATTEMPTS(Verdict.ATTEMPTS, configure = { retry { maxAttempts = 1 } }),
    METHOD(Verdict.METHOD, method = "POST", body = Body.BYTES),
    ONE_SHOT_BODY(Verdict.ONE_SHOT_BODY, method = "PUT", body = Body.ONE_SHOT),
    OPINION(Verdict.OPINION, answer = 500),
    NESTED(Verdict.NESTED),
    RETRY_AFTER_TOO_LONG(Verdict.RETRY_AFTER_TOO_LONG, answer = mapOf("status" to 503, "retry_after" to "120")),
    WOULD_OUTLIVE_DEADLINE(Verdict.WOULD_OUTLIVE_DEADLINE, mapOf("status" to 503, "retry_after" to "30"), configure = { deadline = 5.seconds }),
    TIME_LIMIT(Verdict.TIME_LIMIT, mapOf("status" to 503, "retry_after" to "10"), configure = { retry { retryTimeLimit = 5.seconds } }),
    BUDGET(Verdict.BUDGET, configure = { retry { budget { kind = BudgetKind.WINDOW; minRetriesPerSec = 0.0; percentCanRetry = 0.0 } } }),
    READMISSION(Verdict.READMISSION, configure = { rateLimit { permits = 1; per = 1.minutes; unit = RateLimitUnit.ATTEMPT } }),
}

/** The rules for every adapter, on: what their first half leaves open. */
abstract class MoreRules : Rules() {
    @Test
    fun `rule 1, a factory makes a body that can be read once retryable`() {
        Origin.sequence(503, mapOf("fault" to "reset"), mapOf("echo" to true))
        val client = using(http())
        val answer = client.send("PUT", body = Body.ONE_SHOT, options = RequestOptions(bodyFactory = { client.body("again") }))
        assertEquals(200 to "again", answer.status to answer.text)
        assertEquals(listOf("hello", "again", "again"), attempts().map { it["body"].asText() })
    }

    @Test
    fun `rule 1, a factory that is broken has failed the attempt`() {
        Origin.sequence(503, 200)
        val error = failure { using(http()).send("PUT", body = Body.ONE_SHOT, options = RequestOptions(bodyFactory = { throw IllegalStateException("gone") })) }
        assertEquals("gone" to 2, error.message to error.let { 1 + attempts().size })
        Origin.sequence(503, 200)
        val wrong = failure { using(http("wrong")).send("PUT", body = Body.ONE_SHOT, options = RequestOptions(bodyFactory = { 7 })) }
        assertTrue(wrong.message!!.startsWith("bodyFactory = java.lang.Integer: must make "), "$wrong")
    }

    @Test
    fun `rule 5, in a thousand trials no repeat is early`() {
        Origin.sequence(*(0 until 1_000).flatMap { listOf(mapOf("status" to 503, "retry_after" to "${1 + it % 90}"), 200) }.toTypedArray())
        val at = trials(1_000) { of ->
            policy("p", of) { retry { maxAttempts = 2; maxRetryAfter = 120.seconds; budget { kind = BudgetKind.NONE } } }
        }
        assertEquals(2_000, at.size)
        val waits = at.chunked(2).map { (first, second) -> second - first }
        for ((trial, wait) in waits.withIndex()) assertTrue(wait >= (1 + trial % 90).seconds, "trial $trial waited $wait")
        assertTrue(waits.withIndex().any { (trial, wait) -> wait > (1 + trial % 90).seconds }, "jitter goes on top")
    }

    @Test
    fun `rule 6, a place in the queue is given up at once`() {
        Origin.script("default" to mapOf("body_bytes" to 200_000))
        val client = using(http { bulkhead { maxConcurrency = 1; maxQueue = 5 } })
        val (_, close) = client.open()
        val (cancel, ended) = client.start()
        until { engine.snapshot().waiting == 1 }
        cancel()
        assertNotNull(ended())
        until { engine.snapshot().waiting == 0 }
        close()
        until { engine.snapshot().live == 0 }
        assertEquals(200, client.send().status)
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends["cancelled"])
    }

    @Test
    fun `rule 8, until headers gives the slot back at once`() {
        Origin.script("default" to mapOf("body_bytes" to 200_000))
        val client = using(http { bulkhead { maxConcurrency = 1 }; slotUntil = SlotUntil.HEADERS })
        val (read, _) = client.open()
        until { engine.snapshot().live == 0 }
        assertEquals(200_000, read().length)
    }

    @Test
    fun `rule 8, a body that fails is recorded`() {
        val error = cut(http())
        assertTrue(error is IOException, "$error")
        until { engine.snapshot().live == 0 }
        val ends = engine.snapshot().policies.getValue("p").ends.filterValues { it > 0L }
        assertEquals(mapOf("not_retryable" to 1L), ends, "a success at the head, and then not")
    }

    @Test
    open fun `rule 9, a policy around a raw answer repeats what this one would have repeated`() {
        Origin.sequence(503, 200, 500, 200)
        val own = engine
        val around = policy("around", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds; jitter = BackoffJitter.NONE } } }
        val client = using(http())
        assertEquals(200, client.status(around.call { client.raw() }))
        assertEquals(2, attempts().size)
        assertEquals(500, client.status(around.call { client.raw() }), "the inner policy would not have repeated it")
    }

    @Test
    fun `rule 9, what is around a slot is not around the next call`() {
        Origin.sequence(503, 200, 503, 200)
        val own = engine
        val around = policy("around", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds; jitter = BackoffJitter.NONE } } }
        val client = using(http())
        assertEquals(503, around.call { client.send() }.status)
        assertEquals(200, client.send().status)
        assertEquals(200, client.send().status)
        assertEquals(4, attempts().size)
    }

    @Test
    fun `rule 10, an injected clock drives every wait`() {
        Origin.sequence(503, 503, 200)
        val at = trials(1) { of ->
            policy("p", of) { retry { maxAttempts = 3; backoff { base = 60.seconds; max = 60.seconds; jitter = BackoffJitter.NONE } } }
        }
        assertEquals(listOf(0, 60, 120), at.map { it.inWholeSeconds.toInt() })
    }

    @ParameterizedTest
    @EnumSource
    fun `rule 13, a repeat that is held back has its reason in report, records and metrics`(held: Held) {
        Origin.sequence(held.answer, held.answer)
        val client = using(http(configure = held.configure))
        val metrics = Metrics(engine)
        val told = CopyOnWriteArrayList<Pair<String, String?>>()
        val listening = engine.listen(setOf("retry_suppressed", "gave_up", "call_done")) { if (it.policy == "p") told += it.kind to it.reason }
        val own = engine
        val around = policy("around", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds } } }
        val send = { client.send(held.method, body = held.body) }
        val answer = if (held == Held.NESTED) around.call { send() } else send()
        listening.close()
        assertEquals(1, attempts().size)
        val kind = if (held == Held.ATTEMPTS) "gave_up" else "retry_suppressed"
        assertEquals(listOf(kind to held.reason.word, "call_done" to held.reason.word), told.toList())
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends[held.reason.word])
        val counted = metrics.read().single { it.family.name == "tidegate_retries_suppressed_total" && it.labels["policy"] == "p" }
        assertEquals(held.reason.word to 1.0, counted.labels["reason"] to counted.value)
        if (held !in setOf(Held.NOT_RETRYABLE, Held.ATTEMPTS)) { // nothing was held back there: the first attempt was all
            assertEquals(held.reason, answer.report?.reason)
            assertNotNull(answer.report?.note)
        }
    }

    @Test
    fun `rule 14, a client that is closed leaves no connection and no thread`() {
        Origin.sequence(503, mapOf("status" to 503, "body_bytes" to 300_000), 200, mapOf("fault" to "hang"), mapOf("fault" to "reset"), 200)
        val before = Origin.stats()["connections_open"].asInt() // of clients of other tests
        val client = using(http { attemptTimeout = 2.seconds })
        repeat(2) { assertEquals(200, client.send().status) }
        assertEquals(6, attempts().size)
        client.close()
        until { Origin.stats()["connections_open"].asInt() <= before }
        val threads = thread(start = false) { }.threadGroup!!.let { group -> arrayOfNulls<Thread>(group.activeCount() + 10).also(group::enumerate) }
        assertTrue(threads.filterNotNull().none { it.name.startsWith("tidegate") }, "no thread is ours")
    }
}
