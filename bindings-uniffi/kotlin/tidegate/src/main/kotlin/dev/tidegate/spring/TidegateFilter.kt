package dev.tidegate.spring

import dev.tidegate.Attempt
import dev.tidegate.Opinion
import dev.tidegate.Policy
import dev.tidegate.Report
import dev.tidegate.RequestOptions
import dev.tidegate.Scope
import dev.tidegate.Verdict
import dev.tidegate.internal.Anywhere
import dev.tidegate.internal.Beginning
import dev.tidegate.internal.BodyEnd
import dev.tidegate.internal.Marks
import dev.tidegate.internal.Meter
import dev.tidegate.internal.Pieces
import dev.tidegate.internal.Request
import dev.tidegate.internal.Silence
import dev.tidegate.internal.StreamLimits
import dev.tidegate.internal.SuspendingRun
import dev.tidegate.internal.Wire
import dev.tidegate.internal.watchSilence
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.Job
import kotlinx.coroutines.isActive
import kotlinx.coroutines.launch
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withTimeoutOrNull
import org.reactivestreams.Publisher
import org.springframework.core.io.buffer.DataBuffer
import org.springframework.core.io.buffer.DataBufferUtils
import org.springframework.core.io.buffer.DefaultDataBufferFactory
import org.springframework.http.HttpHeaders
import org.springframework.http.HttpMethod
import org.springframework.http.client.reactive.ClientHttpRequest
import org.springframework.http.client.reactive.ClientHttpRequestDecorator
import org.springframework.web.reactive.function.BodyInserter
import org.springframework.web.reactive.function.BodyInserters
import org.springframework.web.reactive.function.client.ClientRequest
import org.springframework.web.reactive.function.client.ClientResponse
import org.springframework.web.reactive.function.client.ExchangeFilterFunction
import org.springframework.web.reactive.function.client.ExchangeFunction
import org.springframework.web.reactive.function.client.WebClientResponseException
import reactor.core.publisher.Flux
import reactor.core.publisher.Mono
import reactor.core.publisher.MonoSink
import reactor.core.publisher.Sinks
import reactor.util.context.ContextView
import java.io.IOException
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference
import kotlin.coroutines.CoroutineContext
import kotlin.coroutines.resumeWithException
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.toJavaDuration

/**
 * Filter that puts the requests of Spring's `WebClient` under a policy. Add it last, so that the others see one request.
 *
 * Cancelling the subscription cancels the call, and an attempt can be stopped or hedged. A body that is a stream (a `Flux`) is sent once,
 * unless the request's [RequestOptions] say that it is `replayable`, or have a `bodyFactory`. A request is taken for a stream
 * (`firstByteTimeout`) if it accepts `text/event-stream` or its options say so, because its body is not known before it is sent.
 *
 * ```kotlin
 * val client = WebClient.builder().filter(payments.webFilter()).build()
 * ```
 *
 * @param policy Policy of the requests; a request may name another by [RequestOptions], as its attribute [OPTIONS].
 * @param retryHeader Whether repeats carry `Retry-Attempt: n`.
 * @param idempotencyKey Whether every request that needs a key gets a generated `Idempotency-Key`, the same on each attempt.
 * @param context Where the calls run that the filter makes; in tests a test dispatcher.
 */
public class TidegateFilter @JvmOverloads constructor(
    private val policy: Policy,
    private val retryHeader: Boolean = true,
    private val idempotencyKey: Boolean = false,
    private val context: CoroutineContext = Anywhere,
) : ExchangeFilterFunction {
    override fun filter(request: ClientRequest, next: ExchangeFunction): Mono<ClientResponse> = Mono.defer {
        val undelivered = AtomicReference<ClientResponse>()
        Mono.create { sink -> begin(request, next, sink, undelivered) }.doOnNext { undelivered.set(null) }
    }

    /** Begins a call. [undelivered] holds its response until the subscriber has it. */
    private fun begin(request: ClientRequest, next: ExchangeFunction, sink: MonoSink<ClientResponse>, undelivered: AtomicReference<ClientResponse>) {
        Marks.share(::holder)
        val around = Scope.current()
        val options = request.attribute(OPTIONS).orElse(null) as RequestOptions? ?: RequestOptions()
        // Its body is written while it is sent, so it is not read beforehand.
        val said = springRequest(options, policy, request.method(), request.url(), request.headers(), idempotencyKey) { null }
        val run = WebRun(said, around, WebExchange(request, next, options, sink.contextView()), options.retryHeader ?: retryHeader)
        // Undispatched, because the thread may be that of another call's subscriber, which waits for this call.
        val job = CoroutineScope(around?.let { context + it } ?: context).launch(start = CoroutineStart.UNDISPATCHED) {
            try {
                val response = run.send()
                undelivered.set(response)
                Scope.here().busy { sink.success(response) }
                if (!isActive) run.discard(undelivered.getAndSet(null)) // Reactor drops a response that comes after a cancellation
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                if (isActive) Scope.here().busy { sink.error(error) } // nobody waits for it otherwise
            }
        }
        sink.onCancel {
            job.cancel()
            run.discard(undelivered.getAndSet(null))
        }
    }
}

