extension Policy {
    /// A function under the policy, of the same type: `let order = payments.wrapping(shop.order)`.
    ///
    /// Swift has no reflection that could wrap all methods of an object, and names each of them here: what may happen twice is
    /// decided by who writes it down. The arguments are kept for repeats, so they have to be `Sendable`; a function that takes a
    /// stream gets the same stream each time, for which `CallOptions(replayable: false)` says that it is called once.
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
    /// - Parameter options: What each call says of itself.
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

    /// The same as `run`: `try await payments { attempt in … }`.
    public func callAsFunction<T: Sendable>(
        _ options: CallOptions = CallOptions(), _ operation: @escaping @Sendable (Attempt) async throws -> T
    ) async throws -> T {
        try await run(options, operation)
    }
}
