"""The rest of `test_forze.py`: what strategies refuse, ports, operations, hedges; no sentence is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from compat import test_forze, test_forze_bulkheads, test_forze_stores
from compat.forze_page import PAGE, OnClock, breaking, policy, retrying, says
from tidegate.compat import forze
from tidegate.compat.forze import (
    AdaptiveBulkheadStrategy,
    AdaptiveThrottleStrategy,
    BackoffStrategy,
    BulkheadStrategy,
    CoreException,
    ExceptionKind,
    GradientBulkheadStrategy,
    HedgeStrategy,
    PortPolicy,
    RateLimitStrategy,
    ResilienceDepsModule,
    ResiliencePolicy,
    ResilienceSpec,
    ResilienceWrap,
    RetryBudget,
    TimeoutStrategy,
    exc,
)

K = ExceptionKind
SECOND, NONE, MINUS = timedelta(seconds=1), timedelta(0), timedelta(seconds=-1)


def adaptive(**said: Any) -> Any:
    return AdaptiveBulkheadStrategy(**{"latency_threshold": SECOND, "max_concurrency": 4, **said})


def fixed(**said: Any) -> Any:
    return BulkheadStrategy(**{"max_concurrency": 4, **said})


def gradient(**said: Any) -> Any:
    return GradientBulkheadStrategy(**{"max_concurrency": 4, **said})


def hedging(**said: Any) -> Any:
    return HedgeStrategy(**{"delay": SECOND, "max_attempts": 2, **said})


def test_every_sentence_is_shown() -> None:
    assert test_forze.__name__ and test_forze_bulkheads.__name__ and test_forze_stores.__name__
    assert PAGE.unshown() == {}


@pytest.mark.parametrize(
    ("make", "wrong", "message"),
    [
        (BackoffStrategy, {"base": NONE, "max": SECOND}, "Backoff base must be positive, got"),
        (BackoffStrategy, {"base": SECOND, "max": NONE}, "Backoff max must be >= base, got"),
        (
            BackoffStrategy,
            {"base": SECOND, "max": SECOND, "multiplier": 0.9},
            "Backoff multiplier must be >= 1",
        ),
        (RetryBudget, {"ratio": 0}, "Retry budget ratio must be in (0, 1], got 0"),
        (RetryBudget, {"ratio": 1.1}, "Retry budget ratio must be in (0, 1], got 1.1"),
        (RetryBudget, {"ratio": 1, "min_throughput": -1}, "Retry budget min_throughput must be >= 0"),
        (retrying, {}, "Retry retry_on must not be empty"),
        (TimeoutStrategy, {"timeout": NONE}, "Timeout must be positive, got"),
        (RateLimitStrategy, {"permits": 0, "per": SECOND}, "Rate limit permits must be >= 1, got 0"),
        (RateLimitStrategy, {"permits": 1, "per": NONE}, "Rate limit per must be positive"),
        (
            RateLimitStrategy,
            {"permits": 1, "per": SECOND, "burst": 0},
            "Rate limit burst must be >= 1, got 0",
        ),
        (fixed, {"max_concurrency": 0}, "Bulkhead max_concurrency must be >= 1, got 0"),
        (fixed, {"max_queue": -1}, "Bulkhead max_queue must be >= 0, got -1"),
        (fixed, {"max_queue": 1, "queue_target": NONE}, "Bulkhead queue_target must be positive"),
        (fixed, {"max_queue": 1, "queue_interval": NONE}, "Bulkhead queue_interval must be positive"),
        (fixed, {"max_queue": 1, "queue_target": SECOND}, "Bulkhead queue_target must be smaller than"),
        (fixed, {"prioritized": True}, "Bulkhead queue management (queue_target / queue_adaptive_lifo /"),
        (adaptive, {"latency_threshold": NONE}, "Adaptive bulkhead latency_threshold must be positive"),
        (adaptive, {"latency_quantile": 1}, "Adaptive bulkhead latency_quantile must be in (0, 1), got 1"),
        (adaptive, {"min_concurrency": 0}, "Adaptive bulkhead min_concurrency must be >= 1, got 0"),
        (adaptive, {"min_concurrency": 5}, "Adaptive bulkhead max_concurrency must be >= min_concurrency"),
        (adaptive, {"max_queue": -1}, "Adaptive bulkhead max_queue must be >= 0"),
        (adaptive, {"backoff_ratio": 1}, "Adaptive bulkhead backoff_ratio must be in (0, 1), got 1"),
        (adaptive, {"increase_step": 0}, "Adaptive bulkhead increase_step must be positive, got 0"),
        (adaptive, {"cooldown": MINUS}, "Adaptive bulkhead cooldown must be >= 0"),
        (gradient, {"min_concurrency": 0}, "Gradient bulkhead min_concurrency must be >= 1"),
        (gradient, {"rtt_tolerance": 0.9}, "Gradient bulkhead rtt_tolerance must be >= 1.0, got 0.9"),
        (gradient, {"smoothing": 0}, "Gradient bulkhead smoothing must be in (0, 1], got 0"),
        (gradient, {"long_window": 1}, "Gradient bulkhead long_window must be >= 2, got 1"),
        (gradient, {"headroom": -1}, "Gradient bulkhead headroom must be >= 0, got -1"),
        (breaking, {"failure_ratio": 0}, "Circuit breaker failure_ratio must be in (0, 1], got 0"),
        (breaking, {"sampling_window": NONE}, "Circuit breaker sampling_window must be positive"),
        (breaking, {"min_throughput": 0}, "Circuit breaker min_throughput must be >= 1, got 0"),
        (breaking, {"break_duration": NONE}, "Circuit breaker break_duration must be positive"),
        (breaking, {"half_open_max_calls": 0}, "Circuit breaker half_open_max_calls must be >= 1, got 0"),
        (breaking, {"failure_on": frozenset()}, "Circuit breaker failure_on must not be empty"),
        (breaking, {"failure_on": {K.THROTTLED}}, "failure_on and ignore_on share kinds: throttled"),
        (AdaptiveThrottleStrategy, {"k": 0.5}, "Adaptive throttle k must be >= 1, got 0.5"),
        (AdaptiveThrottleStrategy, {"window": NONE}, "Adaptive throttle window must be positive"),
        (AdaptiveThrottleStrategy, {"min_throughput": 0}, "Adaptive throttle min_throughput must be >= 1"),
        (hedging, {"delay": MINUS}, "Hedge delay must be >= 0"),
        (hedging, {"max_attempts": 1}, "Hedge max_attempts must be >= 2, got 1"),
        (hedging, {"adaptive_delay_quantile": 0}, "Hedge adaptive_delay_quantile must be in (0, 1), got 0"),
        (hedging, {"delay_min": SECOND}, "Hedge delay_min/delay_max require adaptive_delay_quantile"),
        (hedging, {"adaptive_delay_quantile": 0.9, "delay_min": NONE}, "Hedge delay_min must be positive"),
        (hedging, {"adaptive_delay_quantile": 0.9, "delay_max": NONE}, "Hedge delay_max must be positive"),
        (
            hedging,
            {"adaptive_delay_quantile": 0.9, "delay_min": SECOND * 2, "delay_max": SECOND},
            "Hedge delay_min must be <= delay_max",
        ),
        (ResiliencePolicy, {"name": "p", "strategies": ()}, "Resilience policy must declare a strategy"),
        (ResiliencePolicy, {"name": "p", "strategies": (fixed(), fixed())}, "has duplicate strategy types"),
        (
            ResiliencePolicy,
            {"name": "p", "strategies": ("retry",)},
            "strategies must be strategies, got 'str'",
        ),
        (ResilienceSpec, {"policies": {}}, "Resilience spec must declare at least one policy"),
        (
            ResilienceSpec,
            {"policies": {"a": policy("b", fixed())}},
            "Resilience policy key 'a' does not match policy name 'b'",
        ),
        (PortPolicy, {"key": "http", "policy": ""}, "Port policy must name a resilience policy"),
        (
            PortPolicy,
            {"key": "http", "policy": "p", "methods": ()},
            "Port policy for 'http' declares an empty",
        ),
        (PortPolicy, {"key": "http", "policy": "p", "methods": ["_a"]}, "may only wrap public methods: '_a'"),
    ],
)
def test_what_is_out_of_range_says_so(make: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(CoreException) as caught:
        make(**wrong)
    assert message in caught.value.summary
    assert caught.value.kind is K.CONFIGURATION


def test_retry_needs_an_attempt() -> None:
    with pytest.raises(CoreException, match="Retry max_attempts must be >= 1, got 0"):
        retrying(K.CONCURRENCY, most=0)


class Vendor:
    """A port."""

    name = "vendor"

    def __init__(self, on: OnClock) -> None:
        self.on = on

    async def enqueue(self, item: int, *, twice: bool = False) -> int:
        """Puts an item in."""
        self.on.starts += 1
        return item * (2 if twice else 1)

    async def fetch(self) -> str:
        return "fetched"

    async def _hidden(self) -> str:
        return "hidden"

    def size(self) -> int:
        return 7

    async def tail(self) -> AsyncIterator[int]:
        yield 1
        yield 2


LIMITED = policy("vendor_rl", RateLimitStrategy(permits=2, per=SECOND))


def module(on: OnClock, *ports: PortPolicy, policies: tuple[ResiliencePolicy, ...] = (LIMITED,)) -> Any:
    spec = ResilienceSpec(policies={each.name: each for each in policies})
    return ResilienceDepsModule(
        spec=spec, port_policies=ports, engine=on.engine, on_event=lambda *event: on.events.append(event)
    )


@says(39, 40, 42)
def test_a_ports_public_coroutine_methods_run_under_its_policy() -> None:
    on = OnClock()
    made = module(on, PortPolicy(key="queue", policy="vendor_rl"))
    port = made.resolve("queue", Vendor(on), route="orders")

    async def main() -> None:
        assert await port.enqueue(3, twice=True) == 6
        assert await port.fetch() == "fetched"
        with pytest.raises(CoreException) as caught:
            await port.enqueue(1)
        assert caught.value.details == {"policy": "vendor_rl", "route": "orders"}
        assert (port.size(), port.name, await port._hidden()) == (7, "vendor", "hidden")
        assert [item async for item in port.tail()] == [1, 2], "a stream is never wrapped"

    on.run(main())
    assert port.enqueue.__doc__ == "Puts an item in."
    assert "under policy 'vendor_rl'" in repr(port)
    assert made.resolve("other", port) is port


@says(40)
def test_routes_are_the_ports_own_unless_shared() -> None:
    on = OnClock()
    own = module(on, PortPolicy(key="queue", policy="vendor_rl"))
    shared = module(
        OnClock(), PortPolicy(key="queue", policy="vendor_rl", route="all-queues", methods=("enqueue",))
    )

    async def main(made: Any) -> list[Any]:
        ports = [made.resolve("queue", Vendor(on), route=route) for route in ("a", "b")]
        calls = [port.enqueue(1) for port in ports * 2]
        return [await asyncio.gather(call, return_exceptions=True) for call in calls]

    assert on.run(main(own)) == [[1]] * 4
    *good, first, second = on.run(main(shared))
    assert good == [[1], [1]]
    assert [type(each[0]) for each in (first, second)] == [CoreException] * 2


@says(41)
def test_named_methods_are_the_only_ones() -> None:
    on = OnClock()
    made = module(on, PortPolicy(key="queue", policy="vendor_rl", methods=("enqueue",)))
    port = made.resolve("queue", Vendor(on))

    async def main() -> None:
        for _ in range(5):
            await port.fetch()
        await port.enqueue(1)

    on.run(main())
    for method in ("tail", "size", "nothing"):
        wrong = module(OnClock(), PortPolicy(key="queue", policy="vendor_rl", methods=(method,)))
        with pytest.raises(CoreException, match=f"names '{method}', which is no coroutine method"):
            wrong.resolve("queue", Vendor(on))


@says(41)
def test_a_policy_that_repeats_ambiguous_failures_needs_named_methods() -> None:
    retries = policy("again", retrying(K.INFRASTRUCTURE))
    port = PortPolicy(key="queue", policy="again")
    with pytest.raises(CoreException, match="a write whose failure is ambiguous may happen twice") as caught:
        module(OnClock(), port, policies=(retries,))
    assert caught.value.code == "resilience.blanket_write_retry"
    module(OnClock(), PortPolicy(key="queue", policy="again", methods=["fetch"]), policies=(retries,))
    safe = module(OnClock(), PortPolicy(key="queue", policy="occ"))
    with pytest.raises(CoreException) as caught:
        safe.executor.retune(policy("occ", retrying(K.INFRASTRUCTURE)))
    assert caught.value.code == "resilience.blanket_write_retry"


def test_ports_are_checked_when_they_are_wired() -> None:
    port = PortPolicy(key="queue", policy="vendor_rl")
    with pytest.raises(CoreException, match="Duplicate port policy for dependency key 'queue'"):
        module(OnClock(), port, port)
    with pytest.raises(CoreException, match="reference unknown resilience policies: nobody"):
        module(OnClock(), PortPolicy(key="queue", policy="nobody"))


@says(44)
def test_state_is_each_executors_own() -> None:
    on = OnClock()
    one = forze.ResilienceExecutor({"vendor_rl": LIMITED})
    two = forze.ResilienceExecutor({"vendor_rl": LIMITED})
    assert on.outcomes(one, "vendor_rl", 1, 2, 3) == [1, 2, "throttled:rate_limited"]
    assert on.outcomes(two, "vendor_rl", 1) == [1]


@says(11)
def test_a_wrap_puts_an_operation_behind_a_policy() -> None:
    on = OnClock()
    executor = on.executor()

    class Context:
        def resilience(self) -> Any:
            return executor

    step = ResilienceWrap(policy="occ", route="orders").to_step()
    assert (step.id, step.priority) == ("resilience", 20)
    stale = [exc.concurrency("stale"), exc.concurrency("stale")]

    async def operation(args: int) -> int:
        if stale:
            raise stale.pop()
        return args + 1

    assert on.run(step.factory(Context())(operation, 1)) == 2
    assert on.events == [("retry_attempt", "occ", "orders")] * 2
    assert on.run(ResilienceWrap(policy="transient")()(operation, 2)) == 3
    assert forze.default_resilience_executor() is forze.default_resilience_executor()


def test_a_hedge_is_part_of_no_stack() -> None:
    on = OnClock()
    run = on.executor(policy("p", fixed()))
    with pytest.raises(CoreException, match="Policy 'p' declares no HedgeStrategy"):
        on.run(run.run_hedged(on.answer(1), policy="p"))


@says(4, 36, 37, 38)
def test_a_hedge_races_what_is_slow() -> None:
    on = OnClock()
    hedged = policy("p", fixed(), hedge=hedging(delay=timedelta(milliseconds=50)))
    budget = RetryBudget(ratio=0.5)
    run = on.executor(
        hedged,
        policy("poor", fixed(), hedge=hedging(delay=timedelta(milliseconds=50), budget=budget)),
        policy("quick", fixed(), hedge=hedging(adaptive_delay_quantile=0.5, delay_min=SECOND / 10)),
    )
    cancelled: list[int] = []
    starts: list[float] = []

    async def slow_first() -> int:
        starts.append(on.clock.now())
        number = len(starts)
        try:
            await on.clock.sleep(10 if number == 1 else 0.01)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    assert on.run(run.run_hedged(slow_first, policy="p")) == 2
    assert (cancelled, len(starts)) == ([1], 2)
    assert 0.05 <= on.clock.now() <= 0.07
    assert on.events == [("hedge_attempt", "p", None)]
    starts.clear()
    assert on.run(run.run_hedged(slow_first, policy="poor")) == 1, "half a hedge a call: none for the first"
    for _ in range(5):
        on.run(run.run_hedged(lambda: on.clock.sleep(0.01), policy="quick"))
    starts.clear()
    began = on.clock.now()
    assert on.run(run.run_hedged(slow_first, policy="quick")) == 2
    assert 0.1 <= starts[1] - began <= 0.11, "the observed quantile, not below delay_min"


def test_a_failure_before_the_delay_starts_the_hedge_at_once() -> None:
    """A difference that the page names (D2): forze calls once."""
    on = OnClock()
    hedged = policy("p", fixed(), hedge=hedging(delay=SECOND))
    run = on.executor(hedged)
    assert on.run(run.run_hedged(on.answer(exc.infrastructure("down"), "up"), policy="p")) == "up"
    assert (on.starts, on.clock.now()) == (2, 0)


def test_inspect_lists_only_routes_that_calls_used() -> None:
    """D2: it listed routes that never ran."""
    on = OnClock()
    run = on.executor(policy("p", fixed()), policy("idle", fixed()))
    assert run.inspect() == []
    on.outcomes(run, "p", 1, route="eu")
    assert [(state.policy, state.route) for state in run.inspect()] == [("p", "eu")]


def test_a_rate_limit_says_its_capacity() -> None:
    """D2: `capacity` and `rate_limit` were missing."""
    plain = RateLimitStrategy(permits=3, per=SECOND)
    burst = RateLimitStrategy(permits=3, per=SECOND, burst=9)
    assert (plain.capacity, burst.capacity) == (3, 9)
    assert policy("p", burst).rate_limit is burst
    assert policy("p", fixed()).rate_limit is None


def test_an_open_breaker_spends_no_token_and_a_probe_makes_one_attempt() -> None:
    """Differences that the page names (D2)."""
    on = OnClock()
    limit, retry = RateLimitStrategy(permits=3, per=1_000 * SECOND), retrying(K.INFRASTRUCTURE, most=3)
    run = on.executor(policy("p", limit, breaking(failure_ratio=1, min_throughput=1), retry))
    down = exc.infrastructure("down")
    assert on.outcomes(run, "p", down) == ["infrastructure:core.infrastructure"]
    starts = on.starts
    refused = on.outcomes(run, "p", *["unheard"] * 5)
    assert (on.starts, set(refused)) == (starts, {"infrastructure:core.infrastructure"})
    on.clock.tick(10)
    assert on.outcomes(run, "p", down) == ["infrastructure:core.infrastructure"]
    assert on.starts == starts + 1
    on.clock.tick(10)
    assert on.outcomes(run, "p", "probe", "spent") == ["probe", "throttled:rate_limited"]
