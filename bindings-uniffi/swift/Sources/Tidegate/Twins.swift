#if canImport(FoundationNetworking)
import Foundation
import FoundationNetworking

/// On Linux, two sessions in place of each session of the user, for as long as that one exists. A policy cancels a task whenever its time
/// is up or another attempt was faster. Foundation on Linux may then look for a task that is gone, which ends the process
/// (swift-corelibs-foundation issue 3296). The task is there if no cache is queried beside the transfer, and if cancelling takes turns with
/// the delegate's calls (`URLSession.end`). Therefore these sessions have the user's configuration without its cache, and a queue of one
/// operation at a time.
final class Twins: NSObject, URLSessionDataDelegate, Sendable {
    private struct Entry {
        weak var of: URLSession?
        /// Session with the user's delegate.
        let plain: URLSession
        /// Session whose delegate knows all streamed transfers, because tasks have no delegates of their own on Linux.
        let streaming: URLSession
        let streams: Twins
    }

    private static let all = Locked<[ObjectIdentifier: Entry]>([:])
    private let transfers = Locked<[Int: Transfer]>([:])

    /// Session whose tasks may be cancelled at any moment.
    static func cancellable(_ of: URLSession) -> URLSession {
        entry(of).plain
    }

    /// Session of streamed transfers.
    static func streaming(_ of: URLSession) -> URLSession { entry(of).streaming }

    static func task(_ of: URLSession, _ request: URLRequest, _ transfer: Transfer) -> URLSessionDataTask {
        let entry = entry(of)
        let task = entry.streaming.dataTask(with: request)
        entry.streams.transfers.withLock { $0[task.taskIdentifier] = transfer }
        return task
    }

    /// Closes the sessions whose original is gone, with their connections. False if no further session can go.
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

    /// Longest time for which connections outlive their session. Nothing reports that a session is gone, so it is polled.
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
            // The known entry belongs to an earlier session at the same address.
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
