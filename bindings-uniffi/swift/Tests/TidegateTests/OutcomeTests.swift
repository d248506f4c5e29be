import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

/// Outcomes of HTTP answers for one's own classifier (semantics 1.4.10).
@Suite struct OutcomeTests {
    let engine = Engine(seed: 7, clock: ManualClock())

    @Test func aStatusIsJudgedWithItsFields() throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        #expect(policy.outcomeOf(status: 200) == Outcome(.ok))
        #expect(policy.outcomeOf(status: 302, headers: ["Retry-After": "9"]) == Outcome(.ok), "below 400 nothing says that it failed")
        #expect(policy.outcomeOf(status: 404) == Outcome(.permanent))
        #expect(policy.outcomeOf(status: 503) == Outcome(.transient))
        #expect(policy.outcomeOf(status: 429, headers: ["Retry-After": "2"]) == Outcome(.throttled, retryAfter: .seconds(2)))
        #expect(policy.outcomeOf(status: 429, headers: ["retry-after-ms": "1500"]) == Outcome(.throttled, retryAfter: .milliseconds(1_500)))
        let said = policy.outcomeOf(status: 503, headers: [("X-Should-Retry", "true"), ("x-should-retry", "false")])
        #expect(said == Outcome(.transient, opinion: .doNot), "of two opinions that against a retry wins")
    }

    @Test func aDateIsComparedWithTheClockOnTheWall() throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(identifier: "GMT")
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        let outcome = policy.outcomeOf(status: 503, headers: ["Retry-After": format.string(from: Date() + 3_600)])
        let wait = try #require(outcome.retryAfter)
        #expect(outcome.kind == .transient && wait > .seconds(3_500) && wait <= .seconds(3_600))
        let past = policy.outcomeOf(status: 503, headers: ["Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"])
        #expect(past == Outcome(.transient, retryAfter: .zero))
    }

    @Test func thePolicysOwnStatusesCount() throws {
        let policy = try Policy("p", retry: Retry(statuses: [409, 429, 503], throttledStatuses: [503]), engine: engine)
        #expect(policy.outcomeOf(status: 409).kind == .conflict)
        #expect(policy.outcomeOf(status: 503).kind == .throttled)
        #expect(policy.outcomeOf(status: 429).kind == .transient, "a list of its own has no 429")
        #expect(policy.outcomeOf(status: 500) == Outcome(.transient, opinion: .doNot))
    }

    @Test func aStatusThatIsNoneBreaksNothing() throws {
        let policy = try Policy("p", retry: Retry(), engine: engine)
        for status in [Int.min, -1, 0, 100] { #expect(policy.outcomeOf(status: status) == Outcome(.ok)) }
        for status in [600, 70_000, Int.max] { #expect(policy.outcomeOf(status: status).kind != .ok) }
        let odd = ["": "", "a\u{0}b": "\u{0}", "Retry-After": String(repeating: "9", count: 100_000)]
        #expect(policy.outcomeOf(status: 429, headers: odd).kind == .throttled)
    }
}
