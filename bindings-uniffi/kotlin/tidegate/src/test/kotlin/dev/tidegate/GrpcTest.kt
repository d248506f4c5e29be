package dev.tidegate

import dev.tidegate.grpc.CALLER
import dev.tidegate.grpc.grpcInterceptor
import io.grpc.CallOptions as GrpcOptions
import io.grpc.Channel
import io.grpc.Metadata
import io.grpc.MethodDescriptor
import io.grpc.MethodDescriptor.MethodType
import io.grpc.ServerCall
import io.grpc.ServerCallHandler
import io.grpc.ServerInterceptor
import io.grpc.ServerServiceDefinition
import io.grpc.Status
import io.grpc.StatusRuntimeException
import io.grpc.inprocess.InProcessChannelBuilder
import io.grpc.inprocess.InProcessServerBuilder
import io.grpc.stub.ClientCalls
import io.grpc.stub.ServerCalls
import io.grpc.stub.StreamObserver
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows
import java.io.ByteArrayInputStream
import java.io.InputStream
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** Unary calls of gRPC against a server of gRPC's own, in the same process. */
@Timeout(120)
class GrpcTest {
    private object Text : MethodDescriptor.Marshaller<String> {
        override fun stream(value: String): InputStream = ByteArrayInputStream(value.toByteArray())

        override fun parse(stream: InputStream): String = stream.readAllBytes().decodeToString()
    }

