import Foundation
import Testing
import TidegateTesting

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

@testable import Tidegate

/// The scenarios that every language plays (`tests/README.md`), through the public interface and on a clock that the test moves.
@Suite struct ScenarioTests {
    /// The scripted end of an attempt.
    private struct Failed: Error {
        let kind: Kind
        let after: Duration?
    }

    private struct Script: Sendable {
        let takes: Duration
        let kind: String
        let after: Int?

        /// What it is as an answer of HTTP: Retry-After is in seconds there.
        func answer(_ url: URL) throws -> Answer {
            let status = kind == "ok" ? 200 : 429
            let fields = after.map { ["Retry-After": "\($0 / 1000)"] } ?? [:]
            let response = HTTPURLResponse(url: url, statusCode: status, httpVersion: "HTTP/1.1", headerFields: fields)
            return Answer(data: Data(), response: try #require(response))
        }
    }

    private struct Played: Sendable, Equatable {
        var starts: [Int] = []
        var ended = 0
        var end = ""
    }

    private struct Given: Sendable {
        let at: Duration
        let policy: String
        let criticality: Criticality?
        let path: String?
        let attempts: [Script]
        let expected: Played

        init(_ json: [String: Any]) throws {
            at = .milliseconds(try #require(json["at"] as? Int))
            policy = try #require(json["policy"] as? String)
            let words = ["best_effort": Criticality.bestEffort, "degraded": .degraded, "normal": .normal, "critical": .critical]
            criticality = try (json["criticality"] as? String).map { try #require(words[$0]) }
            path = json["path"] as? String
            attempts = try #require(json["attempts"] as? [[Any]]).map { attempt in
                Script(
                    takes: .milliseconds(try #require(attempt[0] as? Int)), kind: try #require(attempt[1] as? String),
                    after: attempt.count > 2 ? try #require(attempt[2] as? Int) : nil)
            }
            expected = Played(
                starts: try #require(json["starts"] as? [Int]), ended: try #require(json["ended"] as? Int),
                end: try #require(json["end"] as? String))
        }
    }

    /// What attempts write down.
    private final class Starts: @unchecked Sendable {
        private let lock = NSLock()
        private var all: [Int] = []

        /// Answers how many there are now.
        func add(_ moment: Int) -> Int {
            lock.withLock {
                all.append(moment)
                return all.count
            }
        }

        var list: [Int] { lock.withLock { all } }
    }

    private static func milliseconds(_ clock: ManualClock) -> Int {
        Int((clock.now.elapsed.microseconds / 1000).rounded(.up))
    }

    private static let kinds: [String: Kind] = ["transient": .transient, "throttled": .throttled]

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test func everyScenarioIsPlayedAsTheModelSays() async throws {
        let file = VectorTests.vectors.deletingLastPathComponent().appendingPathComponent("scenarios/scenarios.json")
        let json = try #require(try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
        let scenarios = try #require(json["scenarios"] as? [[String: Any]])
        #expect(scenarios.count >= 20)
        // Those of a fleet need a store, which this package does not have.
        for scenario in scenarios where scenario["processes"] == nil { try await play(scenario) }
    }

    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    private func play(_ scenario: [String: Any]) async throws {
        let name = try #require(scenario["name"] as? String)
        let calls = try #require(scenario["calls"] as? [[String: Any]]).map(Given.init)
        let clock = ManualClock()
        let engine = Engine(seed: try #require(scenario["seed"] as? NSNumber).uint64Value, clock: clock)
        let document = try JSONSerialization.data(withJSONObject: try #require(scenario["document"]))
        let policies = try Policies(
            json: String(decoding: document, as: UTF8.self),
            classify: { result -> Outcome? in
                guard case .failure(let failed as Failed) = result else { return nil }
                return Outcome(failed.kind, retryAfter: failed.after)
            },
            engine: engine)
        let found = try await SerialRunner.run(clock) {
            try await withThrowingTaskGroup(of: (Int, Played).self) { group in
                for (place, given) in calls.enumerated() {
                    let policy = try policies[given.policy]
                    group.addTask { (place, try await Self.call(given, policy, clock)) }
                }
                return try await group.reduce(into: [Int: Played]()) { $0[$1.0] = $1.1 }
            }
        }
        let tolerance = try #require(scenario["tolerance"] as? Int)
        for (place, given) in calls.enumerated() {
            let ours = try #require(found[place])
            let due = given.expected
            let moments = zip(ours.starts + [ours.ended], due.starts + [due.ended])
            let near = ours.starts.count == due.starts.count && moments.allSatisfy { abs($0 - $1) <= tolerance }
            #expect(near && ours.end == due.end, "\(name), call \(place): \(ours), not \(due)")
        }
        #expect(engine.idle == (0, 0), "\(name)")
        #expect(engine.snapshot().live == 0, "\(name)")
    }

    private static func call(_ given: Given, _ policy: Policy, _ clock: ManualClock) async throws -> Played {
        try await clock.sleep(for: given.at)
        let starts = Starts()
        let attempt: @Sendable () async throws -> Script = {
            let number = starts.add(milliseconds(clock))
            let script = given.attempts[min(number, given.attempts.count) - 1]
            try await clock.sleep(for: script.takes)
            return script
        }
        var played = Played()
        do {
            if let path = given.path {
                played.end = try await request(path, policy, attempt) == 200 ? "ok" : "failure"
            } else {
                try await policy.run(CallOptions(criticality: given.criticality)) { _ in
                    let script = try await attempt()
                    guard script.kind != "ok" else { return }
                    let after = script.after.map { Duration.milliseconds($0) }
                    throw Failed(kind: try #require(kinds[script.kind]), after: after)
                }
                played.end = "ok"
            }
        } catch is Failed {
            played.end = "failure"
        } catch let error as any TidegateError {
            played.end = error.code.replacingOccurrences(of: "_exceeded", with: "")
        }
        (played.starts, played.ended) = (starts.list, milliseconds(clock))
        return played
    }

    /// A request, as the adapter of `URLSession` makes it of a policy, without a session. Answers its status.
    private static func request(
        _ path: String, _ policy: Policy, _ attempt: @escaping @Sendable () async throws -> Script
    ) async throws -> Int? {
        let url = try #require(URL(string: "http://service.example\(path)"))
        let plan = Plan(URLRequest(url: url), RequestOptions(), policy)
        let ended: Ended<Answer> = await policy.make(
            plan.call, flags: plan.flags, path: plan.path, values: Policy.Values(known: { policy.classified($0) })
        ) { _ in
            try await attempt().answer(url)
        }
        return (try ended.result.get().response as? HTTPURLResponse)?.statusCode
    }
}
