"""A middleware for aiohttp that runs every request of a session under a policy.

    import aiohttp, tidegate.aiohttp

    guarded = tidegate.aiohttp.middleware(tidegate.Policy("orders", preset="http"))
    async with aiohttp.ClientSession(middlewares=[guarded]) as session:
        async with session.get(url) as response:
            ...

Each hop of a redirect is a separate call. Options for all requests of a block:

    with tidegate.aiohttp.options(route="catalogue", deadline=2.0):
        await session.get(url)

`response.tidegate` contains `attempts`, `reason` (the verdict), `note` (why there was no further attempt) and
`retry_at` (when another try would make sense). Our errors are also errors of aiohttp: refusals are
`aiohttp.ClientConnectionError`s, attempt timeouts and passed deadlines `aiohttp.ServerTimeoutError`s.

aiohttp's `ClientTimeout(total=...)` covers all attempts and the waits between them, and ends them like a
cancellation by the caller. Give the policy a shorter deadline. aiohttp's own retry on a kept connection that
turns out to be dead is switched off, since the policy retries.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import payload
from aiohttp.http_exceptions import HttpProcessingError

from ._call import outcomes
from ._http.aiohttp_body import Body, StreamBody, begin, drain, hold, is_open
from ._http.front import Front
from ._http.options import RequestOptions, gathered, options
from ._http.run import HttpRun, is_seekable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ._call.policy import Policy
    from ._call.usage import Used, Weigh
    from ._http.front import Origin
    from ._http.silence import Pieces

    Handler = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
    Middleware = Callable[[aiohttp.ClientRequest, Handler], Awaitable[aiohttp.ClientResponse]]

__all__ = ["RequestOptions", "middleware", "options"]

_RESENT: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
_CONNECTING: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


def middleware(
    policy: Policy | None = None,
    *,
    policies: Mapping[str, Policy] | None = None,
    retry_header: bool = True,
    weigh: Weigh | None = None,
    usage: Used | None = None,
) -> Middleware:
    """Makes a middleware for `aiohttp.ClientSession(middlewares=[...])`, which several sessions can share.

    Put it last if other middlewares (authentication, logging) should see a call as a whole, first if they
    should see each attempt. The `middlewares=` of a single request *replaces* that of the session.

    Args:
        policy: The policy; the preset `http` if left out (3 attempts, budget, 30 s deadline).
        policies: Further policies by name (from `tidegate.load`, or a dict), for requests that name one.
        retry_header: Whether repeats carry `Retry-Attempt: n`.
        weigh: Makes the weights of a request to a language model, such as `{"tokens": 1800}`, from what
            its body tells (`Estimate`). The request's own `weights` go before; see `tidegate.tokens`.
        usage: Makes the totals that an attempt settles from what its answer says (`Usage`), once all of the
            answer has been read; else what the attempt had reserved counts.

    Raises:
        TypeError: If `policy` is not a Policy.

    Example:
        ```python
        session = aiohttp.ClientSession(middlewares=[tidegate.aiohttp.middleware(policy)])
        ```
    """
    front = Front(policy, policies, retry_header, weigh, usage)
    resent: list[tuple[Any, BaseException]] = []

    async def guarded(request: aiohttp.ClientRequest, handler: Handler) -> aiohttp.ClientResponse:
        from ._call.tasks import drive

        timer = getattr(request, "_timer", None)
        if resent and resent[0][0] is timer:
            raise resent.pop()[1]  # aiohttp's own retry of a request that the policy has already handled
        first = _stop_resending(request)
        given = gathered(None)
        run = _Run(front, request, given, handler)
        try:
            response: aiohttp.ClientResponse = await drive(run, front.begin(run, given))
        except _RESENT as error:
            if first and not isinstance(error, _CONNECTING):
                resent[:] = [(timer, error)]
            raise
        return response

    return guarded


def _stop_resending(request: Any) -> bool:
    """Switches off aiohttp's own retries in a session; returns whether this request may still get one."""
    session = getattr(request, "_session", None)
    if getattr(session, "_retry_connection", False) is True:
        session._retry_connection = False  # type: ignore[union-attr]
        return True
    return False


def _replay_of(body: Any) -> tuple[bool, Any]:
    """Returns whether this body can be sent again, and the file to rewind for that; before attempt 1."""
    if body is None or isinstance(body, (bytes, bytearray)):
        return True, None
    if body.consumed:
        return False, None
    if isinstance(body, payload.BytesPayload):
        return True, None
    if isinstance(body, payload.IOBasePayload):
        return (True, body._value) if is_seekable(body._value) else (False, None)
    if isinstance(body, aiohttp.MultipartWriter):
        parts = [_replay_of(part[0]) for part in body._parts]  # it rewinds its files itself
        return all(replayable for replayable, _ in parts), None
    return False, None


