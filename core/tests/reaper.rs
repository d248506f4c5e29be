//! Rule R9: each `begin`, and each event of a call that waits, examines two slots of the arena, round robin. So calls whose
//! hosts are gone are taken back after half as many events as there are slots, and one event never takes back more than two.

use crate::host::{Host, SECOND, at, bulkhead, of, verdict};
use Value::Number;
use proptest::prelude::*;
use tidegate::{Action, CallId, Class, Criticality, Duration, Event, Request, Value, Verdict, Wait};

const DEADLINE: u64 = 10 * SECOND;
/// When a call whose host is gone may be taken back: 60 s after its deadline.
const OVERDUE: u64 = DEADLINE + 60 * SECOND;

/// A host with calls that nobody polls any more: some run, some wait for their next attempt, some are read.
fn deserted(kinds: &[u8]) -> (Host, Vec<CallId>) {
    let pairs = [
        ("deadline", Number(DEADLINE as f64)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(DEADLINE as f64 / 2.0)),
        ("retry.backoff.max", Number(DEADLINE as f64 / 2.0)),
        ("retry.backoff.jitter", Value::Text("none")),
        ("retry.budget.kind", Value::Text("none")),
    ];
    let mut host = Host::new(&pairs);
    let calls = kinds.iter().map(|kind| {
        let call = host.start(Request { slot_until_body: true, ..Request::default() }, 0);
        match kind {
            0 => {}
            1 => {
                let step = host.finish(call, 1, of(Class::Transient), 0);
                assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
            }
            _ => {
                let step = host.engine.on(call, Event::Headers { attempt: 1 }, at(0));
                assert_eq!(step.action(), Action::Wait { why: Wait::Body });
            }
        }
        call
    });
    let calls = calls.collect();
    (host, calls)
}

fn lost(host: &Host, now: u64) -> u64 {
    host.engine.snapshot(at(now)).lost.into()
}

/// Wherever the reaper's turn is: three slots, of which each newcomer examines two.
#[test]
fn a_lost_call_is_kept_for_its_host_while_a_call_within_it_is_out() {
    for shift in 0..3 {
        let mut host = Host::new(&[("deadline", Number(DEADLINE as f64))]);
        let outer = host.start(Request::default(), 0);
        let inner = host.start(Request { parent: Some(outer), ..Request::default() }, 0);
        let newcomer = |host: &mut Host, now| {
            let call = host.start(Request::default(), now);
            assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), now)), Verdict::Ok);
        };
        for _ in 0..3 + shift {
            newcomer(&mut host, OVERDUE);
        }
        assert_eq!(lost(&host, OVERDUE), 2);
        newcomer(&mut host, OVERDUE + 60 * SECOND);
        assert_eq!(verdict(host.poll(outer, OVERDUE + 60 * SECOND)), Verdict::Lost, "shift {shift}");
        assert_ne!(verdict(host.poll(inner, OVERDUE + 60 * SECOND)), Verdict::Ok);
    }
}

proptest! {
    /// The slots are those of the deserted calls and one more, which each newcomer takes and frees.
    #[test]
    fn newcomers_take_back_the_deserted_calls_two_at_a_time(kinds in prop::collection::vec(0u8..3, 1..40)) {
        let (mut host, calls) = deserted(&kinds);
        let all = kinds.len() as u64;
        let mut begun = 0;
        while lost(&host, OVERDUE) < all {
            let before = lost(&host, OVERDUE);
            let newcomer = host.start(Request::default(), OVERDUE);
            prop_assert_eq!(verdict(host.finish(newcomer, 1, of(Class::Ok), OVERDUE)), Verdict::Ok);
            prop_assert!(lost(&host, OVERDUE) - before <= 2, "one event examines two slots");
            begun += 1;
            prop_assert!(begun <= (all + 1).div_ceil(2), "{} of {all} after {begun} newcomers", before);
        }
        for call in calls {
            prop_assert_eq!(verdict(host.poll(call, OVERDUE)), Verdict::Lost);
        }
    }

    /// The same for a call that waits and looks again and again. Beside it in the arena is the call that it waits for.
    #[test]
    fn a_waiter_takes_back_the_deserted_calls_two_at_a_time(count in 1u64..40) {
        let patience = ("bulkhead.acquire_timeout", Value::Text("none"));
        let mut host = Host::new(&[&bulkhead(1.0, 1.0)[..], &[patience, ("deadline", Number(1e12))]].concat());
        let short = Some(Duration::from_micros(DEADLINE));
        for n in 0..count {
            let route = host.engine.route(host.policy, &format!("deserted {n}"), at(0));
            let (_, step) = host.engine.begin(route, &Request { remaining: short, ..Request::default() }, at(0));
            prop_assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
        }
        host.start(Request::default(), OVERDUE - 1);
        let waiter = host.park(OVERDUE - 1);
        let mut looks = 0;
        while lost(&host, OVERDUE) < count {
            let before = lost(&host, OVERDUE);
            prop_assert_eq!(host.poll(waiter, OVERDUE).action(), Action::Wait { why: Wait::Queue });
            prop_assert!(lost(&host, OVERDUE) - before <= 2, "one event examines two slots");
            looks += 1;
            prop_assert!(looks <= (count + 2).div_ceil(2), "{before} of {count} after {looks} looks");
        }
    }
}

/// R4.7, R9.5: 60 s after its refusal, however late another try makes sense.
#[test]
fn a_refused_waiter_is_taken_back_60_s_after_its_refusal() {
    let pairs = [
        ("rate_limit.limits", Value::Text("slow: permits=1 per=1h")),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(4.0 * 3_600e6)),
        ("rate_limit.max_waiters", Number(1.0)),
        ("rate_limit.prioritized", Number(1.0)),
    ];
    let mut host = Host::new(&pairs);
    let of = |criticality| Request { criticality, ..Request::default() };
    let _ = host.start(of(Criticality::Normal), 0);
    let (displaced, _) = host.begin(of(Criticality::BestEffort), 0);
    let (waiter, step) = host.begin(of(Criticality::Critical), 0);
    assert_eq!(step.action(), Action::Wait { why: Wait::Rate });
    assert_eq!(host.wakes(), [displaced]);
    for (micros, expected) in [(60 * SECOND - 1, 0), (60 * SECOND, 1)] {
        for _ in 0..3 {
            let _ = host.poll(waiter, micros);
        }
        assert_eq!(lost(&host, micros), expected);
    }
    assert_eq!(verdict(host.poll(displaced, 61 * SECOND)), Verdict::Lost);
}
