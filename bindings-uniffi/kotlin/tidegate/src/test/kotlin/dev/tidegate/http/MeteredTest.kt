package dev.tidegate.http

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import dev.tidegate.Engine
import dev.tidegate.Factors
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.RequestOptions
import dev.tidegate.Tokens
import dev.tidegate.Usage
import dev.tidegate.ffi.UsageReader
import dev.tidegate.ffi.readEstimate
import dev.tidegate.internal.Library
import dev.tidegate.ktor.Tidegate
import dev.tidegate.ktor.tidegate
import dev.tidegate.okhttp.tidegate
import dev.tidegate.policy
import dev.tidegate.spring.OPTIONS
import dev.tidegate.spring.restInterceptor
import dev.tidegate.spring.webFilter
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.request.header
import io.ktor.client.request.post
import io.ktor.client.request.preparePost
import io.ktor.client.request.setBody
import io.ktor.client.statement.bodyAsChannel
import io.ktor.client.statement.bodyAsText
import io.ktor.utils.io.readAvailable
import kotlinx.coroutines.runBlocking
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.springframework.http.MediaType
import org.springframework.http.client.JdkClientHttpRequestFactory
import org.springframework.http.client.reactive.JdkClientHttpConnector
import org.springframework.web.client.RestClient
import org.springframework.web.reactive.function.client.WebClient
import java.net.URI
import java.nio.file.Files
import java.nio.file.Path
import kotlin.time.Duration.Companion.seconds

/** A chat of 16 bytes, so 4 tokens, whose answer has at most 500. */
private const val PLAIN = """{"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "Is the tide high"}]}"""
private val STREAM = PLAIN.dropLast(1) + """, "stream": true, "stream_options": {"include_usage": true}}"""
private const val PATH = "/v1/chat/completions"

/** What requests are going to use and what answers have used (semantics 15.6, 15.7), through OkHttp and Ktor. */
@Timeout(120)
class MeteredTest {
    private val engine = Engine(seed = 7)

    init {
        jdk.version() // its thread is there before a test is
    }

    private fun metered(configure: PolicyOptions.() -> Unit = { tokens(output = 300) }) = policy("metered", engine) {
        rateLimit { limits = listOf("tpm: permits=60000 per=1m burst=10000 weight=tokens") }
        retry { methods = listOf("POST"); backoff { base = 0.seconds } }
        configure()
    }

    /** Tokens that have been reserved and settled. */
    private fun counted(): Pair<Long, Long> =
        engine.snapshot().routes.single().rate!!.limits.getValue("tpm").let { it.reserved to it.settled }

    private fun okhttp(policy: Policy, body: String, options: RequestOptions = RequestOptions(), most: Int = Int.MAX_VALUE): String {
        val client = OkHttpClient.Builder().tidegate(policy).build()
        val request = Request.Builder().url(Origin.url + PATH).post(body.toRequestBody("application/json".toMediaType()))
            .tag(RequestOptions::class.java, options).build()
        val text = client.newCall(request).execute().use { answer ->
            buildString {
                while (length < most) append(answer.body.source().readUtf8Line() ?: break).append('\n')
            }
        }
        client.connectionPool.evictAll()
        return text
    }

    private fun ktor(of: Policy, body: String, streamed: Boolean): String = runBlocking {
        HttpClient(CIO) { install(Tidegate) { policy = of } }.use { client ->
            if (!streamed) {
                return@use client.post(Origin.url + PATH) { header("Content-Type", "application/json"); setBody(body) }.bodyAsText()
            }
            client.preparePost(Origin.url + PATH) { header("Content-Type", "application/json"); setBody(body) }.execute { answer ->
                val channel = answer.bodyAsChannel()
                val piece = ByteArray(64)
                buildString { while (true) append(String(piece, 0, channel.readAvailable(piece).takeIf { it >= 0 } ?: break)) }
            }
        }
    }

    private fun rest(of: Policy, body: String): String {
        val client = RestClient.builder().requestFactory(JdkClientHttpRequestFactory(jdk)).defaultHeader("Connection", "close").requestInterceptor(of.restInterceptor()).build()
        val request = client.post().uri(URI(Origin.url + PATH)).contentType(MediaType.APPLICATION_JSON).body(body.encodeToByteArray())
        return request.exchange { _, response -> response.body.readAllBytes().decodeToString() }!!
    }

    /** A `WebClient` knows a body when it sends it, so the request says itself what it is going to use. */
    private fun web(of: Policy, body: String): String {
        val client = WebClient.builder().clientConnector(JdkClientHttpConnector(jdk)).defaultHeader("Connection", "close").filter(of.webFilter()).build()
        val request = client.post().uri(URI(Origin.url + PATH)).contentType(MediaType.APPLICATION_JSON)
            .attribute(OPTIONS, RequestOptions(weights = mapOf("tokens" to 504))).bodyValue(body)
        return request.exchangeToMono { it.bodyToMono(ByteArray::class.java) }.block()!!.decodeToString()
    }

    /** Tokens that the provider says that an answer has used. */
    private fun used(text: String): Long {
        val from = text.lastIndexOf("\"total_tokens\":")
        return Regex("[0-9]+").find(text, from)!!.value.toLong()
    }

