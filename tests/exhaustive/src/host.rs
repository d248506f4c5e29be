//! The host of a small world: replays actions, lists the possible next ones, and counts.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Kind, Load, Opinion, Options, Outcome, PolicyId, Request,
    Step, Time, Verdict, Wait,
};

use crate::world::{Act, How, Small, World};

#[derive(Debug, Hash)]
struct Call {
    id: u64,
    route: u8,
    within: Option<u8>,
    /// Attempts that were started and not yet reported, oldest first.
    running: Vec<u8>,
    started: u8,
    next: Option<u64>,
    waits: Option<u8>,
    /// The call was woken and has not been polled yet.
    woken: bool,
    done: bool,
}

pub struct Host<'a> {
    small: &'a Small,
    world: &'a World,
    engine: Engine,
    policy: PolicyId,
    calls: Vec<Call>,
    now: u64,
    /// The settings in force, and how often the settings and the process changed.
    other: bool,
    retunes: u8,
    restarts: u8,
    forced: bool,
    silences: u8,
    /// Attempts, and calls that started an attempt, by route.
    attempts: Vec<u64>,
    begun: Vec<u64>,
    load: Load,
    pub seen: [bool; 3],
}

const ORIGIN: u64 = 1 << 40;

impl<'a> Host<'a> {
    pub fn new(small: &'a Small) -> Self {
        let world = &small.world;
        let mut engine = Engine::new(1, Options::default().max_routes(world.max_routes));
        let policy = engine.policy(small.policies[0].clone()).expect("the only one");
        Self {
            small,
            world,
            engine,
            policy,
            calls: Vec::new(),
            now: ORIGIN,
            other: false,
            retunes: 0,
            restarts: 0,
            forced: false,
            silences: 0,
            attempts: vec![0; world.routes.into()],
            begun: vec![0; world.routes.into()],
            load: small.load,
            seen: [false; 3],
        }
    }

    /// The actions that are possible next, without those that would change nothing.
    pub fn choices(&self) -> Vec<Act> {
        let mut all = Vec::new();
        let begun = self.calls.len() as u8;
        if begun < self.world.calls {
            // Routes are interchangeable: the first call takes the first one, and no call skips an unused route.
            let used = self.calls.iter().map(|call| call.route + 1).max().unwrap_or(0);
            for route in 0..self.world.routes.min(used + 1) {
                all.push(Act::Begin { route, within: None });
                if self.world.nests {
                    let around = (0..begun).filter(|n| !self.calls[usize::from(*n)].done);
                    all.extend(around.map(|n| Act::Begin { route, within: Some(n) }));
                }
            }
        }
        for (n, call) in (0..).zip(&self.calls) {
            for how in self.world.hows {
                if !call.running.is_empty() {
                    all.push(Act::End { call: n, newest: true, how: *how });
                }
                if call.running.len() > 1 {
                    all.push(Act::End { call: n, newest: false, how: *how });
                }
            }
            if call.done {
                continue;
            }
            all.push(Act::Cancel(n));
            if call.woken {
                all.push(Act::Poll(n));
            }
            if call.next.is_some() {
                all.push(Act::Due(n));
            }
        }
        if self.silences == 0 && self.calls.iter().any(|call| !call.done) {
            all.push(Act::Silence);
        }
        if self.world.other.is_some() && self.retunes < 2 {
            all.push(Act::Retune);
        }
        if self.world.forces {
            all.push(Act::Force(!self.forced));
        }
        if self.world.restarts && self.restarts == 0 && begun > 0 {
            all.push(Act::Restart);
        }
        all
    }

