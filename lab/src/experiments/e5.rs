//! E3, E5 and E10: backoff is not a budget, the simple collapse (Brooker, 2022), and a database with little room to spare
//! (Bronson and others, 2021).

use super::e1::failing;
use super::e6::{CAPACITY, jittered};
use crate::recovery::{DEAD, TIMEOUT};
use crate::rules;
use crate::server::{Order, Queue, Server};
use crate::table::{Expected, Figure, Table};
use crate::world::{Load, Rule, SECOND, World};
use tidegate::Value::Number;

/// E3: attempts per call of 100 clients in an open loop, at a server that fails half of its attempts. Backoff changes
/// nothing; a budget does.
pub fn e3(seeds: u64) -> Table {
    let mut table = Table::new(
        "E3 Backoff is not a budget: 100 clients × 10 calls/s, 10 s, p = 0.5; ours (published ± tolerance)",
        &["policy", "attempts/call"],
    );
    let plain = rules::attempts(4);
    let backoff =
        plain.clone().with(&[("retry.backoff.base", Number(1e5)), ("retry.backoff.max", Number(1e5))]);
    let backoff = Rule { name: "4 attempts, 100 ms backoff".into(), ..backoff };
    let rows = [
        (plain, Expected::About(1.858, 0.03)),
        (backoff, Expected::About(1.878, 0.03)),
        (rules::preset("http"), Expected::AtMost(1.18)),
    ];
    for (rule, expected) in rows {
        let (_, ours) = failing(&rule, 100, 1_000.0, 10, 0.5, seeds);
        table.row(rule.name, vec![Figure { ours, expected: Some(expected) }]);
    }
    table
}

/// 40 calls a second, and 80 for 5 s.
fn spike() -> Load {
    Load::pulse(40.0, 40.0, (20, 25), 80)
}

/// From 40 calls a second up to 80 in 40 s, and down to none in 40 s more.
fn ramp() -> Load {
    let rate = |second: u64| {
        let second = second as f64 + 0.5;
        if second < 40.0 { 40.0 + second } else { 160.0 - 2.0 * second }
    };
    Load((0..80).map(|second| ((second + 1) * SECOND, rate(second))).collect())
}

/// E5: the server of E6 after a spike, and under a ramp. Shares of the calls that succeed, as means over seeds.
pub fn e5(seeds: u64) -> Table {
    let mut table = Table::new(
        "E5 Simple collapse: successes per call after a spike and at the end of a ramp; ours (published ± tolerance)",
        &["policy", "spike: 60 s to 79 s", "ramp: 60 s to 79 s"],
    );
    // A run is dead or it is not. Of the published runs (mean 0.39) more were dead than here, where a quarter is.
    let rows = [
        (rules::attempts(3), Expected::AtMost(0.9), Expected::AtMost(0.0)),
        (jittered(), Expected::About(0.998, 0.01), Expected::AtMost(0.0)),
        (rules::preset("http"), Expected::AtLeast(0.998), Expected::AtLeast(DEAD)),
    ];
    for (rule, after_spike, after_ramp) in rows {
        let rule = rules::timed(rule, TIMEOUT);
        let figures = [(spike(), after_spike), (ramp(), after_ramp)].map(|(load, expected)| {
            let mut sum = 0.0;
            for seed in 1..=seeds {
                let mut world = World::new(&rule, 1, Server::crowd(CAPACITY, TIMEOUT * SECOND as f64), seed);
                world.run(&load);
                sum += world.goodput(60, 79);
            }
            Figure { ours: sum / seeds as f64, expected: Some(expected) }
        });
        table.row(rule.name, figures.to_vec());
    }
    table
}

/// E10: a database that serves 300 attempts a second works at a tenth of its speed for 10 s. The share of runs that are
/// dead five minutes later. Little is to spare at 280, so a queue of five seconds takes minutes to drain.
pub fn e10(seeds: u64) -> Table {
    const LOADS: [f64; 3] = [100.0, 200.0, 280.0];
    let mut table = Table::new(
        "E10 A database for 300/s, 10 s of trouble: share of runs dead five minutes later; ours (published ± tolerance)",
        &["policy", "λ = 100", "200", "280"],
    );
    let budget = rules::ratio(2).with(&[("retry.budget.ratio", Number(0.05))]);
    let budget = Rule { name: "2 attempts, ratio 0.05".into(), ..budget };
    let rows = [
        (rules::no_retry(), [0.0, 0.0, 0.0]),
        (rules::attempts(2), [0.0, 1.0, 1.0]),
        (budget, [0.0, 0.0, 0.0]),
        (rules::preset("http"), [0.0, 0.0, 0.0]),
    ];
    for (rule, published) in rows {
        let rule = rules::timed(rule, TIMEOUT);
        let mut figures = Vec::new();
        for (load, published) in LOADS.into_iter().zip(published) {
            let dead = (1..=seeds).filter(|seed| {
                let mut queue = Queue::new(SECOND as f64 / 300.0, 1_500, Order::Fifo);
                queue.slow = (20 * SECOND, 30 * SECOND, 0.1);
                let mut world = World::new(&rule, 1, Server::Queue(queue), *seed);
                world.run(&Load::steady(load, 430));
                world.goodput(330, 430) < DEAD
            });
            figures.push(Figure::about(dead.count() as f64 / seeds as f64, published, 0.0));
        }
        table.row(rule.name, figures);
    }
    table
}
