package dev.tidegate

import dev.tidegate.internal.Native
import dev.tidegate.internal.Waiter
import dev.tidegate.internal.Wire
import dev.tidegate.internal.camel
import dev.tidegate.internal.checked
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.LockSupport
import kotlin.time.TimeSource
import dev.tidegate.ffi.Pair as Setting

/** The state of everything, pulled: calls, waiters, and by policy, route and pool what has happened. Spans are in microseconds. */
public typealias Snapshot = dev.tidegate.ffi.Snapshot

/** What a restore has done. */
public typealias Restored = dev.tidegate.ffi.Restored

/** One thing that an engine did (`docs/telemetry.md`). What a type does not say is null. */
public typealias TidegateEvent = dev.tidegate.ffi.Event

/** Told of events. What it throws goes to the thread's handler of uncaught exceptions and breaks nothing. */
public fun interface EventListener {
    /** Something has happened. */
    public fun on(event: TidegateEvent)
}

/** What [Engine.save] gives: to be kept, and given to [Engine.restore]. */
public data class SavedState(
    /** When it was saved, in milliseconds of the epoch. */
    val at: Long,
    /** What the engine has learned, as JSON. */
    val state: String,
)

/**
 * Holds everything that policies share: routes, slots, budgets. A process has one by default, [Engine.default].
 *
 * @param seed All the randomness there is; drawn where it is null.
 * @param timeSource Where the engine's time comes from: the platform's monotonic clock where it is null (on Android the one
 * that goes on while the device sleeps), `testTimeSource` within `runTest`, a [FakeTime] in blocking tests.
 * @param maxRoutes How many routes it keeps state for, 1 to 524,288.
 */
