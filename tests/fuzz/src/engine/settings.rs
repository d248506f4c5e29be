//! Policies over the whole table of keys, from bytes: keys that rules across keys forbid are removed, and keys that
//! they require are added.

use tidegate::{Domain, Key, Policy, PolicyError, Pool, PoolKind, TABLE, Value};

use super::wide;
use crate::input::Input;

/// Borrowed values: texts are those of the table, or of the declared kinds.
pub(super) type Pairs = Vec<(&'static str, Value<'static>)>;

const KINDS: [&str; 2] = ["quota=throttled", "noise=ignored"];

/// Tables of keys, each with how many of 256 policies have it.
const COMPONENTS: [(&str, u8); 6] =
    [("retry", 190), ("rate_limit", 90), ("bulkhead", 140), ("breaker", 90), ("throttle", 70), ("hedge", 90)];

/// A valid policy of this name that names these `pools`.
pub fn policy(input: &mut Input<'_>, name: &str, pools: &[PoolKind], wide: bool) -> Policy {
    let mut pairs: Pairs = Vec::new();
    for (key, often) in [("deadline", 110), ("attempt_timeout", 130), ("slot_until", 20)] {
        if input.chance(often) {
            pairs.extend(value(input, find(key)));
        }
    }
    if input.chance(60) {
        pairs.extend(KINDS.map(|kind| ("kinds", Value::Text(kind))));
    }
    for (component, often) in COMPONENTS {
        let pool = PoolKind::ALL.into_iter().find(|kind| kind.name() == component && pools.contains(kind));
        if let Some(kind) = pool {
            pairs.push((pool_key(kind), Value::Text(kind.name())));
        }
        if pool.is_some() || input.chance(often) {
            keys(input, component, &mut pairs);
        }
    }
    if wide {
        wide::more(input, pools, &mut pairs);
    }
    if pools.contains(&PoolKind::Budget) {
        pairs.retain(|(path, _)| !path.starts_with("retry.budget."));
        pairs.push((pool_key(PoolKind::Budget), Value::Text(PoolKind::Budget.name())));
    }
    built(pairs, |pairs| Policy::from_pairs(name, pairs)).unwrap_or_else(|| {
        let mut plain: Pairs = pools.iter().map(|kind| (pool_key(*kind), Value::Text(kind.name()))).collect();
        if wide && pools.contains(&PoolKind::RateLimit) {
            plain.push(("rate_limit.unit", Value::Text("attempt")));
        }
        let plain = if plain.is_empty() { Policy::preset("http").to_vec() } else { plain };
        Policy::from_pairs(name, &plain).expect("a policy of pools, or a preset")
    })
}

/// A valid pool, named by its kind.
pub fn pool(input: &mut Input<'_>, kind: PoolKind, wide: bool) -> Pool {
    if let Some(pool) = wide.then(|| wide::pool(input, kind)).flatten() {
        return pool;
    }
    let table = if kind == PoolKind::Budget { "retry.budget" } else { kind.name() };
    let mut pairs: Pairs = Vec::new();
    keys(input, table, &mut pairs);
    let own = pairs
        .into_iter()
        .filter_map(|(path, value)| Some((path.strip_prefix(table)?.strip_prefix('.')?, value)));
    let own: Pairs = own.filter(|(path, _)| *path != "pool").collect();
    built(own, |pairs| Pool::from_pairs(kind.name(), kind, pairs)).unwrap_or_else(|| {
        let plain: &[(&str, Value<'_>)] = match kind {
            PoolKind::Bulkhead => {
                &[("max_concurrency", Value::Number(1.0)), ("max_queue", Value::Number(2.0))]
            }
            PoolKind::RateLimit => &[("permits", Value::Number(2.0)), ("per", Value::Number(1e5))],
            PoolKind::Budget => &[("kind", Value::Text("share"))],
            PoolKind::Targets => &[("pick", Value::Text("ladder")), ("member", Value::Text("a"))],
        };
        Pool::from_pairs(kind.name(), kind, plain).expect("a plain pool")
    })
}

fn pool_key(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Bulkhead => "bulkhead.pool",
        PoolKind::RateLimit => "rate_limit.pool",
        PoolKind::Budget => "retry.budget.pool",
        PoolKind::Targets => "targets",
    }
}

