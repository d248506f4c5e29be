package dev.tidegate

import dev.tidegate.internal.BlockingRun
import dev.tidegate.internal.Inheriting
import dev.tidegate.internal.Marks
import dev.tidegate.internal.SuspendingRun
import dev.tidegate.internal.Table
import dev.tidegate.internal.Wire
import dev.tidegate.internal.isInterrupt
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.future.await
import kotlinx.coroutines.future.future
import kotlinx.coroutines.isActive
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.atomic.AtomicInteger
import kotlin.time.Duration
import kotlin.time.toKotlinDuration

/** What a policy is made of: its settings, and what is the host's. */
@TidegateDsl
public class PolicyOptions internal constructor(settings: Table) : PolicySettings(settings) {
    internal var classifier: Classify? = null
    internal val on = mutableListOf<Class<out Throwable>>()

    /** Errors of type [E] are repeated, whatever the rule for errors (`docs/errors.md`) says of them. */
    public inline fun <reified E : Throwable> retryOn(): Unit = retryOn(E::class.java)

    /** The same for Java. */
    public fun retryOn(type: Class<out Throwable>) {
        on += type
    }

    /** Told the result or the error of every attempt, says what it was. */
    public fun classify(classify: Classify) {
        classifier = classify
    }
}

/**
 * What calls say about themselves.
 *
 * @property route The key that state is kept under: an origin, an endpoint, a tenant.
 * @property idempotent Is a repeat harmless? If not, only what provably never left is tried again.
 * @property replayable Can the call be made a second time at all?
 * @property criticality How much it matters to a queue; that of what is around, else normal, where it is null.
 * @property deadline Time for the whole call; the earliest of this, the policy's and those around wins.
 * @property cost Tokens of a rate limit that it takes, 0 to 65,535.
 */
public class CallOptions @JvmOverloads constructor(
    public val route: String = "default",
    public val idempotent: Boolean = true,
    public val replayable: Boolean = true,
    public val criticality: Criticality? = null,
    public val deadline: Duration? = null,
    public val cost: Int = 1,
) {
    init {
        require(cost in 0..0xffff) { "cost = $cost: must be from 0 to 65535" }
    }

    /** The same with a [deadline], for Java. */
    public fun withDeadline(deadline: java.time.Duration): CallOptions =
        CallOptions(route, idempotent, replayable, criticality, deadline.toKotlinDuration(), cost)

    /** The same with a [cost], for Java. */
    public fun withCost(cost: Int): CallOptions = CallOptions(route, idempotent, replayable, criticality, deadline, cost)

    internal val flags: Long =
        (criticality ?: Criticality.NORMAL).ordinal.toLong() or (cost.toLong() shl Wire.COST_SHIFT) or
            (if (idempotent) Wire.IDEMPOTENT else 0) or (if (replayable) Wire.REPLAYABLE else 0) or Wire.MAY_PARK
}

/** A blocking function under a policy. */
public fun interface Work<T> {
    /** Makes an attempt. */
    @Throws(Exception::class)
    public fun attempt(attempt: Attempt): T
}

/** A function under a policy that answers later. */
public fun interface AsyncWork<T> {
    /** Makes an attempt. */
    @Throws(Exception::class)
    public fun attempt(attempt: Attempt): CompletionStage<T>
}

/** A policy with settings for its calls. Make it once and keep it. */
public open class Caller internal constructor(internal val core: Core, internal val options: CallOptions) {
    private val limit = Wire.remaining(options.deadline)
    private val flags = options.flags
    private val own = core.engine
    private val native = own.native
    private val handle = native.handle

    /** Its route, once it has been asked for. */
    @Volatile private var route = 0L

    /**
     * Runs a suspending function under the policy. It is cancelled with its caller; an attempt that is stopped (its time was
     * up, another was faster) is cancelled too, and what its cancellation takes is waited for. Until then it keeps its slot, so a
     * limit counts what really runs.
     *
     * @return What the function returns.
     * @throws Rejected if the policy refused the call before any attempt.
     * @throws AttemptTimeout if the last attempt ran out of `attemptTimeout`.
     * @throws DeadlineExceeded if the deadline passed.
     * @throws Throwable the function's own exception, the same object, if the last attempt failed; its [report] says why it
     * was the last.
     */
    public suspend fun <T> run(block: suspend (attempt: Attempt) -> T): T {
        val around = currentCoroutineContext()[Scope]
        val engine = own
        val out = Scope.here().out
        val call = begin(around, 0, out)
        if (call < 0) return Running(this, around, block).begin(call.inv(), out[0])
        if (engine.watched) engine.tellListeners()
        val value = try {
            Scope.suspending(Scope(engine, call, null, null, around), Attempt.FIRST, block)
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            return Running(this, around, block).resume(call, lane(false, error))
        }
        if (core.classify == null && !Marks.has(value) && currentCoroutineContext().isActive) {
            val end = native.on(handle, call, Wire.FINISHED_1, engine.moment)
            if (engine.watched) engine.tell()
            if (end == Wire.OK_1) return value
            return Running(this, around, block).resumeAt(call, lane(true, value), end)
        }
        return Running(this, around, block).resume(call, lane(true, value))
    }

