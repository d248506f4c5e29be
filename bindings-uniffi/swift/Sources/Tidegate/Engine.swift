import Foundation
internal import TidegateNative
internal import TidegateNativeFFI

/// Something that waits and can be woken.
protocol Waiter: AnyObject, Sendable {
    func wake()
}

/// State that policies share: routes, slots, budgets. A process has one engine by default. Make one of your own to isolate a test or a hot
/// upstream.
public final class Engine: Sendable {
    /// The engine of the process.
    public static let shared = Engine()

    let native: TidegateNative.Engine
    let handle: UInt64
    let now: @Sendable () -> UInt64
    /// Clock that was given to the engine; nil for the platform's.
    let clock: ClockIdentity?
    /// Whether the engine has a clock of its own.
    var isInjected: Bool { clock != nil }
    let ticker: Ticker
    let seed: UInt64
    let maxRoutes: UInt32
    /// Whether anything has been taken from the journal; nil if the engine records none.
    let journals: Locked<Bool>?
    /// Records that the engine keeps about calls with trouble.
    let history: Int
    let owners = Locked(Owners())
    /// Lines that made pools, by name.
    let pools = Locked<[String: Place]>([:])
    /// Judgements of nested calls, and whether there are any.
    let marks = Locked(Marks())
    let marked = Flag()
    let failures = Locked(Failures())
    /// What the reports of its calls keep of it.
    let itself = WeakEngine()
    private let heard = Flag()
    private let waiters = Locked<[UInt64: any Waiter]>([:])
    private let listeners = Locked(Listeners())

    /// - Parameters:
    ///   - seed: Source of all randomness; a random seed if left out.
    ///   - clock: Clock in place of the platform's continuous clock, which counts the time that a device sleeps.
    ///   - maxRoutes: Routes that the engine keeps state for, 1 to 524,288. A value outside is moved to the nearer end.
    ///   - journal: Whether to record all inputs, for `journal`, `replay`, and `explain` of calls that have ended. A journal grows by about
    ///     80 bytes an event until it is taken, up to 100,000 inputs.
    ///   - history: Records to keep about calls that were retried, refused or have failed, 144 bytes each, so that reports and errors can
    ///     explain themselves. 0 to 100,000; a value outside is moved to the nearer end. 0 keeps none.
    public convenience init(
        seed: UInt64? = nil, clock: (any Clock<Duration>)? = nil, maxRoutes: Int = 10_000, journal: Bool = false,
        history: Int = 512
    ) {
        let time = clock.map { Self.timebase($0) } ?? .platform
        self.init(seed ?? .random(in: 0 ... .max), time, clock: clock.map { ClockIdentity($0) }, maxRoutes, journal, history)
    }

    init(_ seed: UInt64, _ time: Timebase, clock: ClockIdentity?, _ maxRoutes: Int, _ journal: Bool, _ history: Int = 512) {
        let routes = UInt32(min(max(maxRoutes, 1), 524_288))
        self.history = min(max(history, 0), 100_000)
        native = TidegateNative.Engine(
            seed: seed, maxRoutes: routes, journal: journal, history: UInt32(self.history))
        (self.seed, self.maxRoutes, self.clock) = (seed, routes, clock)
        journals = journal ? Locked(false) : nil
        handle = native.address()
        now = time.now
        ticker = Ticker(time)
        itself.engine = self
        if clock != nil {
            Self.all.withLock { all in
                all.removeAll { $0.engine == nil }
                all.append(Weak(engine: self))
            }
        }
    }

    deinit {
        // Ends the streams, so that no reader waits for ever.
        for continuation in listeners.withLock({ $0.all.values.map(\.continuation) }) { continuation.finish() }
    }

    private static func timebase<C: Clock<Duration>>(_ clock: C) -> Timebase {
        Timebase(clock)
    }

    private struct Weak: Sendable {
        weak var engine: Engine?
    }

    private static let all = Locked<[Weak]>([])

    /// Engines with a clock of their own.
    static func injected() -> [Engine] {
        all.withLock { $0.compactMap(\.engine) }
    }

    // Functions that run for every call. Do not call them under a lock that waking another call needs.

    /// Begins a call and returns its id and its first step.
    @inline(__always)
    func begin(_ route: UInt64, _ request: Request) -> (call: UInt64, step: UInt64) {
        var call: UInt64 = 0
        let step = withExtendedLifetime(self) {
            tidegate_begin(
                handle, route, request.flags, request.remaining, request.parent, request.target, now(), &call)
        }
        return (call, step)
    }

    /// Begins a call with weights and returns its id and its first step.
    ///
    /// - Throws: `PolicyError` if a weight is wrong or missing.
    func begin(_ route: UInt64, _ request: Request, _ weights: [String: Int]) throws -> (call: UInt64, step: UInt64) {
        let named = try weights.map { name, amount in
            guard let amount = UInt64(exactly: amount) else {
                throw PolicyError("weights", "[\"\(name)\": \(amount)]", "must be whole numbers from 0 to 2^53 - 1")
            }
            return Weight(name: name, amount: amount)
        }
        let begun = try checked {
            try native.beginWeighted(
                route: route, flags: UInt32(truncatingIfNeeded: request.flags), remaining: request.remaining,
                parent: request.parent, target: request.target, weights: named, now: now())
        }
        guard let begun else { preconditionFailure("no request has these flags") }
        return (begun.call, begun.step)
    }

