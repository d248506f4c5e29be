// The ten tasks of a new user in Kotlin. `cargo xtask install-check` puts the blocks of the guide in place of the lines that begin
// with `//@`, the address of a server in place of `https://api.example`, and runs this with the jars of a repository.

import dev.tidegate.*
import dev.tidegate.okhttp.*
import java.io.IOException
import java.net.URI
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds
import kotlin.time.toJavaDuration
import kotlinx.coroutines.*
import kotlinx.coroutines.test.*
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider
import software.amazon.awssdk.regions.Region
import software.amazon.awssdk.services.s3.S3Client

const val server = "https://api.example"
const val key = "key"

//@ docs/kotlin/using-with.md: val payments = policy("payments")

//@ docs/kotlin.md: val orders = policy("orders")

//@ docs/kotlin/language-models.md: fun chat(

fun wrapTheClient() {
    //@ docs/kotlin/using-with.md: val http = OkHttpClient.Builder()
    assertEquals("an order", answer)
    http.newCall(Request.Builder().url("$server/report").build()).execute().use { assertEquals(2, it.report?.attempts) }
}

suspend fun wrapAFunction() {
    //@ docs/kotlin.md: placed by attempt
    assertEquals("placed by attempt 2", answer)
}

fun wrapAnSdk() {
    val credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create("key", "secret"))
    //@ docs/kotlin/using-with.md: S3Client.builder()
    assertEquals("an order", charge)
    s3.close()
}

suspend fun limit() {
    //@ docs/kotlin.md: val mail = policy("mail")
    assertTrue(runCatching { mail.run { } }.exceptionOrNull() is RateLimited)
}

suspend fun setADeadline() {
    //@ docs/kotlin.md: "no answer in time"
    assertEquals("no answer in time", late)
    val http = OkHttpClient.Builder().tidegate(payments).build()
    val soon = RequestOptions(deadline = 300.milliseconds)
    val slow = Request.Builder().url("$server/slow").tag(RequestOptions::class.java, soon).build()
    assertThrows(DeadlineExceeded::class.java) { http.newCall(slow).execute().use { it.body.string() } }
}

fun stream() {
    //@ docs/kotlin/language-models.md: val chats = policy("chats")
    assertEquals("an order", answer)
    //@ docs/kotlin/language-models.md: val streamed = policy("streamed")
    assertEquals(3, events.size, "$events")
}

suspend fun cancel() {
    //@ docs/kotlin.md: call.cancelAndJoin()
    assertEquals(0, orders.engine.snapshot().live)
}

suspend fun seeWhy() {
    //@ docs/kotlin.md: println(error.report?.explain())
    val error = runCatching { orders.run { throw IOException("reset") } }.exceptionOrNull()
    assertTrue(error?.report?.explain() != null)
}

suspend fun measure() {
    //@ docs/kotlin.md: val metrics = Metrics()
    orders.run { "measured" }
    val after = metrics.read().filter { it.family.name == "tidegate_calls_total" }
    assertTrue(after.sumOf { it.value } > calls.sumOf { it.value })
}

@OptIn(ExperimentalCoroutinesApi::class)
fun testWithTimeUnderControl() {
    //@ docs/kotlin.md: val slow = policy("slow", engine)
}

fun task(name: String, work: suspend () -> Unit) {
    runBlocking { work() }
    println("done: $name")
}

fun main() {
    task("wrap the client") { wrapTheClient() }
    task("wrap a function") { wrapAFunction() }
    task("wrap an SDK") { wrapAnSdk() }
    task("limit") { limit() }
    task("set a deadline") { setADeadline() }
    task("stream") { stream() }
    task("cancel") { cancel() }
    task("see why") { seeWhy() }
    task("measure") { measure() }
    testWithTimeUnderControl()
    println("done: test with time under control")
}
