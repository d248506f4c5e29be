package dev.tidegate

import dev.tidegate.internal.Wire
import kotlinx.coroutines.ThreadContextElement
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.withContext
import java.util.concurrent.Callable
import kotlin.coroutines.AbstractCoroutineContextElement
import kotlin.coroutines.CoroutineContext
import kotlin.time.Duration
import kotlin.time.TimeMark
import kotlin.time.TimeSource

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

    /** Time left for everything within. */
    fun left(): Duration? {
        val own = ends?.let { -it.elapsedNow() }
        val outer = around?.left() ?: return own
        return if (own == null) outer else minOf(own, outer)
    }

    fun timeSource(): TimeSource? = engine?.timeSource ?: around?.timeSource()

    companion object Key : CoroutineContext.Key<Scope> {
        private val here = ThreadLocal<Scope?>()

        fun current(): Scope? = here.get()

        fun swap(to: Scope?): Scope? {
            val before = here.get()
            here.set(to)
            return before
        }

        inline fun <T> within(scope: Scope, work: () -> T): T {
            val before = swap(scope)
            try {
                return work()
            } finally {
                swap(before)
            }
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

/** What `begin` takes from around a call. */
internal class Inherited(val limit: Long, val parent: Long, val criticality: Criticality?) {
    companion object {
        fun of(scope: Scope?, engine: Engine): Inherited? =
            scope?.let { Inherited(Wire.remaining(it.left()), it.parent(engine), it.criticality()) }
    }
}
