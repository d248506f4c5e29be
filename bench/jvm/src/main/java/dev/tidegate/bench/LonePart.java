package dev.tidegate.bench;

import dev.tidegate.parts.TokenBucket;
import io.github.resilience4j.ratelimiter.RateLimiter;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/** A rate limit on its own, without a policy and without a function. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(2)
@State(Scope.Thread)
public class LonePart {
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
