//! Many processes and one store, in virtual time: commands are delayed, lost before or after they are carried out, answered
//! twice, out of order, or never. Everything follows from one seed.

#![allow(missing_docs, dead_code)] // test support; not every story uses all of it

use std::collections::{BTreeMap, BTreeSet};

use tidegate::fleet::{CommandId, KeptReply, MemoryStore, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, Record, Request, RouteId, Step,
    Time, Value, Verdict, Wait,
};

pub const SECOND: u64 = 1_000_000;

pub type Pairs = Vec<(&'static str, Value<'static>)>;

/// A generator for tests: xorshift*.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn up_to(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % (most + 1)
    }

    pub fn hits(&mut self, permille: u64) -> bool {
        self.up_to(999) < permille
    }
}

/// What may go wrong on the way, in thousandths of the commands; spans in microseconds.
#[derive(Clone)]
pub struct Faults {
    pub delay: (u64, u64),
    /// Never carried out, never answered.
    pub lost: u64,
    /// Carried out, never answered.
    pub unanswered: u64,
    /// The host does not even say so.
    pub forgotten: u64,
    pub answered_twice: u64,
    pub garbled: u64,
    /// The store is gone: from, to.
    pub gone: Vec<(u64, u64)>,
}

impl Faults {
    pub fn none() -> Self {
        let gone = Vec::new();
        Self {
            delay: (200, 2_000),
            lost: 0,
            unanswered: 0,
            forgotten: 0,
            answered_twice: 0,
            garbled: 0,
            gone,
        }
    }

    pub fn all() -> Self {
        let delay = (100, 40_000);
        Self {
            delay,
            lost: 20,
            unanswered: 20,
            forgotten: 10,
            answered_twice: 50,
            garbled: 10,
            ..Self::none()
        }
    }
}

enum What {
    Begin(usize),
    Timer(usize, CallId, u64),
    Finish(usize, CallId, u8),
    Cancel(usize, CallId),
    Look(usize, CallId),
    Serve(usize, StoreCommand, bool),
    Answer(usize, CommandId, KeptReply),
}

/// A call that has not started or ended.
struct Waiting {
    stamp: u64,
    since: u64,
    cost: u64,
}

/// What an attempt of a weighted call reserves and uses of `tokens`.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub call: CallId,
    pub from: u64,
    /// `u64::MAX` while it runs.
    pub to: u64,
    pub reserved: u64,
    pub used: u64,
    /// Whether the process had lost the store when it started.
    pub alone: bool,
}

pub struct Process {
    pub engine: Engine,
    pub route: RouteId,
    waiting: BTreeMap<CallId, Waiting>,
    running: BTreeSet<CallId>,
    /// How long they take, where it is not as long as all others' do.
    pub service: Option<(u64, u64)>,
    /// How its attempts end.
    pub class: Class,
    /// The Retry-After of their answers.
    pub retry_after: Option<Duration>,
    pub begun: u64,
    /// When attempts started, and what they cost.
    pub started: Vec<(u64, u64)>,
    pub usages: Vec<Usage>,
    pub ended: BTreeMap<Verdict, u64>,
    /// The longest that a call has waited.
    pub longest: u64,
    /// Tokens that answers have brought; tokens that commands have taken back.
    pub granted: u64,
    pub given_back: u64,
    pub commands: u64,
    pub records: Vec<Record>,
    answered: BTreeSet<CommandId>,
    between: (u64, u64),
    costs: (u64, u64),
    cancels: u64,
}

pub struct Sim {
    pub now: u64,
    pub store: MemoryStore,
    pub processes: Vec<Process>,
    pub faults: Faults,
    pub dice: Dice,
    agenda: BTreeMap<(u64, u64), What>,
    number: u64,
    /// No call begins after this.
    pub until: u64,
    pub check: bool,
    /// May calls wait for the store?
    pub parks: bool,
    pub service: (u64, u64),
    /// The most attempts that ran at once, in all processes.
    pub peak: usize,
    /// How much a weighted call uses, in thousandths of what it has reserved. Its cost is its weight, `tokens`.
    pub uses: Option<(u64, u64)>,
    /// How far the clocks of the processes swing ahead of true time.
    pub swing: u64,
}

