package dev.tidegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tidegate.testing.FakeTime;
import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The library as Java sees it: blocking calls, builders, a clock that a wait moves on. */
class JavaCallerTest {
    private final FakeTime time = new FakeTime();
    private final Engine engine = new Engine(7L, time);

    private Policy policy(String name, Configure<PolicyOptions> more) {
        return Policy.of(name, it -> {
            it.setEngine(engine);
            more.configure(it);
        });
    }

    @AfterEach
    void nothingIsLeft() {
        RunTestKt.leftNothing(engine);
    }

    @Test
    void aFailureIsRepeatedAfterItsBackoff() throws Exception {
        Policy policy = policy("p", it -> it.retry(retry -> retry.setMaxAttempts(3)));
        String answer = policy.call(attempt -> {
            if (attempt.getNumber() < 3) throw new IOException("reset");
            return "attempt " + attempt.getNumber();
        });
        assertEquals("attempt 3", answer);
        assertTrue(engine.snapshot().getPolicies().get("p") != null);
    }

    @Test
    void theOriginalExceptionIsTheCallers() {
        Policy policy = policy("p", it -> it.retry(retry -> retry.setMaxAttempts(2)));
        IOException error = new IOException("no");
        IOException thrown = assertThrows(IOException.class, () -> policy.call(attempt -> { throw error; }));
        assertSame(error, thrown);
        assertEquals("gave up after 2 attempts", ReportKt.of(thrown).getNote());
    }

    @Test
    void aFullBulkheadRefuses() throws Exception {
        Policy policy = policy("p", it -> it.bulkhead(bulkhead -> bulkhead.setMaxConcurrency(1)));
        AtomicReference<Exception> refused = new AtomicReference<>();
        policy.at("eu").call(outer -> {
            Thread other = new Thread(() -> {
                try {
                    policy.at("eu").call(inner -> null);
                } catch (Exception error) {
                    refused.set(error);
                }
            });
            other.start();
            other.join();
            return null;
        });
        assertTrue(refused.get() instanceof BulkheadFull, String.valueOf(refused.get()));
    }

    @Test
    void aWaitCanBeInterrupted() throws Exception {
        Engine real = new Engine(7L);
        Policy policy = Policy.of("p", it -> {
            it.setEngine(real);
            it.rateLimit(limit -> {
                limit.setPermits(1);
                kotlinTime(limit);
                limit.setWait(true);
            });
        });
        policy.call(attempt -> null);
        CountDownLatch began = new CountDownLatch(1);
        AtomicReference<Exception> seen = new AtomicReference<>();
        Thread waiting = new Thread(() -> {
            began.countDown();
            try {
                policy.call(attempt -> null);
            } catch (Exception error) {
                seen.set(error);
            }
        });
        waiting.start();
        began.await();
        while (waiting.getState() != Thread.State.TIMED_WAITING) Thread.onSpinWait();
        waiting.interrupt();
        waiting.join(2_000);
        assertTrue(seen.get() instanceof InterruptedException, String.valueOf(seen.get()));
        RunTestKt.leftNothing(real);
    }

    /** Spans are Kotlin's value class, which Java sets by this. */
    private static void kotlinTime(RateLimit limit) {
        Spans.minute(limit);
    }

    @Test
    void aFallbackStandsIn() throws Exception {
        Policy policy = policy("p", it -> it.retry(retry -> retry.setMaxAttempts(1)));
        assertEquals("cached", policy.<String>call(error -> "cached", attempt -> { throw new IOException("no"); }));
    }

    @Test
    void mistakesAreTold() {
        PolicyException error = assertThrows(PolicyException.class,
            () -> policy("p", it -> it.retry(retry -> retry.setMaxAttempts(0))));
        assertEquals("retry.maxAttempts", error.getMistakes().get(0).getKey());
        assertNotNull(error.getMessage());
    }
}
