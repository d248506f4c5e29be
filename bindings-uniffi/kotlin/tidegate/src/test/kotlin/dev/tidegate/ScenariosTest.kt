package dev.tidegate

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import dev.tidegate.fleet.MemoryStore
import dev.tidegate.ktor.Tidegate
import io.ktor.client.HttpClient
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respond
import io.ktor.client.request.get
import io.ktor.http.HttpStatusCode
import io.ktor.http.headersOf
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.delay
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory
import java.io.File
import kotlin.coroutines.ContinuationInterceptor
import kotlin.math.abs
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes

/** The scenarios that every language plays (`tests/README.md`), through the public interface and in virtual time. */
@OptIn(ExperimentalCoroutinesApi::class)
class ScenariosTest {
    /** The scripted end of an attempt. */
    private class Failed(val kind: String, val after: Duration?) : Exception(kind)

    private data class Found(val starts: List<Long>, val ended: Long, val end: String)

    @TestFactory
    fun scenarios(): List<DynamicTest> {
        val file = File(System.getProperty("tidegate.vectors")).resolveSibling("scenarios/scenarios.json")
        val scenarios = ObjectMapper().readTree(file)["scenarios"].toList()
        assertTrue(scenarios.size >= 20)
        return scenarios.map { dynamicTest(it["name"].asText()) { runTest(timeout = 2.minutes) { play(it) } } }
    }

    private suspend fun TestScope.play(scenario: JsonNode) {
        val store = scenario["processes"]?.let { MemoryStore(testTimeSource) }
        val engines = List(scenario["processes"]?.asInt() ?: 1) { process ->
            val engine = Engine(seed = scenario["seed"].asLong() + process, timeSource = testTimeSource)
            store?.let { engine.attach(it) }
            engine
        }
        val fleet = engines.map { engine ->
            Policy.load(scenario["document"].toString(), json = true, engine = engine) {
                classify { _, error -> (error as? Failed)?.let { Outcome(it.kind, retryAfter = it.after) } }
            }
        }
        val found = scenario["calls"].map { given -> async { call(given, fleet[given["process"]?.asInt() ?: 0]) } }.awaitAll()
        val tolerance = scenario["tolerance"].asLong()
        for ((given, ours) in scenario["calls"].zip(found)) {
            val due = given["starts"].map(JsonNode::asLong) + given["ended"].asLong()
            val moments = ours.starts + ours.ended
            assertEquals(given["end"].asText() to due.size, ours.end to moments.size, "$given: found $ours")
            assertTrue(moments.zip(due).all { (at, expected) -> abs(at - expected) <= tolerance }, "$given: found $ours")
        }
        engines.forEach(::leftNothing)
    }

    private suspend fun TestScope.call(given: JsonNode, policies: Map<String, Policy>): Found {
        delay(given["at"].asLong())
        val starts = mutableListOf<Long>()
        val criticality = given["criticality"]?.let { Criticality.valueOf(it.asText().uppercase()) }
        val policy = policies.getValue(given["policy"].asText())
        val path = given["path"]?.asText()
        val scripted: suspend () -> JsonNode = {
            starts += currentTime
            val script = given["attempts"][minOf(starts.size, given["attempts"].size()) - 1]
            delay(script[0].asLong())
            script
        }
        val end = try {
            if (path != null) {
                request(path, policy, scripted)
            } else {
                policy.at(CallOptions(criticality = criticality)).run {
                    val script = scripted()
                    if (script[1].asText() != "ok") throw Failed(script[1].asText(), script[2]?.asLong()?.milliseconds)
                }
                "ok"
            }
        } catch (_: Failed) {
            "failure"
        } catch (error: TidegateException) {
            error.code.removeSuffix("_exceeded")
        }
        return Found(starts, currentTime, end)
    }

    /** A request through the plugin for Ktor, and how it ends. */
    private suspend fun TestScope.request(path: String, of: Policy, scripted: suspend () -> JsonNode): String {
        val client = HttpClient(MockEngine) {
            engine {
                dispatcher = coroutineContext[ContinuationInterceptor] as CoroutineDispatcher
                addHandler {
                    val script = scripted()
                    val status = if (script[1].asText() == "ok") HttpStatusCode.OK else HttpStatusCode.TooManyRequests
                    val after = script[2]?.let { headersOf("Retry-After", "${it.asLong() / 1000}") }
                    respond("", status, after ?: headersOf())
                }
            }
            install(Tidegate) { policy = of }
        }
        return client.use { if (it.get("http://service.example$path").status == HttpStatusCode.OK) "ok" else "failure" }
    }
}
