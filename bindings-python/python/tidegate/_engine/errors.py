"""Errors of Tidegate itself, as opposed to exceptions of the called function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from datetime import datetime

    from .explain import CallExplanation


class TidegateError(Exception):
    """Base of all errors of this library.

    If there is a last response or an original exception, the caller gets that. These errors are for calls
    refused before an attempt, and for attempts that Tidegate stopped.

    Attributes:
        code: The kind of error, the same in every language.
        reason: The verdict of the engine, more specific than `code`: a bulkhead refuses with `queue_full` or
            `acquire_timeout`.
        retry_in: Seconds after which another try would make sense, or None.
        policy: The policy's name.
        route: The route's key.
        http_status: A suitable status for the response of an HTTP server to its own caller.
    """

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 503

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        retry_in: float | None = None,
        policy: str | None = None,
        route: str | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason or self.code
        self.retry_in = retry_in
        self.policy = policy
        self.route = route
        self._at: float | None = None
        if retry_in is not None:
            import time

            self._at = time.time() + retry_in

    @property
    def retry_at(self) -> datetime | None:
        """The wall-clock time (UTC) from which another try would make sense, or None."""
        if self._at is None:
            return None
        from datetime import datetime, timezone

        return datetime.fromtimestamp(self._at, timezone.utc)

    def explain(self) -> CallExplanation | None:
        """Explains why the call ended as it did, with the numbers behind the decision.

        Returns:
            The explanation. None if the engine keeps no `history`, or if `history` newer records have
            replaced those of the call.
        """
        from .engine import explain

        return explain(self)


class Rejected(TidegateError):
    """The call was refused before any attempt.

    This class itself: a further attempt was refused, and the answer of the last one is closed already.
    """

    code = "rejected"


class _OfLimit(TidegateError):
    """Names the limit of a set that refused a call."""

    def __init__(
        self,
        message: str = "",
        *,
        limit: str | None = None,
        weight: str | None = None,
        amount: int | None = None,
        **common: Any,
    ) -> None:
        super().__init__(message, **common)
        self.limit = limit
        self.weight = weight
        self.amount = amount


class RateLimited(_OfLimit, Rejected):
    """The rate limit is used up.

    Attributes:
        limit: The name of the limit that refused the call: of several that lack tokens the one that frees
            last. None for a rate limit without `limits`.
        weight: The weight that this limit counts; None for a limit that counts calls.
        amount: The call's amount of that weight; None without a weight.
    """

    code = "rate_limited"
    http_status = 429


class BulkheadFull(Rejected):
    """No slot was free, or none came free in time.

    Attributes:
        max_concurrency: The configured limit of calls in flight.
        max_queue: The configured limit of waiting calls; None is unbounded.
        acquire_timeout: The configured time limit of a waiting call, in seconds; None is unlimited.
    """

    code = "bulkhead_full"

    def __init__(
        self,
        message: str = "",
        *,
        max_concurrency: int | None = None,
        max_queue: int | None = None,
        acquire_timeout: float | None = None,
        **common: Any,
    ) -> None:
        super().__init__(message, **common)
        self.max_concurrency = max_concurrency
        self.max_queue = max_queue
        self.acquire_timeout = acquire_timeout


class BreakerOpen(Rejected):
    """The circuit breaker is open."""

    code = "breaker_open"


class Throttled(Rejected):
    """The adaptive throttle refused the call."""

    code = "throttled"
    http_status = 429


class ForcedOpen(Rejected):
    """An operator refuses all calls."""

    code = "forced_open"


class HoldFull(Rejected):
    """Too many calls are held already."""

    code = "hold_full"


class CoolingDown(Rejected):
    """The server has said that there are too many requests; no attempt starts until `retry_at`."""

    code = "cooling_down"
    http_status = 429


class StoreUnavailable(Rejected):
    """The shared store is unavailable, and the policy refuses calls in that case."""

    code = "store_unavailable"


class NoTarget(Rejected):
    """No target of its group admits the call's attempt: each is open, out of tokens or full."""

    code = "no_target"


class TargetsLimited(NoTarget):
    """No target of its group admits the call's attempt: each has used up its rate limit, or cools down."""

    code = "targets_limited"
    http_status = 429


class CostAboveBurst(_OfLimit):
    """The call costs more than the rate limit can ever hold.

    Attributes:
        limit: The name of the limit that never holds so much. None for a rate limit without `limits`.
        weight: The weight that this limit counts; None for a limit that counts calls.
        amount: The call's amount of that weight; None without a weight.
    """

    code = "cost_above_burst"


class CallLost(TidegateError):
    """The engine abandoned the call, because there was no event of it for too long."""

    code = "call_lost"


class AttemptTimeout(TidegateError, TimeoutError):
    """The last attempt exceeded `attempt_timeout` and was stopped."""

    code = "attempt_timeout"
    http_status = 504


class StreamStalled(TidegateError, TimeoutError):
    """No piece of the response's body came for `idle_timeout`, after the response was delivered."""

    code = "stream_stalled"
    http_status = 504


class DeadlineExceeded(TidegateError, TimeoutError):
    """The deadline passed: before the call, while it waited, or during an attempt."""

    code = "deadline_exceeded"
    http_status = 504


class StateError(TidegateError, ValueError):
    """A saved state cannot be restored: names the place and the rule that it breaks. Nothing was changed."""

    code = "state"


class PolicyError(TidegateError, ValueError):
    """A policy has invalid settings; lists all mistakes.

    Attributes:
        mistakes: (key, value, rule) of each mistake.
    """

    code = "policy"

    def __init__(self, mistakes: list[tuple[str, str, str]]) -> None:
        mistakes = [_hinted(*mistake) for mistake in mistakes]
        super().__init__("; ".join(f"{key} = {value}: {rule}" for key, value, rule in mistakes))
        self.args = (mistakes,)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "; ".join(f"{key} = {value}: {rule}" for key, value, rule in self.mistakes)


_HINT = "in Python a span is a number of seconds or a timedelta"
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _hinted(key: str, value: str, rule: str) -> tuple[str, str, str]:
    """Adds Python's notation of spans to a mistake. Mistakes in documents, which name a line, stay."""
    if not rule.startswith("must be a span") or "(line " in rule or _HINT in rule:
        return key, value, rule
    if value == "NaNs":
        return key, "nan", rule
    if not value.startswith('"'):
        return key, value, rule
    text = value.strip('"')
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    try:
        hint = f"{_HINT}: {float(number) * _UNITS[unit]:.6g}" if unit in _UNITS else _HINT
    except ValueError:
        hint = _HINT
    if hint.rpartition(": ")[2].isdigit():
        hint += ".0"
    return key, text if text in ("True", "False") else value, f"{rule}; {hint}"


class Unsupported(PolicyError, NotImplementedError):
    """A policy uses a feature that this package does not support yet, so it is refused as a whole."""

    code = "unsupported"
