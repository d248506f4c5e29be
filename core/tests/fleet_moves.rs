//! A rate that becomes the fleet's, or the process's own again, while calls wait in its queue (semantics 0.6, 10.1).

use Value::{Number, Text};
use tidegate::fleet::{Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Engine, Event, Options, Policy, PolicyId, Request, RouteId, Time, Value, Verdict, Wait,
};

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;

struct Alone {
    engine: Engine,
    policy: PolicyId,
    route: RouteId,
    now: u64,
}

/// So many a second, one at once; waits at most so long, if at all.
fn policy(permits: f64, fleet: bool, max_wait: Option<f64>) -> Policy {
    let mut pairs = vec![
        ("rate_limit.permits", Number(permits)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(1.0)),
    ];
    if let Some(max_wait) = max_wait {
        pairs.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(max_wait))]);
    }
    if fleet {
        pairs.extend([("rate_limit.store", Text("fleet")), ("rate_limit.lease", Number(1.0))]);
    }
    Policy::from_pairs("api", &pairs).unwrap()
}

impl Alone {
    fn new(of: Policy) -> Self {
        let (mut engine, now) = (Engine::new(1, Options::default()), Time::from_micros(0));
        let _ = engine.attach_store(StoreKind::Lua, "", 1, now);
        let policy = engine.policy(of).unwrap();
        let route = engine.route(policy, "eu", now);
        Self { engine, policy, route, now: 0 }
    }

    fn begin(&mut self) -> (CallId, Action) {
        let (call, step) = self.engine.begin(self.route, &Request::default(), Time::from_micros(self.now));
        (call, step.action())
    }

    fn retune(&mut self, to: Policy) {
        let flags = self.engine.retune(self.policy, to, Time::from_micros(self.now)).unwrap();
        let mut wakes = Vec::new();
        self.engine.take_wakes(&mut wakes);
        assert!(flags.wakes && !wakes.is_empty(), "who waits is told");
    }

    /// Comes back when its timer says, or at the latest at this moment, until it waits no more: when, and how that ended.
    fn wait(&mut self, call: CallId, until: u64, answer: &str) -> (u64, Action) {
        let mut event = Event::Poll;
        loop {
            let step = self.engine.on(call, event, Time::from_micros(self.now));
            self.answer(answer);
            let Action::Wait { .. } = step.action() else { return (self.now, step.action()) };
            if self.now >= until {
                return (self.now, step.action());
            }
            let next = step.next().expect("who waits has a timer").as_micros().max(1);
            self.now = (self.now + next).min(until);
            event = Event::Timer;
        }
    }

    fn answer(&mut self, answer: &str) {
        let mut commands: Vec<StoreCommand> = Vec::new();
        self.engine.take_commands(&mut commands);
        for command in commands {
            let _ = self.engine.on_reply(
                command.id,
                Reply::Bytes(answer.as_bytes()),
                Time::from_micros(self.now),
            );
        }
    }
}

#[test]
fn who_waits_for_its_turn_is_not_refused_at_it_when_the_rate_becomes_the_fleets() {
    let mut it = Alone::new(policy(1.0, false, Some(5e6)));
    assert!(matches!(it.begin().1, Action::Attempt { .. }));
    let (call, action) = it.begin();
    assert_eq!(action, Action::Wait { why: Wait::Rate });
    it.now = 200 * MILLI;
    it.retune(policy(1.0, true, Some(5e6)));
    // The store has nothing for two seconds: longer than the turn that the call was told at first.
    let (at, action) = it.wait(call, 2 * SECOND, "0 2000000 1");
    assert_eq!((at, action), (2 * SECOND, Action::Wait { why: Wait::Rate }));
    let (at, action) = it.wait(call, 9 * SECOND, "1 0 1");
    assert!(matches!(action, Action::Attempt { .. }), "{action:?}");
    assert!(at <= 2_300 * MILLI, "{at}");
}

#[test]
fn patience_for_a_fleets_rate_ends_after_max_wait_from_the_change() {
    let mut it = Alone::new(policy(1.0, false, Some(3e6)));
    assert!(matches!(it.begin().1, Action::Attempt { .. }));
    let (call, _) = it.begin();
    it.now = 500 * MILLI;
    it.retune(policy(1.0, true, Some(3e6)));
    let (at, action) = it.wait(call, 9 * SECOND, "0 900000 1");
    assert!(matches!(action, Action::Done { verdict: Verdict::RateLimited, .. }), "{action:?}");
    assert!(at <= 3_500 * MILLI, "{at}");
}

