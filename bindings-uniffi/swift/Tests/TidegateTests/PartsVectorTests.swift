import Foundation
import Testing

@testable import Tidegate

private typealias Json = [String: Any]

/// The vectors of the parts, which every language shares, through `Parts` and to the last bit.
///
/// Core takes any settings, a part only those that a policy may have: cases beyond them are refused, and how many those are is
/// written down, so that they cannot come to hide the rest.
@Suite struct PartsVectorTests {
    private static func file(_ path: String) throws -> Json {
        let data = try Data(contentsOf: VectorTests.vectors.appendingPathComponent(path + ".json"))
        return try #require(try JSONSerialization.jsonObject(with: data) as? Json)
    }

    /// Plays every step of a file: how many, and how many cases no policy allows.
    private static func told<Part>(
        _ path: String, _ new: (Json, Duration) throws -> Part, _ answer: (Part, Json, Duration) throws -> Json
    ) throws -> [Int] {
        var (played, refused) = (0, 0)
        for each in try file(path)["cases"] as! [Json] {
            let steps = each["steps"] as! [Json]
            do {
                let part = try new(each, us(each["origin"] ?? steps[0]["at"]!)!)
                for step in steps {
                    let found = try answer(part, step, us(step["at"])!)
                    for (key, value) in found {
                        #expect("\(value)" == "\(step[key] ?? NSNull())", "\(path): \(key) of \(step)")
                    }
                    played += 1
                }
            } catch is PolicyError { refused += 1 }
        }
        return [played, refused]
    }

    /// Whole microseconds, or nothing.
    private static func us(_ value: Any?) -> Duration? { (value as? NSNumber).map { Duration(exact: $0.uint64Value) } }
    private static func int(_ value: Any?) -> Int? { (value as? NSNumber)?.intValue }
    private static func real(_ value: Any?) -> Double? { (value as? NSNumber)?.doubleValue }
    private static func bits(_ value: Any?) -> UInt64 { UInt64(value as! String)! }
    private static func count(_ us: Duration) -> UInt64 { us.moment }
    private static func flag(_ value: Bool) -> Int { value ? 1 : 0 }
    /// As the vectors write it: equal to the last bit is the same text.
    private static func exact(_ found: Double, _ step: Json, _ key: String) -> Any {
        Double(step[key] as! String) == found ? step[key]! : "\(found)"
    }

    private static func rate(_ of: Any?) -> RateLimit {
        let of = of as! Json
        return RateLimit(permits: int(of["permits"]), per: us(of["per"]), burst: int(of["burst"]))
    }

    private static func taken(_ taken: Parts.Taken) -> Json {
        switch taken {
        case .now: ["granted": 1]
        case .after(let wait): ["granted": 0, "wait": count(wait)]
        case .never: ["granted": 0, "wait": "never"]
        }
    }

    @Test func tokenBuckets() throws {
        let played = try Self.told("rate/bucket", { try Parts.TokenBucket(Self.rate($0["settings"]), now: $1) }) { bucket, step, now in
            var found: Json = [:]
            switch step["op"] as! String {
            case "take":
                let (twin, cost) = (bucket.copy(), UInt32(Self.int(step["cost"])!))
                found = Self.taken(bucket.acquire(cost, now: now))
                #expect(twin.tryTake(cost, now: now) == (found["wait"] == nil))
            case "wait_for": found["wait"] = Self.count(bucket.wait(for: (step["tokens"] as! NSNumber).uint64Value, now: now))
            default: try bucket.retune(Self.rate(step), now: now)
            }
            found["level"] = bucket.level(now: now)
            return found
        }
        #expect(played == [320, 2])
    }

    @Test func gcra() throws {
        let played = try Self.told("rate/gcra", { each, _ in try Parts.Gcra(Self.rate(each["settings"])) }) { limit, step, now in
            let (twin, cost) = (limit.copy(), UInt32(Self.int(step["cost"])!))
            let found = Self.taken(limit.acquire(cost, now: now))
            #expect(twin.tryTake(cost, now: now) == (found["wait"] == nil))
            return found
        }
        #expect(played == [160, 1])
    }

    private static func aimd(_ of: Any?) -> Bulkhead {
        let of = of as! Json
        return Bulkhead(
            maxConcurrency: int(of["max_concurrency"]), minConcurrency: int(of["min_concurrency"]),
            latencyThreshold: us(of["latency_threshold"]), increaseStep: real(of["increase_step"]),
            backoffRatio: real(of["backoff_ratio"]), cutInterval: us(of["cut_interval"]), latencyQuantile: real(of["latency_quantile"]))
    }

