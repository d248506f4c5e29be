"""The scenarios that every language plays (`tests/README.md`), through the public interface."""

import asyncio
import json
from pathlib import Path

import pytest

import tidegate
import tidegate.httpx
from tidegate.testing import FakeClock, MemoryStore, assert_idle

FILE = Path(__file__).parents[2] / "tests" / "scenarios" / "scenarios.json"
SCENARIOS = json.loads(FILE.read_text("utf-8"))["scenarios"]
ENDS = {
    tidegate.RateLimited: "rate_limited",
    tidegate.BulkheadFull: "bulkhead_full",
    tidegate.BreakerOpen: "breaker_open",
    tidegate.Throttled: "throttled",
    tidegate.HoldFull: "hold_full",
    tidegate.AttemptTimeout: "attempt_timeout",
    tidegate.DeadlineExceeded: "deadline",
}


class Failed(Exception):
    """The scripted end of an attempt."""

    def __init__(self, kind, after=None):
        super().__init__(kind)
        self.kind, self.after = kind, after


def classify(subject):
    if not isinstance(subject, Failed):
        return None
    after = None if subject.after is None else subject.after / 1000
    return tidegate.Outcome(subject.kind, retry_after=after)


async def request(path, policy, scripted):
    """A request through the adapter of httpx, and how it ends."""
    httpx = pytest.importorskip("httpx")

    async def answer(_):
        kind, *after = await scripted()
        headers = [("Retry-After", f"{millis // 1000}") for millis in after]
        return httpx.Response(200 if kind == "ok" else 429, headers=headers)

    transport = tidegate.httpx.AsyncTransport(httpx.MockTransport(answer), policy)
    async with httpx.AsyncClient(transport=transport) as client:
        response = await client.get(f"http://service.example{path}")
    return "ok" if response.is_success else "failure"


async def play(scenario):
    clock = FakeClock(autojump=True)
    store = MemoryStore(clock) if "processes" in scenario else None
    engines = [
        tidegate.Engine(seed=scenario["seed"] + process, clock=clock, store=store)
        for process in range(scenario.get("processes", 1))
    ]
    document = json.dumps(scenario["document"])
    fleet = [tidegate.loads(document, form="json", classify=classify, engine=engine) for engine in engines]

    def now():
        return round(clock.now() * 1000)

    async def one(given):
        await clock.sleep(given["at"] / 1000)
        starts = []

        async def scripted():
            starts.append(now())
            takes, kind, *after = given["attempts"][min(len(starts), len(given["attempts"])) - 1]
            await clock.sleep(takes / 1000)
            return kind, *after

        async def attempt():
            kind, *after = await scripted()
            if kind != "ok":
                raise Failed(kind, *after)

        policy = fleet[given.get("process", 0)][given["policy"]]
        try:
            if "path" in given:
                end = await request(given["path"], policy, scripted)
            else:
                await policy.at(criticality=given.get("criticality")).acall(attempt)
                end = "ok"
        except Failed:
            end = "failure"
        except tidegate.TidegateError as error:
            end = next(ENDS[kind] for kind in type(error).__mro__ if kind in ENDS)
        return {"starts": starts, "ended": now(), "end": end}

    found = await asyncio.gather(*map(one, scenario["calls"]))
    for engine in engines:
        assert_idle(engine)
    return found


def agree(found, given, tolerance):
    """Does a call end as expected, within `tolerance` milliseconds?"""
    moments = zip([*found["starts"], found["ended"]], [*given["starts"], given["ended"]], strict=True)
    return found["end"] == given["end"] and all(abs(at - due) <= tolerance for at, due in moments)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_scenario(scenario):
    calls = asyncio.run(play(scenario))
    for given, found in zip(scenario["calls"], calls, strict=True):
        assert len(found["starts"]) == len(given["starts"]), (given, found)
        assert agree(found, given, scenario["tolerance"]), (given, found)
