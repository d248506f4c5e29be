"""Runs engine vectors through the model: ``python tests/model/run.py vector.json`` tells every step."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import sets
import wire
from call import Call, Path, Request, Step
from classify import CLASSES, Outcome
from engine import Engine
from policy import NotModelled, Policy, Pool, build, build_pool

Vector = dict[str, Any]


def unpack_request(words: list[Any], calls: dict[str, Call], path: Path | None) -> Request:
    """The four numbers of a request; the parent is the name of a call, or 0, and the target its path."""
    flags, remaining = int(words[0]), int(words[1])
    parent = calls.get(str(words[2]))
    request = Request(None if remaining == 0 else remaining - 1, parent, path=path)
    request.criticality, request.cost = flags & 3, flags >> 7 & 0xFFFF
    for bit, name in enumerate("replayable idempotent abortable may_park slot_until_body".split(), start=2):
        setattr(request, name, bool(flags >> bit & 1))
    request.stream = bool(flags >> 24 & 1)
    return request


def read_event(word: int, policy: Policy) -> dict[str, Any]:
    """An event with its kind by name (1.1; kinds that the policy did not declare are `permanent`)."""
    event = wire.read_event(word)
    if event["event"] == "finished":
        own = list(policy.kinds.items())
        name, kind = "", "permanent"
        if event["kind"] < len(CLASSES):
            kind = CLASSES[event["kind"]]
        elif event["kind"] - len(CLASSES) < len(own):
            name, kind = own[event["kind"] - len(CLASSES)]
        event["outcome"] = Outcome(kind, event["opinion"], event["retry_after_us"], name)
    return event


class World:
    """The engine of the model, and the names that a vector has for its policies and calls."""

    def __init__(self, vector: Vector) -> None:
        self.engine = Engine(vector["seed"], vector.get("max_routes", 10_000))
        self.policies: dict[str, Policy] = {}
        self.calls: dict[str, Call] = {}
        for given in vector.get("pools", []):
            pool = build_pool(given["name"], given["kind"], [(key, value) for key, value in given["pairs"]])
            if not isinstance(pool, Pool):
                raise ValueError(f"pool {given['name']}: wrong are {pool}")
            self.engine.pool(pool)
        for given in vector["policies"]:
            policy = build(given["name"], [(key, value) for key, value in given["pairs"]])
            if isinstance(policy, list):
                raise ValueError(f"policy {given['name']}: wrong are {policy}")
            self.policies[policy.name] = policy

    def act(self, entry: dict[str, Any]) -> tuple[Step | None, list[str]]:
        """Carries out one entry: its step, where it has one, and the names of the calls that it woke."""
        step: Step | None = None
        if "settle" in entry:
            number, weight, total = entry["settle"]
            call, now = self.calls[entry["on"]], self.engine.clock(entry["at"])
            step = {"told": sets.told(call, number, weight, total, now)}
        elif "wall" in entry:
            self.engine.report_wall(entry["wall"], entry["at"])
        elif "head" in entry:
            headers = [(name, value) for name, value in entry["head"]]
            sets.heard(self.engine, self.calls[entry["on"]], headers, entry["at"])
        elif "begin" in entry:
            begin, name = entry["begin"], entry["call"]
            path = self.engine.target(begin.get("path"))
            request = unpack_request(begin["request"], self.calls, path)
            request.weights = begin.get("weights")
            call, step = self.engine.begin(
                self.policies[begin["policy"]], begin["route"], request, entry["at"], name
            )
            self.calls[name] = call
        elif "force" in entry:
            force = entry["force"]
            self.engine.force(self.policies[force["policy"]], force["route"], force["on"], entry["at"])
        elif "link" in entry:
            self.engine.set_link(entry["link"], entry["at"])
        elif "release" in entry:
            name = entry["release"]["policy"]
            self.policies[name] = self.engine.release(
                self.policies[name], entry["release"]["keep"], entry["at"]
            )
        else:
            call = self.calls[entry["on"]]
            step = self.engine.on(call, read_event(entry["event"], call.route.policy), entry["at"])
        return step, [call.name for call in self.engine.take_wakes()]


def replay(vector: Vector) -> list[tuple[Step | None, list[str]]]:
    """The steps of a whole script."""
    world = World(vector)
    return [world.act(entry) for entry in vector["script"]]


def told(entry: dict[str, Any], step: Step | None, wakes: list[str]) -> str:
    """One line for people."""
    if "begin" in entry:
        what = f"begin {entry['call']} {entry['begin']}"
    elif "force" in entry:
        what = f"force {entry['force']}"
    elif "link" in entry:
        what = f"link {entry['link']}"
    elif "release" in entry:
        what = f"release {entry['release']}"
    elif "wall" in entry:
        what = f"wall {entry['wall']}"
    elif "head" in entry:
        what = f"{entry['on']}: an answer with {entry['head']}"
    elif "settle" in entry:
        return f"{entry['at']:>12} {entry['on']}: settle {entry['settle']}: {step}"
    else:
        what = f"{entry['on']}: {wire.told(wire.read_event(entry['event']))}"
    woken = f"  wakes {', '.join(wakes)}" if wakes else ""
    answer = "" if step is None else wire.told(step)
    return f"{entry['at']:>12} {what}\n{'':>12}   → {answer}{woken}"


def main() -> None:
    """Prints the vectors of the files named."""
    for name in sys.argv[1:]:
        text = pathlib.Path(name).read_text()
        found = (
            [json.loads(line) for line in text.splitlines()] if name.endswith("jsonl") else [json.loads(text)]
        )
        for vector in [case for item in found for case in item.get("vectors", [item])]:
            print(f"# {vector['name']}")
            try:
                steps = replay(vector)
            except NotModelled as refused:
                sys.exit(f"{name}: {refused}")
            for entry, (step, wakes) in zip(vector["script"], steps, strict=True):
                print(told(entry, step, wakes))


if __name__ == "__main__":
    main()
