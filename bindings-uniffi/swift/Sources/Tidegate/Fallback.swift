/// Which errors a fallback stands in for, where its caller chooses them. Never for a cancellation.
public typealias FallbackOn = @Sendable (any Error) -> Bool

extension Policy {
    /// The same as `run`, with something to fall back on. It gets the final error, runs outside the policy, and not after a
    /// cancellation. That it stood in is counted in metrics and told as an event.
    ///
    /// - Parameters:
    ///   - on: Which errors it stands in for. Left out: refusals, what ran out of time, and failures that may pass; of others, which
    ///     may be bugs, those that the policy's `classify` has judged.
    ///   - fallback: What the caller gets in the place of the error. What it throws is the caller's, as it is.
    public func run<T: Sendable>(
        _ options: CallOptions = CallOptions(), on: FallbackOn? = nil,
        fallback: @Sendable (any Error) async throws -> T,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        try await ended(options, on: on, fallback: fallback, operation).result.get()
    }

    /// The same, with what became of the call; `replaced` keeps the error that the fallback stood in for.
    public func ended<T: Sendable>(
        _ options: CallOptions = CallOptions(), on: FallbackOn? = nil,
        fallback: @Sendable (any Error) async throws -> T,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<T> {
        let ended = await ended(options, operation)
        guard case .failure(let error) = ended.result, !Task.isCancelled, ended.report.reason != .cancelled, on?(error) ?? fallsBack(on: error)
        else { return ended }
        let result: Result<T, any Error>
        do { result = .success(try await fallback(error)) } catch { result = .failure(error) }
        var worked = false
        if case .success = result { worked = true }
        noteFallback(options.route, worked)
        return Ended(result: result, report: ended.report, replaced: error, call: ended.call)
    }

    /// Is it this error's turn, where nobody has chosen? Core decides, as in every language.
    private func fallsBack(on error: any Error) -> Bool {
        if let ours = error as? any TidegateError, !(error is AttemptTimeout) {
            guard let reason = ours.reason else { return false }
            return fallsBack(reason, nil, judged: false)
        }
        let judged = classify?(.failure(error)).flatMap { kinds[$0.kind] }
        return fallsBack(.attempts, judged ?? outcome(of: error) >> 11 & 31, judged: judged != nil)
    }

    private func fallsBack(_ reason: Verdict, _ failure: UInt64?, judged: Bool) -> Bool {
        guard let verdict = Verdict.allCases.firstIndex(of: reason) else { return false }
        let failure = failure.map { UInt8(truncatingIfNeeded: $0) }
        return engine.native.fallsBack(policy: number, verdict: UInt8(verdict), failure: failure, judged: judged)
    }
}
