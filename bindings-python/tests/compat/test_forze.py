"""`tidegate.compat.forze` against the sentences of forze's resilience page, one test or more for each.

The numbers are those of `PAGE`; `test_every_sentence_is_shown` (in `test_forze_rules.py`, which has the rest)
fails while one has no test.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from datetime import timedelta
from typing import Any

import pytest

import tidegate
from compat.forze_page import OnClock, breaking, names, policy, retrying, says
from tidegate.compat import forze
from tidegate.compat.forze import (
    AdaptiveBulkheadStrategy,
    AdaptiveThrottleStrategy,
    BulkheadStrategy,
    CoreException,
    ExceptionKind,
    FallbackStrategy,
    GradientBulkheadStrategy,
    RateLimitStrategy,
    ResilienceExecutor,
    ResiliencePolicy,
    ResilienceSpec,
    TimeoutStrategy,
    bind_deadline,
    exc,
)

K = ExceptionKind


def ms(count: float) -> timedelta:
    return timedelta(milliseconds=count)


@pytest.fixture
def on() -> OnClock:
    return OnClock()


@says(1, 2)
def test_a_policy_wraps_an_operation_by_name(on: OnClock) -> None:
    run = on.executor(policy("vendor", RateLimitStrategy(permits=1, per=ms(1000)), retrying(K.CONCURRENCY)))
    assert on.outcomes(run, "vendor", "fine", "fine") == ["fine", "throttled:rate_limited"]


@says(2, 4)
def test_the_order_is_outermost_first_and_checked() -> None:
    every = (
        RateLimitStrategy(permits=1, per=ms(1)),
        BulkheadStrategy(max_concurrency=1),
        breaking(),
        retrying(K.INFRASTRUCTURE),
        TimeoutStrategy(timeout=ms(1)),
    )
    assert policy("p", FallbackStrategy(), *every).has_fallback
    for at in range(4):
        wrong = list(every)
        wrong[at], wrong[at + 1] = wrong[at + 1], wrong[at]
        with pytest.raises(CoreException, match="must be ordered RateLimit -> Bulkhead -> CircuitBreaker"):
            policy("p", *wrong)


@says(3, 15)
def test_a_call_that_finds_the_bucket_empty_is_rejected_at_once(on: OnClock) -> None:
    """Before it can take a slot or count against the breaker."""
    run = on.executor(
        policy(
            "p",
            RateLimitStrategy(permits=2, per=ms(1000), burst=3),
            BulkheadStrategy(max_concurrency=1),
            breaking(min_throughput=2),
        )
    )
    refused = "throttled:rate_limited"
    assert on.outcomes(run, "p", "a", "b", "c", "d") == ["a", "b", "c", refused]
    on.clock.tick(0.5)
    assert on.outcomes(run, "p", "e", "f") == ["e", refused]
    on.clock.tick(100)
    assert on.outcomes(run, "p", "g", "h", "i", "j") == ["g", "h", "i", refused], "burst is the capacity"
    (state,) = run.inspect(policy="p")
    assert (state.in_use, state.waiting) == (0, 0)
    assert on.breaker(run, "p")["throughput"] == 3, "those of the last ten seconds that ran"
    assert on.events == [("rate_limit_reject", "p", None)] * 3


@says(14)
def test_permits_are_the_capacity_without_a_burst(on: OnClock) -> None:
    run = on.executor(policy("p", RateLimitStrategy(permits=2, per=ms(1000))))
    assert on.outcomes(run, "p", 1, 2, 3) == [1, 2, "throttled:rate_limited"]


@says(16)
def test_buckets_are_kept_by_policy_and_route(on: OnClock) -> None:
    limit = RateLimitStrategy(permits=1, per=ms(1000))
    run = on.executor(policy("p", limit), policy("q", limit))
    assert on.outcomes(run, "p", 1, 2, route="eu") == [1, "throttled:rate_limited"]
    assert on.outcomes(run, "p", 3, route="us") == [3]
    assert on.outcomes(run, "p", 4) == [4], "no route is one of its own"
    assert on.outcomes(run, "q", 5, route="eu") == [5]
    with pytest.raises(CoreException) as caught:
        on.run(run.run(on.answer(6), policy="p", route="eu"))
    assert caught.value.details == {"policy": "p", "route": "eu"}
    assert caught.value.summary == "Rate limit exceeded for policy 'p'"
    assert isinstance(caught.value.__cause__, tidegate.RateLimited)


@says(17, 18)
def test_a_retry_around_a_limited_call_waits_it_out(on: OnClock) -> None:
    run = on.executor(
        policy("vendor_rl", RateLimitStrategy(permits=1, per=ms(1000))),
        policy("patient", retrying(K.THROTTLED, most=4, base=ms(600), max=ms(2000))),
    )

    async def limited() -> Any:
        return await run.run(on.answer("fetched"), policy="vendor_rl")

    async def patient() -> Any:
        return await run.run(limited, policy="patient")

    assert on.run(patient()) == "fetched"
    assert on.clock.now() == 0
    assert on.run(patient()) == "fetched"
    assert on.clock.now() >= 1, "the second one waited"


@says(18)
def test_the_same_policys_retry_does_not_see_its_own_limit(on: OnClock) -> None:
    run = on.executor(policy("p", RateLimitStrategy(permits=1, per=ms(1000)), retrying(K.THROTTLED)))
    assert on.outcomes(run, "p", 1, 2) == [1, "throttled:rate_limited"]
    assert on.clock.now() == 0


@says(18)
@pytest.mark.parametrize(("asked", "waited", "attempts"), [(5, 5, 2), (0, 1, 2), (10, 10, 2), (10.001, 0, 1)])
def test_a_throttle_of_the_backend_is_waited_out_alike(
    on: OnClock, asked: float, waited: float, attempts: int
) -> None:
    """Its `retry_after` is never cut short; one above the backoff's max is left to the caller."""
    run = on.executor(policy("p", retrying(K.THROTTLED, base=ms(1000), max=ms(10_000), jitter="none")))
    limited = exc.throttled("429", details={"retry_after": asked})
    answers = on.outcomes(run, "p", [limited, "fine"])
    assert answers == (["fine"] if attempts == 2 else ["throttled:core.throttled"])
    assert waited <= on.clock.now() <= max(waited * 1.1, waited)
    assert on.starts == attempts


