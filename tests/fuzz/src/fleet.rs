//! An engine whose components use the fleet's store, and a host that reports anything: replies that the store would
//! give, garbage, errors, no reply, replies that come twice, and replies to commands that never existed. After every
//! event the engine's invariants hold; in the end every call ends, and the journal, written as text and read back,
//! replays to the same result.

use std::collections::BTreeSet;

use tidegate::Value::{Number, Text};
use tidegate::fleet::{CommandId, MemoryStore, Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, PolicyId, Request, RouteId,
    Step, Time, Value,
};

use crate::input::Input;

/// The burst of every policy here; and the longest break: ten times a second, and up to a tenth of jitter.
const BURST: u32 = 20;
const LONGEST_BREAK: Duration = Duration::from_micros(11_000_000);

struct Host {
    engine: Engine,
    store: MemoryStore,
    policy: PolicyId,
    routes: Vec<RouteId>,
    now: u64,
    calls: BTreeSet<CallId>,
    running: BTreeSet<(CallId, u8)>,
    commands: Vec<StoreCommand>,
}

/// The settings that the input chooses.
fn policy(input: &mut Input<'_>, kind: StoreKind) -> Policy {
    let mut pairs: Vec<(&str, Value<'static>)> =
        vec![("deadline", Number(20e6)), ("store_timeout", Number(50e3))];
    let losses = ["local", "open", "closed"];
    if !input.chance(64) {
        if kind == StoreKind::Lua && input.chance(80) {
            pairs.extend([
                ("rate_limit.limits", Text("calls: permits=20 per=1s")),
                ("rate_limit.limits", Text("more: permits=90 per=1s burst=30")),
            ]);
        } else {
            pairs.extend([
                ("rate_limit.permits", Number(20.0)),
                ("rate_limit.per", Number(1e6)),
                ("rate_limit.lease", Number(f64::from(input.of(&[1u8, 2, 5, 20])))),
            ]);
        }
        pairs.extend([
            ("rate_limit.store", Text("fleet")),
            ("rate_limit.on_loss", Text(input.of(&losses))),
            ("rate_limit.unit", Text(input.of(&["call", "attempt"]))),
        ]);
        if input.chance(128) {
            pairs.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(2e6))]);
        }
    }
    if input.chance(160) {
        pairs.extend([
            ("breaker.consecutive", Number(2.0)),
            ("breaker.break_duration", Number(1e6)),
            ("breaker.store", Text("fleet")),
            ("breaker.quorum", Number(f64::from(input.of(&[1u8, 2])))),
            ("breaker.on_loss", Text(input.of(&losses))),
            ("breaker.unit", Text(input.of(&["call", "attempt"]))),
        ]);
    }
    if kind == StoreKind::Lua && input.chance(96) {
        pairs.extend([
            ("cooldown.base", Number(1e6)),
            ("cooldown.max", Number(2e6)),
            ("cooldown.store", Text("fleet")),
        ]);
        if input.chance(128) {
            pairs.extend([("cooldown.wait", Number(1.0)), ("cooldown.max_wait", Number(3e6))]);
        }
    }
    if input.chance(160) {
        pairs.extend([
            ("bulkhead.max_concurrency", Number(3.0)),
            ("bulkhead.max_queue", Number(f64::from(input.of(&[0u8, 2])))),
            ("bulkhead.acquire_timeout", Number(input.of(&[0.0, 1e6]))),
            ("bulkhead.store", Text("fleet")),
            ("bulkhead.lease_ttl", Number(2e6)),
            ("bulkhead.on_loss", Text(input.of(&losses))),
            ("bulkhead.unit", Text(input.of(&["call", "attempt"]))),
        ]);
    } else if input.chance(128) {
        pairs.extend([
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(5.0)),
            ("bulkhead.latency_threshold", Number(1e4)),
            ("bulkhead.latency_quantile", Number(0.5)),
            ("bulkhead.latency_store", Text("fleet")),
        ]);
    }
    if input.chance(128) {
        pairs.extend([("retry.max_attempts", Number(2.0)), ("hedge.delay", Number(1e4))]);
    }
    if kind == StoreKind::Plain {
        // These components need scripts.
        pairs.retain(|pair| !pair.0.starts_with("bulkhead.") && pair.0 != "breaker.quorum");
    }
    let fleet = pairs.iter().any(|pair| pair.1 == Text("fleet"));
    pairs.retain(|pair| fleet || pair.0 != "store_timeout");
    Policy::from_pairs("p", &pairs).expect("settings that fit")
}

