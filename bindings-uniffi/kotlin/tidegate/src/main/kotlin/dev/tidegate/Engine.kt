package dev.tidegate

import dev.tidegate.ffi.Document
import dev.tidegate.ffi.DocumentChanges
import dev.tidegate.ffi.Header
import dev.tidegate.ffi.Invalid
import dev.tidegate.ffi.Loaded
import dev.tidegate.ffi.StoreReply
import dev.tidegate.fleet.Store
import dev.tidegate.internal.Carrier
import dev.tidegate.internal.Library
import dev.tidegate.internal.Native
import dev.tidegate.internal.Owners
import dev.tidegate.internal.Place
import dev.tidegate.internal.Waiter
import dev.tidegate.internal.Wire
import dev.tidegate.internal.camel
import dev.tidegate.internal.checked
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.channels.SendChannel
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow
import java.lang.ref.WeakReference
import java.util.Collections
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.LockSupport
import java.util.logging.Level
import java.util.logging.Logger
import kotlin.time.TimeSource
import dev.tidegate.ffi.Pair as Setting

/** Receives events. An exception from it goes to the thread's handler of uncaught exceptions (on Android to the log) and breaks nothing. */
public fun interface EventListener {
    /** Handles one event. */
    public fun on(event: TidegateEvent)
}

/** State that [Engine.save] returns. Keep it, and pass it to [Engine.restore]. */
public class SavedState(
    /** Time of saving, in milliseconds since the epoch. */
    public val at: Long,
    /** Learned state of the engine, as JSON. */
    public val state: String,
)

/**
 * State that policies share: routes, slots, budgets. A process has one engine by default, [Engine.default].
 *
 * Its memory is freed some time after the last reference to it and its policies is gone. Call [close] where its work must stop earlier: in
 * an application that a server unloads, or in a test.
 *
 * @param seed Source of all randomness; a random seed if null.
 * @param timeSource Source of the engine's time: the platform's monotonic clock if null (on Android the one that counts the time that the
 * device sleeps), `testTimeSource` in `runTest`, a [FakeTime] in blocking tests.
 * @param maxRoutes Routes that the engine keeps state for, 1 to 524,288.
 * @param journal Whether to record a journal, for [takeJournal]. It grows with every call until it is taken, up to 100,000 inputs.
 * @param history Number of records to keep about calls that were retried, refused or failed, for [explain] and [Report.explain]; each
 * takes 144 bytes. 0 keeps none.
 */
