//! Clients and a server as discrete events. Every client has its own engine and drives it as a host does: it calls
//! `begin` and `on`, and carries out the steps. Time is simulated, and one seed determines a run.

use crate::dice::Dice;
use crate::server::{Job, Reply, Server};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tidegate::{
    Action, CallId, Class, Counts, Engine, Event, Options, Outcome, Policy, Request, RouteId, Step, Time,
    Value, Verdict,
};

/// A second, in µs.
pub const SECOND: u64 = 1_000_000;

/// A policy under test: a name for the tables, and its pairs.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name in the tables.
    pub name: String,
    /// The argument of `Policy::from_pairs`.
    pub pairs: Vec<(&'static str, Value<'static>)>,
}

impl Rule {
    /// A policy of these pairs.
    pub fn new(name: &str, pairs: &[(&'static str, Value<'static>)]) -> Self {
        Self { name: name.to_owned(), pairs: pairs.to_vec() }
    }

    /// The same policy with further pairs, which override earlier ones.
    #[must_use]
    pub fn with(mut self, pairs: &[(&'static str, Value<'static>)]) -> Self {
        for pair in pairs {
            self.pairs.retain(|(key, _)| *key != pair.0);
            self.pairs.push(*pair);
        }
        self
    }

    /// Builds the policy.
    ///
    /// # Panics
    /// If the pairs are not valid; they are written in this crate.
    pub fn policy(&self) -> Policy {
        Policy::from_pairs("lab", &self.pairs).unwrap_or_else(|errors| panic!("{}: {errors:?}", self.name))
    }
}

/// The arrival rates of calls per second, each until a moment in µs.
#[derive(Clone, Debug)]
pub struct Load(pub Vec<(u64, f64)>);

impl Load {
    /// One rate until a moment in seconds.
    pub fn steady(rate: f64, until: u64) -> Self {
        Self(vec![(until * SECOND, rate)])
    }

    /// A rate, with another one added from second `from` to second `to`.
    pub fn pulse(rate: f64, added: f64, (from, to): (u64, u64), until: u64) -> Self {
        Self(vec![(from * SECOND, rate), (to * SECOND, rate + added), (until * SECOND, rate)])
    }

    /// The next arrival after a moment; `None` after the end.
    fn next(&self, dice: &mut Dice, mut now: u64) -> Option<u64> {
        for (until, rate) in &self.0 {
            if now < *until && *rate > 0.0 {
                // A Poisson process has no memory, so the gap is drawn again at a change of rate.
                let at = now + dice.exponential(1e6 / rate);
                if at < *until {
                    return Some(at);
                }
            }
            now = now.max(*until);
        }
        None
    }

    fn end(&self) -> u64 {
        self.0.last().map_or(0, |(until, _)| *until)
    }
}

/// Counts of one second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    /// Calls that began.
    pub begun: u32,
    /// Of these, calls that succeeded.
    pub succeeded: u32,
    /// Attempts that started.
    pub attempts: u32,
}

/// A bound that every client has to keep at every moment: attempts ≤ (1 + ratio) · calls + start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound {
    /// Retries per call.
    pub ratio: f64,
    /// Retries that no call has earned.
    pub start: f64,
}

struct Client {
    engine: Engine,
    route: RouteId,
    calls: u64,
    attempts: u64,
    /// The indices of calls by id, if calls may wait for each other.
    places: BTreeMap<CallId, u32>,
}

#[derive(Clone, Copy)]
struct Call {
    id: CallId,
    client: u32,
    life: u32,
    timer: u32,
    begun: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrival,
    Timer { call: u32, timer: u32 },
    Answer { call: u32, life: u32, attempt: u8, class: u8 },
    Leave { call: u32, life: u32, attempt: u8 },
    Served,
}

/// A run: clients, a server, and the results.
pub struct World {
    clients: Vec<Client>,
    calls: Vec<Call>,
    free: Vec<u32>,
    server: Server,
    agenda: BinaryHeap<Reverse<(u64, u64, What)>>,
    order: u64,
    dice: Dice,
    /// The beginning of the run in µs of the engines' clocks, after the warm-up.
    epoch: u64,
    now: u64,
    /// Whether calls may wait for each other.
    queues: bool,
    wakes: Vec<CallId>,
    /// A bound that is checked at every attempt.
    pub bound: Option<Bound>,
    /// Attempts that exceeded the bound.
    pub broken: u64,
    /// Counts for each second.
    pub seconds: Vec<Bucket>,
    /// Number of ends by verdict.
    pub ends: [u64; Verdict::ALL.len()],
    /// Duration of each successful call in µs, if they are recorded.
    pub latencies: Option<Vec<u32>>,
}

