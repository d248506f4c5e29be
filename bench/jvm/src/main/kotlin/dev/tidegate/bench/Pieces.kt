package dev.tidegate.bench

import dev.tidegate.Counts
import dev.tidegate.Engine
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.policy
import okhttp3.OkHttpClient
import okhttp3.Request
import okio.Buffer
import java.lang.management.ManagementFactory
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import kotlin.concurrent.thread
import kotlin.time.Duration.Companion.seconds

private const val PIECES = 100_000
private const val ROUNDS = 41
private const val EVENT = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" tide\"}}]}\n\n"

/** Answers each request with a stream of events, each in a chunk of its own. */
private fun serve(socket: Socket, answer: ByteArray): Unit = socket.use {
    val input = it.getInputStream()
    val head = ByteArray(4_096)
    while (input.read(head) > 0) it.getOutputStream().write(answer)
}

/**
 * What timeouts of a stream cost in OkHttp: reads bodies of 100,000 small events, bare and under a policy, in turn, and prints the processor's
 * time for a piece in the thread that reads: `dev.tidegate.bench.Pieces` in `target/benchmarks.jar`.
 */
object Pieces {
    private val threads = ManagementFactory.getThreadMXBean()

    @JvmStatic
    fun main(args: Array<String>) {
        val server = ServerSocket(0, 50, InetAddress.getLoopbackAddress())
        val chunk = "${Integer.toHexString(EVENT.length)}\r\n$EVENT\r\n"
        val head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        val answer = (head + chunk.repeat(PIECES) + "0\r\n\r\n").encodeToByteArray()
        thread(isDaemon = true) {
            while (true) {
                val socket = server.accept()
                thread(isDaemon = true) { serve(socket, answer) }
            }
        }
        val engine = Engine(seed = 7)
        val slot = policy("slot", engine) { bulkhead { maxConcurrency = 9 } }
        val bytes = policy("bytes", engine) { firstByteTimeout = 30.seconds; idleTimeout = 30.seconds }
        val data = policy("data", engine) { firstByteTimeout = 30.seconds; idleTimeout = 30.seconds; counts = Counts.SSE_DATA }
        val clients = listOf("bare" to null, "slot until the body's end" to slot, "bytes" to bytes, "sse_data" to data).map { (name, of) ->
            name to OkHttpClient.Builder().also { made -> of?.let { made.addInterceptor(it.okHttpInterceptor()) } }.build()
        }
        val url = "http://${server.inetAddress.hostAddress}:${server.localPort}/"
        val rounds = clients.associate { it.first to mutableListOf<Double>() }
        repeat(ROUNDS + 8) { round ->
            for ((name, client) in clients) {
                val ns = read(client, url)
                if (round >= 8) rounds.getValue(name) += ns
            }
        }
        val bare = rounds.getValue("bare")
        for ((name, all) in rounds) {
            val ratio = all.zip(bare) { ours, theirs -> ours / theirs }.sorted()[ROUNDS / 2]
            println("%-28s %6.0f ns for a piece, %+.0f %%".format(name, all.sorted()[ROUNDS / 2], (ratio - 1) * 100))
        }
    }

    private fun read(client: OkHttpClient, url: String): Double {
        client.newCall(Request.Builder().url(url).header("Accept", "text/event-stream").build()).execute().use { response ->
            val source = response.body.source()
            val piece = Buffer()
            val before = threads.currentThreadCpuTime
            while (source.read(piece, 8_192) >= 0) piece.clear()
            return (threads.currentThreadCpuTime - before).toDouble() / PIECES
        }
    }
}
