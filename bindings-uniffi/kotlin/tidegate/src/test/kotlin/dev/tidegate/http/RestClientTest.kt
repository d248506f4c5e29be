package dev.tidegate.http

import dev.tidegate.BackoffJitter
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.RequestOptions
import dev.tidegate.policy
import dev.tidegate.report
import dev.tidegate.spring.OPTIONS
import dev.tidegate.spring.TidegateRequestInterceptor
import dev.tidegate.spring.report
import dev.tidegate.spring.restInterceptor
import dev.tidegate.testing.FakeTime
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.springframework.http.HttpHeaders
import org.springframework.http.HttpMethod
import org.springframework.http.HttpStatus
import org.springframework.http.ResponseEntity
import org.springframework.http.client.ClientHttpRequestFactory
import org.springframework.http.client.ClientHttpResponse
import org.springframework.http.client.JdkClientHttpRequestFactory
import org.springframework.web.client.HttpServerErrorException
import org.springframework.web.client.ResourceAccessException
import org.springframework.web.client.RestClient
import org.springframework.web.client.RestTemplate
import java.io.IOException
import java.io.InputStream
import java.io.InterruptedIOException
import java.net.URI
import java.net.http.HttpClient
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/**
 * The JDK's client, which has no `close` in Java 17: one for all tests. Tests that count its
 * requests or connections say `Connection: close`.
 */
internal val jdk: HttpClient = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()

class RestClientTest : ReadingRules() {
    init {
        jdk.version() // its thread is there before a test is
    }

    override fun client(policy: Policy, retryHeader: Boolean, idempotencyKey: Boolean): Client =
        Rest(TidegateRequestInterceptor(policy, retryHeader, idempotencyKey))

    override val keepsConnections get() = false

    override val resendsLost get() = true

    override val keepsReading get() = true

    override fun cut(policy: Policy): Throwable {
        Origin.script("default" to mapOf("body_bytes" to 200_000, "fault" to "truncate"))
        return failure { client(policy).use { it.open("/cut").first() } }
    }

    override fun trials(count: Int, make: (Engine) -> Policy): List<Duration> {
        val time = FakeTime()
        val start = time.markNow()
        val at = mutableListOf<Duration>()
        val factory = JdkClientHttpRequestFactory(jdk)
        val timed = ClientHttpRequestFactory { uri, method -> at += start.elapsedNow(); factory.createRequest(uri, method) }
        val client = RestClient.builder().requestFactory(timed).requestInterceptor(make(Engine(seed = 7, timeSource = time)).restInterceptor()).build()
        repeat(count) { assertEquals(200, client.get().uri(URI(Origin.url + "/x")).retrieve().toBodilessEntity().statusCode.value()) }
        return at
    }