impl World {
    /// A world of this many clients with this policy, before the first call.
    ///
    /// # Panics
    /// If the policy needs a store or a pool: the lab has neither.
    pub fn new(rule: &Rule, clients: u32, server: Server, seed: u64) -> Self {
        let policy = rule.policy();
        let mut dice = Dice::new(seed);
        let start = Time::from_micros(0);
        let clients = (0..clients).map(|_| {
            let mut engine = Engine::new(dice.bits(), Options::default().max_routes(1));
            let id = engine.policy(policy.clone()).expect("neither a pool nor a store is named");
            let route = engine.route(id, "lab", start);
            Client { engine, route, calls: 0, attempts: 0, places: BTreeMap::new() }
        });
        let clients: Vec<_> = clients.collect();
        let queues =
            rule.pairs.iter().any(|(key, _)| key.starts_with("bulkhead") || key.starts_with("rate_limit"));
        Self {
            clients,
            calls: Vec::new(),
            free: Vec::new(),
            server,
            agenda: BinaryHeap::new(),
            order: 0,
            dice,
            epoch: 0,
            now: 0,
            queues,
            wakes: Vec::new(),
            bound: None,
            broken: 0,
            seconds: Vec::new(),
            ends: [0; Verdict::ALL.len()],
            latencies: None,
        }
    }