    @Test func aimdLimits() throws {
        let played = try Self.told("limit/aimd", { each, _ in try Parts.Aimd(Self.aimd(each["settings"])) }) { limit, step, now in
            switch step["op"] as! String {
            case "latency": limit.onLatency(Self.us(step["latency"])!, now: now)
            case "failure": limit.onFailure(Self.us(step["latency"])!, now: now)
            case "timeout": limit.onTimeout(now: now)
            default: try limit.retune(Self.aimd(step["settings"]))
            }
            return ["limit": limit.limit, "exact": Self.exact(limit.exact, step, "exact")]
        }
        #expect(played == [720, 0])
    }

    @Test func gradient2Limits() throws {
        func new(_ each: Json, _: Duration) throws -> Parts.Gradient2 {
            let of = each["settings"] as! Json
            return try Parts.Gradient2(
                Bulkhead(
                    maxConcurrency: Self.int(of["max_concurrency"]), minConcurrency: Self.int(of["min_concurrency"]),
                    longWindow: Self.int(of["long_window"]), rttTolerance: Self.real(of["rtt_tolerance"]),
                    headroom: Self.real(of["headroom"]), variant: Bulkhead.Variant(rawValue: each["variant"] as! String)))
        }
        let played = try Self.told("limit/gradient2", new) { limit, step, now in
            let (started, inFlight) = (Self.us(step["started"])!, UInt32(Self.int(step["in_flight"])!))
            if step["op"] as! String == "latency" {
                limit.onLatency(Self.us(step["rtt"])!, started: started, inFlight: inFlight, now: now)
            } else {
                limit.onDrop(started: started, inFlight: inFlight, now: now)
            }
            return ["limit": limit.limit, "exact": Self.exact(limit.exact, step, "exact")]
        }
        #expect(played == [3682, 0])
    }

    /// A queue as its owner keeps it.
    private final class Queue {
        let codel: Parts.CoDel
        var waiting: [(came: Duration, scale: Double)] = []
        init(_ codel: Parts.CoDel) { self.codel = codel }
    }

