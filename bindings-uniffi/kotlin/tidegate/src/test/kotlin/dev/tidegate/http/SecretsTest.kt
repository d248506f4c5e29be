package dev.tidegate.http

import dev.tidegate.Engine
import dev.tidegate.Metrics
import dev.tidegate.Preset
import dev.tidegate.RateLimited
import dev.tidegate.leftNothing
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.okhttp.report
import dev.tidegate.policy
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource
import java.util.concurrent.CopyOnWriteArrayList
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds

private const val CANARY = "canary-7f3a9"

/** What a request carries is nobody else's: a canary in it is found in nothing that we say, and no key of a route forges a line of a log. */
@Timeout(120)
class SecretsTest {
    private val engine = Engine(seed = 7, journal = true)

    @Test
    fun `S6, nothing of a request is told`() {
        Origin.script(
            "rules" to listOf(
                mapOf("first" to 2, "respond" to mapOf("status" to 503, "retry_after" to "0", "headers" to mapOf("set-cookie" to CANARY), "body" to CANARY)),
                mapOf("first" to 1, "respond" to mapOf("fault" to "reset")),
                mapOf("first" to 3, "respond" to mapOf("status" to 429, "retry_after" to "0", "body" to CANARY)),
            ),
        )
        val own = engine
        val told = CopyOnWriteArrayList<String>()
        val listening = engine.listen { told += "$it" }
        val metrics = Metrics(engine)
        val of = policy("p", own) {
            preset = Preset.HTTP
            deadline = 20.seconds
            retry { maxAttempts = 2; hold = true; backoff { base = 1.milliseconds } }
        }
        val client = OkHttpClient.Builder().addInterceptor(of.okHttpInterceptor()).build()
        val address = Origin.url.replace("://", "://user:$CANARY@") + "/bot$CANARY/x?token=$CANARY#$CANARY"
        val request = Request.Builder().url(address).header("Authorization", CANARY).header("Idempotency-Key", CANARY)
            .put(CANARY.toRequestBody()).build()
        repeat(5) {
            runCatching { client.newCall(request).execute().use { told += "${it.report}"; it.body.string() } }
        }
        runCatching { of.call { throw IllegalStateException(CANARY) } }
        listening.close()
        told += metrics.read().joinToString { "${it.labels} ${it.value}" }
        told += listOf("${engine.snapshot()}", engine.save().state, engine.journal().joinToString("\n"))
        assertTrue(told.any { "127.0.0.1" in it }, "routes are told")
        assertTrue(told.size > 10, "$told")
        assertFalse(told.any { CANARY in it }, told.filter { CANARY in it }.joinToString())
        client.connectionPool.evictAll()
        leftNothing(engine)
    }

    @ParameterizedTest
    @ValueSource(strings = ["a\nERROR forged", "a\r\nERROR forged", "\u001b[31mred", "\u009b31mred", "left\u202eright", "iso\u2066lated", "line\u2028separator", "nul\u0000byte"])
    fun `S8, no key of a route forges a line of a log`(key: String) {
        val own = engine
        val calls = CopyOnWriteArrayList<Long>()
        val of = policy("p", own) { rateLimit { permits = 1; per = 1.minutes } }.at(key)
        engine.listen { event -> event.call?.let { calls += it } }.use {
            of.call { }
            val error = runCatching { of.call { } }.exceptionOrNull()
            assertTrue(error is RateLimited, "$error")
            assertFalse(FORGING.containsMatchIn(error!!.message!!), error.message)
        }
        assertTrue(calls.isNotEmpty())
        for (call in calls) engine.explain(call)?.let { assertFalse(FORGING.containsMatchIn(it.text.replace("\n", "")), it.text) }
        assertFalse(engine.journal().any { line -> line.any(Char::isISOControl) })
        leftNothing(engine)
    }

    private companion object {
        val FORGING = Regex("[\\p{Cc}\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]")
    }
}
