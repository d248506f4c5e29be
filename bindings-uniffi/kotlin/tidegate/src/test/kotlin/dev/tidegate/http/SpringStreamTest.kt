package dev.tidegate.http

import dev.tidegate.AttemptTimeout
import dev.tidegate.Counts
import dev.tidegate.LeavesConnections
import dev.tidegate.Policy
import dev.tidegate.Report
import dev.tidegate.RequestOptions
import dev.tidegate.StreamStalled
import dev.tidegate.spring.OPTIONS
import dev.tidegate.spring.report
import dev.tidegate.spring.restInterceptor
import dev.tidegate.spring.webFilter
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.reactivestreams.Subscription
import org.springframework.core.io.buffer.DataBuffer
import org.springframework.core.io.buffer.DataBufferUtils
import org.springframework.http.HttpStatus
import org.springframework.http.MediaType
import org.springframework.http.client.ClientHttpResponse
import org.springframework.http.client.JdkClientHttpRequestFactory
import org.springframework.http.client.reactive.JdkClientHttpConnector
import org.springframework.web.client.ResourceAccessException
import org.springframework.web.client.RestClient
import org.springframework.web.reactive.function.client.ClientResponse
import org.springframework.web.reactive.function.client.WebClient
import org.springframework.web.reactive.function.client.WebClientRequestException
import reactor.core.Exceptions
import reactor.core.publisher.BaseSubscriber
import reactor.core.publisher.Flux
import reactor.core.publisher.Mono
import java.io.IOException
import java.net.URI
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

private fun options(asked: Asked) = RequestOptions(idempotent = true, stream = asked.stream)

/** `RestClient` over the JDK's client: a blocking call on its caller's thread. */
class RestClientStreamTest : StreamRules() {
    init {
        jdk.version() // its thread is there before a test is
    }

    override fun ask(policy: Policy, asked: Asked): Seen {
        val factory = JdkClientHttpRequestFactory(jdk)
        val client = RestClient.builder().requestFactory(factory).defaultHeader("Connection", "close").requestInterceptor(policy.restInterceptor()).build()
        val request = client.post().uri(URI(Origin.url + asked.path)).contentType(MediaType.APPLICATION_JSON).attribute(OPTIONS, options(asked))
        if (asked.accept != null) request.header("Accept", asked.accept)
        val text = StringBuilder()
        var report: Report? = null
        val error = try {
            val response: ClientHttpResponse = request.body(asked.question.encodeToByteArray()).exchange({ sent, response ->
                report = sent.report
                response
            }, false)!!
            response.use { read(it, asked, text) }
            null
        } catch (error: ResourceAccessException) {
            error.cause
        } catch (error: IOException) {
            error
        }
        return Seen("$text", error, report)
    }

    private fun read(response: ClientHttpResponse, asked: Asked, text: StringBuilder) {
        asked.delivered()
        val piece = ByteArray(8_192)
        while (true) {
            val count = response.body.read(piece)
            if (count < 0) return
            val some = piece.decodeToString(0, count)
            text.append(some)
            asked.went(some)
        }
    }

    @Test
    fun `a read that waits ends without a piece, by silence and by the deadline (7_5_1, 7_7_11)`() {
        Origin.script("provider" to mapOf("ping_every" to 1_000.0, "faults" to listOf(mapOf("fault" to "stall", "at" to 1))))
        assertTrue(ask(http("silence") { idleTimeout = 200.milliseconds }).error is StreamStalled)
        val late = ask(http("deadline") { deadline = 600.milliseconds }).error
        assertTrue(late is dev.tidegate.DeadlineExceeded, "$late")
    }

    @Test
    fun `a first piece that never comes ends the attempt though nothing comes at all (7_7_3)`() {
        Origin.script("provider" to mapOf("ping_every" to 1_000.0, "faults" to listOf(mapOf("fault" to "stall", "at" to 0))))
        val seen = ask(http { firstByteTimeout = 100.milliseconds; retry { maxAttempts = 2 } })
        assertTrue(seen.error is AttemptTimeout, "${seen.error}")
        assertTrue(!Thread.currentThread().isInterrupted)
    }
}

