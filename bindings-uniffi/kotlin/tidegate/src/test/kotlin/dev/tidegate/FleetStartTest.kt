package dev.tidegate

import dev.tidegate.fleet.RedisStore
import io.lettuce.core.RedisClient
import io.lettuce.core.RedisURI
import io.lettuce.core.codec.ByteArrayCodec
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.seconds
import kotlin.time.measureTime

/** A store that is wrong from the start: no call waits for it longer than `storeTimeout`. */
@Timeout(120)
class FleetStartTest {
    /** What is there, and the words that the record may have. */
    enum class Start(val says: String?, vararg val reasons: String) {
        // The first commands may have come before the server's answer to the password.
        WRONG_PASSWORD("-WRONGPASS invalid username-password pair or user is disabled.\r\n", "WRONGPASS", "timeout"),
        PASSWORD_WANTED("-NOAUTH Authentication required.\r\n", "NOAUTH", "timeout"),
        NO_ANSWER(null, "timeout"),
        REFUSED_PORT("", "connection", "timeout"),
        UNKNOWN_NAME("", "connection", "timeout"),
    }

    /** Says one thing to each command that it is sent, or nothing at all. */
    private fun server(says: String?) = TcpServer { client ->
        val bytes = ByteArray(1 shl 16)
        while (true) {
            val count = client.getInputStream().read(bytes)
            if (count < 0) break
            val commands = Regex("(?m)^\\*\\d").findAll(String(bytes, 0, count, Charsets.ISO_8859_1)).count()
            if (says != null) repeat(commands) { client.getOutputStream().write(says.encodeToByteArray()) }
        }
    }

    @ParameterizedTest
    @EnumSource(Start::class)
    fun `a store that is wrong from the start holds nobody up`(start: Start) = server(start.says).use { server ->
        if (start.says == "") server.close()
        val host = if (start == Start.UNKNOWN_NAME) "no-such-host.invalid" else "127.0.0.1"
        val uri = RedisURI.builder().withHost(host).withPort(server.port).withAuthentication("somebody", PASSWORD).withTimeout(java.time.Duration.ofSeconds(2)).build()
        val client = RedisClient.create()
        try {
            val own = Engine(seed = 7)
            val told = CopyOnWriteArrayList<String>()
            own.listen(setOf("store_degraded")) { told += "${it.reason}" }
            val attached = own.attach(RedisStore.connecting { client.connectAsync(ByteArrayCodec.INSTANCE, uri) })
            fun limited(name: String, loss: RateLimitOnLoss) = policy(name, own) {
                rateLimit { permits = 50; per = 1.seconds; store = RateLimitStore.FLEET; onLoss = loss }
            }
            val open = limited("open", RateLimitOnLoss.OPEN)
            // The default of 50 ms, and whatever else the machine does.
            repeat(3) { assertTrue(measureTime { assertEquals(1, open.call { 1 }) } < 30.seconds) }
            assertTrue(measureTime { runBlocking { assertEquals(1, open.run { 1 }) } } < 30.seconds)
            Redis.waitFor("nobody is told") { told.isNotEmpty() }
            assertTrue(told[0] in start.reasons, "$told")
            val error = assertThrows<Rejected> { limited("closed", RateLimitOnLoss.CLOSED).call { 1 } }
            assertFalse(PASSWORD in listOf("$error", "${own.snapshot()}", "$told").joinToString())
            attached.close()
            leftNothing(own)
        } finally {
            client.shutdown(0, 5, TimeUnit.SECONDS)
        }
    }

    private companion object {
        const val PASSWORD = "canary-9d41f7"
    }
}
