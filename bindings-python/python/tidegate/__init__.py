"""Tidegate: retries with a budget, limits, breakers and deadlines, decided by one engine for every language.

A `Policy` determines what happens around a call. Threads and event loops can use it at once, as a function, a
coroutine or a decorator:

    payments = tidegate.Policy("payments", deadline=10.0, retry=tidegate.Retry(max_attempts=3))

    payments.call(charge, order)            # in this thread
    await payments.acall(charge, order)     # in this task

    @payments
    async def charge(order): ...

    for attempt in payments.attempts():     # or `async for`
        with attempt:
            charge(order)

For an HTTP client there is a transport: `httpx.Client(transport=tidegate.httpx.Transport(policy=payments))`,
after `import tidegate.httpx`. Spans are seconds or `timedelta`.
"""

from __future__ import annotations

from . import _native
from ._call.admission import Admission
from ._call.attempts import Attempt, Attempts
from ._call.caller import Caller
from ._call.deadline import criticality, deadline
from ._call.document import Policies, Reloaded, UnknownPolicy, load, loads
from ._call.outcomes import Outcome
from ._call.policy import Policy
from ._call.target import target
from ._call.usage import Estimate, Factors, Usage, tokens
from ._engine.engine import Engine, explain
from ._engine.errors import (
    AttemptTimeout,
    BreakerOpen,
    BulkheadFull,
    CallLost,
    CoolingDown,
    CostAboveBurst,
    DeadlineExceeded,
    ForcedOpen,
    HoldFull,
    NoTarget,
    PolicyError,
    RateLimited,
    Rejected,
    StateError,
    StoreUnavailable,
    StreamStalled,
    TargetsLimited,
    Throttled,
    TidegateError,
    Unsupported,
)
from ._engine.hooks import Retrying
from ._engine.options import (
    Backoff,
    Breaker,
    Budget,
    Bulkhead,
    Cooldown,
    Hedge,
    HedgeBudget,
    RateLimit,
    Retry,
    Throttle,
)
from ._engine.pool import Pool
from ._engine.report import Report, report

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
    "Cooldown",
    "CoolingDown",
    "CostAboveBurst",
    "DeadlineExceeded",
    "Engine",
    "Estimate",
    "Factors",
    "ForcedOpen",
    "Hedge",
    "HedgeBudget",
    "HoldFull",
    "NoTarget",
    "Outcome",
    "Policies",
    "Policy",
    "PolicyError",
    "Pool",
    "RateLimit",
    "RateLimited",
    "Rejected",
    "Reloaded",
    "Report",
    "Retry",
    "Retrying",
    "StateError",
    "StoreUnavailable",
    "StreamStalled",
    "TargetsLimited",
    "Throttle",
    "Throttled",
    "TidegateError",
    "UnknownPolicy",
    "Unsupported",
    "Usage",
    "criticality",
    "deadline",
    "explain",
    "load",
    "loads",
    "report",
    "target",
    "tokens",
]


def _name_classes() -> None:
    """Names public classes, in tracebacks and pickles, where they are imported from."""
    for name in __all__:
        if isinstance(kind := globals()[name], type):
            kind.__module__ = __name__


_name_classes()