    pub fn act(&mut self, act: Act) -> Result<(), String> {
        match act {
            Act::Begin { route, within } => {
                let now = Time::from_micros(self.now);
                let id = self.engine.route(self.policy, ["a", "b", "c"][usize::from(route)], now);
                let parent = within.map(|n| CallId::from_word(self.calls[usize::from(n)].id));
                let request = Request { parent, abortable: self.world.abortable, ..Request::default() };
                let (id, step) = self.engine.begin(id, &request, now);
                self.calls.push(Call {
                    id: id.to_word(),
                    route,
                    within,
                    running: Vec::new(),
                    started: 0,
                    next: None,
                    waits: None,
                    woken: false,
                    done: false,
                });
                self.follow(self.calls.len() - 1, step)?;
            }
            Act::End { call, newest, how } => {
                let running = &mut self.calls[usize::from(call)].running;
                let attempt = running.remove(if newest { running.len() - 1 } else { 0 });
                let (class, opinion) = match how {
                    How::Ok => (Class::Ok, Opinion::None),
                    How::Failure => (Class::Transient, Opinion::None),
                    How::Again => (Class::Permanent, Opinion::Retry),
                };
                let outcome = Outcome { kind: Kind::from(class), opinion, retry_after: None };
                self.send(call.into(), Event::Finished { attempt, outcome })?;
            }
            Act::Cancel(call) => self.send(call.into(), Event::Cancel)?,
            Act::Poll(call) => self.send(call.into(), Event::Poll)?,
            Act::Due(call) => {
                let due = self.calls[usize::from(call)].next.unwrap_or(self.now);
                self.now = self.now.max(due);
                self.send(call.into(), Event::Timer)?;
            }
            Act::Silence => {
                self.silences += 1;
                self.now += 61_000_000;
            }
            Act::Retune => {
                (self.other, self.retunes) = (!self.other, self.retunes + 1);
                let to = self.small.policies[usize::from(self.other)].clone();
                let _ = self
                    .engine
                    .retune(self.policy, to, Time::from_micros(self.now))
                    .map_err(|why| why.to_string())?;
            }
            Act::Force(on) => {
                self.forced = on;
                let _ = self.engine.force_open(self.policy, None, on, Time::from_micros(self.now));
            }
            Act::Restart => self.restart()?,
        }
        self.take_wakes()
    }

    fn restart(&mut self) -> Result<(), String> {
        self.restarts += 1;
        let now = Time::from_micros(self.now);
        let saved = self.engine.save(now);
        let mut engine = Engine::new(2, Options::default().max_routes(self.world.max_routes));
        self.policy = engine
            .policy(self.small.policies[usize::from(self.other)].clone())
            .map_err(|why| why.to_string())?;
        let _ = engine.restore(&saved, Duration::from_micros(0), now).map_err(|why| why.to_string())?;
        self.engine = engine;
        for call in &mut self.calls {
            (call.done, call.woken) = (true, false);
            call.running.clear();
            call.next = None;
        }
        if self.forced {
            let _ = self.engine.force_open(self.policy, None, true, now);
        }
        Ok(())
    }

    fn send(&mut self, n: usize, event: Event) -> Result<(), String> {
        self.calls[n].woken = false;
        let id = CallId::from_word(self.calls[n].id);
        let step = self.engine.on(id, event, Time::from_micros(self.now));
        self.follow(n, step)
    }

