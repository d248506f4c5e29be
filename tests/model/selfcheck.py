"""Does the model keep its own rules? Random scripts, and what has to hold after every entry.

``python tests/model/selfcheck.py [--count 1500] [--seed 1]``. Where a rule is broken, the script is printed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import codel
import cubic
import keys
import rates
import run
import shedding
import wire
from call import Call, Route, Step
from policy import NotModelled
from queues import Permits

Entry = dict[str, Any]
ROOT = pathlib.Path(__file__).parents[2]
PUBLISHED = ROOT / "tests" / "vectors" / "published"

# One of each is drawn for a policy; "" leaves the component out.
MENU = [
    ["", "", "deadline=2s", "deadline=200ms", "attempt_timeout=50ms", "deadline=3s attempt_timeout=80ms"],
    [
        *["", "retry.backoff.base=0 retry.budget.kind=none", "retry.max_attempts=9 retry.backoff.base=20ms"],
        "retry.budget.kind=share retry.budget.share=0.5 retry.budget.min_retries=1 retry.max_attempts=5",
        "retry.budget.kind=quota retry.budget.capacity=20 retry.backoff.jitter=none",
        "retry.send_rate=cubic retry.budget.kind=none retry.backoff.base=10ms",
        "retry.hold=1 retry.max_held=4 retry.budget.kind=none retry.max_attempts=4 retry.retry_after=exact",
    ],
    [
        *["", "", "rate_limit.permits=20 rate_limit.per=1s rate_limit.burst=3"],
        "rate_limit.permits=20 rate_limit.per=1s rate_limit.burst=3 rate_limit.wait=1 rate_limit.max_wait=1s",
        "rate_limit.permits=7 rate_limit.per=333ms rate_limit.burst=4 rate_limit.unit=attempt"
        " rate_limit.wait=1"
        " rate_limit.max_wait=3s rate_limit.max_waiters=3",
        "rate_limit.pool=y rate_limit.wait=1 rate_limit.max_wait=2s",
    ],
    [
        *["", "bulkhead.max_concurrency=1", "bulkhead.max_concurrency=2 bulkhead.max_queue=3"],
        "bulkhead.max_concurrency=2 bulkhead.max_queue=3 bulkhead.unit=attempt"
        " bulkhead.acquire_timeout=300ms",
        "bulkhead.max_concurrency=2 bulkhead.max_queue=1 bulkhead.kind=aimd bulkhead.latency_threshold=30ms"
        " bulkhead.cut_interval=50ms bulkhead.backoff_ratio=0.5 bulkhead.prioritized=1"
        " bulkhead.queue_target=20ms",
        "bulkhead.max_concurrency=4 bulkhead.max_queue=4 bulkhead.kind=gradient2 bulkhead.unit=attempt"
        " bulkhead.queue_adaptive_lifo=1",
        "bulkhead.max_concurrency=1 bulkhead.max_queue=6 bulkhead.queue_target=5ms"
        " bulkhead.queue_interval=30ms"
        " bulkhead.codel=rfc8289 bulkhead.acquire_timeout=none",
        "bulkhead.pool=x",
        "bulkhead.pool=x bulkhead.unit=attempt",
    ],
    [
        *["", "", "breaker.consecutive=2 breaker.break_duration=50ms"],
        "breaker.failure_ratio=0.5 breaker.window=1s breaker.min_throughput=4 breaker.break_duration=80ms"
        " breaker.half_open_max_calls=2 breaker.successes_to_close=2 breaker.unit=attempt",
        "throttle.min_throughput=3 throttle.window=2s throttle.probe_interval=100ms",
        "throttle.min_throughput=3 throttle.unit=attempt throttle.k=1",
    ],
    [
        *["", "", "hedge.delay=20ms hedge.max_attempts=3 hedge.budget.kind=none"],
        "hedge.delay=0",
        "hedge.delay=10ms hedge.adaptive_delay_quantile=0.9 hedge.budget.kind=share"
        " hedge.budget.min_retries=1",
    ],
]
POOLS = [
    {"name": "x", "kind": "bulkhead", "pairs": [["max_concurrency", 2], ["max_queue", 3]]},
    {"name": "y", "kind": "rate_limit", "pairs": [["permits", 9], ["per", 500_000]]},
]
KINDS = [0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]
GAPS = [0, 0, 0, 1, 999, 5_000, 20_000, 20_000, 50_000, 120_000, 400_000, 1_000_000]


class Host:
    """A host that does what a random number generator says, and counts what has to be counted."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.script: list[Entry] = []
        self.taken: dict[int, int] = {}
        self.done: dict[str, int] = {}
        self.running: dict[str, set[int]] = {}
        policies = [{"name": name, "pairs": self.pairs()} for name in ("p", "q")]
        self.vector = {"seed": seed, "pools": POOLS, "policies": policies}
        self.world = run.World(self.vector)
        self.engine = self.world.engine

    def pairs(self) -> list[list[Any]]:
        """A policy's keys; one without any component gets an attempt timeout."""
        from scripts import read_pairs

        words = " ".join(self.random.choice(column) for column in MENU).split()
        return [list(pair) for pair in read_pairs(" ".join(words or ["attempt_timeout=60ms"]))]

    # ---- what it does ----

    def entry(self) -> Entry:
        """The next entry."""
        pick = self.random.random()
        names = [name for name in self.world.calls if self.world.calls[name].state != "gone"]
        if pick < 0.02:
            route = self.random.choice([None, "r"])
            return {"force": {"policy": "p", "route": route, "on": self.random.random() < 0.4}}
        if pick < 0.3 or not names:
            return self.begin(names)
        name = self.random.choice(names)
        running = sorted(self.running.get(name, set()))
        event: dict[str, Any] = {"event": self.random.choice(["poll", "timer", "timer", "timer"])}
        if running and self.random.random() < 0.6:
            event = {"event": "finished", "attempt": self.random.choice(running)}
            event |= {
                "kind": self.random.choice(KINDS),
                "opinion": self.random.choice(["none"] * 8 + wire.OPINIONS),
            }
            event["retry_after_us"] = self.random.choice([None, None, 0, 40_000, 300_000])
            if event["kind"] == 0 and self.random.random() < 0.3:
                event = {"event": "headers", "attempt": event["attempt"]}
        elif self.random.random() < 0.08:
            event = {"event": "cancel"}
        return {"on": name, "event": wire.event_word(event)}

    def begin(self, names: list[str]) -> Entry:
        """A call with any flags."""
        flags = self.random.randrange(4) | self.random.choice([1, 1, 1, 2, 3]) << 7
        for bit in range(2, 7):
            flags |= int(self.random.random() < (0.2 if bit == 6 else 0.85)) << bit
        remaining = self.random.choice([0, 0, 0, 1, 50_001, 700_001])
        parent = self.random.choice(names) if names and self.random.random() < 0.1 else 0
        path = self.random.choice([None, "/a/b", "/a/b/c", "/a/x", "/"])
        return {
            "call": f"c{len(self.world.calls)}",
            "begin": {
                "policy": self.random.choice("pq"),
                "route": self.random.choice("rs"),
                "request": [flags, remaining, parent, 0],
                **({} if path is None else {"path": path}),
            },
        }

    def act(self, entry: Entry) -> Step | None:
        """One entry, and all rules after it."""
        entry = {"at": self.now, **entry}
        self.script.append(entry)
        step, wakes = self.world.act(entry)
        name = entry.get("call") or entry.get("on")
        if step is not None and name is not None:
            self.check_words(str(name), entry, step, wakes)
        self.rules()
        return step

    # ---- what has to hold ----

    def check_words(self, name: str, entry: Entry, step: Step, wakes: list[str]) -> None:
        """About one step."""
        call, running = self.world.calls[name], self.running.setdefault(name, set())
        wire.step_word({**step, "next_us": step.get("next_us")})
        event = wire.read_event(entry["event"]) if "event" in entry else {"event": "begin"}
        if event["event"] == "finished":
            running.discard(event["attempt"])
        if step["action"] == "attempt":
            assert step["attempt"] not in running, "an attempt starts once"
            assert len([n for n in call.live if n.number != step["attempt"]]) < 4, "R11: four at once"
            assert step["attempt"] - 8 not in {one.number for one in call.live}, "R11: n − 8"
            assert step["hedge"] == int(len(call.live) > 1), "a hedge is beside another"
            running.add(step["attempt"])
        for bit in range(8):
            if step["stop"] >> bit & 1:
                assert [n for n in running if (n - 1) % 8 == bit], "only what runs is stopped"
        if step["stop"] and call.request.abortable:
            running -= {n for n in running if step["stop"] >> (n - 1) % 8 & 1}
        if step["action"] == "done" and step["verdict"] != "stale":
            self.done[name] = self.done.get(name, 0) + 1
            assert self.done[name] == 1, "R1: one Done"
        if step["action"] == "wait":
            self.waits(call, step)
        assert step["wakes"] == int(bool(wakes)), "the flag says whether there are wakes"

    def waits(self, call: Call, step: Step) -> None:
        """About one that waits."""
        if step["why"] in ("queue", "rate", "hold"):
            assert step["next_us"] is not None, "no wait without a timer"
            assert step["next_us"] <= 1_000_000, "at most a second while parked"
            assert call.state == "waiting", "who is parked is in a queue"
        if step["why"] == "backoff":
            assert step["next_us"] is not None, "a backoff ends"
            assert call.deadline is None or self.now + step["next_us"] < call.deadline or step["stop"], "R8"
        limited = call.deadline is not None or any(one.end is not None for one in call.live)
        if step["why"] == "running" and limited:
            assert step["next_us"] is not None, "a limit is a timer"

    def again(self, name: str, step: Step) -> None:
        """R3: a `Poll` at the same instant changes nothing, where nothing was announced for it."""
        if step["action"] != "wait" or step["stop"] or step["next_us"] == 0:
            return
        second = self.act({"on": name, "event": 1})
        assert second is not None, "a poll has a step"
        assert {**second, "wakes": 0} == {**step, "wakes": 0}, f"R3: {step} then {second}"

    def rules(self) -> None:
        """About all state."""
        calls = [call for call in self.engine.arena if call is not None]
        routes = list(self.engine.routes.there.values())
        for permits in {id(route.permits): route.permits for route in routes if route.permits}.values():
            self.permits(permits, calls)
        for route in routes:
            self.tokens(route)
            if route.breaker is not None:
                b = route.breaker
                leased = [probe for probe in b.probes if self.engine.clock(self.now) < probe.ends]
                assert len(leased) <= b.settings.half_open_max_calls, "probes ≤ n"
                assert len(b.probes) <= b.settings.half_open_max_calls, "probes ≤ n"
            for hold in route.holds.holds.values() if route.holds else []:
                inside = [call for call in calls if call.hold is hold and call not in hold.queue]
                assert hold.taken == len(inside), "places of a hold"
                assert hold.taken == 0 or hold.limit >= 1, "a hold lets one pass"
            for ledger in route.ledgers():
                flying = getattr(ledger.budget, "flying", 0)
                assert flying >= 0, "retries in flight"
                balance = getattr(ledger.budget, "balance", 0)
                assert callable(balance) or balance >= 0, "no debt"
        for call in calls:
            assert len(call.live) <= 4, "R11"
            if call.state == "waiting":
                assert call.over is not None or call.patience is None, "a waiter can be overdue"
            assert not call.loose, "what is loose is given back in the same step"

    def permits(self, permits: Permits, calls: list[Call]) -> None:
        """Permits are conserved, and none is free while somebody waits."""
        held = sum(call.permit is permits for call in calls)
        held += sum(one.permit is permits for call in calls for one in [*call.live, *call.stopped])
        assert permits.in_flight == held, f"{permits.in_flight} permits are out, {held} are held"
        assert permits.in_flight <= permits.keys.max_concurrency, "never more than the maximum"
        assert not permits.queue or permits.in_flight >= permits.limit(), "R2: all that can be handed out is"
        most = permits.keys.max_queue
        assert most is None or len(permits.queue) <= most, "a full queue is full"
        assert all(call.state == "waiting" and call.why == "queue" for call in permits.queue), "waiters wait"
        arrived = [call.arrived for call in permits.queue]
        assert arrived == sorted(arrived), "by arrival"

    def tokens(self, route: Route) -> None:
        """Tokens never exceed the burst, nor what was taken the burst and what has flowed in since."""
        tokens = route.rate
        if tokens is None:
            return
        assert isinstance(tokens.bucket, rates.RateBucket), "a rate limit's bucket"
        exact = tokens.bucket.exact
        assert 0 <= exact.tokens <= exact.burst, "0 ≤ tokens ≤ burst"
        born = self.taken.setdefault(id(tokens), self.now)
        flowed = exact.burst + Fraction((self.now - born) * exact.permits, exact.per)
        granted = getattr(tokens.bucket, "granted", 0)
        assert granted <= flowed, f"{granted} tokens given, {float(flowed)} there were"
        most = route.policy.rate.max_waiters if route.policy.rate and not route.policy.rate.pool else 10**9
        assert len(tokens.queue) <= most, "at most max_waiters"
        assert all(call.state == "waiting" and call.why == "rate" for call in tokens.queue), "waiters wait"

    # ---- a life ----

    def live(self, entries: int) -> None:
        """So many entries, then every call to its end; nothing may be left."""
        for _ in range(entries):
            self.now += self.random.choice(GAPS)
            entry = self.entry()
            step = self.act(entry)
            name = entry.get("call") or entry.get("on")
            if step is not None and name is not None and self.random.random() < 0.3:
                self.again(str(name), step)
        for name in list(self.world.calls):
            for _ in range(2):
                self.act({"on": name, "event": wire.event_word({"event": "cancel"})})
        for name, running in self.running.items():
            for number in sorted(running):
                event = {"event": "finished", "attempt": number, "kind": 8, "opinion": "none"}
                self.act({"on": name, "event": wire.event_word({**event, "retry_after_us": None})})
        assert all(self.done.get(name) == 1 for name in self.world.calls), "R1: every call ends once"
        assert not any(self.engine.arena), "every slot is free"
        for route in self.engine.routes.there.values():
            assert not route.permits or (route.permits.in_flight == 0 and not route.permits.queue), "permits"
            assert not route.rate or not route.rate.queue, "the rate's queue"
            assert not route.send or not route.send.queue, "the send rate's queue"
            assert all(ledger.calls == 0 for ledger in route.ledgers()), "calls in flight"
            assert all(getattr(one.budget, "flying", 0) == 0 for one in route.ledgers()), "retries in flight"
            assert not route.breaker or route.breaker.state == "closed" or not route.breaker.probes, "probes"


