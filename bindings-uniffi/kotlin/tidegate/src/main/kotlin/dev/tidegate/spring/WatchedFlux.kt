package dev.tidegate.spring

import dev.tidegate.internal.BodyEnd
import dev.tidegate.internal.Meter
import dev.tidegate.internal.Silence
import dev.tidegate.internal.Wire
import org.reactivestreams.Subscription
import org.springframework.core.io.buffer.DataBuffer
import reactor.core.CoreSubscriber
import reactor.core.publisher.Flux
import reactor.core.publisher.Operators
import reactor.util.context.Context
import java.io.IOException
import java.util.concurrent.atomic.AtomicLong

/**
 * Delivered body that is watched: for how long its reader has waited for the next piece, which failures its events report, and what it says
 * that the answer has used. [before] bytes came before the delivery.
 */
internal fun Flux<DataBuffer>.watched(end: BodyEnd, silence: Silence, meter: Meter?, before: Int): Flux<DataBuffer> =
    transform(Operators.lift<DataBuffer, DataBuffer> { _, reader -> Watched(reader, end, silence, meter, before) })

private class Watched(
    private val reader: CoreSubscriber<in DataBuffer>,
    private val end: BodyEnd,
    private val silence: Silence,
    private val meter: Meter?,
    private var before: Int,
) : CoreSubscriber<DataBuffer>, Subscription {
    private lateinit var body: Subscription

    /** Pieces that the reader has asked for and has not got. */
    private val wanted = AtomicLong()

    override fun currentContext(): Context = reader.currentContext()

    override fun onSubscribe(subscription: Subscription) {
        body = subscription
        reader.onSubscribe(this)
    }

    override fun request(count: Long) {
        wanted.updateAndGet { Operators.addCap(it, count) }
        silence.begin()
        body.request(count)
    }

    override fun onNext(piece: DataBuffer) {
        val count = piece.readableByteCount()
        if (before > 0) before -= count else silence.piece(count, piece::copyTo)
        meter?.piece(count, piece::copyTo)
        reported()
        // The reader's own work is no silence.
        silence.rest()
        reader.onNext(piece)
        if (wanted.updateAndGet { if (it == Long.MAX_VALUE || it == 0L) it else it - 1 } > 0) silence.begin()
    }

    override fun onError(error: Throwable) {
        finish()
        reader.onError(error)
    }

    override fun onComplete() {
        finish()
        try {
            end.whole()
        } catch (broken: IOException) {
            return reader.onError(broken)
        }
        reader.onComplete()
    }

    override fun cancel() {
        silence.rest()
        body.cancel()
    }

    private fun finish() {
        silence.finish()
        reported()
    }

    /** Ends the call if an event has reported a failure. */
    private fun reported() {
        if (silence.failure != Wire.OK) end.reported(silence.failure)
    }
}

/** Copies the bytes that are to be read, and leaves them there. */
private fun DataBuffer.copyTo(to: ByteArray, at: Int) {
    val from = readPosition()
    read(to, at, readableByteCount())
    readPosition(from)
}