/** `WebClient` over the JDK's client. It does not read what a request's body asks for. */
@LeavesConnections("Spring 6.2's connector for the JDK's client keeps the connection of a body that is cancelled after its first piece, also without Tidegate")
class WebClientStreamTest : StreamRules() {
    init {
        jdk.version() // its thread is there before a test is
    }

    override val readsQuestions: Boolean get() = false

    override fun ask(policy: Policy, asked: Asked): Seen {
        val client = WebClient.builder().clientConnector(JdkClientHttpConnector(jdk)).defaultHeader("Connection", "close").filter(policy.webFilter()).build()
        val request = client.post().uri(URI(Origin.url + asked.path)).contentType(MediaType.APPLICATION_JSON).attribute(OPTIONS, options(asked))
        if (asked.accept != null) request.header("Accept", asked.accept)
        val reader = Reader(asked)
        var report: Report? = null
        val error = try {
            @Suppress("DEPRECATION") // the other ways read the body, or release it
            val response = request.bodyValue(asked.question).exchange().block()!!
            report = response.report
            asked.delivered()
            response.bodyToFlux(DataBuffer::class.java).subscribe(reader)
            reader.ended.get(60, TimeUnit.SECONDS)
        } catch (error: RuntimeException) {
            Exceptions.unwrap(error).let { if (it is WebClientRequestException) it.cause else it }
        }
        return Seen("${reader.text}", error, report)
    }

    /** Asks for one piece at a time. */
    private class Reader(private val asked: Asked) : BaseSubscriber<DataBuffer>() {
        val text = StringBuilder()
        val ended = CompletableFuture<Throwable?>()

        override fun hookOnSubscribe(subscription: Subscription) = request(1)

        override fun hookOnNext(value: DataBuffer) {
            val some = ByteArray(value.readableByteCount()).also(value::read).decodeToString()
            DataBufferUtils.release(value)
            text.append(some)
            try {
                asked.went(some)
            } catch (error: IOException) {
                cancel()
                ended.complete(error)
                return
            }
            request(1)
        }

        override fun hookOnComplete() {
            ended.complete(null)
        }

        override fun hookOnError(throwable: Throwable) {
            ended.complete(throwable)
        }
    }

    @Test
    fun `the work of a reader that has asked for everything is no silence (7_7_17)`() {
        val pieces = Flux.interval(java.time.Duration.ofMillis(20)).take(3).map { org.springframework.core.io.buffer.DefaultDataBufferFactory.sharedInstance.wrap("data: x\n\n".encodeToByteArray()) as DataBuffer }
        val policy = http { idleTimeout = 200.milliseconds }
        val client = WebClient.builder().exchangeFunction { Mono.just(ClientResponse.create(HttpStatus.OK).body(pieces.onBackpressureBuffer()).build()) }.filter(policy.webFilter()).build()
        val text = client.get().uri("http://localhost/x").retrieve().bodyToFlux(DataBuffer::class.java)
            .map { it.also { Thread.sleep(500) }.toString(Charsets.UTF_8) }.collectList().block()!!
        assertTrue(text.joinToString("").startsWith("data: x"), "$text")
        val silent = WebClient.builder().exchangeFunction { Mono.just(ClientResponse.create(HttpStatus.OK).body(Flux.never<DataBuffer>()).build()) }
            .filter(http("silent") { idleTimeout = 200.milliseconds; counts = Counts.BYTES; deadline = 30.seconds }.webFilter()).build()
        val error = runCatching { silent.get().uri("http://localhost/x").retrieve().bodyToFlux(DataBuffer::class.java).blockLast() }.exceptionOrNull()
        assertTrue(generateSequence(error) { it.cause }.any { it is StreamStalled }, "$error")
    }
}
