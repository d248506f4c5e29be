package dev.tidegate

import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.currentTime
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.time.Duration.Companion.seconds

/** The order of a set's queue, declared by typed options (semantics 3.10). */
@OptIn(ExperimentalCoroutinesApi::class)
class FairTest {
    private val calls = listOf("calls: permits=1 per=1s") // one a second

    /** A policy whose calls wait for tokens of this pool. */
    private fun pooled(engine: Engine, configure: RateLimit.() -> Unit): Policy {
        val shared = Pool.rateLimit("shared", engine) { configure() }
        return policy("tenants", engine) { rateLimit { pool = shared; wait = true; maxWait = 60.seconds } }
    }

    /** Takes the first token, begins these calls one after the other, and returns the order in which they get theirs, by their places. */
    private suspend fun TestScope.served(policy: Policy, waiting: List<CallOptions>): List<Int> {
        policy.run { }
        val begun = currentTime
        val order = mutableListOf<Int>()
        waiting.mapIndexed { place, options -> async { policy.at(options).run { order += place } } }.awaitAll()
        assertEquals(waiting.size * 1_000L, currentTime - begun)
        return order
    }

    private fun keyed(key: String) = CallOptions(route = key)

    private fun ranked(criticality: Criticality) = CallOptions(criticality = criticality)

    @Test
    fun `keys that wait share a pool by their shares (3_10_3)`() = withEngine { engine ->
        val policy = pooled(engine) { limits = calls; fairBy = RateLimitFairBy.KEY; shares = listOf("big=3") }
        val order = served(policy, List(6) { keyed("small") } + List(6) { keyed("big") })
        assertEquals(listOf(0, 6, 7, 8, 1, 9, 10, 11, 2, 3, 4, 5), order, "three to one while both wait")
    }

    @Test
    fun `critical calls come before others of their pool (3_10_2)`() = withEngine { engine ->
        val policy = pooled(engine) { limits = calls; prioritized = true }
        val order = served(policy, List(3) { ranked(Criticality.NORMAL) } + List(2) { ranked(Criticality.CRITICAL) })
        assertEquals(listOf(0, 3, 4, 1, 2), order, "the first one has begun to wait before the critical ones (3.10.4)")
    }

    @Test
    fun `without an order calls are served as they came (3_10_1)`() = withEngine { engine ->
        val policy = pooled(engine) { limits = calls; fairBy = RateLimitFairBy.NONE; prioritized = false }
        assertEquals(listOf(0, 1, 2, 3), served(policy, List(2) { keyed("small") } + List(2) { ranked(Criticality.CRITICAL) }))
    }

    @Test
    fun `a policy's own limits can be prioritized, and cannot be shared by keys (3_10_13)`() = withEngine { engine ->
        val own = policy("own", engine) { rateLimit { limits = calls; prioritized = true; wait = true; maxWait = 60.seconds } }
        val order = served(own, listOf(ranked(Criticality.BEST_EFFORT), ranked(Criticality.BEST_EFFORT), ranked(Criticality.CRITICAL)))
        assertEquals(listOf(0, 2, 1), order)
        val wrong = assertThrows(PolicyException::class.java) {
            policy("wrong", engine) { rateLimit { limits = calls; fairBy = RateLimitFairBy.KEY; wait = true; maxWait = 60.seconds } }
        }
        assertTrue("rateLimit.fairBy = key: belongs to a pool" in wrong.message!!, wrong.message)
    }
}
