"""Translation of forze's strategies to a policy's options or a document, and of its kinds to outcomes."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from functools import singledispatch
from typing import TYPE_CHECKING, Any, Final

from tidegate._call.outcomes import Outcome

from ._errors import ExceptionKind, kind_of
from ._strategies import (
    AdaptiveBulkheadStrategy,
    AdaptiveThrottleStrategy,
    BulkheadStrategy,
    CircuitBreakerStrategy,
    GradientBulkheadStrategy,
    RateLimitStrategy,
    ResiliencePolicy,
    RetryBudget,
    RetryStrategy,
    TimeoutStrategy,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_INFRASTRUCTURE: Final = ExceptionKind.INFRASTRUCTURE
FOREIGN: Final = "core_foreign"
"""Kind of exceptions without a forze kind: a failure of the downstream that is never retried."""

_BASES: Final[dict[ExceptionKind, str]] = {
    ExceptionKind.INFRASTRUCTURE: "transient",
    ExceptionKind.CONCURRENCY: "conflict",
    ExceptionKind.THROTTLED: "throttled",
    # The invocation's own deadline. Not the class `timeout`, which is our attempt timeout and is retried.
    ExceptionKind.TIMEOUT: "transient",
}
_LONGEST_WAIT: Final = 1e6


def named(kind: ExceptionKind) -> str:
    """Returns the name of a kind in a policy. The prefix avoids clashes with built-in classes."""
    return f"core_{kind.value}"


def options_of(policy: ResiliencePolicy) -> dict[str, Any]:
    """Converts a policy's strategies to the options of `tidegate.Policy`."""
    breaker = next((it for it in policy.strategies if isinstance(it, CircuitBreakerStrategy)), None)
    options: dict[str, Any] = {"kinds": _kinds(breaker), "retry": {"max_attempts": 1}}
    for strategy in policy.strategies:
        options |= _option(strategy)
    odd = {named(kind) for kind in good_and_retried(policy)}
    if odd:  # no class has this combination, so `outcome_of` returns an opinion for each
        retry = options["retry"]
        # The list must not be empty, and no outcome here is `never_sent`.
        retry["retry_on"] = [name for name in retry["retry_on"] if name not in odd] or ["never_sent"]
    return options


