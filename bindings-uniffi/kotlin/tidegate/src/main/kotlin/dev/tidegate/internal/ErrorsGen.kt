// Generated from core/src/errors by `cargo xtask generate`; do not edit.

package dev.tidegate.internal

/** What errors mean (semantics 1.5). */
@Suppress("LargeClass")
internal object ErrorsGen {
    /** How many errors of a chain of causes are looked at. */
    const val DEEPEST: Int = 8

    /** The note of an error that is permanent because nothing is known of it. */
    const val NOTE: String =
        "not retried: {error} is not listed as an error that may pass; to repeat it: {on}, or classify"

    /** The classes of throwables by their full names. */
    val types: Map<String, String> = mapOf(
        "java.io.IOException" to "transient",
        "java.io.InterruptedIOException" to "timeout",
        "java.io.FileNotFoundException" to "permanent",
        "java.io.ObjectStreamException" to "permanent",
        "java.io.UnsupportedEncodingException" to "permanent",
        "java.io.UTFDataFormatException" to "permanent",
        "java.io.CharConversionException" to "permanent",
        "java.nio.file.FileSystemException" to "permanent",
        "java.nio.charset.FileSystemException" to "permanent",
        "java.nio.file.CharacterCodingException" to "permanent",
        "java.nio.charset.CharacterCodingException" to "permanent",
        "java.nio.channels.UnresolvedAddressException" to "never_sent",
        "java.nio.channels.ClosedByInterruptException" to "ignored",
        "java.net.ConnectException" to "never_sent",
        "java.net.UnknownHostException" to "never_sent",
        "java.net.NoRouteToHostException" to "never_sent",
        "java.net.PortUnreachableException" to "never_sent",
        "java.net.SocketTimeoutException" to "timeout",
        "java.net.ProtocolException" to "permanent",
        "java.net.MalformedURLException" to "permanent",
        "java.net.UnknownServiceException" to "permanent",
        "java.net.BindException" to "permanent",
        "java.net.HttpRetryException" to "permanent",
        "java.net.http.HttpConnectTimeoutException" to "never_sent",
        "java.net.http.HttpTimeoutException" to "timeout",
        "javax.net.ssl.SSLHandshakeException" to "permanent",
        "javax.net.ssl.SSLPeerUnverifiedException" to "permanent",
        "javax.net.ssl.SSLKeyException" to "permanent",
        "java.util.concurrent.TimeoutException" to "timeout",
        "java.util.zip.TimeoutException" to "timeout",
        "java.util.concurrent.CancellationException" to "ignored",
        "java.util.zip.CancellationException" to "ignored",
        "java.util.concurrent.ZipException" to "permanent",
        "java.util.zip.ZipException" to "permanent",
        "java.lang.InterruptedException" to "ignored",
        "java.sql.SQLTransientConnectionException" to "never_sent",
        "java.sql.SQLTransientException" to "transient",
        "java.sql.SQLRecoverableException" to "transient",
        "java.sql.SQLTimeoutException" to "timeout",
        "java.sql.SQLTransactionRollbackException" to "conflict",
        "kotlinx.coroutines.TimeoutCancellationException" to "timeout",
        "io.ktor.client.network.sockets.ConnectTimeoutException" to "never_sent",
        "io.ktor.client.plugins.ConnectTimeoutException" to "never_sent",
        "io.ktor.client.network.sockets.SocketTimeoutException" to "timeout",
        "io.ktor.client.plugins.SocketTimeoutException" to "timeout",
        "io.ktor.client.network.sockets.HttpRequestTimeoutException" to "timeout",
        "io.ktor.client.plugins.HttpRequestTimeoutException" to "timeout",
        "okhttp3.internal.http2.StreamResetException" to "transient",
        "okhttp3.internal.http2.ConnectionShutdownException" to "transient",
        "org.apache.http.ConnectTimeoutException" to "never_sent",
        "org.apache.http.conn.ConnectTimeoutException" to "never_sent",
        "org.apache.hc.core5.http.ConnectTimeoutException" to "never_sent",
        "org.apache.hc.client5.http.ConnectTimeoutException" to "never_sent",
        "org.apache.http.HttpHostConnectException" to "never_sent",
        "org.apache.http.conn.HttpHostConnectException" to "never_sent",
        "org.apache.hc.core5.http.HttpHostConnectException" to "never_sent",
        "org.apache.hc.client5.http.HttpHostConnectException" to "never_sent",
        "org.apache.http.ConnectionPoolTimeoutException" to "never_sent",
        "org.apache.http.conn.ConnectionPoolTimeoutException" to "never_sent",
        "org.apache.hc.core5.http.ConnectionPoolTimeoutException" to "never_sent",
        "org.apache.hc.client5.http.ConnectionPoolTimeoutException" to "never_sent",
        "org.apache.http.ConnectionRequestTimeoutException" to "never_sent",
        "org.apache.http.conn.ConnectionRequestTimeoutException" to "never_sent",
        "org.apache.hc.core5.http.ConnectionRequestTimeoutException" to "never_sent",
        "org.apache.hc.client5.http.ConnectionRequestTimeoutException" to "never_sent",
        "org.apache.http.NoHttpResponseException" to "transient",
        "org.apache.http.conn.NoHttpResponseException" to "transient",
        "org.apache.hc.core5.http.NoHttpResponseException" to "transient",
        "org.apache.hc.client5.http.NoHttpResponseException" to "transient",
        "org.apache.http.ConnectionClosedException" to "transient",
        "org.apache.http.conn.ConnectionClosedException" to "transient",
        "org.apache.hc.core5.http.ConnectionClosedException" to "transient",
        "org.apache.hc.client5.http.ConnectionClosedException" to "transient",
        "io.netty.channel.ConnectTimeoutException" to "never_sent",
        "io.netty.handler.timeout.TimeoutException" to "timeout",
        "reactor.netty.http.client.PrematureCloseException" to "transient",
        "org.springframework.web.client.ResourceAccessException" to "transient",
        "org.springframework.web.reactive.function.client.ResourceAccessException" to "transient",
        "org.springframework.web.client.WebClientRequestException" to "transient",
        "org.springframework.web.reactive.function.client.WebClientRequestException" to "transient",
        "org.springframework.dao.CannotGetJdbcConnectionException" to "never_sent",
        "org.springframework.jdbc.CannotGetJdbcConnectionException" to "never_sent",
        "org.springframework.dao.TransientDataAccessException" to "transient",
        "org.springframework.jdbc.TransientDataAccessException" to "transient",
        "org.springframework.dao.RecoverableDataAccessException" to "transient",
        "org.springframework.jdbc.RecoverableDataAccessException" to "transient",
        "org.springframework.dao.DataAccessResourceFailureException" to "transient",
        "org.springframework.jdbc.DataAccessResourceFailureException" to "transient",
        "org.springframework.dao.QueryTimeoutException" to "timeout",
        "org.springframework.jdbc.QueryTimeoutException" to "timeout",
        "org.springframework.dao.ConcurrencyFailureException" to "conflict",
        "org.springframework.jdbc.ConcurrencyFailureException" to "conflict",
        "jakarta.persistence.QueryTimeoutException" to "timeout",
        "javax.persistence.QueryTimeoutException" to "timeout",
        "org.hibernate.QueryTimeoutException" to "timeout",
        "jakarta.persistence.OptimisticLockException" to "conflict",
        "javax.persistence.OptimisticLockException" to "conflict",
        "org.hibernate.OptimisticLockException" to "conflict",
        "jakarta.persistence.PessimisticLockException" to "conflict",
        "javax.persistence.PessimisticLockException" to "conflict",
        "org.hibernate.PessimisticLockException" to "conflict",
        "jakarta.persistence.LockTimeoutException" to "conflict",
        "javax.persistence.LockTimeoutException" to "conflict",
        "org.hibernate.LockTimeoutException" to "conflict",
        "jakarta.persistence.StaleStateException" to "conflict",
        "javax.persistence.StaleStateException" to "conflict",
        "org.hibernate.StaleStateException" to "conflict",
        "feign.RetryableException" to "transient",
        "software.amazon.awssdk.core.exception.ApiCallTimeoutException" to "timeout",
        "software.amazon.awssdk.core.exception.ApiCallAttemptTimeoutException" to "timeout",
        "redis.clients.jedis.exceptions.JedisConnectionException" to "transient",
        "redis.clients.jedis.exceptions.JedisExhaustedPoolException" to "never_sent",
        "redis.clients.jedis.exceptions.JedisClusterException" to "transient",
        "io.lettuce.core.RedisConnectionException" to "never_sent",
        "io.lettuce.core.RedisCommandTimeoutException" to "timeout",
        "io.lettuce.core.RedisLoadingException" to "transient",
        "io.lettuce.core.RedisBusyException" to "transient",
        "com.mongodb.MongoTimeoutException" to "never_sent",
        "com.mongodb.MongoSocketOpenException" to "never_sent",
        "com.mongodb.MongoSocketReadTimeoutException" to "timeout",
        "com.mongodb.MongoSocketException" to "transient",
        "com.fasterxml.jackson.core.JsonProcessingException" to "permanent",
        "tools.jackson.core.JsonProcessingException" to "permanent",
        "com.google.gson.stream.JsonProcessingException" to "permanent",
        "com.google.gson.JsonProcessingException" to "permanent",
        "com.fasterxml.jackson.core.JacksonException" to "permanent",
        "tools.jackson.core.JacksonException" to "permanent",
        "com.google.gson.stream.JacksonException" to "permanent",
        "com.google.gson.JacksonException" to "permanent",
        "com.fasterxml.jackson.core.MalformedJsonException" to "permanent",
        "tools.jackson.core.MalformedJsonException" to "permanent",
        "com.google.gson.stream.MalformedJsonException" to "permanent",
        "com.google.gson.MalformedJsonException" to "permanent",
        "com.fasterxml.jackson.core.JsonParseException" to "permanent",
        "tools.jackson.core.JsonParseException" to "permanent",
        "com.google.gson.stream.JsonParseException" to "permanent",
        "com.google.gson.JsonParseException" to "permanent",
    )

