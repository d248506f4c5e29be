"""The strategies of a policy, with forze's names and rules. They are settings only; the engine decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

from ._errors import RETRYABLE, ExceptionKind, exc

JitterMode: TypeAlias = Literal["none", "full", "equal", "decorrelated"]

_ZERO: Final = timedelta(0)


def rule(holds: object, says: str, value: object) -> None:
    """Raises an error for a value that breaks a rule; `says` names the key and the rule."""
    if not holds:
        raise exc.configuration(f"{says}, got {value!r}")


def _inside(value: float, low: float, high: float) -> bool:
    return low < value < high


@dataclass(frozen=True, kw_only=True)
class BackoffStrategy:
    """The wait before a retry.

    Args:
        base: The wait before the first retry; above zero.
        max: The longest wait; `base` or more.
        multiplier: The growth from one retry to the next; 1 or more.
        jitter: Kind of random variation of the waits.
    """

    base: timedelta
    max: timedelta
    multiplier: float = 2.0
    jitter: JitterMode = "decorrelated"

    def __post_init__(self) -> None:
        rule(self.base > _ZERO, "Backoff base must be positive", self.base)
        rule(self.max >= self.base, "Backoff max must be >= base", self.max)
        rule(self.multiplier >= 1, "Backoff multiplier must be >= 1", self.multiplier)


@dataclass(frozen=True, kw_only=True)
class RetryBudget:
    """Limits retries, or hedges, to a share of the calls.

    Args:
        ratio: Retries that a call earns; above 0, at most 1.
        min_throughput: Number of calls up to which retries are free; 0 or more.
    """

    ratio: float
    min_throughput: int = 0

    def __post_init__(self) -> None:
        rule(0 < self.ratio <= 1, "Retry budget ratio must be in (0, 1]", self.ratio)
        rule(self.min_throughput >= 0, "Retry budget min_throughput must be >= 0", self.min_throughput)


@dataclass(frozen=True, kw_only=True)
class RetryStrategy:
    """When to try again.

    Args:
        max_attempts: Attempts including the first; 1 or more.
        backoff: The wait before a retry.
        retry_on: The kinds of failure to retry; only retryable kinds.
        budget: The limit of retries to a share of the calls; no limit if left out.
    """

    max_attempts: int
    backoff: BackoffStrategy
    retry_on: frozenset[ExceptionKind]
    budget: RetryBudget | None = None

    def __post_init__(self) -> None:
        kinds = frozenset(ExceptionKind(str(kind)) for kind in self.retry_on)
        object.__setattr__(self, "retry_on", kinds)
        rule(self.max_attempts >= 1, "Retry max_attempts must be >= 1", self.max_attempts)
        rule(kinds, "Retry retry_on must not be empty", self.retry_on)
        wrong = sorted(kind.value for kind in kinds - RETRYABLE)
        if wrong:
            raise exc.configuration("Retry retry_on includes non-retryable kinds: " + ", ".join(wrong))


@dataclass(frozen=True, kw_only=True)
class TimeoutStrategy:
    """Time limit of an attempt.

    Args:
        timeout: The time of each attempt; above zero.
    """

    timeout: timedelta

    def __post_init__(self) -> None:
        rule(self.timeout > _ZERO, "Timeout must be positive", self.timeout)


@dataclass(frozen=True, kw_only=True)
class RateLimitStrategy:
    """Rate limit: a token bucket with continuous refill.

    Args:
        permits: Calls per span; 1 or more.
        per: The span; above zero.
        burst: Calls that may start at once after an idle period; `permits` if left out.
    """

    permits: int
    per: timedelta
    burst: int | None = None

    def __post_init__(self) -> None:
        rule(self.permits >= 1, "Rate limit permits must be >= 1", self.permits)
        rule(self.per > _ZERO, "Rate limit per must be positive", self.per)
        rule(self.burst is None or self.burst >= 1, "Rate limit burst must be >= 1", self.burst)

    @property
    def capacity(self) -> int:
        """Calls that may start at once after an idle period."""
        return self.permits if self.burst is None else self.burst


@dataclass(frozen=True, kw_only=True)
class _Queued:
    """Common settings of bulkheads: the limit, and the management of the queue."""

    max_concurrency: int
    max_queue: int = 0
    queue_target: timedelta | None = None
    queue_interval: timedelta = timedelta(milliseconds=100)
    queue_adaptive_lifo: bool = False
    prioritized: bool = False

    def _check_queue(self, kind: str) -> None:
        rule(self.max_queue >= 0, f"{kind} max_queue must be >= 0", self.max_queue)
        target, interval = self.queue_target, self.queue_interval
        rule(target is None or target > _ZERO, "Bulkhead queue_target must be positive", target)
        rule(interval > _ZERO, "Bulkhead queue_interval must be positive", interval)
        rule(
            target is None or target < interval,
            "Bulkhead queue_target must be smaller than queue_interval",
            target,
        )
        managed = target is not None or self.queue_adaptive_lifo or self.prioritized
        rule(
            not managed or self.max_queue >= 1,
            "Bulkhead queue management (queue_target / queue_adaptive_lifo / prioritized)"
            " requires max_queue >= 1",
            self.max_queue,
        )


@dataclass(frozen=True, kw_only=True)
class BulkheadStrategy(_Queued):
    """Limit of calls in flight.

    Args:
        max_concurrency: The limit; 1 or more.
        max_queue: Calls that may wait for a slot; 0 or more.
        queue_target: Longest wait of a call while the queue never empties; no such limit if left out.
        queue_interval: Time without an empty queue after which the queue counts as congested.
        queue_adaptive_lifo: Whether the newest call is served first while the queue is congested.
        prioritized: Whether a call displaces one of lower criticality when the queue is full.
    """

    def __post_init__(self) -> None:
        rule(self.max_concurrency >= 1, "Bulkhead max_concurrency must be >= 1", self.max_concurrency)
        self._check_queue("Bulkhead")


@dataclass(frozen=True, kw_only=True)
class AdaptiveBulkheadStrategy(_Queued):
    """Adaptive limit by latency: falls when calls take longer than a threshold, and grows back (AIMD).

    Args:
        latency_threshold: Latency above which the limit is cut; above zero.
        max_concurrency: The highest limit, which is also the initial one.
        latency_quantile: Compares this quantile of recent calls with the threshold, instead of each call;
            above 0, below 1.
        min_concurrency: The lowest limit; 1 or more.
        backoff_ratio: Factor by which a cut multiplies the limit; above 0, below 1.
        increase_step: Increase after a successful call, divided by the limit; above 0.
        cooldown: Shortest time between two cuts.
        max_queue: As in `BulkheadStrategy`; the same holds for all further arguments.
    """

    latency_threshold: timedelta
    latency_quantile: float | None = None
    min_concurrency: int = 1
    backoff_ratio: float = 0.9
    increase_step: float = 1.0
    cooldown: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        name = "Adaptive bulkhead"
        quantile = self.latency_quantile
        rule(
            self.latency_threshold > _ZERO,
            f"{name} latency_threshold must be positive",
            self.latency_threshold,
        )
        rule(
            quantile is None or _inside(quantile, 0, 1),
            f"{name} latency_quantile must be in (0, 1)",
            quantile,
        )
        _check_limits(name, self.min_concurrency, self.max_concurrency)
        rule(_inside(self.backoff_ratio, 0, 1), f"{name} backoff_ratio must be in (0, 1)", self.backoff_ratio)
        rule(self.increase_step > 0, f"{name} increase_step must be positive", self.increase_step)
        rule(self.cooldown >= _ZERO, f"{name} cooldown must be >= 0", self.cooldown)
        self._check_queue(name)


@dataclass(frozen=True, kw_only=True)
class GradientBulkheadStrategy(_Queued):
    """Adaptive limit by changes of latency, without a threshold (Gradient2).

    Args:
        max_concurrency: The highest limit.
        min_concurrency: The lowest limit; 1 or more.
        rtt_tolerance: Accepted latency as a multiple of the long-term latency; 1 or more.
        smoothing: Speed of growth; only 0.2 is supported.
        long_window: Number of calls behind the long-term latency; 2 or more.
        headroom: Number of calls by which the target of growth exceeds the current limit; 0 or more.
        max_queue: As in `BulkheadStrategy`; the same holds for all further arguments.
    """

    min_concurrency: int = 1
    rtt_tolerance: float = 1.5
    smoothing: float = 0.2
    long_window: int = 600
    headroom: float = 4.0

    def __post_init__(self) -> None:
        name = "Gradient bulkhead"
        _check_limits(name, self.min_concurrency, self.max_concurrency)
        rule(self.rtt_tolerance >= 1, f"{name} rtt_tolerance must be >= 1.0", self.rtt_tolerance)
        rule(0 < self.smoothing <= 1, f"{name} smoothing must be in (0, 1]", self.smoothing)
        rule(self.smoothing == 0.2, f"{name} smoothing can only be 0.2 here", self.smoothing)
        rule(self.long_window >= 2, f"{name} long_window must be >= 2", self.long_window)
        rule(self.headroom >= 0, f"{name} headroom must be >= 0", self.headroom)
        self._check_queue(name)


def _check_limits(name: str, low: int, high: int) -> None:
    rule(low >= 1, f"{name} min_concurrency must be >= 1", low)
    rule(high >= low, f"{name} max_concurrency must be >= min_concurrency", high)


@dataclass(frozen=True, kw_only=True)
class CircuitBreakerStrategy:
    """Circuit breaker: stops calls while many of them fail.

    Args:
        failure_ratio: Share of failures among recent calls that opens it; above 0, at most 1.
        sampling_window: Time for which a call counts as recent; above zero.
        min_throughput: Number of calls in the window before the ratio applies; 1 or more.
        break_duration: Time for which it stays open; above zero.
        half_open_max_calls: Concurrent probes after that; 1 or more.
        failure_on: The kinds that count as failures. Exceptions without a kind count as failures too.
        ignore_on: The kinds that are ignored; all others count as success.
    """

    failure_ratio: float
    sampling_window: timedelta
    min_throughput: int
    break_duration: timedelta
    half_open_max_calls: int = 1
    failure_on: frozenset[ExceptionKind] = frozenset({ExceptionKind.INFRASTRUCTURE, ExceptionKind.TIMEOUT})
    ignore_on: frozenset[ExceptionKind] = frozenset({ExceptionKind.THROTTLED, ExceptionKind.CONCURRENCY})

    def __post_init__(self) -> None:
        for name in ("failure_on", "ignore_on"):
            kinds = frozenset(ExceptionKind(str(kind)) for kind in getattr(self, name))
            object.__setattr__(self, name, kinds)
        name = "Circuit breaker"
        rule(self.failure_on, f"{name} failure_on must not be empty", self.failure_on)
        shared = sorted(kind.value for kind in self.failure_on & self.ignore_on)
        if shared:
            raise exc.configuration(f"{name} failure_on and ignore_on share kinds: " + ", ".join(shared))
        rule(0 < self.failure_ratio <= 1, f"{name} failure_ratio must be in (0, 1]", self.failure_ratio)
        rule(self.sampling_window > _ZERO, f"{name} sampling_window must be positive", self.sampling_window)
        rule(self.min_throughput >= 1, f"{name} min_throughput must be >= 1", self.min_throughput)
        rule(self.break_duration > _ZERO, f"{name} break_duration must be positive", self.break_duration)
        rule(
            self.half_open_max_calls >= 1,
            f"{name} half_open_max_calls must be >= 1",
            self.half_open_max_calls,
        )


@dataclass(frozen=True, kw_only=True)
class AdaptiveThrottleStrategy:
    """Adaptive throttle: refuses a share of the calls while many of them fail.

    Args:
        k: Requests admitted per accepted request; 1 or more.
        window: Time for which a call counts; above zero.
        min_throughput: Number of calls in the window before any is refused; 1 or more.
    """

    k: float = 2.0
    window: timedelta = timedelta(minutes=2)
    min_throughput: int = 10

    def __post_init__(self) -> None:
        rule(self.k >= 1, "Adaptive throttle k must be >= 1", self.k)
        rule(self.window > _ZERO, "Adaptive throttle window must be positive", self.window)
        rule(self.min_throughput >= 1, "Adaptive throttle min_throughput must be >= 1", self.min_throughput)


@dataclass(frozen=True, kw_only=True)
class HedgeStrategy:
    """Hedging: starts a further attempt in parallel to a slow one.

    Args:
        delay: Time to wait for a result before a hedge starts; 0 or more.
        max_attempts: Concurrent attempts including the first; 2 or more.
        budget: The limit of hedges to a share of the calls; no limit if left out.
        adaptive_delay_quantile: The delay is this quantile of recent calls, once there are five of them.
        delay_min: The shortest such delay.
        delay_max: The longest such delay.
    """

    delay: timedelta
    max_attempts: int
    budget: RetryBudget | None = None
    adaptive_delay_quantile: float | None = None
    delay_min: timedelta | None = None
    delay_max: timedelta | None = None

    def __post_init__(self) -> None:
        quantile, low, high = self.adaptive_delay_quantile, self.delay_min, self.delay_max
        rule(self.delay >= _ZERO, "Hedge delay must be >= 0", self.delay)
        rule(self.max_attempts >= 2, "Hedge max_attempts must be >= 2", self.max_attempts)
        rule(
            quantile is None or _inside(quantile, 0, 1),
            "Hedge adaptive_delay_quantile must be in (0, 1)",
            quantile,
        )
        rule(
            quantile is not None or (low is None and high is None),
            "Hedge delay_min/delay_max require adaptive_delay_quantile",
            quantile,
        )
        rule(low is None or low > _ZERO, "Hedge delay_min must be positive", low)
        rule(high is None or high > _ZERO, "Hedge delay_max must be positive", high)
        rule(low is None or high is None or low <= high, "Hedge delay_min must be <= delay_max", low)


@dataclass(frozen=True, kw_only=True)
class FallbackStrategy:
    """Allows calls to pass a fallback. Its position among the strategies has no effect."""


Strategy: TypeAlias = (
    RateLimitStrategy
    | BulkheadStrategy
    | AdaptiveBulkheadStrategy
    | GradientBulkheadStrategy
    | CircuitBreakerStrategy
    | AdaptiveThrottleStrategy
    | RetryStrategy
    | TimeoutStrategy
    | FallbackStrategy
)

BULKHEADS: Final = (BulkheadStrategy, AdaptiveBulkheadStrategy, GradientBulkheadStrategy)
_ORDER: Final[list[tuple[type[Any], ...]]] = [
    (RateLimitStrategy,),
    BULKHEADS,
    (CircuitBreakerStrategy, AdaptiveThrottleStrategy),
    (RetryStrategy,),
    (TimeoutStrategy,),
]


@dataclass(frozen=True, kw_only=True)
class ResiliencePolicy:
    """A named stack of strategies, the outermost first.

    Args:
        name: Its name.
        strategies: At most one of each, in the order rate limit, bulkhead, breaker or throttle, retry,
            timeout; `FallbackStrategy` anywhere.
        hedge: The settings of `run_hedged`.

    Raises:
        CoreException: Of the kind `configuration`, if an argument is invalid.
    """

    name: str
    strategies: tuple[Strategy, ...]
    hedge: HedgeStrategy | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", tuple(self.strategies))
        rule(self.strategies, "Resilience policy must declare a strategy", self.strategies)
        kinds = [type(strategy) for strategy in self.strategies]
        working = [kind for kind in kinds if kind is not FallbackStrategy]
        ranks = [next((at for at, row in enumerate(_ORDER) if kind in row), None) for kind in working]
        for kind, rank in zip(working, ranks, strict=True):
            rule(rank is not None, "Resilience policy strategies must be strategies", kind.__name__)
        names = [kind.__name__ for kind in working]
        rule(len(set(working)) == len(working), "Resilience policy has duplicate strategy types", names)
        rule(
            sum(kind in BULKHEADS for kind in working) <= 1,
            "Resilience policy cannot combine Bulkhead / AdaptiveBulkhead / GradientBulkhead strategies"
            " — they occupy the same slot",
            names,
        )
        rule(
            not {CircuitBreakerStrategy, AdaptiveThrottleStrategy} <= set(working),
            "Resilience policy cannot combine CircuitBreakerStrategy with AdaptiveThrottleStrategy"
            " — they occupy the same slot",
            names,
        )
        rule(
            ranks == sorted(rank for rank in ranks if rank is not None),
            "Resilience policy strategies must be ordered"
            " RateLimit -> Bulkhead -> CircuitBreaker -> Retry -> Timeout",
            names,
        )

    @property
    def rate_limit(self) -> RateLimitStrategy | None:
        """Its rate limit."""
        found = (strategy for strategy in self.strategies if isinstance(strategy, RateLimitStrategy))
        return next(found, None)

    @property
    def bulkhead(self) -> Strategy | None:
        """Its bulkhead, of any kind."""
        return next((strategy for strategy in self.strategies if type(strategy) in BULKHEADS), None)

    @property
    def has_fallback(self) -> bool:
        """Whether calls may pass a fallback."""
        return any(isinstance(strategy, FallbackStrategy) for strategy in self.strategies)

    @property
    def retry(self) -> RetryStrategy | None:
        """Its retry strategy; None without one."""
        return next((it for it in self.strategies if isinstance(it, RetryStrategy)), None)


@dataclass(frozen=True, kw_only=True)
class ResilienceSpec:
    """Policies by name.

    Args:
        name: Name of the catalogue, which has no effect.
        policies: The policies; each key is the name of its policy.
    """

    policies: dict[str, ResiliencePolicy]
    name: str = "resilience"

    def __post_init__(self) -> None:
        rule(self.policies, "Resilience spec must declare at least one policy", self.policies)
        for key, policy in self.policies.items():
            if str(key) != policy.name:
                raise exc.configuration(
                    f"Resilience policy key {key!r} does not match policy name {policy.name!r}"
                )
