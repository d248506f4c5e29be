//! Limits that learn from what answers say is left of the service's quotas (semantics 3.7).

use crate::host::{Host, SECOND, at, of};
use crate::metered::{RPM, TPM, WAIT, begin, finish, limit, settle, start, tokens};
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::answer::Quotas;
use tidegate::{
    Action, CallId, Class, Engine, Event, Input, Options, Policy, Pool, PoolKind, Request, Value, WallTime,
};

const LEARN: (&str, Value<'static>) = ("rate_limit.learn", Text("down"));

fn host(pairs: &[(&str, Value<'_>)]) -> Host {
    Host::with(&[pairs, &[LEARN]].concat(), Options::default().weights(true).quotas(true).journal(true))
}

fn hear(host: &mut Host, call: CallId, name: &str, left: u64, micros: u64) {
    let value = left.to_string();
    host.engine.note_quotas(call, left_by(name, &value), at(micros));
    host.engine.check().unwrap();
}

fn left_by(name: &str, value: &str) -> [Option<u64>; 4] {
    Quotas::read(&[(name.as_bytes(), value.as_bytes())], WallTime::from_unix_micros(0)).left()
}

const REQUESTS: &str = "x-ratelimit-remaining-requests";
const TOKENS: &str = "anthropic-ratelimit-tokens-remaining";

/// Semantics 3.7.1 and 3.7.2.
#[test]
fn what_is_left_lowers_the_limit_that_counts_the_same_and_never_raises_it() {
    let mut host = host(&[RPM, TPM]);
    let call = start(&mut host, 1_000, 0);
    hear(&mut host, call, TOKENS, 400, 0);
    assert_eq!((tokens(&host, 0), limit(&host, "rpm", 0).tokens), (400, 2));
    hear(&mut host, call, TOKENS, 5_000, 0);
    assert_eq!(tokens(&host, 0), 400, "more is left than the limit has");
    hear(&mut host, call, REQUESTS, 0, 0);
    assert_eq!((tokens(&host, 0), limit(&host, "rpm", 0).tokens), (400, 0));
    let view = limit(&host, "tpm", 0);
    assert_eq!((view.learned, view.reserved), (8_600, 1_000));
    // The rest of the limit's life is as before: what flows in, and what an attempt gives back.
    assert!(settle(&mut host, call, 1, 100, SECOND));
    let _ = finish(&mut host, call, 1, Class::Ok, SECOND);
    assert_eq!(tokens(&host, SECOND), 400 + 1_000 + 900);
}

/// Semantics 3.7.2: a weight's name has underscores.
#[test]
fn a_weight_learns_from_the_quota_of_its_name() {
    let limits = [
        ("rate_limit.limits", Text("input: permits=100 per=1s weight=input_tokens default=0")),
        ("rate_limit.limits", Text("cents: permits=100 per=1s weight=cents default=0")),
    ];
    let mut host = host(&limits);
    let call = host.start(tidegate::Request::default(), 0);
    hear(&mut host, call, "x-ratelimit-remaining-input-tokens", 7, 0);
    hear(&mut host, call, "x-ratelimit-remaining-output-tokens", 3, 0);
    hear(&mut host, call, REQUESTS, 2, 0);
    assert_eq!((limit(&host, "input", 0).tokens, limit(&host, "cents", 0).tokens), (7, 100));
}

/// Semantics 3.7.3.
#[test]
fn of_several_limits_of_one_quota_the_shortest_learns() {
    let limits = ["day: permits=5000 per=24h", "minute: permits=60 per=1m", "again: permits=60 per=1m"];
    let mut host = host(&limits.map(|text| ("rate_limit.limits", Text(text))));
    let call = host.start(tidegate::Request::default(), 0);
    hear(&mut host, call, REQUESTS, 10, 0);
    let left = ["day", "minute", "again"].map(|name| limit(&host, name, 0).tokens);
    assert_eq!(left, [4_999, 10, 59]);
}

/// Semantics 3.7.4.
#[test]
fn a_debt_stays_as_it_is() {
    let mut host = host(&[TPM]);
    let call = start(&mut host, 10_000, 0);
    assert!(settle(&mut host, call, 1, 12_000, 0));
    hear(&mut host, call, TOKENS, 0, 0);
    assert_eq!(tokens(&host, 0), -2_000);
    assert_eq!(limit(&host, "tpm", 0).learned, 0);
}

/// Semantics 3.7.6: what says nothing changes nothing and is not in the journal; the rest is, and replays.
#[test]
fn only_answers_that_say_something_are_inputs() {
    let mut host = host(&[RPM, TPM]);
    let call = start(&mut host, 1_000, 0);
    host.engine.note_quotas(call, left_by(TOKENS, "many"), at(0));
    host.engine.note_quotas(CallId::from_word(77), left_by(TOKENS, "1"), at(0));
    assert!(!host.engine.journal().any(|input| matches!(input, Input::Left { .. })));
    hear(&mut host, call, TOKENS, 5, 0);
    let line = host.engine.journal().find(|input| matches!(input, Input::Left { .. })).unwrap().to_string();
    assert_eq!(line, format!("left 0 {} - 5 - -", call.to_word()));
    let _ = finish(&mut host, call, 1, Class::Ok, 0);
    hear(&mut host, call, TOKENS, 0, 0);
    let lines: Vec<_> = host.engine.journal().map(|input| input.to_string().parse().unwrap()).collect();
    assert_eq!(lines, host.engine.journal().cloned().collect::<Vec<_>>());
    let mut again = Engine::new(7, Options::default().weights(true).quotas(true));
    let _ = again.replay(lines);
    assert_eq!(again.snapshot(at(0)).routes[0].limits, host.engine.snapshot(at(0)).routes[0].limits);
}

/// Semantics 3.7.5: a retune keeps what may still be taken away.
#[test]
fn a_retune_keeps_what_may_still_be_taken_away() {
    let mut host = host(&[TPM]);
    let call = start(&mut host, 0, 0);
    hear(&mut host, call, TOKENS, 0, 0);
    assert_eq!(tokens(&host, 0), 0);
    let id = host.engine.policy_named("p").unwrap();
    let to = Policy::from_pairs("p", &[TPM, LEARN, ("rate_limit.max_waiters", Number(7.0))]).unwrap();
    let _ = host.engine.retune(id, to, at(0)).unwrap();
    hear(&mut host, call, TOKENS, 0, SECOND);
    assert_eq!(tokens(&host, SECOND), 500, "of the 1,000 that flowed in, half may be taken");
    assert_eq!(limit(&host, "tpm", SECOND).learned, 10_500);
}

/// Semantics 3.7.7 and 0.7.13.
#[test]
fn a_host_that_reports_no_quotas_refuses_what_its_user_wrote_and_ignores_a_preset() {
    let engine = || Engine::new(7, Options::default().weights(true));
    let rule = "this package does not read rate_limit.learn from answers yet; leave it out";
    let own = Policy::from_pairs("p", &[RPM, LEARN]).unwrap();
    assert_eq!(engine().policy(own).unwrap_err().rule, rule);
    let pool = Pool::from_pairs("l", PoolKind::RateLimit, &[("limits", RPM.1), ("learn", LEARN.1)]).unwrap();
    assert_eq!(engine().pool(pool, at(0)).unwrap_err().rule, rule);
    let preset = Policy::from_pairs("p", &[("preset", Text("llm")), RPM]).unwrap();
    assert_eq!(preset.value("rate_limit.learn"), Some(Text("down")));
    assert!(engine().policy(preset).is_ok());
}

/// Semantics 3.7.8: a pool's users share what it learns.
#[test]
fn a_pool_learns_for_all_its_users() {
    let mut engine = Engine::new(7, Options::default().weights(true).quotas(true));
    let pool = Pool::from_pairs("l", PoolKind::RateLimit, &[("limits", RPM.1), ("learn", LEARN.1)]).unwrap();
    engine.pool(pool, at(0)).unwrap();
    let calls = ["a", "b"].map(|name| {
        let policy = Policy::from_pairs(name, &[("rate_limit.pool", Text("l"))]).unwrap();
        let policy = engine.policy(policy).unwrap();
        assert_eq!(engine.setting(policy, "rate_limit.learn"), Some(Text("down")));
        let route = engine.route(policy, "r", at(0));
        engine.begin(route, &tidegate::Request::default(), at(0)).0
    });
    engine.note_quotas(calls[1], left_by(REQUESTS, "0"), at(0));
    assert_eq!(engine.snapshot(at(0)).pools[0].limits[0].tokens, 0);
}

proptest! {
    /// Semantics 3.7.5: whatever answers say, over any window they take away at most a burst and half of what flows in.
    #[test]
    fn answers_take_away_at_most_a_burst_and_half_the_rate(
        permits in 1u64..200, burst in 1u64..200,
        ops in prop::collection::vec((0u64..2_000_000, 0u64..50, 0u64..100), 1..60),
    ) {
        let text = format!("t: permits={permits} per=1s burst={burst} weight=tokens");
        let mut host = host(&[("rate_limit.limits", Text(&text))]);
        let call = start(&mut host, 0, 0);
        let (mut now, mut after) = (0, vec![(0, 0)]);
        for (gap, amount, left) in ops {
            now += gap;
            let _ = begin(&mut host, amount % (burst + 1), now);
            let before = limit(&host, "t", now);
            hear(&mut host, call, TOKENS, left, now);
            let view = limit(&host, "t", now);
            prop_assert!(view.tokens >= before.tokens.min(left.cast_signed()), "never lower than what is left");
            prop_assert_eq!(before.tokens - view.tokens, (view.learned - before.learned).cast_signed());
            after.push((now, view.learned));
        }
        for (place, from) in after.iter().enumerate() {
            for to in &after[place..] {
                let most = burst + ((to.0 - from.0) * permits).div_ceil(2_000_000);
                prop_assert!(to.1 - from.1 <= most, "{from:?} to {to:?}: at most {most}");
            }
        }
    }

    /// Semantics 3.7.5: a server that always says that nothing is left halves the rate, and does not stop it.
    #[test]
    fn a_server_that_lies_halves_the_rate(permits in 1u64..100, burst in 1u64..50) {
        let text = format!("t: permits={permits} per=1s burst={burst}");
        let mut host = host(&[&[("rate_limit.limits", Text(&text))], &WAIT[..]].concat());
        let (mut started, mut waiting, seconds) = (0, None, 60);
        for tick in 0..seconds * 200 {
            let now = tick * SECOND / 200;
            loop {
                let (call, step) = match waiting.take() {
                    Some(call) => (call, host.poll(call, now)),
                    None => host.begin(tidegate::Request::default(), now),
                };
                let Action::Attempt { .. } = step.action() else {
                    // A waiter that its longest wait has ended is followed by another one.
                    waiting = matches!(step.action(), Action::Wait { .. }).then_some(call);
                    break;
                };
                started += 1;
                hear(&mut host, call, REQUESTS, 0, now);
                let _ = host.finish(call, 1, of(Class::Ok), now);
            }
            host.wakes();
        }
        prop_assert!(started + 2 >= permits * seconds / 2, "{started} of {}", permits * seconds);
        prop_assert!(started <= permits * seconds + burst);
    }
}

/// Semantics 3.7.6: a call has ended although an attempt of it still runs.
#[test]
fn an_answer_to_a_call_that_has_ended_changes_nothing() {
    let mut host = host(&[RPM]);
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    let before = limit(&host, "rpm", 0).tokens;
    let _ = host.engine.on(call, Event::Cancel, at(1));
    hear(&mut host, call, REQUESTS, 0, 1);
    assert_eq!(limit(&host, "rpm", 1).tokens, before);
}
