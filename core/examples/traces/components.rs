//! Policies with every component, for random traces.

use serde_json::{Value as Json, json};

use crate::{Dice, SPANS};

/// Paths that are alike in some of their segments.
pub const PATHS: [&str; 8] =
    ["/", "/a/b/c/d/e", "/a/b/c/d/e", "/a/b/c/d/e", "/a/b/c/d/f", "/a/b/c/x", "/a/b/y?q=1", "//a//z#f"];

/// Pools, in some traces.
pub fn pools(dice: &mut Dice) -> Vec<Json> {
    let mut pools = Vec::new();
    for kind in ["bulkhead", "rate_limit", "budget"] {
        if dice.chance(12) {
            let mut pairs = Vec::new();
            match kind {
                "bulkhead" => queue(dice, "", &mut |key, value| pairs.push(json!([key, value]))),
                "rate_limit" => rate(dice, "", &mut |key, value| pairs.push(json!([key, value]))),
                _ => {
                    pairs.push(json!(["kind", dice.of(&["share", "window", "earned"])]));
                    pairs.push(json!(["ttl", dice.of(&[100_000, 1_000_000])]));
                }
            }
            pools.push(json!({ "name": kind, "kind": kind, "pairs": pairs }));
        }
    }
    pools
}

/// Timeouts of streams.
pub fn stream(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
    if dice.chance(60) {
        put("first_byte_timeout", json!(dice.of(&[1, 10_000, 50_000, 100_000])));
    }
    if dice.chance(70) {
        put("idle_timeout", json!(dice.of(&[1, 10_000, 50_000, 100_000, 1_000_000])));
    }
    if dice.chance(40) {
        put("deadline_until", json!(dice.of(&["body", "delivery"])));
    }
}

/// A group of targets: few permits and tokens, and breaks that are short.
pub fn targets(dice: &mut Dice) -> Json {
    let mut pairs = vec![json!(["pick", dice.of(&["ladder", "balanced"])])];
    let mut put = |key: &str, value: Json| pairs.push(json!([key, value]));
    if dice.chance(50) {
        breaker(dice, &mut put);
    }
    if dice.chance(65) {
        put("max_queue", json!(dice.of(&[1, 2, 5, 100])));
        if dice.chance(75) {
            put("max_wait", json!(dice.of(&[1, 50_000, 100_000, 1_000_000, 70_000_000])));
        }
    }
    for name in ["a", "b", "c", "d"].into_iter().take(dice.of(&[1, 2, 2, 3, 4])) {
        put("member", json!(name));
        if name != "a" && dice.chance(25) {
            put("only_after", json!(dice.of(&["throttled", "transient", "permanent", "permanent", "mine"])));
        }
        if dice.chance(30) {
            put("share", json!(dice.of(&[1, 2, 10])));
        }
        if dice.chance(25) {
            put("attempt_timeout", json!(dice.of(&[1, 10_000, 100_000, 3_000_000])));
        }
        if dice.chance(40) {
            rate(dice, "rate_limit.", &mut put);
        }
        if dice.chance(40) {
            put("bulkhead.max_concurrency", json!(dice.of(&[1, 1, 2, 5])));
        }
        if dice.chance(50) {
            put("cooldown.base", json!(dice.of(&[1, 1_000, 50_000, 100_000])));
            if dice.chance(70) {
                put("cooldown.max", json!(dice.of(&[100_000, 400_000, 3_000_000])));
                put("cooldown.quota_wait", json!(dice.of(&[1, 200_000, 5_000_000])));
            }
        }
        if dice.chance(20) {
            put("bulkhead.kind", json!("gradient2"));
            put("bulkhead.max_concurrency", json!(dice.of(&[1, 2, 5])));
        }
    }
    // Of a key that was drawn twice for one target, the first stays; targets have no unit.
    let mut seen = Vec::new();
    pairs.retain(|pair| {
        let key = pair[0].as_str().expect("a key").to_owned();
        if key == "member" {
            seen.clear();
        }
        let is_new = !seen.contains(&key);
        seen.push(key.clone());
        is_new && key != "breaker.unit"
    });
    json!({ "name": "targets", "kind": "targets", "pairs": pairs })
}

