"""What the engine tells while it works: records, their types, and the hooks that get them.

    with tidegate.default_engine().on_event(print, types=["retry_scheduled"]):
        ...

A hook is called in the thread that made the step, right after it: outside the engine's lock, and before the
wait that the step begins. What it raises is logged once, and reaches no call. What it does itself through a
policy of the same engine is not told to hooks.
"""

from __future__ import annotations

from ._engine.hooks import TYPES, Hook
from ._engine.record import Record

__all__ = ["TYPES", "Hook", "Record"]
