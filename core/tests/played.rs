//! The scenarios that every language plays (`tests/scenarios`), here with the smallest host: one that only does what steps say.
#![allow(clippy::disallowed_methods, reason = "a test reads its scenarios")]

use serde_json::Value as Json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::PathBuf;
use tidegate::fleet::{MemoryStore, Reply, StoreKind};
use tidegate::{
    Action, AttemptSlot, CallId, Class, Criticality, Document, Duration, Engine, Event, Options, Outcome,
    Request, Time, Verdict,
};

const MS: u64 = 1_000;

/// The store's clock is another one.
const STORE_CLOCK: u64 = 1_700_000_000_000_000;

/// What is due, in this order where moments are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Begin(usize),
    Timer(usize, u64),
    Attempt(usize, u8),
}

/// A call that has begun.
#[derive(Default)]
struct Playing {
    call: Option<CallId>,
    running: Vec<u8>,
    stopped: Vec<u8>,
    starts: Vec<u64>,
    timer: u64,
    end: Option<(u64, &'static str)>,
}

struct Host<'a> {
    given: &'a [Json],
    /// One a process.
    engines: Vec<Engine>,
    store: MemoryStore,
    document: Document,
    calls: Vec<Playing>,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    sequence: u64,
}

fn list(json: &Json) -> &[Json] {
    json.as_array().expect("a list")
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("a whole number, not {json}"))
}

/// The process that a call is made in; 0 where there is one.
fn process_of(given: &Json) -> usize {
    given["process"].as_u64().map_or(0, |process| usize::try_from(process).expect("a few"))
}

fn class(name: &str) -> Class {
    match name {
        "ok" => Class::Ok,
        "transient" => Class::Transient,
        "throttled" => Class::Throttled,
        other => panic!("no scenario has the class {other}"),
    }
}

impl<'a> Host<'a> {
    fn new(scenario: &'a Json) -> Self {
        let document = Document::from_json(&scenario["document"].to_string()).expect("a valid document");
        let engine = |process| {
            let start = Time::from_micros(0);
            let mut engine = Engine::new(number(&scenario["seed"]) + process, Options::default());
            if scenario.get("processes").is_some() {
                let _ = engine.attach_store(StoreKind::Lua, "", process, start);
            }
            for pool in document.pools() {
                engine.pool(pool.clone(), start).expect("its name is free");
            }
            for policy in document.policies() {
                engine.policy(policy.clone()).expect("its name is free");
            }
            engine
        };
        let engines = (0..scenario.get("processes").map_or(1, number)).map(engine).collect();
        let given = list(&scenario["calls"]);
        let calls = given.iter().map(|_| Playing::default()).collect();
        let (store, due) = (MemoryStore::new(), BinaryHeap::new());
        let mut host = Self { given, engines, store, document, calls, due, sequence: 0 };
        for (place, call) in given.iter().enumerate() {
            host.at(number(&call["at"]) * MS, Due::Begin(place));
        }
        host
    }

    fn at(&mut self, moment: u64, what: Due) {
        self.sequence += 1;
        self.due.push(Reverse((moment, self.sequence, what)));
    }

    fn play(&mut self) {
        while let Some(Reverse((now, _, what))) = self.due.pop() {
            match what {
                Due::Begin(place) => self.begin(place, now),
                Due::Timer(place, timer) => {
                    let playing = &self.calls[place];
                    if playing.end.is_none() && playing.timer == timer {
                        self.tell(place, Event::Timer, now);
                    }
                }
                Due::Attempt(place, attempt) if self.calls[place].running.contains(&attempt) => {
                    self.calls[place].running.retain(|running| *running != attempt);
                    let script = self.script(place, attempt);
                    let mut outcome = Outcome::of(class(script[1].as_str().expect("a class")));
                    if let Some(after) = script.get(2) {
                        outcome = outcome.retry_after(Duration::from_millis(number(after)));
                    }
                    self.tell(place, Event::Finished { attempt, outcome }, now);
                }
                Due::Attempt(..) => {}
            }
        }
    }

