"""The device's link (spec 2.22): who waits for it, and when each asks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rng
from classify import Outcome

if TYPE_CHECKING:
    from call import Call
    from engine import Engine

SECOND = 1_000_000


def turn(seed: int, call: Call, now: int) -> int:
    """2.22.5: the first moment after `now` that is the call's own within a second."""
    place = rng.uniform(rng.bits(seed, call.ordinal, rng.LINK, 0), 0, SECOND - 1)
    then = now // SECOND * SECOND + place
    return then if then > now else then + SECOND


def deaf(engine: Engine, outcome: Outcome) -> bool:
    """1.3.3: what fails while the device is offline says nothing about the server."""
    return engine.link == "offline" and outcome.kind in ("never_sent", "transient", "timeout")
