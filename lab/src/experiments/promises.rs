//! The figures behind the default budget (issue 14, item 3): that it recovers, and its cost.

use crate::dice::Dice;
use crate::experiments::e1::failing;
use crate::recovery::{Cell, RATIO, Summary, grid, slow_grid};
use crate::rules;
use crate::server::{Outages, Server};
use crate::table::{Figure, Table};
use crate::world::{Bound, Load, Rule, World};
use tidegate::Verdict;

/// The bound that a policy with the default budget prints.
pub const BOUND: Bound = Bound { ratio: RATIO, start: 2.0 };

fn run_all(title: &str, cells: Vec<Cell>, seeds: u64, promised: bool) -> Table {
    let mut table = Table::new(
        title,
        &[
            "capacity, clients",
            "runs",
            "dead",
            "lowest goodput at the end",
            "slowest recovery (s)",
            "most attempts/call",
            "attempts over the bound",
        ],
    );
    let mut groups: Vec<(String, Summary)> = Vec::new();
    for mut cell in cells {
        cell.bound = promised.then_some(BOUND);
        let label = format!("{}/s, {}, gap {:.1} s", cell.capacity, cell.clients, cell.gap());
        let summary = cell.runs(seeds);
        match groups.last_mut() {
            Some((last, sum)) if *last == label => *sum = sum.and(summary),
            _ => groups.push((label, summary)),
        }
    }
    let mut total = Summary::default();
    for (_, sum) in &groups {
        total = total.and(*sum);
    }
    groups.push((format!("all, {:.1} million calls", total.calls as f64 / 1e6), total));
    for (label, sum) in groups {
        let dead =
            if promised { Figure::at_most(sum.dead as f64, 0.0) } else { Figure::shown(sum.dead as f64) };
        let over = if promised { Figure::at_most(sum.broken as f64, 0.0) } else { Figure::shown(f64::NAN) };
        let runs = Figure::shown(sum.runs as f64);
        table.row(
            label,
            vec![
                runs,
                dead,
                Figure::shown(sum.worst),
                Figure::shown(sum.slowest as f64),
                Figure::shown(sum.attempts),
                over,
            ],
        );
    }
    table
}

/// Promise 4: dead runs 100 s after the triggers of E6 and E7, at the safe load, on the whole grid.
pub fn recovery(rule: &Rule, seeds: u64, promised: bool) -> Table {
    let title = format!(
        "Recovery, {}: 6 triggers × {seeds} seeds for each row, at λ·1.18 = C·min(0.9, 1 − 1.75/√(C·τ))",
        rule.name
    );
    run_all(&title, grid(&rules::timed(rule.clone(), crate::recovery::TIMEOUT)), seeds, promised)
}

/// The same for clients that call less often than every 20 s: measured 20 s plus five mean gaps after the triggers.
pub fn slow(rule: &Rule, seeds: u64, promised: bool) -> Table {
    let title = format!(
        "Recovery of slow clients, {}: 6 triggers × {seeds} seeds, recovered within 20 s + 5 mean gaps",
        rule.name
    );
    run_all(&title, slow_grid(&rules::timed(rule.clone(), crate::recovery::TIMEOUT)), seeds, promised)
}

/// The share of wanted retries that a lone client gets: 10 % failures, at most one call per second.
pub fn lone(seeds: u64) -> Table {
    let mut table = Table::new(
        "A lone client, 10 % failures: share of the wanted retries that are paid for",
        &["policy", "1 call/s", "1 per 10 s", "1 per 60 s"],
    );
    for (rule, promised) in [(rules::preset("http"), true), (rules::window(), false)] {
        let mut figures = Vec::new();
        for (rate, seconds) in [(1.0, 5_000), (0.1, 50_000), (1.0 / 60.0, 300_000)] {
            let (mut paid, mut wanted) = (0.0, 0.0);
            for seed in 1..=seeds {
                let server = Server::Failing { probability: 0.1, outages: Outages::Never, latency: 20_000.0 };
                let mut world = World::new(&rule, 1, server, seed);
                world.run(&Load::steady(rate, seconds));
                let counts = world.counts();
                paid += counts.retries as f64;
                wanted += (counts.retries + counts.ended(Verdict::Budget)) as f64;
            }
            let share = paid / wanted;
            figures.push(if promised { Figure::at_least(share, 0.95) } else { Figure::shown(share) });
        }
        table.row(rule.name, figures);
    }
    table
}

/// Success rate of a warm fleet at a server with outages.
fn through(rule: &Rule, clients: u32, rate: f64, outages: impl Fn(u64) -> Outages, seeds: u64) -> f64 {
    let mut success = 0.0;
    for seed in 1..=seeds {
        let server = Server::Failing { probability: 0.0, outages: outages(seed), latency: 20_000.0 };
        let mut world = World::new(rule, clients, server, seed);
        world.warm(30.max((15.0 * rate / f64::from(clients)) as u32), rate);
        world.run(&Load::steady(rate, 200));
        success += world.goodput(0, 200) / seeds as f64;
    }
    success
}

/// The cost of the default budget compared with the previous one: success with few failures, spread evenly or in
/// outages, which take 5 % of the time.
pub fn cost(seeds: u64) -> Table {
    let columns = ["failures", "http", "http, window", "difference"];
    let mut table =
        Table::new("Success with the default budget and with the window, at few failures", &columns);
    let (ours, window) = (rules::preset("http"), rules::window());
    let mut add = |label: String, of: &dyn Fn(&Rule) -> f64, most: f64| {
        let (ours, window) = (of(&ours), of(&window));
        let difference = Figure::at_most(window - ours, most);
        table.row(label, vec![Figure::shown(ours), Figure::shown(window), difference]);
    };
    for (clients, rate) in [(1, 100.0), (10, 100.0), (100, 1_000.0)] {
        for percent in [1.0, 2.0, 5.0] {
            let of = |rule: &Rule| failing(rule, clients, rate, 100, percent / 100.0, seeds).0;
            add(format!("{clients} clients, {rate}/s, even {percent} %"), &of, 0.0005);
        }
        for length in [100_000, 1_000_000] {
            let of = |rule: &Rule| {
                through(rule, clients, rate, |_| Outages::Every { period: 20 * length, length }, seeds)
            };
            let seconds = length as f64 / 1e6;
            add(
                format!("{clients} clients, {rate}/s, {seconds} s of every {} s", 20.0 * seconds),
                &of,
                0.005,
            );
            let (up, down) = (19.0 * length as f64, length as f64);
            let random = |seed: u64| Outages::Random { up, down, state: (0, true), dice: Dice::new(!seed) };
            let of = |rule: &Rule| through(rule, clients, rate, random, seeds);
            add(format!("{clients} clients, {rate}/s, at random, {seconds} s on average"), &of, 0.005);
        }
    }
    table
}
