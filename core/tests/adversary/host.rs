//! Plays a scenario: a host that does what steps say, reports what the scenario says, and counts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tidegate::{
    Action, CallId, Engine, Event, Load, Opinion, Options, Outcome, Policy, PolicyId, Pool, PoolKind, Step,
    Time, Verdict, Wait, fleet::StoreKind,
};

use super::bound::{Allowed, ByKey};
use super::events::{self, Call, Key};
use super::genome::{EVENT, EVENTS, Genome, POLICIES, VARIANTS};
use super::judge::Judgement;
use super::settings::{self, Pairs, Shape, build, of, word};
use super::store::Store;

/// Findings whose mends are not there yet: what leads to them is left out of scenarios.
#[derive(Clone, Copy, Default, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent findings
pub struct Spared {
    /// S1: an opinion that has an answer retried whose class is not.
    pub opinions: bool,
    /// S2: more keys than `max_routes`.
    pub evictions: bool,
    /// S5: other settings for policies and pools in use.
    pub retunes: bool,
    /// S10: hedges that draw on a budget of `tokens`, or on the budget of a policy that makes one attempt.
    pub hedges: bool,
    /// S4: clocks that swing by more than threads explain.
    pub clocks: bool,
}

thread_local! {
    static LOADS: RefCell<BTreeMap<String, Load>> = const { RefCell::new(BTreeMap::new()) };
    static BUILT: RefCell<BTreeMap<String, Policy>> = const { RefCell::new(BTreeMap::new()) };
}

/// Calls at once, so that a schedule costs milliseconds.
const MOST_LIVE: usize = 40;

/// A call that has not ended, or whose attempts have not been reported.
#[derive(Debug)]
pub(super) struct Live {
    serial: u64,
    id: CallId,
    policy: usize,
    key: usize,
    cost: u64,
    running: Vec<u8>,
    stopped: Vec<u8>,
    abortable: bool,
    next: Option<u64>,
    waits: Option<Wait>,
    done: bool,
    /// Takes tokens: none, one per call, one per attempt.
    rated: Option<&'static str>,
}

pub struct Host {
    pub(super) spared: Spared,
    pub(super) genome: Vec<u8>,
    pub(super) shape: Shape,
    pub(super) max_routes: usize,
    pub(super) engine: Engine,
    pub(super) store: Option<Store>,
    pub(super) policies: Vec<PolicyId>,
    pub(super) pairs: Vec<Pairs>,
    pub(super) pools: Vec<Pool>,
    /// Which of its settings each policy has.
    pub(super) variants: Vec<usize>,
    pub(super) seen: Vec<ByKey>,
    pub(super) allowed: Vec<Allowed>,
    pub(super) rate_pool: Allowed,
    /// Which (policy, key) were ever named.
    pub(super) named: BTreeSet<(usize, usize)>,
    pub(super) live: Vec<Live>,
    pub(super) serial: u64,
    pub(super) turn: usize,
    pub(super) reading: u64,
    /// The highest reading since the clock was last set.
    pub(super) highest: u64,
    /// µs that have passed since the beginning.
    pub(super) passed: u64,
    pub(super) retuned: bool,
    /// Events that may still be sent.
    pub(super) fuel: u32,
    /// Retunes, restarts and forks, forces, hedges, refusals of a budget, calls within calls.
    pub(super) events: [u32; 6],
}

/// Plays a whole scenario: its events in turn, again and again. Panics are the engine's, or a rule of this host's.
pub fn play(genome: &Genome, spared: Spared) -> Judgement {
    let mut host = Host::new(genome, spared);
    let rounds = of(genome.0[1] >> 4, &[1, 3, 10, 30]);
    let mut worst = host.excess();
    for _ in 0..rounds {
        for record in genome.0[EVENTS..].as_chunks::<EVENT>().0 {
            let (event, times) = events::decode(record);
            for _ in 0..times {
                host.act(&event);
                if host.fuel == 0 {
                    break;
                }
            }
        }
        let now = host.excess();
        if now.excess > worst.excess {
            worst = now;
        }
        if worst.excess > 1e-6 || host.fuel == 0 {
            break;
        }
    }
    host.engine.check().unwrap_or_else(|law| panic!("{law}"));
    host.permits_are_kept();
    worst.sort = host.sort();
    worst
}

