"""The pytest plugin: the fixture `tidegate_clock`. pytest finds it by itself (entry point `pytest11`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._engine import engine as _engine
from .testing import FakeClock, assert_idle


@pytest.fixture
def tidegate_clock() -> Iterator[FakeClock]:
    """A `FakeClock` that drives all policies which the test makes without an engine of their own.

    For the length of the test the process's own engine is a fresh one on this clock, with seed 0. At the end
    nothing may be left of any call. Policies made before, in a module for instance, keep their engine.
    """
    clock = FakeClock()
    engine = _engine.Engine(seed=0, clock=clock)
    before = _engine.use(engine)
    try:
        yield clock
        assert_idle(engine)
    finally:
        _engine.use(before)
