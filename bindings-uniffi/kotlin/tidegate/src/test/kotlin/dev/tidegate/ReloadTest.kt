package dev.tidegate

import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows
import java.io.IOException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.ExecutionException
import java.util.concurrent.Semaphore
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.seconds

/** A document that is edited while its policies are in use, and engines that are closed. */
@Timeout(60)
class ReloadTest {
    private val engine = Engine(seed = 7)

    private val old = """
        [pool.db]
        bulkhead = { max_concurrency = 1, max_queue = 9 }
        [policy.charges]
        retry = { max_attempts = 3, backoff = { base = "0s", max = "0s" }, budget = { kind = "none" } }
        [policy.reads]
        bulkhead.pool = "db"
        [policy.gone]
        retry.max_attempts = 2
    """
    private val new = """
        [pool.db]
        bulkhead = { max_concurrency = 2, max_queue = 9 }
        [policy.charges]
        retry = { max_attempts = 2, backoff = { base = "0s", max = "0s" }, budget = { kind = "none" } }
        kinds = { busy = "transient" }
        [policy.reads]
        bulkhead.pool = "db"
        [policy.search]
        retry.max_attempts = 2
    """

    private fun attempts(policy: Policy): Int {
        var made = 0
        assertThrows<IOException> { policy.call { made += 1; throw IOException("lost") } }
        return made
    }

    private class Broken : RuntimeException()

    @Test
    fun `code that throws undoes what was loaded`() {
        val two = "[policy.a]\ndeadline = '1s'\n[policy.b]\ndeadline = '1s'"
        assertThrows<Broken> { Policy.load(two, engine = engine) { name -> if (name == "b") throw Broken() } }
        policy("a", engine) { deadline = 2.seconds } // nobody holds it, so that this is no clash
        var broken = true
        val text = { attempts: Int -> "[policy.c.retry]\nmax_attempts = $attempts\nbackoff = { base = '0s', max = '0s' }\nbudget.kind = 'none'\n" }
        val policies = Policy.load(text(3), engine = engine) { name -> if (name == "d" && broken) throw Broken() }
        val digest = policies.digest
        val newer = text(2) + "[policy.d]\ndeadline = '1s'"
        assertThrows<Broken> { policies.reload(newer) }
        assertEquals(Triple(digest, setOf("c"), 3), Triple(policies.digest, policies.keys, attempts(policies.getValue("c"))))
        broken = false
        assertEquals(listOf("policy.d"), policies.reload(newer).added)
        assertEquals(2, attempts(policies.getValue("c")))
    }

    @Test
    fun `code that throws is heard where the reload cannot be undone`() {
        val policies = Policy.load("policy.a.deadline = '1s'", engine = engine) { name -> if (name == "d") throw Broken() }
        policies.getValue("a").retune { deadline = 3.seconds }
        val newer = "policy.d.deadline = '1s'"
        assertTrue(assertThrows<Broken> { policies.reload(newer) }.suppressed.any { it is PolicyException }, "the engine has another a")
        policy("d", engine) { deadline = 2.seconds } // nobody holds it, so that this is no clash
        val closing = Policy.load("policy.b.deadline = '1s'", engine = engine) { name -> if (name == "e") engine.close().also { throw Broken() } }
        assertTrue(assertThrows<Broken> { closing.reload("policy.e.deadline = '1s'") }.suppressed.any { it is IllegalStateException })
        assertEquals(setOf("b"), closing.keys)
    }

    @Test
    fun `what is undone is the document's again, not what was retuned by hand`() {
        val text = "[policy.a.retry]\nmax_attempts = 3\nbackoff = { base = '0s', max = '0s' }\nbudget.kind = 'none'\n"
        val policies = Policy.load(text, engine = engine) { name -> if (name == "d") throw Broken() }
        val a = policies.getValue("a")
        a.retune { retry { maxAttempts = 2; budget { kind = BudgetKind.NONE } } }
        assertThrows<Broken> { policies.reload(text + "[policy.d]\ndeadline = '1s'") }
        assertEquals(3, attempts(a))
    }

    @Test
    fun `a document that clashes owns nothing`() {
        val policies = Policy.load("[policy.b]\ndeadline = '1s'", engine = engine)
        assertThrows<PolicyException> { Policy.load("[policy.a]\ndeadline = '1s'\n[policy.b]\ndeadline = '2s'", engine = engine) }
        assertEquals(2.seconds, policy("a", engine) { deadline = 2.seconds }.call { it.time })
        assertEquals(setOf("b"), policies.keys)
    }

    @Test
    fun `an engine that is closed while a document is loaded refuses its calls, too`() {
        val late = Policy.load("[policy.a]\ndeadline = '1s'", engine = engine) { engine.close() }.getValue("a")
        assertThrows<ForcedOpen> { late.call { "through" } }
    }

