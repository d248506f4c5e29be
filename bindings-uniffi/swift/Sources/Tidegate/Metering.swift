import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
internal import TidegateNative

/// What a request to a language model is going to use. A request without a body uses nothing.
public struct Estimate: Sendable, Hashable {
    /// Tokens of the prompt: one for each four bytes of its texts.
    public let input: Int
    /// The most tokens that the answer may have; nil if the request does not say so.
    public let output: Int?
    /// Whether the answer is going to be a stream.
    public let stream: Bool

    /// Reads a request; nil if its body cannot be read beforehand.
    static func read(_ request: URLRequest, _ body: Data?) -> Estimate? {
        guard let body else { return nil }
        if body.isEmpty { return Estimate(input: 0, output: 0, stream: false) }
        let read = readEstimate(path: request.url?.path ?? "/", body: body)
        return Estimate(input: Int(clamping: read.input), output: read.output.map { Int(clamping: $0) }, stream: read.stream)
    }
}

/// What an answer of a language model says that it has used.
public struct Usage: Sendable, Hashable {
    /// Tokens of the whole prompt, with those that were cached.
    public let input: Int
    /// Tokens of the prompt that were read from a cache.
    public let cached: Int
    /// Tokens of the answer, with those of the model's thoughts.
    public let output: Int
}

/// How much a token counts, from 0 to 1,000, to three decimals. A factor out of this range counts as the nearer end,
/// and one that is no number as 1.
public struct Factors: Sendable, Hashable {
    /// A token of the prompt that was not cached.
    public var input: Double
    /// A token of the prompt that was read from a cache.
    public var cached: Double
    /// A token of the answer. Amazon Bedrock counts some models' five times.
    public var output: Double

    public init(input: Double = 1, cached: Double = 1, output: Double = 1) {
        (self.input, self.cached, self.output) = (input, cached, output)
    }

    var thousandths: TokenFactors {
        func whole(_ factor: Double) -> UInt32 { factor.isNaN ? 1_000 : UInt32((min(max(factor, 0), 1_000) * 1_000).rounded()) }
        return TokenFactors(input: whole(input), cached: whole(cached), output: whole(output))
    }
}

/// How the weights of HTTP requests are known: what a request reserves, and what its answer settles.
///
/// ```swift
/// let limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens"]
/// let chats = try Policy("chats", preset: .llm, rateLimit: RateLimit(limits: limits), metering: .tokens(output: 800))
/// ```
public struct Metering: Sendable {
    /// Weights of a request, by their names, from 0 to 2^53 - 1, where the request has none of its own; nil for the limits' defaults.
    public var weigh: (@Sendable (Estimate) -> [String: Int]?)?
    /// Totals that an attempt settles, by the names of weights, from what its answer says, plain or streamed; nil to settle nothing. An
    /// answer that is not read to its end, or says nothing, counts what it has reserved.
    public var usage: (@Sendable (Usage) -> [String: Int]?)?

    public init(
        weigh: (@Sendable (Estimate) -> [String: Int]?)? = nil, usage: (@Sendable (Usage) -> [String: Int]?)? = nil
    ) {
        (self.weigh, self.usage) = (weigh, usage)
    }

    /// For a limit that counts tokens: a request reserves what its body tells, and settles what its answer says. It reads OpenAI, Anthropic,
    /// Gemini, Bedrock, and services that speak like one of them.
    ///
    /// - Parameters:
    ///   - weight: Weight that the tokens count for.
    ///   - output: Tokens that an answer is taken to have if its request does not limit them.
    ///   - factors: How much each kind of token counts.
    public static func tokens(_ weight: String = "tokens", output: Int = 1_000, factors: Factors = Factors()) -> Metering {
        let thousandths = factors.thousandths
        @Sendable func weighed(_ input: Int, _ cached: Int, _ output: Int) -> [String: Int] {
            let usage = AnswerUsage(
                input: UInt64(clamping: input), cached: UInt64(clamping: cached), output: UInt64(clamping: output))
            return [weight: Int(clamping: tokensWeight(usage: usage, factors: thousandths) ?? 0)]
        }
        return Metering(
            weigh: { weighed($0.input, 0, $0.output ?? output) }, usage: { weighed($0.input, $0.cached, $0.output) })
    }
}

/// Reads what one answer has used while its body passes by, and settles it (semantics 15.6 and 15.7.7).
final class Meter: Sendable {
    /// Bytes that the engine reads together, so that a piece costs no crossing.
    private static let together = 8 * 1024
    /// Bytes at the end of a body in which the last event of OpenAI's streams is looked for.
    private static let end = 32
    /// That event, after which some readers close the answer.
    private static let done = Data("[DONE]".utf8)

    private struct State: Sendable {
        var unread = Data()
        var tail = Data()
        var ended = false
    }

    private let attempt: Attempt
    private let policy: Policy
    private let usage: @Sendable (Usage) -> [String: Int]?
    private let reader = UsageReader()
    private let state = Locked(State())

    /// Nil if the policy does not read what this answer has used. `URLSession` decodes the codings that it knows, and leaves the header.
    init?(_ policy: Policy, _ attempt: Attempt, _ response: URLResponse) {
        guard let usage = policy.metering?.usage, policy.countsWeights, Pieces.isPlain(response) else { return nil }
        (self.policy, self.attempt, self.usage) = (policy, attempt, usage)
    }

    /// Reads the next piece.
    func piece(_ piece: Data) {
        state.withLock { state in
            state.unread += piece
            if state.unread.count > Self.together { read(&state) }
        }
    }

    private func read(_ state: inout State) {
        reader.read(piece: state.unread)
        state.tail = Data((state.tail + state.unread).suffix(Self.end))
        state.unread.removeAll(keepingCapacity: true)
    }

    /// Settles at the end of a whole body, or of one that is closed after the last event of OpenAI's streams. Of another one nobody knows what
    /// it has used, so its reservation counts.
    func finish(whole: Bool) {
        let settles = state.withLock { state in
            defer { state.ended = true }
            if state.ended { return false }
            read(&state)
            return whole || state.tail.range(of: Self.done) != nil
        }
        guard settles else { return }
        let said = reader.usage()
        guard said.input != nil || said.output != nil else { return }
        func count(_ tokens: UInt64?) -> Int { Int(clamping: tokens ?? 0) }
        let totals = usage(Usage(input: count(said.input), cached: count(said.cached), output: count(said.output)))
        for (weight, total) in totals ?? [:] where !attempt.settle(weight, total) {
            policy.unsettled(weight)
        }
    }
}

extension Policy {
    /// Whether limits of the policy count weights.
    var countsWeights: Bool { engine.native.countsWeights(policy: number) }

    /// Weights that the policy gives a request.
    func weights(of estimate: Estimate?) -> [String: Int] {
        guard let weigh = metering?.weigh, let estimate, countsWeights else { return [:] }
        return weigh(estimate) ?? [:]
    }

    /// Reports once that a total was not settled.
    func unsettled(_ weight: String) {
        let told = complainedTotals.withLock { told in
            defer { told = true }
            return told
        }
        if told { return }
        Warnings.write("usage of policy \"\(name)\": no limit counts \"\(weight)\", or the attempt has ended; it is reported once")
    }
}
