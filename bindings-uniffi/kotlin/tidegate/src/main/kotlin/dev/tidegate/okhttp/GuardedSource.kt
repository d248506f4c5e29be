package dev.tidegate.okhttp

import dev.tidegate.internal.BodyEnd
import okio.Buffer
import okio.ForwardingSource
import okio.Source

/** Body that reports its end to the call. */
internal class GuardedSource(body: Source, private val end: BodyEnd) : ForwardingSource(body) {
    override fun read(sink: Buffer, byteCount: Long): Long = end.reading { delegate.read(sink, byteCount) }

    override fun close() {
        try {
            super.close()
        } finally {
            end.closed()
        }
    }
}
