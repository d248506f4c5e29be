//! Core against the vectors that every language shares (`tests/README.md`). `wire` has a file of its own.
#![allow(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;
use tidegate::{
    Backoff, CallId, Class, Duration, Engine, Growth, HttpFailure, Jitter, Link, Options, PathId, Policy,
    PolicyId, Pool, PoolKind, QuotaSettings, RatioBudget, RatioSettings, Request, RetryBudget, RetryQuota,
    Rounding, RouteId, ShareBudget, ShareSettings, Time, TokenBudget, TokenSettings, Value, WallTime,
    WindowSettings, parse_retry_after, rng, wire,
};

/// All files of a family, by name.
fn family(name: &str) -> Vec<(String, Json)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let json: Json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(json["family"], name, "{}", path.display());
            (path.display().to_string(), json)
        })
        .collect()
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("a text, not {json}"))
}

/// A number; those above 2^53 are written as texts.
fn number(json: &Json) -> u64 {
    json.as_str().map_or_else(|| json.as_u64(), |text| text.parse().ok()).unwrap_or_else(|| panic!("{json}"))
}

fn real(json: &Json, default: f64) -> f64 {
    json.as_f64().unwrap_or(default)
}

fn pairs(json: &Json) -> Vec<(&str, Value<'_>)> {
    list(json)
        .iter()
        .map(|pair| {
            let word = pair[1].as_str().map(Value::Text);
            (text(&pair[0]), word.unwrap_or_else(|| Value::Number(pair[1].as_f64().unwrap())))
        })
        .collect()
}

fn take_in(engine: &mut Engine, policies: &Json) -> BTreeMap<String, PolicyId> {
    let take = |policy: &Json| {
        let built = Policy::from_pairs(text(&policy["name"]), &pairs(&policy["pairs"])).unwrap();
        (text(&policy["name"]).to_owned(), engine.policy(built).unwrap())
    };
    list(policies).iter().map(take).collect()
}

#[test]
fn draws() {
    for (_, file) in family("rng") {
        for case in list(&file["draws"]) {
            let purpose = match number(&case["purpose"]) {
                1 => rng::Purpose::Backoff,
                _ => rng::Purpose::RetryAfter,
            };
            let attempt = number(&case["attempt"]) as u8;
            let bits = rng::bits(number(&case["seed"]), number(&case["ordinal"]), purpose, attempt);
            assert_eq!(bits, number(&case["bits"]), "{case}");
        }
        for case in list(&file["uniform"]) {
            let drawn = rng::uniform(number(&case["bits"]), number(&case["low"]), number(&case["high"]));
            assert_eq!(drawn, number(&case["value"]), "{case}");
        }
    }
}

#[test]
fn backoffs() {
    for (_, file) in family("backoff") {
        for case in list(&file["cases"]) {
            let backoff = Backoff {
                growth: match text(&case["kind"]) {
                    "constant" => Growth::Constant,
                    "linear" => Growth::Linear,
                    "polynomial" => Growth::Polynomial(number(&case["exponent"]) as u8),
                    _ => Growth::Exponential(real(&case["multiplier"], f64::NAN)),
                },
                base: Duration::from_micros(number(&case["base"])),
                max: Duration::from_micros(number(&case["max"])),
                jitter: match text(&case["jitter"]) {
                    "none" => Jitter::None,
                    "full" => Jitter::Full,
                    "full_floor" => Jitter::FullFloor,
                    "equal" => Jitter::Equal,
                    "decorrelated" => Jitter::Decorrelated,
                    _ => Jitter::Bounded(real(&case["jitter_ratio"], f64::NAN)),
                },
            };
            let n = number(&case["n"]) as u32;
            if let Some(ceiling) = case["ceiling"].as_u64() {
                assert_eq!(backoff.ceiling(n).as_micros(), ceiling, "{case}");
            }
            let bits = |i: u32| match case["seed"].as_u64() {
                Some(seed) => rng::bits(seed, 0, rng::Purpose::Backoff, i as u8),
                None => number(&case["bits"]),
            };
            assert_eq!(backoff.nth_delay(n, bits).as_micros(), number(&case["delay"]), "{case}");
        }
    }
}

#[test]
fn window_budgets_and_the_others() {
    for (path, file) in family("budget") {
        for case in list(&file["cases"]) {
            for (place, (found, step)) in told(text(&file["kind"]), case).into_iter().enumerate() {
                assert_eq!(found, step, "{path}: step {place} of {}", case["settings"]);
            }
        }
    }
}

