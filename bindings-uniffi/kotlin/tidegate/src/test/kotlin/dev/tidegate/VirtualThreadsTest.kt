package dev.tidegate

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.CsvSource
import java.io.File
import java.io.IOException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** Programs for a JVM whose virtual threads share one carrier, where a thread that keeps its carrier keeps all others from running. Each prints what happened, in order. */
object OnOneCarrier {
    private val lines = CopyOnWriteArrayList<String>()

    /** Looked up by name, because the tests are compiled for an older Java. */
    private fun virtual(work: Runnable) = Thread::class.java.getMethod("startVirtualThread", Runnable::class.java).invoke(null, work) as Thread

    @JvmStatic
    fun main(arguments: Array<String>) {
        when (arguments[0]) {
            "backoff" -> backoff()
            "queue" -> queue()
            "scope" -> scope()
            "many" -> many()
        }
        lines.forEach(::println)
    }

    /** A call in backoff, which another thread interrupts. */
    private fun backoff() {
        val patient = policy("patient") { retry { backoff { base = 30.seconds; max = 30.seconds; jitter = BackoffJitter.NONE } } }
        val waits = virtual {
            val error = runCatching {
                patient.call { attempt ->
                    lines += "attempt ${attempt.number}"
                    throw IOException("lost")
                }
            }.exceptionOrNull()
            lines += "ended by ${error?.javaClass?.simpleName}"
        }
        virtual {
            while (waits.state != Thread.State.TIMED_WAITING) Thread.yield()
            lines += "another thread runs"
            waits.interrupt()
        }
        waits.join()
    }

    /** A call that waits for the slot of a thread that must run to give it back. */
    private fun queue() {
        val one = policy("one") { bulkhead { maxConcurrency = 1; maxQueue = 1; acquireTimeout = 60.seconds } }
        val taken = CountDownLatch(1)
        val free = CountDownLatch(1)
        val holds = virtual {
            one.call {
                taken.countDown()
                free.await()
                lines += "the first gives its slot back"
            }
        }
        val waits = virtual {
            taken.await()
            one.call { lines += "the second has it" }
        }
        virtual {
            taken.await()
            while (waits.state != Thread.State.TIMED_WAITING) Thread.yield()
            free.countDown()
        }
        listOf(holds, waits).forEach(Thread::join)
    }

    /** Two threads take turns on the carrier: each sees its own surrounding call and deadline, and leaves none to the other. */
    private fun scope() {
        val outer = policy("outer") { retry { maxAttempts = 3 }; bulkhead { maxConcurrency = 2 } }
        val inner = policy("inner") { attemptTimeout = 3600.seconds }
        val ended = listOf(10.seconds, 100.seconds).map { deadline ->
            virtual {
                val left = blockingWithBounds(deadline) {
                    outer.call {
                        Thread.sleep(20)
                        inner.call { it.time!! }
                    }
                }
                lines += "${deadline.inWholeSeconds}: ${left > deadline - 9.seconds && left < deadline}, then ${inner.call { it.time!! > 3_000.seconds }}"
            }
        }
        ended.forEach(Thread::join)
        lines.sort()
    }

    /** A thousand calls through ten slots, each of which fails once. */
    private fun many() {
        val narrow = policy("narrow") {
            retry { backoff { base = 1.milliseconds; max = 5.milliseconds }; budget { kind = BudgetKind.NONE } }
            bulkhead { maxConcurrency = 10; maxQueue = 1_000; acquireTimeout = 60.seconds }
        }
        val attempts = AtomicInteger()
        val answers = AtomicInteger()
        val ended = List(1_000) {
            virtual {
                val answer = narrow.call { attempt ->
                    attempts.incrementAndGet()
                    Thread.sleep(1)
                    if (attempt.number == 1) throw IOException("lost")
                    1
                }
                answers.addAndGet(answer)
            }
        }
        ended.forEach(Thread::join)
        lines += "$answers answers of $attempts attempts"
    }
}

/** Blocking calls in virtual threads, which Java has from 21 on. A call that waits gives its carrier to other threads. */
@Timeout(120)
class VirtualThreadsTest {
    private val java = File(System.getenv("TIDEGATE_NEWER_JAVA") ?: "${System.getProperty("java.home")}/bin/java")

    /** The version of another JVM is in a file beside it. */
    private val version = java.parentFile.parentFile.resolve("release").readText().let { Regex("JAVA_VERSION=\"(\\d+)").find(it)!!.groupValues[1].toInt() }

    @ParameterizedTest
    @CsvSource(
        "backoff, attempt 1; another thread runs; ended by InterruptedException",
        "queue, the first gives its slot back; the second has it",
        "scope, '100: true, then true; 10: true, then true'",
        "many, 1000 answers of 2000 attempts",
    )
    fun `a call that waits in a virtual thread keeps no other from running`(program: String, expected: String) {
        assumeTrue(version >= 21, "$java is Java $version and has no virtual threads; TIDEGATE_NEWER_JAVA names another")
        val scheduler = listOf("parallelism", "maxPoolSize").map { "-Djdk.virtualThreadScheduler.$it=1" }
        // Java 21 to 23 print the stack of each thread that waits without giving up its carrier.
        val options = scheduler + "-Djdk.tracePinnedThreads=short"
        val command = listOf(java.path) + options + listOf("-cp", System.getProperty("java.class.path"), "dev.tidegate.OnOneCarrier", program)
        val process = ProcessBuilder(command).redirectErrorStream(true).start()
        // Read beside the wait: a program that hangs prints no end.
        val text = StringBuilder()
        val reader = Thread { process.inputStream.bufferedReader().forEachLine { text.appendLine(it) } }.apply { start() }
        val ended = process.waitFor(20, TimeUnit.SECONDS)
        process.destroyForcibly()
        reader.join()
        assertTrue(ended, "it hangs: $text")
        val lines = text.lines().filter { it.isNotEmpty() && "WARNING: " !in it && " VM warning: " !in it && "execstack" !in it }
        assertEquals(expected, lines.joinToString("; "))
    }
}
