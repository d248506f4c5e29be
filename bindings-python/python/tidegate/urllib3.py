"""urllib3 under a policy: guards every request that a manager of connection pools sends.

    import urllib3, tidegate.urllib3

    http = tidegate.urllib3.guard(urllib3.PoolManager(), tidegate.Policy("orders", preset="http"))
    http.request("GET", url, tidegate={"route": "catalogue", "deadline": 2.0})

urllib3's own retries are switched off: only the redirect settings of a `retries=` argument apply. Each hop of
a redirect is a separate call. `RequestOptions` lists the keys of `tidegate={...}`;
`with tidegate.urllib3.options(...)` sets them for all requests of a block.

`response.tidegate` contains `attempts`, `reason` (the verdict), `note` (why there was no further attempt) and
`retry_at` (when another try would make sense). Our errors are also `urllib3.exceptions.HTTPError`s; timeouts
and passed deadlines are also `urllib3.exceptions.TimeoutError`s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import urllib3
from urllib3.exceptions import HostChangedError, MaxRetryError
from urllib3.util import parse_url

from ._call.threads import drive
from ._http.front import Front
from ._http.options import RequestOptions, gathered, options
from ._http.until import bound_pool
from ._http.urllib3_run import Urllib3Run, replay_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ._call.policy import Policy
    from ._call.usage import Used, Weigh
    from ._http.front import Origin

__all__ = ["RequestOptions", "guard", "options"]

_OF_BODIES: Final = (
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
    "content-length",
    "digest",
    "last-modified",
    "transfer-encoding",
)
"""Headers of a request's body, which a redirect that makes it a GET removes (RFC 9110, 15.4).

