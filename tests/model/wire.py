"""The words of the border, packed by an independent hand from architecture.md ("Words").

Slow and obvious on purpose: a word is a list of (bits, value) fields, low bits first. ``generate.py`` writes
``tests/vectors/wire/words.json`` with it; core and every binding check themselves against that file.
"""

from __future__ import annotations

import json
from typing import Any

VERDICTS = """
ok not_retryable attempts method one_shot_body opinion nested retry_after_too_long
would_outlive_deadline time_limit budget readmission forced_open breaker_open throttled rate_limited
queue_full acquire_timeout queue_shed displaced hold_full store_unavailable deadline_before
deadline_queued cost_above_burst deadline cancelled lost stale stale_route
stream_stalled no_target offline
cooldown targets_limited
""".split()
WAITS = "running backoff hold rate queue store body cooldown target".split()
OPINIONS = "none retry do_not".split()
CRITICALITIES = "best_effort degraded normal critical".split()
EVENTS = "timer poll cancel headers finished progress".split()


def pack(*fields: tuple[int, int]) -> int:
    """Join (bits, value) fields, low bits first."""
    word, shift = 0, 0
    for bits, value in fields:
        assert 0 <= value < 1 << bits, (bits, value)
        word += value << shift
        shift += bits
    assert word < 1 << 53
    return word


def span(value: int | None) -> tuple[int, int]:
    """31 bits: 0 for none, else 1 + value, saturating."""
    return 31, 0 if value is None else min(value + 1, (1 << 31) - 1)


