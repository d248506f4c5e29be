//! Random policies and scripts, run by the engine and printed as engine vectors (`tests/README.md`), one a line.
//!
//! ```text
//! cargo run --release -p tidegate --example traces -- --seed 1 --count 1000
//! cargo run --release -p tidegate --example traces -- --replay < vectors.jsonl     runs scripts, prints them with their steps
//! cargo run --release -p tidegate --example traces -- --journals <file> --answers <file> --form words --count 1000
//! ```
//!
//! The last one writes traces as journals, and what the engine says to each line. `tests/traces` has programs that replay
//! such journals in other languages; their answers must be the same bytes. `--form small` makes traces of what the small
//! engine of JavaScript has (`docs/adr/0015-two-modules.md`), with answers in words.
//! `tests/model/compare.py` lets the model of `tests/model` run the same scripts.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program reads its arguments and writes files"
)]

mod components;
mod journals;
mod small;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use serde_json::{Value as Json, json};
use tidegate::{
    CallId, Engine, Link, Options, PathId, Policy, PolicyId, Pool, PoolKind, Time, Value, rng, wire,
};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let place = args.iter().position(|arg| arg == name);
        place.map_or(default, |at| args[at + 1].parse().expect("a number"))
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if args.iter().any(|arg| arg == "--replay") {
        for line in std::io::stdin().lock().lines() {
            let vector: Json = serde_json::from_str(&line.expect("text")).expect("JSON");
            writeln!(out, "{}", replay(&vector)).expect("a reader");
            out.flush().expect("a reader");
        }
        return;
    }
    let seed = number("--seed", 1);
    let word = |name: &str| Some(args[args.iter().position(|arg| arg == name)? + 1].as_str());
    let mut journals = word("--journals").map(|file| {
        let form = word("--form").unwrap_or("debug");
        journals::Files::new(file, word("--answers").expect("--answers beside --journals"), form)
    });
    let form = small::Form::of(word("--form").unwrap_or_default(), journals.is_some());
    for trace in number("--first", 0)..number("--first", 0) + number("--count", 1000) {
        let (vector, world) = Trace::new(seed, trace, form).run();
        if let Some(files) = &mut journals {
            files.write(&vector, &world.engine);
        } else if writeln!(out, "{vector}").is_err() {
            return; // the reader has seen enough
        }
    }
}

/// An engine, and the names that a vector has for its calls and routes.
struct World {
    engine: Engine,
    policies: BTreeMap<String, PolicyId>,
    calls: BTreeMap<String, CallId>,
}

impl World {
    fn new(seed: u64, max_routes: u32, pools: &[Json], policies: &[Json]) -> Option<Self> {
        let mut engine =
            Engine::new(seed, Options::default().max_routes(max_routes).journal(true).weights(true));
        let mut known = BTreeMap::new();
        for pool in pools {
            let kind = PoolKind::of_name(pool["kind"].as_str()?)?;
            let built = Pool::from_pairs(pool["name"].as_str()?, kind, &pairs(pool)).ok()?;
            engine.pool(built, Time::from_micros(0)).ok()?;
        }
        for policy in policies {
            let name = policy["name"].as_str()?.to_owned();
            let built = Policy::from_pairs(&name, &pairs(policy)).ok()?;
            known.insert(name, engine.policy(built).ok()?);
        }
        Some(Self { engine, policies: known, calls: BTreeMap::new() })
    }

