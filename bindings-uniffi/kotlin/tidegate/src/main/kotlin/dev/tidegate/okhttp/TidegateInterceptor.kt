@file:JvmName("TidegateOkHttp")

package dev.tidegate.okhttp

import dev.tidegate.Attempt
import dev.tidegate.Core
import dev.tidegate.Outcomes
import dev.tidegate.Policy
import dev.tidegate.Report
import dev.tidegate.RequestOptions
import dev.tidegate.Scope
import dev.tidegate.Verdict
import dev.tidegate.internal.Beginning
import dev.tidegate.internal.BlockingRun
import dev.tidegate.internal.BodyEnd
import dev.tidegate.internal.Estimates
import dev.tidegate.internal.Judged
import dev.tidegate.internal.Marks
import dev.tidegate.internal.Meter
import dev.tidegate.internal.Pieces
import dev.tidegate.internal.Request
import dev.tidegate.internal.Silence
import dev.tidegate.internal.Wire
import dev.tidegate.internal.isInterrupt
import dev.tidegate.internal.watchSilence
import okhttp3.Call
import okhttp3.Connection
import okhttp3.EventListener
import okhttp3.Interceptor
import okhttp3.OkHttpClient
import okhttp3.Protocol
import okhttp3.RequestBody
import okhttp3.Response
import okhttp3.ResponseBody.Companion.asResponseBody
import okio.AsyncTimeout
import okio.Buffer
import okio.Source
import okio.buffer
import java.io.IOException
import java.io.InterruptedIOException
import java.net.Socket
import java.util.Collections
import java.util.IdentityHashMap
import java.util.concurrent.TimeUnit

/**
 * Application interceptor that puts OkHttp's requests under a policy. Add it last of those, so that the others see one call.
 *
 * It runs on the thread of the call, so attempts follow each other and there are no hedges. OkHttp's own timeouts for connecting, reading
 * and writing stop an attempt that exceeds `attemptTimeout`. The deadline, and the caller's `cancel()`, end the call at any point. OkHttp's
 * own repeats after lost connections are turned off, because the policy repeats.
 *
 * ```kotlin
 * val client = OkHttpClient.Builder().addInterceptor(payments.okHttpInterceptor()).build()
 * ```
 *
 * @param policy Policy of the requests; a request may name another by [RequestOptions].
 * @param retryHeader Whether repeats carry `Retry-Attempt: n`.
 * @param idempotencyKey Whether every request that needs a key gets a generated `Idempotency-Key`, the same on each attempt.
 */
public class TidegateInterceptor @JvmOverloads constructor(
    private val policy: Policy,
    private val retryHeader: Boolean = true,
    private val idempotencyKey: Boolean = false,
) : Interceptor {
    override fun intercept(chain: Interceptor.Chain): Response {
        val request = chain.request()
        val options = request.tag(RequestOptions::class.java) ?: RequestOptions()
        val body = request.body
        val said = Request(
            (options.policy ?: policy).core,
            options,
            request.method,
            hasKey = request.header(Request.KEY_HEADER) != null,
            makeKey = idempotencyKey,
            replayable = body == null || !(body.isOneShot() || body.isDuplex()),
            origin = with(request.url) { "$scheme://$host:$port" },
            path = { request.url.run { encodedPath + (encodedQuery?.let { "?$it" } ?: "") } },
            sdkRetries = request.header(Request.SDK_RETRIES_HEADER),
            accepts = request.headers("Accept"),
            bytes = { bytesOf(body) },
        )
        // A dispatcher's thread has no surrounding context, so the call carries that of the code that made it.
        val around = Scope.current() ?: newer { chain.call().tag(Scope::class) }
        return OkHttpRun(said, around, chain, options.retryHeader ?: retryHeader).send()
    }
}

/** Bytes of a body: empty without one; null if it can be read only once, or is large, or does not say how long it is. */
private fun bytesOf(body: RequestBody?): ByteArray? {
    if (body == null) return ByteArray(0)
    if (body.isOneShot() || body.isDuplex()) return null
    return try {
        if (body.contentLength() in 0..Estimates.MOST_BYTES) Buffer().also { body.writeTo(it) }.readByteArray() else null
    } catch (_: IOException) {
        null // the attempt shows it
    }
}

