"""The context of an invocation: its criticality and its deadline."""

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
    """Importance of a call, which queues use."""

    BEST_EFFORT = 0
    DEGRADED = 10
    NORMAL = 20
    CRITICAL = 30


_bound: Final[ContextVar[Criticality]] = ContextVar("tidegate_forze_criticality", default=Criticality.NORMAL)


def current_criticality() -> Criticality:
    """Returns the criticality of calls made in this context."""
    return _bound.get()


@contextmanager
def bind_criticality(criticality: Criticality | None) -> Iterator[None]:
    """Sets the criticality of calls inside; None leaves it unchanged."""
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
    """Sets a deadline for everything inside; the earlier of nested ones applies, None sets none."""
    if timeout is None:
        yield
        return
    with deadline(timeout):
        yield
