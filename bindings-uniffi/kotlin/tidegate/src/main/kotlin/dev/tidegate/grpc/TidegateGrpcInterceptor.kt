@file:JvmName("TidegateGrpc")

package dev.tidegate.grpc

import dev.tidegate.Attempt
import dev.tidegate.CallLost
import dev.tidegate.Caller
import dev.tidegate.CostAboveBurst
import dev.tidegate.Policy
import dev.tidegate.Scope
import dev.tidegate.TidegateException
import dev.tidegate.internal.Anywhere
import dev.tidegate.internal.Inheriting
import dev.tidegate.internal.Judged
import dev.tidegate.internal.Marks
import dev.tidegate.internal.StreamLimits
import dev.tidegate.internal.SuspendingRun
import dev.tidegate.internal.Wire
import io.grpc.CallOptions
import io.grpc.Channel
import io.grpc.ClientCall
import io.grpc.ClientInterceptor
import io.grpc.Context
import io.grpc.Contexts
import io.grpc.Deadline
import io.grpc.Metadata
import io.grpc.MethodDescriptor
import io.grpc.Status
import io.grpc.StatusException
import io.grpc.StatusRuntimeException
import kotlinx.coroutines.CancellableContinuation
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Job
import kotlinx.coroutines.launch
import kotlinx.coroutines.suspendCancellableCoroutine
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicBoolean
import kotlin.coroutines.CoroutineContext
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException
import kotlin.time.Duration.Companion.nanoseconds

/**
 * Interceptor that puts the unary calls of a gRPC channel or stub under a policy. Streaming calls pass through it unchanged.
 *
 * - The status decides about a repeat: `UNAVAILABLE` is retryable, `INVALID_ARGUMENT` is not (`docs/errors.md` lists all codes).
 *   `grpc-retry-pushback-ms` in the trailers says when to retry, or not to. Repeats carry `grpc-previous-rpc-attempts`.
 * - The deadline of a stub (`withDeadlineAfter`) is that of the whole call. Each attempt has its share of it as its own deadline.
 * - Cancelling the `Context` of the code that makes a call ends the call at once, also while it waits for a retry.
 * - A call that is refused or stopped ends with a status (`RESOURCE_EXHAUSTED`, `DEADLINE_EXCEEDED`, `UNAVAILABLE` …), whose cause is
 *   Tidegate's exception. The report of a failed call is that of its exception: `error.report`.
 *
 * Calls count as harmless to repeat. For others pass `policy.at(CallOptions(idempotent = false))`, for a whole stub or, as the option [CALLER],
 * for single calls.
 *
 * ```kotlin
 * val channel = NettyChannelBuilder.forTarget(target).intercept(orders.grpcInterceptor()).build()
 * ```
 *
 * @param caller Policy of the calls, or a caller of it with a route and other options.
 * @param context Where the calls run that the interceptor makes; in tests a test dispatcher.
 */
public class TidegateGrpcInterceptor @JvmOverloads constructor(
    private val caller: Caller,
    private val context: CoroutineContext = Anywhere,
) : ClientInterceptor {
    override fun <Q : Any?, A : Any?> interceptCall(method: MethodDescriptor<Q, A>, options: CallOptions, next: Channel): ClientCall<Q, A> {
        if (method.type != MethodDescriptor.MethodType.UNARY) return next.newCall(method, options)
        Marks.share(::inner)
        StreamLimits.refuse((options.getOption(CALLER) ?: caller).core, "the interceptor for gRPC")
        return UnaryCall(options.getOption(CALLER) ?: caller, Exchange(method, options, next), context)
    }
}

/** Interceptor with this policy; see [TidegateGrpcInterceptor]. */
public fun Caller.grpcInterceptor(): TidegateGrpcInterceptor = TidegateGrpcInterceptor(this)

/** Option of a single call: another policy, or a caller with a route of its own, `stub.withOption(CALLER, policy.at("eu"))`. */
@JvmField
public val CALLER: CallOptions.Key<Caller> = CallOptions.Key.create("dev.tidegate.caller")