/** Interceptor with this policy; see [TidegateInterceptor], and [tidegate] for calls that other threads carry out. */
public fun Policy.okHttpInterceptor(): TidegateInterceptor = TidegateInterceptor(this)

/**
 * Puts a client under a policy: adds the interceptor, and passes the context of the code that makes a call (a policy, a deadline, a
 * criticality) on to the thread that carries the call out. The threads of `enqueue`, and so of Retrofit's suspending methods, do not have
 * this context; without it the attempts of a surrounding policy multiply.
 *
 * Call it last. It keeps the event listener that the builder has; an `eventListener` that is set later removes Tidegate's.
 *
 * ```kotlin
 * val client = OkHttpClient.Builder().tidegate(payments).build()
 * ```
 *
 * @param policy Policy of the requests; a request may name another by [RequestOptions].
 * @param retryHeader Whether repeats carry `Retry-Attempt: n`.
 * @param idempotencyKey Whether every request that needs a key gets a generated `Idempotency-Key`, the same on each attempt.
 */
@JvmOverloads
public fun OkHttpClient.Builder.tidegate(policy: Policy, retryHeader: Boolean = true, idempotencyKey: Boolean = false): OkHttpClient.Builder {
    val listening = build().eventListenerFactory
    return addInterceptor(TidegateInterceptor(policy, retryHeader, idempotencyKey))
        .eventListenerFactory { call -> listening.create(call).let { newer { it + Around } ?: it } }
}

/** Runs code that needs OkHttp 5.5; null with older versions. */
private inline fun <T : Any> newer(work: () -> T?): T? = try {
    work()
} catch (_: LinkageError) {
    null
}

/** Keeps the context of the code that makes a call. */
private object Around : EventListener() {
    override fun callStart(call: Call) {
        val around = Scope.current() ?: return
        newer { call.tag(Scope::class) { around } }
    }
}

/** Report of the call that ended with this response; null if its first attempt succeeded. */
public val Response.report: Report? get() = request.tag(Report::class.java)

