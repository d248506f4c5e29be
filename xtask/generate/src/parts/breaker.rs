//! Who is let through: the circuit breaker and the adaptive throttle.

use super::Ret::{Flag, MaybeMoment, MaybeSpan, Nothing, Real, U32};
use super::{Kind, Part, arg, now, part, seed};

const GROUP: &str = "breaker";

pub fn parts() -> Vec<Part> {
    vec![circuit_breaker(), adaptive_throttle()]
}

fn circuit_breaker() -> Part {
    part(
            GROUP,
            "CircuitBreaker",
            "Refuses calls to a downstream that fails too often, and lets a few through after a break.

            It opens when failures ≥ `failure_ratio`·results with at least `min_throughput` results in the window, or
            after `consecutive` failures. Probes are leases: one that never reports loses its place, so that no lost
            call keeps a breaker half-open. A result that comes too late changes nothing (`docs/spec.md`, 5).",
        )
        .set("breaker", "breaker", &[])
        .needs("break_duration", "How long the first break is.")
        .setting("failure_ratio", "Failures among recent results that open it; this or `consecutive` is there.", false)
        .setting("window", "How long a result counts as recent.", false)
        .setting("min_throughput", "Results that the window must hold before the ratio counts.", false)
        .may("window_kind consecutive")
        .setting(
            "break_factor",
            "How much longer each next break is while probes fail. Breaks get up to a tenth longer, at random; with 1 \
             there is neither growth nor jitter.",
            false,
        )
        .setting(
            "max_break_duration",
            "The longest break, before jitter; ten times `break_duration` where absent.",
            false,
        )
        .may("half_open_max_calls successes_to_close")
        .beside(arg("probe_lease", Kind::Lease).told(
            "How long a probe keeps its place without reporting; 1 µs to 365 days, by default `break_duration`. In a \
             policy it follows from the attempt timeout.",
        ))
        .beside(seed())
        .draws("Break")
        .examples(
            ">>> breaker = CircuitBreaker(break_duration=5.0, consecutive=2, break_factor=1)
>>> for _ in range(2):
...     ticket = breaker.admit(now=0.0)
...     change = breaker.record(ticket, \"failure\", now=1.0)
>>> change
('closed', 'open')
>>> breaker.admit(now=2.0), breaker.refuses(now=2.0)
(None, 4.0)
>>> probe = breaker.admit(now=6.0)
>>> breaker.record(probe, \"success\", now=7.0), breaker.state
(('half_open', 'closed'), 'closed')",
            "val breaker = CircuitBreaker { consecutive = 2; breakDuration = 1.seconds }
repeat(2) { breaker.record(breaker.admit(Duration.ZERO)!!, Evidence.FAILURE, Duration.ZERO) }
breaker.state // OPEN",
            "",
        )
        .does(
            "refuses",
            &[now()],
            MaybeSpan,
            "{Time} until another try makes sense where an admission now would be refused, else {none}.

            Changes nothing.",
        )
        .has("open_until", MaybeMoment, "The end of the break while open, on your clock; else {none}.")
        .does(
            "failures",
            &[now()],
            U32,
            "Failures in the window; while open, what is left of those that opened it.",
        )
        .does("throughput", &[now()], U32, "Results in the window, failures included.")
        .does("is_fresh", &[now()], Flag, "Would a new breaker do the same from here on?")
        .does(
            "reset",
            &[],
            Nothing,
            "Closed again, with nothing counted. Results of calls admitted before change nothing.",
        )
        .does(
            "forget_probes",
            &[],
            Nothing,
            "Gives all probes' places back: after a fork they are none of ours.",
        )
        .retune(
            "Goes on with other settings, the same keys as at first.

            State, probes out and failures in a row are kept, and so are the window's counts where its length and
            kind are the same. A break under way is cut to the longest that the new settings could give.",
            true,
        )
}

fn adaptive_throttle() -> Part {
    part(
            GROUP,
            "AdaptiveThrottle",
            "Refuses a share of the calls to a downstream that does not accept enough of them.

            With probability p = max(0, (requests − k·accepts)/(requests + 1)) over a window: client-side throttling
            as in the SRE book, \"Handling Overload\". About k times what is still accepted is let through, so that
            recovery is noticed without a special state (`docs/spec.md`, 6).",
        )
        .set("throttle", "throttle", &[])
        .may("k window window_kind min_throughput max_reject probe_interval")
        .beside(now().told("The present, on your clock."))
        .beside(seed())
        .draws("Throttle")
        .examples(
            ">>> throttle = AdaptiveThrottle(now=0.0, seed=1)
>>> for n in range(100):
...     throttle.record(n < 40, now=0.0)
>>> throttle.probability(now=0.0) == 20 / 101
True
>>> sum(throttle.admit(now=0.0) for _ in range(10)) < 10
True",
            "val throttle = AdaptiveThrottle(now = Duration.ZERO, seed = 7)
if (throttle.admit(now = 1.seconds)) throttle.record(accepted = true, now = 1.seconds)",
            "",
        )
        .does(
            "admit",
            &[now(), arg("bits", Kind::Bits).told("64 random bits, in the place of the seed's.")],
            Flag,
            "May a call go through? One that is refused has been counted; record one that is let through.",
        )
        .core("admit bits now")
        .does(
            "record",
            &[arg("accepted", Kind::Flag), now()],
            Nothing,
            "A call that was let through has ended. Do not record one that says neither yes nor no.",
        )
        .does("probability", &[now()], Real, "The probability that a call is refused now, 0 to 1.")
        .does("is_fresh", &[now()], Flag, "Is nothing in the window?")
        .retune(
            "Goes on with other settings, the same keys as at first.

            The counts are kept where the window's length and kind are the same.",
            true,
        )
}
