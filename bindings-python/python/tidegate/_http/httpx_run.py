"""One call of httpx or httpx2. Neither is imported here; a `Family` represents the one in use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tidegate._call.open_call import MARGIN
from tidegate._engine.wire import span_of

from .beginning import begin, begin_async
from .body import AsyncBody, SyncBody
from .drain import drain, drain_async, is_read
from .run import HttpRun, is_seekable
from .streams import AsyncStream, SyncStream, ahold, encoding_of, hold, wire_of
from .until import Wire, bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from .front import Front, Origin

PHASES: Final = ("connect", "read", "write", "pool")
_HELD_PHASES: Final = ("connect", "write", "pool")
"""Without `read`: the transport keeps the timeout of the first read, which comes before the delivery."""


class Family:
    """One of httpx and httpx2: its classes, and those of its errors that say when a request was sent."""

    __slots__ = ("bytes", "module", "never_sent", "timeout", "transport")

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.bytes = module.ByteStream
        self.never_sent = (module.ConnectError, module.ConnectTimeout, module.PoolTimeout)
        self.timeout = module.TimeoutException
        self.transport: type[BaseException] = module.TransportError


_families: Final[dict[str, Family]] = {}
_classes: Final[dict[tuple[type, str, str], type]] = {}


def module_of(transport: object) -> ModuleType | None:
    """Returns the module, httpx or httpx2, of a transport; None if it belongs to neither.

    Checks base classes, not module names: an SDK that re-exports them (as openai does) may have changed
    `__module__`.
    """
    for name in ("httpx", "httpx2"):
        module = sys.modules.get(name)
        if module is not None and isinstance(transport, (module.BaseTransport, module.AsyncBaseTransport)):
            return module
    return None


def family_of(inner: object, module: ModuleType | None) -> Family:
    """Returns the family by the module, else by the inner transport, else by the imported modules."""
    name = module.__name__ if module is not None else None
    if name is None and inner is not None:
        module = module_of(inner)
        if module is None:
            raise TypeError(
                f"{type(inner).__name__} is no transport of httpx or httpx2; say which: module=httpx"
            )
        name = module.__name__
    if name is None:
        found = [root for root in ("httpx", "httpx2") if root in sys.modules]
        if len(found) == 2 and sys.modules["httpx"] is sys.modules["httpx2"]:
            found = ["httpx2"]  # `httpx2.alias_httpx()`
        if len(found) != 1:
            both = "both httpx and httpx2 are imported" if found else "neither httpx nor httpx2 is imported"
            raise TypeError(f"{both}; say which is meant: module=httpx")
        name = found[0]
    family = _families.get(name)
    if family is None:
        family = _families[name] = Family(sys.modules[name] if module is None else module)
    return family


def sided(cls: type, family: Family, base: str) -> type:
    """Returns a subclass of `cls` that is also a transport or stream class of the family's module."""
    key = (cls, family.module.__name__, base)
    if key not in _classes:
        bases = (cls, getattr(family.module, base))
        _classes[key] = type(cls.__name__, bases, {"__module__": cls.__module__, "__doc__": cls.__doc__})
    return _classes[key]


def replay_of(stream: Any, family: Family) -> tuple[bool, Any]:
    """Returns whether this body can be sent again, and the file to rewind for that; before attempt 1."""
    if type(stream) is family.bytes or isinstance(stream, family.bytes):
        return True, None
    fields = getattr(stream, "fields", None)
    if type(stream).__name__ == "MultipartStream" and fields is not None:
        files = (getattr(field, "file", b"") for field in fields)  # the stream rewinds its files itself
        return all(isinstance(file, (bytes, str)) or is_seekable(file) for file in files), None
    source = getattr(stream, "_stream", None)
    if isinstance(source, (list, tuple)):
        return True, None
    return (True, source) if source is not None and is_seekable(source) else (False, None)


