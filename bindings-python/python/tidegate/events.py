"""Events of the engine: records, their types, and the hooks that receive them.

    with tidegate.default_engine().on_event(print, types=["retry_scheduled"]):
        ...

A hook is called in the thread that made the step, right after it: outside the engine's lock, and before the
wait that the step begins. An exception from a hook is logged once and does not reach the call. Hooks receive
no records of calls that a hook itself makes through the same engine.
"""

from __future__ import annotations

from ._engine.hooks import TYPES, Hook
from ._engine.record import Record

__all__ = ["TYPES", "Hook", "Record"]
