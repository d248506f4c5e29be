//! The limiters against the vectors that every language shares (`tests/README.md`), to the last bit.
#![allow(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::path::PathBuf;

use serde_json::Value as Json;
use tidegate::{
    Aimd, AimdSettings, CoDel, CodelLaw, CodelSettings, Duration, Gcra, Gradient2, Gradient2Settings,
    Gradient2Variant, LimitSignal, RateSettings, Time, TokenBucket,
};

fn file(path: &str) -> Json {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(path);
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn list(json: &Json) -> &[Json] {
    json.as_array().unwrap_or_else(|| panic!("a list, not {json}"))
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("a text, not {json}"))
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("a whole number, not {json}"))
}

fn small(json: &Json) -> u32 {
    u32::try_from(number(json)).unwrap()
}

/// A setting: few digits, which every reader has exactly.
fn real(json: &Json) -> f64 {
    json.as_f64().unwrap_or_else(|| panic!("a number, not {json}"))
}

fn at(json: &Json) -> Time {
    Time::from_micros(number(json))
}

fn span(json: &Json) -> Duration {
    Duration::from_micros(number(json))
}

/// Every step of every case of a file, through `answer`: the step again, with what core says in the place of what the
/// model said.
fn told<T>(path: &str, new: impl Fn(&Json) -> T, answer: impl Fn(&mut T, &Json) -> Json) {
    let file = file(path);
    let mut steps = 0;
    for (case_place, case) in list(&file["cases"]).iter().enumerate() {
        let mut part = new(case);
        for (place, step) in list(&case["steps"]).iter().enumerate() {
            let mut found = step.clone();
            for (key, value) in answer(&mut part, step).as_object().unwrap() {
                found[key.as_str()] = value.clone();
            }
            let name = &case["name"];
            assert_eq!(&found, step, "{path}: case {case_place} {name} {}, step {place}", case["variant"]);
            steps += 1;
        }
    }
    assert!(steps >= 200, "{path} has {steps}");
}

fn rate(settings: &Json) -> RateSettings {
    RateSettings {
        permits: small(&settings["permits"]),
        per: span(&settings["per"]),
        burst: small(&settings["burst"]),
    }
}

fn granted(taken: Result<(), Duration>) -> Json {
    match taken {
        Ok(()) => serde_json::json!({ "granted": true }),
        Err(Duration::MAX) => serde_json::json!({ "granted": false, "wait": "never" }),
        Err(wait) => serde_json::json!({ "granted": false, "wait": wait.as_micros() }),
    }
}

#[test]
fn token_buckets() {
    let new = |case: &Json| TokenBucket::new(rate(&case["settings"]), at(&case["origin"]));
    told("rate/bucket.json", new, |bucket, step| {
        let now = at(&step["at"]);
        let mut found = match text(&step["op"]) {
            "take" => granted(bucket.try_take(small(&step["cost"]), now)),
            "wait_for" => {
                serde_json::json!({ "wait": bucket.wait_for(number(&step["tokens"]), now).as_micros() })
            }
            "retune" => {
                bucket.retune(rate(step), now);
                serde_json::json!({})
            }
            other => panic!("{other}"),
        };
        found["level"] = bucket.level(now).into();
        found
    });
}

#[test]
fn gcra() {
    let new = |case: &Json| Gcra::new(rate(&case["settings"]));
    told("rate/gcra.json", new, |limit, step| granted(limit.try_take(small(&step["cost"]), at(&step["at"]))));
}

#[test]
fn both_rates_follow_the_published_vector() {
    let file = file("published/gcra.json");
    assert!(text(&file["source"]).ends_with("rate 1 per s, burst 3"));
    let settings = RateSettings { permits: 1, per: Duration::from_secs(1), burst: 3 };
    let (mut limit, mut bucket) = (Gcra::new(settings), TokenBucket::new(settings, Time::from_micros(0)));
    let micros = |json: &Json| (real(json) * 1e6) as u64;
    for step in list(&file["steps"]) {
        let now = Time::from_micros(micros(&step["t"]));
        let allowed = step["allow"].as_bool().unwrap();
        let expected = if allowed { Ok(()) } else { Err(Duration::from_micros(micros(&step["retry_in"]))) };
        assert_eq!(limit.try_take(1, now), expected, "{step}");
        assert_eq!(bucket.try_take(1, now), expected, "{step}");
    }
    assert_eq!(list(&file["steps"]).len(), 10);
}

