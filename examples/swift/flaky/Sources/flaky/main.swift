// A server that fails twice, a policy in front of it, and what happens meanwhile.
//
//     swift run flaky https://example.org/     fetches that under the policy
//     swift run flaky                          fetches from the faulty origin that TIDEGATE_ORIGIN names
import Foundation
import Tidegate

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

struct Failed: Error, CustomStringConvertible {
    let description: String
}

/// Starts the faulty origin, and has it answer 503, 503, 200.
func faultyOrigin() async throws -> (URL, Process) {
    struct Ready: Decodable {
        let url: URL
        let control: URL
    }
    guard let program = ProcessInfo.processInfo.environment["TIDEGATE_ORIGIN"] else {
        throw Failed(description: "name an address, or a tidegate-origin in TIDEGATE_ORIGIN")
    }
    let (process, input, output) = (Process(), Pipe(), Pipe())
    process.executableURL = URL(fileURLWithPath: program)
    (process.standardInput, process.standardOutput) = (input, output)
    try process.run()
    let ready = try JSONDecoder().decode(Ready.self, from: output.fileHandleForReading.availableData)
    var script = URLRequest(url: ready.control.appendingPathComponent("script"))
    script.httpMethod = "PUT"
    script.httpBody = Data(#"{"sequences": {"/flaky": [{"status": 503}, {"status": 503}, {"body": "hello"}]}}"#.utf8)
    // Any request may go through a policy; this one is sent once.
    let once = try Policy("control", retry: Retry(maxAttempts: 1))
    _ = try await URLSession.shared.data(for: script, policy: once)
    return (ready.url.appendingPathComponent("flaky"), process)
}

let policy = try Policy(
    "example",
    preset: .http,
    deadline: .seconds(10),
    retry: Retry(maxAttempts: 3, backoff: .exponential(initial: .milliseconds(50)).maximum(.seconds(1)).fullJitter()),
    bulkhead: Bulkhead(maxConcurrency: 10)
)

// Prints the events of the policy as they happen.
let events = policy.engine.events([.attemptDone, .retryScheduled, .callDone])
let telling = Task {
    for await event in events where event.policy == "example" {
        let attempt = event.attempt.map { " \($0)" } ?? ""
        print("  \(event.kind)\(attempt): \(event.outcome ?? event.reason ?? "-")")
        if event.kind == "call_done" { break }
    }
}

var origin: Process?
var url = CommandLine.arguments.dropFirst().first.flatMap(URL.init(string:))
if url == nil { (url, origin) = try await faultyOrigin() }

let ended = await URLSession.shared.answer(for: URLRequest(url: url!), policy: policy)
await telling.value
let answer = try ended.result.get()
print("\((answer.response as? HTTPURLResponse)?.statusCode ?? 0), \(answer.data.count) bytes, \(ended.report.attempts) attempts")
if let origin {
    origin.terminate()
    guard ended.report.attempts == 3, answer.data == Data("hello".utf8) else {
        throw Failed(description: "not what was scripted: \(ended)")
    }
    print("three attempts, one answer")
}
