package dev.tidegate.fleet

import dev.tidegate.PlatformTime
import dev.tidegate.ffi.StoreReply
import dev.tidegate.internal.Library
import java.util.concurrent.atomic.AtomicLong
import kotlin.time.TimeSource
import dev.tidegate.ffi.MemoryStore as NativeStore

/**
 * A store in the place of Redis, in this process: several engines, as if they were processes, share it in one test.
 *
 * It knows the engine's own commands and no others, and answers them at once, in the thread or coroutine of the call; so that it fits `runTest` and
 * [dev.tidegate.testing.FakeTime], where an answer from another thread would come too late.
 *
 * ```kotlin
 * val store = MemoryStore()
 * val (here, there) = List(2) { Engine(seed = it.toLong()).also { engine -> engine.attach(store) } }
 * store.up = false // and both go on without it
 * ```
 *
 * @param timeSource The clock that stands for the server's: the platform's if left out, `testTimeSource` within `runTest`.
 */
public class MemoryStore @JvmOverloads constructor(timeSource: TimeSource = PlatformTime) : Store {
    private val native = Library.loaded { NativeStore() }
    private val origin = timeSource.markNow()
    private val asked = AtomicLong()

    /** Whether it answers. While it does not, every command is lost. */
    @Volatile public var up: Boolean = true

    /** How many commands have come, the lost ones too. */
    public val commands: Long get() = asked.get()

    /**
     * Carries out one command.
     *
     * @throws StoreException with the text that Redis would answer with.
     * @throws IllegalStateException if it is not up.
     */
    override suspend fun execute(words: List<ByteArray>, key: Int): Any? = when (val reply = answer(words)) {
        is StoreReply.Answer -> reply.bytes
        is StoreReply.Error -> throw StoreException(reply.text)
        is StoreReply.Lost -> error("the store is not up")
    }

    /** Forgets everything, scripts included, as a new server in its place would have. */
    public fun flush() {
        for (command in listOf("FLUSHALL", "SCRIPT FLUSH")) native.execute(command.split(' ').map { it.encodeToByteArray() }, now())
    }

    /** What it holds: a line a key, with its time to live in milliseconds. */
    public fun describe(): List<String> = native.describe(now())

    /** What comes of a command, now. */
    internal fun answer(words: List<ByteArray>): StoreReply {
        asked.incrementAndGet()
        return if (up) native.execute(words, now()) else StoreReply.Lost
    }

    private fun now(): ULong = origin.elapsedNow().inWholeMicroseconds.coerceAtLeast(0).toULong()
}
