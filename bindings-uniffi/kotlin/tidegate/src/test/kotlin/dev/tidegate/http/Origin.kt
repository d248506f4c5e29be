package dev.tidegate.http

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import java.net.HttpURLConnection
import java.net.URI

/** The faulty server of `tests/origin`, and its control port. It ends with this process: its input does. */
object Origin {
    private val json = ObjectMapper()
    private val process: Process
    val url: String
    private val control: String

    init {
        System.setProperty("http.keepAlive", "false") // no connection of ours to it outlasts its request
        val binary = System.getProperty("tidegate.origin")
        check(!binary.isNullOrEmpty() && binary != "null") { "TIDEGATE_ORIGIN names no binary (cargo build -p tidegate-origin)" }
        process = ProcessBuilder(binary).redirectError(ProcessBuilder.Redirect.INHERIT).start()
        val told = json.readTree(process.inputStream.bufferedReader().readLine())
        url = told["url"].asText()
        control = told["control"].asText()
    }

    private fun ask(method: String, path: String, body: Any? = null): JsonNode? {
        val connection = URI(control + path).toURL().openConnection() as HttpURLConnection
        connection.requestMethod = method
        if (body != null) {
            connection.doOutput = true
            connection.outputStream.use { json.writeValue(it, body) }
        }
        check(connection.responseCode == 200) { connection.errorStream.bufferedReader().readText() }
        val text = connection.inputStream.readBytes()
        return if (text.isEmpty()) null else json.readTree(text)
    }

    fun script(vararg script: Pair<String, Any>) {
        ask("PUT", "/script", script.toMap())
    }

    /** The answers to the requests of `/x`, in order; numbers are statuses. */
    fun sequence(vararg answers: Any) {
        val list = answers.map { if (it is Int) mapOf("status" to it) else it }
        script("sequences" to mapOf("/x" to list))
    }

    fun log(): List<JsonNode> = ask("GET", "/log")!!.toList()

    fun stats(): JsonNode = ask("GET", "/stats")!!

    /** A header of a logged request. */
    fun header(entry: JsonNode, name: String): String? =
        entry["headers"].firstOrNull { it[0].asText() == name }?.get(1)?.asText()
}
