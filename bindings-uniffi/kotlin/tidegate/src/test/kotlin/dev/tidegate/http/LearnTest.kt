package dev.tidegate.http

import dev.tidegate.Engine
import dev.tidegate.Metrics
import dev.tidegate.Policy
import dev.tidegate.Preset
import dev.tidegate.RateLimitLearn
import dev.tidegate.RequestOptions
import dev.tidegate.ktor.Tidegate
import dev.tidegate.okhttp.tidegate
import dev.tidegate.policy
import dev.tidegate.spring.restInterceptor
import dev.tidegate.spring.webFilter
import dev.tidegate.target
import dev.tidegate.testing.FakeTime
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.request.get
import io.ktor.client.statement.bodyAsText
import kotlinx.coroutines.runBlocking
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Protocol
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import okhttp3.ResponseBody.Companion.toResponseBody
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.springframework.http.client.JdkClientHttpRequestFactory
import org.springframework.http.client.reactive.JdkClientHttpConnector
import org.springframework.web.client.RestClient
import org.springframework.web.reactive.function.client.WebClient

/** Limits that learn from what answers say is left of the service's quota (semantics 3.7), and metrics of metered services (12.5). */
@Timeout(120)
class LearnTest {
    private var engine = Engine(seed = 7, timeSource = FakeTime())
    private val url = "${Origin.url}/x"

    init {
        jdk.version() // its thread is there before a test is
    }

    private fun chat(learn: RateLimitLearn? = RateLimitLearn.DOWN, preset: Preset? = null): Policy = policy("chat", engine) {
        if (preset != null) this.preset = preset
        rateLimit {
            limits = listOf("rpm: permits=500 per=1m")
            if (learn != null) this.learn = learn
        }
    }

    /** Requests that the limit has. */
    private fun left(): Long = engine.snapshot().routes.single().rate!!.limits.getValue("rpm").tokens

    private fun answering(status: Int = 200) {
        val headers = mapOf("x-ratelimit-remaining-requests" to "3", "x-ratelimit-remaining-tokens" to "nothing to read")
        Origin.sequence(mapOf("status" to status, "headers" to headers))
    }

    private fun okhttp(policy: Policy): Int {
        val client = OkHttpClient.Builder().tidegate(policy).build()
        return client.newCall(Request.Builder().url(url).header("Connection", "close").build()).execute().use { it.code }
    }

    @Test
    fun `an answer of any status lowers the limit (3_7_1, 3_7_6)`() {
        for (status in listOf(200, 404)) {
            engine = Engine(seed = 7, timeSource = FakeTime())
            answering(status)
            assertEquals(status, okhttp(chat()))
            assertEquals(3, left())
        }
    }

    @Test
    fun `without learn a limit counts its own calls`() {
        answering()
        okhttp(chat(learn = null))
        assertEquals(499, left())
    }

    @Test
    fun `the preset for language models learns (0_7_12, 0_7_13)`() {
        answering()
        okhttp(chat(learn = null, preset = Preset.LLM))
        assertEquals(3, left())
    }

    @Test
    fun `a policy that says none itself does not, whatever its preset`() {
        answering()
        okhttp(chat(RateLimitLearn.NONE, Preset.LLM))
        assertEquals(499, left())
    }

    @Test
    fun `Ktor reports them`() = runBlocking {
        answering()
        HttpClient(CIO) { install(Tidegate) { policy = chat() } }.use { it.get(url).bodyAsText() }
        assertEquals(3, left())
    }

    @Test
    fun `RestClient reports them`() {
        answering()
        val client = RestClient.builder().defaultHeader("Connection", "close").requestFactory(JdkClientHttpRequestFactory(jdk)).requestInterceptor(chat().restInterceptor()).build()
        client.get().uri(url).retrieve().body(String::class.java)
        assertEquals(3, left())
    }

    @Test
    fun `WebClient reports them`() {
        answering()
        val client = WebClient.builder().defaultHeader("Connection", "close").clientConnector(JdkClientHttpConnector(jdk)).filter(chat().webFilter()).build()
        client.get().uri(url).retrieve().bodyToMono(String::class.java).block()
        assertEquals(3, left())
    }

    @Test
    fun `metered and streaming services have their series (12_5)`() {
        val metrics = Metrics(engine)
        val policy = Policy.load(METERED, engine = engine).getValue("chat")
        val client = OkHttpClient.Builder().tidegate(policy).addInterceptor { chain ->
            val good = target() != "large"
            val events = "text/event-stream".toMediaType()
            Response.Builder().request(chain.request()).protocol(Protocol.HTTP_1_1).code(if (good) 200 else 429).message("")
                .body((if (good) "data: high\n\n" else "").toResponseBody(events)).build()
        }.build()
        val options = RequestOptions(route = "eu", weights = mapOf("tokens" to 600L))
        val request = Request.Builder().url(url).header("accept", "text/event-stream").post("{}".toRequestBody())
            .tag(RequestOptions::class.java, options).build()
        assertEquals("data: high\n\n", client.newCall(request).execute().use { it.body.string() })
        val read = metrics.read()
        fun value(name: String, vararg labels: Pair<String, String>): Double? =
            read.firstOrNull { it.family.name == "tidegate_$name" && it.labels == mapOf(*labels) }?.value
        val limit = arrayOf("policy" to "chat", "route" to "eu", "limit" to "tpm", "weight" to "tokens")
        val large = arrayOf("policy" to "", "route" to "chat", "target" to "large")
        assertEquals(1_200.0, value("rate_limit_reserved_total", *limit))
        assertEquals(9_400.0, value("rate_limit_tokens", *limit))
        assertEquals(1.0, value("stream_delivery_seconds", "policy" to "chat", "route" to "eu"))
        for (name in listOf("target_attempts_total", "target_failovers_total", "cooldown_closings_total", "cooldown_state")) {
            assertEquals(1.0, value(name, *large), name)
        }
        assertEquals(1.0, value("target_skips_total", *large, "reason" to "cooldown"))
    }

    private companion object {
        const val METERED = """
            [targets.chat]
            pick = "ladder"
            members = ["large", "small"]
            default.cooldown = { base = "10s" }
            [policy.chat]
            targets = "chat"
            first_byte_timeout = "5s"
            retry = { max_attempts = 2, methods = ["POST"] }
            [policy.chat.rate_limit]
            limits.tpm = { permits = 60000, per = "1m", burst = 10000, weight = "tokens" }
        """
    }
}
