"""Transports for httpx and httpx2 that run every request of a client under a policy.

    import httpx, tidegate.httpx

    policy = tidegate.Policy("payments", preset="http")
    client = httpx.Client(transport=tidegate.httpx.Transport(policy=policy))

A transport wraps another one and works for the library (httpx or httpx2) of that one. Without an inner
transport it works for `module`, or for the one of the two that has been imported. Each hop of a redirect and
each step of an authentication is a separate call.

A single request can set options in `extensions={"tidegate": {...}}`:

- `policy`: another `Policy` for it, or the name of one of the transport's `policies`
- `route`: the key that state is kept under; the origin (`https://host:port`) if left out
- `deadline`: time for it, in seconds or as `timedelta`; the earlier of this and the policy's wins
- `idempotent`: whether a repeat is harmless; by the method and an `Idempotency-Key` header if left out
- `criticality`: `best_effort`, `degraded`, `normal`, `critical`
- `cost`: rate limit tokens that it takes, 0 to 65,535; 1 if left out
- `body_factory`: makes a new body for a repeat (bytes, text or an iterable), for bodies that can be read
once only
- `weights`: the amounts that it will use of limits that count a weight
- `stream`: whether the answer is a stream, to which `first_byte_timeout` applies; by `Accept`, path and JSON
body if left out
- `retry_header`: whether repeats carry `Retry-Attempt: n`
- `predicate`: takes each response or exception and returns whether to try again; None keeps the default

`with tidegate.httpx.options(route="catalogue"):` sets options for every request made inside.

`response.extensions["tidegate"]` contains `attempts`, `reason` (the verdict), `note` (why there was no
further attempt) and `retry_at` (when another try would make sense).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ._call.policy import Policy
from ._call.threads import drive
from ._http.front import Front
from ._http.httpx_fast import Plans
from ._http.httpx_run import AsyncRun, HttpxRun, SyncRun, family_of, sided
from ._http.options import RequestOptions, gathered, options
from ._http.until import UNTIL, bound_transport
from ._native import Sender

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    import httpx
    import httpx2

    from ._call.usage import Used, Weigh

    # Which of the two a transport is for is known when it is made; either may be missing, and is `Any` then.
    class _SyncBase(httpx.BaseTransport, httpx2.BaseTransport):
        def handle_request(self, request: Any) -> Any: ...

    class _AsyncBase(httpx.AsyncBaseTransport, httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: Any) -> Any: ...

else:
    _SyncBase = _AsyncBase = object

_REPORT: Final[dict[str, object]] = {"attempts": 1, "reason": "ok", "note": None, "retry_at": None}
"""Report of a call that succeeded at its first attempt."""

__all__ = ["AsyncTransport", "RequestOptions", "Transport", "options"]


class _Shared:
    """Common base of the sync and the async transport: settings, and the begin of a call."""

    _base = ""
    _default = ""
    _sends = ""
    _kind: type[HttpxRun]

    def __new__(
        cls, inner: Any = None, policy: Policy | None = None, *, module: ModuleType | None = None, **rest: Any
    ) -> Any:
        del policy, rest
        if isinstance(inner, Policy):
            raise TypeError(
                f"{cls.__name__}({inner!r}): the first argument is the transport that sends; "
                f"write {cls.__name__}(policy=...)"
            )
        return object.__new__(sided(cls, family_of(inner, module), cls._base))

    def __init__(
        self,
        inner: Any = None,
        policy: Policy | None = None,
        *,
        module: ModuleType | None = None,
        policies: Mapping[str, Policy] | None = None,
        retry_header: bool = True,
        weigh: Weigh | None = None,
        usage: Used | None = None,
    ) -> None:
        family = family_of(inner, module)
        self._family = family
        self._inner = getattr(family.module, self._default)() if inner is None else inner
        if not hasattr(self._inner, self._sends):
            name, other = "Transport", "AsyncTransport"
            if self._kind is AsyncRun:
                name, other = other, name
            rule = f"has no {self._sends}; give {name} an {self._default}, or use {other}"
            raise TypeError(f"inner = {self._inner!r}: {rule}")
        if self._kind is SyncRun:
            bound_transport(self._inner)
        self._front = Front(policy, policies, retry_header, weigh, usage)
        self._plans = Plans(self._front, family, self._inner, self._kind)
        self._sender = Sender(self._inner, self._sends, family.bytes, UNTIL, _REPORT)

    def _start(self, kind: type[HttpxRun], request: Any) -> tuple[HttpxRun, int]:
        """Begins the call of a request."""
        given = gathered(request.extensions.get("tidegate"))
        run = kind(self._front, request, given, self._family, self._inner)
        return run, self._front.begin(run, given)


class Transport(_Shared, _SyncBase):
    """A transport for `httpx.Client` and `httpx2.Client`.

    Args:
        inner: The transport that sends; `HTTPTransport()` if left out.
        policy: The policy; the preset `http` if left out (3 attempts, budget, 30 s deadline).
        module: `httpx` or `httpx2`, if neither `inner` nor the imported modules decide which is meant.
        policies: Further policies by name (from `tidegate.load`, or a dict), for requests that name one.
        retry_header: Whether repeats carry `Retry-Attempt: n`.
        weigh: Makes the weights of a request to a language model, such as `{"tokens": 1800}`, from what
            its body tells (`Estimate`). The request's own `weights` go before; see `tidegate.tokens`.
        usage: Makes the totals that an attempt settles from what its answer says (`Usage`), once all of the
            answer has been read; else what the attempt had reserved counts.

    Raises:
        TypeError: If it is ambiguous whether httpx or httpx2 is meant.
    """

    _base = "BaseTransport"
    _default = "HTTPTransport"
    _sends = "handle_request"
    _kind = SyncRun

    def handle_request(self, request: Any) -> Any:
        """Sends a request under the policy.

        Raises:
            Rejected: If the policy refused it before any attempt.
            DeadlineExceeded: If the deadline passed.
            Exception: The transport's own exception, the same object, with a note that says why there was
                no further attempt.
        """
        quick = self._plans.of(request)
        if quick is not None:
            if quick.span is None:
                return quick.call(self._sender, request, request, 0, None)
            first = quick.outgoing(request, self._sender.whole)
            if first is not None:
                sent, began, until = first
                return quick.call(self._sender, request, sent, began, until)
        return drive(*self._start(SyncRun, request))

    def close(self) -> None:
        """Closes the inner transport."""
        self._inner.close()

    def __enter__(self) -> Any:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)


class AsyncTransport(_Shared, _AsyncBase):
    """A transport for `httpx.AsyncClient` and `httpx2.AsyncClient`, on asyncio and trio.

    Args:
        inner: The transport that sends; `AsyncHTTPTransport()` if left out.
        policy: The policy; the preset `http` if left out (3 attempts, budget, 30 s deadline).
        module: `httpx` or `httpx2`, if neither `inner` nor the imported modules decide which is meant.
        policies: Further policies by name (from `tidegate.load`, or a dict), for requests that name one.
        retry_header: Whether repeats carry `Retry-Attempt: n`.
        weigh: Makes the weights of a request, such as `{"tokens": 1800}`, from its `Estimate`, for limits
            that count weights. A request's own `weights` win.
        usage: Makes the totals that an attempt settles from the `Usage` of its answer, once it has been read.

    Raises:
        TypeError: If it is ambiguous whether httpx or httpx2 is meant.
    """

    _base = "AsyncBaseTransport"
    _default = "AsyncHTTPTransport"
    _sends = "handle_async_request"
    _kind = AsyncRun

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request under the policy.

        Raises:
            Rejected: If the policy refused it before any attempt.
            AttemptTimeout: If the last attempt ran out of `attempt_timeout`.
            DeadlineExceeded: If the deadline passed.
            Exception: The transport's own exception, the same object, with a note that says why there was
                no further attempt.
        """
        quick = self._plans.of(request)
        if quick is not None:
            if quick.span is None:
                return await quick.acall(self._sender, request, request, 0, None)
            first = quick.outgoing(request, self._sender.whole)
            if first is not None:
                sent, began, until = first
                return await quick.acall(self._sender, request, sent, began, until)
        from ._call.tasks import drive as drive_async

        return await drive_async(*self._start(AsyncRun, request))

    async def aclose(self) -> None:
        """Closes the inner transport."""
        await self._inner.aclose()

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)
