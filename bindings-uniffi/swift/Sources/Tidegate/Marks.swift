import Foundation
internal import TidegateNative
internal import TidegateNativeFFI
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A flag that is read without a lock.
///
/// Unchecked: the place is only read and written by C's atomic operations, and exists as long as the flag.
final class Flag: @unchecked Sendable {
    private let place = UnsafeMutablePointer<UInt32>.allocate(capacity: 1)

    init() { place.initialize(to: 0) }

    deinit { place.deallocate() }

    var isSet: Bool { tidegate_load(place) != 0 }

    func set(_ on: Bool) { tidegate_store(place, on ? 1 : 0) }
}

/// Identity of what a call has delivered: an error, the response in an answer, or another value.
///
/// Errors of Swift are values. Two of them are the same if they are in the same box, which rethrowing keeps; if they are the same object; or
/// if they are equal values of one type, because typed throws and `catch let error as …` make a new box. A value without equality is known by
/// its box alone. Values that are no errors have no box.
enum Delivered: Sendable {
    case error(any Error)
    case response(URLResponse)
    case value(any Sendable)

    /// What a call leaves its judgement with.
    init(left result: Result<any Sendable, any Error>) {
        switch (Self(result), result) {
        case (let known?, _): self = known
        case (nil, .success(let value)): self = .value(value)
        case (nil, .failure(let error)): self = .error(error)
        }
    }

    init?(_ result: Result<any Sendable, any Error>) {
        switch result {
        case .failure(let error): self = .error(error)
        case .success(let value):
            guard let response = Self.response(in: value) else { return nil }
            self = .response(response)
        }
    }

    /// Response that a value is or holds, as an answer, a tuple or a struct does.
    private static func response(in value: Any) -> URLResponse? {
        if let response = value as? URLResponse { return response }
        if let answer = value as? any HTTPAnswer { return answer.response }
        let mirror = Mirror(reflecting: value)
        guard mirror.displayStyle == .tuple || mirror.displayStyle == .struct else { return nil }
        return mirror.children.prefix(8).lazy.compactMap { $0.value as? URLResponse }.first
    }

    /// Status of an HTTP answer, or the one that an error is judged by under this policy.
    func status(under policy: Policy) -> Int? {
        switch self {
        case .response(let response): (response as? HTTPURLResponse)?.statusCode
        case .error(let error): known(error, policy)?.status
        case .value: nil
        }
    }

    func isSame(as other: Delivered) -> Bool {
        switch (self, other) {
        case (.error(let one), .error(let other)): Self.isSame(one, other)
        case (.response(let one), .response(let other)): one === other
        case (.value(let one), .value(let other)): Self.areEqual(one, other)
        default: false
        }
    }

    static func isSame(_ one: any Error, _ other: any Error) -> Bool {
        if let box = box(of: one), box == Self.box(of: other) { return true }
        guard type(of: one) == type(of: other) else { return false }
        if let one = one as? any TidegateError, let other = other as? any TidegateError {
            return one.details == other.details && one.details.origin.call == other.details.origin.call
        }
        return areEqual(one, other)
    }

    /// Whether two values are one object, or equal values of one type.
    private static func areEqual(_ one: Any, _ other: Any) -> Bool {
        guard type(of: one) == type(of: other) else { return false }
        if type(of: one) is AnyObject.Type { return one as AnyObject === other as AnyObject }
        func isEqual<E: Equatable>(_ one: E) -> Bool { other as? E == one }
        return (one as? any Equatable).map { isEqual($0) } ?? false
    }

    /// Address of the box that an error is in. An `any Error` is one pointer to it, on every platform.
    private static func box(of error: any Error) -> UInt? {
        guard MemoryLayout<any Error>.size == MemoryLayout<UInt>.size else { return nil }
        return unsafeBitCast(error as any Error, to: UInt.self) // "as" keeps the compiler from opening the box
    }
}

/// Status of a failed answer that must not be repeated: errors that clients make of an answer may have nothing else of it (1.6.7).
struct RefusedStatus: Equatable, Sendable {
    let status: Int
}

/// Judgements of calls that made no further attempt, for the calls around them (semantics 1.6).
///
/// Bounded: at most 256, and those of a call are dropped when it ends. Comparing and releasing what they are of may run code of the user, which
/// must not be done under a lock. So each function returns what it removes, and its caller compares.
struct Marks: Sendable {
    struct Mark: Sendable {
        let serial: UInt64
        let call: UInt64
        let of: Delivered
        let outcome: UInt64
    }

    private var all: [Mark] = []
    private var serial: UInt64 = 0
    private static let most = 256

    var isEmpty: Bool { all.isEmpty }

    /// Leaves a judgement for the call around. Returns the oldest one if it takes that one's place.
    mutating func leave(_ of: Delivered, _ outcome: UInt64, for call: UInt64) -> Mark? {
        let oldest = all.count == Self.most ? all.removeFirst() : nil
        serial += 1
        all.append(Mark(serial: serial, call: call, of: of, outcome: outcome))
        return oldest
    }

    /// Judgements that were left for a call, the latest first.
    func left(for call: UInt64) -> [Mark] {
        all.reversed().filter { $0.call == call }
    }

    /// Removes a judgement; nil if it has been removed before.
    mutating func remove(_ serial: UInt64) -> Mark? {
        all.firstIndex { $0.serial == serial }.map { all.remove(at: $0) }
    }

    mutating func forget(_ call: UInt64) -> [Mark] {
        let gone = left(for: call)
        all.removeAll { $0.call == call }
        return gone
    }
}

extension Engine {
    func leave(_ of: Delivered, _ outcome: UInt64, for call: UInt64) {
        _ = marks.withLock { marks in
            marked.set(true)
            return marks.leave(of, outcome, for: call)
        }
        // A task that outlives the call around it leaves nothing, because nobody would take or drop it.
        if !native.isLive(call: call) { forgetMarks(call) }
    }

    /// Judgement that a nested call has left for this result of a call's attempt.
    func takeMark(_ result: @autoclosure () -> Result<any Sendable, any Error>, _ call: UInt64) -> UInt64? {
        takeMark(Delivered(left: result()), call)
    }

    func takeMark(_ of: @autoclosure () -> Delivered, _ call: UInt64) -> UInt64? {
        guard marked.isSet else { return nil }
        let of = of()
        for mark in marks.withLock({ $0.left(for: call) }) where mark.of.isSame(as: of) {
            // Another attempt of the call may have taken it meanwhile.
            if let taken = marks.withLock({ $0.remove(mark.serial) }) { return taken.outcome }
        }
        return nil
    }

    /// Drops the judgements that were left for a call that has ended.
    func forgetMarks(_ call: UInt64) {
        guard marked.isSet else { return }
        _ = marks.withLock { marks in
            defer { if marks.isEmpty { marked.set(false) } }
            return marks.forget(call)
        }
    }
}
