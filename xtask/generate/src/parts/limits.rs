//! How much at once: the controllers of adaptive limits, and of a queue.

use super::Ret::{Flag, MaybeLatency, Nothing, Real, Span, U32};
use super::{Arg, Kind, Part, arg, now, part};

const GROUP: &str = "limit";

fn span(name: &'static str) -> Arg {
    arg(name, Kind::Span)
}

fn started() -> Arg {
    arg("started", Kind::Moment).told("When it started, on the clock of `now`.")
}

fn in_flight() -> Arg {
    arg("in_flight", Kind::Hot(32)).told("Calls that were out when it ended, itself included; 0 to {u32}.")
}

const LIMIT: &str = "Calls that may be in flight.";
const EXACT: &str = "The limit with the fraction that it keeps inside.";

pub fn parts() -> Vec<Part> {
    vec![aimd(), gradient2(), codel()]
}

fn aimd() -> Part {
    part(
            GROUP,
            "Aimd",
            "A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.

            Additive increase, multiplicative decrease, as TCP does it: several of them on one server share it evenly
            without knowing each other. A controller and nothing else: it is told what happened and answers with a
            limit; who holds a permit and who waits is yours (`docs/spec.md`, 4.2).",
        )
        .set("aimd", "bulkhead", &[("kind", "aimd")])
        .needs("max_concurrency", "The limit at first and at most, in calls.")
        .needs("latency_threshold", "A completion within it raises the limit, one over it cuts it.")
        .setting("min_concurrency", "The limit at least; at most `max_concurrency`.", false)
        .setting("increase_step", "What a good completion adds, divided by the limit.", false)
        .setting("backoff_ratio", "What a cut multiplies the limit by.", false)
        .setting("cooldown", "At most one cut per cooldown.", false)
        .setting(
            "latency_quantile",
            "Compare this quantile of recent latencies with the threshold, instead of each one.",
            false,
        )
        .examples(
            ">>> limit = Aimd(max_concurrency=20, latency_threshold=0.3, backoff_ratio=0.5)
>>> limit.on_latency(0.301, now=0.0)
>>> limit.limit
10
>>> for _ in range(11):
...     limit.on_latency(0.2, now=0.1)
>>> limit.limit
11",
            "val limit = Aimd { maxConcurrency = 20; latencyThreshold = 300.milliseconds; backoffRatio = 0.5 }
limit.onLatency(301.milliseconds, now = Duration.ZERO)
limit.limit // 10",
            "",
        )
        .has("limit", U32, LIMIT)
        .has("exact", Real, EXACT)
        .does("on_latency", &[span("latency"), now()], Nothing, "A call has ended well, after `latency`: 0 or more.")
        .swift("onLatency(_ latency, now)")
        .does(
            "on_failure",
            &[span("latency"), now()],
            Nothing,
            "A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach.",
        )
        .swift("onFailure(_ latency, now)")
        .does(
            "on_timeout",
            &[now()],
            Nothing,
            "Our own timeout has cut a call: a breach, whatever the quantile says.",
        )
        .does(
            "is_fresh",
            &[now()],
            Flag,
            "Is it as if new: at its maximum, with no cut that still cools down, and no estimate?",
        )
        .retune(
            "Goes on with other settings, the same keys as at first.

            A limit at its maximum moves with it; any other stays where it is, within the new range.",
            false,
        )
}

