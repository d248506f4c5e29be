"""Results of an engine's introspection: explanations, reports of a restore, the head of a journal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Component:
    """One component of a policy.

    Attributes:
        name: Its name; dotted if it is a part of another component.
        meaning: Its purpose.
        settings: Its keys with the values in force, in the notation of documents.
    """

    name: str
    meaning: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Load:
    """Upper bound of the load from calls: attempts ≤ `per_call` · calls + `per_second` · seconds + `burst`.

    The bound applies to each retry budget: one per route, unless the budget is a shared pool.
    """

    per_call: float
    per_second: float
    burst: float


@dataclass(frozen=True)
class PolicyExplanation:
    """Explanation of a policy; `str()` gives it as text.

    Attributes:
        policy: The policy's name.
        components: Its components, outermost first.
        max_attempts: Maximum attempts of a call, hedges included.
        max_wait: Maximum seconds that a call waits outside its attempts; None if unbounded.
        max_time: Maximum seconds that a call takes; None if unbounded.
        load: Upper bound of the load from calls.
        memory_per_route: Bytes of state per route, without its key and the counts of a hold.
        warnings: Settings that may not do what their author intends.
    """

    policy: str
    components: tuple[Component, ...]
    max_attempts: int
    max_wait: float | None
    max_time: float | None
    load: Load
    memory_per_route: int
    warnings: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def _of(cls, values: dict[str, Any]) -> PolicyExplanation:
        components = tuple(Component(*parts) for parts in values["components"])
        more = {
            "components": components,
            "load": Load(*values["load"]),
            "warnings": tuple(values["warnings"]),
        }
        return cls(**{**values, **more})


@dataclass(frozen=True)
class CallExplanation:
    """State of a running call, or how a call ended; `str()` gives it as text.

    Attributes:
        call: The call's number.
        policy: The policy's name.
        route: The route's key.
        began: When it began, in seconds on the engine's clock.
        at: The time that the explanation describes, on the same clock.
        attempts: Attempts started.
        standing: Its state, in words.
        why: What it waits for: `backoff`, `queue` …; None if it does not wait.
        until: When the wait ends at the latest, on the same clock; None if unbounded.
        deadline: Its deadline on the same clock; None without one.
        reason: The verdict of a call that has ended or is about to; None while undecided.
        numbers: The numbers of its route; for a call that has ended, just before its last step.
        story: The decisions about a call that has ended.
    """

    call: int
    policy: str
    route: str
    began: float
    at: float
    attempts: int
    standing: str
    why: str | None
    until: float | None
    deadline: float | None
    reason: str | None
    numbers: tuple[str, ...]
    story: tuple[Record, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def _of(cls, values: dict[str, Any]) -> CallExplanation:
        story = tuple(Record._make((*fields, None, None, None)) for fields in values["story"])
        return cls(**{**values, "numbers": tuple(values["numbers"]), "story": story})


@dataclass(frozen=True)
class Restored:
    """Result of a restore.

    Attributes:
        routes: Number of routes restored.
        left_out: Number of routes beyond `max_routes`, not restored: the least recently used ones.
        unknown: Policies and pools in the saved state that the engine does not have: kind and name.
        dropped: Components that start afresh because their settings have changed: policy or pool, its name,
            and the component.
    """

    routes: int
    left_out: int
    unknown: list[tuple[str, str]]
    dropped: list[tuple[str, str, str]]


_HEAD: Final = re.compile(r"tidegate journal (\d+) seed (\d+) routes (\d+)")


def replayable(journal: str) -> tuple[int, int, list[str]]:
    """Returns the seed, the bound on routes and the lines of a journal.

    Raises:
        ValueError: If the first line is not the head of a journal.
    """
    lines = [line for line in journal.splitlines() if line]
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None or head[1] != "1":
        shown = lines[0] if lines else ""
        raise ValueError(f"journal = {shown!r}: must begin with 'tidegate journal 1 seed … routes …'")
    return int(head[2]), int(head[3]), lines[1:]