/// A policy with any of the components.
pub fn policy(dice: &mut Dice, name: &str, pools: &[Json], sets: bool) -> Json {
    let pooled = |kind: &str| pools.iter().any(|pool| pool["kind"] == kind);
    let mut pairs: Vec<Json> = Vec::new();
    let mut put = |key: &str, value: Json| pairs.push(json!([key, value]));
    if dice.chance(8) {
        return holding(dice, name);
    }
    if sets && pooled("rate_limit") && dice.chance(65) {
        return crowding(dice, name);
    }
    let deadline = dice.chance(50);
    if deadline {
        put("deadline", json!(dice.of(&[1, 50_000, 200_000, 1_000_000, 2_500_000, 30_000_000])));
    }
    let reads = dice.chance(20);
    if reads {
        put("retry.read_errors", json!(1));
    }
    let cools = dice.chance(25);
    if cools {
        cooldown(dice, deadline, &mut put);
    }
    if dice.chance(55) {
        put("attempt_timeout", json!(dice.of(&[1, 10_000, 50_000, 100_000, 1_000_000])));
    }
    if dice.chance(40) {
        stream(dice, &mut put);
    }
    for _ in 0..dice.of(&[0, 0, 1, 2]) {
        put(
            "kinds",
            json!(dice.of(&["quota=throttled", "flaky=transient", "mine=permanent", "noise=ignored"])),
        );
    }
    if dice.chance(75) {
        retry(dice, !cools, &mut put);
        if pooled("budget") && dice.chance(70) {
            put("retry.budget.pool", json!("budget"));
        } else {
            put(
                "retry.budget.kind",
                json!(dice.of(&["earned", "earned", "window", "share", "share", "tokens", "quota", "none"])),
            );
            put("retry.budget.max", json!(dice.of(&[2, 4])));
            put("retry.budget.ratio", json!(0.5));
            put("retry.budget.min_retries", json!(dice.of(&[0, 1, 3])));
            put("retry.budget.capacity", json!(dice.of(&[5, 20])));
        }
    }
    if dice.chance(if sets { 90 } else { 40 }) {
        rate_limit(dice, pools, sets, deadline, &mut put);
    }
    if dice.chance(55) {
        if pooled("bulkhead") && dice.chance(70) {
            put("bulkhead.pool", json!("bulkhead"));
        } else {
            queue(dice, "bulkhead.", &mut put);
        }
        put("bulkhead.unit", json!(dice.of(&["call", "attempt"])));
        let spans = [0, 1, 50_000, 100_000, 1_000_000, 70_000_000];
        put("bulkhead.acquire_timeout", if dice.chance(15) { json!("none") } else { json!(dice.of(&spans)) });
    }
    let targets = pooled("targets") && dice.chance(80);
    match dice.below(10) {
        _ if targets => {
            put("targets", json!("targets"));
            if dice.chance(60) {
                put("retry.failover_on", json!(if reads { "quota_spent" } else { "permanent" }));
            }
            if dice.chance(20) {
                put("retry.failover_on", json!("ignored"));
            }
        }
        0..4 => breaker(dice, &mut put),
        4..6 => throttle(dice, &mut put),
        _ => {}
    }
    if dice.chance(45) {
        hedge(dice, &mut put);
    }
    if targets {
        // The choice of a target is the last stage, and a throttled target is left to another one (17.1.6).
        pairs.retain(|pair| {
            !["retry.hold", "retry.max_held", "retry.send_rate"].iter().any(|key| pair[0] == *key)
        });
    }
    json!({ "name": name, "pairs": pairs })
}

/// A rate limit: a single rate, a set, or a pool.
fn rate_limit(dice: &mut Dice, pools: &[Json], sets: bool, deadline: bool, put: &mut impl FnMut(&str, Json)) {
    let pooled = |kind: &str| pools.iter().any(|pool| pool["kind"] == kind);
    let (mut weighted, mut own_set) = (false, false);
    let of_set = sets && pooled("rate_limit");
    if pooled("rate_limit") && dice.chance(if of_set { 90 } else { 70 }) {
        put("rate_limit.pool", json!("rate_limit"));
        weighted = json!(pools).to_string().contains(" weight=");
    } else if sets {
        weighted = limits(dice, "rate_limit.", put);
        own_set = true;
    } else {
        rate(dice, "rate_limit.", put);
    }
    if dice.chance(65) {
        put("rate_limit.wait", json!(1));
        if !deadline || dice.chance(50) {
            put("rate_limit.max_wait", json!(dice.of(&SPANS)));
        }
        put("rate_limit.max_waiters", json!(dice.of(&[1, 2, 5])));
        if own_set && dice.chance(40) {
            put("rate_limit.prioritized", json!(1));
        }
    }
    let unit = dice.of(&["call", "attempt"]);
    put("rate_limit.unit", json!(if weighted { "attempt" } else { unit }));
}

