package dev.tidegate.bench

import dev.tidegate.BackoffJitter
import dev.tidegate.BudgetKind
import dev.tidegate.Configure
import dev.tidegate.Engine
import dev.tidegate.Metrics
import dev.tidegate.Policy
import dev.tidegate.PolicyOptions
import dev.tidegate.parts.TokenBucket
import dev.tidegate.policy
import io.github.resilience4j.bulkhead.Bulkhead
import io.github.resilience4j.bulkhead.BulkheadConfig
import io.github.resilience4j.circuitbreaker.CircuitBreaker
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig
import io.github.resilience4j.decorators.Decorators
import io.github.resilience4j.micrometer.Timer
import io.github.resilience4j.ratelimiter.RateLimiter
import io.github.resilience4j.ratelimiter.RateLimiterConfig
import io.github.resilience4j.retry.Retry
import io.github.resilience4j.retry.RetryConfig
import io.micrometer.core.instrument.simple.SimpleMeterRegistry
import kotlinx.coroutines.runBlocking
import java.io.IOException
import java.util.concurrent.Callable
import java.util.concurrent.atomic.LongAdder
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.nanoseconds
import kotlin.time.Duration.Companion.seconds

/** What is measured, by [main] and by the benchmarks of JMH alike: policies, and the same of resilience4j. */
object Stacks {
    /** The failure of all that fails. It is one object without a stack, because making one costs more than everything that is measured here. */
    @JvmField
    val LOST: IOException = object : IOException("lost") {
        override fun fillInStackTrace(): Throwable = this
    }

    /** A policy with a retry, a bulkhead, a breaker and a rate limit, that waits [wait] before a retry. */
    @JvmStatic
    @JvmOverloads
    fun tidegate(
        engine: Engine = Engine(seed = 7),
        name: String = "happy",
        wait: Duration = Duration.ZERO,
        more: Configure<PolicyOptions> = Configure { },
    ): Policy = policy(name, engine) {
        with(more) { configure() }
        retry { maxAttempts = 3; backoff { base = wait; max = 1.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
        bulkhead { maxConcurrency = 25 }
        breaker { failureRatio = 0.99; window = 10.seconds; breakDuration = 1.seconds; minThroughput = 100 }
        rateLimit { permits = 1_000_000_000; per = 1.milliseconds }
    }

    /** [tidegate] with an engine of its own, whose metrics are read. */
    @JvmStatic
    fun counted(): Policy = Engine(seed = 7).let { Metrics(it).read(); tidegate(it, "counted") }

    /** A policy with a bulkhead alone. */
    @JvmStatic
    @JvmOverloads
    fun slots(engine: Engine = Engine(seed = 7)): Policy = policy("light", engine) { bulkhead { maxConcurrency = 25 } }

    /** A part that no policy has. */
    @JvmStatic
    fun bucket(): TokenBucket = TokenBucket(System.nanoTime().nanoseconds) { permits = 1_000_000_000; per = 1.seconds; burst = 1_000_000_000 }

    /** Takes a token now, as resilience4j's limiter does, which reads the clock itself. */
    @JvmStatic
    fun take(bucket: TokenBucket): Boolean = bucket.tryTake(System.nanoTime().nanoseconds)

    /** What [tidegate] is, of resilience4j, around [work]. */
    @JvmStatic
    @JvmOverloads
    fun <T> resilience4j(work: Callable<T>, waitMs: Long = 0): Callable<T> = resilience4j(work, retry(waitMs), breaker())

    /** [resilience4j] with a listener that counts, as one for metrics does, and with a timer of Micrometer. */
    @JvmStatic
    fun <T> counted(work: Callable<T>): Callable<T> {
        val (retry, breaker) = retry(0) to breaker()
        val count = LongAdder()
        retry.eventPublisher.onEvent { count.increment() }
        breaker.eventPublisher.onEvent { count.increment() }
        return Timer.decorateCallable(Timer.of("t", SimpleMeterRegistry()), resilience4j(work, retry, breaker))
    }

    /** A bulkhead alone, of resilience4j. */
    @JvmStatic
    fun <T> slots(work: Callable<T>): Callable<T> = Bulkhead.decorateCallable(bulkhead(), work)

    /** A rate limit alone, of resilience4j. */
    @JvmStatic
    fun limiter(): RateLimiter {
        val config = RateLimiterConfig.custom().limitForPeriod(1_000_000_000).limitRefreshPeriod(java.time.Duration.ofMillis(1)).build()
        return RateLimiter.of("l", config)
    }

    /** Runs a suspending function [times] times in one coroutine, and returns the sum of what came of it. */
    @JvmStatic
    fun run(policy: Policy, times: Int): Int = runBlocking {
        var sum = 0
        repeat(times) { sum += policy.run { 42 } }
        sum
    }

    private fun retry(waitMs: Long): Retry = Retry.of("r", RetryConfig.custom<Any>().maxAttempts(3).intervalFunction { waitMs }.build())

    private fun breaker(): CircuitBreaker =
        CircuitBreaker.of("c", CircuitBreakerConfig.custom().failureRateThreshold(99f).minimumNumberOfCalls(100).build())

    private fun bulkhead(): Bulkhead = Bulkhead.of("b", BulkheadConfig.custom().maxConcurrentCalls(25).build())

    private fun <T> resilience4j(work: Callable<T>, retry: Retry, breaker: CircuitBreaker): Callable<T> = Decorators.ofCallable(work)
        .withBulkhead(bulkhead())
        .withCircuitBreaker(breaker)
        .withRateLimiter(limiter())
        .withRetry(retry)
        .decorate()
}

/** A function of which every other call fails. It is for one thread. */
class Flaky : Callable<Int> {
    private var failed = false

    override fun call(): Int {
        failed = !failed
        if (failed) throw Stacks.LOST
        return 42
    }
}
