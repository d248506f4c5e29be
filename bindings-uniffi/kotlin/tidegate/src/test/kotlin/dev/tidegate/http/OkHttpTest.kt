package dev.tidegate.http

import dev.tidegate.BackoffJitter
import dev.tidegate.BreakerOpen
import dev.tidegate.BudgetKind
import dev.tidegate.DeadlineExceeded
import dev.tidegate.Engine
import dev.tidegate.Outcome
import dev.tidegate.Policy
import dev.tidegate.Preset
import dev.tidegate.RequestOptions
import dev.tidegate.TcpServer
import dev.tidegate.okhttp.TidegateInterceptor
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.okhttp.report
import dev.tidegate.okhttp.tidegate
import dev.tidegate.leftNothing
import dev.tidegate.policy
import dev.tidegate.testing.FakeTime
import dev.tidegate.withBounds
import kotlinx.coroutines.runBlocking
import okhttp3.CacheControl
import okhttp3.Call
import okhttp3.ConnectionPool
import okhttp3.EventListener
import okhttp3.MediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.ResponseBody
import okio.Buffer
import okio.BufferedSink
import okio.GzipSink
import okio.buffer
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import retrofit2.HttpException
import retrofit2.Retrofit
import retrofit2.http.GET
import retrofit2.http.POST
import java.io.File
import java.io.IOException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.measureTime

class OkHttpTest : ReadingRules() {
    override fun client(policy: Policy, retryHeader: Boolean, idempotencyKey: Boolean): Client =
        OkHttp(TidegateInterceptor(policy, retryHeader, idempotencyKey))

    override fun cut(policy: Policy): Throwable {
        Origin.script("default" to mapOf("body_bytes" to 200_000, "fault" to "truncate"))
        return failure { client(policy).use { it.open("/cut").first() } }
    }

    override fun trials(count: Int, make: (Engine) -> Policy): List<Duration> {
        val time = FakeTime()
        val start = time.markNow()
        val at = mutableListOf<Duration>()
        val client = OkHttpClient.Builder().addInterceptor(make(Engine(seed = 7, timeSource = time)).okHttpInterceptor())
            .addInterceptor { chain -> at += start.elapsedNow(); chain.proceed(chain.request()) }
            .build()
        repeat(count) { client.newCall(Request.Builder().url(Origin.url + "/x").build()).execute().use { assertEquals(200, it.code) } }
        client.connectionPool.evictAll()
        return at
    }

    @Test
    fun `a body whose reader cancels the call, or is interrupted, is no failure (7_1_5)`() {
        Origin.script("default" to mapOf("fault" to "slow_body", "body_bytes" to 100_000))
        val client = OkHttpClient.Builder().tidegate(http { breaker { consecutive = 1; breakDuration = 60.seconds } }).build()
        for (stop in listOf<(Call, Thread) -> Unit>({ call, _ -> call.cancel() }, { _, reader -> reader.interrupt() })) {
            val call = client.newCall(Request.Builder().url(Origin.url + "/x").build())
            val ended = CompletableFuture<Throwable?>()
            val begun = CountDownLatch(1)
            val reader = thread {
                val read = runCatching { call.execute().use { it.body.source().apply { readByte(); begun.countDown() }.readByteArray() } }
                ended.complete(read.exceptionOrNull())
            }
            begun.await()
            stop(call, reader)
            assertTrue(ended.get(60, TimeUnit.SECONDS) is IOException)
            assertEquals("closed", engine.snapshot().routes.single().breaker?.state)
        }
        client.dispatcher.executorService.shutdown()
    }

    @Test
    fun `what only the cache may answer, and the cache has not, is no failure of the server (1_4_11)`() {
        val told = mutableListOf<String>()
        val client = OkHttpClient.Builder().tidegate(http { breaker { consecutive = 1; breakDuration = 60.seconds }; onRetry { told += it.reason } }).build()
        val request = Request.Builder().url(Origin.url + "/x")
        for (round in 1..2) {
            val offline = client.newCall(request.cacheControl(CacheControl.FORCE_CACHE).build()).execute()
            assertEquals(504 to 1, offline.use { it.code to it.report?.attempts })
        }
        Origin.sequence(504, 200)
        assertEquals(200, client.newCall(request.cacheControl(CacheControl.FORCE_NETWORK).build()).execute().use { it.code }, "a server's own 504")
        assertEquals(listOf("transient"), told)
        client.connectionPool.evictAll()
    }

