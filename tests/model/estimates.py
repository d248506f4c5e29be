"""What calls reserve of what they name (3.9), as a search among all steps in exact fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from quantile import WindowedP2

STEPS = sorted(
    {Fraction(m, 16) * Fraction(2) ** e for m in range(16, 32) for e in range(-4, 4)} | {Fraction(16)}
)
"""3.9.3: the scales that there are."""


@dataclass
class Estimate:
    """3.9.2: parts of what calls named that their attempts have used."""

    quantile: float
    used: WindowedP2 = field(init=False)

    def __post_init__(self) -> None:
        """Two overlapping windows of 512."""
        self.used = WindowedP2(self.quantile, 512)

    def note(self, used: int, named: int) -> None:
        """An attempt has settled a total."""
        if named > 0:
            self.used.observe(used / named)

    def reserve(self, named: int, burst: int) -> int:
        """3.9.3, 3.9.4."""
        ratio = self.used.estimate()
        if len(self.used.behind()) < 20 or ratio is None:
            return named
        scale = next((step for step in STEPS if step >= ratio), STEPS[-1])
        fitting = [step for step in STEPS if step <= scale and math.ceil(named * step) <= burst]
        return math.ceil(named * max(fitting))