public class Engine
@JvmOverloads
constructor(
    seed: Long? = null,
    timeSource: TimeSource? = null,
    maxRoutes: Int = 10_000,
) {
    internal val timeSource: TimeSource = timeSource ?: PlatformTime
    internal val native: Native
    internal val waiters = ConcurrentHashMap<Long, Waiter>()

    /** Is anybody told of events? */
    @Volatile internal var listening = false

    /** How many times settings have changed. */
    @Volatile internal var tunings = 0

    private val origin = if (timeSource == null) null else this.timeSource.markNow()
    private val fake = timeSource as? FakeTime
    private val listeners = CopyOnWriteArrayList<EventListener>()
    private val publishing = AtomicInteger()

    init {
        require(maxRoutes in 1..524_288) { "maxRoutes = $maxRoutes: must be from 1 to 524288" }
        native = Native.make(seed ?: ThreadLocalRandom.current().nextLong(), maxRoutes)
    }

    /** Microseconds on its clock. */
    internal fun now(): Long =
        if (origin == null) PlatformTime.micros() else origin.elapsedNow().inWholeMicroseconds.coerceAtLeast(0)

    /** Waits on the thread, at most this long; wakes early for no reason at times. */
    internal fun park(us: Long, blocker: Any) {
        if (fake != null) fake.park(us) else LockSupport.parkNanos(blocker, us * 1000)
    }

    /** Tells a call what happened: its next step. Whoever can go on because of it is woken. */
    internal fun tell(call: Long, event: Long): Long {
        val step = native.on(native.handle, call, event, now())
        after(step)
        return step
    }

    /** What a step has left to be done for others. */
    internal fun after(step: Long) {
        if (step and Wire.WAKES != 0L) wake()
        if (listening) publish()
    }

    /** Wakes the owners of the calls that can go on now. */
    private fun wake() {
        val ids = LongArray(64)
        do {
            val count = native.woken(native.handle, ids)
            for (place in 0 until count) waiters[ids[place]]?.wake()
        } while (count == ids.size)
    }

    /** Takes a policy in: its number. */
    internal fun take(name: String, pairs: List<Setting>, told: (String) -> String = ::camel): UInt =
        checked(told) { native.engine.policy(name, pairs) }

    internal fun retune(number: UInt, name: String, pairs: List<Setting>) {
        checked(::camel) { native.engine.retune(number, name, pairs, now().toULong()) }
        changed()
    }

    internal fun pool(name: String, kind: String, pairs: List<Setting>, again: Boolean, told: (String) -> String = ::camel) {
        checked(told) {
            if (again) native.engine.retunePool(name, kind, pairs, now().toULong())
            else native.engine.pool(name, kind, pairs, now().toULong())
        }
        changed()
    }

    internal fun force(policy: UInt, route: ULong?, on: Boolean) {
        native.engine.forceOpen(policy, route, on, now().toULong())
        changed()
    }

    private fun changed() {
        tunings += 1
        wake()
        if (listening) publish()
    }

    /** The state of everything. */
    public fun snapshot(): Snapshot = native.engine.snapshot(now().toULong())

    /** What it has learned (budgets, limits, breakers, throttles), to be kept and given to [restore]. */
    public fun save(): SavedState = SavedState(System.currentTimeMillis(), native.engine.save(now().toULong()))

    /**
     * Goes on from a saved state, which has aged meanwhile. To be called when the policies and pools have been made, and
     * before the first call.
     *
     * @throws IllegalArgumentException if it is no saved state, or the engine has begun calls; nothing has changed then.
     */
    public fun restore(saved: SavedState): Restored {
        val age = (System.currentTimeMillis() - saved.at).coerceAtLeast(0)
        try {
            return native.engine.restore(saved.state, (age * 1000).toULong(), now().toULong())
        } catch (invalid: dev.tidegate.ffi.Invalid) {
            throw IllegalArgumentException(invalid.message, invalid)
        }
    }

    /** Tells of everything that the engine does, until it is closed. */
    public fun listen(listener: EventListener): AutoCloseable {
        synchronized(listeners) {
            listeners += listener
            subscribe()
        }
        return AutoCloseable {
            synchronized(listeners) {
                if (listeners.remove(listener)) subscribe()
            }
        }
    }

    /** Everything that the engine does, while somebody collects. Whoever is slower than 1,024 events misses the oldest. */
    public val events: Flow<TidegateEvent>
        get() = callbackFlow {
            val subscription = listen { trySend(it) }
            awaitClose { subscription.close() }
        }.buffer(1_024, BufferOverflow.DROP_OLDEST)

    private fun subscribe() {
        listening = listeners.isNotEmpty()
        native.engine.subscribe(if (listening) EVENT_TYPES else emptyList())
    }

    /** Hands events on in their order, by one thread at a time, outside all locks. */
    private fun publish() {
        if (publishing.getAndIncrement() != 0) return
        var seen = 1
        while (seen != 0) {
            for (event in native.engine.takeEvents()) for (listener in listeners) told(listener, event)
            seen = publishing.addAndGet(-seen)
        }
    }

    @Suppress("TooGenericExceptionCaught") // a listener breaks nothing, whatever it throws
    private fun told(listener: EventListener, event: TidegateEvent) {
        try {
            listener.on(event)
        } catch (error: Throwable) {
            val thread = Thread.currentThread()
            thread.uncaughtExceptionHandler?.uncaughtException(thread, error)
        }
    }

    public companion object {
        /** The engine of the process, made when it is first needed. */
        @JvmStatic
        public val default: Engine by lazy { Engine() }

        private val EVENT_TYPES = listOf(
            "call_done", "attempt_started", "attempt_done", "retry_scheduled", "retry_suppressed", "gave_up", "rejected",
            "queued", "granted", "shed", "hedge_started", "hedge_won", "breaker_changed", "limit_changed",
            "throttle_changed", "hold_changed", "deadline_exceeded", "lease_reclaimed", "store_degraded",
            "store_recovered", "policy_retuned", "forced_open", "forced_cleared",
        )
    }
}
