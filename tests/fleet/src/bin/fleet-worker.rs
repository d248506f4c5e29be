//! One process of a fleet, in Rust: a steady load under a fleet-wide rate limit and breaker; at its end one line of JSON.
//!
//! `fleet-worker --redis 127.0.0.1:6379 --start <Unix ms> --seconds 10 --load 100 --rate 400 --burst 100 --lease 20
//! --breaker 1 [--store-timeout <ms>] [--failing <ms>]`: with `--failing` its calls fail for 300 ms, from that many
//! milliseconds after the start. Every language of `cargo xtask demo fleet` has a worker with these arguments that
//! prints such a line (`examples/fleet`).

use serde_json::json;
use std::collections::HashMap;
use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate::{Class, RecordType, Value, Verdict};
use tidegate_fleet_tests::Process;

/// How long a failing upstream fails, in microseconds.
const FAILING: u64 = 300_000;

/// The 99th percentile, in microseconds.
fn percentile(mut waits: Vec<Duration>) -> Option<u64> {
    waits.sort_unstable();
    waits.get(waits.len() * 99 / 100).map(|wait| wait.as_micros() as u64)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let given: HashMap<&str, &str> =
        args.chunks_exact(2).map(|pair| (pair[0].trim_start_matches("--"), pair[1].as_str())).collect();
    let number = |name: &str| -> u64 {
        let text = given.get(name).unwrap_or_else(|| panic!("--{name} is missing"));
        text.parse().unwrap_or_else(|_| panic!("--{name} {text}: must be a whole number"))
    };
    let real = |name: &str| Value::Number(number(name) as f64);
    let failing = given.get("failing").map(|_| number("failing") * 1_000);
    let mut pairs = vec![
        ("rate_limit.permits", real("rate")),
        ("rate_limit.per", Value::Number(1e6)),
        ("rate_limit.burst", real("burst")),
        ("rate_limit.lease", real("lease")),
        ("rate_limit.store", Value::Text("fleet")),
    ];
    if given.contains_key("store-timeout") {
        pairs.push(("store_timeout", Value::Number(number("store-timeout") as f64 * 1e3)));
    }
    if number("breaker") == 1 {
        pairs.extend([
            ("breaker.consecutive", Value::Number(5.0)),
            ("breaker.break_duration", Value::Number(1e6)),
            ("breaker.store", Value::Text("fleet")),
        ]);
    }
    let start = UNIX_EPOCH + Duration::from_millis(number("start"));
    let wait = start.duration_since(SystemTime::now()).expect("--start has passed");
    let zero = Instant::now() + wait;
    let redis = given.get("redis").expect("--redis is missing").parse().expect("an address");
    tokio::time::sleep(wait).await;
    // Each process needs its own name in the fleet, so the seed combines the process id and the start.
    let seed = u64::from(std::process::id()) << 32 | number("start") & 0xffff_ffff;
    let process = Process::new(seed, &pairs, redis, zero);
    let until = number("seconds") * 1_000_000;
    let class = |at: u64| match failing {
        Some(from) if (from..from + FAILING).contains(&at) => Class::Transient,
        _ => Class::Ok,
    };
    process.load(number("load") as u32, until, class).await;
    let line = process.seen(|seen| {
        let mut starts = vec![0_u64; (until / 50_000) as usize + 1];
        seen.starts
            .iter()
            .for_each(|at| starts[((at / 50_000) as usize).min((until / 50_000) as usize)] += 1);
        let told = |what| seen.told(what);
        let states: Vec<(u64, u64)> = seen
            .records
            .iter()
            .filter(|record| record.what == RecordType::BreakerChanged)
            .filter_map(|record| record.change.map(|(_, to)| (record.at.as_micros(), to as u64)))
            .collect();
        let waits = seen.waits_within(0, until);
        let (down, up) = (told(RecordType::StoreDegraded), told(RecordType::StoreRecovered));
        let alone: Vec<Duration> =
            down.iter().zip(&up).flat_map(|(from, to)| seen.waits_within(*from, *to)).collect();
        let ended = |verdict| seen.ends.get(&verdict).copied().unwrap_or(0);
        json!({
            "language": "rust", "begun": seen.begun, "starts": starts, "commands": seen.commands,
            "rate_limited": ended(Verdict::RateLimited), "breaker_open": ended(Verdict::BreakerOpen),
            "breaker": states, "degraded": down, "recovered": up, "ended": seen.ends.values().sum::<u64>(),
            "wait_p99_us": percentile(waits), "alone": alone.len(), "alone_wait_p99_us": percentile(alone),
            "wait_longest_us": seen.waits.iter().map(|wait| wait.1.as_micros() as u64).max(),
        })
    });
    println!("{line}");
}
