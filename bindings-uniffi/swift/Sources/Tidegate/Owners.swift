import Foundation
internal import TidegateNative

/// Line of the source that makes a policy or a pool.
struct Place: Sendable, Hashable, CustomStringConvertible {
    let file: String
    let line: UInt

    init(_ file: StaticString, _ line: UInt) {
        (self.file, self.line) = ("\(file)", line)
    }

    var description: String { "\(file):\(line)" }
}

/// State that the policies of one name share.
final class Shared: Sendable {
    let number: UInt32
    /// Line that made the first of them; nil for a document.
    let place: Place?
    private let known: Locked<(numbers: [Kind: UInt64], bases: [UInt64: UInt64])>
    private let warned = Locked(false)
    private let limits: Locked<StreamLimits>

    init(_ engine: Engine, _ number: UInt32, _ place: Place?) {
        (self.number, self.place) = (number, place)
        known = Locked(Self.kinds(engine, number))
        limits = Locked(StreamLimits(engine, number))
    }

    /// Timeouts of streams.
    var streams: StreamLimits { limits.withLock { $0 } }

    /// Numbers of the kinds that `classify` may return.
    var kinds: [Kind: UInt64] { known.withLock { $0.numbers } }
    /// Numbers of the classes of the kinds that the policy declares.
    var bases: [UInt64: UInt64] { known.withLock { $0.bases } }

    /// Reads the settings that have changed from the engine again.
    func refresh(_ engine: Engine) {
        // Under the locks: of two retunes at once, none may leave what it has read before the other one.
        known.withLock { $0 = Self.kinds(engine, number) }
        limits.withLock { $0 = StreamLimits(engine, number) }
    }

    private static func kinds(
        _ engine: Engine, _ number: UInt32
    ) -> (numbers: [Kind: UInt64], bases: [UInt64: UInt64]) {
        var (numbers, bases) = (Kind.numbers, [UInt64: UInt64]())
        for (place, kind) in engine.native.kinds(policy: number).enumerated() {
            numbers[Kind(rawValue: kind.name)] = UInt64(place + 9)
            bases[UInt64(place + 9)] = Kind.numbers[Kind(rawValue: kind.base)]
        }
        return (numbers, bases)
    }

    /// Warns, once, that the line which made a policy has made it again with other settings.
    func warnAgain(_ name: String) {
        let isFirst = warned.withLock { warned in
            defer { warned = true }
            return !warned
        }
        if isFirst, let place { Warnings.warnAgain("policy", name, place) }
    }
}

/// Policies of an engine that somebody holds, by name.
struct Owners: Sendable {
    fileprivate var all: [String: (shared: Shared, count: Int)] = [:]

    /// Number of names that somebody holds.
    var count: Int { all.count }

    /// Adds an owner.
    fileprivate mutating func own(_ name: String, _ shared: @autoclosure () -> Shared) -> Shared {
        let there = all[name] ?? (shared(), 0)
        all[name] = (there.shared, there.count + 1)
        return there.shared
    }
}

extension Engine {
    /// Takes a policy in, with one owner more.
    ///
    /// The same name with other settings is an error while somebody holds the policy, unless the same line makes it again: that retunes it,
    /// with a warning.
    func take(_ name: String, _ pairs: [Pair], _ place: Place?, camelCase: Bool) throws -> Shared {
        let (shared, isRetuned) = try owners.withLock { owners -> (Shared, Bool) in
            func taken() throws -> Shared {
                let number = try checked(camelCase: camelCase) { try native.policy(name: name, pairs: pairs) }
                return owners.own(name, Shared(self, number, place))
            }
            do { return (try taken(), false) } catch {
                guard let there = owners.all[name]?.shared, let made = there.place else { throw error }
                guard made == place else { throw (error as? PolicyError)?.naming(made) ?? error }
                try checked(camelCase: camelCase) {
                    try native.retune(policy: there.number, name: name, pairs: pairs, now: now())
                }
                there.refresh(self)
                return (try taken(), true)
            }
        }
        if isRetuned {
            shared.warnAgain(name)
            wake()
            publish()
        }
        return shared
    }

    /// Counts an owner of a policy that a document has loaded.
    func adopt(_ name: String, _ number: UInt32) -> Shared {
        owners.withLock { $0.own(name, Shared(self, number, nil)) }
    }

    /// Removes an owner. With `keep`, the next policy of this name continues with its counts.
    func release(_ name: String, _ number: UInt32, keep: Bool) {
        owners.withLock { owners in
            if let there = owners.all[name] { owners.all[name] = there.count > 1 ? (there.shared, there.count - 1) : nil }
            native.release(policy: number, keep: keep, now: now())
        }
    }

    /// Takes a pool in. As for a policy, the same line with other settings retunes it.
    func takePool(_ name: String, _ kind: String, _ pairs: [Pair], _ place: Place) throws {
        let isRetuned = try pools.withLock { pools -> Bool in
            // Core removes pools that no policy names any more (semantics 0.9.11), and their lines go with them.
            let isAnothers = pools[name].map { $0 != place } ?? false
            if isAnothers || pools.count >= 4096 && pools.count & (pools.count - 1) == 0 {
                let there = native.snapshot(now: now()).pools
                pools = pools.filter { there[$0.key] != nil }
            }
            do {
                try checked { try native.pool(name: name, kind: kind, pairs: pairs, now: now()) }
                pools[name] = pools[name] ?? place
                return false
            } catch {
                guard let made = pools[name] else { throw error }
                guard made == place else { throw (error as? PolicyError)?.naming(made) ?? error }
                try checked { try native.retunePool(name: name, kind: kind, pairs: pairs, now: now()) }
                return true
            }
        }
        guard isRetuned else { return }
        Warnings.warnAgain("pool", name, place)
        wake()
        publish()
    }
}

extension PolicyError {
    /// Adds the line that holds the name to the error of a name that is taken.
    fileprivate func naming(_ place: Place) -> PolicyError {
        PolicyError(
            mistakes.map { mistake in
                guard mistake.key == "policy" || mistake.key == "pool" else { return mistake }
                return Mistake(key: mistake.key, value: mistake.value, rule: "\(mistake.rule); it was made at \(place)")
            })
    }
}

/// Warnings about code that uses this package. They go to standard error.
enum Warnings {
    /// Receives the warnings.
    static let sink = Locked<@Sendable (String) -> Void>({ FileHandle.standardError.write(Data("\($0)\n".utf8)) })

    static func write(_ text: String) {
        let sink = sink.withLock { $0 }
        sink("tidegate: " + text)
    }

    static func warnAgain(_ what: String, _ name: String, _ place: Place) {
        write(
            "\(what) \"\(name)\" is made again at \(place), with other settings, which apply from now on. "
                + "If these are two, give them two names")
    }
}
