"""httpware's resilience middlewares on Tidegate's engine.

    from tidegate.compat.httpware import AsyncBulkhead, AsyncRetry      # httpware.middleware.resilience

    client = httpware.AsyncClient(middleware=[AsyncBulkhead(max_concurrent=10), AsyncRetry()])

Parameters, defaults, notes, events and errors are those that httpware documents; its errors are raised as
its own classes too, where it has been imported. What differs, and why: `docs/python/migrate-httpware.md`.
"""

from __future__ import annotations

from ._breaker import CircuitState
from ._breakers import AsyncCircuitBreaker, AsyncKeyedCircuitBreaker, CircuitBreaker, KeyedCircuitBreaker
from ._budget import RetryBudget
from ._bulkhead import AsyncBulkhead, Bulkhead
from ._errors import BulkheadFullError, CircuitOpenError, OverallTimeoutError, RetryBudgetExhaustedError
from ._retry import AsyncRetry, Retry
from ._timeout import AsyncTimeout

__all__ = [
    "AsyncBulkhead",
    "AsyncCircuitBreaker",
    "AsyncKeyedCircuitBreaker",
    "AsyncRetry",
    "AsyncTimeout",
    "Bulkhead",
    "BulkheadFullError",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitState",
    "KeyedCircuitBreaker",
    "OverallTimeoutError",
    "Retry",
    "RetryBudget",
    "RetryBudgetExhaustedError",
]
