/// Why a call of `run(throwing:)` failed: a closed list, with the call's report.
public enum CallError<Own: Error>: Error {
    /// The operation's own error, as it was thrown in the deciding attempt.
    case operation(Own, Report)
    /// The policy refused the call, or stopped its last attempt.
    case policy(any TidegateError, Report)
    /// The caller's task was cancelled.
    case cancelled(Report)
    /// The call's options are wrong, such as a weight that no limit counts; no call was made.
    case invalid(PolicyError, Report)

    /// Report of the call.
    public var report: Report {
        switch self {
        case .operation(_, let report), .policy(_, let report), .cancelled(let report), .invalid(_, let report): report
        }
    }
}

extension Policy {
    /// Makes a call with typed throws, for an operation that throws one type of error, and callers who want to handle every case.
    ///
    /// ```swift
    /// do {
    ///     order = try await payments.run(throwing: ShopError.self) { _ throws(ShopError) in try await shop.buy(7) }
    /// } catch {
    ///     switch error {
    ///     case .operation(let own, _): show(own)
    ///     case .policy(let ours, _): retry(in: ours.retryIn)
    ///     case .invalid(let mistakes, _): show(mistakes)
    ///     case .cancelled: break
    ///     }
    /// }
    /// ```
    ///
    /// Plain `run` throws the operation's errors as they are, so callers that know nothing of policies keep working.
    ///
    /// Write `catch { switch error { … } }`: several compilers up to Swift 6.4 crash on `catch let error as …` if the type is known
    /// (swiftlang/swift issues 89577 and 90582). For the same reason nothing else here has typed throws.
    ///
    /// - Throws: `CallError`: the operation's error, Tidegate's, or the caller's cancellation.
    public func run<T: Sendable, Own: Error>(
        throwing own: Own.Type, _ options: CallOptions = CallOptions(),
        _ operation: @escaping @Sendable (Attempt) async throws(Own) -> T
    ) async throws(CallError<Own>) -> T {
        let ended = await ended(options) { attempt in try await operation(attempt) }
        switch ended.result {
        case .success(let value): return value
        case .failure(let error):
            // The origin of an error decides, not its type: an inner policy's error is the operation's.
            if !ended.isOurs, let own = error as? Own { throw .operation(own, ended.report) }
            if let ours = error as? any TidegateError { throw .policy(ours, ended.report) }
            if let mistakes = error as? PolicyError { throw .invalid(mistakes, ended.report) }
            throw .cancelled(ended.report)
        }
    }
}
