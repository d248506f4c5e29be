import Foundation
internal import TidegateNative

/// The policies of a document, by name.
///
/// ```swift
/// let policies = try Policies(toml: "[policy.payments]\npreset = \"http\"\ndeadline = \"10s\"")
/// let payments = try policies["payments"]
/// ```
///
/// Copies share the same policies, so a reload changes all of them.
public struct Policies: Sendable {
    private struct State {
        var document: Document
        var all: [String: Policy] = [:]
        var pools: [String: Pool] = [:]
    }

    private let state: Locked<State>
    private let engine: Engine
    private let judging: Policy.Judging

    /// - Throws: `PolicyError` with every mistake of every policy: the key, the value, the rule and the line.
    public init(
        toml text: String, on: [any Error.Type] = [], classify: Classify? = nil, onRetry: OnRetry? = nil,
        metering: Metering? = nil, engine: Engine = .shared
    ) throws {
        try self.init(text, json: false, Policy.Judging(on, classify, onRetry, metering), engine)
    }

    /// Reads a document in JSON.
    ///
    /// - Throws: `PolicyError` as for TOML.
    public init(
        json text: String, on: [any Error.Type] = [], classify: Classify? = nil, onRetry: OnRetry? = nil,
        metering: Metering? = nil, engine: Engine = .shared
    ) throws {
        try self.init(text, json: true, Policy.Judging(on, classify, onRetry, metering), engine)
    }

    private init(_ text: String, json: Bool, _ judging: Policy.Judging, _ engine: Engine) throws {
        (self.engine, self.judging) = (engine, judging)
        let document = try Self.read(text, json)
        let loaded = try checked(camelCase: false) { try document.load(engine: engine.native, now: engine.now()) }
        state = Locked(State(document: document))
        state.withLock { take(loaded, &$0) }
    }

    private static func read(_ text: String, _ json: Bool) throws -> Document {
        let document = try checked(camelCase: false) { try Document(text: text, json: json) }
        try document.settings().noFleet(camelCase: false)
        return document
    }

    /// Takes over the document's policies and pools from the engine; those that exist already remain the same objects.
    private func take(_ loaded: Loaded, _ state: inout State) {
        let (old, pools) = (state.all, state.pools)
        state.all = loaded.policies.reduce(into: [:]) { all, policy in
            if let there = old[policy.name] {
                engine.native.release(policy: policy.number, keep: true, now: engine.now()) // it has an owner already
                there.shared.refresh(engine)
                all[policy.name] = there
            } else {
                all[policy.name] = Policy(policy.name, engine.adopt(policy.name, policy.number), judging, engine)
            }
        }
        state.pools = loaded.pools.reduce(into: [:]) { $0[$1.name] = pools[$1.name] ?? Pool($1, engine: engine) }
    }

    /// Names of the policies, sorted.
    public var names: [String] { state.withLock { $0.all.keys.sorted() } }

    /// The document's pools, by name.
    public var pools: [String: Pool] { state.withLock { $0.pools } }

    /// Digest of the document's settings, 16 hexadecimal digits. Processes with the same settings have the same digest, in every language
    /// and format.
    public var digest: String { state.withLock { $0.document.digest() } }

    /// Policy with this name.
    ///
    /// - Throws: `UnknownPolicy` with the names that exist.
    public subscript(_ name: String) -> Policy {
        get throws {
            let all = state.withLock { $0.all }
            guard let policy = all[name] else { throw UnknownPolicy(name: name, known: all.keys.sorted()) }
            return policy
        }
    }

    /// Applies a newer version of the document while its policies are in use: all of it, or nothing.
    ///
    /// Policies and pools of both versions keep their counts, and calls in flight finish under the settings that they began with. A policy
    /// that is missing from the newer version keeps its settings, for code that still holds it.
    ///
    /// - Throws: `PolicyError` with all mistakes of the document, and all changes that a reload cannot make; nothing has changed then. A
    ///   reload cannot change the pools that a policy names, nor the kind of a pool. A new name must not belong to another policy or pool
    ///   of the engine.
    @discardableResult
    public func reload(toml text: String) throws -> Reloaded {
        try reload(Self.read(text, false))
    }

    /// Applies a newer version of the document, in JSON.
    @discardableResult
    public func reload(json text: String) throws -> Reloaded {
        try reload(Self.read(text, true))
    }

    private func reload(_ to: Document) throws -> Reloaded {
        let reloaded = try state.withLock { state in
            let changes = try checked(camelCase: false) {
                try state.document.reload(engine: engine.native, to: to, now: engine.now())
            }
            state.document = to
            take(changes.loaded, &state)
            return Reloaded(
                digest: to.digest(), added: changes.added, changed: changes.changed, removed: changes.removed)
        }
        engine.wake()
        engine.publish()
        return reloaded
    }
}

/// Changes that `Policies.reload` has made. Names are as in the document: `policy.payments`, `pool.db`, `targets.chat`.
public struct Reloaded: Sendable, Hashable {
    /// New value of `Policies.digest`.
    public let digest: String
    /// Names that only the newer document has.
    public let added: [String]
    /// Names in both documents, with other settings.
    public let changed: [String]
    /// Names that only the older document has.
    public let removed: [String]
}

/// A name that a document does not have.
public struct UnknownPolicy: LocalizedError, CustomStringConvertible, Sendable, Hashable {
    public let name: String
    /// Names that the document has.
    public let known: [String]
    public var description: String { "there is no policy \"\(name)\"; there are \(known.joined(separator: ", "))" }
    public var errorDescription: String? { description }
}
