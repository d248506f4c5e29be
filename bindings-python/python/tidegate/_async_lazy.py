"""The parts of the async shell, imported when the first async call needs them.

Importing `tidegate` imports no asyncio; each name here replaces itself on its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._async import discard_held as discard_held
    from ._async import drive as drive
    from ._async import park as park
    from ._async import resume as resume
    from ._async import settle as settle
    from ._deadline import leave as leave
    from ._timers import arm as arm
else:

    def __getattr__(name: str) -> Any:
        from . import _async, _timers

        globals().update(arm=_timers.arm, leave=_async.leave)
        parts = ("discard_held", "drive", "park", "resume", "settle")
        globals().update({part: getattr(_async, part) for part in parts})
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(name) from None
