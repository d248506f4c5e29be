import Foundation
import TidegateNative

/// The policies of a document, by name.
///
/// ```swift
/// let policies = try Policies(toml: "[policy.payments]\npreset = \"http\"\ndeadline = \"10s\"")
/// let payments = try policies["payments"]
/// ```
public struct Policies: Sendable {
    private let all: [String: Policy]
    /// The document's pools, by name.
    public let pools: [String: Pool]

    /// - Throws: `PolicyError` with every mistake of every policy: the key, the value, the rule and the line.
    public init(toml text: String, classify: Classify? = nil, engine: Engine = .shared) throws {
        try self.init(text, json: false, classify, engine)
    }

    /// The same for JSON.
    public init(json text: String, classify: Classify? = nil, engine: Engine = .shared) throws {
        try self.init(text, json: true, classify, engine)
    }

    private init(_ text: String, json: Bool, _ classify: Classify?, _ engine: Engine) throws {
        let written = try checked(camelCase: false) { try readDocument(text: text, json: json) }
        pools = try written.pools.reduce(into: [:]) { $0[$1.name] = try Pool($1, engine: engine) }
        all = try written.policies.reduce(into: [:]) { all, policy in
            all[policy.name] = try Policy(policy.name, pairs: policy.pairs, camelCase: false, classify, engine)
        }
    }

    /// The names, sorted.
    public var names: [String] { all.keys.sorted() }

    /// A policy.
    ///
    /// - Throws: `UnknownPolicy` with the names that there are.
    public subscript(_ name: String) -> Policy {
        get throws {
            guard let policy = all[name] else { throw UnknownPolicy(name: name, known: names) }
            return policy
        }
    }
}

/// A name that a document does not have.
public struct UnknownPolicy: LocalizedError, CustomStringConvertible, Sendable, Hashable {
    public let name: String
    /// Those that it has.
    public let known: [String]
    public var description: String { "there is no policy \"\(name)\"; there are \(known.joined(separator: ", "))" }
    public var errorDescription: String? { description }
}
