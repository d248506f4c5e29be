//! A world for the engine: a host that does what it is told, or misbehaves, and checks every rule at every step.

#![allow(missing_docs, unused_imports, dead_code)] // test support, not all of it used by each test

mod checks;
mod policies;
#[allow(dead_code)] // of one test
mod restart;

use std::collections::BTreeMap;

use crate::clock::{Clock, SWING};
pub use policies::POLICIES;
use policies::{PLAIN, Pairs};
use proptest::prelude::*;
use tidegate::{
    Action, CallId, Class, Criticality, Duration, Engine, Event, Kind, Opinion, Options, Outcome, PathId,
    Policy, PolicyId, Request, Step, Time,
    Value::{Number, Text},
    Verdict, Wait, wire,
};

/// One thing that happens. Calls are named by how long ago they began, so that scripts shrink well.
#[derive(Clone, Debug)]
pub enum Op {
    Begin { policy: usize, key: u8, remaining: Option<u64>, flags: u8, more: u8, parent: Option<usize> },
    Force { policy: usize, key: Option<u8>, on: bool },
    Pass(u64),
    ClockBack(u64),
    Poll(usize),
    Timer(usize),
    Cancel(usize),
    Headers(usize),
    Finish { call: usize, class: u8, opinion: u8, retry_after: Option<u64>, attempt: Reported },
    Garbage { call: u64, event: u64 },
}

/// Which attempt a host reports.
#[derive(Clone, Copy, Debug)]
pub enum Reported {
    Newest,
    Oldest,
    Wrong(u8),
}

fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..300_000,
        2 => 0u64..3_000_000,
        1 => 0u64..90_000_000,
        1 => Just(0u64),
        1 => Just(1u64),
    ]
}

pub fn op() -> impl Strategy<Value = Op> {
    let reported = prop_oneof![
        8 => Just(Reported::Newest), 2 => Just(Reported::Oldest), 1 => any::<u8>().prop_map(Reported::Wrong)
    ];
    prop_oneof![
        6 => (0..POLICIES.len(), 0u8..2, prop::option::weighted(0.3, span()), any::<u8>(), any::<u8>(), prop::option::weighted(0.2, 0usize..8))
            .prop_map(|(policy, key, remaining, flags, more, parent)| Op::Begin { policy, key, remaining, flags, more, parent }),
        5 => span().prop_map(Op::Pass),
        1 => prop_oneof![1u64..10_000, 1u64..7_200_000_000].prop_map(Op::ClockBack),
        5 => (0usize..12).prop_map(Op::Poll),
        3 => (0usize..12).prop_map(Op::Timer),
        2 => (0usize..12).prop_map(Op::Cancel),
        1 => (0usize..12).prop_map(Op::Headers),
        9 => (0usize..12, 0u8..12, 0u8..8, prop::option::weighted(0.2, span()), reported)
            .prop_map(|(call, class, opinion, retry_after, attempt)| Op::Finish { call, class, opinion, retry_after, attempt }),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(call, event)| Op::Garbage { call, event }),
        1 => (PLAIN..POLICIES.len(), prop::option::of(0u8..2), prop::bool::weighted(0.4))
            .prop_map(|(policy, key, on)| Op::Force { policy, key, on }),
    ]
}

/// What the host knows of a call.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: CallId,
    pub policy: usize,
    /// Which of [`POLICIES`] it has its settings from.
    settings: usize,
    key: u8,
    request: Request,
    deadline: Option<u64>,
    attempts: u8,
    /// Started and not reported.
    running: Vec<u8>,
    stopped: Vec<u8>,
    parent: Option<usize>,
    shares: bool,
    queued: bool,
    pub done: Option<Verdict>,
    last: Step,
    next_at: Option<u64>,
    /// When the host last heard of it.
    heard: u64,
    failure: Option<Outcome>,
}