/// One whose calls are throttled and hold each other.
fn holding(dice: &mut Dice, name: &str) -> Json {
    let mut pairs = vec![
        json!(["retry.hold", 1]),
        json!(["retry.max_held", dice.of(&[1, 2, 200])]),
        json!(["retry.max_attempts", dice.of(&[3, 12])]),
        json!(["retry.backoff.base", dice.of(&[1_000, 100_000])]),
        json!(["retry.budget.kind", "none"]),
        json!(["retry.retry_after", dice.of(&["floor", "exact"])]),
    ];
    if dice.chance(40) {
        pairs.push(json!(["deadline", dice.of(&[200_000, 2_500_000])]));
    }
    if dice.chance(30) {
        pairs.push(json!(["bulkhead.max_concurrency", 1]));
        pairs.push(json!(["bulkhead.max_queue", 3]));
    }
    json!({ "name": name, "pairs": pairs })
}

/// One whose calls wait for the tokens of a pool.
fn crowding(dice: &mut Dice, name: &str) -> Json {
    let mut pairs = vec![
        json!(["rate_limit.pool", "rate_limit"]),
        json!(["rate_limit.unit", "attempt"]),
        json!(["rate_limit.wait", 1]),
        json!(["rate_limit.max_wait", dice.of(&[200_000, 3_000_000, 70_000_000])]),
        json!(["rate_limit.max_waiters", dice.of(&[3, 6, 30])]),
    ];
    if dice.chance(30) {
        pairs.push(json!(["deadline", dice.of(&[200_000, 2_500_000])]));
    }
    if dice.chance(50) {
        pairs.push(json!(["retry.max_attempts", 3]));
        pairs.push(json!(["retry.backoff.base", dice.of(&[0, 1_000, 100_000])]));
        pairs.push(json!(["retry.budget.kind", "none"]));
    }
    if dice.chance(20) {
        pairs.push(json!(["bulkhead.max_concurrency", 2]));
        pairs.push(json!(["bulkhead.max_queue", 3]));
    }
    json!({ "name": name, "pairs": pairs })
}

fn cooldown(dice: &mut Dice, deadline: bool, put: &mut impl FnMut(&str, Json)) {
    put("cooldown.base", json!(dice.of(&[1, 1_000, 50_000, 100_000])));
    put("cooldown.max", json!(dice.of(&[100_000, 400_000, 3_000_000])));
    if dice.chance(50) {
        put("cooldown.quota_wait", json!(dice.of(&[1, 200_000, 5_000_000])));
    }
    if dice.chance(75) {
        put("cooldown.wait", json!(1));
        if !deadline || dice.chance(50) {
            put("cooldown.max_wait", json!(dice.of(&SPANS)));
        }
        put("cooldown.max_waiters", json!(dice.of(&[1, 2, 200])));
    }
}

fn retry(dice: &mut Dice, holds: bool, put: &mut impl FnMut(&str, Json)) {
    put("retry.max_attempts", json!(dice.of(&[1, 2, 3, 3, 4, 6, 12])));
    put("retry.backoff.base", json!(dice.of(&[0, 0, 1, 1_000, 50_000])));
    put("retry.backoff.jitter", json!(dice.of(&["none", "none", "full", "full_floor"])));
    put("retry.retry_after", json!(dice.of(&["floor", "exact"])));
    put("retry.max_retry_after", json!(dice.of(&[100_000, 3_000_000])));
    if dice.chance(40) && holds {
        put("retry.hold", json!(1));
        put("retry.max_held", json!(dice.of(&[1, 2, 200])));
    }
    if dice.chance(25) {
        put("retry.send_rate", json!("cubic"));
    }
}