/// The seed of a process's engine.
pub fn seed_of(seed: u64, number: usize) -> u64 {
    seed ^ (number as u64 + 1) << 32
}

/// The store's clock is another one.
pub const STORE_CLOCK: u64 = 1_700_000_000_000_000;

impl Sim {
    pub fn new(seed: u64, count: usize, pairs: &Pairs, faults: Faults) -> Self {
        Self::of(StoreKind::Lua, seed, count, pairs, faults)
    }

    pub fn of(kind: StoreKind, seed: u64, count: usize, pairs: &Pairs, faults: Faults) -> Self {
        Self::with(kind, Options::default(), seed, count, pairs, faults)
    }

    pub fn with(
        kind: StoreKind,
        options: Options,
        seed: u64,
        count: usize,
        pairs: &Pairs,
        faults: Faults,
    ) -> Self {
        let process = |number: usize| {
            let mut engine = Engine::new(seed_of(seed, number), options);
            let now = Time::from_micros(0);
            let _ = engine.attach_store(kind, "", seed_of(seed, number), now);
            let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
            let route = engine.route(policy, "eu", now);
            engine.subscribe(true);
            Process {
                engine,
                route,
                waiting: BTreeMap::new(),
                running: BTreeSet::new(),
                service: None,
                class: Class::Ok,
                retry_after: None,
                begun: 0,
                started: Vec::new(),
                usages: Vec::new(),
                ended: BTreeMap::new(),
                longest: 0,
                granted: 0,
                given_back: 0,
                commands: 0,
                records: Vec::new(),
                answered: BTreeSet::new(),
                between: (0, 0),
                costs: (1, 1),
                cancels: 0,
            }
        };
        Self {
            now: 0,
            store: MemoryStore::new(),
            processes: (0..count).map(process).collect(),
            faults,
            dice: Dice::new(seed),
            agenda: BTreeMap::new(),
            number: 0,
            until: 0,
            parks: true,
            check: true,
            service: (500, 3_000),
            peak: 0,
            uses: None,
            swing: 0,
        }
    }

    /// Calls of every process from now on: one each `between` microseconds, of these costs; so many thousandths cancelled.
    pub fn load(&mut self, between: (u64, u64), costs: (u64, u64), cancels: u64) {
        for process in 0..self.processes.len() {
            let it = &mut self.processes[process];
            (it.between, it.costs, it.cancels) = (between, costs, cancels);
            let first = self.dice.up_to(between.1);
            self.put(first, What::Begin(process));
        }
    }

    /// From now on calls of this process come at other intervals.
    pub fn load_of(&mut self, process: usize, between: (u64, u64)) {
        self.processes[process].between = between;
    }

    fn put(&mut self, after: u64, what: What) {
        self.number += 1;
        self.agenda.insert((self.now + after, self.number), what);
    }

    /// Runs to the end of the load and until every call has ended.
    pub fn run(&mut self, until: u64) {
        self.until = until;
        while self.step() {}
        for process in &self.processes {
            assert!(process.waiting.is_empty() && process.running.is_empty(), "every call ends (R1)");
            let ended: u64 = process.ended.values().sum();
            assert_eq!(process.begun, ended, "once");
        }
    }

    /// Runs until this moment. The load goes on beyond it, also where a call begins at just that moment.
    pub fn run_to(&mut self, moment: u64) {
        self.until = self.until.max(moment + 1);
        while self.agenda.first_key_value().is_some_and(|(key, _)| key.0 <= moment) {
            self.step();
        }
        self.now = moment;
    }