    @Test
    fun `a chat reserves its estimate and settles its usage (15_7_6, 15_7_7)`() {
        val ways = listOf<(Policy) -> String>(
            { okhttp(it, PLAIN) }, { okhttp(it, STREAM) }, { ktor(it, PLAIN, false) }, { ktor(it, PLAIN, true) }, { ktor(it, STREAM, true) },
            { rest(it, PLAIN) }, { rest(it, STREAM) }, { web(it, PLAIN) }, { web(it, STREAM) },
        )
        var before = 0L to 0L
        for ((place, ask) in ways.withIndex()) {
            Origin.script("provider" to mapOf("answer_tokens" to 8))
            val text = ask(metered())
            val now = counted()
            assertEquals(504L to used(text), (now.first - before.first) to (now.second - before.second), "way $place: $text")
            before = now
        }
    }

    @Test
    fun `each attempt settles by itself (3_6_4)`() {
        Origin.script("provider" to mapOf("answer_tokens" to 8, "faults" to listOf(mapOf("fault" to "throttled", "first" to 1, "retry_after" to 0))))
        val text = okhttp(metered(), PLAIN)
        assertEquals(2 * 504L to used(text), counted(), "an answer of 429 has used nothing")
    }

    @Test
    fun `an answer that is closed early counts its reservation, and one after its last event does not (15_7_7)`() {
        Origin.script("provider" to mapOf("answer_tokens" to 400, "token_every" to 20))
        okhttp(metered(), STREAM, most = 10)
        assertEquals(504L to 504L, counted())
        Origin.script("provider" to mapOf("answer_tokens" to 8))
        val client = OkHttpClient.Builder().tidegate(metered()).build()
        val request = Request.Builder().url(Origin.url + PATH).post(STREAM.toRequestBody("application/json".toMediaType())).build()
        val lines = mutableListOf<String>()
        client.newCall(request).execute().use { answer -> while (lines.lastOrNull() != "data: [DONE]") lines += answer.body.source().readUtf8Line()!! }
        assertEquals(504L + used(lines.joinToString("\n")), counted().second)
        client.connectionPool.evictAll()
    }

    @Test
    fun `the request's own weights come first (15_7_6)`() {
        Origin.script("provider" to mapOf("answer_tokens" to 8))
        okhttp(metered { weigh { mapOf("tokens" to it.input) } }, PLAIN, RequestOptions(weights = mapOf("tokens" to 40)))
        assertEquals(40L to 40L, counted())
    }

    @Test
    fun `a callback that fails breaks no call`() {
        Origin.script("provider" to mapOf("answer_tokens" to 8))
        val policy = policy("metered", engine) {
            rateLimit { limits = listOf("tpm: permits=60000 per=1m burst=10000 weight=tokens default=70") }
            weigh { throw IllegalStateException("no") }
            usage { throw IllegalStateException("no") }
        }
        val reported = mutableListOf<Throwable>()
        val before = Thread.currentThread().uncaughtExceptionHandler
        Thread.currentThread().setUncaughtExceptionHandler { _, error -> reported += error }
        try {
            assertTrue(used(okhttp(policy, PLAIN)) > 0)
        } finally {
            Thread.currentThread().setUncaughtExceptionHandler(before)
        }
        assertEquals(70L to 70L, counted())
        assertEquals(listOf("no", "no"), reported.map { it.message })
    }

    @Test
    fun `factors and outputs have ranges`() {
        assertEquals("factors.output = -1.0: must be a number from 0 to 1,000", assertThrows(IllegalArgumentException::class.java) { Factors(output = -1.0) }.message)
        assertThrows(IllegalArgumentException::class.java) { policy(engine = engine) { tokens(output = -1) } }
    }

    @Test
    fun `usages and estimates are those of every language (15_6, 15_7)`() {
        val vectors = Library.loaded { ObjectMapper().readTree(Files.readString(Path.of(System.getProperty("tidegate.vectors"), "answer/usage.json"))) }
        val factors = vectors["factors"].map { Factors(it[0].asInt() / 1e3, it[1].asInt() / 1e3, it[2].asInt() / 1e3) }
        fun number(of: JsonNode) = if (of.isNull) null else of.asLong()
        for (vector in vectors["usages"]) {
            val bytes = vector["text"]?.asText()?.encodeToByteArray() ?: vector["hex"].asText().chunked(2).map { it.toInt(16).toByte() }.toByteArray()
            val reader = UsageReader()
            for (piece in bytes.asList().chunked(7)) reader.read(piece.toByteArray())
            val usage = reader.usage()
            val seen = listOf(usage.input, usage.cached, usage.output).map { it?.toLong() }
            assertEquals(listOf("input", "cached", "output").map { number(vector[it]) }, seen, "$vector")
            if (seen[0] == null && seen[2] == null) continue
            val answer = Usage(seen[0] ?: 0, seen[1] ?: 0, seen[2] ?: 0)
            for ((weight, each) in vector["weights"].zip(factors)) assertEquals(mapOf("t" to weight.asLong()), Tokens("t", 1_000, each).totals(answer), "$vector")
        }
        for (vector in vectors["estimates"]) {
            val estimate = readEstimate(vector["path"].asText(), vector["body"].asText().encodeToByteArray())
            val seen = Triple(estimate.input.toLong(), estimate.output?.toLong(), estimate.stream)
            assertEquals(Triple(vector["input"].asLong(), number(vector["output"]), vector["stream"].asBoolean()), seen, "$vector")
        }
        assertTrue(vectors["usages"].size() > 20 && vectors["estimates"].size() > 5)
    }
}
