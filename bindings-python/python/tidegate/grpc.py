"""Interceptors that run every call of a gRPC channel under a policy.

    import grpc, tidegate.grpc

    policy = tidegate.Policy("orders", preset="grpc", deadline=2.0, retry={"max_attempts": 4})
    channel = grpc.intercept_channel(grpc.insecure_channel("orders:50051"), tidegate.grpc.Interceptor(policy))

    channel = grpc.aio.insecure_channel("orders:50051", interceptors=tidegate.grpc.aio_interceptors(policy))

Unary calls are repeated where the status says that another try may succeed (`docs/errors.md`). A call with a
stream of requests or answers is made once, and holds its permit until the stream has ended. The time that is
left goes to the server with each attempt, and a `timeout=` of the call is its deadline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped,unused-ignore]

from ._call.tasks import drive as drive_async
from ._call.threads import drive
from ._grpc.run import AsyncRun, AsyncStreaming, GrpcRun, Guard, Streaming

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._call.policy import Policy

__all__ = ["Interceptor", "aio_interceptors"]


class Interceptor(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc,unused-ignore]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[misc,unused-ignore]
    grpc.StreamUnaryClientInterceptor,  # type: ignore[misc,unused-ignore]
    grpc.StreamStreamClientInterceptor,  # type: ignore[misc,unused-ignore]
):
    """An interceptor for `grpc.intercept_channel`.

    Args:
        policy: The policy; the preset `grpc` with 4 attempts if left out.
        route: The key that state is kept under. gRPC does not tell an interceptor its channel's target, so
            give each channel a route or a policy.
        idempotent: Whether calls may be repeated: a bool, or a function of the method
            (`"/orders.Orders/Get"`). A method that may not is repeated only where it was never sent.

    Raises:
        TypeError: If `policy` is not a Policy.

    A `future()` of a stub waits in the calling thread until the call has ended: use `grpc.aio`, or a thread.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        route: str = "default",
        idempotent: bool | Callable[[str], bool] = True,
    ) -> None:
        self._guard = Guard(policy, route, idempotent, False)

    def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Makes a unary call, with repeats."""
        return drive(*self._guard.begin(continuation, client_call_details, request, GrpcRun))

    def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Starts a call whose answers stream."""
        return drive(*self._guard.begin(continuation, client_call_details, request, Streaming))

    def intercept_stream_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        """Makes a call whose requests stream, once."""
        return drive(*self._guard.begin(continuation, client_call_details, request_iterator, _Once))

    def intercept_stream_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        """Starts a call with streams in both directions."""
        return drive(*self._guard.begin(continuation, client_call_details, request_iterator, Streaming))


class _Once(GrpcRun):
    """A call whose requests can be sent only once."""

    __slots__ = ()

    flags = 0


def aio_interceptors(
    policy: Policy | None = None,
    *,
    route: str = "default",
    idempotent: bool | Callable[[str], bool] = True,
) -> list[Any]:
    """Makes the interceptors for a channel of `grpc.aio`, one for each kind of call.

    Args:
        policy: The policy; the preset `grpc` with 4 attempts if left out.
        route: The key that state is kept under.
        idempotent: Whether calls may be repeated: a bool, or a function of the method.

    Raises:
        TypeError: If `policy` is not a Policy.

    Example:
        ```python
        guarded = tidegate.grpc.aio_interceptors(policy)
        channel = grpc.aio.insecure_channel("orders:50051", interceptors=guarded)
        ```
    """
    guard = Guard(policy, route, idempotent, True)
    return [kind(guard) for kind in (_AsyncUnaryUnary, _AsyncUnaryStream, _AsyncStreamUnary, _AsyncStreams)]


class _Async:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard


class _AsyncUnaryUnary(_Async, grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc,unused-ignore]
    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Makes a unary call, with repeats."""
        return await drive_async(*self._guard.begin(continuation, client_call_details, request, AsyncRun))


class _AsyncUnaryStream(_Async, grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc,unused-ignore]
    async def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Starts a call whose answers stream."""
        begun = self._guard.begin(continuation, client_call_details, request, AsyncStreaming)
        return await drive_async(*begun)


class _AsyncStreamUnary(_Async, grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[misc,unused-ignore]
    async def intercept_stream_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        """Starts a call whose requests stream."""
        begun = self._guard.begin(continuation, client_call_details, request_iterator, AsyncStreaming)
        return await drive_async(*begun)


class _AsyncStreams(_Async, grpc.aio.StreamStreamClientInterceptor):  # type: ignore[misc,unused-ignore]
    async def intercept_stream_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request_iterator: Any
    ) -> Any:
        """Starts a call with streams in both directions."""
        begun = self._guard.begin(continuation, client_call_details, request_iterator, AsyncStreaming)
        return await drive_async(*begun)
