package dev.tidegate

import dev.tidegate.internal.Anywhere
import dev.tidegate.internal.BlockingRun
import dev.tidegate.internal.Inheriting
import dev.tidegate.internal.Judgement
import dev.tidegate.internal.Marks
import dev.tidegate.internal.Place
import dev.tidegate.internal.SuspendingRun
import dev.tidegate.internal.Table
import dev.tidegate.internal.Wire
import dev.tidegate.internal.isInterrupt
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.future.await
import kotlinx.coroutines.isActive
import kotlinx.coroutines.launch
import java.util.Collections
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.atomic.AtomicInteger
import kotlin.time.Duration
import kotlin.time.toKotlinDuration

/** Settings of a policy, with its classifier and the errors to repeat. */
@TidegateDsl
public class PolicyOptions internal constructor(settings: Table) : PolicySettings(settings) {
    internal val code = PolicyCode()

    /** Repeats errors of type [E], whatever the rule for errors (`docs/errors.md`) says about them. */
    public inline fun <reified E : Throwable> retryOn(): Unit = retryOn(E::class.java)

    /** Repeats errors of this [type], for Java. */
    public fun retryOn(type: Class<out Throwable>): Unit = code.retryOn(type)

    /** Sets the classifier, which judges the result or the error of every attempt. */
    public fun classify(classify: Classify): Unit = code.classify(classify)

    /** Sets the function that is called before the wait for each retry. */
    public fun onRetry(listener: RetryListener): Unit = code.onRetry(listener)

    /**
     * Sets the function that makes the weights of HTTP requests from what their bodies say, where a request has none of its own. An exception
     * from it is reported as one of a listener is, and the limits' defaults hold.
     */
    public fun weigh(weigh: Weigh): Unit = code.weigh(weigh)

    /**
     * Sets the function that makes the totals which an attempt settles from what its answer says, plain or streamed. An answer that is not
     * read to its end, or says nothing, counts what it has reserved.
     */
    public fun usage(used: Used): Unit = code.usage(used)

    /**
     * Sets [weigh] and [usage] for a limit that counts tokens: a request reserves what its body tells, and settles what its answer says. They
     * read OpenAI, Anthropic, Gemini, Bedrock, and services that speak like one of them.
     *
     * @param weight Weight that the tokens count for.
     * @param output Tokens that an answer is taken to have if its request does not limit them.
     * @param factors How much each kind of token counts.
     * @throws IllegalArgumentException if an argument is out of its range.
     */
    @JvmOverloads
    public fun tokens(weight: String = "tokens", output: Long = 1_000, factors: Factors = Factors()): Unit =
        code.tokens(weight, output, factors)
}

/**
 * Options of a call.
 *
 * @property route Key under which limits and statistics are kept: an origin, an endpoint, a tenant.
 * @property idempotent Whether a repeat is harmless. If not, only attempts that provably sent nothing are repeated.
 * @property replayable Whether the call can be made a second time at all.
 * @property criticality Importance to a queue. If null, the surrounding criticality, else normal.
 * @property deadline Time for the whole call. The earliest of this, the policy's and the surrounding deadlines wins.
 * @property cost Tokens that the call takes from a rate limit, 0 to 65,535.
 * @property onRetry Function that is called before the wait for each retry, after that of the policy.
 * @property weights Amounts that the call will use of the weights that its rate limit counts: `mapOf("tokens" to 1_800)`. Each attempt
 * reserves them; [Attempt.settle] reports what it has used. Whole numbers from 0 to 2^53 - 1.
 */
