"""Reads the hand-written engine scripts in ``scripts*.txt``; the first says what its lines mean."""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass, field

from keys import Pair, Value

SEED = 7


@dataclass
class Script:
    """One engine vector, as a person wrote it."""

    family: str
    name: str
    spec: list[str]
    comment: str = ""
    pools: dict[str, tuple[str, list[Pair]]] = field(default_factory=dict)
    policies: dict[str, list[Pair]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def value(text: str) -> Value:
    """A number where it reads as one, else a word."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    spans = re.fullmatch(r"(\d+)(s|ms|us)", text)
    if spans:
        return int(spans[1]) * {"s": 1_000_000, "ms": 1_000, "us": 1}[spans[2]]
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def read_pairs(text: str) -> list[Pair]:
    """``key=value`` and more of them. Spans are µs or have a unit; a ``~`` is a blank within a value."""
    items = [item.partition("=") for item in text.split()]
    return [(key, value(text.replace("~", " "))) for key, _, text in items]


def read() -> list[Script]:
    """All of them, from every file of scripts."""
    here = pathlib.Path(__file__).parent
    text = "\n".join(path.read_text("utf-8") for path in sorted(here.glob("scripts*.txt")))
    scripts: list[Script] = []
    for line in text.splitlines():
        head = re.fullmatch(r"\[(\w+)\] (.*) \| (.*)", line)
        pairs = re.fullmatch(r"(\w): (.*)", line)
        pool = re.fullmatch(r"pool (\w+) (\w+): (.*)", line)
        if head:
            scripts.append(Script(head[1], head[2], head[3].split(", ")))
        elif line.startswith("#") or not line:
            continue
        elif pairs:
            scripts[-1].policies[pairs[1]] = read_pairs(pairs[2])
        elif pool:
            scripts[-1].pools[pool[1]] = (pool[2], read_pairs(pool[3]))
        elif line.startswith("    "):
            scripts[-1].lines.append(line.strip())
        else:
            scripts[-1].comment += line
    return scripts