Only newer releases of urllib3 have a method for that, and it is private.
"""

_Manager = TypeVar("_Manager", bound=urllib3.PoolManager)


def guard(
    manager: _Manager,
    policy: Policy | None = None,
    *,
    policies: Mapping[str, Policy] | None = None,
    retry_header: bool = True,
    weigh: Weigh | None = None,
    usage: Used | None = None,
) -> _Manager:
    """Puts every request of a manager under a policy.

    Args:
        manager: A `urllib3.PoolManager`, or a `ProxyManager`. Its existing pools are dropped.
        policy: The policy; the preset `http` if left out (3 attempts, budget, 30 s deadline).
        policies: Further policies by name (from `tidegate.load`, or a dict), for requests that name one.
        retry_header: Whether repeats carry `Retry-Attempt: n`.
        weigh: Makes the weights of a request to a language model, such as `{"tokens": 1800}`, from what
            its body tells (`Estimate`). The request's own `weights` go before; see `tidegate.tokens`.
        usage: Makes the totals that an attempt settles from what its answer says (`Usage`), once all of the
            answer has been read; else what the attempt had reserved counts.

    Returns:
        The same manager.

    Raises:
        TypeError: If `manager` is not a manager or is already guarded, or `policy` is not a Policy.

    Example:
        ```python
        http = tidegate.urllib3.guard(urllib3.PoolManager(), tidegate.Policy("orders", preset="http"))
        ```
    """
    if not isinstance(manager, urllib3.PoolManager):
        raise TypeError(f"tidegate: manager = {manager!r}: must be a urllib3.PoolManager")
    classes = manager.pool_classes_by_scheme
    if any(issubclass(kind, _Guarded) for kind in classes.values()):
        raise TypeError("tidegate: the manager is guarded already")
    front = Front(policy, policies, retry_header, weigh, usage)
    manager.clear()
    manager.pool_classes_by_scheme = {
        scheme: type(
            kind.__name__,
            (_Guarded, kind),
            {"__module__": kind.__module__, "_front": front, **bound_pool(kind)},
        )
        for scheme, kind in classes.items()
    }
    return manager


class _Guarded:
    """A connection pool whose requests run under a policy."""

    _front: Front

    def urlopen(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        retries: Any = None,
        redirect: bool = True,
        assert_same_host: bool = True,
        timeout: Any = urllib3.Timeout.DEFAULT_TIMEOUT,
        pool_timeout: Any = None,
        release_conn: bool | None = None,
        chunked: bool = False,
        body_pos: Any = None,
        preload_content: bool = True,
        decode_content: bool = True,
        tidegate: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        del release_conn  # a connection is released when its response has been read
        given = gathered(tidegate)
        request = _Request(method.upper(), url, body, self.headers if headers is None else headers, self)  # type: ignore[attr-defined]
        how = {
            "assert_same_host": assert_same_host,
            "chunked": chunked,
            "decode_content": decode_content,
            "redirect": False,
            "retries": False,
            "preload_content": False,
            **more,
        }
        run = _Run(self._front, request, given, super().urlopen, how)  # type: ignore[misc]
        run.own, run.own_pool, run.position = timeout, pool_timeout, body_pos
        response = drive(run, self._front.begin(run, given))
        pools: Any = self
        retries = urllib3.Retry.from_int(retries, redirect, default=pools.retries)
        response.retries = retries
        if run.file is not None and run.offset is not None and response.get_redirect_location():
            run.rewind()  # the redirected request is sent with the file at its current position
        location = redirect and response.get_redirect_location()
        if location:  # managers follow redirects themselves: this is a pool that its user has taken from one
            if not pools.is_same_host(location):
                if assert_same_host:
                    response.drain_conn()
                    raise HostChangedError(pools, location, retries)
                unsafe = retries.remove_headers_on_redirect  # credentials
                kept = urllib3.HTTPHeaderDict(request.headers)
                for name in [name for name in kept if name.lower() in unsafe]:
                    kept.discard(name)
                request.headers = kept
            options = {"assert_same_host": assert_same_host, "timeout": timeout, "pool_timeout": pool_timeout,
                       "preload_content": preload_content, "decode_content": decode_content}  # fmt: skip
            if response.status == 303:
                method, body, chunked = "GET", None, False
                kept = urllib3.HTTPHeaderDict(request.headers)
                for name in _OF_BODIES:
                    kept.discard(name)
                request.headers = kept
            try:
                retries = retries.increment(method, url, response=response, _pool=pools)
            except MaxRetryError:
                if retries.raise_on_redirect:
                    response.drain_conn()
                    raise
            else:
                response.drain_conn()
                retries.sleep_for_retry(response)
                return self.urlopen(
                    method, location, body, request.headers, retries,
                    chunked=chunked, tidegate=tidegate, **options, **more,
                )  # fmt: skip
        if preload_content:
            response.data  # noqa: B018 - reads the body and caches it
            response.release_conn()
        return response


class _Request:
    __slots__ = ("body", "headers", "method", "pool", "url")

    def __init__(self, method: str, url: str, body: Any, headers: Any, pool: Any) -> None:
        self.method, self.url, self.body, self.headers, self.pool = method, url, body, headers, pool


_NUMBERS: Final = (int, float)


class _Run(Urllib3Run):
    __slots__ = ("how", "own", "own_pool", "position", "sends")

    library = "urllib3.exceptions"

    def __init__(
        self,
        front: Front,
        request: _Request,
        given: Mapping[str, Any],
        sends: Callable[..., Any],
        how: dict[str, Any],
    ) -> None:
        super().__init__(front, request, given)
        self.sends = sends
        self.how = how
        self.own: Any = None
        self.own_pool: Any = None
        self.position: Any = None

    def method(self) -> str:
        return str(self.request.method)

    def origin(self) -> Origin:
        url = self.request.url
        if url[:1] != "/":  # an absolute URL, for a forwarding proxy
            parsed = parse_url(url)
            return parsed.scheme or "http", parsed.host or "", parsed.port
        pool = self.request.pool
        return pool.scheme, pool.host, pool.port

    def path(self) -> str:
        url: str = self.request.url
        return url if url[:1] == "/" else parse_url(url).request_uri

    def keyed(self) -> bool:
        return any(name.lower() == "idempotency-key" for name in self.request.headers)

    def replay(self) -> tuple[bool, Any, Any]:
        replayable, file = replay_of(self.request.body)
        position = self.position
        if file is not None and position is not None and not isinstance(position, int):
            return False, None, None  # urllib3 could not tell where the file stood, before a redirect
        return replayable, file, position if file is not None else None

    def start(self, attempt: int, us: int) -> Any:
        us = self.time_of(us)
        request, how = self.request, self.how
        default = self.own is urllib3.Timeout.DEFAULT_TIMEOUT
        timeout = self.timeout(request.pool.timeout if default else self.own, us)
        if request.pool.block:
            left = self.left()
            own = self.own_pool if isinstance(self.own_pool, _NUMBERS) else None
            how["pool_timeout"] = (
                own if left == float("inf") else max(left if own is None else min(own, left), 0.0)
            )
        headers, body = request.headers, request.body
        if self.renew(attempt):
            if self.header:
                # Of their own kind: botocore's have values in bytes, which HTTPHeaderDict cannot hold.
                copies = getattr(headers, "copy", None)
                headers = urllib3.HTTPHeaderDict(headers) if copies is None else copies()
                headers["Retry-Attempt"] = str(attempt - 1)
            if self.factory is not None:
                body = self.factory()
        with self.within(us):
            response = self.sends(request.method, request.url, body, headers, timeout=timeout, **how)
            return self.begun(response)