def counting(bucket: rates.RateBucket, take: Any) -> Any:
    """`take`, counting what it grants."""

    def counted(cost: int, now: int) -> bool:
        granted = bool(take(cost, now))
        bucket.granted = getattr(bucket, "granted", 0) + (cost if granted else 0)  # type: ignore[attr-defined]
        return granted

    return counted


def count_tokens() -> None:
    """Every rate limit's bucket counts what it gives."""
    plain = rates.RateBucket.__init__

    def born(self: rates.RateBucket, permits: int, per: int, burst: int, now: int) -> None:
        plain(self, permits, per, burst, now)
        self.take = counting(self, self.take)  # type: ignore[method-assign]

    rates.RateBucket.__init__ = born  # type: ignore[method-assign]


def published_cubic() -> None:
    """The AWS SDKs' table of the cubic send rate."""
    vectors = json.loads((PUBLISHED / "aws_cubic.json").read_text("utf-8"))
    rows = 0
    for trace in vectors["traces"]:
        it = cubic.Cubic(0)
        it.cut(trace["last_max"], trace["last_throttle"] * 1_000_000)
        rate = 0.0
        for at, throttled, expected in trace["rows"]:
            rate = it.cut(rate, at * 1_000_000) if throttled else it.curve(at * 1_000_000)
            assert abs(rate - expected) <= vectors["tolerance"] * expected, (trace["name"], at, rate)
            rows += 1
    assert rows == 15, rows


