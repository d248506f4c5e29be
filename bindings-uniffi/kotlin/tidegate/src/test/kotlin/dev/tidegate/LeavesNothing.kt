package dev.tidegate

import org.junit.jupiter.api.Assertions.fail
import org.junit.jupiter.api.extension.AfterEachCallback
import org.junit.jupiter.api.extension.BeforeEachCallback
import org.junit.jupiter.api.extension.ExtensionContext
import java.io.File
import java.io.IOException
import java.nio.channels.SocketChannel
import java.nio.file.Files

/** A test whose client leaves connections open, for a reason that is not Tidegate's. Everything else is counted. */
@Target(AnnotationTarget.CLASS)
annotation class LeavesConnections(val why: String)

/**
 * After each test of an adapter there are as many sockets, selectors, busy threads and coroutines as before it, and no call is left in the engines
 * that are fields of the test. JUnit finds this by `META-INF/services`, so that a new test gets it without asking.
 */
class LeavesNothing : BeforeEachCallback, AfterEachCallback {
    override fun beforeEach(context: ExtensionContext) {
        warm
        store(context).put("before", Counts.now(starting = true))
    }

    override fun afterEach(context: ExtensionContext) {
        // What has failed has said enough; and it is adapters that open something.
        if (context.executionException.isPresent || !context.requiredTestClass.name.startsWith("dev.tidegate.http.")) return
        val before = store(context).get("before", Counts::class.java)
        val keepsFiles = context.requiredTestClass.isAnnotationPresent(LeavesConnections::class.java)
        val end = System.nanoTime() + PATIENCE
        var left = Counts.now(keepsFiles).beyond(before)
        while (left.isNotEmpty() && System.nanoTime() - end < 0) {
            Thread.sleep(5)
            left = Counts.now(keepsFiles).beyond(before)
        }
        if (left.isNotEmpty()) fail<Unit>("${context.displayName} leaves open: $left")
        context.testInstance.ifPresent { test -> engines(test).forEach(::leftNothing) }
    }

    private fun engines(test: Any): List<Engine> {
        val classes = generateSequence<Class<*>>(test.javaClass) { it.superclass }
        return classes.flatMap { it.declaredFields.asSequence() }.filter { it.type == Engine::class.java }.mapNotNull {
            it.isAccessible = true
            it.get(test) as Engine?
        }.toList()
    }

    private fun store(context: ExtensionContext) = context.getStore(ExtensionContext.Namespace.create(javaClass, context.uniqueId))

    private class Counts(val files: Map<String, Int>, val threads: Set<Thread>, val coroutines: Map<Long, String>) {
        /** What there is more of than before. */
        fun beyond(before: Counts): List<String> {
            val more = files.filter { (kind, count) -> count > (before.files[kind] ?: 0) }.map { (kind, count) -> "$count × $kind" }
            val busy = (threads - before.threads).map { "thread ${it.name}: ${it.stackTrace.take(3)}" }
            return more + busy + (coroutines - before.coroutines.keys).values
        }

        companion object {
            /** A thread that is [starting] has no frames yet. Before a test it counts as there, for it may be busy after it; after a test it does not. */
            fun now(keepsFiles: Boolean = false, starting: Boolean = false): Counts {
                val busy = Thread.getAllStackTraces().filter { (thread, stack) -> !isCommon(thread) && if (stack.isEmpty()) starting else !isIdle(stack) }
                return Counts(if (keepsFiles) emptyMap() else files(), busy.keys, Coroutines.now())
            }

            /** Sockets and selectors that the process has open, where the system tells. Other files are those of classes. */
            private fun files(): Map<String, Int> {
                val links = File("/proc/self/fd").listFiles().orEmpty().mapNotNull {
                    try {
                        "${Files.readSymbolicLink(it.toPath())}"
                    } catch (_: IOException) {
                        null // it was open for the listing
                    }
                }
                return links.map { it.substringBefore(":[") }.filter { it == "socket" }.groupingBy { it }.eachCount()
            }

            /** Is it a thread of the platform's, which comes and goes by itself? */
            private fun isCommon(thread: Thread) = COMMON.any { thread.name.startsWith(it) } || thread.threadGroup?.name == "system"

            /** Does a thread of a pool wait for work? */
            private fun isIdle(stack: Array<StackTraceElement>) =
                stack.any { frame -> IDLE.any { "${frame.className}.${frame.methodName}".startsWith(it) } }
        }
    }

    private companion object {
        /** What the first use of the native library and of a channel opens for good is not a test's. */
        val warm: Unit by lazy {
            Engine().snapshot()
            SocketChannel.open().close()
        }

        /** How long what a test has closed may take to end. Nothing waits for so long unless it leaks. */
        const val PATIENCE = 30_000_000_000L
        val COMMON = listOf("process reaper", "JNA Cleaner", "Okio Watchdog", "Keep-Alive-Timer", "surefire", "kotlinx.coroutines.DefaultExecutor", "junit-")
        val IDLE = listOf(
            "java.util.concurrent.ThreadPoolExecutor.getTask",
            "java.util.concurrent.ForkJoinPool.awaitWork",
            "kotlinx.coroutines.scheduling.CoroutineScheduler\$Worker.park",
            "kotlinx.coroutines.scheduling.CoroutineScheduler\$Worker.tryPark",
            "okhttp3.internal.concurrent.TaskRunner.awaitTaskToRun",
            "okhttp3.internal.concurrent.TaskRunner\$RealBackend.coordinatorWait",
            "io.netty.util.concurrent.GlobalEventExecutor.takeTask",
        )
    }
}
