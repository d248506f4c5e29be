//! Throwables of the JVM, by their package and the name of their class. Subclasses mean the same unless they are listed themselves.

use super::{Family, Rule, is, wraps};
use crate::outcome::Class::{Conflict, Ignored, NeverSent, Permanent, Timeout, Transient};

const fn family(name: &'static str, roots: &'static str, rules: &'static [Rule]) -> Family {
    Family { name, roots, rules }
}

/// The families of the JVM.
pub const JVM: &[Family] = &[
    family(
        "java.io",
        "java.io",
        &[
            wraps(Transient, "IOException"),
            is(Timeout, "InterruptedIOException"),
            is(
                Permanent,
                "FileNotFoundException ObjectStreamException UnsupportedEncodingException UTFDataFormatException CharConversionException",
            ),
        ],
    ),
    family(
        "java.nio",
        "java.nio.file java.nio.charset",
        &[is(Permanent, "FileSystemException CharacterCodingException")],
    ),
    family(
        "java.nio.channels",
        "java.nio.channels",
        &[is(NeverSent, "UnresolvedAddressException"), is(Ignored, "ClosedByInterruptException")],
    ),
    family(
        "java.net",
        "java.net",
        &[
            is(
                NeverSent,
                "ConnectException UnknownHostException NoRouteToHostException PortUnreachableException",
            ),
            is(Timeout, "SocketTimeoutException"),
            is(
                Permanent,
                "ProtocolException MalformedURLException UnknownServiceException BindException HttpRetryException",
            ),
        ],
    ),
    family(
        "java.net.http",
        "java.net.http",
        &[is(NeverSent, "HttpConnectTimeoutException"), is(Timeout, "HttpTimeoutException")],
    ),
    family(
        "javax.net.ssl",
        "javax.net.ssl",
        &[is(Permanent, "SSLHandshakeException SSLPeerUnverifiedException SSLKeyException")],
    ),
    family(
        "java.util",
        "java.util.concurrent java.util.zip",
        &[
            is(Timeout, "TimeoutException"),
            is(Ignored, "CancellationException"),
            is(Permanent, "ZipException"),
        ],
    ),
    family("java.lang", "java.lang", &[is(Ignored, "InterruptedException")]),
    family(
        "JDBC",
        "java.sql",
        &[
            wraps(NeverSent, "SQLTransientConnectionException"),
            is(Transient, "SQLTransientException SQLRecoverableException"),
            is(Timeout, "SQLTimeoutException"),
            is(Conflict, "SQLTransactionRollbackException"),
        ],
    ),
    family("kotlinx.coroutines", "kotlinx.coroutines", &[is(Timeout, "TimeoutCancellationException")]),
    family(
        "Ktor",
        "io.ktor.client.network.sockets io.ktor.client.plugins",
        &[
            is(NeverSent, "ConnectTimeoutException"),
            is(Timeout, "SocketTimeoutException HttpRequestTimeoutException"),
        ],
    ),
    family(
        "OkHttp",
        "okhttp3.internal.http2",
        &[is(Transient, "StreamResetException ConnectionShutdownException")],
    ),
    family(
        "Apache HttpClient",
        "org.apache.http org.apache.http.conn org.apache.hc.core5.http org.apache.hc.client5.http",
        &[
            is(
                NeverSent,
                "ConnectTimeoutException HttpHostConnectException ConnectionPoolTimeoutException ConnectionRequestTimeoutException",
            ),
            is(Transient, "NoHttpResponseException ConnectionClosedException"),
        ],
    ),
    family("Netty", "io.netty.channel", &[is(NeverSent, "ConnectTimeoutException")]),
    family("Netty's timeouts", "io.netty.handler.timeout", &[is(Timeout, "TimeoutException")]),
    family("Reactor Netty", "reactor.netty.http.client", &[is(Transient, "PrematureCloseException")]),
    family(
        "Spring's clients",
        "org.springframework.web.client org.springframework.web.reactive.function.client",
        &[wraps(Transient, "ResourceAccessException WebClientRequestException")],
    ),
    family(
        "Spring's data access",
        "org.springframework.dao org.springframework.jdbc",
        &[
            wraps(NeverSent, "CannotGetJdbcConnectionException"),
            wraps(
                Transient,
                "TransientDataAccessException RecoverableDataAccessException DataAccessResourceFailureException",
            ),
            is(Timeout, "QueryTimeoutException"),
            is(Conflict, "ConcurrencyFailureException"),
        ],
    ),
    family(
        "JPA and Hibernate",
        "jakarta.persistence javax.persistence org.hibernate",
        &[
            is(Timeout, "QueryTimeoutException"),
            is(
                Conflict,
                "OptimisticLockException PessimisticLockException LockTimeoutException StaleStateException",
            ),
        ],
    ),
    family("Feign", "feign", &[wraps(Transient, "RetryableException")]),
    family(
        "AWS SDK",
        "software.amazon.awssdk.core.exception",
        &[is(Timeout, "ApiCallTimeoutException ApiCallAttemptTimeoutException")],
    ),
    family(
        "Jedis",
        "redis.clients.jedis.exceptions",
        &[
            wraps(Transient, "JedisConnectionException"),
            is(NeverSent, "JedisExhaustedPoolException"),
            is(Transient, "JedisClusterException"),
        ],
    ),
    family(
        "Lettuce",
        "io.lettuce.core",
        &[
            wraps(NeverSent, "RedisConnectionException"),
            is(Timeout, "RedisCommandTimeoutException"),
            is(Transient, "RedisLoadingException RedisBusyException"),
        ],
    ),
    family(
        "MongoDB",
        "com.mongodb",
        &[
            is(NeverSent, "MongoTimeoutException MongoSocketOpenException"),
            is(Timeout, "MongoSocketReadTimeoutException"),
            is(Transient, "MongoSocketException"),
        ],
    ),
    family(
        "parsers",
        "com.fasterxml.jackson.core tools.jackson.core com.google.gson.stream com.google.gson",
        &[is(
            Permanent,
            "JsonProcessingException JacksonException MalformedJsonException JsonParseException",
        )],
    ),
];