    /// What an attempt does. The last one of the script is every later one, too.
    fn script(&self, place: usize, attempt: u8) -> &'a [Json] {
        let attempts = list(&self.given[place]["attempts"]);
        list(&attempts[usize::from(attempt).min(attempts.len()) - 1])
    }

    fn begin(&mut self, place: usize, now: u64) {
        let given = &self.given[place];
        let policy = self.document.policy(given["policy"].as_str().expect("a name")).expect("it is declared");
        let engine = &mut self.engines[process_of(given)];
        let policy = engine.policy_named(policy.name()).expect("it was taken in");
        let route = engine.route(policy, "default", Time::from_micros(now));
        let criticality = match given["criticality"].as_str() {
            Some("critical") => Criticality::Critical,
            Some("best_effort") => Criticality::BestEffort,
            _ => Criticality::Normal,
        };
        let path = given["path"].as_str().map(|path| engine.path_id(route, path, Time::from_micros(now)));
        let request = Request { criticality, path: path.unwrap_or_default(), ..Request::default() };
        let (call, step) = engine.begin(route, &request, Time::from_micros(now));
        self.calls[place].call = Some(call);
        self.follow(place, step, now);
    }

    fn tell(&mut self, place: usize, event: Event, now: u64) {
        let call = self.calls[place].call.expect("it has begun");
        let engine = &mut self.engines[process_of(&self.given[place])];
        let step = engine.on(call, event, Time::from_micros(now));
        self.follow(place, step, now);
    }

    /// Carries out what the engine wants of the store, which answers at once; the calls that are woken.
    fn ask_store(&mut self, process: usize, now: u64) -> Vec<CallId> {
        let (engine, at) = (&mut self.engines[process], Time::from_micros(now));
        let mut commands = Vec::new();
        engine.take_commands(&mut commands);
        while !commands.is_empty() {
            for command in std::mem::take(&mut commands) {
                let answer = self.store.execute(&command.words, STORE_CLOCK + now);
                let reply = match &answer {
                    Ok(bytes) => Reply::Bytes(bytes),
                    Err(text) => Reply::Error(text.as_bytes()),
                };
                engine.on_reply(command.id, reply, at);
            }
            engine.take_commands(&mut commands);
        }
        let mut woken = Vec::new();
        engine.take_wakes(&mut woken);
        woken
    }

    /// The place of a call of a process. Engines do not know each other's ids.
    fn of(&self, process: usize, call: CallId) -> usize {
        let ours = |place: &usize| {
            self.calls[*place].call == Some(call) && process_of(&self.given[*place]) == process
        };
        (0..self.calls.len()).find(ours).expect("it is ours")
    }

    fn follow(&mut self, place: usize, step: tidegate::Step, now: u64) {
        let process = process_of(&self.given[place]);
        let woken = self.ask_store(process, now);
        let playing = &mut self.calls[place];
        let gone: Vec<u8> = playing
            .running
            .iter()
            .copied()
            .filter(|attempt| step.stop() & AttemptSlot::of(*attempt).bit() != 0)
            .collect();
        playing.running.retain(|attempt| !gone.contains(attempt));
        playing.stopped.extend(&gone);
        playing.timer += 1;
        match step.action() {
            _ if playing.end.is_some() => {}
            Action::Done { verdict, result, .. } => {
                let stopped = result.is_some_and(|lane| {
                    playing.stopped.iter().any(|attempt| AttemptSlot::of(*attempt) == lane)
                });
                playing.end = Some((now, ended(verdict, stopped)));
            }
            action => {
                let timer = playing.timer;
                if let Action::Attempt { attempt, .. } = action {
                    playing.starts.push(now);
                    playing.running.push(attempt);
                    let takes = number(&self.script(place, attempt)[0]) * MS;
                    self.at(now + takes, Due::Attempt(place, attempt));
                }
                if let Some(next) = step.next() {
                    self.at(now + next.as_micros(), Due::Timer(place, timer));
                }
            }
        }
        for attempt in gone {
            self.tell(place, Event::Finished { attempt, outcome: Outcome::of(Class::Cancelled) }, now);
        }
        for call in woken {
            let place = self.of(process, call);
            self.tell(place, Event::Poll, now);
        }
    }
}

/// How a call ends for its caller.
fn ended(verdict: Verdict, stopped: bool) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::RateLimited => "rate_limited",
        Verdict::QueueFull | Verdict::AcquireTimeout | Verdict::QueueShed | Verdict::Displaced => {
            "bulkhead_full"
        }
        Verdict::BreakerOpen => "breaker_open",
        Verdict::Throttled => "throttled",
        Verdict::HoldFull => "hold_full",
        Verdict::Deadline | Verdict::DeadlineBefore | Verdict::DeadlineQueued => "deadline",
        _ if stopped => "attempt_timeout",
        _ => "failure",
    }
}

#[test]
fn every_scenario_is_played_as_the_model_says() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios/scenarios.json");
    let json: Json = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let scenarios = list(&json["scenarios"]);
    assert!(scenarios.len() >= 20);
    for scenario in scenarios {
        let mut host = Host::new(scenario);
        host.play();
        // What the model says is exact. What is written by hand is as exact as its sentence.
        let written = if scenario.get("processes").is_some() { number(&scenario["tolerance"]) } else { 0 };
        let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
        for (playing, given) in host.calls.iter().zip(host.given) {
            let starts: Vec<u64> = playing.starts.iter().map(|start| start.div_ceil(MS)).collect();
            let expected: Vec<u64> = list(&given["starts"]).iter().map(number).collect();
            let (at, end) = playing.end.expect("every call ends");
            let moments = starts.iter().copied().chain([at.div_ceil(MS)]);
            let due = expected.iter().copied().chain([number(&given["ended"])]);
            let near = moments.zip(due).all(|(at, due)| at.abs_diff(due) <= written);
            let same = starts.len() == expected.len() && near && given["end"] == end;
            assert!(same, "{}: {given}: {starts:?}, {end} at {at} us", scenario["name"]);
            *ends.entry(end).or_default() += 1;
        }
        println!("{}: {ends:?}", scenario["name"]);
    }
}
