//! Random policies, but for the components that only rich traces have ([`super::components`]).

use serde_json::{Value as Json, json};

use super::{Dice, SPANS, Trace, components};

impl Trace {
    /// A policy of this name: retries, a budget, timeouts, and a bulkhead.
    pub fn policy(&mut self, name: &str) -> Json {
        let dice = &mut self.dice;
        if self.stubborn {
            let base = dice.of(&[0, 0, 1, 1_000, 100_000]);
            let pairs = json!([
                ["attempt_timeout", dice.of(&[1, 1_000, 50_000])],
                ["retry.max_attempts", dice.of(&[9, 12, 255])],
                ["retry.backoff.base", base],
                ["retry.backoff.jitter", "none"],
                ["retry.retry_after", "exact"],
                ["retry.budget.kind", dice.of(&["none", "quota", "share"])],
                ["bulkhead.max_concurrency", dice.of(&[1, 2])],
            ]);
            return json!({ "name": name, "pairs": pairs });
        }
        let mut pairs: Vec<Json> = Vec::new();
        let mut put = |key: &str, value: Json| pairs.push(json!([key, value]));
        if dice.chance(10) {
            put(
                "preset",
                json!(dice.of(&["http", "httpware", "aws_standard", "aws_2026", "grpc", "transient", "occ"])),
            );
        }
        if dice.chance(50) {
            put(
                "deadline",
                json!(dice.of(&[
                    1,
                    1_000,
                    50_000,
                    200_000,
                    1_000_000,
                    2_500_000,
                    30_000_000,
                    4_000_000_000u64
                ])),
            );
        }
        if dice.chance(50) {
            put("attempt_timeout", json!(dice.of(&[1, 10_000, 50_000, 100_000, 1_000_000, 5_000_000])));
        }
        if dice.chance(10) {
            put("slot_until", json!("headers"));
        } else if dice.chance(30) {
            components::stream(dice, &mut put);
        }
        if dice.chance(85) {
            put("retry.max_attempts", json!(dice.of(&[1, 2, 2, 3, 3, 3, 4, 5, 10, 12, 255])));
            let classes = [
                "transient",
                "throttled",
                "timeout",
                "never_sent",
                "conflict",
                "infrastructure",
                "concurrency",
            ];
            for _ in 0..dice.of(&[0, 0, 0, 0, 1, 2, 3]) {
                put("retry.retry_on", json!(dice.of(&classes)));
            }
            Self::backoff(dice, &mut put);
            Self::budget(dice, &mut put);
        }
        if dice.chance(65) {
            put("bulkhead.max_concurrency", json!(dice.of(&[1, 1, 1, 2, 3])));
            if dice.chance(80) {
                put(
                    "bulkhead.max_queue",
                    dice.of(&[json!(0), json!(1), json!(2), json!(3), json!(10), json!("none")]),
                );
            }
            if dice.chance(70) {
                let spans = [0, 1, 50_000, 100_000, 1_000_000, 2_000_000, 70_000_000];
                put("bulkhead.acquire_timeout", dice.of(&spans.map(|us| json!(us))));
            } else if dice.chance(40) {
                put("bulkhead.acquire_timeout", json!("none"));
            }
        }
        json!({ "name": name, "pairs": pairs })
    }

    fn backoff(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
        let kind = dice.of(&["exponential", "constant", "linear", "polynomial"]);
        if dice.chance(70) {
            put("retry.backoff.kind", json!(kind));
            if kind == "polynomial" {
                put("retry.backoff.exponent", json!(1 + dice.below(8)));
            }
        }
        if dice.chance(80) {
            put("retry.backoff.base", json!(dice.of(&SPANS)));
        }
        if dice.chance(20) {
            put("retry.backoff.throttled_base", json!(dice.of(&SPANS)));
        }
        if dice.chance(30) {
            put("retry.backoff.multiplier", json!(dice.of(&[1.0, 1.1, 1.5, 3.0, 7.3, 1000.0])));
        }
        if dice.chance(40) {
            put("retry.backoff.max", json!(dice.of(&SPANS)));
        }
        if dice.chance(80) {
            let jitter = dice.of(&["full_floor", "none", "full", "equal", "decorrelated", "bounded"]);
            put("retry.backoff.jitter", json!(jitter));
            if jitter == "bounded" {
                put("retry.backoff.jitter_ratio", json!(dice.of(&[0.0, 0.1, 0.2, 0.33, 1.0])));
            }
        }
        if dice.chance(60) {
            put("retry.retry_after", json!(dice.of(&["floor", "exact", "clamp_5s", "ignore"])));
        }
        if dice.chance(5) {
            put("retry.respect_retry_after", json!(0));
        }
        if dice.chance(50) {
            put("retry.max_retry_after", json!(dice.of(&SPANS)));
        }
        if dice.chance(20) {
            put("retry.retry_time_limit", json!(dice.of(&SPANS)));
        }
    }

    fn budget(dice: &mut Dice, put: &mut impl FnMut(&str, Json)) {
        let kind =
            dice.of(&["earned", "earned", "window", "window", "ratio", "share", "tokens", "quota", "none"]);
        if dice.chance(85) {
            put("retry.budget.kind", json!(kind));
        } else if kind != "window" && kind != "earned" {
            return;
        }
        if kind == "window" && dice.chance(40) {
            put("retry.budget.rounding", json!("ceil"));
        }
        let mut often = |percent: u64, key: &str, values: &[f64]| {
            if dice.chance(percent) {
                put(&format!("retry.budget.{key}"), json!(dice.of(values)));
            }
        };
        match kind {
            "earned" => {
                often(50, "ratio", &[0.18, 0.5, 1.0, 1.0 / 3.0]);
                often(50, "start", &[0.0, 1.0, 2.0, 9.0]);
            }
            "window" => {
                often(80, "ttl", &[10.0, 95.0, 100_000.0, 1_000_000.0, 10_000_000.0]);
                often(80, "min_retries_per_sec", &[0.0, 0.0, 0.1, 0.5, 1.0, 2.5, 10.0]);
                often(80, "percent_can_retry", &[0.0, 0.2, 0.34, 0.5, 1.0, 2.0]);
            }
            "ratio" => {
                often(100, "ratio", &[1e-6, 0.1, 0.333_333_333, 0.5, 0.7, 1.0]);
                often(80, "min_throughput", &[0.0, 1.0, 2.0, 5.0]);
            }
            "share" => {
                often(80, "share", &[0.0, 0.2, 0.34, 0.5, 1.0, 1.5]);
                often(80, "min_retries", &[0.0, 0.0, 1.0, 2.0]);
            }
            "tokens" => {
                often(100, "max", &[1.0, 2.0, 3.0, 4.0, 10.0]);
                often(100, "ratio", &[0.1, 0.333_333_333, 0.5, 1.0]);
            }
            "quota" => {
                often(80, "capacity", &[1.0, 5.0, 10.0, 14.0, 20.0, 500.0]);
                often(80, "cost", &[1.0, 2.0, 5.0, 14.0]);
                often(80, "timeout_cost", &[1.0, 3.0, 10.0]);
                often(80, "throttled_cost", &[1.0, 4.0]);
            }
            _ => {}
        }
    }
}
