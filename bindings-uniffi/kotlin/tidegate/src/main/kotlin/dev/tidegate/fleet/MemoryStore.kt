package dev.tidegate.fleet

import dev.tidegate.PlatformTime
import dev.tidegate.ffi.StoreReply
import dev.tidegate.internal.Library
import java.util.concurrent.atomic.AtomicLong
import kotlin.time.TimeSource
import dev.tidegate.ffi.MemoryStore as NativeStore

/**
 * In-process replacement for Redis, for tests: several engines share it as if they were processes.
 *
 * It knows only the engine's own commands. It answers them at once, in the thread or coroutine of the call, so that it fits `runTest` and
 * [dev.tidegate.testing.FakeTime], where an answer from another thread would come too late.
 *
 * ```kotlin
 * val store = MemoryStore()
 * val (here, there) = List(2) { Engine(seed = it.toLong()).also { engine -> engine.attach(store) } }
 * store.up = false // and both go on without it
 * ```
 *
 * @param timeSource Clock of the server: by default the platform's, `testTimeSource` within `runTest`.
 */
public class MemoryStore @JvmOverloads constructor(timeSource: TimeSource = PlatformTime) : Store {
    private val native = Library.loaded { NativeStore() }
    private val origin = timeSource.markNow()
    private val asked = AtomicLong()

    /** Whether the store answers. While it does not, every command is lost. */
    @Volatile public var up: Boolean = true

    /** Number of commands received, including the lost ones. */
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

    /** Forgets everything, including scripts, as a new server in its place would. */
    public fun flush() {
        for (command in listOf("FLUSHALL", "SCRIPT FLUSH")) native.execute(command.split(' ').map { it.encodeToByteArray() }, now())
    }

    /** Contents: one line for each key, with its time to live in milliseconds. */
    public fun describe(): List<String> = native.describe(now())

    /** Reply to a command, now. */
    internal fun answer(words: List<ByteArray>): StoreReply {
        asked.incrementAndGet()
        return if (up) native.execute(words, now()) else StoreReply.Lost
    }

    private fun now(): ULong = origin.elapsedNow().inWholeMicroseconds.coerceAtLeast(0).toULong()
}
