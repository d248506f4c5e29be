package dev.tidegate.spring

import dev.tidegate.internal.Beginning
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.withTimeoutOrNull
import org.reactivestreams.Subscription
import org.springframework.core.io.buffer.DataBuffer
import org.springframework.core.io.buffer.DataBufferUtils
import org.springframework.core.io.buffer.DefaultDataBufferFactory
import reactor.core.publisher.BaseSubscriber
import reactor.core.publisher.Flux
import reactor.core.publisher.FluxSink
import kotlin.time.Duration

/**
 * Body whose beginning is read before its reader subscribes. The reader gets it from its beginning, and reading goes at its pace. [isEnough] gets
 * each piece, and the size of the beginning with it.
 */
internal class BegunBody(private val isEnough: (piece: ByteArray, size: Int) -> Boolean = { _, size -> size >= Beginning.bytes }) :
    BaseSubscriber<DataBuffer>() {
    private val kept = ArrayDeque<ByteArray>()
    private val begun = CompletableDeferred<Unit>()

    /** Number of bytes that have come before the reader. */
    @Volatile var size = 0
        private set
    private var ended = false
    private var failure: Throwable? = null
    private var sink: FluxSink<DataBuffer>? = null

    /** Reads the beginning for at most [time] and returns it. If reading fails, what has come is the beginning, and the reader gets the error. */
    suspend fun beginning(time: Duration): ByteArray {
        withTimeoutOrNull(time) { begun.await() }
        begun.complete(Unit) // a piece that comes now waits for the reader
        val all = synchronized(kept) { kept.fold(ByteArray(0), ByteArray::plus) }
        return all.copyOf(minOf(all.size, Beginning.bytes))
    }

    /** Waits for the beginning. Throws the error of a body that breaks off before. */
    suspend fun hold() {
        begun.await()
        synchronized(kept) { failure }?.let { throw it }
    }

    /** The whole body, for one reader. */
    fun whole(): Flux<DataBuffer> = Flux.create { to ->
        synchronized(kept) {
            while (kept.isNotEmpty()) to.next(buffer(kept.removeFirst()))
            sink = to
            if (ended) end(to)
        }
        to.onRequest(::request)
        to.onDispose(::cancel)
    }

    override fun hookOnSubscribe(subscription: Subscription) = request(1)

    override fun hookOnNext(value: DataBuffer) {
        val bytes = ByteArray(value.readableByteCount()).also(value::read)
        DataBufferUtils.release(value)
        val to = synchronized(kept) {
            if (sink == null) {
                kept += bytes
                size += bytes.size
            }
            sink
        }
        when {
            to != null -> to.next(buffer(bytes))
            isEnough(bytes, size) -> begun.complete(Unit)
            begun.isActive -> request(1)
        }
    }

    override fun hookOnComplete() = over(null)

    override fun hookOnError(throwable: Throwable) = over(throwable)

    private fun over(error: Throwable?) {
        val to = synchronized(kept) {
            ended = true
            failure = error
            sink
        }
        to?.let(::end)
        begun.complete(Unit)
    }

    private fun end(to: FluxSink<DataBuffer>) {
        failure?.let(to::error) ?: to.complete()
    }

    private fun buffer(bytes: ByteArray): DataBuffer = DefaultDataBufferFactory.sharedInstance.wrap(bytes)
}
