"""Runs calls under named policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import ref

from tidegate._call.caller import Caller
from tidegate._call.policy import Policy
from tidegate._engine.engine import Engine
from tidegate._engine.errors import PolicyError, TidegateError

from ._context import Criticality, current_criticality
from ._errors import CoreException, ExceptionKind, exc
from ._stores import NOTHING, Shared
from ._strategies import (
    BackoffStrategy,
    ResiliencePolicy,
    ResilienceSpec,
    RetryStrategy,
    TimeoutStrategy,
)
from ._translate import good_and_retried, hedged_options_of, options_of, outcome_of

if TYPE_CHECKING:
    from tidegate.events import Record

T = TypeVar("T")
OnEvent: TypeAlias = Callable[[str, str, "str | None"], object]
"""Called with the event, the policy's name and the route."""

_NO_ROUTE: Final = "default"
_MOST_CALLERS: Final = 4096

_Made: TypeAlias = "tuple[ExceptionKind, str | None, str, str]"
_REFUSALS: Final[dict[str, _Made]] = {
    # reason: kind, code, message, event
    "rate_limited": (
        ExceptionKind.THROTTLED,
        "rate_limited",
        "Rate limit exceeded for policy {policy!r}",
        "rate_limit_reject",
    ),
    "cost_above_burst": (
        ExceptionKind.THROTTLED,
        "rate_limited",
        "Rate limit exceeded for policy {policy!r}",
        "rate_limit_reject",
    ),
    "queue_full": (
        ExceptionKind.INFRASTRUCTURE,
        None,
        "Bulkhead full for policy {policy!r}",
        "bulkhead_reject",
    ),
    "queue_shed": (
        ExceptionKind.INFRASTRUCTURE,
        "bulkhead_queue_shed",
        "Bulkhead queue shed: waiter exceeded its sojourn allowance under congestion",
        "bulkhead_shed",
    ),
    "displaced": (
        ExceptionKind.INFRASTRUCTURE,
        "bulkhead_queue_shed",
        "Bulkhead queue shed: waiter displaced by a higher-criticality request",
        "bulkhead_shed",
    ),
    "breaker_open": (
        ExceptionKind.INFRASTRUCTURE,
        None,
        "Circuit breaker open for policy {policy!r}",
        "breaker_open",
    ),
    "forced_open": (
        ExceptionKind.INFRASTRUCTURE,
        "resilience_forced_open",
        "Resilience policy {policy!r} force-opened by operator",
        "breaker_forced_open",
    ),
    "throttled": (
        ExceptionKind.THROTTLED,
        "adaptive_throttle",
        "Adaptive throttle shedding for policy {policy!r}",
        "throttle_reject",
    ),
    "attempt_timeout": (
        ExceptionKind.INFRASTRUCTURE,
        None,
        "Resilience timeout after {timeout}s for policy {policy!r}",
        "timeout",
    ),
    "deadline_before": (
        ExceptionKind.TIMEOUT,
        "deadline_exceeded",
        "Invocation deadline exceeded before call under policy {policy!r}",
        "deadline_exceeded",
    ),
    "deadline_queued": (
        ExceptionKind.TIMEOUT,
        "deadline_exceeded",
        "Invocation deadline expired while queued for a bulkhead slot",
        "deadline_exceeded",
    ),
    "deadline": (
        ExceptionKind.TIMEOUT,
        "deadline_exceeded",
        "Invocation deadline exceeded during call under policy {policy!r}",
        "deadline_exceeded",
    ),
}


def builtin_default_policies() -> dict[str, ResiliencePolicy]:
    """Returns the built-in policies: `occ` and `transient`."""
    occ = RetryStrategy(
        max_attempts=3,
        backoff=BackoffStrategy(base=timedelta(milliseconds=50), max=timedelta(seconds=2)),
        retry_on=frozenset({ExceptionKind.CONCURRENCY}),
    )
    transient = RetryStrategy(
        max_attempts=3,
        backoff=BackoffStrategy(base=timedelta(milliseconds=100), max=timedelta(seconds=5)),
        retry_on=frozenset({ExceptionKind.INFRASTRUCTURE}),
    )
    timeout = TimeoutStrategy(timeout=timedelta(seconds=30))
    return {
        "occ": ResiliencePolicy(name="occ", strategies=(occ,)),
        "transient": ResiliencePolicy(name="transient", strategies=(transient, timeout)),
    }


@dataclass(frozen=True, kw_only=True)
class ResilienceStateSnapshot:
    """Current state of a policy on one of its routes.

    Attributes:
        policy: The policy's name.
        route: The route; None for calls without one.
        forced_open: Whether an operator refuses all calls.
        concurrency_limit: The bulkhead's limit now; None without a bulkhead.
        in_use: Calls in flight in the bulkhead; None without one.
        waiting: Calls that wait for a slot; None without a bulkhead.
    """

    policy: str
    route: str | None
    forced_open: bool
    concurrency_limit: float | None
    in_use: int | None
    waiting: int | None


