package dev.tidegate

import io.lettuce.core.ClientOptions
import io.lettuce.core.RedisClient
import io.lettuce.core.RedisURI
import io.lettuce.core.SocketOptions
import io.lettuce.core.api.StatefulRedisConnection
import io.lettuce.core.codec.ByteArrayCodec
import org.junit.jupiter.api.Assumptions.assumeTrue
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.IOException
import java.net.ServerSocket
import java.net.Socket
import java.nio.file.Files
import java.util.concurrent.TimeUnit

/** A Redis of a test's own, on a port that was free. */
internal class Redis private constructor(program: String, val port: Int, more: List<String>) : AutoCloseable {
    private val folder = Files.createTempDirectory("tidegate-redis").toFile()
    private val process = ProcessBuilder(
        listOf(program, "--port", "$port", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", folder.path) + more,
    ).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start()
    private val client = RedisClient.create(RedisURI.create("redis://127.0.0.1:$port"))

    init {
        waitFor("redis-server does not come up") { process.isAlive && answers() }
        val rejecting = ClientOptions.builder().disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
        client.options = rejecting.socketOptions(SocketOptions.builder().keepAlive(true).build()).build()
    }

    private fun answers(): Boolean = try {
        command("PING").startsWith("+PONG")
    } catch (_: IOException) {
        false
    }

    /** Sends one command over a connection of its own: what comes back, as it stands on the wire. */
    fun command(vararg words: String): String = Socket("127.0.0.1", port).use { socket ->
        socket.soTimeout = 10_000
        val text = words.joinToString("", "*${words.size}\r\n") { "$${it.length}\r\n$it\r\n" }
        socket.getOutputStream().write(text.encodeToByteArray())
        val told = ByteArrayOutputStream()
        val bytes = ByteArray(1 shl 16)
        told.write(bytes, 0, socket.getInputStream().read(bytes).coerceAtLeast(0))
        told.toByteArray().decodeToString()
    }

    fun connection(): StatefulRedisConnection<ByteArray, ByteArray> = client.connect(ByteArrayCodec.INSTANCE)!!

    fun kill() {
        process.destroyForcibly().waitFor(5, TimeUnit.SECONDS)
    }

    override fun close() {
        client.shutdown(0, 1, TimeUnit.SECONDS)
        kill()
        folder.deleteRecursively()
    }

    companion object {
        private const val NAMED = "TIDEGATE_REDIS_SERVER"

        /** The server's program; where there is none the test is skipped, or fails where there has to be one. */
        private fun program(): String {
            val named = System.getenv(NAMED)
            val folders = System.getenv("PATH").split(File.pathSeparator)
            val known = if (named.isNullOrEmpty()) listOf("redis-server", "valkey-server") else listOf(named)
            val found = known.flatMap { name -> if (File(name).isAbsolute) listOf(File(name)) else folders.map { File(it, name) } }
                .firstOrNull { it.canExecute() }
            val missing = "needs redis-server or valkey-server on PATH, or in $NAMED"
            check(found != null || (named.isNullOrEmpty() && System.getenv("TIDEGATE_REDIS_REQUIRED").isNullOrEmpty())) { missing }
            assumeTrue(found != null, missing)
            return found!!.path
        }

        fun freePort(): Int = ServerSocket(0).use { it.localPort }

        /** With these options beside those that all have. */
        fun start(port: Int = freePort(), vararg more: String) = Redis(program(), port, more.toList())

        /** As a service that forbids scripts. */
        fun withoutScripts() = start(freePort(), "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")

        fun waitFor(otherwise: String, seconds: Long = 60, so: () -> Boolean) {
            val until = System.nanoTime() + seconds * 1_000_000_000
            while (!so()) {
                check(System.nanoTime() < until) { otherwise }
                Thread.sleep(10)
            }
        }
    }
}

/** Three nodes that share the slots. */
internal class Cluster : AutoCloseable {
    private val buses = List(3) { Redis.freePort() }
    val nodes = buses.map { bus ->
        Redis.start(Redis.freePort(), "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", "$bus")
    }

    init {
        for ((place, node) in nodes.withIndex()) {
            node.command("CLUSTER", "SET-CONFIG-EPOCH", "${place + 1}")
            val (first, end) = listOf(place, place + 1).map { 16_384 * it / 3 }
            check(node.command("CLUSTER", "ADDSLOTSRANGE", "$first", "${end - 1}") == "+OK\r\n") { "slots" }
        }
        for ((node, bus) in nodes.zip(buses).drop(1)) nodes[0].command("CLUSTER", "MEET", "127.0.0.1", "${node.port}", "$bus")
        for (node in nodes) {
            Redis.waitFor("no cluster", 30) {
                val told = node.command("CLUSTER", "INFO")
                "cluster_state:ok" in told && "cluster_known_nodes:3" in told
            }
        }
    }

    override fun close() = nodes.forEach { it.close() }
}
