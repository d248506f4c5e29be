import Foundation
import Testing

import Tidegate

/// Random traces, put in by the public `Engine.replay`. `cargo xtask test` writes the journals into the folder that `TIDEGATE_TRACES`
/// names, and compares the answers with core's, byte for byte.
@Suite struct TracesTests {
    static let folder = ProcessInfo.processInfo.environment["TIDEGATE_TRACES"]

    @Test(.enabled(if: folder != nil, "TIDEGATE_TRACES names no folder of journals: cargo xtask test writes one"))
    func randomTracesAreAnswered() throws {
        let folder = URL(fileURLWithPath: try #require(Self.folder))
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".journals") }
        #expect(!names.isEmpty)
        for name in names.sorted() {
            let journals = folder.appendingPathComponent(name)
            let answers = try replay(String(contentsOf: journals, encoding: .utf8))
            try answers.write(
                to: journals.deletingPathExtension().appendingPathExtension("answers"), atomically: false, encoding: .utf8)
        }
    }

    /// A file of journals has for each trace its name, the journal and an empty line; a file of answers the name, and an answer a line.
    private func replay(_ journals: String) throws -> String {
        var answers = ""
        for trace in journals.components(separatedBy: "\n\n") where !trace.isEmpty {
            let end = try #require(trace.firstIndex(of: "\n"))
            answers += trace[...end]
            for answer in try Engine.replay(String(trace[trace.index(after: end)...])).answers { answers += answer + "\n" }
        }
        return answers
    }
}
