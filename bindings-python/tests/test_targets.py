"""Targets: functions learn which model, provider or key their attempt goes to (semantics 17)."""

from __future__ import annotations

import asyncio
import pickle
import threading

import httpx
import pytest

import tidegate
from tidegate.httpx import Transport

LADDER = """
[targets.chat]
pick = "ladder"
members = ["large", "small"]
default.breaker = { consecutive = 1, break_duration = "10s" }

[policy.chat]
targets = "chat"
retry.max_attempts = 3
retry.backoff = { base = "1ms", max = "1ms" }
"""


RATE = """
[targets.chat.default.rate_limit]
permits = 5
per = "1m"
"""


class Broken(ConnectionError):
    """What a target that is down raises."""


def chat(engine: tidegate.Engine, text: str = LADDER) -> tidegate.Policy:
    return tidegate.loads(text, engine=engine)["chat"]


def test_a_function_learns_its_target_and_fails_over_17_4_1(engine: tidegate.Engine) -> None:
    seen: list[str | None] = []

    def ask() -> str:
        seen.append(tidegate.target())
        if seen[-1] == "large":
            raise Broken
        return f"from {seen[-1]}"

    assert tidegate.target() is None
    assert chat(engine).call(ask) == "from small"
    assert chat(engine).call(ask) == "from small", "the first one's breaker is open"
    assert seen == ["large", "small", "small"]
    assert tidegate.target() is None


def test_a_coroutine_learns_its_target_17_2_11(engine: tidegate.Engine) -> None:
    seen: list[str | None] = []

    async def ask() -> str:
        await asyncio.sleep(0)
        seen.append(tidegate.target())
        if seen[-1] == "large":
            raise Broken
        return "ok"

    assert asyncio.run(chat(engine).acall(ask)) == "ok"
    assert seen == ["large", "small"]


def test_an_inner_call_without_targets_sees_the_target_around_it(engine: tidegate.Engine) -> None:
    inner = tidegate.Policy("inner", deadline=5, engine=engine)
    assert chat(engine).call(lambda: inner.call(tidegate.target)) == "large"


HEDGED = """
[targets.chat]
pick = "ladder"
members = ["large", "small"]

[policy.chat]
targets = "chat"
hedge = { delay = "1ms", max_attempts = 2, budget = { kind = "none" } }
"""


def test_each_attempt_of_a_race_keeps_its_own_target_17_4_6(engine: tidegate.Engine) -> None:
    hedged = threading.Event()
    late: list[str | None] = []

    def ask() -> str | None:
        if tidegate.target() == "small":
            hedged.set()
            return tidegate.target()
        hedged.wait(30)
        late.append(tidegate.target())  # the hedge is the newest attempt now
        return "late"

    first = chat(engine, HEDGED).call(ask)
    assert first in ("small", "late"), "either may win once both have an answer"
    assert hedged.is_set()
    assert late in ([], ["large"])

    async def aask() -> str | None:
        if tidegate.target() == "small":
            return tidegate.target()
        await asyncio.sleep(30)
        return "late"

    assert asyncio.run(chat(engine, HEDGED).acall(aask)) == "small"


def test_no_target_is_a_rejection_17_3_1(engine: tidegate.Engine) -> None:
    policy = chat(engine)

    def broken() -> None:
        raise Broken

    with pytest.raises(Broken):
        policy.call(broken)
    with pytest.raises(tidegate.NoTarget) as refused:
        policy.call(broken)
    assert refused.value.code == "no_target"
    assert refused.value.http_status == 503
    assert refused.value.retry_at is not None


def test_a_transport_of_httpx_maps_the_target_to_a_host(engine: tidegate.Engine) -> None:
    hosts: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        where = f"{tidegate.target()}.example"
        hosts.append(where)
        return httpx.Response(503 if where == "large.example" else 200, text=where)

    transport = Transport(httpx.MockTransport(answer), chat(engine))
    with httpx.Client(transport=transport) as client:
        assert client.get("https://chat.example/").text == "small.example"
    assert hosts == ["large.example", "small.example"]


def test_a_snapshot_shows_the_targets_17_2_14(engine: tidegate.Engine) -> None:
    policy = chat(engine, LADDER.replace("max_attempts = 3", "max_attempts = 1") + RATE)

    def broken() -> None:
        raise Broken

    with pytest.raises(Broken):
        policy.call(broken)
    assert policy.call(tidegate.target) == "small"
    large, small = engine.snapshot()["targets"]
    assert large["breaker"] and large["rate"] and small["breaker"]
    broken_for = large["breaker"].pop("retry_in")  # type: ignore[misc]
    assert broken_for and 9 < broken_for <= 11
    assert large == {
        "group": "chat",
        "name": "large",
        "forced": False,
        "attempts": 1,
        "skipped": 1,
        "in_flight": 0,
        "estimate": None,
        "pool": None,
        "rate": {"tokens": 4, "waiting": 0, "limits": {}},
        "breaker": {"state": "open", "failures": 0, "throughput": 0},
    }
    assert (small["name"], small["attempts"], small["skipped"]) == ("small", 1, 0)
    assert (small["estimate"] or 0) > 0
    assert engine.snapshot()["late_settlements"] == 0


def test_an_operator_closes_a_target_17_3_5(engine: tidegate.Engine) -> None:
    policy = chat(engine)
    policy.force_target("large")
    assert policy.call(tidegate.target) == "small"
    assert [target["forced"] for target in engine.snapshot()["targets"]] == [True, False]
    policy.force_target("large", on=False)
    assert policy.call(tidegate.target) == "large"
    with pytest.raises(tidegate.PolicyError, match=r"chat/none.*no such target"):
        policy.force_target("none")
    with pytest.raises(tidegate.PolicyError, match="no such target"):
        tidegate.Policy(engine=engine, deadline=1.0).force_target("large")


def test_a_reload_changes_the_members_of_a_group_17_1_8(engine: tidegate.Engine) -> None:
    policies = tidegate.loads(LADDER, engine=engine)
    assert policies["chat"].call(tidegate.target) == "large"
    changed = policies.reload(LADDER.replace('["large", "small"]', '["tiny", "large"]'))
    assert (changed.added, changed.changed, changed.removed) == ((), ("targets.chat",), ())
    assert policies["chat"].call(tidegate.target) == "tiny"
    assert policies.pools == {}


def test_a_policy_with_targets_belongs_to_its_document(engine: tidegate.Engine) -> None:
    policy = chat(engine)
    for what, copied in (
        ("pickle", lambda: pickle.dumps(policy)),
        ("pickle", lambda: pickle.dumps(policy.at(route="eu"))),
        ("replace", lambda: policy.replace("other", deadline=1.0)),
    ):
        with pytest.raises(TypeError, match=f"{what}: policy 'chat' has targets, which only a document"):
            copied()


def test_mistakes_of_a_group_name_key_value_and_rule_17_1_2() -> None:
    with pytest.raises(tidegate.PolicyError) as wrong:
        tidegate.loads(LADDER.replace('"ladder"', '"steps"'))
    assert 'targets.chat.pick = "steps": must be one of ladder, balanced' in str(wrong.value)