public class CallOptions @JvmOverloads constructor(
    public val route: String = "default",
    public val idempotent: Boolean = true,
    public val replayable: Boolean = true,
    public val criticality: Criticality? = null,
    public val deadline: Duration? = null,
    public val cost: Int = 1,
    public val onRetry: RetryListener? = null,
    public val weights: Map<String, Long> = Collections.emptyMap(),
) {
    init {
        require(cost in 0..0xffff) { "cost = $cost: must be from 0 to 65535" }
        requireAmounts("weights", weights)
    }

    /** Copy with a [deadline], for Java. */
    public fun withDeadline(deadline: java.time.Duration): CallOptions =
        CallOptions(route, idempotent, replayable, criticality, deadline.toKotlinDuration(), cost, onRetry, weights)

    /** Copy with a [cost], for Java. */
    public fun withCost(cost: Int): CallOptions =
        CallOptions(route, idempotent, replayable, criticality, deadline, cost, onRetry, weights)

    /** Copy with an [onRetry], for Java. */
    public fun withOnRetry(onRetry: RetryListener): CallOptions =
        CallOptions(route, idempotent, replayable, criticality, deadline, cost, onRetry, weights)

    /** Copy with [weights], for Java. */
    public fun withWeights(weights: Map<String, Long>): CallOptions =
        CallOptions(route, idempotent, replayable, criticality, deadline, cost, onRetry, weights)

    internal val flags: Long =
        (criticality?.ordinal ?: Wire.NORMAL).toLong() or (cost.toLong() shl Wire.COST_SHIFT) or
            (if (idempotent) Wire.IDEMPOTENT else 0) or (if (replayable) Wire.REPLAYABLE else 0) or Wire.MAY_PARK
}

/** Blocking function that a policy protects. */
public fun interface Work<T> {
    /** Makes an attempt. */
    @Throws(Exception::class)
    public fun attempt(attempt: Attempt): T
}

/** Function that a policy protects and that returns a future. */
public fun interface AsyncWork<T> {
    /** Makes an attempt. */
    @Throws(Exception::class)
    public fun attempt(attempt: Attempt): CompletionStage<T>
}

/** A policy together with the options of its calls. Make it once and keep it. */
public open class Caller internal constructor(internal val core: Core, internal val options: CallOptions) {
    private val limit = Wire.remaining(options.deadline)
    private val flags = options.flags
    private val own = core.engine
    private val native = own.native
    private val handle = native.handle

    /** Route, once it has been looked up; 0 before. */
    @Volatile private var route = 0L

    /**
     * Runs a suspending function under the policy.
     *
     * Cancelling the caller cancels the function. An attempt that is stopped (it ran out of time, or another one was faster) is cancelled
     * too. The call waits until a cancelled attempt has ended. Until then the attempt keeps its slot, so a limit counts the attempts that
     * are really running.
     *
     * @return Result of the function.
     * @throws Rejected if the policy refused the call before any attempt.
     * @throws AttemptTimeout if the last attempt exceeded `attemptTimeout`.
     * @throws DeadlineExceeded if the deadline passed.
     * @throws Throwable the function's own exception, the same object, if the last attempt failed; its [report] says why it was the last.
     */
    public suspend fun <T> run(block: suspend (attempt: Attempt) -> T): T = runJudged(null, block)

    /** [run] that fills in the [judgement] of a failure. */
    private suspend fun <T> runJudged(judgement: Judgement?, block: suspend (attempt: Attempt) -> T): T {
        val around = currentCoroutineContext()[Scope]
        val engine = own
        val out = Scope.here().out
        val call = begin(around, 0, out)
        if (call < 0) return Running(this, around, judgement, block).begin(call.inv(), out[0])
        if (engine.watched) engine.notifyListeners()
        val value = try {
            Scope.suspending(Scope(engine, call, null, null, around), first(call), block)
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            return Running(this, around, judgement, block).resume(call, endedAttempt(false, error))
        }
        if (core.classify == null && !Marks.has(value, engine, call) && currentCoroutineContext().isActive) {
            val end = native.on(handle, call, Wire.FINISHED_1, engine.moment)
            if (engine.watched) engine.publishTelemetry()
            if (end == Wire.OK_1) return value
            return Running(this, around, judgement, block).resumeAt(call, endedAttempt(true, value), end)
        }
        return Running(this, around, judgement, block).resume(call, endedAttempt(true, value))
    }

    /** First attempt of the fast path, for its function. All calls that cannot settle share one. */
    private fun first(call: Long): Attempt = if (core.countsWeights) Attempt(1, engine = own, call = call) else Attempt.FIRST

