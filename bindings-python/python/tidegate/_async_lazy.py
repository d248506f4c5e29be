"""The parts of the async shell that the happy path needs, imported when the first call needs them.

Importing `tidegate` imports no asyncio; each name here replaces itself on its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._async import drive as drive
    from ._async import leave as leave
    from ._async import resume as resume
    from ._timers import arm as arm
else:

    def __getattr__(name: str) -> Any:
        from . import _async, _timers

        globals().update(arm=_timers.arm, drive=_async.drive, leave=_async.leave, resume=_async.resume)
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(name) from None
