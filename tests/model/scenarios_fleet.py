"""Scenarios of a fleet: processes that share a store (spec 10).

The model has the store's scripts (``fleet.py``) but no process of a fleet. So what is expected here is
written by hand, from the sentences of the specification that are quoted beside it. Core plays it
(``core/tests/played.rs``), and so does each host that has a store. The store answers at once. A process is
an engine of its own.
"""

from __future__ import annotations

from typing import Any

Call = dict[str, Any]
Scenario = dict[str, Any]

FAILS = "transient"


def passes(process: int, at: int, takes: int = 9, kind: str = "ok", starts: int | None = None) -> Call:
    """A call of a process that is let through, at `starts` if it waits before."""
    began = at if starts is None else starts
    end = "ok" if kind == "ok" else "failure"
    given = {"at": at, "process": process, "policy": "p", "attempts": [[takes, kind]]}
    return {**given, "starts": [began], "ended": began + takes, "end": end}


def refused(process: int, at: int, end: str) -> Call:
    """A call of a process that is refused at once."""
    given = {"at": at, "process": process, "policy": "p", "attempts": [[9, "ok"]]}
    return {**given, "starts": [], "ended": at, "end": end}


def opened(process: int, at: int) -> Call:
    """A call that the breaker refuses."""
    return refused(process, at, "breaker_open")


def trips(process: int, at: int) -> list[Call]:
    """Three failures in a row: the breaker opens 209 ms after the first began."""
    return [passes(process, at + 100 * place, 9, FAILS) for place in range(3)]


def scenario(
    name: str, spec: str, processes: int, document: dict[str, Any], calls: list[Call], tolerance: int = 0
) -> Scenario:
    """A scenario of one policy `p`."""
    ordered = sorted(calls, key=lambda call: call["at"])
    moments = [moment for call in calls for moment in {call["at"], *call["starts"], call["ended"]}]
    ties = {moment for moment in moments if moments.count(moment) > 1}
    assert ties <= {600}, f"{name}: two things happen at {ties} ms"
    head = {"name": name, "spec": spec.split(), "seed": 7, "tolerance": tolerance, "processes": processes}
    return {**head, "document": {"policy": {"p": document}}, "calls": ordered}


def breaker(**more: Any) -> dict[str, Any]:
    """Three failures in a row open it for 2 s, always."""
    rest = {"consecutive": 3, "break_duration": "2s", "break_factor": 1, "store": "fleet"}
    return {"breaker": {**rest, **more}}


def one_opens_one_closes() -> list[Call]:
    """10.1: "one process tripping opens it for all"."""
    return [
        passes(1, 50),
        *trips(0, 100),  # open from 309 to 2309; 10.7: "an opening is written at once"
        opened(0, 400),
        # 10.7: exchanged "at most every `store_exchange` (250 ms), by traffic". This call asks, and runs.
        passes(1, 450),
        opened(1, 500),
        opened(1, 900),
        # 10.7: "What is left of a break counts from the question": the break ends at 2309 here, too.
        opened(1, 2300),
        # 10.7: "half-open probes are each process's own".
        passes(0, 2320, 700),
        passes(1, 2330),
        opened(0, 2400),
        passes(1, 2450),
        # 10.7: "the first whose probes close it closes it for all". Process 0 asks while its probe runs.
        opened(0, 2600),
        passes(0, 2650),
        passes(0, 3100),
    ]


def a_probe_fails() -> list[Call]:
    """10.7: "and a failed one opens it for all again"."""
    return [
        passes(1, 50),
        *trips(0, 100),
        passes(1, 450),
        opened(1, 600),
        passes(0, 2320, 300, FAILS),  # open again from 2620 to 4620
        passes(1, 2330, 1000),
        opened(1, 2700),  # asks, and learns of it: what its own probe finds out is of the break before
        opened(1, 3400),
        opened(0, 4600),
        opened(1, 4610),
        passes(1, 4650),
        passes(0, 4700),
    ]


def two_votes() -> list[Call]:
    """10.1: "or `quorum` of them within the window", which is `break_duration` here."""
    return [
        *trips(0, 100),  # open for itself alone, from 309 to 2309
        opened(0, 400),
        passes(2, 450),
        passes(2, 750),
        *trips(1, 800),  # the second vote: open for all, from 1009 to 3009
        passes(2, 1200),  # asks
        opened(2, 1300),
        opened(0, 1500),  # asks
        opened(1, 1550),
        opened(0, 2500),  # its own break would have ended at 2309
        opened(2, 2990),
        passes(0, 3050),
        passes(1, 3100),
        passes(2, 3150),
    ]


def four(process: int, at: int, limit: int) -> list[Call]:
    """Four calls within 3 ms, of which as many are let through as the limit says; no queue."""
    return [
        passes(process, at + place) if place < limit else refused(process, at + place, "bulkhead_full")
        for place in range(4)
    ]


def latencies() -> list[Call]:
    """10.1: "a sketch merged across processes feeds AIMD's quantile". 10.11: at least 20 samples."""
    return [
        *four(0, 100, 4),
        # In process 1 one slow call runs at a time, so a limit of 1 is enough for it.
        *(passes(1, 223 * place, 200) for place in range(1, 31)),
        *four(0, 3000, 4),  # at most 16 samples have been told, too few
        passes(0, 6500),  # asks: most of what was told is slow, so the quantile is 200 ms
        # 4.2: a signal over the threshold multiplies the limit by `backoff_ratio`: 4 becomes 2.
        passes(0, 6600),
        *four(0, 6700, 2),
        # 10.7: "the limit stays until the store tells nothing of before it".
        *four(0, 7500, 2),
    ]


def slots() -> list[Call]:
    """10.1: "leases"; 10.10: "A process that holds more slots than it may keep releases a freed slot"."""
    return [
        passes(0, 3, 397),
        passes(0, 5, 595),
        passes(0, 7, 793),
        # Process 0 would use 4 slots and process 1 would use 1, so the fair level is 2. Process 0 may
        # keep 2 of its 3: what it frees at 400 goes to process 1, what it frees at 600 to its own waiter.
        passes(0, 11, 83, starts=600),
        passes(1, 21, 500, starts=437),  # process 1 asks again after 25 to 75 ms
        passes(1, 1203, 50),
    ]


def all_scenarios() -> list[Scenario]:
    """Every scenario of a fleet."""
    aimd = {"kind": "aimd", "max_concurrency": 4, "latency_threshold": "100ms", "latency_quantile": 0.9}
    return [
        scenario(
            "a breaker that one process opens for the fleet, and one closes",
            "10.1 10.7",
            2,
            breaker(),
            one_opens_one_closes(),
        ),
        scenario("a probe that fails opens the fleet's breaker again", "10.7", 2, breaker(), a_probe_fails()),
        scenario("a quorum opens the fleet's breaker", "10.1 10.7", 3, breaker(quorum=2), two_votes()),
        scenario(
            "a limit that shrinks by the fleet's latencies",
            "10.1 10.7 10.11",
            2,
            {"bulkhead": {**aimd, "latency_store": "fleet", "backoff_ratio": 0.5, "cut_interval": "20s"}},
            latencies(),
        ),
        scenario(
            "processes share the slots of a bulkhead",
            "10.1 10.10",
            2,
            {"bulkhead": {"max_concurrency": 3, "max_queue": 5, "acquire_timeout": "2s", "store": "fleet"}},
            slots(),
            tolerance=40,
        ),
    ]