    @Test
    fun `everything goes over and what is counted stays`() {
        val policies = Policy.load(old, engine = engine)
        val charges = policies.getValue("charges")
        val gone = policies.getValue("gone")
        assertEquals(3, attempts(charges))
        val before = policies.digest
        val done = policies.reload(new)
        assertEquals(listOf(listOf("policy.search"), listOf("pool.db", "policy.charges"), listOf("policy.gone")), listOf(done.added, done.changed, done.removed))
        assertEquals(done.digest, policies.digest)
        assertNotEquals(before, done.digest)
        assertSame(charges, policies["charges"])
        assertEquals(2, attempts(charges))
        assertEquals(mapOf("busy" to "transient"), charges.kinds)
        assertEquals(5L, engine.snapshot().policies.getValue("charges").attempts)
        assertEquals(setOf("charges", "reads", "search"), policies.keys)
        assertEquals(1, policies.getValue("search").call { 1 })
        assertEquals(1, gone.call { 1 }, "its callers still have it")
        assertEquals(setOf("db"), policies.pools.keys)
        assertEquals(done.digest, policies.reload(new).digest)
    }

    @Test
    fun `a kind that only the newer document has can be answered`() {
        val own = engine
        val policies = Policy.load("policy.p.deadline = '9s'", engine = own) { classify { _, error -> error?.let { Outcome("busy") } } }
        val policy = policies.getValue("p")
        policies.reload("[policy.p]\nkinds = { busy = 'transient' }\nretry = { max_attempts = 2, backoff = { base = '0s', max = '0s' } }")
        assertEquals(2, attempts(policy))
    }

    @Test
    fun `a limit that grows admits who waits`() {
        val policies = Policy.load(old, engine = engine)
        val reads = policies.getValue("reads")
        val (inside, leave) = Semaphore(0) to CountDownLatch(1)
        val calls = List(2) {
            CompletableFuture.runAsync { reads.call { inside.release(); assertTrue(leave.await(30, TimeUnit.SECONDS)) } }
        }
        assertTrue(inside.tryAcquire(30, TimeUnit.SECONDS))
        policies.reload(new)
        assertTrue(inside.tryAcquire(30, TimeUnit.SECONDS), "the second one has been admitted")
        leave.countDown()
        calls.forEach { it.get(30, TimeUnit.SECONDS) }
    }

    @Test
    fun `or nothing does`() {
        val policies = Policy.load(old, engine = engine)
        val own = engine
        policy("mine", own) { retry { maxAttempts = 2 } }
        val digest = policies.digest
        val wrong = "pool.db.rate_limit = { permits = 1, per = '1s' }\npolicy.reads.deadline = '1s'\npolicy.mine.deadline = '1s'"
        val mistakes = assertThrows<PolicyException> { policies.reload(wrong) }.mistakes
        assertEquals(listOf("pool \"db\"", "policy \"mine\"", "policy \"reads\""), mistakes.map { "${it.key} ${it.value}" })
        val read = assertThrows<PolicyException> { policies.reload("policy.charges.retry.max_attempts = 0") }
        assertTrue("(line 1)" in read.message!!, read.message)
        assertEquals(listOf(digest, 3), listOf(policies.digest, policies.size))
        assertEquals(3, attempts(policies.getValue("charges")), "as it was")
    }

    @Test
    fun `a closed engine refuses calls and lets go of what waits`() {
        val policies = Policy.load(old, engine = engine)
        val reads = policies.getValue("reads")
        val (inside, leave) = Semaphore(0) to CountDownLatch(1)
        var heard = 0
        engine.listen(setOf("call_done")) { heard += 1 }
        val running = CompletableFuture.supplyAsync { reads.call { inside.release(); assertTrue(leave.await(30, TimeUnit.SECONDS)); "done" } }
        assertTrue(inside.tryAcquire(30, TimeUnit.SECONDS))
        val waiting = CompletableFuture.supplyAsync { reads.call { "never" } }
        while (engine.snapshot().waiting == 0) Thread.onSpinWait()
        val own = engine
        val collected = CompletableFuture.supplyAsync { runBlocking { own.events.toList().size } }
        engine.close()
        assertTrue(engine.isClosed)
        assertTrue(assertThrows<ExecutionException> { waiting.get(30, TimeUnit.SECONDS) }.cause is ForcedOpen)
        assertThrows<ForcedOpen> { policies.getValue("charges").call { 1 } }
        leave.countDown()
        assertEquals("done", running.get(30, TimeUnit.SECONDS), "what has started ends as it ends")
        collected.handle { _, _ -> }.get(30, TimeUnit.SECONDS)
        for (refused in listOf<() -> Any>({ policy("late", own) { retry { } } }, { policies.reload(new) }, { Policy.load(new, engine = own) }, { own.listen { } })) {
            assertEquals("this engine is closed: make another", assertThrows<IllegalStateException> { refused() }.message)
        }
        engine.close()
        assertEquals(0, engine.snapshot().let { it.live + it.waiting })
        assertFalse(Engine(seed = 7).isClosed)
    }
}
