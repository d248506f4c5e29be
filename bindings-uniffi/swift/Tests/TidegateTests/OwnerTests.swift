import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Who holds a policy, and when it is freed (semantics 0.9, ADR 0038).
@Suite(.serialized) struct OwnerTests {
    let engine = Engine(seed: 31, clock: ManualClock())

    /// Makes policies on one line.
    private func made(_ seconds: Int, _ name: String = "p") throws -> Policy {
        try Policy(name, deadline: .seconds(seconds), engine: engine)
    }

    /// Warnings about a name while something runs.
    private func warnings(about name: String, _ work: () async throws -> Void) async throws -> [String] {
        let seen = Locked<[String]>([])
        let before = Warnings.sink.withLock { sink in
            defer { sink = { text in seen.withLock { $0.append(text) } } }
            return sink
        }
        defer { Warnings.sink.withLock { $0 = before } }
        try await work()
        return seen.withLock { $0.filter { $0.contains("\"\(name)\"") } }
    }

    @Test func unnamedPoliciesAreFreed() async throws {
        for _ in 0..<300 {
            let policy = try Policy(deadline: .seconds(9), engine: engine)
            #expect(try await policy.run { _ in 1 } == 1)
        }
        #expect(engine.snapshot().policies.count <= 1)
        #expect(engine.snapshot().routes.count <= 1)
    }

    @Test func aNameThatNobodyHoldsKeepsItsCounts() async throws {
        let limit = RateLimit(permits: 1, per: .seconds(60), burst: 1)
        do {
            let policy = try Policy("limited", rateLimit: limit, engine: engine)
            #expect(await policy.ended { _ in 1 }.report.reason == .ok)
        }
        let again = try Policy("limited", rateLimit: limit, engine: engine)
        #expect(await again.ended { _ in 1 }.report.reason == .rateLimited, "making it again refills nothing")
    }

    @Test func twoOwnersThatDisagreeAreTold() async throws {
        let one = try Policy("shared", deadline: .seconds(1), engine: engine)
        do {
            _ = try Policy("shared", deadline: .seconds(2), engine: engine)
            Issue.record("taken")
        } catch let error as PolicyError {
            let text = error.description
            #expect(text.contains("\"shared\"") && text.contains("retune") && text.contains("another name"), "\(text)")
            #expect(text.contains("it was made at TidegateTests/OwnerTests.swift:"), "\(text)")
        }
        #expect(one.span("deadline") == .seconds(1))
        let same = try Policy("shared", deadline: .seconds(1), engine: engine)
        #expect(same.number == one.number)
    }

    @Test func theSameLineWithOtherSettingsRetunesAndWarnsOnce() async throws {
        let told = try await warnings(about: "again") {
            let one = try made(1, "again")
            let two = try made(2, "again")
            _ = try made(3, "again")
            #expect(one.span("deadline") == .seconds(3) && two.number == one.number)
            #expect(throws: PolicyError.self) { try made(-1, "again") }
            #expect(one.span("deadline") == .seconds(3))
        }
        #expect(told.count == 1)
        let text = told.first ?? ""
        #expect(text.contains("is made again at TidegateTests/OwnerTests.swift:") && text.contains("two names"), "\(text)")
    }

    @Test func aPolicyThatNobodyHoldsTakesOtherSettingsSilently() async throws {
        let told = try await warnings(about: "free") {
            do { _ = try Policy("free", deadline: .seconds(1), engine: engine) }
            let two = try Policy("free", deadline: .seconds(2), engine: engine)
            #expect(two.span("deadline") == .seconds(2))
        }
        #expect(told == [])
    }

    @Test func kindsOfARetunedNameHoldForAllItsOwners() async throws {
        func made(_ kinds: [String: Base]) throws -> Policy {
            try Policy("kinds", kinds: kinds, retry: Retry(), classify: { _ in Outcome("late") }, engine: engine)
        }
        let one = try made(["early": .conflict])
        let two = try made(["late": .conflict])
        #expect(one.kinds["late"] != nil && two.kinds["early"] == nil)
    }

