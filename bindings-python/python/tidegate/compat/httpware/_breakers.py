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
        """The circuit's state; reading it changes nothing."""
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
    """Refuses requests while the server fails; admits one probe after a while.

    A middleware for `httpware.Client`; several clients and threads can share an instance. Failures are
    network errors, timeouts, and statuses in `failure_status_codes`. Any other status is a success, and any
    other exception is ignored. A request that was admitted before the last change of state is not counted.

    Args:
        failure_threshold: Consecutive failures that open it; 1 or more.
        reset_timeout: Seconds until a probe is admitted; 0 means 1 ms, the engine's shortest break.
        success_threshold: Consecutive successful probes that close it; 1 or more.
        failure_status_codes: Statuses that are failures; 500 to 599 by default.
        failure_rate_threshold: Share of failures among recent requests that opens it, in (0, 1], instead of
            `failure_threshold`.
        window_seconds: Time in seconds for which a request counts as recent, for the rate.
        minimum_calls: Number of requests in the window before the rate applies.
        _now: The clock: a function that returns seconds and never goes back.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> breaker = CircuitBreaker(failure_threshold=3, reset_timeout=10.0)
        >>> breaker.state
        <CircuitState.CLOSED: 'closed'>
    """

    def __call__(self, request: Any, next: Next) -> Any:  # noqa: A002 - httpware's name
        """Sends a request if the circuit admits it.

        Raises:
            CircuitOpenError: If the circuit is open, or its probe is in flight.
            Exception: The exception of the next middleware, unchanged.
        """
        return send(self._circuit, request, next)


class AsyncCircuitBreaker(_One):
    """The `CircuitBreaker` for `httpware.AsyncClient`, with the same arguments.

    Several clients and event loops can share an instance.

    Example:
        >>> AsyncCircuitBreaker(failure_rate_threshold=0.5, minimum_calls=10).state
        <CircuitState.CLOSED: 'closed'>
    """

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request if the circuit admits it.

        Raises:
            CircuitOpenError: If the circuit is open, or its probe is in flight.
            asyncio.CancelledError: If the caller was cancelled; the place of a probe is freed.
            Exception: The exception of the next middleware, unchanged.
        """
        return await send_async(self._circuit, request, next)


class KeyedCircuitBreaker(_Keyed):
    """A circuit for each key, so that one failing host does not stop requests to others.

    A middleware for `httpware.Client`. Circuits are made at the first request and kept, so the key should
    have few values.

    Args:
        key: A function of a request; its origin (scheme, host, port) by default.
        failure_threshold: As for `CircuitBreaker`; the same holds for all further arguments.
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
        """Sends a request if the circuit of its key admits it.

        Raises:
            CircuitOpenError: If that circuit is open, or its probe is in flight.
            Exception: The exception of the next middleware, unchanged.
        """
        return send(self._circuits.of(request), request, next)


class AsyncKeyedCircuitBreaker(_Keyed):
    """The `KeyedCircuitBreaker` for `httpware.AsyncClient`, with the same arguments.

    Example:
        >>> breaker = AsyncKeyedCircuitBreaker(failure_threshold=3)
    """

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request if the circuit of its key admits it.

        Raises:
            CircuitOpenError: If that circuit is open, or its probe is in flight.
            asyncio.CancelledError: If the caller was cancelled; the place of a probe is freed.
            Exception: The exception of the next middleware, unchanged.
        """
        return await send_async(self._circuits.of(request), request, next)
