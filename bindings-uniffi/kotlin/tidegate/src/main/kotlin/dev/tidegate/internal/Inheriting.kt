package dev.tidegate.internal

import dev.tidegate.Begun
import dev.tidegate.Core
import dev.tidegate.Inherited
import dev.tidegate.Scope
import dev.tidegate.Verdict
import java.util.Collections

/** Beginning of a call, with its own options and those that it inherits. */
internal class Inheriting(
    private val core: Core,
    private val route: String,
    private val flags: Long,
    private val limit: Long,
    private val ownCriticality: Boolean,
    private val path: String? = null,
    private val weights: Map<String, Long> = Collections.emptyMap(),
) {
    fun begin(around: Scope?): Begun {
        val out = LongArray(1)
        val begun = begin(around, out)
        return if (begun >= 0) Begun(begun, Wire.FIRST) else Begun(begun.inv(), out[0])
    }

    /** Begins the call and returns what [Native.begin] returns. */
    fun begin(around: Scope?, out: LongArray): Long {
        val inherited = Inherited.of(around, core.engine)
        var flags = flags
        var limit = limit
        if (inherited != null) {
            if (inherited.limit != 0L) limit = if (limit == 0L) inherited.limit else minOf(limit, inherited.limit)
            val criticality = inherited.criticality
            if (criticality != null && !ownCriticality) flags = (flags and 3L.inv()) or criticality.ordinal.toLong()
        }
        val native = core.engine.native
        while (true) {
            val id = core.route(route)
            val target = if (path == null) 0L else core.target(id, path)
            val parent = inherited?.parent ?: 0
            val begun = if (weights.isEmpty()) native.begin(native.handle, id, flags, limit, parent, target, core.engine.moment, out)
            else core.beginWeighted(id, flags, limit, parent, target, weights, out)
            if (begun >= 0 || !isStale(out[0])) return begun.also { if (it < 0 && weights.isEmpty()) core.requireNoWeights(id, out[0]) }
            core.forget(route)
        }
    }

    companion object {
        /** Whether the route was evicted and must be looked up again. */
        fun isStale(step: Long): Boolean =
            Wire.action(step) == Wire.DONE && Wire.verdict(step) == Verdict.STALE_ROUTE.ordinal
    }
}
