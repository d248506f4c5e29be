package dev.tidegate.testing

import java.util.concurrent.atomic.AtomicLong
import kotlin.time.AbstractLongTimeSource
import kotlin.time.Duration
import kotlin.time.DurationUnit
import kotlin.time.toJavaDuration
import kotlin.time.toKotlinDuration

/**
 * Time for tests of blocking calls. It stands still until a call waits, and then advances by that wait at once. Coroutines use `runTest`
 * and its `testTimeSource`.
 */
public class FakeTime : AbstractLongTimeSource(DurationUnit.MICROSECONDS) {
    private val us = AtomicLong()
    private val waited = AtomicLong()

    /** Advances the time. */
    public fun advance(span: Duration) {
        us.addAndGet(span.inWholeMicroseconds)
    }

    /** Advances the time, for Java. */
    public fun advance(span: java.time.Duration): Unit = advance(span.toKotlinDuration())

    /** [slept] for Java. */
    public fun getSlept(): java.time.Duration = slept.toJavaDuration()

    /** Total time that calls have waited. */
    public val slept: Duration get() = with(Duration) { waited.get().microseconds }

    override fun read(): Long = us.get()

    internal fun park(span: Long) {
        us.addAndGet(span)
        waited.addAndGet(span)
    }
}
