//! Sets of limits (semantics 3.4) and weights (3.5). What attempts reserve and settle is in `settlements.rs`.

use crate::host::{Host, SECOND, at, verdict};
use crate::metered::*;
use Value::{Number, Text};
use tidegate::{
    Action, Class, Engine, Event, Options, Policy, Pool, PoolKind, Request, Value, Verdict, Wait, WeightError,
};

/// Semantics 3.4.1, 3.4.8, 3.5.2 and 3.5.5.
#[test]
fn mistakes_in_a_set_name_the_limit_and_the_rule() {
    let limit = |text| mistakes(&[("rate_limit.limits", Text(text))]).concat();
    assert!(limit("tpm").ends_with(
        "must be name: permits=… per=…, perhaps with burst, weight, default, max_debt, refill and anchor"
    ));
    assert!(limit("tpm: permits=5").ends_with("needs permits and per"));
    assert!(limit("tpm: permits=5 per=5").contains("per must be a span such as"));
    assert!(
        limit("tpm: permits=9007199254740992 per=1m")
            .contains("permits must be a whole number from 1 to 9007199254740991")
    );
    assert!(
        limit("tpm: permits=5 per=1m cost=3")
            .contains("no key cost; the keys of a limit are permits, per, burst")
    );
    assert!(
        limit("tpm: permits=5 per=1m default=3")
            .ends_with("default and max_debt mean something only beside weight")
    );
    assert!(limit("tpm: permits=5 per=1m weight=t default=6").ends_with("default must be at most burst"));
    assert!(limit("Tpm: permits=5 per=1m").contains("the name of a limit has a to z, 0 to 9 and _"));
    assert!(
        Policy::from_pairs(
            "p",
            &[("rate_limit.limits", Text("t: permits=9007199254740991 per=1m weight=t"))]
        )
        .is_ok()
    );
    assert_eq!(
        mistakes(&[RPM, ("rate_limit.permits", Number(5.0)), ("rate_limit.store", Text("fleet"))]),
        [
            "rate_limit.permits = 5: belongs to one limit: put it into each of rate_limit.limits, or leave these out",
        ]
    );
    assert_eq!(
        mistakes(&[RPM, ("rate_limit.lease", Number(5.0)), ("rate_limit.store", Text("fleet"))]),
        [
            "rate_limit.lease = 5: belongs to a single rate: a process leases of each of rate_limit.limits what 50 ms bring",
        ]
    );
    assert_eq!(
        mistakes(&[
            ("rate_limit.limits", Text("t: permits=2251799813685249 per=1m weight=t")),
            ("rate_limit.store", Text("fleet"))
        ]),
        [
            "rate_limit.limits = t: 2251799813685249 must be at most 2251799813685248 where rate_limit.store is fleet",
        ]
    );
    assert_eq!(mistakes(&[RPM, RPM]), ["rate_limit.limits = rpm: is given more than once"]);
    let five: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| format!("{name}: permits=1 per=1s")).into();
    let five: Vec<_> = five.iter().map(|text| ("rate_limit.limits", Text(text))).collect();
    assert_eq!(mistakes(&five), ["rate_limit.limits = (5 limits): a set has at most 4 limits"]);
    assert_eq!(
        mistakes(&[TPM, ("rate_limit.unit", Text("call"))]),
        [
            "rate_limit.unit = call: must be attempt where a limit of rate_limit.limits has a weight, because attempts settle"
        ]
    );
    assert_eq!(
        mistakes(&[("rate_limit.settle_unknown", Text("zero"))]),
        [
            "rate_limit.permits = (absent): is required where there is a rate limit, or rate_limit.pool",
            "rate_limit.per = (absent): is required where there is a rate limit, or rate_limit.pool",
            "rate_limit.limits = (absent): is required where there is rate_limit.settle_unknown",
        ]
    );
}

