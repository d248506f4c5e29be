//! Each part of core beside its peers, in one run: the cost of a call in ns, in allocations, and as a ratio to core's.
//!
//! Without arguments it prints the tables; `together` prints the last one, in which two threads share an object.
//! `instructions NAME COUNT` makes COUNT calls of one row and nothing else, for callgrind; `rows` prints the names.

mod host;
mod parts;
mod rates;
mod routes;
mod sharded;
mod shared;
mod stacks;

use std::env::args;
use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_bench_core::counting::{Counting, tally};
use tidegate_bench_core::rows::keep;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The peers whose versions are printed.
const PEERS: [&str; 9] = [
    "governor",
    "failsafe",
    "recloser",
    "backon",
    "tokio",
    "tower",
    "tower-resilience",
    "sketches-ddsketch",
    "parking_lot",
];

/// How often each row runs, alternating with the others.
const RUNS: usize = 61;
/// Duration of one run of a row, in seconds. It is short, so that on a shared machine the least figure is of a run
/// without a context switch.
const SLICE: f64 = 2e-3;

/// A row of a table. `run` makes the given number of calls.
struct Row {
    group: &'static str,
    name: &'static str,
    run: Box<dyn FnMut(u64)>,
}

/// A row whose object is shared by two threads.
struct Shared {
    name: &'static str,
    run: Box<dyn Fn(u64) + Sync>,
}

fn row(group: &'static str, name: &'static str, run: impl FnMut(u64) + 'static) -> Row {
    Row { group, name, run: Box::new(run) }
}

fn main() {
    let args: Vec<String> = args().skip(1).collect();
    let mut rows = parts::rows();
    rows.extend(stacks::rows());
    rows.extend(rates::rows());
    rows.extend(routes::rows());
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            versions();
            alone(&mut rows);
            together(&shared::rows());
        }
        ["together"] => together(&shared::rows()),
        ["rows"] => {
            for row in &rows {
                println!("{}: {}", row.group, row.name);
            }
        }
        ["instructions", name, count] => {
            let Some(row) = rows.iter_mut().find(|row| format!("{}: {}", row.group, row.name) == name) else {
                panic!("no row {name}")
            };
            (row.run)(count.parse().expect("a count"));
        }
        _ => panic!("usage: tidegate-bench-peers [rows | together | instructions NAME COUNT]"),
    }
}

fn versions() {
    let lock = include_str!("../../../../Cargo.lock");
    let mut ran = format!("tidegate {}", env!("CARGO_PKG_VERSION"));
    for peer in PEERS {
        let version = lock
            .split("[[package]]")
            .filter(|package| package.lines().any(|line| line == format!("name = \"{peer}\"")))
            .filter_map(|package| package.lines().find_map(|line| line.strip_prefix("version = ")));
        // If the lock file has two versions, the newest is the one used here.
        ran.extend(["; ", peer, " ", version.max().unwrap_or("?").trim_matches('"')]);
    }
    keep("versions", &ran, "", 0.0, "");
    println!(
        "{ran}\nns per call: median and least of {RUNS} runs in turn; ratios of the least to the first row of a group"
    );
}

fn alone(rows: &mut [Row]) {
    let counts: Vec<u64> = rows.iter_mut().map(|row| calls_in_a_slice(&mut *row.run)).collect();
    let mut figures = vec![Vec::new(); rows.len()];
    for _ in 0..RUNS {
        for ((row, count), figures) in rows.iter_mut().zip(&counts).zip(&mut figures) {
            figures.push(nanoseconds(*count, || (row.run)(*count)));
        }
    }
    let mut group = "";
    let mut ours = 1.0;
    for (row, figures) in rows.iter_mut().zip(&mut figures) {
        let before = tally();
        (row.run)(1_000);
        let allocations = tally().since(before).times as f64 / 1e3;
        let [median, least] = spread(figures);
        if row.group != group {
            (group, ours) = (row.group, least);
            println!("\n{group:<52} {:>9} {:>9} {:>7} {:>8}", "median", "least", "ratio", "allocs");
        }
        println!("  {:<50} {median:>9.1} {least:>9.1} {:>7.2} {allocations:>8.1}", row.name, least / ours);
        keep(group, row.name, "ns", least, "");
    }
}

/// Measures two threads on one object: the time until both have made their calls, per call of one thread.
fn together(rows: &[Shared]) {
    // Short turns and many of them: on a shared machine few turns have both cores to themselves.
    const CALLS: u64 = 2_000;
    const TURNS: usize = 400;
    println!("\n{:<52} {:>9} {:>9} {:>9} {:>7}", "one object", "1 thread", "median of 2", "least", "ratio");
    let mut ours = None;
    for row in rows {
        let mut one: Vec<f64> = (0..TURNS).map(|_| nanoseconds(CALLS, || (row.run)(CALLS))).collect();
        // The second thread starts each turn with the first and reports when it began and ended. Only turns in which
        // both ran for most of the time count: without contention the object is cheap.
        let (turn, origin) = (AtomicUsize::new(0), Instant::now());
        let spans = Mutex::new((0.0, 0.0));
        let mut two = Vec::with_capacity(TURNS);
        let wait_for = |number| {
            while turn.load(Ordering::Acquire) != number {
                hint::spin_loop();
            }
        };
        let timed = || {
            let start = origin.elapsed().as_secs_f64();
            (row.run)(CALLS);
            (start, origin.elapsed().as_secs_f64())
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..TURNS {
                    wait_for(2 * n + 1);
                    *spans.lock() = timed();
                    turn.store(2 * n + 2, Ordering::Release);
                }
            });
            for n in 0..TURNS {
                turn.store(2 * n + 1, Ordering::Release);
                let (start, end) = timed();
                wait_for(2 * n + 2);
                let other = *spans.lock();
                let (span, both) =
                    (end.max(other.1) - start.min(other.0), end.min(other.1) - start.max(other.0));
                if both > 0.8 * span {
                    two.push(span * 1e9 / CALLS as f64);
                }
            }
        });
        if two.is_empty() {
            println!("  {:<50} never ran beside each other", row.name);
            continue;
        }
        let ([_, one], [median, two]) = (spread(&mut one), spread(&mut two));
        let ours = ours.get_or_insert(two);
        println!("  {:<50} {one:>9.1} {median:>9.1} {two:>9.1} {:>7.2}", row.name, two / *ours);
        keep("two threads on one object", row.name, "ns", two, "");
    }
}

fn nanoseconds(count: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// Number of calls that fill a slice, measured after a warm-up.
fn calls_in_a_slice(run: &mut dyn FnMut(u64)) -> u64 {
    run(500);
    let each = nanoseconds(500, || run(500));
    ((SLICE * 1e9 / each) as u64).max(20)
}

fn spread(figures: &mut [f64]) -> [f64; 2] {
    figures.sort_by(f64::total_cmp);
    [figures[figures.len() / 2], figures[0]]
}
