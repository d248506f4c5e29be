import Foundation
@_spi(Experimental) import Testing

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// After each test of a suite that has this trait nothing of the adapter is left: no connection, socket, listener or file, no task, and no
/// thread for each call.
///
/// - The origin counts the connections that are open, and on Linux `/proc` lists those of this process, what it listens on, and files of
///   the folder for temporary ones. Suites run beside each other, so only what belongs to this suite's origin is counted.
/// - Swift cannot list tasks. But every task, timer and waiting body of ours keeps its engine: an engine that is gone has none.
/// - `ThreadTests` counts threads: the platform's pool grows and shrinks as it likes, so only many calls show one that is ours.
struct LeavesNothing: SuiteTrait, TestTrait {
    /// What a test has made, which must be gone after it.
    final class Made: Sendable {
        private struct Weak: Sendable {
            weak var object: (any AnyObject & Sendable)?
        }

        private let all = Locked<[Weak]>([])

        func add(_ object: any AnyObject & Sendable) { all.withLock { $0.append(Weak(object: object)) } }
        var left: [String] { all.withLock { all in all.compactMap { $0.object.map { "\(type(of: $0))" } } } }
    }

    @TaskLocal static var made: Made?

    /// The suites that have an origin. A closure in an attribute crashes Swift 6.0's compiler.
    enum Suites {
        case shared, streaming, matrix, threads, reading, timeouts

        var origin: Result<Origin, any Error> {
            switch self {
            case .shared: Origin.shared
            case .streaming: Origin.streaming
            case .matrix: Origin.matrix
            case .threads: Origin.threads
            case .reading: Origin.reading
            case .timeouts: Origin.timeouts
            }
        }
    }

    /// How long what a test has closed may take to end. Nothing waits for so long unless it leaks.
    private static let patience = Duration.seconds(30)

    let isRecursive = true
    private let origin: Result<Origin, any Error>

    init(_ origin: Suites) {
        self.origin = origin.origin
    }

    /// Runs a test, and waits until nothing of it is left, at most 30 s.
    func around(_ test: () async throws -> Void) async throws {
        let origin = try origin.get()
        let made = Made()
        try await Self.$made.withValue(made) { try await test() }
        var left: [String] = []
        let end = ContinuousClock.now + Self.patience
        while ContinuousClock.now < end {
            #if canImport(FoundationNetworking)
            Twins.sweep()  // It comes by itself, but every 2 s only.
            #endif
            left = try await made.left + Self.open(origin)
            if left.isEmpty { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        Issue.record("\(Test.current?.name ?? "a test") leaves \(left.joined(separator: ", "))")
    }

    private static func open(_ origin: Origin) async throws -> [String] {
        let connections = try await origin.stats().connections_open
        let known = connections == 0 ? [] : ["\(connections) × a connection that the origin counts"]
        guard let files = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") else { return known }
        let links = files.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") }
        let sockets = Set(links.filter { $0.hasPrefix("socket:[") }.map { $0.dropFirst(8).dropLast() })
        let folder = FileManager.default.temporaryDirectory.path
        var left = known + links.filter { $0.hasPrefix(folder) }
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            // `String(contentsOfFile:)` takes the size of these files, which is 0, for what is in them.
            guard let all = try? FileHandle(forReadingAtPath: table)?.readToEnd() else { continue }
            for line in String(decoding: all, as: UTF8.self).split(separator: "\n").dropFirst() {
                // sl, local address, remote address, state, …, inode: the tenth.
                let fields = line.split(separator: " ")
                guard fields.count > 9, sockets.contains(fields[9]) else { continue }
                let peer = fields[2].split(separator: ":").last.flatMap { Int($0, radix: 16) }
                if fields[3] == "0A" { left.append("a listener at \(fields[1])") }
                if peer == origin.url.port { left.append("a socket to the origin in state \(fields[3])") }
            }
        }
        return left
    }
}

#if compiler(>=6.1)
extension LeavesNothing: TestScoping {
    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        if testCase == nil { try await function() } else { try await around(function) }
    }
}
#else
extension LeavesNothing: CustomExecutionTrait {
    func execute(_ function: @escaping @Sendable () async throws -> Void, for test: Test, testCase: Test.Case?) async throws {
        if testCase == nil { try await function() } else { try await around(function) }
    }
}
#endif

/// An object that must be gone when its test has ended.
func made<Object: AnyObject & Sendable>(_ object: Object) -> Object {
    LeavesNothing.made?.add(object)
    return object
}

/// How many threads the process has, where the system says so.
func threads() -> Int? {
    (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task"))?.count
}

/// What calls through an adapter do to the process when there are many.
@Suite(.serialized, LeavesNothing(.threads)) struct ThreadTests {
    @Test func aSessionThatIsLetGoKeepsNoConnection() async throws {
        let origin = try Origin.threads.get()
        let url = try await origin.scripted(status(200))
        do {
            let session = URLSession(configuration: .ephemeral)
            _ = try await session.data(from: url, policy: try Policy(preset: .http, engine: made(Engine(seed: 5))))
            #expect(try await origin.stats().connections_open == 1)
        }
        try await eventually { try await origin.stats().connections_open == 0 }
    }

    @Test func manyCallsLeaveNoThreads() async throws {
        let origin = try Origin.threads.get()
        let policy = try Policy(
            preset: .http, deadline: .milliseconds(20), retry: Retry(backoff: .constant(.zero)), engine: made(Engine(seed: 5)))
        let session = made(URLSession(configuration: .ephemeral))
        let url = try await origin.scripted(status(503), status(200), "{\"fault\": \"hang\"}", status(200))
        _ = await session.answer(for: URLRequest(url: url), policy: policy)
        let before = threads()
        for number in 0..<200 {
            let call = Task {
                let request = URLRequest(url: url)
                if number % 2 == 0 { return await session.answer(for: request, policy: policy).report.attempts }
                return await session.streamed(for: request, policy: policy).report.attempts
            }
            if number % 5 == 0 { call.cancel() }
            _ = await call.value
        }
        // The platform's pool has 64 threads at most; a thread for each call would be 200.
        if let before, let after = threads() { #expect(after - before < 100) }
    }
}
