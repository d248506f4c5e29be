"""The hooks of an engine, and how records get to them. `tidegate.events` is what users import."""

from __future__ import annotations

import sys
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidegate import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .engine import Engine
    from .record import Record

_Told = TypeVar("_Told")
TYPES: Final[Mapping[str, str]] = dict(_native.record_types())
"""The types of records, a closed list: name → what it tells (`docs/telemetry.md`)."""


class Hook:
    """A callback that gets records, until `close`. In a `with` block it is closed at the end of that."""

    __slots__ = ("_callback", "_failed", "_hooks", "policy", "types")

    def __init__(
        self, hooks: Hooks, callback: Callable[[Record], object], types: frozenset[str], policy: str | None
    ) -> None:
        self._hooks = hooks
        self._callback = callback
        self._failed = False
        self.types: Final = types
        self.policy: Final = policy

    def close(self) -> None:
        """Ends it; a second time changes nothing. A record that is being told may still arrive."""
        self._hooks.remove(self)

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def calls(self, callback: object) -> bool:
        """Whether that is its callback."""
        return self._callback is callback

    def tell(self, record: Record) -> Any:
        """Calls it, if the record is for it. What it raises is logged, the first time."""
        if record.type not in self.types or (self.policy is not None and self.policy != record.policy):
            return None
        try:
            return self._callback(record)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            self.complain()
            return None

    def complain(self) -> None:
        """Logs the exception that is being handled, once for each hook."""
        if not self._failed:
            self._failed = True
            import logging

            logging.getLogger("tidegate").exception(
                "a hook raised, which no call notices; it is logged this once: %r", self._callback
            )


Hook.__module__ = "tidegate.events"  # where it is imported from


class Retrying(NamedTuple):
    """What `on_retry` of a policy is given, before the wait begins.

    Attributes:
        error: The exception that the attempt raised; None where it had a result.
        result: What it had instead: an HTTP response, or what `classify` called a failure.
        attempt: The attempt that failed, from 1 on.
        wait: Seconds until the next one.
        reason: What the failure is taken for: `transient`, `timeout`, `throttled` …, or a kind of the policy.
        policy: The policy's name.
        route: The route's key.
        call: The call's number, for `Engine.explain`.
    """

    error: BaseException | None
    result: Any
    attempt: int
    wait: float
    reason: str
    policy: str
    route: str | None
    call: int


Retrying.__module__ = "tidegate"


class RetryHook(Hook):
    """The hook of a policy's `on_retry`."""

    __slots__ = ()

    def tell(self, record: Record) -> Any:
        """Calls it with what the attempt brought, and not with the record."""
        call = record.call
        if record.type != "retry_scheduled" or self.policy != record.policy or call is None:
            return None
        _, value = self._hooks.ends.get(call, (None, None))
        error = value if isinstance(value, BaseException) else None
        result = None if error is not None else value
        made = record.attempt - 1
        told = Retrying(
            error,
            result,
            made,
            record.wait_s or 0.0,
            record.kind or "",
            self.policy or "",
            record.route,
            call,
        )
        try:
            return self._callback(told)  # type: ignore[arg-type]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            self.complain()
            return None


def wanted(types: Iterable[str] | None) -> frozenset[str]:
    """Types of records, checked; all of them where none are given.

    Raises:
        ValueError: If one does not exist.
    """
    if types is None:
        return frozenset(TYPES)
    if isinstance(types, str):
        raise ValueError(f"types = {types!r}: must be a list of types, such as [{types!r}]")
    chosen = frozenset(types)
    for name in sorted(chosen, key=repr):
        if name not in TYPES:
            raise ValueError(f"types = {name!r}: must be among {', '.join(TYPES)}")
    return chosen


