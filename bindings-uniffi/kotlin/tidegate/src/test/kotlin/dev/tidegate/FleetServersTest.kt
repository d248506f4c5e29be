package dev.tidegate

import dev.tidegate.fleet.RedisStore
import dev.tidegate.fleet.Store
import io.lettuce.core.RedisURI
import io.lettuce.core.cluster.RedisClusterClient
import io.lettuce.core.codec.ByteArrayCodec
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows
import java.io.IOException
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** The fleet over Lettuce, on three nodes, and on a server that forbids scripts. */
@Timeout(120)
class FleetServersTest {
    private class Fleet(store: Store, namespace: String, plain: Boolean = false) {
        val lost = java.util.concurrent.CopyOnWriteArrayList<String>()
        val engines = List(2) { seed ->
            Engine(seed = seed.toLong()).also { engine ->
                engine.listen(setOf("store_degraded")) { lost += it.kind }
                engine.attach(store, namespace, plain)
            }
        }

        fun limited(rate: Int, burst: Int, lease: Int) = engines.map { own ->
            policy("partner", own) {
                storeTimeout = 2.seconds
                rateLimit { permits = rate; per = 1.seconds; this.burst = burst; this.lease = lease; store = RateLimitStore.FLEET }
            }
        }

        fun broken() = engines.map { own ->
            policy("broken", own) {
                storeTimeout = 2.seconds
                storeExchange = 20.milliseconds
                breaker { consecutive = 3; breakDuration = 400.milliseconds; breakFactor = 1.0; store = BreakerStore.FLEET }
            }
        }

        fun ended() {
            assertEquals(emptyList<String>(), lost.toList(), "the store was there all the time")
            engines.forEach(::leftNothing)
        }
    }

    private fun passes(policy: Caller): Boolean = try {
        policy.call { true }
    } catch (_: Rejected) {
        false
    }

    private fun trip(policy: Policy) = repeat(3) { assertThrows<IOException> { policy.call<Unit> { throw IOException("reset") } } }

    /** Trips one; it fails again until the other has heard, because the break may end before that on a busy machine. */
    private fun opens(one: Policy, other: Policy) {
        trip(one)
        Redis.waitFor("the break is not seen") {
            runCatching { one.call<Unit> { throw IOException("reset") } }
            !passes(other)
        }
    }

    private fun <T> onCluster(test: (Cluster, Store) -> T): T = Cluster().use { cluster ->
        val client = RedisClusterClient.create(RedisURI.create("redis://127.0.0.1:${cluster.nodes[0].port}"))
        try {
            client.connect(ByteArrayCodec.INSTANCE).use { test(cluster, RedisStore(it)) }
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS)
        }
    }

    @Test
    fun `on a cluster each command goes to the node of its key`() = onCluster { cluster, store ->
        val fleet = Fleet(store, "shop")
        val policies = fleet.limited(rate = 20, burst = 20, lease = 1)
        for (tenant in 0 until 12) {
            val callers = policies.map { it.at(CallOptions(route = "tenant $tenant")) }
            val began = System.nanoTime()
            val passed = (0 until 60).count { passes(callers[it % 2]) }
            val flowed = 20 * (System.nanoTime() - began) / 1e9
            assertTrue(passed >= 20 && passed <= 21 + flowed, "$passed passed, $flowed flowed in")
            if (tenant == 6) cluster.nodes[1].command("SCRIPT", "FLUSH")
        }
        val (one, other) = fleet.broken()
        assertTrue(passes(other))
        opens(one, other)
        slots(fleet)
        fleet.ended()
        val plain = Fleet(store, "plain", plain = true)
        windows(plain)
        plain.ended()
        for (node in cluster.nodes) {
            assertTrue("tenant" in node.command("KEYS", "shop:*"), "every node has had work")
            assertFalse("MOVED" in node.command("INFO", "errorstats"), "none was asked for what another has")
        }
    }

    /** No more run at once than the fleet's limit. */
    private fun slots(fleet: Fleet) {
        val (running, most) = List(2) { AtomicInteger() }
        val policies = fleet.engines.map { own ->
            policy("slots", own) {
                storeTimeout = 2.seconds
                bulkhead { maxConcurrency = 3; maxQueue = 100; acquireTimeout = 30.seconds; store = BulkheadStore.FLEET }
            }
        }
        val threads = List(8) { number ->
            thread {
                repeat(20) {
                    policies[number % 2].call {
                        most.accumulateAndGet(running.incrementAndGet(), ::maxOf)
                        Thread.sleep(2)
                        running.decrementAndGet()
                    }
                }
            }
        }
        threads.forEach { it.join(60_000) }
        assertEquals(3, most.get())
    }

    /** Any span spends at most what flows in it, two bursts and the leases. */
    private fun windows(fleet: Fleet) {
        val policies = fleet.limited(rate = 100, burst = 50, lease = 5)
        val began = System.nanoTime()
        var passed = 0
        while (System.nanoTime() - began < 1_300_000_000) {
            for (policy in policies) repeat(10) { if (passes(policy)) passed += 1 }
            Thread.sleep(10)
        }
        val most = 100 * (System.nanoTime() - began) / 1e9 + 100 + 10
        assertTrue(passed >= 100 && passed <= most, "$passed passed, $most may")
    }

    @Test
    fun `without scripts a rate is kept by windows, and a break is a key`() {
        Redis.withoutScripts().use { redis ->
            assertTrue(redis.command("EVAL", "return 1", "0").startsWith("-ERR unknown command"))
            redis.connection().use { connection ->
                val fleet = Fleet(RedisStore(connection), "shop", plain = true)
                windows(fleet)
                Redis.waitFor("what is stored ends by itself") { redis.command("DBSIZE") == ":0\r\n" }
                val (one, other) = fleet.broken()
                assertTrue(passes(other))
                opens(one, other)
                for (policy in listOf(other, one)) Redis.waitFor("it never closes") { passes(policy) }
                Redis.waitFor("a probe closes it for all") { passes(other) && redis.command("DBSIZE") == ":0\r\n" }
                val error = assertThrows<PolicyException> {
                    policy("slots", fleet.engines[0]) {
                        bulkhead { maxConcurrency = 3; store = BulkheadStore.FLEET }
                    }
                }
                assertTrue("bulkhead.store" in error.message!! && "scripts" in error.message!!, error.message)
                fleet.ended()
            }
        }
    }
}
