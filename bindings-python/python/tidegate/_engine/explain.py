"""What the engine says about itself when it is asked: explanations, what a restore has done, journals."""

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
        name: Its name; of a part of another component, dotted.
        meaning: What it is for.
        settings: Its keys with the values in force, as a document writes them.
    """

    name: str
    meaning: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Load:
    """The most load that calls become: attempts ≤ `per_call` · calls + `per_second` · seconds + `burst`.

    That holds for each retry budget, so for each route, unless the budget is a pool.
    """

    per_call: float
    per_second: float
    burst: float


@dataclass(frozen=True)
class PolicyExplanation:
    """What a policy comes to. `str` of it is the text for people.

    Attributes:
        policy: The policy's name.
        components: Its components, outermost first.
        max_attempts: The most attempts that a call makes, hedges included.
        max_wait: The most seconds that a call spends waiting, not in attempts; None where nothing bounds it.
        max_time: The most seconds that a call takes; None where nothing bounds it.
        load: The most load that calls become.
        memory_per_route: Bytes that each route keeps, its key and what a hold counts apart.
        warnings: What may not be as its author thinks.
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
    def _of(cls, told: dict[str, Any]) -> PolicyExplanation:
        components = tuple(Component(*parts) for parts in told["components"])
        more = {"components": components, "load": Load(*told["load"]), "warnings": tuple(told["warnings"])}
        return cls(**{**told, **more})


@dataclass(frozen=True)
class CallExplanation:
    """How things stand with a call, or how it ended. `str` of it is the text for people.

    Attributes:
        call: The call's number.
        policy: The policy's name.
        route: The route's key.
        began: When it began, in seconds on the engine's clock.
        at: The moment that this is about.
        attempts: Attempts started.
        standing: How it stands, in words.
        why: What it waits for: `backoff`, `queue` …; None where it does not.
        until: Until when at most; None where nothing bounds it.
        deadline: Its deadline on the same clock; None without one.
        reason: How it ended, or what its owner will be told: the verdict. None while that is open.
        numbers: The numbers of its route: of a call that has ended, just before the step that ended it.
        story: What was decided about it, of a call that has ended.
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
    def _of(cls, told: dict[str, Any]) -> CallExplanation:
        story = tuple(Record._make((*fields, None, None, None)) for fields in told["story"])
        return cls(**{**told, "numbers": tuple(told["numbers"]), "story": story})


@dataclass(frozen=True)
class Restored:
    """What a restore has done.

    Attributes:
        routes: Routes that go on.
        left_out: Routes for which there was no room within `max_routes`: the least recently used ones.
        unknown: Policies and pools of the saved state that the engine does not have: kind and name.
        dropped: Components that have started fresh, because their settings are others now: policy or pool,
            its name, and the component.
    """

    routes: int
    left_out: int
    unknown: list[tuple[str, str]]
    dropped: list[tuple[str, str, str]]


_HEAD: Final = re.compile(r"tidegate journal (\d+) seed (\d+) routes (\d+)")


def replayable(journal: str) -> tuple[int, int, list[str]]:
    """The seed, the bound on routes and the lines of a journal.

    Raises:
        ValueError: If it does not begin as one.
    """
    lines = [line for line in journal.splitlines() if line]
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None or head[1] != "1":
        shown = lines[0] if lines else ""
        raise ValueError(f"journal = {shown!r}: must begin with 'tidegate journal 1 seed … routes …'")
    return int(head[2]), int(head[3]), lines[1:]
