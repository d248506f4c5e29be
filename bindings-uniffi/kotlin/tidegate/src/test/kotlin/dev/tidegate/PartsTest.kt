package dev.tidegate

import dev.tidegate.parts.AdaptiveThrottle
import dev.tidegate.parts.Aimd
import dev.tidegate.parts.BreakerState
import dev.tidegate.parts.CircuitBreaker
import dev.tidegate.parts.CoDel
import dev.tidegate.parts.CubicRate
import dev.tidegate.parts.DDSketch
import dev.tidegate.parts.ErrorInfo
import dev.tidegate.parts.Evidence
import dev.tidegate.parts.Gcra
import dev.tidegate.parts.Gradient2
import dev.tidegate.parts.P2Quantile
import dev.tidegate.parts.EarnedBudget
import dev.tidegate.parts.RatioBudget
import dev.tidegate.parts.RetryBudget
import dev.tidegate.parts.RetryException
import dev.tidegate.parts.RetryQuota
import dev.tidegate.parts.RetryStrategy
import dev.tidegate.parts.ShareBudget
import dev.tidegate.parts.TokenBucket
import dev.tidegate.parts.TokenBudget
import dev.tidegate.parts.WindowedP2Quantile
import dev.tidegate.parts.parseRetryAfter
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import java.time.Instant
import kotlin.time.Duration
import kotlin.time.Duration.Companion.days
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds
import dev.tidegate.parts.Backoff as BackoffPart

/** The examples of the parts' documentation, and what is asked of their arguments. */
class PartsTest {
    @Test
    fun `examples of rates`() {
        val bucket = TokenBucket(now = Duration.ZERO) { permits = 3; per = 1.seconds; burst = 2 }
        assertEquals(listOf(true, false), listOf(bucket.tryTake(Duration.ZERO, cost = 2), bucket.tryTake(Duration.ZERO)))
        assertEquals(333_334.microseconds, bucket.acquire(Duration.ZERO))
        assertEquals(Duration.INFINITE, bucket.acquire(Duration.ZERO, cost = 3))
        val limit = Gcra { permits = 1; per = 1.seconds; burst = 2 }
        assertTrue(limit.isFresh(Duration.ZERO) && limit.tryTake(Duration.ZERO, cost = 2))
        assertEquals(600.milliseconds, limit.acquire(400.milliseconds))
        val rate = CubicRate(now = Duration.ZERO)
        rate.onResponse(throttled = true, now = 1.seconds)
        assertTrue(rate.acquire(1.seconds) > Duration.ZERO)
    }

    @Test
    fun `examples of limits`() {
        val limit = Aimd { maxConcurrency = 20; latencyThreshold = 300.milliseconds; backoffRatio = 0.5 }
        limit.onLatency(301.milliseconds, now = Duration.ZERO)
        assertEquals(10, limit.limit)
        repeat(11) { limit.onLatency(200.milliseconds, now = 100.milliseconds) }
        assertEquals(11, limit.limit)
        val gradient = Gradient2 { maxConcurrency = 200 }
        assertNull(gradient.baseline)
        for (n in 1..40) gradient.onLatency(rtt = 20.milliseconds, started = (n * 20).milliseconds, inFlight = 150, now = (n * 20 + 20).milliseconds)
        assertEquals(20.0, gradient.baseline!!.inWholeMicroseconds / 1e3, 0.001)
        val queue = CoDel(now = Duration.ZERO) { queueTarget = 5.milliseconds; queueInterval = 100.milliseconds }
        assertEquals(false, queue.shouldShed(sojourn = 1.milliseconds, now = 1.milliseconds))
    }

