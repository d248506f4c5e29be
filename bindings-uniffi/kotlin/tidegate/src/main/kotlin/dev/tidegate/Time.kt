package dev.tidegate

import kotlin.time.AbstractLongTimeSource
import kotlin.time.DurationUnit

/**
 * Monotonic clock of the platform: `System.nanoTime`, and on Android the clock that counts the time that the device sleeps. So a deadline
 * of a minute has passed after a night in a pocket.
 */
public object PlatformTime : AbstractLongTimeSource(DurationUnit.NANOSECONDS) {
    /** `SystemClock.elapsedRealtimeNanos`, if it exists. */
    private val asleep = try {
        Class.forName("android.os.SystemClock").getMethod("elapsedRealtimeNanos")
    } catch (_: ReflectiveOperationException) {
        null
    }
    private val origin = read()

    override fun read(): Long = if (asleep == null) System.nanoTime() else asleep.invoke(null) as Long

    internal fun micros(): Long = nanos() / 1000

    internal fun nanos(): Long = read() - origin

    /** Whether the clock is `System.nanoTime`. */
    internal val isPlain: Boolean get() = asleep == null
}