class _Named:
    """A policy of forze and its policies in the engine."""

    def __init__(self, policy: ResiliencePolicy, engine: Engine, shared: Shared) -> None:
        self.policy = policy
        self.retried = good_and_retried(policy)
        self._shared = shared
        self.guard = self._made(policy.name, shared.within(options_of(policy)), engine)
        self.hedge: Policy | None = None
        if policy.hedge is not None:
            self.hedge = self._made(f"{policy.name}.hedge", hedged_options_of(policy), engine)

    def _made(self, name: str, options: dict[str, Any], engine: Engine) -> Policy:
        try:
            return Policy(
                name, classify=lambda error: outcome_of(error, self.retried), engine=engine, **options
            )
        except PolicyError as error:
            raise exc.configuration(f"Resilience policy {name!r}: {error}") from error

    def retune(self, policy: ResiliencePolicy) -> None:
        if (policy.hedge is None) != (self.hedge is None):
            raise exc.configuration(
                f"Resilience policy {policy.name!r}: a retune cannot add or remove its hedge"
            )
        try:
            self.guard.retune(**self._shared.within(options_of(policy)))
            if self.hedge is not None:
                self.hedge.retune(**hedged_options_of(policy))
        except PolicyError as error:
            raise exc.configuration(f"Resilience policy {policy.name!r}: {error}") from error
        self.policy = policy
        self.retried = good_and_retried(policy)

    @property
    def both(self) -> list[Policy]:
        return [self.guard] if self.hedge is None else [self.guard, self.hedge]


