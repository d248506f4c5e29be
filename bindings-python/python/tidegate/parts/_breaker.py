# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.
"""Who is let through: the circuit breaker and the adaptive throttle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from tidegate import _native
from tidegate._engine.options import UNSET

from ._part import U64, Part, lease_us, made, seed_of, whole

if TYPE_CHECKING:
    from typing import TypeAlias, TypedDict

    from typing_extensions import Unpack

    from tidegate._engine.clock import Span

    State: TypeAlias = Literal["closed", "open", "half_open"]
    Evidence: TypeAlias = Literal["success", "failure", "neutral"]

    class CircuitBreakerKeys(TypedDict, total=False):
        """The keys of `CircuitBreaker`."""

        break_duration: Span
        failure_ratio: float
        window: Span
        min_throughput: int
        window_kind: Literal["sliding", "tumbling"]
        consecutive: int
        break_factor: float
        max_break_duration: Span
        half_open_max_calls: int
        successes_to_close: int
        probe_lease: Span

    class AdaptiveThrottleKeys(TypedDict, total=False):
        """The keys of `AdaptiveThrottle`."""

        k: float
        window: Span
        window_kind: Literal["sliding", "tumbling"]
        min_throughput: int
        max_reject: float | Literal["none"]
        probe_interval: Span | Literal["none"]


Ticket = _native.Ticket
"""Proof of an admission, to be handed back with what came of it: `number`, and `probe`."""


class CircuitBreaker(Part):
    """Refuses calls to a downstream that fails too often, and lets a few through after a break.

    It opens when failures ≥ `failure_ratio`·results with at least `min_throughput` results in the window, or
    after `consecutive` failures. Probes are leases: one that never reports loses its place, so that no lost
    call keeps a breaker half-open. A result that comes too late changes nothing (`docs/spec.md`, 5).

    Args:
        break_duration: How long the first break is. Seconds or `timedelta`, 0.001 s to 365 days.
        failure_ratio: Failures among recent results that open it; this or `consecutive` is there. 0.000001 to
            1; required unless there is `consecutive`.
        window: How long a result counts as recent. Seconds or `timedelta`, 10 µs to 365 days; required with
            `failure_ratio`.
        min_throughput: Results that the window must hold before the ratio counts. 1 to 1,000,000,000;
            required with `failure_ratio`.
        window_kind: sliding forgets by tenths of the window, tumbling all at once. `"sliding"` (default),
            `"tumbling"`.
        consecutive: Failures in a row that open it; instead of the ratio, or beside it. 1 to 1,000,000; off
            by default.
        break_factor: How much longer each next break is while probes fail. Breaks get up to a tenth longer,
            at random; with 1 there is neither growth nor jitter. 1 to 100; 2 by default.
        max_break_duration: The longest break, before jitter; ten times `break_duration` where absent. Seconds
            or `timedelta`, 0.001 s to 365 days.
        half_open_max_calls: Probes at once when a break has ended. 1 to 1,000; 1 by default.
        successes_to_close: Good probes that close it. 1 to 1,000,000; 1 by default.
        probe_lease: How long a probe keeps its place without reporting; 1 µs to 365 days, by default
            `break_duration`. In a policy it follows from the attempt timeout.
        seed: Seed of all random draws, 64 bits; by default from the operating system.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> breaker = CircuitBreaker(break_duration=5.0, consecutive=2, break_factor=1)
        >>> for _ in range(2):
        ...     ticket = breaker.admit(now=0.0)
        ...     change = breaker.record(ticket, "failure", now=1.0)
        >>> change
        ('closed', 'open')
        >>> breaker.admit(now=2.0), breaker.refuses(now=2.0)
        (None, 4.0)
        >>> probe = breaker.admit(now=6.0)
        >>> breaker.record(probe, "success", now=7.0), breaker.state
        (('half_open', 'closed'), 'closed')
    """

    __slots__ = ()

    def __init__(
        self,
        break_duration: Span,
        failure_ratio: float = UNSET,
        window: Span = UNSET,
        min_throughput: int = UNSET,
        window_kind: Literal["sliding", "tumbling"] = UNSET,
        consecutive: int = UNSET,
        break_factor: float = UNSET,
        max_break_duration: Span = UNSET,
        half_open_max_calls: int = UNSET,
        successes_to_close: int = UNSET,
        probe_lease: Span = UNSET,
        seed: int | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "break_duration": break_duration,
            "failure_ratio": failure_ratio,
            "window": window,
            "min_throughput": min_throughput,
            "window_kind": window_kind,
            "consecutive": consecutive,
            "break_factor": break_factor,
            "max_break_duration": max_break_duration,
            "half_open_max_calls": half_open_max_calls,
            "successes_to_close": successes_to_close,
        }
        self._native: _native.CircuitBreaker = made(
            _native.CircuitBreaker,
            "breaker",
            options,
            lease_us(probe_lease),
            seed_of(seed),
        )

    @property
    def state(self) -> State:
        """`closed`, `open` or `half_open`.

        A break that has ended is `open` until the first admission after it.
        """
        return cast("State", self._native.state())

    def admit(self, now: float) -> Ticket | None:
        """Lets a call through: a ticket to hand back with what came of it.

        None where it is refused; `refuses` says for how long.
        """
        return self._native.admit(now)

    def record(
        self,
        ticket: Ticket,
        evidence: Evidence,
        now: float,
        bits: int | None = None,
    ) -> tuple[State, State] | None:
        """Takes what came of an admitted call: the transition that it made, or None.

        Args:
            ticket: What `admit` gave. One of an older generation changes nothing.
            evidence: `neutral` gives a probe's place back and counts nothing.
            now: The present, in seconds.
            bits: 64 random bits for the jitter of a break that this opens, in the place of the seed's.
        """
        change: tuple[State, State] | None = self._native.record(
            ticket,
            evidence,
            now,
            None if bits is None else whole("bits", bits, 0, U64),
        )
        return change

    def on_body_failure(
        self,
        ticket: Ticket,
        now: float,
        bits: int | None = None,
    ) -> tuple[State, State] | None:
        """The body failed of a call that was recorded as a success at its head.

        Its success becomes a failure.
        """
        change: tuple[State, State] | None = self._native.on_body_failure(
            ticket,
            now,
            None if bits is None else whole("bits", bits, 0, U64),
        )
        return change

    def evidence_of(self, kind: str) -> Evidence:
        """What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).

        `permanent`, a healthy server's "no", is a success.

        Raises:
            ValueError: If `kind` is none of the classes.
        """
        return cast("Evidence", self._native.evidence_of(kind))

    def refuses(self, now: float) -> float | None:
        """Seconds until another try makes sense if an admission now would be refused, else None.

        Changes nothing.
        """
        return self._native.refuses(now)

    @property
    def open_until(self) -> float | None:
        """The end of the break while open, on your clock; else None."""
        return self._native.open_until()

    def failures(self, now: float) -> int:
        """Failures in the window; while open, what is left of those that opened it."""
        return self._native.failures(now)

    def throughput(self, now: float) -> int:
        """Results in the window, failures included."""
        return self._native.throughput(now)

    def is_fresh(self, now: float) -> bool:
        """Whether a new breaker would decide the same from now on."""
        return self._native.is_fresh(now)

    def reset(self) -> None:
        """Closed again, with nothing counted. Results of calls admitted before change nothing."""
        self._native.reset()

    def forget_probes(self) -> None:
        """Releases the places of all probes: after a fork, they belong to the parent process."""
        self._native.forget_probes()

    def retune(self, now: float, **settings: Unpack[CircuitBreakerKeys]) -> None:
        """Applies new settings, with the same keys as before.

        State, probes out and failures in a row are kept, and so are the window's counts where its length and
        kind are the same. A break under way is cut to the longest that the new settings could give.
        """
        options: dict[str, Any] = {**settings}
        lease = lease_us(options.pop("probe_lease", UNSET))
        made(self._native.retune, "breaker", options, lease, now)


class AdaptiveThrottle(Part):
    """Refuses a share of the calls to a downstream that does not accept enough of them.

    With probability p = max(0, (requests − k·accepts)/(requests + 1)) over a window: client-side throttling
    as in the SRE book, "Handling Overload". About k times what is still accepted is let through, so that
    recovery is noticed without a special state (`docs/spec.md`, 6).

    Args:
        k: Requests per accepted one that are let through. At least 1; 2 by default.
        window: How long a call counts. Seconds or `timedelta`, 10 µs to 365 days; 120 s by default.
        window_kind: sliding forgets by tenths of the window, tumbling all at once. `"sliding"` (default),
            `"tumbling"`.
        min_throughput: Calls that the window must hold before any is refused. 1 to 1,000,000,000; 10 by
            default.
        max_reject: The highest probability of a refusal. 0 to 1, or `"none"`; 0.9 by default.
        probe_interval: At least one call is let through per interval. Seconds or `timedelta`, 1 µs to 365
            days, or `"none"`; 1 s by default.
        now: The present, on your clock.
        seed: Seed of all random draws, 64 bits; by default from the operating system.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> throttle = AdaptiveThrottle(now=0.0, seed=1)
        >>> for n in range(100):
        ...     throttle.record(n < 40, now=0.0)
        >>> throttle.probability(now=0.0) == 20 / 101
        True
        >>> sum(throttle.admit(now=0.0) for _ in range(10)) < 10
        True
    """

    __slots__ = ()

    def __init__(
        self,
        k: float = UNSET,
        window: Span = UNSET,
        window_kind: Literal["sliding", "tumbling"] = UNSET,
        min_throughput: int = UNSET,
        max_reject: float | Literal["none"] = UNSET,
        probe_interval: Span | Literal["none"] = UNSET,
        *,
        now: float,
        seed: int | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "k": k,
            "window": window,
            "window_kind": window_kind,
            "min_throughput": min_throughput,
            "max_reject": max_reject,
            "probe_interval": probe_interval,
        }
        self._native: _native.AdaptiveThrottle = made(
            _native.AdaptiveThrottle,
            "throttle",
            options,
            now,
            seed_of(seed),
        )

    def admit(self, now: float, bits: int | None = None) -> bool:
        """May a call go through? One that is refused has been counted; record one that is let through.

        Args:
            now: The present, in seconds.
            bits: 64 random bits, in the place of the seed's.
        """
        return self._native.admit(now, None if bits is None else whole("bits", bits, 0, U64))

    def record(self, accepted: bool, now: float) -> None:
        """A call that was let through has ended. Do not record one that says neither yes nor no."""
        self._native.record(accepted, now)

    def accepted(self, kind: str) -> bool | None:
        """Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? None: it does not count.

        Raises:
            ValueError: If `kind` is none of the classes.
        """
        return self._native.accepted(kind)

    def requests(self, now: float) -> int:
        """Requests in the window."""
        return self._native.requests(now)

    def accepts(self, now: float) -> int:
        """Those of them that the downstream accepted."""
        return self._native.accepts(now)

    def probability(self, now: float) -> float:
        """The probability that a call is refused now, 0 to 1."""
        return self._native.probability(now)

    def is_fresh(self, now: float) -> bool:
        """Is nothing in the window?"""
        return self._native.is_fresh(now)

    def retune(self, now: float, **settings: Unpack[AdaptiveThrottleKeys]) -> None:
        """Applies new settings, with the same keys as before.

        The counts are kept where the window's length and kind are the same.
        """
        options: dict[str, Any] = {**settings}
        made(self._native.retune, "throttle", options, now)
