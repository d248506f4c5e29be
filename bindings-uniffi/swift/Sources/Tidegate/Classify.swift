import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Result of judging an attempt.
public struct Outcome: Sendable, Hashable {
    /// Whether to retry, whatever the class.
    public enum Opinion: UInt64, Sendable, Hashable {
        case retry = 1
        case doNot = 2
    }

    /// Class, or the name of a kind that the policy declares.
    public var kind: Kind
    /// Whether to retry, whatever the class; nil leaves it to the class.
    public var opinion: Opinion?
    /// Wait that the server asked for.
    public var retryAfter: Duration?

    public init(_ kind: Kind, opinion: Opinion? = nil, retryAfter: Duration? = nil) {
        self.kind = kind
        self.opinion = opinion
        self.retryAfter = retryAfter
    }
}

/// Judges the value or the error of an attempt; nil for the default.
public typealias Classify = @Sendable (Result<any Sendable, any Error>) -> Outcome?

/// Outcome of an error, at its bit position in a word, by the rule for errors of plain functions (semantics 1.5). A status that an error
/// carries is judged like a response under the policy.
func outcome(of error: any Error, under policy: Policy? = nil) -> UInt64 {
    known(error, policy) ?? word(.permanent)
}

/// Judgement of an error, or of its causes, by core's table; nil if the table does not know them.
func known(_ error: any Error, _ policy: Policy?) -> UInt64? {
    var cause: (any Error)? = error
    for _ in 0..<ErrorsGen.deepest {
        guard let each = cause else { return nil }
        if let own = own(each, policy) { return own }
        cause = (each as NSError).userInfo[NSUnderlyingErrorKey] as? any Error
    }
    return nil
}

/// Judgement of one error without its causes.
private func own(_ error: any Error, _ policy: Policy?) -> UInt64? {
    switch error {
    case let error as Rejected:
        // An inner policy's refusal: retryable, and no evidence about the server.
        let limited = error.cause == .rateLimited || error.cause == .throttled
        return limited ? word(.throttled, error.retryIn) : word(.conflict)
    case let error as any TidegateError: return error.httpStatus == 504 ? word(.transient) : word(.permanent)
    case is CancellationError: return word(.ignored)
    case let error as URLError: return word(ErrorsGen.urlErrors[error.code.rawValue] ?? .permanent)
    case let error as POSIXError: return word(ErrorsGen.errnos[error.code.rawValue] ?? .permanent)
    default: break
    }
    let native = error as NSError
    if native.domain == NSURLErrorDomain { return word(ErrorsGen.urlErrors[native.code] ?? .permanent) }
    if native.domain == NSPOSIXErrorDomain { return word(ErrorsGen.errnos[Int32(clamping: native.code)] ?? .permanent) }
    guard let policy else { return nil }
    for child in Mirror(reflecting: error).children {
        let response = child.value as? HTTPURLResponse
        let named = ["status", "statusCode"].contains(child.label) ? child.value as? Int : nil
        guard let status = response?.statusCode ?? named, 400..<600 ~= status else { continue }
        return policy.classified(status, response?.allHeaderFields ?? [:])
    }
    return nil
}

private func word(_ kind: Kind, _ retryAfter: Duration? = nil) -> UInt64 {
    Wire.outcome(Kind.numbers[kind] ?? 6, retryAfter: retryAfter)
}

extension Policy {
    /// Outcome of an attempt, at its bit position in a word.
    func judge(_ result: Result<any Sendable, any Error>, default known: UInt64? = nil) -> UInt64 {
        if let own = judged(result) { return own }
        if let known { return known }
        if case .failure(let error) = result { return outcome(of: error, under: self) }
        return 0
    }

    /// Judgement of an attempt by the policy's `classify`, at its bit position in a word; nil if it returns nil or an unknown kind.
    func judged(_ result: Result<any Sendable, any Error>) -> UInt64? {
        guard let classify, let answer = classify(result) else { return nil }
        guard let kind = kinds[answer.kind] else {
            complain(answer.kind)
            return nil
        }
        return Wire.outcome(kind, opinion: answer.opinion?.rawValue ?? 0, retryAfter: answer.retryAfter)
    }

    /// Reports once that a result of the policy's `classify` is ignored: no callback can break a call.
    private func complain(_ kind: Kind) {
        guard complained.withLock({ $0.insert(kind).inserted }) else { return }
        let known = kinds.keys.map(\.rawValue).sorted().joined(separator: ", ")
        let text = "tidegate: classify of policy \"\(name)\" answered \"\(kind.rawValue)\", which is no class and no kind that "
            + "it declares, and is ignored; there are \(known)\n"
        FileHandle.standardError.write(Data(text.utf8))
    }
}
