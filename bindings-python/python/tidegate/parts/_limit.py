# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.
"""How much at once: the controllers of adaptive limits, and of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tidegate import _native
from tidegate._engine.options import UNSET

from ._part import U32, Part, made, real, seconds, whole

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Unpack

    from tidegate._engine.clock import Span

    class AimdKeys(TypedDict, total=False):
        """The keys of `Aimd`."""

        max_concurrency: int
        latency_threshold: Span
        min_concurrency: int
        increase_step: float
        backoff_ratio: float
        cut_interval: Span
        latency_quantile: float

    class Gradient2Keys(TypedDict, total=False):
        """The keys of `Gradient2`."""

        max_concurrency: int
        min_concurrency: int
        long_window: int
        rtt_tolerance: float
        headroom: float
        variant: Literal["steady", "guarded", "plain", "netflix"]

    class CoDelKeys(TypedDict, total=False):
        """The keys of `CoDel`."""

        queue_target: Span
        queue_interval: Span
        codel: Literal["facebook", "rfc8289"]


class Aimd(Part):
    """A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.

    Additive increase, multiplicative decrease, as TCP does it: several of them on one server share it evenly
    without knowing each other. It computes the limit only: report how calls ended, and read the limit. Your
    code keeps the permits and the queue (`docs/spec.md`, 4.2).

    Args:
        max_concurrency: The limit at first and at most, in calls. 1 to 1,000,000,000.
        latency_threshold: A completion within it raises the limit, one over it cuts it. Seconds or
            `timedelta`, 1 µs to 365 days.
        min_concurrency: The limit at least; at most `max_concurrency`. 1 to 1,000,000,000; 1 by default.
        increase_step: What a good completion adds, divided by the limit. At least 0.000001; 1 by default.
        backoff_ratio: What a cut multiplies the limit by. 0.01 to 0.999; 0.9 by default.
        cut_interval: At most one cut per interval. Seconds or `timedelta`, 0 to 365 days; 1 s by default.
        latency_quantile: Compare this quantile of recent latencies with the threshold, instead of each one.
            0.001 to 0.999; off by default.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> limit = Aimd(max_concurrency=20, latency_threshold=0.3, backoff_ratio=0.5)
        >>> limit.on_latency(0.301, now=0.0)
        >>> limit.limit
        10
        >>> for _ in range(11):
        ...     limit.on_latency(0.2, now=0.1)
        >>> limit.limit
        11
    """

    __slots__ = ()

    def __init__(
        self,
        max_concurrency: int,
        latency_threshold: Span,
        min_concurrency: int = UNSET,
        increase_step: float = UNSET,
        backoff_ratio: float = UNSET,
        cut_interval: Span = UNSET,
        latency_quantile: float = UNSET,
    ) -> None:
        options: dict[str, Any] = {
            "kind": "aimd",
            "max_concurrency": max_concurrency,
            "latency_threshold": latency_threshold,
            "min_concurrency": min_concurrency,
            "increase_step": increase_step,
            "backoff_ratio": backoff_ratio,
            "cut_interval": cut_interval,
            "latency_quantile": latency_quantile,
        }
        self._native: _native.Aimd = made(_native.Aimd, "bulkhead", options)

    @property
    def limit(self) -> int:
        """Calls that may be in flight."""
        return self._native.limit()

    @property
    def exact(self) -> float:
        """The limit with the fraction that it keeps inside."""
        return self._native.exact()

    def on_latency(self, latency: Span, now: float) -> None:
        """A call has ended well, after `latency`: 0 or more."""
        self._native.on_latency(latency if type(latency) is float else seconds(latency), now)

    def on_failure(self, latency: Span, now: float) -> None:
        """A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach."""
        self._native.on_failure(latency if type(latency) is float else seconds(latency), now)

    def on_timeout(self, now: float) -> None:
        """A call was stopped by its timeout, which is a breach whatever the quantile is."""
        self._native.on_timeout(now)

    def is_fresh(self, now: float) -> bool:
        """Whether it is as new: at its maximum, with no recent cut and no estimate."""
        return self._native.is_fresh(now)

    def retune(self, **settings: Unpack[AimdKeys]) -> None:
        """Applies new settings, with the same keys as before.

        A limit at its maximum moves with it; any other stays where it is, within the new range.
        """
        options: dict[str, Any] = {"kind": "aimd", **settings}
        made(self._native.retune, "bulkhead", options)


class Gradient2(Part):
    """A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).

    It compares the latest latencies with their long-term average, so it needs no threshold (Netflix
    `concurrency-limits`; `steady` is what this project made of it, `docs/adr/0007`).

    Args:
        max_concurrency: The limit at most, in calls; it begins at 20, within its range. 1 to 1,000,000,000.
        min_concurrency: The limit at least; at most `max_concurrency`. 1 to 1,000,000,000; 1 by default.
        long_window: Completions that the long-term latency looks back on. 2 to 1,000,000; 600 by default.
        rtt_tolerance: How much longer than the long-term latency is still good. 1 to 100; 1.5 by default.
        headroom: How many more than now the limit reaches for. At least 0; 4 by default.
        variant: steady decides once per round trip and comes back to what the server can take; the others are
            older rules. `"steady"` (default), `"guarded"`, `"plain"`, `"netflix"`.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> limit = Gradient2(max_concurrency=200, variant="guarded")
        >>> limit.on_latency(0.1, started=0.0, in_flight=20, now=0.1)
        >>> limit.exact
        20.8
        >>> limit.on_latency(0.9, started=0.0, in_flight=20, now=0.9)
        >>> limit.limit
        17
    """

    __slots__ = ()

    def __init__(
        self,
        max_concurrency: int,
        min_concurrency: int = UNSET,
        long_window: int = UNSET,
        rtt_tolerance: float = UNSET,
        headroom: float = UNSET,
        variant: Literal["steady", "guarded", "plain", "netflix"] = UNSET,
    ) -> None:
        options: dict[str, Any] = {
            "kind": "gradient2",
            "max_concurrency": max_concurrency,
            "min_concurrency": min_concurrency,
            "long_window": long_window,
            "rtt_tolerance": rtt_tolerance,
            "headroom": headroom,
            "variant": variant,
        }
        self._native: _native.Gradient2 = made(_native.Gradient2, "bulkhead", options)

    @property
    def limit(self) -> int:
        """Calls that may be in flight."""
        return self._native.limit()

    @property
    def exact(self) -> float:
        """The limit with the fraction that it keeps inside."""
        return self._native.exact()

    @property
    def baseline(self) -> float | None:
        """The long-term latency in seconds; None before the first sample."""
        return self._native.baseline()

    def on_latency(self, rtt: Span, started: float, in_flight: int, now: float) -> None:
        """A call has ended well.

        Args:
            rtt: How long it took; 0 or more.
            started: When it started, on the clock of `now`.
            in_flight: Calls in flight when it ended, itself included; 0 to 2^32 − 1.
            now: The present, in seconds.
        """
        try:
            self._native.on_latency(rtt if type(rtt) is float else seconds(rtt), started, in_flight, now)
        except (OverflowError, TypeError):
            whole("in_flight", in_flight, 0, U32)
            raise

    def on_drop(self, started: float, in_flight: int, now: float) -> None:
        """A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.

        Args:
            started: When it started, on the clock of `now`.
            in_flight: Calls in flight when it ended, itself included; 0 to 2^32 − 1.
            now: The present, in seconds.
        """
        try:
            self._native.on_drop(started, in_flight, now)
        except (OverflowError, TypeError):
            whole("in_flight", in_flight, 0, U32)
            raise

    @property
    def is_fresh(self) -> bool:
        """Whether it is as new: before its first sample or drop."""
        return self._native.is_fresh()

    def retune(self, **settings: Unpack[Gradient2Keys]) -> None:
        """Applies new settings, with the same keys as before, and keeps the estimates."""
        options: dict[str, Any] = {"kind": "gradient2", **settings}
        made(self._native.retune, "bulkhead", options)


class CoDel(Part):
    """Decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).

    It bounds a queue by the time that waiters spend in it, not by its length alone. It does not hold the
    queue: ask it for each waiter that is taken out, and report when the queue is empty.

    Args:
        queue_target: The wait that is allowed at any time; less than the interval. Seconds or `timedelta`, 1
            µs to 365 days.
        queue_interval: How long a queue that never empties is not yet congested. Seconds or `timedelta`, 1 µs
            to 365 days; 0.1 s by default.
        codel: The law: facebook ("Fail at Scale", ACM Queue 2015) sheds a waiter that has waited longer than
            the interval, and longer than the target where the queue has not been empty for an interval;
            rfc8289 sheds one waiter, then more and more often, once waits have stayed above the target.
            `"facebook"` (default), `"rfc8289"`.
        now: The present, on your clock: the queue is empty.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> queue = CoDel(queue_target=0.005, now=0.0)
        >>> queue.on_empty(now=0.02)
        >>> queue.should_shed(0.08, now=0.1)
        False
        >>> queue.should_shed(0.08, now=0.12), queue.congested(now=0.12)
        (True, True)
    """

    __slots__ = ()

    def __init__(
        self,
        queue_target: Span,
        queue_interval: Span = UNSET,
        codel: Literal["facebook", "rfc8289"] = UNSET,
        *,
        now: float,
    ) -> None:
        options: dict[str, Any] = {
            "max_concurrency": 1,
            "max_queue": 1,
            "queue_target": queue_target,
            "queue_interval": queue_interval,
            "codel": codel,
        }
        self._native: _native.CoDel = made(_native.CoDel, "bulkhead", options, now)

    def on_empty(self, now: float) -> None:
        """The queue is empty: before a waiter comes, or after the last one has left."""
        self._native.on_empty(now)

    def should_shed(self, sojourn: Span, now: float, scale: float = 1.0) -> bool:
        """Whether to shed this waiter. Ask once for each waiter that is taken out.

        Args:
            sojourn: How long it has waited; 0 or more.
            now: The present, in seconds.
            scale: Factor by which its importance extends the allowed wait; 0.01 to 100. A policy has 0.25 for
                `best_effort`, 0.5 for `degraded`, 1 for `normal` and 2 for `critical`.
        """
        return self._native.should_shed(
            sojourn if type(sojourn) is float else seconds(sojourn),
            now,
            real("scale", scale, 0.01, 100.0),
        )

    def congested(self, now: float) -> bool:
        """Whether the queue has not been empty for a whole interval; then serve the newest waiter first."""
        return self._native.congested(now)

    def allowance(self, now: float) -> float:
        """Seconds that a waiter of scale 1 may have waited, under the law of `facebook`."""
        return self._native.allowance(now)

    def retune(self, **settings: Unpack[CoDelKeys]) -> None:
        """Applies new settings, with the same keys as before. A change of the law resets the state."""
        options: dict[str, Any] = {"max_concurrency": 1, "max_queue": 1, **settings}
        made(self._native.retune, "bulkhead", options)
