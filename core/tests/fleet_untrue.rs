//! Answers of a store that no script of ours gives: they mint nothing, and nobody talks to it for ever (semantics 10.6).

use tidegate::fleet::{Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, PolicyId, Request, RouteId,
    Time, Value, Verdict, Wait,
};

use Value::{Number, Text};

struct Alone {
    engine: Engine,
    policy: PolicyId,
    route: RouteId,
    now: Time,
}

impl Alone {
    fn new(pairs: &[(&str, Value<'_>)]) -> Self {
        let (mut engine, now) = (Engine::new(1, Options::default()), Time::from_micros(0));
        let _ = engine.attach_store(StoreKind::Lua, "", 1, now);
        let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", now);
        Self { engine, policy, route, now }
    }

    fn begin(&mut self, may_park: bool) -> (CallId, Action) {
        let request = Request { may_park, idempotent: true, replayable: true, ..Request::default() };
        let (call, step) = self.engine.begin(self.route, &request, self.now);
        (call, step.action())
    }

    /// Answers what is out like this, until nothing is: how often.
    fn answer(&mut self, answer: &str, most: usize) -> usize {
        for turn in 0..most {
            let mut commands: Vec<StoreCommand> = Vec::new();
            self.engine.take_commands(&mut commands);
            if commands.is_empty() {
                return turn;
            }
            for command in commands {
                let _ = self.engine.on_reply(command.id, Reply::Bytes(answer.as_bytes()), self.now);
            }
        }
        most
    }
}

fn rate(lease: f64) -> Vec<(&'static str, Value<'static>)> {
    vec![
        ("rate_limit.permits", Number(10.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.store", Text("fleet")),
        ("rate_limit.lease", Number(lease)),
    ]
}

#[test]
fn a_store_that_always_grants_is_not_asked_for_ever_and_mints_nothing() {
    for lease in [1.0, 5.0] {
        let mut it = Alone::new(&rate(lease));
        let (call, action) = it.begin(true);
        assert!(matches!(action, Action::Wait { why: Wait::Store }), "{action:?}");
        assert!(it.answer("900 0 1", 50) < 5, "lease {lease}");
        assert!(matches!(it.engine.on(call, Event::Poll, it.now).action(), Action::Attempt { .. }));
        let mut more = 0;
        while matches!(it.begin(false).1, Action::Attempt { .. }) {
            more += 1;
            assert!(more <= 20, "lease {lease}: minted");
        }
    }
}

#[test]
fn a_store_with_nothing_and_no_wait_is_asked_again_after_a_while() {
    let mut pairs = rate(1.0);
    pairs.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(1e6))]);
    let mut it = Alone::new(&pairs);
    let (call, _) = it.begin(true);
    assert!(it.answer("0 0 1", 50) < 3);
    let step = it.engine.on(call, Event::Poll, it.now);
    assert!(step.next().unwrap() >= Duration::from_millis(1), "{step:?}");
}

#[test]
fn a_hedge_takes_no_token_of_the_fleets_that_is_not_there() {
    let mut pairs = rate(1.0);
    pairs.extend([("rate_limit.unit", Text("attempt")), ("hedge.delay", Number(1e4))]);
    let mut it = Alone::new(&pairs);
    let (call, _) = it.begin(true);
    it.answer("1 0 1", 5);
    let request = it.engine.on(call, Event::Poll, it.now);
    assert!(matches!(request.action(), Action::Attempt { .. }));
    // Somebody has been told that there is nothing, and that time is over.
    let (refused, action) = it.begin(true);
    assert!(matches!(action, Action::Wait { .. }));
    it.answer("0 1000 1", 1);
    let verdict = it.engine.on(refused, Event::Poll, it.now).action();
    assert!(matches!(verdict, Action::Done { verdict: Verdict::RateLimited, .. }), "{verdict:?}");
    it.now = Time::from_micros(20_000);
    let step = it.engine.on(call, Event::Timer, it.now);
    assert!(!matches!(step.action(), Action::Attempt { hedge: true, .. }), "{step:?}");
}

#[test]
fn a_close_is_told_once_and_a_break_that_is_over_opens_nobody() {
    let pairs = [
        ("breaker.consecutive", Number(1.0)),
        ("breaker.break_duration", Number(1e6)),
        ("breaker.store", Text("fleet")),
    ];
    let mut it = Alone::new(&pairs);
    let fail = |it: &mut Alone, class| {
        let (call, action) = it.begin(false);
        if let Action::Attempt { attempt, .. } = action {
            let outcome = Outcome::of(class);
            let _ = it.engine.on(call, Event::Finished { attempt, outcome }, it.now);
        }
        matches!(action, Action::Attempt { .. })
    };
    assert!(fail(&mut it, Class::Transient));
    it.answer("1 1000000 77 1", 5);
    it.now = Time::from_micros(1_100_000);
    assert!(fail(&mut it, Class::Ok), "the probe");
    // A store that knows of no close, however often it is told.
    assert!(it.answer("2 0 77 0", 50) < 5);
}

/// A call may hold its slot of the fleet's while it waits for its next attempt.
#[test]
fn a_lease_is_renewed_through_a_backoff() {
    let mut it = Alone::new(&[
        ("bulkhead.max_concurrency", Number(2.0)),
        ("bulkhead.store", Text("fleet")),
        ("bulkhead.lease_ttl", Number(3e6)),
        ("bulkhead.unit", Text("call")),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.kind", Text("constant")),
        ("retry.backoff.base", Number(5e6)),
        ("retry.backoff.jitter", Text("none")),
    ]);
    let (call, _) = it.begin(true);
    it.answer("1 7 1 0 2", 1);
    let step = it.engine.on(call, Event::Poll, it.now);
    assert!(matches!(step.action(), Action::Attempt { .. }), "{step:?}");
    let outcome = Outcome::of(Class::Transient);
    let mut step = it.engine.on(call, Event::Finished { attempt: 1, outcome }, it.now);
    for renewal in 1..=4 {
        assert!(matches!(step.action(), Action::Wait { why: Wait::Backoff }), "{step:?}");
        assert!(step.next().unwrap() <= Duration::from_secs(1), "{step:?}");
        it.now = Time::from_micros(renewal * 1_000_000);
        step = it.engine.on(call, Event::Timer, it.now);
        assert!(step.flags().commands, "renewal {renewal}");
        it.answer("1 1", 1);
    }
    it.now = Time::from_micros(5_000_000);
    assert!(matches!(it.engine.on(call, Event::Timer, it.now).action(), Action::Attempt { .. }));
}

/// `store_timeout` is the whole wait for an answer, however many commands it takes.
#[test]
fn a_store_that_needs_two_commands_or_three_has_no_more_time_than_for_one() {
    let at = |millis: u64| Time::from_micros(millis * 1_000);
    // Who waits for the rate would wait for long; the store's answer is waited for no longer than that.
    let mut pairs = rate(5.0);
    pairs.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(9e6))]);
    let stories: [(StoreKind, &[Reply<'_>]); 2] = [
        (StoreKind::Lua, &[Reply::Error(b"NOSCRIPT No matching script")]),
        (StoreKind::Plain, &[Reply::Bytes(b"OK"), Reply::Bytes(b"99")]),
    ];
    for (kind, replies) in stories {
        let mut engine = Engine::new(1, Options::default());
        let _ = engine.attach_store(kind, "", 1, at(0));
        let policy = engine.policy(Policy::from_pairs("api", &pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", at(0));
        let (call, step) = engine.begin(route, &Request::default(), at(0));
        assert!(matches!(step.action(), Action::Wait { why: Wait::Store }) && step.flags().commands);
        let mut millis = 0;
        for reply in replies {
            let mut commands = Vec::new();
            engine.take_commands(&mut commands);
            assert_eq!(commands[0].within, Duration::from_millis(50 - millis), "{kind:?}");
            millis += 20;
            let _ = engine.on_reply(commands[0].id, *reply, at(millis));
        }
        let up = |engine: &Engine, millis| engine.snapshot(at(millis)).store.unwrap().up;
        let step = engine.on(call, Event::Timer, at(49));
        assert!(
            matches!(step.action(), Action::Wait { why: Wait::Store }) && up(&engine, 49),
            "{kind:?}: {step:?}"
        );
        let step = engine.on(call, Event::Timer, at(50));
        assert!(matches!(step.action(), Action::Attempt { .. }), "{kind:?}, by its share: {step:?}");
        assert!(!up(&engine, 50));
    }
}

/// Table of docs/spec.md, 10.11: each field of each answer with a number that no script of ours gives.
mod bounds {
    use super::*;

    const HUGE: u64 = (1 << 52) - 1;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn breaker(more: &[(&'static str, Value<'static>)]) -> Vec<(&'static str, Value<'static>)> {
        let base = [
            ("breaker.consecutive", Number(3.0)),
            ("breaker.break_duration", Number(1e6)),
            ("breaker.store", Text("fleet")),
        ];
        [&base, more].concat()
    }

    /// How long a refused call is told to stay away.
    fn refused_for(it: &mut Alone) -> Option<Duration> {
        let request = Request { may_park: false, ..Request::default() };
        let (_, step) = it.engine.begin(it.route, &request, it.now);
        match step.action() {
            Action::Done { verdict: Verdict::BreakerOpen, retry_in, .. } => retry_in,
            _ => None,
        }
    }

    #[test]
    fn no_break_is_longer_than_the_longest_of_the_policy() {
        let grows = [("breaker.break_factor", Number(2.0)), ("breaker.max_break_duration", Number(10e6))];
        // The longest break has a tenth of it by chance.
        let stays = [("breaker.break_factor", Number(1.0))];
        for (more, longest) in [(&stays[..], 1_000_000), (&grows[..], 11_000_000)] {
            let mut it = Alone::new(&breaker(more));
            let _ = it.begin(false);
            it.answer(&format!("1 {HUGE} 77 1"), 1);
            let left = refused_for(&mut it).expect("it is open");
            assert_eq!(left, Duration::from_micros(longest));
            // The store says so again and again: a probe comes through when the longest break is over.
            it.now = at(longest);
            it.answer(&format!("1 {HUGE} 77 1"), 3);
            assert!(matches!(it.begin(false).1, Action::Attempt { .. }));
        }
    }

    #[test]
    fn a_state_or_an_epoch_that_is_none_is_no_answer() {
        for answer in ["3 0 77 1", "1 1000000 4503599627370497 1", "1 1000000 77", "1 1000000 77 1 1"] {
            let mut it = Alone::new(&breaker(&[]));
            let _ = it.begin(false);
            it.answer(answer, 1);
            assert_eq!(refused_for(&mut it), None, "{answer}");
            let told = it.engine.snapshot(it.now).store.unwrap();
            assert!(told.up, "{answer}: the matter of one route");
        }
    }

    fn leased(it: &Alone) -> u32 {
        it.engine.snapshot(it.now).routes[0].rate.unwrap().tokens
    }

    #[test]
    fn a_grant_is_at_most_what_was_asked_for_and_that_at_most_the_burst() {
        for (lease, most) in [(1.0, 1), (5.0, 6), (10.0, 10)] {
            let mut it = Alone::new(&rate(lease));
            let _ = it.begin(true);
            it.answer(&format!("{HUGE} 0 1"), 1);
            assert!(leased(&it) <= most, "lease {lease}: {}", leased(&it));
        }
    }

    #[test]
    fn a_wait_is_at_most_the_time_in_which_a_burst_flows() {
        let mut pairs = rate(1.0);
        pairs.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(60e6))]);
        let mut it = Alone::new(&pairs);
        let (call, _) = it.begin(true);
        it.answer(&format!("0 {HUGE} 1"), 1);
        let step = it.engine.on(call, Event::Poll, it.now);
        assert!(step.next().unwrap() <= Duration::from_secs(1), "{step:?}");
    }

    #[test]
    fn processes_are_at_most_ten_thousand_and_none_leaves_what_was_known() {
        for (told, processes) in [(HUGE, 10_000), (10_001, 10_000), (3, 3)] {
            let mut it = Alone::new(&rate(5.0));
            let _ = it.begin(true);
            it.answer(&format!("5 0 {told}"), 1);
            let view =
                |it: &Alone| it.engine.snapshot(it.now).routes[0].rate.unwrap().fleet.unwrap().processes;
            assert_eq!(view(&it), processes, "told {told}");
            it.now = at(2_000_000);
            let _ = it.begin(true);
            it.answer("5 0 0", 1);
            assert_eq!(view(&it), processes, "told {told}, then 0");
        }
    }

    /// Permits that are there for calls after such an answer to the first of four.
    fn permits(answer: &str) -> usize {
        let mut it = Alone::new(&[
            ("bulkhead.max_concurrency", Number(3.0)),
            ("bulkhead.max_queue", Number(9.0)),
            ("bulkhead.store", Text("fleet")),
        ]);
        let calls: Vec<CallId> = (0..6).map(|_| it.begin(true).0).collect();
        it.answer(answer, 40);
        it.engine.check().unwrap();
        let now = it.now;
        let starts = |call: &&CallId| {
            matches!(it.engine.on(**call, Event::Poll, now).action(), Action::Attempt { .. })
        };
        calls.iter().filter(starts).count()
    }

    #[test]
    fn slots_are_at_most_the_limit_and_each_is_held_once() {
        // The first command asks for one slot, the next for those of the others.
        for (granted, first) in [(HUGE, 7), (1, 7), (9, HUGE), (9, 0)] {
            for keep in [0, 3, HUGE] {
                let answer = format!("{granted} {first} 3 0 {keep}");
                let permits = permits(&answer);
                assert!(permits <= 3, "{answer}: {permits}");
            }
        }
        assert_eq!(permits("0 0 3 0 0"), 0);
    }

    #[test]
    fn a_surplus_of_slots_goes_back_and_a_renewal_takes_only_what_it_asked_about() {
        let pairs = |limit: f64| {
            [
                ("bulkhead.max_concurrency", Number(limit)),
                ("bulkhead.max_queue", Number(9.0)),
                ("bulkhead.lease_ttl", Number(3e6)),
                ("bulkhead.store", Text("fleet")),
            ]
        };
        let mut it = Alone::new(&pairs(4.0));
        let calls: Vec<CallId> = (0..4).map(|_| it.begin(true).0).collect();
        it.answer("1 10 1 0 4", 1);
        let mut commands: Vec<StoreCommand> = Vec::new();
        it.engine.take_commands(&mut commands);
        assert_eq!(commands.len(), 1, "three more are asked for");
        let policy = it.policy;
        let smaller = Policy::from_pairs("api", &pairs(2.0)).unwrap();
        let _ = it.engine.retune(policy, smaller, it.now).unwrap();
        let _ = it.engine.on_reply(commands[0].id, Reply::Bytes(b"3 20 4 0 4"), it.now);
        let mut back = Vec::new();
        it.engine.take_commands(&mut back);
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let release: Vec<Vec<String>> = back.iter().map(|it| it.words.iter().map(text).collect()).collect();
        assert_eq!(release[0][6], "1", "a release: {release:?}");
        assert_eq!(release[0][12..], ["21", "22"], "what is above the limit");
        for call in &calls {
            let _ = it.engine.on(*call, Event::Poll, it.now);
        }
        for _ in 0..3 {
            let reply = |words: &Vec<Vec<u8>>| if words[6] == b"0" { &b"0 0 2 0 2"[..] } else { b"2 2" };
            for command in back.drain(..) {
                let _ = it.engine.on_reply(command.id, Reply::Bytes(reply(&command.words)), it.now);
            }
            it.engine.take_commands(&mut back);
        }
        assert!(back.is_empty(), "{back:?}");
        // A renewal is told that everything is gone, also what it did not name.
        it.now = at(1_100_000);
        let _ = it.engine.on(calls[0], Event::Timer, it.now);
        let mut commands = Vec::new();
        it.engine.take_commands(&mut commands);
        let renewal = commands.iter().find(|it| it.words[6] == b"2").expect("a renewal");
        let _ = it.engine.on_reply(renewal.id, Reply::Bytes(b"0 0 77 99"), it.now);
        it.engine.check().unwrap();
        assert_eq!(it.engine.snapshot(it.now).routes[0].pool.unwrap().in_flight, 2);
    }

    #[test]
    fn a_quantile_leaves_the_limit_within_the_policys_own() {
        let mut it = Alone::new(&[
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(8.0)),
            ("bulkhead.latency_threshold", Number(30e3)),
            ("bulkhead.latency_quantile", Number(0.9)),
            ("bulkhead.latency_store", Text("fleet")),
        ]);
        for turn in 0..40 {
            it.now = at(turn * 300_000);
            let (call, action) = it.begin(false);
            let Action::Attempt { attempt, .. } = action else { panic!("{action:?}") };
            let outcome = Outcome::of(Class::Ok);
            let _ = it.engine.on(call, Event::Finished { attempt, outcome }, it.now);
            let bucket = [HUGE, 1 << 31, 8_191, 0][turn as usize % 4];
            it.answer(&format!("{HUGE} {bucket}"), 1);
            let limit = it.engine.snapshot(it.now).routes[0].pool.unwrap().limit;
            assert!((1..=8).contains(&limit), "{limit}");
        }
    }

    /// A store without scripts: a counter that is less than was just added, a window and a break that last for ever.
    #[test]
    fn a_plain_store_is_bound_in_the_same_way() {
        let mut engine = Engine::new(1, Options::default());
        let _ = engine.attach_store(StoreKind::Plain, "", 1, at(0));
        let pairs = [rate(5.0), breaker(&[("breaker.break_factor", Number(1.0))])].concat();
        let policy = engine.policy(Policy::from_pairs("api", &pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", at(0));
        let (_, _) = engine.begin(route, &Request::default(), at(0));
        for _ in 0..6 {
            let mut commands = Vec::new();
            engine.take_commands(&mut commands);
            for command in commands {
                let answer = match command.words[0].as_slice() {
                    b"SET" => "OK".into(),
                    b"INCRBY" => "1".into(), // less than was wanted
                    _ => HUGE.to_string(),
                };
                let _ = engine.on_reply(command.id, Reply::Bytes(answer.as_bytes()), at(1_000));
            }
        }
        engine.check().unwrap();
        let route = &engine.snapshot(at(1_000)).routes[0];
        assert!(route.rate.unwrap().tokens <= 6, "{route:?}");
        let request = Request { may_park: false, ..Request::default() };
        let mut open = None;
        let route = engine.route(policy, "eu", at(1_000));
        let (_, step) = engine.begin(route, &request, at(1_000));
        if let Action::Done { verdict: Verdict::BreakerOpen, retry_in, .. } = step.action() {
            open = retry_in;
        }
        assert!(open.is_some_and(|left| left <= Duration::from_secs(1)), "{step:?}");
    }
}
