package dev.tidegate.ktor

import dev.tidegate.internal.Meter
import dev.tidegate.internal.Pieces
import dev.tidegate.internal.Silence
import dev.tidegate.internal.StreamLimits
import dev.tidegate.internal.Wire
import io.ktor.utils.io.ByteReadChannel
import io.ktor.utils.io.InternalAPI
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.io.Buffer
import kotlinx.io.Source
import kotlinx.io.readByteArray
import kotlin.time.Duration.Companion.milliseconds

/** How long the end of a call waits for a reader that gets its error. */
private val PATIENCE = 100.milliseconds

/**
 * Body that is watched on its way: for how long reads have waited, which failures its events report (semantics 7.7), and what it says that
 * the answer has used (15.6).
 */
@OptIn(InternalAPI::class)
internal class WatchedChannel(
    private val rest: ByteReadChannel,
    private val pieces: Pieces,
    val silence: Silence,
    private val meter: Meter?,
) : ByteReadChannel {
    private val buffer = Buffer()

    @Volatile private var cancelled = false

    /** Error for the reader of a body whose call has ended without it. */
    @Volatile private var broken: Throwable? = null

    /** Receives the outcome of a failure that an event has reported after the delivery. */
    @Volatile var onFailure: (outcome: Long) -> Unit = { }

    /**
     * Reads up to the first piece that counts, the first failure that an event reports, the end, or 64 kB (semantics 7.7.2, 7.7.8). Returns the
     * outcome of the failure; 0 without one.
     */
    suspend fun hold(): Long {
        while (buffer.size < StreamLimits.heldAtMost && rest.awaitContent()) {
            val before = more()
            if (pieces.counts(since(before).readByteArray()) || pieces.failure != Wire.OK) break
        }
        return pieces.failure
    }

    private val failed = CompletableDeferred<Unit>()

    /** Ends the body for its reader, and waits a moment until the reader has got this error. */
    suspend fun fail(error: Throwable) {
        broken = error
        rest.cancel(error)
        withTimeoutOrNull(PATIENCE) { failed.await() }
    }

    private fun broken() {
        failed.complete(Unit)
        broken?.let { throw it }
    }

    override val closedCause: Throwable? get() = broken ?: rest.closedCause

    override val isClosedForRead: Boolean
        get() {
            if (broken != null) return true
            val isClosed = (cancelled || buffer.exhausted()) && rest.isClosedForRead
            if (isClosed) read() // some readers do not ask for more then
            return isClosed
        }

    @InternalAPI
    override val readBuffer: Source get() = buffer

    override suspend fun awaitContent(min: Int): Boolean {
        while (buffer.size < min) {
            if (broken != null) broken()
            silence.begin()
            val some = try {
                rest.awaitContent()
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                ended()
                broken()
                throw error
            }
            if (!some) {
                read()
                ended()
                broken()
                return false
            }
            val before = more()
            silence.piece((buffer.size - before).toInt()) { to, at -> since(before).copyTo(to, at) }
            reported()
        }
        return true
    }

    /** Takes what has come into the buffer, and returns the buffer's size before. */
    private fun more(): Long {
        val before = buffer.size
        buffer.transferFrom(rest.readBuffer)
        meter?.piece((buffer.size - before).toInt()) { to, at -> since(before).copyTo(to, at) }
        return before
    }

    /** Copy of the buffer from an index on, which shares its bytes. */
    private fun since(index: Long): Buffer = Buffer().also { buffer.copyTo(it, index, buffer.size) }

    private fun Buffer.copyTo(to: ByteArray, at: Int) {
        var place = at
        while (!exhausted()) place += readAtMostTo(to, place, to.size)
    }

    /** Settles what the answer has used, because all of it has been read. */
    private fun read() {
        if (rest.closedCause == null) meter?.end(whole = true)
    }

    private fun ended() {
        silence.finish()
        reported()
    }

    private fun reported() {
        val failure = silence.failure
        if (failure != Wire.OK) onFailure(failure)
    }

    override fun cancel(cause: Throwable?) {
        cancelled = true
        meter?.end(whole = false)
        rest.cancel(cause)
    }
}
