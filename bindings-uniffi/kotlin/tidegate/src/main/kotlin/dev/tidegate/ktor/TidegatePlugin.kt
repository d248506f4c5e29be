package dev.tidegate.ktor

import dev.tidegate.Attempt
import dev.tidegate.Outcomes
import dev.tidegate.Policy
import dev.tidegate.Report
import dev.tidegate.RequestOptions
import dev.tidegate.Scope
import dev.tidegate.TidegateDsl
import dev.tidegate.Verdict
import dev.tidegate.internal.Beginning
import dev.tidegate.internal.Estimates
import dev.tidegate.internal.Marks
import dev.tidegate.internal.Meter
import dev.tidegate.internal.Pieces
import dev.tidegate.internal.Request
import dev.tidegate.internal.Silence
import dev.tidegate.internal.SuspendingRun
import dev.tidegate.internal.Wire
import dev.tidegate.internal.watchSilence
import io.ktor.client.call.HttpClientCall
import io.ktor.client.call.replaceResponse
import io.ktor.client.call.save
import io.ktor.client.plugins.api.ClientPlugin
import io.ktor.client.plugins.api.Send
import io.ktor.client.plugins.api.createClientPlugin
import io.ktor.client.plugins.isSaved
import io.ktor.client.request.HttpRequestBuilder
import io.ktor.client.request.setBody
import io.ktor.client.request.takeFrom
import io.ktor.client.statement.HttpReceivePipeline
import io.ktor.client.statement.HttpResponse
import io.ktor.http.HttpHeaders
import io.ktor.http.HttpMethod
import io.ktor.http.HttpStatusCode
import io.ktor.http.content.ByteArrayContent
import io.ktor.http.content.OutgoingContent
import io.ktor.http.headers
import io.ktor.util.AttributeKey
import io.ktor.util.flattenEntries
import io.ktor.util.pipeline.PipelinePhase
import io.ktor.utils.io.ByteReadChannel
import io.ktor.utils.io.InternalAPI
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CompletableJob
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.InternalCoroutinesApi
import kotlinx.coroutines.Job
import kotlinx.coroutines.cancel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.isActive
import kotlinx.coroutines.job
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeoutOrNull
import java.util.concurrent.atomic.AtomicBoolean

/** Settings of the plugin. */
@TidegateDsl
public class TidegateConfig internal constructor() {
    /** Policy of the requests; a single request may name another. */
    public var policy: Policy? = null

    /** Whether repeats carry `Retry-Attempt: n`. */
    public var retryHeader: Boolean = true

    /** Whether every request that needs a key gets a generated `Idempotency-Key`, the same on each attempt. */
    public var idempotencyKey: Boolean = false
}

private val optionsKey = AttributeKey<RequestOptions>("TidegateOptions")
private val reportKey = AttributeKey<Report>("TidegateReport")
private val watchKey = AttributeKey<(HttpResponse) -> HttpResponse>("TidegateWatch")

/** Name of Ktor's attribute of requests whose bodies are not read into memory. */
private const val NOT_SAVED = "SkipSaveBody"

/** Sets the options of this request: `tidegate { copy(deadline = 3.seconds) }`. */
public fun HttpRequestBuilder.tidegate(options: RequestOptions.() -> RequestOptions) {
    attributes.put(optionsKey, (attributes.getOrNull(optionsKey) ?: RequestOptions()).options())
}

/** Report of the call that ended with this response; null if its first attempt succeeded. */
public val HttpResponse.report: Report? get() = call.attributes.getOrNull(reportKey)

/**
 * Plugin that puts Ktor's requests under a policy: `install(Tidegate) { policy = payments }`.
 *
 * Every attempt is a job of its own inside the caller's job, so cancelling is transparent, and an attempt can be stopped or hedged.
 * `expectSuccess` sees the last response, as without the plugin.
 *
 * ```kotlin
 * val client = HttpClient(CIO) { install(Tidegate) { policy = payments } }
 * ```
 */
