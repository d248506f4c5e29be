"""What the engine remembers of a call, its attempts and its route (spec 0.4).

Moments and spans are whole µs. A call's states: new, waiting (in a queue, by `why`), granted (it may go on,
and has not come yet), refused (the same, with a `refusal`), running, body, backoff, ended (but something is
out), lost, gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from classify import Outcome

if TYPE_CHECKING:
    import breaker
    import budgets
    from budgets import Debt
    from cooldown import Cooldown
    from holds import Hold, Holds
    from policy import Policy
    from quantile import WindowedP2
    from queues import Permits
    from rate import Bucket
    from rates import Tokens
    from sets import Limits, Reservation
    from targets import Group, Target
    from throttle import Throttle

Step = dict[str, Any]
Path = tuple[str, ...]

MAX_PARK = 1_000_000
UNCLAIMED = 5_000_000
OVERDUE = 60_000_000
AT_ONCE = 4


@dataclass
class Request:
    """What a call says about itself; the wire's four numbers, unpacked."""

    remaining: int | None = None
    parent: Call | None = None
    replayable: bool = True
    idempotent: bool = True
    abortable: bool = True
    may_park: bool = True
    slot_until_body: bool = False
    stream: bool = False
    criticality: int = 2
    cost: int = 1
    path: Path | None = None
    weights: dict[str, int] | None = None


@dataclass
class Ledger:
    """A budget and the calls in flight that it looks at (`share`, 2.12)."""

    budget: budgets.NoBudget
    calls: int = 0


@dataclass(eq=False)
class Route:
    """State per (policy, key) (0.4). What a pool shares is the same object on several routes."""

    policy: Policy
    key: str
    ledger: Ledger
    hedge_ledger: Ledger
    rate: Tokens | None = None
    permits: Permits | None = None
    breaker: breaker.Breaker | None = None
    throttle: Throttle | None = None
    send: Tokens | None = None
    holds: Holds | None = None
    cooldown: Cooldown | None = None
    latencies: WindowedP2 | None = None
    active: int = 0  # calls in it, those that linger included
    own_rate: Bucket | Limits | None = None  # the bucket of its rate limit, if that is not a pool's
    is_forced: Callable[[], bool] = lambda: False
    group: Group | None = None  # the targets that its attempts go to

    def debtors(self) -> dict[str, Any]:
        """What it owes by itself: what pools have spent is theirs (0.5)."""
        found: dict[str, Any] = {} if self.own_rate is None else {"rate": self.own_rate}
        if self.policy.budget_pool is None:
            found["budget"] = self.ledger.budget
        if self.hedge_ledger is not self.ledger:
            found["hedges"] = self.hedge_ledger.budget
        return found

    def owed(self, now: int, waiters: bool = False) -> dict[str, Debt]:
        """Its debts; with those of its waiters, whose tokens will be taken later."""
        found = {owner: it.debt(now) for owner, it in self.debtors().items()}
        if waiters and self.own_rate is not None and self.rate is not None:
            found["rate"] = self.rate.owed_by_waiters(now)
        return found

    def owe(self, debts: dict[str, Debt], now: int) -> None:
        """It owes at least this much from here on."""
        for owner, it in self.debtors().items():
            debt = debts.get(owner, (0, 0))
            if debt[0] and debt[1] > now:
                it.owe(debt, now)

    def ledgers(self) -> list[Ledger]:
        """Each once."""
        return [self.ledger] if self.hedge_ledger is self.ledger else [self.ledger, self.hedge_ledger]


@dataclass
class Paid:
    """A charge, and who took it."""

    ledger: Ledger
    charge: budgets.Charge


@dataclass(eq=False)
class Attempt:
    """One attempt, until nothing of it is out any more."""

    number: int
    started: int
    hedge: bool
    end: int | None
    permit: Permits | None = None  # one of its own: `unit = "attempt"`, or a hedge's
    ticket: breaker.Ticket | None = None  # `unit = "attempt"`
    counted: bool = False  # by the throttle, `unit = "attempt"`
    flying: Paid | None = None  # what it cost, until it is over
    decided: bool = False  # have breaker, throttle and limit been told of it (`unit = "attempt"`)?
    target: Target | None = None
    target_ticket: breaker.Ticket | None = None
    target_place: int = 0
    at_target: bool = False  # does it hold a permit there?
    reserved: Reservation | None = None  # until it has been settled

    def bit(self) -> int:
        """Bit (n − 1) mod 8."""
        return lane_bit(self.number)


