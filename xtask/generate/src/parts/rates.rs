//! How fast, and how late: the rate limits, the cubic send rate, and the backoff.

use super::Ret::{Done, Flag, MaybeReal, Nothing, Span, Taken, U32, Wait};
use super::{Arg, Kind, Part, arg, now, part, seed};

const GROUP: &str = "rate";

fn cost() -> Arg {
    arg("cost", Kind::Hot(32)).or("1")
}

fn limit(name: &'static str, doc: &'static str) -> Part {
    part(GROUP, name, doc)
        .set("rate", "rate_limit", &[])
        .needs("permits", "Tokens that flow in per `per`.")
        .needs("per", "The span that `permits` belong to.")
        .setting("burst", "Tokens that may be taken at once, after a quiet time.", false)
}

const ACQUIRE: &str =
    "Takes `cost` tokens, or takes none and says when to come back.

    {Zero} where they were taken. Else {the_time} until there are enough, rounded up to a microsecond; {never} for a
    cost above the burst.";
const TAKE: &str = "Takes `cost` tokens (0 to {u32}), if there are enough. A cost of 0 is always granted.";
const FULL: &str = "Is it full, as a new one is?";

pub fn parts() -> Vec<Part> {
    vec![token_bucket(), gcra(), cubic_rate(), backoff()]
}

fn token_bucket() -> Part {
    limit(
            "TokenBucket",
            "A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).

            Integers only, so nothing drifts; a clock that runs back mints nothing, and a silence of hours gives one
            burst. Within any span t it grants at most `burst` + t·`permits`/`per`.",
        )
        .beside(now().told("The moment from which it fills, on your clock."))
        .examples(
            ">>> bucket = TokenBucket(permits=3, per=1.0, burst=2, now=0.0)
>>> bucket.try_take(now=0.0, cost=2), bucket.try_take(now=0.0)
(True, False)
>>> bucket.acquire(now=0.0)
0.333334
>>> bucket.acquire(now=0.333334)
0.0",
            "val bucket = TokenBucket(now = Duration.ZERO) { permits = 3; per = 1.seconds; burst = 2 }
bucket.tryTake(now = Duration.ZERO, cost = 2) // true
bucket.acquire(now = Duration.ZERO) // 333.334ms",
            "",
        )
        .does("try_take", &[now(), cost()], Done, TAKE)
        .core("try_take cost now")
        .swift("tryTake(_ cost, now)")
        .does("acquire", &[now(), cost()], Taken, ACQUIRE)
        .core("try_take cost now")
        .swift("acquire(_ cost, now)")
        .does(
            "wait_for",
            &[now(), arg("tokens", Kind::Hot(64)).or("1")],
            Wait,
            "{Time} until `tokens` in all (0 to {u64}) will have flowed in beyond what is used; takes none.

            Linear, also above the burst: those who queue take their tokens as they come, so the third of three that
            want one each waits for 3.",
        )
        .core("wait_for tokens now")
        .swift("wait(for tokens, now)")
        .does("level", &[now()], U32, "Whole tokens that are there now.")
        .does("is_fresh", &[now()], Flag, FULL)
        .retune(
            "Goes on with other settings, the same keys as at first, and the tokens that are there.

            They are capped at the new burst; a larger burst fills at the new rate. A change to and fro mints
            nothing.",
            true,
        )
}

fn gcra() -> Part {
    limit(
            "Gcra",
            "The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).

            ITU-T I.371. It decides as a `TokenBucket` of the same settings wherever `permits` divide `per` in
            microseconds; elsewhere its interval is rounded up to whole microseconds, so that it never grants more.
            Starts full. A clock that runs back mints nothing.",
        )
        .examples(
            ">>> limit = Gcra(permits=1, per=1.0, burst=2)
>>> limit.try_take(now=0.0, cost=2)
True
>>> limit.acquire(now=0.4)
0.6",
            "val limit = Gcra { permits = 1; per = 1.seconds; burst = 2 }
limit.tryTake(now = Duration.ZERO, cost = 2) // true
limit.acquire(now = 400.milliseconds) // 600ms",
            "",
        )
        .does("try_take", &[now(), cost()], Done, TAKE)
        .core("try_take cost now")
        .swift("tryTake(_ cost, now)")
        .does("acquire", &[now(), cost()], Taken, ACQUIRE)
        .core("try_take cost now")
        .swift("acquire(_ cost, now)")
        .does("is_fresh", &[now()], Flag, FULL)
}