    /** A first attempt that the fast way has made. */
    private fun lane(ok: Boolean, value: Any?) = Attempt(1).also { it.returned(ok, value) }

    /**
     * The same with something that stands in for the result where the call has failed for good. [fallback] runs outside all
     * components, is not asked when the caller has given up, and what it throws is what the caller gets.
     *
     * @param on Which errors it stands in for. Left out: refusals, what ran out of time, and failures that may pass; of others, which may
     * be bugs, those that the policy's `classify` has judged.
     */
    public suspend fun <T> run(
        fallback: suspend (Throwable) -> T,
        on: ((Throwable) -> Boolean)? = null,
        block: suspend (attempt: Attempt) -> T,
    ): T {
        val error = try {
            return run(block)
        } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
            if (!currentCoroutineContext().isActive || !isTurn(error, on)) throw error
            error
        }
        return standIn { fallback(error) }
    }

    /** Is it this error's turn? A choice that is broken is no. */
    private fun isTurn(error: Exception, on: ((Throwable) -> Boolean)?): Boolean {
        if (on == null) return core.fallsBack(error)
        var turn = false
        guarded { turn = on(error) }
        return turn
    }

    /** What stands in for a result; told, however it ends. */
    private inline fun <T> standIn(fallback: () -> T): T {
        var ok = false
        try {
            return fallback().also { ok = true }
        } finally {
            core.engine.noteFallback(core.route(options.route), ok)
        }
    }

    /**
     * The blocking twin of [run], for callers in Java: on the thread that calls it, with nothing beside it. Waits can be
     * interrupted. What runs cannot be stopped, so that `attemptTimeout` and the deadline are looked at between attempts;
     * [Attempt.time] says what the function's own timeouts should be. Such calls are not hedged.
     */
    @Throws(Exception::class)
    public fun <T> call(work: Work<T>): T {
        val here = Scope.here()
        val around = here.current()
        val engine = own
        val out = here.out
        val call = begin(around, Wire.SOLO, out)
        if (call < 0) return Calling(this, around, work).begin(call.inv(), out[0])
        if (engine.watched) engine.tellListeners()
        val value = try {
            here.within(around, engine.id, call) { work.attempt(Attempt.FIRST) }
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            return Calling(this, around, work).resume(call, lane(false, error))
        }
        if (core.classify == null && !Marks.has(value)) {
            val end = native.on(handle, call, Wire.FINISHED_1, engine.moment)
            if (engine.watched) engine.tell()
            if (end == Wire.OK_1) return value
            return Calling(this, around, work).resumeAt(call, lane(true, value), end)
        }
        return Calling(this, around, work).resume(call, lane(true, value))
    }

    /**
     * The asynchronous twin of [call], for callers in Java whose work answers by a future. Attempts after the first begin on a thread of
     * `Dispatchers.Default`. Cancelling the future that comes back stops the call, and cancels the stage of an attempt that is under way.
     */
    public fun <T> callAsync(work: AsyncWork<T>): CompletableFuture<T> =
        CoroutineScope(Dispatchers.Default + carried()).future(start = CoroutineStart.UNDISPATCHED) {
            this@Caller.run { attempt -> work.attempt(attempt).await() }
        }

    /**
     * The same with something that stands in for the result where the call has failed for good, but not when it was interrupted. It
     * is not asked about failures that may be bugs ([run] says which those are).
     */
    @Throws(Exception::class)
    public fun <T> call(fallback: Fallback<T>, work: Work<T>): T {
        val error = try {
            return call(work)
        } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
            if (isInterrupt(error) || !isTurn(error, null)) throw error
            error
        }
        return standIn { fallback.of(error) }
    }

    /** Begins a call, as `Native.begin` answers. Where nothing is around, without what asks for that. */
    private fun begin(around: Scope?, more: Long, out: LongArray): Long {
        if (around == null && route != 0L) {
            val begun = native.begin(handle, route, flags or more, limit, 0, 0, own.moment, out)
            if (begun >= 0 || !Inheriting.isStale(out[0])) return begun
            core.forget(options.route)
        }
        route = core.route(options.route)
        return Inheriting(core, options.route, options.flags or more, limit, options.criticality != null).begin(around, out)
    }

    private class Running<T>(caller: Caller, around: Scope?, private val block: suspend (Attempt) -> T) :
        SuspendingRun<T>(caller.core, caller.options.route, around) {
        override suspend fun start(lane: Attempt): Any? = block(lane)
    }

    private class Calling<T>(caller: Caller, around: Scope?, private val work: Work<T>) :
        BlockingRun<T>(caller.core, caller.options.route, around) {
        override fun start(lane: Attempt): Any? = work.attempt(lane)
    }
}

