package dev.tidegate.http

import dev.tidegate.AttemptTimeout
import dev.tidegate.Counts
import dev.tidegate.Policy
import dev.tidegate.TidegateException
import dev.tidegate.ktor.Tidegate
import dev.tidegate.ktor.report
import dev.tidegate.ktor.tidegate
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.request.HttpRequestBuilder
import io.ktor.client.request.header
import io.ktor.client.request.post
import io.ktor.client.request.preparePost
import io.ktor.client.request.setBody
import io.ktor.client.request.url
import io.ktor.client.statement.bodyAsChannel
import io.ktor.client.statement.bodyAsText
import io.ktor.utils.io.readAvailable
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** Ktor over CIO. */
class KtorStreamTest : StreamRules() {
    // CIO hands a body that was cut on as if it were whole.
    override val seesBreaks: Boolean get() = false

    private fun client(of: Policy) = HttpClient(CIO) {
        install(Tidegate) { policy = of }
        engine { requestTimeout = 0 }
    }

    private fun HttpRequestBuilder.question(asked: Asked) {
        url(Origin.url + asked.path)
        if (asked.accept != null) header("Accept", asked.accept)
        header("Content-Type", "application/json")
        setBody(asked.question)
        tidegate { copy(idempotent = true, stream = asked.stream) }
    }

    /** Tidegate's error, which a cancelled reader finds among the causes. */
    private fun ours(error: Throwable) = generateSequence(error) { it.cause }.take(10).firstOrNull { it is TidegateException } ?: error

    override fun ask(policy: Policy, asked: Asked): Seen = runBlocking {
        val text = StringBuilder()
        var report: dev.tidegate.Report? = null
        val error = try {
            client(policy).use { client ->
                client.preparePost { question(asked) }.execute { response ->
                    report = response.report
                    asked.delivered()
                    val piece = ByteArray(8_192)
                    val body = response.bodyAsChannel()
                    while (true) {
                        val count = body.readAvailable(piece)
                        if (count < 0) break
                        val some = piece.decodeToString(0, count)
                        text.append(some)
                        asked.went(some)
                    }
                }
            }
            null
        } catch (error: IOException) {
            ours(error)
        } catch (error: CancellationException) {
            ours(error)
        }
        Seen("$text", error, report)
    }

    @Test
    fun `a body that Ktor reads into memory is no stream, and its silence ends the attempt (7_7_4, 7_7_10)`() = runBlocking {
        provider("fault" to "stall", "at" to 60, "first" to 1)
        val policy = http { firstByteTimeout = 100.milliseconds; idleTimeout = 1.seconds; counts = Counts.SSE_DATA }
        client(policy).use { client ->
            val response = client.post { question(Asked()) }
            assertEquals(2, response.report?.attempts)
            assertTrue(response.bodyAsText().endsWith("data: [DONE]\n\n"))
        }
        provider("fault" to "stall", "at" to 60)
        val failed = client(policy).use { client -> runCatching { client.post { question(Asked()) } }.exceptionOrNull() }
        assertTrue(failed is AttemptTimeout, "$failed")
        assertEquals(3, Origin.log().size)
    }
}
