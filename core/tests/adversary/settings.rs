//! What bytes say of policies and pools: small limits and budgets, so that few events spend them.

use tidegate::Value::{self, Number, Text};
use tidegate::{Policy, Pool, PoolKind};

use super::genome::{HEAD, SETTINGS, VARIANTS};

pub type Pairs = Vec<(String, Value<'static>)>;

/// One of the values that a byte stands for.
pub fn of<T: Copy>(byte: u8, values: &[T]) -> T {
    values[usize::from(byte) % values.len()]
}

/// What of a scenario never changes: which policies use which pool.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub budget_pool: bool,
    pub rate_pool: bool,
    /// An engine with a store; some limits are the fleet's.
    pub store: bool,
    /// `on_loss` of them all.
    pub on_loss: &'static str,
}

/// The kinds of budgets.
pub const KINDS: [&str; 7] = ["tokens", "window", "ratio", "quota", "share", "none", "earned"];

/// A budget by two bytes, with keys that begin as given.
fn budget(prefix: &str, (kind, size): (u8, u8)) -> Pairs {
    let kind = of(kind, &KINDS);
    let mut pairs: Pairs = vec![(format!("{prefix}kind"), Text(kind))];
    let mut put = |key: &str, value: f64| pairs.push((format!("{prefix}{key}"), Number(value)));
    match kind {
        "tokens" => {
            put("max", of(size, &[4.0, 2.0, 10.0, 1.0, 100.0, 3.0]));
            put("ratio", of(size >> 4, &[0.1, 0.5, 1.0, 0.01]));
        }
        "window" => {
            put("ttl", of(size, &[1e6, 10e6, 100e3, 10.0]));
            put("min_retries_per_sec", of(size >> 2, &[1.0, 0.0, 10.0, 0.5]));
            put("percent_can_retry", of(size >> 4, &[0.2, 0.0, 1.0, 0.5]));
            if size >> 6 == 3 {
                pairs.push((format!("{prefix}rounding"), Text("ceil")));
            }
        }
        "ratio" => {
            put("ratio", of(size, &[0.1, 0.5, 1.0, 0.01]));
            put("min_throughput", of(size >> 3, &[0.0, 1.0, 2.0, 10.0]));
        }
        "earned" => {
            put("ratio", of(size, &[0.18, 0.5, 1.0, 0.01]));
            put("start", of(size >> 3, &[2.0, 0.0, 1.0, 4.0]));
        }
        "quota" => {
            put("capacity", of(size, &[20.0, 5.0, 50.0, 1.0, 500.0]));
            put("cost", of(size >> 3, &[5.0, 1.0, 14.0]));
            put("timeout_cost", of(size >> 5, &[10.0, 1.0, 5.0]));
        }
        "share" => put("min_retries", of(size, &[1.0, 0.0, 3.0])),
        _ => {}
    }
    pairs
}

fn rate(prefix: &str, byte: u8) -> Pairs {
    let mut pairs: Pairs = vec![
        (format!("{prefix}permits"), Number(of(byte, &[1.0, 2.0, 5.0, 3.0]))),
        (format!("{prefix}per"), Number(of(byte >> 2, &[1e6, 3_600e6, 100e3, 7.0]))),
    ];
    if byte >> 4 & 3 != 0 {
        pairs.push((format!("{prefix}burst"), Number(of(byte >> 4, &[1.0, 1.0, 2.0, 10.0]))));
    }
    pairs
}

