package dev.tidegate.http

import dev.tidegate.BackoffJitter
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.RequestOptions
import dev.tidegate.ktor.Tidegate
import dev.tidegate.ktor.report
import dev.tidegate.ktor.tidegate
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.engine.cio.endpoint
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respond
import io.ktor.client.plugins.HttpRequestTimeoutException
import io.ktor.client.plugins.HttpTimeout
import io.ktor.client.plugins.api.SendingRequest
import io.ktor.client.plugins.api.createClientPlugin
import io.ktor.client.request.HttpRequestBuilder
import io.ktor.client.request.get
import io.ktor.client.request.header
import io.ktor.client.request.prepareGet
import io.ktor.client.request.request
import io.ktor.client.request.setBody
import io.ktor.client.statement.HttpResponse
import io.ktor.client.statement.bodyAsText
import io.ktor.http.HttpMethod
import io.ktor.http.HttpStatusCode
import io.ktor.http.headersOf
import io.ktor.http.takeFrom
import io.ktor.utils.io.ByteChannel
import io.ktor.utils.io.ByteReadChannel
import io.ktor.utils.io.close
import io.ktor.utils.io.writeStringUtf8
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
import kotlinx.coroutines.delay
import kotlinx.coroutines.isActive
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

@OptIn(ExperimentalCoroutinesApi::class)
class KtorTest : ReadingRules() {
    override fun client(policy: Policy, retryHeader: Boolean, idempotencyKey: Boolean): Client = Ktor(policy, retryHeader, idempotencyKey)

    // CIO hands a body that was cut on as if it were whole: an engine that does not.
    override fun cut(policy: Policy): Throwable {
        val of = policy
        val engine = MockEngine {
            val body = ByteChannel()
            body.writeStringUtf8("half")
            body.flush()
            respond(body, headers = headersOf("Content-Length", "8")).also { body.close(IOException("cut")) }
        }
        val client = HttpClient(engine) { install(Tidegate) { this.policy = of } }
        // Its caller swallows the error, so that Ktor ends the request well.
        return client.use {
            runBlocking { it.prepareGet(Origin.url + "/cut").execute { response -> runCatching { response.bodyAsText() }.exceptionOrNull()!! } }
        }
    }

    @Test
    fun `a connection that has changed its protocol is its user's, without slot and deadline`() {
        val mock = MockEngine { respond(ByteChannel(), HttpStatusCode.SwitchingProtocols, headersOf("Upgrade", "websocket")) }
        val of = http { deadline = 1.seconds; bulkhead { maxConcurrency = 1 } }
        val client = HttpClient(mock) { install(Tidegate) { policy = of } }
        runBlocking {
            client.prepareGet("http://localhost/socket").execute { response ->
                assertEquals(101, response.status.value)
                assertEquals(0, engine.snapshot().live)
                delay(1_100)
                assertTrue(response.coroutineContext.isActive, "the deadline was that of the request")
                response.cancel()
            }
        }
        client.close()
    }

    @Test
    fun `Ktor's own timeout of a request is that of an attempt, where it is installed after`() {
        Origin.sequence(mapOf("fault" to "hang"), 200)
        val of = http()
        val client = HttpClient(CIO) {
            install(Tidegate) { policy = of }
            install(HttpTimeout) { requestTimeoutMillis = 1_000 }
        }
        assertEquals(200, client.use { runBlocking { it.get(Origin.url + "/x").status.value } })
        assertEquals(2, attempts().size)
    }

    @Test
    fun `Ktor's own timeout of a request ends the call at once, where it is installed before, also while it waits`() {
        for (answer in listOf(mapOf("fault" to "hang"), mapOf("status" to 503))) {
            Origin.sequence(answer, 200)
            val of = http { retry { backoff { base = 20.seconds; jitter = BackoffJitter.NONE } } }
            val client = HttpClient(CIO) {
                install(HttpTimeout) { requestTimeoutMillis = 500 }
                install(Tidegate) { policy = of }
            }
            val error = client.use { runBlocking { withTimeout(15_000) { runCatching { it.get(Origin.url + "/x") }.exceptionOrNull() } } }
            assertTrue(error is HttpRequestTimeoutException, "$error")
            assertEquals(1, attempts().size)
        }
        assertEquals(2L, engine.snapshot().policies.getValue("p").ends["cancelled"])
    }

