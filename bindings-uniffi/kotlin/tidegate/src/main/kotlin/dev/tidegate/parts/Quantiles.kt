// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

package dev.tidegate.parts

import dev.tidegate.internal.Library
import dev.tidegate.ffi.P2Quantile as NativeP2Quantile
import dev.tidegate.ffi.WindowedP2Quantile as NativeWindowedP2Quantile
import dev.tidegate.ffi.DDSketch as NativeDDSketch

/**
 * One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).
 *
 * Jain and Chlamtac, CACM 28(10), 1985. 88 bytes, whatever the number of values; there is no forgetting. Exact below five values; a
 * quantile far from the middle is estimated too low (or high) until some 3 ÷ (1 − p) values have moved the marker to its place.
 *
 * ```kotlin
 * val median = P2Quantile(0.5)
 * for (latency in listOf(0.02, 0.15, 0.74)) median.observe(latency)
 * median.estimate // 0.15
 * ```
 */
public class P2Quantile private constructor(internal val native: NativeP2Quantile) {
    /**
     * A new one.
     *
     * @param p The quantile, 0.001 to 0.999; 0.5 is the median.
     */
    public constructor(p: Double) : this(Library.loaded { NativeP2Quantile(real("p", p, 0.001, 0.999)) })

    /** Adds one value. NaN and the infinities are ignored. */
    public fun observe(x: Double): Unit = native.observe(x)

    /** The estimate; null before the first value. */
    public val estimate: Double? get() = native.estimate()

    /** Number of values. */
    public val count: Long get() = native.count().toLong()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): P2Quantile = P2Quantile(native.copy())
}

/**
 * One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).
 *
 * Two overlapping `P2Quantile`s, so that old values are forgotten and there is always an answer.
 *
 * ```kotlin
 * val p99 = WindowedP2Quantile(0.99, window = 1_000)
 * p99.observe(0.02)
 * ```
 */
public class WindowedP2Quantile private constructor(internal val native: NativeWindowedP2Quantile) {
    /**
     * A new one.
     *
     * @param p The quantile, 0.001 to 0.999; 0.5 is the median.
     * @param window How many values are remembered at most; 10 to 2^31 − 1. An odd window is one value shorter.
     */
    public constructor(p: Double, window: Int) :
        this(Library.loaded { NativeWindowedP2Quantile(real("p", p, 0.001, 0.999), count("window", window, 10)) })

    /** Adds one value. NaN and the infinities are ignored. */
    public fun observe(x: Double): Unit = native.observe(x)

    /** The estimate; null before the first value, exact below five. */
    public val estimate: Double? get() = native.estimate()

    /** Number of values behind the estimate. */
    public val count: Int get() = native.count().toInt()

    /** Forgets all values. */
    public fun reset(): Unit = native.reset()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): WindowedP2Quantile = WindowedP2Quantile(native.copy())
}

/**
 * All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).
 *
 * Masson, Rim and Lee, VLDB 2019, with integer arithmetic: the same bins on every machine and in every language. At most 2,048 bins, 16
 * KiB; a negative value counts as zero. A sketch is data: equal ones compare equal, and it can be sent as words.
 *
 * ```kotlin
 * val sketch = DDSketch()
 * for (latency in listOf(0.02, 0.15, 0.74)) sketch.add(latency)
 * sketch.quantile(0.5) // 0.15, within 1 %
 * ```
 */
public class DDSketch private constructor(internal val native: NativeDDSketch) {
    /**
     * A new one.
     *
     * @param alpha The relative accuracy, 0.001 to 0.25; by default 0.01, so 1 %.
     */
    @JvmOverloads
    public constructor(alpha: Double = 0.01) : this(Library.loaded { NativeDDSketch(real("alpha", alpha, 0.001, 0.25)) })

    /** Adds one value. NaN and the infinities are ignored. */
    public fun add(x: Double): Unit = native.add(x)

    /**
     * Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
     *
     * Those two are exact, all others within `alpha` of the true value, relative to it. Null of an empty sketch. `q` is 0 to 1.
     *
     * @throws IllegalArgumentException if `q` is outside its range.
     */
    public fun quantile(q: Double): Double? = native.quantile(real("q", q, 0.0, 1.0))

    /** Number of values. */
    public val count: Long get() = native.count().toLong()

    /** The sum of the values, in the order in which they came. */
    public val sum: Double get() = native.sum()

    /** The least value, exactly; null of an empty sketch. */
    public val min: Double? get() = native.min()

    /** The greatest value, exactly; null of an empty sketch. */
    public val max: Double? get() = native.max()

    /** The relative accuracy that is kept: at most what was asked for. */
    public val alpha: Double get() = native.alpha()

    /** (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged. */
    public val gamma: Double get() = native.gamma()

    /** Forgets all values and keeps the accuracy. */
    public fun clear(): Unit = native.clear()

    /** The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact. */
    public fun toWords(): List<Long> = native.toWords().map { it.toLong() }

    /**
     * Takes in all that another sketch holds, as if each of its values had been added here.
     *
     * @throws IllegalArgumentException if the other has another `alpha`, or the two hold more than 2^53 − 1 values. Neither has changed.
     */
    public fun merge(other: DDSketch): Unit = argued { native.merge(other.native) }

    /** Are they equal, to the last count? */
    override fun equals(other: Any?): Boolean = other is DDSketch && native.equals(other.native)

    override fun hashCode(): Int = toWords().hashCode()

    public companion object {
        /**
         * The sketch that these words are.
         *
         * @throws IllegalArgumentException if they are none.
         */
        @JvmStatic
        public fun fromWords(words: List<Long>): DDSketch = argued { DDSketch(NativeDDSketch.fromWords(words.map { it.toULong() })) }
    }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): DDSketch = DDSketch(native.copy())
}