    @Test
    fun `examples of budgets`() {
        val budget = RetryBudget { ttl = 10.seconds; minRetriesPerSec = 0.0; percentCanRetry = 0.2 }
        repeat(10) { budget.deposit(now = Duration.ZERO) }
        assertEquals(listOf(true, true, false), List(3) { budget.tryWithdraw(now = 1.seconds) })
        val ratio = RatioBudget { ratio = 0.1; minThroughput = 0 }
        repeat(10) { ratio.onCall() }
        assertEquals(listOf(true, false), List(2) { ratio.tryWithdraw() })
        val share = ShareBudget { share = 0.2; minRetries = 0 }
        assertEquals(listOf(true, 1), listOf(share.tryAcquire(calls = 10), share.inFlight))
        share.onEnd()
        assertEquals(0, share.inFlight)
        val tokens = TokenBudget { max = 10; this.ratio = 0.1 }
        repeat(5) { tokens.onFailure() }
        assertEquals(false, tokens.allows)
        val quota = RetryQuota { capacity = 14; cost = 14 }
        assertEquals(listOf(14, null), listOf(quota.tryAcquire(), quota.tryAcquire()))
    }

    @Test
    fun `an earned budget keeps what the calls of 14 seconds could earn`() {
        val budget = EarnedBudget()
        assertEquals(listOf(true, true, false), List(3) { budget.tryWithdraw(now = Duration.ZERO) })
        repeat(100) {
            budget.onCall(now = Duration.ZERO)
            budget.onAnswer(now = Duration.ZERO)
        }
        assertEquals(listOf(18L, 18L, 4L), listOf(0, 12, 14).map { budget.balance(now = it.seconds) })
        val other = budget.copy()
        assertEquals(listOf(true, true, true, true, false), List(5) { other.tryWithdraw(now = 14.seconds) })
        other.refund(now = 14.seconds)
        assertEquals(listOf(1L, 4L), listOf(other, budget).map { it.balance(now = 14.seconds) })
        val one = EarnedBudget { ratio = 0.25; start = 1 }
        assertEquals(listOf(true, false), List(2) { one.tryWithdraw(now = Duration.ZERO) })
    }

    @Test
    fun `examples of breakers`() {
        val breaker = CircuitBreaker(seed = 7) { consecutive = 2; breakDuration = 1.seconds }
        repeat(2) { breaker.record(breaker.admit(Duration.ZERO)!!, Evidence.FAILURE, Duration.ZERO) }
        assertEquals(BreakerState.OPEN, breaker.state)
        assertTrue(breaker.openUntil!! >= 1.seconds && breaker.admit(Duration.ZERO) == null)
        assertTrue(breaker.admit(breaker.openUntil!!)!!.probe)
        val throttle = AdaptiveThrottle(now = Duration.ZERO, seed = 7)
        assertTrue(throttle.admit(now = 1.seconds))
        throttle.record(accepted = true, now = 1.seconds)
        assertEquals(listOf(1, 1), listOf(throttle.requests(1.seconds), throttle.accepts(1.seconds)))
    }

    @Test
    fun `examples of estimators`() {
        val median = P2Quantile(0.5)
        for (latency in listOf(0.02, 0.15, 0.74)) median.observe(latency)
        assertEquals(0.15, median.estimate)
        val p99 = WindowedP2Quantile(0.99, window = 1_000)
        p99.observe(0.02)
        assertEquals(0.02, p99.estimate)
        val sketch = DDSketch()
        for (latency in listOf(0.02, 0.15, 0.74)) sketch.add(latency)
        assertEquals(0.15, sketch.quantile(0.5)!!, 0.0015)
        assertEquals(sketch.hashCode(), sketch.copy().hashCode())
    }

