import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
internal import TidegateNative

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

/// Judgement of an attempt.
struct Judged: Sendable {
    /// Outcome at its bit position in the word of an event.
    var outcome: UInt64
    /// Whether the error is permanent for want of a better rule, so that the note says how to repeat it (semantics 1.5.15, 1.5.16).
    var isUnlisted = false
    /// Whether `classify` has judged it.
    var isOwn = false
    /// Status that the error was judged by.
    var status: Int?
}

/// Outcome of an error, at its bit position in a word, by the rule for errors of plain functions (semantics 1.5). A status that an error
/// carries is judged like a response under the policy.
func outcome(of error: any Error, under policy: Policy? = nil) -> UInt64 {
    known(error, policy)?.outcome ?? classOutcome(.permanent)
}

/// Whether an error is of one of these types, or of a subclass of one.
private func isNamed(_ error: any Error, _ types: [any Error.Type]) -> Bool {
    func isOf<E: Error>(_: E.Type) -> Bool { error is E }
    return types.contains { isOf($0) }
}

/// Judgement of an error, or of its causes, by core's table; nil if the table does not know them.
func known(_ error: any Error, _ policy: Policy?) -> Judged? { known(error, policy, 0) }

private func known(_ error: any Error, _ policy: Policy?, _ above: Int, inGroup: Bool = false) -> Judged? {
    guard above < ErrorsGen.deepest else { return nil }
    if let own = own(error, policy) { return own }
    let info = (error as? any CustomNSError)?.errorUserInfo ?? bridged(error)?.userInfo
    let cause = info?[NSUnderlyingErrorKey] as? any Error
    if let found = cause.flatMap({ known($0, policy, above + 1, inGroup: inGroup) }) { return found }
    // A group may be repeated if each of its first members may (semantics 1.5.14).
    guard !inGroup, let members = info?[groupKey] as? [any Error], !members.isEmpty else { return nil }
    let outcomes = members.prefix(groupMembers).map { known($0, policy, above + 1, inGroup: true) }
    let mayPass = outcomes.allSatisfy { judged in
        judged.map { Wire.retryable.contains(policy?.base(of: $0.outcome) ?? Wire.kind($0.outcome)) } ?? false
    }
    return mayPass ? outcomes[0] : nil
}

/// `NSMultipleUnderlyingErrorsKey`, which older systems do not declare.
private let groupKey = "NSMultipleUnderlyingErrorsKey"
/// Members of a group that are looked at.
private let groupMembers = 8

/// The error as an `NSError`. On Linux nil for errors that are classes of Swift: Foundation takes their objects for an `NSError` there, which
/// ends the process.
private func bridged(_ error: any Error) -> NSError? {
    #if canImport(FoundationNetworking)
    if type(of: error) is AnyObject.Type, !(type(of: error) is NSError.Type) { return nil }
    #endif
    return error as NSError
}

/// Judgement of one error without its causes.
private func own(_ error: any Error, _ policy: Policy?) -> Judged? {
    switch error {
    case let error as Rejected:
        // An inner policy's refusal: retryable, and no evidence about the server.
        let limited = error.httpStatus == 429
        return Judged(outcome: limited ? classOutcome(.throttled, error.retryIn) : classOutcome(.conflict))
    case let error as any TidegateError:
        return Judged(outcome: classOutcome(error.httpStatus == 504 ? .timeout : .permanent))
    case is CancellationError: return Judged(outcome: classOutcome(.ignored))
    case let error as URLError: return listed(ErrorsGen.urlErrors[error.code.rawValue])
    case let error as POSIXError: return listed(ErrorsGen.errnos[error.code.rawValue])
    default: break
    }
    if let native = bridged(error) {
        if native.domain == NSURLErrorDomain { return listed(ErrorsGen.urlErrors[native.code]) }
        if native.domain == NSPOSIXErrorDomain { return listed(ErrorsGen.errnos[Int32(clamping: native.code)]) }
    }
    guard let policy else { return nil }
    // A class has the properties of the classes above it, too.
    let mirrors = sequence(first: Mirror(reflecting: error), next: \.superclassMirror)
    for child in mirrors.lazy.flatMap(\.children) {
        let response = child.value as? HTTPURLResponse
        let isNamed = ["status", "statusCode"].contains(child.label)
        let named = isNamed ? (child.value as? any BinaryInteger).map { Int(clamping: $0) } : nil
        guard let status = response?.statusCode ?? named, 400..<600 ~= status else { continue }
        return Judged(outcome: policy.classified(status, response?.allHeaderFields ?? [:]), status: status)
    }
    return nil
}

