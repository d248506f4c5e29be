import Foundation
import Testing
import Tidegate

/// Parts on their own, against the shared vectors: that what is carried over the border is what core says.
@Suite struct PartsTests {
    private func settings(_ of: [String: Any]) -> [Parts.Setting] {
        ["permits", "per", "burst"].map { key in
            Parts.Setting(key: "rate_limit.\(key)", value: .number(value: (of[key] as! NSNumber).doubleValue))
        }
    }

    @Test func tokenBuckets() throws {
        let file = try #require(try VectorTests.load("rate").first { $0["kind"] as? String == "bucket" })
        var steps = 0
        for each in file["cases"] as! [[String: Any]] {
            let first = each["settings"] as! [String: Any]
            // What no policy's key may be is for core's own tests.
            if (first["burst"] as! NSNumber).doubleValue > 1e9 { continue }
            let bucket = try Parts.TokenBucket(pairs: settings(first), now: VectorTests.number(each["origin"]))
            for step in each["steps"] as! [[String: Any]] {
                let at = VectorTests.number(step["at"])
                switch step["op"] as! String {
                case "take":
                    let cost = UInt32(VectorTests.number(step["cost"]))
                    #expect(bucket.tryTake(now: at, cost: cost) == (step["granted"] as! Bool), "\(step)")
                case "wait_for":
                    let wait = bucket.waitFor(now: at, tokens: VectorTests.number(step["tokens"]))
                    #expect(wait == VectorTests.number(step["wait"]), "\(step)")
                default:
                    try bucket.retune(pairs: settings(step), now: at)
                }
                #expect(bucket.level(now: at) == UInt32(VectorTests.number(step["level"])), "\(step)")
                steps += 1
            }
        }
        #expect(steps > 200)
    }

    @Test func theWorkedExampleOfP2() throws {
        let data = try Data(contentsOf: VectorTests.vectors.appendingPathComponent("published/p2_worked_example.json"))
        let example = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        let median = Parts.P2Quantile(p: (example["p"] as! NSNumber).doubleValue)
        let observations = example["observations"] as! [NSNumber]
        for each in observations { median.observe(x: each.doubleValue) }
        let estimate = try #require(median.estimate())
        #expect(abs(estimate - 4.440634) < 1e-6)
        #expect(median.count() == UInt64(observations.count))
    }

    @Test func aSettingThatIsNoneIsNamed() throws {
        do {
            let none = Parts.Setting(key: "rate_limit.permits", value: .number(value: 0))
            _ = try Parts.TokenBucket(pairs: [none], now: 0)
            Issue.record("taken")
        } catch Parts.Invalid.Settings(let mistakes) {
            #expect(mistakes.map(\.key).contains("rate_limit.permits"))
        }
    }
}