pub struct World {
    pub engine: Engine,
    policies: Vec<PolicyId>,
    /// By policy: which of [`POLICIES`] it has the settings of, and whether these ever changed.
    settings: Vec<usize>,
    retuned: Vec<bool>,
    /// By (policy, key): the permits that may be out; above the limit only what was out when the limit shrank.
    allowed: BTreeMap<(usize, u8), usize>,
    pub calls: Vec<Known>,
    by_id: BTreeMap<CallId, usize>,
    /// The host's clock, and the engine's time as it must be.
    reading: u64,
    clock: Clock,
    time: u64,
    pub words: Vec<u64>,
    /// Calls, attempts and the first and last moment, by (policy, key), for the amplification bound.
    load: BTreeMap<(usize, u8), (u64, u64)>,
    born: u64,
}

impl World {
    pub fn new(origin: u64, seed: u64) -> Self {
        Self::with(Options::default(), origin, seed)
    }

    pub fn with(options: Options, origin: u64, seed: u64) -> Self {
        let mut engine = Engine::new(seed, options);
        let build = |(n, pairs): (usize, &Pairs)| {
            let policy = Policy::from_pairs(&format!("p{n}"), pairs).unwrap_or_else(|e| panic!("{e:?}"));
            engine.policy(policy).unwrap()
        };
        let policies = POLICIES.iter().enumerate().map(build).collect();
        // The engine's clock begins with the reading that ours begins with.
        let step = engine.on(CallId::from_word(0), Event::Poll, Time::from_micros(origin));
        assert!(matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. }));
        Self {
            engine,
            policies,
            settings: (0..POLICIES.len()).collect(),
            retuned: vec![false; POLICIES.len()],
            allowed: BTreeMap::new(),
            calls: Vec::new(),
            by_id: BTreeMap::new(),
            reading: origin,
            clock: Clock::new(origin),
            time: origin,
            words: Vec::new(),
            load: BTreeMap::new(),
            born: origin,
        }
    }

    pub fn now(&self) -> Time {
        Time::from_micros(self.reading)
    }

    /// The host's clock says this now. Seen by the engine at once, so that its time and ours agree.
    fn read(&mut self, reading: u64) {
        let before = self.clock.now();
        self.reading = reading;
        self.time += self.clock.read(reading) - before;
        let step = self.engine.on(CallId::from_word(0), Event::Poll, self.now());
        assert!(matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. }));
    }

    /// Lets so much of the engine's time pass, however much the clock has to gain for that.
    pub fn sleep(&mut self, span: u64) {
        let until = self.time + span;
        while self.time < until {
            self.run(&Op::Pass(until - self.time));
        }
    }

    /// Lets the clock gain what its reading is below its highest one; until then the engine's time stands still (R10.2).
    /// A saved state does not know of it (R10.12).
    pub fn end_swing(&mut self) {
        self.read(self.clock.reading_at(self.clock.now()));
    }

    /// Carries out one operation and checks everything.
    pub fn run(&mut self, op: &Op) {
        match *op {
            Op::Begin { policy, key, remaining, flags, more, parent } => {
                self.begin(policy, key, remaining, (flags, more), parent);
            }
            Op::Force { policy, key, on } => {
                let now = self.now();
                let id = self.policies[policy];
                let route = key.map(|key| self.engine.route(id, &format!("key{key}"), now));
                let flags = self.engine.force_open(id, route, on, now);
                self.words.push(u64::from(flags.wakes));
            }
            Op::Pass(span) => self.read(self.reading + span),
            Op::ClockBack(span) => {
                let before = self.reading;
                let span = span.min(before);
                self.read(before - span);
                if i128::from(span) <= SWING {
                    self.read(before); // a thread whose reading came late; longer and the clock was set back
                }
            }
            Op::Poll(n) => self.event(n, |_| Event::Poll),
            Op::Timer(n) => self.event(n, |_| Event::Timer),
            Op::Cancel(n) => self.event(n, |_| Event::Cancel),
            Op::Headers(n) => self.event(n, |call| Event::Headers { attempt: call.attempts }),
            Op::Finish { call, class, opinion, retry_after, attempt } => {
                let outcome = Outcome {
                    kind: Kind::new(class).unwrap(),
                    opinion: match opinion {
                        0 => Opinion::Retry,
                        1 => Opinion::DoNot,
                        _ => Opinion::None,
                    },
                    retry_after: retry_after.map(Duration::from_micros),
                };
                self.event(call, |call| Event::Finished {
                    attempt: match attempt {
                        Reported::Newest => call.attempts,
                        Reported::Oldest => call.running.first().copied().unwrap_or(call.attempts),
                        Reported::Wrong(n) => n,
                    },
                    outcome,
                });
            }
            Op::Garbage { call, event } => {
                let id = CallId::from_word(call);
                if let Some(event) = wire::unpack_event(event)
                    && !self.by_id.contains_key(&id)
                {
                    let step = self.engine.on(id, event, self.now());
                    assert!(
                        matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. }),
                        "{step:?}"
                    );
                }
            }
        }
        self.check();
    }

    /// Gives a policy the settings of another.
    #[allow(dead_code)] // not every test retunes
    pub fn retune(&mut self, policy: usize, to: usize) {
        let settings = Policy::from_pairs(&format!("p{policy}"), POLICIES[to]).unwrap();
        let flags = self.engine.retune(self.policies[policy], settings, self.now()).unwrap();
        self.words.push(u64::from(flags.wakes));
        self.settings[policy] = to;
        self.retuned[policy] = true;
        self.check();
    }

    fn check(&mut self) {
        self.deliver_wakes();
        self.engine.check().unwrap_or_else(|law| panic!("{law}"));
        self.check_bounds();
    }

    fn begin(
        &mut self,
        policy: usize,
        key: u8,
        remaining: Option<u64>,
        (flags, more): (u8, u8),
        parent: Option<usize>,
    ) {
        let around = parent.and_then(|n| self.named(n));
        let parent = around.map(|n| self.calls[n].clone());
        let route = self.engine.route(self.policies[policy], &format!("key{key}"), self.now());
        let paths = ["/a/b/c/d/e", "/a/b/c/d/f", "/a/b/x", "/"];
        let path = paths[usize::from(more >> 4 & 3)];
        let request = Request {
            criticality: [
                Criticality::BestEffort,
                Criticality::Degraded,
                Criticality::Normal,
                Criticality::Critical,
            ][usize::from(more & 3)],
            cost: [1, 1, 2, 5][usize::from(more >> 2 & 3)],
            path: if more >> 6 == 0 { PathId::NONE } else { self.engine.path_id(route, path, self.now()) },
            remaining: remaining.map(Duration::from_micros),
            parent: parent.as_ref().map(|call| call.id),
            replayable: flags & 0b11 != 0,
            idempotent: flags & 0b1100 != 0,
            abortable: flags & 0b11_0000 != 0,
            may_park: flags & 64 != 0,
            slot_until_body: flags & 128 != 0,
            solo: flags & 0b0101_0101 == 0b0101_0101,
            stream: flags & 0b1010_0000 == 0b1010_0000,
        };
        let (id, step) = self.engine.begin(route, &request, self.now());
        assert!(self.by_id.insert(id, self.calls.len()).is_none(), "ids are never used twice");
        let own = POLICIES[self.settings[policy]].iter().find_map(|pair| match pair {
            ("deadline", Number(n)) => Some(*n as u64),
            ("preset", Text("http")) => Some(30_000_000),
            _ => None,
        });
        let deadline = match (own, remaining) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // A call within one that has a permit of the same pool may share it, however deep.
        let ancestors = std::iter::successors(around, |n| self.calls[*n].parent);
        let shares = ancestors.map(|n| &self.calls[n]).any(|call| (call.policy, call.key) == (policy, key));
        self.calls.push(Known {
            id,
            policy,
            settings: self.settings[policy],
            key,
            request,
            deadline: deadline.map(|span| self.time.saturating_add(span)),
            attempts: 0,
            running: vec![],
            stopped: vec![],
            parent: around,
            shares,
            queued: false,
            done: None,
            last: step,
            next_at: None,
            heard: self.time,
            failure: None,
        });
        self.follow(self.calls.len() - 1, step, Event::Poll);
    }

    /// The n-th youngest call; ended ones too, because hosts make mistakes.
    fn named(&self, n: usize) -> Option<usize> {
        self.calls.len().checked_sub(n + 1)
    }

    fn event(&mut self, n: usize, event: impl Fn(&Known) -> Event) {
        let Some(n) = self.named(n) else { return };
        let event = event(&self.calls[n]);
        self.send(n, event);
    }

    pub fn send(&mut self, n: usize, event: Event) {
        let call = &mut self.calls[n];
        if let Event::Finished { attempt, outcome } = event {
            if call.running.last() == Some(&attempt) && !call.stopped.contains(&attempt) {
                call.failure = Some(outcome);
            }
            call.running.retain(|running| *running != attempt);
        }
        let step = self.engine.on(call.id, event, Time::from_micros(self.reading));
        if let Some(verdict) = self.calls[n].done {
            // R1: after the one Done the id is stale; a lost call is told so once.
            let Action::Done { verdict: now, .. } = step.action() else {
                panic!("{step:?} after {verdict:?}")
            };
            assert_eq!(now, Verdict::Stale, "after {verdict:?}");
            assert_eq!(step.stop(), 0);
            self.words.push(wire::pack_step(step));
            return;
        }
        self.follow(n, step, event);
        if self.calls[n].done.is_none() {
            self.poll_changes_nothing(n);
        }
    }

    /// R3: a Poll at the same instant changes nothing.
    fn poll_changes_nothing(&mut self, n: usize) {
        let before = self.calls[n].last;
        let again = self.engine.on(self.calls[n].id, Event::Poll, Time::from_micros(self.reading));
        let expected = match before.action() {
            Action::Attempt { .. } => Step::new(Action::Wait { why: Wait::Running }, before.next()),
            action => Step::new(action, before.next()),
        };
        // A step that stopped an attempt whose next try is due at once leaves that to the owner's Poll, and so does one
        // that started an attempt beside which a hedge is due at once.
        let started = matches!(before.action(), Action::Attempt { .. });
        let due = (before.stop() != 0 || started) && before.next() == Some(Duration::ZERO);
        // A waiter's own poll may take back what others have not claimed: then it moves on, which is not nothing.
        let moved = matches!(
            before.action(),
            Action::Wait { why: Wait::Queue | Wait::Rate | Wait::Hold | Wait::Cooldown }
        ) && again.action() != before.action();
        if due || moved {
            self.follow(n, again, Event::Poll);
        } else {
            assert_eq!(again.with_flags(before.flags()), expected.with_flags(before.flags()));
        }
    }

    /// Does what a step says, and checks that it may say so.
    fn follow(&mut self, n: usize, step: Step, event: Event) {
        self.words.push(wire::pack_step(step));
        let time = self.time;
        let call = &mut self.calls[n];
        let silence = time - std::mem::replace(&mut call.heard, time);
        call.last = step;
        call.next_at = step.next().map(|span| time.saturating_add(span.as_micros()));
        for attempt in call.running.clone() {
            if step.stop() >> (attempt.wrapping_sub(1) & 7) & 1 == 1 && !call.stopped.contains(&attempt) {
                call.stopped.push(attempt);
                if call.request.abortable {
                    call.running.retain(|running| *running != attempt);
                }
            }
        }
        match step.action() {
            Action::Attempt { attempt, hedge } => {
                let hedges = POLICIES[call.settings].iter().any(|(key, _)| *key == "hedge.delay");
                let others = call.running.iter().any(|attempt| !call.stopped.contains(attempt));
                assert_eq!(hedge, others, "an attempt beside another is a hedge, and nothing else is");
                assert!(!hedge || hedges && call.request.idempotent && call.request.replayable, "8.1");
                assert_eq!(attempt, call.attempts + 1, "attempts are numbered in order");
                assert!(call.running.len() < 4, "R11: at most four at once");
                assert!(
                    attempt < 9 || !call.running.contains(&(attempt - 8)),
                    "R11: attempt n waits for n − 8"
                );
                assert!(
                    call.deadline.is_none_or(|deadline| deadline > time),
                    "7.2: nothing starts after the deadline"
                );
                if attempt > 1 {
                    let failure = call.failure.filter(|_| !hedge).unwrap_or(Outcome::of(Class::Timeout));
                    let never_sent = failure.kind == Class::NeverSent.into();
                    assert!(call.request.replayable, "2.3: a one-shot body is never sent again");
                    assert!(call.request.idempotent || never_sent, "2.2: method");
                    assert_ne!(failure.opinion, Opinion::DoNot);
                }
                call.attempts = attempt;
                call.running.push(attempt);
                call.failure = None;
                call.queued = false;
                let load = self.load.entry((call.policy, call.key)).or_default();
                load.0 += u64::from(attempt == 1);
                load.1 += 1;
            }
            Action::Wait { why } => {
                match why {
                    Wait::Queue => {
                        // R4: a parked call looks again within a second.
                        assert!(step.next().is_some_and(|span| span <= Duration::from_secs(1)), "{step:?}");
                        call.queued = true;
                    }
                    Wait::Hold | Wait::Rate | Wait::Cooldown => {
                        assert!(step.next().is_some_and(|span| span <= Duration::from_secs(1)), "{step:?}");
                    }
                    Wait::Backoff => {
                        let until = call.next_at.expect("a backoff ends");
                        // R8: a wait that outlives the deadline is not begun.
                        assert!(call.deadline.is_none_or(|deadline| until < deadline), "R8");
                        if let Event::Finished { outcome, .. } = event
                            && let Some(asked) = outcome.retry_after
                            && call.failure == Some(outcome)
                            && call.settings < 7
                        {
                            assert!(until >= time.saturating_add(asked.as_micros()), "2.7: never early");
                        }
                    }
                    Wait::Body => assert!(call.request.slot_until_body),
                    Wait::Running => {}
                    Wait::Store | Wait::Target => panic!("nothing waits for a store yet"),
                }
                if let (Some(until), Some(deadline)) = (call.next_at, call.deadline) {
                    assert!(until <= deadline || deadline <= time, "no timer beyond the deadline");
                }
            }
            Action::Done { verdict, result, .. } => {
                match verdict {
                    // R9: a grant is taken back after 5 s, any other lease after 60 s of being overdue; a lost call
                    // whose host stays away for another 60 s is forgotten.
                    Verdict::Lost => assert!(silence >= 5_000_000, "lost after {silence} µs: {call:?}"),
                    Verdict::Stale => {
                        assert!(silence >= 60_000_000, "forgotten after {silence} µs: {call:?}");
                    }
                    _ => {}
                }
                if let Some(lane) = result {
                    let raced = POLICIES[call.settings].iter().any(|(key, _)| *key == "hedge.delay");
                    assert!(raced || lane == tidegate::AttemptSlot::of(call.attempts));
                }
                call.done = Some(verdict);
                if call.request.abortable {
                    call.running.clear();
                }
            }
        }
    }

    fn deliver_wakes(&mut self) {
        let mut wakes = Vec::new();
        self.engine.take_wakes(&mut wakes);
        for id in wakes {
            let n = self.by_id[&id];
            // FIFO: nobody who came earlier to the same queue is still unwoken.
            let (policy, key) = (self.calls[n].policy, self.calls[n].key);
            self.calls[n].queued = false;
            if policy >= PLAIN || self.settings[policy] >= PLAIN {
                continue;
            }
            let overtaken = self.calls[..n].iter().find(|call| {
                call.queued
                    && call.done.is_none()
                    && self.time - call.heard < 60_000_000
                    && (call.policy, call.key) == (policy, key)
            });
            assert!(overtaken.is_none(), "{:?} overtook {overtaken:?}", self.calls[n]);
        }
    }
}
