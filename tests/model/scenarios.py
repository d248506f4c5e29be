"""Whole calls against a scripted service, as a host plays them: ``tests/scenarios/scenarios.json``.

A vector of the family `engine` gives a host's native half its events one by one. A scenario gives the host's
public interface a policy document and calls, and expects when each attempt starts, when the call ends, and
how. Each language plays the file on its own clock: Python, JavaScript, Kotlin, Swift, Rust, and core itself.

What the file expects is the model's, except where processes share a store (``scenarios_fleet.py``). It is
written by ``generate.py``.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import pathlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import scenarios_fleet
import wire
from call import Call, Request, Step
from classify import Outcome
from engine import Engine
from holds import path_of
from policy import Policy, Pool, build, build_pool
from scripts import value

FILE = pathlib.Path(__file__).parents[1] / "scenarios" / "scenarios.json"
LANES = 8
MS = 1000

ENDS = {
    "rate_limited": "rate_limited",
    **dict.fromkeys(["queue_full", "acquire_timeout", "queue_shed", "displaced"], "bulkhead_full"),
    "breaker_open": "breaker_open",
    "throttled": "throttled",
    "hold_full": "hold_full",
    **dict.fromkeys(["deadline", "deadline_before", "deadline_queued"], "deadline"),
}
"""How a call ends that we refused or cut, by its verdict. Any other end is the last attempt's."""

Attempt = list[Any]
"""Milliseconds that it takes; `ok` or the class of its failure; perhaps milliseconds of Retry-After."""

Scenario = dict[str, Any]


