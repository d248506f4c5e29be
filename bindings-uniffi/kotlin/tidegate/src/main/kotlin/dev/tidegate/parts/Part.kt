package dev.tidegate.parts

import dev.tidegate.Configure
import dev.tidegate.Options
import dev.tidegate.ffi.Invalid
import dev.tidegate.ffi.Pair
import dev.tidegate.internal.Library
import dev.tidegate.internal.Table
import dev.tidegate.internal.camel
import dev.tidegate.internal.checked
import java.util.concurrent.ThreadLocalRandom
import kotlin.time.Duration
import kotlin.time.Duration.Companion.days
import kotlin.time.Duration.Companion.microseconds

// Common code of the single components. A moment is a `Duration` since an origin of the user's choice, and may be negative. On core's clock
// that origin is far from both ends.

private const val ORIGIN = 1L shl 62
private val farthest = (365 * 30_000.0 * 86_400e6).microseconds

/** Converts a moment to core's clock. */
internal fun moment(now: Duration, key: String = "now"): ULong {
    require(now.absoluteValue <= farthest) { "$key = $now: must be a finite span since the origin of your clock, at most 30,000 years" }
    return (ORIGIN + now.inWholeMicroseconds).toULong()
}

/** Converts a moment to the user's clock. */
internal fun since(us: ULong): Duration = (us.toLong() - ORIGIN).microseconds

/** Converts a span for core. It must be 0 or more, and is capped at core's longest. */
internal fun span(key: String, span: Duration): ULong {
    require(span >= Duration.ZERO) { "$key = $span: must be 0 or more" }
    return span.inWholeMicroseconds.toULong()
}

/** Converts a wait of core's; infinite if waiting does not help. */
internal fun wait(us: ULong): Duration = if (us == ULong.MAX_VALUE) Duration.INFINITE else us.toLong().microseconds

/** Checks a whole number of [least] or more. */
internal fun count(key: String, value: Int, least: Int = 0): UInt {
    require(value >= least) { "$key = $value: must be $least or more" }
    return value.toUInt()
}

/** Checks a whole number of 0 or more. */
internal fun count(key: String, value: Long): ULong {
    require(value >= 0) { "$key = $value: must be 0 or more" }
    return value.toULong()
}

/** Checks that a whole number is within its range. */
internal fun within(key: String, value: Int, least: Int, most: Int): Int {
    require(value in least..most) { "$key = $value: must be from $least to $most" }
    return value
}

/** Time for which a probe keeps its place without a report; core's default if null. */
internal fun lease(probeLease: Duration?): ULong? {
    if (probeLease == null) return null
    require(probeLease in 1.microseconds..365.days) { "probeLease = $probeLease: must be from 1 µs to 365 days" }
    return span("probeLease", probeLease)
}

/** Checks that a number is within its range. */
internal fun real(key: String, value: Double, low: Double, high: Double): Double {
    require(value in low..high) { "$key = $value: must be from $low to $high" }
    return value
}

/** The given seed, or a random one. */
internal fun seed(seed: Long?): ULong = (seed ?: ThreadLocalRandom.current().nextLong()).toULong()

/** Makes a part from settings that core checks; [fixed] has the settings that define this part. Mistakes name the part's own keys. */
internal fun <O : Options, R> made(
    path: String,
    options: (Table) -> O,
    configure: Configure<O>,
    fixed: Map<String, Any> = emptyMap(),
    make: (List<Pair>) -> R,
): R {
    val table = Table()
    table.within(path, options(table), configure)
    for ((key, value) in fixed) table.put("$path.$key", value)
    return checked({ camel(it.replace("$path.", "")) }) { Library.loaded { make(table.pairs()) } }
}

/** Runs core with a caller's arguments, and reports an invalid one as the caller's mistake. */
internal inline fun <T> argued(work: () -> T): T = try {
    Library.loaded(work)
} catch (invalid: Invalid.Argument) {
    throw IllegalArgumentException(invalid.reason, invalid)
}