    @Test
    fun `whoever is late hears of the deadline, wherever it strikes`() {
        val own = Engine(seed = 7)
        val client = OkHttpClient()
        val others = mutableListOf<Throwable>()
        var late = 0
        repeat(60) { round ->
            // Heads and bodies that come around the deadline; every third is failed, and repeated.
            Origin.script("default" to mapOf("status" to (if (round % 3 == 0) 503 else 200), "fault" to "slow_body", "body_bytes" to 20, "chunk_every" to 2 + round % 4, "chunk_bytes" to 1))
            val policy = policy(engine = own) { deadline = (20 + round).milliseconds; retry { backoff { base = 1.milliseconds } } }
            val guarded = client.newBuilder().tidegate(policy).build()
            try {
                guarded.newCall(Request.Builder().url(Origin.url + "/x").build()).execute().use { it.body.string() }
            } catch (error: Throwable) {
                if (error is DeadlineExceeded) late += 1 else others += error
            }
        }
        assertEquals(emptyList<Throwable>(), others)
        assertTrue(late > 0, "no deadline has struck")
        client.connectionPool.evictAll()
    }

    @Test
    fun `an interceptor around another one repeats what that one would have repeated (1_6_1, 1_6_3)`() {
        Origin.sequence(500, 200)
        val inner = http("inner") { retry { statuses = listOf(500) } }
        val client = OkHttpClient.Builder().addInterceptor(http("outer").okHttpInterceptor()).addInterceptor(inner.okHttpInterceptor()).build()
        client.newCall(Request.Builder().url(Origin.url + "/x").build()).execute().use { assertEquals(200 to 2, it.code to attempts().size) }
        client.connectionPool.evictAll()
    }

    @Test
    fun `a body is judged as OkHttp has decoded it (15_8_5)`() {
        val packed = Buffer().also { to -> GzipSink(to).buffer().use { it.writeUtf8(SPENT) } }.readByteArray()
        val head = "HTTP/1.1 429 x\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.size}\r\nConnection: close\r\n\r\n"
        TcpServer { client ->
            client.getInputStream().read(ByteArray(10_000))
            client.getOutputStream().write(head.encodeToByteArray() + packed)
        }.use { server ->
            val client = OkHttpClient.Builder().tidegate(reading()).build()
            client.newCall(Request.Builder().url(server.url).build()).execute().use {
                assertEquals(SPENT to 1, it.body.string() to it.report?.attempts)
            }
            client.connectionPool.evictAll()
        }
    }

    @Test
    fun `a body that breaks off goes by what came, and its reader gets the error (15_8_3)`() {
        val whole = SPENT + " ".repeat(100)
        val head = "HTTP/1.1 429 x\r\nContent-Length: ${whole.length}\r\nConnection: close\r\n\r\n"
        TcpServer { client ->
            client.getInputStream().read(ByteArray(10_000))
            client.getOutputStream().write((head + SPENT).encodeToByteArray())
        }.use { server ->
            val client = OkHttpClient.Builder().tidegate(reading()).build()
            client.newCall(Request.Builder().url(server.url).build()).execute().use {
                assertEquals(1, it.report?.attempts)
                assertEquals(SPENT, it.body.source().readUtf8(SPENT.length.toLong()))
                assertTrue(failure { it.body.source().readByte() } is IOException)
            }
            client.connectionPool.evictAll()
        }
    }

    /** What Retrofit makes of an interface goes through unchanged. */
    interface Api {
        @GET("/x")
        suspend fun x(): ResponseBody

        @GET("/x")
        suspend fun raw(): retrofit2.Response<ResponseBody>

        @POST("/x")
        suspend fun write(): ResponseBody
    }