def shedding_is_codel(rng: random.Random, rounds: int) -> None:
    """The word on one waiter at a time is what the laws of `codel.py` say of a whole queue."""
    shed_ever = 0
    for _ in range(rounds):
        target, interval = rng.randrange(1, 50), rng.randrange(51, 200)
        law = rng.choice([(codel.Facebook, shedding.Facebook), (codel.Rfc8289, shedding.Rfc8289)])
        theirs, ours = law[0](target, interval, 1), law[1](target, interval, 1)
        waiting: list[tuple[int, Fraction]] = []
        now = 1
        for _ in range(120):
            now += rng.choice([0, 1, 5, 20, 60])
            if rng.random() < 0.6:
                scale = rng.choice(shedding.SCALES)
                theirs.enqueue(now, scale)
                if not waiting:
                    ours.on_empty(now)
                waiting.append((now, scale))
                continue
            if not waiting:
                continue
            shed, granted = 0, False
            while waiting and not granted:
                at, scale = waiting.pop(0)
                granted = not ours.should_shed(now - at, scale, now)
                shed += not granted
                if not waiting:
                    ours.on_empty(now)
            assert theirs.dequeue(now) == (shed, granted), (law, now)
            assert theirs.congested(now) == ours.congested(now), (law, now)
            shed_ever += shed
    assert shed_ever > rounds, "hardly anything was shed"


