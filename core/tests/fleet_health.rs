//! Whose store is gone, and why (semantics 10.4): a key of a wrong type is its own matter, a shard of a cluster that of the
//! routes on it, and a server that of all.

use std::collections::BTreeMap;

use Value::{Number, Text};
use tidegate::fleet::{MemoryStore, Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, Duration, Engine, Event, Options, Outcome, Policy, Record, RecordType, Request, RouteId, Time,
    Value,
};

/// One engine, a store in pieces, and a host that carries commands at once, or says after their time that nobody answered.
struct World {
    engine: Engine,
    store: MemoryStore,
    routes: BTreeMap<String, RouteId>,
    now: u64,
    /// Commands whose key has one of these in it are not answered.
    silent: Vec<String>,
    out: Vec<(u64, StoreCommand)>,
    records: Vec<Record>,
    commands: usize,
}

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;

impl World {
    fn new(routes: &[&str], more: &[(&str, Value<'_>)]) -> Self {
        let (mut engine, now) = (Engine::new(5, Options::default()), Time::from_micros(0));
        let _ = engine.attach_store(StoreKind::Lua, "", 1, now);
        let base = [
            ("rate_limit.permits", Number(100.0)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.lease", Number(5.0)),
            ("rate_limit.store", Text("fleet")),
        ];
        let policy = engine.policy(Policy::from_pairs("api", &[&base, more].concat()).unwrap()).unwrap();
        let routes = routes.iter().map(|key| ((*key).to_owned(), engine.route(policy, key, now))).collect();
        engine.subscribe_to(&[RecordType::StoreDegraded, RecordType::StoreRecovered]);
        let (store, silent) = (MemoryStore::new(), Vec::new());
        Self { engine, store, routes, now: 0, silent, out: Vec::new(), records: Vec::new(), commands: 0 }
    }

    fn carry(&mut self) {
        loop {
            let mut commands = Vec::new();
            self.engine.take_commands(&mut commands);
            let now = Time::from_micros(self.now);
            let over = |it: &(u64, StoreCommand)| it.0 <= self.now;
            let late: Vec<_> = self.out.extract_if(.., |it| over(it)).collect();
            if commands.is_empty() && late.is_empty() {
                break;
            }
            for (_, command) in late {
                let _ = self.engine.on_reply(command.id, Reply::Lost, now);
            }
            for command in commands {
                self.commands += 1;
                let key = String::from_utf8_lossy(&command.words[usize::from(command.key)]).into_owned();
                if self.silent.iter().any(|part| key.contains(part)) {
                    self.out.push((self.now + command.within.as_micros(), command));
                    continue;
                }
                let answer = self.store.execute(&command.words, 1_000 * SECOND + self.now);
                let reply =
                    answer.as_ref().map_or_else(|text| Reply::Error(text.as_bytes()), |it| Reply::Bytes(it));
                let _ = self.engine.on_reply(command.id, reply, now);
            }
        }
        self.engine.take_records(&mut self.records);
        self.engine.check().unwrap();
    }

    /// One call on a route, to its end: did it have to wait, and did it start?
    fn call(&mut self, key: &str) -> (u64, bool) {
        let begun = self.now;
        let (call, mut step) =
            self.engine.begin(self.routes[key], &Request::default(), Time::from_micros(self.now));
        self.carry();
        loop {
            match step.action() {
                Action::Done { .. } => return (self.now - begun, false),
                Action::Attempt { attempt, .. } => {
                    let event = Event::Finished { attempt, outcome: Outcome::of(tidegate::Class::Ok) };
                    let _ = self.engine.on(call, event, Time::from_micros(self.now));
                    self.carry();
                    return (self.now - begun, true);
                }
                Action::Wait { .. } => {
                    // An answer at once wakes it; else its timer does.
                    step = self.engine.on(call, Event::Poll, Time::from_micros(self.now));
                    if let (Action::Wait { .. }, Some(next)) = (step.action(), step.next()) {
                        self.now += next.as_micros().max(1);
                        self.carry();
                        step = self.engine.on(call, Event::Timer, Time::from_micros(self.now));
                    }
                    self.carry();
                }
            }
        }
    }

    /// Calls on each of these for so long, one each so many milliseconds. The longest wait of each.
    fn run(&mut self, plan: &[(&str, u64)], span: u64) -> Vec<u64> {
        let until = self.now + span;
        let mut next: Vec<u64> = plan.iter().map(|_| self.now).collect();
        let mut longest = vec![0; plan.len()];
        while let Some((place, at)) =
            next.iter().copied().enumerate().min_by_key(|it| it.1).filter(|it| it.1 < until)
        {
            self.now = self.now.max(at);
            let (waited, _) = self.call(plan[place].0);
            longest[place] = longest[place].max(waited);
            next[place] = at + plan[place].1 * MILLI;
        }
        longest
    }

    fn told(&mut self) -> Vec<(&'static str, Option<String>, Option<&'static str>)> {
        let tell = |record: &Record| {
            let key = record.route.and_then(|route| self.engine.key_of(route)).map(str::to_owned);
            (record.what.name(), key, record.reason())
        };
        let told = self.records.iter().map(tell).collect();
        self.records.clear();
        told
    }

    fn up(&self) -> bool {
        self.engine.snapshot(Time::from_micros(self.now)).store.unwrap().up
    }

    /// Decisions without the store.
    fn decided(&self) -> u64 {
        self.engine.snapshot(Time::from_micros(self.now)).policies[0].1.store_fallbacks
    }
}

fn words(command: &str) -> Vec<Vec<u8>> {
    command.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn a_key_of_a_wrong_type_is_the_matter_of_its_own_route() {
    let mut it = World::new(&["a", "b"], &[]);
    it.run(&[("a", 20), ("b", 20)], SECOND);
    assert_eq!((it.told(), it.decided()), (vec![], 0));
    let clock = 1_000 * SECOND + it.now;
    it.store.execute(&words("DEL tidegate:{r|api|a}:rl"), clock).unwrap();
    it.store.execute(&words("HSET tidegate:{r|api|a}:rl mine 1"), clock).unwrap();
    it.run(&[("a", 20), ("b", 20)], 4 * SECOND);
    let degraded = ("store_degraded", Some("a".to_owned()), Some("WRONGTYPE"));
    assert_eq!(it.told(), [degraded], "one record a transition");
    assert!(it.up(), "the server is there");
    let decided = it.decided();
    assert!((150..=210).contains(&decided), "{decided}: those of one route, of 200 each");
    it.store.execute(&words("DEL tidegate:{r|api|a}:rl"), clock).unwrap();
    it.run(&[("a", 20), ("b", 20)], 4 * SECOND);
    assert_eq!(it.told(), [("store_recovered", Some("a".to_owned()), None)]);
    let before = it.decided();
    it.run(&[("a", 20), ("b", 20)], SECOND);
    assert_eq!(it.decided(), before);
}

#[test]
fn an_answer_that_makes_no_sense_is_the_matter_of_its_own_key() {
    let mut it = World::new(&["a", "b"], &[]);
    it.run(&[("b", 20)], SECOND / 2);
    let (_, step) = it.engine.begin(it.routes["a"], &Request::default(), Time::from_micros(it.now));
    assert!(step.flags().commands);
    let mut commands = Vec::new();
    it.engine.take_commands(&mut commands);
    let _ = it.engine.on_reply(commands[0].id, Reply::Bytes(b"<html>"), Time::from_micros(it.now));
    it.carry();
    assert_eq!(it.told(), [("store_degraded", Some("a".to_owned()), Some("garbled"))]);
    it.run(&[("b", 20)], SECOND);
    assert_eq!((it.told(), it.up()), (vec![], true));
}

/// A cluster has lost one shard: routes on it go by `on_loss`, and all others by the store.
#[test]
fn a_lost_shard_is_the_matter_of_the_routes_on_it() {
    for gap in [20, 400] {
        let mut it = World::new(&["a", "b"], &[]);
        let plan = [("a", 20), ("b", gap)];
        it.run(&plan, 2 * SECOND);
        assert_eq!(it.told(), []);
        it.silent = vec!["|a}".to_owned()];
        let longest = it.run(&plan, 20 * SECOND);
        assert!(longest.iter().all(|waited| *waited <= 50 * MILLI), "{longest:?}");
        let told = it.told();
        let all = told.iter().filter(|it| it.0 == "store_degraded" && it.1.is_none()).count();
        assert!(all <= 1, "the others notice once, if nobody else has been answered meanwhile: {told:?}");
        let own: Vec<_> = told.iter().filter(|it| it.1.is_some()).collect();
        assert_eq!(own, [&("store_degraded", Some("a".to_owned()), Some("timeout"))], "{told:?}");
        assert!(it.up());
        let before = it.decided();
        it.run(&[("b", gap)], 5 * SECOND);
        assert_eq!(it.decided(), before, "those on other shards ask the store");
        it.silent.clear();
        it.run(&plan, 4 * SECOND);
        assert_eq!(it.told(), [("store_recovered", Some("a".to_owned()), None)]);
        let before = it.decided();
        it.run(&plan, SECOND);
        assert_eq!(it.decided(), before);
    }
}

#[test]
fn a_loss_while_others_are_answered_is_the_matter_of_who_has_it() {
    let mut it = World::new(&["a", "b"], &[]);
    it.silent = vec!["|a}".to_owned()];
    let (call, step) = it.engine.begin(it.routes["a"], &Request::default(), Time::from_micros(0));
    assert!(step.flags().commands);
    it.carry();
    it.now = 10 * MILLI;
    assert_eq!(it.call("b"), (0, true));
    it.now = 50 * MILLI;
    let step = it.engine.on(call, Event::Timer, Time::from_micros(it.now));
    assert!(matches!(step.action(), Action::Attempt { .. }), "by its share: {step:?}");
    it.carry();
    assert_eq!(it.told(), [("store_degraded", Some("a".to_owned()), Some("timeout"))]);
    assert!(it.up());
}

/// Even where the lost shard's route is the only one with calls for most of the time, the others find the store back.
#[test]
fn whoever_lost_the_store_does_not_take_the_others_turn_to_try_it() {
    let mut it = World::new(&["a", "b"], &[]);
    it.silent = vec!["|a}".to_owned()];
    it.run(&[("a", 5)], SECOND / 4);
    assert!(!it.up(), "nobody else has been answered: the store is gone for all");
    it.run(&[("a", 5), ("b", 300)], 4 * SECOND);
    assert!(it.up(), "b has been answered");
    let before = it.decided();
    it.run(&[("b", 300)], 3 * SECOND);
    assert_eq!(it.decided(), before);
}

#[test]
fn a_store_that_is_gone_is_gone_for_all_and_back_for_all() {
    let names: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut it = World::new(&names, &[]);
    let plan: Vec<_> = names.iter().map(|name| (*name, 50)).collect();
    it.run(&plan, 2 * SECOND);
    it.silent = vec!["tidegate".to_owned()];
    let longest = it.run(&plan, 10 * SECOND);
    assert!(longest.iter().all(|waited| *waited <= 50 * MILLI), "{longest:?}");
    let told = it.told();
    assert!(told.contains(&("store_degraded", None, Some("timeout"))) && told.len() <= 3, "{told:?}");
    let commands = it.commands;
    it.run(&plan, 10 * SECOND);
    assert!(it.commands - commands <= 40, "{} probes in ten seconds", it.commands - commands);
    it.silent.clear();
    it.run(&plan, 3_100 * MILLI);
    assert!(it.up());
    let back = it.told();
    assert_eq!(back.iter().filter(|it| it.0 == "store_recovered").count(), told.len(), "{back:?}");
    let before = it.decided();
    it.run(&plan, SECOND);
    assert_eq!(it.decided(), before);
}

#[test]
fn a_loss_says_why() {
    let replies: [(Reply<'_>, &str); 8] = [
        (Reply::Error(b"READONLY You can't write against a read only replica."), "READONLY"),
        (Reply::Error(b"OOM command not allowed when used memory > 'maxmemory'."), "OOM"),
        (Reply::Error(b"CLUSTERDOWN Hash slot not served"), "CLUSTERDOWN"),
        (Reply::Error(b"ERR max number of clients reached"), "ERR"),
        (Reply::Error(b"WRONGTYPE Operation against a key"), "WRONGTYPE"),
        (Reply::Error(b"\xff\xff"), "ERR"),
        (Reply::Bytes(b"1 2 x"), "garbled"),
        (Reply::Lost, "connection"),
    ];
    for (reply, word) in replies {
        let mut it = World::new(&["a"], &[]);
        let _ = it.engine.begin(it.routes["a"], &Request::default(), Time::from_micros(0));
        let mut commands = Vec::new();
        it.engine.take_commands(&mut commands);
        let _ = it.engine.on_reply(commands[0].id, reply, Time::from_micros(10));
        it.carry();
        let of_key = matches!(word, "WRONGTYPE" | "garbled");
        assert_eq!(it.told(), [("store_degraded", of_key.then(|| "a".to_owned()), Some(word))]);
        assert_eq!(it.up(), of_key);
    }
    // The host's own time was over, or it says nothing at all.
    for answers in [true, false] {
        let mut it = World::new(&["a"], &[]);
        let (call, _) = it.engine.begin(it.routes["a"], &Request::default(), Time::from_micros(0));
        let mut commands = Vec::new();
        it.engine.take_commands(&mut commands);
        it.now = 50 * MILLI;
        if answers {
            let _ = it.engine.on_reply(commands[0].id, Reply::Lost, Time::from_micros(it.now));
        } else {
            let _ = it.engine.on(call, Event::Timer, Time::from_micros(it.now));
        }
        it.carry();
        let text = it.records[0].to_string();
        assert!(
            text.contains("\"type\":\"store_degraded\"") && text.contains("\"reason\":\"timeout\""),
            "{text}"
        );
        assert_eq!(it.told(), [("store_degraded", None, Some("timeout"))]);
    }
}

/// A host that never takes a command: no heap of them, however long.
#[test]
fn commands_that_nobody_takes_do_not_heap_up() {
    let mut it = World::new(&["a", "b"], &[]);
    for turn in 0..6_000 {
        it.now = turn * 20 * MILLI;
        for key in ["a", "b"] {
            let (call, step) =
                it.engine.begin(it.routes[key], &Request::default(), Time::from_micros(it.now));
            if let Action::Wait { .. } = step.action() {
                let after = step.next().unwrap_or(Duration::ZERO).as_micros();
                let _ = it.engine.on(call, Event::Timer, Time::from_micros(it.now + after));
            }
        }
    }
    let mut commands = Vec::new();
    it.engine.take_commands(&mut commands);
    assert!((1..=4).contains(&commands.len()), "{} commands after two minutes", commands.len());
    // And the last of them is a probe that still counts.
    let reply = Reply::Bytes(b"5 0 1");
    let _ = it.engine.on_reply(commands.last().unwrap().id, reply, Time::from_micros(it.now));
    it.carry();
    assert!(it.up());
}
