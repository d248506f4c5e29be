package dev.tidegate

import dev.tidegate.okhttp.tidegate
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import okhttp3.OkHttpClient
import okhttp3.Request
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import kotlin.time.Duration.Companion.seconds

/** Weights of calls, and what their attempts settle (semantics 3.4 to 3.6). */
class WeightsTest {
    private val time = FakeTime()
    private val engine = Engine(seed = 7, timeSource = time)

    private fun metered(of: Engine = engine) = policy("metered", of) {
        rateLimit { limits = listOf("rpm: permits=60 per=1m burst=3", "tpm: permits=60000 per=1m burst=10000 weight=tokens") }
        retry { backoff { base = 0.seconds } }
    }

    private fun limit(name: String, of: Engine = engine) = of.snapshot().routes.single().rate!!.limits.getValue(name)

    private fun weighing(tokens: Long) = CallOptions(weights = mapOf("tokens" to tokens))

    @Test
    fun `an attempt reserves and settles (3_6_2, 3_6_3)`() {
        var kept: Attempt? = null
        metered().at(weighing(4_000)).call { attempt ->
            kept = attempt
            assertEquals(6_000, limit("tpm").tokens)
            assertTrue(attempt.settle("tokens", 1_000))
            assertTrue(attempt.settle("tokens", 5_500))
            assertFalse(attempt.settle("other", 5_500))
            assertEquals(4_500, limit("tpm").tokens)
        }
        assertFalse(kept!!.settle("tokens", 9_000), "it has ended")
        val tpm = limit("tpm")
        assertEquals(listOf(4_500L, 10_000, 4_000, 5_500), listOf(tpm.tokens, tpm.burst, tpm.reserved, tpm.settled))
        assertEquals("tokens" to 2L, tpm.weight to limit("rpm").tokens)
    }

    @Test
    fun `a repeat reserves again, and settles its own`() =
        runTest {
            val own = Engine(seed = 7, timeSource = testTimeSource)
            metered(own).at(weighing(4_000)).run { attempt ->
                assertTrue(attempt.settle("tokens", 1_000L * attempt.number))
                if (attempt.number == 1) throw IOException("reset")
            }
            assertEquals(7_000, limit("tpm", own).tokens)
            assertEquals(8_000L to 3_000L, limit("tpm", own).let { it.reserved to it.settled })
        }

    @Test
    fun `calls reserve, and the rest waits (3_4_3, 3_5_4, 3_6_4)`() {
        val caller = metered().at(weighing(6_000))
        assertEquals(7, caller.call { 7 })
        assertThrows(RateLimited::class.java) { caller.call { 7 } }
        time.advance(2.seconds)
        assertEquals(7, caller.call { 7 })
        assertThrows(CostAboveBurst::class.java) { metered().at(weighing(10_001)).call { 7 } }
    }

    @Test
    fun `a refusal names the limit, the weight and the amount (3_4_6, 3_8_14)`() {
        val caller = metered().at(weighing(6_000))
        caller.call { 7 }
        val refused = assertThrows(RateLimited::class.java) { caller.call { 7 } }
        assertEquals(listOf("tpm", "tokens", 6_000L), listOf(refused.limit, refused.weight, refused.amount))
        val where = "policy \"metered\", route \"default\""
        assertEquals("the rate limit is used up ($where, limit tpm, 6000 tokens)", refused.message)
        val large = assertThrows(CostAboveBurst::class.java) { metered().at(weighing(10_001)).call { 7 } }
        assertEquals(listOf("tpm", "tokens", 10_001L), listOf(large.limit, large.weight, large.amount))
        assertTrue(large.message!!.endsWith("($where, limit tpm, 10001 tokens)"))
        val small = metered().at(weighing(1))
        repeat(2) { small.call { 7 } }
        val counted = assertThrows(RateLimited::class.java) { small.call { 7 } }
        assertEquals(listOf("rpm", null, null), listOf(counted.limit, counted.weight, counted.amount))
        assertTrue(counted.message!!.endsWith("($where, limit rpm)"))
        val plain = policy("plain", engine) { rateLimit { permits = 1; per = 60.seconds } }
        plain.call { 7 }
        val unnamed = assertThrows(RateLimited::class.java) { plain.call { 7 } }
        assertEquals(listOf(null, null, null), listOf(unnamed.limit, unnamed.weight, unnamed.amount))
    }

    @Test
    fun `a wrong or missing weight is one clear error (3_5_3)`() {
        val policy = metered()
        val missing = "weights: the rate limit counts tokens; give each call an amount, or the limit a default"
        repeat(2) { assertEquals(missing, assertThrows(IllegalArgumentException::class.java) { policy.call { 7 } }.message) }
        val wrong = policy.at(CallOptions(weights = mapOf("token" to 5)))
        val told = assertThrows(IllegalArgumentException::class.java) { wrong.call { 7 } }.message
        assertEquals("weights = \"token\": no limit counts it; the weights are tokens", told)
        val plain = policy("plain", engine) { deadline = 5.seconds }.at(weighing(5))
        assertTrue("has no weights; leave weights out" in assertThrows(IllegalArgumentException::class.java) { plain.call { 7 } }.message!!)
        assertEquals(0, engine.snapshot().live)
    }

    @Test
    fun `amounts are whole numbers (3_5_2)`() {
        for (amount in listOf(-1L, 1L shl 53)) {
            val told = assertThrows(IllegalArgumentException::class.java) { weighing(amount) }.message
            assertEquals("weights = {tokens=$amount}: must be whole numbers from 0 to 2^53 - 1", told)
        }
        assertThrows(IllegalArgumentException::class.java) { Attempt.FIRST.settle("tokens", -1) }
    }

    @Test
    fun `a limit with a default needs no amount, and still settles`() {
        val document = "[policy.chat.rate_limit.limits.tpm]\npermits = 60000\nper = \"1m\"\nweight = \"tokens\"\ndefault = 500"
        val chat = Policy.load(document, engine = engine).getValue("chat")
        chat.call { 7 }
        assertEquals(59_500, limit("tpm").tokens)
        chat.call { attempt -> assertTrue(attempt.settle("tokens", 100)) }
        assertEquals(59_400, limit("tpm").tokens)
    }

    @Test
    fun `a request of an adapter has weights (3_5_1)`() {
        TcpServer { client ->
            client.getInputStream().read(ByteArray(10_000))
            client.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encodeToByteArray())
        }.use { server ->
            val client = OkHttpClient.Builder().tidegate(metered()).build()
            val options = RequestOptions(weights = mapOf("tokens" to 2_500))
            val request = Request.Builder().url(server.url).tag(RequestOptions::class.java, options).build()
            assertEquals(200, client.newCall(request).execute().use { it.code })
            assertEquals(7_500, limit("tpm").tokens)
            client.connectionPool.evictAll()
        }
    }
}
