"""Time that never goes back (R10), for the parts that a host may use on their own."""

from __future__ import annotations

INVERSION = 10_000


class Clock:
    """The engine's time for the host's readings, in µs."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.offset = 0

    def __call__(self, reading: int) -> int:
        """R10: "inversions under 10 ms are clamped, larger ones absorbed by an offset"."""
        shifted = reading + self.offset
        if self.last is None or shifted >= self.last:
            self.last = shifted
        elif self.last - shifted > INVERSION:
            self.offset += self.last - shifted
        return self.last
