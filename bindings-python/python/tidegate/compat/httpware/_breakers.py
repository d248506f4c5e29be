"""The middlewares of httpware's circuit breakers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ._breaker import Circuit, Circuits, CircuitState, Settings, origin, send, send_async

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from ._retry import AsyncNext, Next


class _One:
    def __init__(
        self,
        *,
        failure_threshold: int = 5,
        reset_timeout: float = 30.0,
        success_threshold: int = 1,
        failure_status_codes: Collection[int] | None = None,
        failure_rate_threshold: float | None = None,
        window_seconds: float = 30.0,
        minimum_calls: int = 20,
        _now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._circuit = Circuit(
            Settings(
                failure_threshold,
                reset_timeout,
                success_threshold,
                failure_status_codes,
                failure_rate_threshold,
                window_seconds,
                minimum_calls,
                _now,
            )
        )

    @property
    def state(self) -> CircuitState:
        """Where the circuit is; looking changes nothing."""
        return self._circuit.state


class _Keyed:
    def __init__(
        self,
        *,
        key: Callable[[Any], Hashable] = origin,
        failure_threshold: int = 5,
        reset_timeout: float = 30.0,
        success_threshold: int = 1,
        failure_status_codes: Collection[int] | None = None,
        failure_rate_threshold: float | None = None,
        window_seconds: float = 30.0,
        minimum_calls: int = 20,
        _now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._circuits = Circuits(
            key,
            Settings(
                failure_threshold,
                reset_timeout,
                success_threshold,
                failure_status_codes,
                failure_rate_threshold,
                window_seconds,
                minimum_calls,
                _now,
            ),
        )


class CircuitBreaker(_One):
    """Refuses requests while what they go to fails; lets one probe through after a while.

    A middleware for `httpware.Client`; one instance may serve several clients, and threads. Failures are
    network errors, timeouts, and statuses of `failure_status_codes`; any other status is a success, any
    other exception counts neither way. A request that was admitted before the circuit last changed counts
    nothing.

    Args:
        failure_threshold: Failures in a row that open it; 1 or more.
        reset_timeout: Seconds until a probe is let through; 0 is taken as 1 ms, the engine's shortest break.
        success_threshold: Good probes in a row that close it; 1 or more.
        failure_status_codes: Statuses that are failures; 500 to 599 by default.
        failure_rate_threshold: Failures among recent requests that open it, as a fraction in (0, 1], in the
            place of `failure_threshold`.
        window_seconds: How long a request is recent, for the rate.
        minimum_calls: Requests that the window must hold before the rate counts.
        _now: The clock: seconds that do not run back.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> breaker = CircuitBreaker(failure_threshold=3, reset_timeout=10.0)
        >>> breaker.state
        <CircuitState.CLOSED: 'closed'>
    """

    def __call__(self, request: Any, next: Next) -> Any:  # noqa: A002 - httpware's name
        """Sends a request on, if the circuit lets it.

        Raises:
            CircuitOpenError: If the circuit is open, or its probe is under way.
            Exception: What sending it raised, as it was.
        """
        return send(self._circuit, request, next)


class AsyncCircuitBreaker(_One):
    """As `CircuitBreaker`, with the same arguments: a middleware for `httpware.AsyncClient`.

    One instance may serve several clients and event loops.

    Example:
        >>> AsyncCircuitBreaker(failure_rate_threshold=0.5, minimum_calls=10).state
        <CircuitState.CLOSED: 'closed'>
    """

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request on, if the circuit lets it.

        Raises:
            CircuitOpenError: If the circuit is open, or its probe is under way.
            asyncio.CancelledError: If the caller was cancelled; a probe gives its place up.
            Exception: What sending it raised, as it was.
        """
        return await send_async(self._circuit, request, next)


class KeyedCircuitBreaker(_Keyed):
    """A circuit for each key, so that one host that fails does not stop requests to others.

    A middleware for `httpware.Client`. Circuits are made when they are first needed, and kept: a key should
    take few values.

    Args:
        key: A function of a request; its origin (scheme, host, port) by default.
        failure_threshold: As for `CircuitBreaker`, and so are the others.
        reset_timeout: See there.
        success_threshold: See there.
        failure_status_codes: See there.
        failure_rate_threshold: See there.
        window_seconds: See there.
        minimum_calls: See there.
        _now: See there.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> breaker = KeyedCircuitBreaker(key=lambda request: request.url.host, failure_threshold=3)
    """

    def __call__(self, request: Any, next: Next) -> Any:  # noqa: A002 - httpware's name
        """Sends a request on, if the circuit of its key lets it.

        Raises:
            CircuitOpenError: If that circuit is open, or its probe is under way.
            Exception: What sending it raised, as it was.
        """
        return send(self._circuits.of(request), request, next)


class AsyncKeyedCircuitBreaker(_Keyed):
    """As `KeyedCircuitBreaker`, with the same arguments: a middleware for `httpware.AsyncClient`.

    Example:
        >>> breaker = AsyncKeyedCircuitBreaker(failure_threshold=3)
    """

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request on, if the circuit of its key lets it.

        Raises:
            CircuitOpenError: If that circuit is open, or its probe is under way.
            asyncio.CancelledError: If the caller was cancelled; a probe gives its place up.
            Exception: What sending it raised, as it was.
        """
        return await send_async(self._circuits.of(request), request, next)
