//! What attempts reserve and settle (semantics 3.6).

use crate::host::{SECOND, at, of, verdict};
use crate::metered::*;
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Policy, Request, Value, Verdict, Wait,
};

/// Semantics 3.6.2, 3.6.3 and 3.6.5.
#[test]
fn what_exceeds_the_reservation_is_charged_at_once_and_the_rest_comes_back_at_the_end() {
    let mut host = host(&[TPM]);
    let call = start(&mut host, 4_000, 0);
    assert_eq!(tokens(&host, 0), 6_000);
    assert!(settle(&mut host, call, 1, 3_000, 0));
    assert_eq!(tokens(&host, 0), 6_000, "less than reserved: it comes back at the end");
    assert!(settle(&mut host, call, 1, 5_000, 0));
    assert_eq!(tokens(&host, 0), 5_000);
    assert!(settle(&mut host, call, 1, 4_500, 0), "a lower total than before is ignored");
    let _ = finish(&mut host, call, 1, Class::Ok, 0);
    assert_eq!(tokens(&host, 0), 5_000);
    let call = start(&mut host, 5_000, 0);
    assert!(settle(&mut host, call, 1, 1_200, 0));
    let _ = finish(&mut host, call, 1, Class::Ok, 0);
    assert_eq!(tokens(&host, 0), 3_800);
    let call = start(&mut host, 3_800, 0);
    assert!(settle(&mut host, call, 1, 5_000, 0));
    assert_eq!(tokens(&host, 0), -1_200, "a debt: later calls wait");
    assert_eq!(verdict(begin(&mut host, 1, 1_200_000).1), Verdict::RateLimited);
    start(&mut host, 1, 1_201_000);
    let view = limit(&host, "tpm", 1_201_000);
    assert_eq!((view.reserved, view.settled, view.forgiven), (12_801, 6_200, 0));
}