def millis(micros: int | None) -> int | None:
    """Whole milliseconds, rounded up."""
    return None if micros is None else -(-micros // 1000)


def step_word(step: dict[str, Any]) -> int:
    """The word of a step."""
    head = [(1, step["wakes"]), (1, step["commands"]), (8, step["stop"])]
    if step["action"] == "done":
        lane = 0 if step["result"] is None else 8 | step["result"]
        detail = [(6, VERDICTS.index(step["verdict"])), (4, lane)]
        return pack((2, 0), *head, *detail, span(millis(step["retry_in_us"])))
    if step["action"] == "attempt":
        bits = [(1, step["hedge"]), (1, step.get("target", 0))]
        return pack((2, 1), *head, (8, step["attempt"]), *bits, span(step["next_us"]))
    return pack((2, 2), *head, (4, WAITS.index(step["why"])), (6, 0), span(step["next_us"]))


def event_word(event: dict[str, Any]) -> int:
    """The word of an event."""
    tag = (3, EVENTS.index(event["event"]))
    if event["event"] in ("timer", "poll", "cancel"):
        return pack(tag)
    if event["event"] == "headers":
        return pack(tag, (8, event["attempt"]))
    if event["event"] == "progress":
        return pack(tag, (8, event["attempt"]), (42, min(event["age_us"], (1 << 42) - 1)))
    outcome = [
        (5, event["kind"]),
        (2, OPINIONS.index(event["opinion"])),
        span(millis(event["retry_after_us"])),
    ]
    return pack(tag, (8, event["attempt"]), *outcome)


def request_words(request: dict[str, Any]) -> list[int]:
    """The four numbers of a request."""
    flags = "replayable idempotent abortable may_park slot_until_body".split()
    first = pack(
        (2, CRITICALITIES.index(request["criticality"])),
        *((1, request[name]) for name in flags),
        (16, request["cost"]),
        (1, request.get("solo", 0)),
        (1, request.get("stream", 0)),
    )
    remaining = request["remaining_us"]
    second = 0 if remaining is None else min(remaining + 1, (1 << 53) - 1)
    return [first, second, request["parent"], request["target"]]


def read_span(bits: int) -> int | None:
    """A span's 31 bits."""
    return None if bits == 0 else bits - 1


def read_event(word: int) -> dict[str, Any]:
    """The event of a word; spans in µs."""
    name, attempt = EVENTS[word & 7], word >> 3 & 255
    if name in ("timer", "poll", "cancel"):
        return {"event": name}
    if name == "headers":
        return {"event": name, "attempt": attempt}
    if name == "progress":
        return {"event": name, "attempt": attempt, "age_us": word >> 11}
    after = read_span(word >> 18)
    return {
        "event": name,
        "attempt": attempt,
        "kind": word >> 11 & 31,
        "opinion": OPINIONS[word >> 16 & 3],
        "retry_after_us": None if after is None else after * 1000,
    }


def read_step(word: int) -> dict[str, Any]:
    """The step of a word; spans in µs."""
    rest = {"stop": word >> 4 & 255, "wakes": word >> 2 & 1, "commands": word >> 3 & 1}
    detail, after = word >> 12 & 1023, read_span(word >> 22)
    if word & 3 == 0:
        lane = None if detail >> 6 == 0 else detail >> 6 & 7
        retry_in = None if after is None else after * 1000
        return {
            "action": "done",
            "verdict": VERDICTS[detail & 63],
            "result": lane,
            "retry_in_us": retry_in,
            **rest,
        }
    if word & 3 == 1:
        bits = {"hedge": detail >> 8 & 1, "target": detail >> 9}
        return {"action": "attempt", "attempt": detail & 255, **bits, "next_us": after, **rest}
    return {"action": "wait", "why": WAITS[detail], "next_us": after, **rest}


def told(fields: dict[str, Any]) -> str:
    """A step or an event for people: what is absent or zero is left out."""
    name, *rest = fields.items()
    shown = [
        f"{key}={value}"
        for key, value in rest
        if value not in (None, 0, "none") or key in ("result", "next_us")
    ]
    return " ".join([f"{name[1]}", *[item for item in shown if not item.endswith("=None")]])


def steps() -> list[dict[str, Any]]:
    """Every verdict, wait and lane, and the edges of every span."""
    plain = {"wakes": 0, "commands": 0, "stop": 0}
    found: list[dict[str, Any]] = []
    for place, verdict in enumerate(VERDICTS):
        for result in (None, place % 8):
            for retry_in in (None, 0, 1, 1_000, 1_001, 60_000_000, 10**16):
                done = {"action": "done", "verdict": verdict, "result": result, "retry_in_us": retry_in}
                found.append({**done, **plain, "stop": place * 8 % 256})
    for attempt in (1, 2, 8, 9, 255):
        for next_us in (None, 0, 1, 30_000_000, 2**31 - 3, 2**31 - 2, 2**31, 10**15):
            for hedge in (0, 1):
                found.append(
                    {"action": "attempt", "attempt": attempt, "hedge": hedge, "next_us": next_us, **plain}
                )
    for why in WAITS:
        for next_us in (None, 0, 999_999, 2**40):
            for flags in (0, 1, 2, 3):
                wait = {"action": "wait", "why": why, "next_us": next_us, "stop": 255}
                found.append({**wait, "wakes": flags & 1, "commands": flags >> 1})
    return found


def events() -> list[dict[str, Any]]:
    """Every tag, kind and opinion, and the edges of Retry-After."""
    found: list[dict[str, Any]] = [{"event": name} for name in EVENTS[:3]]
    found += [{"event": "headers", "attempt": attempt} for attempt in (1, 8, 255)]
    for age in (0, 1, 120_000_000, 2**42 - 1, 2**42, 2**60):
        found.append({"event": "progress", "attempt": 1 + age % 255, "age_us": age})
    for kind in range(32):
        for opinion in OPINIONS:
            for retry_after in (None, 0, 1, 999, 1_000, 3_600_000_000, 2**53 - 1):
                finished = {"event": "finished", "attempt": 1 + kind * 8 % 255, "kind": kind}
                found.append({**finished, "opinion": opinion, "retry_after_us": retry_after})
    return found


def requests() -> list[dict[str, Any]]:
    """Each flag alone, each criticality, the edges of numbers."""
    plain = {"replayable": 0, "idempotent": 0, "abortable": 0, "may_park": 0, "slot_until_body": 0}
    rest = {"criticality": "normal", "cost": 1, "remaining_us": None, "parent": 0, "target": 0}
    found = [{**plain, name: 1, **rest} for name in plain]
    found += [{**plain, **rest, "criticality": name} for name in CRITICALITIES]
    found += [{**plain, **rest, "cost": cost} for cost in (0, 65535)]
    found += [{**plain, **rest, "remaining_us": left} for left in (0, 1, 2**52, 2**53 - 2)]
    found += [{**plain, **rest, name: 1} for name in ("solo", "stream")]
    found += [{**plain, **rest, "parent": 1 << 24 | 5, "target": 7}]
    return found


def text() -> str:
    """The vectors, one case a line."""
    families: dict[str, list[dict[str, Any]]] = {
        "steps": [{"word": step_word(step), "step": step} for step in steps()],
        "events": [{"word": event_word(event), "event": event} for event in events()],
        "requests": [{"words": request_words(request), "request": request} for request in requests()],
    }
    lines = [
        '{"family": "wire", "origin": "model", "source": "tests/model/wire.py, from architecture.md (Words)"'
    ]
    for name, cases in families.items():
        rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        lines.append(f',"{name}": [\n{rows}\n]')
    return "\n".join(lines) + "\n}\n"
