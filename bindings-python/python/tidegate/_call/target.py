"""Targets: the name of the model, provider, region or key that the running attempt goes to."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from .deadline import _level, current

if TYPE_CHECKING:
    from tidegate._engine.engine import Engine

    from .deadline import Scope

OF_LANE: Final[ContextVar[tuple[Engine, int, str | None] | None]] = ContextVar(
    "tidegate.target", default=None
)
"""Engine, call and target of an attempt that runs beside others: the engine knows the newest one's target."""


def target() -> str | None:
    """Returns the name of the target that this attempt goes to; None outside of such an attempt.

    A function maps the name, which is that of the document, to a URL, a model or a key: so no secret need be
    in the document. Of nested calls the innermost one with targets counts.

    Example:
        ```python
        def chat() -> httpx.Response:
            return client.post(URLS[tidegate.target()], json=body)

        policies["chat"].call(chat)
        ```
    """
    lane = OF_LANE.get()
    scope: Scope | None = current()
    while scope is not None:
        engine, call, _, outer = _level(scope)
        if engine is not None and call:
            if lane is not None and lane[:2] == (engine, call):
                return lane[2]
            name = engine.native.target_of(call)
            if name is not None:
                return name
        scope = outer
    return None
