"""Quantiles by core's ``DDSketch`` beside those of Datadog's (``ddsketch`` on PyPI), and beside the truth.

    python tests/differential/quantiles.py target/checked/examples/quantiles

For each distribution, accuracy and size, half of the values goes into one sketch and half into another,
which are merged. Every quantile of ours has to be within our accuracy of the sorted values, theirs within
theirs, and the two within the sum of both.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable

import ddsketch

ASKED = [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0]
SIZES = [1, 2, 3, 10, 101, 1_000, 20_000]
ALPHAS = [0.005, 0.01, 0.02, 0.1]
# What their logarithm may be off at the edge of a bin.
ROUNDING = 1e-9
FAMILIES: dict[str, Callable[[random.Random], float]] = {
    "uniform": lambda draw: draw.uniform(0.001, 10.0),
    "exponential": lambda draw: draw.expovariate(20.0),
    "lognormal": lambda draw: draw.lognormvariate(-3.0, 1.0),
    "pareto": lambda draw: 0.01 * draw.paretovariate(1.1),
    "bimodal": lambda draw: draw.gauss(0.01, 0.001) if draw.random() < 0.8 else draw.gauss(1.0, 0.1),
    "whole microseconds": lambda draw: float(round(draw.lognormvariate(9.0, 1.5))),
    "powers of two": lambda draw: 2.0 ** draw.randrange(-10, 10),
    "many zeros": lambda draw: 0.0 if draw.random() < 0.3 else draw.uniform(1.0, 2.0),
}


def close(found: float, wanted: float, accuracy: float) -> bool:
    """Within the relative accuracy."""
    return abs(found - wanted) <= accuracy * abs(wanted)


def theirs(alpha: float, parts: list[list[float]]) -> ddsketch.DDSketch:
    """Their sketch of all parts, merged."""
    whole = ddsketch.DDSketch(alpha)
    for part in parts:
        sketch = ddsketch.DDSketch(alpha)
        for x in part:
            sketch.add(x)
        whole.merge(sketch)
    return whole


def compare(program: str) -> int:
    """All cases; how many quantiles were compared."""
    compared = 0
    core = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert core.stdin and core.stdout
    for place, (name, draw) in enumerate(FAMILIES.items()):
        for alpha in ALPHAS:
            for size in SIZES:
                random_numbers = random.Random(place * 1_000_003 + size)
                values = [draw(random_numbers) for _ in range(size)]
                parts = [values[::2], values[1::2]]
                lists = [[alpha], ASKED, *parts]
                core.stdin.write("|".join(" ".join(map(repr, each)) for each in lists) + "\n")
                core.stdin.flush()
                ours, count, total, *answers = map(float, core.stdout.readline().split())
                peer = theirs(alpha, parts)
                ordered = sorted(values)
                where = f"{name}, accuracy {alpha}, {size} values"
                assert count == size == peer.count, f"{where}: count {count}, theirs {peer.count}"
                assert math.isclose(total, peer.sum, rel_tol=1e-9), f"{where}: sum {total}, theirs {peer.sum}"
                assert 0.0 < ours <= alpha, f"{where}: accuracy {ours}"
                assert len(answers) == len(ASKED), f"{where}: {answers}"
                for q, found in zip(ASKED, answers, strict=True):
                    exact = ordered[math.floor(q * (size - 1))]
                    other = peer.get_quantile_value(q)
                    said = f"{where}, quantile {q}: core {found}, ddsketch {other}, exact {exact}"
                    assert close(found, exact, ours), said
                    assert other is not None, said
                    assert close(other, exact, alpha + ROUNDING), said
                    assert abs(found - other) <= (ours + alpha + ROUNDING) * abs(exact), said
                    compared += 1
    core.stdin.close()
    assert core.wait() == 0
    return compared


def main() -> None:
    """Compares, and says how much."""
    compared = compare(sys.argv[1])
    assert compared == len(FAMILIES) * len(ALPHAS) * len(SIZES) * len(ASKED), compared
    print(f"{compared} quantiles, each within its accuracy; ddsketch {ddsketch.__version__}")


if __name__ == "__main__":
    main()
