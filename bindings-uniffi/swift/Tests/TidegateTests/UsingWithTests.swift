import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

private struct Item: Decodable, Equatable {
    let name: String
}

private struct Unavailable: Error {
    let report: Report?
}

private struct Catalog: Sendable {
    let base: URL
    let session: URLSession
    let policy: Policy

    func item(_ id: String) async throws -> Item {
        let (data, response) = try await session.data(from: base.appendingPathComponent(id), policy: policy)
        guard (response as? HTTPURLResponse)?.statusCode == 200 else { throw Unavailable(report: policy.report(of: response)) }
        return try JSONDecoder().decode(Item.self, from: data)
    }
}

private func download(_ url: URL, to file: URL, _ session: URLSession, _ policy: Policy) async throws {
    let (bytes, response) = try await session.bytes(from: url, policy: policy)
    guard (response as? HTTPURLResponse)?.statusCode == 200 else { throw URLError(.badServerResponse) }
    guard FileManager.default.createFile(atPath: file.path, contents: nil) else { throw CocoaError(.fileWriteUnknown) }
    let handle = try FileHandle(forWritingTo: file)
    defer { try? handle.close() }
    for try await chunk in bytes.chunks { try handle.write(contentsOf: chunk) }
}

/// An SDK that answers its first two questions with an error of its own.
private struct ShopSDK: Sendable {
    struct Busy: Error {}
    let asked = Counter()

    func price(of item: String) async throws -> Int {
        if asked.add() < 3 { throw Busy() }
        return asked.value
    }

    func buy(_ item: String) async throws -> String {
        asked.add()
        throw Busy()
    }
}

private struct GuardedShop: Sendable {
    let price: @Sendable (String) async throws -> Int
    let buy: @Sendable (String) async throws -> String

    init(_ shop: ShopSDK, _ policy: Policy) {
        price = policy.wrapping(CallOptions(route: "price")) { try await shop.price(of: $0) }
        buy = policy.wrapping(CallOptions(route: "buy", idempotent: false)) { try await shop.buy($0) }
    }
}

/// A box with a lock.
private struct Mutex<Value: Sendable>: Sendable {
    private let box: Locked<Value>

    init(_ value: Value) { box = Locked(value) }

    var value: Value { box.withLock { $0 } }

    func set(_ value: Value) { box.withLock { $0 = value } }
}

private final class LegacyRequest: Sendable {
    private let done: Locked<(@Sendable (Result<String, any Error>) -> Void)?>

    init(_ done: @escaping @Sendable (Result<String, any Error>) -> Void) { self.done = Locked(done) }

    func end(_ result: Result<String, any Error>) {
        let handler = done.withLock { done in
            defer { done = nil }
            return done
        }
        handler?(result)
    }

    func cancel() { end(.failure(CancellationError())) }
}

/// A client of the days before `async`. Its first request hangs until it is cancelled.
private struct LegacyClient: Sendable {
    let asked = Counter()
    let cancelled = Counter()

    func lookup(_ name: String, done: @escaping @Sendable (Result<String, any Error>) -> Void) -> LegacyRequest {
        let isFirst = asked.add() == 1
        let request = LegacyRequest { result in
            if case .failure = result { cancelled.add() }
            done(result)
        }
        if !isFirst { request.end(.success("\(name)-1")) }
        return request
    }
}

extension LegacyClient {
    func lookup(_ name: String) async throws -> String {
        let request = Mutex<LegacyRequest?>(nil)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let started = lookup(name) { result in continuation.resume(with: result) }
                request.set(started)
                if Task.isCancelled { started.cancel() }
            }
        } onCancel: {
            request.value?.cancel()
        }
    }
}

private struct Reply: Sendable, Equatable {
    let status: Int
    var headers: [String: String] = [:]
}

private protocol HTTPClient: Sendable {
    func send(_ url: URL, _ method: String) async throws -> Reply
}

/// A client that answers these in turn, the last for ever.
private struct Scripted: HTTPClient {
    let replies: [Reply]
    let asked = Counter()

    func send(_ url: URL, _ method: String) async throws -> Reply { replies[min(asked.add(), replies.count) - 1] }
}

private struct Failed: Error {
    let answer: Reply
    let response: HTTPURLResponse?

    init(_ answer: Reply, _ url: URL) {
        self.answer = answer
        response = HTTPURLResponse(url: url, statusCode: answer.status, httpVersion: nil, headerFields: answer.headers)
    }
}

private func send(_ url: URL, _ method: String, _ client: any HTTPClient, _ policy: Policy) async throws -> Reply {
    let repeatable = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].contains(method)
    do {
        return try await policy.run(CallOptions(route: url.host, idempotent: repeatable)) { _ in
            let reply = try await client.send(url, method)
            if reply.status >= 400 { throw Failed(reply, url) }
            return reply
        }
    } catch let failed as Failed {
        return failed.answer
    }
}

