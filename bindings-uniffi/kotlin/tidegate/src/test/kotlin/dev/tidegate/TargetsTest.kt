package dev.tidegate

import dev.tidegate.okhttp.tidegate
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.delay
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield
import okhttp3.OkHttpClient
import okhttp3.Request
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import java.io.IOException
import java.time.Instant
import java.util.concurrent.Executors

private const val LADDER = """
    [targets.chat]
    pick = "ladder"
    members = ["large", "small"]
    default.breaker = { consecutive = 1, break_duration = "10s" }
    [policy.chat]
    targets = "chat"
    retry = { max_attempts = 2, backoff = { base = "1ms", max = "1ms" } }
    [policy.inner]
    deadline = "5s"
"""

/** Targets: attempts learn which model, provider or key they go to (semantics 17). */
@Timeout(60)
class TargetsTest {
    private val engine = Engine(seed = 7)

    private fun policies(text: String = LADDER) = Policy.load(text, engine = engine)

    private fun chat() = policies().getValue("chat")

    @Test
    fun `a function learns its target and fails over (17_4_1, 17_2_11)`() {
        val chat = chat()
        val seen = mutableListOf<Pair<String?, String?>>()
        val ask = {
            chat.call { attempt ->
                seen += attempt.target to target()
                if (target() == "large") throw IOException("down")
                "from ${attempt.target}"
            }
        }
        assertNull(target())
        assertEquals("from small", ask())
        assertEquals("from small", ask(), "the first one's breaker is open")
        assertEquals(listOf("large" to "large", "small" to "small", "small" to "small"), seen)
        assertNull(target())
    }

    @Test
    fun `a suspending function learns its target, wherever it continues`() =
        runBlocking {
            val seen = mutableListOf<String?>()
            val answer = chat().run { attempt ->
                withContext(Dispatchers.Default) { seen += target() }
                yield()
                if (attempt.target == "large") throw IOException("down")
                target()
            }
            assertEquals("small" to listOf("large", "small"), answer to seen)
            assertNull(target())
        }

    @Test
    fun `an inner call and carried work see the target around them`() {
        val all = policies()
        val inner = all.getValue("inner")
        val other = Executors.newSingleThreadExecutor()
        all.getValue("chat").call {
            assertEquals(null to "large", inner.call { it.target to target() })
            assertEquals("large", other.submit(carried { target() }).get())
            assertNull(other.submit(java.util.concurrent.Callable { target() }).get())
        }
        other.shutdown()
    }

    @Test
    fun `each attempt of a race keeps its own target (17_4_6)`() =
        runBlocking {
            val text = """
                [targets.chat]
                pick = "ladder"
                members = ["large", "small"]
                [policy.chat]
                targets = "chat"
                hedge = { delay = "1ms", max_attempts = 2, budget = { kind = "none" } }
            """
            val hedged = CompletableDeferred<Unit>()
            val asked = CompletableDeferred<Unit>()
            val seen = mutableListOf<Triple<Int, String?, String?>>()
            val answer = policies(text).getValue("chat").run { attempt ->
                if (attempt.number == 2) hedged.complete(Unit)
                hedged.await() // the hedge is the newest attempt now
                seen += Triple(attempt.number, attempt.target, target())
                if (seen.size == 2) asked.complete(Unit)
                asked.await()
                if (attempt.number == 1) delay(60_000)
                target()
            }
            assertEquals("small", answer)
            assertEquals(listOf(Triple(1, "large", "large"), Triple(2, "small", "small")), seen.sortedBy { it.first })
        }

    @Test
    fun `no target is a rejection, and the snapshot shows the targets (17_3_1)`() {
        val chat = chat()
        assertThrows(IOException::class.java) { chat.call { throw IOException("down") } }
        val refused = assertThrows(NoTarget::class.java) { chat.call { 7 } }
        assertEquals("no_target" to 503, refused.code to refused.httpStatus)
        assertTrue(refused.report!!.retryAt!! > Instant.now().plusSeconds(5))
        val shown = engine.snapshot().targets.map { listOf(it.group, it.name, it.attempts, it.skipped, it.inFlight, it.breaker?.state) }
        assertEquals(listOf(listOf("chat", "large", 1L, 1L, 0, "open"), listOf("chat", "small", 1L, 0L, 0, "open")), shown)
    }

    @Test
    fun `an interceptor behind the policy maps the target to a host`() {
        val hosts = mutableListOf<String>()
        TcpServer { socket ->
            val head = String(ByteArray(10_000).also { socket.getInputStream().read(it) })
            val status = if ("/large " in head) 503 else 200
            socket.getOutputStream().write("HTTP/1.1 $status x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".encodeToByteArray())
        }.use { server ->
            val client = OkHttpClient.Builder().tidegate(chat()).addInterceptor { chain ->
                hosts += "${target()}"
                chain.proceed(chain.request().newBuilder().url("${server.url}/${target()}").build())
            }.build()
            client.newCall(Request.Builder().url("${server.url}/chat").build()).execute().use { assertEquals(200, it.code) }
            client.connectionPool.evictAll()
        }
        assertEquals(listOf("large", "small"), hosts)
        assertEquals(listOf(1L, 1L), engine.snapshot().targets.map { it.attempts })
    }

    @Test
    fun `an operator closes a target (17_3_5)`() {
        val chat = chat()
        chat.forceTarget("large")
        assertEquals("small" to listOf(true, false), chat.call { target() } to engine.snapshot().targets.map { it.forced })
        chat.forceTarget("large", on = false)
        assertEquals("large", chat.call { target() })
        val wrong = assertThrows(PolicyException::class.java) { chat.forceTarget("huge") }
        assertEquals("target = \"chat/huge\": there is no such target in this engine", wrong.message)
    }

    @Test
    fun `a reload changes the members of a group (17_1_8)`() {
        val all = policies()
        assertEquals("large", all.getValue("chat").call { target() })
        val done = all.reload(LADDER.replace("[\"large\", \"small\"]", "[\"tiny\", \"large\"]"))
        assertEquals(Triple(emptyList<String>(), listOf("targets.chat"), emptyList<String>()), Triple(done.added, done.changed, done.removed))
        assertEquals("tiny", all.getValue("chat").call { target() })
        assertEquals(emptySet<String>(), all.pools.keys, "a group is no pool")
    }

    @Test
    fun `mistakes of a group name key, value and rule (17_1_2)`() {
        val wrong = assertThrows(PolicyException::class.java) { policies(LADDER.replace("ladder", "steps")) }
        assertTrue("targets.chat.pick = \"steps\": must be one of ladder, balanced" in wrong.message!!, wrong.message)
    }
}
