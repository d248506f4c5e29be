import Foundation
import Testing

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Chains of errors that every language judges alike (`tests/vectors/errors`, semantics 1.5).
@Suite struct ErrorVectorsTests {
    private struct Plain: CustomNSError {
        let cause: (any Error)?
        var errorUserInfo: [String: Any] { ErrorVectorsTests.info(cause) }
    }

    /// An error with a status, as those of HTTP clients.
    private struct Answered<Status: Sendable>: CustomNSError {
        let statusCode: Status
        let cause: (any Error)?
        var errorUserInfo: [String: Any] { ErrorVectorsTests.info(cause) }
    }

    /// An error with a response, whose headers count too.
    private struct Responded: CustomNSError {
        let response: HTTPURLResponse
        let cause: (any Error)?
        var errorUserInfo: [String: Any] { ErrorVectorsTests.info(cause) }
    }

    private static func info(_ cause: (any Error)?) -> [String: Any] { cause.map { [NSUnderlyingErrorKey: $0] } ?? [:] }

    private static let errnos: [String: Int32] = [
        "EACCES": EACCES, "EADDRNOTAVAIL": EADDRNOTAVAIL, "EAGAIN": EAGAIN, "EBUSY": EBUSY, "ECONNABORTED": ECONNABORTED,
        "ECONNREFUSED": ECONNREFUSED, "ECONNRESET": ECONNRESET, "EHOSTDOWN": EHOSTDOWN, "EHOSTUNREACH": EHOSTUNREACH, "EINTR": EINTR,
        "EINVAL": EINVAL, "ENETDOWN": ENETDOWN, "ENETRESET": ENETRESET, "ENETUNREACH": ENETUNREACH, "ENOBUFS": ENOBUFS, "ENOENT": ENOENT,
        "ENOSPC": ENOSPC, "ENOTCONN": ENOTCONN, "EPERM": EPERM, "EPIPE": EPIPE, "ESHUTDOWN": ESHUTDOWN, "ETIMEDOUT": ETIMEDOUT,
        "EWOULDBLOCK": EWOULDBLOCK,
    ]

    private static let typed: [String: URLError.Code] = [
        "never_sent": .cannotConnectToHost, "timeout": .timedOut, "transient": .networkConnectionLost, "permanent": .badURL,
    ]

    /// An error of Tidegate, as an inner policy throws it.
    private static func ours(_ code: String, _ cause: (any Error)?) throws -> any Error {
        let details = Details(message: code, reason: nil, retryIn: nil, retryAt: nil, policy: "inner", route: "r", origin: .none)
        switch code {
        case "attempt_timeout": return AttemptTimeout(details: details, lastError: cause)
        case "deadline_exceeded": return DeadlineExceeded(details: details, lastError: cause)
        case "call_lost": return CallLost(details: details, lastError: cause)
        case "cost_above_burst": return CostAboveBurst(details: details, lastError: cause)
        default: return Rejected(cause: try #require(Rejected.Cause(rawValue: code)), details: details, lastError: cause)
        }
    }

    private static func error(_ node: [String: Any], _ cause: (any Error)?) throws -> any Error {
        if let code = node["ours"] as? String { return try ours(code, cause) }
        if let name = node["errno"] as? String {
            return NSError(domain: NSPOSIXErrorDomain, code: Int(try #require(errnos[name], "\(name)")), userInfo: info(cause))
        }
        if node["type"] as? String == "ignored" { return CancellationError() }
        if let name = node["type"] as? String {
            return URLError(try #require(typed[name], "\(name)"), userInfo: info(cause))
        }
        if let wait = node["retry_after"] as? Int, let status = node["status"] as? Int {
            let url = try #require(URL(string: "http://localhost/"))
            let headers = ["Retry-After": String(wait)]
            let response = HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: headers)
            return Responded(response: try #require(response), cause: cause)
        }
        if let status = node["status"] { return answered(status, cause) }
        return Plain(cause: cause)
    }

    /// An error whose status is what JSON has: a whole number, another number, a Boolean, a word or nothing.
    private static func answered(_ status: Any, _ cause: (any Error)?) -> any Error {
        if let word = status as? String { return Answered(statusCode: word, cause: cause) }
        guard let number = status as? NSNumber else { return Answered(statusCode: Int?.none, cause: cause) }
        if String(cString: number.objCType) == "c" { return Answered(statusCode: number.boolValue, cause: cause) }
        let value = number.doubleValue
        return value == value.rounded() ? Answered(statusCode: Int(value), cause: cause) : Answered(statusCode: value, cause: cause)
    }

    @Test func chainsOfErrorsAreJudgedByOneRule() throws {
        let engine = Engine(seed: 7)
        let policies = [
            "default": try Policy("default", preset: .http, engine: engine),
            "listed": try Policy("listed", preset: .http, retry: Retry(statuses: [500, 429]), engine: engine),
        ]
        let file = try #require(try VectorTests.load("errors").first)
        let cases = try #require(file["cases"] as? [[String: Any]]).filter { ($0["hosts"] as? [String])?.contains("swift") == true }
        for each in cases {
            let policy = try #require(policies[each["policy"] as? String ?? ""])
            var top: (any Error)?
            for node in try #require(each["chain"] as? [[String: Any]]).reversed() { top = try Self.error(node, top) }
            let judged = known(try #require(top), policy) ?? Judged(outcome: outcome(of: Broken()), isUnlisted: true)
            #expect(judged.outcome == VectorTests.number(each["word"]), "\(each)")
            #expect(judged.isUnlisted == (each["note"] as? Bool), "\(each)")
        }
        #expect(cases.count > 150)
    }
}
