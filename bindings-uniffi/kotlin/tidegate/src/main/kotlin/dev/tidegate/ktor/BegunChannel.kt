package dev.tidegate.ktor

import dev.tidegate.internal.Beginning
import io.ktor.utils.io.ByteReadChannel
import io.ktor.utils.io.InternalAPI
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.io.Buffer
import kotlinx.io.Source
import kotlinx.io.readByteArray
import kotlin.time.Duration

/** Body whose beginning is read before its reader has it. The reader gets it from its beginning. */
@OptIn(InternalAPI::class)
internal class BegunChannel(private val rest: ByteReadChannel) : ByteReadChannel {
    private val buffer = Buffer()

    @Volatile private var cancelled = false

    /** Reads the beginning for at most [time] and returns it. If reading fails, what has come is the beginning, and the reader gets the error. */
    suspend fun beginning(time: Duration): ByteArray {
        withTimeoutOrNull(time) {
            try {
                awaitContent(Beginning.bytes)
            } catch (@Suppress("TooGenericExceptionCaught") _: Throwable) {
                currentCoroutineContext().ensureActive()
            }
        }
        return buffer.peek().readByteArray(minOf(buffer.size, Beginning.bytes.toLong()).toInt())
    }

    override val closedCause: Throwable? get() = rest.closedCause

    override val isClosedForRead: Boolean get() = (cancelled || buffer.exhausted()) && rest.isClosedForRead

    @InternalAPI
    override val readBuffer: Source get() = buffer

    override suspend fun awaitContent(min: Int): Boolean {
        while (buffer.size < min && rest.awaitContent()) buffer.transferFrom(rest.readBuffer)
        return buffer.size >= min
    }

    override fun cancel(cause: Throwable?) {
        cancelled = true
        rest.cancel(cause)
    }
}
