package dev.tidegate.spring

import dev.tidegate.internal.Beginning
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.asExecutor
import java.io.ByteArrayOutputStream
import java.io.IOException
import java.io.InputStream
import java.io.InterruptedIOException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException
import kotlin.time.Duration
import kotlin.time.DurationUnit

/**
 * Body whose beginning is read before its reader has it. The reader gets it from its beginning. Another thread reads the beginning, because
 * not every client's read can be stopped: a read that takes too long goes on, and the reader waits for it.
 */
internal class BegunStream(private val of: InputStream, private val most: Int = Beginning.bytes) : InputStream() {
    private val kept = ByteArrayOutputStream()
    @Volatile private var stopped = false

    /** Whether the beginning is the whole body. */
    @Volatile var isWhole = false
        private set

    @Volatile private var error: IOException? = null

    /** Bytes of [kept] that the reader has. */
    private var given = 0

    /** Everything in [kept], once no more is added. */
    private val begun by lazy { kept.toByteArray() }

    // Last, because the other thread uses what is above.
    private val reading = CompletableFuture.runAsync(::readBeginning, Dispatchers.IO.asExecutor())

    /** Waits for the beginning for at most [time] and returns what has come. If reading fails, the reader gets the error. */
    fun beginning(time: Duration): ByteArray {
        try {
            await { get(time.toLong(DurationUnit.NANOSECONDS), TimeUnit.NANOSECONDS) }
        } catch (_: TimeoutException) {
            stopped = true
        }
        return synchronized(kept) { kept.toByteArray() }
    }

    private fun readBeginning() {
        val piece = ByteArray(8_192)
        try {
            while (!stopped && kept.size() < most) {
                val count = of.read(piece, 0, minOf(piece.size, most - kept.size()))
                if (count < 0) {
                    isWhole = true
                    return
                }
                synchronized(kept) { kept.write(piece, 0, count) }
            }
        } catch (failure: IOException) {
            error = failure
        }
    }

    private inline fun await(wait: CompletableFuture<Void>.() -> Unit) {
        try {
            reading.wait()
        } catch (interrupted: InterruptedException) {
            Thread.currentThread().interrupt()
            throw InterruptedIOException("interrupted").initCause(interrupted)
        }
    }

    override fun read(): Int = ByteArray(1).let { if (read(it, 0, 1) < 0) -1 else it[0].toInt() and 0xff }

    override fun read(into: ByteArray, offset: Int, length: Int): Int {
        await { get() }
        val left = minOf(length, begun.size - given)
        if (left > 0) {
            begun.copyInto(into, offset, given, given + left)
            given += left
            return left
        }
        error?.let { throw it }
        return of.read(into, offset, length)
    }

    override fun close() = of.close()
}