/// Semantics 3.4.9.
#[test]
fn a_host_that_passes_no_weights_refuses_a_policy_that_counts_them() {
    let mut engine = Engine::new(1, Options::default());
    let clash = engine.policy(Policy::from_pairs("p", &[TPM]).unwrap()).unwrap_err();
    assert!(
        clash.to_string().contains("rate_limit.limits has a weight, which this package does not pass yet")
    );
    let pool = Pool::from_pairs("x", PoolKind::RateLimit, &[("limits", TPM.1)]).unwrap();
    assert_eq!(engine.pool(pool, at(0)).unwrap_err().name, "x");
    assert!(
        engine.policy(Policy::from_pairs("p", &[RPM]).unwrap()).is_ok(),
        "limits without weights are served"
    );
}

/// Semantics 3.4.3 and 3.4.6.
#[test]
fn a_call_takes_its_tokens_of_all_limits_or_none_and_the_refusal_names_the_last() {
    let mut host = host(&[RPM, TPM]);
    start(&mut host, 6_000, 0);
    let (refused, step) = begin(&mut host, 5_000, 0);
    assert_eq!(
        step.action(),
        Action::Done {
            verdict: Verdict::RateLimited,
            result: None,
            retry_in: Some(tidegate::Duration::from_secs(1))
        }
    );
    assert_eq!(host.engine.last_refusal().map(|it| it.limit), Some("tpm"));
    assert_eq!((limit(&host, "rpm", 0).tokens, tokens(&host, 0)), (2, 4_000), "nothing of rpm was taken");
    start(&mut host, 1, 0);
    start(&mut host, 1, 0);
    let (counted, step) = begin(&mut host, 1, 0);
    assert_eq!(
        (verdict(step), host.engine.last_refusal().map(|it| it.limit)),
        (Verdict::RateLimited, Some("rpm"))
    );
    assert_eq!(host.engine.refusal_of(counted).unwrap().to_string(), "limit rpm");
    assert_eq!(
        host.engine.refusal_of(refused).unwrap().to_string(),
        "limit tpm, 5000 tokens",
        "an earlier one"
    );
}

