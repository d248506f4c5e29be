package dev.tidegate

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File

/** The compiler wants types of what is public, and nobody but this test wants words. */
class KDocTest {
    private val declaration = Regex("^\\s*(@\\S+ )*public (?!companion object)(?!constructor)(?!.*\\boverride\\b).*")

    private fun without(file: File): List<String> {
        val lines = file.readLines()
        val properties = Regex("@property (\\w+)").findAll(lines.joinToString("\n")).map { it.groupValues[1] }.toSet()
        return lines.withIndex().filter { (place, line) ->
            val before = lines.take(place).dropLastWhile { it.isBlank() || it.trim().startsWith("@") }.lastOrNull()?.trim() ?: ""
            val name = Regex("\\bva[lr] (\\w+)").find(line)?.groupValues?.get(1)
            declaration.matches(line) && !before.endsWith("*/") && name !in properties
        }.map { (place, line) -> "${file.name}:${place + 1}: ${line.trim()}" }
    }

    @Test
    fun `what is public says what it is`() {
        val sources = File("src/main/kotlin").walk().filter { it.extension == "kt" && "internal" !in it.path }.toList()
        assertTrue(sources.size > 25, "${sources.size}")
        assertEquals(emptyList<String>(), sources.flatMap(::without))
    }

    /** A `copy` or a `componentN` would make each new field a breaking change. The compiler keeps internal types out of public signatures. */
    @Test
    fun `no class of the interface is a data class`() {
        val sources = listOf("src/main/kotlin", "src/generated/kotlin").flatMap { File(it).walk().filter { it.extension == "kt" && it.name != "Ffi.kt" } }
        assertTrue(sources.any { it.name == "Views.kt" }, "the generated half is there")
        assertEquals(emptyList<String>(), sources.filter { "data class" in it.readText() }.map { it.name })
        val inner = File("src/generated/kotlin/dev/tidegate/ffi/Ffi.kt").readLines()
        assertEquals(emptyList<String>(), inner.filter { Regex("^(public |sealed |data |open |abstract )*(class|object|fun|val) .*").matches(it) })
    }

    @Test
    fun `what says nothing is found`() {
        val file = File.createTempFile("Silent", ".kt")
        file.writeText("/** It speaks. */\npublic fun a() = 1\n\npublic fun b() = 2\n\n/** @property d Said. */\npublic class C(\n    public val d: Int,\n    public val e: Int,\n)\n")
        assertEquals(listOf(4, 9), without(file).map { it.split(":")[1].toInt() })
        file.delete()
    }
}
