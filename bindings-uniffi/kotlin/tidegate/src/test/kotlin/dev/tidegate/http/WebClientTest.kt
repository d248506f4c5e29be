package dev.tidegate.http

import dev.tidegate.DeadlineExceeded
import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.RequestOptions
import dev.tidegate.Verdict
import dev.tidegate.report
import dev.tidegate.spring.OPTIONS
import dev.tidegate.spring.TidegateFilter
import dev.tidegate.spring.report
import dev.tidegate.spring.webFilter
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.future.await
import kotlinx.coroutines.test.StandardTestDispatcher
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.reactivestreams.Subscription
import org.springframework.core.io.buffer.DataBuffer
import org.springframework.core.io.buffer.DataBufferUtils
import org.springframework.http.HttpMethod
import org.springframework.http.HttpStatus
import org.springframework.http.client.reactive.JdkClientHttpConnector
import org.springframework.web.reactive.function.client.ClientRequest
import org.springframework.web.reactive.function.client.ClientResponse
import org.springframework.web.reactive.function.client.ExchangeFilterFunction
import org.springframework.web.reactive.function.client.ExchangeFunction
import org.springframework.web.reactive.function.client.WebClient
import org.springframework.web.reactive.function.client.WebClientRequestException
import org.springframework.web.reactive.function.client.WebClientResponseException
import reactor.core.Exceptions
import reactor.core.publisher.BaseSubscriber
import reactor.core.publisher.Flux
import reactor.core.publisher.Mono
import java.io.IOException
import java.net.URI
import java.util.concurrent.TimeUnit
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

@OptIn(ExperimentalCoroutinesApi::class)
class WebClientTest : ReadingRules() {
    init {
        jdk.version() // its thread is there before a test is
    }

    override fun client(policy: Policy, retryHeader: Boolean, idempotencyKey: Boolean): Client = Web(TidegateFilter(policy, retryHeader, idempotencyKey))

    override fun cut(policy: Policy): Throwable {
        Origin.script("default" to mapOf("body_bytes" to 200_000, "fault" to "truncate"))
        val error = failure { client(policy).use { it.open("/cut").first() } }
        return if (error is WebClientResponseException || error is WebClientRequestException) error.cause!! else error
    }

    override val keepsConnections get() = false

    override val resendsLost get() = true

    override val keepsReading get() = true

    override fun isLost(error: Throwable) = error is WebClientRequestException && error.cause is IOException

    override fun trials(count: Int, make: (Engine) -> Policy): List<Duration> {
        val at = mutableListOf<Duration>()
        runTest(timeout = 60.seconds) {
            val policy = make(Engine(seed = 7, timeSource = testTimeSource))
            val filter = TidegateFilter(policy, context = StandardTestDispatcher(testScheduler))
            val timed = ExchangeFilterFunction { request, next -> at += currentTime.milliseconds; next.exchange(request) }
            val client = WebClient.builder().clientConnector(JdkClientHttpConnector(jdk)).filter(filter).filter(timed).build()
            repeat(count) { assertEquals(200, client.get().uri(URI(Origin.url + "/x")).retrieve().toBodilessEntity().toFuture().await().statusCode.value()) }
        }
        return at
    }

    /** Without a server: the JDK's client leaves a connection open whose request is cancelled while it is being sent. */
    @Test
    override fun `rule 7, the deadline ends an attempt, and the reading of a body`() {
        val never = WebClient.builder().exchangeFunction { Mono.never() }.filter(http { deadline = 300.milliseconds }.webFilter()).build()
        val error = failure { never.get().uri("http://localhost/x").retrieve().toBodilessEntity().block() }
        assertTrue(Exceptions.unwrap(error) is DeadlineExceeded, "$error")
        val answer = { ClientResponse.create(HttpStatus.OK).body(Flux.never<DataBuffer>()).build() }
        val endless = WebClient.builder().exchangeFunction { Mono.just(answer()) }.filter(http("read") { deadline = 500.milliseconds }.webFilter()).build()
        val late = failure { endless.get().uri("http://localhost/x").retrieve().bodyToMono(String::class.java).block() }
        assertTrue(generateSequence(late) { it.cause }.any { it is DeadlineExceeded }, "$late")
    }