@says(19)
def test_an_uncaught_throttle_is_a_429() -> None:
    assert exc.throttled("slow down").http_status == 429
    statuses = {kind.value: CoreException(kind, "").http_status for kind in K}
    assert statuses["timeout"] == 504 and statuses["infrastructure"] == 500
    assert statuses["conflict"] == 409 and statuses["not_found"] == 404


@says(5, 6)
@pytest.mark.parametrize("kind", list(K))
def test_only_kinds_that_declare_themselves_retryable_are_retried(on: OnClock, kind: ExceptionKind) -> None:
    retryable = kind in (K.CONCURRENCY, K.INFRASTRUCTURE, K.THROTTLED)
    run = on.executor(policy("p", retrying(K.CONCURRENCY, K.INFRASTRUCTURE, K.THROTTLED)))
    on.outcomes(run, "p", CoreException(kind, "no"))
    assert on.starts == (3 if retryable else 1)
    if retryable:
        retrying(kind)
    else:
        with pytest.raises(CoreException, match=f"includes non-retryable kinds: {kind.value}"):
            retrying(kind)


@says(5)
@pytest.mark.parametrize("error", [RuntimeError("bug"), ConnectionError("reset"), TimeoutError("theirs")])
def test_what_has_no_kind_is_not_retried(on: OnClock, error: Exception) -> None:
    run = on.executor(policy("p", retrying(K.INFRASTRUCTURE), TimeoutStrategy(timeout=ms(1000))))
    with pytest.raises(type(error)) as caught:
        on.run(run.run(on.answer(error), policy="p"))
    assert caught.value is error
    assert on.starts == 1


