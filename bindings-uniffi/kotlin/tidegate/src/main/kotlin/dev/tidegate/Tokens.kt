package dev.tidegate

import dev.tidegate.ffi.AnswerUsage
import dev.tidegate.ffi.TokenFactors
import dev.tidegate.ffi.tokensWeight
import dev.tidegate.internal.Library

/**
 * What a request to a language model is going to use. A request without a body uses nothing.
 *
 * @property input Tokens of the prompt: one for each four bytes of its texts.
 * @property output The most tokens that the answer may have; null if the request does not say so.
 * @property stream Whether the answer is going to be a stream.
 */
public class Estimate internal constructor(public val input: Long, public val output: Long?, public val stream: Boolean)

/**
 * What an answer of a language model says that it has used.
 *
 * @property input Tokens of the whole prompt, with those that were cached.
 * @property cached Tokens of the prompt that were read from a cache.
 * @property output Tokens of the answer, with those of the model's thoughts.
 */
public class Usage internal constructor(public val input: Long, public val cached: Long, public val output: Long)

/** Makes the weights of a request from what it is going to use. */
public fun interface Weigh {
    /** Amounts by the names of weights, from 0 to 2^53 - 1; null for the limits' defaults. */
    public fun weights(request: Estimate): Map<String, Long>?
}

/** Makes the totals of an attempt from what its answer says. */
public fun interface Used {
    /** Totals by the names of weights, from 0 to 2^53 - 1; null to settle nothing. */
    public fun totals(answer: Usage): Map<String, Long>?
}

/**
 * How much a token counts, from 0 to 1,000, to three decimals.
 *
 * @property input A token of the prompt that was not cached.
 * @property cached A token of the prompt that was read from a cache.
 * @property output A token of the answer. Amazon Bedrock counts some models' five times.
 * @throws IllegalArgumentException if a factor is out of its range.
 */
public class Factors @JvmOverloads constructor(
    public val input: Double = 1.0,
    public val cached: Double = 1.0,
    public val output: Double = 1.0,
) {
    init {
        for ((name, factor) in listOf("input" to input, "cached" to cached, "output" to output)) {
            require(factor in 0.0..MOST_FACTOR) { "factors.$name = $factor: must be a number from 0 to 1,000" }
        }
    }

    internal fun inThousandths() = TokenFactors(thousandths(input), thousandths(cached), thousandths(output))

    private fun thousandths(factor: Double): UInt = Math.round(factor * 1_000).toUInt()

    private companion object {
        const val MOST_FACTOR = 1_000.0
    }
}

/** Counts the tokens of requests and answers for one weight. */
internal class Tokens(private val weight: String, private val output: Long, factors: Factors) :
    Weigh,
    Used {
    private val factors = factors.inThousandths()

    init {
        requireAmounts("output", mapOf(weight to output))
    }

    override fun weights(request: Estimate) = weighed(request.input, 0, request.output ?: output)

    override fun totals(answer: Usage) = weighed(answer.input, answer.cached, answer.output)

    private fun weighed(input: Long, cached: Long, output: Long): Map<String, Long> {
        val usage = AnswerUsage(input.toULong(), cached.toULong(), output.toULong())
        return mapOf(weight to (Library.loaded { tokensWeight(usage, factors) } ?: 0uL).toLong())
    }
}
