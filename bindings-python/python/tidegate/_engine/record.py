"""What a hook is given: one record of what the engine has done. Imported with the first of them."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """One thing that the engine did: flat, and the same for all types. What a type does not say is None.

    Attributes:
        type: What it tells: one of `TYPES`.
        seq: Orders all records of an engine, from 1 on. A hook of some types sees gaps where others listen to
            more.
        at: When, in seconds on the engine's clock.
        policy: The policy's name; None where a pool was retuned.
        route: The route's key, or the pool's name; None where all routes of a policy are meant, and for a
            route that has been evicted since.
        call: The call's number, for `Engine.explain`.
        attempt: The attempt, from 1 on; 0 is none. Of a `retry_scheduled` the one to come; of what ends a
            call, how many it made.
        hedge: Whether the attempt started beside another one.
        kind: How the attempt ended: a class, or a kind that the policy declares.
        reason: Why a call ended, or was refused: the verdict. Of a `store_degraded`: why the store is
            taken for gone.
        why: What a call waits for, or waited for: `backoff`, `hold`, `rate`, `queue` …
        wait_s: Seconds of the wait that this begins, at most, or that it ended; of what ends a call, when
            another try would make sense.
        elapsed_s: Seconds since the call began; of an `attempt_done`, since the attempt did.
        suppressed: Of a `rejected`: how many like it were left out since the one before.
        quiet: Of a `call_done`: its rejection was left out, so whoever logs leaves this out too.
        before: What has changed, as it was: a breaker's state by name, else a number. A limit's None is no
            limit.
        after: The same, as it is now.
        status: Of what an attempt's end causes: the status of its HTTP answer.
        function: The same: the name of the function that was called, where there is one.
        error: The same: the type of the exception, by its name. Never its text, which may hold secrets.
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


Record.__module__ = "tidegate.events"  # where it is imported from, by people and by pickle
