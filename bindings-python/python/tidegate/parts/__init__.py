"""The engine's single parts, for programs with a retry loop of their own that need one decision.

No part reads a clock. A part that needs the time takes `now`: seconds on any clock that never goes back
(`time.monotonic()`, an event loop's `time()`, a simulation's), always the same clock for the same part. Spans
are seconds or `timedelta`; parts return seconds. All parts are thread-safe.

Ranges and defaults are those of the keys of a policy (`docs/reference.md`), and core validates them. A
mistake raises a `tidegate.PolicyError`, which is a `ValueError`, with the key, the value and the rule.

| For | Parts |
|---|---|
| delays | `Backoff`, `parse_retry_after` |
| budgets | `EarnedBudget`, `RetryBudget`, `RatioBudget`, `ShareBudget`, `TokenBudget`, `RetryQuota` |
| retry tokens | `RetryStrategy` |
| rates | `TokenBucket`, `Gcra`, `CubicRate` |
| concurrency and queues | `Aimd`, `Gradient2`, `CoDel` |
| admission | `CircuitBreaker`, `AdaptiveThrottle` |
| latency quantiles | `P2Quantile`, `WindowedP2Quantile`, `DDSketch` |
"""

from __future__ import annotations

from ._breaker import AdaptiveThrottle, CircuitBreaker, Ticket
from ._budgets import EarnedBudget, RatioBudget, RetryBudget, RetryQuota, ShareBudget, TokenBudget
from ._delay import Backoff, parse_retry_after
from ._limit import Aimd, CoDel, Gradient2
from ._quantile import DDSketch, P2Quantile, WindowedP2Quantile
from ._rate import CubicRate, Gcra, TokenBucket
from ._strategy import ErrorInfo, RetryError, RetryStrategy, RetryToken

__all__ = [
    "AdaptiveThrottle",
    "Aimd",
    "Backoff",
    "CircuitBreaker",
    "CoDel",
    "CubicRate",
    "DDSketch",
    "EarnedBudget",
    "ErrorInfo",
    "Gcra",
    "Gradient2",
    "P2Quantile",
    "RatioBudget",
    "RetryBudget",
    "RetryError",
    "RetryQuota",
    "RetryStrategy",
    "RetryToken",
    "ShareBudget",
    "Ticket",
    "TokenBucket",
    "TokenBudget",
    "WindowedP2Quantile",
    "parse_retry_after",
]
