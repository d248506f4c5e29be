"""An adapter for requests that runs every request of a session under a policy.

    import requests, tidegate.requests

    session = requests.Session()
    adapter = tidegate.requests.Adapter(tidegate.Policy("orders", preset="http"))
    session.mount("https://", adapter)
    session.mount("http://", adapter)

Each hop of a redirect and each step of an authentication is a separate call. Options for all requests of a
block:

    with tidegate.requests.options(route="catalogue", deadline=2.0, idempotent=True):
        session.post(url, json=order)

`response.tidegate` contains `attempts`, `reason` (the verdict), `note` (why there was no further attempt) and
`retry_at` (when another try would make sense). Refusals, attempt timeouts and passed deadlines are also
exceptions of requests: `except requests.Timeout` catches `DeadlineExceeded`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import DEFAULT_POOLBLOCK, DEFAULT_POOLSIZE, HTTPAdapter
from urllib3.exceptions import EmptyPoolError

from ._call.threads import drive
from ._http.front import Front
from ._http.options import RequestOptions, gathered, options
from ._http.until import bound_pool
from ._http.urllib3_run import Urllib3Run, is_slow_send, replay_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ._call.policy import Policy
    from ._call.usage import Used, Weigh
    from ._http.front import Origin

__all__ = ["Adapter", "RequestOptions", "options"]


class Adapter(HTTPAdapter):
    """A transport adapter for `requests.Session.mount`.

    A session with it can be pickled. The pickle contains the settings of the policy, not its state.

    Args:
        policy: The policy; the preset `http` if left out (3 attempts, budget, 30 s deadline).
        policies: Further policies by name (from `tidegate.load`, or a dict), for requests that name one.
        retry_header: Whether repeats carry `Retry-Attempt: n`.
        weigh: Makes the weights of a request to a language model, such as `{"tokens": 1800}`, from what
            its body tells (`Estimate`). The request's own `weights` go before; see `tidegate.tokens`.
        usage: Makes the totals that an attempt settles from what its answer says (`Usage`), once all of the
            answer has been read; else what the attempt had reserved counts.
        pool_connections: How many connection pools urllib3 keeps.
        pool_maxsize: How many connections each of them keeps.
        pool_block: Whether a request waits for a connection of a full pool, at most its connect timeout. A
            bulkhead with a limit of `pool_maxsize` has a fair queue, which snapshots and metrics show.

    Raises:
        TypeError: If `policy` is not a Policy.

    Example:
        ```python
        session.mount("https://", tidegate.requests.Adapter(tidegate.Policy("orders", preset="http")))
        ```
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_policy", "_policies", "_retry_header", "_weigh", "_usage"]  # noqa: RUF012 - as requests

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        policies: Mapping[str, Policy] | None = None,
        retry_header: bool = True,
        weigh: Weigh | None = None,
        usage: Used | None = None,
        pool_connections: int = DEFAULT_POOLSIZE,
        pool_maxsize: int = DEFAULT_POOLSIZE,
        pool_block: bool = DEFAULT_POOLBLOCK,
    ) -> None:
        self._weigh, self._usage = weigh, usage
        self._made = Front(policy, policies, retry_header, weigh, usage)
        self._policy, self._policies = self._made.policy, policies
        self._retry_header = retry_header
        super().__init__(pool_connections, pool_maxsize, 0, pool_block)

    @property
    def _front(self) -> Front:
        """The state of the adapter; made again after unpickling, since pickles do not contain it."""
        made: Front | None = self.__dict__.get("_made")
        if made is None:
            made = self._made = self._fresh()
        return made

    def _fresh(self) -> Front:
        return Front(self._policy, self._policies, self._retry_header, self._weigh, self._usage)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **more: Any) -> None:
        """Makes the pools for requests; waits for a full pool are limited."""
        super().init_poolmanager(connections, maxsize, block, **more)  # type: ignore[no-untyped-call,unused-ignore]
        _bound(self.poolmanager, block)

    def proxy_manager_for(self, proxy: str, **more: Any) -> Any:
        """Returns the pools of a proxy for requests; waits for a full pool are limited too."""
        known = proxy in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **more)  # type: ignore[no-untyped-call,unused-ignore]
        if not known:
            _bound(manager, self._pool_block)
        return manager

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Sends a request under the policy.

        Raises:
            Rejected: If the policy refused it before any attempt.
            DeadlineExceeded: If the deadline passed.
            requests.RequestException: The exception of the last attempt, the same object, with a note that
                says why there was no further attempt.
        """
        given = gathered(None)
        front = self._front
        how = {"stream": stream, "verify": verify, "cert": cert, "proxies": proxies}
        run = _Run(front, request, given, super().send, timeout, how)
        response: requests.Response = drive(run, front.begin(run, given))
        return response


def _bound(manager: Any, block: bool) -> None:
    """Makes future pools of a manager observe the time limit."""
    manager.pool_classes_by_scheme = {
        scheme: type(
            kind.__name__,
            (_Patient, kind) if block else (kind,),
            {"__module__": kind.__module__, **bound_pool(kind)},
        )
        for scheme, kind in manager.pool_classes_by_scheme.items()
    }


class _Patient:
    """A pool that limits waits to the connect timeout, where requests would wait without a limit."""

    def urlopen(self, *args: Any, timeout: Any = None, **more: Any) -> Any:
        patience = getattr(timeout, "connect_timeout", None)
        if isinstance(patience, (int, float)):
            more.setdefault("pool_timeout", patience)
        return super().urlopen(*args, timeout=timeout, **more)  # type: ignore[misc]


class _Run(Urllib3Run):
    __slots__ = ("how", "own", "sends")

    library = "requests"

    def __init__(
        self,
        front: Front,
        request: requests.PreparedRequest,
        given: Mapping[str, Any],
        sends: Callable[..., requests.Response],
        own: Any,
        how: dict[str, Any],
    ) -> None:
        super().__init__(front, request, given)
        self.sends = sends
        self.own = own
        self.how = how

    def raw(self, value: requests.Response) -> Any:
        return value.raw

    def method(self) -> str:
        return str(self.request.method)

    def origin(self) -> Origin:
        url = urlsplit(self.request.url)
        return url.scheme, url.hostname or "", url.port

    def path(self) -> str:
        return str(self.request.path_url)

    def keyed(self) -> bool:
        return "idempotency-key" in self.request.headers

    def replay(self) -> tuple[bool, Any, Any]:
        replayable, file = replay_of(self.request.body)
        offset = getattr(self.request, "_body_position", None)
        if file is not None and not isinstance(offset, int):
            return offset is None, file, None  # requests could not determine the file's position
        return replayable, file, offset

    def start(self, attempt: int, us: int) -> requests.Response:
        us = self.time_of(us)
        timeout = self.own
        if isinstance(timeout, tuple):
            if len(timeout) != 2:
                raise ValueError(f"timeout = {timeout!r}: must be a number, or a pair (connect, read)")
            timeout = urllib3.Timeout(connect=timeout[0], read=timeout[1])
        timeout = self.timeout(timeout, us)
        request = self.request
        if self.renew(attempt):
            request = request.copy()
            if self.header:
                request.headers["Retry-Attempt"] = str(attempt - 1)
            if self.factory is not None:
                body = self.factory()
                request.headers.pop("Content-Length", None)
                request.headers.pop("Transfer-Encoding", None)
                request.prepare_body(body, None)
        try:
            with self.within(us):
                response = self.sends(request, timeout=timeout, **self.how)
                self.begun(response)
        except EmptyPoolError as error:
            raise requests.exceptions.ConnectTimeout(error, request=self.request) from error
        response.request = self.request  # without the header of repeats, in case the caller sends it again
        return response

    def broken(self, raw: Any, error: OSError) -> Exception:
        why = super().broken(raw, error)
        kind = (
            requests.exceptions.ReadTimeout
            if isinstance(error, TimeoutError)
            else requests.exceptions.ConnectionError
        )
        return kind(why, request=self.request)

    def own_errors(self) -> type[BaseException]:
        return requests.RequestException

    def is_timeout(self, error: BaseException) -> bool:
        never = isinstance(error, requests.exceptions.ConnectTimeout)
        if isinstance(error, requests.Timeout):
            return not never
        return isinstance(error, requests.ConnectionError) and any(map(is_slow_send, error.args))