class HttpxRun(HttpRun):
    """A request of httpx or httpx2 under a policy."""

    __slots__ = ("encoding", "family", "inner", "library", "timeouts", "wire")

    def __init__(
        self, front: Front, request: Any, options: Mapping[str, Any], family: Family, inner: Any
    ) -> None:
        super().__init__(front, request, options)
        self.family = family
        self.inner = inner
        self.library = family.module.__name__  # type: ignore[misc]  # per instance, not per class
        self.timeouts: dict[str, Any] | None = None
        self.encoding = "identity"
        self.wire: Any = None  # the connection of the response, if no other response shares it

    def method(self) -> str:
        """Returns the HTTP method."""
        return str(self.request.method)

    def origin(self) -> Origin:
        """Returns the origin of the URL."""
        url = self.request.url
        return url.scheme, url.host, url.port

    def path(self) -> str:
        """Returns the path, by which holds tell targets apart."""
        return str(self.request.url.raw_path.decode("ascii", "replace"))

    def keyed(self) -> bool:
        """Returns whether the request carries an `Idempotency-Key`."""
        return "idempotency-key" in self.request.headers

    def replay(self) -> tuple[bool, Any, Any]:
        """Returns whether the body can be sent again, and the file to rewind for that."""
        return *replay_of(self.request.stream, self.family), None

    def outgoing(self, attempt: int, us: int) -> Any:
        """Returns an attempt's request: a copy with timeouts within the time left and the retry header."""
        request = self.request
        left = self.seconds_for(self.time_of(us))
        repeats = self.renew(attempt)
        # A dict of our own: the transport reads it again with the body, and `_cap` changes it before that.
        self.timeouts = timeouts = dict(request.extensions.get("timeout") or {})
        if left is not None:
            for phase in _HELD_PHASES if self.holds else PHASES:
                own = timeouts.get(phase)
                if own is None or own > left:
                    timeouts[phase] = left
        copy = object.__new__(type(request))
        copy.__dict__.update(request.__dict__)
        copy.extensions = {**request.extensions, "timeout": timeouts}
        if repeats:
            if self.header:
                copy.headers = request.headers.copy()
                copy.headers["Retry-Attempt"] = str(attempt - 1)
            if self.factory is not None:
                copy.stream = self._body(self.factory())
        return copy

    def _body(self, content: Any) -> Any:
        """Converts the result of a `body_factory` to a stream of the family."""
        if isinstance(content, str):
            content = content.encode()
        if isinstance(content, (bytes, bytearray)):
            return self.family.bytes(bytes(content))
        module = self.family.module
        if isinstance(content, (module.SyncByteStream, module.AsyncByteStream)):
            return content
        return module.Request("POST", "http://body", content=content).stream

    def accepts(self) -> str:
        """Returns the request's `Accept`."""
        found: str = self.request.headers.get("accept", "")
        return found

    def content(self) -> bytes | None:
        """Returns the body of the request if it is in memory."""
        stream = self.request.stream
        return b"".join(stream) if isinstance(stream, self.family.bytes) else None

    def whole(self, value: Any) -> tuple[bytes, str] | None:
        """Returns the body of a response if it is in memory, and its content coding."""
        stream = value.stream
        if isinstance(stream, self.family.bytes):
            return b"".join(stream), encoding_of(value)
        return (value.content, "identity") if is_read(value, self.family) else None

    def _judge_answer(self, value: Any) -> int:
        pieces = getattr(value.stream, "pieces", None)
        return pieces.failure if pieces is not None and pieces.failure else super()._judge_answer(value)

    def out_of_time(self) -> Exception:
        """Returns the error of a stream of which no piece has come in time."""
        text = "no piece of the stream came within first_byte_timeout"
        error: Exception = self.family.module.ReadTimeout(text, request=self.request)
        return error

    def answer(self, value: Any) -> tuple[int, Callable[[], list[tuple[bytes, bytes]]]]:
        """Returns the status of a response, and a function for its headers."""
        return value.status_code, lambda: value.headers.raw

    def streams(self, value: Any) -> bool:
        """Returns whether the body has yet to be read."""
        return not (is_read(value, self.family) or value.is_closed)

    def attach(self, value: Any, info: dict[str, Any]) -> None:
        """Stores the report in `response.extensions["tidegate"]`."""
        value.extensions["tidegate"] = info

    def final(self, value: Any) -> None:
        """Puts `x-should-retry: false` into a failed response."""
        value.headers["x-should-retry"] = "false"

    def retries_before(self) -> str | None:
        """Returns the value of the request's `x-stainless-retry-count`."""
        found: str | None = self.request.headers.get("x-stainless-retry-count")
        return found

    def own_errors(self) -> type[BaseException]:
        """Returns the base class of the transport's errors."""
        return self.family.transport

    def is_timeout(self, error: BaseException) -> bool:
        """Returns whether the transport timed out after the request may have been sent."""
        return isinstance(error, self.family.timeout) and not isinstance(error, self.family.never_sent)

    def guard(self, value: Any, step: int) -> None:
        """Applies the deadline to the body, instead of the attempt timeout."""
        self._cap(span_of(step))
        self.encoding = encoding_of(value)
        if self.limits is not None:
            self.wire = wire_of(value, self.library, self._wires)
        value.stream = self._guarded(value.stream, step)

    _wires: ClassVar[type | None] = None
    """The class of connections that say when a read waits; None if any connection can be made to."""

    def _cap(self, us: int) -> None:
        """Sets the read timeout to the caller's own, limited to `us` microseconds (negative: no limit)."""
        if self.timeouts is not None:
            own = (self.request.extensions.get("timeout") or {}).get("read")
            left = us / 1e6 + 0.001 if us >= 0 else None
            self.timeouts["read"] = own if left is None else left if own is None else min(own, left)

    def _guarded(self, stream: Any, step: int) -> Any:
        raise NotImplementedError

    def released(self, value: Any) -> None:
        """Notes a response whose rest was closed, so that it cannot be delivered any more."""
        if value.is_closed and not hasattr(value, "_content"):
            self.gone.append(value)


