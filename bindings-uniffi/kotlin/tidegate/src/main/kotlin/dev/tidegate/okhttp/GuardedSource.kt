package dev.tidegate.okhttp

import dev.tidegate.internal.BodyEnd
import okhttp3.MediaType
import okhttp3.ResponseBody
import okhttp3.ResponseBody.Companion.asResponseBody
import okio.Buffer
import okio.ForwardingSource
import okio.Source
import okio.buffer

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

    fun asBody(type: MediaType?, length: Long): ResponseBody = buffer().asResponseBody(type, length)
}