def test_a_kind_that_cannot_be_read_is_none() -> None:
    class Lazy(Exception):
        @property
        def kind(self) -> str:
            raise RuntimeError("not loaded")

    assert forze.classify(Lazy()) == forze.classify(RuntimeError("bug"))


@says(5)
def test_a_kind_that_is_not_listed_is_not_retried(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.CONCURRENCY)))
    on.outcomes(run, "p", exc.infrastructure("down"))
    assert on.starts == 1


@says(5)
def test_an_exception_of_somebody_elses_with_a_kind_counts(on: OnClock) -> None:
    class Theirs(Exception):
        kind = "infrastructure"

    run = on.executor(policy("p", retrying(K.INFRASTRUCTURE)))
    on.outcomes(run, "p", Theirs())
    assert on.starts == 3


@says(3)
def test_retry_reruns_up_to_max_attempts_with_backoff(on: OnClock) -> None:
    strategy = retrying(K.INFRASTRUCTURE, most=6, base=ms(1000), max=ms(5000), jitter="none")
    run = on.executor(policy("p", strategy))
    error = exc.infrastructure("down")
    with pytest.raises(CoreException) as caught:
        on.run(run.run(on.answer(error), policy="p"))
    assert caught.value is error, "the failure itself"
    assert on.times == [0, 1, 3, 7, 12, 17]
    assert on.events == [("retry_attempt", "p", None)] * 5


@says(3)
def test_jitter_is_decorrelated_unless_told(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.INFRASTRUCTURE, most=50, base=ms(100), max=ms(1000))))
    on.outcomes(run, "p", exc.infrastructure("down"))
    waits = [late - early for early, late in zip(on.times, on.times[1:], strict=False)]
    assert all(0.1 <= wait <= 1.0 for wait in waits)
    assert len(set(waits)) > 20


def test_nothing_bounds_retries_without_a_budget(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.INFRASTRUCTURE, most=2, base=ms(1), max=ms(1), jitter="none")))
    on.outcomes(run, "p", *[exc.infrastructure("down")] * 150)
    assert (on.starts, on.clock.now()) == (300, 0.15)


def test_a_budget_bounds_retries(on: OnClock) -> None:
    budget = forze.RetryBudget(ratio=1, min_throughput=0)
    strategy = retrying(K.INFRASTRUCTURE, most=5, base=ms(1), max=ms(1), budget=budget)
    run = on.executor(policy("p", strategy))
    on.outcomes(run, "p", exc.infrastructure("down"))
    assert on.starts == 2


@says(3, 9)
def test_the_timeout_is_each_attempts_and_retried(on: OnClock) -> None:
    run = on.executor(
        policy("p", retrying(K.INFRASTRUCTURE, base=ms(1), max=ms(1)), TimeoutStrategy(timeout=ms(100)))
    )

    async def slow() -> None:
        on.starts += 1
        await on.clock.sleep(60)

    with pytest.raises(CoreException) as caught:
        on.run(run.run(slow, policy="p"))
    assert (caught.value.kind, on.starts) == (K.INFRASTRUCTURE, 3)
    assert caught.value.summary == "Resilience timeout after 0.1s for policy 'p'"
    assert on.events[-1] == ("timeout", "p", None)
    assert 0.3 <= on.clock.now() <= 0.31


@says(3)
def test_a_breaker_opens_for_a_cool_off_and_a_probe_closes_it(on: OnClock) -> None:
    run = on.executor(policy("p", breaking(failure_ratio=1, min_throughput=2, break_duration=ms(10_000))))
    down = exc.infrastructure("down")
    on.outcomes(run, "p", down, down)
    assert on.outcomes(run, "p", "unheard") == ["infrastructure:core.infrastructure"]
    assert on.events == [("breaker_open", "p", None)]
    assert on.starts == 2
    on.clock.tick(9.999)
    assert on.outcomes(run, "p", "still") == ["infrastructure:core.infrastructure"]
    on.clock.tick(0.001)
    assert on.outcomes(run, "p", "probe", "closed") == ["probe", "closed"]


