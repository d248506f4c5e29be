import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// One data task whose body is read as it comes: what `URLSession`'s delegates tell, as things to wait for.
final class Transfer: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    #if canImport(FoundationNetworking)
    /// There a suspended task goes on receiving, and one that is cancelled then crashes the process: all is kept.
    private static let most = Int.max
    #else
    /// What is kept for a slow reader; beyond, the task is suspended until half of it is read.
    private static let most = 1 << 20
    #endif
    /// What is read of a failed answer at most; its connection is kept then.
    private static let drained = 64 * 1024
    /// How long that may take.
    private static let drainedWithin = Duration.milliseconds(500)

    private let lock = NSLock()
    private let session: URLSession
    private var task: URLSessionDataTask?
    private var response: URLResponse?
    private var chunks: [Data] = []
    private var size = 0
    private var suspended = false
    private var over: Result<Void, any Error>?
    private var failed = false
    /// Has what is read of a failed answer taken too long?
    private var slow = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(_ session: URLSession, _ request: URLRequest) {
        #if canImport(FoundationNetworking)
        self.session = Twins.streaming(session)
        #else
        self.session = session
        #endif
        super.init()
        #if canImport(FoundationNetworking)
        // There, tasks have no delegates of their own: a session of the same configuration has one that knows them all.
        task = Twins.task(session, request, self)
        #else
        let task = session.dataTask(with: request)
        task.delegate = self
        self.task = task
        #endif
    }

    /// Has it failed as an answer, with a body that is too large to be read?
    var isLeft: Bool { lock.withLock { failed && over == nil } }

    // MARK: The reader

    /// The head of the answer.
    func head() async throws -> URLResponse {
        lock.withLock { task }?.resume()
        return try await waited { if let response { .success(response) } else if case .failure(let error) = over { .failure(error) } else { nil } }
    }

    /// The next piece of the body; nil at its end.
    func next() async throws -> Data? {
        let data: Data? = try await waited {
            if !chunks.isEmpty { return .success(chunks.removeFirst()) }
            return over.map { $0.map { nil } }
        }
        let task = lock.withLock {
            size -= data?.count ?? 0
            guard suspended, size <= Self.most / 2 else { return URLSessionDataTask?.none }
            suspended = false
            return self.task
        }
        task?.resume()
        return data
    }

    /// Waits for the rest of a small body, until more has come than is read of a failed one or it has taken too long.
    func drain() async throws {
        lock.withLock { failed = true }
        let timer = Task { [weak self] in
            try await Task.sleep(for: Self.drainedWithin)
            self?.told { self?.slow = true }
        }
        defer { timer.cancel() }
        try await waited { over != nil || slow || size > Self.drained ? .success(()) : nil }
    }

    /// Ends it: what has not been read is dropped, and the connection closed where more would come.
    func end(_ error: any Error) {
        let (waiting, task) = lock.withLock {
            let running = over == nil ? self.task : nil
            over = .failure(error)
            (chunks, size, self.task) = ([], 0, nil)
            defer { self.waiting = [] }
            return (self.waiting, running)
        }
        task.map(session.end)
        for each in waiting { each.resume() }
    }

    /// Waits until there is an answer. A cancelled task ends the transfer.
    private func waited<T>(_ look: () -> Result<T, any Error>?) async throws -> T {
        while true {
            if Task.isCancelled { end(CancellationError()) }
            if let found = lock.withLock(look) { return try found.get() }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let there = lock.withLock {
                        if look() != nil || Task.isCancelled { return true }
                        waiting.append(continuation)
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

    private func told(_ change: () -> Void) {
        let waiting = lock.withLock {
            change()
            defer { self.waiting = [] }
            return self.waiting
        }
        for each in waiting { each.resume() }
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        told { self.response = response }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        var suspends = false
        told {
            guard over == nil else { return }
            chunks.append(data)
            size += data.count
            suspends = size > Self.most && !suspended
            suspended = suspended || suspends
        }
        if suspends { dataTask.suspend() }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        told {
            if over == nil { over = error.map { .failure($0) } ?? .success(()) }
            self.task = nil
        }
    }
}
