@file:JvmName("TidegateSpring")

package dev.tidegate.spring

import dev.tidegate.Attempt
import dev.tidegate.Policy
import dev.tidegate.Report
import dev.tidegate.RequestOptions
import dev.tidegate.Scope
import dev.tidegate.Verdict
import dev.tidegate.internal.Beginning
import dev.tidegate.internal.BlockingRun
import dev.tidegate.internal.BodyEnd
import dev.tidegate.internal.Estimates
import dev.tidegate.internal.Interrupter
import dev.tidegate.internal.Meter
import dev.tidegate.internal.Pieces
import dev.tidegate.internal.Request
import dev.tidegate.internal.Silence
import dev.tidegate.internal.Wire
import dev.tidegate.internal.watchSilence
import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext
import org.springframework.http.HttpHeaders
import org.springframework.http.HttpMethod
import org.springframework.http.HttpRequest
import org.springframework.http.HttpStatusCode
import org.springframework.http.client.ClientHttpRequestExecution
import org.springframework.http.client.ClientHttpRequestInterceptor
import org.springframework.http.client.ClientHttpResponse
import org.springframework.http.client.support.HttpRequestWrapper
import java.io.ByteArrayInputStream
import java.io.FilterInputStream
import java.io.IOException
import java.io.InputStream
import java.io.InterruptedIOException
import java.net.URI
import java.util.concurrent.atomic.AtomicReference
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.Duration.Companion.milliseconds

/**
 * Interceptor that puts the requests of Spring's `RestClient` or `RestTemplate` under a policy. Add it last, because Spring runs the
 * interceptors after it for the first attempt only.
 *
 * It runs on the thread of the call, so attempts follow each other and there are no hedges. An attempt whose time is up is interrupted, and a
 * body that has been silent for `idleTimeout` is closed. The JDK's client (`JdkClientHttpRequestFactory`) ends at once then; clients whose reads
 * end by neither end by their own timeouts, which should be set. Spring reads the request's body into memory, so it can be sent again.
 *
 * ```kotlin
 * val client = RestClient.builder().requestInterceptor(payments.restInterceptor()).build()
 * ```
 *
 * @param policy Policy of the requests; a request may name another by [RequestOptions], as its attribute [OPTIONS].
 * @param retryHeader Whether repeats carry `Retry-Attempt: n`.
 * @param idempotencyKey Whether every request that needs a key gets a generated `Idempotency-Key`, the same on each attempt.
 */
public class TidegateRequestInterceptor @JvmOverloads constructor(
    private val policy: Policy,
    private val retryHeader: Boolean = true,
    private val idempotencyKey: Boolean = false,
) : ClientHttpRequestInterceptor {
    override fun intercept(request: HttpRequest, body: ByteArray, execution: ClientHttpRequestExecution): ClientHttpResponse {
        val options = request.attributes[OPTIONS] as RequestOptions? ?: RequestOptions()
        val said = springRequest(options, policy, request.method, request.uri, request.headers, idempotencyKey) {
            body.takeIf { it.size <= Estimates.MOST_BYTES }
        }
        return RestRun(said, Scope.current(), Exchange(request, body, execution), options.retryHeader ?: retryHeader).send()
    }
}

/** Interceptor with this policy; see [TidegateRequestInterceptor]. */
public fun Policy.restInterceptor(): TidegateRequestInterceptor = TidegateRequestInterceptor(this)

/** Attribute of a request that holds its [RequestOptions]: `client.get().attribute(OPTIONS, RequestOptions(route = "orders"))`. */
public const val OPTIONS: String = "dev.tidegate.options"

/** Attribute that holds the report of a request's call. The attributes of a sent request cannot be changed, so it is in a holder. */
internal const val REPORT = "dev.tidegate.report"

/**
 * Report of the call that ended with this request's response; null if its first attempt succeeded. A `WebClientResponseException` has its
 * request, and handlers of statuses get it.
 */
public val HttpRequest.report: Report? get() = (attributes[REPORT] as AtomicReference<*>?)?.get() as Report?