fn rate(dice: &mut Dice, table: &str, put: &mut impl FnMut(&str, Json)) {
    put(&format!("{table}permits"), json!(dice.of(&[1, 1, 2, 3, 7])));
    put(&format!("{table}per"), json!(dice.of(&[1, 3, 1_000, 50_000, 100_000, 1_000_000])));
    if dice.chance(60) {
        put(&format!("{table}burst"), json!(dice.of(&[1, 2, 3, 10])));
    }
}

/// A set of limits; whether one has a weight.
fn limits(dice: &mut Dice, table: &str, put: &mut impl FnMut(&str, Json)) -> bool {
    let mut put = |key: &str, value: Json| put(&format!("{table}{key}"), value);
    let mut weighted = false;
    for name in ["a", "b", "c"].into_iter().take(dice.of(&[1, 2, 2, 3])) {
        let (permits, per) = (dice.of(&[1, 2, 3, 7]), dice.of(&["1us", "3us", "1ms", "50ms", "100ms", "1s"]));
        let mut text = format!("{name}: permits={permits} per={per}");
        if dice.chance(30) {
            text += dice.of(&[
                " refill=window",
                " refill=window",
                " refill=window anchor=700us",
                " refill=window anchor=1us",
            ]);
        } else {
            text += " burst=";
            text += dice.of(&["1", "3", "10", "20"]);
        }
        if dice.chance(65) {
            weighted = true;
            text += dice.of(&[" weight=tokens", " weight=tokens", " weight=out"]);
            if dice.chance(60) {
                text += dice.of(&[" default=0", " default=1"]);
            }
            if dice.chance(50) {
                text += dice.of(&[" max_debt=none", " max_debt=1", " max_debt=5", " max_debt=100"]);
            }
        }
        put("limits", json!(text));
    }
    if dice.chance(40) {
        put("settle_unknown", json!(dice.of(&["reservation", "zero"])));
    }
    if dice.chance(50) {
        put("learn", json!("down"));
    }
    if weighted && dice.chance(40) {
        put("estimate_quantile", json!(dice.of(&[0.5, 0.9, 0.95])));
    }
    weighted
}

/// A pool of a set whose queue is mostly not in the order of arrival.
pub fn set_pool(dice: &mut Dice) -> Json {
    let mut pairs = Vec::new();
    let mut put = |key: &str, value: Json| pairs.push(json!([key, value]));
    if dice.chance(40) {
        limits(dice, "", &mut put);
    } else {
        let text = "slow: permits=20 per=1s weight=tokens default=1 burst=";
        put("limits", json!(format!("{text}{}", dice.of(&[3, 20, 40]))));
        if dice.chance(30) {
            put("limits", json!("calls: permits=3 per=100ms"));
        }
    }
    if dice.chance(50) {
        put("prioritized", json!(1));
    }
    if dice.chance(75) {
        put("fair_by", json!("key"));
        for key in ["r", "s", "a=b"] {
            if dice.chance(25) {
                put("shares", json!(format!("{key}={}", dice.of(&[1, 2, 7, 1_000]))));
            }
        }
    }
    json!({ "name": "rate_limit", "kind": "rate_limit", "pairs": pairs })
}

