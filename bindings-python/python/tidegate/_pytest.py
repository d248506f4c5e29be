"""The pytest plugin: the fixture `tidegate_clock`. pytest loads it by the entry point `pytest11`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._engine import engine as _engine
from .testing import FakeClock, assert_idle


@pytest.fixture
def tidegate_clock() -> Iterator[FakeClock]:
    """A `FakeClock` for all policies that the test makes without an explicit engine.

    During the test the default engine is a new one on this clock, with seed 0. The fixture fails if any call
    is unfinished at the end of the test. Policies made before, for example in a module, keep their engine.
    """
    clock = FakeClock()
    engine = _engine.Engine(seed=0, clock=clock)
    before = _engine.use(engine)
    try:
        yield clock
        assert_idle(engine)
    finally:
        _engine.use(before)
