import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
internal import TidegateNative

/// A response with its whole body.
public struct Answer: Sendable, HTTPAnswer {
    public let data: Data
    public let response: URLResponse
    /// Outcome of the failure that an event has reported; 0 without one.
    var failure: UInt64 = 0
    var beginning: Data { data.prefix(Beginning.bytes) }
}

/// A value that holds a response of `URLSession`.
protocol HTTPAnswer {
    var response: URLResponse { get }
    /// Beginning of the body, as far as it has been read.
    var beginning: Data { get }
    /// Outcome of the failure that an event has reported before the delivery; 0 without one.
    var failure: UInt64 { get }
}

/// Limits of reading a failed response's body before it is judged (semantics 15.8), which are core's.
enum Beginning {
    private static let limits = readLimits()
    /// Largest number of bytes.
    static let bytes = Int(limits.bytes)

    /// Time for reading in this attempt: core's limit, or what is left of the attempt if that is less.
    static func time(_ attempt: Attempt, since start: ContinuousClock.Instant) -> Duration {
        let most = Duration.microseconds(limits.timeUs)
        guard let remaining = attempt.remaining else { return most }
        return min(most, max(remaining - (ContinuousClock.now - start), .zero))
    }
}

extension URLSession {
    /// Returns the response to a request, under a policy.
    ///
    /// The caller gets the last response, whatever its status, or the last `URLError`. `answer(for:policy:)` also says why there was no
    /// further attempt. The slot and the deadline last until the body has been read. Until then a silence of `idleTimeout` ends the attempt;
    /// `firstByteTimeout` is for streams (`bytes(for:policy:)`).
    ///
    /// - Throws: The error of `URLSession`, as it is; else `Rejected`, `DeadlineExceeded`, `AttemptTimeout`, `CostAboveBurst`, `CallLost`.
    public func data(
        for request: URLRequest, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await answer(for: request, policy: policy, options: options).pair(policy)
    }

    /// Returns the response of a URL; see `data(for:policy:)`.
    public func data(
        from url: URL, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await data(for: URLRequest(url: url), policy: policy, options: options)
    }

    /// Uploads a file, which is read again for each attempt; see `data(for:policy:)`.
    public func upload(
        for request: URLRequest, fromFile file: URL, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await answer(for: request, fromFile: file, policy: policy, options: options).pair(policy)
    }