    private val get = MethodDescriptor.create(MethodType.UNARY, "shop.Orders/Get", Text, Text)
    private val list = MethodDescriptor.create(MethodType.SERVER_STREAMING, "shop.Orders/List", Text, Text)
    private val engine = Engine(seed = 7)
    private val script = CopyOnWriteArrayList<Pair<Status, Metadata?>>()
    private val before = CopyOnWriteArrayList<String?>()
    private val hanging = CountDownLatch(1)
    private val attemptsBefore = Metadata.Key.of("grpc-previous-rpc-attempts", Metadata.ASCII_STRING_MARSHALLER)
    private val pushback = Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER)

    private val heads = object : ServerInterceptor {
        override fun <Q : Any?, A : Any?> interceptCall(call: ServerCall<Q, A>, headers: Metadata, next: ServerCallHandler<Q, A>): ServerCall.Listener<Q> {
            before += headers.get(attemptsBefore)
            return next.startCall(call, headers)
        }
    }
    private val name = InProcessServerBuilder.generateName()
    private val server = InProcessServerBuilder.forName(name).intercept(heads).addService(
        ServerServiceDefinition.builder("shop.Orders")
            .addMethod(get, ServerCalls.asyncUnaryCall { question, answer ->
                val (status, trailers) = script.removeFirstOrNull() ?: (Status.OK to null)
                if (status.description == "hang") return@asyncUnaryCall
                if (status.description == "wait") hanging.await()
                if (status.isOk) {
                    answer.onNext("$question!")
                    answer.onCompleted()
                } else {
                    answer.onError(StatusRuntimeException(status, trailers))
                }
            })
            .addMethod(list, ServerCalls.asyncServerStreamingCall { question, answer ->
                answer.onNext("$question 1")
                answer.onError(Status.UNAVAILABLE.asRuntimeException())
            })
            .build(),
    ).build().start()
    private val plain = InProcessChannelBuilder.forName(name).build()

    @AfterEach
    fun close() {
        hanging.countDown()
        plain.shutdownNow()
        server.shutdownNow()
        leftNothing(engine)
    }

    private fun policy(name: String, configure: Configure<PolicyOptions> = Configure { }) = policy(name, engine) {
        preset = Preset.GRPC
        retry { maxAttempts = 3; backoff { base = 1.milliseconds; max = 60.seconds; jitter = BackoffJitter.NONE }; budget { kind = BudgetKind.NONE } }
        with(configure) { configure() }
    }

    private fun through(caller: Caller): Channel = io.grpc.ClientInterceptors.intercept(plain, caller.grpcInterceptor())

    private fun says(vararg statuses: Status) = statuses.forEach { script += it to null }

    private fun ask(channel: Channel, options: GrpcOptions = GrpcOptions.DEFAULT) = ClientCalls.blockingUnaryCall(channel, get, options, "hello")

    @Test
    fun `timeouts of a stream are refused, because it serves none (7_7_23)`() {
        val policy = policy("streams") { firstByteTimeout = 30.seconds; idleTimeout = 5.seconds }
        val error = assertThrows<PolicyException> { ask(through(policy)) }
        val rule = "the interceptor for gRPC does not serve timeouts of streams: use an HTTP client, or leave the key out"
        assertEquals(listOf("firstByteTimeout = 30s: $rule", "idleTimeout = 5s: $rule"), error.mistakes.map { "$it" })
    }

    @Test
    fun `a status that may pass is repeated, and repeats say so`() {
        says(Status.UNAVAILABLE, Status.UNAVAILABLE)
        assertEquals("hello!", ask(through(policy("p"))))
        assertEquals(listOf(null, "1", "2"), before)
        says(Status.INVALID_ARGUMENT)
        val error = assertThrows<StatusRuntimeException> { ask(through(policy("p"))) }
        assertEquals(Status.Code.INVALID_ARGUMENT, error.status.code)
        assertEquals(Verdict.NOT_RETRYABLE to 1, error.report?.reason to error.report?.attempts)
    }

    @Test
    fun `the last status is the caller's, with its trailers, and explains itself`() {
        val trailers = Metadata().apply { put(Metadata.Key.of("why", Metadata.ASCII_STRING_MARSHALLER), "full") }
        repeat(3) { script += Status.UNAVAILABLE.withDescription("no. $it") to trailers }
        val error = assertThrows<StatusRuntimeException> { ask(through(policy("p"))) }
        assertEquals("UNAVAILABLE: no. 2", error.message)
        assertEquals("full", error.trailers?.get(Metadata.Key.of("why", Metadata.ASCII_STRING_MARSHALLER)))
        assertEquals("gave up after 3 attempts" to "attempts", error.report?.note to error.report?.explain()?.reason)
    }

    @Test
    fun `the server says when to come back, or not to`() {
        script += Status.UNAVAILABLE to Metadata().apply { put(pushback, "50") }
        val from = System.nanoTime()
        assertEquals("hello!", ask(through(policy("p"))))
        assertTrue(System.nanoTime() - from >= 50_000_000)
        script += Status.UNAVAILABLE to Metadata().apply { put(pushback, "-1") }
        assertEquals(Verdict.OPINION, assertThrows<StatusRuntimeException> { ask(through(policy("p"))) }.report?.reason)
    }

    @Test
    fun `what must not happen twice is sent once`() {
        says(Status.UNAVAILABLE)
        val once = policy("p").at(CallOptions(route = "writes", idempotent = false))
        assertEquals(Verdict.METHOD, assertThrows<StatusRuntimeException> { ask(through(once)) }.report?.reason)
        says(Status.UNAVAILABLE)
        val single = assertThrows<StatusRuntimeException> { ask(through(policy("p")), GrpcOptions.DEFAULT.withOption(CALLER, once)) }
        assertEquals(Verdict.METHOD, single.report?.reason)
        assertTrue(engine.snapshot().routes.any { it.key == "writes" })
    }

    @Test
    fun `an attempt that hangs is stopped and repeated, and the deadline ends the call`() {
        says(Status.OK.withDescription("hang"))
        assertEquals("hello!", ask(through(policy("p") { attemptTimeout = 500.milliseconds })))
        says(Status.OK.withDescription("hang"), Status.OK.withDescription("hang"))
        val late = assertThrows<StatusRuntimeException> { ask(through(policy("late") { deadline = 300.milliseconds })) }
        assertEquals(Status.Code.DEADLINE_EXCEEDED, late.status.code)
        val own = assertThrows<StatusRuntimeException> { ask(through(policy("own")), GrpcOptions.DEFAULT.withDeadlineAfter(300, TimeUnit.MILLISECONDS)) }
        assertEquals(Status.Code.DEADLINE_EXCEEDED, own.status.code)
    }

    @Test
    fun `a refusal has the code that gRPC expects, and its cause`() {
        val limited = through(policy("limited") { rateLimit { permits = 1; per = 1000.seconds } })
        ask(limited)
        val refused = assertThrows<StatusRuntimeException> { ask(limited) }
        assertEquals(Status.Code.RESOURCE_EXHAUSTED, refused.status.code)
        assertTrue(refused.cause is RateLimited)
        val forced = policy("forced").also { it.forceOpen() }
        assertEquals(Status.Code.UNAVAILABLE, assertThrows<StatusRuntimeException> { ask(through(forced)) }.status.code)
    }

    @Test
    fun `a future is cancelled with its attempt`() {
        says(Status.OK.withDescription("hang"))
        val future = ClientCalls.futureUnaryCall(through(policy("p")).newCall(get, GrpcOptions.DEFAULT), "hello")
        // The server takes the entry after it has noted `before`. A cancel in between would leave the entry to the next call.
        until { script.isEmpty() }
        future.cancel(true)
        until { engine.snapshot().live == 0 }
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends["cancelled"])
        says(Status.UNAVAILABLE)
        assertEquals("hello!", ClientCalls.futureUnaryCall(through(policy("p")).newCall(get, GrpcOptions.DEFAULT), "hello").get(60, TimeUnit.SECONDS))
        says(Status.NOT_FOUND)
        val error = assertThrows<ExecutionException> { ClientCalls.futureUnaryCall(through(policy("p")).newCall(get, GrpcOptions.DEFAULT), "hello").get(60, TimeUnit.SECONDS) }
        assertEquals(Verdict.NOT_RETRYABLE, error.report?.reason)
    }

    @Test
    fun `a policy around repeats what the interceptor would have repeated, once`() {
        says(Status.UNAVAILABLE)
        val own = engine
        val around = policy("around", own) { retry { maxAttempts = 2; backoff { base = 1.milliseconds }; budget { kind = BudgetKind.NONE } } }
        val channel = through(policy("p") { classify { _, error -> if ((error as? StatusRuntimeException)?.status?.code == Status.Code.NOT_FOUND) Outcome(Outcome.TRANSIENT) else null } })
        assertEquals("hello!", around.call { ask(channel) })
        assertEquals(2, before.size)
        says(Status.NOT_FOUND)
        assertEquals("hello!", around.call { ask(channel) }, "the inner policy knows more of it")
        assertEquals(4, before.size)
    }

    @Test
    fun `an interceptor around another one obeys it (1_4_5, 1_6_3, 1_6_4)`() {
        val own = engine
        fun around(caller: Caller) = io.grpc.ClientInterceptors.intercept(through(caller), policy("around").grpcInterceptor())
        says(Status.UNAVAILABLE)
        val once = policy("p").at(CallOptions(idempotent = false))
        assertEquals(Verdict.OPINION, assertThrows<StatusRuntimeException> { ask(around(once)) }.report?.reason)
        assertEquals(1, before.size)
        says(Status.NOT_FOUND)
        val knows = policy("knows") { classify { _, error -> if ((error as? StatusRuntimeException)?.status?.code == Status.Code.NOT_FOUND) Outcome(Outcome.TRANSIENT) else null } }
        assertEquals("hello!", ask(around(knows)), "the inner policy knows more of it")
        assertEquals(3, before.size)
        val limited = policy("limited", own) { rateLimit { permits = 1; per = 1000.seconds } }
        ask(around(limited))
        assertEquals(Verdict.RETRY_AFTER_TOO_LONG, assertThrows<StatusRuntimeException> { ask(around(limited)) }.report?.reason)
    }

    @Test
    fun `each attempt has the context of the code that makes the call, and the call ends at its deadline`() {
        val user = io.grpc.Context.key<String>("user")
        val seen = CopyOnWriteArrayList<String?>()
        val looks = object : io.grpc.ClientInterceptor {
            override fun <Q : Any?, A : Any?> interceptCall(method: MethodDescriptor<Q, A>, options: GrpcOptions, next: Channel): io.grpc.ClientCall<Q, A> {
                seen += user.get()
                return next.newCall(method, options)
            }
        }
        val channel = io.grpc.ClientInterceptors.intercept(io.grpc.ClientInterceptors.intercept(plain, looks), policy("p").grpcInterceptor())
        says(Status.UNAVAILABLE, Status.UNAVAILABLE)
        assertEquals("hello!", io.grpc.Context.current().withValue(user, "ada").call { ask(channel) })
        assertEquals(listOf("ada", "ada", "ada"), seen.toList())
        val timers = java.util.concurrent.Executors.newSingleThreadScheduledExecutor()
        script += Status.UNAVAILABLE to Metadata().apply { put(pushback, "20000") }
        val late = assertThrows<StatusRuntimeException> {
            io.grpc.Context.current().withDeadlineAfter(10, TimeUnit.SECONDS, timers).use { it.call { ask(channel) } }
        }
        timers.shutdownNow()
        assertEquals(Verdict.WOULD_OUTLIVE_DEADLINE, late.report?.reason)
    }

    @Test
    fun `cancelling the context ends a call that waits for its next attempt`() {
        script += Status.UNAVAILABLE to Metadata().apply { put(pushback, "20000") }
        val context = io.grpc.Context.current().withCancellation()
        val policy = policy("p") { onRetry { context.cancel(IllegalStateException("the user has left")) } }
        val error = assertThrows<StatusRuntimeException> { context.call { ask(through(policy)) } }
        assertEquals(Status.Code.CANCELLED to "the user has left", error.status.code to error.cause?.message)
        until { engine.snapshot().live == 0 }
        assertEquals(1L, engine.snapshot().policies.getValue("p").ends["cancelled"], "without the wait")
        assertThrows<StatusRuntimeException> { context.call { ask(through(policy)) } }
        assertEquals(1, before.size, "and none begins in a context that has been cancelled")
    }

    @Test
    fun `a stream passes through`() {
        val answers = ClientCalls.blockingServerStreamingCall(through(policy("p")), list, GrpcOptions.DEFAULT, "hello")
        assertEquals("hello 1", answers.next())
        assertNull(assertThrows<StatusRuntimeException> { answers.next() }.report)
        assertEquals(1, before.size)
    }

    /** What an observer has heard, and on which thread it heard the end. */
    private class Heard(private val next: (String) -> Unit) : StreamObserver<String> {
        val end = CompletableFuture<Throwable?>()

        @Volatile var thread = ""

        override fun onNext(value: String) = next(value)

        override fun onError(error: Throwable) {
            thread = Thread.currentThread().name
            end.complete(error)
        }

        override fun onCompleted() {
            end.complete(null)
        }

        fun end(): Throwable? = end.get(60, TimeUnit.SECONDS)
    }

    private fun observe(channel: Channel, options: GrpcOptions = GrpcOptions.DEFAULT, next: (String) -> Unit = { }) =
        Heard(next).also { ClientCalls.asyncUnaryCall(channel.newCall(get, options), "hello", it) }

    @Test
    fun `an observer that throws hears that its call has ended`() {
        val thrown = IllegalStateException("mine")
        val error = observe(through(policy("p"))) { throw thrown }.end() as StatusRuntimeException
        assertEquals(Status.Code.CANCELLED to thrown, error.status.code to error.cause)
    }

    @Test
    fun `an observer may make a call and wait for it`() {
        val channel = through(policy("p"))
        val answers = CopyOnWriteArrayList<String>()
        assertNull(observe(channel) { answers += ask(channel) }.end())
        assertEquals(listOf("hello!"), answers)
    }

    @Test
    fun `an observer may wait for a call that its own has kept waiting`() {
        val channel = through(policy("p") { bulkhead { maxConcurrency = 1; maxQueue = 1 } })
        says(Status.OK.withDescription("wait"))
        val second = CompletableFuture<Heard>()
        val first = observe(channel) { assertNull(second.get(60, TimeUnit.SECONDS).end()) }
        until { before.size == 1 }
        second.complete(observe(channel))
        hanging.countDown()
        assertNull(first.end())
    }

    @Test
    fun `no observer and no interceptor runs on the thread of all timers`() {
        val threads = CopyOnWriteArrayList<String>()
        val looks = object : io.grpc.ClientInterceptor {
            override fun <Q : Any?, A : Any?> interceptCall(method: MethodDescriptor<Q, A>, options: GrpcOptions, next: Channel): io.grpc.ClientCall<Q, A> {
                threads += Thread.currentThread().name
                return next.newCall(method, options)
            }
        }
        says(Status.UNAVAILABLE, Status.OK.withDescription("hang"))
        val late = policy("late") { deadline = 2.seconds }
        val heard = observe(io.grpc.ClientInterceptors.intercept(io.grpc.ClientInterceptors.intercept(plain, looks), late.grpcInterceptor()))
        assertEquals(Status.Code.DEADLINE_EXCEEDED, (heard.end() as StatusRuntimeException).status.code)
        assertEquals(2, threads.size)
        assertEquals(emptyList<String>(), (threads + heard.thread).filter { "DefaultExecutor" in it })
    }

    @Test
    fun `a listener has the context of the code that makes the call, on an executor too`() {
        val user = io.grpc.Context.key<String>("user")
        val executor = java.util.concurrent.Executors.newSingleThreadExecutor()
        val seen = CopyOnWriteArrayList<String?>()
        for (options in listOf(GrpcOptions.DEFAULT, GrpcOptions.DEFAULT.withExecutor(executor))) {
            val heard = io.grpc.Context.current().withValue(user, "ada").call { observe(through(policy("p")), options) { seen += user.get() } }
            assertNull(heard.end())
        }
        executor.shutdown()
        assertEquals(listOf<String?>("ada", "ada"), seen)
    }

    private fun until(condition: () -> Boolean) {
        val end = System.nanoTime() + 60_000_000_000
        while (!condition() && System.nanoTime() < end) Thread.sleep(1)
        assertTrue(condition())
    }
}
