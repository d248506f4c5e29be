//! What a call costs in core: `begin` and `on`, packed as a binding packs them.
//!
//! Without arguments it prints wall-clock figures. With `instructions NAME COUNT` it makes COUNT calls of one scenario and
//! nothing else, for `cargo xtask test` to count instructions under callgrind: two counts, one difference, no start-up.

use std::env::args;
use std::hint::black_box;
use std::thread;
use std::time::Instant;

use Value::{Number, Text};
use parking_lot::Mutex;
use tidegate::{Class, Engine, Event, Options, Outcome, Policy, Request, RouteId, Time, Value, wire};

type Pairs = &'static [(&'static str, Value<'static>)];

/// The scenarios, each a policy and how many attempts fail before one works.
const SCENARIOS: &[(&str, Pairs, u8)] = &[
    ("bare", &[("deadline", Number(30e6))], 0),
    (
        "happy",
        &[
            ("preset", Text("http")),
            ("attempt_timeout", Number(1e6)),
            ("bulkhead.max_concurrency", Number(100.0)),
            ("bulkhead.max_queue", Number(100.0)),
        ],
        0,
    ),
    (
        "one_retry",
        &[
            ("preset", Text("http")),
            ("retry.backoff.base", Number(0.0)),
            ("retry.budget.percent_can_retry", Number(2.0)),
            ("bulkhead.max_concurrency", Number(100.0)),
        ],
        1,
    ),
];

/// An engine with one route.
struct World {
    engine: Engine,
    route: RouteId,
}

impl World {
    fn new(pairs: Pairs) -> Self {
        let mut engine = Engine::new(7, Options::default());
        let policy =
            engine.policy(Policy::from_pairs("p", pairs).expect("a good policy")).expect("the only one");
        let route = engine.route(policy, "https://api.example:443", Time::from_micros(0));
        Self { engine, route }
    }

    /// One call; the words are what a binding would hand over.
    fn call(&mut self, failures: u8, now: impl Fn() -> Time) -> u64 {
        let (call, step) = self.engine.begin(self.route, &Request::default(), now());
        let mut word = wire::pack_step(step);
        for attempt in 1..=failures + 1 {
            let class = if attempt > failures { Class::Ok } else { Class::Transient };
            word ^= wire::pack_step(self.engine.on(
                call,
                Event::Finished { attempt, outcome: Outcome::of(class) },
                now(),
            ));
        }
        word
    }
}

fn main() {
    let args: Vec<String> = args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => wall_clock(),
        ["instructions", name, count] => {
            let scenario = SCENARIOS.iter().find(|scenario| scenario.0 == name);
            let Some((_, pairs, failures)) = scenario else { panic!("no scenario {name}") };
            let count: u64 = count.parse().expect("a count");
            let mut world = World::new(pairs);
            for n in 0..count {
                black_box(world.call(*failures, || Time::from_micros(n * 10)));
            }
        }
        _ => panic!("usage: tidegate-bench-core [instructions NAME COUNT]"),
    }
}

fn wall_clock() {
    const CALLS: u64 = 2_000_000;
    println!("ns per call, the median of 7 runs of {CALLS} calls");
    for (name, pairs, failures) in SCENARIOS {
        let mut world = World::new(pairs);
        let alone = median(|| {
            let start = Instant::now();
            for n in 0..CALLS {
                black_box(world.call(*failures, || Time::from_micros(n * 10)));
            }
            start.elapsed().as_secs_f64() * 1e9 / CALLS as f64
        });
        let shared = Mutex::new(World::new(pairs));
        let one = median(|| locked(&shared, CALLS, *failures));
        let two = median(|| {
            thread::scope(|scope| {
                let other = scope.spawn(|| locked(&shared, CALLS, *failures));
                let mine = locked(&shared, CALLS, *failures);
                f64::midpoint(mine, other.join().expect("no panic"))
            })
        });
        println!("{name:>10}: core {alone:6.1}   with lock and clock {one:6.1}   two threads {two:6.1}");
    }
}

/// Calls through the one lock, with the clock read before each crossing, as a binding makes them.
fn locked(world: &Mutex<World>, calls: u64, failures: u8) -> f64 {
    let origin = Instant::now();
    let now = || Time::from_micros(origin.elapsed().as_micros() as u64);
    let start = Instant::now();
    for _ in 0..calls {
        let at = now();
        let (call, route) = {
            let mut world = world.lock();
            let route = world.route;
            let (call, step) = world.engine.begin(route, &Request::default(), at);
            black_box(wire::pack_step(step));
            (call, route)
        };
        black_box(route);
        for attempt in 1..=failures + 1 {
            let class = if attempt > failures { Class::Ok } else { Class::Transient };
            let at = now();
            let step =
                world.lock().engine.on(call, Event::Finished { attempt, outcome: Outcome::of(class) }, at);
            black_box(wire::pack_step(step));
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / calls as f64
}

fn median(run: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = std::iter::repeat_with(run).take(7).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
