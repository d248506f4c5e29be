package dev.tidegate.http

import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.Preset
import dev.tidegate.grpc.grpcInterceptor
import dev.tidegate.ktor.Tidegate
import dev.tidegate.okhttp.tidegate
import dev.tidegate.pageIsIn
import dev.tidegate.policy
import dev.tidegate.spring.restInterceptor
import dev.tidegate.spring.webFilter
import io.grpc.CallOptions
import io.grpc.MethodDescriptor
import io.grpc.ServerServiceDefinition
import io.grpc.Status
import io.grpc.inprocess.InProcessChannelBuilder
import io.grpc.inprocess.InProcessServerBuilder
import io.grpc.stub.ClientCalls
import io.grpc.stub.ServerCalls
import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.request.get
import io.ktor.client.statement.bodyAsText
import kotlinx.coroutines.runBlocking
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.ResponseBody
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.springframework.http.client.JdkClientHttpRequestFactory
import org.springframework.http.client.reactive.JdkClientHttpConnector
import org.springframework.web.client.RestClient
import org.springframework.web.reactive.function.client.WebClient
import retrofit2.Retrofit
import retrofit2.http.GET
import retrofit2.http.Path
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider
import software.amazon.awssdk.regions.Region
import software.amazon.awssdk.services.s3.S3Client
import java.io.InputStream
import java.lang.reflect.Proxy
import java.net.URI
import java.net.http.HttpRequest
import java.net.http.HttpResponse
import java.net.http.HttpResponse.BodyHandlers
import java.sql.Connection
import java.sql.ResultSet
import java.sql.SQLException
import java.sql.Statement
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import javax.sql.DataSource
import kotlin.time.Duration.Companion.seconds
import kotlin.time.toJavaDuration

/** The blocks of `docs/kotlin/using-with.md`, run; each client's first answer is a failure that may pass. */
@Timeout(120)
class RecipesTest {
    interface Charges {
        @GET("charges")
        suspend fun list(): ResponseBody

        @GET("charges/{id}")
        suspend fun find(@Path("id") id: Int): ResponseBody
    }

    private val server = Origin.url

    init {
        jdk.version() // its thread is there before a test is
    }

    private val payments = policy("payments", Engine()) {
        preset = Preset.HTTP // retries with a budget, for idempotent methods and passing statuses
        deadline = 10.seconds
        attemptTimeout = 2.seconds
        bulkhead { maxConcurrency = 20; maxQueue = 50; acquireTimeout = 1.seconds }
    }

    private fun failsFirst(path: String = "/charges") = Origin.script("sequences" to mapOf(path to listOf(mapOf("status" to 503), mapOf("status" to 200))))

    private fun repeated(answer: String?) {
        assertEquals("OK", answer?.trim())
        assertEquals(2, Origin.log().size, "it has been repeated")
    }

    @Test
    fun `the policy that all recipes share`() {
        val payments = policy("payments") {
            preset = Preset.HTTP // retries with a budget, for idempotent methods and passing statuses
            deadline = 10.seconds
            attemptTimeout = 2.seconds
            bulkhead { maxConcurrency = 20; maxQueue = 50; acquireTimeout = 1.seconds }
        }
        assertEquals("payments", payments.name)
    }

    @Test
    fun `OkHttp and Retrofit`() = runBlocking {
        failsFirst()
        val http = OkHttpClient.Builder().tidegate(payments).build()
        val answer = http.newCall(Request.Builder().url("$server/charges").build()).execute().use { it.body.string() }
        repeated(answer)
        failsFirst("/charges/7")
        val charges = Retrofit.Builder().baseUrl(server).client(http).build().create(Charges::class.java)
        val charge = charges.find(7).string()
        repeated(charge)
        http.connectionPool.evictAll()
    }

    @Test
    fun ktor() = runBlocking {
        failsFirst()
        val ktor = HttpClient(CIO) { install(Tidegate) { policy = payments } }
        val text = ktor.get("$server/charges").bodyAsText()
        repeated(text)
        ktor.close()
    }

    /** The clients of the recipes have connections of the one that all tests share. */
    private fun JdkClientHttpRequestFactory() = JdkClientHttpRequestFactory(jdk)

    private fun JdkClientHttpConnector() = JdkClientHttpConnector(jdk)

    @Test
    fun `RestClient and WebClient`() {
        failsFirst()
        val rest = RestClient.builder()
            .requestFactory(JdkClientHttpRequestFactory())
            .requestInterceptor(payments.restInterceptor())
            .build()
        val charged = rest.get().uri("$server/charges").retrieve().body(String::class.java)
        repeated(charged)
        failsFirst()
        val web = WebClient.builder().clientConnector(JdkClientHttpConnector()).filter(payments.webFilter()).build()
        val fetched = web.get().uri("$server/charges").retrieve().bodyToMono(String::class.java).block()
        repeated(fetched)
    }

