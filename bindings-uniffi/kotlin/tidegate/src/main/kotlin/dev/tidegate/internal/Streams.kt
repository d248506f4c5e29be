package dev.tidegate.internal

import dev.tidegate.Core
import dev.tidegate.Engine
import dev.tidegate.Mistake
import dev.tidegate.PolicyException
import dev.tidegate.ffi.EventReader
import dev.tidegate.ffi.readLimits
import kotlinx.coroutines.delay
import java.io.IOException
import java.util.concurrent.atomic.AtomicLong
import kotlin.time.Duration.Companion.microseconds

/** Timeouts of streams that a policy has (semantics 7.7). */
internal class StreamLimits(core: Core) {
    /** Whether it bounds the time to the first byte. The engine keeps its length. */
    val firstByte = core.span(FIRST_BYTE) != null

    /** Longest silence, in microseconds; null without a limit. */
    val idle: Long? = core.span(IDLE)?.inWholeMicroseconds

    /** Whether the deadline ends at the delivery. */
    val untilDelivery = core.word(UNTIL) == DELIVERY

    /** Whether only data of server-sent events count. */
    val events = core.word("counts") == "sse_data"

    /** Whether the policy has a timeout of a stream. */
    val some = firstByte || idle != null

    /** Whether a delivered body is watched. */
    val watches = idle != null || some && events

    companion object {
        private const val FIRST_BYTE = "first_byte_timeout"
        private const val IDLE = "idle_timeout"
        private const val UNTIL = "deadline_until"
        private const val DELIVERY = "delivery"

        /** Largest number of bytes that is read before the delivery. */
        val heldAtMost: Long = readLimits().held.toLong()

        private const val EVENTS = "text/event-stream"

        /** Whether a request with these values of `Accept` asks for a stream. */
        fun accepts(values: Iterable<String>): Boolean = values.any { it.contains(EVENTS, ignoreCase = true) }

        /** Refuses a policy that gives a timeout that an adapter does not serve; a preset's is ignored (semantics 7.7.23). */
        fun refuse(core: Core, adapter: String) {
            val limits = core.streams
            if (!limits.some && !limits.untilDelivery) return
            val untilDelivery = core.word("own $UNTIL") == DELIVERY
            val rule = "$adapter does not serve timeouts of streams: use an HTTP client, or leave the key out"
            val spans = listOf(FIRST_BYTE, IDLE).mapNotNull { key -> core.span("own $key")?.let { Mistake(camel(key), "$it", rule) } }
            val mistakes = spans + if (untilDelivery) listOf(Mistake(camel(UNTIL), "DELIVERY", rule)) else emptyList()
            if (mistakes.isNotEmpty()) throw PolicyException(mistakes)
        }
    }
}

/** Bytes of events that the engine reads together, so that a piece costs no crossing. */
private const val TOGETHER = 8 * 1024

/** The part of `idleTimeout` by which a silence may be noticed late, because pieces are read together. */
private const val SLACK = 16

/** Longest time that a reader gets to take what has come, before a silence is reported that is too long, in microseconds. */
private const val MERCY_US = 50_000L

/** Copies a piece into an array, at an index. */
internal typealias CopyPiece = (to: ByteArray, at: Int) -> Unit

/** Which pieces of one body count (semantics 7.7.13). [plain]: the body has no coding, or the client has decoded it. */
internal class Pieces(limits: StreamLimits, plain: Boolean) {
    private val reader = if (limits.events && plain) EventReader() else null

    /** Whether only data of events count. */
    val events: Boolean get() = reader != null

    /** Outcome of the last failure that an event has reported; 0 without one. */
    @Volatile var failure = Wire.OK
        private set

    /** Reads a piece and returns whether it counts. */
    fun counts(piece: ByteArray): Boolean {
        if (reader == null) return piece.isNotEmpty()
        val read = reader.read(piece).toLong()
        val counts = read and 1L
        if (read > counts) failure = read - counts
        return counts == 1L
    }
}

/**
 * Silence of one body: for how long reads have waited since the last piece that counts. A piece costs no event and no crossing: the reader
 * notes it here, and the call's timer asks (semantics 7.7.16, 7.7.17).
 *
 * Where all bytes count, a piece takes no lock either: the reader alone writes, and the timer sees it a moment later.
 */
internal class Silence(private val engine: Engine, private val pieces: Pieces, idle: Long?) {
    private val slack = (idle ?: Long.MAX_VALUE) / SLACK

