"""Counts over a window of time (spec 5.1, 6.2): the list of all that it was told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Entry:
    """One result."""

    at: int
    marked: bool


class Window:
    """5.1: "The window slides in ten slices (`window_kind = "tumbling"` for the seed's)"."""

    def __init__(self, length: int, kind: str) -> None:
        self.length = length
        self.slices = {"sliding": 10, "tumbling": 1}[kind]
        self.entries: list[Entry] = []
        self.first = 0

    def slice_of(self, at: int) -> int:
        """Slices are counted from the first entry into a window that was empty."""
        return (at - self.first) * self.slices // self.length

    def recent(self, now: int) -> list[Entry]:
        """Those that count: of this slice, and of as many before it as the window has beside it."""
        here = self.slice_of(now)
        return [entry for entry in self.entries if here - self.slice_of(entry.at) < self.slices]

    def add(self, marked: bool, now: int) -> None:
        """One more result."""
        if not self.recent(now):
            self.entries, self.first = [], now
        self.entries.append(Entry(now, marked))

    def counts(self, now: int) -> tuple[int, int]:
        """How many are marked, and how many there are."""
        recent = self.recent(now)
        return sum(entry.marked for entry in recent), len(recent)
