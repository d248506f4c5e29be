// The ten tasks of a new user in Swift. `cargo xtask install-check` puts the blocks of the guide in place of the lines that begin
// with `//@`, the address of a server in place of `https://api.example`, and runs this with the package at the release's tag.

import Foundation
import Tidegate
import TidegateTesting

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

let server = URL(string: "https://api.example")!
let session = URLSession(configuration: .ephemeral)

struct Wrong: Error {
    let text: String
}

func expect(_ right: Bool, _ text: String) throws {
    if !right { throw Wrong(text: text) }
}

struct Busy: Error {}

struct Order: Sendable {
    let id: Int
}

struct Shop: Sendable {
    func order(id: Int, attempt: Int = 0, within: Duration? = nil) async throws -> Order {
        if attempt == 1 { throw URLError(.networkConnectionLost) }
        return Order(id: id)
    }

    func reserve(_ id: Int) async throws { throw Busy() }
}

let shop = Shop()

/// An SDK with errors of its own.
struct ShopSDK: Sendable {
    struct Busy: Error {}

    func price(of item: String) async throws -> Int {
        let (data, response) = try await URLSession.shared.data(from: server.appendingPathComponent("price/\(item)"))
        if (response as? HTTPURLResponse)?.statusCode == 503 { throw Busy() }
        return data.count
    }

    func buy(_ item: String) async throws -> String { item }
}

//@ docs/swift/using-with.md: struct GuardedShop

func bounded() throws -> Policy {
    try Policy("bounded", preset: .http, deadline: .seconds(10))
}

func wrapTheClient() async throws {
    let request = URLRequest(url: server.appendingPathComponent("client"))
    //@ docs/swift.md: session.data(for: request, policy: payments)
    try expect(String(decoding: data, as: UTF8.self) == "an order", "\(data)")
    try expect((response as? HTTPURLResponse)?.statusCode == 200, "\(response)")
    let ended = await session.answer(for: URLRequest(url: server.appendingPathComponent("report")), policy: payments)
    try expect(ended.report.attempts == 2, "the first answer was a 503: \(ended.report)")
}

func wrapAFunction() async throws {
    let payments = try bounded()
    //@ docs/swift.md: shop.order(id: 7, attempt: attempt.number
    try expect(order.id == 7, "\(order)")
}

func wrapAnSdk() async throws {
    //@ docs/swift/using-with.md: Policy("prices"
    let guarded = GuardedShop(ShopSDK(), policy)
    let price = try await guarded.price("7")
    try expect(price == "an order".count, "\(price)")
}

func limit() async throws {
    //@ docs/swift.md: let mail = try Policy(
    let ended = await mail.ended { _ in 7 }
    try expect(ended.report.reason == .rateLimited, "\(ended.report)")
}

func setADeadline() async throws {
    let payments = try bounded()
    //@ docs/swift.md: withDeadline(.milliseconds(100))
    let slow = URLRequest(url: server.appendingPathComponent("slow"))
    let soon = RequestOptions(CallOptions(deadline: .milliseconds(300)))
    do {
        _ = try await session.data(for: slow, policy: payments, options: soon)
        throw Wrong(text: "it has answered")
    } catch is DeadlineExceeded {}
}

func stream() async throws {
    let payments = try bounded()
    let request = URLRequest(url: server.appendingPathComponent("stream"))
    var received = 0
    //@ docs/swift.md: for try await chunk in bytes.chunks { received
    try expect((head as? HTTPURLResponse)?.statusCode == 200 && received > 50, "\(received) bytes")
}

func cancel() async throws {
    let payments = try bounded()
    //@ docs/swift.md: call.cancel()
    if case .failure(let error) = cancelled { try expect(error is CancellationError, "\(error)") }
    try expect(payments.engine.snapshot().live == 0, "a call is left")
}

func seeWhy() async throws {
    //@ docs/swift.md: let stock = try Policy("stock"
    //@ docs/swift.md: print(stock.report(of: error)
    let ended = await stock.ended { _ in try await shop.reserve(7) }
    try expect(ended.report.explain() != nil, "\(ended.report)")
}

func measure() async throws {
    let engine = Engine.shared
    //@ docs/swift.md: let metrics = try Metrics(engine)
    _ = try await bounded().run { _ in 7 }
    let after = metrics.read().filter { $0.family.name == "tidegate_calls_total" && $0["outcome"] == "ok" }
    try expect(after.count > ended.count, "\(after)")
}

func testWithTimeUnderControl() async throws {
    //@ docs/swift.md: let clock = ManualClock()
    try expect(attempts == 3, "\(attempts)")
}

func task(_ name: String, _ work: @Sendable () async throws -> Void) async {
    do {
        try await work()
        print("done: \(name)")
    } catch {
        print("\(name): \(error)")
        exit(1)
    }
}

await task("wrap the client", wrapTheClient)
await task("wrap a function", wrapAFunction)
await task("wrap an SDK", wrapAnSdk)
await task("limit", limit)
await task("set a deadline", setADeadline)
await task("stream", stream)
await task("cancel", cancel)
await task("see why", seeWhy)
await task("measure", measure)
await task("test with time under control", testWithTimeUnderControl)
