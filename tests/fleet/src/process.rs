//! A process of a fleet: an engine, the Redis client that Rust programs use, and a minimal host.

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value as Answer};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration as Span, Instant};
use tidegate::fleet::{KeptReply, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Class, Engine, Event, Options, Outcome, Policy, Record, RecordType, Request, RouteId,
    Step, Time, Value, Verdict,
};
use tokio::sync::Notify;

/// Observations of a process.
#[derive(Debug, Default)]
pub struct Seen {
    /// Start times of attempts, in microseconds of the process's clock.
    pub starts: Vec<u64>,
    /// For each call the moment at which it began and its wait for a decision.
    pub waits: Vec<(u64, Span)>,
    /// Number of calls by verdict.
    pub ends: BTreeMap<Verdict, u64>,
    /// Number of calls begun.
    pub begun: u64,
    /// Number of commands given to the store's client.
    pub commands: u64,
    /// All records.
    pub records: Vec<Record>,
}

impl Seen {
    /// Moments of the records of one type, in microseconds.
    pub fn told(&self, what: RecordType) -> Vec<u64> {
        self.records.iter().filter(|record| record.what == what).map(|record| record.at.as_micros()).collect()
    }

    /// The waits of calls that began within these moments, sorted.
    pub fn waits_within(&self, from: u64, to: u64) -> Vec<Span> {
        let mut waits: Vec<Span> =
            self.waits.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, wait)| *wait).collect();
        waits.sort_unstable();
        waits
    }
}

