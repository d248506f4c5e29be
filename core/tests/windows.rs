//! Limits that refill by windows of the wall clock, and money budgets (semantics 3.8).

use crate::host::{Host, SECOND, at, verdict};
use crate::metered::*;
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{
    Action, CallId, Class, Duration, Engine, Input, Options, Policy, Pool, PoolKind, Request, Value, Verdict,
    WallTime,
};

const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// Noon of a day, at the engine's time 0.
const NOON: u64 = 20_000 * DAY + 12 * HOUR;

fn options() -> Options {
    Options::default().weights(true).wall_clock(true)
}

/// A host with one limit, at noon.
fn windowed(limit: &str, more: &[(&str, Value<'_>)]) -> Host {
    let mut host = Host::with(&[&[("rate_limit.limits", Text(limit))], more].concat(), options());
    report(&mut host, NOON, 0);
    host
}

fn report(host: &mut Host, wall: u64, micros: u64) {
    host.engine.note_wall(WallTime::from_unix_micros(wall), at(micros));
}

/// Begins a call without weights; when it may come again, if it is refused.
fn ask(host: &mut Host, micros: u64) -> Option<Duration> {
    let (call, step) = host.engine.begin(host.route, &Request::default(), at(micros));
    match step.action() {
        Action::Attempt { .. } => {
            let _ = finish(host, call, 1, Class::Ok, micros);
            None
        }
        Action::Done { verdict: Verdict::RateLimited, retry_in, .. } => retry_in,
        action => panic!("{action:?}"),
    }
}

/// How many of ten calls get a token.
fn granted(host: &mut Host, micros: u64) -> usize {
    (0..10).filter(|_| ask(host, micros).is_none()).count()
}

/// Semantics 3.8.1, 3.8.2 and 3.8.6.
#[test]
fn all_permits_come_back_at_once_when_a_window_begins() {
    let mut host = windowed("day: permits=3 per=24h refill=window", &[]);
    assert_eq!(granted(&mut host, 0), 3);
    assert_eq!(ask(&mut host, HOUR), Some(Duration::from_micros(11 * HOUR)), "at midnight UTC");
    assert_eq!(granted(&mut host, 12 * HOUR - 1), 0);
    assert_eq!(granted(&mut host, 12 * HOUR), 3);
    assert_eq!(granted(&mut host, 5 * DAY), 3, "windows do not add up");

    let mut pacific = windowed("day: permits=3 per=24h refill=window anchor=8h", &[]);
    assert_eq!(granted(&mut pacific, 0), 3);
    assert_eq!(ask(&mut pacific, 0), Some(Duration::from_micros(20 * HOUR)));

    // Of the 480,012 hours since 1970 one is left over.
    let mut odd = windowed("odd: permits=1 per=7h refill=window", &[]);
    assert_eq!((ask(&mut odd, 0), ask(&mut odd, 0)), (None, Some(Duration::from_micros(6 * HOUR))));
    assert_eq!(
        (ask(&mut odd, 6 * HOUR), ask(&mut odd, 6 * HOUR)),
        (None, Some(Duration::from_micros(7 * HOUR)))
    );
}

/// Semantics 3.8.3.
#[test]
fn mistakes_in_a_window_name_the_rule() {
    let limit = |text: &str| mistakes(&[("rate_limit.limits", Text(text))]).concat();
    let window = |more: &str| limit(&format!("day: permits=5 per=24h refill=window {more}"));
    assert!(
        window("burst=6")
            .ends_with("burst must be permits where refill is window: all permits of a window come at once")
    );
    assert!(window("anchor=24h").ends_with("anchor must be below per, because windows follow each other"));
    assert!(window("anchor=noon").contains("anchor must be a span after midnight UTC such as \"8h\""));
    assert!(window("anchor=1h anchor=2h").ends_with("anchor is given more than once"));
    assert!(
        limit("day: permits=5 per=24h anchor=1h")
            .ends_with("anchor means something only beside refill = window")
    );
    assert!(limit("day: permits=5 per=24h refill=daily").ends_with("refill must be continuous or window"));
    let shared = [
        ("rate_limit.limits", Text("day: permits=5 per=24h refill=window")),
        ("rate_limit.store", Text("fleet")),
    ];
    assert_eq!(
        mistakes(&shared),
        [
            "rate_limit.limits = day: refill must be continuous where rate_limit.store is fleet: leave refill out, or keep the limit local"
        ]
    );
    let same = |text| Policy::from_pairs("p", &[("rate_limit.limits", Text(text))]).unwrap();
    assert_eq!(
        same("day: anchor=0h per=24h refill=window permits=5 burst=5"),
        same("day: permits=5 per=1440m refill=window"),
        "one text for each meaning"
    );
    assert_eq!(same("a: permits=5 per=1s refill=continuous"), same("a: permits=5 per=1s"));
}

/// Semantics 3.8.4 and 3.8.10.
#[test]
fn a_host_that_does_not_report_its_clock_has_no_windows() {
    let daily = [("rate_limit.limits", Text("day: permits=1 per=24h refill=window"))];
    let mut engine = Engine::new(1, Options::default());
    let rule = "rate_limit.limits has refill = window, and this package does not report the wall clock yet; leave refill out";
    assert_eq!(engine.policy(Policy::from_pairs("p", &daily).unwrap()).unwrap_err().rule, rule);
    let pool = Pool::from_pairs("day", PoolKind::RateLimit, &[("limits", daily[0].1)]).unwrap();
    assert_eq!(engine.pool(pool.clone(), at(0)).unwrap_err().rule, rule);
    assert!(!engine.needs_wall());
    let mut engine = Engine::new(1, options());
    engine.pool(pool, at(0)).unwrap();
    assert!(engine.needs_wall());

    let mut host = Host::with(&daily, options());
    assert_eq!(
        (granted(&mut host, 0), granted(&mut host, 3 * DAY)),
        (1, 0),
        "no window begins before a report"
    );
    report(&mut host, NOON, 3 * DAY);
    assert_eq!((granted(&mut host, 3 * DAY), granted(&mut host, 3 * DAY + 12 * HOUR)), (0, 1));
}

/// Semantics 3.8.5.
#[test]
fn a_wall_clock_that_jumps_begins_no_window_twice_and_never_stops_the_limit() {
    let mut host = windowed("day: permits=2 per=24h refill=window", &[]);
    assert_eq!(granted(&mut host, 0), 2);
    report(&mut host, NOON + 13 * HOUR, 1);
    assert_eq!(granted(&mut host, 1), 2, "set forward over midnight");
    report(&mut host, NOON + 11 * HOUR, 2);
    assert_eq!(granted(&mut host, 2), 0, "back over midnight");
    assert_eq!(granted(&mut host, HOUR + 10), 0, "the same midnight again");
    assert_eq!(granted(&mut host, 25 * HOUR + 10), 2, "the next one");
    // A clock that was wrong by years, and is corrected.
    report(&mut host, NOON + 20_000 * DAY, 26 * HOUR);
    assert_eq!(granted(&mut host, 26 * HOUR), 2);
    report(&mut host, NOON, 27 * HOUR);
    assert_eq!(granted(&mut host, 27 * HOUR), 0);
    assert_eq!(granted(&mut host, 39 * HOUR), 2, "midnight comes after 12 hours, not after 20,000 days");
    // The largest and the smallest clock.
    for wall in [u64::MAX, 0, u64::MAX] {
        report(&mut host, wall, 40 * HOUR);
        let _ = granted(&mut host, 40 * HOUR);
        host.engine.check().unwrap();
    }
}

/// Semantics 3.8.1, 3.8.13 and 3.8.14: what was spent beyond an estimate is paid by the next window, or forgiven.
#[test]
fn a_money_budget_forgives_and_any_other_window_pays_its_debt() {
    let limit = "usd: permits=1000000 per=24h refill=window weight=tokens";
    for (more, tomorrow, forgiven) in [("", 800_000, 0), (" max_debt=none", 1_000_000, 200_000)] {
        let mut host = windowed(&format!("{limit}{more}"), &[]);
        let call = start(&mut host, 900_000, 0);
        assert!(settle(&mut host, call, 1, 1_200_000, 0));
        let _ = finish(&mut host, call, 1, Class::Ok, 0);
        assert_eq!(limit_of(&host, 0), (if forgiven == 0 { -200_000 } else { 0 }, forgiven));
        let (refused, step) = begin(&mut host, 250_000, 0);
        assert_eq!(verdict(step), Verdict::RateLimited);
        assert_eq!(host.engine.last_refusal().map(|it| it.limit), Some("usd"));
        assert_eq!(host.engine.last_refusal().and_then(|it| it.weight), Some(("tokens", 250_000)));
        let refusal = host.engine.refusal_of(refused).unwrap();
        assert_eq!((refusal.limit, refusal.weight), ("usd", Some(("tokens", 250_000))));
        assert_eq!(host.engine.refusal_of(call), None, "it was served");
        let _ = begin(&mut host, 0, 12 * HOUR);
        assert_eq!(limit_of(&host, 12 * HOUR).0, tomorrow);
    }
}

fn limit_of(host: &Host, micros: u64) -> (i64, u64) {
    let view = limit(host, "usd", micros);
    (view.tokens, view.forgiven)
}

/// Semantics 3.8.7.
#[test]
fn a_retune_keeps_what_is_missing_and_begins_no_window() {
    let mut host = windowed("a: permits=4 per=24h burst=4", &[]);
    let retune = |host: &mut Host, text: &str, micros| {
        let to = Policy::from_pairs("p", &[("rate_limit.limits", Text(text))]).unwrap();
        host.engine.retune(host.policy, to, at(micros)).unwrap();
        host.engine.check().unwrap();
    };
    assert_eq!(granted(&mut host, 0), 4);
    retune(&mut host, "a: permits=4 per=24h refill=window", 0);
    assert!(host.engine.needs_wall());
    assert_eq!(granted(&mut host, 12 * HOUR - 1), 0, "nothing flows in any more");
    assert_eq!(granted(&mut host, 12 * HOUR), 4);
    retune(&mut host, "a: permits=4 per=24h refill=window anchor=1h", 12 * HOUR);
    retune(&mut host, "a: permits=4 per=1h refill=window", 12 * HOUR + 1);
    assert_eq!(granted(&mut host, 13 * HOUR - 1), 0, "another window is no new one");
    assert_eq!(granted(&mut host, 13 * HOUR), 4);
    retune(&mut host, "a: permits=4 per=4s burst=4", 13 * HOUR);
    assert_eq!(granted(&mut host, 13 * HOUR + SECOND), 1, "continuous again");
}

/// Semantics 3.8.8.
#[test]
fn a_restart_in_a_window_does_not_refill_it() {
    let restart = |from: &str, to: &str, spent: usize, elapsed: u64| {
        let mut old = windowed(from, &[]);
        for _ in 0..spent {
            assert_eq!(ask(&mut old, 0), None);
        }
        let saved = old.engine.save(at(0));
        let mut new = Host::with(&[("rate_limit.limits", Text(to))], options());
        report(&mut new, NOON + elapsed, 0);
        new.engine.restore(&saved, Duration::from_micros(elapsed), at(0)).unwrap();
        new.route = new.engine.route(new.policy, "r", at(0));
        new.engine.check().unwrap();
        new
    };
    let daily = "a: permits=4 per=24h refill=window";
    assert_eq!(granted(&mut restart(daily, daily, 3, 0), 0), 1);
    assert_eq!(granted(&mut restart(daily, daily, 3, 12 * HOUR - 1), 0), 1);
    assert_eq!(granted(&mut restart(daily, daily, 3, 12 * HOUR - 1), 1), 4, "midnight comes later");
    assert_eq!(granted(&mut restart(daily, daily, 3, 12 * HOUR), 0), 4, "midnight came meanwhile");
    let hourly = "a: permits=4 per=1h refill=window";
    assert_eq!(granted(&mut restart(daily, hourly, 3, 0), 0), 1, "other windows refill nothing");
    assert_eq!(granted(&mut restart(daily, hourly, 3, HOUR), 0), 4, "but those that began since do");
    let flowing = "a: permits=4 per=24h";
    assert_eq!(granted(&mut restart(flowing, daily, 4, 6 * HOUR), 0), 1, "as much as had flowed in");
    assert_eq!(granted(&mut restart(daily, flowing, 4, 6 * HOUR), 0), 1);
}

/// Semantics 3.8.8: also where no call has asked between two restarts.
#[test]
fn two_restarts_in_a_row_keep_the_moment_of_the_wall_clock() {
    let host = |limit: &str, saved: &str, elapsed: u64| {
        let mut new = Host::with(&[("rate_limit.limits", Text(limit))], options());
        report(&mut new, NOON + elapsed, 0);
        new.engine.restore(saved, Duration::ZERO, at(0)).unwrap();
        new.route = new.engine.route(new.policy, "r", at(0));
        new
    };
    let daily = "a: permits=4 per=24h refill=window";
    let mut old = windowed(daily, &[]);
    assert_eq!((ask(&mut old, 0), ask(&mut old, 0)), (None, None));
    let again = host(daily, &old.engine.save(at(0)), 0);
    let mut hourly = host("a: permits=4 per=1h refill=window", &again.engine.save(at(0)), 0);
    assert_eq!(granted(&mut hourly, 0), 2, "no hour has begun since noon");
}

/// Semantics 3.8.9.
#[test]
fn an_evicted_route_owes_what_was_missing_until_its_next_window() {
    let mut engine = Engine::new(1, options().max_routes(1));
    let daily = [("rate_limit.limits", Text("day: permits=8 per=24h refill=window"))];
    let policy = engine.policy(Policy::from_pairs("p", &daily).unwrap()).unwrap();
    engine.note_wall(WallTime::from_unix_micros(NOON), at(0));
    let mut used = |key: &str, calls: usize, now: u64| {
        let route = engine.route(policy, key, at(now));
        let mut begin = || engine.begin(route, &Request::default(), at(now));
        let begun: Vec<_> = (0..calls).map(|_| begin()).collect();
        let granted =
            begun.iter().filter(|(_, step)| matches!(step.action(), Action::Attempt { .. })).count();
        for (call, _) in begun {
            let outcome = tidegate::Outcome::of(Class::Ok);
            let _ = engine.on(call, tidegate::Event::Finished { attempt: 1, outcome }, at(now));
        }
        granted
    };
    assert_eq!((used("a", 3, 0), used("b", 1, 0)), (3, 1));
    assert_eq!(used("a", 9, HOUR), 5, "not less than its permits less what it had used, and no more");
    assert_eq!(used("b", 9, 12 * HOUR), 8, "a window has begun");
}

/// Semantics 3.8.11.
#[test]
fn explain_warns_where_a_restart_refills_the_window() {
    let daily = "day: permits=5 per=24h refill=window";
    let mut host = windowed(daily, &[]);
    let warns = |host: &Host| {
        let explained = host.engine.explain_policy(host.policy).unwrap();
        explained
            .warnings
            .iter()
            .any(|warning| warning.contains("a restart begins a window with all its permits again"))
    };
    assert!(warns(&host));
    let saved = host.engine.save(at(0));
    host = windowed(daily, &[]);
    host.engine.restore(&saved, Duration::ZERO, at(0)).unwrap();
    assert!(!warns(&host));
    assert!(!warns(&windowed("a: permits=5 per=24h", &[])));
}

/// Semantics 12.2: reports of the wall clock are inputs.
#[test]
fn a_replay_sees_the_same_clock() {
    let mut engine = Engine::new(3, options().journal(true));
    let daily = [("rate_limit.limits", Text("day: permits=1 per=24h refill=window"))];
    let policy = engine.policy(Policy::from_pairs("p", &daily).unwrap()).unwrap();
    let route = engine.route(policy, "r", at(0));
    for (wall, now) in [(NOON, 0), (NOON + DAY, 5), (NOON, 6)] {
        engine.note_wall(WallTime::from_unix_micros(wall), at(now));
        let _ = engine.begin(route, &Request::default(), at(now));
    }
    let (mut inputs, mut again) = (Vec::new(), Engine::new(3, options().journal(true)));
    engine.take_journal(&mut inputs);
    let lines: Vec<String> = inputs.iter().map(ToString::to_string).collect();
    assert_eq!(lines[2], format!("wall 0 {NOON}"));
    again.replay(lines.iter().map(|line| line.parse::<Input>().unwrap()));
    assert_eq!(engine.save(at(9)), again.save(at(9)));
    assert_eq!(engine.snapshot(at(9)), again.snapshot(at(9)));
}

/// An attempt of the property below: when it started and ended, what it reserved and used.
struct Made {
    call: CallId,
    started: usize,
    ended: usize,
    reserved: u64,
    used: u64,
}

impl Made {
    fn new(call: CallId, started: usize, reserved: u64) -> Self {
        Self { call, started, ended: usize::MAX, reserved, used: reserved }
    }
}

proptest! {
    /// Semantics 3.8.12: over any span usage is at most the permits of each window of which a part lies in it, and what
    /// 3.6.10 adds.
    #[test]
    fn usage_stays_within_the_permits_of_each_window(
        permits in 20u64..200, max_debt in 0u64..300, anchor in 0u64..1_000,
        ops in prop::collection::vec((0u64..900_000, 0u8..8, 0u64..300, any::<prop::sample::Index>()), 1..60),
    ) {
        let text = format!("t: permits={permits} per=1s refill=window anchor={anchor}ms weight=tokens max_debt={max_debt}");
        let mut host = windowed(&text, &WAIT);
        let (mut now, mut made, mut waiting) = (0, Vec::<Made>::new(), Vec::<(CallId, u64)>::new());
        let mut after: Vec<(u64, i64, u64)> = Vec::new();
        for (number, (gap, op, amount, which)) in ops.into_iter().enumerate() {
            now += gap;
            let open: Vec<_> = (0..made.len()).filter(|at| made[*at].ended == usize::MAX).collect();
            let reserved = amount % (permits + 1);
            match op {
                0..=3 => {
                    let (call, step) = begin(&mut host, reserved, now);
                    match step.action() {
                        Action::Attempt { .. } => made.push(Made::new(call, number, reserved)),
                        Action::Wait { .. } => waiting.push((call, reserved)),
                        Action::Done { .. } => {}
                    }
                }
                4..=6 if !open.is_empty() => {
                    let it = &mut made[open[which.index(open.len())]];
                    prop_assert!(settle(&mut host, it.call, 1, amount, now));
                    let before = limit(&host, "t", now).settled;
                    let _ = finish(&mut host, it.call, 1, Class::Ok, now);
                    it.used = limit(&host, "t", now).settled - before;
                    it.ended = number;
                }
                7 if !waiting.is_empty() => {
                    let (call, reserved) = waiting.swap_remove(which.index(waiting.len()));
                    match host.poll(call, now).action() {
                        Action::Attempt { .. } => made.push(Made::new(call, number, reserved)),
                        Action::Wait { .. } => waiting.push((call, reserved)),
                        Action::Done { .. } => {}
                    }
                }
                _ => {}
            }
            for call in host.wakes() {
                let Some(place) = waiting.iter().position(|it| it.0 == call) else { continue };
                match host.poll(call, now).action() {
                    Action::Attempt { .. } => made.push(Made::new(call, number, waiting.remove(place).1)),
                    Action::Wait { .. } => {}
                    Action::Done { .. } => drop(waiting.remove(place)),
                }
            }
            host.engine.check().unwrap();
            let view = limit(&host, "t", now);
            after.push((now, view.tokens, view.forgiven));
        }
        let window = |micros: u64| (NOON + micros - anchor * 1_000) / SECOND;
        for from in 0..after.len() {
            for to in from..after.len() {
                let used: u64 = made.iter().filter(|it| (from..=to).contains(&it.started)).map(|it| it.used).sum();
                let over: u64 = made.iter().filter(|it| it.started < from && it.ended >= from).map(|it| it.reserved.saturating_sub(it.used)).sum();
                let under: u64 = made.iter().filter(|it| it.started <= to && it.ended > to).map(|it| it.used.saturating_sub(it.reserved)).sum();
                let forgiven = after[to].2 - if from == 0 { 0 } else { after[from - 1].2 };
                let debt = (-after[to].1).max(0).cast_unsigned();
                let windows = window(after[to].0) - window(after[from].0) + 1;
                let bound = windows * permits + over + under + debt + forgiven;
                prop_assert!(used <= bound, "{from}..={to}: {used} used, bound {bound}: {after:?}");
            }
        }
        // Nobody starves: each waiter gets its tokens or has waited for `max_wait`.
        let mut late = now;
        while !waiting.is_empty() {
            late += SECOND;
            prop_assert!(late < now + 62 * SECOND);
            waiting.retain(|(call, _)| matches!(host.poll(*call, late).action(), Action::Wait { .. }));
            host.wakes();
        }
    }
}

/// Semantics 3.8.6: a waiter wakes when the window begins that has its tokens.
#[test]
fn a_waiter_waits_for_its_window() {
    let wait = [("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(86_400e6))];
    let mut host = windowed("t: permits=10 per=1h refill=window weight=tokens", &wait);
    assert!(matches!(begin(&mut host, 10, 0).1.action(), Action::Attempt { .. }));
    let (first, _) = begin(&mut host, 10, 10 * SECOND);
    let (second, _) = begin(&mut host, 1, 20 * SECOND);
    assert!(matches!(host.poll(first, HOUR - 1).action(), Action::Wait { .. }));
    assert!(matches!(host.poll(first, HOUR).action(), Action::Attempt { .. }));
    assert!(matches!(host.poll(second, HOUR).action(), Action::Wait { .. }), "the window is used up again");
    assert!(matches!(host.poll(second, 2 * HOUR).action(), Action::Attempt { .. }));
}

/// Semantics 3.8.7: the first windows of a limit are counted from the retune, not from the next look.
#[test]
fn a_window_that_begins_after_a_retune_counts_before_the_next_call() {
    let limit = |text| Policy::from_pairs("p", &[("rate_limit.limits", Text(text))]).unwrap();
    let mut host = Host::with(&[("rate_limit.limits", Text("a: permits=4 per=24h burst=4"))], options());
    let other = [("rate_limit.limits", Text("b: permits=1 per=24h refill=window"))];
    let _ = host.engine.policy(Policy::from_pairs("other", &other).unwrap()).unwrap();
    report(&mut host, NOON, 0);
    assert_eq!(granted(&mut host, 0), 4);
    host.engine.retune(host.policy, limit("a: permits=4 per=24h refill=window"), at(HOUR)).unwrap();
    assert_eq!(granted(&mut host, 13 * HOUR), 4, "midnight was in between");
    host.engine.retune(host.policy, limit("a: permits=4 per=24h burst=4"), at(37 * HOUR)).unwrap();
    assert_eq!(granted(&mut host, 37 * HOUR), 4, "so it was before the last windows ended");
    host.engine.check().unwrap();
}