class ResilienceExecutor:
    """Runs async calls under named policies.

    Args:
        policies: A spec, or policies by name; they take precedence over the built-in `occ` and `transient`.
        engine: The engine that keeps the state; a new one if left out.
        on_event: Called with (event, policy, route). Events: `retry_attempt`, `timeout`,
            `deadline_exceeded`, `rate_limit_reject`, `bulkhead_reject`, `bulkhead_shed`, `breaker_open`,
            `breaker_forced_open`, `throttle_reject`; and `rate_limit_store_degraded` and the like, once for
            each policy, when a shared store is lost. Its exceptions are ignored.
        shared: The parts of the state that a fleet shares; `ResilienceDepsModule` sets it.

    Raises:
        CoreException: Of the kind `configuration`, if a policy cannot be made.

    Example:
        ```python
        executor = ResilienceExecutor()
        charged = await executor.run(lambda: charge_card(payment), policy="transient", route="payments")
        ```
    """

    def __init__(
        self,
        policies: ResilienceSpec | Mapping[str, ResiliencePolicy] | None = None,
        *,
        engine: Engine | None = None,
        on_event: OnEvent | None = None,
        shared: Shared = NOTHING,
    ) -> None:
        given = policies.policies if isinstance(policies, ResilienceSpec) else policies or {}
        self.engine: Final = Engine() if engine is None else engine
        self._on_event = on_event
        shared.attach(self.engine)
        if on_event is not None and shared.parts:
            self.engine.on_event(
                partial(_degraded, ref(self), sorted(shared.parts)), types=["store_degraded"]
            )
        self._named = {
            str(name): _Named(policy, self.engine, shared)
            for name, policy in {**builtin_default_policies(), **given}.items()
        }
        self._callers: dict[tuple[Policy, str, Criticality], Caller] = {}
        self._blanket: dict[str, list[str]] = {}

    @property
    def policies(self) -> dict[str, ResiliencePolicy]:
        """The policies in force, by name."""
        return {name: named.policy for name, named in self._named.items()}

    async def run(
        self,
        fn: Callable[[], Awaitable[T]],
        *,
        policy: str,
        route: str | None = None,
        fallback: Callable[[BaseException], Awaitable[T]] | None = None,
    ) -> T:
        """Runs `fn` under the strategies of a policy.

        Args:
            fn: Makes an attempt; a retry calls it again.
            policy: The policy's name.
            route: The key that state is kept under: a backend, a tenant.
            fallback: Takes the failure and returns a result in its place; the policy must allow it.

        Raises:
            CoreException: Of the kind `configuration`, if there is no such policy, or if it allows no
                fallback; of other kinds, if the policy refused the call or stopped it.
            Exception: The failure of `fn`, the same object.
        """
        named = self._find(policy)
        if fallback is not None and not named.policy.has_fallback:
            raise exc.configuration(
                f"Policy {policy!r} declares no FallbackStrategy but a fallback was provided"
            )
        try:
            return await self._guarded(named.guard, named, fn, route)
        except Exception as error:
            if fallback is None:
                raise
            return await fallback(error)

    async def run_hedged(self, fn: Callable[[], Awaitable[T]], *, policy: str, route: str | None = None) -> T:
        """Runs `fn`, and starts it again in parallel if it is slow; returns the first successful result.

        Use it only for operations that may happen twice. Only the policy's hedge applies; for the other
        strategies, nest this call and `run`.

        Raises:
            CoreException: Of the kind `configuration`, if there is no such policy, or it has no hedge.
            Exception: The last failure, if all attempts fail.
        """
        named = self._find(policy)
        if named.hedge is None:
            raise exc.configuration(f"Policy {policy!r} declares no HedgeStrategy")
        return await self._guarded(named.hedge, named, fn, route)

    def inspect(self, *, policy: str | None = None) -> list[ResilienceStateSnapshot]:
        """Returns the current state by policy and route; only of `policy`, if it is given."""
        found = []
        for name in sorted(self._named if policy is None else [policy]):
            for key, view in sorted(self._find(name).guard.snapshot()["routes"].items()):
                pool = view["pool"]
                found.append(
                    ResilienceStateSnapshot(
                        policy=name,
                        route=None if key == _NO_ROUTE else key,
                        forced_open=bool(view["forced"]),
                        concurrency_limit=None if pool is None else pool["limit"],
                        in_use=None if pool is None else pool["in_flight"],
                        waiting=None if pool is None else pool["waiting"],
                    )
                )
        return found

    def force_open(self, policy: str, route: str | None = None) -> None:
        """Refuses all calls of a policy, or of one of its routes, until `clear_forced_open`."""
        for each in self._find(policy).both:
            each.force_open(route)

    def clear_forced_open(self, policy: str, route: str | None = None) -> None:
        """Ends a `force_open`: that of the route, or all of the policy if no route is given."""
        for each in self._find(policy).both:
            each.force_open(route, on=False)

    def retune(self, policy: ResiliencePolicy) -> None:
        """Replaces the strategies of the policy of this name. Calls in flight finish under the old ones.

        Raises:
            CoreException: Of the kind `configuration`, if there is no policy of this name, or if the new
                strategies are invalid; the policy is then unchanged.
        """
        named = self._find(policy.name)
        for port in self._blanket.get(policy.name, []):
            reject_blanket_ambiguous_retry(policy, port)
        named.retune(policy)

    def _find(self, policy: str) -> _Named:
        named = self._named.get(str(policy))
        if named is None:
            known = ", ".join(sorted(self._named))
            raise exc.configuration(f"Unknown resilience policy {policy!r}; there are {known}")
        return named

    def _caller(self, policy: Policy, route: str, criticality: Criticality) -> Caller:
        key = (policy, route, criticality)
        caller = self._callers.get(key)
        if caller is None:
            if len(self._callers) >= _MOST_CALLERS:
                self._callers.clear()
            made = policy.at(route=route, criticality=criticality.name.lower())  # type: ignore[arg-type]
            caller = self._callers[key] = made
        return caller

    async def _guarded(
        self, policy: Policy, named: _Named, fn: Callable[[], Awaitable[T]], route: str | None
    ) -> T:
        starts = 0

        def start() -> Awaitable[T]:
            nonlocal starts
            starts += 1
            if starts > 1:
                self._tell("hedge_attempt" if policy is named.hedge else "retry_attempt", named, route)
            return fn()

        caller = self._caller(policy, _NO_ROUTE if route is None else str(route), current_criticality())
        try:
            return await caller.acall(start)
        except TidegateError as error:
            if error.policy != policy.name:
                raise
            raise self._refusal(error, policy, named, route) from error

    def _refusal(
        self, error: TidegateError, policy: Policy, named: _Named, route: str | None
    ) -> CoreException:
        """Translates our own error to forze's kind, code and message."""
        details = {"policy": named.policy.name, "route": route}
        known = _REFUSALS.get(error.reason)
        if known is None:
            return CoreException(ExceptionKind.INFRASTRUCTURE, str(error), details=details)
        kind, code, message, event = known
        self._tell(event, named, route)
        text = message.format(policy=named.policy.name, timeout=policy._seconds("attempt_timeout"))
        return CoreException(kind, text, code=code, details=details)

    def _tell(self, event: str, named: _Named, route: str | None) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event, named.policy.name, route)
        except Exception:  # noqa: S110 - a failing listener must not break a call
            pass


def _degraded(executor: ref[ResilienceExecutor], parts: list[str], record: Record) -> None:
    """Reports the loss of the store for each policy that shares state through it."""
    del record
    mine = executor()
    for named in [] if mine is None else mine._named.values():
        for part in parts:
            if named.guard._setting(_KEYS[part]) == "fleet":
                mine._tell(f"{part}_degraded", named, None)  # type: ignore[union-attr]


_KEYS: Final = {
    "breaker_store": "breaker.store",
    "rate_limit_store": "rate_limit.store",
    "latency_digest_store": "bulkhead.latency_store",
}


def reject_blanket_ambiguous_retry(policy: ResiliencePolicy, port: str) -> None:
    """Refuses a policy for all methods of a port if it could repeat a write that may have succeeded."""
    retry = policy.retry
    if retry is None or ExceptionKind.INFRASTRUCTURE not in retry.retry_on:
        return
    raise exc.configuration(
        f"Port policy for {port!r} applies retrying policy {policy.name!r} (retries infrastructure) to every"
        " method: a write whose failure is ambiguous may happen twice. Name the `methods` that are safe to"
        " retry.",
        code="resilience.blanket_write_retry",
    )