fn cubic_rate() -> Part {
    part(
            GROUP,
            "CubicRate",
            "A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).

            Off, and free, until the first throttle; never below 0.5 sends a second. The curve is CUBIC's (RFC 9438)
            with β = 0.7 and C = 0.4 (`docs/spec.md`, 2.14).",
        )
        .beside(now().told("The moment from which sends are measured."))
        .examples(
            ">>> rate = CubicRate(now=0.0)
>>> rate.acquire(now=1.0), rate.rate
(0.0, None)
>>> rate.on_response(throttled=True, now=1.0)
>>> rate.rate is not None and rate.acquire(now=1.0) > 0
True",
            "val rate = CubicRate(now = Duration.ZERO)
rate.onResponse(throttled = true, now = 1.seconds)
rate.acquire(now = 1.seconds) // how long to wait before asking again",
            "",
        )
        .does("acquire", &[now()], Taken, "Takes one send: {zero}, or {the_time} to wait before asking again.")
        .does(
            "on_response",
            &[arg("throttled", Kind::Flag), now()],
            Nothing,
            "Counts an answer: a throttled one cuts the rate, any other lets it grow.",
        )
        .has("rate", MaybeReal, "Sends per second that are allowed; {none} before the first throttle.")
}

fn backoff() -> Part {
    part(
            "delay",
            "Backoff",
            "The delay before retry n = 1, 2, …: growth, cap, jitter.

            Growth: `constant` base, `linear` base·n, `exponential` base·multiplier^(n−1), `polynomial`
            base·n^exponent, each capped at `max` before jitter. Jitter of a delay d: `none`, `full` U(0, d),
            `full_floor` U(0.1·d, d), `equal` d/2 + U(0, d/2), `decorrelated` U(base, min(max, 3·previous)),
            `bounded` U((1−j)·d, (1+j)·d). Names after \"Exponential Backoff And Jitter\" (AWS Architecture Blog,
            2015); `docs/spec.md`, 2.4 and 2.5.",
        )
        .set("|policy| Some(policy.backoff())", "retry.backoff", &[])
        .may("kind base max multiplier exponent jitter jitter_ratio")
        .beside(seed())
        .draws("Backoff")
        .examples(
            ">>> backoff = Backoff(base=0.1, max=5.0, jitter=\"none\")
>>> [backoff.delay(n) for n in range(1, 8)]
[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
>>> 0.01 <= Backoff(base=0.1).delay(1) <= 0.1
True",
            "val backoff = Backoff { base = 100.milliseconds; max = 5.seconds; jitter = BackoffJitter.NONE }
(1..4).map { backoff.delay(it) } // 100ms, 200ms, 400ms, 800ms",
            "",
        )
        .does(
            "delay",
            &[arg("n", Kind::Whole(1, 8)), arg("call", Kind::Bits)],
            Span,
            "{Time} to wait before retry `n`, 1 to 255.

            Without `call` every delay is a draw of its own. With one, a number of your own for the call that is
            retried, the delay is a function of seed, call and n, and `decorrelated` follows the call's own draws.",
        )
        .swift("delay(_ n, call)")
        .own()
        .does("ceiling", &[arg("n", Kind::Whole(1, 8))], Span, "{Time} before retry `n`, 1 to 255, without jitter.")
        .swift("ceiling(_ n)")
        .own()
}