    /** First attempt, made by the fast path. */
    private fun endedAttempt(ok: Boolean, value: Any?) = Attempt(1).also { it.returned(ok, value) }

    /**
     * Runs a suspending function, and [fallback] if the call fails for good. [fallback] runs outside all components, and its exception goes
     * to the caller. It does not run if the caller was cancelled.
     *
     * @param on Errors that run the fallback. If null: refusals, calls that ran out of time, and failures that may pass. Other errors may
     * be bugs; they run it only if the policy's `classify` has judged them.
     */
    public suspend fun <T> run(
        fallback: suspend (Throwable) -> T,
        on: ((Throwable) -> Boolean)? = null,
        block: suspend (attempt: Attempt) -> T,
    ): T {
        val judgement = Judgement()
        val error = try {
            return runJudged(judgement, block)
        } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
            if (!currentCoroutineContext().isActive || !isTurn(error, judgement, on, currentCoroutineContext()[Scope])) throw error
            error
        }
        return standIn { fallback(error) }
    }

    /** Whether the fallback runs for this error. A selection that fails counts as no. */
    private fun isTurn(error: Exception, judgement: Judgement, on: ((Throwable) -> Boolean)?, around: Scope?): Boolean {
        if (on == null) return core.fallsBack(error, judgement, around)
        var turn = false
        guarded { turn = on(error) }
        return turn
    }

    /** Runs the fallback and records how it ended. */
    private inline fun <T> standIn(fallback: () -> T): T {
        var ok = false
        try {
            return fallback().also { ok = true }
        } finally {
            core.engine.noteFallback(core.route(options.route), ok)
        }
    }

    /**
     * Blocking form of [run], for callers in Java. It runs on the caller's thread, one attempt at a time. Its waits can be interrupted. A
     * running function cannot be stopped: `attemptTimeout` and the deadline are checked between attempts, and [Attempt.time] is the limit
     * for the function's own timeouts. Such calls are not hedged.
     */
    @Throws(Exception::class)
    public fun <T> call(work: Work<T>): T = callJudged(null, work)

    /** [call] that fills in the [judgement] of a failure. */
    private fun <T> callJudged(judgement: Judgement?, work: Work<T>): T {
        val here = Here.here()
        val around = here.current()
        val engine = own
        val out = here.out
        val call = begin(around, Wire.SOLO, out)
        if (call < 0) return Calling(this, around, judgement, work).begin(call.inv(), out[0])
        if (engine.watched) engine.notifyListeners()
        val value = try {
            here.within(around, engine.id, call) { work.attempt(first(call)) }
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            return Calling(this, around, judgement, work).resume(call, endedAttempt(false, error))
        }
        if (core.classify == null && !Marks.has(value, engine, call)) {
            val end = native.on(handle, call, Wire.FINISHED_1, engine.moment)
            if (engine.watched) engine.publishTelemetry()
            if (end == Wire.OK_1) return value
            return Calling(this, around, judgement, work).resumeAt(call, endedAttempt(true, value), end)
        }
        return Calling(this, around, judgement, work).resume(call, endedAttempt(true, value))
    }

    /**
     * Asynchronous form of [call], for callers in Java whose function returns a future. What follows the stage of an attempt runs on the thread
     * that has completed the stage, as with a `CompletableFuture`; what follows a wait runs on a thread of `Dispatchers.IO`. Cancelling the
     * returned future stops the call, and cancels the stage of a running attempt.
     */
    public fun <T> callAsync(work: AsyncWork<T>): CompletableFuture<T> {
        val future = CompletableFuture<T>()
        val job = CoroutineScope(Anywhere + carried()).launch(start = CoroutineStart.UNDISPATCHED) {
            val end = runCatching { this@Caller.run { attempt -> Scope.here().busy { work.attempt(attempt) }.await() } }
            Scope.here().busy { end.fold(future::complete, future::completeExceptionally) }
        }
        future.whenComplete { _, error -> if (error != null) job.cancel() }
        return future
    }

    /**
     * Runs a blocking function, and [fallback] if the call fails for good, but not if it was interrupted. The fallback does not run for
     * failures that may be bugs ([run] says which those are).
     */
    @Throws(Exception::class)
    public fun <T> call(fallback: Fallback<T>, work: Work<T>): T {
        val judgement = Judgement()
        val error = try {
            return callJudged(judgement, work)
        } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
            if (isInterrupt(error) || !isTurn(error, judgement, null, Scope.current())) throw error
            error
        }
        return standIn { fallback.of(error) }
    }

    /** Begins a call and returns what `Native.begin` returns. Without a surrounding context it skips the code that inherits one. */
    private fun begin(around: Scope?, more: Long, out: LongArray): Long {
        if (around == null && route != 0L && options.weights.isEmpty()) {
            val begun = native.begin(handle, route, flags or more, limit, 0, 0, own.moment, out)
            if (begun >= 0 || !Inheriting.isStale(out[0])) return begun.also { if (it < 0) core.requireNoWeights(route, out[0]) }
            core.forget(options.route)
        }
        route = core.route(options.route)
        val criticality = options.criticality != null
        return Inheriting(core, options.route, options.flags or more, limit, criticality, weights = options.weights).begin(around, out)
    }

    private class Running<T>(caller: Caller, around: Scope?, judgement: Judgement?, private val block: suspend (Attempt) -> T) :
        SuspendingRun<T>(caller.core, caller.options.route, around, caller.options.onRetry, judgement) {
        override suspend fun start(attempt: Attempt): Any? = block(attempt)
    }

    private class Calling<T>(caller: Caller, around: Scope?, judgement: Judgement?, private val work: Work<T>) :
        BlockingRun<T>(caller.core, caller.options.route, around, caller.options.onRetry, judgement) {
        override fun start(attempt: Attempt): Any? = work.attempt(attempt)
    }
}