/** Stands in for the result of a blocking call that has failed for good. */
public fun interface Fallback<T> {
    /** What the caller gets in place of this error. */
    @Throws(Exception::class)
    public fun of(error: Exception): T
}

/** A call that has begun: its id and its first step. */
internal class Begun(private val call: Long, private val step: Long) {
    operator fun component1() = call

    operator fun component2() = step
}

/**
 * A named set of components: what happens around a call. Thread-safe; make it once and keep it.
 *
 * ```kotlin
 * val payments = policy("payments") {
 *     preset = Preset.HTTP
 *     deadline = 10.seconds
 *     retry { maxAttempts = 4 }
 *     bulkhead { maxConcurrency = 20 }
 * }
 * val answer = payments.run { attempt -> "attempt ${attempt.number}" }
 * ```
 */
public class Policy internal constructor(core: Core) : Caller(core, CallOptions()) {
    /** Its name in errors and telemetry. */
    public val name: String get() = core.name

    /** Its engine. */
    public val engine: Engine get() = core.engine

    /** The kinds of failure that it declares: name and the class that each is based on. */
    public val kinds: Map<String, String>
        get() = engine.native.engine.kinds(core.number).associate { it.name to it.base }

    /** A caller with settings of its own. Make it once and keep it. */
    public fun at(options: CallOptions): Caller = Caller(core, options)

    /** A caller whose state is kept under this key. */
    public fun at(route: String): Caller = Caller(core, CallOptions(route))

    /**
     * Gives the policy other settings, while it is in use. They say all of it: what is left out has its default again. Calls in
     * flight finish under the settings that they began with; limits and budgets, which calls share, change at once.
     *
     * @throws PolicyException with every mistake there is; the policy stays as it was.
     */
    public fun retune(configure: Configure<PolicyOptions>) {
        val options = PolicyOptions(Table())
        with(configure) { options.configure() }
        engine.retune(core.number, name, options.settings.pairs())
    }

    /**
     * Refuses all calls (or those of one route) with [ForcedOpen], before anything else is asked, until it is told `false`.
     * Calls that wait are refused too, and those that have started finish without further attempts.
     */
    @JvmOverloads
    public fun forceOpen(on: Boolean = true, route: String? = null): Unit =
        engine.force(core.number, route?.let { core.forget(it); core.route(it).toULong() }, on)

    /** What it does, in words: its components in their order, the most that a call waits and costs, and what may not be meant. */
    public fun explain(): String = engine.native.engine.explain(core.number)

    public companion object {
        private val fresh = AtomicInteger()

        /**
         * Makes a policy; its [name] is a fresh one if left out.
         *
         * @param engine The engine that keeps its state; the process's own if left out.
         * @throws PolicyException with every mistake there is: the key, the value and the rule.
         */
        @JvmStatic
        @JvmOverloads
        public fun of(name: String? = null, engine: Engine = Engine.default, configure: Configure<PolicyOptions>): Policy {
            val options = PolicyOptions(Table())
            with(configure) { options.configure() }
            val called = name ?: "policy-${fresh.incrementAndGet()}"
            return Policy(Core(engine, called, engine.take(called, options.settings.pairs()), options.classifier, options.on.toList()))
        }

        /**
         * The policies of a document by name, in TOML, or in JSON where [json] says so (`docs/reference.md`).
         *
         * @throws PolicyException with every mistake of every policy, each with its line.
         */
        @JvmStatic
        @JvmOverloads
        public fun load(document: String, json: Boolean = false, engine: Engine = Engine.default, classify: Classify? = null): Policies =
            Policies(document, json, engine, classify)
    }
}

/** Makes a policy; see [Policy]. [engine] keeps its state: the process's own if left out. */
public fun policy(name: String? = null, engine: Engine = Engine.default, configure: Configure<PolicyOptions>): Policy =
    Policy.of(name, engine, configure)
