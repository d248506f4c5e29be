//! Reservations that are scaled by what attempts have used (semantics 3.9).

use crate::host::{Host, at, of, verdict};
use crate::metered::*;
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{Action, CallId, Class, Duration, Event, Options, Policy, Request, Value, Verdict};

const HALF: (&str, Value<'static>) = ("rate_limit.estimate_quantile", Number(0.5));
/// So much at once that no test waits.
const PLENTY: (&str, Value<'static>) =
    ("rate_limit.limits", Text("tpm: permits=9000000 per=1m burst=9000000 weight=tokens default=7"));
const SMALL: (&str, Value<'static>) =
    ("rate_limit.limits", Text("rps: permits=10000 per=1s burst=10000 weight=tokens"));

/// What a new call reserves; it is cancelled at once and teaches nothing.
fn reserves(host: &mut Host, named: u64, micros: u64) -> u64 {
    let name = host.engine.snapshot(at(micros)).routes[0].limits[0].name.clone();
    let before = limit(host, &name, micros).reserved;
    let (call, step) = begin(host, named, micros);
    assert!(matches!(step.action(), Action::Attempt { .. }), "{step:?}");
    let reserved = limit(host, &name, micros).reserved - before;
    let _ = finish(host, call, 1, Class::NeverSent, micros);
    reserved
}

/// Calls that name 1,000 and settle this.
fn used(host: &mut Host, calls: usize, total: u64, micros: u64) {
    for _ in 0..calls {
        let call = start(host, 1_000, micros);
        assert!(settle(host, call, 1, total, micros));
        let _ = finish(host, call, 1, Class::Ok, micros);
    }
}

/// Semantics 3.9.2 and 3.9.3.
#[test]
fn from_twenty_totals_on_a_call_reserves_what_calls_like_it_have_used() {
    let huge = Text("tpm: permits=9000000000 per=1m burst=9000000000 weight=tokens");
    let mut host = host(&[("rate_limit.limits", huge), HALF]);
    assert_eq!(reserves(&mut host, 1_000, 0), 1_000);
    used(&mut host, 19, 100, 0);
    assert_eq!(reserves(&mut host, 1_000, 0), 1_000, "nineteen are too few");
    used(&mut host, 1, 100, 0);
    assert_eq!(reserves(&mut host, 1_000, 0), 102, "26/256 is the first step from a tenth on");
    assert_eq!((reserves(&mut host, 10, 0), reserves(&mut host, 0, 0)), (2, 0), "rounded up");
    // A window later nothing else is remembered.
    used(&mut host, 512, 90_000, 1);
    assert_eq!(reserves(&mut host, 1_000, 60_000_000), 16_000, "at most sixteen times");
    used(&mut host, 512, 0, 120_000_000);
    assert_eq!(reserves(&mut host, 1_000, 180_000_000), 63, "at least a sixteenth");
    let mut plain = self::host(&[PLENTY]);
    used(&mut plain, 40, 100, 0);
    assert_eq!(reserves(&mut plain, 1_000, 0), 1_000, "off by default");
}

/// Semantics 3.9.2: what has no total, or named nothing, teaches nothing.
#[test]
fn only_totals_teach() {
    let mut host = host(&[PLENTY, HALF]);
    for _ in 0..40 {
        let call = start(&mut host, 1_000, 0);
        let _ = finish(&mut host, call, 1, Class::Ok, 0);
        let call = start(&mut host, 0, 0);
        assert!(settle(&mut host, call, 1, 50, 0));
        let _ = finish(&mut host, call, 1, Class::Ok, 0);
    }
    assert_eq!(reserves(&mut host, 1_000, 0), 1_000);
}

/// Semantics 3.9.4 and 3.9.5.
#[test]
fn a_scaled_amount_fits_the_burst_and_the_named_one_decides_what_is_too_much() {
    let mut host = host(&[SMALL, HALF]);
    for second in 0..20 {
        used(&mut host, 1, 5_000, second * 1_000_000);
    }
    let late = 100_000_000;
    assert_eq!(reserves(&mut host, 1_000, late), 5_000);
    assert_eq!(reserves(&mut host, 4_000, late), 10_000, "two and a half times");
    assert_eq!(reserves(&mut host, 10_000, late), 10_000);
    let (_, step) = begin(&mut host, 10_001, late);
    assert_eq!(verdict(step), Verdict::CostAboveBurst);
}

/// Semantics 3.9.5: retries and hedges reserve what the first attempt did, whatever has been learned meanwhile.
#[test]
fn all_attempts_of_a_call_reserve_the_same_and_each_settles_once() {
    let pairs = [
        ("retry.max_attempts", Number(3.0)),
        ("retry.backoff.base", Number(1.0)),
        ("retry.budget.kind", Text("none")),
    ];
    let hedge = [("hedge.delay", Number(1_000.0)), ("hedge.budget.kind", Text("none"))];
    let mut host = host(&[&[PLENTY, HALF], &pairs[..], &hedge[..]].concat());
    let full = tokens(&host, 0);
    let call = start(&mut host, 1_000, 0);
    used(&mut host, 20, 500, 0);
    let before = limit(&host, "tpm", 1_000).reserved;
    let step = host.engine.on(call, Event::Timer, at(1_000));
    assert!(matches!(step.action(), Action::Attempt { attempt: 2, hedge: true }), "{step:?}");
    assert_eq!(limit(&host, "tpm", 1_000).reserved - before, 1_000);
    assert!(settle(&mut host, call, 1, 300, 1_000) && settle(&mut host, call, 2, 400, 1_000));
    let _ = finish(&mut host, call, 1, Class::Ok, 1_000);
    let _ = finish(&mut host, call, 2, Class::Cancelled, 1_000);
    assert!(!settle(&mut host, call, 2, 900, 1_000));
    let flowed = 150;
    assert_eq!(tokens(&host, 1_000), full - 20 * 500 - 300 - 400 + flowed);
    let scaled = start(&mut host, 1_000, 2_000);
    assert!(settle(&mut host, scaled, 1, 2_000, 2_000));
    let _ = finish(&mut host, scaled, 1, Class::Ok, 2_000);
    assert_eq!(
        tokens(&host, 2_000),
        full - 20 * 500 - 300 - 400 - 2_000 + 2 * flowed,
        "an under-estimate is charged"
    );
}

/// Semantics 3.9.6.
#[test]
fn an_estimate_survives_retunes_and_restarts_of_the_same_quantile() {
    let mut host = host(&[PLENTY, HALF]);
    used(&mut host, 30, 250, 0);
    let saved = host.engine.save(at(0));
    let pairs = |quantile| [PLENTY, ("rate_limit.estimate_quantile", Number(quantile))];
    for (quantile, expected) in [(0.5, 250), (0.9, 1_000)] {
        let mut again = self::host(&pairs(quantile));
        again.engine.restore(&saved, Duration::ZERO, at(0)).unwrap();
        again.route = again.engine.route(again.policy, "r", at(0));
        assert_eq!(reserves(&mut again, 1_000, 0), expected);
    }
    let mut without = self::host(&[PLENTY]);
    let restored = without.engine.restore(&saved, Duration::ZERO, at(0)).unwrap();
    assert_eq!(restored.dropped.len(), 1);
    let wider = ("rate_limit.limits", Text("tpm: permits=8000000 per=1m weight=tokens"));
    let retune = |host: &mut Host, pairs: &[(&str, Value<'_>)]| {
        host.engine.retune(host.policy, Policy::from_pairs("p", pairs).unwrap(), at(0)).unwrap();
        host.engine.check().unwrap();
    };
    retune(&mut host, &[wider, HALF]);
    assert_eq!(reserves(&mut host, 1_000, 0), 250);
    let call = start(&mut host, 1_000, 0);
    retune(&mut host, &[wider]);
    assert!(settle(&mut host, call, 1, 0, 0));
    let before = tokens(&host, 0);
    let _ = finish(&mut host, call, 1, Class::Ok, 0);
    assert_eq!(tokens(&host, 0) - before, 250, "what it had reserved comes back, not what it named");
    assert_eq!(reserves(&mut host, 1_000, 0), 1_000);
}

/// Semantics 3.9.1.
#[test]
fn a_quantile_needs_a_weight() {
    assert_eq!(
        mistakes(&[RPM, HALF]),
        [
            "rate_limit.estimate_quantile = 0.5: needs a limit of rate_limit.limits with a weight, because only weights settle"
        ]
    );
    assert!(mistakes(&[HALF]).concat().contains("rate_limit.estimate_quantile"));
    assert!(mistakes(&[TPM, ("rate_limit.estimate_quantile", Number(1.0))]).concat().contains("0.999"));
}

/// An attempt of the property below.
struct Made {
    call: CallId,
    started: usize,
    ended: usize,
    reserved: u64,
    used: u64,
}

proptest! {
    /// Semantics 3.9.7: the bound of 3.6.10 holds with what was reserved, however wrong what is learned.
    #[test]
    fn usage_stays_within_the_bound_whatever_was_learned(
        permits in 1u64..200, burst in 20u64..200, max_debt in 0u64..300, quantile in 0.001f64..0.999,
        ops in prop::collection::vec((0u64..1_000_000, 0u8..8, 0u64..400, any::<prop::sample::Index>()), 1..200),
    ) {
        let text = format!("t: permits={permits} per=1s burst={burst} weight=tokens max_debt={max_debt}");
        let pairs = [("rate_limit.limits", Text(&text)), ("rate_limit.estimate_quantile", Number(quantile))];
        let mut host = Host::with(&pairs, Options::default().weights(true));
        let (mut now, mut made, mut after) = (0, Vec::<Made>::new(), Vec::<(u64, i64, u64)>::new());
        for (number, (gap, op, amount, which)) in ops.into_iter().enumerate() {
            now += gap;
            let open: Vec<_> = (0..made.len()).filter(|at| made[*at].ended == usize::MAX).collect();
            if op < 4 || open.is_empty() {
                let before = limit(&host, "t", now).reserved;
                let (call, step) = begin(&mut host, amount % 20, now);
                if let Action::Attempt { .. } = step.action() {
                    let reserved = limit(&host, "t", now).reserved - before;
                    prop_assert!(reserved <= burst);
                    made.push(Made { call, started: number, ended: usize::MAX, reserved, used: 0 });
                }
            } else {
                let it = &mut made[open[which.index(open.len())]];
                let before = limit(&host, "t", now).settled;
                if op < 7 {
                    prop_assert!(settle(&mut host, it.call, 1, amount, now));
                }
                let _ = finish(&mut host, it.call, 1, Class::Ok, now);
                (it.used, it.ended) = (limit(&host, "t", now).settled - before, number);
            }
            let view = limit(&host, "t", now);
            after.push((now, view.tokens, view.forgiven));
        }
        let count = after.len();
        for it in made.iter_mut().filter(|it| it.ended == usize::MAX) {
            let before = limit(&host, "t", now).settled;
            let _ = host.finish(it.call, 1, of(Class::Ok), now);
            (it.used, it.ended) = (limit(&host, "t", now).settled - before, count);
        }
        for from in 0..count {
            for to in from..count {
                let (mut used, mut over, mut under) = (0, 0, 0);
                for it in &made {
                    used += if (from..=to).contains(&it.started) { it.used } else { 0 };
                    over += if it.started < from && it.ended >= from { it.reserved.saturating_sub(it.used) } else { 0 };
                    under += if it.started <= to && it.ended > to { it.used.saturating_sub(it.reserved) } else { 0 };
                }
                let forgiven = after[to].2 - if from == 0 { 0 } else { after[from - 1].2 };
                let debt = (-after[to].1).max(0).cast_unsigned();
                let flowed = (u128::from(after[to].0 - after[from].0) * u128::from(permits)).div_ceil(1_000_000) as u64;
                prop_assert!(used <= flowed + burst + over + under + debt + forgiven, "{from}..={to}: {used} used");
            }
        }
    }
}

/// Semantics 3.9.5: a call that names no amount is scaled as one that names the default.
#[test]
fn a_default_is_scaled_too() {
    let mut host = host(&[PLENTY, HALF]);
    used(&mut host, 20, 2_000, 0);
    let before = limit(&host, "tpm", 0).reserved;
    let _ = host.engine.begin(host.route, &Request::default(), at(0));
    assert_eq!(limit(&host, "tpm", 0).reserved - before, 14);
}

/// Semantics 3.9.6: an estimate is that of one weight, also where a set is removed while calls wait for it, and returns
/// with other weights.
#[test]
fn another_weight_does_not_inherit_an_estimate() {
    let tokens = ("rate_limit.limits", Text("tpm: permits=100000 per=1m burst=100000 weight=tokens"));
    let mut host = host(&[&[tokens, HALF], &WAIT[..]].concat());
    used(&mut host, 20, 100, 0);
    // Calls that name the whole burst reserve a tenth of it, so some of twenty wait.
    let begun: Vec<_> = (0..20).map(|_| begin(&mut host, 100_000, 0)).collect();
    let waits = begun.iter().filter(|(_, step)| matches!(step.action(), Action::Wait { .. })).count();
    assert!(waits > 0, "{begun:?}");
    let chars = ("rate_limit.limits", Text("cpm: permits=1 per=1h burst=100000 weight=chars"));
    for pairs in [&[("deadline", Number(9e6))][..], &[chars, HALF]] {
        let _ = host.engine.retune(host.policy, Policy::from_pairs("p", pairs).unwrap(), at(0)).unwrap();
        host.engine.check().unwrap();
    }
    for (call, _) in begun {
        let _ = host.engine.on(call, Event::Cancel, at(0));
        host.engine.check().unwrap();
    }
    let before = limit(&host, "cpm", 0).reserved;
    let weights = host.engine.weights(host.route, [("chars", 1_000)]).unwrap();
    let _ = host.engine.begin_weighted(host.route, &Request::default(), weights, at(0));
    assert_eq!(limit(&host, "cpm", 0).reserved - before, 1_000);
}
