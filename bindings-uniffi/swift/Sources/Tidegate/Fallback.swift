/// Which errors a fallback stands in for: all of them, where nothing else is said. Never for a cancellation.
public typealias FallbackOn = @Sendable (any Error) -> Bool

extension Policy {
    /// The same as `run`, with something to fall back on. It gets the final error, runs outside the policy, and not after a
    /// cancellation. That it stood in is counted in metrics and told as an event.
    ///
    /// - Parameters:
    ///   - on: Which errors it stands in for.
    ///   - fallback: What the caller gets in the place of the error. What it throws is the caller's, as it is.
    public func run<T: Sendable>(
        _ options: CallOptions = CallOptions(), on: FallbackOn = { _ in true },
        fallback: @Sendable (any Error) async throws -> T,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        try await ended(options, on: on, fallback: fallback, operation).result.get()
    }

    /// The same, with what became of the call; `replaced` keeps the error that the fallback stood in for.
    public func ended<T: Sendable>(
        _ options: CallOptions = CallOptions(), on: FallbackOn = { _ in true },
        fallback: @Sendable (any Error) async throws -> T,
        _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async -> Ended<T> {
        let ended = await ended(options, operation)
        guard case .failure(let error) = ended.result, !Task.isCancelled, ended.report.reason != .cancelled, on(error)
        else { return ended }
        let result: Result<T, any Error>
        do { result = .success(try await fallback(error)) } catch { result = .failure(error) }
        var worked = false
        if case .success = result { worked = true }
        noteFallback(options.route, worked)
        return Ended(result: result, report: ended.report, replaced: error, call: ended.call)
    }
}
