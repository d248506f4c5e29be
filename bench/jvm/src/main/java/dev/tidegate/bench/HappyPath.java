package dev.tidegate.bench;

import dev.tidegate.Policy;
import java.util.concurrent.Callable;
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

/** A call that succeeds, blocking: retry, bulkhead, breaker and rate limit, and less or more than these. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(2)
@State(Scope.Thread)
public class HappyPath {
    private final Policy policy = Stacks.tidegate();
    private final Policy counted = Stacks.counted();
    private final Policy slots = Stacks.slots();
    private final Callable<Integer> peer = Stacks.resilience4j(this::work);
    private final Callable<Integer> peerCounted = Stacks.counted(this::work);
    private final Callable<Integer> peerSlots = Stacks.slots(this::work);
    private int answer = 42;

    private Integer work() {
        return answer;
    }

    @Benchmark
    public Integer bare() {
        return work();
    }

    @Benchmark
    public Integer tidegate() throws Exception {
        return policy.call(attempt -> work());
    }

    @Benchmark
    public Integer resilience4j() throws Exception {
        return peer.call();
    }

    @Benchmark
    public Integer tidegateWithMetrics() throws Exception {
        return counted.call(attempt -> work());
    }

    @Benchmark
    public Integer resilience4jWithMetrics() throws Exception {
        return peerCounted.call();
    }

    @Benchmark
    public Integer tidegateBulkheadAlone() throws Exception {
        return slots.call(attempt -> work());
    }

    @Benchmark
    public Integer resilience4jBulkheadAlone() throws Exception {
        return peerSlots.call();
    }
}
