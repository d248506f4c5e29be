import Foundation
import Testing
import TidegateTesting

@testable import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

private struct Busy: Error {}

private struct Order: Sendable, Equatable {
    static let empty = Order(id: 0)
    var id: Int
}

private struct Shop: Sendable {
    func order(id: Int, attempt: Int = 1, within: Duration? = nil) async throws -> Order { Order(id: id) }
    func reserve(_ id: Int) async throws { throw Busy() }
    func buy(_ id: Int) async throws(ShopError) -> Order { throw ShopError.soldOut(id) }
}

private struct Page: Sendable {
    var status = 200
    var headers: [String: String] = [:]
}

private enum ShopError: Error, Equatable {
    case soldOut(Int)
}

private struct Client {
    let order: @Sendable (Int) async throws -> Order

    init(_ shop: Shop, _ policy: Policy) {
        order = policy.wrapping(CallOptions(route: "orders")) { try await shop.order(id: $0) }
    }
}

private let busyIsTransient: Classify = { result in
    if case .failure(let error) = result, error is Busy { return Outcome(.transient) }
    return nil
}

/// `docs/swift.md`: each of its blocks stands below, word for word, and does what the page says.
@Suite(.serialized) struct GuideTests {
    private let shop = Shop()

    @Test func everyBlockOfThePageIsATest() throws {
        let page = VectorTests.vectors.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("docs/swift.md")
        let plain = { (text: String) in
            text.replacingOccurrences(of: "private struct", with: "struct").split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
                .joined(separator: "\n")
        }
        let here = plain(try String(contentsOfFile: #filePath, encoding: .utf8))
        let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```")
        let blocks = stride(from: 1, to: parts.count, by: 2).map { parts[$0] }.filter { $0.hasPrefix("swift\n") }
        for block in blocks { #expect(here.contains(plain(String(block.dropFirst(6)))), "\(block)") }
        #expect(blocks.count == 21)
    }

    @Test func policiesAndClosures() async throws {
        let origin = try Origin()
        let session = URLSession(configuration: .ephemeral)
        let request = URLRequest(url: origin.url)
        let payments = try Policy(
            "payments",
            preset: .http,
            deadline: .seconds(10),
            retry: Retry(
                maxAttempts: 3,
                backoff: .exponential(factor: 2, initial: .milliseconds(100)).maximum(.seconds(5)).fullJitter()
            ),
            bulkhead: Bulkhead(maxConcurrency: 20)
        )
        let (data, response) = try await session.data(for: request, policy: payments)
        #expect((response as? HTTPURLResponse)?.statusCode == 200 && !data.isEmpty)

        var received = 0
        let (bytes, head) = try await session.bytes(for: request, policy: payments)
        for try await chunk in bytes.chunks { received += chunk.count }
        #expect((head as? HTTPURLResponse)?.statusCode == 200 && received == data.count)

        let order = try await payments.run { attempt in
            try await shop.order(id: 7, attempt: attempt.number, within: attempt.remaining)
        }
        #expect(order.id == 7)

        var later: Duration?
        do {
            _ = try await payments.run { _ in try await shop.order(id: 7) }
        } catch let error as Rejected where error.cause == .breakerOpen {
            later = error.retryIn
        }
        #expect(later == nil)

        let ended = await payments.ended { _ in try await shop.order(id: 8) }
        print(ended.report.attempts, ended.report.note ?? "nothing was held back")
        #expect(ended.report.attempts == 1)

        let cached = try await payments.run(fallback: { _ in Order.empty }) { _ in try await shop.order(id: 9) }
        #expect(cached.id == 9)
    }

    @Test func limitsDeadlinesAndCancelling() async throws {
        let payments = try Policy("bounded", preset: .http, deadline: .seconds(10), engine: Engine(seed: 7))
        let mail = try Policy(
            "mail",
            rateLimit: RateLimit(permits: 2, per: .seconds(60)),  // `wait: true` makes calls wait for a permit, at most `maxWait`
            bulkhead: Bulkhead(maxConcurrency: 20)  // calls at once; `maxQueue` more of them wait
        )
        for id in 1...3 {
            do {
                _ = try await mail.run { _ in try await shop.order(id: id) }
            } catch let refused as Rejected {
                print("\(refused): again in \(refused.retryIn ?? .zero)")
            }
        }
        #expect(await mail.ended { _ in 7 }.report.reason == .rateLimited)
        do {
            try await withDeadline(.milliseconds(100)) {
                try await payments.run { _ in try await Task.sleep(for: .seconds(10)) }
            }
        } catch let late as DeadlineExceeded {
            print(late)
        }
        let call = Task { try await payments.run { _ in try await Task.sleep(for: .seconds(10)) } }
        call.cancel()
        let cancelled = await call.result  // a CancellationError; the attempt has ended, and its slot is free
        #expect(throws: CancellationError.self) { try cancelled.get() }
        #expect(payments.engine.snapshot().live == 0)
    }

    @Test func classifyAndHedges() async throws {
        let orders = try Policy(
            "orders",
            retry: Retry(maxAttempts: 5),
            classify: { result in
                guard case .failure(let error) = result, error is Busy else { return nil }
                return Outcome(.throttled, retryAfter: .milliseconds(1))
            }
        )
        let counter = Counter()
        let value = try await orders.run { _ in
            if counter.add() < 2 { throw Busy() }
            return counter.value
        }
        #expect(value == 2)

        let lookups = try Policy("lookups", deadline: .seconds(1), hedge: Hedge(delay: .milliseconds(50)))
        #expect(try await lookups.run { attempt in
            if attempt.number == 1 { try await Task.sleep(for: .seconds(3600)) }
            return attempt.number
        } == 2)
    }

    @Test func answersOfAnotherClient() async throws {
        let retry = Retry(statuses: [429, 503])
        let rules = try Policy("pages", retry: retry)
        let pages = try Policy(
            "pages", retry: retry,
            classify: { result in
                guard case .success(let page as Page) = result else { return nil }
                return rules.outcomeOf(status: page.status, headers: page.headers)
            }
        )
        let answers = [Page(status: 503, headers: ["Retry-After": "0"]), Page(status: 429, headers: ["Retry-After": "0"]), Page()]
        let ended = await pages.ended { attempt in answers[attempt.number - 1] }
        #expect(try ended.result.get().status == 200)
        #expect(ended.report.attempts == 3)
        let once = await pages.ended { _ in Page(status: 500) }
        #expect((try once.result.get().status, once.report.attempts) == (500, 1))
    }

    /// The comment on `outcomeOf` has the page's block.
    @Test func theCommentOnOutcomesHasThePagesBlock() throws {
        let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources/Tidegate/Classify.swift")
        let lines = try String(contentsOf: sources, encoding: .utf8).split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        let example = lines.drop { $0 != "/// let retry = Retry(statuses: [429, 503])" }.prefix { $0 != "/// ```" }
            .map { $0.dropFirst(3).trimmingCharacters(in: .whitespaces) }
        let here = try String(contentsOfFile: #filePath, encoding: .utf8).split(separator: "\n")
            .map { $0.trimmingCharacters(in: .whitespaces) }
        #expect(example.count == 9)
        #expect(here.joined(separator: "\n").contains(example.joined(separator: "\n")))
    }

    @Test func errorsThatAreNamedAndReasons() async throws {
        let stock = try Policy("stock", retry: Retry(maxAttempts: 3), on: [Busy.self])
        do {
            _ = try await stock.run { _ in try await shop.reserve(7) }
        } catch {
            print(stock.report(of: error)?.explain()?.text ?? "not an error of a call")
        }
        let ended = await stock.ended { _ in try await shop.reserve(7) }
        #expect(ended.report.explain()?.reason == "attempts" || ended.report.reason == .budget)

        let lines = Locked<[String]>([])
        let log: @Sendable (String) -> Void = { line in lines.withLock { $0.append(line) } }
        let logged = try Policy(
            "logged", retry: Retry(maxAttempts: 3), on: [Busy.self],
            onRetry: { log("attempt \($0.attempt) failed (\($0.reason.rawValue)), the next one in \($0.wait)") }
        )
        _ = await logged.ended { _ in try await shop.reserve(7) }
        #expect(lines.withLock { $0.first }?.hasPrefix("attempt 1 failed (transient), the next one in ") == true)
    }

    @Test func typedThrowsAndFunctions() async throws {
        let payments = try Policy("typed payments", preset: .http)
        var order: Order?
        var shown: [any Error] = []
        let show = { (error: any Error) in shown.append(error) }
        do {
            order = try await payments.run(throwing: ShopError.self) { _ throws(ShopError) in try await shop.buy(7) }
        } catch {
            switch error {
            case .operation(let own, _): show(own)
            case .policy(let ours, _): show(ours)
            case .invalid(let mistakes, _): show(mistakes)
            case .cancelled: break
            }
        }
        #expect(order == nil && shown.map { $0 as? ShopError } == [.soldOut(7)])
        #expect(try await Client(shop, payments).order(3) == Order(id: 3))
    }

    @Test func aManualClock() async throws {
        let clock = ManualClock()
        let engine = Engine(seed: 1, clock: clock)
        let slow = Backoff.constant(.seconds(60)).maximum(.seconds(60))
        let policy = try Policy("tested", retry: Retry(backoff: slow), on: [Busy.self], engine: engine)
        let time = Task { while !Task.isCancelled { await clock.advance(by: .seconds(60)) } }
        let attempts = try await policy.run { attempt in
            if attempt.number < 3 { throw Busy() }  // struct Busy: Error {}
            return attempt.number
        }
        time.cancel()
        #expect(attempts == 3)
    }

    @Test func parts() throws {
        let bucket = try Parts.TokenBucket(RateLimit(permits: 3, per: .seconds(1), burst: 2), now: .zero)
        let granted = bucket.tryTake(2, now: .zero)
        let wait = bucket.acquire(now: .zero)
        #expect(granted && wait == .after(.microseconds(333_334)))
    }

    @Test func eventsAndMetrics() async throws {
        let engine = Engine(seed: 1, clock: ManualClock())
        let policy = try Policy(
            "watched", breaker: Breaker(consecutive: 1, breakDuration: .seconds(30)), classify: busyIsTransient, engine: engine)
        let told = AsyncStream<String>.makeStream()
        let report: @Sendable (String?, String?) -> Void = { told.continuation.yield("\($0!) \($1!)") }
        let states = Task {
            for await event in engine.events([.breakerChanged]) { report(event.policy, event.to) }
        }
        let metrics = try Metrics(engine)
        let ended = metrics.read().filter { $0.family.name == "tidegate_calls_total" && $0["outcome"] == "ok" }
        #expect(ended.isEmpty)
        // The task that listens has to be there first.
        try await eventually { engine.listening == 1 }
        _ = await policy.ended { _ -> Int in throw Busy() }
        var words = told.stream.makeAsyncIterator()
        #expect(await words.next() == "watched open")
        states.cancel()
    }
}