public class Engine
@JvmOverloads
constructor(
    seed: Long? = null,
    timeSource: TimeSource? = null,
    maxRoutes: Int = 10_000,
    journal: Boolean = false,
    history: Int = 512,
) : AutoCloseable {
    private val given = timeSource

    /** Source of the engine's time. */
    internal val timeSource: TimeSource get() = given ?: PlatformTime
    internal val native: Native
    private val ticks: Boolean
    internal val waiters = ConcurrentHashMap<Long, Waiter>()

    /** Id by which a thread refers to the engine while a call of it runs there. */
    internal val id = ids.incrementAndGet()

    /** Whether there are listeners or metrics. */
    @Volatile internal var watched = false

    @Volatile private var listening = false

    /** Number of changes of settings so far. */
    @Volatile internal var tunings = 0

    private val origin = timeSource?.markNow()
    private val fake = timeSource as? FakeTime
    private val listeners = CopyOnWriteArrayList<Listening>()

    /** Lock for adding policies and for closing. */
    private val policies = Any()
    private val timings = Timings(this)
    private var receivers: List<Receiver> = Collections.emptyList() // Kotlin's own would load its functions for collections (ADR 0063)

    @Volatile private var carrier: Carrier? = null
    private val owners = Owners(this)
    private val pools = ConcurrentHashMap<String, Place>()
    private val flows = CopyOnWriteArrayList<SendChannel<*>>()

    /** What has bound the engine's metrics to registries of another library, by registry. Also the lock for it. */
    internal val bindings = HashMap<Any, Any>()

    /** Whether the engine is closed. A closed engine refuses every call. */
    @Volatile public var isClosed: Boolean = false
        private set
    private val publishing = AtomicInteger()

    init {
        require(maxRoutes in 1..524_288) { "maxRoutes = $maxRoutes: must be from 1 to 524288" }
        require(history in 0..MOST_HISTORY) { "history = $history: must be from 0 to $MOST_HISTORY" }
        known[id] = WeakReference(this)
        val engines = known.values.iterator()
        while (engines.hasNext()) if (engines.next().get() == null) engines.remove()
        native = Native.make(seed ?: ThreadLocalRandom.current().nextLong(), maxRoutes, journal, history)
        ticks = shareClock()
    }

    /** Whether the engine uses the platform's clock. */
    internal val isReal: Boolean get() = origin == null

    /** Microseconds on the engine's clock. */
    internal fun now(): Long =
        if (origin == null) Clock.micros() else origin.elapsedNow().inWholeMicroseconds.coerceAtLeast(0)

    /** Time to pass with a step: [Native.NOW] if the engine reads the clock itself, which is faster. */
    internal val moment: Long get() = if (ticks) Native.NOW else now()

    /**
     * Lets the engine read the platform's clock itself; false if that fails. Each of 10 tries must take less than 20 µs, because an
     * interruption in between would offset the engine's clock.
     */
    private fun shareClock(): Boolean {
        if (origin != null || !Clock.isPlain) return false
        repeat(10) {
            val before = Clock.nanos()
            if (!native.clock(native.handle, before)) return false
            if (Clock.nanos() - before < 20_000) return true
        }
        return false
    }

    /** Parks the thread for at most [us] microseconds; may return early. */
    internal fun park(us: Long, blocker: Any) {
        if (fake != null) fake.park(us) else LockSupport.parkNanos(blocker, us * 1000)
    }

    /** Reports an event to a call and returns its next step. Wakes the calls that can continue because of it. */
    internal fun advance(call: Long, event: Long): Long {
        val step = native.on(native.handle, call, event, moment)
        after(step)
        return step
    }

    /** Time that the running attempt of a call has until its delivery, in microseconds; negative without a limit. */
    internal fun timeLeft(call: Long): Long = native.engine.timeLeft(call.toULong(), moment.toULong())?.toLong() ?: -1

    /** Time that a live call has until its deadline, in microseconds; negative without one, and for a call that has ended. */
    internal fun callTimeLeft(call: Long): Long = native.engine.callTimeLeft(call.toULong(), moment.toULong())?.toLong() ?: -1

    /** Settles the total that an attempt has used of a weight; false if it is not taken. */
    internal fun settle(call: Long, attempt: Int, weight: String, total: Long): Boolean =
        native.engine.settle(call.toULong(), attempt.toUByte(), weight, total.toULong(), moment.toULong())

    internal fun noteQuotas(call: Long, headers: Iterable<Pair<String, String>>): Unit =
        native.engine.noteQuotas(call.toULong(), headers.map { (name, value) -> Header(name, value) }, moment.toULong())

    /** Carries out the part of a step that concerns others: wakes, store commands, events. */
    internal fun after(step: Long) {
        if (step and Wire.WAKES != 0L) wake()
        if (step and Wire.COMMANDS != 0L) carrier?.send()
        if (watched) publishTelemetry()
    }

    /** Passes the store's reply to a command, or its loss, to the engine. */
    internal fun answered(command: ULong, reply: StoreReply) {
        val more = native.engine.onReply(command, reply, now().toULong())
        wake()
        if (more) carrier?.send()
        if (watched) publishTelemetry()
    }

    /**
     * Shares state with a fleet from now on, for the policies and pools with `store = FLEET` (`docs/kotlin.md`). Call it once for each
     * engine, before the first of these is made.
     *
     * Commands run in coroutines of their own, on threads that may block (64 at most), never on the thread of a call. Calls wait for the store at most `store_timeout`, and
     * continue without it while it is unreachable.
     *
     * @param store Sends commands to Redis or Valkey: [dev.tidegate.fleet.RedisStore], or a store of your own.
     * @param namespace Prefix of all keys; `tidegate` if empty.
     * @param plain Whether the store forbids scripts. Limits are then looser, and some are not available.
     * @return Detaches the store when closed. The engine then continues as with an unreachable store.
     * @throws IllegalStateException if the engine has a store already.
     */
    @JvmOverloads
    public fun attach(store: Store, namespace: String = "", plain: Boolean = false): AutoCloseable = attach(store, namespace, plain, Carrier.threads)

    internal fun attach(store: Store, namespace: String, plain: Boolean, dispatcher: CoroutineDispatcher): AutoCloseable {
        val carrier = Carrier(this, store, dispatcher)
        synchronized(listeners) {
            open()
            check(this.carrier == null) { "this engine has a store already" }
            try {
                native.engine.attachStore(if (plain) "plain" else "lua", namespace, now().toULong())
            } catch (invalid: dev.tidegate.ffi.Invalid.Argument) {
                throw IllegalArgumentException(invalid.reason, invalid)
            }
            this.carrier = carrier
        }
        return carrier
    }

    /** Passes events and durations on, if there are listeners or metrics. */
    internal fun publishTelemetry() {
        notifyListeners()
        timings.handOn()
    }

    internal fun notifyListeners() {
        if (listening && native.hasEvents(native.handle)) publish()
    }

    /** Records that a fallback ran; [ok] says whether it returned a result. */
    internal fun noteFallback(route: Long, ok: Boolean) {
        native.engine.noteFallback(route.toULong(), ok, now().toULong())
        if (watched) publishTelemetry()
    }

    /** Wakes the owners of the calls that can continue. */
    private fun wake() {
        val ids = LongArray(64)
        do {
            val count = native.woken(native.handle, ids)
            Scope.here().busy { for (place in 0 until count) waiters[ids[place]]?.wake() }
        } while (count == ids.size)
    }

    /** Adds a policy, or an owner of it, and returns its number. A definition that replaces an older one retunes it. */
    internal fun take(name: String, pairs: List<Setting>, place: Place?): UInt = synchronized(policies) {
        open()
        owners.collect()
        checked(::camel) {
            val make = { native.engine.policy(name, pairs) }
            orElse(make, owners.replaced(name, place)) { older ->
                native.engine.retune(older, name, pairs, now().toULong())
                changed()
                Place.replaced("policy \"$name\"", place!!)
                make()
            }
        }
    }

    /** Runs [make]. If it clashes with an [older] definition that this one replaces, runs [replace] instead. */
    private inline fun <O : Any, T> orElse(make: () -> T, older: O?, replace: (O) -> T): T = try {
        make()
    } catch (clash: Invalid.Settings) {
        val isClash = clash.mistakes.singleOrNull()?.key in setOf("policy", "pool")
        replace(older?.takeIf { isClash } ?: throw clash)
    }

    /** Adds the owner of a policy that [take], [load] or [reload] has returned. */
    internal fun owned(core: Core, place: Place?): Core = core.also {
        owners.add(it, place)
        if (isClosed) native.engine.forceOpen(it.number, null, true, now().toULong()) // closed since the policy was taken
    }

    /** Removes an owner of a policy. */
    internal fun release(policy: UInt, keep: Boolean): Unit = native.engine.release(policy, keep, now().toULong())

    /** Adds the policies and pools of a document. */
    internal fun load(document: Document): Loaded = synchronized(policies) {
        open()
        owners.collect()
        document.load(native.engine, now().toULong())
    }.also { changed() }

    /** Changes from one version of a document to another. */
    internal fun reload(from: Document, to: Document): DocumentChanges = synchronized(policies) {
        open()
        owners.collect()
        from.reload(native.engine, to, now().toULong())
    }.also { changed() }

    private fun open() = check(!isClosed) { "this engine is closed: make another" }

    /**
     * Ends the engine's work for good. Waiting and later calls are refused with [ForcedOpen]. Calls that have started finish without
     * further attempts. Listeners and [events] end, and the shared store is released. Policies remain as they are, but new ones cannot be
     * made. A second call does nothing.
     *
     * Close the engine together with the application that uses it. The memory of a closed engine is freed as soon as nothing refers to it.
     */
    override fun close() {
        synchronized(policies) {
            if (isClosed) return
            isClosed = true
            for (policy in owners.policies) native.engine.forceOpen(policy, null, true, now().toULong())
        }
        changed()
        synchronized(listeners) {
            carrier?.close()
            listeners.clear()
            receivers = emptyList()
            timings.sinks = emptyList()
            subscribe()
        }
        for (flow in flows) flow.close()
    }

    internal fun retune(number: UInt, name: String, pairs: List<Setting>) {
        open()
        checked(::camel) { native.engine.retune(number, name, pairs, now().toULong()) }
        changed()
    }

    /** Adds a pool. A definition that replaces an older one retunes it. */
    internal fun pool(name: String, kind: String, pairs: List<Setting>, place: Place?) {
        open()
        val older = place?.takeIf { it.replaces(pools[name]) }
        checked(::camel) {
            orElse({ native.engine.pool(name, kind, pairs, now().toULong()) }, older) {
                native.engine.retunePool(name, kind, pairs, now().toULong())
                Place.replaced("pool \"$name\"", it)
            }
        }
        if (place != null) pools[name] = place
        changed()
    }

    internal fun retunePool(name: String, kind: String, pairs: List<Setting>) {
        open()
        checked(::camel) { native.engine.retunePool(name, kind, pairs, now().toULong()) }
        changed()
    }

    internal fun forceTarget(policy: UInt, target: String, on: Boolean) {
        open()
        checked({ it }) { native.engine.forceTarget(policy, target, on, now().toULong()) }
        changed()
    }

    internal fun force(policy: UInt, route: ULong?, on: Boolean) {
        open()
        native.engine.forceOpen(policy, route, on, now().toULong())
        changed()
    }

    private fun changed() {
        tunings += 1
        wake()
        carrier?.send()
        if (watched) publishTelemetry()
    }

    internal fun nameOf(policy: Long): String = owners.name(policy.toUInt()) ?: ""

    /** Passes single durations on to [sink], for the histograms of another library: to one sink of each [registry], which would count twice. */
    internal fun time(registry: Any? = null, sink: Timed): AutoCloseable {
        val receiver = Receiver(registry ?: sink, sink)
        synchronized(listeners) {
            open()
            receivers { it + receiver }
        }
        return AutoCloseable { receivers { it - receiver } }
    }

    private fun receivers(change: (List<Receiver>) -> List<Receiver>): Unit = synchronized(listeners) {
        receivers = change(receivers)
        timings.sinks = receivers.distinctBy { it.registry }.map { it.sink }
        subscribe()
    }

    /**
     * Tells the engine the state of the device's link to its networks, as the platform reports it; [Link.OK] at first.
     *
     * While it is [Link.OFFLINE], first attempts still start, retries and hedges wait until it is back (at most until the deadline or
     * `retryTimeLimit`; without both, `maxRetryAfter` after the failure), and failures to connect are no evidence for a breaker. Then they start
     * within a second, spread evenly. While it is [Link.METERED], no hedges start.
     */
    public fun setLink(link: Link) {
        open()
        native.engine.setLink(link.ordinal.toUByte(), now().toULong())
    }

    /**
     * Grants every retry without asking its budget while [on], for tests that expect a number of attempts. Such a retry costs nothing.
     * Budgets still count calls and results, and decide again afterwards.
     */
    public fun liftBudgets(on: Boolean): Unit = native.engine.liftBudgets(on)

    /**
     * Takes the journal since the last take (`docs/telemetry.md`): the inputs of the engine, one a line, for [replay] in an engine with the
     * same seed. Empty if the engine records no journal. At most the last 100,000 inputs are kept; a line `dropped` replaces the missing
     * ones, and [replay] rejects it.
     */
    public fun takeJournal(): List<String> = native.engine.takeJournal()

    /** Lines of the journal that have not been taken. They stay in the journal. */
    public fun journal(): List<String> = native.engine.journal()

    /**
     * Replays the lines of a journal: an engine with the same seed and settings makes the same decisions.
     *
     * @throws IllegalArgumentException if a line is not a line of a journal; nothing has been replayed then.
     */
    public fun replay(lines: List<String>): Replayed = try {
        native.engine.replay(lines)
    } catch (invalid: dev.tidegate.ffi.Invalid.State) {
        throw IllegalArgumentException(invalid.reason, invalid)
    } catch (invalid: dev.tidegate.ffi.Invalid.Argument) {
        throw IllegalArgumentException(invalid.reason, invalid)
    }

    /**
     * Explains why a call waits, or how it ended; null if the engine does not know the call. A call that has ended and was retried, refused
     * or failed is known until newer records of the `history` have replaced its own. With a journal every call is known, as long as nothing
     * has been taken from the journal. [call] is the number in the call's events and in its [Report].
     */
    public fun explain(call: Long): CallExplanation? = native.engine.explainCall(call.toULong())

    /** Current state of policies, routes, pools and calls. */
    public fun snapshot(): Snapshot {
        owners.collect()
        return native.engine.snapshot(now().toULong())
    }

    /** Learned state (budgets, limits, breakers, throttles), for [restore]. */
    public fun save(): SavedState = SavedState(System.currentTimeMillis(), native.engine.save(now().toULong()))

    /**
     * Continues from a saved state, aged by the time since it was saved. Call it after the policies and pools have been made, and before
     * the first call.
     *
     * @throws IllegalArgumentException if [saved] is not a saved state, or the engine has begun calls; nothing has changed then.
     */
    public fun restore(saved: SavedState): Restored {
        val age = (System.currentTimeMillis() - saved.at).coerceAtLeast(0)
        try {
            return native.engine.restore(saved.state, (age * 1000).toULong(), now().toULong())
        } catch (invalid: dev.tidegate.ffi.Invalid.State) {
            throw IllegalArgumentException(invalid.reason, invalid)
        }
    }

    /**
     * Passes events to [listener], until the returned object or the engine is closed.
     *
     * @param types Types of events to receive, of [eventTypes]; all of them if null. A listener without the types that every call emits
     * (`call_done`, `attempt_started`, `attempt_done`, `queued`, `granted`, `hedge_started`, `hedge_won`, `stream_delivered`) costs a
     * successful call next to nothing.
     * @throws IllegalArgumentException if a type does not exist.
     */
    @JvmOverloads
    public fun listen(types: Set<String>? = null, listener: EventListener): AutoCloseable {
        for (type in types ?: emptySet()) {
            require(type in eventTypes) { "types: \"$type\" must be one of ${eventTypes.joinToString()}" }
        }
        val listening = Listening(types?.toSet() ?: eventTypes, listener)
        synchronized(listeners) {
            open()
            listeners += listening
            subscribe()
        }
        return AutoCloseable {
            synchronized(listeners) {
                if (listeners.remove(listening)) subscribe()
            }
        }
    }

    /** All events, while a collector is active. A collector that falls more than 1,024 events behind loses the oldest. */
    public val events: Flow<TidegateEvent>
        get() = callbackFlow {
            val subscription = listen(null) { trySend(it) }
            flows += channel
            if (isClosed) close()
            awaitClose {
                flows -= channel
                subscription.close()
            }
        }.buffer(1_024, BufferOverflow.DROP_OLDEST)

    private fun subscribe() {
        listening = listeners.isNotEmpty()
        watched = listening || timings.sinks.isNotEmpty()
        native.engine.subscribe(listeners.flatMap { it.types }.distinct())
        native.engine.time(timings.sinks.isNotEmpty())
    }

    /** Publishes events in order, by one thread at a time, outside all locks. */
    private fun publish() {
        if (publishing.getAndIncrement() != 0) return
        var seen = 1
        try {
            while (seen != 0) {
                for (event in native.engine.takeEvents()) for (it in listeners) if (event.kind in it.types) guarded { it.listener.on(event) }
                seen = publishing.addAndGet(-seen)
            }
        } finally {
            if (seen != 0) publishing.set(0) // a stack that overflows must not end the events of all other threads
        }
    }

    public companion object {
        private const val MOST_HISTORY = 1_000_000
        private val ids = AtomicInteger()
        private val known = ConcurrentHashMap<Int, WeakReference<Engine>>()

        /** Engine with this id; it is reachable while a call of it runs. */
        internal fun of(id: Int): Engine? = known[id]?.get()

        /** Engine of the process, made at its first use. */
        @JvmStatic
        public val default: Engine get() = made ?: make()

        @Volatile private var made: Engine? = null

        private fun make(): Engine = synchronized(known) { made ?: Engine().also { made = it } }

        /** Types of events: a closed list (`docs/telemetry.md`). */
        @JvmStatic
        public val eventTypes: Set<String>
            get() = types ?: Library.loaded { dev.tidegate.ffi.eventTypes() }.toSet().also { types = it }

        @Volatile private var types: Set<String>? = null
    }
}

private class Receiver(val registry: Any, val sink: Timed)

private class Listening(val types: Set<String>, val listener: EventListener)

/** Runs a callback of the user. An exception from it breaks nothing. */
@Suppress("TooGenericExceptionCaught")
internal inline fun guarded(work: () -> Unit) {
    try {
        work()
    } catch (error: Throwable) {
        uncaught(error)
    }
}

/**
 * Reports an exception of a callback: to the thread's handler of uncaught exceptions, and on Android, where that handler ends the process,
 * to the log. The handler is user code too, so its exceptions are ignored. An interrupt of the callback stays one of its thread.
 */
internal fun uncaught(error: Throwable) {
    val thread = Thread.currentThread()
    try {
        if (!Library.isAndroid()) return thread.uncaughtExceptionHandler.uncaughtException(thread, error)
        Logger.getLogger("dev.tidegate").log(Level.WARNING, "a callback has thrown, which breaks no call", error)
    } catch (@Suppress("TooGenericExceptionCaught") _: Throwable) {
        // The handler has failed too, so there is nothing left to report to.
    } finally {
        if (error is InterruptedException) thread.interrupt() // it is the thread's, and not the callback's alone
    }
}