/// What a budget says to each step, beside what the vector has.
fn told(kind: &str, case: &Json) -> Vec<(Json, Json)> {
    let settings = &case["settings"];
    let count = |key: &str, default: u64| settings[key].as_u64().unwrap_or(default) as u32;
    let rounding = if settings["rounding"] == "ceil" { Rounding::Ceil } else { Rounding::Floor };
    let mut window = RetryBudget::new(WindowSettings {
        ttl: Duration::from_micros(settings["ttl"].as_u64().unwrap_or(1_000)),
        min_retries_per_sec: real(&settings["min_retries_per_sec"], 0.0),
        percent_can_retry: real(&settings["percent_can_retry"], 0.0),
        rounding,
    });
    let part = real(&settings["ratio"], 1.0);
    let mut ratio =
        RatioBudget::new(RatioSettings { ratio: part, min_throughput: count("min_throughput", 0) });
    let mut share = ShareBudget::new(ShareSettings {
        share: real(&settings["share"], 0.2),
        min_retries: count("min_retries", 3),
    });
    let mut tokens = TokenBudget::new(TokenSettings { max: count("max", 1), ratio: part });
    let cost = count("cost", 5) as u16;
    let mut quota = RetryQuota::new(QuotaSettings {
        capacity: count("capacity", 500),
        cost,
        timeout_cost: count("timeout_cost", 10) as u16,
        throttled_cost: count("throttled_cost", u64::from(cost)) as u16,
    });
    let mut answer = |step: &Json| {
        let at = Time::from_micros(number(&step["at"]));
        let mut found = step.clone();
        let paid = step["cost"].as_u64().unwrap_or(0) as u16;
        let calls = step["calls"].as_u64().unwrap_or(0) as u32;
        match (kind, text(&step["op"])) {
            ("window", "deposit") => window.deposit(at),
            ("window", "withdraw") => found["granted"] = window.try_withdraw(at).into(),
            ("window", "refund") => window.refund(Time::from_micros(number(&step["charged_at"])), at),
            ("ratio", "deposit") => ratio.on_call(),
            ("ratio", "withdraw") => found["granted"] = ratio.try_withdraw().into(),
            ("ratio", "refund") if paid > 0 || step["cost"] == 1_000_000 => ratio.refund(),
            ("share", "withdraw") => found["granted"] = share.try_acquire(calls).into(),
            ("share", "end" | "refund") => share.on_end(true),
            ("tokens", "withdraw") => found["granted"] = tokens.allows().into(),
            ("tokens", "failure") => tokens.on_failure(),
            ("tokens", "success") => tokens.on_success(),
            ("quota", "withdraw") => {
                let class = match text(&step["class"]) {
                    "timeout" => Class::Timeout,
                    "throttled" => Class::Throttled,
                    "never_sent" => Class::NeverSent,
                    _ => Class::Transient,
                };
                found["granted"] = quota.try_acquire(class).is_some().into();
            }
            ("quota", "refund") => quota.refund(paid),
            ("quota", "success") => quota.on_success(paid),
            ("ratio", "refund") => {}
            (kind, op) => panic!("{kind} has no {op}"),
        }
        match kind {
            "window" => found["balance"] = window.balance(at).into(),
            "ratio" => found["balance"] = ratio.balance().into(),
            "share" => found["in_flight"] = share.in_flight().into(),
            "quota" => found["balance"] = quota.available().into(),
            _ => {}
        }
        found
    };
    list(&case["steps"]).iter().map(|step| (answer(step), step.clone())).collect()
}

#[test]
fn retry_after_values() {
    for (_, file) in family("retry_after") {
        let wall = WallTime::from_unix_micros(number(&file["wall_us"]));
        for case in list(&file["cases"]) {
            // One byte a character: a vector can say bytes that are no text.
            let value: Vec<u8> = text(&case["value"]).chars().map(|c| u8::try_from(c).unwrap()).collect();
            let delay = parse_retry_after(&value, wall).map(Duration::as_micros);
            assert_eq!(delay, case["delay_us"].as_u64(), "{case}");
        }
    }
}

#[test]
fn classified_answers() {
    for (_, file) in family("classify") {
        let mut engine = Engine::new(0, Options::default());
        let policies = take_in(&mut engine, &file["policies"]);
        let wall = WallTime::from_unix_micros(number(&file["wall_us"]));
        for case in list(&file["cases"]) {
            let headers: Vec<_> = list(&case["headers"])
                .iter()
                .map(|pair| (text(&pair[0]).as_bytes(), text(&pair[1]).as_bytes()))
                .collect();
            let failure = HttpFailure { status: number(&case["status"]) as u16, headers: &headers };
            let outcome = engine.classify_read(policies[text(&case["policy"])], &failure, b"", wall);
            assert_eq!(wire::pack_outcome(outcome), number(&case["word"]), "{case}: {outcome:?}");
        }
    }
}

