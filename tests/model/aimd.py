"""The AIMD limit (4.2, 4.6). In f64: `limit + step / limit` to grow, `limit * ratio` to cut, then bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quantile import WindowedP2

WINDOW = 100
"""Samples that the quantile is of."""
WARM = 20
"""With fewer the estimate is warming: neither a breach nor a reason to grow."""
FIRST = 20.0
"""What a limit that follows loss begins with, if its range allows it."""
CAREFUL = 100
"""Good answers for a whole step near the limit of the last refusal."""


@dataclass
class Aimd:
    """Settings as of the policy; `limit` is a float of which callers see the whole part."""

    settings: dict[str, Any]
    limit: float = 0.0
    cut_at: int | None = None
    recent: WindowedP2 = field(default_factory=lambda: WindowedP2(0.5, WINDOW))
    ever_cut: bool = False
    refused_at: int | None = None
    careful: int = 0

    def __post_init__(self) -> None:
        """Starts at the maximum; what follows loss at 20 (4.6.2)."""
        self.limit = float(self.settings["max_concurrency"])
        if self.signal() != "latency":
            self.limit = self.bounded(FIRST)
        self.epoch()

    def signal(self) -> str:
        """What the limit follows."""
        return str(self.settings.get("signal", "latency"))

    def bounded(self, limit: float) -> float:
        """Within the range."""
        least, most = float(self.settings["min_concurrency"]), float(self.settings["max_concurrency"])
        return min(max(limit, least), most)

    def epoch(self) -> None:
        """A fresh epoch of the estimate."""
        self.recent = WindowedP2(self.settings.get("latency_quantile") or 0.5, WINDOW)

    def breached(self, latency: int) -> bool | None:
        """Is the signal over the threshold? None while the estimate is warming."""
        if self.settings.get("latency_quantile") is None:
            return bool(latency > self.settings["latency_threshold"])
        self.recent.observe(float(latency))
        if len(self.recent.behind()) < WARM:
            return None
        estimate = self.recent.estimate()
        return estimate is not None and bool(estimate > self.settings["latency_threshold"])

    def cut(self, now: int) -> None:
        """At most once per interval, never below the minimum; a fresh epoch after it."""
        if self.cut_at is None or now - self.cut_at >= self.settings["cut_interval"]:
            self.shrink(self.limit, now)

    def shrink(self, before: float, now: int) -> None:
        """A cut of any kind."""
        self.cut_at, self.ever_cut, self.careful = now, True, 0
        self.limit = self.bounded(before * self.settings["backoff_ratio"])
        self.epoch()

    def throttled(self, started: int, now: int) -> None:
        """4.6.3: "unless it started before the last cut"."""
        if self.signal() != "latency" and (self.cut_at is None or started > self.cut_at):
            self.refused_at = int(self.limit)
            self.shrink(float(self.refused_at), now)

    def latency(self, latency: int, now: int, in_flight: int | None = None) -> None:
        """An ok completion; `in_flight` of None means that all of the limit is in use."""
        breached = False if self.signal() == "loss" else self.breached(latency)
        if breached:
            self.cut(now)
        elif breached is False:
            self.limit = self.bounded(self.grown(in_flight))

    def grown(self, in_flight: int | None) -> float:
        """The limit after a good answer."""
        step = float(self.settings["increase_step"])
        if self.signal() == "latency":
            return self.limit + step / self.limit
        whole = int(self.limit)
        if in_flight is not None and 2 * in_flight < whole:  # "less than half is in use"
            return self.limit
        if not self.ever_cut:
            return self.limit + step
        if self.refused_at is None or whole >= self.refused_at + 2:
            return self.limit + step / self.limit
        self.careful += 1
        if self.careful < CAREFUL:
            return self.limit
        self.careful = 0
        return float(whole + 1)

    def failure(self, latency: int, now: int) -> None:
        """Transient or permanent: counts only if over the threshold, and never lets the limit grow."""
        if self.signal() == "loss":
            return
        if latency > self.settings["latency_threshold"] and self.breached(latency):
            self.cut(now)

    def timeout(self, now: int) -> None:
        """A breach, whatever the estimate; 4.6.6: nothing to `loss`."""
        if self.signal() != "loss":
            self.cut(now)

    def retune(self, settings: dict[str, Any]) -> None:
        """A limit at its ceiling goes to the new one, any other stays; another quantile starts anew."""
        ceiling = self.limit == self.settings["max_concurrency"]
        other = settings.get("latency_quantile") != self.settings.get("latency_quantile")
        before = self.signal()
        self.settings = settings
        if self.signal() != before:  # 4.6.8
            self.cut_at, self.ever_cut, self.refused_at, self.careful = None, False, None, 0
            self.__post_init__()
            return
        if before != "latency":
            ceiling = False
        top, least = float(settings["max_concurrency"]), float(settings["min_concurrency"])
        self.limit = top if ceiling else min(max(self.limit, least), top)
        if other:
            self.epoch()
