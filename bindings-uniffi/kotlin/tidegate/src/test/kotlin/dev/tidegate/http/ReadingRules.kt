package dev.tidegate.http

import dev.tidegate.Policy
import dev.tidegate.Verdict
import dev.tidegate.policy
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.time.Duration.Companion.seconds
import kotlin.time.measureTime

/** Body of an answer that says that a quota is spent. */
internal const val SPENT = """{"error":{"message":"You-exceeded-your-quota.","code":"insufficient_quota"}}"""

/** The rules for every adapter: policies with `retry.read_errors`, whose callers get the body unread (semantics 15.5 and 15.8). */
abstract class ReadingRules : MoreRules() {
    private val statuses = listOf(408, 409, 429, 500, 502, 503, 504, 529)

    /** Does a read of a slow body go on after its time is up? OkHttp stops it. */
    protected open val keepsReading: Boolean get() = false

    protected fun reading(name: String = "p", reads: Boolean = true): Policy {
        val listed = statuses
        return http(name) { retry { readErrors = reads; statuses = listed } }
    }

    @Test
    fun `a spent quota is not repeated, and its answer can be read (15_5_3, 15_8_1, 15_8_4)`() {
        Origin.sequence(mapOf("status" to 429, "body" to SPENT))
        val answer = using(reading()).send()
        assertEquals(listOf(429, SPENT, 1), listOf(answer.status, answer.text, attempts().size))
        assertEquals(Verdict.NOT_RETRYABLE, answer.report?.reason)
    }

    @Test
    fun `without the key no body is read (15_5_1)`() {
        Origin.sequence(mapOf("status" to 429, "body" to SPENT))
        val answer = using(reading(reads = false)).send()
        assertEquals(listOf(SPENT, null, 3), listOf(answer.text, answer.shouldRetry, attempts().size))
    }

    @Test
    fun `an overload that the body names is a throttle (15_5_4, 15_5_5)`() {
        Origin.sequence(mapOf("status" to 400, "body" to """{"type":"error","error":{"type":"overloaded_error"}}"""), 200)
        assertEquals(200, using(reading()).send().status)
        assertEquals(2, attempts().size)
    }

    @Test
    fun `a large answer is delivered whole (15_8_1, 15_8_4)`() {
        val large = SPENT + "x".repeat(200_000)
        Origin.sequence(mapOf("status" to 429, "body" to large))
        assertEquals(listOf(large, 1), listOf(using(reading()).send().text, attempts().size))
    }

    @Test
    fun `a body in an encoding that the client has not decoded is not judged (15_8_5)`() {
        Origin.sequence(mapOf("status" to 429, "headers" to mapOf("content-encoding" to "x-unknown"), "body" to SPENT))
        val (_, close) = using(reading()).open()
        close()
        assertEquals(3, attempts().size)
    }

    @Test
    fun `a body that stalls is waited for a second, and then its head decides (15_8_2, 15_8_4)`() {
        val slow = mapOf("status" to 402, "body" to SPENT, "fault" to "slow_body", "chunk_bytes" to SPENT.length - 10, "chunk_every" to 3_000)
        Origin.sequence(slow)
        val client = using(reading())
        val took = measureTime {
            val (read, _) = client.open()
            assertEquals(1, attempts().size)
            if (keepsReading) assertEquals(SPENT, read()) else failure { read() }
        }
        assertTrue(took >= 1.seconds, "$took")
        assertEquals(1, attempts().size)
    }

    @Test
    fun `SDKs are asked not to repeat, and their users that they do (15_8_6, 15_8_7)`() {
        Origin.sequence(mapOf("status" to 503, "headers" to mapOf("x-should-retry" to "true")))
        val repeated = mapOf("x-stainless-retry-count" to "1")
        val answer = using(reading()).send(headers = repeated)
        assertEquals("false" to 3, answer.shouldRetry to attempts().size)
        assertEquals("gave up after 3 attempts; the SDK retries too: set its maxRetries to 0", answer.report?.note)
        val other = using(reading("other", reads = false)).send(headers = repeated)
        assertEquals("true" to "gave up after 3 attempts", other.shouldRetry to other.report?.note)
    }

    @Test
    fun `an answer that a policy around may repeat does not forbid that (1_6_1, 15_8_6)`() {
        Origin.sequence(503)
        val client = using(reading())
        var answer = client.send()
        assertEquals("false" to 3, answer.shouldRetry to attempts().size)
        policy("around", engine) { retry { maxAttempts = 2 } }.call { answer = client.send() }
        assertEquals(Verdict.NESTED to null, answer.report?.reason to answer.shouldRetry)
    }
}
