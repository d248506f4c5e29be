//! A fleet whose store runs no scripts (semantics 10.2): rates in windows, breaks as keys with an end, and nothing else.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Dice, Faults, Pairs, Process, SECOND, STORE_CLOCK, Sim};
use Value::{Number, Text};
use tidegate::fleet::{Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, BreakerState, Class, Engine, Event, Options, Outcome, Policy, RecordType, Request, RouteId, Time,
    Value, Verdict,
};

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

fn rate(permits: f64, more: &[(&'static str, Value<'static>)]) -> Pairs {
    let base = [
        ("rate_limit.permits", Number(permits)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.store", Text("fleet")),
    ];
    [&base, more].concat()
}

fn breaker(more: &[(&'static str, Value<'static>)]) -> Pairs {
    let base = [
        ("breaker.consecutive", Number(5.0)),
        ("breaker.break_duration", Number(2e6)),
        ("breaker.break_factor", Number(1.0)),
        ("breaker.store", Text("fleet")),
    ];
    [&base, more].concat()
}

fn plain(seed: u64, count: usize, pairs: &Pairs, faults: Faults) -> Sim {
    Sim::of(StoreKind::Plain, seed, count, pairs, faults)
}

/// The most that has been spent in any span of this length.
fn most_within(sim: &Sim, span: u64) -> u64 {
    let all = sim.started();
    let (mut first, mut sum, mut most) = (0, 0, 0);
    for (at, cost) in &all {
        sum += cost;
        while all[first].0 + span < *at {
            sum -= all[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

/// The documented bound: no span spends more than the windows that it touches allow, and what was leased before it.
#[test]
fn a_rate_is_kept_by_windows_so_twice_the_permits_around_an_edge_and_never_more() {
    for seed in seeds(6) {
        for (lease, burst) in [(1_u64, 200_u64), (8, 200), (1, 40), (4, 40)] {
            let more =
                [("rate_limit.lease", Number(lease as f64)), ("rate_limit.burst", Number(burst as f64))];
            let mut sim = plain(seed, 5, &rate(200.0, &more), Faults::none());
            sim.load((2_000, 16_000), (1, 2), 20);
            sim.run(8 * SECOND);
            let window = SECOND * burst / 200;
            for spans in [0, 1, 3, 10] {
                // An answer is on its way for up to 3 ms.
                let most = most_within(&sim, (spans * window).saturating_sub(5_000));
                let leased = if lease == 1 { 0 } else { 5 * (lease + 8) };
                let bound = burst * (spans + 1 + u64::from(spans > 0)) + if spans == 0 { burst } else { 0 };
                assert!(
                    most <= bound + leased,
                    "seed {seed}, lease {lease}, {spans} windows: {most} of {bound}"
                );
            }
            let spent: u64 = sim.started().iter().map(|it| it.1).sum();
            assert!(
                spent > 200 * 8 * 8 / 10,
                "seed {seed}, lease {lease}, burst {burst}: {spent} of about 1600"
            );
            for process in &sim.processes {
                assert_eq!(process.fallbacks(sim.now), 0, "seed {seed}");
                assert!(process.told(RecordType::StoreDegraded) == 0 && process.longest <= 50_000);
            }
        }
    }
}

#[test]
fn around_an_edge_it_is_twice_the_permits_indeed() {
    let mut sim = plain(5, 1, &rate(100.0, &[("rate_limit.lease", Number(1.0))]), Faults::none());
    let burst = |sim: &mut Sim, at: u64, count: usize| {
        sim.run_to(at);
        (0..count).for_each(|_| {
            sim.begin(0, 1);
        });
    };
    burst(&mut sim, 0, 1);
    burst(&mut sim, 980_000, 120);
    burst(&mut sim, 1_005_000, 120);
    sim.run(2 * SECOND);
    let at: Vec<u64> = sim.started().iter().map(|it| it.0).collect();
    assert_eq!(most_within(&sim, 30_000), 199, "{:?} {at:?}", sim.processes[0].ended);
    assert_eq!(sim.ended(Verdict::RateLimited), 41, "{:?} {at:?}", sim.processes[0].ended);
}

#[test]
fn who_may_wait_is_served_when_the_next_window_begins() {
    let more = [("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(1.5e6))];
    for lease in [1.0, 5.0] {
        let more = [&more[..], &[("rate_limit.lease", Number(lease))]].concat();
        let mut sim = plain(5, 2, &rate(10.0, &more), Faults::none());
        for number in 0..16 {
            sim.begin(number % 2, 1);
        }
        sim.run(5 * SECOND);
        let started = sim.started();
        let first = started.iter().filter(|it| it.0 < SECOND / 2).count();
        let second = started.iter().filter(|it| (SECOND..SECOND + 100_000).contains(&it.0)).count();
        assert!(
            (6..=10).contains(&first) && second >= 5,
            "lease {lease}: {first}, then {second}: {started:?}"
        );
        // What one process has counted and nobody spends is lost until the next window.
        let wasted = if lease > 1.0 { 2 * 5 } else { 0 };
        assert!(first + second >= 16 - wasted && first + second <= 16, "lease {lease}: {first} + {second}");
    }
}

#[test]
fn a_counter_that_has_lost_its_end_is_given_one() {
    let mut sim = plain(5, 2, &rate(50.0, &[("rate_limit.lease", Number(1.0))]), Faults::none());
    let key = b"tidegate:{r|api|eu}:rw".to_vec();
    let words = vec![b"INCRBY".to_vec(), key, b"1000".to_vec()];
    sim.store.execute(&words, STORE_CLOCK).unwrap();
    sim.load((10_000, 30_000), (1, 1), 0);
    sim.run_to(SECOND);
    assert_eq!(sim.started(), [], "it says that the rate is used up");
    sim.run(4 * SECOND);
    assert!(sim.started().len() > 120, "{}", sim.started().len());
    for line in sim.store.describe(STORE_CLOCK + sim.now) {
        assert!(!line.contains(" -1 "), "a key for ever: {line}");
    }
}

#[test]
fn without_the_store_each_has_its_part_of_the_last_window() {
    let mut faults = Faults::none();
    faults.gone = vec![(3 * SECOND, 60 * SECOND)];
    let mut sim = plain(5, 4, &rate(400.0, &[("rate_limit.lease", Number(4.0))]), faults);
    sim.load((2_000, 6_000), (1, 1), 0);
    sim.run(7 * SECOND);
    let after = sim.started().iter().filter(|it| it.0 >= 4 * SECOND).count();
    assert!((700..=1_700).contains(&after), "in three seconds: {after}");
    for process in &sim.processes {
        assert!(process.fallbacks(sim.now) > 0 && process.told(RecordType::StoreDegraded) == 1);
    }
}

/// Whatever the network does: calls end and wait no longer than they may, no more is spent than windows allow and
/// `on_loss` decides, and no key is left without an end.
#[test]
fn under_any_faults_calls_end_and_windows_hold() {
    for seed in seeds(40) {
        let mut dice = Dice::new(seed);
        let waits = dice.hits(400);
        let lease = [1.0, 3.0, 15.0][dice.up_to(2) as usize];
        let on_loss = ["local", "open", "closed"][dice.up_to(2) as usize];
        let mut more = vec![
            ("rate_limit.lease", Number(lease)),
            ("rate_limit.burst", Number(60.0)),
            ("rate_limit.on_loss", Text(on_loss)),
        ];
        if waits {
            more.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(300e3))]);
        }
        let mut faults = Faults::all();
        faults.gone = vec![(SECOND, 3 * SECOND / 2), (4 * SECOND, 9 * SECOND / 2)];
        let mut sim = plain(seed, 1 + dice.up_to(5) as usize, &rate(300.0, &more), faults);
        sim.load((1_000, 20_000), (1, 3), 100);
        sim.run(6 * SECOND);
        let spent: u64 = sim.started().iter().map(|it| it.1).sum();
        let decided: u64 = sim.processes.iter().map(|it| it.fallbacks(sim.now) * 3).sum();
        let windows = sim.now / 200_000 + 2;
        assert!(spent <= windows * 60 + decided, "seed {seed}: {spent} spent, {decided} decided by on_loss");
        for process in &sim.processes {
            let most = if waits { 300_000 } else { 50_000 };
            assert!(process.longest <= most, "seed {seed}: waited {}", process.longest);
            let closed = process.ended.get(&Verdict::StoreUnavailable).copied().unwrap_or(0);
            assert!(on_loss == "closed" || closed == 0, "seed {seed}");
            let (down, up) =
                (process.told(RecordType::StoreDegraded), process.told(RecordType::StoreRecovered));
            assert!(down >= 1 && (down == up || down == up + 1), "seed {seed}: {down} lost, {up} back");
        }
    }
}

/// When a process's breaker went to this state, at or after a moment.
fn turned(process: &Process, to: f64, from: u64) -> Option<u64> {
    let turn = process.records.iter().find(|record| {
        record.what == RecordType::BreakerChanged
            && record.change.is_some_and(|change| (change.1 - to).abs() < 0.5)
            && record.at.as_micros() >= from
    });
    turn.map(|record| record.at.as_micros())
}

fn state(process: &Process, now: u64) -> BreakerState {
    process.engine.snapshot(Time::from_micros(now)).routes[0].breaker.unwrap().state
}

#[test]
fn one_process_that_trips_opens_it_for_all_and_one_good_probe_closes_it() {
    for seed in seeds(5) {
        let mut sim = plain(seed, 6, &breaker(&[]), Faults::none());
        sim.load((4_000, 12_000), (1, 1), 0);
        sim.run_to(SECOND);
        sim.processes[0].class = Class::Transient;
        sim.run_to(2 * SECOND);
        let first = turned(&sim.processes[0], 1.0, 0).expect("it tripped");
        for process in &sim.processes[1..] {
            let open = turned(process, 1.0, 0).unwrap_or(u64::MAX);
            // An exchange, the time between two calls, and two round trips.
            assert!(open <= first + 250_000 + 12_000 + 10_000, "seed {seed}: {first}, then {open}");
        }
        sim.processes[0].class = Class::Ok;
        sim.run_to(6 * SECOND);
        for process in &sim.processes {
            let closed = turned(process, 0.0, first).expect("closed again");
            let most = first + 2_000_000 + 250_000 + 30_000;
            assert!(closed >= first + 2_000_000 && closed <= most, "seed {seed}: {closed}");
            assert_eq!(state(process, sim.now), BreakerState::Closed);
            let changes = process.told(RecordType::BreakerChanged);
            assert!(changes <= 3, "seed {seed}: open, half-open, closed; but {changes} changes");
        }
        sim.run(7 * SECOND);
        assert!(sim.ended(Verdict::BreakerOpen) > 100);
        assert_eq!(sim.store.describe(STORE_CLOCK + sim.now), [""; 0], "a break that is over leaves nothing");
    }
}

#[test]
fn a_failed_probe_opens_it_for_all_again() {
    let mut sim = plain(3, 4, &breaker(&[]), Faults::none());
    for process in &mut sim.processes {
        process.class = Class::Transient;
    }
    sim.load((4_000, 12_000), (1, 1), 0);
    sim.run(10 * SECOND);
    for process in &sim.processes {
        assert_ne!(state(process, sim.now), BreakerState::Closed);
        assert!(process.started.len() <= 10 + 5, "{} attempts", process.started.len());
    }
}

#[test]
fn a_break_without_an_end_or_that_nobody_probes_is_no_break_for_ever() {
    let mut sim = plain(3, 2, &breaker(&[]), Faults::none());
    let key = b"tidegate:{r|api|eu}:bm".to_vec();
    sim.store.execute(&[b"SET".to_vec(), key, b"77".to_vec()], STORE_CLOCK).unwrap();
    sim.load((10_000, 30_000), (1, 1), 0);
    sim.run(3 * SECOND);
    let lines = sim.store.describe(STORE_CLOCK + sim.now);
    assert!(lines.iter().all(|line| !line.contains(" -1 ")), "{lines:?}");
    for process in &sim.processes {
        assert_eq!(state(process, sim.now), BreakerState::Closed);
    }
}

/// Whatever the network does, once it and the downstream are well again, so is every breaker: nobody is left behind.
#[test]
fn under_any_faults_all_agree_in_the_end() {
    for seed in seeds(25) {
        let mut faults = Faults::all();
        faults.gone = vec![(2 * SECOND, 3 * SECOND)];
        let mut sim = plain(seed, 5, &breaker(&[]), faults);
        sim.load((3_000, 20_000), (1, 1), 50);
        for tenth in 1..80 {
            sim.run_to(tenth * SECOND / 10);
            for number in 0..5 {
                let fails = sim.dice.hits(200);
                sim.processes[number].class = if fails { Class::Transient } else { Class::Ok };
            }
        }
        sim.faults = Faults::none();
        for process in &mut sim.processes {
            process.class = Class::Ok;
        }
        sim.run(20 * SECOND);
        for process in &sim.processes {
            let changes: Vec<_> = process.records.iter().filter_map(|it| Some((it.at, it.change?))).collect();
            let last = &changes[changes.len().saturating_sub(6)..];
            assert_eq!(
                state(process, sim.now),
                BreakerState::Closed,
                "seed {seed}: {last:?}, at {}",
                sim.now
            );
            assert!(turned(process, 1.0, 0).is_some(), "seed {seed}: none was ever open");
        }
    }
}

#[test]
fn what_needs_scripts_is_refused_where_there_are_none() {
    let error = |pairs: &Pairs| {
        let mut engine = Engine::new(1, Options::default());
        let _ = engine.attach_store(StoreKind::Plain, "", 1, Time::from_micros(0));
        engine.policy(Policy::from_pairs("p", pairs).unwrap()).err()
    };
    assert_eq!(error(&rate(10.0, &[])), None);
    assert_eq!(error(&breaker(&[])), None);
    let slots = vec![("bulkhead.max_concurrency", Number(5.0)), ("bulkhead.store", Text("fleet"))];
    let latency = vec![
        ("bulkhead.kind", Text("aimd")),
        ("bulkhead.max_concurrency", Number(9.0)),
        ("bulkhead.latency_threshold", Number(1e5)),
        ("bulkhead.latency_quantile", Number(0.9)),
        ("bulkhead.latency_store", Text("fleet")),
    ];
    let quorum = breaker(&[("breaker.quorum", Number(2.0))]);
    for (key, pairs) in
        [("bulkhead.store", slots), ("bulkhead.latency_store", latency), ("breaker.quorum", quorum)]
    {
        let rule = error(&pairs).expect(key).rule;
        assert!(rule.starts_with(key) && rule.contains("needs a store that runs scripts"), "{rule}");
    }
}

/// One engine, and what it sends.
struct Alone {
    engine: Engine,
    route: RouteId,
    now: Time,
}

impl Alone {
    fn new(pairs: &Pairs) -> Self {
        let (mut engine, now) = (Engine::new(1, Options::default()), Time::from_micros(0));
        let _ = engine.attach_store(StoreKind::Plain, "", 1, now);
        let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", now);
        Self { engine, route, now }
    }

    /// A call that ends so, if it is let through.
    fn call(&mut self, class: Class) {
        let (call, step) = self.engine.begin(self.route, &Request::default(), self.now);
        if let Action::Attempt { attempt, .. } = step.action() {
            let outcome = Outcome::of(class);
            let _ = self.engine.on(call, Event::Finished { attempt, outcome }, self.now);
        }
    }

    /// The commands out, without their keys, and what they are answered.
    fn answer(&mut self, answers: &[(&str, &str)]) {
        let mut commands: Vec<StoreCommand> = Vec::new();
        self.engine.take_commands(&mut commands);
        let words: Vec<String> = commands
            .iter()
            .map(|it| {
                let words = it.words.iter().enumerate().filter(|(place, _)| *place != 1);
                words.map(|(_, word)| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(words.len(), answers.len(), "{words:?}");
        for ((command, words), (expected, answer)) in commands.iter().zip(&words).zip(answers) {
            // A name is drawn by chance.
            let name = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() > 10;
            let shown: Vec<&str> = words.split(' ').map(|it| if name(it) { "#" } else { it }).collect();
            assert_eq!(shown.join(" "), *expected);
            let _ = self.engine.on_reply(command.id, Reply::Bytes(answer.as_bytes()), self.now);
        }
    }
}

#[test]
fn a_window_that_ends_between_two_commands_is_given_an_end_of_its_own() {
    let mut it = Alone::new(&rate(100.0, &[("rate_limit.lease", Number(1.0))]));
    it.call(Class::Ok);
    it.answer(&[("SET 0 PX 1000 NX", "")]);
    it.answer(&[("INCRBY 1", "1")]);
    it.answer(&[("PEXPIRE 1000", "1")]);
    it.answer(&[]);
    // One that this process has begun has an end already.
    it.call(Class::Ok);
    it.answer(&[("SET 0 PX 1000 NX", "OK")]);
    it.answer(&[("INCRBY 1", "1")]);
    it.answer(&[]);
}

#[test]
fn who_knows_the_break_replaces_it_and_nobody_else_does() {
    let mut it = Alone::new(&breaker(&[]));
    it.call(Class::Ok);
    it.answer(&[("PTTL", "60500")]);
    it.answer(&[("GET", "77777777777777")]);
    it.now = Time::from_micros(600_000);
    it.call(Class::Transient);
    it.answer(&[("PTTL", "59900"), ("SET # PX 62000", "OK")]);
    it.answer(&[("GET", "77777777777777")]);
    it.answer(&[]);

    let mut it = Alone::new(&breaker(&[]));
    it.call(Class::Ok);
    it.answer(&[("PTTL", "-2")]);
    (0..5).for_each(|_| it.call(Class::Transient));
    it.answer(&[("SET # PX 62000 NX", "")]);
    it.answer(&[("PTTL", "61000")]);
    it.answer(&[("GET", "77777777777777")]);
    it.answer(&[]);
    let snapshot = it.engine.snapshot(it.now);
    assert_eq!(snapshot.routes[0].breaker.unwrap().state, BreakerState::Open);
    // It is the fleet's break, and ends with it.
    for (now, passes) in [(999_999, false), (1_000_000, true)] {
        it.now = Time::from_micros(now);
        let (_, step) = it.engine.begin(it.route, &Request::default(), it.now);
        assert_eq!(matches!(step.action(), Action::Attempt { .. }), passes, "{now}");
    }
}