    /** Those of which a known cause decides. */
    val wraps: Set<String> = setOf(
        "java.io.IOException",
        "java.sql.SQLTransientConnectionException",
        "org.springframework.web.client.ResourceAccessException",
        "org.springframework.web.reactive.function.client.ResourceAccessException",
        "org.springframework.web.client.WebClientRequestException",
        "org.springframework.web.reactive.function.client.WebClientRequestException",
        "org.springframework.dao.CannotGetJdbcConnectionException",
        "org.springframework.jdbc.CannotGetJdbcConnectionException",
        "org.springframework.dao.TransientDataAccessException",
        "org.springframework.jdbc.TransientDataAccessException",
        "org.springframework.dao.RecoverableDataAccessException",
        "org.springframework.jdbc.RecoverableDataAccessException",
        "org.springframework.dao.DataAccessResourceFailureException",
        "org.springframework.jdbc.DataAccessResourceFailureException",
        "feign.RetryableException",
        "redis.clients.jedis.exceptions.JedisConnectionException",
        "io.lettuce.core.RedisConnectionException",
    )

    /** SQLSTATEs, or their first two characters. */
    val sqlStates: Map<String, String> = mapOf(
        "08001" to "never_sent",
        "08004" to "never_sent",
        "53300" to "never_sent",
        "57P03" to "never_sent",
        "08" to "transient",
        "53" to "transient",
        "57P01" to "transient",
        "57P02" to "transient",
        "58" to "transient",
        "HYT00" to "timeout",
        "HYT01" to "timeout",
        "40" to "conflict",
        "55P03" to "conflict",
    )

