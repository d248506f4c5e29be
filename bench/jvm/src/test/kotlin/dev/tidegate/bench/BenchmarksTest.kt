package dev.tidegate.bench

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.openjdk.jmh.results.RunResult
import org.openjdk.jmh.runner.Runner
import org.openjdk.jmh.runner.options.OptionsBuilder
import org.openjdk.jmh.runner.options.TimeValue
import org.openjdk.jmh.runner.options.VerboseMode

/** The benchmarks of JMH run. What they measure here means nothing. */
@Timeout(120)
class BenchmarksTest {
    private fun run(pattern: String, forks: Int): Collection<RunResult> {
        val brief = TimeValue.milliseconds(10)
        val options = OptionsBuilder().include(pattern).forks(forks).warmupIterations(0).measurementIterations(1).measurementTime(brief)
        return Runner(options.shouldFailOnError(true).verbosity(VerboseMode.SILENT).build()).run()
    }

    @Test
    fun `each benchmark runs`() {
        val times = run(".*", forks = 0).associate { it.params.benchmark.removePrefix("dev.tidegate.bench.") to it.primaryResult.score }
        val classes = times.keys.map { it.substringBefore('.') }.toSet()
        assertEquals(setOf("HappyPath", "LonePart", "OneRetry", "Suspending"), classes)
        assertTrue(times.values.all { it > 0 }, "$times")
    }

    @Test
    fun `the runner starts a JVM of its own`() {
        assertEquals(1, run("HappyPath.tidegate$", forks = 1).size)
    }
}
