//! Exceptions of Python, by the top-level module and the name of their class. Subclasses mean the same unless they are listed themselves.

use super::{Family, Rule, is, wraps};
use crate::outcome::Class::{Conflict, Ignored, NeverSent, Permanent, Timeout, Transient};

const fn family(name: &'static str, roots: &'static str, rules: &'static [Rule]) -> Family {
    Family { name, roots, rules }
}

/// The families of Python.
pub const PYTHON: &[Family] = &[
    family(
        "Python itself",
        "builtins",
        &[
            is(NeverSent, "ConnectionRefusedError"),
            is(
                Transient,
                "ConnectionError ConnectionResetError ConnectionAbortedError BrokenPipeError BlockingIOError InterruptedError",
            ),
            is(Timeout, "TimeoutError"),
            is(
                Permanent,
                "FileNotFoundError FileExistsError PermissionError IsADirectoryError NotADirectoryError ProcessLookupError ChildProcessError",
            ),
        ],
    ),
    family("socket", "socket", &[is(NeverSent, "gaierror herror"), is(Timeout, "timeout")]),
    family("asyncio", "asyncio", &[is(Transient, "IncompleteReadError"), is(Timeout, "TimeoutError")]),
    family("concurrent.futures", "concurrent", &[is(Timeout, "TimeoutError"), is(Ignored, "CancelledError")]),
    family(
        "ssl",
        "ssl",
        &[
            is(
                Transient,
                "SSLEOFError SSLZeroReturnError SSLSyscallError SSLWantReadError SSLWantWriteError",
            ),
            is(Permanent, "SSLError"),
        ],
    ),
    family(
        "http.client and urllib",
        "http urllib",
        &[
            is(Transient, "IncompleteRead BadStatusLine"),
            is(Permanent, "HTTPException"),
            wraps(Transient, "URLError"),
            is(Transient, "ContentTooShortError"),
        ],
    ),
    family(
        "smtplib",
        "smtplib",
        &[is(Transient, "SMTPServerDisconnected"), wraps(NeverSent, "SMTPConnectError")],
    ),
    family(
        "httpx and httpx2",
        "httpx httpx2",
        &[
            is(NeverSent, "ConnectError ConnectTimeout PoolTimeout ProxyError"),
            is(Timeout, "TimeoutException"),
            is(Transient, "TransportError"),
            is(
                Permanent,
                "InvalidURL UnsupportedProtocol LocalProtocolError TooManyRedirects DecodingError CookieConflict StreamError",
            ),
        ],
    ),
    family(
        "httpcore",
        "httpcore httpcore2",
        &[
            is(NeverSent, "ConnectError ConnectTimeout PoolTimeout ProxyError ConnectionNotAvailable"),
            is(Timeout, "TimeoutException"),
            is(Transient, "NetworkError ProtocolError"),
            is(Permanent, "LocalProtocolError UnsupportedProtocol"),
        ],
    ),
    family(
        "requests",
        "requests",
        &[
            is(NeverSent, "ConnectTimeout"),
            wraps(NeverSent, "ProxyError"),
            is(Timeout, "Timeout"),
            wraps(Transient, "ConnectionError ChunkedEncodingError RetryError"),
            wraps(Permanent, "SSLError"),
            is(
                Permanent,
                "InvalidURL MissingSchema InvalidSchema InvalidHeader InvalidJSONError TooManyRedirects ContentDecodingError \
                 StreamConsumedError UnrewindableBodyError URLRequired",
            ),
        ],
    ),
    family(
        "urllib3",
        "urllib3",
        &[
            is(NeverSent, "NewConnectionError ConnectTimeoutError EmptyPoolError"),
            wraps(NeverSent, "ProxyError"),
            is(Timeout, "TimeoutError"),
            wraps(Transient, "MaxRetryError ProtocolError"),
            is(Transient, "ResponseError"),
            wraps(Permanent, "SSLError"),
            is(
                Permanent,
                "LocationValueError LocationParseError InvalidHeader DecodeError ClosedPoolError FullPoolError HostChangedError \
                 UnrewindableBodyError TimeoutStateError ResponseNotChunked BodyNotHttplibCompatible",
            ),
        ],
    ),
    family(
        "aiohttp",
        "aiohttp",
        &[
            is(NeverSent, "ClientConnectorError ConnectionTimeoutError"),
            is(Timeout, "ServerTimeoutError"),
            is(Transient, "ClientConnectionError ClientPayloadError"),
            wraps(Permanent, "ClientSSLError"),
            wraps(Permanent, "ClientConnectorSSLError ClientConnectorCertificateError"),
            is(
                Permanent,
                "InvalidURL NonHttpUrlClientError RedirectClientError TooManyRedirects ContentTypeError ServerFingerprintMismatch",
            ),
        ],
    ),
    family(
        "botocore",
        "botocore",
        &[
            is(NeverSent, "EndpointConnectionError ConnectTimeoutError ProxyConnectionError"),
            is(Timeout, "ReadTimeoutError"),
            wraps(Transient, "HTTPClientError"),
            is(Transient, "ConnectionClosedError IncompleteReadError ResponseStreamingError"),
            wraps(Permanent, "SSLError"),
        ],
    ),
    family(
        "openai, anthropic, groq and cerebras",
        "openai anthropic groq cerebras",
        &[wraps(Timeout, "APITimeoutError"), wraps(Transient, "APIConnectionError")],
    ),
    family("stripe", "stripe", &[wraps(Transient, "APIConnectionError")]),
    family(
        "elasticsearch and opensearch",
        "elastic_transport elasticsearch opensearchpy",
        &[
            is(Timeout, "ConnectionTimeout"),
            wraps(Transient, "ConnectionError"),
            is(Permanent, "TlsError SSLError SerializationError"),
        ],
    ),
    family(
        "redis and valkey",
        "redis valkey",
        &[
            wraps(Transient, "ConnectionError"),
            wraps(Timeout, "TimeoutError"),
            is(
                Transient,
                "BusyLoadingError TryAgainError ClusterDownError MasterDownError MasterNotFoundError ReadOnlyError",
            ),
            is(NeverSent, "MaxConnectionsError"),
            is(Conflict, "WatchError LockError"),
            is(Permanent, "AuthenticationError AuthorizationError AuthenticationWrongNumberOfArgsError"),
        ],
    ),
    family(
        "psycopg and psycopg2",
        "psycopg psycopg2",
        &[is(NeverSent, "ConnectionTimeout"), wraps(Transient, "OperationalError")],
    ),
    family(
        "psycopg_pool",
        "psycopg_pool",
        &[is(NeverSent, "PoolTimeout TooManyRequests"), is(Permanent, "PoolClosed")],
    ),
    family(
        "asyncpg",
        "asyncpg",
        &[wraps(Transient, "PostgresConnectionError"), is(Permanent, "InterfaceError InternalClientError")],
    ),
    family(
        "SQLAlchemy",
        "sqlalchemy",
        &[is(NeverSent, "TimeoutError"), wraps(Permanent, "DBAPIError"), is(Conflict, "StaleDataError")],
    ),
    family(
        "pymongo",
        "pymongo",
        &[
            is(NeverSent, "ServerSelectionTimeoutError WaitQueueTimeoutError"),
            is(Timeout, "NetworkTimeout ExecutionTimeout"),
            is(Transient, "ConnectionFailure"),
        ],
    ),
    family(
        "websockets",
        "websockets",
        &[is(Transient, "ConnectionClosedError"), is(Permanent, "ConnectionClosedOK")],
    ),
    family(
        "anyio and trio",
        "anyio trio",
        &[is(Transient, "BrokenResourceError IncompleteRead EndOfStream"), is(Timeout, "TooSlowError")],
    ),
    family(
        "kombu, amqp and pika",
        "kombu amqp pika",
        &[
            wraps(
                Transient,
                "OperationalError RecoverableConnectionError ConnectionError AMQPConnectionError StreamLostError",
            ),
            is(Permanent, "AuthenticationError ProbableAuthenticationError"),
        ],
    ),
    family(
        "google-api-core and google-auth",
        "google",
        &[wraps(Timeout, "RetryError"), is(Transient, "TransportError")],
    ),
];
