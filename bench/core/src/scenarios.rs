//! Scenarios: calls of every kind with their expected course. A scenario that takes another course panics.

use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Options, Outcome, Policy, PolicyId, Request, RouteId, Step, Time,
    Value, Verdict, Wait, wire,
};

/// A policy as pairs.
pub type Pairs = &'static [(&'static str, Value<'static>)];

/// One round of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// A call whose first `failures` attempts fail.
    Call {
        /// Attempts that fail before one works.
        failures: u8,
    },
    /// A call whose hedge starts and wins.
    HedgeWon,
    /// Two calls; the second waits for its tokens.
    RateWait,
    /// Two calls; the second waits for the permit of the first.
    HandOff,
    /// A call that a full queue refuses, beside a running and a waiting call.
    Refused,
    /// Two failures that open a breaker, a call that the breaker refuses, and the probe that closes it.
    Trip,
    /// A call whose first attempt times out and whose second succeeds.
    TimedOut,
}

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The scenario's name, on the command line and in `instructions.txt`.
    pub name: &'static str,
    /// The scenario's policy.
    pub pairs: Pairs,
    /// The round that is repeated.
    pub round: Round,
    /// Number of calls in a round.
    pub calls: u32,
    /// Time between two rounds, in microseconds.
    pub every: u64,
}

/// Rate limit, bulkhead, breaker, retry with a budget, attempt timeout and deadline: the components that the peers'
/// stacks have.
pub const FULL: Pairs = &[
    ("preset", Text("http")),
    ("attempt_timeout", Number(1e6)),
    ("retry.backoff.base", Number(0.0)),
    ("retry.budget.percent_can_retry", Number(2.0)),
    // More than any bench can use up, also by a real clock.
    ("rate_limit.permits", Number(1e9)),
    ("rate_limit.per", Number(1e6)),
    ("bulkhead.max_concurrency", Number(100.0)),
    ("bulkhead.max_queue", Number(100.0)),
    ("breaker.failure_ratio", Number(0.9)),
    ("breaker.window", Number(10e6)),
    ("breaker.min_throughput", Number(20.0)),
    ("breaker.break_duration", Number(5e6)),
];

/// The full policy with a hedge after 50 ms.
const HEDGED: Pairs = &[
    ("preset", Text("http")),
    ("attempt_timeout", Number(1e6)),
    ("bulkhead.max_concurrency", Number(100.0)),
    ("hedge.delay", Number(50e3)),
    ("hedge.budget.kind", Text("none")),
];

/// All scenarios. The first three have existed as long as the engine.
#[rustfmt::skip]
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "bare", pairs: &[("deadline", Number(30e6))], round: Round::Call { failures: 0 }, calls: 1, every: 10 },
    Scenario {
        name: "happy",
        pairs: &[
            ("preset", Text("http")),
            ("attempt_timeout", Number(1e6)),
            ("bulkhead.max_concurrency", Number(100.0)),
            ("bulkhead.max_queue", Number(100.0)),
        ],
        round: Round::Call { failures: 0 },
        calls: 1,
        every: 10,
    },
    Scenario {
        name: "one_retry",
        pairs: &[
            ("preset", Text("http")),
            ("retry.backoff.base", Number(0.0)),
            ("retry.budget.percent_can_retry", Number(2.0)),
            ("bulkhead.max_concurrency", Number(100.0)),
        ],
        round: Round::Call { failures: 1 },
        calls: 1,
        every: 10,
    },
    Scenario { name: "full", pairs: FULL, round: Round::Call { failures: 0 }, calls: 1, every: 10 },
    Scenario { name: "full_one_retry", pairs: FULL, round: Round::Call { failures: 1 }, calls: 1, every: 10 },
    Scenario {
        name: "throttle",
        pairs: &[("deadline", Number(30e6)), ("throttle.k", Number(2.0))],
        round: Round::Call { failures: 0 },
        calls: 1,
        every: 10,
    },
    Scenario {
        name: "gradient2",
        pairs: &[
            ("deadline", Number(30e6)),
            ("bulkhead.kind", Text("gradient2")),
            ("bulkhead.max_concurrency", Number(100.0)),
        ],
        round: Round::Call { failures: 0 },
        calls: 1,
        every: 10,
    },
    Scenario { name: "hedge_idle", pairs: HEDGED, round: Round::Call { failures: 0 }, calls: 1, every: 10 },
    Scenario { name: "hedge_won", pairs: HEDGED, round: Round::HedgeWon, calls: 1, every: 100_000 },
    Scenario {
        name: "rate_wait",
        pairs: &[
            ("deadline", Number(30e6)),
            ("rate_limit.permits", Number(1.0)),
            ("rate_limit.per", Number(1e3)),
            ("rate_limit.wait", Number(1.0)),
            ("rate_limit.max_wait", Number(1e6)),
        ],
        round: Round::RateWait,
        calls: 2,
        every: 10_000,
    },
    Scenario {
        name: "hand_off",
        pairs: &[
            ("deadline", Number(30e6)),
            ("bulkhead.max_concurrency", Number(1.0)),
            ("bulkhead.max_queue", Number(10.0)),
        ],
        round: Round::HandOff,
        calls: 2,
        every: 10,
    },
    Scenario {
        name: "codel_hand_off",
        pairs: &[
            ("deadline", Number(30e6)),
            ("bulkhead.max_concurrency", Number(1.0)),
            ("bulkhead.max_queue", Number(10.0)),
            ("bulkhead.queue_target", Number(5e3)),
            ("bulkhead.prioritized", Number(1.0)),
        ],
        round: Round::HandOff,
        calls: 2,
        every: 10,
    },
    Scenario {
        name: "refused",
        pairs: &[
            ("deadline", Number(30e6)),
            ("bulkhead.max_concurrency", Number(1.0)),
            ("bulkhead.max_queue", Number(1.0)),
        ],
        round: Round::Refused,
        calls: 3,
        every: 10,
    },
    Scenario {
        name: "trip",
        pairs: &[
            ("deadline", Number(30e6)),
            ("retry.max_attempts", Number(1.0)),
            ("breaker.consecutive", Number(2.0)),
            ("breaker.break_duration", Number(1e3)),
            ("breaker.break_factor", Number(1.0)),
        ],
        round: Round::Trip,
        calls: 4,
        every: 10_000,
    },
    Scenario { name: "timed_out", pairs: FULL, round: Round::TimedOut, calls: 1, every: 2_000_000 },
];