fn queue(dice: &mut Dice, table: &str, put: &mut impl FnMut(&str, Json)) {
    let mut put = |key: &str, value: Json| put(&format!("{table}{key}"), value);
    let kind = dice.of(&["fixed", "fixed", "aimd", "gradient2"]);
    put("kind", json!(kind));
    put("max_concurrency", json!(dice.of(&[1, 1, 2, 3, 20])));
    match kind {
        "aimd" => {
            put("signal", json!(dice.of(&["latency", "latency", "loss", "both"])));
            put("latency_threshold", json!(dice.of(&[1_000, 50_000, 100_000])));
            put("cut_interval", json!(dice.of(&[0, 50_000, 1_000_000])));
            put("backoff_ratio", json!(dice.of(&[0.5, 0.9])));
            put("increase_step", json!(dice.of(&[1.0, 0.5, 3.0])));
            if dice.chance(30) {
                put("latency_quantile", json!(0.9));
            }
        }
        "gradient2" => {
            put("variant", json!(dice.of(&["steady", "steady", "guarded", "plain", "netflix"])));
            put("long_window", json!(dice.of(&[2, 10, 600])));
            put("headroom", json!(dice.of(&[1.0, 4.0])));
        }
        _ => {}
    }
    let length = dice.of(&[json!(0), json!(1), json!(2), json!(3), json!(10), json!("none")]);
    let queues = length != json!(0);
    put("max_queue", length);
    if queues && dice.chance(40) {
        put("queue_interval", json!(dice.of(&[50_000, 100_000])));
        put("queue_target", json!(dice.of(&[1, 1_000, 10_000, 49_999])));
        put("codel", json!(dice.of(&["facebook", "facebook", "rfc8289"])));
    }
    if queues && dice.chance(30) {
        put("queue_adaptive_lifo", json!(1));
    }
    if queues && dice.chance(40) {
        put("prioritized", json!(1));
    }
}

fn breaker(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
    let consecutive = dice.chance(60);
    if consecutive {
        put("breaker.consecutive", json!(dice.of(&[1, 1, 2, 3])));
    }
    if !consecutive || dice.chance(30) {
        put("breaker.failure_ratio", json!(dice.of(&[0.2, 0.5, 1.0])));
        put("breaker.window", json!(dice.of(&[10, 100_000, 1_000_000])));
        put("breaker.min_throughput", json!(dice.of(&[1, 2, 3])));
        put("breaker.window_kind", json!(dice.of(&["sliding", "tumbling"])));
    }
    put("breaker.break_duration", json!(dice.of(&[1_000, 50_000, 100_000, 1_000_000])));
    put("breaker.break_factor", json!(dice.of(&[1.0, 2.0, 1.5])));
    put("breaker.half_open_max_calls", json!(dice.of(&[1, 1, 2, 3])));
    put("breaker.successes_to_close", json!(dice.of(&[1, 1, 2])));
    put("breaker.unit", json!(dice.of(&["call", "attempt"])));
    if dice.chance(20) {
        put("breaker.failure_on", json!(dice.of(&["throttled", "conflict", "permanent", "ignored"])));
    }
    if dice.chance(20) {
        put("breaker.ignore_on", json!(dice.of(&["timeout", "transient", "never_sent"])));
    }
}

fn throttle(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
    put("throttle.k", json!(dice.of(&[1.0, 1.5, 2.0])));
    put("throttle.window", json!(dice.of(&[10, 100_000, 1_000_000, 120_000_000])));
    put("throttle.window_kind", json!(dice.of(&["sliding", "tumbling"])));
    put("throttle.min_throughput", json!(dice.of(&[1, 2, 3])));
    put("throttle.max_reject", dice.of(&[json!("none"), json!(0.9), json!(0.5)]));
    put("throttle.probe_interval", dice.of(&[json!("none"), json!(1_000_000), json!(50_000)]));
    if dice.chance(40) {
        put("throttle.prioritized", json!(1));
    }
    put("throttle.unit", json!(dice.of(&["call", "attempt"])));
}

fn hedge(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
    put("hedge.delay", json!(dice.of(&[0, 1, 1_000, 50_000, 100_000])));
    put("hedge.max_attempts", json!(dice.of(&[2, 2, 3, 4])));
    if dice.chance(35) {
        put("hedge.adaptive_delay_quantile", json!(dice.of(&[0.5, 0.9])));
        if dice.chance(50) {
            put("hedge.delay_min", json!(dice.of(&[0, 500])));
            put("hedge.delay_max", json!(dice.of(&[10_000, 1_000_000])));
        }
    }
    if dice.chance(50) {
        put(
            "hedge.budget.kind",
            json!(dice.of(&["share", "earned", "window", "none", "tokens", "quota", "ratio"])),
        );
        put("hedge.budget.share", json!(dice.of(&[0.2, 1.0, 2.0])));
        put("hedge.budget.min_retries", json!(dice.of(&[0, 1])));
        put("hedge.budget.max", json!(4));
        put("hedge.budget.ratio", json!(dice.of(&[0.3, 1.0])));
        put("hedge.budget.capacity", json!(dice.of(&[5, 20])));
    }
}
