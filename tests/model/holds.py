"""Hold: queueing under throttling (spec 2.19)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from call import Call, Path

if TYPE_CHECKING:
    from engine import Engine

MOST = 1024
"""Paths and prefixes that are counted per route."""

Key = tuple[str, Path]


def path_of(text: str) -> Path:
    """As written: "A path ends before `?` or `#`; empty segments do not count"."""
    return tuple(segment for segment in re.split(r"[?#]", text)[0].split("/") if segment)


def prefixes(path: Path, longest: int) -> list[Key]:
    """Those of 1 to 4 segments, at most `longest` of them."""
    return [("prefix", path[:n]) for n in range(1, min(4, longest) + 1)]


@dataclass(eq=False)
class Hold:
    """One queue: nobody passes before `moment`, then `limit` at a time."""

    moment: int
    limit: int = 1
    taken: int = 0
    queue: list[Call] = field(default_factory=list)

    def free(self, now: int) -> bool:
        """Is there a place for the next one?"""
        return now >= self.moment and self.taken < self.limit

    def hand_out(self, engine: Engine, now: int, own: Call | None) -> None:
        """As written: "When the moment has come, the heads take the free places"."""
        while self.queue and self.free(now):
            head = self.queue.pop(0)
            if head.deadline is not None and now >= head.deadline:  # 4.4: "is failed, not granted"
                head.hold = None
                engine.refuse(head, "deadline_queued", now, own)
            else:
                self.taken += 1
                head.state = "granted"
                engine.wake(head, own)

    def leave(self, engine: Engine, call: Call, well: bool, now: int) -> None:
        """Out of the queue, or of its place; "if it ended well, the limit grows by 1 first"."""
        if call in self.queue:
            self.queue.remove(call)
        else:
            self.limit += int(well)
            self.taken -= 1
        self.hand_out(engine, now, None)


class Holds:
    """All of a route."""

    def __init__(self) -> None:
        self.counts: dict[Key, int] = {}
        self.holds: dict[Key, Hold] = {}

    def look(self, now: int) -> None:
        """What has done its duty is gone; "with the last hold of a route its counts are gone"."""
        before = len(self.holds)
        self.holds = {
            key: hold for key, hold in self.holds.items() if now < hold.moment or hold.queue or hold.taken
        }
        if before and not self.holds:
            self.counts = {}

    def waiting(self) -> int:
        """How many wait."""
        return sum(len(hold.queue) for hold in self.holds.values())

    def match(self, path: Path) -> Hold | None:
        """As written: "The longest hold that matches: the path itself, then 4 segments down to 1"."""
        keys = [("path", path), *reversed(prefixes(path, len(path)))]
        return next((self.holds[key] for key in keys if key in self.holds), None)

    def throttled(self, path: Path, until: int, now: int) -> None:
        """A throttle of this path whose retry waits `until` then."""
        self.look(now)
        for key in [("path", path), *prefixes(path, len(path) - 1)]:
            if key not in self.counts and len(self.counts) >= MOST:
                continue
            self.counts[key] = self.counts.get(key, 0) + 1
            needed = 1 if key[0] == "path" else 5 - len(key[1])
            if self.counts[key] < needed:
                continue
            hold = self.holds.setdefault(key, Hold(until))
            hold.moment, hold.limit = max(hold.moment, until), 1
