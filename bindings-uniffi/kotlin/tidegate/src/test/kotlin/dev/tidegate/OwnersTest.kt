package dev.tidegate

import dev.tidegate.testing.FakeTime
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import java.io.IOException
import java.lang.ref.WeakReference
import java.util.logging.Handler
import java.util.logging.LogRecord
import java.util.logging.Logger
import kotlin.time.Duration.Companion.seconds

/** A definition in a class that each test loads anew. */
class Definition : (Engine) -> Policy {
    override fun invoke(engine: Engine): Policy = policy("payments", engine) { deadline = seconds.seconds; bulkhead { pool = Pool.bulkhead("db", engine) { maxConcurrency = seconds } } }

    companion object {
        @JvmStatic val seconds: Int get() = Integer.getInteger("tidegate.test.seconds")
    }
}

/** Owners of policies (docs/adr/0037-owners-on-the-jvm.md). */
class OwnersTest {
    private val engine = Engine(seed = 7, timeSource = FakeTime())

    /** Runs the definition in a loader that has classes of [Definition] of its own. */
    private fun define(seconds: Int): Policy {
        System.setProperty("tidegate.test.seconds", "$seconds")
        val parent = javaClass.classLoader
        val loader = object : ClassLoader(parent) {
            override fun loadClass(name: String, resolve: Boolean): Class<*> {
                if (!name.startsWith(Definition::class.java.name)) return super.loadClass(name, resolve)
                findLoadedClass(name)?.let { return it }
                val bytes = parent.getResourceAsStream(name.replace('.', '/') + ".class")!!.use { it.readBytes() }
                return defineClass(name, bytes, 0, bytes.size)
            }
        }
        @Suppress("UNCHECKED_CAST")
        val made = loader.loadClass(Definition::class.java.name).getDeclaredConstructor().newInstance() as (Engine) -> Policy
        return made(engine)
    }

    private fun logged(work: () -> Unit): List<String> {
        val texts = mutableListOf<String>()
        val handler = object : Handler() {
            override fun publish(record: LogRecord) {
                texts += record.message
            }

            override fun flush() = Unit

            override fun close() = Unit
        }
        val logger = Logger.getLogger("dev.tidegate")
        logger.addHandler(handler)
        logger.useParentHandlers = false
        try {
            work()
        } finally {
            logger.removeHandler(handler)
            logger.useParentHandlers = true
        }
        return texts
    }

    /** Waits until the collector has found what nothing refers to, and the engine has this many policies. */
    private fun collected(policies: Int) {
        val until = System.nanoTime() + 60_000_000_000
        while (engine.snapshot().policies.size > policies && System.nanoTime() < until) {
            System.gc()
            Thread.sleep(10)
        }
        assertEquals(policies, engine.snapshot().policies.size)
    }

    @Test
    fun `a class that is loaded again retunes its policies and pools, and says so`() {
        val older = define(3)
        val texts = logged { define(5) }
        assertEquals(5.0 to 5.0, older.core.span("deadline")!!.inWholeSeconds.toDouble() to older.core.count("bulkhead.max_concurrency")!!.toDouble())
        val name = Definition::class.java.name
        val text = "is defined again in $name, with other settings, and has been retuned; if these are two, give one another name"
        assertEquals(listOf("pool \"db\" $text", "policy \"payments\" $text"), texts)
        assertEquals(emptyList<String>(), logged { define(5) }, "the same settings are no change")
    }

    /** A property of a user's class that has the name of a parameter (finding K2). */
    private class Service(val engine: Engine) {
        val policy = policy("own", engine) { check(engine === this@Service.engine) { "another engine hides it" }; retry { } }
    }

    @Test
    fun `inside a policy's block, engine is that of the class around it`() {
        assertEquals(engine, Service(engine).policy.engine)
    }

    @Test
    fun `two owners that disagree are told`() {
        val first = policy("payments", engine) { deadline = 3.seconds }
        val second = policy("payments", engine) { deadline = 3.seconds }
        assertEquals(first.core.number, second.core.number)
        val error = assertThrows<PolicyException> { policy("payments", engine) { deadline = 5.seconds } }
        assertTrue("retune" in error.message!! && "another name" in error.message!!, error.message)
        val other = assertThrows<PolicyException> { define(7) }
        assertTrue("\"payments\"" in other.message!!, "another class is another owner: ${other.message}")
        assertEquals(3, first.core.span("deadline")!!.inWholeSeconds)
        first.call { }
    }

    @Test
    fun `policies without a name are removed with their last reference, and so are their calls' routes`() {
        repeat(50) { policy(engine = engine) { retry { } }.at("route $it").call { } }
        val held = policy(engine = engine) { retry { } }.at("held") // a caller holds its policy
        collected(1)
        assertEquals(1, held.call { 1 })
        assertTrue(engine.snapshot().routes.size <= 2, "${engine.snapshot().routes.map { it.key }}")
    }

    @Test
    fun `a named policy that nobody holds keeps what it owes, and takes other settings`() {
        fun used(): WeakReference<Policy> {
            val policy = policy("budgeted", engine) { rateLimit { permits = 1; per = 1000.seconds } }
            policy.call { }
            return WeakReference(policy)
        }
        val gone = used()
        val until = System.nanoTime() + 60_000_000_000
        while (System.nanoTime() < until) {
            System.gc()
            engine.snapshot()
            if (gone.get() == null && runCatching { policy("budgeted", engine) { rateLimit { permits = 1; per = 2000.seconds } } }.isSuccess) break
            Thread.sleep(10)
        }
        val again = policy("budgeted", engine) { rateLimit { permits = 1; per = 2000.seconds } }
        assertThrows<RateLimited> { again.call { } }
    }

    @Test
    fun `a reload adds no owners`() {
        fun load(): Policies = Policy.load("policy.a.deadline = '1s'\npolicy.b.deadline = '1s'", engine = engine)
            .also { it.reload("policy.a.deadline = '2s'\npolicy.c.deadline = '1s'"); it.reload("policy.a.deadline = '3s'") }
        val policies = WeakReference(load())
        val until = System.nanoTime() + 60_000_000_000
        // Each name takes other settings once nobody holds it any more.
        for (name in listOf("a", "b", "c")) {
            while (runCatching { policy(name, engine) { deadline = 9.seconds } }.isFailure && System.nanoTime() < until) {
                System.gc()
                Thread.sleep(10)
            }
            assertEquals(9, policy(name, engine) { deadline = 9.seconds }.core.span("deadline")!!.inWholeSeconds)
        }
        assertEquals(null, policies.get())
    }

    @Test
    fun `a call that runs holds its policy`() {
        val error = assertThrows<IOException> {
            policy(engine = engine) { retry { maxAttempts = 2 } }.call { attempt ->
                System.gc()
                engine.snapshot()
                throw IOException("no. ${attempt.number}")
            }
        }
        assertEquals("no. 2" to 2, error.message to error.report?.attempts)
        assertFalse(engine.isClosed)
    }
}
