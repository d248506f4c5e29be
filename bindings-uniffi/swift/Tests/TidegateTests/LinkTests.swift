import Foundation
import Testing
import TidegateTesting
@testable import Tidegate

/// The device's link (semantics 2.22), and the block of `docs/swift/ios.md` that can run here.
@Suite struct LinkTests {
    private struct Reset: Error {}

    @Test func aRetryWaitsUntilTheLinkIsBack() async throws {
        let clock = ManualClock()
        let engine = Engine(seed: 7, clock: clock)
        let policy = try Policy(
            "link", deadline: .seconds(60), retry: Retry(maxAttempts: 3, backoff: .constant(.zero)), on: [Reset.self], engine: engine)
        engine.setLink(.offline)
        let began = Locked<[UInt64]>([])
        let call = Task {
            try await policy.run { attempt -> String in
                began.withLock { $0.append(engine.now()) }
                if attempt.number == 1 { throw Reset() }
                return "there"
            }
        }
        for _ in 1...20 {
            try await eventually { engine.idle.timers > 0 && began.withLock { $0.count } == 1 }
            await clock.advance(by: .seconds(1))
        }
        #expect(began.withLock { $0.count } == 1)
        engine.setLink(.ok)
        try await eventually { engine.idle.timers > 0 }
        await clock.advance(by: .seconds(1))
        #expect(try await call.value == "there")
    }

    @Test func theStatesOfThePage() throws {
        let engine = Engine.shared
        engine.setLink(.offline) // in a tunnel
        engine.setLink(.metered) // on mobile data, or in Low Data Mode
        engine.setLink(.ok)      // at home
        let page = VectorTests.vectors.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("docs/swift/ios.md")
        let plain = { (text: String) in
            text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }.joined(separator: "\n")
        }
        let here = plain(try String(contentsOfFile: #filePath, encoding: .utf8))
        let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```swift\n")
        #expect(parts.count == 2)
        let block = parts[1].components(separatedBy: "```")[0]
        #expect(here.contains(plain(block)))
    }
}
