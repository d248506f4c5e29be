package dev.tidegate.http

import dev.tidegate.BulkheadFull
import dev.tidegate.Configure
import dev.tidegate.DeadlineExceeded
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.Preset
import dev.tidegate.TcpServer
import dev.tidegate.ktor.Tidegate
import dev.tidegate.leftNothing
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.okhttp.tidegate
import dev.tidegate.policy
import dev.tidegate.spring.restInterceptor
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.request.prepareGet
import io.ktor.client.statement.bodyAsText
import kotlinx.coroutines.runBlocking
import okhttp3.Interceptor
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.ResponseBody
import org.springframework.http.client.JdkClientHttpRequestFactory
import org.springframework.web.client.RestClient
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import retrofit2.Retrofit
import retrofit2.http.GET
import java.net.Socket
import java.net.SocketTimeoutException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.measureTime

/** What a server keeps its client waiting with. */
enum class Drip(val text: String) {
    NOTHING(""),
    HEAD("HTTP/1.1 200 OK\r\nX-Long: ${"x".repeat(10_000)}\r\n\r\n"),
    BODY("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n${"x".repeat(100_000)}"),
    FAILED_BODY("HTTP/1.1 404 Not Found\r\nContent-Length: 100000\r\n\r\n${"x".repeat(100_000)}"),
}

/** A server that sends one byte every 5 ms: no read of its client's ever takes long. */
private fun dripping(drip: Drip) = TcpServer { drip(it, drip.text) }

private fun drip(client: Socket, text: String) {
    client.soTimeout = 5
    val output = client.getOutputStream()
    var next = 0
    while (true) {
        val closed = try {
            client.getInputStream().read(ByteArray(10_000)) < 0
        } catch (_: SocketTimeoutException) {
            false
        }
        if (closed) break
        if (next < text.length) output.write(text[next++].code)
    }
}

/** Answers that come too late, and servers that never come to an end: calls end by their deadlines, and nothing stays open. */
@Timeout(120)
class LateTest {
    init {
        jdk.version() // its thread is there before a test is
    }

    private val engine = Engine(seed = 7)

    private fun policy(configure: Configure<PolicyOptions>): Policy {
        val own = engine
        return policy("p", own) {
            with(configure) { configure() }
        }
    }

    @AfterEach
    fun nothingIsLeft() {
        until { engine.snapshot().let { it.live + it.lingering } == 0 }
        leftNothing(engine)
        val threads = arrayOfNulls<Thread>(Thread.activeCount() + 50).also { Thread.enumerate(it) }
        assertTrue(threads.filterNotNull().none { it.name.startsWith("tidegate") }, "no thread is ours")
    }

    private fun until(condition: () -> Boolean) {
        val end = System.nanoTime() + 30.seconds.inWholeNanoseconds
        while (!condition() && System.nanoTime() < end) Thread.sleep(1)
        assertTrue(condition())
    }

    private fun get(client: OkHttpClient, url: String): String =
        client.newCall(Request.Builder().url(url).build()).execute().use { it.body.string() }

    /** Ends of calls, and the longest of them. */
    private fun ends(times: Int, call: () -> Any?): Pair<Set<String>, Duration> {
        val pool = Executors.newFixedThreadPool(6)
        val ended = List(times) {
            pool.submit<Pair<String, Duration>> {
                var error: Throwable? = null
                val took = measureTime { error = runCatching { call() }.exceptionOrNull() }
                Pair(if (error is DeadlineExceeded) "DeadlineExceeded" else "$error", took)
            }
        }.map { it.get() }
        pool.shutdown()
        return Pair(ended.map { it.first }.toSet(), ended.maxOf { it.second })
    }

