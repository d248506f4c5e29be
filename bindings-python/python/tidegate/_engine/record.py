"""Records, which hooks receive. Imported with the first record."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """One event in the engine. All types have the same fields; those that do not apply are None.

    Attributes:
        type: Its type: one of `TYPES`.
        seq: Sequence number of the engine's records, from 1 on. A hook sees gaps if other hooks listen to
            further types.
        at: Time of the event, in seconds on the engine's clock.
        policy: The policy's name; None if a pool was retuned.
        route: The route's key, or the pool's name; None if all routes of a policy are meant, or if the route
            has been evicted since.
        call: The call's number, for `Engine.explain`.
        attempt: The attempt's number, from 1 on; 0 for none. In `retry_scheduled` that of the next attempt;
            at the end of a call the number of attempts made.
        hedge: Whether the attempt is a hedge, started while another one was running.
        kind: How the attempt ended: a class, or a kind that the policy declares.
        reason: Why a call ended or was refused: the verdict. In `store_degraded`: why the store is
            considered unavailable.
        why: What a call waits for, or waited for: `backoff`, `hold`, `rate`, `queue` …
        wait_s: Longest duration of the wait that begins, or duration of the wait that ended, in seconds; at
            the end of a call the seconds after which another try would make sense.
        elapsed_s: Seconds since the call began; in `attempt_done` since the attempt began.
        suppressed: In `rejected`: number of similar records that were left out since the previous one.
        quiet: In `call_done`: the call's `rejected` record was left out, so a logger should leave this one
            out too.
        before: The value before a change: a breaker's state by name, else a number. For a limit, None means
            no limit.
        after: The value after the change.
        status: In records caused by the end of an attempt: the status of its HTTP response.
        function: In the same records: the name of the called function, if there is one.
        error: In the same records: the name of the exception's type. Its text is left out, since it may
            contain secrets.
    """

    type: str
    seq: int
    at: float
    policy: str | None
    route: str | None
    call: int | None
    attempt: int
    hedge: bool
    kind: str | None
    reason: str | None
    why: str | None
    wait_s: float | None
    elapsed_s: float | None
    suppressed: int
    quiet: bool
    before: float | str | None
    after: float | str | None
    status: int | None = None
    function: str | None = None
    error: str | None = None


Record.__module__ = "tidegate.events"  # where users and pickle import it from
