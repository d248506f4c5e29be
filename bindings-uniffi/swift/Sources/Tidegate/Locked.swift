import Foundation

/// A value behind a lock. The lock is held for a few instructions, and never while user code runs.
///
/// Unchecked: `value` is only used under the lock. (`Mutex`, which the compiler knows, needs iOS 18.)
package final class Locked<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    package init(_ value: Value) {
        self.value = value
    }

    package func withLock<R>(_ work: (inout Value) throws -> R) rethrows -> R {
        lock.lock()
        defer { lock.unlock() }
        return try work(&value)
    }
}