    @Test(arguments: ["facebook", "rfc8289"]) func queues(_ law: String) throws {
        func new(_ each: Json, _ now: Duration) throws -> Queue {
            let settings = Bulkhead(
                queueTarget: Self.us(each["target"]), queueInterval: Self.us(each["interval"]), codel: Bulkhead.Codel(rawValue: law))
            return Queue(try Parts.CoDel(settings, now: now))
        }
        let played = try Self.told("codel/\(law)", new) { queue, step, now in
            if step["op"] as! String == "enqueue" {
                if queue.waiting.isEmpty { queue.codel.onEmpty(now: now) }
                queue.waiting.append((now, Double(step["scale"] as! String)!))
                return [:]
            }
            let congested = queue.codel.congested(now: now)
            if law == "facebook" { #expect([0.005, 0.020001, 0.05, 0.1].contains(Double(queue.codel.allowance(now: now).span) / 1e6)) }
            var (shed, granted) = (0, false)
            while !queue.waiting.isEmpty, !granted {
                let (came, scale) = queue.waiting.removeFirst()
                granted = !queue.codel.shouldShed(now - came, scale: scale, now: now)
                shed += granted ? 0 : 1
            }
            if queue.waiting.isEmpty { queue.codel.onEmpty(now: now) }
            return ["congested": Self.flag(congested), "shed": shed, "granted": Self.flag(granted)]
        }
        #expect(played == [2765, 0])
    }

    private static func breaker(_ of: Any?) -> (Breaker, Duration?) {
        let of = of as! Json
        let settings = Breaker(
            failureRatio: real(of["failure_ratio"]), window: us(of["window"]), minThroughput: int(of["min_throughput"]),
            windowKind: (of["window_kind"] as? String).flatMap(Breaker.WindowKind.init), consecutive: int(of["consecutive"]),
            breakDuration: us(of["break_duration"]), breakFactor: real(of["break_factor"]),
            maxBreakDuration: us(of["max_break_duration"]), halfOpenMaxCalls: int(of["half_open_max_calls"]),
            successesToClose: int(of["successes_to_close"]))
        return (settings, us(of["probe_lease"]))
    }

    private final class Gate {
        let breaker: Parts.CircuitBreaker
        var tickets: [String: Parts.Ticket] = [:]
        init(_ breaker: Parts.CircuitBreaker) { self.breaker = breaker }
    }

    /// Steps played, and cases refused: some of the random ones have breaks of a microsecond.
    private static let breakers = [
        "body": [31, 0], "breaks": [57, 0], "half_open": [87, 0], "late": [71, 0], "opening": [56, 0], "random": [1434, 17],
        "retune": [40, 1], "time": [48, 1], "window": [48, 0],
    ]

    @Test(arguments: breakers.keys.sorted()) func breakers(_ name: String) throws {
        func new(_ each: Json, _: Duration) throws -> Gate {
            let (settings, lease) = Self.breaker(each["settings"])
            return Gate(try Parts.CircuitBreaker(settings, probeLease: lease))
        }
        func change(_ change: Parts.CircuitBreaker.Change?, _ step: Json) -> Any {
            let told = change.map { [$0.from.rawValue, $0.to.rawValue] }
            return (step["transition"] as? [String]) == told ? step["transition"]! : "\(String(describing: told))"
        }
        let played = try Self.told("breaker/\(name)", new) { gate, step, now in
            let it = gate.breaker
            var found: Json = [:]
            var ticket = (step["call"] as? String).flatMap { gate.tickets[$0] }
            if let forged = step["forged"] as? [Any] {
                ticket = Parts.Ticket(number: UInt16(Self.int(forged[0])!), isProbe: forged[1] as! Bool)
            }
            switch step["op"] as! String {
            case "admit":
                let early = it.refuses(now: now)
                ticket = it.admit(now: now)
                #expect((early == nil) == (ticket != nil))
                gate.tickets[step["call"] as! String] = ticket
                if let ticket { found["probe"] = Self.flag(ticket.isProbe) } else { found["retry_in"] = Self.count(early!) }
            case "record":
                let evidence = Parts.CircuitBreaker.Evidence(rawValue: step["evidence"] as! String)!
                found["transition"] = change(it.record(ticket!, evidence, now: now, bits: Self.bits(step["bits"])), step)
            case "body": found["transition"] = change(it.onBodyFailure(ticket!, now: now, bits: Self.bits(step["bits"])), step)
            case "retune":
                let (settings, lease) = Self.breaker(step["settings"])
                try it.retune(settings, probeLease: lease, now: now)
            case "reset": it.reset()
            case "fork": it.forgetProbes()
            default: #expect(step["op"] as! String == "look")
            }
            found["state"] = it.state.rawValue
            found["failures"] = it.failures(now: now)
            found["throughput"] = it.throughput(now: now)
            // In this order: whether it is fresh is a reading of the clock, which `openUntil` is told on.
            found["fresh"] = Self.flag(it.isFresh(now: now))
            if let until = it.openUntil { found["open_until"] = Self.count(until) }
            return found
        }
        #expect(played == Self.breakers[name])
    }

    private static func throttle(_ of: Any?) -> Throttle {
        let of = of as! Json
        return Throttle(
            k: real(of["k"]), window: us(of["window"]), windowKind: (of["window_kind"] as? String).flatMap(Throttle.WindowKind.init),
            minThroughput: int(of["min_throughput"]), maxReject: real(of["max_reject"]).map { .at($0) } ?? .unbounded,
            probeInterval: us(of["probe_interval"]).map { .at($0) } ?? .unbounded)
    }

    @Test(arguments: [("random", [1280, 0]), ("stories", [69, 0])]) func throttles(_ name: String, _ expected: [Int]) throws {
        let played = try Self.told("throttle/\(name)", { try Parts.AdaptiveThrottle(Self.throttle($0["settings"]), now: $1) }) { it, step, now in
            var found: Json = [:]
            switch step["op"] as! String {
            case "admit": found["admitted"] = Self.flag(it.admit(now: now, bits: Self.bits(step["bits"])))
            case "record":
                for _ in 0..<Self.int(step["times"])! { it.record(accepted: step["accepted"] as! Bool, now: now) }
            case "retune": try it.retune(Self.throttle(step["settings"]), now: now)
            default: break
            }
            #expect(it.isFresh(now: now) == (it.requests(now: now) == 0))
            found["requests"] = it.requests(now: now)
            found["accepts"] = it.accepts(now: now)
            found["p"] = Self.exact(it.probability(now: now), step, "p")
            return found
        }
        #expect(played == expected)
    }

    @Test func whoCountsWhat() throws {
        let breakers = try Self.file("breaker/classes")["classes"] as! [String: String]
        let breaker = try Parts.CircuitBreaker(Breaker(consecutive: 1, breakDuration: .seconds(1)))
        for (kind, says) in breakers { #expect(breaker.evidenceOf(Kind(rawValue: kind))?.rawValue == says) }
        let throttles = try Self.file("throttle/classes")["classes"] as! Json
        let throttle = try Parts.AdaptiveThrottle(now: .zero)
        for (kind, says) in throttles { #expect(throttle.accepted(Kind(rawValue: kind)) == says as? Bool) }
        #expect((breakers.count, throttles.count) == (9, 9))
        #expect(breaker.evidenceOf("nonsense") == nil && throttle.accepted("nonsense") == nil)
    }

    @Test func budgets() throws {
        func budget(_ of: Any?) -> Budget {
            let of = of as! Json
            return Budget(
                ttl: Self.us(of["ttl"]), minRetriesPerSec: Self.real(of["min_retries_per_sec"]),
                percentCanRetry: Self.real(of["percent_can_retry"]), rounding: (of["rounding"] as? String).flatMap(Budget.Rounding.init),
                ratio: Self.real(of["ratio"]), minThroughput: Self.int(of["min_throughput"]), share: Self.real(of["share"]),
                minRetries: Self.int(of["min_retries"]), max: Self.int(of["max"]), capacity: Self.int(of["capacity"]),
                cost: Self.int(of["cost"]), timeoutCost: Self.int(of["timeout_cost"]), throttledCost: Self.int(of["throttled_cost"]))
        }
        var played: [String: [Int]] = [:]
        played["window"] = try Self.told("budget/window", { each, _ in try Parts.RetryBudget(budget(each["settings"])) }) { it, step, now in
            var found: Json = [:]
            switch step["op"] as! String {
            case "deposit": it.deposit(now: now)
            case "withdraw": found["granted"] = Self.flag(it.tryWithdraw(now: now))
            default: it.refund(withdrawn: Self.us(step["charged_at"])!, now: now)
            }
            found["balance"] = it.balance(now: now)
            return found
        }
        played["ratio"] = try Self.told("budget/ratio", { each, _ in try Parts.RatioBudget(budget(each["settings"])) }) { it, step, _ in
            var found: Json = [:]
            switch step["op"] as! String {
            case "deposit": it.onCall()
            case "withdraw": found["granted"] = Self.flag(it.tryWithdraw())
            default: if Self.int(step["cost"]) != 0 { it.refund() }
            }
            found["balance"] = it.balance
            return found
        }
        played["share"] = try Self.told("budget/share", { each, _ in try Parts.ShareBudget(budget(each["settings"])) }) { it, step, _ in
            var found: Json = [:]
            if step["op"] as! String == "withdraw" {
                found["granted"] = Self.flag(it.tryAcquire(calls: UInt32(Self.int(step["calls"])!)))
            } else {
                it.onEnd()
            }
            found["in_flight"] = it.inFlight
            return found
        }
        played["tokens"] = try Self.told("budget/tokens", { each, _ in try Parts.TokenBudget(budget(each["settings"])) }) { it, step, _ in
            switch step["op"] as! String {
            case "withdraw": return ["granted": Self.flag(it.allows)]
            case "failure": it.onFailure()
            default: it.onSuccess()
            }
            return [:]
        }
        played["quota"] = try Self.told("budget/quota", { each, _ in try Parts.RetryQuota(budget(each["settings"])) }) { it, step, _ in
            var found: Json = [:]
            switch step["op"] as! String {
            case "withdraw":
                // The other classes that are retried cost what a transient failure does.
                let failure = Parts.RetryQuota.Failure(rawValue: step["class"] as! String) ?? .transient
                found["granted"] = Self.flag(it.tryAcquire(failure) != nil)
            case "success": it.onSuccess(cost: UInt16(Self.int(step["cost"])!))
            default: it.refund(UInt16(Self.int(step["cost"])!))
            }
            found["balance"] = it.available
            return found
        }
        #expect(played == ["window": [490, 0], "ratio": [171, 0], "share": [21, 0], "tokens": [148, 0], "quota": [13, 0]])
    }

    @Test func delays() throws {
        var (played, refused) = (0, 0)
        for each in try Self.file("backoff/delays")["cases"] as! [Json] {
            // Single draws are for core's own tests.
            guard let seed = each["seed"] as? NSNumber else { continue }
            var settings = Backoff(
                kind: Backoff.Kind(rawValue: each["kind"] as! String), base: Self.us(each["base"]), exponent: Self.int(each["exponent"]),
                multiplier: Self.real(each["multiplier"]), max: Self.us(each["max"]),
                jitter: Backoff.Jitter(rawValue: each["jitter"] as! String), jitterRatio: Self.real(each["jitter_ratio"]))
            settings.throttledBase = nil
            do {
                let backoff = try Parts.Backoff(settings, seed: seed.uint64Value)
                let n = UInt8(Self.int(each["n"])!)
                if let ceiling = Self.us(each["ceiling"]) { #expect(backoff.ceiling(n) == ceiling, "\(each)") }
                let call = (each["call"] as? NSNumber)?.uint64Value ?? 0
                #expect(backoff.delay(n, call: call) == Self.us(each["delay"])!, "\(each)")
                played += 1
            } catch is PolicyError { refused += 1 }
        }
        #expect(played > 100 && refused < played / 10, "\(played) \(refused)")
    }

    @Test func retryAfterValues() throws {
        let file = try Self.file("retry_after/values")
        let wall = Date(timeIntervalSince1970: Self.real(file["wall_us"])! / 1e6)
        var cases = 0
        for each in file["cases"] as! [Json] {
            guard let value = each["value"] as? String else { continue }
            #expect(Parts.retryAfter(value, now: wall) == Self.us(each["delay_us"]), "\(each)")
            cases += 1
        }
        #expect(cases > 30)
    }

    @Test func p2() throws {
        var looks = 0
        for each in try Self.file("quantile/p2")["cases"] as! [Json] {
            guard let it = try? Parts.P2Quantile(Double(each["p"] as! String)!) else { continue }
            let expected = Dictionary(uniqueKeysWithValues: (each["looks"] as! [Json]).map { (Self.int($0["after"])!, $0) })
            for (place, x) in (each["observations"] as! [String]).enumerated() {
                it.observe(Double(x)!)
                guard let look = expected[place + 1] else { continue }
                #expect(it.count == UInt64(Self.int(look["count"])!))
                #expect(it.estimate == (look["estimate"] as? String).flatMap(Double.init))
                looks += 1
            }
        }
        #expect(looks == 577)
    }

    @Test func windowed() throws {
        var looks = 0
        for each in try Self.file("quantile/windowed")["cases"] as! [Json] {
            guard let it = try? Parts.WindowedP2Quantile(Double(each["p"] as! String)!, window: Self.int(each["window"])!) else { continue }
            for (x, look) in zip(each["observations"] as! [String], each["looks"] as! [[Any]]) {
                it.observe(Double(x)!)
                #expect(it.estimate == (look[0] as? String).flatMap(Double.init))
                #expect(it.count == Self.int(look[1]))
                looks += 1
            }
        }
        #expect(looks == 1678)
    }

    @Test func sketches() throws {
        let file = try Self.file("quantile/ddsketch")
        var merged = 0
        for each in file["cases"] as! [Json] {
            let alpha = Double(each["alpha"] as! String)!
            guard let whole = try? Parts.DDSketch(alpha: alpha) else { continue }
            for part in each["parts"] as! [[String]] {
                let sketch = try Parts.DDSketch(alpha: alpha)
                for x in part { sketch.add(Double(x)!) }
                try whole.merge(sketch)
                merged += 1
            }
            #expect(whole.count == UInt64(Self.int(each["count"])!) && whole.sum == Double(each["sum"] as! String)!)
            #expect(whole.min == (each["min"] as? String).flatMap(Double.init) && whole.max == (each["max"] as? String).flatMap(Double.init))
            for quantile in each["quantiles"] as! [[Any]] {
                let q = Double(quantile[0] as! String)!
                if 0...1 ~= q { #expect(try whole.quantile(q) == (quantile[1] as? String).flatMap(Double.init)) }
            }
            let words = (each["words"] as! [String]).map { UInt64($0)! }
            #expect(whole.words == words)
            #expect(try Parts.DDSketch(words: words) == whole)
            let coded = try JSONDecoder().decode(Parts.DDSketch.self, from: JSONEncoder().encode(whole))
            #expect(coded == whole)
        }
        #expect(merged == 30)
        let malformed = file["malformed"] as! [Json]
        for each in malformed {
            #expect(throws: PolicyError.self) { try Parts.DDSketch(words: (each["words"] as! [String]).map { UInt64($0)! }) }
        }
        #expect(malformed.count > 10)
    }
}
