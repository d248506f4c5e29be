package dev.tidegate

import dev.tidegate.ffi.Header
import dev.tidegate.ffi.Invalid
import dev.tidegate.ffi.Value
import dev.tidegate.ffi.Weight
import dev.tidegate.internal.Judgement
import dev.tidegate.internal.Marks
import dev.tidegate.internal.StreamLimits
import dev.tidegate.internal.Wire
import java.util.concurrent.ConcurrentHashMap
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds

/** A policy as the engine knows it, for shells and adapters. It reads each setting from the engine once, and again after a change. */
internal class Core(val engine: Engine, val name: String, val number: UInt, code: PolicyCode, val isNamed: Boolean = true) {
    @Volatile var classify: Classify? = null
        private set

    @Volatile var onRetry: RetryListener? = null
        private set

    @Volatile var weigh: Weigh? = null
        private set

    @Volatile var used: Used? = null
        private set

    @Volatile var on: List<Class<out Throwable>> = ArrayList()
        private set

    init {
        adopt(code)
    }

    /** Takes the functions and types of this [code]; what it does not name stays. */
    fun adopt(code: PolicyCode) {
        code.classifier?.let { classify = it }
        code.listener?.let { onRetry = it }
        code.weigher?.let { weigh = it }
        code.used?.let { used = it }
        if (code.on.isNotEmpty()) on = ArrayList(code.on)
    }

    private class Known(val tunings: Int) {
        val settings = ConcurrentHashMap<String, Any>()
        val methods = ConcurrentHashMap<String, Boolean>()

        @Volatile var kinds: Map<String, Int>? = null

        @Volatile var countsWeights: Boolean? = null

        @Volatile var streams: StreamLimits? = null
    }

    @Volatile private var known = Known(engine.tunings)
    private val routes = ConcurrentHashMap<String, Long>()

    private fun known(): Known {
        val now = engine.tunings
        if (known.tunings != now) known = Known(now)
        return known
    }

    private fun setting(key: String): Any = known().settings.getOrPut(key) {
        when (val value = engine.native.engine.setting(number, key)) {
            is Value.Number -> value.value
            is Value.Word -> value.value
            null -> NOTHING
        }
    }

    fun word(key: String): String? = setting(key) as? String

    fun count(key: String): Int? = (setting(key) as? Double)?.toInt()

    fun span(key: String): Duration? = (setting(key) as? Double)?.microseconds

    fun flag(key: String): Boolean = setting(key) == 1.0

    /** Numbers of the kinds that `classify` may return, by name. */
    val kinds: Map<String, Int>
        get() = known().let { known ->
            known.kinds ?: (Outcome.classes + engine.native.engine.kinds(number).map { it.name })
                .withIndex().associate { it.value to it.index }.also { known.kinds = it }
        }

    /** Name of a class, or of a kind that the policy declares. */
    fun kindName(kind: Int): String = kinds.entries.firstOrNull { it.value == kind }?.key ?: ""

    /** Whether the policy may make another attempt although an earlier one may have been carried out. */
    fun mayDoTwice(): Boolean = engine.native.engine.mayDoTwice(number)

    /**
     * Whether a fallback replaces this error, if the caller has not selected the errors itself. The call's own judgement of the failure
     * decides; an error of a call that ended without one is judged here.
     */
    fun fallsBack(error: Throwable, judgement: Judgement, around: Scope?): Boolean {
        if (error is TidegateException && error !is AttemptTimeout) {
            return error.reason?.let { engine.native.engine.fallsBack(number, it.ordinal.toUByte(), null, false) } ?: false
        }
        judgement.kind?.let { return fallsBack(it, judgement.isOwn) }
        val judged = classify?.let { Outcomes.by(it, this, null, error, -1) } ?: -1
        val kind = Wire.kind(if (judged < 0) Outcomes.on(this, error, Outcomes.of(error, this) { Marks.peek(it, around) }) else judged)
        return fallsBack(kind, judged >= 0)
    }

    private fun fallsBack(kind: Int, isOwn: Boolean): Boolean =
        engine.native.engine.fallsBack(number, Verdict.ATTEMPTS.ordinal.toUByte(), kind.toUByte(), isOwn)

    /** Class of a kind; for a kind that the policy declares, the class that it is based on. */
    fun classOf(kind: Int): Int {
        if (kind < Outcome.classes.size) return kind
        val declared = engine.native.engine.kinds(number).getOrNull(kind - Outcome.classes.size)
        return Outcome.classes.indexOf(declared?.base).takeIf { it >= 0 } ?: Wire.kind(Wire.PERMANENT)
    }

