"""Tidegate: retries with a budget, limits, breakers and deadlines, decided by one engine for every language.

A `Policy` is what happens around a call. It serves threads and event loops at once, as a function, a
coroutine or a decorator:

    payments = tidegate.Policy("payments", deadline=10.0, retry=tidegate.Retry(max_attempts=3))

    payments.call(charge, order)            # in this thread
    await payments.acall(charge, order)     # in this task

    @payments
    async def charge(order): ...

    for attempt in payments.attempts():     # or `async for`
        with attempt:
            charge(order)

Around an HTTP client it is a transport: `httpx.Client(transport=tidegate.httpx.Transport(policy=payments))`,
after `import tidegate.httpx`. Spans are seconds or `timedelta`.
"""

from __future__ import annotations

from . import _native
from ._admission import Admission
from ._attempts import Attempt, Attempts
from ._caller import Caller
from ._classify import Outcome
from ._deadline import criticality, deadline
from ._document import Policies, UnknownPolicy, load, loads
from ._engine import Engine
from ._errors import (
    AttemptTimeout,
    BreakerOpen,
    BulkheadFull,
    CallLost,
    CostAboveBurst,
    DeadlineExceeded,
    ForcedOpen,
    HoldFull,
    PolicyError,
    RateLimited,
    Rejected,
    StateError,
    StoreUnavailable,
    Throttled,
    TidegateError,
    Unsupported,
)
from ._options import (
    Backoff,
    Breaker,
    Budget,
    Bulkhead,
    Hedge,
    HedgeBudget,
    RateLimit,
    Retry,
    Throttle,
)
from ._policy import Policy
from ._pool import Pool

__version__: str = _native.Engine.version

__all__ = [
    "Admission",
    "Attempt",
    "AttemptTimeout",
    "Attempts",
    "Backoff",
    "Breaker",
    "BreakerOpen",
    "Budget",
    "Bulkhead",
    "BulkheadFull",
    "CallLost",
    "Caller",
    "CostAboveBurst",
    "DeadlineExceeded",
    "Engine",
    "ForcedOpen",
    "Hedge",
    "HedgeBudget",
    "HoldFull",
    "Outcome",
    "Policies",
    "Policy",
    "PolicyError",
    "Pool",
    "RateLimit",
    "RateLimited",
    "Rejected",
    "Retry",
    "StateError",
    "StoreUnavailable",
    "Throttle",
    "Throttled",
    "TidegateError",
    "UnknownPolicy",
    "Unsupported",
    "criticality",
    "deadline",
    "load",
    "loads",
]