/// One process. It is cheap to clone, so that each task has its own handle.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    engine: Mutex<Engine>,
    route: RouteId,
    zero: Instant,
    store: Client,
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    waiting: Mutex<HashMap<CallId, Arc<Notify>>>,
    seen: Mutex<Seen>,
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// A process with a policy of these pairs and one route, on the clock that began at `zero`.
    pub fn new(seed: u64, pairs: &[(&str, Value<'_>)], at: SocketAddr, zero: Instant) -> Self {
        let mut engine = Engine::new(seed, Options::default());
        let now = Time::from_micros(u64::try_from(zero.elapsed().as_micros()).expect("a short test"));
        let _ = engine.attach_store(StoreKind::Lua, "", seed, now);
        let policy = Policy::from_pairs("api", pairs).unwrap_or_else(|errors| panic!("{errors:?}"));
        let policy = engine.policy(policy).unwrap_or_else(|clash| panic!("{clash}"));
        let route = engine.route(policy, "eu", now);
        engine.subscribe(true);
        Self(Arc::new(Inner {
            engine: Mutex::new(engine),
            route,
            zero,
            store: Client::open(format!("redis://{at}")).expect("an address"),
            connection: tokio::sync::Mutex::new(None),
            waiting: Mutex::default(),
            seen: Mutex::default(),
        }))
    }

    /// Reads the observations so far.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&lock(&self.0.seen))
    }

    /// The process's clock in microseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.zero.elapsed().as_micros()).expect("a short test")
    }

    /// Makes one call with one attempt, which takes `takes` and ends with `class`.
    pub async fn call(&self, class: Class, takes: Span) -> Verdict {
        let begun = self.now();
        lock(&self.0.seen).begun += 1;
        let it = &self.0;
        let bell = Arc::new(Notify::new());
        let (call, mut step) = self.begin(begun, &bell);
        let mut decided = false;
        loop {
            let event = match step.action() {
                Action::Done { verdict, .. } => {
                    lock(&it.waiting).remove(&call);
                    let wait = Span::from_micros(self.now() - begun);
                    let mut seen = lock(&it.seen);
                    *seen.ends.entry(verdict).or_default() += 1;
                    if !decided {
                        seen.waits.push((begun, wait));
                    }
                    return verdict;
                }
                Action::Attempt { attempt, .. } => {
                    decided = true;
                    self.started(begun);
                    if takes > Span::ZERO {
                        tokio::time::sleep(takes).await;
                    }
                    Event::Finished { attempt, outcome: Outcome::of(class) }
                }
                Action::Wait { .. } => {
                    let next = step.next().expect("who waits has a timer").as_micros();
                    match tokio::time::timeout(Span::from_micros(next), bell.notified()).await {
                        Ok(()) => Event::Poll,
                        Err(_) => Event::Timer,
                    }
                }
            };
            step = self.on(call, event);
        }
    }

    fn begin(&self, now: u64, bell: &Arc<Notify>) -> (CallId, Step) {
        let it = &self.0;
        let mut engine = lock(&it.engine);
        let (call, step) = engine.begin(it.route, &Request::default(), Time::from_micros(now));
        lock(&it.waiting).insert(call, Arc::clone(bell));
        self.drain(&mut engine);
        (call, step)
    }

    fn on(&self, call: CallId, event: Event) -> Step {
        let mut engine = lock(&self.0.engine);
        let step = engine.on(call, event, Time::from_micros(self.now()));
        self.drain(&mut engine);
        step
    }

    fn started(&self, begun: u64) {
        let now = self.now();
        let mut seen = lock(&self.0.seen);
        seen.starts.push(now);
        seen.waits.push((begun, Span::from_micros(now - begun)));
    }

    /// Makes calls at a steady rate until `until`, each in its own task; returns when all have ended.
    pub async fn load(&self, per_second: u32, until: u64, class: impl Fn(u64) -> Class) {
        let mut calls = tokio::task::JoinSet::new();
        let gap = 1_000_000 / u64::from(per_second);
        let mut next = self.now();
        while next < until {
            let now = self.now();
            if now < next {
                tokio::time::sleep(Span::from_micros(next - now)).await;
            }
            let it = self.clone();
            let class = class(next);
            calls.spawn(async move { it.call(class, Span::ZERO).await });
            while calls.try_join_next().is_some() {}
            next += gap;
        }
        let all = async { while calls.join_next().await.is_some() {} };
        tokio::time::timeout(Span::from_secs(5), all).await.expect("every call ends (R1)");
    }

    /// Handles the wakes, commands and records of a step, under the lock of that step.
    fn drain(&self, engine: &mut Engine) {
        let it = &self.0;
        let (mut wakes, mut commands) = (Vec::new(), Vec::new());
        engine.take_wakes(&mut wakes);
        engine.take_commands(&mut commands);
        let mut seen = lock(&it.seen);
        engine.take_records(&mut seen.records);
        seen.commands += commands.len() as u64;
        drop(seen);
        let waiting = lock(&it.waiting);
        wakes.iter().filter_map(|call| waiting.get(call)).for_each(|bell| bell.notify_one());
        drop(waiting);
        for command in commands {
            let it = self.clone();
            tokio::spawn(async move {
                let reply = it.execute(&command).await;
                it.on_reply(&command, &reply);
            });
        }
    }

    fn on_reply(&self, command: &StoreCommand, reply: &KeptReply) {
        let mut engine = lock(&self.0.engine);
        let _ = engine.on_reply(command.id, reply.as_reply(), Time::from_micros(self.now()));
        self.drain(&mut engine);
    }

    /// The host's part of the fleet: carry out the command within its time, and report the reply.
    async fn execute(&self, command: &StoreCommand) -> KeptReply {
        let within = Span::from_micros(command.within.as_micros());
        match tokio::time::timeout(within, self.send(&command.words)).await {
            Ok(Ok(Answer::BulkString(bytes))) => KeptReply::Bytes(bytes.into()),
            Ok(Ok(Answer::SimpleString(text))) => KeptReply::Bytes(text.into_bytes().into()),
            Ok(Ok(Answer::Okay)) => KeptReply::Bytes((*b"OK").into()),
            Ok(Ok(Answer::Int(number))) => KeptReply::Bytes(number.to_string().into_bytes().into()),
            Ok(Ok(Answer::Nil)) => KeptReply::Bytes((*b"").into()),
            // redis-rs returns an error as a value for a command sent unchanged.
            Ok(Ok(Answer::ServerError(error))) => {
                let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
                KeptReply::Error(text.into_bytes().into())
            }
            Ok(Ok(other)) => KeptReply::Bytes(format!("{other:?}").into_bytes().into()),
            Ok(Err(error)) if error.code().is_some() => {
                let text =
                    format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default());
                KeptReply::Error(text.into_bytes().into())
            }
            Ok(Err(_)) | Err(_) => {
                // A connection that has not replied may never reply: the next command opens a new one.
                *self.0.connection.lock().await = None;
                KeptReply::Lost
            }
        }
    }

    async fn send(&self, words: &[Vec<u8>]) -> redis::RedisResult<Answer> {
        let mut held = self.0.connection.lock().await;
        let mut connection = match &*held {
            Some(connection) => connection.clone(),
            None => held.insert(self.0.store.get_multiplexed_async_connection().await?).clone(),
        };
        drop(held);
        let mut command = Cmd::new();
        for word in words {
            command.arg(word);
        }
        connection.send_packed_command(&command).await
    }
}