/// The scenario for people.
pub fn describe(genome: &Genome, spared: Spared) -> String {
    let host = Host::new(genome, spared);
    let mut text = format!(
        "max_routes {}, {} rounds, {:?}\n",
        host.max_routes,
        of(genome.0[1] >> 4, &[1, 3, 10, 30]),
        host.shape
    );
    for policy in 0..POLICIES {
        let all: Vec<Pairs> = (0..VARIANTS).map(|variant| host.settings(policy, variant)).collect();
        for (variant, pairs) in all.iter().enumerate().filter(|(n, pairs)| *n == 0 || *pairs != &all[0]) {
            let _ = writeln!(text, "p{policy}.{variant}: {pairs:?}");
        }
    }
    for pool in &host.pools {
        let _ = writeln!(text, "pool {}: {:?}", pool.name(), pool.to_pairs());
    }
    for record in genome.0[EVENTS..].as_chunks::<EVENT>().0 {
        let (event, times) = events::decode(record);
        let _ = writeln!(text, "{times} × {event:?}");
    }
    text
}

impl Spared {
    /// The findings of a list such as `S1,S4`.
    pub fn of(list: &str) -> Self {
        let named = |name: &str| list.split(',').any(|it| it.trim() == name);
        Self {
            opinions: named("S1"),
            evictions: named("S2"),
            clocks: named("S4"),
            retunes: named("S5"),
            hedges: named("S10"),
        }
    }
}

impl Host {
    fn new(genome: &Genome, spared: Spared) -> Self {
        let bytes = genome.0.clone();
        let max_routes = if spared.evictions { 10_000 } else { of(bytes[1], &[10_000, 10_000, 1, 2, 3, 8]) };
        let shape = Shape {
            budget_pool: bytes[2] % 4 == 1,
            rate_pool: bytes[2] >> 2 & 3 == 1,
            store: bytes[13] & 3 == 1,
            on_loss: of(bytes[13] >> 2, &["local", "local", "closed", "open"]),
        };
        let now = Time::from_micros(1 << 52);
        let engine = Engine::new(u64::from(bytes[0]), Options::default().max_routes(max_routes));
        let mut host = Self {
            spared,
            shape,
            max_routes: max_routes as usize,
            engine,
            store: shape.store.then(Store::new),
            policies: Vec::new(),
            pairs: Vec::new(),
            pools: [PoolKind::Budget, PoolKind::RateLimit].map(|kind| settings::pool(&bytes, kind, 0)).into(),
            genome: bytes,
            variants: vec![0; POLICIES],
            seen: vec![ByKey::default(); POLICIES],
            allowed: vec![Allowed::default(); POLICIES],
            rate_pool: Allowed::default(),
            named: BTreeSet::new(),
            live: Vec::new(),
            serial: 0,
            turn: 0,
            reading: now.as_micros(),
            highest: now.as_micros(),
            passed: 0,
            retuned: false,
            fuel: 1_500,
            events: [0; 6],
        };
        if shape.store {
            let _ = host.engine.attach_store(StoreKind::Lua, "", 1, now);
        }
        for pool in host.pools.clone() {
            host.engine.pool(pool, now).expect("the first of its name");
        }
        for policy in 0..POLICIES {
            let pairs = host.settings(policy, 0);
            let id = host.engine.policy(Self::built(policy, &pairs)).expect("its pools are there");
            host.policies.push(id);
            host.pairs.push(pairs);
        }
        host.learn_bounds();
        host
    }