/** One request. */
private class OkHttpRun(
    private val said: Request,
    around: Scope?,
    chain: Interceptor.Chain,
    private val retryHeader: Boolean,
) : BlockingRun<Response>(said.core, said.route, around) {
    private val request = chain.request()
    private val http = chain.call()

    // The policy repeats in place of OkHttp, whose own repeats would multiply the policy's.
    private val chain = newer { chain.withRetryOnConnectionFailure(false) } ?: chain
    private val closed: MutableSet<Any> = Collections.newSetFromMap(IdentityHashMap())
    private val watchdog = Watchdog(http)
    private val began = System.nanoTime()
    private val callNanos = http.timeout().timeoutNanos()
    private var listening = false

    /** Whether a body is being read that must end by the deadline. */
    private var streaming = false

    /** Timeouts of streams. */
    private val limits = core.streams

    /** Socket of the attempt's connection, if the connection belongs to this attempt alone. */
    @Volatile var socket: Socket? = null

    /** Interval for asking an OkHttp that does not report `cancel()`, in microseconds. */
    override var lookUs = Long.MAX_VALUE

    fun send(): Response {
        Marks.share(::sharedPart)
        try {
            val (id, step) = said.inheriting(Wire.SOLO).begin(around)
            // A little later than the engine's own deadline, because the engine is asked then.
            said.timeLeft(id, around).let { if (it >= 0) watchdog.start(minOf(it, MOST_WATCHED_US) * 1_000 + 1_000_000) }
            return returned(begin(id, step))
        } catch (interrupted: InterruptedException) {
            Thread.currentThread().interrupt()
            throw InterruptedIOException("interrupted").initCause(interrupted)
        } finally {
            if (!streaming) watchdog.stop()
        }
    }

    /**
     * Hands the response to OkHttp, which asks then whether the call has been cancelled, and throws `IOException("Canceled")` if so. So the
     * deadline cancels the call before this, or not until the response is read.
     */
    private fun returned(response: Response): Response {
        if (watchdog.returns()) return response
        response.close()
        throw refusal(Verdict.DEADLINE, null, null)
    }

    override fun start(attempt: Attempt): Any? {
        cancelled()?.let { throw it }
        var chain = chain
        // Rounded up to milliseconds, so that the engine is asked after this time is up, and not before.
        val ms = attempt.time?.let { ((it.inWholeMicroseconds + 999) / 1000).coerceIn(1, Int.MAX_VALUE.toLong()).toInt() }
        if (ms != null) {
            chain = chain.withConnectTimeout(least(chain.connectTimeoutMillis(), ms), TimeUnit.MILLISECONDS)
                .withReadTimeout(least(chain.readTimeoutMillis(), ms), TimeUnit.MILLISECONDS)
                .withWriteTimeout(least(chain.writeTimeoutMillis(), ms), TimeUnit.MILLISECONDS)
        }
        val started = System.nanoTime() // OkHttp's timeouts use this clock, and so does the test whether one of them was Tidegate's
        try {
            val response = chain.proceed(outgoing(attempt))
            // Afterwards the body has the client's own timeout for reading again.
            if (ms != null && limits.some) socket?.soTimeout = this.chain.readTimeoutMillis()
            if (ms != null && limits.some) response.body.source().timeout().timeout(this.chain.readTimeoutMillis().toLong(), TimeUnit.MILLISECONDS)
            if (said.reads(response.code, response.header("Content-Encoding"))) return begun(response, attempt)
            if (said.isStream) hold(response, attempt, ms?.let { started + it * 1_000_000L })
            return response
        } catch (error: IOException) {
            if (ms != null && System.nanoTime() - started >= ms * 1_000_000L) {
                attempt.stop(core.attemptTimeout(route, error))
            }
            throw error
        }
    }

    /** Reads the body of a good response up to its first piece that counts, until this moment of `System.nanoTime`. */
    private fun hold(response: Response, attempt: Attempt, until: Long?) {
        val outcome = said.judge(attempt, response, response.code) { response.headers }
        attempt.judged = outcome
        if (outcome != Wire.OK || response.code == SWITCHING_PROTOCOLS) return
        val pieces = Pieces(limits, said.isPlain(response.header("Content-Encoding")))
        try {
            attempt.stream = response.body.source().hold(pieces, until?.let { maxOf(it - System.nanoTime(), 1) })
        } catch (error: IOException) {
            response.close()
            attempt.broke = true
            throw error
        }
        if (pieces.failure != Wire.OK) attempt.judged = pieces.failure
    }

    /** Reads the beginning of a failed response's body. The caller gets the body from its beginning. */
    private fun begun(response: Response, attempt: Attempt): Response {
        val source = response.body.source()
        val nanos = Beginning.time(attempt, engine).inWholeNanoseconds
        if (nanos == 0L) return response
        val error = source.awaitBeginning(nanos)
        if (error != null && (http.isCanceled() || isInterrupt(error))) {
            response.close()
            throw error
        }
        attempt.beginning = Buffer().also { source.buffer.copyTo(it, 0, minOf(source.buffer.size, Beginning.bytes.toLong())) }.readByteArray()
        if (error == null) return response // what was read is still in the source's buffer
        val body = BrokenSource(source, error).buffer().asResponseBody(response.body.contentType(), response.body.contentLength())
        return response.newBuilder().body(body).build()
    }

    /** Request of an attempt: equal to the first but for the retry header, a generated key and a body made for the repeat. */
    private fun outgoing(attempt: Attempt): okhttp3.Request {
        val body = if (attempt.number > 1) said.body() else null
        val repeat = attempt.number > 1 && retryHeader
        if (said.key == null && !repeat && body == null) return request
        val made = request.newBuilder()
        if (body != null) {
            require(body is RequestBody) { "bodyFactory = ${body.javaClass.name}: must make a RequestBody" }
            made.method(request.method, body)
        }
        said.key?.let { made.header(Request.KEY_HEADER, it) }
        if (repeat) made.header(Request.RETRY_HEADER, (attempt.number - 1).toString())
        return made.build()
    }

    override fun isCancellation(error: Throwable): Boolean =
        super.isCancellation(error) || (http.isCanceled() && !watchdog.fired && !ranOut())

    /**
     * Whether OkHttp's `callTimeout` has ended the call. It cancels the call, as its owner would, and only the time tells the two apart: that
     * of this interceptor, which is a little shorter than the whole call.
     */
    private fun ranOut(): Boolean = callNanos > 0 && System.nanoTime() - began >= callNanos - callNanos / 10

    override fun late(): Boolean = watchdog.fired

    override fun cancelled(): Throwable? {
        if (!listening) {
            listening = true
            newer { http.addEventListener(Listening(this)) } ?: run { lookUs = LOOK_US }
        }
        return if (http.isCanceled() && !watchdog.fired) IOException("Canceled") else null
    }

    override val sdkNote: String? get() = said.sdkNote

    override fun judge(attempt: Attempt): Long {
        val response = attempt.result() as Response?
        if (response == null) return if (http.isCanceled() && ranOut()) Wire.TIMEOUT else super.judge(attempt)
        if (isMiss(response)) return core.classify?.let { Outcomes.by(it, core, response, null, Wire.IGNORED) } ?: Wire.IGNORED
        val outcome = if (attempt.judged >= 0) attempt.judged else said.judge(attempt, response, response.code) { response.headers }
        return if (outcome == Wire.OK && said.untilBody && hasBody(response)) head else outcome
    }

    /** Whether OkHttp itself has answered, because its cache has not what only the cache may answer (semantics 1.4.11). */
    private fun isMiss(response: Response): Boolean =
        response.code == GATEWAY_TIMEOUT && response.networkResponse == null && response.request.cacheControl.onlyIfCached

    private fun hasBody(response: Response): Boolean =
        response.code != SWITCHING_PROTOCOLS && request.method != "HEAD" && response.body.contentLength() != 0L

    /** Reads a small failed response to its end, which keeps its connection; closes a large one. */
    override fun release(attempt: Attempt) {
        val response = attempt.value as Response
        val body = response.body
        val source = body.source()
        val kept = Buffer()
        try {
            if (body.contentLength() <= Request.DRAIN_BYTES) {
                source.timeout().deadline(Request.DRAIN_MS, TimeUnit.MILLISECONDS)
                while (kept.size <= Request.DRAIN_BYTES && source.read(kept, 8_192) >= 0) {
                    // on
                }
                source.timeout().clearDeadline()
            }
            val whole = body.contentLength() <= Request.DRAIN_BYTES && kept.size <= Request.DRAIN_BYTES
            val size = kept.size
            if (whole) attempt.value = response.newBuilder().body(kept.asResponseBody(body.contentType(), size)).build()
            else closed += response
        } catch (_: IOException) {
            closed += response // the response has failed already; the next attempt shows whether that lasts
        }
        body.close()
    }

    override fun discard(value: Any?) {
        (value as? Response)?.close()
    }

    override fun intact(value: Any?): Boolean = value !in closed

    override fun deliver(value: Any?, report: () -> Report): Response {
        val summary = report()
        val response = (value as Response).let { if (said.isLast(it.code, summary)) it.newBuilder().header(Request.SHOULD_RETRY_HEADER, "false").build() else it }
        val delivered = if (attempts <= 1 && summary.reason == Verdict.OK) response else response.with(summary)
        return if (said.untilBody && hasBody(response) && !limits.untilDelivery && watchdog.watches) delivered.guarded { } else delivered
    }

    /** Copy of the response whose body must be read by the deadline. Calls [end] with the outcome. */
    private fun Response.guarded(attempt: Attempt? = null, end: (outcome: Long) -> Unit): Response {
        streaming = true
        val meter = attempt?.let { Meter.of(core, it, said.isPlain(header("Content-Encoding"))) }
        val bodyEnd = BodyEnd(watchdog::fired, core, { refusal(Verdict.DEADLINE, null, it) }, meter, watchdog::reads, ::isCancellation) { outcome ->
            watchdog.stop()
            end(outcome)
        }
        watchdog.afterwards { bodyEnd.late(null) }
        val guarded = if (attempt == null || !limits.watches) GuardedSource(body.source(), bodyEnd, meter) else watched(attempt, bodyEnd, meter)
        return newBuilder().body(guarded.buffer().asResponseBody(body.contentType(), body.contentLength())).build()
    }

    /** Body of a stream, of which silence and events that report a failure end the call. */
    private fun Response.watched(attempt: Attempt, end: BodyEnd, meter: Meter?): Source {
        val held = attempt.stream as Held?
        val pieces = held?.pieces ?: Pieces(limits, said.isPlain(header("Content-Encoding")))
        val silence = Silence(engine, pieces, limits.idle)
        val idle = limits.idle ?: return WatchedSource(body.source(), end, silence, meter, held?.bytes ?: 0)
        end.during {
            watchSilence(this@OkHttpRun, attempt.number, silence, idle, firstReport) { step ->
                if (!end.over(refusal(Verdict.of(Wire.verdict(step)), null, null))) return@watchSilence
                ended = true
                watchdog.stop()
                advance(Wire.finished(attempt.number, Wire.CANCELLED)) // until then the attempt holds its permit
                http.cancel()
            }
        }
        return WatchedSource(body.source(), end, silence, meter, held?.bytes ?: 0)
    }

    private fun Response.with(report: Report): Response =
        newBuilder().request(request.newBuilder().tag(Report::class.java, report).build()).build()

    /** Delivers a good response whose body is read under the call: slot and deadline last until then. */
    override fun body(): Response {
        val attempt = held()!!
        val response = attempt.value as Response
        if (limits.untilDelivery) watchdog.stop()
        for (place in slots.indices) if (slots[place]?.value !== response) slots[place] = null
        val made = response.guarded(attempt) { outcome ->
            ended = true
            advance(Wire.finished(attempts, outcome))
        }
        return if (attempts <= 1) made else made.with(success())
    }

    private fun least(set: Int, ms: Int): Int = if (set == 0) ms else minOf(set, ms)
}