    fn step(&mut self) -> bool {
        let Some(((at, _), what)) = self.agenda.pop_first() else { return false };
        self.now = at;
        let now = self.reading();
        let of = match what {
            What::Begin(process) => {
                let it = &self.processes[process];
                let (between, costs, cancels) = (it.between, it.costs, it.cancels);
                if at < self.until {
                    let next = between.0 + self.dice.up_to(between.1 - between.0);
                    self.put(next, What::Begin(process));
                    let cost = costs.0 + self.dice.up_to(costs.1 - costs.0);
                    let call = self.begin(process, cost);
                    if self.dice.hits(cancels) {
                        let after = self.dice.up_to(30_000);
                        self.put(after, What::Cancel(process, call));
                    }
                }
                process
            }
            What::Timer(process, call, stamp) => {
                let current = self.processes[process].waiting.get(&call).is_some_and(|it| it.stamp == stamp);
                if current {
                    let step = self.processes[process].engine.on(call, Event::Timer, now);
                    self.carry_out(process, call, step);
                }
                process
            }
            What::Finish(process, call, attempt) => {
                self.settle(process, call, attempt, now);
                let outcome = Outcome::of(self.processes[process].class);
                let retry_after = self.processes[process].retry_after;
                let outcome = retry_after.map_or(outcome, |span| outcome.retry_after(span));
                let step = self.processes[process].engine.on(call, Event::Finished { attempt, outcome }, now);
                self.carry_out(process, call, step);
                process
            }
            What::Look(process, call) => {
                if self.processes[process].running.contains(&call) {
                    let step = self.processes[process].engine.on(call, Event::Timer, now);
                    self.carry_out(process, call, step);
                }
                process
            }
            What::Cancel(process, call) => {
                if self.processes[process].waiting.contains_key(&call) {
                    let step = self.processes[process].engine.on(call, Event::Cancel, now);
                    self.carry_out(process, call, step);
                }
                process
            }
            What::Serve(process, command, answers) => {
                self.serve(process, &command, answers);
                process
            }
            What::Answer(process, id, reply) => {
                let it = &mut self.processes[process];
                if let (KeptReply::Bytes(bytes), true) = (&reply, it.answered.insert(id)) {
                    let text = String::from_utf8_lossy(bytes);
                    let granted = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
                    it.granted += granted.unwrap_or(0);
                }
                let flags = it.engine.on_reply(id, reply.as_reply(), now);
                if flags.wakes || flags.commands {
                    self.drain(process);
                }
                process
            }
        };
        self.peak = self.peak.max(self.processes.iter().map(|it| it.running.len()).sum());
        let it = &mut self.processes[of];
        it.engine.take_records(&mut it.records);
        if self.check {
            it.engine.check().unwrap_or_else(|law| panic!("process {of} at {at}: {law}"));
        }
        true
    }

    /// What a process's clock says now.
    fn reading(&mut self) -> Time {
        let ahead = if self.swing > 0 { self.dice.up_to(self.swing) } else { 0 };
        Time::from_micros(self.now + ahead)
    }

    pub fn begin(&mut self, process: usize, cost: u64) -> CallId {
        let now = self.reading();
        let it = &mut self.processes[process];
        it.begun += 1;
        let weighted = self.uses.is_some();
        let request = Request {
            cost: if weighted { 1 } else { cost as u16 },
            may_park: self.parks,
            ..Request::default()
        };
        let (call, step) = if weighted {
            let weights = it.engine.weights(it.route, [("tokens", cost)]).unwrap();
            it.engine.begin_weighted(it.route, &request, weights, now)
        } else {
            it.engine.begin(it.route, &request, now)
        };
        it.waiting.insert(call, Waiting { stamp: 0, since: self.now, cost });
        self.carry_out(process, call, step);
        call
    }

    /// Settles what a weighted attempt has used, in one step or in two.
    fn settle(&mut self, process: usize, call: CallId, attempt: u8, now: Time) {
        let Some((least, most)) = self.uses else { return };
        let part = least + self.dice.up_to(most - least);
        let half = self.dice.hits(300);
        let it = &mut self.processes[process];
        let Some(usage) = it.usages.iter_mut().rev().find(|usage| usage.call == call) else { return };
        (usage.used, usage.to) = (usage.reserved * part / 1_000, self.now);
        let used = usage.used;
        if half {
            it.engine.settle_weight(call, attempt, "tokens", used / 2, now);
        }
        assert!(it.engine.settle_weight(call, attempt, "tokens", used, now));
    }

