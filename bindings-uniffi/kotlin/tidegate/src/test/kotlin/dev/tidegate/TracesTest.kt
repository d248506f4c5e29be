package dev.tidegate

import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Test
import java.io.BufferedWriter
import java.io.File

/**
 * Random traces, put in by the public [Engine.replay]. `cargo xtask test` writes the journals into the folder that `TIDEGATE_TRACES`
 * names, and compares the answers with core's, byte for byte.
 */
class TracesTest {
    @Test
    fun `journals of random traces are answered`() {
        val folder = System.getenv("TIDEGATE_TRACES")
        assumeTrue(folder != null, "TIDEGATE_TRACES names no folder of journals: cargo xtask test writes one")
        val files = File(folder).listFiles { file -> file.extension == "journals" }.orEmpty()
        assertTrue(files.isNotEmpty(), "no journals in $folder")
        for (file in files) {
            File(folder, "${file.nameWithoutExtension}.answers").bufferedWriter().use { answers -> replay(file, answers) }
        }
    }

    /** A file of journals has for each trace its name, the journal and an empty line; a file of answers the name, and an answer a line. */
    private fun replay(journals: File, answers: BufferedWriter) {
        for (trace in journals.readText().splitToSequence("\n\n").filter { it.isNotEmpty() }) {
            val lines = trace.trimEnd('\n').split('\n')
            val (seed, routes) = requireNotNull(HEAD.matchEntire(lines[1])) { "${lines[0]}: not the head of a journal: ${lines[1]}" }.destructured
            val engine = Engine(seed = seed.toLong(), maxRoutes = routes.toInt())
            val replayed = engine.replay(lines.drop(2))
            for (line in listOf(lines[0]) + replayed.answers) answers.append(line).append('\n')
        }
    }

    private companion object {
        val HEAD = Regex("tidegate journal 1 seed (\\d+) routes (\\d+)")
    }
}