/// Semantics 15.5.
#[test]
fn answers_whose_beginning_was_read() {
    for (_, file) in family("classify_read") {
        let mut engine = Engine::new(0, Options::default());
        let policies = take_in(&mut engine, &file["policies"]);
        let wall = WallTime::from_unix_micros(number(&file["wall_us"]));
        for case in list(&file["cases"]) {
            let headers: Vec<_> = list(&case["headers"])
                .iter()
                .map(|pair| (text(&pair[0]).as_bytes(), text(&pair[1]).as_bytes()))
                .collect();
            let failure = HttpFailure { status: number(&case["status"]) as u16, headers: &headers };
            let policy = policies[text(&case["policy"])];
            let outcome = engine.classify_read(policy, &failure, text(&case["body"]).as_bytes(), wall);
            assert_eq!(wire::pack_outcome(outcome), number(&case["word"]), "{case}: {outcome:?}");
        }
    }
}

#[test]
fn policies_and_their_mistakes() {
    // Groups of targets are declared in documents alone, and not each host lets limits learn.
    for (_, file) in family("policy").into_iter().chain(family("policy_core")) {
        for case in list(&file["cases"]) {
            let built = Policy::from_pairs("p", &pairs(&case["pairs"]));
            let mut wrong: Vec<String> = built.err().into_iter().flatten().map(|error| error.key).collect();
            wrong.sort();
            wrong.dedup();
            let expected: Vec<_> = list(&case["wrong"]).iter().map(text).collect();
            assert_eq!(wrong, expected, "{}", case["pairs"]);
        }
    }
}

#[test]
fn engine_scripts() {
    let mut steps = 0;
    for (path, file) in family("engine") {
        for vector in list(&file["vectors"]) {
            steps += script(&path, vector);
        }
    }
    assert!(steps > 200);
}

fn script(path: &str, vector: &Json) -> usize {
    let mut engine = Engine::new(number(&vector["seed"]), Options::default());
    for pool in list(&vector["pools"]) {
        let kind = PoolKind::ALL.into_iter().find(|kind| pool["kind"] == kind.name()).unwrap();
        let built = Pool::from_pairs(text(&pool["name"]), kind, &pairs(&pool["pairs"])).unwrap();
        engine.pool(built, Time::from_micros(0)).unwrap();
    }
    let policies = take_in(&mut engine, &vector["policies"]);
    let mut calls: BTreeMap<&str, CallId> = BTreeMap::new();
    for entry in list(&vector["script"]) {
        let now = Time::from_micros(number(&entry["at"]));
        let step = if entry["begin"].is_object() {
            let begin = &entry["begin"];
            let words = list(&begin["request"]);
            let parent = words[2].as_str().map_or(0, |name| calls[name].to_word());
            let request =
                wire::unpack_request(number(&words[0]), number(&words[1]), parent, number(&words[3]))
                    .unwrap();
            let route = match begin["route"].as_str() {
                Some(key) => engine.route(policies[text(&begin["policy"])], key, now),
                None => RouteId::from_word(0),
            };
            let path = begin["path"].as_str();
            let path = path.map_or(PathId::NONE, |path| engine.path_id(route, path, now));
            let (call, step) = engine.begin(route, &Request { path, ..request }, now);
            calls.insert(text(&entry["call"]), call);
            Some(step)
        } else if entry["force"].is_object() {
            let force = &entry["force"];
            let policy = policies[text(&force["policy"])];
            let route = force["route"].as_str().map(|key| engine.route(policy, key, now));
            let _ = engine.force_open(policy, route, force["on"].as_bool().unwrap(), now);
            None
        } else if let Some(name) = entry["link"].as_str() {
            engine.set_link(Link::ALL.into_iter().find(|link| link.name() == name).unwrap(), now);
            None
        } else {
            let event = wire::unpack_event(number(&entry["event"])).unwrap();
            Some(engine.on(calls[text(&entry["on"])], event, now))
        };
        let place = || format!("{path}: {}: {}", vector["name"], entry["says"]);
        if let Some(step) = step {
            assert_eq!(wire::pack_step(step), number(&entry["step"]), "{}: {step:?}", place());
        }
        let mut woken = Vec::new();
        engine.take_wakes(&mut woken);
        let names = list(&entry["wakes"]).iter().map(|name| calls[text(name)]).collect::<Vec<_>>();
        assert_eq!(woken, names, "{}", place());
    }
    list(&vector["script"]).len()
}