    /// The settings of a variant, without what leads to a finding that is spared.
    pub(super) fn settings(&self, policy: usize, variant: usize) -> Pairs {
        let mut pairs = settings::policy(&self.genome, policy, variant, self.shape);
        let kind = word(&pairs, "hedge.budget.kind");
        if self.spared.hedges && kind.is_none_or(|kind| matches!(kind, "shared" | "tokens")) {
            pairs.retain(|(key, _)| !key.starts_with("hedge."));
        }
        pairs
    }

    pub(super) fn now(&self) -> Time {
        Time::from_micros(self.reading)
    }

    /// The printed bound of a policy as it is now; explaining one takes long, so it is kept for later schedules.
    pub(super) fn load(&self, policy: usize) -> Load {
        let key = format!("{:?} {:?}", self.pairs[policy], self.pools[0].to_pairs());
        let explain = || self.engine.explain_policy(self.policies[policy]).expect("it was taken in").load;
        LOADS.with_borrow_mut(|loads| *loads.entry(key).or_insert_with(explain))
    }

    /// A policy, made once for all schedules.
    pub(super) fn built(policy: usize, pairs: &Pairs) -> Policy {
        let key = format!("{policy} {pairs:?}");
        let fresh = || build(&format!("p{policy}"), pairs);
        BUILT.with_borrow_mut(|built| built.entry(key).or_insert_with(fresh).clone())
    }

    /// What the present settings allow is allowed from here on.
    pub(super) fn learn_bounds(&mut self) {
        for policy in 0..POLICIES {
            let load = self.load(policy);
            self.allowed[policy].load(&load);
            self.allowed[policy].rate(&self.pairs[policy], "rate_limit.");
        }
        let pairs: Pairs =
            self.pools[1].to_pairs().iter().map(|(key, value)| ((*key).to_owned(), owned(*value))).collect();
        self.rate_pool.rate(&pairs, "");
    }

    fn act(&mut self, event: &events::Event) {
        match *event {
            events::Event::Call(call) => self.call(call),
            events::Event::Begin(call) => drop(self.begin(call)),
            events::Event::Finish { call, outcome, oldest } => {
                if let Some(n) = self.young(call) {
                    self.finish(n, outcome, oldest);
                }
            }
            events::Event::Head(call) => {
                if let Some(n) = self.young(call) {
                    let attempt = self.live[n].running.last().copied().unwrap_or(1);
                    self.send(n, Event::Headers { attempt });
                }
            }
            events::Event::Due(call) => {
                if let Some(n) = self.young(call) {
                    let (serial, due) = (self.live[n].serial, self.live[n].next.unwrap_or(self.reading));
                    self.pass(due.saturating_sub(self.reading).min(70_000_000));
                    self.timer(serial);
                }
            }
            events::Event::Poll(call) => self.event(call, Event::Poll),
            events::Event::Cancel(call) => self.event(call, Event::Cancel),
            events::Event::Pass(span) => self.pass(span),
            events::Event::Retune { policy, to } if !self.spared.retunes => self.retune(policy, to),
            events::Event::RetunePool { rate, to } if !self.spared.retunes => self.retune_pool(rate, to),
            events::Event::Flap { policy, to } if !self.spared.retunes => self.flap(policy, to),
            events::Event::Retune { .. } | events::Event::Flap { .. } | events::Event::RetunePool { .. } => {}
            events::Event::Force { policy, key, on } => {
                let id = self.policies[policy];
                let now = self.now();
                let route = key.map(|key| {
                    self.named.insert((policy, key));
                    self.engine.route(id, &format!("k{key}"), now)
                });
                let _ = self.engine.force_open(id, route, on, now);
                self.events[2] += 1;
                self.wake();
            }
            events::Event::Restart(elapsed) => self.restart(elapsed),
            events::Event::Fork => {
                self.serial += 1;
                let _ = self.engine.after_fork(self.serial, self.now());
                self.events[1] += 1;
                self.live.clear();
            }
            events::Event::Clock(clock) => self.set_clock(clock),
            events::Event::Store(fate) => {
                if let Some(store) = &mut self.store {
                    store.fate = fate;
                }
            }
        }
        self.fuel = self.fuel.saturating_sub(1);
    }

