"""What an invocation carries: how much it matters, and until when it has to be done."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from tidegate._call.deadline import deadline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta


class Criticality(IntEnum):
    """How much a call matters to a queue."""

    BEST_EFFORT = 0
    DEGRADED = 10
    NORMAL = 20
    CRITICAL = 30


_bound: Final[ContextVar[Criticality]] = ContextVar("tidegate_forze_criticality", default=Criticality.NORMAL)


def current_criticality() -> Criticality:
    """How much the calls made here matter."""
    return _bound.get()


@contextmanager
def bind_criticality(criticality: Criticality | None) -> Iterator[None]:
    """Calls inside matter so much; None leaves it as it was."""
    if criticality is None:
        yield
        return
    token = _bound.set(Criticality(criticality))
    try:
        yield
    finally:
        _bound.reset(token)


@contextmanager
def bind_deadline(timeout: float | timedelta | None) -> Iterator[None]:
    """Everything inside has to be done within `timeout`; the earlier of nested ones holds, None is none."""
    if timeout is None:
        yield
        return
    with deadline(timeout):
        yield
