"""httpware's circuit breakers on the engine: one circuit for all requests, or one for each key."""

from __future__ import annotations

import enum
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from tidegate._call import outcomes
from tidegate._call.notes import refusal
from tidegate._call.policy import Policy
from tidegate._call.run import abandon
from tidegate._engine.engine import Engine
from tidegate._engine.wire import FINISHED_1, KINDS, VERDICTS, is_attempt, pack_outcome, span_of, verdict_of
from tidegate.compat._call import REPEATABLE, FedClock, Start
from tidegate.compat._checks import number, whole
from tidegate.compat._errors import joined

from ._errors import CircuitOpenError, OverallTimeoutError
from ._events import CIRCUIT, emit
from ._retry import is_exhausted, is_transport, response_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from tidegate._engine.snapshot import BreakerView

    from ._retry import AsyncNext, Next

_SERVER_ERRORS: Final = frozenset(range(500, 600))
_IGNORED: Final = pack_outcome(KINDS["ignored"])
_EVERY: Final = 1_000_000
"""Microseconds between two events about rejections in one episode, from opening to closing."""
_SHORTEST: Final = 0.001
"""The shortest break of the engine, in seconds."""


class CircuitState(enum.Enum):
    """State of a circuit."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Settings:
    """Validated settings of a circuit."""

    def __init__(
        self,
        failure_threshold: int,
        reset_timeout: float,
        success_threshold: int,
        failure_status_codes: Collection[int] | None,
        failure_rate_threshold: float | None,
        window_seconds: float,
        minimum_calls: int,
        now: Callable[[], float],
    ) -> None:
        self.failure_threshold = whole("failure_threshold", failure_threshold, 1)
        number("reset_timeout", reset_timeout)
        whole("success_threshold", success_threshold, 1)
        if failure_rate_threshold is not None and not 0 < failure_rate_threshold <= 1:
            raise ValueError(f"failure_rate_threshold must be in (0, 1], got {failure_rate_threshold!r}")
        self.window_seconds = number("window_seconds", window_seconds, above=True)
        whole("minimum_calls", minimum_calls, 1)
        self.rate = failure_rate_threshold
        self.statuses = _SERVER_ERRORS if failure_status_codes is None else frozenset(failure_status_codes)
        self.now = now
        self.breaker: dict[str, Any] = {
            "break_duration": max(reset_timeout, _SHORTEST),
            "break_factor": 1,
            "successes_to_close": success_threshold,
        }
        if failure_rate_threshold is None:
            self.breaker["consecutive"] = failure_threshold
        else:
            self.breaker |= {"failure_ratio": failure_rate_threshold, "window": window_seconds}
            self.breaker["min_throughput"] = minimum_calls


class Circuit:
    """One circuit: a breaker of the engine, which emits httpware's events."""

    def __init__(self, settings: Settings, label: str | None = None) -> None:
        self._settings = settings
        self._more = {} if label is None else {"circuit_key": label}
        self._clock = None if settings.now is time.monotonic else FedClock(now=settings.now)
        engine = Engine(clock=self._clock, logs=False)  # this layer logs httpware's own lines instead
        self._engine = engine
        self._policy = Policy(breaker=settings.breaker, engine=engine)
        self._start = Start(self._policy, nested=False)
        self._lock = threading.Lock()
        self._seen = CircuitState.CLOSED
        self._episode = 0
        self._suppressed = 0
        self._logged: int | None = None

    @property
    def state(self) -> CircuitState:
        """Its state; reading it changes nothing."""
        view = self._view()
        return CircuitState.CLOSED if view is None else CircuitState(view["state"])

    def admit(self, request: Any) -> int:
        """Admits a request and returns its call.

        Raises:
            CircuitOpenError: If the circuit refuses it.
        """
        if self._clock is not None:
            self._clock.read()
        call, step, _ = self._start(REPEATABLE)
        if is_attempt(step):
            if self._seen is not CircuitState.CLOSED:
                self._look(request, {})
            return call
        verdict = VERDICTS[verdict_of(step)]
        if verdict != "breaker_open":
            raise refusal(verdict, self._policy, "default")
        span = span_of(step)
        self._look(request, {})
        probing = span < 0 or self._seen is CircuitState.HALF_OPEN
        raise self._rejected(request, None if probing else span / 1000)

    def record(self, call: int, error: BaseException | None, request: Any) -> None:
        """Counts how an admitted request ended, unless the circuit has changed since it was admitted."""
        engine = self._engine
        if self._clock is not None:
            self._clock.read()
        if error is not None and not isinstance(error, Exception):
            abandon(engine, call, 1)
            return
        outcome = self._judge(error)
        failed = outcome == outcomes.TRANSIENT
        looks = failed or self._seen is not CircuitState.CLOSED  # only a failure can open a closed circuit
        before = self._view() if looks else None
        engine.on(call, FINISHED_1 | outcome)
        if before is not None:
            self._look(request, self._why(before))

    def _judge(self, error: Exception | None) -> int:
        cause: BaseException | None = error
        if is_exhausted(error):
            cause = getattr(error, "last_exception", None)
        if cause is None:
            return 0 if error is None else _IGNORED
        response = response_of(cause)
        if response is not None:
            return outcomes.TRANSIENT if response.status_code in self._settings.statuses else 0
        failed = isinstance(cause, OverallTimeoutError) or is_transport(cause)
        return outcomes.TRANSIENT if failed else _IGNORED

    def _why(self, before: BreakerView) -> dict[str, Any]:
        """Returns the attributes of the `circuit.opened` event, in case this failure opened the circuit."""
        settings = self._settings
        closed = self._seen is CircuitState.CLOSED
        if settings.rate is None or not closed:
            failures = settings.failure_threshold if closed else 1
            return {"failure_threshold": settings.failure_threshold, "failures": failures}
        calls = before["throughput"] + 1
        return {
            "failure_rate": (before["failures"] + 1) / calls,
            "failure_rate_threshold": settings.rate,
            "window_seconds": settings.window_seconds,
            "observed_calls": calls,
        }

    def _look(self, request: Any, why: dict[str, Any]) -> None:
        """Emits an event if the state has changed. Not under the lock, so that a listener may call back."""
        with self._lock:
            state, before = self.state, self._seen
            self._seen = state
            if state is before:
                return
            if before is CircuitState.CLOSED:
                self._episode, self._suppressed, self._logged = 0, 0, None
            rejected = self._episode
        if state is CircuitState.OPEN:
            self._emit("circuit.opened", "circuit opened", request, why)
        elif state is CircuitState.HALF_OPEN:
            message = "circuit half-open: one probe is let through"
            self._emit("circuit.half_open", message, request, {}, logging.INFO)
        else:
            self._emit("circuit.closed", "circuit closed", request, {"rejected": rejected}, logging.INFO)

    def _rejected(self, request: Any, retry_after: float | None) -> CircuitOpenError:
        now = self._engine.native.now()
        with self._lock:
            self._episode += 1
            due = self._logged is None or now - self._logged >= _EVERY
            suppressed = self._suppressed
            if due:
                self._logged, self._suppressed = now, 0
            else:
                self._suppressed += 1
        if due:
            about = {"retry_after": retry_after, "suppressed": suppressed}
            self._emit("circuit.rejected", "circuit not closed: request rejected", request, about)
        return joined(CircuitOpenError(retry_after=retry_after))

    def _emit(
        self, event: str, message: str, request: Any, about: dict[str, Any], level: int = logging.WARNING
    ) -> None:
        emit(CIRCUIT, event, message, request, level, **about, **self._more)

    def _view(self) -> BreakerView | None:
        """Returns the engine's breaker; None while a test has switched all policies off."""
        return self._engine.snapshot()["routes"][0]["breaker"]


