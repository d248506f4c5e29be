import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
internal import TidegateNative

/// Timeouts of streams that a policy has (semantics 7.7).
struct StreamLimits: Sendable {
    /// Whether it bounds the time to the first byte. The engine keeps its length.
    let firstByte: Bool
    /// Longest silence, in microseconds.
    let idle: UInt64?
    /// Whether the deadline ends at the delivery.
    let untilDelivery: Bool
    /// Whether only data of server-sent events count.
    let events: Bool
    /// Whether limits learn from what answers say is left of the service's quotas.
    let learns: Bool

    init(_ engine: Engine, _ policy: UInt32) {
        func number(_ key: String) -> Double? {
            guard case .number(let value) = engine.native.setting(policy: policy, key: key) else { return nil }
            return value
        }
        func word(_ key: String) -> String? {
            guard case .word(let value) = engine.native.setting(policy: policy, key: key) else { return nil }
            return value
        }
        firstByte = number("first_byte_timeout") != nil
        idle = number("idle_timeout").map { UInt64($0) }
        untilDelivery = word("deadline_until") == "delivery"
        events = word("counts") == "sse_data"
        learns = word("rate_limit.learn") == "down"
    }

    /// Whether the policy has a timeout of a stream.
    var some: Bool { firstByte || idle != nil || untilDelivery }

    /// Whether a delivered body is watched.
    var watches: Bool { idle != nil || firstByte && events }

    /// Whether the answer of a request is a stream, to which `firstByteTimeout` applies.
    func streams(_ plan: Plan) -> Bool {
        guard firstByte else { return false }
        if let stream = plan.options.stream { return stream }
        let accepts = plan.request.value(forHTTPHeaderField: "Accept")?.lowercased().contains("text/event-stream")
        return accepts ?? false || plan.request.httpMethod?.uppercased() == "POST" && plan.estimate?.stream ?? false
    }

    /// Largest number of bytes that is read before the delivery.
    static let heldAtMost = Int(readLimits().held)
}

extension Policy {
    /// Refuses the policy if it gives a timeout of a stream, for an upload; a preset's is ignored (semantics 7.7.23).
    ///
    /// - Throws: `PolicyError` that names the keys.
    func refuseStreams() throws {
        let limits = shared.streams
        guard limits.some else { return }
        let rule = "an upload does not serve timeouts of streams: use data(for:policy:) or bytes(for:policy:), or leave the key out"
        let spans = [("firstByteTimeout", span("own first_byte_timeout")), ("idleTimeout", span("own idle_timeout"))]
        var mistakes = spans.compactMap { key, span in span.map { PolicyError.Mistake(key: key, value: "\($0)", rule: rule) } }
        if word("own deadline_until") == "delivery" {
            mistakes.append(PolicyError.Mistake(key: "deadlineUntil", value: ".delivery", rule: rule))
        }
        if !mistakes.isEmpty { throw PolicyError(mistakes) }
    }
}

/// Which pieces of one body count (semantics 7.7.13).
final class Pieces: Sendable {
    /// Reader of events; nil if every byte counts.
    private let reader: EventReader?
    private let found = Locked<UInt64>(0)

    /// `response`: the head of the body. `URLSession` decodes the codings that it knows, and leaves the header.
    init(_ limits: StreamLimits, _ response: URLResponse) {
        reader = limits.events && Self.isPlain(response) ? EventReader() : nil
    }

    /// Whether the body of a response can be read as it comes.
    static func isPlain(_ response: URLResponse) -> Bool {
        let coding = (response as? HTTPURLResponse)?.value(forHTTPHeaderField: "Content-Encoding")?.lowercased()
        return ["", "identity", "gzip", "deflate", "br"].contains(coding ?? "")
    }

    /// Whether only data of events count.
    var events: Bool { reader != nil }

    /// Outcome of the last failure that an event has reported; 0 without one.
    var failure: UInt64 { found.withLock { $0 } }

    /// Reads a piece and returns whether it counts.
    func counts(_ piece: Data) -> Bool {
        guard let reader else { return !piece.isEmpty }
        let read = reader.read(piece: piece)
        if read > 1 { found.withLock { $0 = read & ~1 } }
        return read & 1 == 1
    }
}

/// Silence of one body: for how long reads have waited since the last piece that counts. A piece costs no event: the reader notes it here,
/// and the call's timer asks (semantics 7.7.16, 7.7.17).
final class Silence: Sendable {
    /// Bytes of events that the engine reads together, so that a piece costs no crossing.
    private static let together = 8 * 1024
    /// The part of `idleTimeout` by which a silence may be noticed late, because pieces are read together.
    private static let slack: UInt64 = 16

    private struct State: Sendable {
        var waited: UInt64 = 0
        /// When the read that waits began; nil while nothing reads.
        var began: UInt64?
        /// Pieces of events that the engine has not read, and for how long reads have waited among them.
        var unread = Data()
        var among: UInt64 = 0
        /// Whether the last report has been put off.
        var late = false
    }

    private let engine: Engine
    private let pieces: Pieces
    private let idle: UInt64
    private let state = Locked(State())

    init(_ engine: Engine, _ pieces: Pieces, _ idle: UInt64?) {
        (self.engine, self.pieces, self.idle) = (engine, pieces, idle ?? .max)
    }

    /// Outcome of the last failure that an event has reported; 0 without one.
    var failure: UInt64 { pieces.failure }

    /// Notes that a read waits from now on.
    func begin() {
        let now = engine.now()
        state.withLock { $0.began = $0.began ?? now }
    }

    /// Notes a piece that a read has got.
    func piece(_ piece: Data) {
        let now = engine.now()
        state.withLock { state in
            if !pieces.events, !piece.isEmpty {
                (state.waited, state.began) = (0, nil)
                return
            }
            let took = state.began.map { now > $0 ? now - $0 : 0 } ?? 0
            state.began = nil
            if pieces.events, state.among + took > idle / Self.slack { read(&state) }
            state.waited += took
            state.among += took
            guard pieces.events else { return }
            state.unread += piece
            if state.unread.count > Self.together { read(&state) }
        }
    }

    private func read(_ state: inout State) {
        state.among = 0
        guard !state.unread.isEmpty else { return }
        if pieces.counts(state.unread) { state.waited = 0 }
        state.unread.removeAll(keepingCapacity: true)
    }

    /// Age of the last piece that counts, in microseconds. Nil the first time that it is too long: a pause of the whole process looks like
    /// silence, so the reader gets a moment to take what has come.
    func age() -> UInt64? {
        let now = engine.now()
        return state.withLock { state in
            read(&state)
            let age = state.waited + (state.began.map { now > $0 ? now - $0 : 0 } ?? 0)
            state.late = !state.late && age >= idle && !engine.isInjected
            return state.late ? nil : age
        }
    }

    /// Time that the reader gets then, in microseconds.
    var mercy: UInt64 { min(idle / Self.slack, 50_000) }

    /// Reads what is left at the end of the body.
    func finish() { state.withLock { read(&$0) } }
}
