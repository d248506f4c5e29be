//! How many retries: the budgets, of every kind.

use super::Ret::{Cost, Flag, Nothing, U32, U64};
use super::{Arg, Kind, Part, arg, now, part};

const GROUP: &str = "budgets";

fn budget(name: &'static str, kind: &'static [(&'static str, &'static str)], doc: &'static str) -> Part {
    part(GROUP, name, doc).set("budget", "retry.budget", kind)
}

fn calls() -> Arg {
    arg("calls", Kind::Whole(0, 32))
}

fn cost() -> Arg {
    arg("cost", Kind::Whole(0, 16))
}

const BALANCE: &str = "Whole retries that could be taken now.";
const CALL: &str = "Counts one call, however many attempts it makes.";

pub fn parts() -> Vec<Part> {
    vec![earned_budget(), retry_budget(), ratio_budget(), share_budget(), token_budget(), retry_quota()]
}

fn earned_budget() -> Part {
    budget(
            "EarnedBudget",
            &[("kind", "earned")],
            "The default budget of a policy: each call that ends with an answer earns a part of a retry.

            Keeps at most what the calls of the last 14 s could earn, and at least 4 or `start` (`docs/spec.md`, 2.20).
            It bounds attempts ≤ (1 + ratio)·calls + start: there is no floor per second, so a server that is down is
            asked less and less.",
        )
        .setting("ratio", "What a call that ends with an answer earns, in retries; 0.18 where absent.", false)
        .setting("start", "Retries that a new budget has; 2 where absent.", false)
        .examples(
            ">>> budget = EarnedBudget(ratio=0.25, start=1)
>>> budget.try_withdraw(now=0.0), budget.try_withdraw(now=0.0)
(True, False)
>>> for _ in range(4):
...     budget.on_call(now=1.0)
...     budget.on_answer(now=1.0)
>>> budget.balance(now=1.0)
1",
            "val budget = EarnedBudget { ratio = 0.25; start = 1 }
List(2) { budget.tryWithdraw(now = Duration.ZERO) } // true, false
repeat(4) {
    budget.onCall(now = 1.seconds)
    budget.onAnswer(now = 1.seconds)
}
budget.balance(now = 1.seconds) // 1",
            "",
        )
        .does(
            "on_call",
            &[now()],
            Nothing,
            "Counts one call, which has started, however many attempts it makes.",
        )
        .does(
            "on_answer",
            &[now()],
            Nothing,
            "A call has ended with an answer, good or permanent; at most once per call.",
        )
        .does("try_withdraw", &[now()], Flag, "Takes one retry, if there is one to take.")
        .does("refund", &[now()], Nothing, "Gives back a retry that was withdrawn and never started.")
        .does("balance", &[now()], U64, BALANCE)
}

fn retry_budget() -> Part {
    budget(
            "RetryBudget",
            &[("kind", "window")],
            "A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).

            Every call deposits, every retry withdraws; refused when withdrawn ≥ round(deposits·percent_can_retry) +
            floor(min_retries_per_sec·ttl). Ten slices: an entry counts for 0.9 to 1 `ttl`; memory is constant. It
            bounds attempts ≤ (1 + percent)·calls + min_retries_per_sec·(seconds + 1.1·ttl) (`docs/spec.md`, 2.10).",
        )
        .may("ttl min_retries_per_sec percent_can_retry rounding")
        .examples(
            ">>> budget = RetryBudget(ttl=10.0, min_retries_per_sec=0, percent_can_retry=0.2)
>>> for _ in range(10):
...     budget.deposit(now=0.0)
>>> [budget.try_withdraw(now=1.0) for _ in range(3)]
[True, True, False]
>>> budget.balance(now=1.0)
0",
            "val budget = RetryBudget { ttl = 10.seconds; minRetriesPerSec = 0.0; percentCanRetry = 0.2 }
repeat(10) { budget.deposit(now = Duration.ZERO) }
List(3) { budget.tryWithdraw(now = 1.seconds) } // true, true, false",
            "",
        )
        .does("deposit", &[now()], Nothing, CALL)
        .does("try_withdraw", &[now()], Flag, "Takes one retry, if there is one to take.")
        .does(
            "refund",
            &[arg("withdrawn", Kind::Moment), now()],
            Nothing,
            "Gives back a retry withdrawn at the moment `withdrawn` that was never started.",
        )
        .does("balance", &[now()], U64, "Retries that could be taken now.")
}

