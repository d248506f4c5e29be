@file:JvmName("Bounds")

package dev.tidegate

import dev.tidegate.internal.Wire
import kotlinx.coroutines.ThreadContextElement
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.withContext
import java.lang.ref.WeakReference
import java.util.WeakHashMap
import java.util.concurrent.Callable
import kotlin.coroutines.AbstractCoroutineContextElement
import kotlin.coroutines.Continuation
import kotlin.coroutines.CoroutineContext
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.intrinsics.intercepted
import kotlin.coroutines.intrinsics.startCoroutineUninterceptedOrReturn
import kotlin.coroutines.intrinsics.suspendCoroutineUninterceptedOrReturn
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.TimeMark
import kotlin.time.TimeSource
import kotlin.time.toKotlinDuration

/** Importance of a call to a queue. */
public enum class Criticality {
    /** May be dropped at any time. */
    BEST_EFFORT,

    /** Dropped before normal work. */
    DEGRADED,

    /** Default of a call. */
    NORMAL,

    /** Dropped last. */
    CRITICAL,
}

/**
 * One level of the context that calls inherit. It is in the coroutine's context, and on the thread while the coroutine runs there, so that
 * a blocking call inside a suspending one sees it too.
 */
internal class Scope(
    /** Engine of the call that runs here, if this level is a call. */
    private val engine: Engine?,
    private val call: Long,
    private val ends: TimeMark?,
    private val criticality: Criticality?,
    private val around: Scope?,
    /** Number of the attempt, if this level is an attempt. */
    private val attempt: Int = 1,
    /** Target of the attempt, if it has one. */
    private val target: String? = null,
) : AbstractCoroutineContextElement(Scope), ThreadContextElement<Scope?> {
    override fun updateThreadContext(context: CoroutineContext): Scope? = swap(this)

    override fun restoreThreadContext(context: CoroutineContext, oldState: Scope?) {
        swap(oldState)
    }

    /** Id of the innermost call of this engine around the running code; 0 if there is none. */
    fun parent(of: Engine): Long {
        var level: Scope? = this
        while (level != null) {
            if (level.engine === of) return level.call
            level = level.around
        }
        return 0
    }

    /** Level of the innermost call around the running code, of any engine. */
    fun innermost(): Scope? = if (engine != null) this else around?.innermost()

    /** What [make] makes of the engine and the number of this level's call; null if the level is no call. */
    inline fun <T> key(make: (Engine, Long) -> T): T? = engine?.let { make(it, call) }

    fun criticality(): Criticality? = criticality ?: around?.criticality()

    /** Target of the innermost attempt that has one. */
    fun target(): String? = target ?: around?.target()

    /** Number of times that the running request was sent before. Repeats within repeats add up. */
    fun resends(): Long = attempt - 1 + (around?.resends() ?: 0)

    /**
     * Time left for a call of this engine: until the earliest deadline of this level and those around it; null if there is none. The
     * deadline of another engine's call counts if both engines have the same clock (semantics 7.3.3). The engine itself keeps the
     * deadlines of its own calls.
     */
    fun left(of: Engine): Duration? {
        var least: Duration? = null
        var level: Scope? = this
        while (level != null) {
            val own = level.ends?.let { -it.elapsedNow() }
            if (own != null) least = if (least == null) own else minOf(least, own)
            val other = level.engine?.takeIf { it !== of && it.timeSource === of.timeSource }?.callTimeLeft(level.call) ?: -1
            if (other >= 0) least = if (least == null) other.microseconds else minOf(least, other.microseconds)
            level = level.around
        }
        return least
    }

    fun timeSource(): TimeSource? = engine?.timeSource ?: around?.timeSource()

    companion object Key : CoroutineContext.Key<Scope> {
        fun here(): Here = Here.here()

        fun current(): Scope? = here().current()

        fun swap(to: Scope?): Scope? {
            val here = here()
            here.keep()
            return here.current().also { here.set(to) }
        }

        inline fun <T> within(scope: Scope, here: Here = here(), work: () -> T): T {
            val before = here.current()
            here.set(scope)
            try {
                return work()
            } finally {
                here.set(before)
            }
        }

        /** Runs [block] within a scope, in the coroutine of its caller. `withContext` would cost more than all the rest of a call. */
        suspend fun <T> suspending(scope: Scope, attempt: Attempt, block: suspend (Attempt) -> T): T =
            suspendCoroutineUninterceptedOrReturn { caller ->
                val inside = object : Continuation<T> {
                    override val context = caller.context + scope

                    // Intercepted, so that the caller's context is on its thread again when it continues.
                    override fun resumeWith(result: Result<T>) = caller.intercepted().resumeWith(result)
                }
                within(scope) { block.startCoroutineUninterceptedOrReturn(attempt, inside) }
            }

        fun bounds(deadline: Duration?, criticality: Criticality?, timeSource: TimeSource?, around: Scope?): Scope {
            val time = timeSource ?: around?.timeSource() ?: PlatformTime
            return Scope(null, 0, deadline?.let { time.markNow() + it }, criticality, around)
        }
    }
}

/**
 * Runs [work]. Every call made inside it, under any policy, ends by the deadline and has the criticality. The earlier of nested deadlines
 * wins.
 *
 * @param deadline Time for everything inside.
 * @param criticality Importance of the calls inside to queues.
 * @param timeSource Clock of the deadline. If null, the clock of the surrounding call, else the platform's.
 */
