"""Estimators of quantiles (spec 9). They keep every sample, and compute from all of them at each question."""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass, field
from fractions import Fraction

LEAST = sys.float_info.min
GREATEST = sys.float_info.max
BINS = 2048
FULL = 2**53 - 1
VERSION = 1


def real(x: float) -> bool:
    """NaN and the infinities are no measurements: nobody takes them in (9.4)."""
    return math.isfinite(x)


# ---- P² (9.1) ----

Markers = tuple[list[float], list[int]]


def probability(p: float) -> float:
    """`p` as it is used: within 0.001 to 0.999, the median where it is NaN."""
    return 0.5 if math.isnan(p) else min(max(p, 0.001), 0.999)


def p2_markers(p: float, samples: list[float]) -> Markers:
    """Jain and Chlamtac 1985: heights and positions of the five markers after five samples or more."""
    q = sorted(samples[:5])
    n = [1, 2, 3, 4, 5]
    increments = [0.0, p / 2.0, p, (1.0 + p) / 2.0, 1.0]
    for seen, x in enumerate(samples[5:], start=6):
        # The cell that x falls into; the outer markers are the least and the greatest value.
        q[0], q[4] = min(q[0], x), max(q[4], x)
        cell = max(i for i in range(4) if q[i] <= x)
        n = [n[i] + 1 if i > cell else n[i] for i in range(5)]
        # Where the middle ones should stand; from the count and not by adding up, which would drift.
        for i in (1, 2, 3):
            d = (1.0 + (seen - 1) * increments[i]) - n[i]
            up = d >= 1.0 and n[i + 1] - n[i] > 1
            down = d <= -1.0 and n[i - 1] - n[i] < -1
            if up or down:
                q[i] = p2_moved(q, n, i, 1 if up else -1)
                n[i] += 1 if up else -1
    return q, n


def p2_moved(q: list[float], n: list[int], i: int, s: int) -> float:
    """The height of marker i once it stands one to the right (s = 1) or to the left (s = -1)."""
    right = (n[i] - n[i - 1] + s) * (q[i + 1] - q[i]) / (n[i + 1] - n[i])
    left = (n[i + 1] - n[i] - s) * (q[i] - q[i - 1]) / (n[i] - n[i - 1])
    parabola = q[i] + s / (n[i + 1] - n[i - 1]) * (right + left)
    if q[i - 1] < parabola < q[i + 1]:
        return parabola
    line = q[i] + s * (q[i + s] - q[i]) / (n[i + s] - n[i])
    # Only an overflow leaves the neighbours behind; then the marker keeps its height.
    return line if q[i - 1] <= line <= q[i + 1] else q[i]


@dataclass
class P2:
    """The estimator as a list of samples."""

    p: float
    samples: list[float] = field(default_factory=list)

    def observe(self, x: float) -> None:
        """One measurement; negative zero is zero."""
        if real(x):
            self.samples.append(x + 0.0)

    def markers(self) -> Markers | None:
        """Heights and positions, once there are five samples."""
        if len(self.samples) < 5:
            return None
        return p2_markers(probability(self.p), self.samples)

    def estimate(self) -> float | None:
        """The middle marker. Below five samples: the least that at least a part p of them does not exceed."""
        if not self.samples:
            return None
        markers = self.markers()
        if markers:
            return markers[0][2]
        return sorted(self.samples)[math.ceil(probability(self.p) * len(self.samples)) - 1]


@dataclass
class WindowedP2:
    """9.2: two overlapping estimators. The one that answers was begun at a multiple of half a window."""

    p: float
    window: int
    samples: list[float] = field(default_factory=list)

    def observe(self, x: float) -> None:
        """One measurement."""
        if real(x):
            self.samples.append(x + 0.0)

    def behind(self) -> list[float]:
        """The samples of the oldest estimator that has at most a window of them."""
        half = max(self.window // 2, 5)
        begun = 0
        while len(self.samples) - begun > 2 * half:
            begun += half
        return self.samples[begun:]

    def estimate(self) -> float | None:
        """P² of those."""
        return P2(self.p, self.behind()).estimate()


# ---- DDSketch (9.3) ----


def bins_per_octave(alpha: float) -> int:
    """How finely an octave has to be cut."""
    clamped = 0.01 if math.isnan(alpha) else min(max(alpha, 0.001), 0.25)
    return math.ceil(0.375 / clamped)


def key(m: int, x: float) -> int:
    """The bin of a value: floor(m · (e + s(4 − s)/3)) with x = (1 + s) · 2^e, in exact fractions."""
    significand, exponent = math.frexp(x)
    s = Fraction(significand) * 2 - 1
    return math.floor(m * (exponent - 1 + s * (4 - s) / 3))


def middle(m: int, k: int) -> float:
    """The value that stands for a bin: as far, in relative terms, from its lower end as from the upper."""
    octave, place = divmod(k, m)
    lower = 3.0 - math.sqrt(4.0 - 3.0 * place / m)
    upper = 3.0 - math.sqrt(4.0 - 3.0 * (place + 1) / m)
    return math.ldexp(2.0 * (lower * upper) / (lower + upper), octave)


@dataclass
class Sketch:
    """The sketch as a list of values."""

    alpha: float
    values: list[float] = field(default_factory=list)
    sums: float = 0.0

    @property
    def m(self) -> int:
        """Bins per octave."""
        return bins_per_octave(self.alpha)

    def add(self, x: float) -> None:
        """One measurement; a negative one is a clock that ran back, and counts as zero."""
        if real(x):
            x = max(x, 0.0) + 0.0
            self.values.append(x)
            self.sums = min(self.sums + x, GREATEST)

    def merge(self, other: Sketch) -> bool:
        """Takes in all of another one, if its bins are the same."""
        if self.m != other.m:
            return False
        self.values += other.values
        self.sums = min(self.sums + other.sums, GREATEST)
        return True

    def bins(self) -> dict[int, int]:
        """How many values each bin holds. Below the highest 2,048 there is one bin for all."""
        keys = [key(self.m, x) for x in self.values if x >= LEAST]
        held: dict[int, int] = {}
        for k in sorted(keys):
            place = max(k, max(keys) - (BINS - 1))
            held[place] = held.get(place, 0) + 1
        return held

    def quantile(self, q: float) -> float | None:
        """What stands for the value of rank ⌊q(n − 1)⌋, counted from 0."""
        if not self.values or math.isnan(q):
            return None
        ordered = sorted(self.values)
        rank = math.floor(min(max(q, 0.0), 1.0) * (len(ordered) - 1))
        if rank == 0:
            return ordered[0]
        if rank == len(ordered) - 1:
            return ordered[-1]
        x = ordered[rank]
        found = 0.0
        if x >= LEAST:
            found = middle(self.m, max(key(self.m, x), max(self.bins()) - (BINS - 1)))
        return min(max(found, ordered[0]), ordered[-1])

    def words(self) -> list[int]:
        """The sketch as 64-bit words."""
        held = self.bins()
        first = min(held, default=0)
        head = VERSION | self.m << 8 | len(held) << 24 | (first + 2**23) << 40
        if not held:
            head = VERSION | self.m << 8
        zeros = sum(x < LEAST for x in self.values)
        ends = (min(self.values), max(self.values)) if self.values else (0.0, 0.0)
        words = [head, zeros, *(bits(x) for x in (self.sums, *ends))]
        before = first
        for k, count in held.items():
            words.append((k - before) << 53 | count)
            before = k
        return words


def bits(x: float) -> int:
    """The 64 bits of a number."""
    return int(struct.unpack("<Q", struct.pack("<d", x))[0])