def hedged_options_of(policy: ResiliencePolicy) -> dict[str, Any]:
    """Converts a policy's hedge to the options of a policy that only hedges."""
    hedge = policy.hedge
    if hedge is None:
        return {}
    given = {
        "delay": hedge.delay,
        "max_attempts": hedge.max_attempts,
        "adaptive_delay_quantile": hedge.adaptive_delay_quantile,
        "delay_min": hedge.delay_min,
        "delay_max": hedge.delay_max,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    return {"kinds": _kinds(None), "hedge": {**chosen, "budget": _budget(hedge.budget)}}


def outcome_of(error: object, retried: frozenset[ExceptionKind] = frozenset()) -> Outcome | None:
    """Returns the outcome of a failure: its kind, and the requested wait if it is a throttled one.

    `retried` are kinds that are retried but count as success for the breaker, which no class can express.
    """
    if not isinstance(error, Exception):
        return None
    kind = kind_of(error)
    if kind is None:
        return Outcome(FOREIGN)
    opinion = "retry" if kind in retried else None
    wait = _wait_of(error) if kind is ExceptionKind.THROTTLED else None
    return Outcome(named(kind), opinion, wait)  # type: ignore[arg-type]


def classify(answer: object) -> Outcome | None:
    """Classifies failures by forze's kinds; the `classify` for policies loaded from `document_of`."""
    return outcome_of(answer)


def good_and_retried(policy: ResiliencePolicy) -> frozenset[ExceptionKind]:
    """Returns the kinds that the policy retries and that its breaker counts as success."""
    breaker = next((it for it in policy.strategies if isinstance(it, CircuitBreakerStrategy)), None)
    if breaker is None or policy.retry is None:
        return frozenset()
    return policy.retry.retry_on - breaker.failure_on - breaker.ignore_on


def document_of(policies: Mapping[str, ResiliencePolicy]) -> str:
    """Converts policies to a document (JSON), for `tidegate.loads(text, form="json", classify=classify)`.

    Hedges are left out: in forze they apply to `run_hedged` only, not to a policy's stack.

    Raises:
        ValueError: If a policy retries a kind that its breaker counts as success, which a document cannot
            express.
    """
    for name, policy in policies.items():
        if odd := good_and_retried(policy):
            kinds = ", ".join(sorted(kind.value for kind in odd))
            raise ValueError(
                f"policy {name!r}: {kinds} in retry_on, and in neither failure_on nor ignore_on, cannot stand"
                " in a document"
            )
    document = {"policy": {name: _spelt(options_of(policy)) for name, policy in policies.items()}}
    return json.dumps(document, indent=2)


def _kinds(breaker: CircuitBreakerStrategy | None) -> dict[str, str]:
    """Returns the kinds of a policy with their classes: `permanent` if its breaker counts them as success."""
    bases = {kind: _BASES.get(kind, "permanent") for kind in ExceptionKind}
    if breaker is not None:
        for kind in ExceptionKind:
            if kind not in breaker.failure_on | breaker.ignore_on:
                bases[kind] = "permanent"
    return {**{named(kind): base for kind, base in bases.items()}, FOREIGN: "transient"}


def _wait_of(error: object) -> float | None:
    """Returns `retry_after` of a failure's details in seconds; None if absent or invalid."""
    details = getattr(error, "details", None)
    wait = details.get("retry_after") if isinstance(details, dict) else None
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not wait >= 0:
        return None
    return float(min(wait, _LONGEST_WAIT))


def _budget(budget: RetryBudget | None) -> dict[str, Any]:
    if budget is None:
        return {"kind": "none"}
    return {"kind": "ratio", "ratio": budget.ratio, "min_throughput": budget.min_throughput}


@singledispatch
def _option(strategy: object) -> dict[str, Any]:
    """Converts a strategy to an option of a policy. A fallback is not an option: `run` takes it."""
    del strategy
    return {}


def _shared(strategy: Any, *names: str) -> dict[str, Any]:
    """Returns the fields with the same name on both sides, without those that are None."""
    values = {name: getattr(strategy, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


@_option.register
def _(strategy: RateLimitStrategy) -> dict[str, Any]:
    return {"rate_limit": _shared(strategy, "permits", "per", "burst")}


def _bulkhead(kind: str, strategy: Any, *names: str) -> dict[str, Any]:
    every = ("max_concurrency", "max_queue", "queue_target", "queue_interval", "queue_adaptive_lifo",
             "prioritized")  # fmt: skip
    # A call waits for a slot as long as its deadline lets it.
    own = {"kind": kind, "acquire_timeout": None}
    return {"bulkhead": {**_shared(strategy, *every, *names), **own}}


@_option.register
def _(strategy: BulkheadStrategy) -> dict[str, Any]:
    return _bulkhead("fixed", strategy)


@_option.register
def _(strategy: AdaptiveBulkheadStrategy) -> dict[str, Any]:
    inherited = {field.name for field in fields(BulkheadStrategy)}
    names = [field.name for field in fields(strategy) if field.name not in inherited]
    option = _bulkhead("aimd", strategy, *names)
    option["bulkhead"]["cut_interval"] = option["bulkhead"].pop("cooldown")
    return option


@_option.register
def _(strategy: GradientBulkheadStrategy) -> dict[str, Any]:
    return _bulkhead("gradient2", strategy, "min_concurrency", "rtt_tolerance", "long_window", "headroom")


@_option.register
def _(strategy: CircuitBreakerStrategy) -> dict[str, Any]:
    ignored = sorted(named(kind) for kind in strategy.ignore_on)
    if _INFRASTRUCTURE not in strategy.failure_on:
        ignored.append("timeout")  # an attempt timeout is a failure of the infrastructure here
    options = _shared(strategy, "failure_ratio", "min_throughput", "break_duration", "half_open_max_calls")
    if ignored:
        options["ignore_on"] = ignored
    return {
        "breaker": {
            **options,
            "window": strategy.sampling_window,
            "break_factor": 1,
            "failure_on": sorted(named(kind) for kind in strategy.failure_on),
        }
    }


@_option.register
def _(strategy: AdaptiveThrottleStrategy) -> dict[str, Any]:
    return {"throttle": _shared(strategy, "k", "window", "min_throughput")}


@_option.register
def _(strategy: RetryStrategy) -> dict[str, Any]:
    retry_on = sorted(named(kind) for kind in strategy.retry_on)
    if _INFRASTRUCTURE in strategy.retry_on:
        retry_on.append("timeout")  # an attempt timeout is a failure of the infrastructure here
    return {
        "retry": {
            "max_attempts": strategy.max_attempts,
            "retry_on": retry_on,
            "backoff": _shared(strategy.backoff, "base", "max", "multiplier", "jitter"),
            "budget": _budget(strategy.budget),
        }
    }


@_option.register
def _(strategy: TimeoutStrategy) -> dict[str, Any]:
    return {"attempt_timeout": strategy.timeout}


def _spelt(value: Any) -> Any:
    """Options as a document has them: spans with their unit."""
    if isinstance(value, dict):
        return {key: _spelt(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spelt(item) for item in value]
    if isinstance(value, timedelta):
        us = round(value / timedelta(microseconds=1))
        parts = ((1_000_000, "s"), (1000, "ms"), (1, "us"))
        return next(f"{us // size}{unit}" for size, unit in parts if us % size == 0)
    return "none" if value is None else value
