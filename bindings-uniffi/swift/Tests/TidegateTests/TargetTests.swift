import Foundation
import Testing

@testable import Tidegate

/// Targets: attempts learn which model, provider or key they go to (semantics 17).
struct TargetTests {
    private static let ladder = """
        [targets.chat]
        pick = "ladder"
        members = ["large", "small"]
        default.breaker = { consecutive = 1, break_duration = "10s" }
        [policy.chat]
        targets = "chat"
        retry = { max_attempts = 2, backoff = { base = "1ms", max = "1ms" } }
        [policy.inner]
        deadline = "5s"
        """
    private struct Down: Error {}

    private func policies(_ text: String = ladder, _ engine: Engine = Engine(seed: 7)) throws -> Policies {
        try Policies(toml: text, on: [Down.self], engine: engine)
    }

    @Test("a closure learns its target and fails over (17.4.1, 17.2.11)")
    func failsOver() async throws {
        let chat = try policies()["chat"]
        let seen = Locked<[[String?]]>([])
        @Sendable func ask() async throws -> String? {
            try await chat.run { attempt in
                await Task.yield()
                seen.withLock { $0.append([attempt.target, target()]) }
                if attempt.target == "large" { throw Down() }
                return attempt.target
            }
        }
        #expect(target() == nil)
        #expect(try await ask() == "small")
        #expect(try await ask() == "small", "the first one's breaker is open")
        #expect(seen.withLock { $0 } == [["large", "large"], ["small", "small"], ["small", "small"]])
        #expect(target() == nil)
    }

    @Test("an inner call without targets sees the target around it, and its attempt has none")
    func inner() async throws {
        let all = try policies()
        let (chat, inner) = (try all["chat"], try all["inner"])
        let seen = try await chat.run { _ in try await inner.run { [$0.target, target()] } }
        #expect(seen == [nil, "large"])
    }

    @Test("each attempt of a race keeps its own target (17.4.6)")
    func race() async throws {
        let text = """
            [targets.chat]
            pick = "ladder"
            members = ["large", "small"]
            [policy.chat]
            targets = "chat"
            hedge = { delay = "1ms", max_attempts = 2, budget = { kind = "none" } }
            """
        let chat = try policies(text)["chat"]
        let (seen, hedged) = (Locked<[[String?]]>([]), Locked(false))
        let answer = try await chat.run { attempt in
            if attempt.number == 2 { hedged.withLock { $0 = true } }
            while !hedged.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
            seen.withLock { $0.append([attempt.target, target()]) }
            // Both have asked before one of them answers.
            while seen.withLock({ $0.count }) < 2 { try await Task.sleep(for: .milliseconds(1)) }
            if attempt.number == 1 { try await Task.sleep(for: .seconds(60)) }
            return attempt.target
        }
        #expect(answer == "small")
        let both = seen.withLock { $0 }
        #expect(Set(both) == [["large", "large"], ["small", "small"]])
    }

    @Test("no target is a rejection, and the snapshot shows the targets (17.3.1)")
    func noTarget() async throws {
        let engine = Engine(seed: 7)
        let chat = try policies(Self.ladder, engine)["chat"]
        await #expect(throws: Down.self) { try await chat.run { _ in throw Down() } }
        let refused = await chat.ended { _ in 7 }
        #expect(refused.report.reason == .noTarget && refused.report.attempts == 0)
        guard case .failure(let error) = refused.result else { throw Down() }
        #expect((error as? Rejected)?.cause == .noTarget)
        let targets = engine.snapshot().targets
        #expect(targets.map { "\($0.group)/\($0.name): \($0.attempts)" } == ["chat/large: 1", "chat/small: 1"])
        #expect(targets.allSatisfy { $0.breaker?.state == "open" && $0.inFlight == 0 })
    }

    @Test("an operator closes a target (17.3.5)")
    func forced() async throws {
        let engine = Engine(seed: 7)
        let chat = try policies(Self.ladder, engine)["chat"]
        try chat.forceTarget("large")
        #expect(try await chat.run { _ in target() } == "small")
        #expect(engine.snapshot().targets.map(\.forced) == [true, false])
        try chat.forceTarget("large", false)
        #expect(try await chat.run { _ in target() } == "large")
        #expect(throws: PolicyError.self) { try chat.forceTarget("huge") }
    }

    @Test("a reload changes the members of a group (17.1.8)")
    func reload() async throws {
        let all = try policies()
        #expect(try await all["chat"].run { _ in target() } == "large")
        let changes = try all.reload(toml: Self.ladder.replacingOccurrences(of: #"["large", "small"]"#, with: #"["tiny", "large"]"#))
        #expect((changes.added, changes.changed, changes.removed) == ([], ["targets.chat"], []))
        #expect(try await all["chat"].run { _ in target() } == "tiny")
        #expect(all.pools.isEmpty, "a group is no pool")
    }

    @Test("mistakes of a group name key, value and rule (17.1.2)")
    func mistakes() throws {
        do {
            _ = try policies(Self.ladder.replacingOccurrences(of: "ladder", with: "steps"))
            Issue.record("there is no such order")
        } catch {
            #expect("\(error)".contains(#"targets.chat.pick = "steps": must be one of ladder, balanced"#))
        }
    }
}
