package dev.tidegate

import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import dev.tidegate.testing.FakeTime
import java.io.File
import java.io.IOException
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** Checks that each `kotlin` block of a page is in a file of these tests, which compiles and runs. */
fun pageIsIn(page: String, test: String, blocks: Int) {
    val root = File(System.getProperty("tidegate.vectors")).resolve("../..")
    val plain = { text: String -> text.lines().joinToString("\n") { it.trim() } }
    val here = plain(File("src/test/kotlin/dev/tidegate/$test").readText())
    val found = Regex("```kotlin\n(.*?)```", RegexOption.DOT_MATCHES_ALL).findAll(root.resolve(page).readText()).toList()
    assertTrue(found.size >= blocks, "$page has ${found.size} blocks")
    for (block in found) assertTrue(plain(block.groupValues[1]).trim() in here, block.groupValues[1])
}

/** The blocks of `docs/kotlin/coming-from.md`, run. */
class ComingFromTest {
    private class StockException(message: String) : Exception(message)

    private val engine = Engine(seed = 7, timeSource = FakeTime())

    private fun policy(name: String, configure: Configure<PolicyOptions>) = policy(name, engine, configure)

    private var left = 1

    private fun load(): String = if (left-- > 0) throw StockException("moved") else "row"

    @Test
    fun resilience4j() {
        val log = mutableListOf<String>()
        val orders = policy("orders") {
            retry {
                maxAttempts = 3
                backoff { base = 100.milliseconds; max = 5.seconds }
            }
            breaker { failureRatio = 0.5; minThroughput = 20; window = 10.seconds; breakDuration = 5.seconds }
            bulkhead { maxConcurrency = 20; maxQueue = 20 }
            retryOn<StockException>()
            onRetry { retrying -> log += "${retrying.attempt}: ${retrying.error?.message}" }
        }
        val answer = orders.call { load() }
        assertEquals("row" to listOf("1: moved"), answer to log)
    }

    @Test
    fun failsafe() {
        fun load(): String = throw IOException("lost")
        val reads = policy("reads") {
            attemptTimeout = 2.seconds
            retry { maxAttempts = 3; backoff { base = 100.milliseconds; max = 5.seconds } }
        }
        val read = reads.call({ "cached" }) { load() }
        assertEquals("cached", read)
    }

    interface Stock {
        @Throws(IOException::class)
        fun find(id: Int): String
    }

    @Test
    fun `Spring Retry`() {
        val client = object : Stock {
            override fun find(id: Int) = "${load()} $id"
        }
        val stock = policy("stock") {
            retry { maxAttempts = 3; backoff { base = 100.milliseconds; max = 5.seconds } }
            retryOn<StockException>()
        }
        val guarded = stock.wrap<Stock>(client, methods = listOf("find"))
        val found = guarded.find(7)
        assertEquals("row 7", found)
    }

    @Test
    fun polly() = runTest {
        val engine = Engine(seed = 7, timeSource = testTimeSource)
        fun policy(name: String, configure: Configure<PolicyOptions>) = policy(name, engine, configure)
        fun load(): String = if (left-- > 0) throw IOException("reset") else "row"
        val pipeline = policy("pipeline") {
            attemptTimeout = 2.seconds
            retry { maxAttempts = 3; backoff { base = 100.milliseconds; max = 5.seconds } }
            breaker { failureRatio = 0.5; minThroughput = 20; window = 10.seconds; breakDuration = 5.seconds }
        }
        val loaded = pipeline.run { load() }
        assertEquals("row", loaded)
    }

    @Test
    fun `every block of the page stands in this file`() = pageIsIn("docs/kotlin/coming-from.md", "ComingFromTest.kt", 4)
}
