package dev.tidegate

import dev.tidegate.ffi.Document
import dev.tidegate.ffi.DocumentChanges
import dev.tidegate.ffi.Loaded
import dev.tidegate.ffi.StoreReply
import dev.tidegate.fleet.Store
import dev.tidegate.internal.Carrier
import dev.tidegate.internal.Library
import dev.tidegate.internal.Native
import dev.tidegate.internal.Waiter
import dev.tidegate.internal.Wire
import dev.tidegate.internal.camel
import dev.tidegate.internal.checked
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.channels.SendChannel
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow
import java.lang.ref.WeakReference
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.LockSupport
import java.util.logging.Level
import java.util.logging.Logger
import kotlin.time.TimeSource
import dev.tidegate.ffi.Pair as Setting

/** Told of events. What it throws goes to the thread's handler of uncaught exceptions (on Android to the log) and breaks nothing. */
public fun interface EventListener {
    /** Something has happened. */
    public fun on(event: TidegateEvent)
}

/** What [Engine.save] gives: to be kept, and given to [Engine.restore]. */
public class SavedState(
    /** When it was saved, in milliseconds of the epoch. */
    public val at: Long,
    /** What the engine has learned, as JSON. */
    public val state: String,
)

/**
 * Holds everything that policies share: routes, slots, budgets. A process has one by default, [Engine.default].
 *
 * Its memory is freed some time after nothing refers to it and its policies any more. [close] is for what must stop before: an application
 * that a server unloads, a test.
 *
 * @param seed All the randomness there is; drawn where it is null.
 * @param timeSource Where the engine's time comes from: the platform's monotonic clock where it is null (on Android the one
 * that goes on while the device sleeps), `testTimeSource` within `runTest`, a [FakeTime] in blocking tests.
 * @param maxRoutes How many routes it keeps state for, 1 to 524,288.
 * @param journal Does it keep a journal, for [takeJournal]? It grows with every call until it is taken, up to 100,000 inputs.
 */