/// The scenario of this name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// An engine with one route.
pub struct World {
    /// The engine.
    pub engine: Engine,
    policy: PolicyId,
    /// The engine's route.
    pub route: RouteId,
    wakes: Vec<CallId>,
}

impl World {
    /// An engine with this policy.
    ///
    /// # Panics
    /// If the pairs are not a valid policy.
    pub fn new(pairs: &[(&str, Value<'_>)]) -> Self {
        Self::within(Engine::new(7, Options::default().max_routes(1 << 19)), pairs)
    }

    /// The given engine with this policy.
    ///
    /// # Panics
    /// If the pairs are not a valid policy.
    pub fn within(mut engine: Engine, pairs: &[(&str, Value<'_>)]) -> Self {
        let policy =
            engine.policy(Policy::from_pairs("p", pairs).expect("a good policy")).expect("the only one");
        let route = engine.route(policy, "https://api.example:443", Time::from_micros(0));
        Self { engine, policy, route, wakes: Vec::with_capacity(16) }
    }

    /// Adds a route.
    pub fn new_route(&mut self, key: &str) -> RouteId {
        self.engine.route(self.policy, key, at(0))
    }

    /// Runs one round that starts at `now`. Returns a mix of the words that a binding would pass on, so that the
    /// compiler cannot remove the work.
    #[inline]
    pub fn round(&mut self, round: Round, now: u64) -> u64 {
        match round {
            Round::Call { failures } => self.call(failures, || at(now)),
            Round::HedgeWon => self.hedge_won(now),
            Round::RateWait => self.rate_wait(now),
            Round::HandOff => self.hand_off(now),
            Round::Refused => self.refused(now),
            Round::Trip => self.trip(now),
            Round::TimedOut => self.timed_out(now),
        }
    }

    /// One call.
    #[inline]
    pub fn call(&mut self, failures: u8, now: impl Fn() -> Time) -> u64 {
        let (call, step) = self.engine.begin(self.route, &Request::default(), now());
        let mut word = wire::pack_step(step);
        for attempt in 1..=failures + 1 {
            let class = if attempt > failures { Class::Ok } else { Class::Transient };
            word ^= wire::pack_step(self.engine.on(call, finished(attempt, class), now()));
        }
        word
    }

    fn begin(&mut self, now: u64) -> (CallId, Step) {
        self.engine.begin(self.route, &Request::default(), at(now))
    }

    fn end(&mut self, call: CallId, attempt: u8, class: Class, now: u64) -> Step {
        self.engine.on(call, finished(attempt, class), at(now))
    }

    fn hedge_won(&mut self, now: u64) -> u64 {
        let (call, first) = self.begin(now);
        let hedge = self.engine.on(call, Event::Timer, at(now + 50_000));
        let Action::Attempt { attempt: 2, hedge: true } = hedge.action() else { wrong("a hedge", hedge) };
        let last = self.end(call, 2, Class::Ok, now + 60_000);
        if last.stop() != 1 {
            wrong("a stopped first attempt", last);
        }
        wire::pack_step(first) ^ wire::pack_step(hedge) ^ wire::pack_step(last)
    }

    fn rate_wait(&mut self, now: u64) -> u64 {
        let (first, _) = self.begin(now);
        let (second, waits) = self.begin(now);
        let (Action::Wait { why: Wait::Rate }, Some(next)) = (waits.action(), waits.next()) else {
            wrong("a wait for the rate", waits)
        };
        let turn = now + next.as_micros();
        let starts = self.engine.on(second, Event::Timer, at(turn));
        let Action::Attempt { attempt: 1, .. } = starts.action() else { wrong("an attempt", starts) };
        let ends = [self.end(first, 1, Class::Ok, turn), self.end(second, 1, Class::Ok, turn)];
        self.drain();
        wire::pack_step(waits) ^ wire::pack_step(ends[0]) ^ wire::pack_step(ends[1])
    }

    fn hand_off(&mut self, now: u64) -> u64 {
        let (first, _) = self.begin(now);
        let (second, waits) = self.begin(now);
        let Action::Wait { why: Wait::Queue } = waits.action() else { wrong("a wait for a permit", waits) };
        let ends = self.end(first, 1, Class::Ok, now);
        self.drain();
        let starts = self.engine.on(second, Event::Poll, at(now));
        let Action::Attempt { attempt: 1, .. } = starts.action() else { wrong("an attempt", starts) };
        wire::pack_step(ends) ^ wire::pack_step(self.end(second, 1, Class::Ok, now))
    }

    fn refused(&mut self, now: u64) -> u64 {
        let (first, _) = self.begin(now);
        let (second, _) = self.begin(now);
        let (_, refused) = self.begin(now);
        expect(refused, Verdict::QueueFull);
        let left = self.engine.on(second, Event::Cancel, at(now));
        expect(left, Verdict::Cancelled);
        wire::pack_step(refused) ^ wire::pack_step(self.end(first, 1, Class::Ok, now))
    }

    fn trip(&mut self, now: u64) -> u64 {
        let mut word = 0;
        for _ in 0..2 {
            let (call, _) = self.begin(now);
            word ^= wire::pack_step(self.end(call, 1, Class::Transient, now));
        }
        let (_, refused) = self.begin(now);
        expect(refused, Verdict::BreakerOpen);
        let (probe, step) = self.begin(now + 2_000);
        let Action::Attempt { .. } = step.action() else { wrong("a probe", step) };
        word ^ wire::pack_step(self.end(probe, 1, Class::Ok, now + 2_000))
    }

    fn timed_out(&mut self, now: u64) -> u64 {
        let (call, _) = self.begin(now);
        let stopped = self.engine.on(call, Event::Timer, at(now + 1_000_000));
        if stopped.stop() != 1 {
            wrong("a stopped attempt", stopped);
        }
        let again = self.engine.on(call, finished(1, Class::Cancelled), at(now + 1_000_000));
        let again = if let Action::Attempt { .. } = again.action() {
            again
        } else {
            self.engine.on(call, Event::Poll, at(now + 1_000_000))
        };
        let Action::Attempt { attempt: 2, .. } = again.action() else { wrong("a second attempt", again) };
        wire::pack_step(stopped) ^ wire::pack_step(self.end(call, 2, Class::Ok, now + 1_000_001))
    }

    fn drain(&mut self) {
        self.wakes.clear();
        self.engine.take_wakes(&mut self.wakes);
    }
}

/// A moment.
pub const fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// The end of an attempt.
#[inline]
pub fn finished(attempt: u8, class: Class) -> Event {
    Event::Finished { attempt, outcome: Outcome::of(class) }
}

fn expect(step: Step, verdict: Verdict) {
    let Action::Done { verdict: is, .. } = step.action() else { wrong("an end", step) };
    assert!(is == verdict, "a scenario expected {verdict:?}: {step:?}");
}

#[cold]
fn wrong(expected: &str, step: Step) -> ! {
    panic!("a scenario expected {expected}: {step:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_does_what_it_says_again_and_again() {
        for scenario in SCENARIOS {
            let mut world = World::new(scenario.pairs);
            for n in 0..50 {
                world.round(scenario.round, n * scenario.every);
            }
            let snapshot = world.engine.snapshot(at(50 * scenario.every));
            assert_eq!(snapshot.live, 0, "{}: every call has ended", scenario.name);
        }
    }
}