impl Host {
    fn time(&self) -> Time {
        Time::from_micros(self.now)
    }

    fn carry_out(&mut self, call: CallId, step: Step) {
        match step.action() {
            Action::Attempt { attempt, .. } => {
                self.running.insert((call, attempt));
            }
            Action::Done { .. } => {
                self.calls.remove(&call);
                self.running.retain(|it| it.0 != call);
            }
            Action::Wait { .. } => {}
        }
        assert!(
            !matches!(step.action(), Action::Wait { .. }) || step.next().is_some(),
            "who waits has a timer: {step:?}"
        );
        self.drain();
    }

    fn drain(&mut self) {
        let now = self.time();
        for _ in 0..10_000 {
            let mut wakes = Vec::new();
            self.engine.take_commands(&mut self.commands);
            self.engine.take_wakes(&mut wakes);
            self.engine.check().expect("the books hold");
            if wakes.is_empty() {
                return;
            }
            for call in wakes {
                let step = self.engine.on(call, Event::Poll, now);
                match step.action() {
                    Action::Attempt { attempt, .. } => {
                        self.running.insert((call, attempt));
                    }
                    Action::Done { .. } => {
                        self.calls.remove(&call);
                        self.running.retain(|it| it.0 != call);
                    }
                    Action::Wait { .. } => {}
                }
            }
        }
        panic!("calls wake each other for ever");
    }

    fn event(&mut self, call: CallId, event: Event) {
        let step = self.engine.on(call, event, self.time());
        self.carry_out(call, step);
    }

    fn reply(&mut self, command: CommandId, reply: Reply<'_>) {
        let now = self.time();
        let before = self.leased(now);
        let _ = self.engine.on_reply(command, reply, now);
        let after = self.leased(now);
        for (route, before) in after.iter().zip(before) {
            assert!(*route <= before + BURST, "one answer brings a burst at most: {before}, then {route}");
        }
        self.bounded(now);
        self.drain();
    }

    /// Available tokens by route.
    fn leased(&self, now: Time) -> Vec<u32> {
        self.engine
            .snapshot(now)
            .routes
            .iter()
            .map(|route| route.rate.map_or(0, |rate| rate.tokens))
            .collect()
    }

    /// Replies of the store do not change the policy's own numbers (semantics 10.11).
    fn bounded(&self, now: Time) {
        for route in &self.engine.snapshot(now).routes {
            let processes = route.rate.and_then(|rate| rate.fleet).map_or(1, |fleet| fleet.processes);
            assert!((1..=10_000).contains(&processes), "{processes} processes");
            let left = route.breaker.and_then(|breaker| breaker.retry_in).unwrap_or(Duration::ZERO);
            assert!(left <= LONGEST_BREAK, "a break of {left:?}");
            assert!(route.pool.is_none_or(|pool| (1..=5).contains(&pool.limit)), "{:?}", route.pool);
        }
    }

    fn answer(&mut self, input: &mut Input<'_>) {
        if self.commands.is_empty() {
            return;
        }
        let command = self.commands.swap_remove(input.below(self.commands.len()));
        assert!(command.words.len() > usize::from(command.key), "it names its key");
        let id = command.id;
        match input.below(12) {
            0 => self.reply(id, Reply::Lost),
            1 => self
                .reply(id, Reply::Error(input.of(&[&b"READONLY"[..], b"NOSCRIPT x", b"", b"OOM", b"\xff"]))),
            2 => {
                let junk: Vec<u8> =
                    (0..input.below(24)).map(|_| b"0123456789 -.x\xff"[input.below(15)]).collect();
                self.reply(id, Reply::Bytes(&junk));
            }
            3 => {
                let numbers: Vec<_> =
                    (0..input.below(7)).map(|_| (input.micros() >> 11).to_string()).collect();
                self.reply(id, Reply::Bytes(numbers.join(" ").as_bytes()));
            }
            4 => {} // forgotten
            how => {
                let clock = self.now.min(1 << 50) + 1_700_000_000_000_000;
                let answer = self.store.execute(&command.words, clock);
                let reply =
                    answer.as_ref().map_or_else(|text| Reply::Error(text.as_bytes()), |it| Reply::Bytes(it));
                self.reply(id, reply);
                if how == 5 {
                    self.reply(id, reply);
                }
            }
        }
    }
}