    /// Uploads a body in memory; see `data(for:policy:)`.
    public func upload(
        for request: URLRequest, from body: Data, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (Data, URLResponse) {
        try await answer(for: request, from: body, policy: policy, options: options).pair(policy)
    }

    /// Does the same as `data(for:policy:)`, and returns the call's report too.
    public func answer(
        for request: URLRequest, policy: Policy, options: RequestOptions = RequestOptions()
    ) async -> Ended<Answer> {
        if policy.shared.streams.some { return await collected(for: request, policy: policy, options: options) }
        return await answer(for: request, policy: policy, options: options) { session, request, done in
            session.dataTask(with: request, completionHandler: done)
        }
    }

    /// Does the same as `upload(for:fromFile:policy:)`, and returns the call's report too.
    public func answer(
        for request: URLRequest, fromFile file: URL, policy: Policy, options: RequestOptions = RequestOptions()
    ) async -> Ended<Answer> {
        await answer(for: request, body: .some(nil), policy: policy, options: options) { session, request, done in
            #if canImport(FoundationNetworking)
            // On Linux Foundation reads the file beside the transfer, and a read after the transfer's end ends the process.
            session.uploadTask(with: request, from: try Data(contentsOf: file), completionHandler: done)
            #else
            session.uploadTask(with: request, fromFile: file, completionHandler: done)
            #endif
        }
    }

    /// Does the same as `upload(for:from:policy:)`, and returns the call's report too.
    public func answer(
        for request: URLRequest, from body: Data, policy: Policy, options: RequestOptions = RequestOptions()
    ) async -> Ended<Answer> {
        await answer(for: request, body: body, policy: policy, options: options) { session, request, done in
            session.uploadTask(with: request, from: body, completionHandler: done)
        }
    }

    private typealias Done = @Sendable (Data?, URLResponse?, (any Error)?) -> Void

    private func answer(
        for request: URLRequest, body: Data?? = nil, policy: Policy, options: RequestOptions,
        make: @escaping @Sendable (URLSession, URLRequest, @escaping Done) throws -> URLSessionTask
    ) async -> Ended<Answer> {
        if let refused = refusal(policy) { return Ended(result: .failure(refused), report: .refused, isOurs: true) }
        do {
            try policy.refuseStreams()
            if body != nil { try options.refuseBody() }
        } catch {
            return Ended(result: .failure(error), report: .refused, isOurs: true)
        }
        let plan = Plan(request, options, policy, body: body)
        let path = policy.setting("retry.hold") == 1 ? plan.path : nil
        return await policy.make(
            plan.call, flags: plan.flags, path: path,
            values: Policy.Values(known: { policy.classified($0) }, sdkNote: plan.sdkNote(policy))
        ) { attempt in
            let answer = try await self.send(plan.outgoing(attempt), make)
            attempt.learn(policy, answer.response)
            if let meter = Meter(policy, attempt, answer.response) {
                meter.piece(answer.data)
                meter.finish(whole: true)
            }
            return answer
        }
    }

    /// Makes one attempt. Cancelling its task cancels the transfer.
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

    /// Cancels a task. On Linux it runs in the delegate's queue, because cancelling a task while its end is reported ends the process.
    func end(_ task: URLSessionTask) {
        #if canImport(FoundationNetworking)
        delegateQueue.addOperation { task.cancel() }
        #else
        task.cancel()
        #endif
    }
}

extension Ended where Value == Answer {
    func pair(_ policy: Policy) throws -> (Data, URLResponse) {
        let answer = try delivered(by: policy.engine)
        return (answer.data, answer.response)
    }
}

extension Policy {
    /// Outcome of a response by its status and fields, at its bit position in a word; nil if the value is no such response.
    func classified(_ value: any Sendable) -> UInt64? {
        guard let answer = value as? any HTTPAnswer, let response = answer.response as? HTTPURLResponse else { return nil }
        guard response.statusCode >= 400 else { return answer.failure }
        return classified(response.statusCode, response.allHeaderFields, readsErrors ? answer.beginning : nil)
    }

    /// Outcome of a failed response, with the beginning of its body if the policy reads errors.
    func classified(_ status: Int, _ fields: [AnyHashable: Any], _ beginning: Data? = nil) -> UInt64 {
        classified(status, headers: fields.map { Header(name: "\($0.key)", value: "\($0.value)") }, beginning)
    }

    func classified(_ status: Int, headers: [Header], _ beginning: Data? = nil) -> UInt64 {
        let wall = UInt64(max(Date().timeIntervalSince1970, 0) * 1e6)
        let status = UInt16(clamping: status)
        guard let beginning else {
            return engine.native.classify(policy: number, status: status, headers: headers, wallUs: wall)
        }
        return engine.native.classifyRead(
            policy: number, status: status, headers: headers, body: beginning, wallUs: wall)
    }

    /// Whether the beginning of a failed response's body is read before the response is judged.
    var readsErrors: Bool { engine.native.readsErrors(policy: number) }
}

extension Attempt {
    /// Reports the fields of the attempt's response, which may say what is left of the service's quotas (semantics 3.7).
    func learn(_ policy: Policy, _ response: URLResponse) {
        guard policy.shared.streams.learns, let engine = origin.engine, let response = response as? HTTPURLResponse else { return }
        let headers = response.allHeaderFields.map { Header(name: "\($0.key)", value: "\($0.value)") }
        engine.native.noteQuotas(call: origin.call, headers: headers, now: engine.now())
    }
}