    fn pass(&mut self, span: u64) {
        let end = self.passed + span;
        while let Some(due) = self.store.as_ref().and_then(Store::due).filter(|due| *due < end) {
            self.elapse(due.saturating_sub(self.passed));
            self.wake();
        }
        self.elapse(end - self.passed);
    }

    fn elapse(&mut self, span: u64) {
        self.reading += span;
        self.passed += span;
        self.highest = self.highest.max(self.reading);
        // The engine sees it at once, so that its time and ours agree when the clock is set.
        let _ = self.engine.on(CallId::from_word(0), Event::Poll, self.now());
    }

    fn young(&self, n: usize) -> Option<usize> {
        self.live.len().checked_sub(n + 1)
    }

    fn event(&mut self, call: usize, event: Event) {
        if let Some(n) = self.young(call) {
            self.send(n, event);
        }
    }

    fn key(&mut self, key: Key) -> usize {
        match key {
            Key::Fixed(key) => key,
            Key::InTurn => {
                self.turn += 1;
                self.turn % if self.max_routes > 8 { 3 } else { self.max_routes + 1 }
            }
        }
    }

    /// Begins a call; its serial number, unless it was refused.
    fn begin(&mut self, call: Call) -> Option<u64> {
        if self.live.len() >= MOST_LIVE {
            return None;
        }
        let key = self.key(call.key);
        let now = self.now();
        let parent = self.live.iter().rev().find(|it| call.nested && !it.done).map(|it| it.id);
        self.named.insert((call.policy, key));
        self.events[5] += u32::from(parent.is_some());
        let route = self.engine.route(self.policies[call.policy], &format!("k{key}"), now);
        let request = tidegate::Request { parent, ..call.request };
        let (id, step) = self.engine.begin(route, &request, now);
        self.serial += 1;
        let pairs = &self.pairs[call.policy];
        let paced = pairs.iter().any(|(key, _)| key.starts_with("rate_limit."));
        self.live.push(Live {
            serial: self.serial,
            id,
            policy: call.policy,
            key,
            cost: request.cost.into(),
            running: Vec::new(),
            stopped: Vec::new(),
            abortable: request.abortable,
            next: None,
            waits: None,
            done: false,
            rated: paced.then(|| word(pairs, "rate_limit.unit").unwrap_or("call")),
        });
        let serial = self.serial;
        self.follow(self.live.len() - 1, step);
        self.wake();
        self.place(serial).map(|_| serial)
    }

    /// The timer of a call fires, unless the call has ended while the clock went on to it.
    fn timer(&mut self, serial: u64) {
        if let Some(n) = self.place(serial) {
            self.send(n, Event::Timer);
        }
    }

    fn place(&self, serial: u64) -> Option<usize> {
        self.live.iter().rposition(|it| it.serial == serial)
    }

    /// A call from its begin to its end, or to a wait that only others can end.
    fn call(&mut self, call: Call) {
        let Some(serial) = self.begin(call) else { return };
        let mut reported = 0;
        for _ in 0..60 {
            let Some(n) = self.place(serial).filter(|n| !self.live[*n].done) else { break };
            let it = &self.live[n];
            let due = it.next.map(|next| next.saturating_sub(self.reading));
            if let Some(due) = due
                && call.slow
                && it.waits.is_none()
                && it.running.len() < 4
                && due <= 100_000
                && reported < 8
            {
                let running = it.running.len();
                self.pass(due);
                self.timer(serial);
                // Nothing has started beside it, so its host waits no longer.
                if self.place(serial).is_some_and(|n| self.live[n].running.len() > running) {
                    continue;
                }
            }
            let Some(n) = self.place(serial).filter(|n| !self.live[*n].done) else { break };
            match (self.live[n].running.is_empty(), self.live[n].waits) {
                (false, _) => {
                    self.finish(n, call.ends[reported.min(3)], call.oldest_first);
                    reported += 1;
                }
                (true, Some(Wait::Queue | Wait::Rate | Wait::Hold | Wait::Cooldown)) => break,
                (true, _) => {
                    let due = self.live[n].next.map_or(0, |next| next.saturating_sub(self.reading));
                    self.pass(due.min(5_000_000));
                    self.timer(serial);
                }
            }
        }
    }

