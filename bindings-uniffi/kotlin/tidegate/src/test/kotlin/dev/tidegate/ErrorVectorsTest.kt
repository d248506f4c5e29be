package dev.tidegate

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import dev.tidegate.internal.Judged
import dev.tidegate.internal.Wire
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File
import java.net.ConnectException
import java.net.MalformedURLException
import java.sql.SQLException
import java.sql.SQLTransientException
import java.util.concurrent.CancellationException
import java.util.concurrent.TimeoutException

/** Chains of errors that every language judges alike (`tests/vectors/errors`, semantics 1.5). */
class ErrorVectorsTest {
    open class Plain : Exception()

    class Raises : Plain() {
        @Suppress("unused") // looked up by its name
        fun getStatusCode(): Int = throw IllegalStateException("no status")
    }

    /** As exceptions of the AWS SDK, of Retrofit and of Spring are. */
    @Suppress("unused")
    open class Answered(private val status: Any, private val retryAfter: String?) : Plain() {
        fun statusCode(): Any = status

        fun headers(): Map<String, String> = retryAfter?.let { mapOf("Retry-After" to it) }.orEmpty()
    }

    @Suppress("unused")
    class Details(private val code: String) {
        fun errorCode(): String = code
    }

    @Suppress("unused")
    class Aws(private val code: String, status: Any, retryAfter: String?) : Answered(status, retryAfter) {
        fun awsErrorDetails() = Details(code)
    }

    private val engine = Engine(seed = 7)
    private val policies = mapOf(
        "default" to policy("default", engine) { preset = Preset.HTTP }.core,
        "listed" to policy("listed", engine) { preset = Preset.HTTP; retry { statuses = listOf(500, 429) } }.core,
    )

    private fun ours(code: String, cause: Throwable?): Throwable {
        val core = policies.getValue("default")
        val verdict = when (code) {
            "attempt_timeout" -> return core.attemptTimeout("default", cause)
            "deadline_exceeded" -> Verdict.DEADLINE
            "bulkhead_full" -> Verdict.QUEUE_FULL
            "call_lost" -> Verdict.LOST
            else -> Verdict.valueOf(code.uppercase())
        }
        return core.refusal(verdict, "default", null, cause)
    }

    private fun typed(name: String): Throwable = when (name) {
        "never_sent" -> ConnectException("refused")
        "timeout" -> TimeoutException("late")
        "transient" -> io.lettuce.core.RedisLoadingException("loading")
        "conflict" -> java.sql.SQLTransactionRollbackException("deadlock")
        "permanent" -> MalformedURLException("no url")
        "ignored" -> CancellationException("stopped")
        "wraps_transient" -> org.springframework.web.client.ResourceAccessException("wrapped")
        "wraps_never_sent" -> io.lettuce.core.RedisConnectionException("wrapped")
        else -> throw IllegalArgumentException(name)
    }

    private fun error(node: JsonNode, cause: Throwable?): Throwable {
        val status = node["status"]?.let { if (it.isTextual) it.asText() else if (it.isInt) it.asInt() else it.asDouble() }
        val retryAfter = node["retry_after"]?.asText()
        if (node.has("ours")) return ours(node["ours"].asText(), cause)
        val made = when {
            node.has("raises") -> Raises()
            node.has("aws") -> Aws(node["aws"].asText(), status!!, retryAfter)
            node.has("sqlstate") && node.has("type") -> SQLTransientException("sql", node["sqlstate"].asText())
            node.has("sqlstate") -> SQLException("sql", node["sqlstate"].asText())
            status != null -> Answered(status, retryAfter)
            node.has("type") -> typed(node["type"].asText())
            else -> Plain()
        }
        return if (cause == null) made else made.initCause(cause)
    }

    private fun built(case: JsonNode): Throwable {
        val errors = ArrayDeque<Throwable>()
        for (node in case["chain"].reversed()) errors.addFirst(error(node, errors.firstOrNull()))
        case["cycle"]?.let { errors.last().initCause(errors[it.asInt()]) }
        return errors.first()
    }

    @Test
    fun `chains of errors are judged by one rule`() {
        val file = File(System.getProperty("tidegate.vectors")).resolve("errors/chains.json")
        val cases = ObjectMapper().readTree(file)["cases"].filter { case -> case["hosts"].any { it.asText() == "kotlin" } }
        val wrong = cases.mapNotNull { case ->
            val said = Judged.of(built(case), policies.getValue(case["policy"].asText()))
            val word = if (said < 0) Wire.PERMANENT else said
            val expected = case["word"].asLong() to case["note"].asBoolean()
            if (word to (said < 0) == expected) null else "$case: $word, note ${said < 0}"
        }
        assertEquals(emptyList<String>(), wrong, "${wrong.size} of ${cases.size}")
        assertTrue(cases.size > 200, "${cases.size}")
    }
}
