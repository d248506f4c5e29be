"""Layout of the numeric words of the native interface, as in `core/src/wire.rs` (see `tests/vectors/wire`).

No other module packs or unpacks them: `tests/test_rooms.py` searches for shifts and masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# The action that a step requests: bits 0 and 1.
DONE: Final = 0
ATTEMPT: Final = 1
WAIT: Final = 2

WAKES: Final = 4
SPAN_SHIFT: Final = 22
"""Bits 22 to 52 of a step: 0 none, else 1 + d; microseconds, or milliseconds where the step is Done."""

LOW: Final = (1 << SPAN_SHIFT) - 1
FIRST: Final = ATTEMPT | 1 << 12
"""The low bits of "start attempt 1" and nothing else: the first step of the happy path."""
OK_1: Final = 8 << 18
"""Done, ok, with the result of attempt 1: the last step of the happy path."""
WAIT_BODY: Final = WAIT | 6 << 12

# Events.
TIMER: Final = 0
POLL: Final = 1
CANCEL: Final = 2
HEADERS: Final = 3
FINISHED: Final = 4
PROGRESS: Final = 5
FINISHED_1: Final = FINISHED | 1 << 3
"""Attempt 1 succeeded."""
ATTEMPT_SHIFT: Final = 3

VERDICTS: Final = (
    "ok", "not_retryable", "attempts", "method", "one_shot_body", "opinion", "nested", "retry_after_too_long",
    "would_outlive_deadline", "time_limit", "budget", "readmission", "forced_open", "breaker_open",
    "throttled", "rate_limited", "queue_full", "acquire_timeout", "queue_shed", "displaced", "hold_full",
    "store_unavailable", "deadline_before", "deadline_queued", "cost_above_burst", "deadline", "cancelled",
    "lost", "stale", "stale_route", "stream_stalled", "no_target",
    "offline", "cooldown", "targets_limited",
)  # fmt: skip
CANCELLED: Final = VERDICTS.index("cancelled")
DEADLINE: Final = VERDICTS.index("deadline")
LOST: Final = VERDICTS.index("lost")
STALE: Final = VERDICTS.index("stale")
STALE_ROUTE: Final = VERDICTS.index("stale_route")
STALLED: Final = VERDICTS.index("stream_stalled")

WAITS: Final = ("running", "backoff", "hold", "rate", "queue", "store", "body", "cooldown", "target")

KINDS: Final = {
    name: number
    for number, name in enumerate(
        (
            "ok",
            "transient",
            "throttled",
            "timeout",
            "never_sent",
            "conflict",
            "permanent",
            "ignored",
            "cancelled",
        )
    )
}
"""The classes of an outcome."""
OPINIONS: Final = {None: 0, "retry": 1, "do_not": 2}
CRITICALITIES: Final = {"best_effort": 0, "degraded": 1, "normal": 2, "critical": 3}

# Request flags.
REPLAYABLE: Final = 1 << 2
IDEMPOTENT: Final = 1 << 3
ABORTABLE: Final = 1 << 4
MAY_PARK: Final = 1 << 5
SLOT_UNTIL_BODY: Final = 1 << 6
COST_SHIFT: Final = 7
SOLO: Final = 1 << 23
"""Retried, but never hedged."""
STREAM: Final = 1 << 24
"""Its answer is a stream, so that `first_byte_timeout` applies."""

_CRITICALITY: Final = 3
_KIND_SHIFT: Final = 11
_OPINION_SHIFT: Final = 16
_OPINION: Final = 3 << _OPINION_SHIFT
_BODY: Final = 0xF003
"""The bits of a step with its action and the reason of a wait."""

_AGE_SHIFT: Final = 11
_LONGEST_AGE: Final = (1 << 42) - 1
_LONGEST_MS: Final = (1 << 31) - 2
_LONGEST_US: Final = (1 << 53) - 2


def action_of(step: int) -> int:
    """Returns the action of a step: `DONE`, `ATTEMPT` or `WAIT`."""
    return step & 3


def is_done(step: int) -> bool:
    """Returns whether the call has ended."""
    return step & 3 == DONE


def is_attempt(step: int) -> bool:
    """Returns whether an attempt must be started."""
    return step & 3 == ATTEMPT


def is_wait(step: int) -> bool:
    """Returns whether the call waits."""
    return step & 3 == WAIT


def awaits_body(step: int) -> bool:
    """Returns whether a successful response has arrived and the call waits until its body has been read."""
    return step & _BODY == WAIT_BODY


def is_stale_route(step: int) -> bool:
    """Returns whether the call was refused because its route was evicted; the host must register it again."""
    return step & 3 == DONE and step >> 12 & 0x3F == STALE_ROUTE


def attempt_of(step: int) -> int:
    """Returns the number of the attempt that a step starts."""
    return step >> 12 & 0xFF


def verdict_of(step: int) -> int:
    """Returns the verdict of a call that has ended: an index into `VERDICTS`."""
    return step >> 12 & 0x3F


def lane_of_result(step: int) -> int:
    """Returns the lane of the attempt whose result is the call's, or -1 for none."""
    return step >> 18 & 7 if step >> 18 & 15 else -1


def span_of(step: int) -> int:
    """Returns the microseconds until the engine must be called again, -1 for none; `DONE`: milliseconds."""
    return (step >> SPAN_SHIFT) - 1


