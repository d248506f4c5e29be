//! Promise 5: with a healthy downstream a policy does no harm.

use crate::rules;
use crate::server::{Outages, Server};
use crate::table::{Figure, Table};
use crate::world::{Load, Rule, World};
use tidegate::Value::{Number, Text};

/// Presets, and components beside the preset `http` whose limits exceed the load.
fn guarded() -> Vec<Rule> {
    let mut all: Vec<_> = rules::PRESETS.iter().map(|name| rules::preset(name)).collect();
    let http = || rules::preset("http");
    let named = |rule: Rule, name: &str| Rule { name: name.to_owned(), ..rule };
    let bulkhead = [("bulkhead.max_concurrency", Number(200.0)), ("bulkhead.max_queue", Number(100.0))];
    let breaker = [
        ("breaker.failure_ratio", Number(0.5)),
        ("breaker.window", Number(10e6)),
        ("breaker.min_throughput", Number(10.0)),
        ("breaker.break_duration", Number(5e6)),
    ];
    let rate = [("rate_limit.permits", Number(2_000.0)), ("rate_limit.per", Number(1e6))];
    let aimd = [
        ("bulkhead.kind", Text("aimd")),
        ("bulkhead.max_concurrency", Number(200.0)),
        ("bulkhead.min_concurrency", Number(100.0)),
        ("bulkhead.latency_threshold", Number(1e6)),
    ];
    all.push(named(http().with(&bulkhead), "http, bulkhead"));
    all.push(named(http().with(&breaker), "http, breaker"));
    all.push(named(http().with(&rate), "http, rate limit"));
    all.push(named(http().with(&[("throttle.k", Number(2.0))]), "http, throttle"));
    all.push(named(http().with(&aimd), "http, aimd"));
    all
}

/// Makes `calls` calls in all. Expects 0 refusals, 0 extra attempts, and a p99 latency within 1 % of that without a
/// policy.
pub fn harm(calls: u64) -> Table {
    let rules = guarded();
    let each = calls / rules.len() as u64;
    let title = format!(
        "No harm: a healthy service at 1,000 calls/s, latency exponential with mean 20 ms, {each} calls each"
    );
    let mut table = Table::new(&title, &["policy", "not ok", "extra attempts", "p99 / p99 without a policy"]);
    let p99 = |rule: &Rule, seed: u64| {
        let server = Server::Failing { probability: 0.0, outages: Outages::Never, latency: 20_000.0 };
        let mut world = World::new(rule, 4, server, seed);
        world.latencies = Some(Vec::with_capacity(each as usize));
        let seconds = each.div_ceil(1_000);
        world.run(&Load::steady(1_000.0, seconds));
        let (begun, succeeded, attempts) = world.totals(0, seconds + 1);
        let mut latencies = world.latencies.take().unwrap_or_default();
        latencies.sort_unstable();
        let p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or(0);
        (begun - succeeded, attempts - begun, f64::from(p99))
    };
    let (_, _, bare) = p99(&rules::no_retry(), 1);
    for rule in rules {
        let (bad, extra, with) = p99(&rule, 1);
        let ratio = Figure::about(with / bare, 1.0, 0.01);
        table.row(
            rule.name,
            vec![Figure::at_most(bad as f64, 0.0), Figure::at_most(extra as f64, 0.0), ratio],
        );
    }
    table
}
