package dev.tidegate

import dev.tidegate.internal.Library
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import java.util.logging.Handler
import java.util.logging.LogRecord
import java.util.logging.Logger
import kotlin.concurrent.thread

/** What users hand us breaks no call, whatever it throws, and wherever that goes. */
class CallbacksTest {
    private val engine = Engine(seed = 7)

    private fun policy(name: String = "p", configure: Configure<PolicyOptions> = Configure { }): Policy = Policy.of(name, this@CallbacksTest.engine) {
        retry { maxAttempts = 2 }
        with(configure) { configure() }
    }

    /** Runs on a thread of its own, whose handler of uncaught exceptions this is. */
    private fun onThread(handler: (Throwable) -> Unit, work: () -> Unit): Throwable? {
        var thrown: Throwable? = null
        val thread = thread(start = false) { thrown = runCatching(work).exceptionOrNull() }
        thread.setUncaughtExceptionHandler { _, error -> handler(error) }
        thread.start()
        thread.join()
        return thrown
    }

    @Test
    fun `classify that is not written yet breaks no call`() {
        val told = mutableListOf<String>()
        val policy = policy { classify { _, _ -> TODO() } }
        val answers = mutableListOf<Any?>()
        val error = onThread({ told += it.javaClass.simpleName }) {
            answers += policy.call { "fine" }
            answers += kotlinx.coroutines.runBlocking { policy.run { "fine too" } }
            answers += runCatching { policy.call { throw IllegalStateException("mine") } }.exceptionOrNull()?.message
        }
        assertEquals(listOf<Any?>("fine", "fine too", "mine"), answers, "$error")
        assertEquals(listOf("NotImplementedError"), told)
        assertEquals(mapOf("ok" to 2L, "not_retryable" to 1L), engine.snapshot().policies.getValue("p").ends.filterValues { it > 0L })
        leftNothing(engine)
    }

    @Test
    fun `an interrupt in a callback is one of its thread`() {
        var made = 0
        val policy = policy { retry { maxAttempts = 3 }; onRetry { throw InterruptedException("asleep") } }
        val error = onThread({ }) { policy.call { made++; throw IOException("lost") } }
        assertTrue(error is InterruptedException, "$error")
        assertEquals(1, made)
        leftNothing(engine)
    }

    @Test
    fun `a set of types that changes later changes no listener`() {
        val types = mutableSetOf("call_done")
        val seen = mutableListOf<String>()
        engine.listen(types) { seen += it.kind }
        types.clear()
        policy().call { }
        assertEquals(listOf("call_done"), seen)
    }

    @Test
    fun `what depends on a future may wait for other calls, also for one that its own has kept waiting`() {
        val threads = Executors.newCachedThreadPool()
        val gate = CountDownLatch(1)
        val ask = { policy: Policy -> policy.callAsync { CompletableFuture.supplyAsync({ gate.await(); "x" }, threads) } }
        val many = policy()
        val all = List(20) { ask(many).thenApply { ask(many).join() } }.toMutableList()
        val one = policy("one") { bulkhead { maxConcurrency = 1; maxQueue = 1 } }
        val second = CompletableFuture<String>()
        all += ask(one).thenApply { second.join() }
        ask(one).thenAccept(second::complete)
        gate.countDown()
        assertEquals(List(21) { "x" }, all.map { it.get(60, TimeUnit.SECONDS) })
        // A thread of the common pool works on while it waits.
        val common = { many.callAsync { CompletableFuture.supplyAsync { gate.await(); "x" } } }
        assertEquals(List(20) { "x" }, List(20) { common().thenApply { common().join() } }.map { it.get(60, TimeUnit.SECONDS) })
        threads.shutdown()
        leftNothing(engine)
    }

    @Test
    fun `a stack that overflows ends no events of later calls`() {
        val policy = policy()
        var seen = 0
        engine.listen(setOf("call_done")) { seen++ }
        fun deeper() {
            policy.call { }
            deeper()
        }
        policy.call { } // loads the classes, where there is room for it
        assertTrue(onThread({ }) { deeper() } is StackOverflowError)
        val before = seen
        policy.call { }
        assertTrue(seen > before, "$seen")
    }

    @Test
    fun `a handler that throws what a listener has thrown breaks no call, and events go on`() {
        val policy = policy()
        val seen = mutableListOf<String>()
        var broken = true
        engine.listen { if (broken) throw IOException("listener") else seen += it.kind }
        val error = onThread({ throw IllegalStateException("handler", it) }) {
            policy.call { }
            broken = false
            policy.call { }
        }
        assertEquals(null, error)
        assertTrue("call_done" in seen, "$seen")
    }

    @Test
    fun `on Android, where a handler ends the process, what is thrown goes to the log`() {
        val policy = policy()
        engine.listen(setOf("call_done")) { throw IOException("listener") }
        val handled = mutableListOf<Throwable>()
        val logged = mutableListOf<LogRecord>()
        val log = Logger.getLogger("dev.tidegate")
        val records = object : Handler() {
            override fun publish(record: LogRecord) {
                logged += record
            }

            override fun flush() = Unit

            override fun close() = Unit
        }
        val machine = System.getProperty("java.vm.name")
        log.addHandler(records)
        log.useParentHandlers = false
        System.setProperty("java.vm.name", "Dalvik")
        try {
            assertTrue(Library.isAndroid())
            onThread({ handled += it }) { policy.call { } }
        } finally {
            System.setProperty("java.vm.name", machine)
            log.useParentHandlers = true
            log.removeHandler(records)
        }
        assertEquals(emptyList<Throwable>() to listOf("listener"), handled to logged.map { it.thrown?.message })
    }

    @Test
    fun `a route that has been evicted is forced all the same`() {
        val small = Engine(seed = 7, maxRoutes = 2)
        val policy = Policy.of("small", small) { retry { } }
        for (route in listOf("a", "b", "c", "d")) policy.at(route).call { }
        policy.forceOpen(route = "a")
        assertTrue(runCatching { policy.at("a").call { } }.exceptionOrNull() is ForcedOpen)
        policy.forceOpen(false, route = "a")
        policy.at("a").call { }
    }
}
