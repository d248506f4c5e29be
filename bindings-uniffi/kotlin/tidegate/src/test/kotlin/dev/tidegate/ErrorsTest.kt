package dev.tidegate

import io.ktor.client.HttpClient
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respond
import io.ktor.client.network.sockets.ConnectTimeoutException
import io.ktor.client.plugins.HttpTimeout
import io.ktor.client.plugins.timeout
import io.ktor.client.request.get
import io.ktor.http.HttpStatusCode
import io.ktor.http.headersOf
import kotlinx.coroutines.delay
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Protocol
import okhttp3.Request
import okhttp3.ResponseBody.Companion.toResponseBody
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import org.springframework.http.HttpHeaders
import org.springframework.web.client.HttpClientErrorException
import org.springframework.web.client.HttpServerErrorException
import org.springframework.web.client.ResourceAccessException
import org.springframework.web.reactive.function.client.WebClientResponseException
import retrofit2.HttpException
import java.io.FileInputStream
import java.io.IOException
import java.io.UncheckedIOException
import java.net.ConnectException
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.net.SocketTimeoutException
import java.net.URI
import java.net.http.HttpRequest
import java.net.http.HttpResponse
import java.sql.SQLException
import java.sql.SQLTransientConnectionException
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionException
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import javax.net.ssl.SSLHandshakeException
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** What errors of plain functions mean (semantics 1.5, 1.6): each raised by its library, or made as its library makes it. */
class ErrorsTest {
    private val engine = Engine(seed = 7)

    private class Mine : Exception("mine")

    private class Reset(cause: Throwable) : RuntimeException(cause)

    private fun raised(work: () -> Any?): Throwable = try {
        throw AssertionError("no error, but ${work()}")
    } catch (error: AssertionError) {
        throw error
    } catch (error: Throwable) {
        error
    }

    private fun nobody(): Int = ServerSocket(0).use { it.localPort }

    private fun retrofit(status: Int, vararg headers: String): Throwable {
        val raw = okhttp3.Response.Builder().code(status).message("no").protocol(Protocol.HTTP_1_1)
            .request(Request.Builder().url("http://localhost/").build())
        for ((name, value) in headers.toList().chunked(2).map { it[0] to it[1] }) raw.header(name, value)
        return HttpException(retrofit2.Response.error<Any>("".toResponseBody("text/plain".toMediaType()), raw.build()))
    }

    private fun ktor(status: Int, vararg headers: Pair<String, String>): Throwable {
        val client = HttpClient(MockEngine { respond("no", HttpStatusCode.fromValue(status), headersOf(*headers.map { it.first to listOf(it.second) }.toTypedArray())) }) {
            expectSuccess = true
        }
        return raised { runBlocking { client.use { it.get("http://localhost/") } } }
    }

    private fun silent(work: (Int) -> Any?): Throwable = ServerSocket(0, 1, InetAddress.getLoopbackAddress()).use { raised { work(it.localPort) } }

    private fun spring(status: Int, headers: HttpHeaders = HttpHeaders()): Throwable =
        if (status >= 500) HttpServerErrorException.create(org.springframework.http.HttpStatusCode.valueOf(status), "no", headers, ByteArray(0), null)
        else HttpClientErrorException.create(org.springframework.http.HttpStatusCode.valueOf(status), "no", headers, ByteArray(0), null)

    private fun flux(status: Int) = WebClientResponseException.create(status, "no", HttpHeaders(), ByteArray(0), null)

