package dev.tidegate.internal

import dev.tidegate.Engine
import dev.tidegate.ffi.StoreCommand
import dev.tidegate.ffi.StoreReply
import dev.tidegate.fleet.MemoryStore
import dev.tidegate.fleet.Store
import dev.tidegate.fleet.StoreException
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel
import kotlinx.coroutines.isActive
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeoutOrNull

/** Sends an engine's commands to its store, detached from any call, and passes the replies back. It decides nothing. */
internal class Carrier(private val engine: Engine, private val store: Store, dispatcher: CoroutineDispatcher) : AutoCloseable {
    private val scope = CoroutineScope(SupervisorJob() + dispatcher)

    /** Sends the pending commands. */
    @OptIn(DelicateCoroutinesApi::class)
    fun send() {
        for (command in engine.native.engine.takeCommands()) {
            if (store is MemoryStore) {
                engine.answered(command.id, if (scope.isActive) store.answer(command.words) else StoreReply.Lost)
                continue
            }
            // Starts even after close, so that the engine learns of every command, here that it was lost.
            scope.launch(start = CoroutineStart.ATOMIC) { engine.answered(command.id, answer(command)) }
        }
    }

    private suspend fun answer(command: StoreCommand): StoreReply {
        if (!scope.isActive) return StoreReply.Lost // a function begins in a cancelled coroutine too
        val ms = (command.withinUs.toLong() + 999) / 1000
        var reply: StoreReply = StoreReply.Lost
        try {
            withTimeoutOrNull(ms) { reply = StoreReply.Answer(bytes(store.execute(command.words, command.key.toInt()))) }
        } catch (error: StoreException) {
            reply = StoreReply.Error(error.message ?: "ERR")
        } catch (@Suppress("TooGenericExceptionCaught") _: Throwable) {
            reply = StoreReply.Lost // any other error means that there was no reply
        }
        return reply
    }

    private fun bytes(answer: Any?): ByteArray = when (answer) {
        null -> ByteArray(0)
        is ByteArray -> answer
        else -> answer.toString().encodeToByteArray() // an integer, or a text
    }

    override fun close() = scope.cancel()

    companion object {
        /** Threads of all commands. A user's store may block them: `Dispatchers.Default` has too few, and a program's own work needs them. */
        val threads: CoroutineDispatcher get() = Dispatchers.IO.limitedParallelism(64)
    }
}
