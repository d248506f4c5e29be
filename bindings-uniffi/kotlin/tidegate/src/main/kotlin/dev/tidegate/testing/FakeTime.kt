package dev.tidegate.testing

import java.util.concurrent.atomic.AtomicLong
import kotlin.time.AbstractLongTimeSource
import kotlin.time.Duration
import kotlin.time.DurationUnit
import kotlin.time.toJavaDuration
import kotlin.time.toKotlinDuration

/**
 * Time for tests of blocking calls: it stands still, and a call that waits moves it on by its wait at once. Coroutines have
 * `runTest` and its `testTimeSource`.
 */
public class FakeTime : AbstractLongTimeSource(DurationUnit.MICROSECONDS) {
    private val us = AtomicLong()
    private val waited = AtomicLong()

    /** Moves time on. */
    public fun advance(span: Duration) {
        us.addAndGet(span.inWholeMicroseconds)
    }

    /** The same for Java. */
    public fun advance(span: java.time.Duration): Unit = advance(span.toKotlinDuration())

    /** [slept] for Java. */
    public fun getSlept(): java.time.Duration = slept.toJavaDuration()

    /** How long calls have waited in all. */
    public val slept: Duration get() = with(Duration) { waited.get().microseconds }

    override fun read(): Long = us.get()

    internal fun park(span: Long) {
        us.addAndGet(span)
        waited.addAndGet(span)
    }
}
