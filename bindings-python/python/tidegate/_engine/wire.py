"""The words of the numeric border, as `core/src/wire.rs` lays them out (pinned by `tests/vectors/wire`)."""

from __future__ import annotations

from typing import Any, Final

# What a step asks for: bits 0 and 1.
DONE: Final = 0
ATTEMPT: Final = 1
WAIT: Final = 2

WAKES: Final = 4
STOPS: Final = 0xFF << 4
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

_LONGEST_MS: Final = (1 << 31) - 2
_LONGEST_US: Final = (1 << 53) - 2


def pack_outcome(kind: int, opinion: int = 0, retry_after: float | None = None) -> int:
    """An outcome at its place in a Finished event; `retry_after` in seconds, rounded up to milliseconds."""
    word = kind << 11 | opinion << 16
    if retry_after is not None and retry_after == retry_after:
        word |= (1 + min(-int(-max(retry_after, 0.0) * 1000 // 1), _LONGEST_MS)) << 18
    return word


def pack_remaining(us: int) -> int:
    """Time left of a deadline, in microseconds, as `begin` takes it."""
    return 1 + min(max(us, 0), _LONGEST_US)


def decode_step(word: int) -> dict[str, Any]:
    """A step in words, for people and for tests."""
    action, detail, span = word & 3, word >> 12 & 0x3FF, (word >> SPAN_SHIFT) - 1
    step: dict[str, Any] = {"stop": word >> 4 & 0xFF, "wakes": bool(word & WAKES), "commands": bool(word & 8)}
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
