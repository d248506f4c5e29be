#if canImport(FoundationNetworking)
import Foundation
import FoundationNetworking

/// On Linux, sessions in the place of the user's, two for each, as long as that is there. A policy cancels whenever a time is up or
/// another attempt was faster, and Foundation there looks for the cancelled task where it may be no more, which ends the process
/// (swift-corelibs-foundation issue 3296). It is there where no cache is asked beside the transfer, and where the cancelling takes turns with what
/// is told of the task (`URLSession.end`); so these have the user's configuration, but no cache, and a queue of one turn at a time.
final class Twins: NSObject, URLSessionDataDelegate, Sendable {
    private struct Entry {
        weak var of: URLSession?
        /// With the delegate of the user's.
        let plain: URLSession
        /// With one that knows the transfers that are read as they come: tasks have no delegates of their own there.
        let streaming: URLSession
        let streams: Twins
    }

    private static let all = Locked<[ObjectIdentifier: Entry]>([:])
    private let transfers = Locked<[Int: Transfer]>([:])

    /// A session whose tasks may be cancelled at any moment.
    static func cancellable(_ of: URLSession) -> URLSession {
        entry(of).plain
    }

    /// The session of transfers that are read as they come.
    static func streaming(_ of: URLSession) -> URLSession { entry(of).streaming }

    static func task(_ of: URLSession, _ request: URLRequest, _ transfer: Transfer) -> URLSessionDataTask {
        let entry = entry(of)
        let task = entry.streaming.dataTask(with: request)
        entry.streams.transfers.withLock { $0[task.taskIdentifier] = transfer }
        return task
    }

    /// Closes those whose session is gone, and with them the connections that they keep. False where no other session can go.
    @discardableResult static func sweep() -> Bool {
        let (gone, more) = all.withLock { all in
            let gone = all.filter { $0.value.of == nil }
            for id in gone.keys { all[id] = nil }
            let more = all.values.contains { $0.of !== URLSession.shared }
            if !more { sweeping.withLock { $0 = false } }
            return (gone.values, more)
        }
        for each in gone {
            each.plain.finishTasksAndInvalidate()
            each.streaming.finishTasksAndInvalidate()
        }
        return more
    }

    /// How long connections are kept, at most, whose session is gone. Nobody tells that it is.
    private static let interval = Duration.seconds(2)
    private static let sweeping = Locked(false)

    private static func sweepNowAndThen() {
        let runs = sweeping.withLock { running in
            defer { running = true }
            return running
        }
        if runs { return }
        Task.detached(priority: .background) {
            repeat { try await Task.sleep(for: interval) } while sweep()
        }
    }

    private static func entry(_ of: URLSession) -> Entry {
        all.withLock { all in
            let known = all[ObjectIdentifier(of)]
            if let known, known.of != nil { return known }
            let (streams, configuration) = (Twins(), of.configuration)
            configuration.urlCache = nil
            let entry = Entry(
                of: of, plain: URLSession(configuration: configuration, delegate: of.delegate, delegateQueue: nil),
                streaming: URLSession(configuration: configuration, delegate: streams, delegateQueue: nil), streams: streams)
            all[ObjectIdentifier(of)] = entry
            // Of an earlier session at the same address.
            known?.plain.finishTasksAndInvalidate()
            known?.streaming.finishTasksAndInvalidate()
            if of !== URLSession.shared { sweepNowAndThen() }
            return entry
        }
    }

    private func transfer(_ task: URLSessionTask) -> Transfer? { transfers.withLock { $0[task.taskIdentifier] } }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        guard let transfer = transfer(dataTask) else { return completionHandler(.cancel) }
        transfer.urlSession(session, dataTask: dataTask, didReceive: response, completionHandler: completionHandler)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        transfer(dataTask)?.urlSession(session, dataTask: dataTask, didReceive: data)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let transfer = transfers.withLock { $0.removeValue(forKey: task.taskIdentifier) }
        transfer?.urlSession(session, task: task, didCompleteWithError: error)
    }
}
#endif