public class Engine
@JvmOverloads
constructor(
    seed: Long? = null,
    timeSource: TimeSource? = null,
    maxRoutes: Int = 10_000,
    journal: Boolean = false,
) : AutoCloseable {
    internal val timeSource: TimeSource = timeSource ?: PlatformTime
    internal val native: Native
    private val ticks: Boolean
    internal val waiters = ConcurrentHashMap<Long, Waiter>()

    /** What a thread knows it by while a call of it runs there. */
    internal val id = ids.incrementAndGet()

    /** Does anybody listen or measure? */
    @Volatile internal var watched = false

    @Volatile private var listening = false

    /** How many times settings have changed. */
    @Volatile internal var tunings = 0

    private val origin = if (timeSource == null) null else this.timeSource.markNow()
    private val fake = timeSource as? FakeTime
    private val listeners = CopyOnWriteArrayList<Listening>()

    /** Held while a policy is taken in, and while the engine is closed. */
    private val policies = Any()
    private val timings = Timings(this)

    @Volatile private var carrier: Carrier? = null
    private val names = ConcurrentHashMap<Long, String>()
    private val flows = CopyOnWriteArrayList<SendChannel<*>>()

    /** Is it closed? Then every call is refused. */
    @Volatile public var isClosed: Boolean = false
        private set
    private val publishing = AtomicInteger()

    init {
        require(maxRoutes in 1..524_288) { "maxRoutes = $maxRoutes: must be from 1 to 524288" }
        known[id] = WeakReference(this)
        known.values.removeIf { it.get() == null }
        native = Native.make(seed ?: ThreadLocalRandom.current().nextLong(), maxRoutes, journal)
        ticks = shareClock()
    }

    /** Does it go by the platform's clock? */
    internal val isReal: Boolean get() = origin == null

    /** Microseconds on its clock. */
    internal fun now(): Long =
        if (origin == null) PlatformTime.micros() else origin.elapsedNow().inWholeMicroseconds.coerceAtLeast(0)

    /** What a step is told of the time: [Native.NOW] where the engine reads the clock for us, which is quicker. */
    internal val moment: Long get() = if (ticks) Native.NOW else now()

    /** Has the engine this clock? Not where we are interrupted each time that we tell it the time. */
    private fun shareClock(): Boolean {
        if (origin != null || !PlatformTime.isPlain) return false
        repeat(10) {
            val before = PlatformTime.nanos()
            if (!native.clock(native.handle, before)) return false
            if (PlatformTime.nanos() - before < 20_000) return true
        }
        return false
    }

    /** Waits on the thread, at most this long; wakes early for no reason at times. */
    internal fun park(us: Long, blocker: Any) {
        if (fake != null) fake.park(us) else LockSupport.parkNanos(blocker, us * 1000)
    }

    /** Tells a call what happened: its next step. Whoever can go on because of it is woken. */
    internal fun tell(call: Long, event: Long): Long {
        val step = native.on(native.handle, call, event, moment)
        after(step)
        return step
    }

    /** What a step has left to be done for others. */
    internal fun after(step: Long) {
        if (step and Wire.WAKES != 0L) wake()
        if (step and Wire.COMMANDS != 0L) carrier?.send()
        if (watched) tell()
    }

    /** The store has answered a command, or has not. */
    internal fun answered(command: ULong, reply: StoreReply) {
        val more = native.engine.onReply(command, reply, now().toULong())
        wake()
        if (more) carrier?.send()
        if (watched) tell()
    }

    /**
     * Shares state with a fleet from now on, for the policies and pools that say `store = FLEET` (`docs/kotlin.md`). To be called before the
     * first of these is made, once for each engine.
     *
     * What the store does runs in coroutines of its own, never on a call's thread; calls wait for it at most `store_timeout`, and do
     * without it while it is gone.
     *
     * @param store What carries commands to Redis or Valkey: [dev.tidegate.fleet.RedisStore], or one of yours.
     * @param namespace What all its keys begin with; empty is `tidegate`.
     * @param plain Does the store forbid scripts? Then limits are looser, and some are not to be had.
     * @return What ends it: the store is then gone for this engine, which goes on without.
     * @throws IllegalStateException if there is a store already.
     */
    @JvmOverloads
    public fun attach(store: Store, namespace: String = "", plain: Boolean = false): AutoCloseable = attach(store, namespace, plain, Dispatchers.Default)

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

    /** Tells those who listen or measure, if there is something to tell. */
    internal fun tell() {
        tellListeners()
        timings.handOn()
    }

    internal fun tellListeners() {
        if (listening && native.told(native.handle)) publish()
    }

    /** A caller got something in the place of an error, or was to. */
    internal fun noteFallback(route: Long, ok: Boolean) {
        native.engine.noteFallback(route.toULong(), ok, now().toULong())
        if (watched) tell()
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
    internal fun take(name: String, pairs: List<Setting>): UInt = synchronized(policies) {
        open()
        checked(::camel) { native.engine.policy(name, pairs) }.also { names[it.toLong()] = name }
    }

    /** Takes a document in. */
    internal fun load(document: Document): Loaded = synchronized(policies) {
        open()
        document.load(native.engine, now().toULong()).also(::named)
    }.also { changed() }

    /** Goes over from one version of a document to another. */
    internal fun reload(from: Document, to: Document): DocumentChanges = synchronized(policies) {
        open()
        from.reload(native.engine, to, now().toULong()).also { named(it.loaded) }
    }.also { changed() }

    private fun named(loaded: Loaded) {
        for (policy in loaded.policies) names[policy.number.toLong()] = policy.name
    }

    private fun open() = check(!isClosed) { "this engine is closed: make another" }

    /**
     * Ends its work, for good: calls that wait and all later ones are refused with [ForcedOpen], those that have started finish without
     * further attempts, listeners and [events] end, and the store that it shares is let go. Policies of it stay as they are; new ones cannot
     * be made. A second time it does nothing.
     *
     * Close it with the application that it is for: what a closed engine has is freed as soon as nothing refers to it.
     */
    override fun close() {
        synchronized(policies) {
            if (isClosed) return
            isClosed = true
            for (policy in names.keys) native.engine.forceOpen(policy.toUInt(), null, true, now().toULong())
        }
        changed()
        synchronized(listeners) {
            carrier?.close()
            listeners.clear()
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

    internal fun pool(name: String, kind: String, pairs: List<Setting>, again: Boolean) {
        open()
        checked(::camel) {
            if (again) native.engine.retunePool(name, kind, pairs, now().toULong())
            else native.engine.pool(name, kind, pairs, now().toULong())
        }
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
        if (watched) tell()
    }

    internal fun nameOf(policy: Long): String = names[policy] ?: ""

    /** Hands single spans on, for histograms of somebody else's. */
    internal fun time(sink: Timed): AutoCloseable {
        synchronized(listeners) {
            open()
            timings.sinks += sink
            subscribe()
        }
        return AutoCloseable {
            synchronized(listeners) {
                if (sink in timings.sinks) {
                    timings.sinks -= sink
                    subscribe()
                }
            }
        }
    }

    /**
     * Grants every retry without asking its budget while [on], for tests that want a number of attempts. Such a retry costs
     * nothing. Budgets still count calls and answers, and decide again afterwards.
     */
    public fun liftBudgets(on: Boolean): Unit = native.engine.liftBudgets(on)

    /**
     * The journal since the last time, a line each (`docs/telemetry.md`): what was put into the engine, so that it can be put
     * again into one of the same seed. Empty in an engine made without one. At most the last 100,000 inputs are kept; a line
     * `dropped` stands for those that are missing, and [replay] refuses it.
     */
    public fun takeJournal(): List<String> = native.engine.takeJournal()

    /** The lines of the journal that have not been taken, which stay in it. */
    public fun journal(): List<String> = native.engine.journal()

    /**
     * Puts the lines of a journal in: an engine of the same seed and settings does the same again.
     *
     * @throws IllegalArgumentException if a line is none; nothing has been put in then.
     */
    public fun replay(lines: List<String>): Replayed = try {
        native.engine.replay(lines)
    } catch (invalid: dev.tidegate.ffi.Invalid.State) {
        throw IllegalArgumentException(invalid.reason, invalid)
    } catch (invalid: dev.tidegate.ffi.Invalid.Argument) {
        throw IllegalArgumentException(invalid.reason, invalid)
    }

    /**
     * Why a call waits, or how it ended; null where the engine knows nothing of it. A call that has ended is known from the
     * journal, as long as nothing has been taken from that. Its number is what its events say.
     */
    public fun explain(call: Long): CallExplanation? = native.engine.explainCall(call.toULong())

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
        } catch (invalid: dev.tidegate.ffi.Invalid.State) {
            throw IllegalArgumentException(invalid.reason, invalid)
        }
    }

    /**
     * Tells of what the engine does, until it is closed.
     *
     * @param types The types of events that are wanted ([eventTypes]), all of them where it is null. Who leaves out what every
     * call has (`call_done`, `attempt_started`, `attempt_done`, `queued`, `granted`, `hedge_started`, `hedge_won`) costs a
     * call that works next to nothing.
     * @throws IllegalArgumentException if a type is none.
     */
    @JvmOverloads
    public fun listen(types: Set<String>? = null, listener: EventListener): AutoCloseable {
        for (type in types ?: emptySet()) {
            require(type in eventTypes) { "types: \"$type\" must be one of ${eventTypes.joinToString()}" }
        }
        val listening = Listening(types ?: eventTypes, listener)
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

    /** Everything that the engine does, while somebody collects. Whoever is slower than 1,024 events misses the oldest. */
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

    /** Hands events on in their order, by one thread at a time, outside all locks. */
    private fun publish() {
        if (publishing.getAndIncrement() != 0) return
        var seen = 1
        while (seen != 0) {
            for (event in native.engine.takeEvents()) for (it in listeners) if (event.kind in it.types) guarded { it.listener.on(event) }
            seen = publishing.addAndGet(-seen)
        }
    }

    public companion object {
        private val ids = AtomicInteger()
        private val known = ConcurrentHashMap<Int, WeakReference<Engine>>()

        /** The engine of an id, which is in use while a call of it runs. */
        internal fun of(id: Int): Engine? = known[id]?.get()

        /** The engine of the process, made when it is first needed. */
        @JvmStatic
        public val default: Engine by lazy { Engine() }

        /** The types of events: a closed list (`docs/telemetry.md`). */
        @JvmStatic
        public val eventTypes: Set<String> by lazy { Library.loaded { dev.tidegate.ffi.eventTypes() }.toSet() }
    }
}

private class Listening(val types: Set<String>, val listener: EventListener)

/** Runs what is somebody else's: it breaks nothing, whatever it throws. */
@Suppress("TooGenericExceptionCaught")
internal inline fun guarded(work: () -> Unit) {
    try {
        work()
    } catch (error: Throwable) {
        uncaught(error)
    }
}

/**
 * Tells what somebody's code has thrown that must break nothing: to the thread's handler of uncaught exceptions, and on Android, where
 * that handler ends the process, to the log. A handler that throws is somebody's code too.
 */
internal fun uncaught(error: Throwable) {
    val thread = Thread.currentThread()
    try {
        if (!Library.isAndroid()) return thread.uncaughtExceptionHandler.uncaughtException(thread, error)
        Logger.getLogger("dev.tidegate").log(Level.WARNING, "a callback has thrown, which breaks no call", error)
    } catch (@Suppress("TooGenericExceptionCaught") _: Throwable) {
        // There is nobody left to tell.
    }
}
