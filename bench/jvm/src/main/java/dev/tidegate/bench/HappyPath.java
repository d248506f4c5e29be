package dev.tidegate.bench;

import dev.tidegate.Policy;
import java.util.concurrent.Callable;
import org.openjdk.jmh.annotations.Benchmark;

/** A call that succeeds, blocking: retry, bulkhead, breaker and rate limit, and less or more than these. */
public class HappyPath extends Measured {
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
