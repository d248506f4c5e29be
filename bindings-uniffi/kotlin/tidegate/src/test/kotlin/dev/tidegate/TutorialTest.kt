package dev.tidegate

import com.sun.net.httpserver.HttpServer
import dev.tidegate.okhttp.report
import dev.tidegate.okhttp.tidegate
import okhttp3.OkHttpClient
import okhttp3.Request
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File
import java.net.InetSocketAddress
import kotlin.time.Duration.Companion.seconds

/** The blocks of `docs/tutorial/kotlin.md`, run; and a look that they are those. */
class TutorialTest {
    @Test
    fun `the tutorial prints what it says`() {
        var requests = 0
        var down = false
        val server = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0)
        server.createContext("/orders") { exchange ->
            requests += 1
            exchange.sendResponseHeaders(if (down || requests % 10 == 0) 503 else 200, -1)
            exchange.close()
        }
        server.start()
        val request = Request.Builder().url("http://127.0.0.1:${server.address.port}/orders").build()

        fun hundredCalls(client: OkHttpClient) {
            requests = 0
            val good = (1..100).count { client.newCall(request).execute().use { it.isSuccessful } }
            println("$good of 100 calls succeeded; $requests requests reached the shop")
        }

        hundredCalls(OkHttpClient())
        assertEquals(100, requests)

        val metrics = Metrics()
        val shop = policy("shop") { preset = Preset.HTTP; deadline = 10.seconds }
        val client = OkHttpClient.Builder().tidegate(shop).build()

        hundredCalls(client)
        assertEquals(111, requests)

        down = true
        hundredCalls(client)
        assertTrue(requests in 100..120, "$requests") // the budget saves the retries of 14 s, so a slow machine has fewer

        client.newCall(request).execute().use { println("${it.code} ${it.report?.note}") }
        client.newCall(request).execute().use { assertEquals("retry budget exhausted", it.report?.note) }

        for (series in metrics.read()) {
            if (series.family.name == "tidegate_retries_suppressed_total") println("${series.labels}: ${series.value}")
        }
        server.stop(0)

        val spent = metrics.read().single {
            it.family.name == "tidegate_retries_suppressed_total" && it.labels["policy"] == "shop" && it.labels["reason"] == "budget"
        }
        assertTrue(spent.value > 80, "${spent.value}")
    }

    @Test
    fun `every block of the tutorial stands in this file`() {
        val page = File(System.getProperty("tidegate.vectors")).resolve("../../docs/tutorial/kotlin.md").readText()
        val plain = { text: String -> text.lines().joinToString("\n") { it.trim() } }
        val here = plain(File("src/test/kotlin/dev/tidegate/TutorialTest.kt").readText())
        val blocks = Regex("```kotlin\n(.*?)```", RegexOption.DOT_MATCHES_ALL).findAll(page).toList()
        assertEquals(5, blocks.size)
        for (block in blocks) assertTrue(plain(block.groupValues[1]).trim() in here, block.groupValues[1])
    }
}