private val BEFORE = Metadata.Key.of("grpc-previous-rpc-attempts", Metadata.ASCII_STRING_MARSHALLER)
private const val PUSHBACK_NAME = "grpc-retry-pushback-ms"
private val PUSHBACK = Metadata.Key.of(PUSHBACK_NAME, Metadata.ASCII_STRING_MARSHALLER)

/** Exception of the call inside the one that a stub makes of its status. */
private fun inner(error: Any): Any? =
    (error as? StatusRuntimeException ?: error as? StatusException)?.cause as? StatusRuntimeException

/** Status of one of Tidegate's own errors. */
private fun status(error: TidegateException): Status {
    val status = when {
        error.httpStatus == 429 -> Status.RESOURCE_EXHAUSTED
        error.httpStatus == 504 -> Status.DEADLINE_EXCEEDED
        error is CostAboveBurst -> Status.FAILED_PRECONDITION
        error is CallLost -> Status.INTERNAL
        else -> Status.UNAVAILABLE
    }
    return status.withDescription(error.message).withCause(error)
}

/** Time by which the deadline of an attempt is later than the policy's, in microseconds. */
private const val LATER_US = 100_000L

private class Exchange<Q, A>(val method: MethodDescriptor<Q, A>, val options: CallOptions, val next: Channel) {
    /** gRPC's context of the code that makes the call, which each attempt needs: it has a deadline, and what other interceptors look up. */
    val context: Context = Context.current()
}

/** What a unary call sends. */
private class Question<Q>(val headers: Metadata, val message: Q, val compression: Boolean?)

/** What came of it. */
private class Answer<A>(val headers: Metadata?, val message: A, val trailers: Metadata)

/** A call that is made once its whole question is there. */
private class UnaryCall<Q, A>(private val caller: Caller, private val exchange: Exchange<Q, A>, private val context: CoroutineContext) :
    ClientCall<Q, A>() {
    private val around = Scope.current()
    private val ended = AtomicBoolean()
    private var listener: Listener<A>? = null
    private var headers = Metadata()
    private var message: Q? = null
    private var compression: Boolean? = null

    @Volatile private var job: Job? = null

    /** Ends the call with the context of the code that makes it. The deadline of that context is the policy's to notice. */
    private val cancellation = Context.CancellationListener { context ->
        if (context.cancellationCause() !is TimeoutException || context.deadline?.isExpired != true) {
            end(Contexts.statusFromCancelled(context) ?: Status.CANCELLED, Metadata())
            job?.cancel()
        }
    }

    override fun start(listener: Listener<A>, headers: Metadata) {
        this.listener = listener
        this.headers = headers
        exchange.context.addListener(cancellation, Runnable::run)
        if (ended.get()) exchange.context.removeListener(cancellation)
    }

    /** The answer has one message, which is passed on when it is there. */
    override fun request(count: Int) = Unit

    override fun setMessageCompression(enabled: Boolean) {
        compression = enabled
    }

    override fun sendMessage(message: Q) {
        this.message = message
    }

    override fun halfClose() {
        if (ended.get()) return
        @Suppress("UNCHECKED_CAST") // a unary call has sent its message
        val run = GrpcRun(caller, around, exchange, Question(headers, message as Q, compression))
        // Undispatched, because the thread may be that of another call's listener, which waits for this call.
        job = CoroutineScope(around?.let { context + it } ?: context).launch(start = CoroutineStart.UNDISPATCHED) {
            try {
                val answer = run.send()
                end(Status.OK, answer.trailers) { listener ->
                    answer.headers?.let(listener::onHeaders)
                    listener.onMessage(answer.message)
                }
            } catch (error: StatusRuntimeException) {
                end(error.status.withCause(error), error.trailers ?: Metadata())
            } catch (error: TidegateException) {
                end(status(error), Metadata())
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                end(Status.fromThrowable(error), Metadata())
            }
        }
        if (ended.get()) job?.cancel()
    }

    override fun cancel(message: String?, cause: Throwable?) {
        end(Status.CANCELLED.withDescription(message).withCause(cause), Metadata())
        job?.cancel()
    }

    /** Tells the listener once, on the executor of the call: a blocking stub waits for work there. */
    private fun end(status: Status, trailers: Metadata, before: (Listener<A>) -> Unit = { }) {
        if (!ended.compareAndSet(false, true)) return
        exchange.context.removeListener(cancellation)
        val listener = listener ?: return
        val told = exchange.context.wrap {
            try {
                before(listener)
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                // As in gRPC's own calls: a listener that has failed hears that the call has ended.
                return@wrap listener.onClose(Status.CANCELLED.withDescription("Failed to read message.").withCause(error), Metadata())
            }
            listener.onClose(status, trailers)
        }
        exchange.options.executor?.execute(told) ?: Scope.here().busy { told.run() }
    }
}

