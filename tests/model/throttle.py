"""The adaptive throttle (spec 6; the SRE book's client-side throttling)."""

from __future__ import annotations

from dataclasses import dataclass

from clock import Clock
from window import Window

# 1.2, the column "throttle accept"; None: it does not count at all.
ACCEPTED = {
    "ok": True,
    "transient": False,
    "timeout": False,
    "never_sent": False,
    "throttled": False,
    "conflict": False,
    "permanent": True,
    "ignored": None,
    "cancelled": None,
}


FACTORS = [0.625, 0.75, 1.0, 2.0]
"""6.2.5: best_effort, degraded, normal, critical."""


@dataclass
class Settings:
    """6.1, 6.2; spans in µs."""

    k: float = 2.0
    window: int = 120_000_000
    window_kind: str = "sliding"
    min_throughput: int = 10
    max_reject: float | None = 0.9
    probe_interval: int | None = 1_000_000


class Throttle:
    """Refuses some calls while the downstream does not accept enough of them."""

    def __init__(self, settings: Settings, reading: int) -> None:
        self.settings = settings
        self.clock = Clock()
        self.admitted = self.clock(reading)
        self.window = Window(settings.window, settings.window_kind)

    def counts(self, reading: int) -> tuple[int, int]:
        """Requests and accepts in the window."""
        accepts, requests = self.window.counts(self.clock(reading))
        return requests, accepts

    def probability(self, reading: int, k: float | None = None) -> float:
        """6.1: "p = max(0, (requests − k·accepts)/(requests + 1))"; 6.2: `max_reject`."""
        requests, accepts = self.counts(reading)
        if requests < self.settings.min_throughput:
            return 0.0
        p = max(0.0, (requests - (self.settings.k if k is None else k) * accepts) / (requests + 1.0))
        return p if self.settings.max_reject is None else min(p, self.settings.max_reject)

    def admit(self, bits: int, reading: int, criticality: int | None = None) -> bool:
        """6.1: "a refusal counts at once"; 6.2: "at least one probe per second"; 6.2.5 with a criticality."""
        now = self.clock(reading)
        k = None if criticality is None else max(1.1, self.settings.k * FACTORS[criticality])
        unlucky = (bits >> 11) * 2.0**-53 < self.probability(reading, k)
        interval = self.settings.probe_interval
        due = interval is not None and now - self.admitted >= interval
        if unlucky and not due:
            self.window.add(False, now)
            return False
        self.admitted = now
        return True

    def record(self, accepted: bool, reading: int) -> None:
        """6.1: "A call counts when it ends"."""
        self.window.add(accepted, self.clock(reading))

    def retune(self, to: Settings) -> None:
        """0.6: "counters that still have a meaning are kept"."""
        if (to.window, to.window_kind) != (self.settings.window, self.settings.window_kind):
            self.window = Window(to.window, to.window_kind)
        self.settings = to