@dataclass(eq=False)
class Call:
    """One call, from `begin` until its slot in the arena is free."""

    name: str
    route: Route
    request: Request
    ordinal: int
    began: int
    slot: int = -1
    state: str = "new"
    deadline: int | None = None
    parent: Call | None = None
    children: int = 0
    nested: bool = False  # does a call around it retry?
    # admission
    why: str = ""  # what it waits for: hold, rate, queue or send
    refusal: str = ""
    turn: int = 0  # when a rate waiter's tokens will be there
    patience: int | None = None  # when it stops queueing
    arrived: int = 0  # in the queue for permits
    place: int = 0  # of the cooldown
    keeps: bool = False  # its tokens, although it has to wait again
    inner: bool = False  # was the last call within it refused?
    hold: Hold | None = None  # the one it waits in or has a place of
    permit: Permits | None = None  # `unit = "call"`, or granted for the next attempt
    ticket: breaker.Ticket | None = None  # the same
    counted: bool = False  # by the throttle: the same
    probe: bool = False
    # attempts
    attempt: int = 0  # the last that started
    live: list[Attempt] = field(default_factory=list)
    stopped: list[Attempt] = field(default_factory=list)  # told to stop and not reported since
    newest: Attempt | None = None
    winner: Attempt | None = None  # whose head has come
    check: int | None = None  # when the silence of its body is to be reported
    body_ticket: breaker.Ticket | None = None  # what a failed body is held against
    decided: bool = False  # have breaker, throttle and limit been told of the call (`unit = "call"`)?
    loose: list[Attempt] = field(default_factory=list)  # over, with permits that go back after the decision
    no_hedge: bool = False  # until the next attempt that is no hedge
    throttled: bool = False  # was one of the attempts that ran together?
    longest: int | None = None  # the largest Retry-After of those
    last: tuple[Attempt, Outcome, int] | None = None  # the last failure, and how long it took
    # retries
    retry_at: int = 0
    given_up: int = 0  # when stopped attempts are waited for no longer
    shares: bool = False  # the permit of a call around it
    at_once: bool = False  # without retry: the next attempt starts as a hedge
    pending: Paid | None = None  # paid for and not started
    retries: list[Paid] = field(default_factory=list)  # that have started, and are no hedges
    over: int | None = None  # when its lease ends; None: never
    tried: list[Target] = field(default_factory=list)  # since all counted as untried
    chosen: tuple[Target, breaker.Ticket | None, int] | None = None  # for the attempt that starts next
    unlocked: list[Target] = field(default_factory=list)  # targets that its failures have opened to it
    only: list[Target] = field(default_factory=list)  # if any, the only targets that it may go to
    told: int = 0  # the moment that its last step gave, while it waits for a target
    again: int = 0  # refused while it waited for a target: when another try makes sense
    amounts: dict[str, int] = field(default_factory=dict)  # of each weight
    named: dict[str, int] = field(default_factory=dict)  # before they were scaled
    reserved: Reservation | None = None  # for the attempt that starts next

    def out(self) -> bool:
        """Does something that the host could not stop still run (R12)?"""
        return not self.request.abortable and bool(self.stopped)

    def between(self) -> bool:
        """Has an attempt ended, and the next one not started?"""
        return self.attempt > 0 and self.state in ("backoff", "waiting", "granted", "refused")


def done(verdict: str, result: int | None = None, retry_in: int | None = None, stop: int = 0) -> Step:
    """A call's end; `result` is the number of the attempt whose answer or failure the caller gets."""
    lane = None if result is None else (result - 1) % 8
    return {"action": "done", "verdict": verdict, "result": lane, "retry_in_us": retry_in, "stop": stop}


def lane_bit(attempt: int) -> int:
    """Bit (n − 1) mod 8."""
    return 1 << (attempt - 1) % 8


def earliest(*moments: int | None) -> int | None:
    """The first of the moments that exist."""
    there = [moment for moment in moments if moment is not None]
    return min(there) if there else None


def later(moment: int | None, wait: int | None) -> int | None:
    """A moment plus a span; "never" stays "never"."""
    return None if moment is None or wait is None else moment + wait


def span(until: int | None, now: int) -> int | None:
    """The span to a moment."""
    return None if until is None else max(0, until - now)