/** Options of a request of either of Spring's clients. */
internal fun springRequest(
    options: RequestOptions,
    policy: Policy,
    method: HttpMethod,
    uri: URI,
    headers: HttpHeaders,
    idempotencyKey: Boolean,
    bytes: () -> ByteArray?,
): Request = Request(
    (options.policy ?: policy).core,
    options,
    method.name(),
    hasKey = headers.getFirst(Request.KEY_HEADER) != null,
    makeKey = idempotencyKey,
    replayable = true,
    origin = origin(uri),
    path = { uri.rawPath + (uri.rawQuery?.let { "?$it" } ?: "") },
    sdkRetries = headers.getFirst(Request.SDK_RETRIES_HEADER),
    accepts = pairs(headers).filter { it.first.equals(HttpHeaders.ACCEPT, ignoreCase = true) }.map { it.second },
    bytes = bytes,
)

private fun origin(uri: URI): String {
    val port = if (uri.port >= 0) uri.port else if (uri.scheme.equals("https", ignoreCase = true)) 443 else 80
    return "${uri.scheme}://${uri.host}:$port"
}

/** Headers as pairs. Spring 7 and the versions before it share no other way to read them. */
internal fun pairs(headers: HttpHeaders): List<Pair<String, String>> {
    val pairs = mutableListOf<Pair<String, String>>()
    headers.forEach { name, values -> for (value in values) pairs += name to value }
    return pairs
}

private class Exchange(val request: HttpRequest, val body: ByteArray, val execution: ClientHttpRequestExecution)

