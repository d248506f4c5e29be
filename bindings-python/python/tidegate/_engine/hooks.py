"""The hooks of an engine, and the delivery of records to them. Users import `tidegate.events`."""

from __future__ import annotations

import sys
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from weakref import ref

from tidegate import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidegate._call.policy import Policy

    from .engine import Engine
    from .record import Record

_Told = TypeVar("_Told")
TYPES: Final[Mapping[str, str]] = dict(_native.record_types())
"""All types of records: name → description (`docs/telemetry.md`)."""


class Hook:
    """A callback that receives records until `close`. The end of a `with` block closes it."""

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
        """Removes the hook; a second call changes nothing. A record in delivery may still arrive."""
        self._hooks.remove(self)

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def calls(self, callback: object) -> bool:
        """Returns whether `callback` is this hook's callback."""
        return self._callback is callback

    def tell(self, record: Record) -> Any:
        """Calls the callback if the hook selects the record. The first exception from it is logged."""
        if record.type not in self.types or (self.policy is not None and self.policy != record.policy):
            return None
        try:
            return self._callback(record)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            self.complain()
            return None

    def complain(self, callback: object = None) -> None:
        """Logs the exception that is being handled; only the first one of each hook."""
        if not self._failed:
            self._failed = True
            import logging

            logging.getLogger("tidegate").exception(
                "a hook raised, which no call notices; it is logged this once: %r", callback or self._callback
            )


Hook.__module__ = "tidegate.events"  # where users import it from


class Retrying(NamedTuple):
    """Argument of a policy's `on_retry`, which is called before the wait begins.

    Attributes:
        error: The exception that the attempt raised; None if it returned a result.
        result: The result that was judged a failure: an HTTP response, or a value that `classify` rejected.
        attempt: The number of the failed attempt; the first is 1.
        wait: Seconds until the next attempt.
        reason: Class of the failure: `transient`, `timeout`, `throttled` …, or a kind of the policy.
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
    """The hook of a policy's `on_retry`.

    It refers to the policy only weakly, and the policy to the callback, which often is a method of the
    policy's owner: the engine's list of hooks must keep none of them.
    """

    __slots__ = ("_owner",)

    def __init__(self, hooks: Hooks, policy: Policy) -> None:
        super().__init__(hooks, nothing, frozenset({"retry_scheduled"}), policy.name)  # type: ignore[arg-type]
        self._owner = ref(policy)

    def tell(self, record: Record) -> Any:
        """Calls the callback with a `Retrying` instead of the record."""
        call = record.call
        if record.type != "retry_scheduled" or self.policy != record.policy or call is None:
            return None
        owner = self._owner()
        if owner is None or owner._on_retry is None:
            return None
        callback = owner._on_retry[0]
        _, value = self._hooks.ends.get(call, (None, None))
        error = value if isinstance(value, BaseException) else None
        result = None if error is not None else value
        made = record.attempt - 1
        event = Retrying(
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
            return callback(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            self.complain(callback)
            return None


def wanted(types: Iterable[str] | None) -> frozenset[str]:
    """Validates types of records and returns them as a set; all types for None.

    Raises:
        ValueError: If a type does not exist.
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
    """The hooks of one engine, and the delivery of records to them."""

    def __init__(self, engine: Engine, inspector: _native.Inspector) -> None:
        self._engine_clock = engine.clock
        self._inspector = inspector
        self._all: tuple[Hook, ...] = ()
        self._telling: set[int] = set()
        self._make: Callable[[Iterable[Any]], Record] | None = None
        self._held: dict[int, list[tuple[Hook, Any]]] = {}
        self.ends: Final[dict[int, tuple[Any, Any]]] = {}
        """By call: function and result or exception of its attempt, while that is reported to the engine."""
        self._log: Final = _Log() if engine.logs else None
        if self._log is not None:
            self.add(self._log, frozenset(LOGGED), None)

    def add(self, callback: Callable[[Record], object], types: frozenset[str], policy: str | None) -> Hook:
        """Adds a hook and subscribes to its types.

        Raises:
            TypeError: If the callback is not callable.
        """
        if not callable(callback):
            raise TypeError(f"callback = {callback!r}: must be a function that takes a record")
        hook = Hook(self, callback, types, policy)
        self._all = (*self._all, hook)
        self._listen()
        return hook

    def add_on_retry(self, policy: Policy) -> Hook:
        """Adds the hook of a policy's `on_retry`."""
        hook = RetryHook(self, policy)
        self._all = (*self._all, hook)
        self._listen()
        return hook

    def remove(self, hook: Hook) -> None:
        """Removes a hook and unsubscribes types that no other hook needs.

        Exits what the hook has returned for retries, since it may hear of no attempt that would end them.
        """
        self._all = tuple(other for other in self._all if other is not hook)
        self._listen()
        for call in list(self._held):
            for owner, held in self._held.pop(call, ()):
                if owner is hook:
                    _leave(owner, held)
                else:
                    self._held.setdefault(call, []).append((owner, held))

    def after_fork(self) -> None:
        """Forgets the threads that the child of a fork does not have: new ones may get their numbers."""
        self._telling &= {get_ident()}

    def _listen(self) -> None:
        types = {name for hook in self._all for name in hook.types}
        others = {name for hook in self._all if not hook.calls(self._log) for name in hook.types}
        self._inspector.listen(sorted(types), sorted((types & QUIET) - others))

    def deliver(self) -> None:
        """Delivers the records of this thread's last step. Records caused inside a hook are dropped."""
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
        """Enters a context manager that a hook returned for a retry; it is exited when the attempt starts."""
        if not (hasattr(type(answer), "__enter__") and hasattr(type(answer), "__exit__")):
            return
        if not hook.types >= _GOES_ON or all(other is not hook for other in self._all):
            return  # it would hear of no end; the second one has just removed itself
        try:
            answer.__enter__()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            hook.complain()
        else:
            self._held.setdefault(call, []).append((hook, answer))

    def _end(self, call: Any) -> tuple[int | None, str | None, str | None]:
        """Returns the shell's facts about the attempt that ended: status, function name, exception class."""
        known = self.ends.get(call)
        if known is None:
            return None, None, None
        function, value = known
        try:
            error = type(value).__qualname__ if isinstance(value, BaseException) else None
            return _asked(_status, value), _asked(_name, function), error
        except Exception:
            return None, None, None  # a user's metaclass raised