    @Test
    fun `Ktor's own timeout of a request ends the reading of its body, wherever it is installed`() {
        Origin.script("default" to mapOf("fault" to "slow_body", "body_bytes" to 100_000))
        val of = http()
        for (isBefore in listOf(true, false)) {
            val client = HttpClient(CIO) {
                if (isBefore) install(HttpTimeout) { requestTimeoutMillis = 1_000 }
                install(Tidegate) { policy = of }
                if (!isBefore) install(HttpTimeout) { requestTimeoutMillis = 1_000 }
            }
            val error = client.use { runBlocking { runCatching { it.prepareGet(Origin.url + "/slow").execute { it.bodyAsText() } }.exceptionOrNull() } }
            assertTrue(error is HttpRequestTimeoutException, "$isBefore: $error")
        }
    }

    override fun trials(count: Int, make: (Engine) -> Policy): List<Duration> {
        val at = mutableListOf<Duration>()
        runTest(timeout = 60.seconds) {
            val of = make(Engine(seed = 7, timeSource = testTimeSource))
            val client = HttpClient(CIO) {
                install(Tidegate) { policy = of }
                install(createClientPlugin("At") { on(SendingRequest) { _, _ -> at += currentTime.milliseconds } })
            }
            repeat(count) { assertEquals(200, client.get(Origin.url + "/x").status.value) }
            client.close()
        }
        return at
    }

    // CIO opens a connection for each request, unless it pipelines them.
    override val keepsConnections get() = false

    override val keepsReading get() = true
}

@OptIn(DelicateCoroutinesApi::class)
private class Ktor(of: Policy, header: Boolean, key: Boolean) : Client {
    private val client = HttpClient(CIO) {
        install(Tidegate) {
            policy = of
            retryHeader = header
            idempotencyKey = key
        }
        engine {
            requestTimeout = 0 // the policy's
            endpoint { maxConnectionsPerRoute = 100 }
        }
    }

    private fun HttpRequestBuilder.say(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?) {
        this.method = HttpMethod(method)
        this.url.takeFrom(Origin.url + path)
        when (body) {
            Body.NONE -> Unit
            Body.BYTES -> setBody("hello")
            Body.ONE_SHOT -> setBody(ByteReadChannel("hello"))
        }
        for ((name, value) in headers) header(name, value)
        if (options != null) tidegate { options }
    }

    override fun send(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?): Answer =
        runBlocking(current()) {
            val response = client.request { say(method, path, body, headers, options) }
            Answer(response.status.value, response.bodyAsText().trim(), response.report, response.headers["x-should-retry"])
        }

    override fun raw(): Any = runBlocking(current()) { client.request(Origin.url + "/x") }

    override fun status(raw: Any): Int = (raw as HttpResponse).status.value

    /** What is around a blocking call is around this one too. */
    private fun current() = dev.tidegate.Scope.current() ?: kotlin.coroutines.EmptyCoroutineContext

    override fun open(path: String): Pair<() -> String, () -> Unit> {
        val opened = CompletableDeferred<Unit>()
        val read = CompletableDeferred<Boolean>()
        val text = GlobalScope.async(Dispatchers.IO + current()) {
            client.prepareGet(Origin.url + path).execute { response ->
                opened.complete(Unit)
                if (read.await()) response.bodyAsText() else ""
            }
        }
        text.invokeOnCompletion { cause -> if (cause == null) opened.complete(Unit) else opened.completeExceptionally(cause) }
        runBlocking { opened.await() }
        return Pair({ read.complete(true); runBlocking { text.await() } }, { read.complete(false); runBlocking { text.await() } })
    }

    override fun body(text: String): Any = ByteReadChannel(text)

    override fun start(path: String): Pair<() -> Unit, () -> Throwable?> {
        val job = GlobalScope.async(Dispatchers.IO) { client.request(Origin.url + path).bodyAsText() }
        return Pair({ job.cancel() }, { runBlocking { withTimeout(60_000) { runCatching { job.await() }.exceptionOrNull() } } })
    }

    override fun close() = client.close()
}