    @Volatile private var waited = 0L

    /** When the read that waits began; negative while nothing reads. */
    private val began = AtomicLong(-1)

    /** Pieces of events that the engine has not read, and for how long reads have waited among them. Guarded by this object. */
    private var unread: ByteArray? = null
    private var size = 0
    private var among = 0L

    /** Outcome of the last failure that an event has reported; 0 without one. */
    val failure: Long get() = pieces.failure

    /** Notes that a read waits from now on. */
    fun begin() {
        if (began.get() < 0) began.lazySet(engine.now())
    }

    /** Notes that nothing reads any more. */
    @Synchronized
    fun rest() {
        waited += took()
    }

    /** Time for which the read that waits has waited. It waits no longer. */
    private fun took(): Long {
        val since = began.get()
        began.lazySet(-1)
        return if (since < 0) 0 else maxOf(engine.now() - since, 0)
    }

    /** Notes a piece of [length] bytes that a read has got. */
    fun piece(length: Int, copy: CopyPiece) {
        when {
            pieces.events -> event(length, copy)
            length > 0 -> {
                if (waited > 0) waited = 0
                began.lazySet(-1)
            }
            else -> rest()
        }
    }

    @Synchronized
    private fun event(length: Int, copy: CopyPiece) {
        val took = took()
        if (among + took > slack) readTogether()
        waited += took
        among += took
        keep(length, copy)
    }

    private fun keep(length: Int, copy: CopyPiece) {
        if (length > TOGETHER - size) readTogether()
        if (length > TOGETHER) {
            if (pieces.counts(ByteArray(length).also { copy(it, 0) })) waited = 0
            return
        }
        copy(unread ?: ByteArray(TOGETHER).also { unread = it }, size)
        size += length
    }

    private fun readTogether() {
        among = 0
        if (size == 0) return
        if (pieces.counts(unread!!.copyOf(size))) waited = 0
        size = 0
    }

    /** Age of the last piece that counts, in microseconds. */
    @Synchronized
    fun age(): Long {
        readTogether()
        val since = began.get()
        return waited + if (since < 0) 0 else maxOf(engine.now() - since, 0)
    }

    /** Reads what is left at the end of the body. */
    @Synchronized
    fun finish() {
        readTogether()
        rest()
    }
}

/**
 * Watches the delivered body of a call: reports for how long reads have waited, and passes the step on that ends the call.
 * [first] is the time to the first report, in microseconds.
 */
internal suspend fun watchSilence(run: Run<*>, attempt: Int, silence: Silence, idle: Long, first: Long, ends: suspend (step: Long) -> Unit) {
    var us = first
    while (us >= 0) {
        delay(us.microseconds)
        var age = silence.age()
        if (age >= idle) {
            // A pause of the whole process looks like silence: the reader gets a moment to take what came meanwhile.
            delay(minOf(idle / SLACK, MERCY_US).microseconds)
            age = silence.age()
        }
        val step = run.engine.advance(run.call, Wire.progress(attempt, age))
        if (Wire.action(step) == Wire.DONE) return ends(step)
        us = Wire.span(step)
    }
}

/**
 * Reads of a delivered body that is watched: notes for how long they wait, and reports the body's end to its call. [before] bytes came before
 * the delivery.
 */
internal class WatchedReads(private val end: BodyEnd, private val silence: Silence, private val meter: Meter?, private var before: Long) {
    /** Reads by [read], which returns a negative number at the end of the body. [copy] is how to copy what it has read. */
    inline fun reading(read: () -> Long, copy: (count: Int) -> CopyPiece): Long {
        end.starts()
        val isNew = before <= 0
        if (isNew) silence.begin()
        val count = try {
            read()
        } catch (error: IOException) {
            finish()
            throw end.failed(error)
        }
        if (count < 0) {
            finish()
            end.whole()
        } else {
            if (isNew) noted(count.toInt(), copy) else before -= count
            if (count > 0) meter?.piece(count.toInt(), copy(count.toInt()))
        }
        end.passedOn()
        return count
    }

    private inline fun noted(count: Int, copy: (count: Int) -> CopyPiece) {
        silence.piece(count, copy(count))
        reported()
    }

    /** Notes that the body has ended for its reader. */
    fun finish() {
        silence.finish()
        reported()
    }

    /** Ends the call if an event has reported a failure. */
    fun reported() {
        val failure = silence.failure
        if (failure != Wire.OK) end.reported(failure)
    }
}