    fn follow(&mut self, n: usize, step: Step) -> Result<(), String> {
        let call = &mut self.calls[n];
        if call.done {
            let stale = matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. });
            return if stale { Ok(()) } else { Err(format!("R1: {step:?} after the end of call {n}")) };
        }
        if self.world.abortable {
            call.running.retain(|attempt| step.stop() >> (attempt.wrapping_sub(1) & 7) & 1 == 0);
        }
        call.next = step.next().map(|span| self.now + span.as_micros());
        call.waits = None;
        match step.action() {
            Action::Attempt { attempt, .. } => {
                if attempt != call.started + 1 {
                    return Err(format!("attempt {attempt} of call {n} follows {}", call.started));
                }
                call.started = attempt;
                call.running.push(attempt);
                self.attempts[usize::from(call.route)] += 1;
                self.begun[usize::from(call.route)] += u64::from(attempt == 1);
                self.seen[0] |= attempt > 1;
            }
            Action::Wait { why } => {
                self.seen[1] |= why == Wait::Queue;
                call.waits = Some(why as u8);
            }
            Action::Done { verdict, .. } => {
                self.seen[2] |= verdict == Verdict::Budget;
                (call.done, call.next) = (true, None);
                if self.world.abortable {
                    call.running.clear();
                }
            }
        }
        Ok(())
    }

    fn take_wakes(&mut self) -> Result<(), String> {
        let mut wakes = Vec::new();
        self.engine.take_wakes(&mut wakes);
        for id in wakes {
            let call = self.calls.iter_mut().find(|call| call.id == id.to_word());
            call.ok_or("a call was woken that never was")?.woken = true;
        }
        Ok(())
    }

    /// Checks the invariants that hold after every action.
    pub fn rules(&self) -> Result<(), String> {
        self.engine.check()?;
        let now = Time::from_micros(self.now);
        for route in self.engine.snapshot(now).routes {
            let Some(pool) = route.pool else { continue };
            // A limit that shrinks takes no permit away.
            if self.retunes == 0 && pool.in_flight > pool.limit {
                return Err(format!("{} permits of {} are out", pool.in_flight, pool.limit));
            }
            // R2: a free permit belongs to the first waiter.
            if pool.in_flight < pool.limit && pool.waiting > 0 {
                return Err(format!("a permit is free beside {} waiters", pool.waiting));
            }
        }
        // The printed bound, per route; routes without room share one additional budget.
        let seconds = (self.now - ORIGIN) as f64 / 1e6;
        let more = self.world.max_routes < self.world.routes.into();
        for (attempts, calls) in self.attempts.iter().zip(&self.begun) {
            let once = self.load.per_second * seconds + self.load.burst;
            let bound = self.load.per_call * *calls as f64 + once * (1.0 + f64::from(u8::from(more)));
            // In a shared budget, deposits of other routes' calls count too.
            let all: u64 = if more { self.begun.iter().sum() } else { *calls };
            let bound = bound + (self.load.per_call - 1.0) * (all - calls) as f64;
            if *attempts as f64 > bound + 1e-9 {
                return Err(format!("{attempts} attempts of {calls} calls, bound {bound}"));
            }
        }
        Ok(())
    }

    /// Behaves correctly from here on: every attempt is reported, every timer fires, no call begins.
    pub fn drain(&mut self) -> Result<(), String> {
        for _ in 0..400 {
            if self.calls.iter().all(|call| call.done && call.running.is_empty()) {
                let left = self.engine.snapshot(Time::from_micros(self.now));
                let held = left.routes.iter().filter_map(|route| route.pool).map(|pool| pool.in_flight).sum();
                return match (left.live, left.waiting, held) {
                    (0, 0, 0_u32) => Ok(()),
                    left => Err(format!("(live, waiting, permits) = {left:?} are left")),
                };
            }
            for n in 0..self.calls.len() {
                if let Some(attempt) = self.calls[n].running.first().copied() {
                    self.calls[n].running.remove(0);
                    let outcome = Outcome::of(Class::Ok);
                    self.send(n, Event::Finished { attempt, outcome })?;
                } else if !self.calls[n].done {
                    self.send(n, Event::Poll)?;
                }
                self.take_wakes()?;
            }
            // No call can proceed: the earliest timer fires.
            let waits = |call: &Call| !call.done && call.running.is_empty();
            let due = self.calls.iter().enumerate().filter(|(_, call)| waits(call));
            let due = due.filter_map(|(n, call)| Some((call.next?, n))).min();
            if let Some((at, n)) = due
                && self.calls.iter().all(|call| call.running.is_empty())
            {
                self.now = self.now.max(at);
                self.send(n, Event::Timer)?;
                self.take_wakes()?;
            }
        }
        Err("a call has no end within 400 rounds".into())
    }

    /// A digest of everything that determines the next actions.
    pub fn print(&self) -> u64 {
        let mut print = Print(0xcbf2_9ce4_8422_2325);
        let _ = write!(print, "{:?}", self.engine); // never fails
        self.calls.hash(&mut print);
        let counts = (self.now, self.other, self.retunes, self.restarts, self.forced, self.silences);
        (counts, &self.attempts, &self.begun).hash(&mut print);
        print.finish()
    }
}

/// FNV-1a, for text and for values.
struct Print(u64);

impl std::fmt::Write for Print {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.write(text.as_bytes());
        Ok(())
    }
}

impl Hasher for Print {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
