package dev.tidegate.fleet

/**
 * Transport of the state that a fleet shares: it carries a command to Redis or Valkey, and the reply back. It decides nothing, repeats
 * nothing and interprets nothing. [RedisStore] is the store for Lettuce.
 */
public fun interface Store {
    /**
     * Carries out one command.
     *
     * It is cancelled when its time is up (`store_timeout`). The engine never sends the same command again; a client that repeats a command
     * may apply it twice.
     *
     * @param words Name and arguments of the command.
     * @param key Index of the word that a cluster routes by.
     * @return The reply: bytes or a text as received, an integer, or null for nil.
     * @throws StoreException if the store replies with an error. Any other exception means that there was no reply.
     */
    public suspend fun execute(words: List<ByteArray>, key: Int): Any?
}

/** Error reply of the store, such as `READONLY You can't write against a read only replica.` */
public class StoreException @JvmOverloads constructor(message: String, cause: Throwable? = null) : Exception(message, cause)
