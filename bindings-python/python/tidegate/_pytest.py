"""The pytest plugin: the fixture `tidegate_clock`. pytest loads it by the entry point `pytest11`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Final

import pytest

from ._engine import engine as _engine
from .testing import FakeClock, assert_idle

_OPTION: Final = "tidegate_clock"
_DAY: Final = 86_400.0
_session: list[_SessionClock] = []
"""The clock of the whole session, if the project asks for one."""


class _SessionClock(FakeClock):
    """A clock that serves all tests of a session: each of them begins at 0."""

    _origin = 0

    def now(self) -> float:
        """Returns the seconds since the test began."""
        return (self._us - self._origin) / 1e6

    def begin(self) -> None:
        """Begins a test a day later, with closed breakers and full limits."""
        self.autojump, self.threshold = False, 0.0
        self.tick(_DAY)
        engine = _engine.default_engine()
        for shared in list(engine.shared.values()):
            engine.wake(engine.native.force_open(shared.number, None, False))
        self._origin = self._us


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `tidegate_clock` of the project's pytest settings."""
    text = "drive the policies that modules make at import by the clock of the fixture tidegate_clock"
    parser.addini(_OPTION, text, type="bool", default=False)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Gives the process an engine on a fake clock before any module of the project makes a policy."""
    if early_config.getini(_OPTION):
        clock = _SessionClock()
        _session.append(clock)
        _engine.use(_engine.Engine(seed=0, clock=clock))


def pytest_unconfigure() -> None:
    """Gives the process its own engine again."""
    if _session:
        _session.clear()
        _engine.use(None)


@pytest.fixture
def tidegate_clock() -> Iterator[FakeClock]:
    """A `FakeClock` for all policies that the test makes without an explicit engine.

    With `tidegate_clock = true` in the project's pytest settings it also drives policies that modules make at
    import. Without it, the default engine is a new one during the test, with seed 0; policies made before
    keep their engine and its real clock, and the fixture warns if the test has called one of them. The
    fixture fails if any call is unfinished at the end of the test.

    In an event loop set `tidegate_clock.autojump = True` before the first call, or move the clock by
    `await tidegate_clock.advance(seconds)` beside the task of the call.
    """
    if _session:
        clock = _session[0]
        clock.begin()
        yield clock
        assert_idle()
        return
    made = FakeClock()
    engine = _engine.Engine(seed=0, clock=made)
    before = _engine.use(engine)
    earlier = {} if before is None else _calls(before)
    try:
        yield made
        assert_idle(engine)
    finally:
        _engine.use(before)
    if before is not None:
        called = [name for name, ends in _calls(before).items() if ends != earlier.get(name)]
        if called:
            names = ", ".join(repr(name) for name in called)
            warnings.warn(
                f"tidegate_clock does not drive policy {names}, which was made before the test: set "
                f"{_OPTION} = true under [tool.pytest.ini_options]",
                stacklevel=1,
            )


def _calls(engine: _engine.Engine) -> dict[str, Any]:
    """Returns how the calls of each policy have ended so far."""
    return {name: view["ends"] for name, view in engine.snapshot()["policies"].items()}