def every_key_is_modelled_or_refused() -> None:
    """Of core's table: no key is taken and ignored, and a fleet's document is refused with one error."""
    schema = json.loads((ROOT / "docs/policy.schema.json").read_text("utf-8"))
    table = set(paths(schema, schema["$defs"]["policy"]))
    assert len(table) > 80, len(table)
    known, fleet = {*keys.KNOWN, *keys.FLEET}, set(keys.FLEET)
    assert table <= known, f"core has, the model has not: {table - known}"
    assert fleet <= table, f"the model refuses, core has not: {fleet - table}"
    for key in keys.FLEET:
        for value in ("fleet", "local", 7.0):
            given = {"name": "p", "pairs": [["rate_limit.permits", 5], ["rate_limit.per", 1e6], [key, value]]}
            message = refusal({"seed": 1, "policies": [given]})
            assert message.startswith(f"policy p: {key} = {value!r}: the model has no fleet"), message
    for kind, key in (("bulkhead", "latency_store"), ("bulkhead", "store"), ("rate_limit", "store")):
        pool = {"name": "x", "kind": kind, "pairs": [[key, "fleet"]]}
        message = refusal({"seed": 1, "pools": [pool], "policies": []})
        assert message.startswith(f"pool x: {kind}.{key} = 'fleet': the model has no fleet"), message


