package dev.tidegate

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import dev.tidegate.ffi.Document
import dev.tidegate.ffi.Header
import dev.tidegate.ffi.Invalid
import dev.tidegate.ffi.Value
import dev.tidegate.ffi.parseRetryAfter
import dev.tidegate.internal.Native
import dev.tidegate.internal.Wire
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import java.io.File
import kotlin.time.Duration.Companion.microseconds
import dev.tidegate.ffi.Pair as Setting

/** The vectors that every language shares (`tests/README.md`), through both borders of the native library and nothing else. */
class VectorsTest {
    private val json = ObjectMapper()

    private fun files(family: String): List<JsonNode> {
        val folder = File(System.getProperty("tidegate.vectors"), family)
        val files = folder.listFiles { file -> file.extension == "json" }.orEmpty().sorted()
        assertTrue(files.isNotEmpty(), "no vectors in $folder")
        return files.map(json::readTree)
    }

    private fun fresh(seed: JsonNode?): Native = Native.make(seed?.bigIntegerValue()?.toLong() ?: 0L, 10_000, false, 0)

    private fun settings(pairs: JsonNode, prefix: String = "") = pairs.map { (key, value) ->
        val plain = if (value.isNumber) Value.Number(value.asDouble()) else Value.Word(value.asText())
        Setting(key.asText().removePrefix(prefix), plain)
    }

    private operator fun JsonNode.component1() = this[0]

    private operator fun JsonNode.component2() = this[1]

    private fun Native.take(policy: JsonNode): UInt = engine.policy(policy["name"].asText(), settings(policy["pairs"]))

    @TestFactory
    fun engine(): List<DynamicTest> {
        val scripts = files("engine").flatMap { it["vectors"] }.filterNot { streams(it) }
        assertTrue(scripts.size > 200)
        return scripts.map { dynamicTest(it["name"].asText()) { play(it) } }
    }

    /** Whether a script has the timeouts of streams, which this package refuses so far (semantics 7.7.23). */
    private fun streams(vector: JsonNode): Boolean {
        val keys = setOf("first_byte_timeout", "idle_timeout", "deadline_until", "counts")
        return vector["policies"].any { policy -> policy["pairs"].any { it[0].asText() in keys } }
    }

    private fun play(vector: JsonNode) {
        val native = fresh(vector["seed"])
        for (pool in vector["pools"] ?: json.createArrayNode()) {
            val kind = pool["kind"].asText()
            native.engine.pool(pool["name"].asText(), kind, settings(pool["pairs"], Facts.pools.getValue(kind) + "."), 0uL)
        }
        val policies = vector["policies"].associate { it["name"].asText() to native.take(it) }
        val calls = HashMap<String, Long>()
        val route = { policy: JsonNode, key: JsonNode, at: Long ->
            native.engine.route(policies.getValue(policy.asText()), key.asText(), at.toULong()).toLong()
        }
        val out = LongArray(1)
        val ids = LongArray(64)
        for (entry in vector["script"]) {
            val at = entry["at"].asLong()
            val (begin, force) = listOf(entry["begin"], entry["force"])
            val says = entry["says"].asText()
            if (force != null) {
                val which = force["route"].takeUnless { it.isNull }?.let { route(force["policy"], it, at).toULong() }
                native.engine.forceOpen(policies.getValue(force["policy"].asText()), which, force["on"].asBoolean(), at.toULong())
            } else {
                val step = if (begin != null) {
                    val request = begin["request"]
                    val id = begin["route"].takeUnless { it.isNull }?.let { route(begin["policy"], it, at) } ?: 0L
                    val path = begin["path"]?.takeUnless { it.isNull }
                    val target = path?.let { native.engine.target(id.toULong(), it.asText(), at.toULong()).toLong() } ?: request[3].asLong()
                    val parent = calls[request[2].asText()] ?: 0L
                    val call = native.begin(native.handle, id, request[0].asLong(), request[1].asLong(), parent, target, at, out)
                    calls[entry["call"].asText()] = if (call < 0) call.inv() else call
                    if (call < 0) out[0] else Wire.FIRST
                } else {
                    native.on(native.handle, calls.getValue(entry["on"].asText()), entry["event"].asLong(), at)
                }
                assertEquals(entry["step"].asLong(), step, says)
            }
            val count = native.woken(native.handle, ids)
            assertEquals(entry["wakes"].map { calls.getValue(it.asText()) }, ids.take(count), says)
        }
    }

