// Generated from core/src/errors by `cargo xtask generate`; do not edit.

/** What errors mean (semantics 1.5): names of errors and their codes, by class. */
export const NAMES: Readonly<Record<string, string>> = {
  transient:
    "NetworkError ERR_NETWORK ECONNRESET ECONNABORTED EPIPE ENOTCONN ENETRESET ESHUTDOWN EAGAIN EWOULDBLOCK EINTR EBUSY ENOBUFS",
  timeout: "TimeoutError ETIMEDOUT",
  never_sent: "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN EADDRNOTAVAIL",
  ignored: "AbortError CanceledError ERR_CANCELED APIUserAbortError",
};

/** Names of errors of which a known cause decides, else this class. */
export const WRAPS: Readonly<Record<string, string>> = {
  transient: "APIConnectionError StripeConnectionError",
  timeout: "APIConnectionTimeoutError",
};

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