@says(3, 33)
@pytest.mark.parametrize(
    ("error", "opens"),
    [
        (exc.infrastructure(""), True),
        (exc.timeout(""), True),
        (RuntimeError("bug"), True),
        (exc.throttled(""), False),
        (exc.concurrency(""), False),
        (exc.validation(""), False),
        (exc.internal(""), False),
    ],
)
def test_what_opens_a_breaker(on: OnClock, error: Exception, opens: bool) -> None:
    run = on.executor(policy("p", breaking(failure_ratio=1, min_throughput=2)))
    on.outcomes(run, "p", *[error] * 5)
    assert on.outcomes(run, "p", "fine") == (["infrastructure:core.infrastructure"] if opens else ["fine"])


def test_failure_on_and_ignore_on_say_otherwise(on: OnClock) -> None:
    odd = breaking(failure_ratio=1, min_throughput=2, failure_on={K.CONFLICT}, ignore_on={K.DOMAIN})
    run = on.executor(policy("p", odd, retrying(K.INFRASTRUCTURE, base=ms(1), max=ms(1))))
    down = exc.infrastructure("down")
    on.outcomes(run, "p", down, down, down)
    assert on.starts == 9, "it is retried, though it is good for the breaker"
    assert on.breaker(run, "p") == {"state": "closed", "failures": 0, "throughput": 3, "retry_in": None}
    on.outcomes(run, "p", exc.domain(""))
    assert on.breaker(run, "p")["throughput"] == 3, "ignored"
    on.outcomes(run, "p", *[exc.conflict("")] * 3)
    assert on.breaker(run, "p")["failures"] == 3
    tight = policy("t", odd, TimeoutStrategy(timeout=ms(100)))
    executor = on.executor(tight)
    with pytest.raises(CoreException, match="Resilience timeout"):
        on.run(executor.run(lambda: on.clock.sleep(60), policy="t"))
    assert on.breaker(executor, "t")["throughput"] == 0, (
        "an attempt timeout is infrastructure, no failure here"
    )
    only = policy("only", odd, retrying(K.THROTTLED, base=ms(1), max=ms(1)))
    executor = on.executor(policy("only", odd))
    executor.retune(only)
    on.starts = 0
    on.outcomes(executor, "only", RuntimeError("bug"), exc.throttled(""))
    assert on.starts == 4, "one kind is retried, and nothing besides"
    with pytest.raises(
        ValueError, match="infrastructure in retry_on, and in neither failure_on nor ignore_on"
    ):
        forze.document_of(run.policies)


@says(3, 31, 32, 33)
def test_a_throttle_sheds_in_proportion(on: OnClock) -> None:
    run = on.executor(policy("p", AdaptiveThrottleStrategy()))
    down = exc.infrastructure("down")
    answers = on.outcomes(run, "p", *["fine"] * 20)
    assert answers == ["fine"] * 20, "a healthy downstream is never shed"
    answers = on.outcomes(run, "p", *[down] * 200)
    shed = answers.count("throttled:adaptive_throttle")
    assert 30 < shed < 190, "some of it, and not all of it"
    assert ("throttle_reject", "p", None) in on.events
    late = on.executor(policy("late", AdaptiveThrottleStrategy()))
    assert "throttled:adaptive_throttle" in on.outcomes(late, "late", *[exc.timeout("late")] * 100)
    again = on.executor(policy("q", AdaptiveThrottleStrategy()))
    good = on.outcomes(again, "q", *[exc.validation("no")] * 100)
    assert set(good) == {"validation:core.validation"}, "a domain rejection is the downstream doing its job"


