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
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException

/**
 * Redis or Valkey through Lettuce, alone or as a cluster.
 *
 * ```kotlin
 * val connection = RedisClient.create("redis://localhost").connect(ByteArrayCodec.INSTANCE)
 * val engine = Engine()
 * engine.attach(RedisStore(connection))
 * ```
 *
 * The connection stays yours: open it before, and close it after the engine's last call. A connection that blocks (transactions,
 * blocking commands) is no place for it. Lettuce sends commands again that were on their way when the connection broke; one whose time is up
 * is cancelled, and not among them. `ClientOptions.disconnectedBehavior(REJECT_COMMANDS)` makes a loss known at once.
 *
 * @param commands The asynchronous commands of a connection for bytes.
 */
public class RedisStore(private val commands: BaseRedisAsyncCommands<ByteArray, ByteArray>) : Store {
    /** One server, or a primary with replicas. */
    public constructor(connection: StatefulRedisConnection<ByteArray, ByteArray>) : this(connection.async())

    /** A cluster. */
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

    private class Name(private val name: ByteArray) : ProtocolKeyword {
        override fun getBytes(): ByteArray = name

        override fun toString(): String = name.decodeToString()
    }

    /** One answer, as it comes. */
    private class Answer : CommandOutput<ByteArray, ByteArray, Any?>(ByteArrayCodec.INSTANCE, null) {
        override fun set(bytes: ByteBuffer?) {
            output = bytes?.let { ByteArray(it.remaining()).also(it::get) }
        }

        override fun set(integer: Long) {
            output = integer
        }
    }
}
