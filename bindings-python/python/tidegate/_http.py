"""One HTTP call: what of it can be repeated, what is sent on each attempt, what an answer means.

Written once for httpx and httpx2; which of them it is, is told by a `Family`. Neither is imported here.
"""

from __future__ import annotations

import inspect
import sys
import time
from math import inf
from typing import TYPE_CHECKING, Any, Final

from . import _classify
from ._errors import TidegateError
from ._http_errors import as_http
from ._notes import note_of
from ._run import HEAD, Run
from ._wire import ATTEMPT_SHIFT, DONE, FINISHED, OPINIONS, SPAN_SHIFT, STOPS, TIMER

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ._deadline import Scope
    from ._engine import Engine
    from ._policy import Policy

_REFUSED: Final = OPINIONS["do_not"] << 16
_MARGIN: Final = 0.001
"""A transport's timeout is this much longer than the time left: when it fires, the engine agrees."""
_PHASES: Final = ("connect", "read", "write", "pool")


class Family:
    """httpx or httpx2: their names, and what their errors mean (semantics 1.4)."""

    __slots__ = ("bytes", "module", "never_sent", "permanent", "timeout", "transport")

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.bytes = module.ByteStream
        self.never_sent = (module.ConnectError, module.ConnectTimeout, module.PoolTimeout)
        self.permanent = (module.UnsupportedProtocol, module.LocalProtocolError)
        self.timeout = module.TimeoutException
        self.transport = module.TransportError


_families: Final[dict[str, Family]] = {}


def family_of(inner: object, module: ModuleType | None) -> Family:
    """Whose transport this is: told by the module, by the inner transport, or by what is imported."""
    name = module.__name__ if module is not None else None
    if name is None and inner is not None:
        roots = [kind.__module__.partition(".")[0] for kind in type(inner).__mro__]
        name = next((root for root in roots if root in ("httpx", "httpx2")), None)
        if name is None:
            raise TypeError(
                f"{type(inner).__name__} is no transport of httpx or httpx2; say which: module=httpx"
            )
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


def replay_of(stream: Any, family: Family) -> tuple[bool, Any]:
    """Can this body be sent again, and which file is to be rewound for it? Judged before attempt 1."""
    if type(stream) is family.bytes or isinstance(stream, family.bytes):
        return True, None
    fields = getattr(stream, "fields", None)
    if type(stream).__name__ == "MultipartStream" and fields is not None:
        files = (getattr(field, "file", b"") for field in fields)  # it rewinds its files itself, where it can
        return all(isinstance(file, (bytes, str)) or _seekable(file) for file in files), None
    source = getattr(stream, "_stream", None)
    if isinstance(source, (list, tuple)):
        return True, None
    return (True, source) if source is not None and _seekable(source) else (False, None)


def _seekable(file: Any) -> bool:
    if not (hasattr(file, "seek") and hasattr(file, "tell")) or inspect.iscoroutinefunction(file.seek):
        return False
    try:
        return bool(file.seekable()) if hasattr(file, "seekable") else True
    except Exception:
        return False


class _BodyLost(Exception):
    """A file that could not be put back to where it stood before the first attempt."""