def paths(schema: dict[str, Any], table: dict[str, Any], before: str = "") -> Iterator[str]:
    """The keys of a table of the schema, those of its tables with their path."""
    for name, given in table["properties"].items():
        inner = given
        while "$ref" in inner:
            inner = schema["$defs"][inner["$ref"].rsplit("/", 1)[1]]
        if "properties" in inner:
            yield from paths(schema, inner, f"{before}{name}.")
        else:
            yield before + name


def refusal(vector: dict[str, Any]) -> str:
    """What the model says to a document that it refuses."""
    try:
        run.World(vector)
    except NotModelled as refused:
        return str(refused)
    raise AssertionError(f"taken: {vector}")


def main() -> None:
    """Checks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=1500, help="how many scripts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    every_key_is_modelled_or_refused()
    published_cubic()
    shedding_is_codel(random.Random(options.seed), 300)
    count_tokens()
    entries, seen = 0, set()
    for number in range(options.count):
        host = Host(options.seed * 1_000_000 + number)
        try:
            host.live(60)
        except Exception:
            print(f"script {number} of seed {options.seed}: {host.vector['policies']}")
            for entry in host.script:
                print("  ", json.dumps(entry))
            raise
        entries += len(host.script)
        seen |= {call.refusal for call in host.world.calls.values() if call.refusal}
        seen |= {f"state {call.state}" for call in host.world.calls.values()}
    wanted = {"queue_shed", "displaced", "forced_open", "acquire_timeout"}
    assert wanted <= seen or options.count < 1000, f"never seen: {wanted - seen}"
    print(f"{options.count} scripts, {entries} entries: every rule held ({time.monotonic() - started:.1f} s)")


if __name__ == "__main__":
    main()
