extension Policy {
    /// Puts a function under the policy; the result has the same type: `let order = payments.wrapping(shop.order)`.
    ///
    /// Swift has no reflection that could wrap all methods of an object, so each one is named here, and its author decides which may happen
    /// twice. The arguments are kept for repeats, so they must be `Sendable`. A function that takes a stream gets the same stream each
    /// time; use `CallOptions(replayable: false)` so that it is called once.
    ///
    /// ```swift
    /// struct Client {
    ///     let order: @Sendable (Int) async throws -> Order
    ///
    ///     init(_ shop: Shop, _ policy: Policy) {
    ///         order = policy.wrapping(CallOptions(route: "orders")) { try await shop.order(id: $0) }
    ///     }
    /// }
    /// ```
    ///
    /// - Parameter options: Options of each call.
    /// - Returns: A function that throws what `run` throws.
    public func wrapping<each Argument: Sendable, Value: Sendable>(
        _ options: CallOptions = CallOptions(),
        _ function: @escaping @Sendable (repeat each Argument) async throws -> Value
    ) -> @Sendable (repeat each Argument) async throws -> Value {
        { (argument: repeat each Argument) in
            let arguments = (repeat each argument)
            return try await self.run(options) { _ in try await function(repeat each arguments) }
        }
    }

    /// Calls `run`: `try await payments { attempt in … }`.
    public func callAsFunction<T: Sendable>(
        _ options: CallOptions = CallOptions(), _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        try await run(options, operation)
    }
}
