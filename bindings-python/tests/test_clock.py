"""An engine's clock runs with the process's, whatever stands in for it (ADR 0010)."""

from time import monotonic as seconds

from tidegate._native import Engine, monotonic


def test_an_engines_clock_is_less_than_a_millisecond_away() -> None:
    engine = Engine(7)
    ends, readings = seconds() + 0.1, []
    while seconds() < ends:
        before, now, after = monotonic(), engine.now(), monotonic()
        readings.append(now)
        assert before - 1_000 < now < after + 1_000
    assert len(readings) > 10
    assert readings[-1] - readings[0] > 50_000, "it runs"
