"""The AIMD limit (4.2). In f64: `limit + step / limit` to grow, `limit * ratio` to cut, then bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quantile import WindowedP2

WINDOW = 100
"""Samples that the quantile is of."""
WARM = 20
"""With fewer the estimate is warming: neither a breach nor a reason to grow."""


@dataclass
class Aimd:
    """Settings as of the policy; `limit` is a float of which callers see the whole part."""

    settings: dict[str, Any]
    limit: float = 0.0
    cut_at: int | None = None
    recent: WindowedP2 = field(default_factory=lambda: WindowedP2(0.5, WINDOW))

    def __post_init__(self) -> None:
        """Starts at the maximum."""
        self.limit = float(self.settings["max_concurrency"])
        self.epoch()

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
            self.cut_at = now
            self.limit = max(
                self.limit * self.settings["backoff_ratio"], float(self.settings["min_concurrency"])
            )
            self.epoch()

    def latency(self, latency: int, now: int) -> None:
        """An ok completion."""
        breached = self.breached(latency)
        if breached:
            self.cut(now)
        elif breached is False:
            grown = self.limit + self.settings["increase_step"] / self.limit
            self.limit = min(grown, float(self.settings["max_concurrency"]))

    def failure(self, latency: int, now: int) -> None:
        """Transient or permanent: counts only if over the threshold, and never lets the limit grow."""
        if latency > self.settings["latency_threshold"] and self.breached(latency):
            self.cut(now)

    def timeout(self, now: int) -> None:
        """A breach, whatever the estimate."""
        self.cut(now)

    def retune(self, settings: dict[str, Any]) -> None:
        """A limit at its ceiling goes to the new one, any other stays; another quantile starts anew."""
        ceiling = self.limit == self.settings["max_concurrency"]
        other = settings.get("latency_quantile") != self.settings.get("latency_quantile")
        self.settings = settings
        top, least = float(settings["max_concurrency"]), float(settings["min_concurrency"])
        self.limit = top if ceiling else min(max(self.limit, least), top)
        if other:
            self.epoch()
