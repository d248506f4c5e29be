package dev.tidegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tidegate.okhttp.TidegateOkHttp;
import dev.tidegate.testing.FakeTime;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import okhttp3.OkHttpClient;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The library as Java sees it: blocking calls, builders, a clock that a wait moves on. */
class JavaCallerTest {
    private final FakeTime time = new FakeTime();
    private final Engine engine = new Engine(7L, time);

    private Policy policy(String name, Configure<PolicyOptions> more) {
        return Policy.of(name, engine, it -> {
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
    void theOutcomeOfAResponseIsForOnesOwnClassifier() {
        Policy policy = policy("p", it -> it.setPreset(Preset.HTTP));
        Outcome busy = Outcome.of(Outcome.THROTTLED, Duration.ofSeconds(2));
        assertEquals(busy, policy.outcomeOf(429, Map.of("Retry-After", List.of("2"))));
        assertEquals(new Outcome(Outcome.PERMANENT), policy.outcomeOf(404));
    }

    @Test
    void theOriginalExceptionIsTheCallers() {
        Policy policy = policy("p", it -> it.retry(retry -> retry.setMaxAttempts(2)));
        IOException error = new IOException("no");
        IOException thrown = assertThrows(IOException.class, () -> policy.call(attempt -> { throw error; }));
        assertSame(error, thrown);
        assertEquals("gave up after 2 attempts", Report.of(thrown).getNote());
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
        Policy policy = Policy.of("p", real, it -> {
            it.rateLimit(limit -> {
                limit.setPermits(1);
                limit.setPer(Duration.ofMinutes(1));
                limit.setMaxWait(Duration.ofMinutes(2));
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

    /** The first block of the guide for Java, on a clock that stands still. */
    @Test
    void theGuideRuns() throws Exception {
        Policy policy = Policy.of("p", it -> {
            it.setDeadline(Duration.ofSeconds(10));
            it.retry(retry -> retry.setMaxAttempts(3));
        });
        String answer = policy.call(attempt -> "attempt " + attempt.getNumber() + " has " + attempt.getTime().toSeconds() + " s");
        assertTrue(Set.of("attempt 1 has 10 s", "attempt 1 has 9 s").contains(answer), answer);
        Report report = null;
        try {
            policy.call(attempt -> { throw new IOException("no"); });
        } catch (IOException error) {
            report = Report.of(error);
        }
        assertEquals(3, report.getAttempts());
        String refunded = Bounds.within(Duration.ofSeconds(3), () -> policy.at("refunds").call(attempt -> "refunded"));
        assertEquals("refunded", refunded);
    }

    @Test
    void spansAreJavas() throws Exception {
        Policy policy = policy("p", it -> {
            it.setAttemptTimeout(Duration.ofSeconds(2));
            it.setDeadline(Duration.ofSeconds(60));
            it.retry(retry -> {
                retry.setMaxRetryAfter(Duration.ofSeconds(5));
                retry.backoff(backoff -> {
                    backoff.setBase(Duration.ofSeconds(1));
                    backoff.setJitter(BackoffJitter.NONE);
                });
            });
            it.classify((result, error) ->
                "busy".equals(result) ? Outcome.of(Outcome.THROTTLED, Duration.ofSeconds(7)) : null);
        });
        List<Duration> times = new ArrayList<>();
        assertEquals("attempt 2", policy.call(attempt -> {
            times.add(attempt.getTime());
            if (attempt.getNumber() == 1) throw new IOException("reset");
            return "attempt " + attempt.getNumber();
        }));
        assertEquals(List.of(Duration.ofSeconds(2), Duration.ofSeconds(2)), times);
        assertEquals(Duration.ofSeconds(1), time.getSlept());
        assertEquals("busy", policy.call(attempt -> "busy"));
        time.advance(Duration.ofSeconds(1));

        Caller short_ = policy.at(new CallOptions("eu").withDeadline(Duration.ofSeconds(1)).withCost(2));
        assertEquals(Duration.ofSeconds(1), short_.call(Attempt::getTime));
        assertEquals(2, new CallOptions().withCost(2).getCost());
        DeadlineExceeded late = assertThrows(DeadlineExceeded.class,
            () -> Bounds.within(Duration.ZERO, () -> policy.call(attempt -> "never")));
        assertEquals(504, late.getHttpStatus());
        assertEquals("critical", Bounds.within(Duration.ofSeconds(5), Criticality.CRITICAL, () -> policy.call(attempt -> "critical")));

        dev.tidegate.RequestOptions request = new RequestOptions(null, "mine").withDeadline(Duration.ofSeconds(3)).withCost(3)
            .withRetryHeader(false).withBodyFactory(() -> "body");
        assertEquals(3, request.getCost());
        assertEquals("mine", request.getRoute());
        assertEquals("body", request.getBodyFactory().make());
        assertEquals(false, request.getRetryHeader());
    }

    @Test
    void aRefusalSaysWhenToComeBack() throws Exception {
        Policy limited = policy("limited", it -> it.rateLimit(limit -> {
            limit.setPermits(1);
            limit.setPer(Duration.ofSeconds(10));
        }));
        limited.call(attempt -> null);
        RateLimited refused = assertThrows(RateLimited.class, () -> limited.call(attempt -> null));
        assertEquals(Duration.ofSeconds(10), refused.getRetryIn());
        Policy narrow = policy("narrow", it -> it.bulkhead(bulkhead -> {
            bulkhead.setMaxConcurrency(1);
            bulkhead.setMaxQueue(1);
            bulkhead.setAcquireTimeout(Duration.ofMillis(20));
        }));
        AtomicReference<Exception> seen = new AtomicReference<>();
        narrow.call(outer -> {
            Thread other = new Thread(() -> {
                try {
                    narrow.call(inner -> null);
                } catch (Exception error) {
                    seen.set(error);
                }
            });
            other.start();
            other.join();
            return null;
        });
        assertEquals(Duration.ofMillis(20), ((BulkheadFull) seen.get()).getAcquireTimeout());
    }

    @Test
    void okHttpUnderAPolicy() {
        Policy payments = policy("payments", it -> it.setPreset(Preset.HTTP));
        OkHttpClient client = TidegateOkHttp.tidegate(new OkHttpClient.Builder(), payments).build();
        assertEquals(1, client.interceptors().size());
    }

    @Test
    void springUnderAPolicy() {
        Policy payments = policy("payments", it -> it.setPreset(Preset.HTTP));
        assertNotNull(dev.tidegate.spring.TidegateSpring.restInterceptor(payments));
        assertNotNull(new dev.tidegate.spring.TidegateFilter(payments, true, true));
        assertNotNull(dev.tidegate.grpc.TidegateGrpc.grpcInterceptor(payments.at("eu")));
    }

    @Test
    void errorsToRepeatAndListenersOfRepeats() throws Exception {
        Policy stock = Policy.of("stock", it -> {
            it.retry(retry -> retry.setMaxAttempts(3));
            it.retryOn(IllegalStateException.class);
            it.onRetry(retrying -> System.out.println(retrying.getError() + ", next attempt in " + retrying.getWait()));
        });
        int attempts = stock.call(attempt -> {
            if (attempt.getNumber() == 1) throw new IllegalStateException("busy");
            return attempt.getNumber();
        });
        assertEquals(2, attempts);
        Policies document = Policy.load("policy.x.retry.max_attempts = 2", false, Engine.getDefault(), (code, name) -> code.retryOn(IllegalStateException.class));
        IllegalStateException error = assertThrows(IllegalStateException.class,
            () -> document.get("x").call(attempt -> { throw new IllegalStateException("busy"); }));
        assertEquals("attempts", Report.of(error).explain().getReason());
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