/** Provides a result for a blocking call that has failed for good. */
public fun interface Fallback<T> {
    /** Result for the caller in place of [error]. */
    @Throws(Exception::class)
    public fun of(error: Exception): T
}

/** A call that has begun: its id and its first step. */
internal class Begun(private val call: Long, private val step: Long) {
    operator fun component1() = call

    operator fun component2() = step
}

/**
 * A named set of components around a call. Thread-safe; make it once and keep it.
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
    /** Name in errors and telemetry. */
    public val name: String get() = core.name

    /** Engine that keeps the policy's state. */
    public val engine: Engine get() = core.engine

    /** Kinds of failure that the policy declares: the name of each, and the class that it is based on. */
    public val kinds: Map<String, String>
        get() = engine.native.engine.kinds(core.number).associate { it.name to it.base }

    /**
     * Outcome of an HTTP response under this policy: by its [status] and the policy's `retry.statuses`, and by its [headers] that say when to
     * try again (`Retry-After` and its relatives). For the `classify` of a client that has no adapter here. A status below 400 is
     * [Outcome.OK].
     *
     * ```kotlin
     * lateinit var shop: Policy
     * shop = policy("shop") {
     *     preset = Preset.HTTP
     *     classify { result, _ -> (result as? HttpResponse<*>)?.let { shop.outcomeOf(it.statusCode(), it.headers().map()) } }
     * }
     * ```
     */
    @JvmOverloads
    public fun outcomeOf(status: Int, headers: Map<String, List<String>> = emptyMap()): Outcome =
        outcomeOf(status, headers.filter { isNamed(it.key) }.flatMap { (name, values) -> values.map { name to it } })

    /** `HttpURLConnection` has its status line among the headers, without a name. */
    private fun isNamed(name: String?) = name != null

    /** [outcomeOf] with [headers] as pairs, which OkHttp's `Headers` are. */
    public fun outcomeOf(status: Int, headers: Iterable<Pair<String, String>>): Outcome {
        if (status < 400) return Outcome(Outcome.OK)
        val word = core.classify(status.coerceAtMost(0xffff), headers)
        return Outcome(core.kindName(Wire.kind(word)), Opinion.values()[Wire.opinion(word)], Wire.retryAfter(word))
    }

    /** Caller with options of its own. Make it once and keep it. */
    public fun at(options: CallOptions): Caller = Caller(core, options)

    /** Caller with a route of its own. */
    public fun at(route: String): Caller = Caller(core, CallOptions(route))

    /**
     * Changes the settings of the policy while it is in use. [configure] must contain all settings: those that it leaves out return to
     * their defaults. Calls in flight finish under the settings that they began with. Limits and budgets, which calls share, change at
     * once. A function or a type that it names (`classify`, `onRetry`, `retryOn`, `weigh`, `usage`) replaces the policy's own, at once; one that
     * it does not name stays.
     *
     * @throws PolicyException with all mistakes; the policy is unchanged then.
     */
    public fun retune(configure: Configure<PolicyOptions>) {
        val options = PolicyOptions(Table())
        with(configure) { options.configure() }
        engine.retune(core.number, name, options.settings.pairs())
        core.adopt(options.code)
    }

    /**
     * Refuses all calls (or those of one route) with [ForcedOpen], before any other component is asked, until it is called with `false`.
     * Waiting calls are refused too. Calls that have started finish without further attempts.
     */
    @JvmOverloads
    public fun forceOpen(on: Boolean = true, route: String? = null): Unit =
        engine.force(core.number, route?.let { core.forget(it); core.route(it).toULong() }, on)

    /**
     * Refuses all attempts at one of the policy's targets, for all policies with this group of targets, until it is called with `false`, which
     * also resets the target's breaker. Running attempts finish, and calls go to the other targets.
     *
     * @param target Name of the target, as in the document.
     * @throws PolicyException if the policy has no such target.
     */
    @JvmOverloads
    public fun forceTarget(target: String, on: Boolean = true): Unit = engine.forceTarget(core.number, target, on)

    /**
     * Describes the policy in words: its components in order, the longest wait and the highest cost of a call, and settings that may be
     * mistakes.
     */
    public fun explain(): String = engine.native.engine.explain(core.number)

    public companion object {
        private val fresh = AtomicInteger()

        /**
         * Makes a policy. Without a [name] it gets a generated one.
         *
         * While another policy of this name is in use, the settings must be the same: both are one policy then. If a class is loaded again
         * (by a reloading server, or as a notebook's cell), its definition retunes the older one, and a warning is logged. A policy that
         * nothing refers to any more is removed; if it has a name, the engine keeps its budgets, limits and breakers for later policies
         * of that name (the last 1,024 such policies).
         *
         * @param engine Engine that keeps its state; by default the engine of the process.
         * @throws PolicyException with all mistakes, each with its key, value and rule.
         */
        @JvmStatic
        @JvmOverloads
        public fun of(name: String? = null, engine: Engine = Engine.default, configure: Configure<PolicyOptions>): Policy {
            val options = PolicyOptions(Table())
            with(configure) { options.configure() }
            val called = name ?: "policy-${fresh.incrementAndGet()}"
            val place = if (name == null) null else Place.here()
            val number = engine.take(called, options.settings.pairs(), place)
            return Policy(engine.owned(Core(engine, called, number, options.code, isNamed = name != null), place))
        }

        /**
         * Loads the policies of a document, in TOML, or in JSON if [json] is set (`docs/reference.md`).
         *
         * @param code Adds to each policy what a document cannot contain: `{ name -> retryOn<MyError>() }`.
         * @throws PolicyException with all mistakes of all policies, each with its line.
         */
        @JvmStatic
        @JvmOverloads
        public fun load(document: String, json: Boolean = false, engine: Engine = Engine.default, code: ConfigureCode? = null): Policies =
            Policies(document, json, engine, code)
    }
}

/** Makes a policy; see [Policy]. [engine] keeps its state, by default the engine of the process. */
public fun policy(name: String? = null, engine: Engine = Engine.default, configure: Configure<PolicyOptions>): Policy =
    Policy.of(name, engine, configure)
