//! Answers of a store that no script of ours gives: they mint nothing, and nobody talks to it for ever (semantics 10.6).

use tidegate::fleet::{Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, Request, RouteId, Time, Value,
    Verdict, Wait,
};

use Value::{Number, Text};

struct Alone {
    engine: Engine,
    route: RouteId,
    now: Time,
}

impl Alone {
    fn new(pairs: &[(&str, Value<'_>)]) -> Self {
        let (mut engine, now) = (Engine::new(1, Options::default()), Time::from_micros(0));
        let _ = engine.attach_store(StoreKind::Lua, "", now);
        let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", now);
        Self { engine, route, now }
    }

    fn begin(&mut self, may_park: bool) -> (CallId, Action) {
        let request = Request { may_park, idempotent: true, replayable: true, ..Request::default() };
        let (call, step) = self.engine.begin(self.route, &request, self.now);
        (call, step.action)
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
        assert!(matches!(it.engine.on(call, Event::Poll, it.now).action, Action::Attempt { .. }));
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
    assert!(step.next.unwrap() >= Duration::from_millis(1), "{step:?}");
}

#[test]
fn a_hedge_takes_no_token_of_the_fleets_that_is_not_there() {
    let mut pairs = rate(1.0);
    pairs.extend([("rate_limit.unit", Text("attempt")), ("hedge.delay", Number(1e4))]);
    let mut it = Alone::new(&pairs);
    let (call, _) = it.begin(true);
    it.answer("1 0 1", 5);
    let request = it.engine.on(call, Event::Poll, it.now);
    assert!(matches!(request.action, Action::Attempt { .. }));
    // Somebody has been told that there is nothing, and that time is over.
    let (refused, action) = it.begin(true);
    assert!(matches!(action, Action::Wait { .. }));
    it.answer("0 1000 1", 1);
    let verdict = it.engine.on(refused, Event::Poll, it.now).action;
    assert!(matches!(verdict, Action::Done { verdict: Verdict::RateLimited, .. }), "{verdict:?}");
    it.now = Time::from_micros(20_000);
    let step = it.engine.on(call, Event::Timer, it.now);
    assert!(!matches!(step.action, Action::Attempt { hedge: true, .. }), "{step:?}");
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
    it.answer("1 7 1 0", 1);
    let step = it.engine.on(call, Event::Poll, it.now);
    assert!(matches!(step.action, Action::Attempt { .. }), "{step:?}");
    let outcome = Outcome::of(Class::Transient);
    let mut step = it.engine.on(call, Event::Finished { attempt: 1, outcome }, it.now);
    for renewal in 1..=4 {
        assert!(matches!(step.action, Action::Wait { why: Wait::Backoff }), "{step:?}");
        assert!(step.next.unwrap() <= Duration::from_secs(1), "{step:?}");
        it.now = Time::from_micros(renewal * 1_000_000);
        step = it.engine.on(call, Event::Timer, it.now);
        assert!(step.flags.commands, "renewal {renewal}");
        it.answer("1 1", 1);
    }
    it.now = Time::from_micros(5_000_000);
    assert!(matches!(it.engine.on(call, Event::Timer, it.now).action, Action::Attempt { .. }));
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
        let _ = engine.attach_store(kind, "", at(0));
        let policy = engine.policy(Policy::from_pairs("api", &pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", at(0));
        let (call, step) = engine.begin(route, &Request::default(), at(0));
        assert!(matches!(step.action, Action::Wait { why: Wait::Store }) && step.flags.commands);
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
            matches!(step.action, Action::Wait { why: Wait::Store }) && up(&engine, 49),
            "{kind:?}: {step:?}"
        );
        let step = engine.on(call, Event::Timer, at(50));
        assert!(matches!(step.action, Action::Attempt { .. }), "{kind:?}, by its share: {step:?}");
        assert!(!up(&engine, 50));
    }
}