    private object Text : MethodDescriptor.Marshaller<String> {
        override fun stream(value: String): InputStream = value.byteInputStream()

        override fun parse(stream: InputStream): String = stream.readAllBytes().decodeToString()
    }

    @Test
    fun `gRPC`() {
        val orders = policy("orders", Engine()) { preset = Preset.GRPC }
        val name = InProcessServerBuilder.generateName()
        val get = MethodDescriptor.create(MethodDescriptor.MethodType.UNARY, "shop.Orders/Get", Text, Text)
        var calls = 0
        val service = ServerServiceDefinition.builder("shop.Orders").addMethod(get, ServerCalls.asyncUnaryCall { question, answer ->
            if (++calls == 1) return@asyncUnaryCall answer.onError(Status.UNAVAILABLE.asRuntimeException())
            answer.onNext("$question!")
            answer.onCompleted()
        }).build()
        val server = InProcessServerBuilder.forName(name).addService(service).build().start()
        val channel = InProcessChannelBuilder.forName(name).intercept(orders.grpcInterceptor()).build()
        assertEquals("hello!", ClientCalls.blockingUnaryCall(channel, get, CallOptions.DEFAULT, "hello"))
        channel.shutdownNow()
        server.shutdownNow()
    }

    @Test
    fun `the JDK's client`() {
        failsFirst()
        fun policy(name: String, configure: dev.tidegate.Configure<dev.tidegate.PolicyOptions>) = policy(name, Engine(), configure)
        lateinit var guarded: Policy
        guarded = policy("charges") {
            preset = Preset.HTTP
            deadline = 10.seconds
            attemptTimeout = 2.seconds
            classify { result, _ ->
                // null: errors are judged by the table
                (result as? HttpResponse<*>)?.let { guarded.outcomeOf(it.statusCode(), it.headers().map()) }
            }
        }
        val request = HttpRequest.newBuilder(URI("$server/charges")).build()
        val response = guarded.callAsync { jdk.sendAsync(request, BodyHandlers.ofString()) }.get()
        repeated(response.body())
    }

    @Test
    fun `AWS SDK for Java`() {
        failsFirst("/charges/1")
        val credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create("key", "secret"))
        val s3 = S3Client.builder().endpointOverride(URI(server)).forcePathStyle(true).region(Region.EU_WEST_1).credentialsProvider(credentials)
            .overrideConfiguration { it.retryStrategy { retries -> retries.maxAttempts(1) } } // the policy repeats
            .build()
        val charge = payments.call { attempt ->
            s3.getObjectAsBytes { get ->
                get.bucket("charges").key("1").overrideConfiguration { own -> attempt.time?.let { own.apiCallTimeout(it.toJavaDuration()) } }
            }.asUtf8String()
        }
        repeated(charge)
        s3.close()
    }

    @Test
    fun jdbc() {
        var connections = 0
        val source = fake<DataSource> { _, _ ->
            connections += 1
            if (connections == 1) throw SQLException("deadlock detected", "40001")
            fake<Connection> { _, _ ->
                fake<Statement> { method, _ ->
                    var row = 0
                    if (method == "executeQuery") fake<ResultSet> { asked, _ -> if (asked == "next") ++row == 1 else if (asked == "getInt") 42 else null } else null
                }
            }
        }
        val database = policy("database", Engine()) { retry { maxAttempts = 3 }; attemptTimeout = 5.seconds }
        val stock = database.call { attempt ->
            source.connection.use { connection ->
                connection.createStatement().use { statement ->
                    attempt.time?.let { statement.queryTimeout = maxOf(1, it.inWholeSeconds.toInt()) }
                    statement.executeQuery("select count(*) from stock").use { rows -> rows.next(); rows.getInt(1) }
                }
            }
        }
        assertEquals(42 to 2, stock to connections)
    }

    private inline fun <reified T : Any> fake(crossinline answer: (method: String, args: Array<Any?>?) -> Any?): T =
        Proxy.newProxyInstance(T::class.java.classLoader, arrayOf(T::class.java)) { _, method, args -> if (method.name == "close") null else answer(method.name, args) } as T

    @Test
    fun `SDKs with futures`() {
        class Commands {
            var calls = 0

            fun get(key: String): CompletionStage<String> =
                if (++calls == 1) CompletableFuture.failedFuture(io.lettuce.core.RedisCommandTimeoutException()) else CompletableFuture.completedFuture("$key of redis")
        }
        val commands = Commands()
        val cache = policy("cache", Engine()) { retry { maxAttempts = 3 } }
        val name = cache.callAsync { commands.get("name") }.get()
        assertEquals("name of redis" to 2, name to commands.calls)
    }

    @Test
    fun `every block of the page stands in this file`() = pageIsIn("docs/kotlin/using-with.md", "http/RecipesTest.kt", 12)
}