/// The pairs of one variant of one policy.
pub fn policy(genome: &[u8], number: usize, variant: usize, shape: Shape) -> Pairs {
    let at = HEAD + (number * VARIANTS + variant) * SETTINGS;
    let it = &genome[at..at + SETTINGS];
    let first = &genome[HEAD + number * VARIANTS * SETTINGS..][..SETTINGS];
    let mut pairs: Pairs = Vec::new();
    let mut put = |key: &str, value: Value<'static>| pairs.push((key.into(), value));
    put("attempt_timeout", Number(of(it[9], &[1e6, 50e3, 10e6])));
    let most = of(it[2], &[3.0, 2.0, 5.0, 1.0, 10.0, 3.0]);
    put("retry.max_attempts", Number(most));
    put("retry.backoff.base", Number(of(it[3], &[0.0, 0.0, 1e3, 100e3])));
    if it[3] >> 4 == 1 {
        put("retry.hold", Number(1.0));
    }
    if it[3] >> 4 == 2 {
        put("retry.send_rate", Text("cubic"));
    }
    if it[10] % 4 == 1 {
        put("deadline", Number(of(it[10] >> 2, &[200e3, 5e6, 50e3])));
    }
    let hedge = of(it[4], &["", "", "shared", "own", "", "shared", "none"]);
    if !hedge.is_empty() {
        put("hedge.delay", Number(of(it[5], &[0.0, 50e3, 1e3])));
        put("hedge.max_attempts", Number(of(it[5] >> 2, &[2.0, 3.0, 4.0])));
        if hedge != "own" {
            put("hedge.budget.kind", Text(hedge));
        }
    }
    let limit = of(it[6], &[0.0, 0.0, 1.0, 2.0]);
    if limit > 0.0 {
        put("bulkhead.max_concurrency", Number(limit));
        put("bulkhead.max_queue", Number(of(it[6] >> 2, &[0.0, 2.0, 1.0])));
        put("bulkhead.unit", Text(of(it[6] >> 4, &["call", "attempt"])));
        if shape.store && it[6] >> 5 & 1 == 1 {
            put("bulkhead.store", Text("fleet"));
            put("bulkhead.on_loss", Text(shape.on_loss));
        }
    }
    // Does it have a rate limit? Where that is a pool, in all its settings or in none.
    let paced = if shape.rate_pool { first[7] % 2 == 1 } else { it[7] % 2 == 1 };
    if paced {
        put("rate_limit.unit", Text(of(it[7] >> 1, &["call", "attempt"])));
        if it[7] >> 2 & 3 == 3 {
            put("rate_limit.wait", Number(1.0));
            put("rate_limit.max_wait", Number(1e6));
        }
    }
    match it[8] % 5 {
        3 => {
            put("breaker.consecutive", Number(of(it[8] >> 3, &[1.0, 3.0])));
            put("breaker.break_duration", Number(of(it[8] >> 4, &[100e3, 1e3, 5e6])));
            put("breaker.unit", Text(of(it[8] >> 6, &["call", "attempt"])));
            if shape.store && it[8] >> 5 & 1 == 1 {
                put("breaker.store", Text("fleet"));
                put("breaker.on_loss", Text(shape.on_loss));
            }
        }
        4 => {
            put("throttle.window", Number(1e6));
            put("throttle.min_throughput", Number(2.0));
        }
        _ => {}
    }
    if shape.budget_pool {
        pairs.push(("retry.budget.pool".into(), Text("budget")));
    } else {
        pairs.extend(budget("retry.budget.", (it[0], it[1])));
    }
    if hedge == "own" {
        pairs.extend(budget("hedge.budget.", (it[11], it[5] >> 4)));
    }
    if paced && shape.rate_pool {
        pairs.push(("rate_limit.pool".into(), Text("rate")));
    } else if paced {
        pairs.extend(rate("rate_limit.", it[7] >> 4 | it[11] << 4));
        if shape.store {
            let mut put = |key: &str, value: Value<'static>| pairs.push((format!("rate_limit.{key}"), value));
            put("store", Text("fleet"));
            put("on_loss", Text(shape.on_loss));
            if it[11] >> 4 & 1 == 1 {
                put("lease", Number(1.0));
            }
        }
    }
    pairs
}

/// The pools' settings, by variant: three bytes of the head each.
pub fn pool(genome: &[u8], kind: PoolKind, variant: usize) -> Pool {
    let it = &genome[4 + variant * 3..];
    let (name, pairs) = match kind {
        PoolKind::RateLimit => ("rate", rate("", it[2])),
        _ => ("budget", budget("", (if it[0] % 6 == 5 { 6 } else { it[0] % 5 }, it[1]))), // a pool has a kind
    };
    Pool::from_pairs(name, kind, &borrowed(&pairs)).unwrap_or_else(|why| panic!("{pairs:?}: {why:?}"))
}

pub fn build(name: &str, pairs: &Pairs) -> Policy {
    Policy::from_pairs(name, &borrowed(pairs)).unwrap_or_else(|why| panic!("{pairs:?}: {why:?}"))
}

fn borrowed(pairs: &Pairs) -> Vec<(&str, Value<'static>)> {
    pairs.iter().map(|(key, value)| (key.as_str(), *value)).collect()
}

/// The number of a key, where it has one.
pub fn number(pairs: &Pairs, key: &str) -> Option<f64> {
    pairs.iter().find_map(|(path, value)| match value {
        Number(n) if path == key => Some(*n),
        _ => None,
    })
}

pub fn word(pairs: &Pairs, key: &str) -> Option<&'static str> {
    pairs.iter().find_map(|(path, value)| match value {
        Text(text) if path == key => Some(*text),
        _ => None,
    })
}
