import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
internal import TidegateNative

/// An answer with its whole body.
public struct Answer: Sendable, HTTPAnswer {
    public let data: Data
    public let response: URLResponse
}

/// What `URLSession` has brought.
protocol HTTPAnswer {
    var response: URLResponse { get }
}

extension URLSession {
    /// The answer to a request, under a policy.
    ///
    /// The last answer is the caller's, whatever its status, or the last `URLError`; `answer(for:policy:)` tells why there was no
    /// further attempt. The slot and the deadline last until the body has been read.
    ///
    /// - Throws: What `URLSession` throws, as it is; else `Rejected`, `DeadlineExceeded`, `AttemptTimeout`, `CostAboveBurst`,
    ///   `CallLost`.
    public func data(
        for request: URLRequest, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await answer(for: request, policy: policy, options: options).pair()
    }

    /// The same for an address.
    public func data(
        from url: URL, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await data(for: URLRequest(url: url), policy: policy, options: options)
    }

    /// The same for a body that lies in a file, which is read anew for each attempt.
    public func upload(
        for request: URLRequest, fromFile file: URL, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await answer(for: request, fromFile: file, policy: policy, options: options).pair()
    }

    /// The same for a body in memory.
    public func upload(
        for request: URLRequest, from body: Data, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await answer(for: request, from: body, policy: policy, options: options).pair()
    }

    /// The same as `data(for:policy:)`, with what became of the call.
    public func answer(
        for request: URLRequest, policy: Policy, options: RequestOptions = RequestOptions()
    ) async -> Ended<Answer> {
        await answer(for: request, policy: policy, options: options) { session, request, done in
            session.dataTask(with: request, completionHandler: done)
        }
    }

    /// The same as `upload(for:fromFile:policy:)`, with what became of the call.
    public func answer(
        for request: URLRequest, fromFile file: URL, policy: Policy, options: RequestOptions = RequestOptions()
    ) async -> Ended<Answer> {
        await answer(for: request, policy: policy, options: options) { session, request, done in
            #if canImport(FoundationNetworking)
            // There a file is read beside the transfer, and what is read after that has ended ends the process.
            session.uploadTask(with: request, from: try Data(contentsOf: file), completionHandler: done)
            #else
            session.uploadTask(with: request, fromFile: file, completionHandler: done)
            #endif
        }
    }

    /// The same as `upload(for:from:policy:)`, with what became of the call.
    public func answer(
        for request: URLRequest, from body: Data, policy: Policy, options: RequestOptions = RequestOptions()
    ) async -> Ended<Answer> {
        await answer(for: request, policy: policy, options: options) { session, request, done in
            session.uploadTask(with: request, from: body, completionHandler: done)
        }
    }

    private typealias Done = @Sendable (Data?, URLResponse?, (any Error)?) -> Void

    private func answer(
        for request: URLRequest, policy: Policy, options: RequestOptions,
        make: @escaping @Sendable (URLSession, URLRequest, @escaping Done) throws -> URLSessionTask
    ) async -> Ended<Answer> {
        let plan = Plan(request, options, policy)
        let path = policy.setting("retry.hold") == 1 ? plan.path : nil
        return await policy.make(plan.call, flags: plan.flags, path: path) { attempt in
            try await self.send(plan.outgoing(attempt), make)
        } judge: { result in
            policy.judge(result, default: policy.classified(result))
        }
    }

    /// One attempt. Cancelling its task cancels the transfer.
    private func send(
        _ request: URLRequest, _ make: @Sendable (URLSession, URLRequest, @escaping Done) throws -> URLSessionTask
    ) async throws -> Answer {
        let transfer = Locked<URLSessionTask?>(nil)
        #if canImport(FoundationNetworking)
        let session = Twins.cancellable(self)
        #else
        let session = self
        #endif
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let done: Done = { data, response, error in
                    if let response, error == nil {
                        continuation.resume(returning: Answer(data: data ?? Data(), response: response))
                    } else {
                        continuation.resume(throwing: error ?? URLError(.unknown))
                    }
                }
                let task: URLSessionTask
                do { task = try make(session, request, done) } catch { return continuation.resume(throwing: error) }
                transfer.withLock { $0 = task }
                task.resume()
                if Task.isCancelled { session.end(task) }
            }
        } onCancel: {
            transfer.withLock { $0 }.map(session.end)
        }
    }

    /// Cancels a task. On Linux in the turn of what is told of it: there one that is cancelled while its end is told ends the process.
    func end(_ task: URLSessionTask) {
        #if canImport(FoundationNetworking)
        delegateQueue.addOperation { task.cancel() }
        #else
        task.cancel()
        #endif
    }
}

extension Ended where Value == Answer {
    func pair() throws -> (Data, URLResponse) {
        let answer = try result.get()
        return (answer.data, answer.response)
    }
}

extension Policy {
    /// The outcome that an answer's status and fields say, at its place in a word; nil where there is no such answer.
    func classified(_ result: Result<any Sendable, any Error>) -> UInt64? {
        guard case .success(let value) = result, let response = (value as? any HTTPAnswer)?.response as? HTTPURLResponse else {
            return nil
        }
        guard response.statusCode >= 400 else { return 0 }
        return classified(response.statusCode, response.allHeaderFields)
    }

    /// The outcome of an answer that has failed.
    func classified(_ status: Int, _ fields: [AnyHashable: Any]) -> UInt64 {
        let headers = fields.map { Header(name: "\($0.key)", value: "\($0.value)") }
        let wall = UInt64(max(Date().timeIntervalSince1970, 0) * 1e6)
        return engine.native.classify(policy: number, status: UInt16(clamping: status), headers: headers, wallUs: wall)
    }
}