/** One call. */
private class GrpcRun<Q, A>(
    private val caller: Caller,
    around: Scope?,
    private val exchange: Exchange<Q, A>,
    private val question: Question<Q>,
) : SuspendingRun<Answer<A>>(caller.core, caller.options.route, around, caller.options.onRetry) {
    suspend fun send(): Answer<A> {
        val given = listOfNotNull(exchange.options.deadline, exchange.context.deadline).map { it.timeRemaining(TimeUnit.NANOSECONDS).nanoseconds }
        val limit = Wire.remaining((given + listOfNotNull(caller.options.deadline)).minOrNull())
        val (id, step) = Inheriting(core, route, caller.options.flags, limit, caller.options.criticality != null, weights = caller.options.weights)
            .begin(around)
        return begin(id, step)
    }

    override suspend fun start(attempt: Attempt): Any = suspendCancellableCoroutine { waiting ->
        val before = exchange.context.attach() // a further attempt begins on a thread of another context
        try {
            Scope.here().busy { send(attempt, waiting) }
        } finally {
            exchange.context.detach(before)
        }
    }

    private fun send(attempt: Attempt, waiting: CancellableContinuation<Any>) {
        val call = exchange.next.newCall(exchange.method, options(attempt))
        waiting.invokeOnCancellation { call.cancel("the attempt was stopped", it) }
        val headers = Metadata().also { it.merge(question.headers) }
        if (attempt.number > 1) headers.put(BEFORE, "${attempt.number - 1}")
        try {
            call.start(Attempted(waiting), headers)
            question.compression?.let(call::setMessageCompression)
            call.request(2) // a second message would be an error
            call.sendMessage(question.message)
            call.halfClose()
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            call.cancel("the request could not be sent", error)
            throw error
        }
    }

    /** Options of an attempt. Its deadline is later than the policy's, so that the policy stops it first and names the reason. */
    private fun options(attempt: Attempt): CallOptions {
        val time = attempt.time ?: return exchange.options
        val end = Deadline.after(time.inWholeMicroseconds + LATER_US, TimeUnit.MICROSECONDS)
        return exchange.options.withDeadline(exchange.options.deadline?.minimum(end) ?: end)
    }

    override fun known(error: Throwable): Long {
        val failed = error as? StatusRuntimeException ?: return super.known(error)
        // Of a call of an interceptor inside this one: its refusal, or a judgement that it has left (semantics 1.4.5, 1.6.3, 1.6.4).
        if (failed.cause is TidegateException || Marks.has(failed, engine, call)) return super.known(error)
        val pushback = failed.trailers?.get(PUSHBACK)?.let { listOf(PUSHBACK_NAME to it) }.orEmpty()
        return Judged.grpc(failed.status.code.value(), pushback, failed, core) ?: super.known(error)
    }
}

/** Collects the answer of an attempt. */
private class Attempted<A>(private val waiting: CancellableContinuation<Any>) : ClientCall.Listener<A>() {
    private var headers: Metadata? = null
    private var message: A? = null

    override fun onHeaders(headers: Metadata) {
        this.headers = headers
    }

    override fun onMessage(message: A) {
        this.message = message
    }

    override fun onClose(status: Status, trailers: Metadata) {
        if (!waiting.isActive) return
        if (status.isOk) waiting.resume(Answer(headers, message, trailers)) else waiting.resumeWithException(StatusRuntimeException(status, trailers))
    }
}
