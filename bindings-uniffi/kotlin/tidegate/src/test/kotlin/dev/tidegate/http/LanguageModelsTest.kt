package dev.tidegate.http

import com.fasterxml.jackson.databind.ObjectMapper
import dev.tidegate.CallOptions
import dev.tidegate.Counts
import dev.tidegate.DeadlineUntil
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.Preset
import dev.tidegate.RateLimited
import dev.tidegate.RequestOptions
import dev.tidegate.okhttp.report
import dev.tidegate.okhttp.tidegate
import dev.tidegate.pageIsIn
import dev.tidegate.policy
import dev.tidegate.target
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import java.io.IOException
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.seconds

/** The blocks of `docs/kotlin/language-models.md`, run against a fake provider whose first answer is a 503. */
@Timeout(120)
class LanguageModelsTest {
    private val server = Origin.url
    private val key = "key"
    private val own = Engine(seed = 7)
    private val http = OkHttpClient.Builder().readTimeout(600, TimeUnit.SECONDS).tidegate(policy("chats", own) { preset = Preset.LLM }).build()

    @BeforeEach
    fun firstAnswerFails() = Origin.script("provider" to mapOf("faults" to listOf(mapOf("fault" to "unavailable", "first" to 1))))

    @AfterEach
    fun nothingIsLeft() = http.connectionPool.evictAll()

    private fun policy(name: String, configure: dev.tidegate.Configure<dev.tidegate.PolicyOptions>) = policy(name, own, configure)

    private fun tokensOf(text: String): Long = ObjectMapper().readTree(text)["usage"]["total_tokens"].asLong()

    fun chat(question: String, stream: Boolean = false): Request {
        val body = """{"model": "gpt-5", "stream": $stream, "messages": [{"role": "user", "content": "$question"}]}"""
        return Request.Builder().url("$server/v1/chat/completions").header("Authorization", "Bearer $key")
            .post(body.toRequestBody("application/json".toMediaType())).build()
    }

    fun ask(providers: List<String>, question: String): String {
        var failure: IOException? = null
        for (provider in providers) {
            val request = chat(question).newBuilder().url("$provider/chat/completions").build()
            try {
                http.newCall(request).execute().use { response ->
                    if (response.isSuccessful) return response.body.string()
                    if (response.code < 500 && response.code != 429) throw IllegalArgumentException("${response.code}")
                    failure = IOException("${response.code}")
                }
            } catch (error: IOException) {
                failure = error
            }
        }
        throw failure ?: IOException("there is no provider")
    }

    @Test
    fun `a question is answered by the second attempt`() {
        val chats = policy("chats") { preset = Preset.LLM } // 4 attempts, POST too, 600 s in all
        val http = OkHttpClient.Builder().readTimeout(600, TimeUnit.SECONDS).tidegate(chats).build()

        val answer = http.newCall(chat("When is high tide?")).execute().use { response ->
            if (response.isSuccessful) response.body.string() else throw IOException("${response.code}, ${response.report}")
        }
        assertTrue(tokensOf(answer) > 0, answer)
        assertEquals(2, Origin.log().size)
        http.connectionPool.evictAll()
    }

    @Test
    fun `a stream is read as it comes`() {
        val streamed = policy("streamed") {
            preset = Preset.LLM
            counts = Counts.SSE_DATA // pings and comments do not count
            firstByteTimeout = 30.seconds // to the first token; a stream without one is repeated
            idleTimeout = 60.seconds // between two pieces; a stream that stalls later ends
            deadlineUntil = DeadlineUntil.DELIVERY // the deadline ends with the first token
        }
        val request = chat("Tell me.", stream = true).newBuilder().header("Accept", "text/event-stream")
            .tag(RequestOptions::class.java, RequestOptions(policy = streamed)).build()
        val events = mutableListOf<String>()
        http.newCall(request).execute().use { response ->
            while (true) {
                val line = response.body.source().readUtf8Line() ?: break
                if (line.startsWith("data: {")) events += line.removePrefix("data: ")
            }
        }
        assertTrue(events.size >= 8, "$events")
        assertEquals(1L, own.snapshot().policies.getValue("streamed").retries)
    }

