package dev.tidegate.okhttp

import dev.tidegate.internal.Beginning
import okio.Buffer
import okio.BufferedSource
import okio.Source
import okio.Timeout
import java.io.IOException
import java.util.concurrent.TimeUnit

/**
 * Reads the beginning of a body into the buffer of its source, for at most [nanos]. Returns the error that ended the reading; null if there was
 * none.
 */
internal fun BufferedSource.awaitBeginning(nanos: Long): IOException? = try {
    timeout().deadline(nanos, TimeUnit.NANOSECONDS)
    request(Beginning.bytes.toLong())
    null
} catch (error: IOException) {
    error
} finally {
    timeout().clearDeadline()
}

/** Body that broke off while its beginning was read: what had come, then the error. */
internal class BrokenSource(private val of: BufferedSource, private val error: IOException) : Source {
    override fun read(sink: Buffer, byteCount: Long): Long {
        if (of.buffer.size == 0L) throw error
        return of.buffer.read(sink, byteCount)
    }

    override fun timeout(): Timeout = of.timeout()

    override fun close() = of.close()
}
