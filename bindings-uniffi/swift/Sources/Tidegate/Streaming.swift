import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A value whose body is read after the caller has received it.
protocol Streaming: Sendable {
    associatedtype Reader: Body
    var body: Reader { get }
}

/// A body that is being read.
protocol Body: AnyObject, Sendable {
    /// Reports the end of the body to this owner, once.
    func follow(_ owner: any BodyOwner)
    /// Ends the body: its reader gets this error.
    func fail(_ error: any Error)
    /// Notes that its answer has been judged a failure, so that the call does not follow it.
    func leave()
    /// Silence of the body, if the policy bounds it.
    var silence: Silence? { get }
}

/// Call that a body belongs to.
protocol BodyOwner: AnyObject, Sendable {
    /// Receives the end of the body, as the outcome of the attempt.
    func bodyEnded(_ outcome: UInt64)
}

/// A response whose body is read while it arrives.
public struct StreamedAnswer: Sendable, Streaming, HTTPAnswer {
    public let bytes: ResponseBytes
    public let response: URLResponse
    var body: BodyReader { bytes.reader }
    /// Outcome of the failure that an event has reported before the delivery; 0 without one.
    var failure: UInt64 = 0
    var beginning: Data { body.transfer.beginning }
}

/// Body of a response, byte by byte, or in chunks as it arrives (`chunks`).
///
/// It can be read once. The call's slot, its deadline and its connection are held until the body has been read to its end, has failed, is
/// released, or is closed.
public struct ResponseBytes: AsyncSequence, Sendable {
    public typealias Element = UInt8
    let reader: BodyReader

    public func makeAsyncIterator() -> Iterator { Iterator(reader: reader) }

    /// The body in the pieces that arrive from the network.
    public var chunks: Chunks { Chunks(reader: reader) }

    /// Stops reading, and releases the slot and the connection now.
    public func close() { reader.close() }

    public struct Iterator: AsyncIteratorProtocol {
        let reader: BodyReader
        private var chunk = Data()
        private var place = 0

        init(reader: BodyReader) { self.reader = reader }

        public mutating func next() async throws -> UInt8? {
            while place == chunk.endIndex {
                guard let more = try await reader.next() else { return nil }
                (chunk, place) = (more, more.startIndex)
            }
            defer { place += 1 }
            return chunk[place]
        }
    }

    /// The body in the pieces that arrive from the network.
    public struct Chunks: AsyncSequence, Sendable {
        public typealias Element = Data
        let reader: BodyReader

        public func makeAsyncIterator() -> Iterator { Iterator(reader: reader) }

        public struct Iterator: AsyncIteratorProtocol {
            let reader: BodyReader
            public mutating func next() async throws -> Data? { try await reader.next() }
        }
    }
}

/// Reads a body and reports its end to the call, even if the reader is released.
final class BodyReader: Body {
    let transfer: Transfer
    private let owner = Locked<(any BodyOwner)?>(nil)
    /// What is known of a stream that is watched.
    private let watched: Silence?
    let silence: Silence?
    /// Number of pieces that were read before the delivery and have not been taken.
    private let held = Locked(0)
    private let meter: Meter?

    /// `watched` notes the pieces; `bounded`: it is reported to the call.
    init(_ transfer: Transfer, watched: Silence? = nil, bounded: Bool = false, meter: Meter? = nil) {
        (self.transfer, self.watched, silence, self.meter) = (transfer, watched, bounded ? watched : nil, meter)
    }

    /// Notes that this number of pieces has been read before the delivery.
    func held(_ count: Int) { held.withLock { $0 = count } }

    deinit { close() }

    func follow(_ owner: any BodyOwner) { self.owner.withLock { $0 = owner } }

    func next() async throws -> Data? {
        do {
            guard let watched else { return try await piece() }
            let isHeld = held.withLock { held in
                defer { held = max(held - 1, 0) }
                return held > 0
            }
            if isHeld { return try await piece() }
            watched.begin()
            guard let data = try await transfer.next() else {
                watched.finish()
                report(watched)
                meter?.finish(whole: true)
                ended(0)
                return nil
            }
            meter?.piece(data)
            watched.piece(data)
            report(watched)
            return data
        } catch {
            // If the call has ended the body itself, it has no owner any more, and nothing is reported.
            ended(error is CancellationError ? Wire.outcome(8) : outcome(of: error))
            throw error
        }
    }