/** Filter with this policy; see [TidegateFilter]. */
public fun Policy.webFilter(): TidegateFilter = TidegateFilter(this)

/** Report of the call that ended with this response; null if its first attempt succeeded. */
public val ClientResponse.report: Report? get() = request().report

/** Holder of a call's report, which all forms of its answer share. */
private fun holder(answer: Any): Any? = when (answer) {
    is ClientResponse -> answer.request().attributes[REPORT]
    is WebClientResponseException -> answer.request?.attributes?.get(REPORT)
    else -> null
}

private class WebExchange(
    val request: ClientRequest,
    val next: ExchangeFunction,
    val options: RequestOptions,
    /** Reactor's context of the subscriber, which filters inside and the body's publisher look up. */
    val context: ContextView,
) {
    /** Whether the request's user has not said if its body can be sent again. */
    val isUnsaid = options.replayable == null && options.bodyFactory == null
}

/** One request. */
private class WebRun(
    private val said: Request,
    around: Scope?,
    private val exchange: WebExchange,
    private val retryHeader: Boolean,
) : SuspendingRun<ClientResponse>(said.core, said.route, around) {
    private val reportHolder = AtomicReference<Report>()
    private val closed: MutableSet<Any> = ConcurrentHashMap.newKeySet()

    @Volatile private var releasing: Job? = null

    /** Whether the request's body was read from a stream, which may not have it a second time. */
    @Volatile private var streamed = false

    /** Deadline, in microseconds on the engine's clock. */
    private var until = Long.MAX_VALUE

    /** Timeouts of streams. */
    private val limits = core.streams

    suspend fun send(): ClientResponse {
        val (id, step) = said.inheriting(0).begin(around)
        said.timeLeft(id, around).let { if (it >= 0) until = engine.now() + it }
        return begin(id, step)
    }

    override suspend fun start(attempt: Attempt): Any {
        releasing?.join()
        val response = exchange.next.exchange(outgoing(attempt)).contextWrite(exchange.context).awaited(::discard)
        if (said.reads(response.statusCode().value(), encoding(response))) return begun(response, attempt)
        return if (said.isStream) held(response, attempt) else response
    }

    private fun encoding(response: ClientResponse) = response.headers().asHttpHeaders().getFirst(HttpHeaders.CONTENT_ENCODING)

    /** Reads the body of a good response up to its first piece that counts, the first failure that an event reports, the end, or 64 kB. */
    private suspend fun held(response: ClientResponse, attempt: Attempt): ClientResponse {
        val outcome = said.judge(attempt, response, response.statusCode().value()) { pairs(response.headers().asHttpHeaders()) }
        attempt.judged = outcome
        if (outcome != Wire.OK || response.statusCode().value() == SWITCHING_PROTOCOLS) return response
        val pieces = Pieces(limits, said.isPlain(encoding(response)))
        val body = BegunBody { piece, size -> pieces.counts(piece) || pieces.failure != Wire.OK || size >= StreamLimits.heldAtMost }
        response.bodyToFlux(DataBuffer::class.java).subscribe(body)
        try {
            body.hold()
        } catch (stopped: CancellationException) {
            body.cancel()
            throw stopped
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            attempt.broke = true
            throw error
        }
        attempt.stream = Held(pieces, body.size)
        if (pieces.failure != Wire.OK) attempt.judged = pieces.failure
        return response.mutate().body { body.whole() }.build()
    }

    /** Reads the beginning of a failed response's body. The caller gets the body from its beginning. */
    private suspend fun begun(response: ClientResponse, attempt: Attempt): ClientResponse {
        val body = BegunBody()
        response.bodyToFlux(DataBuffer::class.java).subscribe(body)
        try {
            attempt.beginning = body.beginning(Beginning.time(attempt, engine))
        } catch (stopped: CancellationException) {
            body.cancel()
            throw stopped
        }
        return response.mutate().body { body.whole() }.build()
    }

    private fun outgoing(attempt: Attempt): ClientRequest {
        val made = ClientRequest.from(exchange.request).attribute(REPORT, reportHolder)
        val again = if (attempt.number > 1) said.body() else null
        val body = inserter(again ?: exchange.request.body())
        made.body { message, context -> body.insert(Watched(message), context) }
        said.key?.let { key -> made.headers { it.set(Request.KEY_HEADER, key) } }
        if (attempt.number > 1 && retryHeader) made.headers { it.set(Request.RETRY_HEADER, (attempt.number - 1).toString()) }
        return made.build()
    }

    @Suppress("UNCHECKED_CAST") // what a WebClient sends takes any request of its own
    private fun inserter(made: Any): BodyInserter<*, ClientHttpRequest> {
        require(made is ByteArray || made is String || made is BodyInserter<*, *>) {
            "bodyFactory = ${made.javaClass.name}: must make a BodyInserter, bytes or a text"
        }
        return (made as? BodyInserter<*, *> ?: BodyInserters.fromValue(made)) as BodyInserter<*, ClientHttpRequest>
    }

    /** Notices whether a body is a value, which comes as a `Mono`, or a stream. */
    private inner class Watched(of: ClientHttpRequest) : ClientHttpRequestDecorator(of) {
        override fun writeWith(body: Publisher<out DataBuffer>): Mono<Void> {
            streamed = streamed || body !is Mono<*>
            return super.writeWith(body)
        }

        override fun writeAndFlushWith(body: Publisher<out Publisher<out DataBuffer>>): Mono<Void> {
            streamed = true
            return super.writeAndFlushWith(body)
        }
    }

    override val sdkNote: String? get() = said.sdkNote

    override fun judge(attempt: Attempt): Long {
        val response = attempt.result() as ClientResponse?
        val outcome = if (response == null) super.judge(attempt)
        else if (attempt.judged >= 0) attempt.judged
        else said.judge(attempt, response, response.statusCode().value()) { pairs(response.headers().asHttpHeaders()) }
        if (outcome == Wire.OK) return if (said.untilBody && hasBody(response!!)) head else outcome
        return if (streamed && exchange.isUnsaid) Wire.withOpinion(outcome, Opinion.DO_NOT.ordinal) else outcome
    }

    private fun hasBody(response: ClientResponse): Boolean =
        exchange.request.method() != HttpMethod.HEAD && response.headers().contentLength().orElse(-1) != 0L &&
            response.statusCode().value() !in setOf(SWITCHING_PROTOCOLS, 204, 304)

    /** Reads a small failed response to its end, which keeps its connection; closes a large one. */
    override fun release(scope: CoroutineScope, attempt: Attempt) {
        val response = attempt.value as ClientResponse
        closed += response
        releasing = scope.launch {
            val length = response.headers().contentLength().orElse(0)
            if (length > Request.DRAIN_BYTES) {
                discard(response)
                return@launch
            }
            val bytes = try {
                withTimeoutOrNull(Request.DRAIN_MS) { response.bodyToMono(ByteArray::class.java).defaultIfEmpty(ByteArray(0)).awaited { } }
            } catch (_: Exception) {
                null // the response has failed already; the next attempt shows whether that lasts
            }
            if (bytes != null) attempt.value = response.mutate().body { Flux.defer { Flux.just(DefaultDataBufferFactory.sharedInstance.wrap(bytes)) } }.build()
        }
    }

    /** Closes a response: a body that is cancelled closes its connection, where reading it could take without end. */
    public override fun discard(value: Any?) {
        (value as? ClientResponse)?.bodyToFlux(DataBuffer::class.java)?.subscribe(DataBufferUtils::release) { }?.dispose()
    }

    override fun intact(value: Any?): Boolean = value !in closed

    override fun deliver(value: Any?, report: () -> Report): ClientResponse {
        val own = report()
        val response = (value as ClientResponse).let { if (said.isLast(it.statusCode().value(), own)) final(it) else it }
        if (attempts > 1 || own.reason != Verdict.OK) reportHolder.set(own)
        val isTimed = until < Long.MAX_VALUE && !limits.untilDelivery
        return if (isTimed && said.untilBody && hasBody(response)) guarded(response, maxOf(until - engine.now(), 0)) { } else response
    }

    /** Failed response that tells SDKs not to repeat the request. */
    private fun final(response: ClientResponse) = response.mutate().headers { it.set(Request.SHOULD_RETRY_HEADER, "false") }.build()

    /** Delivers a good response whose body is read under the call: slot and deadline last until then. */
    override fun body(attempt: Attempt, us: Long): ClientResponse {
        if (attempts > 1) reportHolder.set(success())
        if (limits.untilDelivery) until = Long.MAX_VALUE
        return guarded(attempt.value as ClientResponse, us, attempt) { outcome -> advance(Wire.finished(attempt.number, outcome)) }
    }

    /** Limits the reading of the body to [us] microseconds (no limit if negative). Calls [end] once, with the outcome. */
    private fun guarded(response: ClientResponse, us: Long, attempt: Attempt? = null, end: (outcome: Long) -> Unit): ClientResponse {
        val meter = attempt?.let { Meter.of(core, it, said.isPlain(encoding(response))) }
        val bodyEnd = BodyEnd({ us >= 0 && engine.now() >= until }, core, { refusal(Verdict.DEADLINE, null, it) }, meter, end = end)
        val over = Sinks.empty<Any>()
        val isWatched = attempt != null && limits.watches
        val silence = if (isWatched || meter != null) watched(response, attempt!!, us, bodyEnd, over) else null
        if (us >= 0 && (!isWatched || limits.idle == null)) bodyEnd.at(us.microseconds)
        val held = attempt?.stream as Held?
        return response.mutate().body { body ->
            val watched = if (silence == null) body else body.watched(bodyEnd, silence, meter, held?.bytes ?: 0).takeUntilOther(over.asMono())
            val timed = if (us < 0 || isWatched && limits.idle != null) watched
            else watched.takeUntilOther(Mono.delay(us.microseconds.toJavaDuration()).flatMap { Mono.error<Any>(bodyEnd.late(null)) })
            timed.doOnComplete(bodyEnd::closed).doOnCancel(bodyEnd::closed)
                .onErrorMap { error -> if (error is IOException) bodyEnd.failed(error) else error.also { bodyEnd.failed(IOException(it)) } }
        }.build()
    }

    /** Silence of a body that is watched. Where it ends the call, the body ends by [over] with the error for its reader. */
    private fun watched(response: ClientResponse, attempt: Attempt, us: Long, end: BodyEnd, over: Sinks.Empty<Any>): Silence {
        val pieces = (attempt.stream as Held?)?.pieces ?: Pieces(limits, said.isPlain(encoding(response)))
        val silence = Silence(engine, pieces, limits.idle)
        val idle = limits.idle ?: return silence
        end.during {
            watchSilence(this, attempt.number, silence, idle, us) { step ->
                val error = refusal(Verdict.of(Wire.verdict(step)), null, null)
                if (!end.over(error)) return@watchSilence
                advance(Wire.finished(attempt.number, Wire.CANCELLED)) // until then the attempt holds its permit
                over.tryEmitError(error)
            }
        }
        return silence
    }
}

/** Body of a stream that was read up to its delivery: which of its pieces count, and the number of its first [bytes]. */
private class Held(val pieces: Pieces, val bytes: Int)

/** Waits for the value of a publisher. Calls [drop] with a value that comes after the caller was cancelled. */
@OptIn(ExperimentalCoroutinesApi::class)
private suspend fun <T : Any> Mono<T>.awaited(drop: (T) -> Unit): T = suspendCancellableCoroutine { caller ->
    val subscription = Scope.here().busy {
        subscribe(
            { value -> caller.resume(value) { _, late, _ -> drop(late) } },
            { error -> if (caller.isActive) caller.resumeWithException(error) },
            { if (caller.isActive) caller.resumeWithException(CancellationException("the exchange has ended without a response")) },
        )
    }
    caller.invokeOnCancellation { subscription.dispose() }
}
