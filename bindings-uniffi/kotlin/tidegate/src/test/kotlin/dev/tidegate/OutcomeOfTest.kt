package dev.tidegate

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import java.net.URI
import java.net.http.HttpRequest
import java.net.http.HttpResponse
import java.time.ZoneOffset
import java.time.ZonedDateTime
import java.time.format.DateTimeFormatter
import kotlin.time.Duration.Companion.seconds

/** The outcome of an HTTP response for a classifier of one's own (semantics 1.4.10). */
class OutcomeOfTest {
    private val engine = Engine(seed = 7, timeSource = dev.tidegate.testing.FakeTime())
    private val shop = policy("shop", engine) { preset = Preset.HTTP }

    @Test
    fun `the status and the headers decide, as they do in an adapter`() {
        assertEquals(Outcome(Outcome.THROTTLED, retryAfter = 2.seconds), shop.outcomeOf(429, mapOf("Retry-After" to listOf("2"))))
        assertEquals(Outcome(Outcome.THROTTLED, retryAfter = 2.seconds), shop.outcomeOf(429, listOf("retry-after" to "2")))
        assertEquals(Outcome(Outcome.TRANSIENT), shop.outcomeOf(503))
        for (status in listOf(-1, 0, 200, 204, 304, 399)) assertEquals(Outcome(Outcome.OK), shop.outcomeOf(status), "$status")
        for (status in listOf(400, 404, 499)) assertEquals(Outcome.PERMANENT, shop.outcomeOf(status).kind, "$status")
        for (status in listOf(65_536, 65_536 + 404, Int.MAX_VALUE)) assertEquals(shop.outcomeOf(65_535), shop.outcomeOf(status), "$status")
    }

    @Test
    fun `a date is a wait`() {
        val date = DateTimeFormatter.RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC).plusSeconds(100))
        val outcome = shop.outcomeOf(503, mapOf("Retry-After" to listOf(date)))
        assertEquals(Outcome.TRANSIENT, outcome.kind)
        assert(outcome.retryAfter!! in 1.seconds..100.seconds) { outcome }
    }

    @Test
    fun `a policy may have statuses of its own`() {
        val own = policy("own", engine) { retry { statuses = listOf(500, 409); throttledStatuses = listOf(503) } }
        assertEquals(listOf("transient", "conflict", "throttled", "transient"), listOf(500, 409, 503, 429).map { own.outcomeOf(it).kind })
        assertEquals(listOf(Opinion.NONE, Opinion.DO_NOT), listOf(500, 502).map { own.outcomeOf(it).opinion }, "502 is not among them")
    }

    @Test
    fun `a server may ask for no retry`() {
        assertEquals(Opinion.DO_NOT, policy("says", engine) { preset = Preset.LLM }.outcomeOf(503, listOf("x-should-retry" to "false")).opinion)
    }

    @Test
    fun `headers of any client are read`() {
        // `HttpURLConnection` has its status line under null, and Java's maps are not checked.
        @Suppress("UNCHECKED_CAST")
        val connection = mapOf(null to listOf("HTTP/1.1 429 no"), "Retry-After" to listOf("7")) as Map<String, List<String>>
        assertEquals(7.seconds, shop.outcomeOf(429, connection).retryAfter)
        assertEquals(7.seconds, shop.outcomeOf(429, okhttp3.Headers.headersOf("Retry-After", "7")).retryAfter)
        assertEquals(null, shop.outcomeOf(429, listOf("x" to "y\u0000retry-after\u00007")).retryAfter, "a NUL makes no header")
        assertEquals(7.seconds, shop.outcomeOf(429, listOf("x\uD800" to "\uD83D\uDE00".repeat(100_000), "retry-after" to "7")).retryAfter)
    }

    @Test
    fun `a call with it is repeated after the wait that the server asked for`() {
        val time = dev.tidegate.testing.FakeTime()
        TcpServer { client ->
            client.getInputStream().read(ByteArray(10_000))
            client.getOutputStream().write("HTTP/1.1 429 x\r\nRetry-After: 9\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encodeToByteArray())
        }.use { server ->
            lateinit var judged: Policy
            judged = policy("judged", Engine(seed = 7, timeSource = time)) {
                preset = Preset.HTTP
                retry { maxAttempts = 2 }
                classify { result, _ -> (result as? HttpResponse<*>)?.let { judged.outcomeOf(it.statusCode(), it.headers().map()) } }
            }
            val request = HttpRequest.newBuilder(URI(server.url)).build()
            val http = dev.tidegate.http.jdk
            assertEquals(429, judged.call { http.send(request, HttpResponse.BodyHandlers.ofString()) }.statusCode())
            assert(time.slept >= 9.seconds) { time.slept }
        }
    }
}
