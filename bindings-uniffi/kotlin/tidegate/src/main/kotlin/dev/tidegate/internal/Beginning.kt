package dev.tidegate.internal

import dev.tidegate.Attempt
import dev.tidegate.Engine
import dev.tidegate.ffi.readLimits
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds

/** Limits of reading a failed response's body before it is judged (semantics 15.8), which are core's. */
internal object Beginning {
    private val limits = readLimits()

    /** Largest number of bytes. */
    val bytes: Int = limits.bytes.toInt()

    /** Time for reading in this attempt: core's limit, or what is left of the attempt if that is less. Never negative. */
    fun time(attempt: Attempt, engine: Engine): Duration {
        val most = limits.timeUs.toLong()
        val left = if (attempt.us < 0) most else attempt.us - (engine.now() - attempt.started)
        return minOf(most, left).coerceAtLeast(0).microseconds
    }
}
