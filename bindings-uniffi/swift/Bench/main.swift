// What a call costs, beside a bare one: `swift run -c release TidegateBench [name]`. Medians of 15 rounds. `name` chooses rows that contain it.
// `TidegateBench instructions <scenario> <calls>` makes calls and nothing else, for callgrind (`cargo xtask gate --swift`).
import Foundation
import Tidegate
import TidegateNative
import TidegateNativeFFI

@inline(never) func work(_ number: Int) async throws -> Int { number &+ 1 }

struct Down: Error {}

@inline(never) func fail(_ number: Int) async throws -> Int { throw Down() }

/// Appends one figure to the file that `TIDEGATE_BENCH_ROWS` names, for `bench/page.py`.
func keep(_ row: String, _ nanoseconds: Double, group: String = "one call") {
    guard let path = ProcessInfo.processInfo.environment["TIDEGATE_BENCH_ROWS"], let file = fopen(path, "a") else { return }
    fputs("Swift\t\(group)\t\(row)\tns\t\(nanoseconds)\t\n", file)
    fclose(file)
}

#if compiler(>=6.1)
let compiler = "Swift 6.1 or newer"
#else
let compiler = "Swift 6.0"
#endif

func isChosen(_ name: String) -> Bool { CommandLine.arguments.count < 2 || name.contains(CommandLine.arguments[1]) }

func median(_ name: String, _ calls: Int = 50_000, _ body: (Int) async throws -> Void) async rethrows {
    guard isChosen(name) else { return }
    try await body(calls / 10)
    var rounds: [Double] = []
    for _ in 0..<15 {
        let began = ContinuousClock.now
        try await body(calls)
        let (seconds, attoseconds) = (ContinuousClock.now - began).components
        rounds.append((Double(seconds) * 1e9 + Double(attoseconds) / 1e9) / Double(calls))
    }
    let padded = name.padding(toLength: 58, withPad: " ", startingAt: 0)
    print(padded, String(format: "%8.0f ns", rounds.sorted()[7]))
    keep(name, rounds.sorted()[7])
}

/// Prints what `one` costs beside `other`: the median ratio of CPU times of short rounds in turn, so that other programs disturb both alike.
func paired(_ name: String, _ one: (Int) async throws -> Void, _ other: (Int) async throws -> Void) async rethrows {
    guard isChosen(name) else { return }
    func cpu(_ body: (Int) async throws -> Void) async rethrows -> Double {
        var (from, to) = (timespec(), timespec())
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from)
        try await body(2_000)
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to)
        return Double(to.tv_sec - from.tv_sec) * 1e9 + Double(to.tv_nsec - from.tv_nsec)
    }
    var ratios: [Double] = []
    for round in 0..<301 {
        // Each goes first in turn.
        if round % 2 == 0 {
            let first = try await cpu(one)
            ratios.append(first / (try await cpu(other)))
        } else {
            let first = try await cpu(other)
            ratios.append(try await cpu(one) / first)
        }
    }
    print(name.padding(toLength: 58, withPad: " ", startingAt: 0), String(format: "%8.3f times", ratios.sorted()[150]))
}