    @Test
    fun `a policy around Retrofit's raw answers repeats what the inner one would have repeated`() {
        Origin.sequence(503, 200)
        val own = Engine(seed = 7)
        val inner = policy("inner", own) { preset = Preset.HTTP }
        val outer = policy("outer", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds } } }
        val client = OkHttpClient.Builder().tidegate(inner).build()
        val api = Retrofit.Builder().baseUrl(Origin.url).client(client).build().create(Api::class.java)
        assertEquals(200, runBlocking { outer.run { api.raw() } }.code())
        assertEquals(2, Origin.log().size)
        client.connectionPool.evictAll()
        leftNothing(own)
    }

    @Test
    fun `a policy around Retrofit does not repeat a write that the inner one must not repeat (1_6_7)`() {
        Origin.script("default" to mapOf("status" to 503))
        val inner = policy("inner", engine) { preset = Preset.HTTP; retry { budget { kind = BudgetKind.NONE } } }
        val client = OkHttpClient.Builder().tidegate(inner).build()
        val api = Retrofit.Builder().baseUrl(Origin.url).client(client).build().create(Api::class.java)
        for ((own, gets) in listOf(engine to 2, Engine(seed = 8) to 6)) { // between engines repeats multiply
            val outer = policy("outer", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds }; budget { kind = BudgetKind.NONE } } }
            val before = Origin.log().size
            val error = runBlocking { runCatching { outer.run { api.write() } }.exceptionOrNull() }
            assertEquals(503, (error as? HttpException)?.code(), "$error")
            assertEquals(1, Origin.log().size - before, "the POST")
            assertTrue(runBlocking { runCatching { outer.run { api.x() } } }.isFailure)
            assertEquals(gets, Origin.log().size - before - 1, "the GET")
        }
        client.connectionPool.evictAll()
    }

    @Test
    fun `a call timeout of OkHttp's own is a timeout for the breaker, and no cancelling by its caller`() {
        Origin.sequence(mapOf("fault" to "hang"))
        val own = Engine(seed = 7)
        val policy = policy("slow", own) { retry { maxAttempts = 1 }; breaker { consecutive = 1; breakDuration = 60.seconds } }
        val client = OkHttpClient.Builder().tidegate(policy).callTimeout(300, TimeUnit.MILLISECONDS).build()
        val request = Request.Builder().url(Origin.url + "/x").build()
        val error = failure { client.newCall(request).execute() }
        assertEquals("java.io.InterruptedIOException: timeout", "$error")
        assertTrue(failure { client.newCall(request).execute() } is BreakerOpen)
        client.connectionPool.evictAll()
        leftNothing(own)
    }

    @Test
    fun `OkHttp's own repeats are off`() {
        Origin.sequence(408, 200)
        val own = Engine(seed = 7)
        val policy = policy("once", own) { retry { maxAttempts = 1 } }
        val client = OkHttpClient.Builder().addInterceptor(policy.okHttpInterceptor()).build()
        client.newCall(Request.Builder().url(Origin.url + "/x").build()).execute().use { assertEquals(408, it.code) }
        assertEquals(1, Origin.log().size)
        client.connectionPool.evictAll()
    }

    @Test
    fun `what is around Retrofit's suspending methods is around their requests, which other threads carry out`() {
        Origin.sequence(503, 503, 200, mapOf("fault" to "hang"))
        val own = Engine(seed = 7)
        val inner = policy("inner", own) { preset = Preset.HTTP; deadline = 10.seconds; retry { backoff { base = 1.milliseconds } } }
        val outer = policy("outer", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds } }; classify { _, error -> error?.let { Outcome(Outcome.TRANSIENT) } } }
        val heard = CopyOnWriteArrayList<String>()
        val listener = object : EventListener() {
            override fun callStart(call: Call) {
                heard += call.request().url.encodedPath
            }
        }
        val client = OkHttpClient.Builder().eventListener(listener).tidegate(inner).build()
        val api = Retrofit.Builder().baseUrl(Origin.url).client(client).build().create(Api::class.java)
        val error = runBlocking { runCatching { outer.run { api.x() } }.exceptionOrNull() }
        assertEquals(503, (error as? HttpException)?.code(), "$error")
        assertEquals(2, Origin.log().size, "two attempts of the policy around, and none within")
        assertEquals("OK", runBlocking { api.x() }.string().trim())
        val late = runBlocking { runCatching { withBounds(deadline = 100.milliseconds) { api.x() } }.exceptionOrNull() }
        assertTrue(late is DeadlineExceeded, "$late")
        assertEquals(List(4) { "/x" }, heard, "who listens goes on listening")
        client.connectionPool.evictAll()
        leftNothing(own)
    }

    @Test
    fun `OkHttp 4, which Retrofit 3 brings with it, does what it can`() {
        Origin.sequence(503, 200, 503)
        val path = System.getProperty("java.class.path").split(File.pathSeparator).filter { "okhttp-jvm" !in it }
        assertTrue(path.any { it.endsWith("okhttp-4.12.0.jar") }, "$path")
        val java = File(System.getProperty("java.home"), "bin/java").path
        val process = ProcessBuilder(java, "-cp", path.joinToString(File.pathSeparator), OlderOkHttp::class.java.name, Origin.url).redirectErrorStream(true).start()
        val text = process.inputStream.bufferedReader().readText().trim()
        assertTrue(process.waitFor(120, TimeUnit.SECONDS), "it hangs")
        assertEquals("4.12.0: 200 after 2 attempts, Canceled at once, 0 left", text)
    }

    @Test
    fun `Retrofit works unchanged`() {
        Origin.sequence(503, 200)
        val own = Engine(seed = 7)
        val policy = policy("retrofit", own) { preset = Preset.HTTP }
        val client = OkHttpClient.Builder().addInterceptor(policy.okHttpInterceptor()).build()
        val api = Retrofit.Builder().baseUrl(Origin.url).client(client).build().create(Api::class.java)
        assertEquals("OK", runBlocking { api.x() }.string().trim())
        assertEquals(2L, own.snapshot().policies.getValue("retrofit").attempts)
        client.connectionPool.evictAll()
    }
}

