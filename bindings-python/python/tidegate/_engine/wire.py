"""The words of the numeric border, as `core/src/wire.rs` lays them out (pinned by `tests/vectors/wire`).

No other module packs or unpacks them: `tests/test_rooms.py` looks for shifts and masks.
"""

from __future__ import annotations

from typing import Any, Final

# What a step asks for: bits 0 and 1.
DONE: Final = 0
ATTEMPT: Final = 1
WAIT: Final = 2

WAKES: Final = 4
SPAN_SHIFT: Final = 22
"""Bits 22 to 52 of a step: 0 none, else 1 + d; microseconds, or milliseconds where the step is Done."""

LOW: Final = (1 << SPAN_SHIFT) - 1
FIRST: Final = ATTEMPT | 1 << 12
"""The low bits of "start attempt 1" with nothing beside it: the happy path's first answer."""
OK_1: Final = 8 << 18
"""Done, ok, with the answer of attempt 1: the happy path's last answer."""
WAIT_BODY: Final = WAIT | 6 << 12

# Events.
TIMER: Final = 0
POLL: Final = 1
CANCEL: Final = 2
HEADERS: Final = 3
FINISHED: Final = 4
FINISHED_1: Final = FINISHED | 1 << 3
"""Attempt 1 ended well."""
ATTEMPT_SHIFT: Final = 3

VERDICTS: Final = (
    "ok", "not_retryable", "attempts", "method", "one_shot_body", "opinion", "nested", "retry_after_too_long",
    "would_outlive_deadline", "time_limit", "budget", "readmission", "forced_open", "breaker_open",
    "throttled", "rate_limited", "queue_full", "acquire_timeout", "queue_shed", "displaced", "hold_full",
    "store_unavailable", "deadline_before", "deadline_queued", "cost_above_burst", "deadline", "cancelled",
    "lost", "stale", "stale_route",
)  # fmt: skip
CANCELLED: Final = VERDICTS.index("cancelled")
DEADLINE: Final = VERDICTS.index("deadline")
LOST: Final = VERDICTS.index("lost")
STALE: Final = VERDICTS.index("stale")
STALE_ROUTE: Final = VERDICTS.index("stale_route")

WAITS: Final = ("running", "backoff", "hold", "rate", "queue", "store", "body")

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

_CRITICALITY: Final = 3
_KIND_SHIFT: Final = 11
_OPINION_SHIFT: Final = 16
_OPINION: Final = 3 << _OPINION_SHIFT
_BODY: Final = 0xF003
"""The bits of a step that say what it asks for, and what a call waits for."""

_LONGEST_MS: Final = (1 << 31) - 2
_LONGEST_US: Final = (1 << 53) - 2


def action_of(step: int) -> int:
    """What a step asks for: `DONE`, `ATTEMPT` or `WAIT`."""
    return step & 3


def is_done(step: int) -> bool:
    """Whether the call has ended."""
    return step & 3 == DONE


def is_attempt(step: int) -> bool:
    """Whether an attempt is to be started."""
    return step & 3 == ATTEMPT


def is_wait(step: int) -> bool:
    """Whether the call waits."""
    return step & 3 == WAIT


def awaits_body(step: int) -> bool:
    """Whether a good head has come, and the call goes on until its body has been read."""
    return step & _BODY == WAIT_BODY


def is_stale_route(step: int) -> bool:
    """Whether the call was refused because its route has been evicted: its host asks for the route again."""
    return step & 3 == DONE and step >> 12 & 0x3F == STALE_ROUTE


def attempt_of(step: int) -> int:
    """The number of the attempt that a step starts."""
    return step >> 12 & 0xFF


def verdict_of(step: int) -> int:
    """Why a call has ended: an index of `VERDICTS`."""
    return step >> 12 & 0x3F


def lane_of_result(step: int) -> int:
    """The lane of the attempt whose answer is the call's, or -1 for none."""
    return step >> 18 & 7 if step >> 18 & 15 else -1


def span_of(step: int) -> int:
    """Microseconds until the engine has something to do, -1 for none; milliseconds of a `DONE`."""
    return (step >> SPAN_SHIFT) - 1


def has_span(step: int) -> bool:
    """Whether `span_of` has an answer."""
    return step > LOW


def pack_span(us: int) -> int:
    """A step that says nothing but a span."""
    return us + 1 << SPAN_SHIFT


def stops_of(step: int) -> int:
    """The attempts to stop: a bit for each lane."""
    return step >> 4 & 0xFF


def lane_of(attempt: int) -> int:
    """The lane of an attempt. Attempts that run at the same time have different ones."""
    return (attempt - 1) & 7


def has_lane(lanes: int, attempt: int) -> bool:
    """Whether the lane of an attempt is among these bits."""
    return bool(lanes >> ((attempt - 1) & 7) & 1)


def finished(attempt: int, outcome: int = 0) -> int:
    """The event that this attempt has ended, with an outcome as `pack_outcome` makes it."""
    return FINISHED | attempt << ATTEMPT_SHIFT | outcome


def headers(attempt: int) -> int:
    """The event that the head of a good answer has come."""
    return HEADERS | attempt << ATTEMPT_SHIFT


def pack_outcome(kind: int, opinion: int = 0, retry_after: float | None = None) -> int:
    """An outcome at its place in a Finished event; `retry_after` in seconds, rounded up to milliseconds."""
    word = kind << _KIND_SHIFT | opinion << _OPINION_SHIFT
    if retry_after is not None and retry_after == retry_after:
        word |= (1 + min(-int(-max(retry_after, 0.0) * 1000 // 1), _LONGEST_MS)) << 18
    return word


def kind_of(outcome: int) -> int:
    """The class or kind of an outcome, by number."""
    return outcome >> _KIND_SHIFT & 0x1F


def with_opinion(outcome: int, opinion: str) -> int:
    """The outcome with another opinion on whether to retry."""
    return outcome & ~_OPINION | OPINIONS[opinion] << _OPINION_SHIFT


def pack_request(criticality: int, cost: int = 1) -> int:
    """The flags of a call that matters so much, and takes so many tokens of a rate."""
    return criticality | cost << COST_SHIFT


def criticality_in(flags: int) -> int:
    """How much a call with these flags matters."""
    return flags & _CRITICALITY


def with_criticality(flags: int, criticality: int) -> int:
    """The flags of a call that matters so much."""
    return flags & ~_CRITICALITY | criticality


def only_once(flags: int) -> int:
    """The flags of a call that makes one attempt."""
    return flags & ~(IDEMPOTENT | REPLAYABLE) | SOLO


def may_hedge(flags: int) -> bool:
    """Whether attempts of a call with these flags may run beside each other."""
    return flags & (IDEMPOTENT | REPLAYABLE | SOLO) == IDEMPOTENT | REPLAYABLE


def pack_remaining(us: int) -> int:
    """Time left of a deadline, in microseconds, as `begin` takes it."""
    return 1 + min(max(us, 0), _LONGEST_US)


def decode_step(word: int) -> dict[str, Any]:
    """A step in words, for people and for tests."""
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
