import Foundation
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The faulty server of `tests/origin`: `TIDEGATE_ORIGIN` names its program. It ends with its standard input.
final class Origin: Sendable {
    // Suites run beside each other, so each has one of its own.
    static let shared = Result { try Origin() }
    static let streaming = Result { try Origin() }
    static let matrix = Result { try Origin() }
    static let threads = Result { try Origin() }
    static let recipes = Result { try Origin() }
    static let reading = Result { try Origin() }
    static let models = Result { try Origin() }
    static let timeouts = Result { try Origin() }
    static let learning = Result { try Origin() }

    let url: URL
    private let control: URL
    private let session = URLSession(configuration: .ephemeral)
    private let input = Pipe()

    struct Request: Decodable {
        let method: String
        let body: String
        let connection: Int
        private let fields: [[String]]
        var headers: [String: String] { Dictionary(fields.map { ($0[0], $0[1]) }, uniquingKeysWith: { one, _ in one }) }

        private enum CodingKeys: String, CodingKey {
            case method, body, connection
            case fields = "headers"
        }
    }

    struct Stats: Decodable {
        let requests: Int
        let in_flight: Int
        let connections_open: Int
    }

    private struct Ready: Decodable {
        let url: URL
        let control: URL
    }

    init() throws {
        let program = try #require(
            ProcessInfo.processInfo.environment["TIDEGATE_ORIGIN"],
            "TIDEGATE_ORIGIN names no program (cargo build --release -p tidegate-origin)")
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: program)
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        var line = Data()
        while line.last != UInt8(ascii: "\n") {
            let byte = output.fileHandleForReading.readData(ofLength: 1)
            if byte.isEmpty { throw Broken() }
            line += byte
        }
        let ready = try JSONDecoder().decode(Ready.self, from: line)
        (url, control) = (ready.url, ready.control)
    }

    @discardableResult
    private func ask(_ path: String, _ method: String = "GET", _ body: Data? = nil) async throws -> Data {
        var request = URLRequest(url: control.appendingPathComponent(path))
        request.httpMethod = method
        request.httpBody = body
        let (data, response) = try await withCheckedThrowingContinuation { continuation in
            session.dataTask(with: request) { data, response, error in
                continuation.resume(with: Result { () throws -> (Data, URLResponse) in
                    if let error { throw error }
                    return (data!, response!)
                })
            }.resume()
        }
        try #require((response as? HTTPURLResponse)?.statusCode == 200, "\(String(decoding: data, as: UTF8.self))")
        return data
    }

    /// Answers these in turn, the last for ever: JSON, as the origin's README says. A new address each time.
    func scripted(_ answers: String...) async throws -> URL {
        let path = "/" + UUID().uuidString
        try await script("{\"sequences\": {\"\(path)\": [\(answers.joined(separator: ","))]}}")
        return url.appendingPathComponent(path)
    }

    /// Sets a script: JSON, as the origin's README says.
    func script(_ script: String) async throws { try await ask("script", "PUT", Data(script.utf8)) }

    func log() async throws -> [Request] {
        try JSONDecoder().decode([Request].self, from: try await ask("log"))
    }

    func stats() async throws -> Stats {
        try JSONDecoder().decode(Stats.self, from: try await ask("stats"))
    }
}

func status(_ status: Int, _ more: String = "") -> String {
    "{\"status\": \(status)\(more.isEmpty ? "" : ", " + more)}"
}
