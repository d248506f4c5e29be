package dev.tidegate.internal

import dev.tidegate.Begun
import dev.tidegate.Core
import dev.tidegate.Inherited
import dev.tidegate.Scope
import dev.tidegate.Verdict

/** The beginning of a call: what it says of itself, and what it inherits. */
internal class Inheriting(
    private val core: Core,
    private val route: String,
    private val flags: Long,
    private val limit: Long,
    private val ownCriticality: Boolean,
    private val path: String? = null,
) {
    fun begin(around: Scope?): Begun {
        val inherited = Inherited.of(around, core.engine)
        var flags = flags
        var limit = limit
        if (inherited != null) {
            if (inherited.limit != 0L) limit = if (limit == 0L) inherited.limit else minOf(limit, inherited.limit)
            val criticality = inherited.criticality
            if (criticality != null && !ownCriticality) flags = (flags and 3L.inv()) or criticality.ordinal.toLong()
        }
        val native = core.engine.native
        val out = LongArray(1)
        while (true) {
            val id = core.route(route)
            val target = if (path == null) 0L else core.target(id, path)
            val begun = native.begin(
                native.handle, id, flags, limit, inherited?.parent ?: 0, target, core.engine.now(), out,
            )
            if (begun >= 0) return Begun(begun, Wire.FIRST)
            val step = out[0]
            // A route that has been evicted is asked for again.
            if (Wire.action(step) == Wire.DONE && Wire.verdict(step) == Verdict.STALE_ROUTE.ordinal) {
                core.forget(route)
                continue
            }
            return Begun(begun.inv(), step)
        }
    }
}
