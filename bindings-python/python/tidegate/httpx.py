"""Transports for httpx and httpx2: every request of a client under a policy.

    import httpx, tidegate.httpx

    policy = tidegate.Policy("payments", preset="http")
    client = httpx.Client(transport=tidegate.httpx.Transport(policy=policy))

A transport wraps another one and takes the side (httpx or httpx2) of that one; without one it takes the side
of `module`, or of whichever has been imported. Each hop of a redirect and each step of an authentication is
one call.

One request can say more about itself in `extensions={"tidegate": {...}}`:

- `policy`: another `Policy` for it
- `route`: the key that state is kept under; the origin (`https://host:port`) if left out
- `deadline`: time for it, in seconds or as `timedelta`; the earlier of this and the policy's wins
- `idempotent`: whether a repeat is harmless; told by the method and an `Idempotency-Key` header if left out
- `criticality`: `best_effort`, `degraded`, `normal`, `critical`
- `cost`: tokens of a rate limit that it takes, 0 to 65,535; 1 if left out
- `body_factory`: makes the body anew for a repeat (bytes, text or an iterable), for bodies that can be read
once only
- `retry_header`: whether repeats carry `Retry-Attempt: n`

`response.extensions["tidegate"]` tells `attempts`, `reason` (the verdict), `note` (why there was no further
attempt) and `retry_at` (when another try would make sense).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ._caller import limit_of
from ._deadline import current, inherited
from ._http import Family, HttpRun, family_of, replay_of
from ._http_body import AsyncBody, SyncBody
from ._http_drain import drain, drain_async
from ._policy import Policy
from ._sync import drive
from ._wire import (
    ABORTABLE,
    COST_SHIFT,
    CRITICALITIES,
    DONE,
    IDEMPOTENT,
    MAY_PARK,
    REPLAYABLE,
    SLOT_UNTIL_BODY,
    SOLO,
    STALE_ROUTE,
)

if TYPE_CHECKING:
    from types import ModuleType

    from httpx import AsyncBaseTransport as _AsyncBase
    from httpx import BaseTransport as _SyncBase
else:
    _SyncBase = _AsyncBase = object

__all__ = ["AsyncTransport", "Transport"]

_OPTIONS: Final = (
    "policy",
    "route",
    "deadline",
    "idempotent",
    "criticality",
    "cost",
    "body_factory",
    "retry_header",
)
_MOST_ROUTES: Final = 10_000

_classes: Final[dict[tuple[type, str], type]] = {}


def _sided(cls: type, family: Family, base: str) -> type:
    """The class of a transport on one side: it is a transport of that module too."""
    key = (cls, family.module.__name__)
    if key not in _classes:
        bases = (cls, getattr(family.module, base))
        _classes[key] = type(cls.__name__, bases, {"__module__": cls.__module__, "__doc__": cls.__doc__})
    return _classes[key]


class _Shared:
    """What both colours share: settings, routes, and how a call begins."""

    _base = ""
    _default = ""
    _flags = 0

    def __new__(
        cls, inner: Any = None, policy: Policy | None = None, *, module: ModuleType | None = None, **rest: Any
    ) -> Any:
        del policy, rest
        return object.__new__(_sided(cls, family_of(inner, module), cls._base))

    def __init__(
        self,
        inner: Any = None,
        policy: Policy | None = None,
        *,
        module: ModuleType | None = None,
        retry_header: bool = True,
    ) -> None:
        family = family_of(inner, module)
        self._family = family
        self._inner = getattr(family.module, self._default)() if inner is None else inner
        self._policy = Policy(preset="http") if policy is None else policy
        self._retry_header = retry_header
        self._routes: dict[tuple[Policy, Any], tuple[int, str]] = {}
        self._methods: dict[tuple[Policy, str, int], bool] = {}

    def _start(self, run: type[HttpRun], request: Any) -> tuple[HttpRun, int]:
        """Begins the call of a request."""
        options = request.extensions.get("tidegate") or {}
        policy = self._policy
        flags = self._flags | MAY_PARK
        limit = 0
        if options:
            unknown = [key for key in options if key not in _OPTIONS]
            if unknown:
                raise ValueError(
                    f"tidegate: {unknown[0]!r} is no option of a request; they are {', '.join(_OPTIONS)}"
                )
            policy = options.get("policy") or policy
            if not isinstance(policy, Policy):
                raise ValueError(f"tidegate: policy = {policy!r}: must be a Policy")
            limit = limit_of(options.get("deadline"))
        criticality = options.get("criticality", "normal")
        if criticality not in CRITICALITIES:
            raise ValueError(
                f"tidegate: criticality = {criticality!r}: must be one of {', '.join(CRITICALITIES)}"
            )
        cost = options.get("cost", 1)
        if not isinstance(cost, int) or not 0 <= cost <= 0xFFFF:
            raise ValueError(f"tidegate: cost = {cost!r}: must be a whole number from 0 to 65535")
        flags |= CRITICALITIES[criticality] | cost << COST_SHIFT
        replayable, file = replay_of(request.stream, self._family)
        factory = options.get("body_factory")
        if factory is not None:
            replayable, file = True, None
        if replayable:
            flags |= REPLAYABLE
        if file is not None:
            flags |= SOLO  # one file has one position
        if self._is_idempotent(policy, request, options.get("idempotent")):
            flags |= IDEMPOTENT
        until_body = policy._config.get("slot_until") == "body"
        if until_body:
            flags |= SLOT_UNTIL_BODY
        engine = policy.engine
        scope = current()
        parent = 0
        if scope is not None:
            around, parent = inherited(scope, engine)
            limit = min(limit, around) if limit and around else limit or around
        route, key = self._route_of(policy, request, options.get("route"))
        target = self._target_of(policy, route, request)
        call, step = engine.begun(engine.native.begin(route, flags, limit, parent, target))
        while step & 3 == DONE and step >> 12 & 63 == STALE_ROUTE:
            self._routes.clear()
            route, key = self._route_of(policy, request, options.get("route"))
            target = self._target_of(policy, route, request)
            call, step = engine.begun(engine.native.begin(route, flags, limit, parent, target))
        made = run(engine, policy, key, scope, self._family, self._inner, request, until_body)
        made.call = call
        made.races = policy._races(flags)
        own = policy._setting("deadline")
        if limit or own is not None:
            ends = [us for us in (limit - 1 if limit else None, own) if isinstance(us, (int, float))]
            made.until = engine.native.now() + int(min(ends))
        made.factory = factory
        made.file = file
        made.header = options.get("retry_header", self._retry_header)
        return made, step

    def _target_of(self, policy: Policy, route: int, request: Any) -> int:
        """The path that a hold goes by; 0 where the policy holds nothing."""
        if not policy._holds:
            return 0
        return policy.engine.native.target(route, request.url.raw_path.decode("ascii", "replace"))

    def _is_idempotent(self, policy: Policy, request: Any, told: bool | None) -> bool:
        if told is not None:
            return told
        key = (policy, request.method, policy.engine.tunings)
        known = self._methods.get(key)
        if known is None:
            known = self._methods[key] = policy.engine.native.retries_method(policy._number, request.method)
        return known or "idempotency-key" in request.headers

    def _route_of(self, policy: Policy, request: Any, told: str | None) -> tuple[int, str]:
        url = request.url
        name = (url.raw_scheme, url.raw_host, url.port) if told is None else told
        route = self._routes.get((policy, name))
        if route is None:
            if told is None:
                port = url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
                host = f"[{url.host}]" if ":" in url.host else url.host
                told = f"{url.scheme}://{host}:{port}"
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            route = self._routes[policy, name] = policy.engine.native.route(policy._number, told), told
        return route


class _SyncRun(HttpRun):
    __slots__ = ()

    def start(self, attempt: int, us: int) -> Any:
        return self.inner.handle_request(self.outgoing(attempt, us))

    def release(self, value: Any) -> None:
        """Reads a small failed answer to its end, which keeps its connection; closes a large one."""
        drain(value, self.family, self.timeouts, self.left())

    def discard(self, value: Any) -> None:
        """Closes the answer of a loser."""
        value.close()

    def stream(self, step: int) -> Any:
        response = self.opened(step)
        response.stream = _body(self.family, SyncBody)(self, response.stream, step)
        return self.deliver(response, "ok", None, None)

    def late(self, stream: Any, step: int) -> Any:
        return _body(self.family, SyncBody)(self, stream, step)


class _AsyncRun(HttpRun):
    __slots__ = ()

    async def start(self, attempt: int, us: int) -> Any:
        return await self.inner.handle_async_request(self.outgoing(attempt, us))

    async def release(self, value: Any) -> None:
        """Reads a small failed answer to its end, which keeps its connection; closes a large one."""
        await drain_async(value, self.family, self.timeouts, self.left())

    async def discard(self, value: Any) -> None:
        """Closes the answer of a loser."""
        await value.aclose()

    def stream(self, step: int) -> Any:
        response = self.opened(step)
        response.stream = _body(self.family, AsyncBody)(self, response.stream, step)
        return self.deliver(response, "ok", None, None)

    def late(self, stream: Any, step: int) -> Any:
        return _body(self.family, AsyncBody)(self, stream, step)


def _body(family: Family, kind: type) -> Any:
    """The class of a body on one side."""
    return _sided(kind, family, "SyncByteStream" if kind is SyncBody else "AsyncByteStream")


class Transport(_Shared, _SyncBase):
    """A transport for `httpx.Client` and `httpx2.Client`.

    Args:
        inner: The transport that sends; `HTTPTransport()` if left out.
        policy: The policy; the preset `http` if left out (3 attempts, budget, 30 s deadline).
        module: `httpx` or `httpx2`, where it is not told by `inner` or by what has been imported.
        retry_header: Whether repeats carry `Retry-Attempt: n`.

    Raises:
        TypeError: If it cannot be told which of httpx and httpx2 is meant.
    """

    _base = "BaseTransport"
    _default = "HTTPTransport"

    def handle_request(self, request: Any) -> Any:
        """Sends a request under the policy.

        Raises:
            Rejected: If the policy refused it before any attempt.
            DeadlineExceeded: If the deadline passed.
            Exception: The transport's own exception, the same object, with a note that says why we stopped.
        """
        return drive(*self._start(_SyncRun, request))

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
        module: `httpx` or `httpx2`, where it is not told by `inner` or by what has been imported.
        retry_header: Whether repeats carry `Retry-Attempt: n`.

    Raises:
        TypeError: If it cannot be told which of httpx and httpx2 is meant.
    """

    _base = "AsyncBaseTransport"
    _default = "AsyncHTTPTransport"
    _flags = ABORTABLE

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request under the policy.

        Raises:
            Rejected: If the policy refused it before any attempt.
            AttemptTimeout: If the last attempt ran out of `attempt_timeout`.
            DeadlineExceeded: If the deadline passed.
            Exception: The transport's own exception, the same object, with a note that says why we stopped.
        """
        from ._async import drive as drive_async

        return await drive_async(*self._start(_AsyncRun, request))

    async def aclose(self) -> None:
        """Closes the inner transport."""
        await self._inner.aclose()

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)
