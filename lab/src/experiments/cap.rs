//! A hidden cap of concurrency: how close a limit that follows loss comes to it, and how many attempts are refused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::dice::Dice;
use crate::table::{Figure, Table};
use crate::world::{Rule, SECOND};
use tidegate::Value::{Number, Text};
use tidegate::{Action, CallId, Class, Engine, Event, Options, Outcome, Request, RouteId, Time};

const CAPS: [u32; 5] = [7, 10, 30, 100, 300];
/// Mean latencies in seconds; each answer takes 0.5 to 1.5 times as long.
const LATENCIES: [f64; 3] = [0.2, 1.0, 4.0];
/// A refusal takes 20 ms on average.
const REFUSAL: f64 = 0.02;
/// When measuring begins and ends, in seconds.
const FROM: u64 = 30;
const UNTIL: u64 = 150;

/// A server that refuses what is above its cap, and callers who always have another call.
struct Run {
    engine: Engine,
    route: RouteId,
    dice: Dice,
    cap: u32,
    latency: f64,
    /// Attempts that the server works on.
    working: u32,
    /// The ends of attempts: when, the call, and whether it was refused. The number keeps their order.
    ends: BinaryHeap<Reverse<(u64, u64, CallId, bool)>>,
    begun: u64,
    in_flight: u32,
}

impl Run {
    fn new(rule: &Rule, cap: u32, latency: f64, seed: u64) -> Self {
        let mut engine = Engine::new(seed, Options::default());
        let policy = engine.policy(rule.policy()).expect("an engine takes its first policy");
        let route = engine.route(policy, "server", Time::from_micros(0));
        let (dice, ends) = (Dice::new(seed), BinaryHeap::new());
        Self { engine, route, dice, cap, latency, working: 0, ends, begun: 0, in_flight: 0 }
    }

    /// Begins calls until the limit refuses one.
    fn fill(&mut self, now: u64) {
        loop {
            let (call, step) = self.engine.begin(self.route, &Request::default(), Time::from_micros(now));
            if !matches!(step.action(), Action::Attempt { .. }) {
                return;
            }
            let refused = self.working >= self.cap;
            let mean = if refused { REFUSAL } else { self.latency };
            self.working += u32::from(!refused);
            self.begun += 1;
            self.in_flight += 1;
            let took = (mean * (0.5 + self.dice.unit()) * SECOND as f64) as u64;
            self.ends.push(Reverse((now + took.max(1), self.begun, call, refused)));
        }
    }

    /// The mean number in flight, and the share of refused attempts, both after the first 30 s.
    fn measure(&mut self) -> (f64, f64) {
        let (mut area, mut ended, mut refusals, mut last) = (0.0, 0u64, 0u64, FROM * SECOND);
        self.fill(0);
        while let Some(Reverse((now, _, call, refused))) = self.ends.pop() {
            if now >= UNTIL * SECOND {
                break;
            }
            if now > last {
                area += f64::from(self.in_flight) * (now - last) as f64;
                last = now;
                ended += 1;
                refusals += u64::from(refused);
            }
            self.in_flight -= 1;
            self.working -= u32::from(!refused);
            let outcome = Outcome::of(if refused { Class::Throttled } else { Class::Ok });
            let _ = self.engine.on(call, Event::Finished { attempt: 1, outcome }, Time::from_micros(now));
            self.fill(now);
        }
        (area / ((UNTIL - FROM) * SECOND) as f64, refusals as f64 / ended.max(1) as f64)
    }
}

/// The policy: one attempt, and a limit that follows loss.
fn rule() -> Rule {
    Rule::new(
        "aimd, loss",
        &[
            ("retry.max_attempts", Number(1.0)),
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.signal", Text("loss")),
            ("bulkhead.max_concurrency", Number(1_000.0)),
        ],
    )
}

/// How far the calls in flight are from a hidden cap, and the share of refused attempts; the worst of the seeds.
pub fn cap(seeds: u64) -> Table {
    let mut table = Table::new(
        "A hidden cap: distance of the calls in flight from it, and share of refused attempts, from 30 s on",
        &["cap, latency", "distance", "refused"],
    );
    for cap in CAPS {
        for latency in LATENCIES {
            let (mut distance, mut share) = (0.0f64, 0.0f64);
            for seed in 1..=seeds {
                let (in_flight, refused) = Run::new(&rule(), cap, latency, seed).measure();
                distance = distance.max((in_flight - f64::from(cap)).abs());
                share = share.max(refused);
            }
            let most = (f64::from(cap) * 0.2).max(1.0);
            let figures = vec![Figure::at_most(distance, most), Figure::at_most(share, 0.02)];
            table.row(format!("{cap}, {latency} s"), figures);
        }
    }
    table
}
