package dev.tidegate.bench

import dev.tidegate.BackoffJitter
import dev.tidegate.BudgetKind
import dev.tidegate.Engine
import dev.tidegate.policy
import io.github.resilience4j.bulkhead.Bulkhead
import io.github.resilience4j.bulkhead.BulkheadConfig
import io.github.resilience4j.retry.Retry
import io.github.resilience4j.retry.RetryConfig
import java.lang.invoke.MethodHandle
import java.lang.invoke.MethodHandles
import java.lang.invoke.MethodType
import java.time.Duration
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicReference
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

private const val SLOTS = 1_000
private const val MANY = 50_000

/**
 * What calls in virtual threads cost, beside resilience4j's: many in one thread, a thread for each, and threads that wait. Times are those of
 * all threads of the process, for a virtual thread has none of its own. The threads are looked up by name, because this module is compiled for
 * JDK 17.
 */
object VirtualThreads {
    private val starter: MethodHandle? = if (Runtime.version().feature() < 21) null else {
        val type = MethodType.methodType(Thread::class.java, Runnable::class.java)
        MethodHandles.publicLookup().findStatic(Thread::class.java, "startVirtualThread", type)
    }

    /** Runs [work] in [count] virtual threads at once, and waits for all. An exception of one of them is thrown here. */
    fun all(count: Int, work: Runnable) {
        val ended = CountDownLatch(count)
        val failure = AtomicReference<Throwable>()
        val guarded = Runnable {
            try {
                work.run()
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                failure.set(error)
            } finally {
                ended.countDown()
            }
        }
        repeat(count) { starter!!.invoke(guarded) as Thread }
        ended.await()
        failure.get()?.let { throw it }
    }

    @JvmStatic
    fun main(arguments: Array<String>) {
        if (starter == null) return println("not run: Java ${Runtime.version()} has no virtual threads")
        val happy = Stacks.tidegate()
        val peer = Stacks.resilience4j({ 42 })
        val clock = { process.processCpuTime }
        measure(
            "Virtual threads: the happy path in one of them",
            Bench("tidegate policy.call", 1_000_000) { times -> all(1) { repeat(times) { happy.call { 42 } } } },
            Bench("resilience4j decorated callable", 1_000_000) { times -> all(1) { repeat(times) { peer.call() } } },
            clock = clock,
        )
        measure(
            "Virtual threads: the happy path, a thread for each call",
            Bench("threads alone", 2 * MANY) { times -> all(times) { } },
            Bench("tidegate policy.call", 2 * MANY) { times -> all(times) { happy.call { 42 } } },
            Bench("resilience4j decorated callable", 2 * MANY) { times -> all(times) { peer.call() } },
            clock = clock,
        )
        val queue = policy("queue", Engine(seed = 7)) { bulkhead { maxConcurrency = SLOTS; maxQueue = MANY; acquireTimeout = 60.seconds } }
        val slots = BulkheadConfig.custom().maxConcurrentCalls(SLOTS).maxWaitDuration(Duration.ofSeconds(60)).build()
        val peerQueue = Bulkhead.decorateCallable(Bulkhead.of("q", slots), ::pause)
        measure(
            "Virtual threads: 50,000 that sleep 1 ms each through a bulkhead of 1,000",
            Bench("threads alone", MANY) { times -> all(times, ::pause) },
            Bench("tidegate policy.call", MANY) { times -> all(times) { queue.call { pause() } } },
            Bench("resilience4j decorated callable", MANY) { times -> all(times) { peerQueue.call() } },
            clock = clock,
        )
        val again = policy("again", Engine(seed = 7)) {
            retry { maxAttempts = 3; backoff { base = 10.milliseconds; max = 1.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
        }
        val retry = Retry.of("r", RetryConfig.custom<Any>().maxAttempts(3).intervalFunction { 10L }.build())
        measure(
            "Virtual threads: 50,000 that wait 10 ms for one retry",
            Bench("threads alone", MANY) { times -> all(times) { Thread.sleep(10) } },
            Bench("tidegate policy.call", MANY) { times -> all(times) { Flaky().let { once -> again.call { once.call() } } } },
            Bench("resilience4j decorated callable", MANY) { times -> all(times) { Retry.decorateCallable(retry, Flaky()).call() } },
            clock = clock,
        )
        keep("versions", "virtual threads: JVM ${System.getProperty("java.version")}", 0.0)
    }

    private fun pause() = Thread.sleep(1)
}