fn ratio_budget() -> Part {
    budget(
        "RatioBudget",
        &[("kind", "ratio")],
        "Each call earns a part of a retry, up to max(1, `min_throughput`·`ratio`); no clock.

            In whole micro-tokens: with 0.1 the first retry is earned by call 10. It bounds attempts ≤ (1 +
            ratio)·calls + min_throughput·(max_attempts − 1) (`docs/spec.md`, 2.11).",
    )
    .needs("ratio", "What a call earns, in retries.")
    .setting("min_throughput", "Retries are free until this many calls have been made.", false)
    .examples(
        ">>> budget = RatioBudget(ratio=0.5)
>>> budget.on_call(), budget.try_withdraw()
(None, False)
>>> budget.on_call(), budget.try_withdraw()
(None, True)",
        "val budget = RatioBudget { ratio = 0.1; minThroughput = 0 }
repeat(10) { budget.onCall() }
List(2) { budget.tryWithdraw() } // true, false",
        "",
    )
    .does("on_call", &[], Nothing, CALL)
    .does("try_withdraw", &[], Flag, "Takes one retry, if it is free or there is one to take.")
    .does(
        "refund",
        &[],
        Nothing,
        "Gives back a retry that was paid for and never started; not one that was free.",
    )
    .has("is_free", Flag, "Would a retry be free now, because there have been few calls?")
    .has("balance", U64, BALANCE)
}

fn share_budget() -> Part {
    budget(
        "ShareBudget",
        &[("kind", "share")],
        "Retries in flight ≤ max(`min_retries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).

            A retry that waits in its backoff is in flight: a thousand simultaneous failures must not all pass
            (`docs/spec.md`, 2.12).",
    )
    .setting("share", "Retries in flight per call in flight.", false)
    .setting("min_retries", "Retries in flight that are always allowed.", false)
    .examples(
        ">>> budget = ShareBudget(share=0.2, min_retries=1)
>>> [budget.try_acquire(calls=10) for _ in range(3)]
[True, True, False]
>>> budget.on_end()
>>> budget.in_flight
1",
        "val budget = ShareBudget { share = 0.2; minRetries = 0 }
budget.tryAcquire(calls = 10) // true
budget.onEnd()",
        "",
    )
    .does("try_acquire", &[calls()], Flag, "Takes one retry, while `calls` are in flight (0 to {u32}).")
    .does("on_end", &[], Nothing, "A retry that was taken has ended, or will not start.")
    .core("on_end true")
    .does("balance", &[calls()], U64, "Retries that could be taken now, while `calls` are in flight.")
    .has("in_flight", U32, "Retries in flight.")
}

fn token_budget() -> Part {
    budget(
            "TokenBudget",
            &[("kind", "tokens")],
            "Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).

            Starts full and stays within 0 and `max`; a retry is allowed above half of `max` (`docs/spec.md`, 2.13).",
        )
        .needs("max", "Tokens when full.")
        .needs("ratio", "What a success gives back.")
        .examples(
            ">>> budget = TokenBudget(max=4, ratio=0.1)
>>> budget.on_failure(), budget.allows
(None, True)
>>> budget.on_failure(), budget.allows
(None, False)",
            "val budget = TokenBudget { max = 10; ratio = 0.1 }
repeat(5) { budget.onFailure() }
budget.allows // false",
            "",
        )
        .does("on_failure", &[], Nothing, "A retryable failure, first attempts included.")
        .does("on_success", &[], Nothing, "A success.")
        .has("allows", Flag, "May there be a retry now?")
        .has("balance", U64, "Failures until retries are refused.")
}

fn retry_quota() -> Part {
    budget(
            "RetryQuota",
            &[("kind", "quota")],
            "Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).

            Starts full. A success refunds the cost of the call's last retry only; one at the first try gives 1
            (`docs/spec.md`, 2.14).",
        )
        .setting("capacity", "Tokens when full.", false)
        .setting("cost", "What a retry costs.", false)
        .setting("timeout_cost", "What a retry after an attempt timeout costs.", false)
        .setting("throttled_cost", "What a retry after a throttled outcome costs.", false)
        .examples(
            ">>> quota = RetryQuota(capacity=12)
>>> quota.try_acquire(), quota.try_acquire(\"timeout\"), quota.available
(5, None, 7)
>>> quota.on_success(cost=5)
>>> quota.available
12",
            "val quota = RetryQuota { capacity = 14; cost = 14 }
val cost = quota.tryAcquire() // 14
quota.tryAcquire() // null",
            "",
        )
        .does(
            "try_acquire",
            &[arg("kind", Kind::PaidFor).or("transient")],
            Cost,
            "Pays for a retry after a failure of this kind: the cost, or {none} where there is not enough.",
        )
        .swift("-")
        .does(
            "on_success",
            &[cost().or("0")],
            Nothing,
            "A call has succeeded, whose last retry cost `cost`: 0 if there was none.",
        )
        .does(
            "refund",
            &[cost()],
            Nothing,
            "Gives a charge back, 0 to 65,535, of a retry that was never started.",
        )
        .swift("refund(_ cost)")
        .has("available", U32, "Tokens left.")
}