pub(super) fn find(path: &str) -> &'static Key {
    TABLE.iter().find(|key| key.path == path).expect("a key of the table")
}

/// Some of a table's keys with values. Keys that need a store are left out, because this engine has none (the target
/// `fleet` has one).
pub(super) fn keys(input: &mut Input<'_>, table: &str, pairs: &mut Pairs) {
    let below = |key: &&Key| key.path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
    let here = |key: &&Key| !matches!(key.domain, Domain::Name) && !key.path.ends_with("store");
    for key in TABLE.iter().filter(below).filter(here) {
        if input.chance(80) {
            pairs.extend(value(input, key));
        }
    }
}

/// A value that the key accepts: most often a small one, or a bound.
pub(super) fn value(input: &mut Input<'_>, key: &'static Key) -> Option<(&'static str, Value<'static>)> {
    let or_none = |input: &mut Input<'_>, none: bool, number: f64| {
        if none && input.chance(40) { Value::Text("none") } else { Value::Number(number) }
    };
    let value = match key.domain {
        Domain::Span { min, max, none } => {
            let spans =
                [1_000, 50_000, 0, 1, 10_000, 100_000, 100_000, 1_000_000, 1_000_000, 3_000_000, 70_000_000];
            let span = if input.chance(6) { input.micros() } else { input.of(&spans) };
            or_none(input, none, span.clamp(min.as_micros(), max.as_micros()) as f64)
        }
        Domain::Count { min, max, none } => {
            let count =
                if input.chance(6) { input.count() } else { input.of(&[1, 1, 2, 2, 3, 3, 0, 4, 5, 12]) };
            or_none(input, none, f64::from(count.clamp(min, max)))
        }
        Domain::Real { min, max, none } => {
            let real: f64 = input.of(&[0.5, 0.0, 0.1, 0.2, 0.9, 1.0, 1.0, 1.5, 2.0, 3.0, 4.0, 1e9]);
            or_none(input, none, real.clamp(min, max))
        }
        Domain::Flag => Value::Number(input.of(&[1.0, 1.0, 0.0])),
        Domain::Choice(words) | Domain::Words(words) => Value::Text(input.of(words)),
        Domain::KindWords(words) if input.chance(190) => Value::Text(input.of(words)),
        Domain::KindWords(_) => Value::Text("quota"),
        Domain::Statuses | Domain::Kinds | Domain::Limits | Domain::Shares | Domain::Name => return None,
    };
    Some((key.path, value))
}

/// Builds the pairs after making them follow the rules across keys.
fn built<T>(
    mut pairs: Pairs,
    build: impl Fn(&[(&str, Value<'_>)]) -> Result<T, Vec<PolicyError>>,
) -> Option<T> {
    for _ in 0..12 {
        let errors = match build(&pairs) {
            Ok(whole) => return Some(whole),
            Err(errors) => errors,
        };
        for error in errors {
            if error.value == "(absent)" {
                // A pool's keys are written without their table.
                let known = |key: &&Key| {
                    key.path == error.key || key.path.ends_with(&format!("bulkhead.{}", error.key))
                };
                if let Some(key) = TABLE.iter().find(known) {
                    let path = if key.path == error.key {
                        key.path
                    } else {
                        key.path.trim_start_matches("bulkhead.")
                    };
                    pairs.extend(needed(key).map(|value| (path, value)));
                    continue;
                }
            }
            pairs.retain(|(path, _)| *path != error.key && !path.starts_with(&format!("{}.", error.key)));
        }
    }
    None
}

/// A plain value for a key that another key requires.
fn needed(key: &'static Key) -> Option<Value<'static>> {
    Some(match key.domain {
        Domain::Span { min, max, .. } => {
            Value::Number(100_000_u64.clamp(min.as_micros(), max.as_micros()) as f64)
        }
        Domain::Count { min, max, .. } => Value::Number(f64::from(2.clamp(min, max))),
        Domain::Real { min, max, .. } => Value::Number(0.5_f64.clamp(min, max)),
        Domain::Flag => Value::Number(1.0),
        Domain::Choice(words) => Value::Text(words[0]),
        _ => return None,
    })
}