fn aimd(settings: &Json) -> AimdSettings {
    AimdSettings {
        signal: match settings["signal"].as_str() {
            None => LimitSignal::Latency,
            Some("loss") => LimitSignal::Loss,
            Some("both") => LimitSignal::Both,
            Some(other) => panic!("{other}"),
        },
        max_concurrency: small(&settings["max_concurrency"]),
        min_concurrency: small(&settings["min_concurrency"]),
        latency_threshold: span(&settings["latency_threshold"]),
        increase_step: real(&settings["increase_step"]),
        backoff_ratio: real(&settings["backoff_ratio"]),
        cut_interval: span(&settings["cut_interval"]),
        latency_quantile: settings["latency_quantile"].as_f64(),
    }
}

/// The limit in both its forms; the exact one as the text that stands for these bits.
fn limited(limit: u32, exact: f64, step: &Json) -> Json {
    let expected: f64 = text(&step["exact"]).parse().unwrap();
    let exact = if exact.to_bits() == expected.to_bits() {
        step["exact"].clone()
    } else {
        format!("{exact:?}").into()
    };
    serde_json::json!({ "limit": limit, "exact": exact })
}

#[test]
fn aimd_limits() {
    aimd_limits_of("limit/aimd.json");
}

#[test]
fn limits_that_follow_loss() {
    aimd_limits_of("limit/loss.json");
}

fn aimd_limits_of(path: &str) {
    let new = |case: &Json| Aimd::new(aimd(&case["settings"]));
    told(path, new, |limit, step| {
        let now = at(&step["at"]);
        match text(&step["op"]) {
            "good" => limit.on_good(span(&step["latency"]), small(&step["in_flight"]), now),
            "throttled" => limit.on_throttled(at(&step["started"]), now),
            "latency" => limit.on_latency(span(&step["latency"]), now),
            "failure" => limit.on_failure(span(&step["latency"]), now),
            "timeout" => limit.on_timeout(now),
            "retune" => limit.retune(aimd(&step["settings"])),
            other => panic!("{other}"),
        }
        limited(limit.limit(), limit.exact(), step)
    });
}

#[test]
fn gradient2_limits() {
    let new = |case: &Json| {
        let settings = &case["settings"];
        Gradient2::new(Gradient2Settings {
            max_concurrency: small(&settings["max_concurrency"]),
            min_concurrency: small(&settings["min_concurrency"]),
            long_window: small(&settings["long_window"]),
            rtt_tolerance: real(&settings["rtt_tolerance"]),
            headroom: real(&settings["headroom"]),
            variant: match text(&case["variant"]) {
                "guarded" => Gradient2Variant::Guarded,
                "steady" => Gradient2Variant::Steady,
                "plain" => Gradient2Variant::Plain,
                "netflix" => Gradient2Variant::Netflix,
                other => panic!("{other}"),
            },
        })
    };
    told("limit/gradient2.json", new, |limit, step| {
        let (started, in_flight, now) = (at(&step["started"]), small(&step["in_flight"]), at(&step["at"]));
        match text(&step["op"]) {
            "latency" => limit.on_latency(span(&step["rtt"]), started, in_flight, now),
            "drop" => limit.on_drop(started, in_flight, now),
            other => panic!("{other}"),
        }
        limited(limit.limit(), limit.exact(), step)
    });
}

/// A queue as its owner keeps it: core is asked for each waiter, and told when nobody waits.
struct Queue {
    codel: CoDel,
    waiting: std::collections::VecDeque<(Time, f64)>,
}

impl Queue {
    fn dequeue(&mut self, now: Time) -> (u64, bool) {
        let mut shed = 0;
        let granted = loop {
            let Some((came, scale)) = self.waiting.pop_front() else { break false };
            if !self.codel.should_shed(now.since(came), scale, now) {
                break true;
            }
            shed += 1;
        };
        if self.waiting.is_empty() {
            self.codel.on_empty(now);
        }
        (shed, granted)
    }
}

fn queues(path: &str, law: CodelLaw) {
    let new = |case: &Json| {
        let settings =
            CodelSettings { target: span(&case["target"]), interval: span(&case["interval"]), law };
        Queue { codel: CoDel::new(settings, at(&case["origin"])), waiting: [].into() }
    };
    told(path, new, |queue, step| {
        let now = at(&step["at"]);
        if step["op"] == "enqueue" {
            if queue.waiting.is_empty() {
                queue.codel.on_empty(now);
            }
            queue.waiting.push_back((now, text(&step["scale"]).parse().unwrap()));
            return serde_json::json!({});
        }
        let congested = queue.codel.congested(now);
        let (shed, granted) = queue.dequeue(now);
        serde_json::json!({ "congested": congested, "shed": shed, "granted": granted })
    });
}

#[test]
fn codel_as_facebook_has_it() {
    queues("codel/facebook.json", CodelLaw::Facebook);
}

#[test]
fn codel_as_rfc_8289_has_it() {
    queues("codel/rfc8289.json", CodelLaw::Rfc8289);
}
