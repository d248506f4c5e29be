package dev.tidegate.bench

import io.github.resilience4j.bulkhead.Bulkhead
import io.github.resilience4j.bulkhead.BulkheadConfig
import io.github.resilience4j.decorators.Decorators
import io.github.resilience4j.retry.Retry
import io.github.resilience4j.retry.RetryConfig
import java.util.concurrent.Callable

/** What [Start] does, with resilience4j, and without lambdas of its own too. */
object StartPeer {
    private object Answer : Callable<String> {
        override fun call(): String = "42"
    }

    @JvmStatic
    fun main(args: Array<String>) {
        val retry = Retry.of("payments", RetryConfig.custom<String>().maxAttempts(3).build())
        val bulkhead = Bulkhead.of("payments", BulkheadConfig.custom().maxConcurrentCalls(25).build())
        check(Decorators.ofCallable(Answer).withBulkhead(bulkhead).withRetry(retry).decorate().call() == "42")
    }
}
