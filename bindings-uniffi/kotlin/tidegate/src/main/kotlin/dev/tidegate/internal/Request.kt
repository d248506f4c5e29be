package dev.tidegate.internal

import dev.tidegate.Attempt
import dev.tidegate.CallOptions
import dev.tidegate.Core
import dev.tidegate.Outcomes
import dev.tidegate.Report
import dev.tidegate.RequestOptions
import dev.tidegate.Scope
import dev.tidegate.Verdict
import java.util.UUID

/** Common part of the HTTP adapters: the options of a request, judged before its first attempt. */
internal class Request(
    val core: Core,
    private val options: RequestOptions,
    method: String,
    hasKey: Boolean,
    makeKey: Boolean,
    replayable: Boolean,
    origin: String,
    private val path: () -> String,
    sdkRetries: String?,
    accepts: Iterable<String> = emptyList(),
    /** Bytes of the body: empty without one, null if they cannot be read beforehand. */
    private val bytes: () -> ByteArray? = { null },
) {
    val route: String = options.route ?: origin

    /** Generated idempotency key, the same on each attempt; null if the request needs none. */
    val key: String?

    /** Whether the call lasts until the body has been read. */
    val untilBody: Boolean = core.word("slot_until") != "headers"

    private val estimate by lazy(LazyThreadSafetyMode.NONE) { Estimates.of(path(), bytes()) }

    /** Whether the delivery of a good response waits for the first piece of its body that counts (semantics 7.7.2). */
    val isStream: Boolean = core.streams.firstByte && (options.stream ?: (StreamLimits.accepts(accepts) || method == "POST" && estimate?.stream == true))

    /** Addition to the note of a failed call whose SDK retries as well (semantics 15.8.7), by its [SDK_RETRIES_HEADER]. */
    val sdkNote: String? =
        if ((sdkRetries?.trim()?.toIntOrNull() ?: 0) > 0 && core.readsErrors) "the SDK retries too: set its maxRetries to 0" else null
    private val heldPath = if (core.flag("retry.hold")) path() else null
    private val weights = options.weights.ifEmpty { if (core.weigh == null) emptyMap() else Estimates.weights(core, estimate) }
    private val idempotent: Boolean
    private val replayable = options.replayable ?: (replayable || options.bodyFactory != null)

    init {
        val known = options.idempotent ?: (core.retriesMethod(method) || hasKey)
        key = if (!known && options.idempotent == null && makeKey) UUID.randomUUID().toString() else null
        idempotent = known || key != null
    }

    /** Body of a repeat, if the request has a factory for it. */
    fun body(): Any? = options.bodyFactory?.make()

    /** Whether the policy reads why a response of this status has failed. */
    fun reads(status: Int): Boolean = status >= 400 && core.readsErrors

    /** Whether the last response tells SDKs not to repeat the request. One that a surrounding call may repeat does not (semantics 1.6.1). */
    fun isLast(status: Int, report: Report): Boolean = reads(status) && report.reason != Verdict.NESTED

    /** Whether the body of a failed response can be read for that. A body in an [encoding] that the client has not decoded cannot. */
    fun reads(status: Int, encoding: String?): Boolean = reads(status) && isPlain(encoding)

    /** Whether a body with this content coding can be read as it is: it has none, or the client has decoded it. */
    fun isPlain(encoding: String?): Boolean = (encoding ?: "identity").trim().lowercase() in PLAIN

    /**
     * Outcome of the response of an attempt, by its status and the beginning of its body, and then by the policy's classifier. A judgement
     * that an adapter inside this one has left with the response goes before status and body (semantics 1.6.3).
     */
    fun judge(attempt: Attempt, response: Any, status: Int, headers: () -> Iterable<Pair<String, String>>): Long {
        if (core.learns) attempt.noteQuotas(headers())
        val known = attempt.left(response) ?: when {
            status < 400 -> Wire.OK
            core.readsErrors -> core.classifyRead(status, headers(), attempt.beginning)
            else -> core.classify(status, headers())
        }
        return core.classify?.let { Outcomes.by(it, core, response, null, known) } ?: known
    }

    /**
     * Time that the [call] has until its deadline, in microseconds; negative without one. The engine is asked only where there may be one:
     * of the policy, of the request, or of what is [around].
     */
    fun timeLeft(call: Long, around: Scope?): Long {
        val mayEnd = around != null || options.deadline != null || core.span("deadline") != null
        return if (mayEnd) core.engine.callTimeLeft(call) else -1
    }

    fun inheriting(more: Long): Inheriting {
        val call = CallOptions(route, idempotent, replayable, options.criticality, options.deadline, options.cost, weights = weights)
        val flags = call.flags or more or (if (untilBody) Wire.SLOT_UNTIL_BODY else 0) or (if (isStream) Wire.STREAM else 0)
        return Inheriting(core, route, flags, Wire.remaining(options.deadline), options.criticality != null, heldPath, weights)
    }

    companion object {
        /** Largest part of a failed response that is read to keep its connection, in bytes. */
        const val DRAIN_BYTES = 64L * 1024

        /** Longest time for that, in milliseconds. */
        const val DRAIN_MS = 250L

        const val RETRY_HEADER = "Retry-Attempt"
        const val KEY_HEADER = "Idempotency-Key"

        /** Header in which SDKs of language models say how often they have repeated a request. */
        const val SDK_RETRIES_HEADER = "x-stainless-retry-count"

        /** Header by which a response tells those SDKs not to repeat the request: its value is `false`. */
        const val SHOULD_RETRY_HEADER = "x-should-retry"

        private val PLAIN = setOf("", "identity")
    }
}