    /** Error numbers of MySQL. */
    val mysql: Map<Int, String> = mapOf(
        1040 to "never_sent",
        1203 to "never_sent",
        2002 to "never_sent",
        2003 to "never_sent",
        2005 to "never_sent",
        1053 to "transient",
        1077 to "transient",
        1078 to "transient",
        1079 to "transient",
        1080 to "transient",
        2006 to "transient",
        2013 to "transient",
        2055 to "transient",
        1205 to "conflict",
        1213 to "conflict",
    )

    /** Codes by which AWS services ask for less load: they are judged as a 429. */
    val throttling: Set<String> = setOf(
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    )

    /** What codes of gRPC mean, in the order of their numbers: an HTTP status (an Int), or a class (a String). */
    val grpc: List<Any> = listOf(
        "ok", // OK
        "ignored", // CANCELLED
        500, // UNKNOWN
        400, // INVALID_ARGUMENT
        504, // DEADLINE_EXCEEDED
        404, // NOT_FOUND
        409, // ALREADY_EXISTS
        403, // PERMISSION_DENIED
        429, // RESOURCE_EXHAUSTED
        400, // FAILED_PRECONDITION
        "conflict", // ABORTED
        400, // OUT_OF_RANGE
        "permanent", // UNIMPLEMENTED
        500, // INTERNAL
        503, // UNAVAILABLE
        500, // DATA_LOSS
        401, // UNAUTHENTICATED
    )
}
