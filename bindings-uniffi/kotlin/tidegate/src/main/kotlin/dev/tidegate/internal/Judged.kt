package dev.tidegate.internal

import dev.tidegate.Core
import dev.tidegate.Engine
import dev.tidegate.Outcome
import dev.tidegate.Rejected
import dev.tidegate.CoolingDown
import dev.tidegate.RateLimited
import dev.tidegate.Scope
import dev.tidegate.TargetsLimited
import dev.tidegate.Throttled
import dev.tidegate.TidegateException
import java.lang.ref.ReferenceQueue
import java.lang.ref.WeakReference
import java.net.SocketTimeoutException
import java.util.WeakHashMap
import java.util.concurrent.CopyOnWriteArrayList

/** Meaning of an error of a plain function (semantics 1.5), by core's table. Outcomes are at their bit positions in a word. */
internal object Judged {
    /** No rule knows the error: it is permanent, and its report says how to repeat such errors. */
    const val UNKNOWN = -2L

    /** The error is permanent by its type or its number, and its report says how to repeat such errors. */
    private const val LISTED = -3L

    /** Outcome of [error]; negative if it is permanent and its report says how to repeat it. A property that throws counts as absent.
     * [left] is the judgement that an inner call has left with an error, or with a status. */
    fun of(error: Throwable, core: Core, left: (Any) -> Long? = { null }): Long = chain(error, core, 1, left)

    private fun chain(error: Throwable, core: Core, depth: Int, left: (Any) -> Long?): Long {
        val facts = facts(error.javaClass)
        val own = ended(error, facts, left) ?: if (facts.mayAnswer) answered(error, facts, core, left) else null
        if (own != null) return own
        val state = if (facts.isSql) (error.ask("getSQLState") as? String)?.takeIf { it.isNotEmpty() } else null
        if (state != null) return sqlState(state)?.let(::word) ?: LISTED
        if (facts.isMysql) ErrorsGen.mysql[error.ask("getErrorCode") as? Int]?.let { return word(it) }
        val listed = facts.listed
        if (listed != null && !facts.wraps) return typed(error, facts)
        val cause = error.cause
        val inner = if (cause == null || depth >= ErrorsGen.DEEPEST) UNKNOWN else chain(cause, core, depth + 1, left)
        return if (inner == UNKNOWN && listed != null) facts.outcome else inner
    }

    /** Outcome of an inner policy's end: its refusal, or its judgement of a failure. */
    private fun ended(error: Throwable, facts: Facts, left: (Any) -> Long?): Long? = when (error) {
        is RateLimited, is Throttled, is CoolingDown, is TargetsLimited -> Wire.outcome(2, 0, (error as TidegateException).retryIn)
        is Rejected -> Wire.CONFLICT // no evidence about the server
        is TidegateException -> left(error) ?: if (error.httpStatus == 504) Wire.TIMEOUT else Wire.PERMANENT
        else -> left(error) ?: if (facts.isGrpc) (error.cause as? TidegateException)?.let { ended(it, facts, left) } else null
    }

    private fun typed(error: Throwable, facts: Facts): Long {
        val connecting = error is SocketTimeoutException && facts.listed == "java.net.SocketTimeoutException" &&
            error.message?.contains("connect", ignoreCase = true) == true && error.message?.contains("reset") != true
        return if (connecting) Wire.NEVER_SENT else facts.outcome
    }

    private fun sqlState(state: String): String? = ErrorsGen.sqlStates[state] ?: ErrorsGen.sqlStates[state.take(2)]

    private fun word(name: String): Long = if (name == Outcome.PERMANENT) LISTED else Wire.outcome(Outcome.classes.indexOf(name), 0, null)

    /** Outcome of the response that an error carries: an AWS throttling code, an HTTP status, or a gRPC code. */
    private fun answered(error: Throwable, facts: Facts, core: Core, left: (Any) -> Long?): Long? {
        val isThrottled = error.ask(AWS)?.ask("errorCode") in ErrorsGen.throttling
        if (facts.isGrpc) return (error.ask("getStatus")?.ask("getCode")?.ask("value") as? Int)?.let { grpc(it, emptyList(), error, core, left) }
        val response = RESPONSES.firstNotNullOfOrNull { error.ask(it) }
        val status = status(error) ?: number(response?.ask("getStatus")) ?: number(response?.ask("code"))
        if (status == null) return if (isThrottled) core.classify(429, emptyList()) else null
        left(Marks.ofStatus(status))?.let { return it }
        val headers = HEADERS.firstNotNullOfOrNull { error.ask(it) ?: response?.ask(it) }
        return core.classify(if (isThrottled) 429 else status, pairs(headers))
    }

