package dev.tidegate.okhttp

import dev.tidegate.internal.BodyEnd
import dev.tidegate.internal.CopyPiece
import dev.tidegate.internal.Meter
import okio.Buffer
import okio.ForwardingSource
import okio.Source

/** Body that reports its end to the call. */
internal class GuardedSource(body: Source, private val end: BodyEnd, private val meter: Meter?) : ForwardingSource(body) {
    private val last = if (meter == null) null else LastBytes()

    override fun read(sink: Buffer, byteCount: Long): Long {
        end.starts()
        val count = end.reading { delegate.read(sink, byteCount) }
        if (count > 0) meter?.piece(count.toInt(), last!!.of(sink, count.toInt()))
        return count
    }

    override fun close() {
        try {
            super.close()
        } finally {
            end.closed()
        }
    }
}

/** Copies the last bytes of a buffer. It makes no object for a piece. For one reader. */
internal class LastBytes {
    private val cursor = Buffer.UnsafeCursor()
    private val copy: CopyPiece = ::copyTo
    private var buffer = Buffer()
    private var count = 0

    /** Copies the last [count] bytes of [buffer], as long as nothing more comes into it. */
    fun of(buffer: Buffer, count: Int): CopyPiece {
        this.buffer = buffer
        this.count = count
        return copy
    }

    private fun copyTo(to: ByteArray, at: Int): Unit = buffer.readUnsafe(cursor).use {
        var place = at
        var here = cursor.seek(buffer.size - count)
        while (here > 0) {
            cursor.data!!.copyInto(to, place, cursor.start, cursor.end)
            place += here
            here = cursor.next()
        }
    }
}
