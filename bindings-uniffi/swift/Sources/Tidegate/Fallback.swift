/// Which errors a fallback stands in for. Never for a cancellation.
public typealias FallbackOn = @Sendable (any Error) -> Bool

extension Policy {
    /// The same as `run`, with something to fall back on. It gets the final error, runs outside the policy, and not after a
    /// cancellation. That it stood in is counted in metrics and told as an event.
    ///
    /// - Parameters:
    ///   - on: Which errors it stands in for. Where nothing is said: refusals, what ran out of its time, and failures that may pass,
    ///     as in every language. A failure that nothing has judged may be a bug, which it would hide; `classify` says otherwise.
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
        guard case .failure(let error) = ended.result, !Task.isCancelled, ended.report.reason != .cancelled,
            on?(error) ?? fallsBack(error)
        else { return ended }
        let result: Result<T, any Error>
        do { result = .success(try await fallback(error)) } catch { result = .failure(error) }
        var worked = false
        if case .success = result { worked = true }
        noteFallback(options.route, worked)
        return Ended(result: result, report: ended.report, replaced: error, call: ended.call)
    }

    /// Does it stand in for this end of a call, where its caller has not said for which? Core says so.
    private func fallsBack(_ error: any Error) -> Bool {
        if let ours = error as? any TidegateError, !(error is AttemptTimeout) {
            return ours.reason.map { asked($0, failure: nil, judged: false) } ?? false
        }
        let own = judged(.failure(error))
        return asked(.attempts, failure: (own ?? outcome(of: error, under: self)) >> 11 & 31, judged: own != nil)
    }

    private func asked(_ verdict: Verdict, failure kind: UInt64?, judged: Bool) -> Bool {
        let place = UInt8(Verdict.allCases.firstIndex(of: verdict) ?? 0)
        return engine.native.fallsBack(policy: number, verdict: place, failure: kind.map(UInt8.init), judged: judged)
    }
}
