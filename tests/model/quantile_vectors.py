"""The vectors of the estimators (spec 9). Numbers are texts: every reader has them to the last bit."""

from __future__ import annotations

import math
from typing import Any

import rng
from quantile import FULL, LEAST, P2, Sketch, WindowedP2

Case = dict[str, Any]
ODD = [0.0, -0.0, math.nan, -3.5, math.inf, 7.25, -math.inf, 1e-310, 2.5, 1e308, -1e308, 0.125, 1e-5]


def text(x: float | None) -> str | None:
    """A number as Rust, JavaScript, Kotlin and Swift read it alike."""
    if x is None:
        return None
    return repr(x).replace("inf", "Infinity").replace("nan", "NaN")


def texts(values: list[float]) -> list[str | None]:
    """Many of them."""
    return [text(x) for x in values]


def draws(seed: int, count: int) -> list[float]:
    """Values from 0 to 1, not including 1."""
    return [rng.bits(seed, i, rng.BACKOFF, 1) % 1_000_000 / 1_000_000 for i in range(count)]


def streams() -> dict[str, list[float]]:
    """What the estimators are told."""
    steady = draws(1, 200)
    return {
        "uniform": steady,
        "long tail": [0.02 / (1.0 - u) for u in draws(2, 200)],
        "bimodal": [0.01 + 0.002 * u if u < 0.8 else 1.0 + u for u in draws(3, 200)],
        "below zero": [u - 0.5 for u in draws(4, 60)],
        "all equal": [0.25] * 40,
        "few values": [float(math.floor(u * 3)) for u in draws(5, 120)],
        "ascending": [float(i) for i in range(1, 61)],
        "descending": [float(60 - i) for i in range(60)],
        "odd": ODD + ODD[::-1],
        "odd, then ordinary": ODD + steady[:100],
        "ends of an f64": [1.7976931348623157e308, -1.7976931348623157e308, 5e-324] * 20,
    }


def p2_cases() -> list[Case]:
    """Every stream for every p, with the markers on the way."""
    cases = []
    for name, stream in streams().items():
        for p in (0.5, 0.95, 0.01) if len(stream) > 100 else (0.5, 0.9):
            cases.append(p2_case(f"{name}, p = {p}", p, stream))
    for p in (math.nan, 0.0, -1.0, 1.0, math.inf, -math.inf):
        cases.append(p2_case(f"p = {text(p)} is clamped", p, streams()["uniform"][:100]))
    return cases


def p2_case(name: str, p: float, stream: list[float]) -> Case:
    """A look after each of the first 12 observations, and after every 13th."""
    model = P2(p)
    looks = []
    for place, x in enumerate(stream, start=1):
        model.observe(x)
        if place <= 12 or place % 13 == 0 or place == len(stream):
            look: Case = {"after": place, "count": len(model.samples), "estimate": text(model.estimate())}
            found = model.markers()
            if found:
                look |= {"heights": texts(found[0]), "positions": found[1]}
            looks.append(look)
    return {"name": name, "p": text(p), "observations": texts(stream), "looks": looks}


def windowed_cases() -> list[Case]:
    """Estimate and count after each observation."""
    cases = []
    for name, stream in streams().items():
        for window in (0, 11, 32) if len(stream) < 130 else (64,):
            model = WindowedP2(0.9, window)
            looks = []
            for x in stream:
                model.observe(x)
                looks.append([text(model.estimate()), len(model.behind())])
            case = {"name": f"{name}, window {window}", "p": "0.9", "window": window}
            cases.append({**case, "observations": texts(stream), "looks": looks})
    return cases


