package dev.tidegate.bench;

import dev.tidegate.Policy;
import java.util.concurrent.Callable;
import org.openjdk.jmh.annotations.Benchmark;

/** A call whose first attempt fails and whose second one, without a wait, succeeds. */
public class OneRetry extends Measured {
    private final Policy policy = Stacks.tidegate();
    private final Flaky flaky = new Flaky();
    private final Callable<Integer> peer = Stacks.resilience4j(new Flaky());

    @Benchmark
    public Integer tidegate() throws Exception {
        return policy.call(attempt -> flaky.call());
    }

    @Benchmark
    public Integer resilience4j() throws Exception {
        return peer.call();
    }
}