    /** `RestClient` makes an error or an entity of an answer: the status alone is left to judge by. */
    @Test
    override fun `rule 9, a policy around a raw answer repeats what this one would have repeated`() {
        Origin.sequence(503, 200)
        val own = engine
        val around = policy("around", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds; jitter = BackoffJitter.NONE } } }
        val client = using(http())
        assertEquals(200, client.status(around.call { client.raw() }))
        assertEquals(2, attempts().size)
    }

    @Test
    fun `a body that is skipped is read, and its failure is the call's`() {
        Origin.script("default" to mapOf("body_bytes" to 200_000, "fault" to "truncate"))
        val client = RestClient.builder().requestFactory(JdkClientHttpRequestFactory(jdk)).requestInterceptor(http().restInterceptor()).build()
        val response = client.get().uri(URI(Origin.url + "/cut")).exchange({ _, response -> response }, false)!!
        assertTrue(failure { response.body.skip(300_000) } is IOException)
        response.close()
        assertEquals(0L, engine.snapshot().policies.getValue("p").ends["ok"] ?: 0L)
        Origin.script("default" to mapOf("body_bytes" to 200_000))
        val whole = client.get().uri(URI(Origin.url + "/x")).exchange({ _, answer -> answer }, false)!!
        assertEquals(200_000, whole.body.skip(300_000))
        assertEquals(0, engine.snapshot().live, "the end of the body ends the call")
        whole.close()
    }

    @Test
    fun `a body whose reader is interrupted is no failure (7_1_5)`() {
        val asleep = object : InputStream() {
            override fun read(): Int {
                Thread.currentThread().interrupt()
                throw InterruptedIOException("interrupted")
            }
        }
        val answer = object : ClientHttpResponse {
            override fun getStatusCode() = HttpStatus.OK

            override fun getStatusText() = "OK"

            override fun getHeaders() = HttpHeaders()

            override fun getBody() = asleep

            override fun close() = Unit
        }
        val policy = http { breaker { consecutive = 1; breakDuration = 60.seconds } }
        val client = RestClient.builder().requestInterceptor(policy.restInterceptor()).requestInterceptor { _, _, _ -> answer }.build()
        assertNotNull(failure { client.get().uri(URI("http://localhost/x")).exchange { _, response -> response.body.readAllBytes() } })
        assertTrue(Thread.interrupted())
        assertEquals("closed", engine.snapshot().routes.single().breaker?.state)
    }

    @Test
    fun `RestTemplate works, and an error of a connection has its report`() {
        Origin.sequence(503, 200, 500, mapOf("fault" to "reset"))
        val policy = http { retry { maxAttempts = 2 } }
        val template = RestTemplate(JdkClientHttpRequestFactory(jdk)).apply { interceptors.add(policy.restInterceptor()) }
        assertEquals("OK", template.getForObject(URI(Origin.url + "/x"), String::class.java)!!.trim())
        assertEquals(500, (failure { template.getForObject(URI(Origin.url + "/x"), String::class.java) } as HttpServerErrorException).statusCode.value())
        val lost = failure { template.getForObject(URI(Origin.url + "/x"), String::class.java) }
        assertTrue(lost is ResourceAccessException, "$lost")
        assertEquals("attempts" to 2, lost.report?.explain()?.reason to lost.report?.attempts)
        assertFalse(Thread.currentThread().isInterrupted)
    }
}

private class Rest(interceptor: TidegateRequestInterceptor) : Client {
    private val client = RestClient.builder().requestFactory(JdkClientHttpRequestFactory(jdk)).defaultHeader("Connection", "close").requestInterceptor(interceptor).build()

    override fun body(text: String): Any = text.toByteArray()

    private fun request(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?): RestClient.RequestBodySpec {
        val made = client.method(HttpMethod.valueOf(method)).uri(URI(Origin.url + path))
        for ((name, value) in headers) made.header(name, value)
        // Spring reads every body into memory, so only its user knows of one that must not be sent again.
        val said = options ?: if (body == Body.ONE_SHOT) RequestOptions(replayable = false) else null
        if (said != null) made.attribute(OPTIONS, said)
        return if (body == Body.NONE) made else made.body("hello".toByteArray())
    }

    /** What is inside Spring's own error for an [java.io.IOException]. */
    private fun <T> plain(work: () -> T): T = try {
        work()
    } catch (error: ResourceAccessException) {
        throw error.cause ?: error
    }

    override fun send(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?): Answer = plain {
        request(method, path, body, headers, options).exchange { request, response ->
            Answer(response.statusCode.value(), response.body.readAllBytes().decodeToString().trim(), request.report, response.headers.getFirst("x-should-retry"))
        }!!
    }

    override fun open(path: String): Pair<() -> String, () -> Unit> {
        val response: ClientHttpResponse = plain { request("GET", path, Body.NONE, emptyMap(), null).exchange({ _, response -> response }, false)!! }
        return Pair({ response.use { it.body.readAllBytes().decodeToString() } }, { response.close() })
    }

    override fun raw(): Any = plain { request("GET", "/x", Body.NONE, emptyMap(), null).retrieve().toBodilessEntity() }

    override fun status(raw: Any): Int = (raw as ResponseEntity<*>).statusCode.value()

    override fun start(path: String): Pair<() -> Unit, () -> Throwable?> {
        val ended = CompletableFuture<Throwable?>()
        val thread = thread { ended.complete(runCatching { send("GET", path, Body.NONE, emptyMap(), null) }.exceptionOrNull()) }
        return Pair({ thread.interrupt() }, { ended.get(60, TimeUnit.SECONDS) })
    }

    override fun close() = Unit
}
