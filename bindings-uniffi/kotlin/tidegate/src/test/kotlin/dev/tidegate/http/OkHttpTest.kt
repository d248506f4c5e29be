package dev.tidegate.http

import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.Preset
import dev.tidegate.RequestOptions
import dev.tidegate.okhttp.TidegateInterceptor
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.okhttp.report
import dev.tidegate.policy
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.runBlocking
import okhttp3.ConnectionPool
import okhttp3.MediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.ResponseBody
import okio.BufferedSink
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import retrofit2.Retrofit
import retrofit2.http.GET
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.time.Duration

class OkHttpTest : MoreRules() {
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

    /** What Retrofit makes of an interface goes through unchanged. */
    interface Api {
        @GET("/x")
        suspend fun x(): ResponseBody
    }

    @Test
    fun `OkHttp's own repeats are off`() {
        Origin.sequence(408, 200)
        val own = Engine(seed = 7)
        val policy = policy("once") { engine = own; retry { maxAttempts = 1 } }
        val client = OkHttpClient.Builder().addInterceptor(policy.okHttpInterceptor()).build()
        client.newCall(Request.Builder().url(Origin.url + "/x").build()).execute().use { assertEquals(408, it.code) }
        assertEquals(1, Origin.log().size)
    }

    @Test
    fun `Retrofit works unchanged`() {
        Origin.sequence(503, 200)
        val own = Engine(seed = 7)
        val policy = policy("retrofit") { engine = own; preset = Preset.HTTP }
        val client = OkHttpClient.Builder().addInterceptor(policy.okHttpInterceptor()).build()
        val api = Retrofit.Builder().baseUrl(Origin.url).client(client).build().create(Api::class.java)
        assertEquals("OK", runBlocking { api.x() }.string().trim())
        assertEquals(2uL, own.snapshot().policies.getValue("retrofit").attempts)
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
            Answer(it.code, it.body.string().trim(), it.report)
        }

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
        return Pair({ call.cancel() }, { ended.get(5, TimeUnit.SECONDS) })
    }

    override fun close() {
        client.connectionPool.evictAll()
        client.dispatcher.executorService.shutdown()
    }
}
