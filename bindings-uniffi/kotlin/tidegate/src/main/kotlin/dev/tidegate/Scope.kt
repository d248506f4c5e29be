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
import kotlin.time.TimeMark
import kotlin.time.TimeSource
import kotlin.time.toKotlinDuration

/** How much a call matters to a queue. */
public enum class Criticality {
    /** May be dropped at any time. */
    BEST_EFFORT,

    /** Dropped before normal work. */
    DEGRADED,

    /** What a call is unless it says otherwise. */
    NORMAL,

    /** Dropped last. */
    CRITICAL,
}

/**
 * One level of what is around the code that runs: what calls within inherit. It is in the coroutine's context, and on the
 * thread while the coroutine runs there, so that a blocking call inside a suspending one knows it too.
 */
internal class Scope(
    /** The engine whose call runs here, if this level is one. */
    private val engine: Engine?,
    private val call: Long,
    private val ends: TimeMark?,
    private val criticality: Criticality?,
    private val around: Scope?,
    /** The number of the attempt that this is, if it is one. */
    private val attempt: Int = 1,
) : AbstractCoroutineContextElement(Scope), ThreadContextElement<Scope?> {
    override fun updateThreadContext(context: CoroutineContext): Scope? = swap(this)

    override fun restoreThreadContext(context: CoroutineContext, oldState: Scope?) {
        swap(oldState)
    }

    /** The call of this engine that runs here; 0 for none. */
    fun parent(of: Engine): Long {
        var level: Scope? = this
        while (level != null) {
            if (level.engine === of) return level.call
            level = level.around
        }
        return 0
    }

    fun criticality(): Criticality? = criticality ?: around?.criticality()

    /** How many times what runs here has been sent before: repeats within repeats add up. */
    fun resends(): Long = attempt - 1 + (around?.resends() ?: 0)

    /** Time left for everything within. */
    fun left(): Duration? {
        val own = ends?.let { -it.elapsedNow() }
        val outer = around?.left() ?: return own
        return if (own == null) outer else minOf(own, outer)
    }

    fun timeSource(): TimeSource? = engine?.timeSource ?: around?.timeSource()

    companion object Key : CoroutineContext.Key<Scope> {
        /**
         * A thread outlives the class loader that has these classes, and keeps what its own variables hold: they hold weakly, and
         * [places] holds as long as the thread and this class are there.
         */
        private val here = ThreadLocal<WeakReference<Here>>()
        private val places = WeakHashMap<Thread, Here>()

        /** The place of this thread: looked up once for each call. */
        fun here(): Here = here.get()?.get() ?: place()

        private fun place(): Here {
            val made = Here()
            synchronized(places) { places[Thread.currentThread()] = made }
            here.set(WeakReference(made))
            return made
        }

        fun current(): Scope? = here().current()

        fun swap(to: Scope?): Scope? {
            val here = here()
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

        /** [block] within a scope, in the coroutine of its caller: `withContext` costs more than all the rest of a call. */
        suspend fun <T> suspending(scope: Scope, attempt: Attempt, block: suspend (Attempt) -> T): T =
            suspendCoroutineUninterceptedOrReturn { caller ->
                val inside = object : Continuation<T> {
                    override val context = caller.context + scope

                    // Intercepted: what is around the caller is on its thread again when it goes on.
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
 * Runs [work]; every call made inside it, in whatever policy, ends by the deadline and has the criticality. The earlier of
 * nested deadlines wins.
 *
 * @param deadline Time for everything inside.
 * @param criticality How much the calls inside matter to queues.
 * @param timeSource What the deadline is measured by: the platform's clock, or that of the call around, where it is null.
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

/** The blocking twin of [withBounds]: for calls on this thread. */
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
 * Keeps what is around the code that makes it (a call, a deadline, a criticality) for work that another thread carries out. Without it a call
 * made there is nobody's child: its retries multiply with those around, and no deadline of theirs holds.
 *
 * ```kotlin
 * executor.submit(carried { inner.call { fetch() } })
 * ```
 */
public fun <T> carried(work: Callable<T>): Callable<T> {
    val around = Scope.current() ?: return work
    return Callable { Scope.within(around) { work.call() } }
}

/** What is around this code, for coroutines that a blocking call starts: `runBlocking(carried()) { … }`. */
public fun carried(): CoroutineContext = Scope.current() ?: EmptyCoroutineContext

/**
 * What is around the code that runs on a thread. The innermost level, if it is a call of the fast way, is kept as two numbers:
 * an object for each call, stored in one that is old, costs a tenth of the call.
 */
internal class Here {
    /** What is around, but for the innermost call where [engine] is one. */
    @JvmField var scope: Scope? = null

    /** The [Engine.id] of the innermost call's engine; 0 where that is in [scope]. */
    @JvmField var engine = 0
    @JvmField var call = 0L

    /** Where `begin` writes. Read at once, on the same thread. */
    @JvmField val out = LongArray(1)

    /** For metrics, once there are some. */
    val spans: Spans by lazy(LazyThreadSafetyMode.NONE) { Spans() }

    /** All of it. */
    fun current(): Scope? = if (engine == 0) scope else Scope(Engine.of(engine), call, null, null, scope)

    fun set(to: Scope?) {
        scope = to
        engine = 0
    }

    /** Runs [work] as a call within [around], which is what [current] has said. */
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
}

/** What `begin` takes from around a call. */
internal class Inherited(val limit: Long, val parent: Long, val criticality: Criticality?) {
    companion object {
        fun of(scope: Scope?, engine: Engine): Inherited? =
            scope?.let { Inherited(Wire.remaining(it.left()), it.parent(engine), it.criticality()) }
    }
}