public val Tidegate: ClientPlugin<TidegateConfig> = createClientPlugin("Tidegate", ::TidegateConfig) {
    val config = pluginConfig
    val policy = requireNotNull(config.policy) { "policy = null: the plugin Tidegate needs a policy" }
    // Before Ktor reads bodies into memory.
    val watching = PipelinePhase("Tidegate")
    client.receivePipeline.insertPhaseBefore(HttpReceivePipeline.Before, watching)
    client.receivePipeline.intercept(watching) { response ->
        response.call.attributes.getOrNull(watchKey)?.let { proceedWith(it(response)) }
    }
    on(Send) { request ->
        val options = request.attributes.getOrNull(optionsKey) ?: RequestOptions()
        val body = request.body
        val said = Request(
            (options.policy ?: policy).core,
            // A body that Ktor reads into memory is delivered as a whole, so its delivery is not its first piece.
            if (request.attributes.allKeys.any { it.name == NOT_SAVED }) options else options.copy(stream = false),
            request.method.value,
            hasKey = request.headers.contains(Request.KEY_HEADER),
            makeKey = config.idempotencyKey,
            replayable = isReplayable(body),
            origin = with(request.url.build()) { "${protocol.name}://$host:$port" },
            path = { request.url.build().encodedPathAndQuery },
            sdkRetries = request.headers[Request.SDK_RETRIES_HEADER],
            accepts = request.headers.getAll(HttpHeaders.Accept).orEmpty(),
            bytes = { bytesOf(body) },
        )
        val around = currentCoroutineContext()[Scope]
        KtorRun(said, around, request, options.retryHeader ?: config.retryHeader) { proceed(it) }.send()
    }
}

/**
 * Whether this body can be sent a second time as it is. Bytes, texts and forms can. A body that is read from a channel can if each reading
 * opens the channel again, which is known only of files.
 */
private fun isReplayable(body: Any): Boolean = when (body) {
    is OutgoingContent.ByteArrayContent, is OutgoingContent.NoContent -> true
    is OutgoingContent.ContentWrapper -> isReplayable(body.delegate())
    is OutgoingContent -> body.javaClass.name == "io.ktor.http.content.LocalFileContent" // in Ktor's server half
    else -> false
}

/** Bytes of a body: empty without one; null if it is not in memory, or large. */
private fun bytesOf(body: Any): ByteArray? = when (body) {
    is OutgoingContent.ByteArrayContent -> if ((body.contentLength ?: 0) > Estimates.MOST_BYTES) null else body.bytes()
    is OutgoingContent.NoContent -> ByteArray(0)
    is OutgoingContent.ContentWrapper -> bytesOf(body.delegate())
    else -> null
}

/** Turns a factory's result into a body, with the headers of the body that it replaces. */
private fun content(made: Any, of: OutgoingContent?): OutgoingContent = when (made) {
    is OutgoingContent -> made
    is ByteArray -> ByteArrayContent(made, of?.contentType)
    is String -> ByteArrayContent(made.encodeToByteArray(), of?.contentType)
    is ByteReadChannel -> object : OutgoingContent.ReadChannelContent() {
        override val contentType get() = of?.contentType
        override val contentLength get() = of?.contentLength

        override fun readFrom() = made
    }
    else -> throw IllegalArgumentException(
        "bodyFactory = ${made.javaClass.name}: must make an OutgoingContent, a ByteReadChannel, bytes or a text",
    )
}

/** Attributes of a call. Ktor saves a call into another object, and keeps these. */
private fun sharedPart(answer: Any): Any? = when (answer) {
    is HttpClientCall -> answer.attributes
    is HttpResponse -> answer.call.attributes
    else -> null
}