    /// Reports an event to a call and returns its next step. The caller passes the step to `after`, under no lock.
    @inline(__always)
    func advance(_ call: UInt64, _ event: UInt64) -> UInt64 {
        withExtendedLifetime(self) { tidegate_on(handle, call, event, now()) }
    }

    /// Carries out the part of a step that concerns others: wakes and events.
    @inline(__always)
    func after(_ step: UInt64) {
        if step & Wire.wakes != 0 { wake() }
        publish()
    }

    func on(_ call: UInt64, _ event: UInt64) -> UInt64 {
        let step = advance(call, event)
        after(step)
        return step
    }

    /// Wakes the owners of the calls that can continue.
    func wake() {
        let woken = native.takeWoken()
        let ready = waiters.withLock { waiters in woken.compactMap { waiters[$0] } }
        for waiter in ready { waiter.wake() }
    }

    func park(_ call: UInt64, _ waiter: any Waiter) {
        waiters.withLock { $0[call] = waiter }
    }

    func unpark(_ call: UInt64) {
        waiters.withLock { _ = $0.removeValue(forKey: call) }
    }

    /// Number of waiting calls, and of calls with a timer. Both are zero when no call is running.
    var idle: (waiters: Int, timers: Int) {
        (waiters.withLock { $0.count }, ticker.count)
    }

    // Listeners.

    private struct Listeners {
        var next = 0
        var all: [Int: (continuation: AsyncStream<Event>.Continuation, types: Set<String>)] = [:]
    }

    /// Number of listeners.
    var listening: Int { listeners.withLock { $0.all.count } }

    /// Events from now on. The stream ends when the task that reads it is cancelled, or the stream or the engine is released.
    ///
    /// A slow reader delays nobody: events beyond `buffer` are dropped, oldest first, and `seq` shows the gap. Events cost nothing while
    /// there is no reader.
    ///
    /// - Parameters:
    ///   - types: Types of events to receive; empty for all.
    ///   - buffer: Number of events kept for a slow reader, at least 1.
    public func events(_ types: Set<EventType> = [], buffer: Int = 10_000) -> AsyncStream<Event> {
        let wanted = Set((types.isEmpty ? Set(EventType.allCases) : types).map(\.rawValue))
        let (stream, continuation) = AsyncStream.makeStream(
            of: Event.self, bufferingPolicy: .bufferingNewest(max(buffer, 1)))
        let place = listeners.withLock { listeners in
            listeners.next += 1
            listeners.all[listeners.next] = (continuation, wanted)
            subscribe(listeners)
            return listeners.next
        }
        continuation.onTermination = { [weak self] _ in
            self?.listeners.withLock { listeners in
                listeners.all[place] = nil
                self?.subscribe(listeners)
            }
        }
        return stream
    }

    private func subscribe(_ listeners: Listeners) {
        heard.set(!listeners.all.isEmpty)
        native.subscribe(types: listeners.all.values.reduce(into: Set()) { $0.formUnion($1.types) }.sorted())
    }

    /// Publishes events in order. Without a listener it takes no lock.
    @inline(__always)
    func publish() {
        if heard.isSet { publishAll() }
    }

    private func publishAll() {
        listeners.withLock { listeners in
            for event in native.takeEvents() {
                let event = Event(event)
                for listener in listeners.all.values where listener.types.contains(event.kind) {
                    listener.continuation.yield(event)
                }
            }
        }
    }

    // Functions that run now and then.

    /// Current state: calls, waiters, and the counts of each policy, route and pool.
    public func snapshot() -> Snapshot {
        Snapshot(native.snapshot(now: now()))
    }

    /// Learned state (budgets, limits, breakers, throttles), for `restore`.
    public func save() -> SavedState {
        SavedState(at: Date(), state: native.save(now: now()))
    }

    /// Continues from a saved state, aged by the time since it was saved. Call it after the policies and pools have been made, and before
    /// the first call.
    ///
    /// - Throws: `PolicyError` if `saved` is not a saved state, or the engine has begun calls; nothing has changed then.
    @discardableResult
    public func restore(_ saved: SavedState) throws -> Restored {
        let age = min(max(Date().timeIntervalSince(saved.at), 0), 1e9)
        return try checked {
            Restored(try native.restore(saved: saved.state, elapsedUs: UInt64(age * 1e6), now: now()))
        }
    }
}

/// The four numbers of a request.
struct Request {
    var flags: UInt64
    var remaining: UInt64
    var parent: UInt64
    var target: UInt64 = 0
}

/// Runs code that core checks, and converts its mistakes to `PolicyError`.
func checked<T>(camelCase: Bool = true, _ work: () throws -> T) throws -> T {
    do { return try work() } catch { throw PolicyError(error, camelCase: camelCase) }
}
