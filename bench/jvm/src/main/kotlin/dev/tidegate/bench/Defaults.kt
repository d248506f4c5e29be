package dev.tidegate.bench

import com.sun.management.ThreadMXBean
import dev.tidegate.Engine
import dev.tidegate.Metrics
import dev.tidegate.Policy
import java.lang.management.ManagementFactory

/**
 * What an engine's defaults and options add to a call that succeeds: processor time in pairs with a call without them, and bytes allocated.
 * It is in `target/benchmarks.jar`.
 */
object Defaults {
    private const val ROUNDS = 61
    private const val CALLS = 200_000
    private val threads = ManagementFactory.getThreadMXBean() as ThreadMXBean

    private class Row(val name: String, val policy: Policy) {
        val ns = mutableListOf<Double>()
        var bytes = 0L

        fun run() {
            val id = Thread.currentThread().id
            val (allocated, before) = threads.getThreadAllocatedBytes(id) to threads.currentThreadCpuTime
            repeat(CALLS) { policy.call { 42 } }
            ns += (threads.currentThreadCpuTime - before).toDouble() / CALLS
            bytes = threads.getThreadAllocatedBytes(id) - allocated
        }
    }

    @JvmStatic
    fun main(args: Array<String>) {
        val rows = listOf(
            Row("without a history", Stacks.tidegate(Engine(seed = 7, history = 0), "silent")),
            Row("the same, again", Stacks.tidegate(Engine(seed = 7, history = 0), "again")),
            Row("with the history", Stacks.tidegate(Engine(seed = 7), "happy")),
            Row("with metrics", Stacks.counted()),
            Row("with metrics, without a history", Engine(seed = 7, history = 0).let { own -> Metrics(own).read(); Stacks.tidegate(own, "counted") }),
        )
        repeat(5) { for (row in rows) row.run() }
        for (row in rows) row.ns.clear()
        // Every other round backwards, so that no row is always the one after another.
        repeat(ROUNDS) { round -> for (row in if (round % 2 == 0) rows else rows.reversed()) row.run() }
        for (row in rows) {
            val ratios = row.ns.zip(rows[0].ns) { ours, bare -> ours / bare }.sorted()
            val (low, middle, high) = listOf(ROUNDS / 4, ROUNDS / 2, ROUNDS * 3 / 4).map { (ratios[it] - 1) * 100 }
            val bytes = row.bytes.toDouble() / CALLS
            println("%-32s %5.0f ns, %+.1f %% (%+.1f … %+.1f), %.2f bytes".format(row.name, row.ns.sorted()[ROUNDS / 2], middle, low, high, bytes))
        }
    }
}