class Hooks:
    """The hooks of one engine, and how records get to them."""

    def __init__(self, engine: Engine, inspector: _native.Inspector) -> None:
        self._engine_clock = engine.clock
        self._inspector = inspector
        self._all: tuple[Hook, ...] = ()
        self._telling: set[int] = set()
        self._make: Callable[[Iterable[Any]], Record] | None = None
        self._held: dict[int, list[tuple[Hook, Any]]] = {}
        self.ends: Final[dict[int, tuple[Any, Any]]] = {}
        """By call: the function and what its attempt brought, while the engine is told of it."""
        self._log: Final = _Log() if engine.logs else None
        if self._log is not None:
            self.add(self._log, frozenset(LOGGED), None)

    def add(self, callback: Callable[[Record], object], types: frozenset[str], policy: str | None) -> Hook:
        """Listens from now on."""
        hook = Hook(self, callback, types, policy)
        self._all = (*self._all, hook)
        self._listen()
        return hook

    def add_on_retry(self, callback: Callable[[Retrying], object], policy: str) -> Hook:
        """Tells a policy's `on_retry` from now on."""
        hook = RetryHook(self, callback, frozenset({"retry_scheduled"}), policy)  # type: ignore[arg-type]
        self._all = (*self._all, hook)
        self._listen()
        return hook

    def remove(self, hook: Hook) -> None:
        """Listens no longer."""
        self._all = tuple(other for other in self._all if other is not hook)
        self._listen()

    def _listen(self) -> None:
        told = {name for hook in self._all for name in hook.types}
        others = {name for hook in self._all if not hook.calls(self._log) for name in hook.types}
        self._inspector.listen(sorted(told), sorted((told & QUIET) - others))

    def deliver(self) -> None:
        """Tells what this thread's last step has done. Inside a hook nothing is told."""
        log = self._log
        taken = self._inspector.take_records(log is not None and not log.writes_info())
        me = get_ident()
        if not taken or me in self._telling:
            return
        make = self._make
        if make is None:
            from .record import Record

            make = self._make = Record._make
        self._telling.add(me)
        try:
            for fields in taken:
                self._tell(make((*fields, *self._end(fields[5]))))
        finally:
            self._telling.discard(me)

    def _tell(self, record: Record) -> None:
        if record.type in _GOES_ON and record.call in self._held:
            for hook, held in self._held.pop(record.call):
                _leave(hook, held)
        for hook in self._all:
            answer = hook.tell(record)
            if answer is not None and record.type == "retry_scheduled" and record.call is not None:
                self._hold(hook, record.call, answer)

    def _hold(self, hook: Hook, call: int, answer: Any) -> None:
        """A hook of a retry has answered a context manager: it is held until the attempt starts."""
        if not (hasattr(type(answer), "__enter__") and hasattr(type(answer), "__exit__")):
            return
        if not hook.types >= _GOES_ON:
            return
        try:
            answer.__enter__()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            hook.complain()
        else:
            self._held.setdefault(call, []).append((hook, answer))

    def _end(self, call: Any) -> tuple[int | None, str | None, str | None]:
        """What the shell knows of the attempt that ended: status, function, exception."""
        known = self.ends.get(call)
        if known is None:
            return None, None, None
        function, value = known
        try:
            error = type(value).__qualname__ if isinstance(value, BaseException) else None
            return _asked(_status, value), _asked(_name, function), error
        except Exception:
            return None, None, None  # a metaclass of the user's


_GOES_ON: Final = frozenset({"attempt_started", "call_done"})


def _leave(hook: Hook, held: Any) -> None:
    try:
        held.__exit__(None, None, None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        hook.complain()


def _asked(ask: Callable[[Any], _Told], of: Any) -> _Told | None:
    """What is asked of something of the user's; None where its attributes raise."""
    try:
        return ask(of)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None


def _status(value: Any) -> int | None:
    """The status of an HTTP answer, or of the one that an exception carries, in the words of any client."""
    for of in (value, getattr(value, "response", None)):
        for name in ("status_code", "status"):
            status = getattr(of, name, None)
            if isinstance(status, int) and not isinstance(status, bool):
                return int(status)
    return None


def nothing() -> None:
    """What a call calls that an adapter makes: the adapter starts its attempts itself."""


def _name(function: Any) -> str | None:
    """The name of a function, its module in front; None for what an adapter calls."""
    function = getattr(function, "func", function)
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str) or function is nothing:
        return None
    return f"{module}.{name}" if isinstance(module, str) else name


LOGGED: Final = (
    "retry_scheduled",
    "rejected",
    "breaker_changed",
    "lease_reclaimed",
    "store_degraded",
    "store_recovered",
    "forced_open",
    "forced_cleared",
)
"""What is logged without being asked: nothing that a call has which works."""


QUIET: Final = frozenset({"retry_scheduled", "forced_cleared", "store_recovered"})
"""What of it says that things go on, at the level INFO; the rest is a WARNING."""


class _Log:
    """The hook that every engine has: imports what it needs with the first record."""

    __slots__ = ("_logger", "_write")

    def __init__(self) -> None:
        self._write: Callable[[Record], None] | None = None
        self._logger: Any = None

    def writes_info(self) -> bool:
        """Whether a line at INFO would be written. Asked each time, since levels change; loggers cache it."""
        try:
            structlog = loaded("structlog")
            if structlog is not None and structlog.is_configured():
                return True
            if self._logger is None:
                logging = loaded("logging")
                if logging is None:
                    return False  # nobody can have asked for more than the default, which is WARNING
                self._logger = logging.getLogger("tidegate")
            return bool(self._logger.isEnabledFor(_INFO))
        except Exception:
            return True  # the hook meets it again, and says so

    def __call__(self, record: Record) -> None:
        if record.policy in UNLOGGED:
            return
        if self._write is None:
            from .log import log

            self._write = log
        self._write(record)


UNLOGGED: Final[set[str]] = set()
"""Names of policies whose door writes its own lines."""


_INFO: Final = 20
"""`logging.INFO`, which is not imported for this."""


def loaded(module: str) -> Any:
    """A module that the user has imported, or None."""
    return sys.modules.get(module)