@says(34)
def test_throttle_and_breaker_exclude_each_other() -> None:
    with pytest.raises(CoreException, match="cannot combine CircuitBreakerStrategy with AdaptiveThrottle"):
        policy("p", breaking(), AdaptiveThrottleStrategy())


@says(45)
def test_a_waiter_whose_deadline_has_passed_is_failed(on: OnClock) -> None:
    run = on.executor(policy("p", BulkheadStrategy(max_concurrency=1, max_queue=1)))

    async def main() -> Any:
        async def held() -> None:
            await on.clock.sleep(10)

        first = asyncio.ensure_future(run.run(held, policy="p"))
        await asyncio.sleep(0)
        with bind_deadline(1.0), pytest.raises(CoreException) as caught:
            await run.run(on.answer("never"), policy="p")
        await first
        return caught.value

    error = on.run(main())
    assert (error.kind, error.code) == (K.TIMEOUT, "deadline_exceeded")
    assert error.summary == "Invocation deadline expired while queued for a bulkhead slot"
    assert on.starts == 0


@says(7)
def test_a_deadline_gates_the_whole_chain(on: OnClock) -> None:
    run = on.executor(policy("p", RateLimitStrategy(permits=1, per=ms(1000))))

    async def late() -> None:
        with bind_deadline(0):
            await run.run(on.answer("never"), policy="p")

    with pytest.raises(CoreException) as caught:
        on.run(late())
    assert (caught.value.kind, caught.value.code) == (K.TIMEOUT, "deadline_exceeded")
    assert caught.value.summary == "Invocation deadline exceeded before call under policy 'p'"
    assert on.outcomes(run, "p", "fine") == ["fine"], "it took no token"


@says(7)
def test_a_deadline_during_the_call(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.INFRASTRUCTURE)))

    async def late() -> None:
        with bind_deadline(ms(1000)), bind_deadline(60.0), bind_deadline(None):
            await run.run(lambda: on.clock.sleep(30), policy="p")

    with pytest.raises(CoreException, match="deadline exceeded during call under policy 'p'"):
        on.run(late())
    assert on.clock.now() == 1.0


@says(8)
def test_a_retry_abandons_a_wait_that_would_outlive_the_deadline(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.INFRASTRUCTURE, base=ms(60_000), max=ms(60_000))))
    error = exc.infrastructure("the real error")

    async def call() -> None:
        with bind_deadline(5.0):
            await run.run(on.answer(error), policy="p")

    with pytest.raises(CoreException) as caught:
        on.run(call())
    assert caught.value is error
    assert (on.starts, on.clock.now()) == (1, 0.0)


@says(9, 10)
def test_two_policies_are_built_in(on: OnClock) -> None:
    run = on.executor()
    assert sorted(run.policies) == ["occ", "transient"]
    assert on.outcomes(run, "occ", [exc.concurrency("stale"), "done"]) == ["done"]
    assert on.outcomes(run, "occ", [exc.infrastructure("down"), "done"]) == [
        "infrastructure:core.infrastructure"
    ]
    assert on.outcomes(run, "transient", [exc.infrastructure("down"), "done"]) == ["done"]
    assert on.outcomes(run, "transient", [exc.concurrency("stale"), "done"]) == [
        "concurrency:core.concurrency"
    ]
    began = on.clock.now()
    with pytest.raises(CoreException, match=r"Resilience timeout after 30.0s for policy 'transient'"):
        on.run(run.run(lambda: on.clock.sleep(3600), policy="transient"))
    assert 90 <= on.clock.now() - began <= 100


@says(10)
def test_a_spec_may_override_the_built_in_ones(on: OnClock) -> None:
    mine = policy("occ", retrying(K.CONCURRENCY, most=1))
    run = on.executor(spec=ResilienceSpec(policies={"occ": mine}))
    assert run.policies["occ"] is mine
    assert "transient" in run.policies
    on.outcomes(run, "occ", exc.concurrency(""))
    assert on.starts == 1