    private fun ended(drip: Drip, call: (url: String) -> Any?) {
        dripping(drip).use { server ->
            val (how, longest) = ends(60) { call(server.url) }
            assertEquals(setOf("DeadlineExceeded"), how, "K4: and nothing else")
            assertTrue(longest < 30.seconds, "$longest") // of a machine with nothing else to do: 1 s beyond the deadline
            until { server.connections == 0 }
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `OkHttp, whatever drips, the call ends by its deadline, with that error`(drip: Drip) {
        val client = OkHttpClient.Builder().addInterceptor(policy { preset = Preset.HTTP; deadline = 200.milliseconds }.okHttpInterceptor()).build()
        ended(drip) { url -> get(client, url) }
        assertEquals(0, client.connectionPool.connectionCount())
        assertEquals(0, client.dispatcher.runningCallsCount())
    }

    @ParameterizedTest
    @EnumSource
    fun `Ktor, whatever drips, the call ends by its deadline, with that error`(drip: Drip) {
        val of = policy { preset = Preset.HTTP; deadline = 200.milliseconds }
        HttpClient(CIO) {
            install(Tidegate) { policy = of }
            engine { requestTimeout = 0 }
        }.use { client ->
            ended(drip) { url ->
                try {
                    runBlocking { client.prepareGet(url).execute { it.bodyAsText() } }
                } catch (error: Exception) {
                    throw generateSequence<Throwable>(error) { it.cause }.firstOrNull { it is DeadlineExceeded } ?: error
                }
            }
        }
    }

    interface Api {
        @GET("/")
        suspend fun x(): ResponseBody
    }

    @ParameterizedTest
    @EnumSource(names = ["FAILED_BODY"], mode = EnumSource.Mode.EXCLUDE)
    fun `Retrofit, whatever drips, the call ends by its deadline, with that error`(drip: Drip) {
        val client = OkHttpClient.Builder().tidegate(policy { preset = Preset.HTTP; deadline = 200.milliseconds }).build()
        ended(drip) { url ->
            val api = Retrofit.Builder().baseUrl(url).client(client).build().create(Api::class.java)
            runBlocking { api.x() }.use { it.string() }
        }
        client.dispatcher.executorService.shutdown()
        assertTrue(client.dispatcher.executorService.awaitTermination(30, TimeUnit.SECONDS))
    }

    @Test
    fun `RestClient, a failed response that drips is closed, and the next attempt starts`() {
        var first = true
        TcpServer { client ->
            if (first) {
                first = false
                drip(client, "HTTP/1.1 503 x\r\nContent-Length: 60000\r\n\r\n${"x".repeat(60_000)}")
            } else {
                client.getInputStream().read(ByteArray(10_000))
                client.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".encodeToByteArray())
            }
        }.use { server ->
            val of = policy { preset = Preset.HTTP; retry { backoff { base = 1.milliseconds } } }
            val client = RestClient.builder().requestFactory(JdkClientHttpRequestFactory(jdk)).requestInterceptor(of.restInterceptor()).build()
            val took = measureTime { assertEquals("ok", client.get().uri(server.url).retrieve().body(String::class.java)) }
            assertTrue(took < 20.seconds, "$took") // and not the five minutes that the body takes
        }
    }

    @Test
    fun `RestClient, what its user does not read of a body is not waited for beyond the deadline`() {
        dripping(Drip.BODY).use { server ->
            val of = policy { preset = Preset.HTTP; deadline = 1.seconds }
            val client = RestClient.builder().requestFactory(JdkClientHttpRequestFactory(jdk)).requestInterceptor(of.restInterceptor()).build()
            val took = measureTime { assertEquals(200, client.get().uri(server.url).retrieve().toBodilessEntity().statusCode.value()) }
            assertTrue(took < 20.seconds, "$took") // and not the eight minutes that the body takes
        }
    }

    /** Which end the call comes to before its answer is there. */
    enum class End { DEADLINE, ATTEMPT_TIMEOUT, CANCEL }

    @ParameterizedTest
    @EnumSource
    fun `an answer that comes after its call has ended is closed, and its connection is free`(end: End) {
        Origin.sequence(200)
        val ready = CountDownLatch(1)
        val goOn = CountDownLatch(1)
        // What stands behind the policy has the answer already, and keeps it.
        val slow = Interceptor { chain ->
            val answer = chain.proceed(chain.request())
            ready.countDown()
            goOn.await()
            answer
        }
        val of = policy {
            retry { maxAttempts = 1 }
            if (end == End.DEADLINE) deadline = 100.milliseconds
            if (end == End.ATTEMPT_TIMEOUT) attemptTimeout = 100.milliseconds
        }
        val client = OkHttpClient.Builder().addInterceptor(of.okHttpInterceptor()).addInterceptor(slow).build()
        val call = client.newCall(Request.Builder().url(Origin.url + "/x").build())
        val got = Executors.newSingleThreadExecutor().let { pool -> pool.submit<Any?> { runCatching { call.execute().use { it.body.string() } } }.also { pool.shutdown() } }
        assertTrue(ready.await(30, TimeUnit.SECONDS))
        if (end == End.CANCEL) call.cancel() else Thread.sleep(150)
        goOn.countDown()
        got.get(30, TimeUnit.SECONDS)
        until { client.connectionPool.connectionCount() == client.connectionPool.idleConnectionCount() }
        assertEquals(0, client.dispatcher.runningCallsCount())
        client.connectionPool.evictAll()
    }

    @Test
    fun `the limit counts a request that is being stopped, until it has ended (R12)`() {
        Origin.sequence(200)
        val goOn = CountDownLatch(1)
        val began = CountDownLatch(1)
        val deaf = Interceptor { chain ->
            began.countDown()
            goOn.await()
            chain.proceed(chain.request())
        }
        val of = policy { deadline = 50.milliseconds; bulkhead { maxConcurrency = 1 } }
        val client = OkHttpClient.Builder().addInterceptor(of.okHttpInterceptor()).addInterceptor(deaf).build()
        val first = thread { runCatching { get(client, Origin.url + "/x") } }
        assertTrue(began.await(30, TimeUnit.SECONDS))
        Thread.sleep(100)
        val error = runCatching { get(client, Origin.url + "/x") }.exceptionOrNull()
        assertTrue(error is BulkheadFull, "$error")
        goOn.countDown()
        first.join()
        assertEquals("next", of.call { "next" })
        client.connectionPool.evictAll()
    }
}
