import Foundation
import Testing

@testable import Tidegate

private actor Shop {
    private(set) var requests = 0
    private var down = false

    func order() throws -> String {
        requests += 1
        if down || requests.isMultiple(of: 10) { throw URLError(.networkConnectionLost) }
        return "order \(requests)"
    }

    func restart(down: Bool) {
        (requests, self.down) = (0, down)
    }
}

private func hundredCalls(to shop: Shop, down: Bool = false, call: () async throws -> String) async {
    await shop.restart(down: down)
    var good = 0
    for _ in 0..<100 {
        if (try? await call()) != nil { good += 1 }
    }
    print("\(good) of 100 calls succeeded; \(await shop.requests) requests reached the shop")
}

private struct ShopError: Error {}

/// `docs/tutorial/swift.md`: each of its blocks stands here, word for word, and does what the page says.
@Suite struct TutorialTests {
    @Test func everyBlockOfThePageIsATest() throws {
        let page = VectorTests.vectors.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("docs/tutorial/swift.md")
        let plain = { (text: String) in
            text.replacingOccurrences(of: "private actor", with: "actor").replacingOccurrences(of: "private func", with: "func")
                .split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }.joined(separator: "\n")
        }
        let here = plain(try String(contentsOfFile: #filePath, encoding: .utf8))
        let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```")
        let blocks = stride(from: 1, to: parts.count, by: 2).map { parts[$0] }.filter { $0.hasPrefix("swift\n") }
        for block in blocks { #expect(here.contains(plain(String(block.dropFirst(6)))), "\(block)") }
        #expect(blocks.count == 6)
    }

    @Test func thePagePrintsWhatItSays() async throws {
        let shop = Shop()
        await hundredCalls(to: shop) { try await shop.order() }
        #expect(await shop.requests == 100)

        let metrics = try Metrics()
        let policy = try Policy("shop", preset: .http, deadline: .seconds(10))
        await hundredCalls(to: shop) { try await policy.run { _ in try await shop.order() } }
        #expect(await shop.requests == 111)

        await hundredCalls(to: shop, down: true) { try await policy.run { _ in try await shop.order() } }
        #expect((100...120).contains(await shop.requests)) // the budget saves the retries of 14 s, so a slow machine has fewer

        let ended = await policy.ended { _ in try await shop.order() }
        print(ended.report.note ?? "nothing was held back")
        #expect(ended.report.note == "retry budget exhausted")

        for series in metrics.read() where series.family.name == "tidegate_retries_suppressed_total" {
            print(series["reason"] ?? "", series.reading)
        }
        let spent = metrics.read().filter {
            $0.family.name == "tidegate_retries_suppressed_total" && $0["policy"] == "shop" && $0["reason"] == "budget"
        }
        guard case .number(let number)? = spent.first?.reading else { throw ShopError() }
        #expect(number > 80)
    }
}