    /// Carries out one entry of a script and writes its step and its wakes into it.
    fn act(&mut self, entry: &mut Json) -> u64 {
        let now = Time::from_micros(entry["at"].as_u64().expect("a moment"));
        let word = if let Json::Object(begin) = &entry["begin"] {
            let words = begin["request"].as_array().expect("a request");
            let parent = words[2].as_str().and_then(|name| self.calls.get(name)).map_or(0, |id| id.to_word());
            let word = |place: usize| words[place].as_u64().expect("a number");
            let request = wire::unpack_request(word(0), word(1), parent, word(3)).expect("a request");
            let policy = self.policies[&text(&begin["policy"])];
            let route = self.engine.route(policy, &text(&begin["route"]), now);
            let path = begin.get("path").and_then(Json::as_str);
            let path = path.map_or(PathId::NONE, |path| self.engine.path_id(route, path, now));
            let request = tidegate::Request { path, ..request };
            // What a host would refuse with an error begins without weights.
            let weights = begin.get("weights").and_then(Json::as_object).map(|named| {
                let amount = |json: &Json| json.as_u64().expect("an amount");
                named.iter().map(|(name, json)| (name.as_str(), amount(json))).collect::<Vec<_>>()
            });
            let weights = weights.and_then(|named| self.engine.weights(route, named).ok());
            let (call, step) = match weights {
                Some(weights) => self.engine.begin_weighted(route, &request, weights, now),
                None => self.engine.begin(route, &request, now),
            };
            self.calls.insert(text(&entry["call"]), call);
            wire::pack_step(step)
        } else if let Json::Object(force) = &entry["force"] {
            let policy = self.policies[&text(&force["policy"])];
            let route = force["route"].as_str().map(|key| self.engine.route(policy, key, now));
            let on = force["on"].as_bool().expect("a flag");
            let _ = self.engine.force_open(policy, route, on, now);
            2 // it is nobody's end
        } else if let Json::Array(settle) = &entry["settle"] {
            let (attempt, total) =
                (settle[0].as_u64().expect("a number"), settle[2].as_u64().expect("a total"));
            let call = self.calls[entry["on"].as_str().expect("a name")];
            u64::from(self.engine.settle_weight(call, attempt as u8, &text(&settle[1]), total, now))
        } else if let Some(link) = entry["link"].as_str() {
            let link = Link::ALL.into_iter().find(|it| it.name() == link).expect("a state of the link");
            self.engine.set_link(link, now);
            2
        } else if let Json::Object(release) = &entry["release"] {
            let name = text(&release["policy"]);
            let id = self.policies[&name];
            let policy = self.engine.policy_of(id).expect("a policy").clone();
            self.engine.release_policy(id, release["keep"].as_bool().expect("a flag"), now);
            self.policies.insert(name, self.engine.policy(policy).expect("its name is free, or its own"));
            2
        } else {
            let event = wire::unpack_event(entry["event"].as_u64().expect("a word")).expect("an event");
            let call = self.calls.get(entry["on"].as_str().expect("a name"));
            wire::pack_step(self.engine.on(call.copied().unwrap_or(CallId::from_word(0)), event, now))
        };
        let mut woken = Vec::new();
        self.engine.take_wakes(&mut woken);
        let name = |id: &CallId| self.calls.iter().rev().find(|call| call.1 == id).map(|call| call.0.clone());
        if entry["force"].is_null() && entry["release"].is_null() && entry["link"].is_null() {
            entry["step"] = json!(word);
        }
        entry["wakes"] = json!(woken.iter().map(name).collect::<Vec<_>>());
        word
    }
}

fn text(json: &Json) -> String {
    json.as_str().expect("a text").to_owned()
}

