package dev.tidegate.internal

import dev.tidegate.Attempt
import dev.tidegate.Core
import dev.tidegate.Estimate
import dev.tidegate.Usage
import dev.tidegate.Used
import dev.tidegate.ffi.UsageReader
import dev.tidegate.ffi.readEstimate
import dev.tidegate.guarded
import dev.tidegate.requireAmounts

/** Bytes of a body that the engine reads together, so that a piece costs no crossing. */
private const val TOGETHER = 8 * 1024

/** Bytes at the end of a body in which the last event of OpenAI's streams is looked for. */
private const val END = 32

/** That event, after which some readers close the answer. */
private const val DONE = "[DONE]"

/** What requests to language models say that they are going to use (semantics 15.7). */
internal object Estimates {
    /** Largest body of a request that is read beforehand, in bytes. */
    const val MOST_BYTES = 4L * 1024 * 1024

    private val NOTHING = Estimate(0, 0, false)

    /** Reads a request; null if its [body] cannot be read beforehand. */
    fun of(path: String, body: ByteArray?): Estimate? {
        if (body == null) return null
        if (body.isEmpty()) return NOTHING
        return readEstimate(path, body).let { Estimate(it.input.toLong(), it.output?.toLong(), it.stream) }
    }

    /** Weights that the policy gives a request; none if it has no weights, or its function fails. */
    fun weights(core: Core, request: Estimate?): Map<String, Long> {
        val weigh = core.weigh ?: return emptyMap()
        if (request == null || !core.countsWeights) return emptyMap()
        guarded { return (weigh.weights(request) ?: emptyMap()).also { requireAmounts("weigh", it) } }
        return emptyMap()
    }
}

/** Reads what one answer has used while its body passes by, and settles it (semantics 15.6, 15.7.7). */
internal class Meter private constructor(private val attempt: Attempt, private val used: Used) {
    private val reader = UsageReader()
    private val unread = ByteArray(TOGETHER)
    private var size = 0
    private var ended = false

    /** Reads the next piece, of [length] bytes. */
    @Synchronized
    fun piece(length: Int, copy: CopyPiece) {
        if (length > TOGETHER - size) flush()
        if (length > TOGETHER) {
            val whole = ByteArray(length).also { copy(it, 0) }
            reader.read(whole.copyOf(length - END))
            whole.copyInto(unread, 0, length - END)
            size = END
        } else {
            copy(unread, size)
            size += length
        }
    }

    private fun flush() {
        if (size > 0) reader.read(unread.copyOf(size))
        size = 0
    }

    /**
     * Settles at the end of a [whole] body, or of one that is closed after the last event of OpenAI's streams. Of another one nobody knows what
     * it has used, so its reservation counts.
     */
    @Synchronized
    fun end(whole: Boolean) {
        if (ended) return
        ended = true
        if (!whole && DONE !in String(unread, maxOf(size - END, 0), minOf(size, END), Charsets.ISO_8859_1)) return
        flush()
        val read = reader.usage()
        if (read.input == null && read.output == null) return
        val usage = Usage(read.input.orZero(), read.cached.orZero(), read.output.orZero())
        guarded {
            for ((weight, total) in used.totals(usage).orEmpty()) {
                check(attempt.settle(weight, total)) { "usage: no limit counts \"$weight\", or the attempt has ended" }
            }
        }
    }

    private fun ULong?.orZero(): Long = (this ?: 0uL).toLong()

    companion object {
        /** Meter of an attempt's answer; null if the policy does not read it, or the body is not [plain]. */
        fun of(core: Core, attempt: Attempt, plain: Boolean): Meter? {
            val used = core.used ?: return null
            return if (plain && core.meters) Meter(attempt, used) else null
        }
    }
}
