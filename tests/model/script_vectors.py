"""From the hand-written scripts to the family `engine`: expectations against the model's steps."""

from __future__ import annotations

import re
from typing import Any

import classify
import run
import scripts
import wire

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "": 1}
FLAGS = {"replayable": 2, "idempotent": 3, "abortable": 4, "may_park": 5, "body": 6, "stream": 24}
Case = dict[str, Any]


def span(text: str) -> int:
    """``250ms`` and its like in µs."""
    found = re.fullmatch(r"(\d+)(s|ms|us|)", text)
    assert found, text
    return int(found[1]) * UNITS[found[2]]


def entry(line: str) -> Case:
    """One line of a script without what is expected."""
    at, *words = line.split()
    if words[0] == "force":
        policy, route = words[1].split("/")
        return {
            "at": span(at),
            "force": {"policy": policy, "route": None if route == "*" else route, "on": words[2] == "on"},
        }
    if words[0] == "begin":
        flags, remaining, parent = 2 | 15 << 2 | 1 << 7, 0, ""
        target: Case = {}
        for word in words[3:]:
            name, _, value = word.partition("=")
            if name == "remaining":
                remaining = span(value) + 1
            elif name == "parent":
                parent = value
            elif name == "path":
                target = {"path": value}
            elif name == "cost":
                flags = flags & 127 | int(value) << 7
            elif name in wire.CRITICALITIES:
                flags = flags & ~3 | wire.CRITICALITIES.index(name)
            else:
                bit = 1 << FLAGS[name[1:]]
                flags = flags | bit if name[0] == "+" else flags & ~bit
        policy, route = words[2].split("/")
        begin = {"policy": policy, "route": None if route == "-" else route, **target}
        return {
            "at": span(at),
            "call": words[1],
            "begin": {**begin, "request": [flags, remaining, parent or 0, 0]},
        }
    event: Case = {"event": words[1]}
    if words[1] == "progress":
        event["age_us"] = span(words[3].removeprefix("age="))
    if words[1] in ("headers", "finished", "progress"):
        event["attempt"] = int(words[2])
    if words[1] == "finished":
        rest = dict(word.partition("=")[::2] for word in words[4:])
        opinion = next((name for name in wire.OPINIONS if name in rest), "none")
        after = span(rest["after"]) if "after" in rest else None
        own = re.fullmatch(r"kind(\d+)", words[3])
        kind = int(own[1]) if own else classify.CLASSES.index(words[3])
        event |= {"kind": kind, "opinion": opinion, "retry_after_us": after}
    return {"at": span(at), "on": words[0], "event": wire.event_word(event)}


def agree(expected: str, step: Case | None, wakes: list[str]) -> bool:
    """Is the step what a person expected? The rest may be anything, but stop, wakes and hedge."""
    action, *rest = expected.split()
    if step is None:
        return [action, *rest] == ["nothing", *([f"wakes={','.join(wakes)}"] if wakes else [])]
    wanted = dict(word.partition("=")[::2] for word in rest if "=" in word)
    said = [word for word in rest if "=" not in word]
    result = step.get("result")
    have = {
        "stop": str(step["stop"]),
        "hedge": str(step.get("hedge", 0)),
        "wakes": ",".join(wakes),
        "result": str(None if result is None else result + 1),
        "next": str(step.get("next_us")),
        "retry_in": str(step.get("retry_in_us")),
    }
    want = {"stop": "0", "wakes": "", "hedge": "0"} | {
        name: str(span(value)) if name in ("next", "retry_in") and value != "None" else value
        for name, value in wanted.items()
    }
    what = [str(step[name]) for name in ("verdict", "why", "attempt") if name in step]
    return (
        action == step["action"] and said == what and all(have[name] == value for name, value in want.items())
    )


def vector(script: scripts.Script) -> Case:
    """A hand-written script with the model's steps."""
    policies = [{"name": name, "pairs": pairs} for name, pairs in script.policies.items()]
    case: Case = {"name": script.name, "spec": script.spec, "comment": script.comment, "seed": scripts.SEED}
    lines = [line.strip().partition(" -> ") for line in script.lines]
    if script.pools:
        case["pools"] = [
            {"name": name, "kind": kind, "pairs": pairs} for name, (kind, pairs) in script.pools.items()
        ]
    case |= {"policies": policies, "script": [entry(line) for line, _, _ in lines]}
    for (line, _, expected), each, (step, wakes) in zip(lines, case["script"], run.replay(case), strict=True):
        if not agree(expected, step, wakes):
            have = "nothing" if step is None else wire.told(step)
            raise SystemExit(f"{script.name!r}: {line}\n  expected {expected}\n  model: {have} {wakes}")
        if step is None:
            each |= {"wakes": wakes, "says": line}
        else:
            each |= {"step": wire.step_word(step), "wakes": wakes, "says": f"{line} -> {wire.told(step)}"}
    return case
