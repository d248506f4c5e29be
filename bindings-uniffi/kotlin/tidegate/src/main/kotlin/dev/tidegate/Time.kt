package dev.tidegate

import dev.tidegate.internal.Library
import kotlin.time.AbstractLongTimeSource
import kotlin.time.DurationUnit

/**
 * Monotonic clock of the platform: `System.nanoTime`, and on Android the clock that counts the time that the device sleeps. So a deadline
 * of a minute has passed after a night in a pocket.
 */
public object PlatformTime : AbstractLongTimeSource(DurationUnit.NANOSECONDS) {
    override fun read(): Long = Clock.read()
}

/** The same clock as numbers. Kotlin's classes for time sources, which it does without, take a tenth of a start. */
internal object Clock {
    /** `SystemClock.elapsedRealtimeNanos`, if it exists. */
    private val asleep = try {
        // Elsewhere all jars of the class path would be opened to find that there is no such class.
        if (Library.isAndroid()) Class.forName("android.os.SystemClock").getMethod("elapsedRealtimeNanos") else null
    } catch (_: ReflectiveOperationException) {
        null
    }
    private val origin = read()

    fun read(): Long = if (asleep == null) System.nanoTime() else asleep.invoke(null) as Long

    fun micros(): Long = nanos() / 1000

    fun nanos(): Long = read() - origin

    /** Whether the clock is `System.nanoTime`. */
    val isPlain: Boolean get() = asleep == null
}