    fn carry_out(&mut self, process: usize, call: CallId, step: Step) {
        let it = &mut self.processes[process];
        match step.action() {
            Action::Wait { why: Wait::Running } => {
                if let Some(next) = step.next() {
                    self.put(next.as_micros(), What::Look(process, call));
                }
            }
            Action::Wait { .. } => {
                self.number += 1;
                let stamp = self.number;
                if let Some(waiting) = it.waiting.get_mut(&call) {
                    waiting.stamp = stamp;
                }
                let next = step.next().expect("who waits has a timer").as_micros();
                self.put(next, What::Timer(process, call, stamp));
            }
            Action::Attempt { attempt, .. } => {
                let waiting = it.waiting.remove(&call).expect("an attempt is started once");
                it.longest = it.longest.max(self.now - waiting.since);
                it.started.push((self.now, waiting.cost));
                if self.uses.is_some() {
                    let (from, reserved) = (self.now, waiting.cost);
                    let alone = !it.engine.snapshot(Time::from_micros(from)).store.unwrap().up;
                    it.usages.push(Usage { call, from, to: u64::MAX, reserved, used: reserved, alone });
                }
                it.running.insert(call);
                // A call that holds something of the fleet's comes to have it renewed.
                if let Some(next) = step.next() {
                    self.put(next.as_micros(), What::Look(process, call));
                }
                let (least, most) = self.processes[process].service.unwrap_or(self.service);
                let takes = least + self.dice.up_to(most - least);
                self.put(takes, What::Finish(process, call, attempt));
            }
            Action::Done { verdict, .. } => {
                if let Some(waiting) = it.waiting.remove(&call) {
                    it.longest = it.longest.max(self.now - waiting.since);
                } else {
                    assert!(it.running.remove(&call), "a call ends once");
                }
                // What calls use is counted by sets of limits alone.
                let limited = matches!(verdict, Verdict::RateLimited | Verdict::CostAboveBurst);
                let named = self.uses.is_none() || it.engine.refusal_of(call).is_some();
                assert!(named || !limited, "{verdict:?} names no limit");
                *it.ended.entry(verdict).or_default() += 1;
            }
        }
        if step.flags().wakes || step.flags().commands {
            self.drain(process);
        }
    }

    fn drain(&mut self, process: usize) {
        let now = self.reading();
        loop {
            let (mut wakes, mut commands) = (Vec::new(), Vec::new());
            let it = &mut self.processes[process];
            it.engine.take_wakes(&mut wakes);
            it.engine.take_commands(&mut commands);
            if wakes.is_empty() && commands.is_empty() {
                return;
            }
            for command in commands {
                self.set_out(process, command);
            }
            for call in wakes {
                if self.processes[process].waiting.contains_key(&call) {
                    let step = self.processes[process].engine.on(call, Event::Poll, now);
                    self.carry_out(process, call, step);
                }
            }
        }
    }

    fn set_out(&mut self, process: usize, command: StoreCommand) {
        let it = &mut self.processes[process];
        it.commands += 1;
        // The script of a rate takes back as many tokens as the last number of its first argument says.
        if command.words[command.key as usize].ends_with(b":rl") && command.words[0] == b"EVALSHA" {
            let asked = String::from_utf8_lossy(&command.words[5]);
            it.given_back += asked.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        }
        let faults = self.faults.clone();
        let way = faults.delay.0 + self.dice.up_to(faults.delay.1 - faults.delay.0);
        let within = command.within.as_micros();
        let forgotten = self.dice.hits(faults.forgotten);
        if !forgotten {
            self.put(within, What::Answer(process, command.id, KeptReply::Lost));
        }
        if !self.dice.hits(faults.lost) {
            let answers = !forgotten && !self.dice.hits(faults.unanswered);
            self.put(way / 2, What::Serve(process, command, answers));
        }
    }