    @Test
    fun `answers are classified`() {
        for (file in files("classify")) {
            val native = fresh(null)
            val policies = file["policies"].associate { it["name"].asText() to native.take(it) }
            val wall = file["wall_us"].asLong().toULong()
            for (each in file["cases"]) {
                val headers = each["headers"].map { (name, value) -> Header(name.asText(), value.asText()) }
                val word = native.engine.classify(policies.getValue(each["policy"].asText()), each["status"].asInt().toUShort(), headers, wall)
                assertEquals(each["word"].asLong(), word.toLong(), each.toString())
            }
            assertTrue(file["cases"].size() > 60)
        }
    }

    @Test
    fun `policies and their mistakes`() {
        val present = mapOf(
            "bulkhead.pool" to ("bulkhead" to """[["max_concurrency", 1]]"""),
            "rate_limit.pool" to ("rate_limit" to """[["permits", 1], ["per", 1000000]]"""),
            "retry.budget.pool" to ("budget" to """[["kind", "window"]]"""),
        )
        val cases = files("policy").flatMap { it["cases"] }
        for (each in cases) {
            val native = fresh(null)
            for ((key, name) in each["pairs"]) {
                val (kind, pairs) = present[key.asText()] ?: continue
                if (name.asText() != "") native.engine.pool(name.asText(), kind, settings(json.readTree(pairs)), 0uL)
            }
            val wrong = try {
                native.engine.policy("p", settings(each["pairs"]))
                emptyList()
            } catch (invalid: Invalid.Settings) {
                invalid.mistakes.map { it.key }.distinct().sorted()
            }
            assertEquals(each["wrong"].map { it.asText() }, wrong, each.toString())
        }
        assertTrue(cases.size > 150)
    }

    @Test
    fun `documents are taken, or not`() {
        val documents = files("documents").flatMap { it["documents"] }
        for (each in documents) {
            val taken = try {
                Document(each["document"].toString(), true)
                true
            } catch (_: Invalid.Settings) {
                false
            }
            assertEquals(each["valid"].asBoolean(), taken, each.toString())
        }
        assertTrue(documents.size > 30)
    }

    @Test
    fun `words of steps are read`() {
        val words = files("wire").single()
        for (each in words["steps"]) {
            val (word, step) = listOf(each["word"].asLong(), each["step"])
            word as Long
            step as JsonNode
            val action = Wire.action(word)
            assertEquals(listOf("done", "attempt", "wait")[action], step["action"].asText(), each.toString())
            if (action == Wire.DONE) {
                assertEquals(step["verdict"].asText(), Verdict.of(Wire.verdict(word)).word)
                assertEquals(if (step["result"].isNull) -1 else step["result"].asInt(), Wire.result(word), each.toString())
            }
            if (action == Wire.ATTEMPT) assertEquals(step["attempt"].asInt(), Wire.attempt(word))
            assertEquals(step["stop"].asInt(), Wire.stops(word))
            assertEquals(step["wakes"].asInt() == 1, word and Wire.WAKES != 0L)
            val us = step[if (action == Wire.DONE) "retry_in_us" else "next_us"]?.takeUnless { it.isNull }?.asLong()
            val most = (1L shl 31) - 2
            val span = us?.let { minOf(if (action == Wire.DONE) (it + 999) / 1000 else it, most) } ?: -1
            assertEquals(span, Wire.span(word), each.toString())
        }
        assertTrue(words["steps"].size() > 500)
    }

    @Test
    fun `words of finished attempts are written`() {
        val ends = files("wire").single()["events"].filter { it["event"]["event"].asText() == "finished" }
        for (each in ends) {
            val event = each["event"]
            val opinion = Opinion.valueOf(event["opinion"].asText().uppercase()).ordinal
            val after = event["retry_after_us"].takeUnless { it.isNull }?.asLong()?.microseconds
            val word = Wire.finished(event["attempt"].asInt(), Wire.outcome(event["kind"].asInt(), opinion, after))
            assertEquals(each["word"].asLong(), word, each.toString())
        }
        assertTrue(ends.size > 50, "${ends.size}")
    }

    @Test
    fun `Retry-After is read`() {
        val bytes = "120".encodeToByteArray()
        assertEquals(120_000_000uL, parseRetryAfter(bytes, 0uL))
        assertEquals(null, parseRetryAfter("soon".encodeToByteArray(), 0uL))
    }
}
