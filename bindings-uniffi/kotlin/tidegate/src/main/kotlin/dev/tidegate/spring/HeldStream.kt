package dev.tidegate.spring

import dev.tidegate.internal.BodyEnd
import dev.tidegate.internal.CopyPiece
import dev.tidegate.internal.Meter
import dev.tidegate.internal.Pieces
import dev.tidegate.internal.Silence
import dev.tidegate.internal.StreamLimits
import dev.tidegate.internal.WatchedReads
import dev.tidegate.internal.Wire
import java.io.ByteArrayOutputStream
import java.io.FilterInputStream
import java.io.InputStream

/** Body of a stream that is read up to its delivery. Its reader gets it from its beginning. */
internal class HeldStream(private val of: InputStream, val pieces: Pieces) : InputStream() {
    private var held = ByteArray(0)
    private var given = 0

    /** Number of bytes that came before the delivery. */
    val size: Int get() = held.size

    /** Reads up to the first piece that counts, the first failure that an event reports, the end, or 64 kB (semantics 7.7.2, 7.7.8). */
    fun hold() {
        val kept = ByteArrayOutputStream()
        val piece = ByteArray(8_192)
        while (kept.size() < StreamLimits.heldAtMost) {
            val count = of.read(piece)
            if (count < 0) break
            kept.write(piece, 0, count)
            if (pieces.counts(piece.copyOf(count)) || pieces.failure != Wire.OK) break
        }
        held = kept.toByteArray()
    }

    override fun read(): Int = ByteArray(1).let { if (read(it, 0, 1) < 0) -1 else it[0].toInt() and 0xff }

    override fun read(into: ByteArray, offset: Int, length: Int): Int {
        val left = minOf(length, held.size - given)
        if (left <= 0) return of.read(into, offset, length)
        held.copyInto(into, offset, given, given + left)
        given += left
        return left
    }

    override fun close() = of.close()
}

/** Skips by reading, so that the end of the body and its errors are noticed. Returns the number of bytes, fewer at the end. */
internal fun InputStream.skipByReading(count: Long): Long {
    val piece = ByteArray(minOf(maxOf(count, 0), 8_192).toInt())
    var skipped = 0L
    while (skipped < count) {
        val read = read(piece, 0, minOf(piece.size.toLong(), count - skipped).toInt())
        if (read < 0) break
        skipped += read
    }
    return skipped
}

/** Delivered body of a stream, whose reads are watched. */
internal class WatchedStream(of: InputStream, private val end: BodyEnd, private val silence: Silence, meter: Meter?, before: Long) :
    FilterInputStream(of) {
    private val reads = WatchedReads(end, silence, meter, before)

    override fun read(): Int = ByteArray(1).let { if (read(it, 0, 1) < 0) -1 else it[0].toInt() and 0xff }

    override fun read(into: ByteArray, offset: Int, length: Int): Int =
        reads.reading({ super.read(into, offset, length).toLong() }, { count -> bytes(into, offset, count) }).toInt()

    override fun skip(count: Long): Long = skipByReading(count)

    private fun bytes(from: ByteArray, offset: Int, count: Int): CopyPiece = { to, at -> from.copyInto(to, at, offset, offset + count) }

    override fun close() {
        silence.rest()
        try {
            super.close()
        } finally {
            end.closed()
        }
    }
}