    @Test func poolsOfOneLineAreRetuned() async throws {
        func pool(_ size: Int) throws -> Pool { try Pool("db", .bulkhead(Bulkhead(maxConcurrency: size)), engine: engine) }
        let told = try await warnings(about: "db") {
            _ = try pool(1)
            _ = try pool(2)
        }
        #expect(told.count == 1)
        do {
            _ = try Pool("db", .bulkhead(Bulkhead(maxConcurrency: 3)), engine: engine)
            Issue.record("taken")
        } catch let error as PolicyError {
            #expect(error.description.contains("it was made at TidegateTests/OwnerTests.swift:"), "\(error)")
        }
    }

    /// Semantics 0.9.11: a pool that no policy names any more may be gone, and its line with it.
    @Test func aPoolThatIsGoneHasNoLine() async throws {
        func first(_ name: String, _ size: Int) throws -> Pool {
            try Pool(name, .bulkhead(Bulkhead(maxConcurrency: size)), engine: engine)
        }
        for number in 0..<1_030 {
            _ = try first("\(number)", 1)
            _ = try Policy(bulkhead: Bulkhead(pool: "\(number)"), engine: engine)
        }
        #expect(engine.snapshot().pools["0"] == nil)
        let second = Place(#fileID, #line + 1)
        _ = try Pool("0", .bulkhead(Bulkhead(maxConcurrency: 2)), engine: engine)
        let told = try await warnings(about: "0") {
            do {
                _ = try first("0", 3)
                Issue.record("taken")
            } catch let error as PolicyError {
                #expect(error.description.contains("it was made at \(second)"), "\(error)")
            }
        }
        #expect(told == [])
        #expect(engine.pools.withLock { $0.count } <= 1_026)
    }

    @Test func aCallKeepsItsPolicy() async throws {
        let clock = ManualClock()
        let engine = Engine(seed: 1, clock: clock)
        func started() throws -> Task<Int, any Error> {
            let policy = try Policy(retry: Retry(backoff: .constant(.seconds(5))), on: [Broken.self], engine: engine)
            return Task {
                try await policy.run { attempt in
                    if attempt.number == 1 { throw Broken() }
                    return attempt.number
                }
            }
        }
        let call = try started()
        try await eventually { engine.idle.timers == 1 }
        await clock.advance(by: .seconds(5))
        #expect(try await call.value == 2)
        try await eventually { engine.owners.withLock { $0.count } == 0 }
    }

    @Test func aDocumentOwnsItsPolicies() async throws {
        func made() throws -> Policy {
            let policies = try Policies(toml: "[policy.a]\ndeadline = \"1s\"\n[policy.b]\ndeadline = \"1s\"", engine: engine)
            try policies.reload(toml: "[policy.a]\ndeadline = \"2s\"\n[policy.c]\ndeadline = \"1s\"")
            try policies.reload(toml: "[policy.a]\ndeadline = \"3s\"\n[policy.c]\ndeadline = \"1s\"")
            #expect(engine.owners.withLock { $0.count } == 2)
            #expect(throws: PolicyError.self) { try Policy("c", deadline: .seconds(9), engine: engine) }
            return try policies["a"]
        }
        let a = try made()
        #expect(try await a.run { _ in 1 } == 1)
        #expect(engine.owners.withLock { $0.count } == 1, "a is held, c is not")
        for name in ["b", "c"] { _ = try Policy(name, deadline: .seconds(9), engine: engine) }
        #expect(throws: PolicyError.self) { try Policy("a", deadline: .seconds(9), engine: engine) }
    }

    // MARK: Misuse

    @Test func aBackgroundSessionIsRefused() async throws {
        let error = URLSession.refusal(ofBackground: "app.uploads")
        #expect(error.description.hasPrefix("session = background(withIdentifier: \"app.uploads\"): must not be a background session"))
        #expect(error.description.contains("URLSession(configuration: .default)"))
        #expect(URLSession(configuration: .ephemeral).refusal(try made(1)) == nil)
    }
}
