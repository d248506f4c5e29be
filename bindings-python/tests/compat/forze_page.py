"""The sentences of forze's page, and what its tests share: executors on a clock that waits move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import tidegate
from compat.pages import Page
from tidegate._engine.options import TABLE
from tidegate.compat.forze import (
    BackoffStrategy,
    CircuitBreakerStrategy,
    CoreException,
    Criticality,
    ExceptionKind,
    ResilienceExecutor,
    ResiliencePolicy,
    ResilienceSpec,
    RetryStrategy,
    bind_criticality,
)
from tidegate.testing import FakeClock

PAGE = Page(
    {
        1: "wraps an operation … declaratively, by name",
        2: "an ordered stack (rate limit → bulkhead → circuit breaker → retry → timeout)",
        3: "the table: what each strategy does",
        4: "plus optional fallback and hedge",
        5: "Retry only fires on kinds that declare themselves retryable",
        6: "You can't retry a validation or domain failure, by design",
        7: "a deadline … gates the whole strategy chain from the outside",
        8: "a retry abandons a backoff sleep that would outlive the budget, surfacing the real error",
        9: "transient: retry on infrastructure, with a 30 s per-attempt timeout",
        10: "Two ship ready to use, no ResilienceSpec required; occ: retry on concurrency",
        11: "ResilienceWrap(policy=…).to_step() wraps an operation",
        12: "ctx.resilience().run(fn, policy=…, route=…): route keys state per dependency",
        13: "A retry re-runs the whole operation",
        14: "permits/per is the sustained rate, burst or permits the capacity",
        15: "an empty bucket rejects right away, before the call can occupy a slot or count",
        16: "State is keyed (policy, route)",
        17: "a retry-with-backoff policy around the rate-limited call turns rejection into waiting",
        18: "The same retry_on also waits out backend-raised throttles",
        19: "an uncaught throttled becomes a 429",
        20: "max_concurrency=8, max_queue=4: eight in flight, four waiting, the rest rejected immediately",
        21: "adaptive: starts at max_concurrency and behaves like a fixed bulkhead inside the threshold",
        22: "backs off multiplicatively (at most once per cooldown)",
        23: "recovers additively, about one slot per limit successes",
        24: "Errors don't shrink the limit; shrinking never evicts",
        25: "latency_quantile: outliers can't move a quantile; each backoff opens a fresh epoch",
        26: "GradientBulkheadStrategy: no latency_threshold to tune",
        27: "The three bulkhead kinds are mutually exclusive",
        28: "queue_target: parked longer than the target under congestion is shed at dequeue",
        29: "queue_adaptive_lifo: while congested, serve the newest waiter first; FIFO otherwise",
        30: "prioritized: a higher-criticality arrival displaces the lowest; default NORMAL",
        31: "throttle: a healthy downstream: nothing is shed, ever",
        32: "shedding rises proportionally … leaving a continuous probe stream",
        33: "throttled(adaptive_throttle), throttle_reject event; a domain rejection is no overload",
        34: "The throttle and the breaker are mutually exclusive",
        35: "Fallback: a fallback value on failure",
        36: "Hedge: race staggered attempts; losers are cancelled",
        37: "budget caps the extra load of hedges",
        38: "adaptive_delay_quantile: fixed until the estimator warms; delay_min / delay_max clamp it",
        39: "PortPolicy: public coroutine methods run under the policy",
        40: "route defaults to the route the port resolved under; set it explicitly to share",
        41: "methods=None wraps every public coroutine method; a tuple only those",
        42: "Async-generator methods are never wrapped",
        43: "stores for fleet-wide state",
        44: "per-process by default",
        45: "A parked waiter whose deadline has expired is failed at wake",
        46: "operators: force open, clear, retune",
        47: "policies as documents",
    }
)
says = PAGE.says


def policy(name: str, *strategies: Any, **more: Any) -> ResiliencePolicy:
    return ResiliencePolicy(name=name, strategies=strategies, **more)


def retrying(*kinds: ExceptionKind, most: int = 3, budget: Any = None, **backoff: Any) -> RetryStrategy:
    waits = {"base": timedelta(milliseconds=100), "max": timedelta(seconds=1), **backoff}
    return RetryStrategy(
        max_attempts=most, backoff=BackoffStrategy(**waits), retry_on=frozenset(kinds), budget=budget
    )


def breaking(**said: Any) -> CircuitBreakerStrategy:
    ten = timedelta(seconds=10)
    usual = {"failure_ratio": 0.5, "sampling_window": ten, "min_throughput": 4, "break_duration": ten}
    return CircuitBreakerStrategy(**{**usual, **said})


def names(read: tidegate.Policy) -> dict[str, Any]:
    """Every setting of a policy that is in force."""
    found = {}
    for key in TABLE:
        try:
            found[key] = read._setting(key)
        except Exception as error:
            found[key] = str(error)
    return {**found, "kinds": read.kinds}


class OnClock:
    """Executors, and calls whose waits move a clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(autojump=True)
        self.engine = tidegate.Engine(seed=1, clock=self.clock)
        self.events: list[tuple[str, str, str | None]] = []
        self.starts = 0
        self.times: list[float] = []

    def executor(self, *policies: ResiliencePolicy, spec: ResilienceSpec | None = None) -> ResilienceExecutor:
        given = {each.name: each for each in policies} if spec is None else spec
        return ResilienceExecutor(
            given, engine=self.engine, on_event=lambda *event: self.events.append(event)
        )

    def run(self, value: Any) -> Any:
        return asyncio.run(value)

    def answer(self, *answers: Any) -> Callable[[], Awaitable[Any]]:
        """Answers these in order, the last one again and again; exceptions are raised."""
        left = list(answers)

        async def fn() -> Any:
            self.starts += 1
            self.times.append(self.clock.now())
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return fn

    def outcomes(self, executor: ResilienceExecutor, name: str, *calls: Any, route: Any = None) -> list[Any]:
        """What calls come to, one after the other: their answer, or kind and code of the failure."""

        async def main() -> list[Any]:
            found: list[Any] = []
            for call in calls:
                fn = self.answer(*call) if isinstance(call, list) else self.answer(call)
                try:
                    found.append(await executor.run(fn, policy=name, route=route))
                except CoreException as error:
                    found.append(f"{error.kind}:{error.code}")
                except Exception as error:
                    found.append(repr(error))
            return found

        return list(self.run(main()))

    def breaker(self, executor: ResilienceExecutor, name: str) -> Any:
        return executor._named[name].guard.snapshot()["routes"]["default"]["breaker"]

    def limit(self, executor: ResilienceExecutor, name: str, seconds: float) -> float:
        """The limit of a bulkhead after a call that takes so long."""
        self.run(executor.run(lambda: self.clock.sleep(seconds), policy=name))
        (state,) = executor.inspect(policy=name)
        assert state.concurrency_limit is not None
        return state.concurrency_limit

    async def queue(self, executor: ResilienceExecutor, name: str, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Calls (when, how long, how much they matter): their numbers, in the order in which they ended."""
        ended: list[Any] = []

        async def one(number: int, when: float, long: float, matters: Criticality | None = None) -> None:
            if when:
                await self.clock.sleep(when)
            with bind_criticality(matters):
                try:
                    await executor.run(lambda: self._hold(long), policy=name)
                    ended.append(number)
                except CoreException as error:
                    ended.append(f"{number} {error.kind}:{error.code}")

        await asyncio.gather(*(one(number, *call) for number, call in enumerate(calls)))
        return ended

    async def _hold(self, seconds: float) -> None:
        if seconds:
            await self.clock.sleep(seconds)
