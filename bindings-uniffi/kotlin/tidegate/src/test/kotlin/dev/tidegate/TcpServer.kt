package dev.tidegate

import java.io.IOException
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.util.concurrent.ConcurrentHashMap
import kotlin.concurrent.thread

/** A server on a free port, which serves each connection on a thread of its own and then closes it. Its end closes all of them. */
internal class TcpServer(private val serve: (Socket) -> Unit) : AutoCloseable {
    private val socket = ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))
    private val open = ConcurrentHashMap.newKeySet<Socket>()
    val port: Int get() = socket.localPort
    val url: String get() = "http://127.0.0.1:$port/"

    /** Connections that are being served. */
    val connections: Int get() = open.size

    init {
        thread(isDaemon = true) {
            while (true) {
                val client = try {
                    socket.accept()
                } catch (_: IOException) {
                    return@thread
                }
                open += client
                if (socket.isClosed) client.close() // it came between the two ends
                thread(isDaemon = true) {
                    try {
                        client.use(serve)
                    } catch (_: IOException) {
                        // its client has left, or the server ends
                    } finally {
                        open -= client
                    }
                }
            }
        }
    }

    override fun close() {
        socket.close()
        open.forEach(Socket::close)
    }
}
