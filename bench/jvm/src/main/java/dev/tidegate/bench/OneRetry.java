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

/** A call whose first attempt fails and whose second one, without a wait, succeeds. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(2)
@State(Scope.Thread)
public class OneRetry {
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
