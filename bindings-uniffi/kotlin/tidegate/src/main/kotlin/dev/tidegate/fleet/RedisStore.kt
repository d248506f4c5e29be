package dev.tidegate.fleet

import io.lettuce.core.RedisCommandExecutionException
import io.lettuce.core.api.StatefulRedisConnection
import io.lettuce.core.api.async.BaseRedisAsyncCommands
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection
import io.lettuce.core.codec.ByteArrayCodec
import io.lettuce.core.output.CommandOutput
import io.lettuce.core.protocol.CommandArgs
import io.lettuce.core.protocol.ProtocolKeyword
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.suspendCancellableCoroutine
import java.nio.ByteBuffer
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException

/**
 * Redis or Valkey through Lettuce, as one server or as a cluster.
 *
 * ```kotlin
 * val connection = RedisClient.create("redis://localhost").connect(ByteArrayCodec.INSTANCE)
 * val engine = Engine()
 * engine.attach(RedisStore(connection))
 * ```
 *
 * [connecting] makes a store that connects by itself, so that an unreachable server does not delay the start.
 *
 * The connection stays yours: open it before, and close it after the engine's last call. Do not share it with transactions or blocking
 * commands. When a connection breaks, Lettuce repeats the commands that were in flight; a command whose time is up is cancelled and not
 * repeated. Set `ClientOptions.disconnectedBehavior(REJECT_COMMANDS)`, so that Lettuce reports a lost connection at once.
 *
 * @param commands The asynchronous commands of a connection for bytes.
 */
public class RedisStore(private val commands: BaseRedisAsyncCommands<ByteArray, ByteArray>) : Store {
    /** Store on one server, or on a primary with replicas. */
    public constructor(connection: StatefulRedisConnection<ByteArray, ByteArray>) : this(connection.async())

    /** Store on a cluster. */
    public constructor(connection: StatefulRedisClusterConnection<ByteArray, ByteArray>) : this(connection.async())

    override suspend fun execute(words: List<ByteArray>, key: Int): Any? {
        val arguments = CommandArgs(ByteArrayCodec.INSTANCE)
        for ((place, word) in words.withIndex()) {
            if (place == key) arguments.addKey(word) else if (place > 0) arguments.add(word)
        }
        val sent = commands.dispatch(Name(words[0]), Answer(), arguments)
        return suspendCancellableCoroutine { waiting ->
            waiting.invokeOnCancellation { sent.cancel(false) }
            sent.whenComplete { answer, error ->
                when (error) {
                    null -> waiting.resume(answer)
                    is RedisCommandExecutionException -> waiting.resumeWithException(StoreException(error.message ?: "ERR", error))
                    is CancellationException -> waiting.cancel(error)
                    else -> waiting.resumeWithException(error)
                }
            }
        }
    }

    public companion object {
        /**
         * Store that connects in the background, when the first command comes. A server that is unreachable, does not answer or refuses the
         * password delays neither the start nor a call: after `store_timeout` the call goes by `on_loss`. If connecting has failed, the
         * next command tries again. Close the client after the engine's last call.
         *
         * ```kotlin
         * val client = RedisClient.create()
         * engine.attach(RedisStore.connecting { client.connectAsync(ByteArrayCodec.INSTANCE, RedisURI.create("redis://localhost")) })
         * ```
         *
         * @param connect Starts to connect, without waiting for it.
         */
        @JvmStatic
        public fun connecting(connect: () -> CompletionStage<StatefulRedisConnection<ByteArray, ByteArray>>): Store = Connecting(connect)
    }

    /** One connection for all commands; the first command opens it. */
    private class Connecting(private val connect: () -> CompletionStage<StatefulRedisConnection<ByteArray, ByteArray>>) : Store {
        private val lock = Any()
        private var store: CompletableFuture<RedisStore>? = null

        override suspend fun execute(words: List<ByteArray>, key: Int): Any? = connected().execute(words, key)

        private suspend fun connected(): RedisStore {
            val begun = synchronized(lock) {
                store?.takeUnless { it.isCompletedExceptionally } ?: connect().toCompletableFuture().thenApply(::RedisStore).also { store = it }
            }
            // A command that stops waiting does not stop the connecting, because others wait for it too.
            return suspendCancellableCoroutine { waiting ->
                begun.whenComplete { store, error -> if (error == null) waiting.resume(store) else waiting.resumeWithException(said(error)) }
            }
        }

        /** Error reply of the server, if it has refused the connection; otherwise [error]. */
        private fun said(error: Throwable): Throwable {
            val causes = generateSequence(error) { it.cause }.take(CAUSES)
            val refusal = causes.firstNotNullOfOrNull { it as? RedisCommandExecutionException } ?: return error
            return StoreException(refusal.message ?: "ERR", refusal)
        }

        private companion object {
            const val CAUSES = 10
        }
    }

    private class Name(private val name: ByteArray) : ProtocolKeyword {
        override fun getBytes(): ByteArray = name

        override fun toString(): String = name.decodeToString()
    }

    /** Output of one command, as it arrives. */
    private class Answer : CommandOutput<ByteArray, ByteArray, Any?>(ByteArrayCodec.INSTANCE, null) {
        override fun set(bytes: ByteBuffer?) {
            output = bytes?.let { ByteArray(it.remaining()).also(it::get) }
        }

        override fun set(integer: Long) {
            output = integer
        }
    }
}