class _Run(HttpRun):
    __slots__ = ("handler", "heard")

    library = "aiohttp"

    def __init__(
        self,
        front: Front,
        request: aiohttp.ClientRequest,
        given: Mapping[str, Any],
        handler: Handler,
    ) -> None:
        super().__init__(front, request, given)
        self.handler = handler
        self.heard: Pieces | None = None

    def method(self) -> str:
        return str(self.request.method)

    def origin(self) -> Origin:
        url = self.request.url
        return url.scheme, url.host or "", url.port

    def path(self) -> str:
        return str(self.request.url.raw_path_qs)

    def keyed(self) -> bool:
        return "Idempotency-Key" in self.request.headers

    def replay(self) -> tuple[bool, Any, Any]:
        return *_replay_of(self.request.body), None

    async def start(self, attempt: int, us: int) -> aiohttp.ClientResponse:
        request = self.request
        self.seconds_for(self.time_of(us))
        self.heard = None
        if attempt > 1:
            await request.close()  # cancels a task that still writes the body of the previous attempt
        if self.renew(attempt):
            if self.header:
                request.headers["Retry-Attempt"] = str(attempt - 1)
            if self.factory is not None:
                await request.update_body(self.factory())
        response = await self.handler(request)
        if self.is_held(response):
            self.heard = await hold(self, response)
        if self.begins(response):
            self.keep(response, await begin(response, self.left()))
        return response

    def final(self, value: aiohttp.ClientResponse) -> None:
        """Does nothing: no SDK that obeys the header uses aiohttp itself."""

    def retries_before(self) -> str | None:
        found: str | None = self.request.headers.get("x-stainless-retry-count")
        return found

    async def release(self, value: aiohttp.ClientResponse) -> None:
        """Reads a small failed response to its end, so that its connection is reused; closes a large one."""
        if is_open(value):
            kept = False
            try:
                kept = await drain(value, self.left())
            finally:
                if not kept:
                    self.gone.append(value)
                    value.close()
        elif value._body is None:
            await value.read()  # the body has already arrived

    async def discard(self, value: aiohttp.ClientResponse) -> None:
        """Closes the response of an attempt that lost."""
        value.close()

    def answer(self, value: aiohttp.ClientResponse) -> tuple[int, Callable[[], list[tuple[bytes, bytes]]]]:
        return value.status, lambda: list(value.raw_headers)

    def streams(self, value: aiohttp.ClientResponse) -> bool:
        return is_open(value)

    def guard(self, value: aiohttp.ClientResponse, step: int) -> None:
        if self.limits is None or not self.call:
            Body(self, value, step)
        else:
            StreamBody(self, value, step, self.heard)

    def accepts(self) -> str:
        found: str = self.request.headers.get("Accept", "")
        return found

    def content(self) -> bytes | None:
        body = self.request.body or b""
        if isinstance(body, payload.BytesPayload):
            body = body._value
        return bytes(body) if isinstance(body, (bytes, bytearray)) else None

    def whole(self, value: aiohttp.ClientResponse) -> tuple[bytes, str] | None:
        content = value.content
        return (b"".join(content._buffer), "identity") if content.is_eof() else None

    def _judge_answer(self, value: aiohttp.ClientResponse) -> int:
        pieces = self.heard
        return pieces.failure if pieces is not None and pieces.failure else super()._judge_answer(value)

    def attach(self, value: Any, info: dict[str, Any]) -> None:
        value.tidegate = info

    def own_errors(self) -> type[BaseException]:
        return aiohttp.ClientError

    def judge_library(self, error: BaseException) -> int:
        if isinstance(error, asyncio.TimeoutError) and not isinstance(error, _CONNECTING) and self._is_over():
            return outcomes.STOPPED
        if isinstance(error.__cause__, HttpProcessingError):
            return outcomes.TRANSIENT  # the answer was no HTTP; the status of the error is aiohttp's own, 400
        return super().judge_library(error)

    def _is_over(self) -> bool:
        """Returns whether `ClientTimeout.total` has passed, which ends the call like a cancellation."""
        timer = getattr(self.request, "_timer", None)
        try:
            timer.assert_timeout()  # type: ignore[union-attr]
        except asyncio.TimeoutError:
            return True
        except AttributeError:
            pass
        return False

    def is_timeout(self, error: BaseException) -> bool:
        del error
        return False  # in an event loop our own timers stop attempts
