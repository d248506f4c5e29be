"""The parts of the async shell, imported when the first async call needs them.

Importing `tidegate` does not import asyncio. The first use of any name here replaces all by the real ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .deadline import leave as leave
    from .tasks import discard_held as discard_held
    from .tasks import drive as drive
    from .tasks import park as park
    from .tasks import resume as resume
    from .tasks import settle as settle
    from .timers import arm as arm
else:

    def __getattr__(name: str) -> Any:
        from . import tasks, timers

        globals().update(arm=timers.arm, leave=tasks.leave)
        parts = ("discard_held", "drive", "park", "resume", "settle")
        globals().update({part: getattr(tasks, part) for part in parts})
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(name) from None
