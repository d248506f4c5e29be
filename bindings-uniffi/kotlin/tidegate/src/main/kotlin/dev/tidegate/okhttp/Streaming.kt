package dev.tidegate.okhttp

import dev.tidegate.internal.BodyEnd
import dev.tidegate.internal.Meter
import dev.tidegate.internal.Pieces
import dev.tidegate.internal.Silence
import dev.tidegate.internal.StreamLimits
import dev.tidegate.internal.WatchedReads
import dev.tidegate.internal.Wire
import okio.Buffer
import okio.BufferedSource
import okio.ForwardingSource
import okio.Source
import java.io.IOException
import java.util.concurrent.TimeUnit

/** Body of a stream that was read up to its delivery. Its first [bytes] are in the buffer of its source. */
internal class Held(val pieces: Pieces, val bytes: Long)

/**
 * Reads a body into the buffer of its source, for at most [nanos] (no limit if null): up to the first piece that counts, the first failure that
 * an event reports, its end, or 64 kB (semantics 7.7.2, 7.7.8).
 *
 * @throws IOException if the time is up, or the body breaks off.
 */
internal fun BufferedSource.hold(pieces: Pieces, nanos: Long?): Held {
    var size = 0L
    if (nanos != null) timeout().deadline(nanos, TimeUnit.NANOSECONDS)
    try {
        while (size < StreamLimits.heldAtMost && request(size + 1)) {
            val before = size
            size = buffer.size
            val piece = buffer.tail(size - before)
            if (pieces.counts(piece.readByteArray()) || pieces.failure != Wire.OK) break
        }
    } finally {
        timeout().clearDeadline()
    }
    return Held(pieces, size)
}

/** The last bytes of a buffer, without copying them. */
private fun Buffer.tail(count: Long): Buffer = Buffer().also { copyTo(it, size - count, count) }

/** Delivered body of a stream, whose reads are watched. */
internal class WatchedSource(body: Source, private val end: BodyEnd, private val silence: Silence, meter: Meter?, before: Long) :
    ForwardingSource(body) {
    private val reads = WatchedReads(end, silence, meter, before)
    private val last = LastBytes()

    override fun read(sink: Buffer, byteCount: Long): Long = reads.reading({ delegate.read(sink, byteCount) }, { last.of(sink, it) })

    override fun close() {
        silence.rest()
        try {
            super.close()
        } finally {
            end.closed()
        }
    }
}