@says(12)
def test_run_names_its_policy_and_its_route(on: OnClock) -> None:
    run = on.executor(policy("p", breaking(failure_ratio=1, min_throughput=1)))
    on.outcomes(run, "p", exc.infrastructure("down"), route="payments")
    assert on.outcomes(run, "p", 1, route="payments") == ["infrastructure:core.infrastructure"]
    assert on.outcomes(run, "p", 2, route="mail") == [2]
    with pytest.raises(CoreException, match="Unknown resilience policy 'q'; there are occ, p, transient"):
        on.run(run.run(on.answer(1), policy="q"))


@says(13)
def test_a_retry_reruns_the_whole_operation(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.CONCURRENCY)))
    transactions: list[str] = []

    async def operation() -> str:
        transactions.append("began")
        if len(transactions) < 3:
            raise exc.concurrency("stale")
        return "committed"

    assert on.run(run.run(operation, policy="p")) == "committed"
    assert transactions == ["began"] * 3


@says(3, 35)
def test_a_fallback_answers_for_any_failure(on: OnClock) -> None:
    run = on.executor(
        policy("p", RateLimitStrategy(permits=1, per=ms(1000)), FallbackStrategy()),
        policy("only", FallbackStrategy()),
        policy("none", retrying(K.INFRASTRUCTURE)),
    )
    seen: list[BaseException] = []

    async def fallback(error: BaseException) -> str:
        seen.append(error)
        return "kept"

    call = {"policy": "p", "fallback": fallback}
    assert on.run(run.run(on.answer("fine"), **call)) == "fine"
    assert on.run(run.run(on.answer("fine"), **call)) == "kept"
    assert [error.code for error in seen if isinstance(error, CoreException)] == ["rate_limited"]
    assert on.run(run.run(on.answer(KeyError("x")), policy="only", fallback=fallback)) == "kept"
    with pytest.raises(KeyError):
        on.run(run.run(on.answer(KeyError("x")), policy="only"))
    with pytest.raises(CoreException, match="Policy 'none' declares no FallbackStrategy but a fallback was"):
        on.run(run.run(on.answer("fine"), policy="none", fallback=fallback))
    with pytest.raises(asyncio.CancelledError):
        on.run(run.run(on.answer(asyncio.CancelledError()), policy="only", fallback=fallback))
    assert len(seen) == 2


@says(46)
def test_an_operator_shuts_a_policy_or_a_route(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.INFRASTRUCTURE)))
    shut = "infrastructure:resilience_forced_open"
    run.force_open("p", "eu")
    assert on.outcomes(run, "p", 1, route="eu") == [shut]
    assert on.outcomes(run, "p", 2, route="us") == [2]
    run.force_open("p")
    assert on.outcomes(run, "p", 3, route="new") == [shut]
    assert all(state.forced_open for state in run.inspect(policy="p"))
    assert on.events == [("breaker_forced_open", "p", "eu"), ("breaker_forced_open", "p", "new")]
    run.clear_forced_open("p")
    assert on.outcomes(run, "p", 4, route="eu") == [4], "clearing all clears the routes too"
    assert on.outcomes(run, "p", 5) == [5]


@says(46)
def test_a_retune_is_by_name(on: OnClock) -> None:
    run = on.executor(policy("p", retrying(K.CONCURRENCY, most=2)))
    on.outcomes(run, "p", exc.concurrency(""))
    assert on.starts == 2
    run.retune(policy("p", retrying(K.INFRASTRUCTURE, most=4)))
    on.starts = 0
    on.outcomes(run, "p", exc.concurrency(""))
    on.outcomes(run, "p", exc.infrastructure(""))
    assert on.starts == 5
    with pytest.raises(CoreException, match="Unknown resilience policy 'q'"):
        run.retune(policy("q", retrying(K.CONCURRENCY)))