class HttpRun(Run):
    """A request under a policy."""

    __slots__ = ("body_lost", "factory", "family", "file", "header", "inner", "offset",
                 "request", "timeouts", "until", "until_body", "us_until")  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        route: str,
        scope: Scope | None,
        family: Family,
        inner: Any,
        request: Any,
        until_body: bool,
    ) -> None:
        super().__init__(engine, policy, route, scope, 0, classify=policy._classify_by)
        self.family = family
        self.inner = inner
        self.request = request
        self.until_body = until_body
        self.factory: Callable[[], Any] | None = None
        self.file: Any = None
        self.offset: Any = 0
        self.header = True
        self.body_lost = False
        self.timeouts: dict[str, Any] | None = None
        self.us_until: int | None = None
        self.until: int | None = None

    def outgoing(self, attempt: int, us: int) -> Any:
        """An attempt's request: equal to the first but for the retry header, in the time that is left."""
        request = self.request
        self.us_until = None
        copy = object.__new__(type(request))
        copy.__dict__.update(request.__dict__)
        # A dict of our own: the transport looks at it again when it reads the body.
        self.timeouts = timeouts = dict(request.extensions.get("timeout") or {})
        if us >= 0:
            left = us / 1e6 + _MARGIN
            self.us_until = self.engine.native.now() + us
            for phase in _PHASES:
                own = timeouts.get(phase)
                timeouts[phase] = left if own is None or own > left else own
        copy.extensions = {**request.extensions, "timeout": timeouts}
        if attempt == 1:
            if self.file is not None:
                self.offset = self.file.tell()
        else:
            if self.file is not None and not self.rewind():
                raise _BodyLost
            if self.header:
                copy.headers = request.headers.copy()
                copy.headers["Retry-Attempt"] = str(attempt - 1)
            if self.factory is not None:
                copy.stream = self.body(self.factory())
        return copy

    def body(self, content: Any) -> Any:
        """A body as the family wants it, from what a `body_factory` made."""
        if isinstance(content, str):
            content = content.encode()
        if isinstance(content, (bytes, bytearray)):
            return self.family.bytes(bytes(content))
        module = self.family.module
        if isinstance(content, (module.SyncByteStream, module.AsyncByteStream)):
            return content
        return module.Request("POST", "http://body", content=content).stream

    def judge(self, ok: bool, value: Any) -> int:
        """The outcome of a response or an exception, and whether its body could be sent again."""
        if ok:
            status = value.status_code
            outcome = 0
            if status >= 400:
                wall = int(time.time() * 1e6)
                outcome = self.engine.native.classify(self.policy._number, status, value.headers.raw, wall)
        else:
            outcome = self.judge_error(value)
        if self.classify is not None and outcome != _classify.STOPPED:
            outcome = _classify.by(self.classify, value, outcome, self.policy._kinds)
        if outcome == 0 and ok and self.until_body and not isinstance(value.stream, self.family.bytes):
            return HEAD
        if outcome > 0 and self.file is not None and not self.rewind():
            self.body_lost = True
            return outcome & ~(3 << 16) | _REFUSED
        return outcome

    def report(self, attempt: int, ok: bool, value: Any) -> int:
        """Tells the engine how an attempt ended, and first that its time was up, if that is why."""
        if isinstance(value, _BodyLost):
            # The attempt was never made: what the one before it brought is the result.
            self.body_lost = True
            self.held[(attempt - 1) & 7] = self.held.get((attempt - 2) & 7, (False, value))
            return self.engine.on(
                self.call, FINISHED | attempt << ATTEMPT_SHIFT | _classify.PERMANENT | _REFUSED
            )
        if ok or self.us_until is None or not isinstance(value, self.family.timeout):
            return super().report(attempt, ok, value)
        if self.engine.native.now() < self.us_until or isinstance(value, self.family.never_sent):
            return super().report(attempt, ok, value)
        step = self.engine.on(self.call, TIMER)
        if not step & STOPS:
            return super().report(attempt, ok, value)
        self.held[(attempt - 1) & 7] = (False, value)
        after = self.engine.on(self.call, FINISHED | attempt << ATTEMPT_SHIFT | _classify.TIMEOUT)
        return step if step & 3 == DONE else after

    def judge_error(self, error: BaseException) -> int:
        """The outcome of an exception of the transport."""
        family = self.family
        if isinstance(error, TidegateError):
            return _classify.of_exception(error)
        if isinstance(error, family.never_sent):
            return _classify.NEVER_SENT
        if isinstance(error, family.permanent):
            return _classify.PERMANENT
        if isinstance(error, family.timeout):
            late = self.us_until is not None and self.engine.native.now() >= self.us_until
            return _classify.TIMEOUT if late else _classify.TRANSIENT
        return _classify.TRANSIENT if isinstance(error, family.transport) else _classify.of_exception(error)

    def refuse(self, verdict: str, retry_in: float | None = None) -> TidegateError:
        """Our error, which is one of the client library's too."""
        return as_http(super().refuse(verdict, retry_in), self.family.module.__name__, self.request)

    def left(self) -> float:
        """Seconds that are left of the attempt's time; without end where it has none."""
        return inf if self.us_until is None else (self.us_until - self.engine.native.now()) / 1e6

    def opened(self, step: int) -> Any:
        """The answer whose body follows: the attempt's timeout ends here, the deadline goes on (7.1)."""
        response = self.held[(self.attempts - 1) & 7][1]
        self.held = {}  # no cycle with its body: thrown away unread, it gives its slot back at once
        self.cap((step >> SPAN_SHIFT) - 1)
        return response

    def cap(self, us: int) -> None:
        """From now on a read may take what its caller allows, in the time left (below 0: no end)."""
        if self.timeouts is not None:
            own = (self.request.extensions.get("timeout") or {}).get("read")
            left = us / 1e6 + _MARGIN if us >= 0 else None
            self.timeouts["read"] = own if left is None else left if own is None else min(own, left)

    def late(self, stream: Any, step: int) -> Any:
        """The stream of a failed answer, for which the deadline still holds."""
        raise NotImplementedError

    def rewind(self) -> bool:
        """Puts a file back to where it stood before the first attempt; fails closed."""
        try:
            self.file.seek(self.offset)
            return bool(self.file.tell() == self.offset)
        except Exception:
            return False

    def deliver(self, value: Any, verdict: str, note: str | None, retry_in: float | None) -> Any:
        """The response, with what happened in `response.extensions["tidegate"]`."""
        retry_at = None
        if retry_in is not None:
            from datetime import datetime, timedelta, timezone

            retry_at = datetime.now(timezone.utc) + timedelta(seconds=retry_in)
        if verdict != "ok" and self.until is not None and not isinstance(value.stream, self.family.bytes):
            us = max(self.until - self.engine.native.now(), 0)
            self.cap(us)
            value.stream = self.late(value.stream, us + 1 << SPAN_SHIFT)
        value.extensions["tidegate"] = {
            "attempts": self.made or self.attempts,
            "reason": verdict,
            "note": self.note(verdict, note),
            "retry_at": retry_at,
        }
        return value

    def note(self, verdict: str, note: str | None) -> str | None:
        """The note of a verdict; a file that could not be rewound has the body's."""
        return note_of("one_shot_body", 0, None, None) if self.body_lost and verdict == "opinion" else note

    def intact(self, value: Any) -> bool:
        """A drained response can still be read, a closed one cannot."""
        return not value.is_closed or hasattr(value, "_content")