    fn serve(&mut self, process: usize, command: &StoreCommand, answers: bool) {
        if self.faults.gone.iter().any(|(from, to)| (*from..*to).contains(&self.now)) {
            return;
        }
        let answer = self.store.execute(&command.words, STORE_CLOCK + self.now);
        let mut reply = match answer {
            Ok(bytes) => KeptReply::Bytes(bytes.into()),
            Err(text) => KeptReply::Error(text.into_bytes().into()),
        };
        if !answers {
            return;
        }
        if self.dice.hits(self.faults.garbled) {
            reply = self.garbage();
        }
        let way = self.faults.delay.0 / 2 + self.dice.up_to(self.faults.delay.1 / 2);
        if self.dice.hits(self.faults.answered_twice) {
            let later = way + self.dice.up_to(20_000);
            self.put(later, What::Answer(process, command.id, reply.clone()));
        }
        self.put(way, What::Answer(process, command.id, reply));
    }

    /// What no store of ours says, or not about this.
    fn garbage(&mut self) -> KeptReply {
        let errors = ["", "NOSCRIPT No matching script", "READONLY You", "OOM", "\u{0}", "WRONGTYPE"];
        let texts = [
            "what",
            "",
            "OK",
            "0",
            "-1",
            "-2",
            "1",
            "NaN",
            "inf",
            "1e3",
            "1 0 1 ",
            "0x10",
            "1 -1 1",
            "3 0",
            "0 0 0 0 0",
            "9007199254740991",
            "9007199254740992",
            "1 9007199254740991 4294967296",
            "1 9007199254740991 7 0",
            "0 9007199254740991 2",
            "9007199254740991 9007199254740991 9007199254740991",
            "2 0 9007199254740991 0",
            "18446744073709551616",
        ];
        let dice = &mut self.dice;
        match dice.up_to(9) {
            0 => KeptReply::Error(errors[dice.up_to(errors.len() as u64 - 1) as usize].as_bytes().into()),
            1 => {
                let length = dice.up_to(80) as usize;
                KeptReply::Bytes((0..length).map(|_| dice.up_to(255) as u8).collect())
            }
            2 => KeptReply::Bytes(vec![b'1'; 70_000].into()),
            3 | 4 => {
                // The right kind of thing, and still untrue.
                let number = |dice: &mut Dice| {
                    let bits = dice.up_to(53);
                    dice.up_to((1 << bits) - 1).to_string()
                };
                let numbers: Vec<String> = (0..=dice.up_to(5)).map(|_| number(dice)).collect();
                KeptReply::Bytes(numbers.join(" ").into_bytes().into())
            }
            _ => KeptReply::Bytes(texts[dice.up_to(texts.len() as u64 - 1) as usize].as_bytes().into()),
        }
    }

    /// Is a command on its way, or its answer?
    pub fn is_out(&self, process: usize, id: CommandId) -> bool {
        self.agenda.values().any(|what| match what {
            What::Serve(of, command, _) => (*of, command.id) == (process, id),
            What::Answer(of, command, _) => (*of, *command) == (process, id),
            _ => false,
        })
    }

    /// All attempts in order: when, and what they cost.
    pub fn started(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.processes.iter().flat_map(|it| it.started.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    pub fn ended(&self, verdict: Verdict) -> u64 {
        self.processes.iter().map(|it| it.ended.get(&verdict).copied().unwrap_or(0)).sum()
    }
}

impl Process {
    /// Calls that `on_loss` has decided.
    pub fn fallbacks(&self, now: u64) -> u64 {
        let snapshot = self.engine.snapshot(Time::from_micros(now));
        snapshot.policies[0].1.store_fallbacks
    }

    pub fn told(&self, what: tidegate::RecordType) -> usize {
        self.records.iter().filter(|record| record.what == what).count()
    }
}