def pairs(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of a policy document, with their whole paths, as the model takes them."""
    for key, item in table.items():
        if isinstance(item, dict):
            yield from pairs(item, f"{path}{key}.")
        else:
            yield f"{path}{key}", value(item) if isinstance(item, str) else item


@dataclass
class Playing:
    """A call that a host has begun."""

    given: dict[str, Any]
    call: Call
    running: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    starts: list[float] = field(default_factory=list)
    timer: int = 0
    end: tuple[float, str] | None = None


class Host:
    """The smallest host: it starts attempts, keeps one timer a call, and stops what it is asked to stop."""

    def __init__(self, scenario: Scenario, shuffled: int | None = None) -> None:
        """`shuffled` is the seed of another order of what happens at one moment."""
        self.order = None if shuffled is None else random.Random(shuffled)
        document = scenario["document"]
        self.engine = Engine(scenario["seed"])
        self.policies: dict[str, Policy] = {}
        self.calls: list[Playing] = []
        self.due: list[tuple[int, int, str, Any, int]] = []
        self.sequence = 0
        self.moments: list[int] = []
        for name, table in document.get("pool", {}).items():
            [(kind, rest)] = table.items()
            pool = build_pool(name, kind, list(pairs(rest)))
            assert isinstance(pool, Pool), (scenario["name"], pool)
            self.engine.pool(pool)
        for name, table in document["policy"].items():
            policy = build(name, list(pairs(table)))
            assert isinstance(policy, Policy), (scenario["name"], policy)
            self.policies[name] = policy
        for given in scenario["calls"]:
            self.at(given["at"] * MS, "begin", given, 0)

    def at(self, moment: int, what: str, whom: Any, number: int) -> None:
        """Something is due."""
        self.sequence += 1
        place = self.sequence if self.order is None else self.order.randrange(10**6) * 10**6 + self.sequence
        heapq.heappush(self.due, (moment, place, what, whom, number))

    def play(self) -> list[Playing]:
        """Plays it to its end."""
        while self.due:
            now, _, what, whom, number = heapq.heappop(self.due)
            if self.matters(what, whom, number):
                self.moments.append(now)
            if what == "begin":
                request = Request(criticality=wire.CRITICALITIES.index(whom.get("criticality", "normal")))
                request.path = path_of(whom["path"]) if "path" in whom else None
                policy = self.policies[whom["policy"]]
                call, step = self.engine.begin(policy, whom.get("route", "default"), request, now, "call")
                self.calls.append(Playing(whom, call))
                self.follow(self.calls[-1], step, now)
            elif what == "timer" and whom.timer == number and whom.end is None:
                self.tell(whom, {"event": "timer"}, now)
            elif what == "attempt" and number in whom.running:
                _, kind, *after = self.scripted(whom, number)
                whom.running.discard(number)
                self.tell(whom, finished(number, kind, after[0] if after else None), now)
        return self.calls

    def matters(self, what: str, whom: Any, number: int) -> bool:
        """Does anything happen? A timer that was set anew and an attempt that was stopped do nothing."""
        if what == "timer":
            return bool(whom.timer == number and whom.end is None)
        return what == "begin" or number in whom.running

    def ties(self) -> list[float]:
        """Moments, in milliseconds, at which more than one thing happened."""
        return [one / MS for one, other in itertools.pairwise(self.moments) if one == other]

    def scripted(self, playing: Playing, attempt: int) -> Attempt:
        """What an attempt does; the last one of the script is every later one, too."""
        attempts = playing.given["attempts"]
        found: Attempt = attempts[min(attempt, len(attempts)) - 1]
        return found

    def tell(self, playing: Playing, event: dict[str, Any], now: int) -> None:
        """An event, and what follows from it, the calls that it wakes included."""
        self.follow(playing, self.engine.on(playing.call, event, now), now)

    def follow(self, playing: Playing, step: Step, now: int) -> None:
        """Does what a step says."""
        woken = self.engine.take_wakes()
        gone = [number for number in sorted(playing.running) if step["stop"] >> (number - 1) % LANES & 1]
        playing.running -= set(gone)
        playing.stopped |= set(gone)
        if step["action"] == "attempt":
            number = step["attempt"]
            playing.starts.append(now / MS)
            playing.running.add(number)
            self.at(now + self.scripted(playing, number)[0] * MS, "attempt", playing, number)
        if playing.end is not None:
            assert step["action"] == "done"
        elif step["action"] == "done":
            playing.end = now / MS, self.ended(playing, step)
        elif step.get("next_us") is not None:
            playing.timer += 1
            self.at(now + step["next_us"], "timer", playing, playing.timer)
        else:
            playing.timer += 1
        for number in gone:
            self.tell(playing, finished(number, "cancelled", None), now)
        for call in woken:
            self.tell(next(other for other in self.calls if other.call is call), {"event": "poll"}, now)

    def ended(self, playing: Playing, step: Step) -> str:
        """How a call ends for its caller."""
        if step["verdict"] == "ok":
            return "ok"
        if step["verdict"] in ENDS:
            return ENDS[step["verdict"]]
        lane = step["result"]
        stopped = [number for number in playing.stopped if (number - 1) % LANES == lane]
        return "attempt_timeout" if stopped else "failure"


def finished(attempt: int, kind: str, after_ms: int | None) -> dict[str, Any]:
    """The end of an attempt."""
    outcome = Outcome(kind, "none", None if after_ms is None else after_ms * MS, "")
    return {"event": "finished", "attempt": attempt, "outcome": outcome, "kind": 0, "opinion": "none"}


def calls(count: int, every: int, *attempts: Attempt, start: int = 0, **rest: Any) -> list[dict[str, Any]]:
    """As many calls, one each so many milliseconds, all with the same attempts."""
    return [
        {"at": start + place * every, "policy": "p", "attempts": list(attempts), **rest}
        for place in range(count)
    ]


def scenario(
    name: str, spec: str, document: dict[str, Any], given: list[dict[str, Any]], tolerance: int = 0
) -> Scenario:
    """A scenario of one policy `p`, or of a whole document; with milliseconds for timers that round."""
    whole = document if "policy" in document else {"policy": {"p": document}}
    ordered = sorted(given, key=lambda call: call["at"])
    head = {"name": name, "spec": spec.split(), "seed": 7, "tolerance": tolerance}
    return {**head, "document": whole, "calls": ordered}


def untied(given: Scenario) -> Scenario:
    """The scenario with attempts of slightly different lengths, so that no moments meet."""
    for step in range(1, 60):
        calls = [
            {**call, "attempts": [[takes + place * step % 31, *rest] for takes, *rest in call["attempts"]]}
            for place, call in enumerate(given["calls"])
        ]
        found = {**given, "calls": calls}
        host = Host(found)
        host.play()
        if not host.ties():
            return found
    raise AssertionError(f"{given['name']}: something always happens at one moment")


def retries(**more: Any) -> dict[str, Any]:
    """Retries without jitter, since a clock of whole milliseconds rounds."""
    backoff = {"base": "100ms", "max": "1s", "jitter": "none"}
    return {"max_attempts": 3, "backoff": backoff, "budget": {"kind": "none"}, **more}


def waves() -> list[dict[str, Any]]:
    """Load that a service first carries, then answers slowly, then carries again.

    Calls begin at multiples of 29 ms, and 88 and 707 leave different remainders, so that ends do not meet.
    """
    quick = calls(120, 29, [88, "ok"])
    slow = calls(60, 29, [707, "ok"], start=120 * 29)
    return quick + slow + calls(160, 29, [88, "ok"], start=180 * 29)


def held() -> list[dict[str, Any]]:
    """Requests of paths that a service throttles, and others: first /a alone, then what begins with /x/y."""
    quick = [13, "ok"]
    throttles = [[11, "throttled", 2000], quick]
    later = [
        {"at": 5000 + 37 * place, "policy": "p", "path": f"/x/y/{place}", "attempts": throttles}
        for place in range(4)
    ]
    return [
        *calls(1, 1, [11, "throttled", 2000], [17, "throttled", 1000], quick, path="/a"),
        *calls(6, 101, quick, start=207, path="/a?page=2"),
        *calls(3, 101, quick, start=253, path="/b"),
        *calls(3, 211, quick, start=2503, path="//a/"),
        *later,
        *calls(2, 103, quick, start=5301, path="/x/y/z"),
        *calls(2, 103, quick, start=5351, path="/x/other"),
        *calls(1, 1, quick, start=5407, path="/y/x"),
        *calls(4, 61, [11, "throttled", 1000], start=10_003, path="/x/y"),
    ]


def all_scenarios() -> list[Scenario]:
    """Every scenario, in the order of the specification."""
    aimd = {"kind": "aimd", "max_concurrency": 20, "latency_threshold": "100ms", "max_queue": 0}
    gradient = {"kind": "gradient2", "max_concurrency": 30, "min_concurrency": 2, "max_queue": 3}
    queue = {"max_concurrency": 2, "max_queue": 40, "acquire_timeout": "2s"}
    fails = [17, "transient"]
    return [
        scenario(
            "a failure is repeated after its backoff",
            "2.4 2.6",
            {"retry": retries()},
            calls(3, 1000, fails, fails, [17, "ok"]) + calls(2, 1000, fails, start=5000),
        ),
        scenario(
            "the service's Retry-After is waited for, and gives up above the limit",
            "2.7",
            {"retry": retries(retry_after="exact", max_retry_after="2s")},
            calls(1, 1, [11, "throttled", 1500], [11, "ok"])
            + calls(1, 1, [11, "throttled", 2500], [11, "ok"], start=4001),
        ),
        scenario(
            "attempts time out, and the deadline ends the call",
            "7.1 7.2",
            {"attempt_timeout": "50ms", "deadline": "220ms", "retry": retries(max_attempts=5)},
            calls(2, 500, [400, "ok"]) + calls(1, 1, [400, "ok"], [29, "ok"], start=1501),
        ),
        scenario(
            "the deadline stops the attempt that runs, and refuses who still waits",
            "7.1",
            {
                "deadline": "120ms",
                "bulkhead": {"max_concurrency": 1, "max_queue": 2, "acquire_timeout": "1s"},
            },
            calls(3, 7, [400, "ok"]) + calls(2, 7, [31, "ok"], start=501),
        ),
        scenario(
            "a limit that grows and shrinks by latency (AIMD)",
            "4.2",
            {"bulkhead": {**aimd, "min_concurrency": 2, "cut_interval": "100ms"}},
            waves(),
        ),
        scenario(
            "a limit that shrinks by a quantile of latency (AIMD)",
            "4.2 9.2",
            {"bulkhead": {**aimd, "latency_quantile": 0.9, "cut_interval": "100ms", "min_concurrency": 2}},
            waves(),
        ),
        scenario("a limit that finds itself (Gradient2)", "4.3", {"bulkhead": gradient}, waves()),
        scenario(
            "a limit that finds itself, as published (Gradient2)",
            "4.3",
            {"bulkhead": {**gradient, "variant": "netflix", "max_queue": 0}},
            waves(),
        ),
        untied(
            scenario(
                "a standing queue is shed (CoDel)",
                "4.4",
                {"bulkhead": {**queue, "queue_target": "20ms", "queue_interval": "100ms"}},
                calls(90, 11, [43, "ok"]),
            )
        ),
        untied(
            scenario(
                "the newest waiter comes first while the queue stands (adaptive LIFO)",
                "4.4",
                {"bulkhead": {**queue, "queue_target": "20ms", "queue_adaptive_lifo": True}},
                calls(60, 13, [43, "ok"]),
            )
        ),
        untied(
            scenario(
                "the oldest waiters meet their deadlines while the newest come first",
                "4.4 7.1",
                {
                    "deadline": "311ms",
                    "bulkhead": {**queue, "queue_target": "20ms", "queue_adaptive_lifo": True},
                },
                calls(60, 13, [43, "ok"]),
            )
        ),
        scenario(
            "waiters run out of patience",
            "4.1",
            {"bulkhead": {"max_concurrency": 1, "max_queue": 5, "acquire_timeout": "130ms"}},
            calls(20, 17, [61, "ok"]),
        ),
        scenario(
            "what matters more goes first, and displaces",
            "4.5",
            {"bulkhead": {"max_concurrency": 1, "max_queue": 3, "prioritized": True}},
            calls(8, 10, [61, "ok"], criticality="best_effort")
            + calls(6, 10, [61, "ok"], start=83, criticality="critical"),
        ),
        scenario(
            "a breaker opens, tries, and closes",
            "5.1 5.2",
            {"breaker": {"consecutive": 3, "break_duration": "1s", "half_open_max_calls": 1}},
            calls(6, 100, [9, "transient"]) + calls(20, 250, [9, "ok"], start=601),
        ),
        scenario(
            "a throttle refuses what the service would not accept",
            "6.1",
            {"throttle": {"k": 1.5, "window": "10s", "min_throughput": 5}},
            calls(60, 20, [7, "transient"]) + calls(80, 60, [7, "ok"], start=1301),
        ),
        scenario(
            "the send rate follows the service's throttling (cubic)",
            "2.14",
            {"retry": retries(send_rate="cubic", max_attempts=2)},
            calls(30, 53, [9, "ok"])
            + calls(6, 101, [9, "throttled"], start=1803)
            + calls(40, 53, [9, "ok"], start=2612),
            tolerance=5,
        ),
        scenario(
            "a rate limit lets calls wait for their turn",
            "3.1",
            {"rate_limit": {"permits": 10, "per": "1s", "burst": 3, "wait": True, "max_wait": "400ms"}},
            calls(25, 31, [5, "ok"]),
        ),
        scenario(
            "policies share a pool of places",
            "0.4",
            {
                "pool": {"places": {"bulkhead": {"max_concurrency": 2, "max_queue": 4}}},
                "policy": {
                    "p": {"bulkhead": {"pool": "places", "acquire_timeout": "151ms"}},
                    "q": {"bulkhead": {"pool": "places", "acquire_timeout": "52ms"}},
                },
            },
            calls(12, 29, [71, "ok"]) + calls(12, 29, [71, "ok"], start=9, policy="q"),
        ),
        scenario(
            "policies share a rate limit",
            "0.4 3.1",
            {
                "pool": {"rate": {"rate_limit": {"permits": 10, "per": "1s", "burst": 3}}},
                "policy": {
                    "p": {"rate_limit": {"pool": "rate", "wait": True, "max_wait": "350ms"}},
                    "q": {"rate_limit": {"pool": "rate"}},
                },
            },
            calls(12, 71, [5, "ok"]) + calls(14, 83, [5, "ok"], start=37, policy="q"),
        ),
        scenario(
            "policies share a retry budget",
            "0.4 2.13",
            {
                "pool": {"retries": {"budget": {"kind": "tokens", "max": 10, "ratio": 0.5}}},
                "policy": {
                    "p": {"retry": {**retries(), "budget": {"pool": "retries"}}},
                    "q": {"retry": {**retries(), "budget": {"pool": "retries"}}},
                },
            },
            calls(6, 1000, fails) + calls(6, 1000, fails, [3, "ok"], start=507, policy="q"),
        ),
        scenario(
            "the preset graph",
            "0.7",
            {"preset": "graph"},
            calls(1, 1, fails, fails, fails, [17, "ok"])
            + calls(1, 1, [17, "throttled", 7000], [17, "ok"], start=60_001),
            tolerance=1,
        ),
        scenario(
            "calls of a throttled path are held",
            "2.19",
            {"retry": retries(hold=True, max_held=4, retry_after="exact", max_retry_after="10s")},
            held(),
        ),
        scenario(
            "the preset graph holds calls of a throttled path",
            "0.7 2.19",
            {"preset": "graph"},
            calls(1, 1, [17, "throttled", 7000], [19, "ok"], path="/users/1")
            + calls(3, 103, [19, "ok"], start=51, path="/users/1")
            + calls(1, 1, [19, "ok"], start=97, path="/users/2"),
            tolerance=1,
        ),
        scenario(
            "a slow attempt is raced",
            "8.1",
            {"hedge": {"delay": "50ms"}},
            calls(2, 500, [200, "ok"], [30, "ok"]) + calls(2, 500, [120, "ok"], [400, "ok"], start=1501),
        ),
        scenario(
            "the delay of a hedge follows the latency",
            "8.2",
            {
                "hedge": {
                    "delay": "50ms",
                    "adaptive_delay_quantile": 0.9,
                    "delay_min": "10ms",
                    "delay_max": "300ms",
                }
            },
            [
                {"at": place * 500, "policy": "p", "attempts": [[20 + place * 7 % 60, "ok"], [33, "ok"]]}
                for place in range(30)
            ],
            tolerance=1,
        ),
    ]


def told(played: list[Playing]) -> list[Any]:
    """What a scenario says of its calls, whatever the order in which they began."""
    found = sorted(played, key=lambda playing: id(playing.given))
    return [(playing.starts, playing.end) for playing in found]


def expected(given: Scenario) -> Scenario:
    """The scenario with what the model says of each call."""
    host = Host(given)
    played = host.play()
    if any("path" in call for call in given["calls"]):
        # Held calls wake at one moment. Hosts differ in their order, so no order may change the result.
        for seed in range(50):
            assert told(Host(given, shuffled=seed).play()) == told(played), f"{given['name']}: order {seed}"
    else:
        assert not host.ties(), f"{given['name']}: more than one event at {host.ties()} ms"
    assert len(played) == len(given["calls"]), given["name"]
    found = []
    moments: list[float] = []
    for call, playing in zip(given["calls"], played, strict=True):
        assert playing.end is not None and playing.given is call, given["name"]
        found.append({**call, "starts": [math.ceil(start) for start in playing.starts]})
        found[-1]["ended"], found[-1]["end"] = math.ceil(playing.end[0]), playing.end[1]
        moments += [*playing.starts, playing.end[0]]
    fractions = [moment for moment in moments if moment != int(moment)]
    assert given["tolerance"] > 0 or not fractions, (
        f"{given['name']}: {fractions} ms are no whole milliseconds"
    )
    return {**given, "calls": found}


def text() -> str:
    """The file: a line for each call."""
    blocks = []
    for played in [*map(expected, all_scenarios()), *scenarios_fleet.all_scenarios()]:
        head = {key: item for key, item in played.items() if key != "calls"}
        rows = ",\n".join(json.dumps(call, separators=(",", ":")) for call in played["calls"])
        blocks.append(json.dumps(head, separators=(",", ":"))[:-1] + f',"calls":[\n{rows}\n]}}')
    source = "tests/model/scenarios.py"
    return (
        f'{{"family":"scenarios","origin":"model","source":"{source}","scenarios":[\n'
        + ",\n".join(blocks)
        + "\n]}\n"
    )