/// Takes any bytes: settings, then events.
pub fn fleet(data: &[u8]) {
    let mut input = Input::new(data);
    let seed = input.word();
    let mut engine = Engine::new(seed, Options::default().journal(true));
    let kind = if seed % 3 == 2 { StoreKind::Plain } else { StoreKind::Lua };
    let _ = engine.attach_store(kind, "", seed, Time::from_micros(0));
    let settings = policy(&mut input, kind);
    let policy = engine.policy(settings).expect("a store is attached");
    let routes = vec![
        engine.route(policy, "a", Time::from_micros(0)),
        engine.route(policy, "b}|{", Time::from_micros(0)),
    ];
    let (calls, running) = (BTreeSet::new(), BTreeSet::new());
    let store = MemoryStore::new();
    let mut host = Host { engine, store, policy, routes, now: 0, calls, running, commands: Vec::new() };
    for _ in 0..600 {
        if input.is_empty() {
            break;
        }
        let some = |set: &BTreeSet<CallId>, at: usize| set.iter().nth(at).copied();
        match input.below(16) {
            0..=3 => {
                let request = Request {
                    cost: input.of(&[1, 1, 1, 2, 5, 0]),
                    may_park: !input.chance(20),
                    abortable: !input.chance(40),
                    ..Request::default()
                };
                let route = input.of(&host.routes);
                let (call, step) = host.engine.begin(route, &request, host.time());
                host.calls.insert(call);
                host.carry_out(call, step);
            }
            4 | 5 => {
                if let Some(call) = some(&host.calls, input.below(host.calls.len().max(1))) {
                    let event = input.of(&[Event::Timer, Event::Poll, Event::Timer, Event::Cancel]);
                    host.event(call, event);
                }
            }
            6 | 7 => {
                let at = input.below(host.running.len().max(1));
                if let Some((call, attempt)) = host.running.iter().nth(at).copied() {
                    host.running.remove(&(call, attempt));
                    let class = input.of(&[Class::Ok, Class::Transient, Class::Timeout, Class::Permanent]);
                    host.event(call, Event::Finished { attempt, outcome: Outcome::of(class) });
                }
            }
            8..=11 => host.answer(&mut input),
            12 | 13 => {
                let gap =
                    input.of(&[1_000, 20_000, 49_999, 50_000, 250_000, 1_000_000, 3_000_000, 61_000_000]);
                host.now += gap;
            }
            14 => match input.below(5) {
                0 => {
                    let _ = host.engine.after_fork(input.word(), host.time());
                    (host.calls, host.running) = (BTreeSet::new(), BTreeSet::new());
                    host.commands.clear();
                }
                1 => {
                    let (on, now) = (input.chance(128), host.time());
                    let _ = host.engine.force_open(host.policy, None, on, now);
                    host.drain();
                }
                2 => {
                    let (to, now) = (self::policy(&mut input, kind), host.time());
                    // A single rate does not become a set, nor a set a single rate.
                    let _ = host.engine.retune(host.policy, to, now);
                    host.drain();
                }
                3 => {
                    let now = 1_700_000_000_000_000 + host.now.min(1 << 50);
                    host.store.execute(&[b"FLUSHALL".to_vec()], now).expect("it can");
                }
                _ => host.now = host.now.saturating_sub(input.micros()),
            },
            _ => host.reply(CommandId::from_word(input.word()), Reply::Bytes(b"1 0 1")),
        }
        host.engine.check().expect("the books hold");
    }
    let _ = host.engine.force_open(host.policy, None, false, host.time());
    for call in host.calls.clone() {
        host.event(call, Event::Cancel);
    }
    let left = host.calls.len();
    assert_eq!(left, 0, "a call that is cancelled ends");
    let mut inputs = Vec::new();
    host.engine.take_journal(&mut inputs);
    let mut again = Engine::new(seed, Options::default().journal(true));
    for input in inputs {
        let read = input.to_string().parse().expect("a line reads back");
        assert_eq!(input, read);
        again.apply(read);
    }
    let now = host.time();
    assert_eq!(again.snapshot(now), host.engine.snapshot(now), "a journal replays to the same");
}