    fun retriesMethod(method: String): Boolean =
        known().methods.getOrPut(method) { engine.native.engine.retriesMethod(number, method) }

    /** Outcome of an HTTP response, at its bit position in an event word. */
    fun classify(status: Int, headers: Iterable<Pair<String, String>>): Long {
        val text = StringBuilder()
        for ((name, value) in headers) {
            if (NUL !in name && NUL !in value) text.append(name).append(NUL).append(value).append(NUL)
        }
        val native = engine.native
        val wall = System.currentTimeMillis() * 1000
        return native.classify(native.handle, number.toInt(), status, text.toString().encodeToByteArray(), wall)
    }

    /** Whether the beginning of a failed response's body is read before the response is judged. */
    val readsErrors: Boolean get() = flag("retry.read_errors")

    /** Outcome of a failed HTTP response of whose body the [beginning] was read, at its bit position in an event word. */
    fun classifyRead(status: Int, headers: Iterable<Pair<String, String>>, beginning: ByteArray): Long {
        val fields = headers.map { (name, value) -> Header(name, value) }
        val wall = System.currentTimeMillis().toULong() * 1000uL
        return engine.native.engine.classifyRead(number, status.toUShort(), fields, beginning, wall).toLong()
    }

    /** Whether limits of the policy learn from what answers say is left of the service's quotas. */
    val learns: Boolean get() = word("rate_limit.learn") == "down"

    /** Whether limits of the policy count weights. */
    val countsWeights: Boolean
        get() = known().let { known -> known.countsWeights ?: engine.native.engine.countsWeights(number).also { known.countsWeights = it } }

    /** Whether what answers have used is read from their bodies. */
    val meters: Boolean get() = used != null && countsWeights

    /** Timeouts of streams that the policy has. */
    val streams: StreamLimits
        get() = known().let { known -> known.streams ?: StreamLimits(this).also { known.streams = it } }

    /** Begins a call with weights and returns what [dev.tidegate.internal.Native.begin] returns. */
    fun beginWeighted(route: Long, flags: Long, limit: Long, parent: Long, path: Long, weights: Map<String, Long>, out: LongArray): Long {
        val amounts = weights.map { (name, amount) -> Weight(name, amount.toULong()) }
        val begun = try {
            engine.native.engine.beginWeighted(
                route.toULong(), flags.toUInt(), limit.toULong(), parent.toULong(), path.toULong(), amounts, engine.moment.toULong(),
            )
        } catch (invalid: Invalid.Argument) {
            throw IllegalArgumentException(invalid.reason, invalid)
        }
        val step = checkNotNull(begun).step.toLong()
        if (step == Wire.FIRST) return begun.call.toLong()
        out[0] = step
        return begun.call.toLong().inv()
    }

    /** Throws the error of a call without weights that was refused because a limit needs one. */
    fun requireNoWeights(route: Long, step: Long) {
        if (Wire.action(step) != Wire.DONE || Wire.verdict(step) != Verdict.COST_ABOVE_BURST.ordinal) return
        try {
            engine.native.engine.checkUnweighted(route.toULong())
        } catch (invalid: Invalid.Argument) {
            engine.after(step)
            throw IllegalArgumentException(invalid.reason, invalid)
        }
    }

    /** Route of a key. It is cached until the engine has evicted it ([forget]). */
    fun route(key: String): Long {
        routes[key]?.let { return it }
        if (routes.size >= MOST_ROUTES) routes.clear()
        return engine.native.engine.route(number, key, engine.now().toULong()).toLong().also { routes[key] = it }
    }

    /** Drops a route that the engine has evicted. */
    fun forget(key: String) {
        routes.remove(key)
    }

    fun target(route: Long, path: String): Long =
        engine.native.engine.target(route.toULong(), path, engine.now().toULong()).toLong()

    /** Error of a call that has no result of its own. */
    fun refusal(verdict: Verdict, route: String, retryIn: Duration?, cause: Throwable?, call: Long = 0): TidegateException =
        verdict.error(Refused(verdict, this, route, retryIn, cause, call))

    fun attemptTimeout(route: String, cause: Throwable? = null): AttemptTimeout {
        val where = "policy \"$name\", route ${quoted(route)}"
        return AttemptTimeout(Details("the attempt ran out of attemptTimeout ($where)", cause, null, null, name, route))
    }

    private companion object {
        const val MOST_ROUTES = 10_000

        /** Ends each text of the headers that cross to the engine. No header may contain it. */
        const val NUL = '\u0000'
        val NOTHING = Any()
    }
}