    /** Without a server, too. */
    @Test
    override fun `rule 7, the deadline of a call around it ends the reading of a body, whatever its engine (7_3_1, 7_3_3)`() {
        val answer = { ClientResponse.create(HttpStatus.OK).body(Flux.never<DataBuffer>()).build() }
        for (own in listOf(engine, Engine(seed = 8))) {
            val around = dev.tidegate.policy("around", own) { deadline = 500.milliseconds }
            val endless = WebClient.builder().exchangeFunction { Mono.just(answer()) }.filter(http().webFilter()).build()
            val late = failure { around.call { endless.get().uri("http://localhost/x").retrieve().bodyToMono(String::class.java).block() } }
            assertTrue(generateSequence(late) { it.cause }.any { it is DeadlineExceeded }, "$late")
        }
    }

    @Test
    fun `each attempt has Reactor's context of the subscriber, for filters inside and for the body`() {
        val statuses = ArrayDeque(listOf(503, 200))
        val seen = mutableListOf<String?>()
        val look = ExchangeFilterFunction { request, next -> Mono.deferContextual { seen += it.getOrDefault<String>("user", null); next.exchange(request) } }
        val client = WebClient.builder().exchangeFunction { Mono.just(answered(it, statuses.removeFirst())) }.filter(http().webFilter()).filter(look).build()
        client.get().uri("http://localhost/x").retrieve().toBodilessEntity().contextWrite { it.put("user", "ada") }.block()
        assertEquals(listOf<String?>("ada", "ada"), seen)
        Origin.script()
        val put = WebClient.builder().clientConnector(JdkClientHttpConnector(jdk)).filter(http().webFilter()).build().put().uri(Origin.url + "/x")
        put.body(Mono.deferContextual { Mono.just("by ${it.getOrDefault("user", "nobody")}") }, String::class.java)
            .retrieve().toBodilessEntity().contextWrite { it.put("user", "ada") }.block()
        assertEquals("by ada", Origin.log().last()["body"].asText())
    }

    @Test
    fun `a subscriber may make a request and wait for it`() {
        Origin.script()
        val client = WebClient.builder().clientConnector(JdkClientHttpConnector(jdk)).filter(http().webFilter()).build()
        val get = { client.get().uri(Origin.url + "/x").retrieve().toBodilessEntity() }
        assertEquals(200, get().map { get().block()!!.statusCode.value() }.toFuture().get(60, TimeUnit.SECONDS))
    }

    @Test
    fun `no subscriber and no attempt runs on the thread of all timers`() {
        val threads = java.util.concurrent.CopyOnWriteArrayList<String>()
        val statuses = ArrayDeque(listOf(503))
        val exchange = ExchangeFunction { request ->
            threads += Thread.currentThread().name
            statuses.removeFirstOrNull()?.let { Mono.just(answered(request, it)) } ?: Mono.never()
        }
        val client = WebClient.builder().exchangeFunction(exchange).filter(http { deadline = 3.seconds }.webFilter()).build()
        val get = client.get().uri("http://localhost/x").retrieve().toBodilessEntity().doOnError { threads += Thread.currentThread().name }
        assertTrue(generateSequence(failure { get.block() }) { it.cause }.any { it is DeadlineExceeded })
        assertEquals(3 to emptyList<String>(), threads.size to threads.filter { "DefaultExecutor" in it })
    }

    @Test
    fun `a filter around another one repeats what that one would have repeated (1_6_1, 1_6_3)`() {
        val statuses = ArrayDeque(listOf(500, 200))
        val answers = ExchangeFunction { Mono.just(answered(it, statuses.removeFirst())) }
        val inner = http("inner") { retry { this.statuses = listOf(500) } }
        val client = WebClient.builder().exchangeFunction(answers).filter(http("outer").webFilter()).filter(inner.webFilter()).build()
        assertEquals(200, client.get().uri("http://localhost/x").retrieve().toBodilessEntity().block()!!.statusCode.value())
    }

    private fun answered(to: ClientRequest, status: Int) = ClientResponse.create(HttpStatus.valueOf(status)).request(
        object : org.springframework.http.HttpRequest {
            override fun getMethod() = to.method()

            override fun getURI() = to.url()

            override fun getAttributes() = to.attributes()

            override fun getHeaders() = to.headers()
        },
    ).build()

    @Test
    fun `a response that is cancelled before its subscriber asks for it is closed`() {
        var closed = 0
        val body = Flux.never<DataBuffer>().doOnCancel { closed += 1 }
        val answers = ExchangeFunction { Mono.just(ClientResponse.create(HttpStatus.OK).body(body).build()) }
        val request = ClientRequest.create(HttpMethod.GET, URI("http://localhost/x")).build()
        val unasked = object : BaseSubscriber<ClientResponse>() {
            override fun hookOnSubscribe(subscription: Subscription) = Unit // asks for nothing
        }
        http().webFilter().filter(request, answers).subscribe(unasked)
        assertEquals(0 to 1, closed to engine.snapshot().live.toInt())
        unasked.cancel()
        assertEquals(1 to 0, closed to engine.snapshot().live.toInt())
    }

