import Foundation
import Testing
import TidegateNative
import TidegateNativeFFI

@testable import Tidegate

/// The vectors that every language shares (`tests/README.md`), through the native half and nothing else.
@Suite struct VectorTests {
    static let vectors = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("tests/vectors")

    static func load(_ family: String) throws -> [[String: Any]] {
        let folder = vectors.appendingPathComponent(family)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".json") }
        return try names.sorted().map { name in
            let data = try Data(contentsOf: folder.appendingPathComponent(name))
            return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        }
    }

    static func pairs(_ of: Any?) -> [Pair] {
        (of as? [[Any]] ?? []).map { pair in
            let word = pair[1] as? String
            let value = word.map { TidegateNative.Value.word(value: $0) } ?? .number(value: (pair[1] as! NSNumber).doubleValue)
            return Pair(key: pair[0] as! String, value: value)
        }
    }

    static func number(_ of: Any?) -> UInt64 { (of as! NSNumber).uint64Value }

    static func take(_ engine: TidegateNative.Engine, _ policies: Any?) throws -> [String: UInt32] {
        try (policies as? [[String: Any]] ?? []).reduce(into: [:]) { numbers, policy in
            let name = policy["name"] as! String
            numbers[name] = try engine.policy(name: name, pairs: pairs(policy["pairs"]))
        }
    }

    @Test func engineScripts() throws {
        var scripts = 0
        for file in try Self.load("engine") {
            for vector in file["vectors"] as! [[String: Any]] where !streams(vector) {
                try script(vector)
                scripts += 1
            }
        }
        #expect(scripts > 150)
    }

    /// Whether a script has the timeouts of streams, which this package refuses so far (semantics 7.7.23).
    private func streams(_ vector: [String: Any]) -> Bool {
        let keys: Set = ["first_byte_timeout", "idle_timeout", "deadline_until", "counts"]
        let policies = vector["policies"] as! [[String: Any]]
        return policies.contains { ($0["pairs"] as! [[Any]]).contains { keys.contains($0[0] as! String) } }
    }

    private func script(_ vector: [String: Any]) throws {
        let engine = TidegateNative.Engine(seed: Self.number(vector["seed"]), maxRoutes: 10_000, journal: false, history: 0)
        let handle = engine.address()
        for pool in vector["pools"] as? [[String: Any]] ?? [] {
            let kind = pool["kind"] as! String
            let table = kind == "budget" ? "retry.budget." : "\(kind)."
            var settings = Pairs(preset: false)
            for pair in Self.pairs(pool["pairs"]) { settings.add(pair.key, pair.value) }
            try engine.pool(name: pool["name"] as! String, kind: kind, pairs: settings.without(table), now: 0)
        }
        let policies = try Self.take(engine, vector["policies"])
        var calls: [String: UInt64] = [:]
        for entry in vector["script"] as! [[String: Any]] {
            let at = Self.number(entry["at"])
            let says = Comment(rawValue: "\(vector["name"]!): \(entry["says"]!)")
            var step: UInt64?
            if let force = entry["force"] as? [String: Any] {
                let policy = try #require(policies[force["policy"] as! String])
                let route = (force["route"] as? String).map { engine.route(policy: policy, key: $0, now: at) }
                engine.forceOpen(policy: policy, route: route, on: force["on"] as! Bool, now: at)
            } else if let begin = entry["begin"] as? [String: Any] {
                let request = begin["request"] as! [Any]
                var route: UInt64 = 0
                if let key = begin["route"] as? String {
                    route = engine.route(policy: try #require(policies[begin["policy"] as! String]), key: key, now: at)
                }
                var target = Self.number(request[3])
                if let path = begin["path"] as? String { target = engine.target(route: route, path: path, now: at) }
                let parent = (request[2] as? String).flatMap { calls[$0] } ?? 0
                var call: UInt64 = 0
                step = tidegate_begin(
                    handle, route, Self.number(request[0]), Self.number(request[1]), parent, target, at, &call)
                calls[entry["call"] as! String] = call
            } else {
                let call = try #require(calls[entry["on"] as! String])
                step = tidegate_on(handle, call, Self.number(entry["event"]), at)
            }
            #expect(step == (entry["step"] as? NSNumber)?.uint64Value, says)
            let woken = (entry["wakes"] as! [String]).map { calls[$0]! }
            #expect(engine.takeWoken() == woken, says)
        }
        withExtendedLifetime(engine) {}
    }

    @Test func answersAreClassified() throws {
        var cases = 0
        for file in try Self.load("classify") {
            let engine = TidegateNative.Engine(seed: 0, maxRoutes: 10, journal: false, history: 0)
            let policies = try Self.take(engine, file["policies"])
            for each in file["cases"] as! [[String: Any]] {
                let headers = (each["headers"] as! [[String]]).map { Header(name: $0[0], value: $0[1]) }
                let word = engine.classify(
                    policy: try #require(policies[each["policy"] as! String]),
                    status: UInt16(Self.number(each["status"])), headers: headers, wallUs: Self.number(file["wall_us"]))
                #expect(word == Self.number(each["word"]), "\(each)")
                cases += 1
            }
        }
        #expect(cases > 100)
    }

    @Test func policiesAndTheirMistakes() throws {
        let pools: [String: (String, [Pair])] = [
            "bulkhead.pool": ("bulkhead", [Pair(key: "max_concurrency", value: .number(value: 1))]),
            "rate_limit.pool": (
                "rate_limit",
                [Pair(key: "permits", value: .number(value: 1)), Pair(key: "per", value: .number(value: 1e6))]
            ),
            "retry.budget.pool": ("budget", [Pair(key: "kind", value: .word(value: "window"))]),
        ]
        var cases = 0
        for file in try Self.load("policy") {
            for each in file["cases"] as! [[String: Any]] {
                let engine = TidegateNative.Engine(seed: 0, maxRoutes: 10, journal: false, history: 0)
                for pair in each["pairs"] as! [[Any]] {
                    guard let (kind, settings) = pools[pair[0] as! String], let name = pair[1] as? String, !name.isEmpty
                    else { continue }
                    try engine.pool(name: name, kind: kind, pairs: settings, now: 0)
                }
                var wrong: [String] = []
                do {
                    _ = try engine.policy(name: "p", pairs: Self.pairs(each["pairs"]))
                } catch Invalid.Settings(let mistakes) {
                    wrong = Set(mistakes.map(\.key)).sorted()
                }
                #expect(wrong == each["wrong"] as! [String], "\(each["pairs"]!)")
                cases += 1
            }
        }
        #expect(cases > 150)
    }

    @Test func words() throws {
        let file = try #require(try Self.load("wire").first)
        let steps = file["steps"] as! [[String: Any]]
        for each in steps {
            let (word, step) = (Self.number(each["word"]), each["step"] as! [String: Any])
            let says = Comment(rawValue: "\(step)")
            let action = step["action"] as! String
            #expect(action == ["done", "attempt", "wait"][Int(word & 3)], says)
            let done = action == "done"
            if done { #expect(Wire.verdict(word).rawValue == step["verdict"] as? String, says) }
            if action == "attempt" { #expect(Wire.number(word) == (step["attempt"] as? Int), says) }
            #expect((word & Wire.wakes != 0) == (Self.number(step["wakes"]) == 1), says)
            let us = (step[done ? "retry_in_us" : "next_us"] as? NSNumber)?.uint64Value
            let span = us.map { min(done ? ($0 + 999) / 1000 : $0, 1 << 31 - 2) }
            #expect(Wire.span(word) == span, says)
        }
        #expect(steps.count > 500)
        let ends = (file["events"] as! [[String: Any]]).filter { ($0["event"] as! [String: Any])["event"] as! String == "finished" }
        for each in ends {
            let event = each["event"] as! [String: Any]
            let opinion = UInt64(["none", "retry", "do_not"].firstIndex(of: event["opinion"] as! String)!)
            let after = (event["retry_after_us"] as? NSNumber).map { Duration.microseconds($0.uint64Value) }
            let outcome = Wire.outcome(Self.number(event["kind"]), opinion: opinion, retryAfter: after)
            #expect(Wire.finished(Int(Self.number(event["attempt"])), outcome) == Self.number(each["word"]), "\(event)")
        }
        #expect(ends.count > 100)
        #expect(tidegate_on(TidegateNative.Engine(seed: 1, maxRoutes: 1, journal: false, history: 0).address(), 1, 7, 0) == Wire.none)
        #expect(Wire.remaining(-5) == 1 && Wire.remaining(1500) == 1501 && Wire.remaining(1e300) == 1 << 53 - 1)
    }

    @Test func verdictsAndClassesAreInCoresOrder() throws {
        // The first step of a policy that is forced open is Done, forced_open: one of each end would need a script of its own,
        // and `engineScripts` has them; here the names are compared with the page that lists them.
        let verdicts = Set(try Self.load("wire").flatMap { file in
            (file["steps"] as! [[String: Any]]).compactMap { ($0["step"] as! [String: Any])["verdict"] as? String }
        })
        #expect(verdicts == Set(Verdict.allCases.map(\.rawValue)))
        #expect(Kind.classes.map(\.rawValue).count == 9)
    }
}