fn pairs(policy: &Json) -> Vec<(&str, Value<'_>)> {
    let pairs = policy["pairs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let value = |json: &'_ Json| json.as_f64().map(Value::Number);
    pairs
        .iter()
        .map(|pair| {
            let word = pair[1].as_str().map(Value::Text);
            (pair[0].as_str().expect("a key"), word.or(value(&pair[1])).expect("a value"))
        })
        .collect()
}

fn replay(vector: &Json) -> Json {
    let mut vector = vector.clone();
    let policies = vector["policies"].as_array().cloned().unwrap_or_default();
    let pools = vector["pools"].as_array().cloned().unwrap_or_default();
    let seed = vector["seed"].as_u64().unwrap_or(0);
    let max_routes = vector["max_routes"].as_u64().unwrap_or(10_000) as u32;
    let mut world = World::new(seed, max_routes, &pools, &policies).expect("valid policies");
    for entry in vector["script"].as_array_mut().expect("a script") {
        world.act(entry);
    }
    vector
}

/// A source of choices: draws number 0, 1, 2, … of a trace.
struct Dice {
    seed: u64,
    trace: u64,
    drawn: u64,
}

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.drawn += 1;
        let bits = rng::bits(self.seed ^ self.drawn << 32, self.trace, rng::Purpose::Backoff, 0);
        rng::uniform(bits, 0, n - 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

/// What the generator remembers of a call.
struct Known {
    name: String,
    live: bool,
    attempt: u64,
    due: Option<u64>,
}

#[allow(clippy::struct_excessive_bools, reason = "independent traits of a trace")]
struct Trace {
    dice: Dice,
    now: u64,
    calls: Vec<Known>,
    /// Long silences, in which leases run out.
    silent: bool,
    /// A clock that jumps.
    jumpy: bool,
    nested: bool,
    /// Attempts that cannot be stopped and are seldom reported: up to four, and eight, of one call are out (R11).
    stubborn: bool,
    /// Policies with every component.
    rich: bool,
    routes: &'static [&'static str],
    form: small::Form,
    /// A device whose link comes and goes.
    mobile: bool,
    /// Sets of limits in the place of single ones.
    sets: bool,
    /// 1 to 8 in some traces, in which there are more keys than that: routes are evicted, and keys share the overflow route.
    max_routes: u32,
}

/// The keys of traces in which routes are evicted: two that come often, and others that make room scarce.
const MANY: [&str; 16] = ["r", "r", "r", "r", "s", "s", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Spans that meet each other often.
const SPANS: [u64; 10] = [0, 1, 999, 1_000, 10_000, 50_000, 100_000, 200_000, 1_000_000, 3_000_000];

/// Amounts of a weight.
const AMOUNTS: [u64; 8] = [0, 1, 2, 3, 5, 8, 10, 20];

impl Trace {
    fn new(seed: u64, trace: u64, form: small::Form) -> Self {
        let small = form.small;
        let mut dice = Dice { seed, trace, drawn: 0 };
        let now = dice.of(&[0, 5, 1_000_000, 1 << 40]);
        let (silent, jumpy, nested) = (dice.chance(20), dice.chance(10), dice.chance(40) && !small);
        let stubborn = dice.chance(15);
        let rich = !stubborn && dice.chance(65);
        let mobile = dice.chance(25) && !small;
        let mut routes: &[_] = if rich { &["r", "r", "r", "r", "s"] } else { &["r", "r", "r", "s"] };
        let mut max_routes = 10_000;
        if dice.chance(35) {
            (routes, max_routes) = (&MANY, 1 + dice.below(8) as u32);
        }
        Self {
            dice,
            now,
            calls: Vec::new(),
            silent,
            jumpy,
            nested,
            stubborn,
            rich,
            routes,
            form,
            mobile,
            // In one trace of six; the others keep what they have always drawn.
            sets: rich && !small && !form.hosts && trace % 6 == 4,
            max_routes,
        }
    }

    fn run(mut self) -> (Json, World) {
        let (seed, pools, policies, mut world) = loop {
            let seed = self.dice.below(1 << 53);
            let count = 1 + self.dice.below(2);
            let mut pools =
                if self.rich && !self.form.small { components::pools(&mut self.dice) } else { Vec::new() };
            // In one trace of six; the others keep what they have always drawn.
            if self.rich && !self.form.small && !self.form.hosts && self.dice.trace % 6 == 5 {
                pools.push(components::targets(&mut self.dice));
            }
            let policies: Vec<Json> = (0..count)
                .map(|n| {
                    let name = format!("p{n}");
                    let policy = if self.rich {
                        components::policy(&mut self.dice, &name, &pools, self.sets)
                    } else {
                        self.policy(&name)
                    };
                    self.form.without(policy)
                })
                .collect();
            if let Some(world) = World::new(seed, self.max_routes, &pools, &policies) {
                break (seed, pools, policies, world);
            }
        };
        let mut script = Vec::new();
        for _ in 0..10 + self.dice.below(if self.rich { 90 } else { 50 }) {
            self.advance();
            let mut entry = self.entry(policies.len() as u64);
            let word = world.act(&mut entry);
            self.learn(&entry, word);
            script.push(entry);
        }
        let name = format!("trace {} of seed {}", self.dice.trace, self.dice.seed);
        let routes = self.max_routes;
        let vector = json!({ "name": name, "seed": seed, "max_routes": routes, "pools": pools, "policies": policies, "script": script });
        (vector, world)
    }

    fn policy(&mut self, name: &str) -> Json {
        let dice = &mut self.dice;
        if self.stubborn {
            let base = dice.of(&[0, 0, 1, 1_000, 100_000]);
            let pairs = json!([
                ["attempt_timeout", dice.of(&[1, 1_000, 50_000])],
                ["retry.max_attempts", dice.of(&[9, 12, 255])],
                ["retry.backoff.base", base],
                ["retry.backoff.jitter", "none"],
                ["retry.retry_after", "exact"],
                ["retry.budget.kind", dice.of(&["none", "quota", "share"])],
                ["bulkhead.max_concurrency", dice.of(&[1, 2])],
            ]);
            return json!({ "name": name, "pairs": pairs });
        }
        let mut pairs: Vec<Json> = Vec::new();
        let mut put = |key: &str, value: Json| pairs.push(json!([key, value]));
        if dice.chance(10) {
            put(
                "preset",
                json!(dice.of(&["http", "httpware", "aws_standard", "aws_2026", "grpc", "transient", "occ"])),
            );
        }
        if dice.chance(50) {
            put(
                "deadline",
                json!(dice.of(&[
                    1,
                    1_000,
                    50_000,
                    200_000,
                    1_000_000,
                    2_500_000,
                    30_000_000,
                    4_000_000_000u64
                ])),
            );
        }
        if dice.chance(50) {
            put("attempt_timeout", json!(dice.of(&[1, 10_000, 50_000, 100_000, 1_000_000, 5_000_000])));
        }
        if dice.chance(10) {
            put("slot_until", json!("headers"));
        } else if dice.chance(30) {
            components::stream(dice, &mut put);
        }
        if dice.chance(85) {
            put("retry.max_attempts", json!(dice.of(&[1, 2, 2, 3, 3, 3, 4, 5, 10, 12, 255])));
            let classes = [
                "transient",
                "throttled",
                "timeout",
                "never_sent",
                "conflict",
                "infrastructure",
                "concurrency",
            ];
            for _ in 0..dice.of(&[0, 0, 0, 0, 1, 2, 3]) {
                put("retry.retry_on", json!(dice.of(&classes)));
            }
            Self::backoff(dice, &mut put);
            Self::budget(dice, &mut put);
        }
        if dice.chance(65) {
            put("bulkhead.max_concurrency", json!(dice.of(&[1, 1, 1, 2, 3])));
            if dice.chance(80) {
                put(
                    "bulkhead.max_queue",
                    dice.of(&[json!(0), json!(1), json!(2), json!(3), json!(10), json!("none")]),
                );
            }
            if dice.chance(70) {
                let spans = [0, 1, 50_000, 100_000, 1_000_000, 2_000_000, 70_000_000];
                put("bulkhead.acquire_timeout", dice.of(&spans.map(|us| json!(us))));
            } else if dice.chance(40) {
                put("bulkhead.acquire_timeout", json!("none"));
            }
        }
        json!({ "name": name, "pairs": pairs })
    }

    fn backoff(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
        let kind = dice.of(&["exponential", "constant", "linear", "polynomial"]);
        if dice.chance(70) {
            put("retry.backoff.kind", json!(kind));
            if kind == "polynomial" {
                put("retry.backoff.exponent", json!(1 + dice.below(8)));
            }
        }
        if dice.chance(80) {
            put("retry.backoff.base", json!(dice.of(&SPANS)));
        }
        if dice.chance(20) {
            put("retry.backoff.throttled_base", json!(dice.of(&SPANS)));
        }
        if dice.chance(30) {
            put("retry.backoff.multiplier", json!(dice.of(&[1.0, 1.1, 1.5, 3.0, 7.3, 1000.0])));
        }
        if dice.chance(40) {
            put("retry.backoff.max", json!(dice.of(&SPANS)));
        }
        if dice.chance(80) {
            let jitter = dice.of(&["full_floor", "none", "full", "equal", "decorrelated", "bounded"]);
            put("retry.backoff.jitter", json!(jitter));
            if jitter == "bounded" {
                put("retry.backoff.jitter_ratio", json!(dice.of(&[0.0, 0.1, 0.2, 0.33, 1.0])));
            }
        }
        if dice.chance(60) {
            put("retry.retry_after", json!(dice.of(&["floor", "exact", "clamp_5s", "ignore"])));
        }
        if dice.chance(5) {
            put("retry.respect_retry_after", json!(0));
        }
        if dice.chance(50) {
            put("retry.max_retry_after", json!(dice.of(&SPANS)));
        }
        if dice.chance(20) {
            put("retry.retry_time_limit", json!(dice.of(&SPANS)));
        }
    }

    fn budget(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
        let kind =
            dice.of(&["earned", "earned", "window", "window", "ratio", "share", "tokens", "quota", "none"]);
        if dice.chance(85) {
            put("retry.budget.kind", json!(kind));
        } else if kind != "window" && kind != "earned" {
            return;
        }
        if kind == "window" && dice.chance(40) {
            put("retry.budget.rounding", json!("ceil"));
        }
        let mut often = |percent: u64, key: &str, values: &[f64]| {
            if dice.chance(percent) {
                put(&format!("retry.budget.{key}"), json!(dice.of(values)));
            }
        };
        match kind {
            "earned" => {
                often(50, "ratio", &[0.18, 0.5, 1.0, 1.0 / 3.0]);
                often(50, "start", &[0.0, 1.0, 2.0, 9.0]);
            }
            "window" => {
                often(80, "ttl", &[10.0, 95.0, 100_000.0, 1_000_000.0, 10_000_000.0]);
                often(80, "min_retries_per_sec", &[0.0, 0.0, 0.1, 0.5, 1.0, 2.5, 10.0]);
                often(80, "percent_can_retry", &[0.0, 0.2, 0.34, 0.5, 1.0, 2.0]);
            }
            "ratio" => {
                often(100, "ratio", &[1e-6, 0.1, 0.333_333_333, 0.5, 0.7, 1.0]);
                often(80, "min_throughput", &[0.0, 1.0, 2.0, 5.0]);
            }
            "share" => {
                often(80, "share", &[0.0, 0.2, 0.34, 0.5, 1.0, 1.5]);
                often(80, "min_retries", &[0.0, 0.0, 1.0, 2.0]);
            }
            "tokens" => {
                often(100, "max", &[1.0, 2.0, 3.0, 4.0, 10.0]);
                often(100, "ratio", &[0.1, 0.333_333_333, 0.5, 1.0]);
            }
            "quota" => {
                often(80, "capacity", &[1.0, 5.0, 10.0, 14.0, 20.0, 500.0]);
                often(80, "cost", &[1.0, 2.0, 5.0, 14.0]);
                often(80, "timeout_cost", &[1.0, 3.0, 10.0]);
                often(80, "throttled_cost", &[1.0, 4.0]);
            }
            _ => {}
        }
    }

    /// Moves the clock: not at all, a little, to somebody's timer or just beside it, or far.
    fn advance(&mut self) {
        let dice = &mut self.dice;
        let due: Vec<u64> = self.calls.iter().filter(|call| call.live).filter_map(|call| call.due).collect();
        self.now = match dice.below(100) {
            0..30 => self.now,
            30..70 if !due.is_empty() => {
                let due = dice.of(&due);
                let near = dice.of(&[due, due, due, due + 1, due.saturating_sub(1)]);
                if self.silent && dice.chance(15) {
                    near + dice.of(&[60_000_000, 59_999_999, 60_000_001])
                } else {
                    near.max(self.now)
                }
            }
            70..85 => self.now + dice.of(&SPANS),
            85..90 if self.silent => self.now + dice.of(&[5_000_000, 4_999_999, 60_000_000, 120_000_000]),
            90..94 if self.jumpy => {
                let back = dice.of(&[1, 5_000, 10_000, 10_001, 50_000, 3_600_000_000]);
                self.now.saturating_sub(back)
            }
            94 if self.jumpy => self.now + 3_600_000_000,
            _ => self.now + dice.below(100_000),
        };
    }

    fn entry(&mut self, policies: u64) -> Json {
        let live: Vec<usize> = (0..self.calls.len()).filter(|n| self.calls[*n].live).collect();
        if self.rich && self.dice.chance(1) && !self.form.small {
            let route = if self.dice.chance(50) { json!(self.dice.of(self.routes)) } else { json!(null) };
            let policy = format!("p{}", self.dice.below(policies));
            let on = self.dice.chance(25);
            return json!({ "at": self.now, "force": { "policy": policy, "route": route, "on": on } });
        }
        if self.rich && !self.form.small && self.dice.chance(2) {
            let policy = format!("p{}", self.dice.below(policies));
            return json!({ "at": self.now, "release": { "policy": policy, "keep": self.dice.chance(30) } });
        }
        if self.mobile && self.dice.chance(4) {
            return json!({ "at": self.now, "link": self.dice.of(&["ok", "ok", "metered", "offline", "offline"]) });
        }
        let more = if self.stubborn { 4 } else { 25 };
        if live.is_empty() || self.dice.chance(if live.len() > 6 { 10 } else { more }) {
            return self.begin(policies);
        }
        let old = self.dice.chance(8);
        let place = if old { self.dice.below(self.calls.len() as u64) as usize } else { self.dice.of(&live) };
        if self.sets && self.dice.chance(12) {
            let (weight, total) = (self.dice.of(&["tokens", "tokens", "out"]), self.dice.of(&AMOUNTS));
            let settle = json!([self.calls[place].attempt.max(1), weight, total]);
            return json!({ "at": self.now, "on": self.calls[place].name, "settle": settle });
        }
        let event = self.event(self.calls[place].attempt);
        json!({ "at": self.now, "on": self.calls[place].name, "event": event })
    }

    fn begin(&mut self, policies: u64) -> Json {
        let dice = &mut self.dice;
        let mut flags = 2 | 1 << 7;
        for (bit, percent) in [(2, 93), (3, 90), (4, if self.stubborn { 5 } else { 75 }), (5, 92), (6, 40)] {
            flags |= u64::from(dice.chance(percent)) << bit;
        }
        flags |= u64::from(!self.form.small && dice.chance(40)) << 24;
        let remaining = if dice.chance(20) { dice.of(&[1, 2, 1_001, 50_001, 100_001, 1_000_001]) } else { 0 };
        let parent = if self.nested && dice.chance(40) && !self.calls.is_empty() {
            let recent = self.calls.len().saturating_sub(1 + dice.below(4) as usize);
            json!(self.calls[recent].name)
        } else {
            json!(0)
        };
        let (policy, route) = (format!("p{}", dice.below(policies)), dice.of(self.routes));
        let name = format!("c{}", self.calls.len());
        let mut begin = json!({ "policy": policy, "route": route, "request": [flags, remaining, parent, 0] });
        if self.rich {
            let criticality = dice.below(4);
            let cost = if dice.chance(85) { 1 } else { dice.of(&[0, 2, 2, 3, 9]) };
            begin["request"][0] = json!(flags & !(3 | 1 << 7) | criticality | cost << 7);
            if dice.chance(90) && !self.form.small {
                begin["path"] = json!(dice.of(&components::PATHS));
            }
        }
        if self.sets && self.dice.chance(70) {
            let mut weights = json!({ "tokens": self.dice.of(&AMOUNTS) });
            if self.dice.chance(40) {
                weights["out"] = json!(self.dice.of(&AMOUNTS));
            }
            begin["weights"] = weights;
        }
        json!({ "at": self.now, "call": name, "begin": begin })
    }

    fn event(&mut self, attempt: u64) -> u64 {
        let dice = &mut self.dice;
        if self.stubborn {
            let any = 1 + dice.below(attempt.max(1));
            let early = dice.of(&[attempt, attempt, attempt, any]);
            let wait = dice.of(&[0, 0, 1]);
            return match dice.below(100) {
                0..60 => 1,
                60 => 2,
                61..65 => 4 | early << 3,
                _ => 4 | early << 3 | 1 << 11 | wait << 18,
            };
        }
        let newest = if self.rich { 65 } else { 90 };
        let attempt = match dice.below(100) {
            n if n < newest => attempt,
            n if n < 97 => dice.below(attempt.max(1)) + 1,
            _ => dice.below(14),
        };
        match dice.below(100) {
            0..12 => 0,
            12..40 => 1,
            40..45 => 2,
            45..52 => 3 | attempt << 3,
            52..56 if !self.form.small => {
                5 | attempt << 3
                    | dice.of(&[0, 1, 9_999, 10_000, 50_000, 100_000, 99_999, 1_000_000, 4_000_000]) << 11
            }
            _ => {
                let kinds = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 31];
                let kind = if self.rich && dice.chance(25) {
                    dice.of(&[0, 1, 2, 2, 9, 10])
                } else {
                    dice.of(&kinds)
                };
                let opinion = dice.of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
                let waits = [0, 1, 2, 11, 51, 101, 201, 1_001, 3_001];
                let wait = if dice.chance(35) { dice.of(&waits) } else { 0 };
                4 | attempt << 3 | kind << 11 | opinion << 16 | wait << 18
            }
        }
    }

    /// Remembers what a step says of its call.
    fn learn(&mut self, entry: &Json, word: u64) {
        if let Some(name) = entry["call"].as_str() {
            self.calls.push(Known { name: name.to_owned(), live: true, attempt: 0, due: None });
        }
        if entry["settle"].is_array() {
            return; // it is no step of the call's
        }
        let Some(name) = entry["call"].as_str().or(entry["on"].as_str()) else { return };
        let call = self.calls.iter_mut().find(|call| call.name == name).expect("a call");
        call.live &= word & 3 != 0;
        if word & 3 == 1 {
            call.attempt = word >> 12 & 0xff;
        }
        let at = entry["at"].as_u64().expect("a moment");
        call.due = (word >> 22).checked_sub(1).map(|span| at + span);
    }
}