/** One request. */
private class RestRun(
    private val said: Request,
    around: Scope?,
    private val exchange: Exchange,
    private val retryHeader: Boolean,
) : BlockingRun<ClientHttpResponse>(said.core, said.route, around) {
    private val closed = mutableSetOf<Any>()

    /** Timeouts of streams. */
    private val limits = core.streams

    /** Deadline, in microseconds on the engine's clock. */
    private var until = Long.MAX_VALUE

    fun send(): ClientHttpResponse {
        try {
            val (id, step) = said.inheriting(Wire.SOLO).begin(around)
            said.timeLeft(id, around).let { if (it >= 0) until = engine.now() + it }
            return begin(id, step)
        } catch (interrupted: InterruptedException) {
            Thread.currentThread().interrupt()
            throw InterruptedIOException("interrupted").initCause(interrupted)
        }
    }

    override fun start(attempt: Attempt): Any {
        val timer = attempt.time?.let { Interrupter(it) }
        val response = try {
            val response = exchange.execution.execute(outgoing(attempt), bytes(attempt))
            if (said.isStream && !said.reads(response.statusCode.value(), encoding(response))) hold(response, attempt, timer) else response
        } catch (error: IOException) {
            if (timer?.stop() == true) attempt.stop(core.attemptTimeout(route, error))
            throw error
        } finally {
            timer?.stop()
        }
        return if (said.reads(response.statusCode.value(), encoding(response))) begun(response, attempt) else response
    }

    private fun encoding(response: ClientHttpResponse) = response.headers.getFirst(HttpHeaders.CONTENT_ENCODING)

    /** Reads the body of a good response up to its first piece that counts, or until the timer closes it. */
    private fun hold(response: ClientHttpResponse, attempt: Attempt, timer: Interrupter?): ClientHttpResponse {
        val outcome = said.judge(attempt, response, response.statusCode.value()) { pairs(response.headers) }
        attempt.judged = outcome
        if (outcome != Wire.OK || response.statusCode.value() == SWITCHING_PROTOCOLS) return response
        val pieces = Pieces(limits, said.isPlain(encoding(response)))
        val body = HeldStream(response.body, pieces)
        try {
            // Some clients ignore an interrupt while they read, and end when the body is closed.
            val isLate = timer?.afterwards { withContext(Dispatchers.IO) { cut(response) } } == false
            if (!isLate) body.hold()
            if (isLate || timer?.stop() == true) throw IOException("the first piece has not come in time")
        } catch (error: IOException) {
            cut(response)
            attempt.broke = true
            throw error
        }
        attempt.stream = body
        if (pieces.failure != Wire.OK) attempt.judged = pieces.failure
        return ReadResponse(response, body)
    }

    /** Reads the beginning of a failed response's body. The caller gets the body from its beginning. */
    private fun begun(response: ClientHttpResponse, attempt: Attempt): ClientHttpResponse {
        val time = Beginning.time(attempt, engine)
        if (!time.isPositive()) return response
        val stream = BegunStream(response.body)
        try {
            attempt.beginning = stream.beginning(time)
        } catch (interrupted: InterruptedIOException) {
            cut(response)
            throw interrupted
        }
        return ReadResponse(response, stream)
    }

    private fun bytes(attempt: Attempt): ByteArray = when (val made = if (attempt.number > 1) said.body() else null) {
        null -> exchange.body
        is ByteArray -> made
        is String -> made.encodeToByteArray()
        else -> throw IllegalArgumentException("bodyFactory = ${made.javaClass.name}: must make bytes or a text")
    }

    /** Request of an attempt: equal to the first but for the retry header and a generated key. */
    private fun outgoing(attempt: Attempt): HttpRequest {
        val repeat = attempt.number > 1 && retryHeader
        if (said.key == null && !repeat) return exchange.request
        val made = HttpHeaders()
        for ((name, value) in pairs(exchange.request.headers)) made.add(name, value)
        said.key?.let { made.set(Request.KEY_HEADER, it) }
        if (repeat) made.set(Request.RETRY_HEADER, (attempt.number - 1).toString())
        return object : HttpRequestWrapper(exchange.request) {
            override fun getHeaders() = made
        }
    }

    /** Spring's clients report an interrupt as a plain [IOException]. */
    override fun isCancellation(error: Throwable): Boolean = super.isCancellation(error) || Thread.currentThread().isInterrupted

    override val sdkNote: String? get() = said.sdkNote

    override fun judge(attempt: Attempt): Long {
        val response = attempt.result() as ClientHttpResponse? ?: return super.judge(attempt)
        val outcome = if (attempt.judged >= 0) attempt.judged else said.judge(attempt, response, response.statusCode.value()) { pairs(response.headers) }
        return if (outcome == Wire.OK && said.untilBody && hasBody(response)) head else outcome
    }

    private fun hasBody(response: ClientHttpResponse): Boolean =
        exchange.request.method != HttpMethod.HEAD && response.headers.contentLength != 0L && response.statusCode.value() !in setOf(SWITCHING_PROTOCOLS, 204, 304)

    /** Reads a small failed response to its end, which keeps its connection; closes one that is large or slow, and a stream, whose end may not come. */
    override fun release(attempt: Attempt) {
        val response = attempt.value as ClientHttpResponse
        try {
            val isLong = attempt.stream != null || response.headers.contentLength > Request.DRAIN_BYTES
            val stream = if (isLong) null else BegunStream(response.body, Request.DRAIN_BYTES.toInt() + 1)
            val whole = stream?.beginning(Request.DRAIN_MS.milliseconds)
            if (stream?.isWhole != true) closed += response.also(::cut)
            else attempt.value = ReadResponse(response, ByteArrayInputStream(whole))
        } catch (_: IOException) {
            closed += response.also(::cut) // the response has failed already; the next attempt shows whether that lasts
        }
        response.close()
    }

    override fun discard(value: Any?) {
        cut(value as? ClientHttpResponse ?: return)
        value.close()
    }

    /** Closes the connection of a response. Spring's own `close` reads the body to its end before, which can take without end. */
    private fun cut(response: ClientHttpResponse) {
        try {
            response.body.close()
        } catch (_: IOException) {
            // it was closed already
        }
    }

    override fun intact(value: Any?): Boolean = value !in closed

    override fun deliver(value: Any?, report: () -> Report): ClientHttpResponse {
        val summary = report()
        val response = (value as ClientHttpResponse).let { if (said.isLast(it.statusCode.value(), summary)) final(it) else it }
        if (attempts > 1 || summary.reason != Verdict.OK) exchange.request.attributes[REPORT] = AtomicReference(summary)
        val isTimed = until < Long.MAX_VALUE && !limits.untilDelivery
        return if (isTimed && said.untilBody && hasBody(response)) guarded(response) { } else response
    }

    /** Failed response that tells SDKs not to repeat the request. */
    private fun final(response: ClientHttpResponse): ClientHttpResponse {
        val headers = HttpHeaders()
        for ((name, value) in pairs(response.headers)) headers.add(name, value)
        headers.set(Request.SHOULD_RETRY_HEADER, "false")
        return ReadResponse(response, headers = headers)
    }

    /** Delivers a good response whose body is read under the call: slot and deadline last until then. */
    override fun body(): ClientHttpResponse {
        if (attempts > 1) exchange.request.attributes[REPORT] = AtomicReference(success())
        if (limits.untilDelivery) until = Long.MAX_VALUE
        val attempt = held()!!
        return guarded(attempt.value as ClientHttpResponse, attempt) { outcome ->
            ended = true
            advance(Wire.finished(attempts, outcome))
        }
    }

    /** Response whose body must be read by the deadline. Calls [end] with the outcome. */
    private fun guarded(response: ClientHttpResponse, attempt: Attempt? = null, end: (outcome: Long) -> Unit): ClientHttpResponse {
        val meter = attempt?.let { Meter.of(core, it, said.isPlain(encoding(response))) }
        val bodyEnd = BodyEnd({ engine.now() >= until }, core, { refusal(Verdict.DEADLINE, null, it) }, meter, isCancelled = ::isCancellation, end = end)
        val body = if (attempt == null || !limits.watches && meter == null) GuardedStream(response.body, bodyEnd) else watched(response, attempt, bodyEnd, meter)
        if (until < Long.MAX_VALUE && (attempt == null || limits.idle == null)) {
            bodyEnd.during {
                delay((until - engine.now()).microseconds)
                over(response, bodyEnd, refusal(Verdict.DEADLINE, null, null)) { end(Wire.TIMEOUT) }
            }
        }
        return ReadResponse(response, body) {
            val isRead = bodyEnd.isOver
            bodyEnd.closed()
            // Spring's `close` would read the rest of a stream, which may take without end.
            if (engine.now() >= until || limits.some) cut(response)
            val timer = if (isRead || until == Long.MAX_VALUE) null else cutting(response, until - engine.now())
            try {
                response.close()
            } finally {
                timer?.cancel()
            }
        }
    }

    /** Cuts the response in [us] microseconds, while Spring reads its rest. */
    @OptIn(DelicateCoroutinesApi::class)
    private fun cutting(response: ClientHttpResponse, us: Long): Job = GlobalScope.launch {
        delay(us.microseconds)
        withContext(Dispatchers.IO) { cut(response) }
    }

    /** Ends a body for its reader, who gets this error, and closes it: with most clients that ends a read that waits. */
    private suspend fun over(response: ClientHttpResponse, body: BodyEnd, error: IOException, report: () -> Unit) {
        if (!body.over(error)) return
        report()
        withContext(NonCancellable + Dispatchers.IO) { cut(response) }
    }

    /** Body whose reads are watched: silence, and events that report a failure, end the call. */
    private fun watched(response: ClientHttpResponse, attempt: Attempt, end: BodyEnd, meter: Meter?): InputStream {
        val held = attempt.stream as HeldStream?
        val pieces = held?.pieces ?: Pieces(limits, said.isPlain(encoding(response)))
        val silence = Silence(engine, pieces, limits.idle)
        val idle = limits.idle
        if (idle != null) {
            end.during {
                watchSilence(this, attempt.number, silence, idle, firstReport) { step ->
                    over(response, end, refusal(Verdict.of(Wire.verdict(step)), null, null)) {
                        ended = true
                        advance(Wire.finished(attempt.number, Wire.CANCELLED)) // until then the attempt holds its permit
                    }
                }
            }
        }
        return WatchedStream(response.body, end, silence, meter, held?.size?.toLong() ?: 0)
    }
}

internal const val SWITCHING_PROTOCOLS = 101

/** A response with another body, or with other headers. */
private class ReadResponse(
    private val of: ClientHttpResponse,
    private val stream: InputStream? = null,
    private val headers: HttpHeaders = of.headers,
    private val closing: () -> Unit = of::close,
) : ClientHttpResponse {
    override fun getStatusCode(): HttpStatusCode = of.statusCode

    override fun getStatusText(): String = of.statusText

    override fun getHeaders(): HttpHeaders = headers

    override fun getBody(): InputStream = stream ?: of.body

    override fun close() = closing()
}

/** Body that reports its end to the call. */
private class GuardedStream(of: InputStream, private val end: BodyEnd) : FilterInputStream(of) {
    override fun read(): Int = end.reading { super.read().toLong() }.toInt()

    override fun read(into: ByteArray, offset: Int, length: Int): Int = end.reading { super.read(into, offset, length).toLong() }.toInt()

    override fun skip(count: Long): Long = skipByReading(count)

    override fun close() {
        try {
            super.close()
        } finally {
            end.closed()
        }
    }
}