/// `docs/swift/using-with.md`: each of its blocks stands here, word for word, and does what the page says.
@Suite(.serialized) struct UsingWithTests {
    private let session = URLSession(configuration: .ephemeral)
    private let engine = Engine(seed: 41)
    private static let quick = Backoff.constant(.milliseconds(1))

    private func http() throws -> Policy { try Policy("http", preset: .http, retry: Retry(backoff: Self.quick, budget: .off), engine: engine) }

    @Test func everyBlockOfThePageIsATest() throws {
        let page = VectorTests.vectors.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("docs/swift/using-with.md")
        let plain = { (text: String) in
            text.replacingOccurrences(of: "private ", with: "").split(separator: "\n")
                .map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }.joined(separator: "\n")
        }
        let here = plain(try String(contentsOfFile: #filePath, encoding: .utf8))
        let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```")
        let blocks = stride(from: 1, to: parts.count, by: 2).map { parts[$0] }.filter { $0.hasPrefix("swift\n") }
        for block in blocks { #expect(here.contains(plain(String(block.dropFirst(6)))), "\(block)") }
        #expect(blocks.count == 8)
    }

    @Test func codable() async throws {
        let origin = try Origin.recipes.get()
        let url = try await origin.scripted(status(503), status(200, "\"body\": \"{\\\"name\\\": \\\"tea\\\"}\""))
        let catalog = Catalog(base: url.deletingLastPathComponent(), session: session, policy: try http())
        #expect(try await catalog.item(url.lastPathComponent) == Item(name: "tea"))
        let down = try await origin.scripted(status(503))
        do {
            _ = try await catalog.item(down.lastPathComponent)
            Issue.record("no error")
        } catch let error as Unavailable {
            #expect(error.report?.reason == .attempts && error.report?.explain()?.attempts == 3)
        }
    }

    @Test func downloads() async throws {
        let origin = try Origin.recipes.get()
        let url = try await origin.scripted(status(503), status(200, "\"body_bytes\": 100000"))
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: file) }
        try await download(url, to: file, session, try http())
        #expect(try Data(contentsOf: file).count == 100_000)
    }

    @Test func uploads() async throws {
        let url = try await Origin.recipes.get().scripted(status(503), status(200))
        let policy = try http()
        var order = URLRequest(url: url)
        order.httpMethod = "POST"
        let (data, response) = try await session.upload(
            for: order, from: Data("{}".utf8), policy: policy, options: RequestOptions(idempotencyKey: true))
        #expect((response as? HTTPURLResponse)?.statusCode == 200 && !data.isEmpty)
    }

    @Test func anSDK() async throws {
        let policy = try Policy("prices", deadline: .seconds(10), retry: Retry(maxAttempts: 3), on: [ShopSDK.Busy.self])
        #expect(try await GuardedShop(ShopSDK(), policy).price("tea") == 3)
        let sdk = ShopSDK()
        await #expect(throws: ShopSDK.Busy.self) { try await GuardedShop(sdk, policy).buy("tea") }
        #expect(sdk.asked.value == 1, "buying is not repeated")
    }

    @Test func completionHandlers() async throws {
        let (client, clock) = (LegacyClient(), ManualClock())
        let policy = try Policy(
            "legacy", attemptTimeout: .milliseconds(50), retry: Retry(maxAttempts: 3, backoff: .constant(.zero)),
            engine: Engine(seed: 1, clock: clock))
        let call = Task {
            let name = try await policy.run { _ in try await client.lookup("eu") }
            return name
        }
        try await eventually { client.asked.value == 1 }
        await clock.advance(by: .milliseconds(50))
        #expect(try await call.value == "eu-1")
        #expect((client.asked.value, client.cancelled.value) == (2, 1))
    }

    @Test func anotherClient() async throws {
        let policy = try http()
        let url = URL(string: "http://shop.example/price")!
        let recovers = Scripted(replies: [Reply(status: 503, headers: ["Retry-After": "0"]), Reply(status: 200)])
        #expect(try await send(url, "GET", recovers, policy).status == 200)
        let down = Scripted(replies: [Reply(status: 503)])
        #expect(try await send(url, "GET", down, policy).status == 503 && down.asked.value == 3)
        let posted = Scripted(replies: [Reply(status: 503)])
        #expect(try await send(url, "POST", posted, policy).status == 503 && posted.asked.value == 1)
        let later = Scripted(replies: [Reply(status: 429, headers: ["Retry-After": "3600"])])
        #expect(try await send(url, "GET", later, policy).status == 429 && later.asked.value == 1)
    }
}
