"""Gradient2 (4.3) in its variants, each from its sentences.

The order of the f64 operations, RTTs in µs: the mean is `sum / count`; an average moves by
`long * (1 - a) + rtt * a` (plain: `long * (1 - 1/W) + rtt / W`; steady: `long + (mean - long) * a`); the
gradient is `tolerance * long / rtt`, from the left, within 0.5 and 1; Netflix smooths by
`limit * 0.8 + new * 0.2`, plain by `limit + 0.2 * (new - limit)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def clamp(x: float, low: float, high: float) -> float:
    """Between the two."""
    return max(low, min(high, x))


@dataclass
class Gradient2:
    """What all variants share."""

    settings: dict[str, Any]
    limit: float = 0.0
    rtts: int = 0
    total: float = 0.0
    long: float = 0.0
    last_cut: int | None = None

    def __post_init__(self) -> None:
        """20 to begin with, within the range."""
        self.limit = self.bound(20.0)

    def bound(self, x: float) -> float:
        """Within the range of the settings."""
        return clamp(x, float(self.settings["min_concurrency"]), float(self.settings["max_concurrency"]))

    def average(self, rtt: float) -> None:
        """Plain mean of the first 10, weight 2/(W+1) after that."""
        self.rtts += 1
        if self.rtts <= 10:
            self.total += rtt
            self.long = self.total / self.rtts
        else:
            a = 2.0 / (self.settings["long_window"] + 1.0)
            self.long = self.long * (1.0 - a) + rtt * a

    def gradient(self, long: float, rtt: float) -> float:
        """How much slower than the baseline, within 0.5 and 1."""
        return clamp(self.settings["rtt_tolerance"] * long / rtt, 0.5, 1.0)

    def drop(self, started: int, in_flight: int, now: int) -> None:
        """Plain and Netflix ignore drops."""


@dataclass
class Netflix(Gradient2):
    """The reference."""

    def latency(self, rtt: int, started: int, in_flight: int, now: int) -> None:
        """One sample."""
        short = float(max(rtt, 1))
        self.average(short)
        long = self.long
        if long / short > 2.0:
            self.long *= 0.95
        if in_flight < self.limit / 2.0:
            return
        new = self.limit * self.gradient(long, short) + self.settings["headroom"]
        self.limit = self.bound(self.limit * 0.8 + new * 0.2)


@dataclass
class Plain(Gradient2):
    """The seed: weight 1/W from the first sample on, decreases direct, no decay."""

    def latency(self, rtt: int, started: int, in_flight: int, now: int) -> None:
        """One sample."""
        short = float(max(rtt, 1))
        window = self.settings["long_window"]
        self.rtts += 1
        self.long = short if self.rtts == 1 else self.long * (1.0 - 1.0 / window) + short / window
        if in_flight * 2 < self.limit:
            return
        new = self.limit * self.gradient(self.long, short) + self.settings["headroom"]
        if new > self.limit:
            new = self.limit + 0.2 * (new - self.limit)
        self.limit = self.bound(new)


@dataclass
class Guarded(Gradient2):
    """4.3 as it is written."""

    def latency(self, rtt: int, started: int, in_flight: int, now: int) -> None:
        """One sample."""
        short = float(max(rtt, 1))
        self.average(short)
        g = self.gradient(self.long, short)
        if self.long / short > 2.0:
            self.long *= 0.95
        self.change(g, started, in_flight, now)

    def drop(self, started: int, in_flight: int, now: int) -> None:
        """As a gradient of 0.5."""
        self.change(0.5, started, in_flight, now)

    def change(self, g: float, started: int, in_flight: int, now: int) -> None:
        """Grows, or cuts once per RTT epoch."""
        if in_flight < self.limit / 2.0:
            return
        if g == 1.0:
            self.limit = self.bound(self.limit + 0.2 * self.settings["headroom"])
        elif self.last_cut is None or started > self.last_cut:
            self.last_cut = now
            self.limit = self.bound(self.limit * g)


@dataclass
class Steady(Gradient2):
    """The proposal: one decision per RTT epoch, from its mean; saturation does not teach the baseline."""

    began: int | None = None
    epoch: list[tuple[int, int]] = field(default_factory=list)
    after_cut: bool = False
    slow: tuple[float, float] | None = None
    """Baseline and limit before the first cut, for as long as calls are slower than then."""

    def latency(self, rtt: int, started: int, in_flight: int, now: int) -> None:
        """One sample; those of calls that started before the epoch did are not counted."""
        if self.began is not None and started <= self.began:
            return
        self.epoch.append((max(rtt, 1), in_flight))
        count = len(self.epoch)
        if count < 10 or count < self.limit / 2.0:
            return
        mean = float(sum(rtt for rtt, _ in self.epoch)) / count
        saturated = max(busy for _, busy in self.epoch) >= self.limit / 2.0
        if self.slow is not None and not (saturated and mean > self.slow[0] * 1.05):
            self.slow = None
        old = mean if self.rtts == 0 else self.long
        self.rtts += 1
        if mean < old or not saturated:
            a = min(1.0, 2.0 * count / (self.settings["long_window"] + 1.0))
            self.long = old + (mean - old) * a
        elif self.after_cut:
            self.long = min(mean, old * 1.05)
        else:
            self.long = old
        if self.long / mean > 2.0:
            self.long *= 0.95
        after_cut = False
        if saturated and self.settings["rtt_tolerance"] * self.long < mean:
            self.slow = self.slow or (self.long, self.limit)
            self.limit = self.bound(self.limit * clamp(0.9 * self.long / mean, 0.5, 1.0))
            after_cut = True
        elif saturated:
            grown = self.limit + max(0.2 * self.settings["headroom"], self.limit / 32.0)
            if self.slow is not None:  # "no further than 1.5 times the limit of before"
                grown = min(grown, max(self.limit, self.slow[1] * 1.5))
            self.limit = self.bound(grown)
        self.open(now, after_cut)

    def drop(self, started: int, in_flight: int, now: int) -> None:
        """Halves at once, once per epoch."""
        if (self.began is None or started > self.began) and in_flight >= self.limit / 2.0:
            if self.slow is None and self.rtts > 0:
                self.slow = (self.long, self.limit)
            self.limit = self.bound(self.limit * 0.5)
            self.open(now, True)

    def open(self, now: int, after_cut: bool) -> None:
        """A new epoch."""
        self.began, self.epoch, self.after_cut = now, [], after_cut


VARIANTS = {"guarded": Guarded, "steady": Steady, "plain": Plain, "netflix": Netflix}