_GOES_ON: Final = frozenset({"attempt_started", "call_done"})


def _leave(hook: Hook, held: Any) -> None:
    try:
        held.__exit__(None, None, None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        hook.complain()


def _asked(ask: Callable[[Any], _Told], of: Any) -> _Told | None:
    """Returns `ask(of)` for a user's object; None if its attributes raise."""
    try:
        return ask(of)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None


def _status(value: Any) -> int | None:
    """Returns the status of an HTTP response, or of the response of an exception, for any client library."""
    for of in (value, getattr(value, "response", None)):
        for name in ("status_code", "status"):
            status = getattr(of, name, None)
            if isinstance(status, int) and not isinstance(status, bool):
                return int(status)
    return None


def nothing() -> None:
    """Placeholder function of calls that an adapter makes: the adapter starts the attempts itself."""


def _name(function: Any) -> str | None:
    """Returns a function's qualified name with its module; None for an adapter's placeholder."""
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
"""Types that are logged by default. A call that succeeds at its first attempt causes none of them."""


QUIET: Final = frozenset({"retry_scheduled", "forced_cleared", "store_recovered"})
"""The logged types that report progress or recovery, at level INFO; the others are logged at WARNING."""


class _Log:
    """The logging callback of every engine with `logs=True`. Imports its modules with the first record."""

    __slots__ = ("_logger", "_write")

    def __init__(self) -> None:
        self._write: Callable[[Record], None] | None = None
        self._logger: Any = None

    def writes_info(self) -> bool:
        """Returns whether a line at INFO would be written.

        Not cached here, since levels change; loggers have a cache of their own.
        """
        try:
            structlog = loaded("structlog")
            if structlog is not None and structlog.is_configured():
                return True
            if self._logger is None:
                logging = loaded("logging")
                if logging is None:
                    return False  # without `logging` no level is configured, and the default is WARNING
                self._logger = logging.getLogger("tidegate")
            return bool(self._logger.isEnabledFor(_INFO))
        except Exception:
            return True  # the callback will raise the same exception, which is then logged

    def __call__(self, record: Record) -> None:
        if record.policy in UNLOGGED:
            return
        if self._write is None:
            from .log import log

            self._write = log
        self._write(record)


UNLOGGED: Final[set[str]] = set()
"""Names of policies of compatibility layers that write their own log lines."""


_INFO: Final = 20
"""Value of `logging.INFO`, without importing `logging`."""


def loaded(module: str) -> Any:
    """Returns a module that the user has already imported, or None."""
    return sys.modules.get(module)
