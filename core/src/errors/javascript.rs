//! Errors of JavaScript, by their `name`, the name of their class, or their `code`. These names are all that a page, Node, Deno and Bun have in common.

use super::{Family, Rule, is, wraps};
use crate::outcome::Class::{Conflict, Ignored, NeverSent, Permanent, Timeout, Transient};

const fn family(name: &'static str, rules: &'static [Rule]) -> Family {
    Family { name, roots: "", rules }
}

/// The families that a page meets. The others are taught by the entries of the package for servers, so that no page loads them.
pub const IN_PAGES: &[&str] = &["the web platform", "axios", "openai and anthropic", "stripe"];

/// The families of JavaScript. Errors of the system (`ECONNRESET`) are in [`ERRNOS`](super::ERRNOS).
pub const JAVASCRIPT: &[Family] = &[
    family(
        "the web platform",
        &[is(Ignored, "AbortError"), is(Timeout, "TimeoutError"), is(Transient, "NetworkError")],
    ),
    family(
        "Node",
        &[
            is(NeverSent, "ENOTFOUND EAI_AGAIN EAI_FAIL EAI_NODATA EAI_NONAME ERR_SOCKET_CONNECTION_TIMEOUT"),
            is(
                Transient,
                "ERR_STREAM_PREMATURE_CLOSE ERR_SOCKET_CLOSED ERR_HTTP2_STREAM_ERROR ERR_HTTP2_SESSION_ERROR \
                 ERR_HTTP2_GOAWAY_SESSION ERR_HTTP2_STREAM_CANCEL HPE_INVALID_CONSTANT HPE_INVALID_EOF_STATE HPE_CLOSED_CONNECTION",
            ),
            is(Timeout, "ESOCKETTIMEDOUT ERR_HTTP_REQUEST_TIMEOUT"),
            is(Ignored, "ABORT_ERR"),
            is(
                Permanent,
                "CERT_HAS_EXPIRED DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_VERIFY_LEAF_SIGNATURE \
                 UNABLE_TO_GET_ISSUER_CERT_LOCALLY ERR_TLS_CERT_ALTNAME_INVALID ERR_INVALID_URL",
            ),
        ],
    ),
    family(
        "undici",
        &[
            is(NeverSent, "UND_ERR_CONNECT_TIMEOUT"),
            is(Transient, "UND_ERR_SOCKET UND_ERR_RES_CONTENT_LENGTH_MISMATCH UND_ERR_CLOSED"),
            is(Timeout, "UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT"),
            is(Ignored, "UND_ERR_ABORTED"),
        ],
    ),
    family("axios", &[is(Transient, "ERR_NETWORK"), is(Ignored, "CanceledError ERR_CANCELED")]),
    family("got", &[is(Ignored, "CancelError")]),
    family(
        "Deno and Bun",
        &[
            is(NeverSent, "ConnectionRefused FailedToOpenSocket"),
            is(
                Transient,
                "ConnectionReset ConnectionAborted ConnectionClosed BrokenPipe NotConnected UnexpectedEof",
            ),
            is(Timeout, "TimedOut Timeout"),
        ],
    ),
    family(
        "openai and anthropic",
        &[
            wraps(Timeout, "APIConnectionTimeoutError"),
            wraps(Transient, "APIConnectionError"),
            is(Ignored, "APIUserAbortError"),
        ],
    ),
    family("stripe", &[wraps(Transient, "StripeConnectionError")]),
    family(
        "ioredis and node-redis",
        &[
            is(NeverSent, "ConnectionTimeoutError ClusterAllFailedError"),
            is(
                Transient,
                "MaxRetriesPerRequestError SocketClosedUnexpectedlyError DisconnectsClientError CONNECTION_BROKEN NR_CLOSED",
            ),
            is(Timeout, "SocketTimeoutError"),
            is(Conflict, "WatchError"),
        ],
    ),
    family(
        "mysql2 and mysql",
        &[
            is(NeverSent, "ER_CON_COUNT_ERROR"),
            is(Transient, "PROTOCOL_CONNECTION_LOST ER_SERVER_SHUTDOWN"),
            is(Timeout, "PROTOCOL_SEQUENCE_TIMEOUT"),
            is(Conflict, "ER_LOCK_DEADLOCK ER_LOCK_WAIT_TIMEOUT"),
        ],
    ),
    family(
        "mongodb",
        &[
            is(NeverSent, "MongoServerSelectionError"),
            is(Transient, "MongoNetworkError"),
            is(Timeout, "MongoNetworkTimeoutError"),
        ],
    ),
    family(
        "sequelize",
        &[wraps(
            NeverSent,
            "SequelizeConnectionError SequelizeConnectionRefusedError SequelizeConnectionAcquireTimeoutError",
        )],
    ),
    family("Elasticsearch", &[is(Transient, "ConnectionError"), is(NeverSent, "NoLivingConnectionsError")]),
];
