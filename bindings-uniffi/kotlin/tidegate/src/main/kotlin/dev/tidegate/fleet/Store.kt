package dev.tidegate.fleet

/**
 * What a fleet shares its state through: something that carries a command to Redis or Valkey, and its answer back. It decides nothing,
 * repeats nothing and reads nothing; [RedisStore] is the one for Lettuce.
 */
public fun interface Store {
    /**
     * Carries out one command.
     *
     * It is cancelled when its time is up (`store_timeout`), and is never asked again for the same command: whoever
     * repeats it below may do twice what it does.
     *
     * @param words The command's name and its arguments.
     * @param key The place of the word that a cluster routes by.
     * @return The answer: bytes or a text as it came, an integer, or null for nil.
     * @throws StoreException if the store answers with an error. Whatever else is thrown is that there was no answer.
     */
    public suspend fun execute(words: List<ByteArray>, key: Int): Any?
}

/** The store's own error, such as `READONLY You can't write against a read only replica.` */
public class StoreException @JvmOverloads constructor(message: String, cause: Throwable? = null) : Exception(message, cause)