def test_what_the_engine_cannot_do_is_a_configuration_error_that_names_the_key() -> None:
    with pytest.raises(
        CoreException, match=r"Resilience policy 'p': retry.max_attempts = 256: must be"
    ) as caught:
        ResilienceExecutor({"p": policy("p", retrying(K.CONCURRENCY, most=256))})
    assert caught.value.kind is K.CONFIGURATION


def test_a_listener_that_fails_breaks_no_call(on: OnClock) -> None:
    def broken(event: str, policy: str, route: str | None) -> None:
        raise RuntimeError("a bug")

    run = ResilienceExecutor({"p": policy("p", retrying(K.CONCURRENCY))}, engine=on.engine, on_event=broken)
    assert on.outcomes(run, "p", [exc.concurrency(""), "fine"]) == ["fine"]


def test_errors_of_another_policy_pass_through(on: OnClock) -> None:
    other = tidegate.Policy("other", rate_limit={"permits": 1, "per": 60.0}, engine=on.engine)
    run = on.executor(policy("p", retrying(K.THROTTLED)))

    async def call() -> Any:
        return await other.acall(on.answer(1))

    assert on.run(run.run(call, policy="p")) == 1
    with pytest.raises(tidegate.RateLimited):
        on.run(run.run(call, policy="p"))


@says(1, 47)
def test_policies_are_documents(on: OnClock) -> None:
    run = on.executor(
        policy(
            "p",
            RateLimitStrategy(permits=5, per=ms(1500)),
            AdaptiveBulkheadStrategy(latency_threshold=ms(300), max_concurrency=4, max_queue=2),
            breaking(),
            retrying(K.INFRASTRUCTURE, K.THROTTLED, budget=forze.RetryBudget(ratio=0.1)),
            TimeoutStrategy(timeout=timedelta(seconds=2)),
        ),
        policy("shed", AdaptiveThrottleStrategy(), FallbackStrategy()),
        policy("gradient", GradientBulkheadStrategy(max_concurrency=7)),
    )
    text = forze.document_of(run.policies)
    spelt = json.loads(text)["policy"]["p"]
    assert spelt["rate_limit"] == {"permits": 5, "per": "1500ms"}
    assert spelt["attempt_timeout"] == "2s"
    clock_of = tidegate.testing.FakeClock() if hasattr(tidegate, "testing") else on.clock
    fresh = tidegate.Engine(seed=1, clock=clock_of)
    policies = tidegate.loads(text, form="json", classify=forze.classify, engine=fresh)
    assert sorted(policies) == ["gradient", "occ", "p", "shed", "transient"]
    for name in policies:
        mine, read = run._named[name].guard, policies[name]
        assert names(read) == names(mine)
    tries: list[int] = []

    def call() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise exc.concurrency("stale")
        return "done"

    assert policies["occ"].call(call) == "done"


class Lost(CoreException):
    """A failure of a program's own, with a constructor of its own."""

    def __init__(self, order: int) -> None:
        super().__init__(K.INFRASTRUCTURE, f"order {order} is lost")
        self.order = order


def test_errors_pickle_and_say_what_they_are() -> None:
    error = exc.throttled("slow down", code="rate_limited", details={"retry_after": 3})
    again = pickle.loads(pickle.dumps(error))
    assert (again.kind, again.code, again.details) == (K.THROTTLED, "rate_limited", {"retry_after": 3})
    assert str(again) == str(error) == "Throttled exception occurred (rate_limited): slow down"

    own = pickle.loads(pickle.dumps(Lost(4)))
    assert (type(own), own.order, own.kind, str(own)) == (Lost, 4, K.INFRASTRUCTURE, str(Lost(4)))
    assert exc.not_found("x").code == "core.not_found"
    assert forze.classify("a result") is None
    assert isinstance(policy("p", FallbackStrategy()), ResiliencePolicy)
