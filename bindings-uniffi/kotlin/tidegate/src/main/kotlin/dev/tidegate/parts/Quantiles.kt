package dev.tidegate.parts

import dev.tidegate.ffi.DDSketch as NativeSketch
import dev.tidegate.ffi.P2Quantile as NativeP2
import dev.tidegate.ffi.WindowedP2Quantile as NativeWindowed
import dev.tidegate.internal.Library

/**
 * One quantile by five markers: P² (Jain and Chlamtac, 1985; `docs/spec.md`, 7.1). It keeps no values.
 *
 * ```kotlin
 * val median = P2Quantile(0.5)
 * for (latency in listOf(0.02, 0.15, 0.74)) median.observe(latency)
 * median.estimate // 0.15
 * ```
 */
public class P2Quantile private constructor(private val native: NativeP2) {
    /** An estimator of the quantile [p], 0.001 to 0.999. */
    public constructor(p: Double) : this(Library.loaded { NativeP2(real("p", p, 0.001, 0.999)) })

    /** Takes in one value; infinities and NaN are left out. */
    public fun observe(x: Double): Unit = native.observe(x)

    /** The estimate; null before the first value. */
    public val estimate: Double? get() = native.estimate()

    /** How many values have been taken in. */
    public val count: Long get() = native.count().toLong()

    /** Heights and ranks of the five markers; null before five values. */
    public val markers: Pair<List<Double>, List<Long>>?
        get() = native.markers()?.let { (heights, ranks) -> Pair(heights, ranks.map { it.toLong() }) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): P2Quantile = P2Quantile(native.copy())
}

/**
 * P² that forgets: the estimate is of the last half [window] to whole window of values (`docs/spec.md`, 7.2).
 *
 * ```kotlin
 * val p99 = WindowedP2Quantile(0.99, window = 1_000)
 * p99.observe(0.02)
 * ```
 */
public class WindowedP2Quantile private constructor(private val native: NativeWindowed) {
    /** An estimator of the quantile [p], 0.001 to 0.999, over a [window] of 10 values or more. */
    public constructor(p: Double, window: Int) : this(Library.loaded { NativeWindowed(real("p", p, 0.001, 0.999), window(window)) })

    /** Takes in one value; infinities and NaN are left out. */
    public fun observe(x: Double): Unit = native.observe(x)

    /** The estimate; null before the first value. */
    public val estimate: Double? get() = native.estimate()

    /** How many values are behind the estimate. */
    public val count: Int get() = native.count().toInt()

    /** Forgets all. */
    public fun reset(): Unit = native.reset()

    /** Another of the same state. */
    public fun copy(): WindowedP2Quantile = WindowedP2Quantile(native.copy())

    private companion object {
        fun window(window: Int): UInt {
            require(window >= 10) { "window = $window: must be 10 or more" }
            return window.toUInt()
        }
    }
}

/**
 * All quantiles within a relative accuracy, in bounded memory, and merged without loss: DDSketch (Masson, Rim and Lee,
 * 2019; `docs/spec.md`, 7.3).
 *
 * ```kotlin
 * val sketch = DDSketch()
 * for (latency in listOf(0.02, 0.15, 0.74)) sketch.add(latency)
 * sketch.quantile(0.5) // 0.15, within 1 %
 * ```
 */
public class DDSketch private constructor(private val native: NativeSketch) {
    /** An empty one that is accurate to [alpha], 0.001 to 0.25. */
    @JvmOverloads
    public constructor(alpha: Double = 0.01) : this(Library.loaded { NativeSketch(real("alpha", alpha, 0.001, 0.25)) })

    /** The sketch as words of 64 bits, for [fromWords], in any language. */
    public fun toWords(): List<Long> = native.toWords().map { it.toLong() }

    /** Takes in one value of 0 or more; others, infinities and NaN are left out. */
    public fun add(x: Double): Unit = native.add(x)

    /**
     * Takes in all that another sketch of the same accuracy holds.
     *
     * @throws IllegalArgumentException if its accuracy is another.
     */
    public fun merge(other: DDSketch): Unit = argued { native.merge(other.native) }

    /** What stands for the value of the quantile [q], 0 to 1; null where there is none. */
    public fun quantile(q: Double): Double? = native.quantile(real("q", q, 0.0, 1.0))

    /** How many values have been taken in. */
    public val count: Long get() = native.count().toLong()

    /** The sum of the values. */
    public val sum: Double get() = native.sum()

    /** The least value, exactly. */
    public val min: Double? get() = native.min()

    /** The greatest value, exactly. */
    public val max: Double? get() = native.max()

    /** The relative accuracy that is kept; worse than at first where values were too far apart. */
    public val alpha: Double get() = native.alpha()

    /** No bin is wider than this ratio. */
    public val gamma: Double get() = native.gamma()

    /** Forgets all values. */
    public fun clear(): Unit = native.clear()

    /** Another of the same state. */
    public fun copy(): DDSketch = DDSketch(native.copy())

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
        public fun fromWords(words: List<Long>): DDSketch = argued { DDSketch(NativeSketch.fromWords(words.map { it.toULong() })) }
    }
}
