// Generated from core/src/errors by `cargo xtask generate`; do not edit.

/** Names and codes of errors that servers meet. */
export const NAMES: Readonly<Record<string, string>> = {
  transient:
    "ERR_STREAM_PREMATURE_CLOSE ERR_SOCKET_CLOSED ERR_HTTP2_STREAM_ERROR ERR_HTTP2_SESSION_ERROR ERR_HTTP2_GOAWAY_SESSION ERR_HTTP2_STREAM_CANCEL HPE_INVALID_CONSTANT HPE_INVALID_EOF_STATE HPE_CLOSED_CONNECTION UND_ERR_SOCKET UND_ERR_RES_CONTENT_LENGTH_MISMATCH UND_ERR_CLOSED ConnectionReset ConnectionAborted ConnectionClosed BrokenPipe NotConnected UnexpectedEof MaxRetriesPerRequestError SocketClosedUnexpectedlyError DisconnectsClientError CONNECTION_BROKEN NR_CLOSED PROTOCOL_CONNECTION_LOST ER_SERVER_SHUTDOWN MongoNetworkError ConnectionError",
  timeout:
    "ESOCKETTIMEDOUT ERR_HTTP_REQUEST_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT TimedOut Timeout SocketTimeoutError PROTOCOL_SEQUENCE_TIMEOUT MongoNetworkTimeoutError",
  never_sent:
    "ENOTFOUND EAI_AGAIN EAI_FAIL EAI_NODATA EAI_NONAME ERR_SOCKET_CONNECTION_TIMEOUT UND_ERR_CONNECT_TIMEOUT ConnectionRefused FailedToOpenSocket ConnectionTimeoutError ClusterAllFailedError ER_CON_COUNT_ERROR MongoServerSelectionError NoLivingConnectionsError",
  conflict:
    "WatchError ER_LOCK_DEADLOCK ER_LOCK_WAIT_TIMEOUT SQLITE_BUSY SQLITE_BUSY_RECOVERY SQLITE_BUSY_SNAPSHOT SQLITE_BUSY_TIMEOUT SQLITE_LOCKED SQLITE_LOCKED_SHAREDCACHE",
  permanent:
    "CERT_HAS_EXPIRED DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_VERIFY_LEAF_SIGNATURE UNABLE_TO_GET_ISSUER_CERT_LOCALLY ERR_TLS_CERT_ALTNAME_INVALID ERR_INVALID_URL",
  ignored: "ABORT_ERR UND_ERR_ABORTED CancelError",
};

/** Those of which a known cause decides. */
export const WRAPS: Readonly<Record<string, string>> = {
  never_sent:
    "SequelizeConnectionError SequelizeConnectionRefusedError SequelizeConnectionAcquireTimeoutError",
};

/** SQLSTATEs, or their first two characters. */
export const SQLSTATES: Readonly<Record<string, string>> = {
  transient: "08 53 57P01 57P02 58",
  timeout: "HYT00 HYT01",
  never_sent: "08001 08004 53300 57P03",
  conflict: "40 55P03",
};

/** Codes by which AWS services ask for less load. */
export const THROTTLING =
  "BandwidthLimitExceeded EC2ThrottledException LimitExceededException PriorRequestNotComplete ProvisionedThroughputExceededException RequestLimitExceeded RequestThrottled RequestThrottledException SlowDown ThrottledException Throttling ThrottlingException TooManyRequestsException TransactionInProgressException";

/** What codes of gRPC mean, in the order of their numbers: an HTTP status, or a class. */
export const GRPC = "ok ignored 500 400 504 404 409 403 429 400 conflict 400 permanent 500 503 500 401";