    /// Lets each client make `calls` calls at its share of `rate` calls per second, all of which succeed at once.
    pub fn warm(&mut self, calls: u32, rate: f64) {
        let gap = (self.clients.len() as f64 / rate * 1e6) as u64;
        for client in &mut self.clients {
            for n in 0..u64::from(calls) {
                let now = Time::from_micros(n * gap);
                let (call, step) = client.engine.begin(client.route, &Request::default(), now);
                client.calls += 1;
                if matches!(step.action(), Action::Attempt { .. }) {
                    client.attempts += 1;
                    let event = Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) };
                    let _ended = client.engine.on(call, event, now);
                }
            }
        }
        self.epoch = u64::from(calls) * gap;
    }

    /// Begins this many calls at once.
    pub fn burst(&mut self, calls: u32) {
        for _ in 0..calls {
            self.call();
        }
    }

    /// Begins calls at the rates of the load, and runs until all of them have ended.
    pub fn run(&mut self, load: &Load) {
        self.seconds.resize((load.end() / SECOND) as usize + 1, Bucket::default());
        if let Some(at) = load.next(&mut self.dice, self.now) {
            self.push(at, What::Arrival);
        }
        while let Some(Reverse((at, _, what))) = self.agenda.pop() {
            self.now = at;
            match what {
                What::Arrival => {
                    if let Some(at) = load.next(&mut self.dice, at) {
                        self.push(at, What::Arrival);
                    }
                    self.call();
                }
                What::Timer { call, timer } => {
                    if self.calls[call as usize].timer == timer {
                        self.tell(call, Event::Timer);
                    }
                }
                What::Answer { call, life, attempt, class } => {
                    self.answer(Job { call, life, attempt }, Class::ALL[usize::from(class)]);
                }
                What::Leave { call, life, attempt } => {
                    self.server.leave();
                    self.answer(Job { call, life, attempt }, Class::Ok);
                }
                What::Served => {
                    let (done, next) = self.server.served(&mut self.dice, at);
                    if let Some(span) = next {
                        self.push(at + span, What::Served);
                    }
                    if let Some(job) = done {
                        self.answer(job, Class::Ok);
                    }
                }
            }
        }
    }

    /// Successes per call among the calls that began from second `from` to second `to`; 1 if there were none.
    pub fn goodput(&self, from: u64, to: u64) -> f64 {
        let (begun, succeeded, _) = self.totals(from, to);
        if begun == 0 { 1.0 } else { succeeded as f64 / begun as f64 }
    }

    /// Calls begun, succeeded and attempts started from second `from` to second `to`.
    pub fn totals(&self, from: u64, to: u64) -> (u64, u64, u64) {
        let of = self.seconds.iter().skip(from as usize).take((to - from) as usize);
        of.fold((0, 0, 0), |sum, second| {
            (
                sum.0 + u64::from(second.begun),
                sum.1 + u64::from(second.succeeded),
                sum.2 + u64::from(second.attempts),
            )
        })
    }

    /// The sum of all engines' counts.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for client in &self.clients {
            for (_, counts) in client.engine.snapshot(client.engine.now()).policies {
                sum.attempts += counts.attempts;
                sum.retries += counts.retries;
                for (sum, ends) in sum.ends.iter_mut().zip(counts.ends) {
                    *sum += ends;
                }
            }
        }
        sum
    }

    fn push(&mut self, at: u64, what: What) {
        self.order += 1;
        self.agenda.push(Reverse((at, self.order, what)));
    }

    fn time(&self) -> Time {
        Time::from_micros(self.epoch + self.now)
    }

    fn second(&mut self, at: u64) -> &mut Bucket {
        let last = self.seconds.len().saturating_sub(1);
        if self.seconds.is_empty() {
            self.seconds.push(Bucket::default());
        }
        &mut self.seconds[((at / SECOND) as usize).min(last)]
    }

    /// Begins a call of a client chosen at random.
    fn call(&mut self) {
        let number = if self.clients.len() == 1 { 0 } else { self.dice.below(self.clients.len() as u32) };
        let (now, at) = (self.time(), self.now);
        self.second(at).begun += 1;
        let client = &mut self.clients[number as usize];
        client.calls += 1;
        let (id, step) = client.engine.begin(client.route, &Request::default(), now);
        let place = self.free.pop().unwrap_or_else(|| {
            self.calls.push(Call { id, client: 0, life: 0, timer: 0, begun: 0 });
            self.calls.len() as u32 - 1
        });
        let call = &mut self.calls[place as usize];
        *call = Call { id, client: number, begun: at, ..*call };
        if self.queues {
            self.clients[number as usize].places.insert(id, place);
        }
        self.carry_out(place, step);
    }

    fn answer(&mut self, job: Job, class: Class) {
        if self.calls[job.call as usize].life == job.life {
            self.tell(job.call, Event::Finished { attempt: job.attempt, outcome: Outcome::of(class) });
        }
    }

    fn tell(&mut self, place: u32, event: Event) {
        let now = self.time();
        let call = &self.calls[place as usize];
        let step = self.clients[call.client as usize].engine.on(call.id, event, now);
        self.carry_out(place, step);
    }

    fn carry_out(&mut self, place: u32, step: Step) {
        let call = &mut self.calls[place as usize];
        call.timer = call.timer.wrapping_add(1);
        let (timer, life, client) = (call.timer, call.life, call.client);
        if let Some(span) = step.next() {
            let at = self.now.saturating_add(span.as_micros());
            self.push(at, What::Timer { call: place, timer });
        }
        match step.action() {
            Action::Attempt { attempt, .. } => self.attempt(Job { call: place, life, attempt }, client),
            Action::Wait { .. } => {}
            Action::Done { verdict, .. } => self.done(place, verdict),
        }
        if step.flags().wakes {
            self.wake(client);
        }
    }

    fn attempt(&mut self, job: Job, client: u32) {
        let at = self.now;
        self.second(at).attempts += 1;
        let client = &mut self.clients[client as usize];
        client.attempts += 1;
        if let Some(bound) = self.bound {
            let most = (1.0 + bound.ratio) * client.calls as f64 + bound.start;
            self.broken += u64::from(client.attempts as f64 > most + 1e-6);
        }
        let Job { call, life, attempt } = job;
        match self.server.arrive(job, &mut self.dice, at) {
            Reply::After(span, class) => {
                self.push(at + span, What::Answer { call, life, attempt, class: class as u8 });
            }
            Reply::Works(span) => self.push(at + span, What::Leave { call, life, attempt }),
            Reply::Serves(span) => self.push(at + span, What::Served),
            Reply::Queued | Reply::Dropped => {}
        }
    }

    fn done(&mut self, place: u32, verdict: Verdict) {
        let call = &mut self.calls[place as usize];
        call.life = call.life.wrapping_add(1);
        let (begun, client, id) = (call.begun, call.client, call.id);
        self.free.push(place);
        self.ends[verdict as usize] += 1;
        if verdict == Verdict::Ok {
            self.second(begun).succeeded += 1;
            let took = (self.now - begun) as u32;
            if let Some(latencies) = &mut self.latencies {
                latencies.push(took);
            }
        }
        if self.queues {
            self.clients[client as usize].places.remove(&id);
        }
    }

    /// Polls the calls that were woken.
    fn wake(&mut self, client: u32) {
        let mut wakes = core::mem::take(&mut self.wakes);
        let at = &mut self.clients[client as usize];
        at.engine.take_wakes(&mut wakes);
        let places: Vec<_> = wakes.drain(..).filter_map(|id| at.places.get(&id).copied()).collect();
        self.wakes = wakes;
        for place in places {
            self.tell(place, Event::Poll);
        }
    }
}
