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
mod policies;
mod small;
mod world;

use std::io::{BufRead, Write};

use serde_json::{Value as Json, json};
use tidegate::rng;
use world::{World, replay};

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
    /// Many calls at once, for a queue that is not in the order of arrival.
    crowded: bool,
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
            crowded: false,
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
            self.crowded = self.sets && self.dice.chance(60);
            if self.crowded {
                pools.retain(|pool| pool["kind"] != "rate_limit");
                pools.push(components::set_pool(&mut self.dice));
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
        // Reservations are scaled once twenty attempts have settled.
        let text = json!(policies).to_string() + &json!(pools).to_string();
        let more = if text.contains("estimate_quantile") { 300 } else { 0 };
        for _ in 0..10 + self.dice.below(if self.rich { 90 } else { 50 }) + more {
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
        if self.sets && self.dice.chance(6) {
            let base = self.dice.of(&[1 << 50, 1 << 50, (1 << 50) + 70_000, (1 << 50) - 1_000_000, 0]);
            return json!({ "at": self.now, "wall": base + self.now });
        }
        if self.mobile && self.dice.chance(4) {
            return json!({ "at": self.now, "link": self.dice.of(&["ok", "ok", "metered", "offline", "offline"]) });
        }
        let (more, many) = match (self.crowded, self.stubborn) {
            (true, _) => (60, 16),
            (_, true) => (4, 6),
            _ => (25, 6),
        };
        if live.is_empty() || self.dice.chance(if live.len() > many { 10 } else { more }) {
            return self.begin(policies);
        }
        let old = self.dice.chance(8);
        let place = if old { self.dice.below(self.calls.len() as u64) as usize } else { self.dice.of(&live) };
        if self.sets && self.dice.chance(12) {
            let (weight, total) = (self.dice.of(&["tokens", "tokens", "out"]), self.dice.of(&AMOUNTS));
            let settle = json!([self.calls[place].attempt.max(1), weight, total]);
            return json!({ "at": self.now, "on": self.calls[place].name, "settle": settle });
        }
        if self.sets && self.dice.chance(8) {
            let names = ["x-ratelimit-remaining-requests", "anthropic-ratelimit-tokens-remaining"];
            let head = json!([[self.dice.of(&names), self.dice.of(&AMOUNTS).to_string()]]);
            return json!({ "at": self.now, "on": self.calls[place].name, "head": head });
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
        if entry["settle"].is_array() || entry["head"].is_array() {
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
