import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Limits that learn from what answers say is left of the service's quota (semantics 3.7), and metrics of metered services (12.5).
@Suite(.serialized) struct LearnTests {
    private let engine = Engine(seed: 7, clock: ManualClock())
    private let session = URLSession(configuration: .ephemeral)
    private let origin: Origin

    init() throws {
        origin = try Origin.learning.get()
    }

    private func chat(_ learn: RateLimit.Learn? = .down, preset: Preset? = nil) throws -> Policy {
        try Policy("chat", preset: preset, rateLimit: RateLimit(limits: ["rpm: permits=500 per=1m"], learn: learn), engine: engine)
    }

    /// Requests that the limit has.
    private var left: Int? { engine.snapshot().routes.first?.rate?.limits["rpm"]?.tokens }

    private func answering(_ status: Int = 200, _ headers: String = "\"X-RateLimit-Remaining-Requests\": \"3\"") async throws -> URL {
        let answer = "{\"status\": \(status), \"headers\": {\(headers), \"x-ratelimit-remaining-tokens\": \"nothing to read\"}}"
        try await origin.script("{\"sequences\": {\"/x\": [\(answer)]}}")
        return origin.url.appendingPathComponent("x")
    }

    @Test("an answer of any status lowers the limit (3.7.1, 3.7.6)", arguments: [200, 404])
    func anyStatus(_ status: Int) async throws {
        let (_, response) = try await session.data(from: try await answering(status), policy: try chat())
        #expect((response as? HTTPURLResponse)?.statusCode == status)
        #expect(left == 3)
    }

    @Test func withoutLearnALimitCountsItsOwnCalls() async throws {
        _ = try await session.data(from: try await answering(), policy: try chat(nil))
        #expect(left == 499)
    }

    @Test("the preset for language models learns (0.7.12, 0.7.13)")
    func preset() async throws {
        _ = try await session.data(from: try await answering(), policy: try chat(nil, preset: .llm))
        #expect(left == 3)
    }

    @Test func aPolicyThatSaysOffItselfDoesNotWhateverItsPreset() async throws {
        _ = try await session.data(from: try await answering(), policy: try chat(.off, preset: .llm))
        #expect(left == 499)
    }

    @Test func aStreamReportsThemToo() async throws {
        let (bytes, _) = try await session.bytes(from: try await answering(), policy: try chat())
        for try await _ in bytes {}
        #expect(left == 3)
    }

    @Test("metered and streaming services have their series (12.5)")
    func series() async throws {
        let document = """
            [targets.chat]
            pick = "ladder"
            members = ["large", "small"]
            default.cooldown = { base = "10s" }
            [policy.chat]
            targets = "chat"
            first_byte_timeout = "5s"
            retry = { max_attempts = 2, methods = ["POST"] }
            [policy.chat.rate_limit]
            limits.tpm = { permits = 60000, per = "1m", burst = 10000, weight = "tokens" }
            """
        let metrics = try Metrics(engine)
        let policy = try Policies(toml: document, engine: engine)["chat"]
        let events = "{\"headers\": {\"content-type\": \"text/event-stream\"}, \"body\": \"data: high\\n\\n\"}"
        try await origin.script("{\"sequences\": {\"/x\": [{\"status\": 429}, \(events)]}}")
        var request = URLRequest(url: origin.url.appendingPathComponent("x"))
        request.httpMethod = "POST"
        request.setValue("text/event-stream", forHTTPHeaderField: "Accept")
        let options = RequestOptions(CallOptions(route: "eu", weights: ["tokens": 600]))
        let (bytes, _) = try await session.bytes(for: request, policy: policy, options: options)
        for try await _ in bytes {}
        let read = metrics.read()
        func value(_ name: String, _ labels: [String: String]) -> Metrics.Reading? {
            read.first { one in one.family.name == "tidegate_\(name)" && labels.allSatisfy { one[$0.key] == $0.value } }?.reading
        }
        let limit = ["policy": "chat", "route": "eu", "limit": "tpm", "weight": "tokens"]
        let large = ["policy": "", "route": "chat", "target": "large"]
        #expect(value("rate_limit_reserved_total", limit) == .number(1_200))
        #expect(value("rate_limit_tokens", limit) == .number(9_400))
        guard case .histogram(let counts, _) = value("stream_delivery_seconds", ["policy": "chat", "route": "eu"]) else {
            Issue.record("no delivery")
            return
        }
        #expect(counts.reduce(0, +) == 1)
        for name in ["target_attempts_total", "target_failovers_total", "cooldown_closings_total", "cooldown_state"] {
            #expect(value(name, large) == .number(1), "\(name)")
        }
        #expect(value("target_skips_total", large.merging(["reason": "cooldown"]) { one, _ in one }) == .number(1))
    }
}
