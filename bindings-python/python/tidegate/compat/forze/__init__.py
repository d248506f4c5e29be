"""Compatibility layer for forze: policies as stacks of strategies, and calls by a policy's name.

    executor = ResilienceExecutor(ResilienceSpec(policies={"vendor": ResiliencePolicy(
        name="vendor", strategies=(RateLimitStrategy(permits=10, per=timedelta(seconds=1)),)
    )}))
    order = await executor.run(lambda: vendor.fetch(order_id), policy="vendor", route="eu")

Failures are judged by their kind (`CoreException`, or any exception whose `kind` is one of forze's). Only
`concurrency`, `infrastructure` and `throttled` can be retried. If the policy refuses or stops a call, it
raises a `CoreException` with forze's kinds and codes, whose `__cause__` is the engine's own error.

`document_of` converts policies to a policy document.
"""

from __future__ import annotations

from ._context import Criticality, bind_criticality, bind_deadline, current_criticality
from ._errors import CoreException, ExceptionKind, exc
from ._executor import ResilienceExecutor, ResilienceStateSnapshot, builtin_default_policies
from ._ports import (
    MiddlewareStep,
    PortPolicy,
    ResilienceDepsModule,
    ResilienceWrap,
    default_resilience_executor,
)
from ._stores import (
    FleetPart,
    redis_circuit_breaker_store,
    redis_latency_digest_store,
    redis_rate_limit_store,
)
from ._strategies import (
    AdaptiveBulkheadStrategy,
    AdaptiveThrottleStrategy,
    BackoffStrategy,
    BulkheadStrategy,
    CircuitBreakerStrategy,
    FallbackStrategy,
    GradientBulkheadStrategy,
    HedgeStrategy,
    JitterMode,
    RateLimitStrategy,
    ResiliencePolicy,
    ResilienceSpec,
    RetryBudget,
    RetryStrategy,
    Strategy,
    TimeoutStrategy,
)
from ._translate import classify, document_of

__all__ = [
    "AdaptiveBulkheadStrategy",
    "AdaptiveThrottleStrategy",
    "BackoffStrategy",
    "BulkheadStrategy",
    "CircuitBreakerStrategy",
    "CoreException",
    "Criticality",
    "ExceptionKind",
    "FallbackStrategy",
    "FleetPart",
    "GradientBulkheadStrategy",
    "HedgeStrategy",
    "JitterMode",
    "MiddlewareStep",
    "PortPolicy",
    "RateLimitStrategy",
    "ResilienceDepsModule",
    "ResilienceExecutor",
    "ResiliencePolicy",
    "ResilienceSpec",
    "ResilienceStateSnapshot",
    "ResilienceWrap",
    "RetryBudget",
    "RetryStrategy",
    "Strategy",
    "TimeoutStrategy",
    "bind_criticality",
    "bind_deadline",
    "builtin_default_policies",
    "classify",
    "current_criticality",
    "default_resilience_executor",
    "document_of",
    "exc",
    "redis_circuit_breaker_store",
    "redis_latency_digest_store",
    "redis_rate_limit_store",
]