    @Test
    fun `examples of delays`() {
        assertEquals(listOf(2.minutes, null), listOf(parseRetryAfter("120"), parseRetryAfter("1.5")))
        assertEquals(7.seconds, parseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", Instant.ofEpochSecond(784_111_770)))
        val backoff = BackoffPart { base = 100.milliseconds; max = 5.seconds; jitter = BackoffJitter.NONE }
        assertEquals(listOf(100, 200, 400, 800).map { it.milliseconds }, (1..4).map { backoff.delay(it) })
        val strategy = RetryStrategy(BackoffPart { base = 25.milliseconds; jitter = BackoffJitter.NONE }) { maxAttempts = 2 }
        var token = strategy.acquireInitialRetryToken("orders")
        assertEquals(0 to Duration.ZERO, token.retryCount to token.retryDelay)
        val error = ErrorInfo(isRetrySafe = true, retryAfter = 3.seconds)
        token = strategy.refreshRetryTokenForRetry(token, error)
        assertEquals(1 to 3.seconds, token.retryCount to token.retryDelay)
        assertEquals("no further attempt: attempts", assertThrows<RetryException> { strategy.refreshRetryTokenForRetry(token, error) }.message)
        val before = strategy.available("orders")!!
        strategy.recordSuccess(token)
        assertTrue(strategy.available("orders")!! > before)
        val safe = assertThrows<RetryException> { strategy.refreshRetryTokenForRetry(strategy.acquireInitialRetryToken(), ErrorInfo()) }
        assertEquals("not_safe" to null, safe.reason to safe.retryDelay)
    }

    @Test
    fun `mistakes are told by the part's own keys`() {
        val told = assertThrows<PolicyException> { TokenBucket(Duration.ZERO) { permits = 0; per = 1.seconds } }
        assertEquals("permits = 0: must be a whole number from 1 to 1000000000", told.message)
        assertThrows<PolicyException> { Aimd { } }
        assertThrows<PolicyException> { CircuitBreaker { consecutive = 2 } }
    }

    @Test
    fun `arguments are checked`() {
        val bucket = TokenBucket(Duration.ZERO) { permits = 1; per = 1.seconds }
        val wrong = mapOf(
            "cost = -1: must be 0 or more" to { bucket.tryTake(Duration.ZERO, -1) },
            "tokens = -1: must be 0 or more" to { bucket.waitFor(Duration.ZERO, -1) },
            "now = Infinity: must be a finite span since the origin of your clock, at most 30,000 years" to { bucket.level(Duration.INFINITE) },
            "p = 1.0: must be from 0.001 to 0.999" to { P2Quantile(1.0) },
            "p = NaN: must be from 0.001 to 0.999" to { P2Quantile(Double.NaN) },
            "window = 9: must be 10 or more" to { WindowedP2Quantile(0.5, 9) },
            "q = -0.1: must be from 0.0 to 1.0" to { DDSketch().quantile(-0.1) },
            "n = 0: must be from 1 to 255" to { BackoffPart().delay(0) },
            "cost = 65536: must be from 0 to 65535" to { RetryQuota().refund(65_536) },
            "latency = -1s: must be 0 or more" to { Aimd { maxConcurrency = 1; latencyThreshold = 1.seconds }.onLatency(-1.seconds, Duration.ZERO) },
            "probeLease = 0s: must be from 1 µs to 365 days" to { CircuitBreaker(probeLease = Duration.ZERO) { consecutive = 1; breakDuration = 1.seconds } },
        )
        for ((told, work) in wrong) assertEquals(told, assertThrows<IllegalArgumentException> { work() }.message)
        assertTrue(assertThrows<IllegalArgumentException> { RetryQuota().tryAcquire("fine") }.message!!.startsWith("kind = \"fine\""))
        val breaker = CircuitBreaker { consecutive = 1; breakDuration = 1.seconds }
        assertTrue(assertThrows<IllegalArgumentException> { breaker.evidenceOf("fine") }.message!!.startsWith("kind = \"fine\""))
        assertThrows<IllegalArgumentException> { DDSketch(0.01).merge(DDSketch(0.02).also { it.add(1.0) }) }
    }

    @Test
    fun `moments before the origin are moments too`() {
        val bucket = TokenBucket(now = -1.days) { permits = 1; per = 1.seconds }
        assertTrue(bucket.tryTake(-1.days))
        assertEquals(500.milliseconds, bucket.acquire(-1.days + 500.milliseconds))
    }

    @Test
    fun `copies go their own ways`() {
        val bucket = TokenBucket(Duration.ZERO) { permits = 1; per = 1.seconds }
        val twin = bucket.copy()
        assertTrue(bucket.tryTake(Duration.ZERO))
        assertEquals(0 to 1, bucket.level(Duration.ZERO) to twin.level(Duration.ZERO))
    }
}