#[test]
fn who_would_not_wait_is_refused_when_the_rate_is_the_processs_own_again() {
    let mut it = Alone::new(policy(1.0, true, None));
    let (first, _) = it.begin();
    it.answer("1 0 1");
    let step = it.engine.on(first, Event::Poll, Time::from_micros(0));
    assert!(matches!(step.action(), Action::Attempt { .. }));
    it.now = 60 * MILLI; // the pause after too little is over
    let (call, action) = it.begin();
    assert_eq!(action, Action::Wait { why: Wait::Store });
    it.retune(policy(1.0, false, None));
    let (at, action) = it.wait(call, 5 * SECOND, "1 0 1");
    assert!(matches!(action, Action::Done { verdict: Verdict::RateLimited, .. }), "{action:?}");
    assert_eq!(at, 60 * MILLI, "at once");
}

#[test]
fn who_waits_for_the_fleets_gets_its_turn_when_the_rate_is_the_processs_own_again() {
    let mut it = Alone::new(policy(2.0, true, Some(5e6)));
    let (first, _) = it.begin();
    it.answer("1 0 1");
    assert!(matches!(
        it.engine.on(first, Event::Poll, Time::from_micros(0)).action(),
        Action::Attempt { .. }
    ));
    it.now = 60 * MILLI;
    let calls: Vec<CallId> = (0..3).map(|_| it.begin().0).collect();
    it.answer("0 4000000 1");
    it.retune(policy(2.0, false, Some(5e6)));
    for (call, turn) in calls.iter().zip([500, 1_000, 1_500]) {
        let (at, action) = it.wait(*call, 9 * SECOND, "0 4000000 1");
        assert!(matches!(action, Action::Attempt { .. }), "{action:?}");
        assert_eq!(at, turn * MILLI);
    }
    it.engine.check().unwrap();
}

/// The policy without a rate.
fn none() -> Policy {
    Policy::from_pairs("api", &[("deadline", Number(9e6))]).unwrap()
}

/// The policy with a set of one limit, one a second.
fn set(fleet: bool) -> Policy {
    let mut pairs = vec![
        ("rate_limit.limits", Text("calls: permits=1 per=1s burst=1")),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(5e6)),
    ];
    pairs.extend(fleet.then_some(("rate_limit.store", Text("fleet"))));
    Policy::from_pairs("api", &pairs).unwrap()
}

/// The answer to what was asked for a form of the rate says nothing to another form that has taken its place.
#[test]
fn an_answer_about_another_form_of_the_rate_counts_nothing() {
    let rate = || policy(1.0, true, Some(5e6));
    for (was, is, answer) in [
        (rate(), set(true), &b"1 0 1"[..]),
        (rate(), set(true), b"0 900000 1"),
        (set(true), rate(), b"0 0 1 1 0"),
        (set(true), rate(), b"900000 1 1 0 0"),
    ] {
        let mut it = Alone::new(was);
        let (call, _) = it.begin();
        let mut asked = Vec::new();
        it.engine.take_commands(&mut asked);
        let _ = it.engine.on(call, Event::Cancel, Time::from_micros(0));
        for to in [none(), is] {
            let _ = it.engine.retune(it.policy, to, Time::from_micros(0)).unwrap();
        }
        // A command of the old form does not stand for one of the new form.
        let (next, action) = it.begin();
        assert_eq!(action, Action::Wait { why: Wait::Store });
        let _ = it.engine.on_reply(asked[0].id, Reply::Bytes(answer), Time::from_micros(1));
        it.engine.check().unwrap();
        let mut asks = Vec::new();
        it.engine.take_commands(&mut asks);
        assert_eq!(asks.len(), 1);
        let step = it.engine.on(next, Event::Poll, Time::from_micros(1));
        assert_eq!(step.action(), Action::Wait { why: Wait::Store });
    }
}

/// Who waits while the rate is removed and returns in another form waits for `max_wait` from then, and gets in.
#[test]
fn who_waits_for_a_rate_gets_in_when_it_has_another_form() {
    let rate = |fleet| policy(1.0, fleet, Some(5e6));
    let forms = [(rate(true), set(false)), (rate(false), set(false)), (set(false), rate(false))];
    let fleets = [(rate(false), set(true)), (set(false), rate(true)), (rate(true), set(true))];
    for (was, is) in forms.into_iter().chain(fleets) {
        let mut it = Alone::new(was);
        let (first, action) = it.begin();
        if let Action::Wait { .. } = action {
            it.answer("1 0 1");
            let step = it.engine.on(first, Event::Poll, Time::from_micros(0));
            assert!(matches!(step.action(), Action::Attempt { .. }));
        }
        let (call, _) = it.begin();
        it.answer("0 1000000 1");
        for to in [none(), is] {
            let _ = it.engine.retune(it.policy, to, Time::from_micros(0)).unwrap();
            it.engine.check().unwrap();
        }
        let view = &it.engine.snapshot(Time::from_micros(0)).routes[0];
        let in_set = view.limits.len() == 1;
        let answer = if in_set { "0 0 1 1 0" } else { "1 0 1" };
        let (at, action) = it.wait(call, 9 * SECOND, answer);
        assert!(matches!(action, Action::Attempt { .. }), "{action:?} at {at}");
        assert!(at <= 1_100 * MILLI, "{at}");
        it.engine.check().unwrap();
    }
}
