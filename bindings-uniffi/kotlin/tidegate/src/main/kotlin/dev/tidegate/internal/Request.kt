package dev.tidegate.internal

import dev.tidegate.CallOptions
import dev.tidegate.Core
import dev.tidegate.RequestOptions
import dev.tidegate.Scope
import java.util.UUID
import kotlin.time.Duration

/** What the adapters for HTTP share: what a request says of itself, judged before its first attempt. */
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

    /** An idempotency key of our making, the same on each attempt. */
    val key: String?

    /** Does the call last until the body has been read? */
    val untilBody: Boolean = core.word("slot_until") != "headers"
    private val path = if (core.flag("retry.hold")) path() else null
    private val idempotent: Boolean
    private val replayable = options.replayable ?: (replayable || options.bodyFactory != null)

    init {
        val known = options.idempotent ?: (core.retriesMethod(method) || hasKey)
        key = if (!known && options.idempotent == null && makeKey) UUID.randomUUID().toString() else null
        idempotent = known || key != null
    }

    /** The body of a repeat, where the request says how it is made. */
    fun body(): Any? = options.bodyFactory?.make()

    /** Time left of the earliest deadline; null where there is none. */
    fun left(around: Scope?): Duration? = listOfNotNull(core.span("deadline"), options.deadline, around?.left()).minOrNull()

    fun inheriting(more: Long): Inheriting {
        val call = CallOptions(route, idempotent, replayable, options.criticality, options.deadline, options.cost)
        val flags = call.flags or more or (if (untilBody) Wire.SLOT_UNTIL_BODY else 0)
        return Inheriting(core, route, flags, Wire.remaining(options.deadline), options.criticality != null, path)
    }

    companion object {
        /** What is read of a failed answer at most, in bytes; its connection is kept then. */
        const val DRAIN_BYTES = 64L * 1024

        /** Milliseconds that it may take. */
        const val DRAIN_MS = 250L

        const val RETRY_HEADER = "Retry-Attempt"
        const val KEY_HEADER = "Idempotency-Key"
    }
}