def send(circuit: Circuit, request: Any, next_: Next) -> Any:
    """Sends a request through a circuit."""
    call = circuit.admit(request)
    try:
        response = next_(request)
    except BaseException as error:
        circuit.record(call, error, request)
        raise
    circuit.record(call, None, request)
    return response


async def send_async(circuit: Circuit, request: Any, next_: AsyncNext) -> Any:
    """Sends a request through a circuit, in an event loop."""
    call = circuit.admit(request)
    try:
        response = await next_(request)
    except BaseException as error:
        circuit.record(call, error, request)
        raise
    circuit.record(call, None, request)
    return response


def origin(request: Any) -> tuple[Any, Any, Any]:
    """Returns the default key: scheme, host and port of a request."""
    url = request.url
    return url.scheme, url.host, url.port


class Circuits:
    """A circuit for each key, made at the first request, and kept."""

    def __init__(self, key: Callable[[Any], Hashable], settings: Settings) -> None:
        if not callable(key):
            raise ValueError(f"key must be a function of a request, got {key!r}")
        self._key = key
        self._settings = settings
        self._made: dict[Hashable, Circuit] = {}
        self._lock = threading.Lock()
        Circuit(settings)  # raises now, not at the first request, if the engine rejects the settings

    def of(self, request: Any) -> Circuit:
        """Returns the circuit of a request."""
        key = self._key(request)
        circuit = self._made.get(key)
        if circuit is None:
            label = _label(request) if self._key is origin else str(key)
            with self._lock:
                circuit = self._made.setdefault(key, Circuit(self._settings, label))
        return circuit


def _label(request: Any) -> str:
    url = request.url
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}" + ("" if url.port is None else f":{url.port}")