/// Semantics 3.4.4: one queue, and nobody passes its head.
#[test]
fn small_weights_do_not_pass_a_large_one_that_waits() {
    let mut host = host(&[&[TPM], &WAIT[..]].concat());
    let first = start(&mut host, 10_000, 0);
    let (large, step) = begin(&mut host, 10_000, 0);
    assert_eq!((step.action(), step.next().unwrap().as_micros()), (Action::Wait { why: Wait::Rate }, SECOND));
    for micros in (0..10).map(|n| n * SECOND) {
        let (small, step) = begin(&mut host, 1, micros);
        assert_eq!(step.action(), Action::Wait { why: Wait::Rate }, "at {micros}");
        assert_eq!(verdict(host.engine.on(small, Event::Cancel, at(micros))), Verdict::Cancelled);
        assert!(matches!(host.poll(large, micros).action(), Action::Wait { .. }));
    }
    let (small, _) = begin(&mut host, 1, 9_900_000);
    assert!(host.wakes().is_empty());
    assert_eq!(host.poll(large, 10 * SECOND).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(host.wakes(), [small], "the next head is woken");
    assert!(matches!(host.poll(small, 10 * SECOND).action(), Action::Wait { .. }));
    assert_eq!(host.poll(small, 10 * SECOND + 1_000).action(), Action::Attempt { attempt: 1, hedge: false });
    let _ = finish(&mut host, first, 1, Class::Ok, 11 * SECOND);
}

/// Semantics 3.4.5: a waiter's own tokens count once.
#[test]
fn a_waiter_behind_the_head_asks_when_all_that_is_queued_has_flowed_in() {
    let mut host = host(&[&[TPM], &WAIT[..]].concat());
    start(&mut host, 10_000, 0);
    let (_, head) = begin(&mut host, 100, 0);
    let (_, behind) = begin(&mut host, 200, 0);
    assert_eq!(head.next().unwrap().as_micros(), 100_000);
    assert_eq!(behind.next().unwrap().as_micros(), 300_000);
}

/// Semantics 3.4.5: behind the head a turn is an estimate, and `max_wait` bounds the true wait.
#[test]
fn a_waiter_whose_longest_wait_is_over_is_refused() {
    let mut host = host(&[&[TPM], &WAIT[..]].concat());
    let used = start(&mut host, 10_000, 0);
    let (waiter, _) = begin(&mut host, 10_000, 0);
    assert!(
        settle(&mut host, used, 1, 20_000, 0),
        "a debt of a whole burst, which moves the turn by ten seconds"
    );
    assert!(matches!(host.poll(waiter, 10 * SECOND).action(), Action::Wait { .. }));
    assert!(settle(&mut host, used, 1, 80_000, 10 * SECOND));
    for again in 1..5 {
        // What exceeds the largest debt is forgiven, so a second later a thousand more can be charged.
        settle(&mut host, used, 1, 80_000 + 20_000 * again, (10 + 10 * again) * SECOND);
        assert!(matches!(host.poll(waiter, (10 + 10 * again) * SECOND - 1).action(), Action::Wait { .. }));
    }
    let step = host.poll(waiter, 60 * SECOND);
    assert_eq!(
        (verdict(step), host.engine.last_refusal().map(|it| it.limit)),
        (Verdict::RateLimited, Some("tpm"))
    );
}

/// Semantics 3.5.1, 3.5.3 and 3.5.4.
#[test]
fn weights_have_names_defaults_and_bounds() {
    let two = ("rate_limit.limits", Text("out: permits=100 per=1m weight=output default=40"));
    let mut host = host(&[RPM, TPM, two]);
    let weights =
        |host: &Host, named: &[(&'static str, u64)]| host.engine.weights(host.route, named.iter().copied());
    assert_eq!(
        weights(&host, &[("token", 5)]).unwrap_err().to_string(),
        "weights = \"token\": no limit counts it; the weights are tokens, output"
    );
    assert_eq!(weights(&host, &[]).unwrap_err(), WeightError::Missing { name: "tokens".into() });
    assert!(
        weights(&host, &[("tokens", 1 << 53)])
            .unwrap_err()
            .to_string()
            .ends_with("must be a whole number below 2^53")
    );
    assert_eq!(
        verdict(host.begin(Request::default(), 0).1),
        Verdict::CostAboveBurst,
        "no amount and no default"
    );
    let (large, step) = begin(&mut host, 10_001, 0);
    assert_eq!(verdict(step), Verdict::CostAboveBurst);
    assert_eq!(host.engine.refusal_of(large).unwrap().to_string(), "limit tpm, 10001 tokens");
    start(&mut host, 10_000, 0);
    assert_eq!((limit(&host, "out", 0).tokens, limit(&host, "rpm", 0).tokens), (60, 2));
    let none = Host::new(&[("deadline", Number(1e6))]);
    assert!(
        weights(&none, &[("tokens", 5)])
            .unwrap_err()
            .to_string()
            .ends_with("has no weights; leave weights out")
    );
    // Without a weight, a limit counts the call's cost.
    let begun = host.engine.weights(host.route, [("tokens", 0)]).unwrap();
    let request = Request { cost: 2, ..Request::default() };
    let (_, step) = host.engine.begin_weighted(host.route, &request, begun, at(0));
    assert_eq!(
        (step.action(), limit(&host, "rpm", 0).tokens),
        (Action::Attempt { attempt: 1, hedge: false }, 0)
    );
}

/// Semantics 3.4.7 and 3.6.8.
#[test]
fn a_retune_keeps_form_weights_and_debt() {
    let mut host = host(&[RPM, TPM]);
    let call = start(&mut host, 10_000, 0);
    assert!(settle(&mut host, call, 1, 15_000, 0));
    let other = ("rate_limit.limits", Text("tpm: permits=120000 per=1m burst=10000 weight=tokens"));
    let to = Policy::from_pairs("p", &[other]).unwrap();
    host.engine.retune(host.policy, to, at(0)).unwrap();
    let (call, step) = begin(&mut host, 1, 0);
    assert_eq!((verdict(step), tokens(&host, 0)), (Verdict::RateLimited, -5_000), "{call:?}");
    assert_eq!(host.engine.snapshot(at(0)).routes[0].limits.len(), 1);
    for wrong in [&[RPM][..], &[("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(1e6))]] {
        let clash =
            host.engine.retune(host.policy, Policy::from_pairs("p", wrong).unwrap(), at(0)).unwrap_err();
        assert!(clash.rule.starts_with("retune keeps the form of a rate limit"));
    }
}

/// Semantics 3.4.2: a pool is a whole set, shared by policies and routes.
#[test]
fn a_pool_is_a_whole_set() {
    let mut engine = Engine::new(1, Options::default().weights(true));
    let pool = Pool::from_pairs("llm", PoolKind::RateLimit, &[("limits", TPM.1), ("limits", RPM.1)]).unwrap();
    engine.pool(pool, at(0)).unwrap();
    let named = ("rate_limit.pool", Text("llm"));
    let clash = engine.policy(Policy::from_pairs("p", &[named]).unwrap()).unwrap_err();
    assert_eq!(
        clash.rule,
        "rate_limit.unit must be attempt: the pool that rate_limit.pool names has weights"
    );
    let unit = ("rate_limit.unit", Text("attempt"));
    for name in ["p", "q"] {
        let policy = engine.policy(Policy::from_pairs(name, &[named, unit]).unwrap()).unwrap();
        let route = engine.route(policy, "r", at(0));
        let weights = engine.weights(route, [("tokens", 4_000)]).unwrap();
        let (_, step) = engine.begin_weighted(route, &Request::default(), weights, at(0));
        assert!(matches!(step.action(), Action::Attempt { .. }));
    }
    engine.check().unwrap();
    let view = engine.snapshot(at(0));
    let levels: Vec<_> = view.pools[0].limits.iter().map(|limit| (&*limit.name, limit.tokens)).collect();
    assert_eq!(levels, [("tpm", 2_000), ("rpm", 1)]);
}

/// Semantics 3.4 in a journal: weights and settlements are inputs.
#[test]
fn a_journal_replays_weights_and_settlements() {
    let options = Options::default().weights(true).journal(true);
    let mut host = Host::with(&[RPM, TPM], options);
    let call = start(&mut host, 4_000, 0);
    assert!(settle(&mut host, call, 1, 5_500, 10));
    let _ = finish(&mut host, call, 1, Class::Ok, 20);
    let _ = host.begin(Request::default(), 30);
    let mut inputs = Vec::new();
    host.engine.take_journal(&mut inputs);
    let lines: Vec<_> = inputs.iter().map(ToString::to_string).collect();
    assert!(
        lines.iter().any(|line| line.starts_with("weights ") && line.ends_with(" 4000 0 0 0")),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|line| line.ends_with(" 1 \"tokens\" 5500") && line.starts_with("settle 10 ")));
    let mut again = Engine::new(42, options);
    for line in &lines {
        let _ = again.apply(line.parse().unwrap());
    }
    assert_eq!(again.snapshot(at(40)), host.engine.snapshot(at(40)));
}

/// Semantics 3.5.6.
#[test]
fn explain_warns_of_a_default_above_half_a_burst() {
    let warned = |default: u32| {
        let text = format!("tpm: permits=100 per=60s weight=tokens default={default}");
        let host = host(&[("rate_limit.limits", Text(&text))]);
        let explained = host.engine.explain_policy(host.policy).unwrap();
        assert!(
            explained.to_string().contains(&format!("unit attempt, wait false, limits {text}")),
            "{explained}"
        );
        explained.warnings.iter().any(|warning| warning.contains("above half a burst"))
    };
    assert_eq!((warned(50), warned(51)), (false, true));
}