/** A program over whichever OkHttp is there: a repeat, and a `cancel()` in a backoff. */
object OlderOkHttp {
    @JvmStatic
    fun main(arguments: Array<String>) {
        val version = Class.forName("okhttp3.OkHttp").getField("VERSION").get(null)
        val engine = Engine(seed = 7)
        val waits = CountDownLatch(2)
        fun client(pause: Duration): OkHttpClient {
            val policy = policy(engine = engine) { preset = Preset.HTTP; deadline = 300.seconds; retry { backoff { base = pause; max = 60.seconds; jitter = BackoffJitter.NONE } }; onRetry { waits.countDown() } }
            return OkHttpClient.Builder().tidegate(policy).build()
        }
        val request = Request.Builder().url(arguments[0] + "/x").build()
        val told = client(1.milliseconds).newCall(request).execute().use { "${it.code} after ${it.report?.attempts} attempts" }
        val call = client(60.seconds).newCall(request)
        thread {
            waits.await() // the second client's backoff
            Thread.sleep(50)
            call.cancel()
        }
        var error: Throwable? = null
        val took = measureTime { error = runCatching { call.execute() }.exceptionOrNull() }
        println("$version: $told, ${error?.message ?: engine.snapshot().policies.values.map { it.ends }} ${if (took < 30.seconds) "at once" else "after $took"}, ${engine.snapshot().live} left")
        System.exit(0)
    }
}

private class OkHttp(interceptor: TidegateInterceptor) : Client {
    private val client = OkHttpClient.Builder()
        .addInterceptor(interceptor)
        .connectionPool(ConnectionPool(1, 1, TimeUnit.MINUTES))
        .build()

    override fun body(text: String): Any = object : RequestBody() {
        override fun contentType(): MediaType? = null

        override fun isOneShot() = true

        override fun writeTo(sink: BufferedSink) {
            sink.writeUtf8(text)
        }
    }

    private fun request(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?): Request {
        val content = when (body) {
            Body.NONE -> null
            Body.BYTES -> "hello".toRequestBody()
            Body.ONE_SHOT -> body("hello") as RequestBody
        }
        val made = Request.Builder().url(Origin.url + path).method(method, content)
        for ((name, value) in headers) made.header(name, value)
        if (options != null) made.tag(RequestOptions::class.java, options)
        return made.build()
    }

    override fun send(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?): Answer =
        client.newCall(request(method, path, body, headers, options)).execute().use {
            Answer(it.code, it.body.string().trim(), it.report, it.header("x-should-retry"))
        }

    override fun raw(): Any = client.newCall(request("GET", "/x", Body.NONE, emptyMap(), null)).execute()

    override fun status(raw: Any): Int = (raw as okhttp3.Response).use { it.code }

    override fun open(path: String): Pair<() -> String, () -> Unit> {
        val response = client.newCall(request("GET", path, Body.NONE, emptyMap(), null)).execute()
        return Pair({ response.use { it.body.string() } }, { response.close() })
    }

    override fun start(path: String): Pair<() -> Unit, () -> Throwable?> {
        val call = client.newCall(request("GET", path, Body.NONE, emptyMap(), null))
        val ended = CompletableFuture<Throwable?>()
        thread {
            ended.complete(runCatching { call.execute().close() }.exceptionOrNull())
        }
        return Pair({ call.cancel() }, { ended.get(60, TimeUnit.SECONDS) })
    }

    override fun close() {
        client.connectionPool.evictAll()
        client.dispatcher.executorService.shutdown()
    }
}
