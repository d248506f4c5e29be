package dev.tidegate.bench;

import dev.tidegate.Policy;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.OperationsPerInvocation;

/** The happy path of suspending functions. Each invocation runs many, because the coroutine around them costs as much as several. */
public class Suspending extends Measured {
    private static final int TIMES = 1_000;
    private final Policy policy = Stacks.tidegate();

    @Benchmark
    @OperationsPerInvocation(TIMES)
    public int tidegate() {
        return Stacks.run(policy, TIMES);
    }
}
