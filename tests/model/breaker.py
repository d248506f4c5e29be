"""The circuit breaker (spec 5). It remembers every result and every probe."""

from __future__ import annotations

from dataclasses import dataclass, field

import rng
from clock import Clock
from window import Window

# 1.2, the column "breaker".
EVIDENCE = {
    "ok": "success",
    "transient": "failure",
    "timeout": "failure",
    "never_sent": "failure",
    "throttled": "neutral",
    "conflict": "neutral",
    "permanent": "success",
    "ignored": "neutral",
    "cancelled": "neutral",
}
MOST_ROUNDS = 1_000
Transition = tuple[str, str]


@dataclass
class Settings:
    """5.1, 5.2; spans in µs."""

    failure_ratio: float | None = None
    window: int = 10_000_000
    min_throughput: int = 1
    window_kind: str = "sliding"
    consecutive: int | None = None
    break_duration: int = 10_000_000
    break_factor: float = 2.0
    max_break_duration: int = 100_000_000
    half_open_max_calls: int = 1
    successes_to_close: int = 1
    probe_lease: int = 5_000_000


@dataclass
class Ticket:
    """An admission; which one it is, is which object it is."""

    generation: int
    probe: bool
    ends: int = 0


@dataclass
class Breaker:
    """Closed, open or half-open."""

    settings: Settings
    state: str = "closed"
    generation: int = 0
    until: int = 0
    failed_rounds: int = 0
    successes: int = 0
    streak: int = 0
    probes: list[Ticket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.window = Window(self.settings.window, self.settings.window_kind)

    def break_span(self) -> int:
        """5.2: "d × `break_factor` up to `max_break_duration` on repeated failure", in whole µs."""
        if self.settings.break_factor == 1:
            return self.settings.break_duration
        growth = 1.0
        for _ in range(self.failed_rounds):
            growth *= self.settings.break_factor
        return int(min(self.settings.break_duration * growth, float(self.settings.max_break_duration)))

    def jitter(self) -> int:
        """5.2: "d + U(0, d/10)"; "with 1 neither growth nor jitter"."""
        return 0 if self.settings.break_factor == 1 else self.break_span() // 10

    def change(self, to: str) -> Transition:
        """One edge."""
        change = (self.state, to)
        self.state = to
        return change

    def open(self, bits: int, now: int) -> Transition:
        """A break begins; whatever is still out is of an older generation from here on (5.3)."""
        self.generation += 1
        self.probes = []
        self.until = now + self.break_span() + rng.uniform(bits, 0, self.jitter())
        return self.change("open")

    def close(self) -> Transition:
        """A new generation of closed, which has seen nothing yet."""
        self.generation += 1
        self.probes = []
        self.failed_rounds = self.streak = 0
        self.window = Window(self.settings.window, self.settings.window_kind)
        return self.change("closed")

    def refusal(self, now: int) -> int | None:
        """How long until another try makes sense, where one now would be refused."""
        if self.state == "open" and now < self.until:
            return self.until - now
        if self.state == "half_open":
            running = [probe.ends for probe in self.probes if now < probe.ends]
            if len(running) >= self.settings.half_open_max_calls:
                return min(running) - now
        return None

    def admit(self, reading: int) -> Ticket | int:
        """A ticket, or how long until another try makes sense."""
        now = self.clock(reading)
        wait = self.refusal(now)
        if wait is not None:
            return wait
        if self.state == "closed":
            return Ticket(self.generation, False)
        if self.state == "open":
            self.change("half_open")
            self.successes = 0
        # R9: "reaped by the next event that touches it": the oldest that is over gives up its place then.
        while len(self.probes) >= self.settings.half_open_max_calls:
            over = [probe for probe in self.probes if now >= probe.ends]
            self.probes.remove(min(over, key=lambda probe: probe.ends))
        ticket = Ticket(self.generation, True, now + self.settings.probe_lease)
        self.probes.append(ticket)
        return ticket

    def record(self, ticket: Ticket | None, evidence: str, bits: int, reading: int) -> Transition | None:
        """5.3: "Results carry the generation of their admission: late ones change nothing". None: forged."""
        now = self.clock(reading)
        if ticket is None or ticket.generation != self.generation:
            return None
        if self.state == "closed" and not ticket.probe and evidence != "neutral":
            self.window.add(evidence == "failure", now)
            return self.count(evidence, bits, now)
        if ticket.probe and any(probe is ticket for probe in self.probes):
            self.probes = [probe for probe in self.probes if probe is not ticket]
            return self.probed(evidence, bits, now)
        return None

    def count(self, evidence: str, bits: int, now: int) -> Transition | None:
        """5.2: "closed → open when throughput ≥ min and ratio ≥ failure_ratio"; 5.1: "either opens"."""
        if evidence == "success":
            self.streak = 0
            return None
        self.streak += 1
        failures, throughput = self.window.counts(now)
        ratio, row = self.settings.failure_ratio, self.settings.consecutive
        many = ratio is not None and throughput >= self.settings.min_throughput
        if (many and failures >= (ratio or 0.0) * throughput) or (row is not None and self.streak >= row):
            return self.open(bits, now)
        return None

    def probed(self, evidence: str, bits: int, now: int) -> Transition | None:
        """5.2: "`successes_to_close` (1) closes, one failure opens"."""
        if evidence == "failure":
            self.failed_rounds = min(self.failed_rounds + 1, MOST_ROUNDS)
            return self.open(bits, now)
        if evidence == "success":
            self.successes += 1
            if self.successes >= self.settings.successes_to_close:
                return self.close()
        return None

    def body_failure(self, ticket: Ticket | None, bits: int, reading: int) -> Transition | None:
        """7.1: "a failed body adds one breaker failure": the call counted as a success when its head came."""
        now = self.clock(reading)
        if ticket is None or ticket.probe or ticket.generation != self.generation or self.state != "closed":
            return None
        healthy = [entry for entry in self.window.recent(now) if not entry.marked]
        if healthy:
            healthy[-1].marked = True
        else:
            self.window.add(True, now)
        return self.count("failure", bits, now)

    def retune(self, to: Settings, reading: int) -> None:
        """0.6: "counters that still have a meaning are kept"; a break is cut to the longest possible now."""
        now = self.clock(reading)
        if (to.window, to.window_kind) != (self.settings.window, self.settings.window_kind):
            self.window = Window(to.window, to.window_kind)
        self.settings = to
        self.until = min(self.until, now + self.break_span() + self.jitter())

    def reset(self) -> None:
        """0.6: clearing a forced state resets the breaker."""
        self.close()

    def fork(self) -> None:
        """The parent's probes are none of ours."""
        self.probes = []

    def open_until(self) -> int | None:
        """The end of the break, on the host's clock; a moment is never before the clock's origin."""
        return self.clock.reading_at(self.until) if self.state == "open" else None

    def counts(self, reading: int) -> tuple[int, int]:
        """Failures and throughput in the window."""
        return self.window.counts(self.clock(reading))

    def fresh(self, reading: int) -> bool:
        """Could a new one take its place?"""
        counted = self.counts(reading)[1] or (self.settings.consecutive is not None and self.streak)
        return self.state == "closed" and not counted
