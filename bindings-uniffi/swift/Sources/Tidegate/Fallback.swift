/// Selects the errors that run a fallback. A cancellation never does.
public typealias FallbackOn = @Sendable (any Error) -> Bool

extension Policy {
    /// Runs an operation, and `fallback` if the call fails. The fallback receives the final error and runs outside the policy. It does not
    /// run after a cancellation. Its use is counted in metrics and reported as an event.
    ///
    /// - Parameters:
    ///   - on: Errors that run the fallback. If nil: refusals, calls that ran out of time, and failures that may pass, as in every
    ///     language. Other errors may be bugs, which a fallback would hide; they run it only if `classify` has judged them.
    ///   - fallback: Result for the caller in place of the error. Its own error is thrown to the caller as it is.
    public func run<T: Sendable>(
        _ options: CallOptions = CallOptions(), on: FallbackOn? = nil,
        fallback: @Sendable (any Error) async throws -> T,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        try await ended(options, on: on, fallback: fallback, operation).delivered(by: engine)
    }

    /// Runs an operation, and `fallback` if the call fails. Returns the report too; `replaced` keeps the error that the fallback replaced.
    public func ended<T: Sendable>(
        _ options: CallOptions = CallOptions(), on: FallbackOn? = nil,
        fallback: @Sendable (any Error) async throws -> T,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<T> {
        let ended = await ended(options, operation)
        guard case .failure(let error) = ended.result, !Task.isCancelled, ended.report.reason != .cancelled,
            on?(error) ?? fallsBack(error, ended.judged)
        else { return ended }
        let result: Result<T, any Error>
        do { result = .success(try await fallback(error)) } catch { result = .failure(error) }
        var worked = false
        if case .success = result { worked = true }
        noteFallback(options.route, worked)
        return Ended(result: result, report: ended.report, replaced: error, call: ended.call)
    }

    /// Whether a fallback replaces this error, if the caller has not selected the errors itself. Core decides.
    private func fallsBack(_ error: any Error, _ judged: Judged?) -> Bool {
        if let ours = error as? any TidegateError, !(error is AttemptTimeout) {
            return ours.reason.map { asked($0, failure: nil, judged: false) } ?? false
        }
        let judged = judged ?? judge(.failure(error))
        return asked(.attempts, failure: judged.outcome >> 11 & 31, judged: judged.isOwn)
    }

    private func asked(_ verdict: Verdict, failure kind: UInt64?, judged: Bool) -> Bool {
        let place = UInt8(Verdict.allCases.firstIndex(of: verdict) ?? 0)
        return engine.native.fallsBack(policy: number, verdict: place, failure: kind.map(UInt8.init), judged: judged)
    }
}
