"""Reads the hand-written engine scripts in ``scripts.txt``, which says what its lines mean."""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass, field

from policy import Pair, Value

SEED = 7


@dataclass
class Script:
    """One engine vector, as a person wrote it."""

    family: str
    name: str
    spec: list[str]
    comment: str = ""
    policies: dict[str, list[Pair]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def value(text: str) -> Value:
    """A number where it reads as one, else a word."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def read() -> list[Script]:
    """All of them."""
    scripts: list[Script] = []
    for line in pathlib.Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        head = re.fullmatch(r"\[(\w+)\] (.*) \| (.*)", line)
        pairs = re.fullmatch(r"(\w): (.*)", line)
        if head:
            scripts.append(Script(head[1], head[2], head[3].split(", ")))
        elif line.startswith("#") or not line:
            continue
        elif pairs:
            items = [item.partition("=") for item in pairs[2].split()]
            scripts[-1].policies[pairs[1]] = [(key, value(text)) for key, _, text in items]
        elif line.startswith("    "):
            scripts[-1].lines.append(line.strip())
        else:
            scripts[-1].comment += line
    return scripts