public suspend fun <T> withBounds(
    deadline: Duration? = null,
    criticality: Criticality? = null,
    timeSource: TimeSource? = null,
    work: suspend () -> T,
): T {
    val around = currentCoroutineContext()[Scope]
    return withContext(Scope.bounds(deadline, criticality, timeSource, around)) { work() }
}

/** Blocking form of [withBounds], for calls on this thread. */
@JvmOverloads
public fun <T> blockingWithBounds(
    deadline: Duration? = null,
    criticality: Criticality? = null,
    timeSource: TimeSource? = null,
    work: Callable<T>,
): T = Scope.within(Scope.bounds(deadline, criticality, timeSource, Scope.current())) { work.call() }

/** [blockingWithBounds] for Java: `Bounds.within(Duration.ofSeconds(3), () -> policy.call(…))`. */
@JvmName("within")
@JvmOverloads
@Throws(Exception::class)
public fun <T> blockingWithBounds(deadline: java.time.Duration, criticality: Criticality? = null, work: Callable<T>): T =
    blockingWithBounds(deadline.toKotlinDuration(), criticality, null, work)

/**
 * Passes the surrounding context (a call, a deadline, a criticality) on to work that another thread carries out. Without it a call on that
 * thread has no parent: its retries multiply with the surrounding ones, and no surrounding deadline applies.
 *
 * ```kotlin
 * executor.submit(carried { inner.call { fetch() } })
 * ```
 */
public fun <T> carried(work: Callable<T>): Callable<T> {
    val around = Scope.current() ?: return work
    return Callable { Scope.within(around) { work.call() } }
}

/** Surrounding context, for coroutines that a blocking call starts: `runBlocking(carried()) { … }`. */
public fun carried(): CoroutineContext = Scope.current() ?: EmptyCoroutineContext

/**
 * Surrounding context of the code that runs on a thread. If the innermost level is a call of the fast path, it is kept as two numbers: a
 * new object for each call, stored in an old one, costs a tenth of the call.
 */
internal class Here {
    /** Surrounding context, without the innermost call if [engine] is set. */
    @JvmField var scope: Scope? = null

    /** The [Engine.id] of the innermost call's engine; 0 if that call is in [scope]. */
    @JvmField var engine = 0
    @JvmField var call = 0L

    /** Whether this thread runs the user's code or wakes calls. Calls that are resumed meanwhile continue on another thread ([dev.tidegate.internal.Anywhere]). */
    @JvmField var isBusy = false

    /** Runs [work] with this thread marked as busy, so that calls which it resumes do not wait for its end. */
    inline fun <T> busy(work: () -> T): T {
        val before = isBusy
        isBusy = true
        try {
            return work()
        } finally {
            isBusy = before
        }
    }

    /** Output of `begin`. It is read at once, on the same thread. */
    @JvmField val out = LongArray(1)

    /** Buffer for metrics, until it is given back. A call that a receiver of metrics makes meanwhile has another one. */
    fun takeSpans(): Spans = buffer?.also { buffer = null } ?: Spans()

    fun giveSpans(spans: Spans) {
        buffer = spans
    }

    private var buffer: Spans? = null

    /** Whole context, with the innermost call. */
    fun current(): Scope? = if (engine == 0) scope else Scope(Engine.of(engine), call, null, null, scope)

    fun set(to: Scope?) {
        scope = to
        engine = 0
    }

    /** Runs [work] as a call within [around], which must be what [current] has returned. */
    inline fun <T> within(around: Scope?, engine: Int, call: Long, work: () -> T): T {
        val scopeBefore = scope
        val engineBefore = this.engine
        val callBefore = this.call
        if (scope !== around) scope = around
        this.engine = engine
        this.call = call
        try {
            return work()
        } finally {
            if (scope !== scopeBefore) scope = scopeBefore
            this.engine = engineBefore
            this.call = callBefore
        }
    }

    private var isKept = false

    /**
     * Keeps this context as long as its thread and this class exist. A coroutine needs that, which sets a scope and returns. A blocking call
     * holds the context on its stack for as long as it has set one, so that a virtual thread that makes a call and ends pays nothing for it.
     */
    fun keep() {
        if (isKept) return
        isKept = true
        synchronized(kept) { kept[Thread.currentThread()] = this }
    }

    companion object {
        /**
         * Context of each thread. A thread outlives the class loader of these classes and keeps the values of its thread-locals. Therefore
         * they are weak references. The collector may take a context while no call and no coroutine has set anything in it; the next call makes a new one.
         */
        private val here = ThreadLocal<WeakReference<Here>>()
        private val kept = WeakHashMap<Thread, Here>()

        /** Context of the current thread, looked up once for each call. */
        fun here(): Here = here.get()?.get() ?: Here().also { here.set(WeakReference(it)) }
    }
}

/** Bounds and parent that `begin` inherits from the surrounding context. */
internal class Inherited(val limit: Long, val parent: Long, val criticality: Criticality?) {
    companion object {
        fun of(scope: Scope?, engine: Engine): Inherited? =
            scope?.let { Inherited(Wire.remaining(it.left(engine)), it.parent(engine), it.criticality()) }
    }
}