    fn finish(&mut self, n: usize, mut outcome: Outcome, oldest: bool) {
        if self.spared.opinions && outcome.opinion == Opinion::Retry {
            outcome.opinion = Opinion::None;
        }
        let running = &self.live[n].running;
        let attempt = if oldest { running.first() } else { running.last() };
        let Some(attempt) = attempt.copied() else { return };
        self.send(n, Event::Finished { attempt, outcome });
    }

    fn send(&mut self, n: usize, event: Event) {
        let it = &mut self.live[n];
        if let Event::Finished { attempt, .. } = event {
            it.running.retain(|running| *running != attempt);
        }
        let (id, now) = (it.id, self.now());
        let step = self.engine.on(id, event, now);
        self.fuel = self.fuel.saturating_sub(1);
        self.follow(n, step);
        self.wake();
    }

    fn follow(&mut self, n: usize, step: Step) {
        let at = self.reading;
        let it = &mut self.live[n];
        if it.done {
            assert!(matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. }), "R1: {step:?}");
            if it.running.is_empty() {
                self.live.remove(n);
            }
            return;
        }
        for attempt in it.running.clone() {
            if step.stop() >> (attempt.wrapping_sub(1) & 7) & 1 == 1 {
                it.stopped.push(attempt);
                if it.abortable {
                    it.running.retain(|running| *running != attempt);
                }
            }
        }
        it.next = step.next().map(|span| at.saturating_add(span.as_micros()));
        it.waits = None;
        match step.action() {
            Action::Attempt { attempt, hedge } => {
                self.events[3] += u32::from(hedge);
                it.running.push(attempt);
                let seen = self.seen[it.policy].entry(it.key).or_default();
                seen.calls += u64::from(attempt == 1);
                seen.attempts += 1;
                // Where a retune took the rate limit away, nothing is taken any more.
                let paced = self.pairs[it.policy].iter().any(|(key, _)| key.starts_with("rate_limit."));
                if paced && it.rated == Some("attempt") || paced && it.rated == Some("call") && attempt == 1 {
                    seen.tokens += it.cost;
                }
            }
            Action::Wait { why } => it.waits = Some(why).filter(|why| *why != Wait::Running),
            Action::Done { verdict, .. } => {
                self.events[4] += u32::from(verdict == Verdict::Budget);
                it.done = true;
                if it.abortable || it.running.is_empty() {
                    self.live.remove(n);
                }
            }
        }
    }

    pub(super) fn wake(&mut self) {
        for _ in 0..64 {
            self.carry();
            let mut wakes = Vec::new();
            self.engine.take_wakes(&mut wakes);
            if wakes.is_empty() {
                return;
            }
            for id in wakes {
                if let Some(n) = self.live.iter().rposition(|it| it.id == id && !it.done) {
                    let step = self.engine.on(id, Event::Poll, self.now());
                    self.follow(n, step);
                }
            }
        }
    }
}

/// A value whose text is one of the table's words.
pub(super) fn owned(value: tidegate::Value<'_>) -> tidegate::Value<'static> {
    use tidegate::Value::{Number, Text};
    match value {
        Number(n) => Number(n),
        Text(text) => Text(settings::KINDS.iter().find(|kind| **kind == text).unwrap_or(&"")),
    }
}
