package dev.tidegate.internal

import dev.tidegate.CallOptions
import dev.tidegate.Core
import dev.tidegate.Outcomes
import dev.tidegate.RequestOptions
import dev.tidegate.Scope
import java.util.UUID
import kotlin.time.Duration

/** Common part of the HTTP adapters: the options of a request, judged before its first attempt. */
internal class Request(
    val core: Core,
    private val options: RequestOptions,
    method: String,
    hasKey: Boolean,
    makeKey: Boolean,
    replayable: Boolean,
    origin: String,
    path: () -> String,
) {
    val route: String = options.route ?: origin

    /** Generated idempotency key, the same on each attempt; null if the request needs none. */
    val key: String?

    /** Whether the call lasts until the body has been read. */
    val untilBody: Boolean = core.word("slot_until") != "headers"
    private val path = if (core.flag("retry.hold")) path() else null
    private val idempotent: Boolean
    private val replayable = options.replayable ?: (replayable || options.bodyFactory != null)

    init {
        val known = options.idempotent ?: (core.retriesMethod(method) || hasKey)
        key = if (!known && options.idempotent == null && makeKey) UUID.randomUUID().toString() else null
        idempotent = known || key != null
    }

    /** Body of a repeat, if the request has a factory for it. */
    fun body(): Any? = options.bodyFactory?.make()

    /** Time left until the earliest deadline; null if there is none. */
    fun left(around: Scope?): Duration? = listOfNotNull(core.span("deadline"), options.deadline, around?.left()).minOrNull()

    /** Outcome of a response, by its status and then by the policy's classifier. */
    fun judge(response: Any, status: Int, headers: () -> Iterable<Pair<String, String>>): Long {
        val known = if (status >= 400) core.classify(status, headers()) else Wire.OK
        return core.classify?.let { Outcomes.by(it, core, response, null, known) } ?: known
    }

    fun inheriting(more: Long): Inheriting {
        val call = CallOptions(route, idempotent, replayable, options.criticality, options.deadline, options.cost)
        val flags = call.flags or more or (if (untilBody) Wire.SLOT_UNTIL_BODY else 0)
        return Inheriting(core, route, flags, Wire.remaining(options.deadline), options.criticality != null, path)
    }

    companion object {
        /** Largest part of a failed response that is read to keep its connection, in bytes. */
        const val DRAIN_BYTES = 64L * 1024

        /** Longest time for that, in milliseconds. */
        const val DRAIN_MS = 250L

        const val RETRY_HEADER = "Retry-Attempt"
        const val KEY_HEADER = "Idempotency-Key"
    }
}
