"""Waiting for tokens: of a rate limit (spec 3.1), and of the send rate (2.14), the same queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import rate
from budgets import NEVER, Debt
from call import OVERDUE, Call

if TYPE_CHECKING:
    from engine import Engine


class Bucket(Protocol):
    """Where tokens come from."""

    def take(self, cost: int, now: int) -> bool:
        """Takes them if they are there."""

    def wait_for(self, tokens: int, now: int) -> int:
        """How long until they would be, as the bucket flows now."""


class Tokens:
    """A bucket, and one FIFO of waiters."""

    def __init__(self, bucket: Bucket, burst: int | None, restless: bool = False) -> None:
        self.bucket, self.burst = bucket, burst
        self.queue: list[Call] = []
        self.restless = restless  # "a new head is always woken" (send rate)
        self.left = False  # has one left without tokens since the queue was empty?

    def cost(self, call: Call) -> int:
        """As written: "One token an attempt" of a send rate; else what the call says."""
        return 1 if self.restless else call.request.cost

    def queued(self, until: Call | None = None) -> int:
        """All tokens that are queued for: up to and with this waiter, or all."""
        total = 0
        for waiter in self.queue:
            total += self.cost(waiter)
            if waiter is until:
                break
        return total

    def hand_out(self, engine: Engine, now: int, own: Call | None) -> None:
        """Tokens to the heads that can have them. The one whose own event this is needs no wake."""
        first = self.queue[0] if self.queue else None
        while self.queue:
            head = self.queue[0]
            if head.deadline is not None and now >= head.deadline:  # 4.4: "is failed, not granted"
                self.queue.pop(0)
                self.left = True
                engine.refuse(head, "deadline_queued", now, own)
            elif self.bucket.take(self.cost(head), now):
                self.queue.pop(0)
                head.state = "granted"
                engine.wake(head, own)
            else:
                break
        self.settle(engine, first, own)

    def settle(self, engine: Engine, first: Call | None, own: Call | None) -> None:
        """Wakes a new head whose timer is out of date; `first` was the head before."""
        if not self.queue:
            self.left = False
        elif self.queue[0] is not first and (self.left or self.restless):
            engine.wake(self.queue[0], own)

    def leave(self, engine: Engine, call: Call, now: int) -> None:
        """When a waiter leaves without tokens, the head is woken, after all has been handed out."""
        if call not in self.queue:
            return
        self.remove(call)
        self.left = True
        self.wake_head(engine, now)

    def remove(self, call: Call) -> None:
        """A waiter leaves without tokens."""
        self.queue.remove(call)

    def head(self) -> Call | None:
        """The next waiter."""
        return self.queue[0] if self.queue else None

    def wake_head(self, engine: Engine, now: int) -> None:
        """Some have left."""
        head = self.head()
        self.hand_out(engine, now, None)
        if head is not None and self.head() is head:
            engine.wake(head, None)

    def owed_by_waiters(self, now: int) -> Debt:
        """0.5: when nothing will be missing, once the waiters have taken their tokens."""
        assert self.burst is not None
        wait = self.bucket.wait_for(self.burst + self.queued(), now)
        return (int(wait > 0), min(NEVER, now + wait))

    def at_once(self, cost: int, now: int) -> bool:
        """Tokens for one that does not queue; nobody passes those who wait."""
        return not self.queue and self.bucket.take(cost, now)

    def turn_in(self, call: Call, now: int) -> int:
        """Until a newcomer's tokens would be there: all that are queued, and its own."""
        return self.bucket.wait_for(self.queued() + self.cost(call), now)

    def enqueue(self, call: Call, now: int) -> None:
        """The last in the queue."""
        call.turn = now + self.turn_in(call, now)
        call.over = call.turn + OVERDUE
        self.queue.append(call)

    def turn_of(self, call: Call, now: int) -> int:
        """The moment when its tokens will be there, as it knows it now."""
        if self.queue[0] is call:
            call.turn = now + self.bucket.wait_for(self.cost(call), now)
        elif call.turn <= now:
            call.turn = now + self.bucket.wait_for(self.queued(), now)
        call.over = call.turn + OVERDUE
        return call.turn


class RateBucket:
    """A rate limit's bucket, with the two questions that a queue has."""

    def __init__(self, permits: int, per: int, burst: int, now: int) -> None:
        self.exact = rate.Bucket(permits, per, burst, now)

    def take(self, cost: int, now: int) -> bool:
        """Takes them if they are there."""
        return self.exact.take(cost, now) is None

    def wait_for(self, tokens: int, now: int) -> int:
        """Rounded up to whole µs."""
        return self.exact.wait_for(tokens, now)
