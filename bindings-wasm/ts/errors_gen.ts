// Generated from core/src/errors by `cargo xtask generate`; do not edit.

/** What errors mean (semantics 1.5): names of errors and their codes, by class. */
export const NAMES: Readonly<Record<string, string>> = {
  transient:
    "NetworkError ERR_STREAM_PREMATURE_CLOSE ERR_SOCKET_CLOSED ERR_HTTP2_STREAM_ERROR ERR_HTTP2_SESSION_ERROR ERR_HTTP2_GOAWAY_SESSION ERR_HTTP2_STREAM_CANCEL HPE_INVALID_CONSTANT HPE_INVALID_EOF_STATE HPE_CLOSED_CONNECTION UND_ERR_SOCKET UND_ERR_RES_CONTENT_LENGTH_MISMATCH UND_ERR_CLOSED ERR_NETWORK ConnectionReset ConnectionAborted ConnectionClosed BrokenPipe NotConnected UnexpectedEof MaxRetriesPerRequestError SocketClosedUnexpectedlyError DisconnectsClientError CONNECTION_BROKEN NR_CLOSED PROTOCOL_CONNECTION_LOST ER_SERVER_SHUTDOWN MongoNetworkError ConnectionError ECONNRESET ECONNABORTED EPIPE ENOTCONN ENETRESET ESHUTDOWN EAGAIN EWOULDBLOCK EINTR EBUSY ENOBUFS",
  timeout:
    "TimeoutError ESOCKETTIMEDOUT ERR_HTTP_REQUEST_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT TimedOut Timeout SocketTimeoutError PROTOCOL_SEQUENCE_TIMEOUT MongoNetworkTimeoutError ETIMEDOUT",
  never_sent:
    "ENOTFOUND EAI_AGAIN EAI_FAIL EAI_NODATA EAI_NONAME ERR_SOCKET_CONNECTION_TIMEOUT UND_ERR_CONNECT_TIMEOUT ConnectionRefused FailedToOpenSocket ConnectionTimeoutError ClusterAllFailedError ER_CON_COUNT_ERROR MongoServerSelectionError NoLivingConnectionsError ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN EADDRNOTAVAIL",
  conflict:
    "WatchError ER_LOCK_DEADLOCK ER_LOCK_WAIT_TIMEOUT SQLITE_BUSY SQLITE_BUSY_RECOVERY SQLITE_BUSY_SNAPSHOT SQLITE_BUSY_TIMEOUT SQLITE_LOCKED SQLITE_LOCKED_SHAREDCACHE",
  permanent:
    "CERT_HAS_EXPIRED DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_VERIFY_LEAF_SIGNATURE UNABLE_TO_GET_ISSUER_CERT_LOCALLY ERR_TLS_CERT_ALTNAME_INVALID ERR_INVALID_URL",
  ignored: "AbortError ABORT_ERR UND_ERR_ABORTED CanceledError ERR_CANCELED CancelError APIUserAbortError",
};

/** Names of errors of which a known cause decides, else this class. */
export const WRAPS: Readonly<Record<string, string>> = {
  transient: "APIConnectionError StripeConnectionError",
  timeout: "APIConnectionTimeoutError",
  never_sent:
    "SequelizeConnectionError SequelizeConnectionRefusedError SequelizeConnectionAcquireTimeoutError",
};

/** SQLSTATEs, or their first two characters. */
export const SQLSTATES: Readonly<Record<string, string>> = {
  never_sent: "08001 08004 53300 57P03",
  transient: "08 53 57P01 57P02 58",
  timeout: "HYT00 HYT01",
  conflict: "40 55P03",
};

/** Codes by which AWS services ask for less load. */
export const THROTTLING =
  "BandwidthLimitExceeded EC2ThrottledException LimitExceededException PriorRequestNotComplete ProvisionedThroughputExceededException RequestLimitExceeded RequestThrottled RequestThrottledException SlowDown ThrottledException Throttling ThrottlingException TooManyRequestsException TransactionInProgressException";

/** What codes of gRPC mean, in the order of their numbers: an HTTP status, or a class. */
export const GRPC = "ok ignored 500 400 504 404 409 403 429 400 conflict 400 permanent 500 503 500 401";

/** Where a status is found, and the headers that belong to it. */
export const STATUS_PATHS =
  "status status_code statusCode http_status code response.status response.status_code response.statusCode $metadata.httpStatusCode response.ResponseMetadata.HTTPStatusCode";
export const HEADER_PATHS =
  "headers response.headers $response.headers response.ResponseMetadata.HTTPHeaders";

/** How many errors of a chain of causes are looked at. */
export const DEEPEST = 8;

/** The note of an error that is permanent because nothing is known of it. */
export const NOTE =
  "not retried: {error} is not listed as an error that may pass; to repeat it: {on}, or classify";
