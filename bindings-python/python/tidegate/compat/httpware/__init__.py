"""httpware's resilience middlewares on Tidegate's engine.

    from tidegate.compat.httpware import AsyncBulkhead, AsyncRetry      # httpware.middleware.resilience

    client = httpware.AsyncClient(middleware=[AsyncBulkhead(max_concurrent=10), AsyncRetry()])

Parameters, defaults, notes, events and errors are those that httpware documents. Errors are also instances
of httpware's classes if it has been imported. `docs/python/migrate-httpware.md` lists the differences.
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
