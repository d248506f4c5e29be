import Foundation
import Tidegate
import TidegateTesting

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// What tests raise.
struct Broken: Error, Equatable {
    var number = 0
}

/// A count that attempts share.
final class Counter: @unchecked Sendable {
    private let lock = NSLock()
    private var count = 0

    @discardableResult func add(_ more: Int = 1) -> Int {
        lock.withLock {
            count += more
            return count
        }
    }

    var value: Int { lock.withLock { count } }
}

/// Waits until something holds, for 2 min at most. It looks less and less often, because many tests that look every millisecond keep a
/// machine busy.
func eventually(_ what: () async throws -> Bool) async throws {
    let end = ContinuousClock.now + .seconds(120)
    var pause = Duration.milliseconds(1)
    while ContinuousClock.now < end {
        if try await what() { return }
        try await Task.sleep(for: pause)
        pause = min(pause * 2, .milliseconds(50))
    }
    throw Never()

    struct Never: Error {}
}

/// Judges every failure transient, so that plain errors are repeated.
let transient: Classify = { result in
    if case .failure(let error) = result, error is Broken { return Outcome(.transient) }
    return nil
}