def has_span(step: int) -> bool:
    """Returns whether the step has a span."""
    return step > LOW


def pack_span(us: int) -> int:
    """Returns a step that contains only a span."""
    return us + 1 << SPAN_SHIFT


def stops_of(step: int) -> int:
    """Returns the attempts to stop: one bit for each lane."""
    return step >> 4 & 0xFF


def lane_of(attempt: int) -> int:
    """Returns the lane of an attempt. Attempts that run at the same time have different lanes."""
    return (attempt - 1) & 7


def has_lane(lanes: int, attempt: int) -> bool:
    """Returns whether the lane of an attempt is among these bits."""
    return bool(lanes >> ((attempt - 1) & 7) & 1)


def finished(attempt: int, outcome: int = 0) -> int:
    """Returns the event for the end of this attempt, with an outcome from `pack_outcome`."""
    return FINISHED | attempt << ATTEMPT_SHIFT | outcome


def progress(attempt: int, age: int) -> int:
    """Returns the event that reports for how many microseconds reads of a body have waited for a piece."""
    return PROGRESS | attempt << ATTEMPT_SHIFT | min(age, _LONGEST_AGE) << _AGE_SHIFT


def headers(attempt: int) -> int:
    """Returns the event for the arrival of a successful response's headers."""
    return HEADERS | attempt << ATTEMPT_SHIFT


def pack_outcome(kind: int, opinion: int = 0, retry_after: float | None = None) -> int:
    """Returns the outcome bits of a Finished event. Rounds `retry_after` (seconds) up to milliseconds."""
    word = kind << _KIND_SHIFT | opinion << _OPINION_SHIFT
    if retry_after is not None and retry_after == retry_after:
        ms = min(max(retry_after, 0.0), _LONGEST_MS) * 1000  # in this order, since it may be infinite
        ms = round(ms, 3)  # 2.007 * 1000 is a little more than 2007
        word |= (1 + min(-int(-ms // 1), _LONGEST_MS)) << 18
    return word


def kind_of(outcome: int) -> int:
    """Returns the number of an outcome's class or kind."""
    return outcome >> _KIND_SHIFT & 0x1F


def unpack_outcome(outcome: int) -> tuple[int, int, float | None]:
    """Returns the numbers of an outcome's kind and opinion, and its `retry_after` in seconds."""
    after = outcome >> 18
    return kind_of(outcome), (outcome & _OPINION) >> _OPINION_SHIFT, (after - 1) / 1000 if after else None


def with_opinion(outcome: int, opinion: str) -> int:
    """Returns the outcome with another opinion on whether to retry."""
    return outcome & ~_OPINION | OPINIONS[opinion] << _OPINION_SHIFT


def pack_request(criticality: int, cost: int = 1) -> int:
    """Returns the flags of a call with this criticality and this cost in rate limit tokens."""
    return criticality | cost << COST_SHIFT


def criticality_in(flags: int) -> int:
    """Returns the criticality in these flags."""
    return flags & _CRITICALITY


def with_criticality(flags: int, criticality: int) -> int:
    """Returns the flags with another criticality."""
    return flags & ~_CRITICALITY | criticality


def only_once(flags: int) -> int:
    """Returns the flags with retries and hedges ruled out."""
    return flags & ~(IDEMPOTENT | REPLAYABLE) | SOLO


def may_hedge(flags: int) -> bool:
    """Returns whether attempts of a call with these flags may run concurrently."""
    return flags & (IDEMPOTENT | REPLAYABLE | SOLO) == IDEMPOTENT | REPLAYABLE


def pack_remaining(us: int) -> int:
    """Packs the time left of a deadline, in microseconds, as `begin` takes it."""
    return 1 + min(max(us, 0), _LONGEST_US)


def decode_step(word: int) -> dict[str, Any]:
    """Decodes a step into a dict, for people and for tests."""
    action, detail, span = action_of(word), word >> 12 & 0x3FF, span_of(word)
    step: dict[str, Any] = {"stop": stops_of(word), "wakes": bool(word & WAKES), "commands": bool(word & 8)}
    if action == DONE:
        lane = detail >> 6
        step |= {"action": "done", "verdict": VERDICTS[detail & 0x3F], "result": lane & 7 if lane else None}
        step["retry_in_ms"] = None if span < 0 else span
        return step
    if action == ATTEMPT:
        step |= {"action": "attempt", "attempt": detail & 0xFF, "hedge": bool(detail >> 8 & 1)}
    elif action == WAIT:
        step |= {"action": "wait", "why": WAITS[detail]}
    else:
        raise ValueError(f"no step has the word {word:#x}")
    step["next_us"] = None if span < 0 else span
    return step


def weights_rule(weights: object) -> str | None:
    """Returns the rule that the weights of a call break; None if they are names and amounts."""
    fits = isinstance(weights, Mapping) and all(
        isinstance(name, str) and type(amount) is int and 0 <= amount < 1 << 53
        for name, amount in weights.items()
    )
    return None if fits else "a mapping of names to whole numbers from 0 to 2**53 - 1"


def cost_rule(cost: object) -> str | None:
    """Returns the rule that the cost of a call breaks; None if it is a whole number in range."""
    fits = isinstance(cost, int) and not isinstance(cost, bool) and 0 <= cost <= 0xFFFF
    return None if fits else "a whole number from 0 to 65535"