    /** Outcome of a status of gRPC. A refused connection has a status too, but nothing was sent then. */
    fun grpc(code: Int, headers: List<Pair<String, String>>, error: Throwable, core: Core, left: (Any) -> Long? = { null }): Long? {
        if (error.cause?.let { chain(it, core, 2, left) } == Wire.NEVER_SENT) return Wire.NEVER_SENT
        return when (val of = ErrorsGen.grpc.getOrNull(code)) {
            is Int -> core.classify(of, headers)
            // A concurrent change may be repeated, and the server may say when.
            Outcome.PERMANENT -> Wire.PERMANENT
            is String -> if (headers.isEmpty()) word(of) else Wire.withKind(core.classify(503, headers), Wire.kind(word(of)))
            else -> null
        }
    }

    /** Status of a failure that an error or an answer has. */
    fun status(of: Any): Int? = STATUSES.firstNotNullOfOrNull { number(of.ask(it)) }

    /** Status of a failure: a number, or an object with a number as its `value`. */
    private fun number(of: Any?): Int? = ((of as? Int) ?: (of?.ask("getValue") ?: of?.ask("value")) as? Int)?.takeIf { it in 400..599 }

    /** Headers as pairs. Retrofit and OkHttp have pairs, Spring a map (from 7 on a set of entries), Ktor entries. */
    private fun pairs(headers: Any?): List<Pair<String, String>> {
        if (headers is Iterable<*> && headers !is Map<*, *>) {
            return headers.mapNotNull { pair -> (pair as? Pair<*, *>)?.let { "${it.first}" to "${it.second}" } }
        }
        val entries = (headers as? Map<*, *>)?.entries ?: headers?.ask("headerSet") as? Set<*> ?: headers?.ask("entries") as? Set<*>
        return entries.orEmpty().flatMap { entry ->
            val (name, values) = entry as? Map.Entry<*, *> ?: return@flatMap emptyList()
            (values as? Iterable<*> ?: listOf(values)).map { "$name" to "$it" }
        }
    }

    /** Compared by name, because a runtime may lack the module `java.sql`. */
    private const val SQL = "java.sql.SQLException"
    private const val AWS = "awsErrorDetails"
    private val RESPONSES = listOf("getResponse", "response")
    private val STATUSES = listOf("code", "statusCode", "getStatusCode", "status", "getStatus", "getRawStatusCode")
    private val HEADERS = listOf("getResponseHeaders", "responseHeaders", "getHeaders", "headers")

    /** Result of a public method without arguments; null if there is none, or it throws. */
    fun Any.ask(method: String): Any? = try {
        if (method !in facts(javaClass).methods) null else open(javaClass).firstNotNullOfOrNull { reader(it, method) }?.invoke(this)
    } catch (@Suppress("TooGenericExceptionCaught") _: Throwable) {
        null
    }

    /** What the rule reads of a type, once: to look for ten methods that are absent takes 19 µs. Words only, so no class loader is kept. */
    private class Facts(type: Class<*>) {
        private val type = WeakReference(type)
        private val names = generateSequence(type) { it.superclass }.map { it.name }.toList()
        private val isPlatform = PLATFORM.any(type.name::startsWith)

        /** Names of the public methods without arguments. */
        val methods: Set<String> = open(type).flatMapTo(HashSet()) { of -> of.methods.filter { it.parameterCount == 0 }.map { it.name } }
        val isGrpc = type.name.startsWith("io.grpc.Status")
        val isSql = SQL in names
        val isMysql = isSql && MYSQL.any(type.name::startsWith)

        /** Name of the nearest class that core's table lists. */
        val listed = names.firstOrNull(ErrorsGen.types::containsKey)

        /** Outcome that the table gives that class; [UNKNOWN] if the table lists no class. */
        val outcome = listed?.let { word(ErrorsGen.types.getValue(it)) } ?: UNKNOWN

        /** Whether an error of that class is judged by its cause. */
        val wraps = listed in ErrorsGen.wraps

