"""The vectors that every language shares (`tests/README.md`), through `tidegate.parts`.

Moments are told from the first one of a case: only differences count, and seconds as a float are exact to
the microsecond for 140 years. Core takes any settings, a part only those that a policy may have: cases beyond
them are refused, and how many those are is written down here, so that they cannot come to hide the rest.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate import parts

VECTORS = Path(__file__).parents[2] / "tests" / "vectors"
EXACT = 2**52


def file(path: str) -> Any:
    return json.loads((VECTORS / path).read_text("utf-8"))


def us(seconds: float) -> int | str:
    return "never" if seconds == float("inf") else round(seconds * 1e6)


def told(
    path: str, new: Callable[[Any, float], Any], answer: Callable[[Any, Any, Callable[[int], float]], Any]
) -> tuple[int, int]:
    """Plays every step of a file: steps played, and cases that no policy allows or no float can say."""
    played = refused = 0
    for case in file(path)["cases"]:
        origin = case.get("origin", case["steps"][0]["at"])
        if any(abs(step["at"] - origin) >= EXACT for step in case["steps"]):
            refused += 1  # a moment that seconds in a float cannot say
            continue

        def at(moment: int, origin: int = origin) -> float:
            return (moment - origin) / 1e6

        try:
            part = new(case, at(origin))
            for step in case["steps"]:
                found = answer(part, step, at)
                assert {**step, **found} == step, (path, case.get("name"), step)
                played += 1
        except tidegate.PolicyError:
            refused += 1
    return played, refused


def spans(settings: Any, *keys: str) -> dict[str, Any]:
    """The settings of a vector as a part takes them: what is null is left out."""
    there = {key: value for key, value in settings.items() if value is not None}
    return {key: value / 1e6 if key in keys else value for key, value in there.items()}


def rate(settings: Any) -> dict[str, Any]:
    return spans({key: settings[key] for key in ("permits", "per", "burst")}, "per")


def test_token_buckets() -> None:
    def answer(bucket: parts.TokenBucket, step: Any, at: Any) -> Any:
        now, found = at(step["at"]), {}
        if step["op"] == "take":
            twin = copy.copy(bucket)
            wait = bucket.acquire(now, step["cost"])
            assert twin.try_take(now, step["cost"]) is (wait == 0)
            found = {"granted": True} if wait == 0 else {"granted": False, "wait": us(wait)}
        elif step["op"] == "wait_for":
            found = {"wait": us(bucket.wait_for(now, step["tokens"]))}
        else:
            bucket.retune(now, **rate(step))
        return found | {"level": bucket.level(now)}

    def new(case: Any, now: float) -> parts.TokenBucket:
        return parts.TokenBucket(**rate(case["settings"]), now=now)

    assert told("rate/bucket.json", new, answer) == (320, 2)


def test_gcra() -> None:
    def answer(limit: parts.Gcra, step: Any, at: Any) -> Any:
        twin, now = copy.copy(limit), at(step["at"])
        wait = limit.acquire(now, step["cost"])
        assert twin.try_take(now, step["cost"]) is (wait == 0)
        return {"granted": True} if wait == 0 else {"granted": False, "wait": us(wait)}

    assert told("rate/gcra.json", lambda case, _: parts.Gcra(**rate(case["settings"])), answer) == (160, 1)


def test_both_rates_follow_the_published_vector() -> None:
    limit, bucket = parts.Gcra(1, 1.0, 3), parts.TokenBucket(1, 1.0, 3, now=0)
    steps = file("published/gcra.json")["steps"]
    for step in steps:
        expected = 0 if step["allow"] else step["retry_in"]
        assert limit.acquire(step["t"]) == bucket.acquire(step["t"]) == pytest.approx(expected, abs=1e-9)
    assert len(steps) == 10


def limited(part: parts.Aimd | parts.Gradient2, step: Any) -> Any:
    """The limit in both its forms; the exact one to the last bit."""
    return {"limit": part.limit, "exact": step["exact"] if part.exact == float(step["exact"]) else part.exact}


def aimd(settings: Any) -> dict[str, Any]:
    return spans(settings, "latency_threshold", "cut_interval")


def test_aimd_limits() -> None:
    def answer(limit: parts.Aimd, step: Any, at: Any) -> Any:
        now = at(step["at"])
        if step["op"] == "latency":
            limit.on_latency(step["latency"] / 1e6, now)
        elif step["op"] == "failure":
            limit.on_failure(step["latency"] / 1e6, now)
        elif step["op"] == "timeout":
            limit.on_timeout(now)
        else:
            limit.retune(**aimd(step["settings"]))
        return limited(limit, step)

    assert told("limit/aimd.json", lambda case, _: parts.Aimd(**aimd(case["settings"])), answer) == (720, 0)


def test_gradient2_limits() -> None:
    def answer(limit: parts.Gradient2, step: Any, at: Any) -> Any:
        started, now = at(step["started"]), at(step["at"])
        if step["op"] == "latency":
            limit.on_latency(step["rtt"] / 1e6, started, step["in_flight"], now)
        else:
            limit.on_drop(started, step["in_flight"], now)
        return limited(limit, step)

    def new(case: Any, _: float) -> parts.Gradient2:
        return parts.Gradient2(**case["settings"], variant=case["variant"])

    assert told("limit/gradient2.json", new, answer) == (3682, 0)


@pytest.mark.parametrize("law", ["facebook", "rfc8289"])
def test_queues(law: Any) -> None:
    """A queue as its owner keeps it: the part is asked for each waiter, and told when nobody waits."""

    def answer(queue: tuple[parts.CoDel, deque[Any]], step: Any, at: Any) -> Any:
        codel, waiting = queue
        now = at(step["at"])
        if step["op"] == "enqueue":
            if not waiting:
                codel.on_empty(now)
            waiting.append((step["at"], float(step["scale"])))
            return {}
        congested, shed, granted = codel.congested(now), 0, False
        assert law == "rfc8289" or codel.allowance(now) in (0.005, 0.020001, 0.05, 0.1)
        while waiting and not granted:
            came, scale = waiting.popleft()
            granted = not codel.should_shed((step["at"] - came) / 1e6, now, scale)
            shed += not granted
        if not waiting:
            codel.on_empty(now)
        return {"congested": congested, "shed": shed, "granted": granted}

    def new(case: Any, now: float) -> Any:
        settings = {"queue_target": case["target"] / 1e6, "queue_interval": case["interval"] / 1e6}
        return parts.CoDel(**settings, codel=law, now=now), deque()

    assert told(f"codel/{law}.json", new, answer) == (2765, 0)


def breaker(settings: Any) -> dict[str, Any]:
    return spans(settings, "window", "break_duration", "max_break_duration", "probe_lease")


def breaker_says(queue: tuple[parts.CircuitBreaker, dict[str, Any]], step: Any, at: Any) -> Any:
    it, tickets = queue
    now, found = at(step["at"]), {}
    ticket = parts.Ticket(*step["forged"]) if "forged" in step else tickets.get(step.get("call"))
    if step["op"] == "admit":
        early = it.refuses(now)
        ticket = it.admit(now)
        assert (early is None) is (ticket is not None)
        if ticket is None:
            found = {"retry_in": us(early)}
        else:
            tickets[step["call"]] = ticket
            found = {"probe": ticket.probe}
    elif step["op"] == "record":
        change = it.record(ticket, step["evidence"], now, int(step["bits"]))
        found = {"transition": change and list(change)}
    elif step["op"] == "body":
        change = it.on_body_failure(ticket, now, int(step["bits"]))
        found = {"transition": change and list(change)}
    elif step["op"] == "retune":
        it.retune(now, **breaker(step["settings"]))
        found = {}
    else:
        {"reset": it.reset, "fork": it.forget_probes, "look": dict}[step["op"]]()
        found = {}
    found |= {"state": it.state, "failures": it.failures(now), "throughput": it.throughput(now)}
    # In this order: whether it is fresh is a reading of the clock, which `open_until` is told on.
    found["fresh"] = it.is_fresh(now)
    if it.open_until is not None:
        found["open_until"] = round((it.open_until - at(0)) * 1e6)
    return found


BREAKERS = {
    "body": (31, 0), "breaks": (57, 0), "half_open": (87, 0), "late": (71, 0), "opening": (56, 0),
    "random": (1434, 17), "retune": (40, 1), "time": (42, 2), "window": (48, 0),
}  # fmt: skip
"""Steps played, cases refused: some of the random ones have breaks of a microsecond."""


@pytest.mark.parametrize("name", BREAKERS)
def test_breakers(name: str) -> None:
    def new(case: Any, _: float) -> Any:
        return parts.CircuitBreaker(**breaker(case["settings"])), {}

    assert told(f"breaker/{name}.json", new, breaker_says) == BREAKERS[name]


def throttle(settings: Any) -> dict[str, Any]:
    given = spans(settings, "window", "probe_interval")
    return {"max_reject": "none", "probe_interval": "none"} | given


THROTTLES = {"random": (1280, 0), "stories": (69, 0)}


@pytest.mark.parametrize("name", THROTTLES)
def test_throttles(name: str) -> None:
    def answer(it: parts.AdaptiveThrottle, step: Any, at: Any) -> Any:
        now, found = at(step["at"]), {}
        if step["op"] == "admit":
            found = {"admitted": it.admit(now, int(step["bits"]))}
        elif step["op"] == "record":
            for _ in range(step["times"]):
                it.record(step["accepted"], now)
        elif step["op"] == "retune":
            it.retune(now, **throttle(step["settings"]))
        requests, accepts = it.requests(now), it.accepts(now)
        assert it.is_fresh(now) is (requests == 0)
        p = it.probability(now)
        p = step["p"] if p == float(step["p"]) else p
        return found | {"requests": requests, "accepts": accepts, "p": p}

    def new(case: Any, now: float) -> parts.AdaptiveThrottle:
        return parts.AdaptiveThrottle(**throttle(case["settings"]), now=now)

    assert told(f"throttle/{name}.json", new, answer) == THROTTLES[name]


def test_who_counts_what() -> None:
    breakers = file("breaker/classes.json")["classes"]
    breaker = parts.CircuitBreaker(1.0, consecutive=1)
    assert {kind: breaker.evidence_of(kind) for kind in breakers} == breakers
    throttles = file("throttle/classes.json")["classes"]
    throttle = parts.AdaptiveThrottle(now=0)
    assert {kind: throttle.accepted(kind) for kind in throttles} == throttles
    assert len(breakers) == len(throttles) == 9


def within(cases: Any, key: str, low: float, high: float) -> Iterator[Any]:
    """The cases with a setting in the range that a part takes; core alone clamps what is outside it."""
    for case in cases:
        if low <= float(case[key]) <= high:
            yield case


def number(text: str | None) -> float | None:
    return None if text is None else float(text)


def test_p2() -> None:
    looks = 0
    for case in within(file("quantile/p2.json")["cases"], "p", 0.001, 0.999):
        it = parts.P2Quantile(float(case["p"]))
        expected = {look["after"]: look for look in case["looks"]}
        for place, x in enumerate(case["observations"]):
            it.observe(float(x))
            look = expected.get(place + 1)
            if look is None:
                continue
            assert (it.count, it.estimate) == (look["count"], number(look["estimate"])), (case["name"], look)
            looks += 1
    assert looks == 577


def test_windowed() -> None:
    looks = 0
    for case in within(file("quantile/windowed.json")["cases"], "window", 10, 2**32 - 1):
        it = parts.WindowedP2Quantile(float(case["p"]), case["window"])
        for x, look in zip(case["observations"], case["looks"], strict=True):
            it.observe(float(x))
            assert [it.estimate, it.count] == [number(look[0]), look[1]], (case["name"], look)
            looks += 1
    assert looks == 1678


def test_ddsketch() -> None:
    vector, merged = file("quantile/ddsketch.json"), 0
    for case in within(vector["cases"], "alpha", 0.001, 0.25):
        whole = parts.DDSketch(float(case["alpha"]))
        for part in case["parts"]:
            sketch = parts.DDSketch(float(case["alpha"]))
            for x in part:
                sketch.add(float(x))
            whole.merge(sketch)
            merged += 1
        assert (whole.count, whole.sum) == (case["count"], float(case["sum"]))
        assert (whole.min, whole.max) == (number(case["min"]), number(case["max"]))
        for q, value in case["quantiles"]:
            if 0 <= float(q) <= 1:
                assert whole.quantile(float(q)) == number(value), (q, case)
        words = [int(word) for word in case["words"]]
        assert whole.to_words() == words
        assert parts.DDSketch.from_words(words) == whole
    assert merged == 30
    for case in vector["malformed"]:
        with pytest.raises(ValueError, match=r"^words: "):
            parts.DDSketch.from_words(int(word) for word in case["words"])
    assert len(vector["malformed"]) > 10
