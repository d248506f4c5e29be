"""Pools, and documents with every component, end to end."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

import tidegate
from components import KINDS, Caller, assert_error, beside, calls
from tidegate.testing import FakeClock

__all__ = ["calls"]


# Pools.


def test_policies_share_a_pool_of_permits(clock: FakeClock, fake: tidegate.Engine) -> None:
    db = tidegate.Pool("db", bulkhead=tidegate.Bulkhead(max_concurrency=1, max_queue=1), engine=fake)
    bulkhead = tidegate.Bulkhead(pool=db, acquire_timeout=5)
    reads = tidegate.Policy("reads", bulkhead=bulkhead, engine=fake)
    writes = tidegate.Policy("writes", bulkhead=tidegate.Bulkhead(pool="db"), engine=fake)
    ends = beside([(reads, 0.0), (writes, 0.1), (reads.at(route="a"), 0.1)], clock)
    assert ends[:2] == [None, None]
    assert_error(ends[2], "queue_full", reads)
    assert (ends[2].max_concurrency, ends[2].max_queue, ends[2].acquire_timeout) == (1, 1, 5.0)
    assert "max_concurrency 1, max_queue 1, acquire_timeout 5 s" in str(ends[2])
    assert db.snapshot()["pool"] == {
        "limit": 1,
        "in_flight": 0,
        "waiting": 0,
        "max_queue": 1,
        "kind": "fixed",
    }
    db.retune(bulkhead={"max_concurrency": 7})
    assert db.snapshot()["pool"]["limit"] == 7
    assert repr(db) == "Pool('db', bulkhead={'max_concurrency': 7})"


def test_a_pool_that_grows_admits_at_once(clock: FakeClock, fake: tidegate.Engine) -> None:
    db = tidegate.Pool("db", bulkhead={"max_concurrency": 1, "max_queue": 5}, engine=fake)
    policy = tidegate.Policy(bulkhead={"pool": "db", "acquire_timeout": None}, engine=fake)

    async def main() -> None:
        tasks = [asyncio.ensure_future(policy.acall(clock.sleep, 1.0)) for _ in range(3)]
        await clock.advance(0.5)
        db.retune(bulkhead={"max_concurrency": 3, "max_queue": 5})
        await clock.advance(1.2)
        assert all(task.done() for task in tasks)
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_policies_share_a_rate_and_a_budget(calls: Caller) -> None:
    tidegate.Pool("api", rate_limit=tidegate.RateLimit(permits=2, per=1.0), engine=calls.engine)
    budget = {"kind": "ratio", "ratio": 1e-6, "min_throughput": 3}
    retries = tidegate.Pool("all", budget=budget, engine=calls.engine)
    one = calls.policy(name="one", rate_limit={"pool": "api"})
    two = calls.policy(name="two", rate_limit={"pool": "api", "wait": True, "max_wait": 1})
    calls.call(one)
    calls.call(two)
    calls.refused(one, "rate_limited", 0.5)
    assert calls.call(two, calls.clock.now) == pytest.approx(0.5)
    retry = {"max_attempts": 2, "backoff": {"base": 0, "max": 0}, "budget": tidegate.Budget(pool=retries)}
    three, four = calls.policy(retry=retry), calls.policy(preset="http", retry=retry)
    calls.fails(three, 3)
    calls.fails(four, 3)
    assert three.snapshot()["attempts"] == 6, "free up to three calls"
    assert four.snapshot()["attempts"] == 3, "which the other policy has made"
    assert retries.snapshot()["kind"] == "budget"


def test_pools_have_mistakes_of_their_own(fake: tidegate.Engine) -> None:
    def mistakes(**settings: Any) -> list[tuple[str, str, str]]:
        with pytest.raises(tidegate.PolicyError) as caught:
            tidegate.Pool("x", engine=fake, **settings)
        return caught.value.mistakes

    one = "a pool is one of bulkhead, rate_limit, budget"
    assert mistakes() == [("pool", "(nothing)", one)]
    assert mistakes(bulkhead={"max_concurrency": 1}, budget={}) == [("pool", "bulkhead, budget", one)]
    assert mistakes(bulkhead={"max_queue": 1, "kind": "fixed"}) == [
        ("max_concurrency", "(absent)", "is required where there is a bulkhead")
    ]
    users = "belongs to the policies that use the pool"
    found = mistakes(bulkhead=tidegate.Bulkhead(max_concurrency=1, acquire_timeout=1))
    assert [(key, rule) for key, _, rule in found] == [("acquire_timeout", users)]
    tidegate.Pool("x", budget={}, engine=fake)
    tidegate.Pool("x", budget={}, engine=fake)
    with pytest.raises(tidegate.PolicyError, match="a pool of this name with other settings"):
        tidegate.Pool("x", budget={"ttl": 3}, engine=fake)
    with pytest.raises(tidegate.PolicyError, match="a pool that this engine does not have"):
        tidegate.Policy(bulkhead={"pool": "y"}, engine=fake)
    with pytest.raises(tidegate.PolicyError, match="a pool that is of another kind"):
        tidegate.Policy(bulkhead={"pool": "x"}, engine=fake)
    with pytest.raises(tidegate.PolicyError, match=r"belongs to the pool that bulkhead\.pool names"):
        tidegate.Policy(bulkhead={"pool": "x", "max_queue": 3}, engine=fake)


def test_a_policy_pickles_with_its_pool() -> None:
    pool = tidegate.Pool("pickled pool", rate_limit={"permits": 3, "per": 1})
    policy = tidegate.Policy("pooled", rate_limit=tidegate.RateLimit(pool=pool), kinds=KINDS)
    again = pickle.loads(pickle.dumps(policy))
    assert again._setting("rate_limit.permits") == 3
    assert (again.kinds, again.name) == (KINDS, "pooled")
    assert repr(pickle.loads(pickle.dumps(pool))) == repr(pool)


# Documents.

TEXT = """
[pool.db]
bulkhead = { max_concurrency = 1, max_queue = 3 }
[pool.all.budget]
kind = "quota"
[policy.reads]
kinds = { busy = "throttled" }
retry = { max_attempts = 2, retry_on = ["busy"], budget = { pool = "all" } }
bulkhead = { pool = "db", acquire_timeout = "none" }
[policy.writes]
bulkhead = { pool = "db" }
throttle = { max_reject = "none", probe_interval = "none" }
rate_limit = { permits = 100, per = "1s", wait = true, max_wait = "0s" }
"""


def test_documents_have_every_component(fake: tidegate.Engine) -> None:
    policies = tidegate.loads(TEXT, engine=fake)
    assert {name: pool.kind for name, pool in policies.pools.items()} == {"db": "bulkhead", "all": "budget"}
    reads, writes = policies["reads"], policies["writes"]
    assert reads.kinds == {"busy": "throttled"}
    assert reads._setting("retry.budget.kind") == "quota"
    assert reads._setting("bulkhead.max_queue") == writes._setting("bulkhead.max_queue") == 3
    assert writes._setting("throttle.max_reject") == "none"
    assert policies.pools["db"].snapshot()["pool"]["max_queue"] == 3
    assert writes.call(int) == 0


def test_a_document_can_hedge(fake: tidegate.Engine) -> None:
    text = "policy.a.deadline = '1s'\npolicy.b.hedge = { delay = '100ms', max_attempts = 3 }"
    policies = tidegate.loads(text, engine=fake)
    assert policies["b"]._setting("hedge.delay") == 100_000
    assert repr(policies["b"]) == "Policy('b', hedge={'delay': 0.1, 'max_attempts': 3})"
    assert policies["a"]._setting("hedge.delay") is None
