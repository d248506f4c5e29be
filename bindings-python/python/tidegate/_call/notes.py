"""Texts of verdicts: the error of each refusal, and the note that says why there was no further attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegate._engine import errors

if TYPE_CHECKING:
    from .policy import Policy

_ERRORS: Final[dict[str, tuple[type[errors.TidegateError], str]]] = {
    "forced_open": (errors.ForcedOpen, "an operator refuses all calls"),
    "breaker_open": (errors.BreakerOpen, "the circuit breaker is open"),
    "throttled": (errors.Throttled, "the adaptive throttle refused the call"),
    "rate_limited": (errors.RateLimited, "the rate limit is used up"),
    "queue_full": (errors.BulkheadFull, "all slots are taken, and so is the queue"),
    "acquire_timeout": (errors.BulkheadFull, "no slot came free within acquire_timeout"),
    "queue_shed": (errors.BulkheadFull, "the queue's delay was over target"),
    "displaced": (errors.BulkheadFull, "a call of higher criticality took its place in the queue"),
    "hold_full": (errors.HoldFull, "too many calls are held already"),
    "cooldown": (errors.CoolingDown, "too many requests: no attempt may start yet"),
    "store_unavailable": (errors.StoreUnavailable, "the shared store is gone"),
    "no_target": (errors.NoTarget, "no target of its group admits it"),
    "targets_limited": (
        errors.TargetsLimited,
        "each target of its group has used up its rate limit, or cools down",
    ),
    "deadline_before": (errors.DeadlineExceeded, "the deadline had passed before the call began"),
    "deadline_queued": (errors.DeadlineExceeded, "the deadline passed while the call was waiting"),
    "deadline": (errors.DeadlineExceeded, "the deadline passed"),
    "cost_above_burst": (errors.CostAboveBurst, "the call costs more than the rate limit can ever hold"),
    "stream_stalled": (errors.StreamStalled, "no piece of the body came for idle_timeout"),
    "attempt_timeout": (errors.AttemptTimeout, "the attempt ran out of attempt_timeout"),
}
_LOST: Final = (errors.CallLost, "the call was given up: nothing was heard of it for too long")
_CLOSED: Final = "the answer of the last attempt has been closed, and cannot be returned; "

_NOTES: Final = {
    "attempts": "gave up after {attempts} attempts",
    "method": "not retried: a repeat could happen twice (not idempotent, and no idempotency key)",
    "one_shot_body": "body cannot be replayed",
    "opinion": "not retried: the policy's classify, a predicate or the server said not to",
    "nested": "not retried: a call around this one retries already",
    "retry_after_too_long": "Retry-After {retry_in} exceeds max_retry_after{max_retry_after}",
    "would_outlive_deadline": "not retried: the next wait{asked} would outlive the deadline",
    "time_limit": "not retried: the next wait would exceed retry_time_limit",
    "budget": "retry budget exhausted",
    "readmission": "not retried: the next attempt was refused a slot",
    "offline": "not retried: the device was offline for longer than a retry may wait",
    "deadline": "the deadline passed while waiting for the next attempt",
}

_LONGEST: Final = 256
"""Maximum number of characters of a route's key in a message."""


def seconds(value: float) -> str:
    """Formats a span for messages: `120 s`, `0.25 s`."""
    return f"{value:g} s"


def note_of(verdict: str, attempts: int, retry_in: float | None, max_retry_after: float | None) -> str | None:
    """Returns the reason why there was no further attempt; None if no retry was suppressed."""
    if verdict == "attempts" and attempts == 1:
        return None
    text = _NOTES.get(verdict)
    if text is None:
        return None
    asked = "" if retry_in is None else f" (Retry-After {seconds(retry_in)})"
    wait = "" if retry_in is None else seconds(retry_in)
    bound = "" if max_retry_after is None else f" {seconds(max_retry_after)}"
    return "tidegate: " + text.format(attempts=attempts, retry_in=wait, max_retry_after=bound, asked=asked)


def add_note(error: BaseException, note: str | None) -> None:
    """Adds a note once, also on Python 3.10, which lacks `add_note`.

    Ignores exceptions that accept no note. Code may raise one exception object in many calls: its notes must
    not pile up.
    """
    if note is None or has_note(error, note):
        return
    try:
        add = getattr(error, "add_note", None)
        if add is not None:
            add(note)
        else:
            error.__dict__.setdefault("__notes__", []).append(note)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110 - an attribute raised; the exception itself matters more
        pass


def has_note(error: BaseException, note: str) -> bool:
    """Returns whether the exception already has this note, from another call; False if unreadable."""
    try:
        return note in error.__dict__.get("__notes__", ())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return False


def _shown(route: str) -> str:
    """Formats a key for messages: escaped, and truncated if it is long."""
    return repr(route if len(route) <= _LONGEST else route[:_LONGEST] + "…")


def refusal(
    verdict: str, policy: Policy, route: str, retry_in: float | None = None, call: int = 0
) -> errors.TidegateError:
    """Makes the error of a call without a result; its `retry_at` is on the engine's wall clock."""
    error = _refusal(verdict, policy, route, retry_in, call)
    if retry_in is not None:
        error._at = policy.engine.wall() + retry_in
    return error


def _refusal(
    verdict: str, policy: Policy, route: str, retry_in: float | None, call: int
) -> errors.TidegateError:
    """Makes the error of a call without a result."""
    kind, text = _ERRORS.get(verdict, _LOST)
    if verdict in _NOTES and verdict not in _ERRORS:
        note = note_of(verdict, 0, retry_in, policy._seconds("retry.max_retry_after")) or ""
        text = _CLOSED + note.removeprefix("tidegate: ")
        kind = errors.Rejected if verdict == "readmission" else errors.TidegateError
    message = f"{text} (policy {policy.name!r}, route {_shown(route)})"
    if kind is errors.BulkheadFull:
        concurrency = policy._count("bulkhead.max_concurrency")
        queue = policy._count("bulkhead.max_queue")
        patience = policy._seconds("bulkhead.acquire_timeout")
        limits = (
            f"max_concurrency {concurrency}, max_queue {'none' if queue is None else queue},"
            f" acquire_timeout {'none' if patience is None else seconds(patience)}"
        )
        return errors.BulkheadFull(
            f"{text} (policy {policy.name!r}, route {_shown(route)}, {limits})",
            max_concurrency=concurrency,
            max_queue=queue,
            acquire_timeout=patience,
            reason=verdict,
            retry_in=retry_in,
            policy=policy.name,
            route=route,
        )
    more: dict[str, Any] = {}
    if call and kind in (errors.RateLimited, errors.CostAboveBurst):
        refused = policy.engine.native.refusal_of(call)
        if refused is not None:
            limit, weight, amount, words = refused
            more = {"limit": limit, "weight": weight, "amount": amount}
            message = f"{message[:-1]}, {words})"
    return kind(message, reason=verdict, retry_in=retry_in, policy=policy.name, route=route, **more)
