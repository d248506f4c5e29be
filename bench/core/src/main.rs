//! The cost of a call in core: `begin` and `on`, packed as a binding packs them.
//!
//! Without arguments it prints wall-clock figures, memory, and how the cost grows. `cargo xtask test` counts
//! instructions under callgrind with two runs of different counts, whose difference excludes start-up:
//!
//! - `instructions NAME COUNT` runs COUNT rounds of one scenario and nothing else;
//! - `growth KIND SIZE COUNT` makes COUNT calls beside SIZE others.

use std::env::args;
use std::hint::black_box;
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use tidegate::{Class, Event, Outcome, Request, Time, wire};
use tidegate_bench_core::counting::{Counting, tally};
use tidegate_bench_core::growth::{Crowd, KINDS};
use tidegate_bench_core::memory;
use tidegate_bench_core::rows::keep;
use tidegate_bench_core::scenarios::{Round, SCENARIOS, World, scenario};

#[global_allocator]
static COUNTING: Counting = Counting;

fn main() {
    let args: Vec<String> = args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            wall_clock();
            growth();
            print!("{}", memory::table());
        }
        ["instructions", name, count] => {
            let Some(scenario) = scenario(name) else { panic!("no scenario {name}") };
            let count: u64 = count.parse().expect("a count");
            let mut world = World::new(scenario.pairs);
            // Choosing the round is not part of a call's cost, so it happens outside the loop.
            if let Round::Call { failures } = scenario.round {
                for n in 0..count {
                    black_box(world.call(failures, || Time::from_micros(n * scenario.every)));
                }
            } else {
                for n in 0..count {
                    black_box(world.round(scenario.round, n * scenario.every));
                }
            }
        }
        ["growth", kind, size, count] => {
            let Some((_, many, _)) = KINDS.iter().find(|it| it.0 == kind) else { panic!("no kind {kind}") };
            let mut crowd = Crowd::new(*many, size.parse().expect("a size"));
            for _ in 0..count.parse::<u64>().expect("a count") {
                crowd.step();
            }
        }
        _ => panic!("usage: tidegate-bench-core [instructions NAME COUNT | growth KIND SIZE COUNT]"),
    }
}

fn wall_clock() {
    const CALLS: u64 = 50_000;
    println!(
        "tidegate {}: ns per round, median (least) of 61 runs of {CALLS} rounds",
        env!("CARGO_PKG_VERSION")
    );
    println!("{:>16} {:>6} {:>18} {:>12}", "", "calls", "core", "allocations");
    for scenario in SCENARIOS {
        let mut world = World::new(scenario.pairs);
        let mut next = 0;
        let mut run = || {
            for _ in 0..CALLS {
                black_box(world.round(scenario.round, next));
                next += scenario.every;
            }
        };
        run();
        let before = tally();
        run();
        let allocations = tally().since(before).times;
        let [median, least] = timed(CALLS, &mut run);
        println!(
            "{:>16} {:>6} {median:>9.1} ({least:>6.1}) {allocations:>12}",
            scenario.name, scenario.calls
        );
        keep("core alone, a round", scenario.name, "ns", median, "");
    }
    println!("\nns per call behind one parking_lot mutex, with the clock read before each crossing");
    println!("{:>16} {:>18} {:>18}", "", "one thread", "two threads");
    for scenario in SCENARIOS {
        let Round::Call { failures } = scenario.round else { continue };
        let shared = Mutex::new(World::new(scenario.pairs));
        let one = timed(CALLS, &mut || locked(&shared, CALLS, failures));
        let two = timed(CALLS, &mut || {
            thread::scope(|scope| {
                scope.spawn(|| locked(&shared, CALLS, failures));
                locked(&shared, CALLS, failures);
            });
        });
        let show = |[median, least]: [f64; 2]| format!("{median:>9.1} ({least:>6.1})");
        println!("{:>16} {} {}", scenario.name, show(one), show(two));
    }
}

/// Nanoseconds per call over `count` calls: the median and the least of 61 runs.
fn timed(count: u64, run: &mut dyn FnMut()) -> [f64; 2] {
    let mut figures: Vec<f64> = (0..61)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e9 / count as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    [figures[figures.len() / 2], figures[0]]
}

/// Makes calls behind one lock, reading the clock before each call of the engine, as a binding does.
fn locked(world: &Mutex<World>, calls: u64, failures: u8) {
    let origin = Instant::now();
    let now = || Time::from_micros(origin.elapsed().as_micros() as u64);
    for _ in 0..calls {
        let at = now();
        let call = {
            let mut world = world.lock();
            let route = world.route;
            let (call, step) = world.engine.begin(route, &Request::default(), at);
            black_box(wire::pack_step(step));
            call
        };
        for attempt in 1..=failures + 1 {
            let class = if attempt > failures { Class::Ok } else { Class::Transient };
            let at = now();
            let step =
                world.lock().engine.on(call, Event::Finished { attempt, outcome: Outcome::of(class) }, at);
            black_box(wire::pack_step(step));
        }
    }
}

/// Prints how the cost of a call grows. Instruction counts do not grow, so this shows the effect of the cache.
fn growth() {
    const SIZES: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
    const STEPS: u64 = 20_000;
    println!("\nns per call beside so many others, least of 61 runs of {STEPS}");
    print!("{:>16}", "");
    for size in SIZES {
        print!(" {size:>9}");
    }
    println!();
    for (name, many, title) in KINDS {
        print!("{name:>16}");
        for size in SIZES {
            let mut crowd = Crowd::new(many, size);
            let [_, least] = timed(STEPS, &mut || (0..STEPS).for_each(|_| crowd.step()));
            print!(" {least:>9.1}");
            keep("beside many others", &format!("{title}: {size}"), "ns", least, "");
        }
        println!();
    }
}
