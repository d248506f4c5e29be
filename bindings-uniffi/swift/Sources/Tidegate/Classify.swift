import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// What became of an attempt, where the default does not know.
public struct Outcome: Sendable, Hashable {
    /// Whether to retry, whatever the class.
    public enum Opinion: UInt64, Sendable, Hashable {
        case retry = 1
        case doNot = 2
    }

    /// The class, or the name of a kind that the policy declares.
    public var kind: Kind
    /// Nil leaves it to the class.
    public var opinion: Opinion?
    /// How long the other side asked us to wait.
    public var retryAfter: Duration?

    public init(_ kind: Kind, opinion: Opinion? = nil, retryAfter: Duration? = nil) {
        self.kind = kind
        self.opinion = opinion
        self.retryAfter = retryAfter
    }
}

/// Told the value or the error of an attempt, answers what became of it, or nil for the default.
public typealias Classify = @Sendable (Result<any Sendable, any Error>) -> Outcome?

/// Failures that prove that nothing was sent.
private let unsent: Set<URLError.Code> = [
    .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .notConnectedToInternet, .internationalRoamingOff,
    .callIsActive, .dataNotAllowed,
]
/// Failures that may pass. Those of certificates do not. `unknown` is how Foundation on Linux says that a body broke off.
private let passing: Set<URLError.Code> = [
    .unknown,
    .timedOut, .networkConnectionLost, .badServerResponse, .secureConnectionFailed, .cannotLoadFromNetwork,
    .downloadDecodingFailedMidStream, .downloadDecodingFailedToComplete, .resourceUnavailable, .cannotParseResponse,
    .zeroByteResource,
]
private let unsentErrno: Set<Int32> = [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ENETDOWN]

/// The outcome of an error, at its place in a word.
func outcome(of error: any Error) -> UInt64 {
    switch error {
    case let error as Rejected:
        // An inner policy's refusal: retryable, and no evidence about the far side.
        let limited = error.cause == .rateLimited || error.cause == .throttled
        return limited ? word(.throttled, error.retryIn) : word(.conflict)
    case let error as any TidegateError: return error.httpStatus == 504 ? word(.transient) : word(.permanent)
    case is CancellationError: return word(.ignored)
    case let error as URLError:
        if unsent.contains(error.code) { return word(.neverSent) }
        if passing.contains(error.code) { return word(.transient) }
        return error.code == .cancelled ? word(.ignored) : word(.permanent)
    case let error as POSIXError:
        return word(unsentErrno.contains(error.code.rawValue) ? .neverSent : .transient)
    default: return word(.permanent)
    }
}

private func word(_ kind: Kind, _ retryAfter: Duration? = nil) -> UInt64 {
    Wire.outcome(Kind.numbers[kind] ?? 6, retryAfter: retryAfter)
}

extension Policy {
    /// The outcome of an attempt, at its place in a word.
    func judge(_ result: Result<any Sendable, any Error>, default known: UInt64? = nil) -> UInt64 {
        if let own = judged(result) { return own }
        if let known { return known }
        if case .failure(let error) = result { return outcome(of: error) }
        return 0
    }

    /// What the policy's `classify` says of an attempt, at its place in a word; nil where it says nothing that can be.
    func judged(_ result: Result<any Sendable, any Error>) -> UInt64? {
        guard let classify, let answer = classify(result) else { return nil }
        guard let kind = kinds[answer.kind] else {
            complain(answer.kind)
            return nil
        }
        return Wire.outcome(kind, opinion: answer.opinion?.rawValue ?? 0, retryAfter: answer.retryAfter)
    }

    /// Says once that an answer of the policy's `classify` is ignored: no callback can break a call.
    private func complain(_ kind: Kind) {
        guard complained.withLock({ $0.insert(kind).inserted }) else { return }
        let known = kinds.keys.map(\.rawValue).sorted().joined(separator: ", ")
        let text = "tidegate: classify of policy \"\(name)\" answered \"\(kind.rawValue)\", which is no class and no kind that "
            + "it declares, and is ignored; there are \(known)\n"
        FileHandle.standardError.write(Data(text.utf8))
    }
}
