package dev.tidegate.bench;

import dev.tidegate.parts.TokenBucket;
import io.github.resilience4j.ratelimiter.RateLimiter;
import org.openjdk.jmh.annotations.Benchmark;

/** A rate limit on its own, without a policy and without a function. */
public class LonePart extends Measured {
    private final TokenBucket bucket = Stacks.bucket();
    private final RateLimiter limiter = Stacks.limiter();

    @Benchmark
    public boolean tidegateTokenBucket() {
        return Stacks.take(bucket);
    }

    @Benchmark
    public boolean resilience4jRateLimiter() {
        return limiter.acquirePermission();
    }
}
