package dev.tidegate.example

import dev.tidegate.Engine
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.net.HttpURLConnection
import java.net.URI

class TimelineTest {
    @Test
    fun `a flaky server is not seen, and a dead one shows what was there`() = runBlocking {
        val process = ProcessBuilder(System.getProperty("tidegate.origin")).start()
        try {
            val told = Regex("http://[0-9.:]+").findAll(process.inputStream.bufferedReader().readLine()).map { it.value }.toList()
            val (url, control) = told
            val good = """{"status": 200, "body": "one\ntwo"}"""
            script(control, """{"sequences": {"/timeline": [{"status": 503}, {"fault": "reset"}, $good, {"fault": "close"}]}}""")
            val engine = Engine(seed = 7)
            val model = TimelineModel(TimelineRepository(url, engine))
            model.refresh()
            assertEquals(Screen.Entries(listOf("one", "two"), stale = false), model.state.value)
            assertEquals(3L, engine.snapshot().policies.getValue("timeline").attempts)
            model.refresh()
            assertEquals(Screen.Entries(listOf("one", "two"), stale = true), model.state.value)
            val other = TimelineModel(TimelineRepository(url, Engine(seed = 7)))
            other.refresh()
            assertTrue(other.state.value is Screen.Sorry, "${other.state.value}")
        } finally {
            process.outputStream.close()
            process.waitFor()
        }
    }

    private fun script(control: String, text: String) {
        val connection = URI("$control/script").toURL().openConnection() as HttpURLConnection
        connection.requestMethod = "PUT"
        connection.doOutput = true
        connection.outputStream.use { it.write(text.toByteArray()) }
        check(connection.responseCode == 200) { connection.errorStream.bufferedReader().readText() }
    }
}