        /** Whether an error of this type may carry a response. Those of the platform carry none. */
        val mayAnswer = !isPlatform && (isGrpc || AWS in methods || (RESPONSES + STATUSES).any(methods::contains))

        fun isOf(other: Class<*>): Boolean = type.get() === other
    }

    private val PLATFORM = listOf("java.", "javax.", "kotlin.")
    private val MYSQL = listOf("com.mysql.", "org.mariadb.")
    private val facts = WeakHashMap<Class<*>, Facts>()

    /** The facts that were asked for last. When many threads fail at once, most of them fail with the same type and need no lock. */
    @Volatile private var last: Facts? = null

    private fun facts(type: Class<*>): Facts = last?.takeIf { it.isOf(type) }
        ?: synchronized(facts) { facts.getOrPut(type) { Facts(type) } }.also { last = it }

    private fun reader(of: Class<*>, method: String) = of.methods.firstOrNull { it.name == method && it.parameterCount == 0 }

    /** The public classes and interfaces of a type, the nearest first. */
    private fun open(type: Class<*>): Sequence<Class<*>> = generateSequence(type) { it.superclass }
        .flatMap { sequenceOf(it, *it.interfaces) }.filter { java.lang.reflect.Modifier.isPublic(it.modifiers) }
}

/**
 * Judgements of calls that made no retry because a surrounding call retries (semantics 1.6), by the delivered error or failed response and by
 * the call around. Each is kept as long as that object, and until that call has taken it. Other calls may have the same object: a value such
 * as `false`, or an exception that is an `object`.
 */
internal object Marks {
    /** The engine is named by its id: a judgement that nobody takes must not keep the engine. */
    private class Key(of: Any, queue: ReferenceQueue<Any>?, private val engine: Int, private val call: Long) : WeakReference<Any>(of, queue) {
        private val hash = 31 * System.identityHashCode(of) + call.hashCode()

        override fun hashCode() = hash

        override fun equals(other: Any?) = this === other ||
            other is Key && call == other.call && engine == other.engine && get()?.let { it === other.get() } == true
    }

    /** Largest number of judgements that are kept. Those of values that are never collected would become too many. */
    private const val MOST = 10_000

    private val gone = ReferenceQueue<Any>()
    private val all = object : LinkedHashMap<Key, Long>() {
        override fun removeEldestEntry(eldest: Map.Entry<Key, Long>) = size > MOST
    }

    /** Whether there has been a judgement. Until then nothing is looked up. */
    @Volatile private var some = false

    /** By the adapters: functions that return the part of an answer that all its forms share, or null for another client's object. */
    private val shared = CopyOnWriteArrayList<(Any) -> Any?>()

    /** Adds an adapter's function. */
    fun share(part: (Any) -> Any?) {
        shared.addIfAbsent(part)
    }

    /** Whether an adapter's client has made this object. */
    fun isAnswer(of: Any): Boolean = shared.any { it(of) != null }

    private val statuses = List(200) { Any() }

    /** Key for all answers of a status from 400 to 599. An error that a client makes of an answer may have nothing but the status. */
    fun ofStatus(status: Int): Any = statuses[status - 400]

    private fun shared(of: Any): Any = shared.firstNotNullOfOrNull { it(of) } ?: of

    /** Leaves a judgement with this object for the call of this level. */
    fun put(of: Any, outer: Scope, outcome: Long) {
        val key = outer.key { engine, call -> Key(shared(of), gone, engine.id, call) } ?: return
        synchronized(all) {
            some = true
            while (true) all.remove(gone.poll() ?: break)
            all[key] = outcome
        }
    }

    /** Whether there is a judgement for this call. */
    fun has(of: Any?, engine: Engine, call: Long): Boolean = some && of != null && synchronized(all) { Key(shared(of), null, engine.id, call) in all }

    /** The judgement for the call of this level, which it may still take. */
    fun peek(of: Any, outer: Scope?): Long? {
        if (!some) return null
        val key = outer?.innermost()?.key { engine, call -> Key(shared(of), null, engine.id, call) } ?: return null
        return synchronized(all) { all[key] }
    }

    /** Takes the judgement for this call. */
    fun take(of: Any?, engine: Engine, call: Long): Long? =
        if (!some || of == null) null else synchronized(all) { all.remove(Key(shared(of), null, engine.id, call)) }
}