    private fun limit(policy: String, name: String = "tpm") = own.snapshot().routes.single { it.policy == policy }.rate!!.limits.getValue(name)

    @Test
    fun `requests and tokens are counted`() {
        val metered = policy("metered") {
            preset = Preset.LLM
            rateLimit {
                limits = listOf("rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens")
                wait = true
                maxWait = 20.seconds
                estimateQuantile = 0.95 // from 20 answers on, reserve what was enough for 95 % of them
            }
            tokens(output = 800) // what an answer is taken to have if its request sets no maximum
        }
        val frugal = OkHttpClient.Builder().tidegate(metered).build()
        val text = frugal.newCall(chat("And low tide?")).execute().use { it.body.string() }
        frugal.connectionPool.evictAll()
        // The first answer was a 503, of which nobody knows what it has used.
        assertEquals(2 * 804L to 804 + tokensOf(text), limit("metered").let { it.reserved to it.settled })
    }

    @Test
    fun `a function settles by hand`() {
        val counting = policy("counting") { rateLimit { limits = listOf("tpm: permits=200000 per=1m weight=tokens") } }
        counting.at(CallOptions(weights = mapOf("tokens" to 1_800))).call { attempt ->
            attempt.settle("tokens", 1_200) // whenever a better total is known
        }
        assertEquals(1_800L to 1_200L, limit("counting").let { it.reserved to it.settled })
    }

    @Test
    fun `a budget of money is a limit (3_8_1, 3_8_13)`() {
        val daily = policy("daily") {
            rateLimit { limits = listOf("usd: permits=5000000 per=24h weight=usd max_debt=none refill=window") }
        }
        try {
            daily.at(CallOptions(weights = mapOf("usd" to 40_000))).call { attempt -> // four cents at most
                attempt.settle("usd", 12_500) // what it has cost
            }
        } catch (error: RateLimited) {
            println("${error.amount} ${error.weight} do not fit before ${error.retryAt}")
        }
        assertEquals(5_000_000L - 12_500, limit("daily", "usd").tokens)
    }

    @Test
    fun `a failure goes to the next target`() {
        val document = """
            [targets.chat]
            pick = "ladder" # or "balanced": by shares, load and latency
            members = ["large", "small"]
            max_queue = 200 # calls that wait where no target admits them,
            max_wait = "5s" # each for so long
            default.breaker = { consecutive = 3, break_duration = "30s" }
            default.rate_limit = { permits = 500, per = "1m" }
            [policy.answers]
            preset = "llm"
            targets = "chat"
        """
        val urls = mapOf("large" to "$server/v1", "small" to "$server/v2")
        val spread = OkHttpClient.Builder().tidegate(Policy.load(document).getValue("answers"))
            .addInterceptor { chain -> chain.proceed(chain.request().newBuilder().url("${urls[target()]}/chat/completions").build()) }
            .build()
        val reply = spread.newCall(chat("Hi.")).execute().use { it.body.string() }
        spread.connectionPool.evictAll()
        assertTrue(tokensOf(reply) > 0, reply)
        assertEquals(listOf("large" to 1L, "small" to 1L), Engine.default.snapshot().targets.map { it.name to it.attempts })
    }

    @Test
    fun `the next provider answers`() {
        Origin.script("sequences" to mapOf("/v1/chat/completions" to listOf(mapOf("status" to 501))), "provider" to emptyMap<String, Any>())
        assertTrue(tokensOf(ask(listOf("$server/v1", "$server/v2"), "Hi.")) > 0)
        assertEquals(2, Origin.log().size)
    }

    @Test
    fun `a spent quota is not repeated`() {
        Origin.script("provider" to mapOf("faults" to listOf(mapOf("fault" to "quota_spent"))))
        http.newCall(chat("Hi.")).execute().use { assertEquals(1, it.report?.attempts) }
        assertEquals("permanent", Policy.load("[policy.m]\npreset = \"llm\"", engine = own).getValue("m").kinds["quota_spent"])
    }

    @Test
    fun `the blocks of the page are these`() = pageIsIn("docs/kotlin/language-models.md", "http/LanguageModelsTest.kt", 8)
}