class SyncRun(HttpxRun):
    """A request that is sent in a thread."""

    __slots__ = ()
    _wires = Wire

    def start(self, attempt: int, us: int) -> Any:
        """Sends the request."""
        request = self.outgoing(attempt, us)
        left = us / 1e6 + MARGIN if us >= 0 else None
        if self.limits is not None:
            left = None if self.us_until is None else self.left() + MARGIN
        with bounded(left):
            response = self.inner.handle_request(request)
            if self.is_held(response):
                hold(self, response)
        if self.begins(response):
            self.keep(response, begin(response, self.family, self.timeouts, self.left()))
        return response

    def sided(self, kind: type) -> type:
        """Returns a subclass that is also a stream of the client library."""
        return sided(kind, self.family, "SyncByteStream")

    def release(self, value: Any) -> None:
        """Reads a small failed response to its end, so that its connection is reused; closes a large one."""
        drain(value, self.family, self.timeouts, self.left())
        self.released(value)

    def discard(self, value: Any) -> None:
        """Closes the response of an attempt that lost."""
        value.close()

    def _guarded(self, stream: Any, step: int) -> Any:
        kind = SyncBody if self.limits is None or not self.call else SyncStream
        return self.sided(kind)(self, stream, step)


class AsyncRun(HttpxRun):
    """A request that is sent in an event loop."""

    __slots__ = ()

    async def start(self, attempt: int, us: int) -> Any:
        """Sends the request."""
        response = await self.inner.handle_async_request(self.outgoing(attempt, us))
        if self.is_held(response):
            await ahold(self, response)
        if self.begins(response):
            self.keep(response, await begin_async(response, self.family, self.left()))
        return response

    def sided(self, kind: type) -> type:
        """Returns a subclass that is also a stream of the client library."""
        return sided(kind, self.family, "AsyncByteStream")

    async def release(self, value: Any) -> None:
        """Reads a small failed response to its end, so that its connection is reused; closes a large one."""
        await drain_async(value, self.family, self.left())
        self.released(value)

    async def discard(self, value: Any) -> None:
        """Closes the response of an attempt that lost."""
        await value.aclose()

    def _guarded(self, stream: Any, step: int) -> Any:
        kind = AsyncBody if self.limits is None or not self.call else AsyncStream
        return self.sided(kind)(self, stream, step)