    private func piece() async throws -> Data? {
        guard let data = try await transfer.next() else {
            meter?.finish(whole: true)
            ended(0)
            return nil
        }
        meter?.piece(data)
        return data
    }

    /// Ends the call if an event has reported a failure. The caller reads on.
    private func report(_ watched: Silence) {
        let failure = watched.failure
        if failure != 0 { ended(failure) }
    }

    func leave() { transfer.leave() }

    func fail(_ error: any Error) {
        owner.withLock { $0 = nil }
        transfer.end(error)
    }

    func close() {
        transfer.end(CancellationError())
        meter?.finish(whole: false)
        ended(0)
    }

    private func ended(_ outcome: UInt64) {
        let follower = owner.withLock { owner in
            defer { owner = nil }
            return owner
        }
        follower?.bodyEnded(outcome)
    }
}

/// Ends the body of a failed response at the deadline of its call. The call is over by then and has no timer of its own.
final class Expiry: Timed, BodyOwner {
    private let engine: Engine
    private let error: any Error
    private let body: Locked<Weak>

    private struct Weak: Sendable {
        weak var reader: BodyReader?
    }

    init(_ engine: Engine, _ body: BodyReader, _ error: any Error) {
        (self.engine, self.error, self.body) = (engine, error, Locked(Weak(reader: body)))
    }

    func tick() { body.withLock { $0.reader }?.fail(error) }

    func bodyEnded(_ outcome: UInt64) { engine.ticker.drop(self) }
}

/// Transfers of one call. Those that the caller does not receive are closed.
final class Transfers: Sendable {
    private let all = Locked<[Transfer]>([])

    func add(_ transfer: Transfer) { all.withLock { $0.append(transfer) } }

    /// Releases failed responses before the next attempt begins (rule 4).
    func release() {
        for transfer in all.withLock({ $0 }) where transfer.isLeft { transfer.end(CancellationError()) }
    }

    /// Closes all transfers but the one that the caller gets.
    func close(but kept: Transfer?) {
        for transfer in all.withLock({ $0 }) where transfer !== kept { transfer.end(CancellationError()) }
    }
}

