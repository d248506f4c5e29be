package dev.tidegate

import dev.tidegate.fleet.MemoryStore
import dev.tidegate.fleet.StoreException
import dev.tidegate.internal.Request
import dev.tidegate.testing.FakeTime
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds

/** Texts and numbers that nobody means to pass, at the border to the engine. */
class OddTest {
    private val engine = Engine(seed = 7, timeSource = FakeTime())

    @Test
    fun `names and keys may be any text`() {
        val texts = listOf("", "\u0000", "\uD800", "\uD83D\uDE00", "a\nb", "x".repeat(1_000_000), "\u202E", "\uFFFF")
        for (text in texts) {
            val policy = policy(engine = engine) { rateLimit { permits = 100; per = 1.seconds } }
            assertEquals("fine", policy.at(text).call { "fine" })
            runBlocking { assertEquals("fine", policy.at(CallOptions(text)).run { "fine" }) }
            val named = runCatching { policy(text, engine) { deadline = 1.seconds } }
            named.exceptionOrNull()?.let { assertTrue(it is PolicyException, "$it") }
            named.getOrNull()?.let { assertEquals("fine", it.call { "fine" }) }
        }
        leftNothing(engine)
    }

    @Test
    fun `a number that is out of its range is a mistake, and breaks nothing`() {
        val odd: List<PolicyOptions.() -> Unit> = listOf(
            { deadline = Duration.INFINITE }, { deadline = -Duration.INFINITE }, { deadline = (-1).seconds },
            { retry { maxAttempts = Int.MAX_VALUE } }, { retry { maxAttempts = Int.MIN_VALUE } }, { retry { maxAttempts = 0 } },
            { retry { budget { percentCanRetry = Double.NaN } } }, { retry { budget { percentCanRetry = Double.NEGATIVE_INFINITY } } },
            { rateLimit { permits = -1 } }, { bulkhead { maxConcurrency = Int.MIN_VALUE } },
        )
        for ((place, configure) in odd.withIndex()) assertThrows<PolicyException>("$place") { policy(engine = engine) { configure() } }
    }

    @Test
    fun `spans of a call may be any span`() {
        val policy = policy(engine = engine) { retry { maxAttempts = 2 } }
        for (span in listOf(Duration.INFINITE, Long.MAX_VALUE.seconds)) {
            assertEquals("fine", policy.at(CallOptions(deadline = span)).call { "fine" })
            assertEquals("fine", blockingWithBounds(span, timeSource = engine.timeSource) { policy.call { "fine" } })
        }
        for (span in listOf(-Duration.INFINITE, Duration.ZERO, (-1).seconds)) {
            assertThrows<DeadlineExceeded> { policy.at(CallOptions(deadline = span)).call { "late" } }
            assertThrows<DeadlineExceeded> { blockingWithBounds(span, timeSource = engine.timeSource) { policy.call { "late" } } }
        }
        for (cost in listOf(-1, 65_536, Int.MIN_VALUE)) {
            assertThrows<IllegalArgumentException> { CallOptions(cost = cost) }
            assertThrows<IllegalArgumentException> { RequestOptions(cost = cost) }
        }
        assertThrows<IllegalArgumentException> { RequestOptions(weights = mapOf("tokens" to -1L)) }
        assertThrows<IllegalArgumentException> { RequestOptions().withCost(70_000) }
        leftNothing(engine)
    }

    @Test
    fun `numbers of calls that there are not are unknown`() {
        for (call in listOf(0L, -1L, Long.MIN_VALUE, Long.MAX_VALUE)) {
            assertNull(engine.explain(call))
            assertEquals(-1, engine.callTimeLeft(call))
        }
    }

    @Test
    fun `a request that no deadline can end does not ask the engine for its time`() {
        val timed = policy("timed", engine) { deadline = 9.seconds }
        val free = policy("free", engine) { retry { maxAttempts = 2 } }
        // The number is that of a call with a deadline, so that an answer shows that the engine was asked.
        fun left(policy: Policy, options: RequestOptions = RequestOptions(), around: Scope? = null): Long = timed.call {
            val request = Request(policy.core, options, "GET", false, makeKey = false, replayable = true, origin = "http://a", path = { "/" }, sdkRetries = null)
            request.timeLeft(Scope.current()!!.parent(engine), around)
        }
        assertEquals(-1, left(free))
        val around = Scope.bounds(null, null, null, null)
        for (asked in listOf(left(timed), left(free, RequestOptions(deadline = 1.seconds)), left(free, around = around))) assertEquals(9_000_000, asked)
        free.retune { deadline = 1.seconds }
        assertEquals(9_000_000, left(free))
    }

    @Test
    fun `a store gets what nobody sends`() = runBlocking {
        val store = MemoryStore()
        for (words in listOf<List<ByteArray>>(emptyList(), listOf(ByteArray(0)), listOf(byteArrayOf(-1, 0, 7)), listOf("EVALSHA".encodeToByteArray()))) {
            assertThrows<StoreException> { runBlocking { store.execute(words, Int.MAX_VALUE) } }
        }
    }

    @Test
    fun `what is not a saved state is refused`() {
        for (state in listOf("", "{}", "[", "\u0000", "x".repeat(100_000))) {
            for (at in listOf(Long.MIN_VALUE, 0L, Long.MAX_VALUE)) assertThrows<IllegalArgumentException>("$state $at") { Engine().restore(SavedState(at, state)) }
        }
    }
}