    private fun errors(): List<Triple<String, String, () -> Throwable>> = listOf(
        Triple("a refused connection", "never_sent") { raised { Socket(InetAddress.getLoopbackAddress(), nobody()) } },
        Triple("a name that is none", "never_sent") { raised { InetAddress.getByName("no.such.host.invalid") } },
        Triple("a socket's read timeout", "timeout") { silent { port -> Socket(InetAddress.getLoopbackAddress(), port).use { it.soTimeout = 20; it.getInputStream().read() } } },
        Triple("OkHttp: connect timed out", "never_sent") { SocketTimeoutException("Connect timed out") },
        Triple("OkHttp: refused", "never_sent") { raised { OkHttpClient().newCall(Request.Builder().url("http://127.0.0.1:${nobody()}/").build()).execute() } },
        Triple("OkHttp: read timeout", "timeout") {
            silent { port -> OkHttpClient.Builder().readTimeout(30, TimeUnit.MILLISECONDS).build().newCall(Request.Builder().url("http://127.0.0.1:$port/").build()).execute() }
        },
        Triple("OkHttp: call timeout", "timeout") {
            silent { port -> OkHttpClient.Builder().callTimeout(30, TimeUnit.MILLISECONDS).build().newCall(Request.Builder().url("http://127.0.0.1:$port/").build()).execute() }
        },
        Triple("java.net.http: refused", "never_sent") {
            raised { java.net.http.HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI("http://127.0.0.1:${nobody()}/")).build(), HttpResponse.BodyHandlers.ofString()) }
        },
        Triple("java.net.http: timeout", "timeout") {
            silent { port ->
                val request = HttpRequest.newBuilder(URI("http://127.0.0.1:$port/")).timeout(Duration.ofMillis(30)).build()
                java.net.http.HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString())
            }
        },
        Triple("a certificate", "permanent") { SSLHandshakeException("bad certificate") },
        Triple("a certificate within an IOException", "permanent") { IOException("lost", SSLHandshakeException("bad certificate")) },
        Triple("a connection that is lost", "transient") { IOException("unexpected end of stream") },
        Triple("a file that is not there", "permanent") { raised { FileInputStream("/no/such/file") } },
        Triple("UncheckedIOException", "transient") { UncheckedIOException(IOException("reset")) },
        Triple("ExecutionException of a refused connection", "never_sent") {
            val pool = Executors.newSingleThreadExecutor()
            try { raised { pool.submit<Any> { throw ConnectException("refused") }.get() } } finally { pool.shutdown() }
        },
        Triple("CompletionException", "transient") { raised { CompletableFuture.supplyAsync { throw UncheckedIOException(IOException("reset")) }.join() } },
        Triple("a future's TimeoutException", "timeout") { raised { CompletableFuture<Any>().get(1, TimeUnit.MILLISECONDS) } },
        Triple("withTimeout", "timeout") { raised { runBlocking { withTimeout(1.milliseconds) { delay(10.seconds) } } } },
        Triple("an error of one's own around a cause", "transient") { Reset(IOException("reset")) },
        Triple("Retrofit 503", "transient") { retrofit(503) },
        Triple("Retrofit 429", "throttled") { retrofit(429) },
        Triple("Retrofit 404", "permanent") { retrofit(404) },
        Triple("Ktor 503", "transient") { ktor(503) },
        Triple("Ktor 429", "throttled") { ktor(429) },
        Triple("Ktor 400", "permanent") { ktor(400) },
        Triple("Ktor: request timeout", "timeout") {
            val client = HttpClient(MockEngine { delay(10.seconds); respond("") }) { install(HttpTimeout) }
            raised { runBlocking { client.use { it.get("http://localhost/") { timeout { requestTimeoutMillis = 20 } } } } }
        },
        Triple("Ktor: connect timeout", "never_sent") { ConnectTimeoutException("no answer") },
        Triple("Spring RestClient 502", "transient") { spring(502) },
        Triple("Spring RestClient 429", "throttled") { spring(429) },
        Triple("Spring RestClient 422", "permanent") { spring(422) },
        Triple("Spring WebClient 503", "transient") { flux(503) },
        Triple("Spring WebClient 403", "permanent") { flux(403) },
        Triple("Spring: a resource that is not reached", "never_sent") { ResourceAccessException("I/O error", ConnectException("refused")) },
        Triple("Spring: a resource that is lost", "transient") { ResourceAccessException("I/O error") },
        Triple("JDBC: no connection", "never_sent") { SQLTransientConnectionException("no", "08001") },
        Triple("JDBC: a pool's timeout", "never_sent") { SQLTransientConnectionException("HikariPool-1 - Connection is not available") },
        Triple("JDBC: a deadlock", "conflict") { SQLException("deadlock", "40001") },
        Triple("JDBC: a connection that is lost", "transient") { SQLException("gone", "08006") },
        Triple("JDBC: a wrong statement", "permanent") { SQLException("syntax", "42601") },
        Triple("JDBC: a wrong password where a connection is wanted", "permanent") { SQLTransientConnectionException("no", "28000") },
        Triple("a mistake", "permanent") { IllegalStateException("a mistake") },
        Triple("an error of one's own", "permanent") { Mine() },
    )

    @TestFactory
    fun `each error has its class`(): List<DynamicTest> = errors().map { (name, expected, make) ->
        dynamicTest("$name is $expected") {
            val policy = policy(engine = engine) { retry { } }
            val error = make()
            val kind = dev.tidegate.internal.Wire.kind(Outcomes.of(error, policy.core))
            assertEquals(expected, Outcome.classes[kind], "$error, caused by ${error.cause}")
        }
    }

    @Test
    fun `a plain function around a client is repeated, and waits as it was asked to`() {
        val policy = policy(engine = engine) { retry { maxAttempts = 3; backoff { base = 1.milliseconds }; budget { kind = BudgetKind.NONE } } }
        val makers = listOf({ retrofit(503, "Retry-After", "0") }, { ktor(503, "Retry-After" to "0") }, { spring(503) }, { flux(503) })
        for (make in makers) {
            var made = 0
            assertEquals("ok", policy.call { if (++made < 3) throw make() else "ok" })
            assertEquals(3, made)
        }
        val long = HttpHeaders().apply { set("Retry-After", "120") }
        for (error in listOf(retrofit(503, "Retry-After", "120"), ktor(503, "Retry-After" to "120"), spring(503, long))) {
            val thrown = raised { policy.call { throw error } }
            assertEquals(Verdict.RETRY_AFTER_TOO_LONG, thrown.report?.reason, "$error")
        }
    }

    @Test
    fun `an error of which nothing is known says so, and how to repeat it`() {
        val plain = policy(engine = engine) { retry { } }
        val note = "not retried: Mine is not listed as an error that may pass; to repeat it: retryOn<Mine>(), or classify"
        assertEquals(note, raised { plain.call { throw Mine() } }.report?.note)
        val never = policy(engine = engine) { deadline = 9.seconds }
        assertNull(raised { never.call { throw Mine() } }.report?.note, "it makes no retries")
        assertNull(raised { plain.call { throw spring(404) } }.report?.note, "a status has decided")
        val judged = policy(engine = engine) { retry { }; classify { _, _ -> Outcome(Outcome.PERMANENT) } }
        assertNull(raised { judged.call { throw Mine() } }.report?.note, "classify has decided")
    }

    @Test
    fun `an error that the policy names is repeated, and classify goes before`() {
        val quick = Configure<Retry> { maxAttempts = 2; backoff { base = 1.milliseconds } }
        var made = 0
        val named = policy(engine = engine) { retry(quick); retryOn<Mine>() }
        assertEquals(2, named.call { if (++made < 2) throw Mine() else made })
        made = 0
        val judged = policy(engine = engine) { retry(quick); retryOn<Mine>(); classify { _, error -> error?.let { Outcome(Outcome.PERMANENT) } } }
        raised { judged.call { made += 1; throw Mine() } }
        assertEquals(1, made)
    }

    @Test
    fun `a policy around a policy removes no repeat, whatever the inner one knows of its failure`() {
        val inner = policy("inner", engine) {
            retry { maxAttempts = 3; backoff { base = 1.milliseconds }; budget { kind = BudgetKind.NONE } }
            classify { result, error -> if (error is Mine || result == "busy") Outcome(Outcome.CONFLICT) else null }
        }
        val outer = policy("outer", engine) { retry { maxAttempts = 3; backoff { base = 1.milliseconds }; budget { kind = BudgetKind.NONE } } }
        var made = 0
        assertEquals("ok", outer.call { inner.call { if (++made < 3) throw Mine() else "ok" } })
        made = 0
        val busy = String("busy".toCharArray()) // an object of its own, as answers are
        assertEquals("ok", outer.call { inner.call { if (++made < 3) busy else "ok" } })
        made = 0
        val thrown = raised { outer.call { inner.call { made += 1; throw IllegalStateException("a mistake") } } }
        assertEquals(1 to Verdict.NOT_RETRYABLE, made to thrown.report?.reason)
    }

    @Test
    fun `a future's attempts are repeated, and its cancelling stops the call`() {
        val policy = policy(engine = engine) { retry { maxAttempts = 3; backoff { base = 1.milliseconds } } }
        var made = 0
        val answer = policy.callAsync<String> { if (++made < 3) CompletableFuture.failedFuture(IOException("reset")) else CompletableFuture.supplyAsync { "ok" } }
        assertEquals("ok" to 3, answer.get(60, TimeUnit.SECONDS) to made)
        val failed = policy.callAsync<Any> { CompletableFuture.failedFuture(CompletionException(Mine())) }
        assertTrue(raised { failed.get(60, TimeUnit.SECONDS) }.cause is Mine)
        val never = CompletableFuture<Any>()
        val call = policy.callAsync<Any> { never }
        call.cancel(true)
        assertTrue(raised { never.get(60, TimeUnit.SECONDS) } is java.util.concurrent.CancellationException)
        val until = System.nanoTime() + 60_000_000_000
        while (engine.snapshot().live != 0 && System.nanoTime() < until) Thread.sleep(1)
        leftNothing(engine)
    }
}
