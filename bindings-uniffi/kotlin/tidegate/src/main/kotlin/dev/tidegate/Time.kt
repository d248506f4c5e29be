package dev.tidegate

import kotlin.time.AbstractLongTimeSource
import kotlin.time.DurationUnit

/**
 * The platform's monotonic clock: `System.nanoTime`, and on Android the clock that goes on while the device sleeps, so that a
 * deadline of a minute is over after a night in a pocket.
 */
public object PlatformTime : AbstractLongTimeSource(DurationUnit.NANOSECONDS) {
    /** `SystemClock.elapsedRealtimeNanos`, where there is one. */
    private val asleep = try {
        Class.forName("android.os.SystemClock").getMethod("elapsedRealtimeNanos")
    } catch (_: ReflectiveOperationException) {
        null
    }
    private val origin = read()

    override fun read(): Long = if (asleep == null) System.nanoTime() else asleep.invoke(null) as Long

    internal fun micros(): Long = nanos() / 1000

    internal fun nanos(): Long = read() - origin

    /** Is it `System.nanoTime`? */
    internal val isPlain: Boolean get() = asleep == null
}