// Not on the main actor, which everything else would have to be hopped to and from.
func all() async throws {
    let engine = Tidegate.Engine(seed: 1)
    let plain = try Policy("plain", retry: Retry(), engine: engine)
    let slots = try Policy("slots", retry: Retry(), bulkhead: Bulkhead(maxConcurrency: 10), breaker: Breaker(consecutive: 5, breakDuration: .seconds(1)), engine: engine)
    let timed = try Policy("timed", deadline: .seconds(30), attemptTimeout: .seconds(10), retry: Retry(), engine: engine)

    keep(compiler, 0, group: "versions")
    try await median("a bare call") { for number in 0..<$0 { _ = try await work(number) } }
    try await median("policy.run: retry") { for number in 0..<$0 { _ = try await plain.run { _ in try await work(number) } } }
    let forgetful = try Policy("forgetful", retry: Retry(), engine: Tidegate.Engine(seed: 1, history: 0))
    try await paired("policy.run: retry, beside one without a history") {
        for number in 0..<$0 { _ = try await plain.run { _ in try await work(number) } }
    } _: {
        for number in 0..<$0 { _ = try await forgetful.run { _ in try await work(number) } }
    }
    try await median("policy.run: retry, bulkhead, breaker") {
        for number in 0..<$0 { _ = try await slots.run { _ in try await work(number) } }
    }
    try await median("policy.run: with a deadline and an attempt timeout") {
        for number in 0..<$0 { _ = try await timed.run { _ in try await work(number) } }
    }
    try await median("a bare call that throws, and one that does not") {
        for number in 0..<$0 { do { _ = try await fail(number) } catch { _ = try await work(number) } }
    }
    let repeated = try Policy(
        "repeated", retry: Retry(backoff: .constant(.zero), budget: .off), classify: { if case .failure = $0 { Outcome(.transient) } else { nil } },
        engine: engine)
    try await median("policy.run: one retry without a wait", 10_000) {
        for number in 0..<$0 {
            _ = try await repeated.run { attempt in
                if attempt.number == 1 { _ = try await fail(number) }
                return try await work(number)
            }
        }
    }
    let metered = try Policy("metered", retry: Retry(), engine: Tidegate.Engine(seed: 1))
    let metrics = try Metrics(metered.engine)
    try await median("policy.run: retry, with metrics") { for number in 0..<$0 { _ = try await metered.run { _ in try await work(number) } } }
    withExtendedLifetime(metrics) {}
    try await median("a task of its own and its value, for comparison") {
        for number in 0..<$0 { _ = try await Task { try await work(number) }.value }
    }

    // The two ways over the border, for a call that begins and ends well.
    let native = TidegateNative.Engine(seed: 1, maxRoutes: 10, journal: false, history: 0)
    let policy = try native.policy(name: "p", pairs: [Pair(key: "retry.max_attempts", value: .number(value: 3))])
    let (route, handle) = (native.route(policy: policy, key: "r", now: 0), native.address())
    await median("begin and on, as numbers through C") {
        var call: UInt64 = 0
        for number in 0..<UInt64($0) {
            _ = tidegate_begin(handle, route, 190, 0, 0, 0, number, &call)
            _ = tidegate_on(handle, call, 12, number)
        }
    }
    await median("begin and on, through uniffi") {
        for number in 0..<UInt64($0) {
            let begun = native.begin(route: route, flags: 190, remaining: 0, parent: 0, target: 0, now: number)!
            _ = native.on(call: begun.call, event: 12, now: number)
        }
    }
    withExtendedLifetime(native) {}
}

/// Calls whose instructions are counted. No timer fires meanwhile.
func make(_ scenario: String, _ calls: Int) async throws {
    let engine = Tidegate.Engine(seed: 1)
    switch scenario {
    case "run":
        let policy = try Policy("run", retry: Retry(), bulkhead: Bulkhead(maxConcurrency: 10), engine: engine)
        for number in 0..<calls { _ = try await policy.run { _ in try await work(number) } }
    case "timed":
        let policy = try Policy("timed", deadline: .seconds(7_200), attemptTimeout: .seconds(3_600), retry: Retry(), engine: engine)
        for number in 0..<calls { _ = try await policy.run { _ in try await work(number) } }
    case "task":  // a bare one, for comparison
        for number in 0..<calls { _ = try await Task { try await work(number) }.value }
    case "one_retry":
        let policy = try Policy(
            "one_retry", retry: Retry(backoff: .constant(.zero), budget: .off), classify: { if case .failure = $0 { Outcome(.transient) } else { nil } },
            engine: engine)
        for number in 0..<calls {
            _ = try await policy.run { attempt in
                if attempt.number == 1 { _ = try await fail(number) }
                return try await work(number)
            }
        }
    default:
        fatalError("no scenario \(scenario)")
    }
}

// The main thread waits here and not in the runtime's own loop, whose `sigsuspend` ends valgrind.
let ended = DispatchSemaphore(value: 0)
Task.detached {
    let arguments = CommandLine.arguments
    do {
        if arguments.count == 4, arguments[1] == "instructions", let calls = Int(arguments[3]) {
            try await make(arguments[2], calls)
        } else {
            try await all()
        }
    } catch {
        fatalError("\(error)")
    }
    ended.signal()
}
ended.wait()