/// Semantics 3.6.3: what comes back goes to the waiters in the same step.
#[test]
fn what_comes_back_wakes_the_waiters_that_can_have_it() {
    let mut host = host(&[&[TPM], &WAIT[..]].concat());
    let call = start(&mut host, 10_000, 0);
    let (waiter, _) = begin(&mut host, 9_000, 0);
    assert!(settle(&mut host, call, 1, 500, 0));
    let step = finish(&mut host, call, 1, Class::Ok, 0);
    assert!(step.flags().wakes);
    assert_eq!(host.wakes(), [waiter]);
    assert_eq!(host.poll(waiter, 0).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(tokens(&host, 0), 500);
}

/// Semantics 3.6.3: a refund that is too small for the head makes its turn earlier, so it looks again.
#[test]
fn a_refund_wakes_a_head_that_must_still_wait() {
    let mut host = host(&[&[TPM], &WAIT[..]].concat());
    let call = start(&mut host, 10_000, 0);
    let (head, step) = begin(&mut host, 9_000, 0);
    assert_eq!(
        step.next(),
        Some(Duration::from_secs(1)),
        "9 s from now, but a parked call looks once a second"
    );
    let (_, _) = begin(&mut host, 1, 0);
    assert!(settle(&mut host, call, 1, 1_500, 0));
    let step = finish(&mut host, call, 1, Class::Ok, 0);
    assert!(step.flags().wakes);
    assert_eq!(host.wakes(), [head], "8,500 tokens are there, and the rest flows in within half a second");
    assert_eq!(host.poll(head, 0).next(), Some(Duration::from_millis(500)));
    assert_eq!(host.poll(head, 500_000).action(), Action::Attempt { attempt: 1, hedge: false });
}

/// Semantics 3.6.4.
#[test]
fn an_attempt_without_a_total_counts_its_reservation_unless_it_was_not_served() {
    for (class, zero, left) in [
        (Class::Ok, false, 6_000),
        (Class::Ok, true, 10_000),
        (Class::Timeout, false, 6_000),
        (Class::Transient, false, 6_000),
        (Class::Transient, true, 10_000),
        (Class::NeverSent, false, 10_000),
        (Class::Throttled, false, 10_000),
        (Class::Conflict, false, 10_000),
        (Class::Permanent, false, 10_000),
    ] {
        let unknown = ("rate_limit.settle_unknown", Text(if zero { "zero" } else { "reservation" }));
        let mut host = host(&[TPM, unknown]);
        let call = start(&mut host, 4_000, 0);
        let _ = finish(&mut host, call, 1, class, 0);
        assert_eq!(tokens(&host, 0), left, "{class:?} {zero}");
    }
}

/// Semantics 3.6.4: where no attempt started, all comes back; and 3.6.9: of weights only.
#[test]
fn a_call_refused_after_its_tokens_gives_its_weights_back_but_not_its_counts() {
    let mut host =
        host(&[RPM, TPM, ("bulkhead.max_concurrency", Number(1.0)), ("bulkhead.max_queue", Number(0.0))]);
    start(&mut host, 1_000, 0);
    assert_eq!(verdict(begin(&mut host, 2_000, 0).1), Verdict::QueueFull);
    assert_eq!((limit(&host, "rpm", 0).tokens, tokens(&host, 0)), (1, 9_000));
}

/// Semantics 3.6.4 and 3.6.7: a waiter that was granted its tokens and gives up before it starts gives them back.
#[test]
fn a_granted_waiter_that_gives_up_gives_its_weights_back_once() {
    let mut host = host(&[&[TPM], &WAIT[..]].concat());
    start(&mut host, 10_000, 0);
    let (waiter, _) = begin(&mut host, 1_000, 0);
    let (next, _) = begin(&mut host, 1_000, 0);
    assert!(matches!(host.poll(next, SECOND).action(), Action::Wait { .. }));
    assert_eq!(host.wakes(), [waiter]);
    assert_eq!(verdict(host.engine.on(waiter, Event::Cancel, at(SECOND))), Verdict::Cancelled);
    host.engine.check().unwrap();
    assert_eq!(host.wakes(), [next], "its tokens go to the next waiter");
    assert_eq!(host.poll(next, SECOND).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(tokens(&host, SECOND), 0);
}

/// Semantics 3.6.6.
#[test]
fn the_largest_debt_bounds_what_is_owed_and_the_rest_is_forgiven() {
    for (max_debt, level, forgiven) in
        [("", -10_000, 5_000), (" max_debt=3000", -3_000, 12_000), (" max_debt=none", 0, 15_000)]
    {
        let text = format!("tpm: permits=60000 per=1m burst=10000 weight=tokens{max_debt}");
        let mut host = host(&[("rate_limit.limits", Text(&text))]);
        let call = start(&mut host, 10_000, 0);
        assert!(settle(&mut host, call, 1, 25_000, 0));
        assert_eq!((tokens(&host, 0), limit(&host, "tpm", 0).forgiven), (level, forgiven), "{max_debt}");
        let _ = finish(&mut host, call, 1, Class::Ok, 0);
        assert_eq!(tokens(&host, 0), level, "the end charges nothing a second time");
        let paid = 1_000 * (1 - level) as u64;
        assert_eq!(verdict(begin(&mut host, 1, paid - 1).1), Verdict::RateLimited);
        start(&mut host, 1, paid);
    }
}

/// Semantics 3.6.7.
#[test]
fn each_reservation_settles_once_and_later_settlements_are_refused_and_counted() {
    let mut host = host(&[TPM]);
    let call = start(&mut host, 4_000, 0);
    assert!(settle(&mut host, call, 1, 1_000, 0));
    assert!(!settle(&mut host, call, 2, 1_000, 0), "no such attempt");
    assert!(!host.engine.settle_weight(call, 1, "input", 1, at(0)), "no such weight");
    let _ = finish(&mut host, call, 1, Class::Ok, 0);
    assert_eq!(tokens(&host, 0), 9_000);
    assert!(!settle(&mut host, call, 1, 9_000, 0));
    let _ = finish(&mut host, call, 1, Class::Ok, 0);
    assert_eq!((tokens(&host, 0), host.engine.snapshot(at(0)).late_settlements), (9_000, 3));
}

/// Semantics 3.5.5 and 3.6.7: retries reserve what the first attempt did; a stopped one settles when it is given up.
#[test]
fn a_retry_reserves_again_and_a_timed_out_attempt_keeps_its_reservation() {
    for (abortable, late) in [(true, false), (false, true)] {
        let mut host = host(&[
            TPM,
            ("retry.max_attempts", Number(2.0)),
            ("retry.backoff.base", Number(0.0)),
            ("retry.budget.kind", Text("none")),
            ("attempt_timeout", Number(1e6)),
        ]);
        let weights = host.engine.weights(host.route, [("tokens", 2_000)]).unwrap();
        let request = Request { abortable, ..Request::default() };
        let (call, _) = host.engine.begin_weighted(host.route, &request, weights, at(0));
        assert_eq!(tokens(&host, 0), 8_000);
        let step = host.poll(call, SECOND);
        assert_eq!(step.stop(), 1);
        assert_eq!(host.poll(call, SECOND).action(), Action::Attempt { attempt: 2, hedge: false });
        assert_eq!(tokens(&host, SECOND), 7_000, "9,000 there, and 2,000 reserved again");
        assert_eq!(settle(&mut host, call, 1, 2_500, SECOND), late, "{abortable}");
        let _ = finish(&mut host, call, 1, Class::Cancelled, SECOND);
        assert_eq!(tokens(&host, SECOND), if late { 6_500 } else { 7_000 });
        assert!(settle(&mut host, call, 2, 0, SECOND));
        let _ = finish(&mut host, call, 2, Class::Ok, SECOND);
        assert_eq!(tokens(&host, SECOND), if late { 8_500 } else { 9_000 });
    }
}

/// Semantics 3.5.5 and 3.6.7: a hedge reserves too, and the loser settles.
#[test]
fn hedges_reserve_like_attempts_and_losers_settle_once() {
    let hedge = [("hedge.delay", Number(10e3)), ("hedge.budget.kind", Text("none"))];
    let mut host = host(&[&[TPM], &hedge[..]].concat());
    let call = start(&mut host, 3_000, 0);
    assert_eq!(host.poll(call, 10_000).action(), Action::Attempt { attempt: 2, hedge: true });
    assert_eq!(tokens(&host, 10_000), 4_010);
    assert!(settle(&mut host, call, 1, 100, 10_000) && settle(&mut host, call, 2, 200, 10_000));
    let step = finish(&mut host, call, 2, Class::Ok, 10_000);
    assert_eq!((verdict(step), step.stop()), (Verdict::Ok, 1));
    assert_eq!(tokens(&host, 10_000), 9_710, "100 and 200 tokens were used, ten have flowed in");
    assert!(!settle(&mut host, call, 1, 3_000, 10_000));
    // Without tokens for it, no hedge starts.
    let call = start(&mut host, 6_000, 10_000);
    assert!(matches!(host.poll(call, 20_000).action(), Action::Wait { why: Wait::Running }));
}

/// Semantics 3.6.7: a body's attempt settles when the body has been read.
#[test]
fn the_usage_at_the_end_of_a_body_counts() {
    let mut host = host(&[TPM]);
    let weights = host.engine.weights(host.route, [("tokens", 5_000)]).unwrap();
    let request = Request { slot_until_body: true, ..Request::default() };
    let (call, _) = host.engine.begin_weighted(host.route, &request, weights, at(0));
    let step = host.engine.on(call, Event::Headers { attempt: 1 }, at(0));
    assert_eq!(step.action(), Action::Wait { why: Wait::Body });
    assert!(settle(&mut host, call, 1, 700, 0));
    assert_eq!(verdict(finish(&mut host, call, 1, Class::Ok, 0)), Verdict::Ok);
    assert_eq!(tokens(&host, 0), 9_300);
}

/// Semantics 3.6.7: a call whose host is silent is given up, and its reservation with it.
#[test]
fn a_lost_call_settles_its_reservation() {
    let mut host = host(&[TPM, ("deadline", Number(1e6))]);
    let call = start(&mut host, 5_000, 0);
    assert!(settle(&mut host, call, 1, 100, 0));
    let late = 62 * SECOND;
    for _ in 0..4 {
        let _ = begin(&mut host, 0, late);
    }
    assert!(!settle(&mut host, call, 1, 200, late));
    assert_eq!(verdict(host.poll(call, late)), Verdict::Lost);
    host.engine.check().unwrap();
    assert_eq!(limit(&host, "tpm", late).settled, 100);
}

/// Semantics 3.6.8.
#[test]
fn a_restored_engine_keeps_a_debt() {
    let mut host = host(&[RPM, TPM]);
    let call = start(&mut host, 10_000, 0);
    assert!(settle(&mut host, call, 1, 15_000, 0));
    let saved = host.engine.save(at(0));
    let mut again = self::host(&[RPM, TPM]);
    again.engine.restore(&saved, tidegate::Duration::from_secs(1), at(0)).unwrap();
    assert_eq!((tokens(&again, 0), limit(&again, "rpm", 0).tokens), (-4_000, 3));
}

/// Semantics 3.6.8: a route in debt stays, one without may go and owes what is missing.
#[test]
fn a_route_in_debt_is_not_evicted() {
    let mut engine = Engine::new(1, Options::default().weights(true).max_routes(1));
    let policy = engine.policy(Policy::from_pairs("p", &[TPM]).unwrap()).unwrap();
    let mut used = |key: &str, total: u64, now: u64| {
        let route = engine.route(policy, key, at(now));
        let weights = engine.weights(route, [("tokens", 1_000)]).unwrap();
        let (call, step) = engine.begin_weighted(route, &Request::default(), weights, at(now));
        assert!(matches!(step.action(), Action::Attempt { .. }), "{key}: {step:?}");
        assert!(engine.settle_weight(call, 1, "tokens", total, at(now)));
        let _ = engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(now));
        let view = engine.snapshot(at(now));
        view.routes.iter().map(|route| (route.key.clone(), route.limits[0].tokens)).collect::<Vec<_>>()
    };
    assert_eq!(used("a", 15_000, 0), [("a".to_owned(), -5_000)]);
    let both = used("b", 0, 0);
    assert_eq!(both, [("a".to_owned(), -5_000), ("overflow".to_owned(), 10_000)]);
    let later = used("c", 0, 6 * SECOND);
    assert!(later.contains(&("c".to_owned(), 10_000)), "without a debt it gives way: {later:?}");
    let back = used("a", 1_000, 6 * SECOND);
    assert!(back.contains(&("a".to_owned(), 0)), "it owes what was missing: {back:?}");
}

/// An attempt of the property below.
#[derive(Clone, Debug)]
struct Made {
    call: CallId,
    /// Numbers of the operations at which it started and ended.
    started: usize,
    ended: usize,
    reserved: u64,
    used: u64,
}

proptest! {
    /// Semantics 3.6.10: the bound over every window, whatever was estimated; 3.4.4: nobody starves; 3.6.5: a debt is
    /// paid.
    #[test]
    fn usage_stays_within_the_bound_over_every_window(
        permits in 1u64..200, burst in 20u64..200, max_debt in 0u64..300,
        ops in prop::collection::vec((0u64..2_000_000, 0u8..8, 0u64..400, any::<prop::sample::Index>()), 1..60),
    ) {
        let text = format!("t: permits={permits} per=1s burst={burst} weight=tokens max_debt={max_debt}");
        let mut host = host(&[&[("rate_limit.limits", Text(&text))], &WAIT[..]].concat());
        let (mut now, mut made, mut waiting) = (0, Vec::<Made>::new(), Vec::<(CallId, u64)>::new());
        // After each operation: time, level, and tokens forgiven so far.
        let mut after: Vec<(u64, i64, u64)> = Vec::new();
        for (number, (gap, op, amount, which)) in ops.into_iter().enumerate() {
            now += gap;
            let open: Vec<_> = (0..made.len()).filter(|at| made[*at].ended == usize::MAX).collect();
            match op {
                0..=3 => {
                    let (call, step) = begin(&mut host, amount % (burst + 1), now);
                    match step.action() {
                        Action::Attempt { .. } => {
                            let reserved = amount % (burst + 1);
                            made.push(Made { call, started: number, ended: usize::MAX, reserved, used: reserved });
                        }
                        Action::Wait { .. } => waiting.push((call, amount % (burst + 1))),
                        Action::Done { .. } => {}
                    }
                }
                4 if !open.is_empty() => {
                    let it = &mut made[open[which.index(open.len())]];
                    prop_assert!(settle(&mut host, it.call, 1, amount, now));
                    // Without a total so far, the reservation would count.
                    it.used = if it.used == it.reserved { amount } else { it.used.max(amount) };
                }
                5..=6 if !open.is_empty() => {
                    let it = &mut made[open[which.index(open.len())]];
                    it.used = amount;
                    let before = limit(&host, "t", now).settled;
                    settle(&mut host, it.call, 1, amount, now);
                    let _ = finish(&mut host, it.call, 1, Class::Ok, now);
                    it.used = limit(&host, "t", now).settled - before;
                    it.ended = number;
                    prop_assert!(!settle(&mut host, it.call, 1, 1_000, now), "settled once");
                }
                7 if !waiting.is_empty() => {
                    let (call, _) = waiting.swap_remove(which.index(waiting.len()));
                    let _ = host.engine.on(call, Event::Cancel, at(now));
                }
                _ => {}
            }
            for call in host.wakes() {
                let Some(place) = waiting.iter().position(|it| it.0 == call) else { continue };
                match host.poll(call, now).action() {
                    Action::Attempt { .. } => {
                        let reserved = waiting.remove(place).1;
                        made.push(Made { call, started: number, ended: usize::MAX, reserved, used: reserved });
                    }
                    Action::Wait { .. } => {}
                    Action::Done { .. } => drop(waiting.remove(place)),
                }
            }
            host.engine.check().unwrap();
            let view = limit(&host, "t", now);
            after.push((now, view.tokens, view.forgiven));
        }
        // What is still out settles as it would at the end: its last total, else its reservation.
        let count = after.len();
        for it in made.iter_mut().filter(|it| it.ended == usize::MAX) {
            let before = limit(&host, "t", now).settled;
            let _ = finish(&mut host, it.call, 1, Class::Ok, now);
            it.used = limit(&host, "t", now).settled - before;
            it.ended = count;
        }
        for from in 0..count {
            for to in from..count {
                let used: u64 = made.iter().filter(|it| (from..=to).contains(&it.started)).map(|it| it.used).sum();
                let over: u64 = made
                    .iter()
                    .filter(|it| it.started < from && it.ended >= from)
                    .map(|it| it.reserved.saturating_sub(it.used))
                    .sum();
                let under: u64 = made
                    .iter()
                    .filter(|it| it.started <= to && it.ended > to)
                    .map(|it| it.used.saturating_sub(it.reserved))
                    .sum();
                let forgiven = after[to].2 - if from == 0 { 0 } else { after[from - 1].2 };
                let debt = (-after[to].1).max(0) as u64;
                let flowed = (u128::from(after[to].0 - after[from].0) * u128::from(permits)).div_ceil(1_000_000) as u64;
                let bound = flowed + burst + over + under + debt + forgiven;
                prop_assert!(used <= bound, "{from}..={to}: {used} used, bound {bound}: {made:#?} {after:?}");
            }
        }
        // Nobody starves: once nobody else comes, each waiter gets its tokens or has waited for `max_wait`.
        let mut late = now;
        while !waiting.is_empty() {
            late += 1_000_000;
            prop_assert!(late < now + 61_000_000, "a waiter is granted or refused within its longest wait");
            waiting.retain(|(call, _)| matches!(host.poll(*call, late).action(), Action::Wait { .. }));
            host.wakes();
        }
        // A debt is paid by time.
        prop_assert!(limit(&host, "t", late + 1_000_000 * (burst + max_debt + 400) / permits + 1_000_000).tokens > 0);
    }
}
