# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.
"""How many retries: the budgets, of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tidegate import _native
from tidegate._engine.options import UNSET

from ._part import U16, U32, Part, made, whole

if TYPE_CHECKING:
    from tidegate._engine.clock import Span


class EarnedBudget(Part):
    """The default budget of a policy: each call that ends with an answer earns a part of a retry.

    Keeps at most what the calls of the last 14 s could earn, and at least 4 or `start` (`docs/spec.md`,
    2.20). It bounds attempts ≤ (1 + ratio)·calls + start: there is no floor per second, so a server that is
    down is asked less and less.

    Args:
        ratio: What a call that ends with an answer earns, in retries; 0.18 where absent. 0.000001 to 1.
        start: Retries that a new budget has; 2 where absent. 0 to 1,000,000,000.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> budget = EarnedBudget(ratio=0.25, start=1)
        >>> budget.try_withdraw(now=0.0), budget.try_withdraw(now=0.0)
        (True, False)
        >>> for _ in range(4):
        ...     budget.on_call(now=1.0)
        ...     budget.on_answer(now=1.0)
        >>> budget.balance(now=1.0)
        1
    """

    __slots__ = ()

    def __init__(self, ratio: float = UNSET, start: int = UNSET) -> None:
        options: dict[str, Any] = {"kind": "earned", "ratio": ratio, "start": start}
        self._native: _native.EarnedBudget = made(_native.EarnedBudget, "retry.budget", options)

    def on_call(self, now: float) -> None:
        """Counts one call, which has started, however many attempts it makes."""
        self._native.on_call(now)

    def on_answer(self, now: float) -> None:
        """Reports an answer: a success or a permanent error. At most once per call."""
        self._native.on_answer(now)

    def try_withdraw(self, now: float) -> bool:
        """Takes one retry, if one is available."""
        return self._native.try_withdraw(now)

    def refund(self, now: float) -> None:
        """Refunds a retry that was withdrawn and never started."""
        self._native.refund(now)

    def balance(self, now: float) -> int:
        """Whole retries that could be taken now."""
        return self._native.balance(now)


class RetryBudget(Part):
    """A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).

    Every call deposits, every retry withdraws; refused when withdrawn ≥ round(deposits·percent_can_retry) +
    floor(min_retries_per_sec·ttl). Ten slices: an entry counts for 0.9 to 1 `ttl`; memory is constant. It
    bounds attempts ≤ (1 + percent)·calls + min_retries_per_sec·(seconds + 1.1·ttl) (`docs/spec.md`, 2.10).

    Args:
        ttl: How long a call or a retry counts. Seconds or `timedelta`, 10 µs to 365 days; 10 s by default.
        min_retries_per_sec: Retries per second that are free of any ratio. At least 0; 10 by default.
        percent_can_retry: Retries allowed per recent call, as a fraction. At least 0; 0.2 by default.
        rounding: How the share of calls is rounded. `"floor"` (default), `"ceil"`.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> budget = RetryBudget(ttl=10.0, min_retries_per_sec=0, percent_can_retry=0.2)
        >>> for _ in range(10):
        ...     budget.deposit(now=0.0)
        >>> [budget.try_withdraw(now=1.0) for _ in range(3)]
        [True, True, False]
        >>> budget.balance(now=1.0)
        0
    """

    __slots__ = ()

    def __init__(
        self,
        ttl: Span = UNSET,
        min_retries_per_sec: float = UNSET,
        percent_can_retry: float = UNSET,
        rounding: Literal["floor", "ceil"] = UNSET,
    ) -> None:
        options: dict[str, Any] = {
            "kind": "window",
            "ttl": ttl,
            "min_retries_per_sec": min_retries_per_sec,
            "percent_can_retry": percent_can_retry,
            "rounding": rounding,
        }
        self._native: _native.RetryBudget = made(_native.RetryBudget, "retry.budget", options)

    def deposit(self, now: float) -> None:
        """Counts one call, however many attempts it makes."""
        self._native.deposit(now)

    def try_withdraw(self, now: float) -> bool:
        """Takes one retry, if one is available."""
        return self._native.try_withdraw(now)

    def refund(self, withdrawn: float, now: float) -> None:
        """Refunds a retry withdrawn at the moment `withdrawn` that was never started."""
        self._native.refund(withdrawn, now)

    def balance(self, now: float) -> int:
        """Retries that could be taken now."""
        return self._native.balance(now)


class RatioBudget(Part):
    """Each call earns a part of a retry, up to max(1, `min_throughput`·`ratio`); no clock.

    In whole micro-tokens: with 0.1 the first retry is earned by call 10. It bounds attempts ≤ (1 +
    ratio)·calls + min_throughput·(max_attempts − 1) (`docs/spec.md`, 2.11).

    Args:
        ratio: What a call earns, in retries. 0.000001 to 1.
        min_throughput: Retries are free until this many calls have been made. 0 to 1,000,000,000; 0 by
            default.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> budget = RatioBudget(ratio=0.5)
        >>> budget.on_call(), budget.try_withdraw()
        (None, False)
        >>> budget.on_call(), budget.try_withdraw()
        (None, True)
    """

    __slots__ = ()

    def __init__(self, ratio: float, min_throughput: int = UNSET) -> None:
        options: dict[str, Any] = {"kind": "ratio", "ratio": ratio, "min_throughput": min_throughput}
        self._native: _native.RatioBudget = made(_native.RatioBudget, "retry.budget", options)

    def on_call(self) -> None:
        """Counts one call, however many attempts it makes."""
        self._native.on_call()

    def try_withdraw(self) -> bool:
        """Takes one retry, if it is free or one is available."""
        return self._native.try_withdraw()

    def refund(self) -> None:
        """Refunds a retry that was paid for and never started; not one that was free."""
        self._native.refund()

    @property
    def is_free(self) -> bool:
        """Whether a retry would be free now, because there have been few calls."""
        return self._native.is_free()

    @property
    def balance(self) -> int:
        """Whole retries that could be taken now."""
        return self._native.balance()


class ShareBudget(Part):
    """Retries in flight ≤ max(`min_retries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).

    A retry that waits in its backoff is in flight: a thousand simultaneous failures must not all pass
    (`docs/spec.md`, 2.12).

    Args:
        share: Retries in flight per call in flight. At least 0; 0.2 by default.
        min_retries: Retries in flight that are always allowed. 0 to 1,000,000,000; 3 by default.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> budget = ShareBudget(share=0.2, min_retries=1)
        >>> [budget.try_acquire(calls=10) for _ in range(3)]
        [True, True, False]
        >>> budget.on_end()
        >>> budget.in_flight
        1
    """

    __slots__ = ()

    def __init__(self, share: float = UNSET, min_retries: int = UNSET) -> None:
        options: dict[str, Any] = {"kind": "share", "share": share, "min_retries": min_retries}
        self._native: _native.ShareBudget = made(_native.ShareBudget, "retry.budget", options)

    def try_acquire(self, calls: int) -> bool:
        """Takes one retry, while `calls` are in flight (0 to 2^32 − 1)."""
        return self._native.try_acquire(whole("calls", calls, 0, U32))

    def on_end(self) -> None:
        """A retry that was taken has ended, or will not start."""
        self._native.on_end()

    def balance(self, calls: int) -> int:
        """Retries that could be taken now, while `calls` are in flight."""
        return self._native.balance(whole("calls", calls, 0, U32))

    @property
    def in_flight(self) -> int:
        """Retries in flight."""
        return self._native.in_flight()


class TokenBudget(Part):
    """Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).

    Starts full and stays within 0 and `max`; a retry is allowed above half of `max` (`docs/spec.md`, 2.13).

    Args:
        max: Tokens when full. 1 to 1,000.
        ratio: What a success gives back. 0.000001 to 1.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> budget = TokenBudget(max=4, ratio=0.1)
        >>> budget.on_failure(), budget.allows
        (None, True)
        >>> budget.on_failure(), budget.allows
        (None, False)
    """

    __slots__ = ()

    def __init__(self, max: int, ratio: float) -> None:  # noqa: A002 - the key's name
        options: dict[str, Any] = {"kind": "tokens", "max": max, "ratio": ratio}
        self._native: _native.TokenBudget = made(_native.TokenBudget, "retry.budget", options)

    def on_failure(self) -> None:
        """A retryable failure, first attempts included."""
        self._native.on_failure()

    def on_success(self) -> None:
        """A success."""
        self._native.on_success()

    @property
    def allows(self) -> bool:
        """Whether a retry is allowed now."""
        return self._native.allows()

    @property
    def balance(self) -> int:
        """Failures until retries are refused."""
        return self._native.balance()


class RetryQuota(Part):
    """Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).

    Starts full. A success refunds the cost of the call's last retry only; one at the first try gives 1
    (`docs/spec.md`, 2.14).

    Args:
        capacity: Tokens when full. 1 to 1,000,000,000; 500 by default.
        cost: What a retry costs. 1 to 65,535; 5 by default.
        timeout_cost: What a retry after an attempt timeout costs. 1 to 65,535; 10 by default.
        throttled_cost: What a retry after a throttled outcome costs. 1 to 65,535; `cost` by default.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> quota = RetryQuota(capacity=12)
        >>> quota.try_acquire(), quota.try_acquire("timeout"), quota.available
        (5, None, 7)
        >>> quota.on_success(cost=5)
        >>> quota.available
        12
    """

    __slots__ = ()

    def __init__(
        self,
        capacity: int = UNSET,
        cost: int = UNSET,
        timeout_cost: int = UNSET,
        throttled_cost: int = UNSET,
    ) -> None:
        options: dict[str, Any] = {
            "kind": "quota",
            "capacity": capacity,
            "cost": cost,
            "timeout_cost": timeout_cost,
            "throttled_cost": throttled_cost,
        }
        self._native: _native.RetryQuota = made(_native.RetryQuota, "retry.budget", options)

    def try_acquire(self, kind: Literal["transient", "timeout", "throttled"] = "transient") -> int | None:
        """Pays for a retry after a failure of this kind: the cost, or None if the tokens are too few."""
        return self._native.try_acquire(kind)

    def on_success(self, cost: int = 0) -> None:
        """Reports a success of a call whose last retry cost `cost`: 0 if it had none."""
        self._native.on_success(whole("cost", cost, 0, U16))

    def refund(self, cost: int) -> None:
        """Refunds the charge of a retry that was never started; 0 to 65,535."""
        self._native.refund(whole("cost", cost, 0, U16))

    @property
    def available(self) -> int:
        """Tokens left."""
        return self._native.available()