    @Test
    fun `a stream is sent once, unless its user says that it can be read again`() {
        Origin.sequence(503, 200, 503, 200, mapOf("fault" to "reset"), 200)
        val client = WebClient.builder().clientConnector(JdkClientHttpConnector(jdk)).filter(http().webFilter()).build()
        val put = { options: RequestOptions? ->
            val request = client.put().uri(URI(Origin.url + "/x"))
            if (options != null) request.attribute(OPTIONS, options)
            request.body(Flux.just("hel", "lo"), String::class.java).exchangeToMono { response -> response.releaseBody().thenReturn(response) }.block()!!
        }
        val once = put(null)
        assertEquals(listOf(503, 1, Verdict.OPINION), listOf(once.statusCode().value(), attempts().size, once.report?.reason))
        assertEquals(200, put(null).statusCode().value(), "the next answer of the sequence")
        assertEquals(200, put(RequestOptions(replayable = true)).statusCode().value())
        assertEquals(List(4) { "hello" }, attempts().map { it["body"].asText() })
    }

    @Test
    fun `an error of a status has its report at its request`() {
        Origin.sequence(503, 503)
        val client = WebClient.builder().clientConnector(JdkClientHttpConnector(jdk)).filter(http { retry { maxAttempts = 2 } }.webFilter()).build()
        val error = failure { client.get().uri(URI(Origin.url + "/x")).retrieve().bodyToMono(String::class.java).block() } as WebClientResponseException
        assertEquals(503 to "gave up after 2 attempts", error.statusCode.value() to error.request?.report?.note)
        assertTrue("attempts" in error.request!!.report!!.explain()!!.text)
    }
}

private class Web(filter: TidegateFilter) : Client {
    private val client = WebClient.builder().defaultHeader("Connection", "close").clientConnector(JdkClientHttpConnector(jdk)).filter(filter).build()

    override fun body(text: String): Any = text

    private fun request(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?): WebClient.RequestHeadersSpec<*> {
        val made = client.method(HttpMethod.valueOf(method)).uri(URI(Origin.url + path))
        for ((name, value) in headers) made.header(name, value)
        // What is a stream shows only while it is sent; who knows it says so.
        val said = options ?: if (body == Body.ONE_SHOT) RequestOptions(replayable = false) else null
        if (said != null) made.attribute(OPTIONS, said)
        return when (body) {
            Body.NONE -> made
            Body.BYTES -> made.bodyValue("hello")
            Body.ONE_SHOT -> made.body(Flux.just("hello"), String::class.java)
        }
    }

    private fun <T : Any> blocked(mono: Mono<T>): T = try {
        mono.block()!!
    } catch (error: RuntimeException) {
        throw Exceptions.unwrap(error)
    }

    override fun send(method: String, path: String, body: Body, headers: Map<String, String>, options: RequestOptions?): Answer =
        blocked(
            request(method, path, body, headers, options).exchangeToMono { response ->
                response.bodyToMono(String::class.java).defaultIfEmpty("").map { Answer(response.statusCode().value(), it.trim(), response.report, response.headers().asHttpHeaders().getFirst("x-should-retry")) }
            },
        )

    @Suppress("DEPRECATION") // the other ways read the body, or release it
    private fun opened(path: String): ClientResponse = blocked(request("GET", path, Body.NONE, emptyMap(), null).exchange())

    override fun open(path: String): Pair<() -> String, () -> Unit> {
        val response = opened(path)
        return Pair(
            { blocked(response.bodyToMono(String::class.java)) },
            { response.bodyToFlux(DataBuffer::class.java).subscribe(DataBufferUtils::release) { }.dispose() },
        )
    }

    override fun raw(): Any = blocked(opened("/x").let { response -> response.releaseBody().thenReturn(response) })

    override fun status(raw: Any): Int = (raw as ClientResponse).statusCode().value()

    override fun start(path: String): Pair<() -> Unit, () -> Throwable?> {
        val future = request("GET", path, Body.NONE, emptyMap(), null).exchangeToMono { it.bodyToMono(String::class.java) }.toFuture()
        return Pair({ future.cancel(true) }, { runCatching { future.get(60, TimeUnit.SECONDS) }.exceptionOrNull() })
    }

    override fun close() = Unit
}
