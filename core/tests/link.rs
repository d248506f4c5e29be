//! The device's link (semantics 2.22): what waits while it is offline, and how the calls come back.

use std::collections::BTreeSet;

use crate::host::{Host, SECOND, at, of, verdict};
use Value::{Number, Text};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use tidegate::{
    Action, BreakerState, CallId, Class, Event, Input, Link, Options, Request, Step, Value, Verdict, Wait,
};

const PLAIN: [(&str, Value<'static>); 5] = [
    ("deadline", Number(60e6)),
    ("retry.max_attempts", Number(3.0)),
    ("retry.backoff.base", Number(0.0)),
    ("retry.budget.kind", Text("none")),
    ("retry.max_retry_after", Number(60e6)),
];

type Pairs<'a> = &'a [(&'a str, Value<'static>)];

fn waits(step: Step) -> u64 {
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    step.next().expect("a wait has an end").as_micros()
}

fn starts(step: Step, attempt: u8) -> bool {
    step.action() == Action::Attempt { attempt, hedge: false }
}

/// A call whose first attempt fails while the device is offline.
fn stranded(host: &mut Host, now: u64) -> CallId {
    let call = host.start(Request::default(), now);
    let wait = waits(host.finish(call, 1, of(Class::NeverSent), now));
    assert!((1..=SECOND).contains(&wait), "{wait}");
    call
}

#[test]
fn first_attempts_start_and_retries_wait_until_the_link_is_back() {
    let mut host = Host::new(&PLAIN);
    assert_eq!(host.engine.link(), Link::Ok);
    host.engine.set_link(Link::Offline, at(0));
    let call = stranded(&mut host, 0);
    let mut now = 0;
    for _ in 0..24 {
        now += waits(host.poll(call, now));
        // A poll at the same moment changes nothing (R3).
        assert_eq!(host.poll(call, now), host.poll(call, now));
    }
    assert!(now > 20 * SECOND, "{now}");
    host.engine.set_link(Link::Ok, at(now));
    let left = waits(host.poll(call, now));
    assert!(left <= SECOND);
    assert!(starts(host.poll(call, now + left), 2));
    // A metered link keeps no retry back.
    host.engine.set_link(Link::Metered, at(now + left));
    assert!(starts(host.finish(call, 2, of(Class::Transient), now + left), 3));
}

#[test]
fn calls_that_waited_come_back_spread_over_a_second() {
    let mut host = Host::new(&PLAIN);
    host.engine.set_link(Link::Offline, at(0));
    let mut timers = BTreeSet::new();
    for _ in 0..2_000 {
        let call = stranded(&mut host, 0);
        timers.insert((waits(host.poll(call, 0)), call.to_word()));
    }
    // The link is back at 3.3 s: each call comes with its own timer.
    let (mut tenths, mut back) = ([0; 10], false);
    while let Some((due, word)) = timers.pop_first() {
        let call = CallId::from_word(word);
        if due <= 3_300_000 {
            timers.insert((due + waits(host.poll(call, due)), word));
            continue;
        }
        if !back {
            host.engine.set_link(Link::Ok, at(3_300_000));
            back = true;
        }
        assert!(starts(host.poll(call, due), 2));
        tenths[((due - 3_300_001) / 100_000) as usize] += 1;
    }
    assert!(tenths.iter().all(|count| (140..=260).contains(count)), "200 in each: {tenths:?}");
}

#[test]
fn a_call_waits_for_the_link_no_longer_than_for_anything_else() {
    // Its deadline, its time limit, or as long as it would wait for a server that says when to come back.
    let cases: [(&str, Pairs<'_>, u64, Verdict); 3] = [
        ("deadline", &[("deadline", Number(5e6))], 5, Verdict::Deadline),
        ("time limit", &[("retry.retry_time_limit", Number(4e6))], 4, Verdict::TimeLimit),
        ("max_retry_after", &[("retry.max_retry_after", Number(7e6))], 7, Verdict::Offline),
    ];
    for (name, keys, seconds, wanted) in cases {
        let mut host = Host::new(&[&PLAIN[1..4], keys].concat());
        host.engine.set_link(Link::Offline, at(0));
        let call = stranded(&mut host, 0);
        let mut now = 0;
        let ended = loop {
            let step = host.poll(call, now);
            match step.action() {
                Action::Wait { .. } => now += waits(step),
                _ => break step,
            }
        };
        assert_eq!(verdict(ended), wanted, "{name}");
        assert!(matches!(ended.action(), Action::Done { result: Some(_), .. }), "{name}: with the failure");
        assert!((seconds * SECOND..=(seconds + 1) * SECOND).contains(&now), "{name}: {now}");
    }
}

#[test]
fn a_retry_that_the_link_gives_up_at_once_is_refunded() {
    // Two retries are paid, and two calls may not wait at all.
    let paid = [
        ("retry.backoff.base", Number(0.0)),
        ("retry.max_retry_after", Number(0.0)),
        ("retry.budget.kind", Text("quota")),
        ("retry.budget.capacity", Number(10.0)),
    ];
    let mut host = Host::new(&paid);
    host.engine.set_link(Link::Offline, at(0));
    for _ in 0..5 {
        let call = host.start(Request::default(), 0);
        assert_eq!(verdict(host.finish(call, 1, of(Class::Transient), 0)), Verdict::Offline);
        assert_eq!(host.engine.snapshot(at(0)).routes[0].budget, Some(2));
    }
}

#[test]
fn hedges_start_on_a_good_link_only() {
    let hedged =
        [PLAIN[0], PLAIN[1], PLAIN[2], ("hedge.delay", Number(10e3)), ("hedge.budget.kind", Text("none"))];
    for (link, hedges) in [(Link::Ok, true), (Link::Metered, false), (Link::Offline, false)] {
        let mut host = Host::new(&hedged);
        host.engine.set_link(link, at(0));
        let call = host.start(Request::default(), 0);
        let step = host.poll(call, 20_000);
        assert_eq!(step.action() == Action::Attempt { attempt: 2, hedge: true }, hedges, "{link:?}");
        // Offline it asks again within a second, and starts once the link is back.
        if link == Link::Offline {
            let next = step.next().unwrap().as_micros();
            assert!((1..=SECOND).contains(&next));
            host.engine.set_link(Link::Ok, at(20_000));
            let step = host.poll(call, 20_000 + next);
            assert_eq!(step.action(), Action::Attempt { attempt: 2, hedge: true });
        }
    }
}

#[test]
fn what_fails_offline_says_nothing_about_the_server() {
    let broken = ("breaker.break_duration", Number(1e6));
    let guarded = [("breaker.consecutive", Number(2.0)), broken, PLAIN[1], PLAIN[2], PLAIN[3]];
    for (link, state) in [(Link::Offline, BreakerState::Closed), (Link::Ok, BreakerState::Open)] {
        let mut host = Host::new(&guarded);
        host.engine.set_link(link, at(0));
        for _ in 0..5 {
            let (call, step) = host.begin(Request { idempotent: false, ..Request::default() }, 0);
            if starts(step, 1) {
                assert_eq!(verdict(host.finish(call, 1, of(Class::Transient), 0)), Verdict::Method);
            }
        }
        let breaker = host.engine.snapshot(at(0)).routes[0].breaker.unwrap();
        assert_eq!(breaker.state, state, "{link:?}");
    }
    // An answer comes from the server, whatever the device believes.
    let mut host = Host::new(&guarded);
    host.engine.set_link(Link::Offline, at(0));
    for _ in 0..2 {
        let call = host.start(Request::default(), 0);
        let _ = host.engine.on(call, Event::Cancel, at(0));
    }
    assert_eq!(host.engine.snapshot(at(0)).routes[0].breaker.unwrap().state, BreakerState::Closed);
}

#[test]
fn a_journal_has_the_links_states_as_lines() {
    let mut host = Host::with(&PLAIN, Options::default().journal(true));
    host.engine.set_link(Link::Metered, at(5));
    let mut inputs = Vec::new();
    host.engine.take_journal(&mut inputs);
    let line = inputs.last().unwrap().to_string();
    assert_eq!(line, "link 5 metered");
    assert_eq!(line.parse::<Input>().unwrap(), Input::Link { link: Link::Metered, now: at(5) });
    let error = "link 5 slow".parse::<Input>().unwrap_err();
    assert_eq!(error.to_string(), "link = slow: must be one of ok, metered, offline");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the link does, a call that keeps its timers ends by its deadline, and makes no attempt but the first
    /// while the device is offline.
    #[test]
    fn every_call_ends_and_no_retry_starts_offline(turns in proptest::collection::vec((0..3_u8, 1..4_000_000_u64), 1..12), ok in any::<bool>()) {
        let mut host = Host::new(&PLAIN);
        let call = host.start(Request::default(), 0);
        let mut changes: Vec<(u64, Link)> = Vec::new();
        for (state, after) in turns {
            let then = changes.last().map_or(0, |(at, _)| *at) + after;
            changes.push((then, Link::ALL[usize::from(state)]));
        }
        let (mut now, mut step) = (0, host.finish(call, 1, of(Class::Transient), 0));
        while !matches!(step.action(), Action::Done { .. }) {
            if let Action::Attempt { attempt, .. } = step.action() {
                prop_assert!(host.engine.link() != Link::Offline);
                let class = if ok { Class::Ok } else { Class::Transient };
                step = host.finish(call, attempt, of(class), now);
                continue;
            }
            let due = now + step.next().expect("a timer").as_micros();
            match changes.first().copied() {
                Some((then, link)) if then <= due => {
                    changes.remove(0);
                    now = now.max(then);
                    host.engine.set_link(link, at(now));
                    step = host.poll(call, now);
                }
                _ => {
                    now = due;
                    step = host.engine.on(call, Event::Timer, at(now));
                }
            }
            prop_assert!(now <= 60 * SECOND, "{now}");
        }
        prop_assert_eq!(host.engine.snapshot(at(now)).routes[0].active, 0);
    }
}
