// Generated from core/src/errors by `cargo xtask generate`; do not edit.

import Foundation

/// What errors mean (semantics 1.5).
enum ErrorsGen {
    /// How many errors of a chain of causes are looked at.
    static let deepest = 8

    /// The note of an error that is permanent because nothing is known of it.
    static let note =
        "not retried: {error} is not listed as an error that may pass; to repeat it: {on}, or classify"

    /// Codes of `URLError`; any other is permanent.
    static let urlErrors: [Int: Kind] = [
        -1: .transient, // unknown
        -999: .ignored, // cancelled
        -1001: .timeout, // timedOut
        -1003: .neverSent, // cannotFindHost
        -1004: .neverSent, // cannotConnectToHost
        -1005: .transient, // networkConnectionLost
        -1006: .neverSent, // dnsLookupFailed
        -1008: .transient, // resourceUnavailable
        -1009: .neverSent, // notConnectedToInternet
        -1011: .transient, // badServerResponse
        -1014: .transient, // zeroByteResource
        -1017: .transient, // cannotParseResponse
        -1018: .neverSent, // internationalRoamingOff
        -1019: .neverSent, // callIsActive
        -1020: .neverSent, // dataNotAllowed
        -1200: .transient, // secureConnectionFailed
        -2000: .transient, // cannotLoadFromNetwork
        -3006: .transient, // downloadDecodingFailedMidStream
        -3007: .transient, // downloadDecodingFailedToComplete
    ]

    /// Errors of the operating system; any other is permanent.
    static let errnos: [Int32: Kind] = [
        ECONNREFUSED: .neverSent,
        EHOSTUNREACH: .neverSent,
        ENETUNREACH: .neverSent,
        ENETDOWN: .neverSent,
        EHOSTDOWN: .neverSent,
        EADDRNOTAVAIL: .neverSent,
        ECONNRESET: .transient,
        ECONNABORTED: .transient,
        EPIPE: .transient,
        ENOTCONN: .transient,
        ENETRESET: .transient,
        ESHUTDOWN: .transient,
        EAGAIN: .transient,
        EINTR: .transient,
        EBUSY: .transient,
        ENOBUFS: .transient,
        ETIMEDOUT: .timeout,
    ]

    /// What codes of gRPC mean: an HTTP status.
    static let grpcStatuses: [Int: Int] = [
        2: 500, // UNKNOWN
        3: 400, // INVALID_ARGUMENT
        4: 504, // DEADLINE_EXCEEDED
        5: 404, // NOT_FOUND
        6: 409, // ALREADY_EXISTS
        7: 403, // PERMISSION_DENIED
        8: 429, // RESOURCE_EXHAUSTED
        9: 400, // FAILED_PRECONDITION
        11: 400, // OUT_OF_RANGE
        13: 500, // INTERNAL
        14: 503, // UNAVAILABLE
        15: 500, // DATA_LOSS
        16: 401, // UNAUTHENTICATED
    ]

    /// What codes of gRPC mean that have no such status.
    static let grpcKinds: [Int: Kind] = [
        0: .ok, // OK
        1: .ignored, // CANCELLED
        10: .conflict, // ABORTED
        12: .permanent, // UNIMPLEMENTED
    ]
}
