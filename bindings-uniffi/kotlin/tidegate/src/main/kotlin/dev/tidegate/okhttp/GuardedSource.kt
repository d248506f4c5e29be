package dev.tidegate.okhttp

import dev.tidegate.internal.Wire
import okhttp3.MediaType
import okhttp3.ResponseBody
import okhttp3.ResponseBody.Companion.asResponseBody
import okio.Buffer
import okio.ForwardingSource
import okio.Source
import okio.buffer
import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean

/** Body that reports its end to the call once: it was read to its end, was closed, or has failed. */
internal class GuardedSource(
    body: Source,
    private val isLate: () -> Boolean,
    private val judge: (IOException) -> Long,
    private val deadline: (Throwable) -> IOException,
    private val end: (outcome: Long) -> Unit,
) : ForwardingSource(body) {
    private val ended = AtomicBoolean()

    override fun read(sink: Buffer, byteCount: Long): Long {
        try {
            val read = super.read(sink, byteCount)
            if (read < 0) once(Wire.OK)
            return read
        } catch (error: IOException) {
            if (!isLate()) {
                once(judge(error))
                throw error
            }
            once(Wire.TIMEOUT)
            throw deadline(error)
        }
    }

    /** Ends the body at the deadline even if nothing reads it, so that a forgotten body keeps no slot. */
    fun late() = once(Wire.TIMEOUT)

    override fun close() {
        try {
            super.close()
        } finally {
            once(Wire.OK)
        }
    }

    private fun once(outcome: Long) {
        if (ended.compareAndSet(false, true)) end(outcome)
    }

    fun asBody(type: MediaType?, length: Long): ResponseBody = buffer().asResponseBody(type, length)
}
