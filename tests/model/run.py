"""Runs engine vectors through the model: ``python tests/model/run.py vector.json`` tells every step."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import wire
from classify import CLASSES, Outcome
from engine import Call, Engine, Request, Step
from policy import Policy, build

Vector = dict[str, Any]


def unpack_request(words: list[Any], calls: dict[str, Call]) -> Request:
    """The four numbers of a request; the parent is the name of a call, or 0."""
    flags, remaining = int(words[0]), int(words[1])
    return Request(
        None if remaining == 0 else remaining - 1,
        calls.get(str(words[2])),
        *(bool(flags >> bit & 1) for bit in range(2, 7)),
    )


def read_event(word: int) -> dict[str, Any]:
    """An event as the model takes it: kinds by name (1.1; kinds that no policy declared are `permanent`)."""
    event = wire.read_event(word)
    if event["event"] == "finished":
        kind = CLASSES[event["kind"]] if event["kind"] < len(CLASSES) else "permanent"
        event["outcome"] = Outcome(kind, event["opinion"], event["retry_after_us"])
    return event


class World:
    """The engine of the model, and the names that a vector has for its policies and calls."""

    def __init__(self, vector: Vector) -> None:
        self.engine = Engine(vector["seed"])
        self.policies: dict[str, Policy] = {}
        self.calls: dict[str, Call] = {}
        for given in vector["policies"]:
            policy = build(given["name"], [(key, value) for key, value in given["pairs"]])
            if isinstance(policy, list):
                raise ValueError(f"policy {given['name']}: wrong are {policy}")
            self.policies[policy.name] = policy

    def act(self, entry: dict[str, Any]) -> tuple[Step, list[str]]:
        """Carries out one entry of a script: its step, and the names of the calls that it woke."""
        if "begin" in entry:
            begin, name = entry["begin"], entry["call"]
            request = unpack_request(begin["request"], self.calls)
            call, step = self.engine.begin(
                self.policies[begin["policy"]], begin["route"], request, entry["at"], name
            )
            self.calls[name] = call
        else:
            step = self.engine.on(self.calls[entry["on"]], read_event(entry["event"]), entry["at"])
        return step, [call.name for call in self.engine.take_wakes()]


def replay(vector: Vector) -> list[tuple[Step, list[str]]]:
    """The steps of a whole script."""
    world = World(vector)
    return [world.act(entry) for entry in vector["script"]]


def told(entry: dict[str, Any], step: Step, wakes: list[str]) -> str:
    """One line for people."""
    if "begin" in entry:
        what = f"begin {entry['call']} {entry['begin']}"
    else:
        what = f"{entry['on']}: {wire.told(wire.read_event(entry['event']))}"
    woken = f"  wakes {', '.join(wakes)}" if wakes else ""
    return f"{entry['at']:>12} {what}\n{'':>12}   → {wire.told(step)}{woken}"


def main() -> None:
    """Prints the vectors of the files named."""
    for name in sys.argv[1:]:
        text = pathlib.Path(name).read_text()
        found = (
            [json.loads(line) for line in text.splitlines()] if name.endswith("jsonl") else [json.loads(text)]
        )
        for vector in [case for item in found for case in item.get("vectors", [item])]:
            print(f"# {vector['name']}")
            for entry, (step, wakes) in zip(vector["script"], replay(vector), strict=True):
                print(told(entry, step, wakes))


if __name__ == "__main__":
    main()
