import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// One data task whose body is read while it arrives. It turns the calls of `URLSession`'s delegate into waits.
final class Transfer: NSObject, URLSessionDataDelegate, Sendable {
    #if canImport(FoundationNetworking)
    /// On Linux a suspended task keeps receiving, and cancelling it then crashes the process, so all data is kept.
    private static let most = Int.max
    #else
    /// Bytes kept for a slow reader. Beyond them the task is suspended until half of them are read.
    private static let most = 1 << 20
    #endif
    /// Largest part of a failed response that is read to keep its connection, in bytes.
    private static let drained = 64 * 1024
    /// Longest time for that.
    static let drainedWithin = Duration.milliseconds(500)

    private struct State: Sendable {
        var task: URLSessionDataTask?
        var response: URLResponse?
        var chunks: [Data] = []
        var size = 0
        var suspended = false
        var over: Result<Void, any Error>?
        /// Whether the response has been judged a failure.
        var failed = false
        /// Whether reading a failed response has taken too long.
        var slow = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let session: URLSession
    private let state = Locked(State())

    init(_ session: URLSession, _ request: URLRequest) {
        #if canImport(FoundationNetworking)
        self.session = Twins.streaming(session)
        #else
        self.session = session
        #endif
        super.init()
        #if canImport(FoundationNetworking)
        // On Linux tasks have no delegates of their own: a session of the same configuration has one delegate for all of them.
        let task = Twins.task(session, request, self)
        state.withLock { $0.task = task }
        #else
        let task = session.dataTask(with: request)
        task.delegate = self
        state.withLock { $0.task = task }
        #endif
    }

    /// Whether the response has been judged a failure and its body has not come to its end.
    var isLeft: Bool { state.withLock { $0.failed && $0.over == nil } }

    /// Notes that the response has been judged a failure.
    func leave() { state.withLock { $0.failed = true } }

    // MARK: The reader

    /// Waits for the head of the response.
    func head() async throws -> URLResponse {
        state.withLock { $0.task }?.resume()
        return try await waited { state in
            if let response = state.response { return .success(response) }
            if case .failure(let error) = state.over { return .failure(error) }
            return nil
        }
    }

    /// Waits for the next piece of the body; nil at its end.
    func next() async throws -> Data? {
        let data: Data? = try await waited { state in
            if !state.chunks.isEmpty { return .success(state.chunks.removeFirst()) }
            return state.over.map { $0.map { nil } }
        }
        let task = state.withLock { state in
            state.size -= data?.count ?? 0
            guard state.suspended, state.size <= Self.most / 2 else { return URLSessionDataTask?.none }
            state.suspended = false
            return state.task
        }
        task?.resume()
        return data
    }

    /// Waits until a piece of the body counts, an event reports a failure, the body has ended, or 64 kB have come (semantics 7.7.2 and
    /// 7.7.8). All of it stays to be read. Returns the number of pieces.
    func hold(_ pieces: Pieces) async throws -> Int {
        var (seen, size) = (0, 0)
        while size < StreamLimits.heldAtMost {
            let next = seen
            let piece: Data? = try await waited { state in
                if next < state.chunks.count { return .success(state.chunks[next]) }
                return state.over.map { $0.map { nil } }
            }
            guard let piece else { break }
            seen += 1
            size += piece.count
            if pieces.counts(piece) || pieces.failure != 0 { break }
        }
        return seen
    }

    /// Waits for the rest of a failed response's body, up to its limits of size and time.
    func drain(for time: Duration) async throws {
        let timer = Task { [weak self] in
            try await Task.sleep(for: time)
            self?.update { $0.slow = true }
        }
        defer { timer.cancel() }
        try await waited { $0.over != nil || $0.slow || $0.size > Self.drained ? .success(()) : nil }
    }

    /// Beginning of the body, as far as it has arrived and nothing has been read of it.
    var beginning: Data {
        state.withLock { state in
            var beginning = Data()
            for chunk in state.chunks where beginning.count < Beginning.bytes {
                beginning += chunk.prefix(Beginning.bytes - beginning.count)
            }
            return beginning
        }
    }

    /// Ends the transfer: drops unread data, and closes the connection if more would arrive.
    func end(_ error: any Error) {
        let (waiting, task) = state.withLock { state in
            let running = state.over == nil ? state.task : nil
            state.over = .failure(error)
            (state.chunks, state.size, state.task) = ([], 0, nil)
            defer { state.waiting = [] }
            return (state.waiting, running)
        }
        task.map(session.end)
        for each in waiting { each.resume() }
    }

    /// Waits until `look` has a result. Cancelling the task ends the transfer.
    private func waited<T>(_ look: (inout State) -> Result<T, any Error>?) async throws -> T {
        while true {
            if Task.isCancelled { end(CancellationError()) }
            if let found = state.withLock(look) { return try found.get() }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let there = state.withLock { state in
                        // Looking may remove something that the next look must find again, so this one uses a copy.
                        var copy = state
                        if look(&copy) != nil || Task.isCancelled { return true }
                        state.waiting.append(continuation)
                        return false
                    }
                    if there { continuation.resume() }
                }
            } onCancel: {
                end(CancellationError())
            }
        }
    }

    // MARK: The delegate

    private func update(_ change: (inout State) -> Void) {
        let waiting = state.withLock { state in
            change(&state)
            defer { state.waiting = [] }
            return state.waiting
        }
        for each in waiting { each.resume() }
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        update { $0.response = response }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        var suspends = false
        update { state in
            guard state.over == nil else { return }
            state.chunks.append(data)
            state.size += data.count
            suspends = state.size > Self.most && !state.suspended
            state.suspended = state.suspended || suspends
        }
        if suspends { dataTask.suspend() }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        update { state in
            if state.over == nil { state.over = error.map { .failure($0) } ?? .success(()) }
            state.task = nil
        }
    }
}