def sketch_cases() -> list[Case]:
    """What one sketch, or several that are merged, know of what they were told."""
    given: list[tuple[float, list[list[float]]]] = [
        *((0.01, [stream]) for stream in streams().values()),
        *((alpha, [streams()["long tail"]]) for alpha in (0.001, 0.02, 0.25)),
        *((alpha, [streams()["uniform"][:20]]) for alpha in (math.nan, 0.0, -1.0, 1.0, math.inf)),
        (0.01, [[]]),
        (0.01, [[3.0]]),
        (0.01, [[math.nan, math.inf]]),
        # Powers of two and their neighbours: where one octave ends and the next begins.
        (0.01, [[math.nextafter(2.0**e, to) for e in range(-12, 12) for to in (0.0, 2.0**e, math.inf)]]),
        (0.01, [[5e-324, math.nextafter(LEAST, 0.0), LEAST, LEAST, math.nextafter(LEAST, 1.0)]]),
        # Further apart than 2,048 bins, from below, from above, and by merging.
        (0.01, [[2.0**e for e in range(-40, 60)]]),
        (0.01, [[2.0**e for e in reversed(range(-40, 60))]]),
        (0.01, [[2.0**-40, 1.0, 1.5], [2.0**40, 3.0], [], [-1.0, 2.0**13 + 1]]),
        (0.001, [[2.0**-e for e in range(8)], [2.0**e for e in range(8)]]),
        (0.02, [streams()["odd"], streams()["few values"], streams()["long tail"][:50]]),
    ]
    return [sketch_case(alpha, parts) for alpha, parts in given]


def sketch_case(alpha: float, parts: list[list[float]]) -> Case:
    """Each part goes into a sketch of its own; the first takes in the others in their order."""
    sketches = [Sketch(alpha) for _ in parts]
    for sketch, part in zip(sketches, parts, strict=True):
        for x in part:
            sketch.add(x)
    whole = sketches[0]
    assert all(whole.merge(other) for other in sketches[1:])
    asked = [-1.0, 0.0, 0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0, 2.0, math.nan]
    return {
        "alpha": text(alpha),
        "parts": [texts(part) for part in parts],
        "count": len(whole.values),
        "sum": text(whole.sums),
        "min": text(min(whole.values, default=None)),
        "max": text(max(whole.values, default=None)),
        "quantiles": [[text(q), text(whole.quantile(q))] for q in asked],
        "words": [str(word) for word in whole.words()],
    }


def malformed_cases() -> list[Case]:
    """Words with one thing wrong, and the rule that they break."""
    sketch = Sketch(0.01)
    for x in (0.0, 1.0, 1.0, 64.0):
        sketch.add(x)
    good = sketch.words()

    def put(place: int, word: int) -> list[int]:
        return [*good[:place], word, *good[place + 1 :]]

    given = [
        ("too_short", []),
        ("too_short", good[:4]),
        ("version", put(0, good[0] + 1)),
        ("accuracy", put(0, good[0] - (37 << 8))),
        ("accuracy", put(0, good[0] + (338 << 8))),
        ("length", good[:6]),
        ("length", [*good, 1]),
        ("empty_bin", put(5, 0)),
        ("order", put(6, 1)),
        ("order", put(5, 1 << 53 | 2)),
        ("range", put(0, good[0] % 2**40)),
        ("range", put(0, good[0] | (2**24 - 1) << 40)),
        ("full", put(1, FULL - 2)),
        ("not_a_number", put(2, 0x7FF0 << 48)),
        ("not_a_number", put(3, 1 << 63)),
        ("contradiction", put(1, 0)),
        ("contradiction", put(4, 0x3FF0 << 48)),
    ]
    return [{"rule": rule, "words": [str(word) for word in words]} for rule, words in given]


def files() -> dict[str, Case]:
    """The files of the family by name, without their heads."""
    return {
        "p2": {"kind": "p2", "spec": ["9.1", "9.4"], "cases": p2_cases()},
        "windowed": {"kind": "windowed", "spec": ["9.2", "9.4"], "cases": windowed_cases()},
        "ddsketch": {
            "kind": "ddsketch",
            "spec": ["9.3", "9.4"],
            "cases": sketch_cases(),
            "malformed": malformed_cases(),
        },
    }
