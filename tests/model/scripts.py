"""The hand-written engine scripts: one family a rule, one a verdict. `generate.py` runs them and writes the vectors.

A line is ``moment begin call policy/route [flags]`` or ``moment call event``, then ``->`` and what a person expects of
the step; the generator stops where the model says otherwise. Flags: ``remaining=``, ``parent=``, ``+body`` and
``-replayable -idempotent -abortable -may_park``. Events: ``poll``, ``timer``, ``cancel``, ``headers n`` and
``finished n class [after=span] [retry|do_not]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from policy import Pair

MS = 1_000
S = 1_000_000

PLAIN: list[Pair] = [("retry.backoff.jitter", "none"), ("retry.budget.kind", "none")]
ONE: list[Pair] = [("bulkhead.max_concurrency", 1), ("bulkhead.max_queue", 2)]


@dataclass(frozen=True)
class Script:
    """One engine vector, as a person writes it."""

    family: str
    name: str
    spec: list[str]
    comment: str
    pairs: list[Pair]
    lines: str
    more: dict[str, list[Pair]] = field(default_factory=dict)
    seed: int = 7


SCRIPTS = [
    # ---- the rules ----
    Script("r01_one_end", "a call ends once", ["R1"], "After Done the id is stale, whatever is reported.", PLAIN, """
        0 begin a p/r -> attempt 1
        5 a finished 1 ok -> done ok result=1
        5 a finished 1 ok -> done stale
        6 a cancel -> done stale
        7 a poll -> done stale
    """),
    Script("r01_one_end", "a refused begin is already done", ["R1", "4.1"], "Its id is stale from the first.",
           [("bulkhead.max_concurrency", 1)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> done queue_full
        1 b poll -> done stale
    """),
    Script("r02_hand_off", "a freed permit goes to the head of the queue", ["R2", "4.1"],
           "b is first in the queue; c is next; d comes after the permit came free and may not pass them.", ONE, """
        0 begin a p/r -> attempt 1
        1 begin b p/r -> wait queue
        2 begin c p/r -> wait queue
        10 a finished 1 ok -> done ok wakes=b
        10 begin d p/r -> wait queue
        11 c poll -> wait queue
        12 b poll -> attempt 1
        20 b finished 1 ok -> done ok wakes=c
        21 c poll -> attempt 1
    """),
    Script("r02_hand_off", "a waiter out of patience is failed, not granted", ["R2", "4.4"],
           "b's second is over when the permit comes free: it is woken to be told so, and c gets the permit.",
           [("bulkhead.max_concurrency", 1), ("bulkhead.max_queue", 2)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> wait queue next=1s
        500ms begin c p/r -> wait queue
        1s a finished 1 ok -> done ok wakes=b,c
        1100ms b poll -> done acquire_timeout
        1100ms c poll -> attempt 1
    """),
    Script("r03_poll", "a poll at the same instant changes nothing", ["R3"], "An attempt is told once.",
           [*PLAIN, ("attempt_timeout", 50 * MS)], """
        0 begin a p/r -> attempt 1 next=50ms
        0 a poll -> wait running next=50ms
        10ms a timer -> wait running next=40ms
        20ms a finished 1 transient -> wait backoff next=100ms
        20ms a poll -> wait backoff next=100ms
        120ms a poll -> attempt 2
        120ms a poll -> wait running
    """),
    Script("r03_poll", "the step that stops the last attempt waits", ["R3", "7.1"],
           "Even a delay of 0 answers Wait: the owner polls once the attempt has unwound.",
           [*PLAIN, ("attempt_timeout", 50 * MS), ("retry.backoff.base", 0)], """
        0 begin a p/r -> attempt 1
        50ms a timer -> wait backoff next=0 stop=1
        50ms a poll -> attempt 2
        60ms a finished 2 transient -> attempt 3
    """),
    Script("r03_poll", "an answer that a stopped attempt has all the same", ["R3", "R12", "2.15"],
           "It is taken until the next attempt starts, and the retry is refunded: b can be retried with it.",
           [("attempt_timeout", 50 * MS), ("retry.backoff.jitter", "none"), ("retry.budget.kind", "quota"),
            ("retry.budget.capacity", 10)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> attempt 1
        50ms a timer -> wait backoff stop=1
        51ms a finished 1 ok -> done ok result=1
        52ms b poll -> wait backoff stop=1
    """),
    Script("r04_one_timer", "a parked call polls at least once a second", ["R4"], "Its patience is 2.5 s.",
           [*ONE, ("bulkhead.acquire_timeout", 2_500 * MS)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> wait queue next=1s
        1s b poll -> wait queue next=1s
        2s b timer -> wait queue next=500ms
        2500ms b timer -> done acquire_timeout
    """),
    Script("r04_one_timer", "the earlier of attempt timeout and deadline", ["R4", "7.1"], "",
           [*PLAIN, ("deadline", 80 * MS), ("attempt_timeout", 50 * MS), ("retry.backoff.base", 10 * MS)], """
        0 begin a p/r -> attempt 1 next=50ms
        50ms a timer -> wait backoff next=10ms stop=1
        60ms a poll -> attempt 2 next=20ms
        80ms a timer -> done deadline stop=2
    """),
    Script("r05_order", "a retry that does not fit takes nothing from the budget", ["R5", "2.6"],
           "a's retry would outlive its deadline: the one token of the budget is left for b.",
           [("retry.backoff.jitter", "none"), ("retry.budget.kind", "quota"), ("retry.budget.capacity", 5)], """
        0 begin a p/r remaining=100ms -> attempt 1
        0 a finished 1 transient -> done would_outlive_deadline result=1
        0 begin b p/r -> attempt 1
        0 b finished 1 transient -> wait backoff next=100ms
        0 begin c p/r -> attempt 1
        0 c finished 1 transient -> done budget result=1
    """),
    Script("r06_cancel", "a cancelled holder passes its permit on", ["R6"], "", ONE, """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> wait queue
        0 begin c p/r -> wait queue
        5 a cancel -> done cancelled stop=1 wakes=b
        6 b cancel -> done cancelled wakes=c
        7 c poll -> attempt 1
    """),
    Script("r06_cancel", "a cancelled waiter leaves no hole", ["R6"], "", ONE, """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> wait queue
        0 begin c p/r -> wait queue
        5 b cancel -> done cancelled
        6 a finished 1 ok -> done ok wakes=c
    """),
    Script("r07_order_independence", "draws depend on the order of begins only", ["R7", "2.5"],
           "a fails first here …", [("retry.budget.kind", "none")], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> attempt 1
        0 a finished 1 transient -> wait backoff
        0 b finished 1 transient -> wait backoff
    """),
    Script("r07_order_independence", "the same in the other order", ["R7", "2.5"],
           "… and b first here: the waits of a and of b are the same as above.", [("retry.budget.kind", "none")], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> attempt 1
        0 b finished 1 transient -> wait backoff
        0 a finished 1 transient -> wait backoff
    """),
    Script("r08_nothing_in_vain", "a wait that ends at the deadline is not begun", ["R8", "2.6"],
           "One microsecond less is enough.", [*PLAIN, ("deadline", 100 * MS)], """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient -> done would_outlive_deadline result=1
        0 begin b p/r remaining=200ms -> attempt 1
        0 b finished 1 transient -> done would_outlive_deadline
    """),
    Script("r08_nothing_in_vain", "one microsecond before the deadline is soon enough", ["R8", "2.6"], "",
           [*PLAIN, ("deadline", 100_001)], """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient -> wait backoff next=100ms
        100ms a poll -> attempt 2 next=1
    """),
    Script("r09_leases", "a grant that nobody claims in 5 s goes on", ["R9"],
           "c's own look takes it back; b is told when it comes.", [*ONE, ("bulkhead.acquire_timeout", "none")], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> wait queue next=1s
        0 begin c p/r -> wait queue
        0 a finished 1 ok -> done ok wakes=b
        4999999 c poll -> wait queue
        5s c poll -> attempt 1 wakes=c
        6s b poll -> done lost
        6s b poll -> done stale
    """),
    Script("r09_leases", "a late call is never reaped by its own event", ["R9"], "", [*PLAIN, ("deadline", S)], """
        0 begin a p/r -> attempt 1
        500s a finished 1 ok -> done ok
    """),
    Script("r09_leases", "a call overdue by 60 s is lost", ["R9"], "b's begin looks at a's slot.",
           [*PLAIN, ("deadline", S), ("bulkhead.max_concurrency", 1)], """
        0 begin a p/r -> attempt 1
        60999999 begin b p/r -> done queue_full
        61s begin c p/r -> attempt 1
        61s a finished 1 ok -> done lost
        61s a finished 1 ok -> done stale
    """),
    Script("r09_leases", "an attempt without any limit is never given up", ["R9"], "", [("bulkhead.max_concurrency", 1)], """
        0 begin a p/r -> attempt 1
        86400s begin b p/r -> done queue_full
        86400s a finished 1 ok -> done ok
    """),
    Script("r10_time", "an inversion under 10 ms is clamped", ["R10"], "Time stands still until the clock catches up.",
           [*PLAIN, ("deadline", 100 * MS)], """
        50ms begin a p/r -> attempt 1 next=100ms
        40ms a poll -> wait running next=100ms
        50001 a poll -> wait running next=99999
    """),
    Script("r10_time", "a clock set back goes on from where it was", ["R10"], "By more than 10 ms: an offset absorbs it.",
           [*PLAIN, ("deadline", 100 * MS)], """
        3600s begin a p/r -> attempt 1 next=100ms
        0 a poll -> wait running next=100ms
        60ms a poll -> wait running next=40ms
        100ms a poll -> done deadline stop=1
    """),
    Script("r11_at_once", "four attempts at once, no more", ["R11", "R12"],
           "Nothing can be stopped here. The fifth attempt starts when one of the four is reported.",
           [*PLAIN, ("attempt_timeout", 10), ("retry.backoff.base", 0), ("retry.max_attempts", 9)], """
        0 begin a p/r -abortable -> attempt 1
        10 a timer -> wait backoff stop=1
        10 a poll -> attempt 2
        20 a timer -> wait backoff stop=2
        20 a poll -> attempt 3
        30 a timer -> wait backoff stop=4
        30 a poll -> attempt 4
        40 a timer -> wait backoff stop=8
        40 a poll -> wait running next=60s
        41 a poll -> wait running next=59999999
        50 a finished 2 transient -> attempt 5
    """),
    Script("r11_at_once", "attempt n waits for n - 8", ["R11"],
           "Attempt 1 is out; 2 to 8 fail by themselves. The ninth has to wait, and a poll changes nothing.",
           [*PLAIN, ("attempt_timeout", 10), ("retry.backoff.base", 0), ("retry.max_attempts", 12)], """
        0 begin a p/r -abortable -> attempt 1
        10 a timer -> wait backoff stop=1
        10 a poll -> attempt 2
        10 a finished 2 transient -> attempt 3
        10 a finished 3 transient -> attempt 4
        10 a finished 4 transient -> attempt 5
        10 a finished 5 transient -> attempt 6
        10 a finished 6 transient -> attempt 7
        10 a finished 7 transient -> attempt 8
        10 a finished 8 transient -> wait running next=60s
        10 a poll -> wait running next=60s
        20 a finished 1 cancelled -> attempt 9
    """),
    Script("r12_stopped", "an attempt that can be stopped frees its permit at once", ["R12"], "",
           [("attempt_timeout", 10 * MS), *ONE], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> wait queue
        10ms a timer -> done attempts stop=1 wakes=b
    """),
    Script("r12_stopped", "one that cannot keeps it until it is reported", ["R12", "ADR 0005"], "",
           [("attempt_timeout", 10 * MS), *ONE], """
        0 begin a p/r -abortable -> attempt 1
        0 begin b p/r -> wait queue
        10ms a timer -> done attempts stop=1
        15ms a finished 2 ok -> done stale
        20ms a finished 1 ok -> done stale wakes=b
        20ms b poll -> attempt 1
    """),
    Script("r12_stopped", "or for 60 s", ["R12", "R9"], "", [("bulkhead.max_concurrency", 1)], """
        0 begin a p/r -abortable -> attempt 1
        0 a cancel -> done cancelled stop=1
        59999999 begin b p/r -> done queue_full
        60s begin c p/r -> attempt 1
    """),
    Script("nesting", "a nested call shares its ancestor's permit", ["0.4", "ADR 0005"],
           "The nested call outlives the one around it, which lingers with the permit.",
           [("bulkhead.max_concurrency", 1), ("bulkhead.max_queue", 1)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r parent=a -> attempt 1
        0 begin c p/r -> wait queue
        5 a finished 1 ok -> done ok
        6 begin d p/r parent=a -> done queue_full
        9 b finished 1 ok -> done ok wakes=c
    """),
    Script("nesting", "deadlines nest", ["7.3"], "The earlier wins: that of the call around it.", [("deadline", 100 * MS)], """
        0 begin a p/r -> attempt 1 next=100ms
        60ms begin b q/r parent=a -> attempt 1 next=40ms
        60ms begin c q/r parent=a remaining=10ms -> attempt 1 next=10ms
    """, {"q": [("deadline", 10 * S)]}),
    # ---- the verdicts ----
    Script("verdicts", "not_retryable", ["1.1", "1.4"], "", PLAIN, """
        0 begin a p/r -> attempt 1
        1 a finished 1 permanent -> done not_retryable result=1
    """),
    Script("verdicts", "attempts", ["2.1"], "The lane of the last failure is the result.", [*PLAIN, ("retry.max_attempts", 2)], """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient -> wait backoff next=100ms
        100ms a poll -> attempt 2
        100ms a finished 2 throttled after=3s -> done attempts result=2 retry_in=3s
    """),
    Script("verdicts", "method", ["1.2", "2.2"], "What was never sent may be repeated with any method.", PLAIN, """
        0 begin a p/r -idempotent -> attempt 1
        0 a finished 1 transient -> done method result=1
        0 begin b p/r -idempotent -> attempt 1
        0 b finished 1 never_sent -> wait backoff
    """),
    Script("verdicts", "one_shot_body", ["2.3"], "", PLAIN, """
        0 begin a p/r -replayable -> attempt 1
        0 a finished 1 never_sent -> done one_shot_body result=1
    """),
    Script("verdicts", "opinion", ["2.2"], "An opinion takes the place of the class, both ways; never that of the method.", PLAIN, """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient do_not -> done opinion result=1
        0 begin b p/r -> attempt 1
        0 b finished 1 permanent retry -> wait backoff
        0 begin c p/r -idempotent -> attempt 1
        0 c finished 1 permanent retry -> done method
    """),
    Script("verdicts", "nested", ["R5"], "The call around it retries; its own retries would multiply.", PLAIN, """
        0 begin a p/r -> attempt 1
        0 begin b p/r parent=a -> attempt 1
        0 begin c p/r parent=b -> attempt 1
        0 c finished 1 transient -> done nested result=1
        0 b finished 1 transient -> done nested result=1
        0 a finished 1 transient -> wait backoff
    """),
    Script("verdicts", "retry_after_too_long", ["2.7"], "Exactly max_retry_after is still waited for.",
           [*PLAIN, ("retry.max_retry_after", 2 * S), ("retry.retry_after", "exact")], """
        0 begin a p/r -> attempt 1
        0 a finished 1 throttled after=2s -> wait backoff next=2s
        2s a poll -> attempt 2
        2s a finished 2 throttled after=2001ms -> done retry_after_too_long result=2 retry_in=2001ms
    """),
    Script("verdicts", "time_limit", ["2.1"], "Exactly the limit still fits.",
           [*PLAIN, ("retry.retry_time_limit", 100 * MS)], """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient -> wait backoff next=100ms
        0 begin b p/r -> attempt 1
        1 b finished 1 transient -> done time_limit result=1
    """),
    Script("verdicts", "budget", ["2.10"], "One retry a second; a's is refunded when it is cancelled, and b gets it.",
           [("retry.budget.min_retries_per_sec", 1), ("retry.budget.ttl", S), ("retry.budget.percent_can_retry", 0)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> attempt 1
        0 begin c p/r -> attempt 1
        0 a finished 1 transient -> wait backoff
        1 a cancel -> done cancelled
        2 b finished 1 transient -> wait backoff
        3 c finished 1 transient -> done budget result=1
    """),
    Script("verdicts", "acquire_timeout of 0 fails fast", ["4.1"], "", [*ONE, ("bulkhead.acquire_timeout", 0)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -> done acquire_timeout
    """),
    Script("verdicts", "queue_full", ["4.1"], "No queue, a full queue, and a call that may not park.",
           [("bulkhead.max_concurrency", 1), ("bulkhead.max_queue", 1)], """
        0 begin a p/r -> attempt 1
        0 begin b p/r -may_park -> done queue_full
        0 begin c p/r -> wait queue
        0 begin d p/r -> done queue_full
    """),
    Script("verdicts", "deadline_before", ["7.2"], "", PLAIN, """
        0 begin a p/r remaining=0 -> done deadline_before
    """),
    Script("verdicts", "deadline_queued", ["4.1", "7.1"], "It comes before the acquire timeout; at the same time it wins too.",
           ONE, """
        0 begin a p/r -> attempt 1
        0 begin b p/r remaining=400ms -> wait queue next=400ms
        0 begin c p/r remaining=1s -> wait queue next=1s
        400ms b poll -> done deadline_queued
        1s c poll -> done deadline_queued
    """),
    Script("verdicts", "deadline", ["7.1"], "During an attempt, during a body, and late in a backoff, where the failure is the result.",
           [*PLAIN, ("deadline", S)], """
        0 begin a p/r -> attempt 1 next=1s
        0 begin b p/r +body -> attempt 1
        0 begin c p/r -> attempt 1
        0 b headers 1 -> wait body next=1s
        0 c finished 1 transient -> wait backoff next=100ms
        1s a timer -> done deadline stop=1
        1s b timer -> done deadline stop=1
        1s c poll -> done deadline result=1
    """),
    Script("verdicts", "a late answer is taken as it is", ["7.5"], "Nobody stopped the attempt before it answered.",
           [*PLAIN, ("deadline", S), ("attempt_timeout", 10 * MS)], """
        0 begin a p/r -> attempt 1
        2s a finished 1 ok -> done ok result=1
    """),
    Script("verdicts", "cancelled", ["1.1"], "By the caller, and as the class of an attempt's end.", PLAIN, """
        0 begin a p/r -> attempt 1
        0 a cancel -> done cancelled stop=1
        0 begin b p/r -> attempt 1
        0 b finished 1 cancelled retry -> done cancelled result=1
    """),
    Script("verdicts", "stale_route", ["R1"], "A begin without a route: the id of a route that does not exist.", PLAIN, """
        0 begin a p/- -> done stale_route
        0 a poll -> done stale
    """),
    Script("verdicts", "ok at the headers", ["7.1"], "Without the body, the call ends there; with it, the attempt timeout does.",
           [*PLAIN, ("attempt_timeout", 10 * MS)], """
        0 begin a p/r -> attempt 1
        1 a headers 1 -> done ok result=1
        1 begin b p/r +body -> attempt 1 next=10ms
        1 b headers 1 -> wait body
        10s b finished 1 ok -> done ok result=1
        10s begin c p/r +body -> attempt 1
        10s c headers 1 -> wait body
        10s c finished 1 transient -> done not_retryable result=1
    """),
    # ---- how long, and what for ----
    Script("delays", "floor adds up to a tenth", ["2.7"], "r = 2 s, left 2.1 s: the jitter is cut to fit.",
           [("retry.max_retry_after", 10 * S), ("retry.budget.kind", "none")], """
        0 begin a p/r -> attempt 1
        0 a finished 1 throttled after=2s -> wait backoff
        0 begin b p/r remaining=2000001 -> attempt 1
        0 b finished 1 throttled after=2s -> wait backoff next=2s
        0 begin c p/r remaining=2s -> attempt 1
        0 c finished 1 throttled after=2s -> done would_outlive_deadline retry_in=2s
    """),
    Script("delays", "clamp_5s keeps the server's wait near the computed one", ["2.7"], "[100 ms, 5.1 s].",
           [*PLAIN, ("retry.max_retry_after", 60 * S), ("retry.retry_after", "clamp_5s")], """
        0 begin a p/r -> attempt 1
        0 a finished 1 throttled after=1ms -> wait backoff next=100ms
        0 begin b p/r -> attempt 1
        0 b finished 1 throttled after=30s -> wait backoff next=5100ms
    """),
    Script("delays", "exact waits 0 for 0", ["2.7"], "The next attempt starts in the same step.",
           [*PLAIN, ("retry.retry_after", "exact")], """
        0 begin a p/r -> attempt 1
        0 a finished 1 throttled after=0 -> attempt 2
    """),
    Script("delays", "decorrelated", ["2.5"], "Each wait is drawn from [base, 3 times the one before].",
           [("retry.backoff.jitter", "decorrelated"), ("retry.budget.kind", "none"), ("retry.max_attempts", 4)], """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient -> wait backoff
        1s a poll -> attempt 2
        1s a finished 2 transient -> wait backoff
        2s a poll -> attempt 3
        2s a finished 3 transient -> wait backoff
    """),
    Script("budgets", "share counts the calls that wait", ["2.12"], "Half of the two calls in flight may be retried.",
           [("retry.backoff.jitter", "none"), ("retry.budget.kind", "share"), ("retry.budget.share", 0.5),
            ("retry.budget.min_retries", 0)], """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient -> done budget result=1
        0 begin b p/r -> attempt 1
        0 begin c p/r -> attempt 1
        0 b finished 1 transient -> wait backoff
        0 c finished 1 transient -> done budget result=1
    """),
    Script("budgets", "tokens are taken by attempt timeouts too", ["2.13"], "Half of 2 is not above half.",
           [("retry.backoff.jitter", "none"), ("retry.budget.kind", "tokens"), ("retry.budget.max", 2),
            ("retry.budget.ratio", 1), ("attempt_timeout", 10)], """
        0 begin a p/r -> attempt 1
        10 a timer -> done budget result=1 stop=1
        10 begin b p/r -> attempt 1
        11 b finished 1 ok -> done ok
        11 begin c p/r -> attempt 1
        11 c finished 1 transient -> done budget
    """),
    Script("budgets", "a free retry is not given back", ["2.11"],
           "a's retry is free, as there was one call only; it is cancelled when there are two. Nothing is minted for c.",
           [("retry.backoff.jitter", "none"), ("retry.budget.kind", "ratio"), ("retry.budget.ratio", 0.1),
            ("retry.budget.min_throughput", 1)], """
        0 begin a p/r -> attempt 1
        0 a finished 1 transient -> wait backoff
        0 begin b p/r -> attempt 1
        0 a cancel -> done cancelled
        0 b finished 1 transient -> done budget result=1
    """),
]
