package dev.tidegate.internal

import dev.tidegate.Core
import dev.tidegate.Outcome
import dev.tidegate.Rejected
import dev.tidegate.RateLimited
import dev.tidegate.Throttled
import dev.tidegate.TidegateException
import java.lang.ref.ReferenceQueue
import java.lang.ref.WeakReference
import java.net.SocketTimeoutException

/** What an error of a plain function means (semantics 1.5), by core's table. Outcomes are at their places in a word. */
internal object Judged {
    /** No step says anything: the error is permanent, and its report says so. */
    const val UNKNOWN = -2L

    /** The outcome of [error], or [UNKNOWN]. What is thrown by looking at it counts as absent. */
    fun of(error: Throwable, core: Core): Long = chain(error, core, 1)

    private fun chain(error: Throwable, core: Core, depth: Int): Long {
        val own = ended(error) ?: answered(error, core)
        if (own != null) return own
        val sql = SQL in generateSequence<Class<*>>(error.javaClass) { it.superclass }.map { it.name }
        val state = if (sql) (error.ask("getSQLState") as? String)?.takeIf { it.isNotEmpty() } else null
        if (state != null && sqlState(state) == null) return Wire.PERMANENT
        val listed = generateSequence<Class<*>>(error.javaClass) { it.superclass }.map { it.name }.firstOrNull(ErrorsGen.types::containsKey)
        if (listed != null && listed !in ErrorsGen.wraps) return typed(error, listed)
        if (listed == null && state != null) return word(sqlState(state)!!)
        if (listed == null && sql && isMysql(error)) ErrorsGen.mysql[error.ask("getErrorCode") as? Int]?.let { return word(it) }
        val cause = error.cause
        val inner = if (cause == null || depth >= ErrorsGen.DEEPEST) UNKNOWN else chain(cause, core, depth + 1)
        return if (inner == UNKNOWN && listed != null) word(ErrorsGen.types.getValue(listed)) else inner
    }

    /** The end of an inner policy: its refusal, or what it would have done with a failure. */
    private fun ended(error: Throwable): Long? = when (error) {
        is RateLimited, is Throttled -> Wire.outcome(2, 0, (error as TidegateException).retryIn)
        is Rejected -> Wire.CONFLICT // no evidence about the far side
        is TidegateException -> if (error.httpStatus == 504) Wire.TRANSIENT else Wire.PERMANENT
        else -> Marks.take(error)
    }

    private fun typed(error: Throwable, listed: String): Long {
        val connecting = error is SocketTimeoutException && listed == "java.net.SocketTimeoutException" &&
            error.message?.contains("connect", ignoreCase = true) == true && error.message?.contains("reset") != true
        return if (connecting) Wire.NEVER_SENT else word(ErrorsGen.types.getValue(listed))
    }

    private fun isMysql(error: Throwable) = error.javaClass.name.let { it.startsWith("com.mysql.") || it.startsWith("org.mariadb.") }

    private fun sqlState(state: String): String? = ErrorsGen.sqlStates[state] ?: ErrorsGen.sqlStates[state.take(2)]

    private fun word(name: String): Long = Wire.outcome(Outcome.classes.indexOf(name), 0, null)

    /** The outcome of the answer that an error carries: an AWS throttling code, a status of HTTP, or a code of gRPC. */
    private fun answered(error: Throwable, core: Core): Long? {
        val name = error.javaClass.name
        if (name.startsWith("java.") || name.startsWith("javax.") || name.startsWith("kotlin.")) return null // they carry none
        error.ask("awsErrorDetails")?.ask("errorCode")?.let { if (it in ErrorsGen.throttling) return core.classify(429, emptyList()) }
        if (name.startsWith("io.grpc.Status")) {
            return when (val of = (error.ask("getStatus")?.ask("getCode")?.ask("value") as? Int)?.let(ErrorsGen.grpc::getOrNull)) {
                is Int -> core.classify(of, emptyList())
                is String -> word(of)
                else -> null
            }
        }
        val response = error.ask("getResponse") ?: error.ask("response")
        val status = STATUSES.firstNotNullOfOrNull { number(error.ask(it)) } ?: number(response?.ask("getStatus")) ?: number(response?.ask("code"))
        if (status == null) return null
        val headers = HEADERS.firstNotNullOfOrNull { error.ask(it) ?: response?.ask(it) }
        return core.classify(status, pairs(headers))
    }

    /** A status that says that something failed: a number, or an object that has one as its `value`. */
    private fun number(of: Any?): Int? = ((of as? Int) ?: (of?.ask("getValue") ?: of?.ask("value")) as? Int)?.takeIf { it in 400..599 }

    /** Retrofit and OkHttp have pairs, Spring a map (from 7 on a set of entries), Ktor entries. */
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

    /** By name: a runtime may have been made without the module `java.sql`. */
    private const val SQL = "java.sql.SQLException"
    private val STATUSES = listOf("code", "statusCode", "getStatusCode", "status", "getStatus", "getRawStatusCode")
    private val HEADERS = listOf("getResponseHeaders", "responseHeaders", "getHeaders", "headers")

    /** What a public method without arguments answers; null where there is none, or it throws. Not kept: it would keep class loaders. */
    private fun Any.ask(method: String): Any? = try {
        val open = generateSequence<Class<*>>(javaClass) { it.superclass }.flatMap { sequenceOf(it, *it.interfaces) }
            .filter { java.lang.reflect.Modifier.isPublic(it.modifiers) }
        open.firstNotNullOfOrNull { of -> of.methods.firstOrNull { it.name == method && it.parameterCount == 0 } }?.invoke(this)
    } catch (@Suppress("TooGenericExceptionCaught") _: Throwable) {
        null
    }
}

/**
 * The judgements of calls that made no retry because a call around them retries (semantics 1.6), by what they delivered: an error or a
 * failed answer. Kept as long as that is, and until the call around has taken its judgement.
 */
internal object Marks {
    private class Key(of: Any, queue: ReferenceQueue<Any>?) : WeakReference<Any>(of, queue) {
        private val hash = System.identityHashCode(of)

        override fun hashCode() = hash

        override fun equals(other: Any?) = this === other || other is Key && get()?.let { it === other.get() } == true
    }

    private val gone = ReferenceQueue<Any>()
    private val all = HashMap<Key, Long>()

    /** Has there been one? Until then nothing is looked up. */
    @Volatile private var some = false

    fun put(of: Any, outcome: Long): Unit = synchronized(all) {
        some = true
        while (true) all.remove(gone.poll() ?: break)
        all[Key(of, gone)] = outcome
    }

    fun has(of: Any?): Boolean = some && of != null && synchronized(all) { Key(of, null) in all }

    fun take(of: Any?): Long? = if (!some || of == null) null else synchronized(all) { all.remove(Key(of, null)) }
}