/** One request. */
private class KtorRun(
    private val said: Request,
    around: Scope?,
    private val request: HttpRequestBuilder,
    private val retryHeader: Boolean,
    private val proceed: suspend (HttpRequestBuilder) -> HttpClientCall,
) : SuspendingRun<HttpClientCall>(said.core, said.route, around) {
    @Volatile private var releasing: Job? = null

    /** Why the request has ended before the call: a timeout of Ktor's that was installed before the plugin, for instance. */
    @Volatile private var over: Throwable? = null

    /** Deadline, in microseconds on the engine's clock. */
    private var until = Long.MAX_VALUE

    /** Timeouts of streams. */
    private val limits = core.streams

    suspend fun send(): HttpClientCall {
        Marks.share(::sharedPart)
        val (id, step) = said.inheriting(0).begin(around)
        said.timeLeft(id, around).let { if (it >= 0) until = engine.now() + it }
        request.executionContext.invokeOnCompletion { cause ->
            over = cause?.let(::reason)
            wake()
        }
        return begin(id, step)
    }

    override fun cancelled(): Throwable? = over

    override suspend fun start(attempt: Attempt): Any {
        releasing?.join()
        val made = HttpRequestBuilder().takeFrom(request)
        // A job of its own, as in a new builder: stopping this attempt must not stop the request.
        val own = made.executionContext
        request.executionContext.invokeOnCompletion { cause ->
            if (cause == null) (own as CompletableJob).complete() else own.cancel(CancellationException("the request has ended", cause))
        }
        if (attempt.number > 1) said.body()?.let { made.setBody(content(it, request.body as? OutgoingContent)) }
        said.key?.let { made.headers[Request.KEY_HEADER] = it }
        if (attempt.number > 1 && retryHeader) made.headers[Request.RETRY_HEADER] = (attempt.number - 1).toString()
        if (limits.watches || said.isStream || core.meters) made.attributes.put(watchKey) { watched(it, attempt) } else made.attributes.remove(watchKey)
        try {
            val call = begun(proceed(made), attempt)
            if (said.isStream) hold(call.response, attempt)
            return call
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            own.cancel()
            throw if (currentCoroutineContext().isActive) reason(error) else error
        }
    }

    /** The response with a body that is watched. */
    @OptIn(InternalAPI::class)
    private fun watched(response: HttpResponse, attempt: Attempt): HttpResponse {
        if (response.status == HttpStatusCode.SwitchingProtocols) return response
        val pieces = Pieces(limits, said.isPlain(response.headers[HttpHeaders.ContentEncoding]))
        val meter = Meter.of(core, attempt, said.isPlain(response.headers[HttpHeaders.ContentEncoding]))
        val body = WatchedChannel(response.rawContent, pieces, Silence(engine, pieces, limits.idle), meter)
        attempt.stream = body
        return response.call.replaceResponse { body }.response
    }

    /** Reads the body of a good response up to its first piece that counts. */
    private suspend fun hold(response: HttpResponse, attempt: Attempt) {
        val body = attempt.stream as? WatchedChannel ?: return
        val outcome = said.judge(attempt, response, response.status.value) { response.headers.flattenEntries() }
        attempt.judged = outcome
        if (outcome != Wire.OK) return
        try {
            attempt.judged = body.hold()
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            attempt.broke = currentCoroutineContext().isActive
            throw error
        }
    }

    /** Silence of the attempt whose body Ktor reads into memory: before the delivery, it ends the attempt (semantics 7.7.10). */
    override fun silence(attempt: Attempt): Silence? = if (limits.idle == null || said.isStream) null else (attempt.stream as? WatchedChannel)?.silence

    /** Reads the beginning of a failed response's body, if the policy reads errors. The caller gets the body from its beginning. */
    @OptIn(InternalAPI::class)
    private suspend fun begun(call: HttpClientCall, attempt: Attempt): HttpClientCall {
        val response = call.response
        if (!said.reads(response.status.value, response.headers[HttpHeaders.ContentEncoding])) return call
        val isSaved = response.isSaved // then each reader has a channel of its own
        val body = BegunChannel(response.rawContent)
        attempt.beginning = body.beginning(Beginning.time(attempt, engine))
        return if (isSaved) call else call.replaceResponse { body }
    }

    /** Real cause of a cancellation. Ktor's own request timeout cancels the job, and Ktor reports the cause to its caller, too. */
    private fun reason(error: Throwable): Throwable =
        generateSequence(error) { (it as? CancellationException)?.cause }.take(10).firstOrNull { it !is CancellationException } ?: error

    override val sdkNote: String? get() = said.sdkNote

    override fun judge(attempt: Attempt): Long {
        val response = (attempt.result() as HttpClientCall? ?: return super.judge(attempt)).response
        val outcome = if (attempt.judged >= 0) attempt.judged else said.judge(attempt, response, response.status.value) { response.headers.flattenEntries() }
        return if (outcome == Wire.OK && said.untilBody && isOpen(response)) head else outcome
    }

    /**
     * Whether the body is still to be read. False if Ktor has read it into memory, or the connection has changed its protocol: such a
     * connection belongs to its user for as long as the user keeps it.
     */
    private fun isOpen(response: HttpResponse): Boolean =
        request.method != HttpMethod.Head && response.status != HttpStatusCode.SwitchingProtocols && !response.isSaved &&
            !response.call.javaClass.name.endsWith(".SavedHttpCall") && response.call.coroutineContext.job.isActive

    /** Reads a small failed response to its end, which keeps its connection; closes a large one. */
    override fun release(scope: CoroutineScope, attempt: Attempt) {
        val call = attempt.value as HttpClientCall
        if (!isOpen(call.response)) return
        releasing = scope.launch {
            val length = call.response.headers["Content-Length"]?.toLongOrNull() ?: 0
            val saved = if (length > Request.DRAIN_BYTES) null else withTimeoutOrNull(Request.DRAIN_MS) { call.save() }
            if (saved != null) attempt.value = saved
            call.cancel()
        }
    }

    override fun discard(value: Any?) {
        (value as? HttpClientCall)?.cancel()
    }

    override fun intact(value: Any?): Boolean =
        (value as HttpClientCall).let { it.coroutineContext.job.isActive || !isClosed(it) }

    private fun isClosed(call: HttpClientCall): Boolean = call.coroutineContext.job.isCancelled

    override fun deliver(value: Any?, report: () -> Report): HttpClientCall {
        val call = value as HttpClientCall
        val summary = report()
        if (attempts > 1 || summary.reason != Verdict.OK) call.attributes.put(reportKey, summary)
        outlive(call)
        if (until < Long.MAX_VALUE && said.untilBody && !limits.untilDelivery && isOpen(call.response)) {
            watch(call, null, maxOf(until - engine.now(), 0)) { }
        }
        return if (said.isLast(call.response.status.value, summary)) final(call) else call
    }

    /** Failed response that tells SDKs not to repeat the request. */
    @OptIn(InternalAPI::class)
    private fun final(call: HttpClientCall): HttpClientCall {
        val headers = headers {
            appendAll(call.response.headers)
            set(Request.SHOULD_RETRY_HEADER, "false")
        }
        return call.replaceResponse(headers) { rawContent }
    }

    /** Delivers a good response whose body is read under the call: slot and deadline last until its job has ended. */
    override fun body(attempt: Attempt, us: Long): HttpClientCall {
        val call = attempt.value as HttpClientCall
        if (attempts > 1) call.attributes.put(reportKey, success())
        outlive(call)
        watch(call, attempt, us) { outcome -> advance(Wire.finished(attempt.number, outcome)) }
        return call
    }

    /** Ends the request no earlier than its answer: what bounds the request, or closes its client, counts on that. */
    private fun outlive(call: HttpClientCall) {
        if (!isOpen(call.response)) return
        val answer = Job(request.executionContext)
        call.coroutineContext.job.invokeOnCompletion { answer.complete() }
    }

    /** Limits the reading of the body to [us] microseconds (no limit if negative). Calls [end] once, with the outcome. */
    @OptIn(InternalCoroutinesApi::class, InternalAPI::class)
    private fun watch(call: HttpClientCall, attempt: Attempt?, us: Long, end: (outcome: Long) -> Unit) {
        val open = AtomicBoolean(true)
        val body = attempt?.stream as? WatchedChannel
        body?.onFailure = { outcome -> if (open.compareAndSet(true, false)) end(outcome) }
        val idle = limits.idle
        // Not a child of the call's job, because that job would wait for it.
        val scope = CoroutineScope(call.coroutineContext.minusKey(Job))
        val late = when {
            us < 0 -> null
            body != null && idle != null -> scope.launch {
                watchSilence(this@KtorRun, attempt.number, body.silence, idle, us) { step ->
                    if (!open.compareAndSet(true, false)) return@watchSilence
                    advance(Wire.finished(attempt.number, Wire.CANCELLED)) // until then the attempt holds its permit
                    val error = refusal(Verdict.of(Wire.verdict(step)), null, null)
                    body.fail(error)
                    call.cancel(CancellationException(error.message, error))
                }
            }
            else -> scope.launch {
                delay((us + 999) / 1000)
                if (open.compareAndSet(true, false)) {
                    end(Wire.TIMEOUT)
                    val error = refusal(Verdict.DEADLINE, null, null)
                    body?.fail(error)
                    call.cancel(CancellationException(error.message, error))
                }
            }
        }
        call.coroutineContext.job.invokeOnCompletion(onCancelling = true) { cause ->
            late?.cancel()
            // Ktor completes the job normally even if the body has failed on its way; the channel has the error.
            val failed = cause ?: call.response.rawContent.closedCause
            if (open.compareAndSet(true, false)) end(failed?.let { Outcomes.of(it, core) } ?: Wire.OK)
        }
    }
}
