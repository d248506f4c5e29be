"""The engine's parts on their own: for programs that have a loop of their own, and want one decision.

No part reads a clock. Where one needs the time it takes `now`: seconds on any clock that does not run back
(`time.monotonic()`, an event loop's `time()`, a simulation's), always the same one for the same part. Spans
are seconds or `timedelta`; what a part answers is seconds. Every part may be used from several threads.

Ranges and defaults are those of the keys of a policy (`docs/reference.md`), and core checks them: a mistake
is a `tidegate.PolicyError`, which is a `ValueError`, with the key, the value and the rule.

| For | Parts |
|---|---|
| delays | `Backoff`, `parse_retry_after` |
| budgets | `EarnedBudget`, `RetryBudget`, `RatioBudget`, `ShareBudget`, `TokenBudget`, `RetryQuota` |
| retry tokens | `RetryStrategy` |
| how fast | `TokenBucket`, `Gcra`, `CubicRate` |
| how much at once | `Aimd`, `Gradient2`, `CoDel` |
| who is let through | `CircuitBreaker`, `AdaptiveThrottle` |
| how slow | `P2Quantile`, `WindowedP2Quantile`, `DDSketch` |
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