extension URLSession {
    /// Returns the response to a request, under a policy, as soon as its head has arrived. The body is read while it arrives.
    ///
    /// All retries are over by then. A stream under a policy with `firstByteTimeout` is returned with the first piece of its body that counts.
    /// With `slotUntil: .body`, the default, the slot, the attempt's outcome and the deadline last until the
    /// body has been read; with `.headers` they end at the head. A body that fails is not repeated, because part of it has been read.
    /// Before the next attempt at most 64 KiB of a failed response are read, for at most 0.5 s; with `readErrors`, for at most 1 s. Reading the last response must end by the
    /// deadline, too.
    ///
    /// - Throws: The errors of `data(for:policy:)`. Reading the bytes throws the transfer's error, `StreamStalled` after `idleTimeout` without a
    ///   piece that counts, or `DeadlineExceeded`.
    public func bytes(
        for request: URLRequest, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (ResponseBytes, URLResponse) {
        let answer = try await streamed(for: request, policy: policy, options: options).delivered(by: policy.engine)
        return (answer.bytes, answer.response)
    }

    /// Returns the response of a URL; see `bytes(for:policy:)`.
    public func bytes(
        from url: URL, policy: Policy, options: RequestOptions = RequestOptions()
    ) async throws -> (ResponseBytes, URLResponse) {
        try await bytes(for: URLRequest(url: url), policy: policy, options: options)
    }

    /// Does the same as `bytes(for:policy:)`, and returns the call's report too.
    public func streamed(
        for request: URLRequest, policy: Policy, options: RequestOptions = RequestOptions()
    ) async -> Ended<StreamedAnswer> {
        if let refused = refusal(policy) { return Ended(result: .failure(refused), report: .refused, isOurs: true) }
        let plan = Plan(request, options, policy)
        let path = policy.setting("retry.hold") == 1 ? plan.path : nil
        let untilBody = policy.word("slot_until") != "headers"
        let transfers = Transfers()
        let limits = policy.shared.streams
        let isStream = limits.streams(plan)
        let ends = untilBody && !limits.untilDelivery ? policy.ends(plan.call) : nil
        let ended = await policy.make(
            plan.call, flags: plan.flags | (untilBody ? Wire.slotUntilBody : 0) | (isStream ? Wire.stream : 0), path: path,
            values: Policy.Values(
                known: { policy.classified($0) }, streams: untilBody, sdkNote: plan.sdkNote(policy))
        ) { attempt in
            let began = ContinuousClock.now
            transfers.release()
            let transfer = Transfer(self, plan.outgoing(attempt))
            transfers.add(transfer)
            let response = try await transfer.head()
            attempt.learn(policy, response)
            if let status = (response as? HTTPURLResponse)?.statusCode, status >= 400 {
                let time = policy.readsErrors ? Beginning.time(attempt, since: began) : Transfer.drainedWithin
                try await transfer.drain(for: time)
            }
            let meter = untilBody ? Meter(policy, attempt, response) : nil
            guard limits.watches || isStream else {
                return StreamedAnswer(bytes: ResponseBytes(reader: BodyReader(transfer, meter: meter)), response: response)
            }
            let pieces = Pieces(limits, response)
            let reader = BodyReader(
                transfer, watched: Silence(policy.engine, pieces, limits.idle), bounded: limits.idle != nil, meter: meter)
            var answer = StreamedAnswer(bytes: ResponseBytes(reader: reader), response: response)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 200
            // An answer that `classify` takes for a failure is not held back either.
            if isStream, status < 400, status != 101, policy.judged(.success(answer)).map(Wire.kind) ?? 0 == 0 {
                reader.held(try await transfer.hold(pieces))
                answer.failure = pieces.failure
            }
            return answer
        }
        let body = try? ended.result.get().body
        transfers.close(but: body?.transfer)
        if let body, let ends, body.transfer.isLeft {
            let error = Verdict.deadline.refusal(policy, route: plan.call.route ?? "default", retryIn: nil, last: nil, origin: ended.report.origin)
            let expiry = Expiry(policy.engine, body, error)
            body.follow(expiry)
            let now = policy.engine.now()
            policy.engine.ticker.set(expiry, after: ends > now ? ends - now : 0)
        }
        return ended
    }

    /// Reads the whole answer to a request as it comes, for a policy that bounds its silence. Before the delivery, which is its end, a silence ends
    /// the attempt (semantics 7.7.10).
    func collected(for request: URLRequest, policy: Policy, options: RequestOptions) async -> Ended<Answer> {
        if let refused = refusal(policy) { return Ended(result: .failure(refused), report: .refused, isOurs: true) }
        let plan = Plan(request, options, policy)
        let path = policy.setting("retry.hold") == 1 ? plan.path : nil
        let limits = policy.shared.streams
        let (transfers, silences) = (Transfers(), Locked<[Int: Silence]>([:]))
        var values = Policy.Values(known: { policy.classified($0) }, sdkNote: plan.sdkNote(policy))
        if limits.idle != nil { values.silence = { number in silences.withLock { $0[number] } } }
        let flags = plan.flags | (limits.idle == nil ? 0 : Wire.slotUntilBody)
        let ended: Ended<Answer> = await policy.make(plan.call, flags: flags, path: path, values: values) { attempt in
            let transfer = Transfer(self, plan.outgoing(attempt))
            transfers.add(transfer)
            let response = try await transfer.head()
            attempt.learn(policy, response)
            let pieces = Pieces(limits, response)
            let silence = Silence(policy.engine, pieces, limits.idle)
            silence.begin()
            silences.withLock { $0[attempt.number] = silence }
            var data = Data()
            while let piece = try await transfer.next() {
                data += piece
                silence.piece(piece)
                silence.begin()
            }
            silence.finish()
            if let meter = Meter(policy, attempt, response) {
                meter.piece(data)
                meter.finish(whole: true)
            }
            return Answer(data: data, response: response, failure: pieces.failure)
        }
        transfers.close(but: nil)
        return ended
    }
}