fn gradient2() -> Part {
    part(
            GROUP,
            "Gradient2",
            "A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).

            It compares the latest latencies with their long-term average, so that nobody has to name a threshold
            (Netflix `concurrency-limits`; `steady` is what this project made of it, `docs/adr/0007`).",
        )
        .set("gradient2", "bulkhead", &[("kind", "gradient2")])
        .needs("max_concurrency", "The limit at most, in calls; it begins at 20, within its range.")
        .setting("min_concurrency", "The limit at least; at most `max_concurrency`.", false)
        .setting("long_window", "Completions that the long-term latency looks back on.", false)
        .setting("rtt_tolerance", "How much longer than the long-term latency is still good.", false)
        .setting("headroom", "How many more than now the limit reaches for.", false)
        .setting(
            "variant",
            "steady decides once per round trip and comes back to what the server can take; the others are older rules.",
            false,
        )
        .examples(
            ">>> limit = Gradient2(max_concurrency=200, variant=\"guarded\")
>>> limit.on_latency(0.1, started=0.0, in_flight=20, now=0.1)
>>> limit.exact
20.8
>>> limit.on_latency(0.9, started=0.0, in_flight=20, now=0.9)
>>> limit.limit
17",
            "val limit = Gradient2 { maxConcurrency = 200 }
limit.onLatency(rtt = 20.milliseconds, started = Duration.ZERO, inFlight = 10, now = 20.milliseconds)",
            "",
        )
        .has("limit", U32, LIMIT)
        .has("exact", Real, EXACT)
        .has("baseline", MaybeLatency, "The long-term latency{in_seconds}; {none} before the first sample.")
        .does(
            "on_latency",
            &[span("rtt").told("How long it took; 0 or more."), started(), in_flight(), now()],
            Nothing,
            "A call has ended well.",
        )
        .swift("onLatency(_ rtt, started, in_flight, now)")
        .does(
            "on_drop",
            &[started(), in_flight(), now()],
            Nothing,
            "A call was cut by our timeout, or throttled by the other side. `plain` and `netflix` ignore it.",
        )
        .has("is_fresh", Flag, "Is it as if new? Only before its first sample or drop.")
        .retune("Goes on with other settings, the same keys as at first; what has been learnt stays.", false)
}

fn codel() -> Part {
    part(
            GROUP,
            "CoDel",
            "What decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).

            It bounds a queue by the time that is spent in it, not by its length alone. It does not hold the queue:
            ask for each waiter that is taken out, and say when the queue is empty.",
        )
        // In a policy a queue belongs to a bulkhead; what is fixed here is neither read nor shown.
        .set("codel", "bulkhead", &[("max_concurrency", "1"), ("max_queue", "1")])
        .needs("queue_target", "The wait that is fine at any time; less than the interval.")
        .setting("queue_interval", "How long a queue that never empties is not yet congested.", false)
        .setting(
            "codel",
            "The law: facebook (\"Fail at Scale\", ACM Queue 2015) sheds whoever has waited longer than the interval, \
             and longer than the target where the queue has not been empty for an interval; rfc8289 sheds one \
             waiter, then more and more often, once waits have stayed above the target.",
            false,
        )
        .beside(now().told("The present, on your clock: the queue is empty."))
        .examples(
            ">>> queue = CoDel(queue_target=0.005, now=0.0)
>>> queue.on_empty(now=0.02)
>>> queue.should_shed(0.08, now=0.1)
False
>>> queue.should_shed(0.08, now=0.12), queue.congested(now=0.12)
(True, True)",
            "val queue = CoDel(now = Duration.ZERO) { queueTarget = 5.milliseconds; queueInterval = 100.milliseconds }
queue.shouldShed(sojourn = 1.milliseconds, now = 1.milliseconds) // false",
            "",
        )
        .does(
            "on_empty",
            &[now()],
            Nothing,
            "The queue has just been seen empty: before a waiter came, or after the last one has left.",
        )
        .does(
            "should_shed",
            &[
                span("sojourn").told("How long it has waited; 0 or more."),
                now(),
                arg("scale", Kind::Real(0.01, 100.0)).or("1.0").told(
                    "What its importance stretches the allowed wait by; 0.01 to 100. A policy has 0.25 for \
                     `best_effort`, 0.5 for `degraded`, 1 for `normal` and 2 for `critical`.",
                ),
            ],
            Flag,
            "Is the waiter at hand shed? To be asked once for each one that is taken out.",
        )
        .core("should_shed sojourn scale now")
        .swift("shouldShed(_ sojourn, scale, now)")
        .does(
            "congested",
            &[now()],
            Flag,
            "Has the queue not been empty for a whole interval? Then serve the newest waiter first.",
        )
        .does(
            "allowance",
            &[now()],
            Span,
            "{Time} that a waiter of scale 1 may have waited, under the law of `facebook`.",
        )
        .retune("Goes on with other settings, the same keys as at first. Another law begins anew.", false)
}