/**
 * Request of a response. A client that is built on OkHttp copies responses, and keeps the request, of which each response with a report has
 * one of its own.
 */
private fun sharedPart(answer: Any): Any? = when {
    answer is Response -> answer.request
    answer.javaClass.name == "retrofit2.Response" -> with(Judged) { (answer.ask("raw") as? Response)?.request }
    else -> null
}

private const val SWITCHING_PROTOCOLS = 101
private const val GATEWAY_TIMEOUT = 504

/** Longest time that Okio's timer takes without an overflow, with a margin, in microseconds: a century. */
private const val MOST_WATCHED_US = 3_155_760_000_000_000L

/** Interval for asking an older OkHttp whether its call has been cancelled, in microseconds. */
private const val LOOK_US = 10_000L

private class Listening(private val run: OkHttpRun) : EventListener() {
    override fun canceled(call: Call) = run.wake()

    override fun connectionAcquired(call: Call, connection: Connection) {
        run.socket = if (connection.protocol() == Protocol.HTTP_1_1 || connection.protocol() == Protocol.HTTP_1_0) connection.socket() else null
    }
}

/** Ends a call when its deadline has passed. */
private class Watchdog(private val call: Call) : AsyncTimeout() {
    @Volatile var fired = false
    private var entered = false

    /** Whether there is a deadline. */
    val watches: Boolean get() = entered || fired

    fun start(nanos: Long) {
        if (nanos <= 0) return
        timeout(nanos, TimeUnit.NANOSECONDS)
        entered = true
        enter()
    }

    fun stop() {
        if (entered) exit()
        entered = false
    }

    private var returned = false
    private var read = false

    /** Notes that OkHttp gets the response. False if the deadline has passed, and has cancelled the call. */
    @Synchronized
    fun returns(): Boolean {
        returned = true
        return !fired
    }

    /** Notes that the response is read, so that OkHttp has handed it to its caller. */
    @Synchronized
    fun reads() {
        read = true
        if (fired) call.cancel()
    }

    @Synchronized
    private fun fires(): Boolean {
        fired = true
        return !returned || read
    }

    @Volatile private var last: (() -> Unit)? = null

    /** Sets the work to do at the timeout; runs it at once if the timeout has fired already. */
    fun afterwards(work: () -> Unit) {
        last = work
        if (fired) work()
    }

    override fun timedOut() {
        if (fires()) call.cancel()
        last?.invoke()
    }
}
