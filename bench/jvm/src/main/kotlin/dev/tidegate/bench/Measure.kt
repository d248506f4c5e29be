package dev.tidegate.bench

import com.sun.management.OperatingSystemMXBean
import java.io.File
import java.lang.management.ManagementFactory

// What a call costs on the JVM, side by side with peers in one process: the median over rounds that take turns, so that what
// else the machine does falls on all alike.

private const val ROUNDS = 15

/** What is measured, [times] times in each round. */
internal class Bench(val name: String, val times: Int, val run: (times: Int) -> Unit) {
    val rounds = mutableListOf<Double>()
}

private val threads = ManagementFactory.getThreadMXBean()
internal val process = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean::class.java)

/** CPU time, so that what else the machine does is not counted: of this thread, or of all where others work too. */
internal fun measure(title: String, vararg benches: Bench, clock: () -> Long = { threads.currentThreadCpuTime }) {
    for (bench in benches) repeat(3) { bench.run(bench.times) }
    repeat(ROUNDS) {
        for (bench in benches) {
            val before = clock()
            bench.run(bench.times)
            bench.rounds += (clock() - before).toDouble() / bench.times
        }
    }
    println("\n$title (ns of CPU for each, median of $ROUNDS rounds; quarter … three quarters)")
    for (bench in benches) {
        val sorted = bench.rounds.sorted()
        val (low, middle, high) = listOf(ROUNDS / 4, ROUNDS / 2, ROUNDS * 3 / 4).map(sorted::get)
        println("  %-58s %10.0f   (%.0f … %.0f)".format(bench.name, middle, low, high))
        keep(title, bench.name, middle)
    }
}

/** Appends one figure to the file that `TIDEGATE_BENCH_ROWS` names, for `bench/page.py`. */
internal fun keep(group: String, row: String, ns: Double) {
    val path = System.getenv("TIDEGATE_BENCH_ROWS") ?: return
    File(path).appendText("JVM\t$group\t$row\tns\t$ns\t\n")
}

/** The name of the jar that a type is from, which has its version. */
internal inline fun <reified T> jarOf(): String =
    File(T::class.java.protectionDomain.codeSource.location.path).nameWithoutExtension
