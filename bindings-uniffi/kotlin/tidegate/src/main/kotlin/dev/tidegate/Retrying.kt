package dev.tidegate

import kotlin.time.Duration
import kotlin.time.toJavaDuration

/**
 * A failed attempt that will be followed by another one.
 *
 * @property error Exception of the attempt; null if it returned a result.
 * @property result Result that was judged a failure: an HTTP response, or a value that `classify` rejected. Do not read its body.
 * @property attempt Number of the failed attempt, from 1.
 * @property wait Time until the next attempt may start.
 * @property reason Class of the failure (`transient`, `timeout`, `throttled`, …), or a kind that the policy declares.
 * @property policy Name of the policy.
 * @property route Key of the route.
 * @property call Number of the call, for [Engine.explain].
 */
public class Retrying internal constructor(
    public val error: Throwable?,
    public val result: Any?,
    public val attempt: Int,
    public val wait: Duration,
    public val reason: String,
    public val policy: String,
    public val route: String,
    public val call: Long,
) {
    /** [wait] for Java. */
    public fun getWait(): java.time.Duration = wait.toJavaDuration()

    override fun toString(): String = "attempt $attempt failed ($reason), the next one follows in $wait"
}

/**
 * Receives each retry before its wait begins, on the thread or in the coroutine of the call. An exception from it goes to the thread's
 * handler of uncaught exceptions (on Android to the log) and does not break the call.
 */
public fun interface RetryListener {
    /** Handles one retry. */
    public fun on(retrying: Retrying)
}