/// Judgement of a number that the table lists, or does not list.
private func listed(_ kind: Kind?) -> Judged {
    Judged(outcome: classOutcome(kind ?? .permanent), isUnlisted: kind == nil)
}

private func classOutcome(_ kind: Kind, _ retryAfter: Duration? = nil) -> UInt64 {
    Wire.outcome(Kind.numbers[kind] ?? 6, retryAfter: retryAfter)
}

extension Policy {
    /// Outcome of an HTTP answer under this policy: by its status, by the policy's statuses, and by the fields that say when to try again, such
    /// as `Retry-After`. For a `classify` of one's own, under an HTTP client other than `URLSession`. A status below 400 is `.ok`.
    ///
    /// Policies of one name are one, so a second one with the same settings tells `classify` the outcome:
    ///
    /// ```swift
    /// let retry = Retry(statuses: [429, 503])
    /// let rules = try Policy("pages", retry: retry)
    /// let pages = try Policy(
    ///     "pages", retry: retry,
    ///     classify: { result in
    ///         guard case .success(let page as Page) = result else { return nil }
    ///         return rules.outcomeOf(status: page.status, headers: page.headers)
    ///     }
    /// )
    /// ```
    public func outcomeOf(status: Int, headers: [String: String] = [:]) -> Outcome {
        outcomeOf(status: status, headers: headers.lazy.map { ($0.key, $0.value) })
    }

    /// Outcome of an HTTP answer under this policy, for fields of which several may have one name; see `outcomeOf(status:headers:)`.
    public func outcomeOf(status: Int, headers: some Sequence<(String, String)>) -> Outcome {
        guard status >= 400 else { return Outcome(.ok) }
        let word = classified(status, headers: headers.map { Header(name: $0.0, value: $0.1) })
        let opinion = Outcome.Opinion(rawValue: word >> 16 & 3)
        return Outcome(kind(of: word), opinion: opinion, retryAfter: Wire.retryAfter(word))
    }

    /// Class or kind of an outcome.
    func kind(of outcome: UInt64) -> Kind {
        let number = Wire.kind(outcome)
        if number < Kind.classes.count { return Kind.classes[Int(number)] }
        return kinds.first { $0.value == number }?.key ?? .permanent
    }

    /// Judges an attempt of a call: by the judgement that a nested call has left, then as below.
    func judge(
        _ result: Result<any Kept, any Error>, of call: UInt64, on names: [any Error.Type],
        known: (@Sendable (any Sendable) -> UInt64?)? = nil
    ) -> Judged {
        var found = engine.takeMark(plain(result), call)
        if found == nil, let known, case .success(let value) = result { found = known(value.plain) }
        let judged = judge(plain(result), known: found, on: names) { engine.takeMark(.value(RefusedStatus(status: $0)), call) != nil }
        if Wire.kind(judged.outcome) != 0, case .success(let value) = result { (value.plain as? any Streaming)?.body.leave() }
        return judged
    }

    /// Judges an attempt: by what is known of it, then by `on`, then by `classify` (semantics 1.5.17, 1.5.18).
    func judge(
        _ result: Result<any Sendable, any Error>, known: UInt64? = nil, on names: [any Error.Type] = [],
        isRefused: (_ status: Int) -> Bool = { _ in false }
    ) -> Judged {
        if let own = judged(result) { return Judged(outcome: own, isOwn: true) }
        guard case .failure(let error) = result else { return Judged(outcome: known ?? 0) }
        var found =
            known.map { Judged(outcome: $0) } ?? Tidegate.known(error, self)
            ?? Judged(outcome: classOutcome(.permanent), isUnlisted: true)
        guard isNamed(error, names) else {
            if let status = found.status, isRefused(status) {
                found.outcome = Wire.withOpinion(found.outcome, Outcome.Opinion.doNot.rawValue)
            }
            return found
        }
        guard Wire.retryable.contains(base(of: found.outcome)) else { return Judged(outcome: classOutcome(.transient)) }
        return Judged(outcome: Wire.withOpinion(found.outcome, 0))
    }

    /// Number of the class of an outcome, whose kind the policy may have declared.
    func base(of outcome: UInt64) -> UInt64 {
        let kind = Wire.kind(outcome)
        return kind < 9 ? kind : shared.bases[kind] ?? kind
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
        Warnings.write(
            "classify of policy \"\(name)\" answered \"\(kind.rawValue)\", which is no class and no kind that it declares, and is "
                + "ignored; there are \(known)")
    }
}
