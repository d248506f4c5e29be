//! The circuit breaker and the adaptive throttle against the vectors that every language shares (`tests/README.md`).
#![allow(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use tidegate::{
    AdaptiveThrottle, BreakerSettings, BreakerState, CircuitBreaker, Class, Duration, Evidence,
    ThrottleSettings, Ticket, Time, WindowKind,
};

const CLASSES: [(&str, Class); 9] = [
    ("ok", Class::Ok),
    ("transient", Class::Transient),
    ("timeout", Class::Timeout),
    ("never_sent", Class::NeverSent),
    ("throttled", Class::Throttled),
    ("conflict", Class::Conflict),
    ("permanent", Class::Permanent),
    ("ignored", Class::Ignored),
    ("cancelled", Class::Cancelled),
];

/// All files of a family.
fn family(name: &str) -> Vec<Json> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let files: Vec<Json> = paths.into_iter().map(read).collect();
    assert!(files.iter().all(|file| file["family"] == name));
    files
}

fn list(json: &Json) -> &[Json] {
    json.as_array().unwrap_or_else(|| panic!("a list, not {json}"))
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("a text, not {json}"))
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("a number, not {json}"))
}

fn bits(step: &Json) -> u64 {
    text(&step["bits"]).parse().unwrap()
}

fn span(json: &Json) -> Duration {
    Duration::from_micros(number(json))
}

fn window_kind(settings: &Json) -> WindowKind {
    match text(&settings["window_kind"]) {
        "sliding" => WindowKind::Sliding,
        "tumbling" => WindowKind::Tumbling,
        other => panic!("no window is {other}"),
    }
}

fn breaker_settings(settings: &Json) -> BreakerSettings {
    let count = |key: &str| number(&settings[key]) as u32;
    BreakerSettings {
        failure_ratio: settings["failure_ratio"].as_f64(),
        window: span(&settings["window"]),
        min_throughput: count("min_throughput"),
        window_kind: window_kind(settings),
        consecutive: settings["consecutive"].as_u64().map(|row| row as u32),
        break_duration: span(&settings["break_duration"]),
        break_factor: settings["break_factor"].as_f64().unwrap(),
        max_break_duration: span(&settings["max_break_duration"]),
        half_open_max_calls: count("half_open_max_calls"),
        successes_to_close: count("successes_to_close"),
        probe_lease: span(&settings["probe_lease"]),
    }
}

fn throttle_settings(settings: &Json) -> ThrottleSettings {
    ThrottleSettings {
        k: settings["k"].as_f64().unwrap(),
        window: span(&settings["window"]),
        window_kind: window_kind(settings),
        min_throughput: number(&settings["min_throughput"]) as u32,
        max_reject: settings["max_reject"].as_f64(),
        probe_interval: settings["probe_interval"].as_u64().map(Duration::from_micros),
    }
}

fn state(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half_open",
    }
}

/// What the breaker says to a step, written as the vector has it.
fn breaker_says(it: &mut CircuitBreaker, tickets: &mut BTreeMap<String, Ticket>, step: &Json) -> Json {
    let at = Time::from_micros(number(&step["at"]));
    let mut said = step.clone();
    let ticket = |tickets: &BTreeMap<String, Ticket>| match &step["forged"] {
        Json::Array(forged) => {
            Ticket { number: number(&forged[0]) as u16, probe: forged[1].as_bool().unwrap() }
        }
        _ => tickets[text(&step["call"])],
    };
    let changed = match text(&step["op"]) {
        "admit" => {
            let early = it.refuses(at);
            let answer = it.admit(at);
            assert_eq!(early, answer.err(), "the early look and the admission agree: {step}");
            let fields = said.as_object_mut().unwrap();
            fields.remove("probe");
            fields.remove("retry_in");
            match answer {
                Ok(ticket) => {
                    assert_ne!(ticket.number, 0, "{step}");
                    said["probe"] = ticket.probe.into();
                    tickets.insert(text(&step["call"]).to_owned(), ticket);
                }
                Err(wait) => said["retry_in"] = wait.as_micros().into(),
            }
            None
        }
        "record" => {
            let evidence = match text(&step["evidence"]) {
                "success" => Evidence::Success,
                "failure" => Evidence::Failure,
                "neutral" => Evidence::Neutral,
                other => panic!("no evidence is {other}"),
            };
            Some(it.record(ticket(tickets), evidence, bits(step), at))
        }
        "body" => Some(it.on_body_failure(ticket(tickets), bits(step), at)),
        "retune" => {
            it.retune(breaker_settings(&step["settings"]), at);
            None
        }
        "reset" => {
            it.reset();
            None
        }
        "fork" => {
            it.forget_probes();
            None
        }
        "look" => None,
        other => panic!("no such op: {other}"),
    };
    if let Some(changed) = changed {
        said["transition"] = changed.map_or(Json::Null, |(from, to)| json!([state(from), state(to)]));
    }
    said["state"] = state(it.state(at)).into();
    said["failures"] = it.failures(at).into();
    said["throughput"] = it.throughput(at).into();
    said["fresh"] = it.is_fresh(at).into();
    said.as_object_mut().unwrap().remove("open_until");
    if let Some(until) = it.open_until() {
        said["open_until"] = until.as_micros().into();
    }
    said
}

#[test]
fn breakers() {
    let mut steps = 0;
    for case in family("breaker").iter().flat_map(|file| list(&file["cases"])) {
        let mut it = CircuitBreaker::new(breaker_settings(&case["settings"]));
        let mut tickets = BTreeMap::new();
        for (place, step) in list(&case["steps"]).iter().enumerate() {
            let said = breaker_says(&mut it, &mut tickets, step);
            assert_eq!(said, *step, "step {place} of {}, {}", case["name"], case["settings"]);
            steps += 1;
        }
    }
    assert!(steps > 2_000, "{steps}");
}

#[test]
fn throttles() {
    let mut steps = 0;
    for case in family("throttle").iter().flat_map(|file| list(&file["cases"])) {
        let first = Time::from_micros(number(&case["steps"][0]["at"]));
        let mut it = AdaptiveThrottle::new(throttle_settings(&case["settings"]), first);
        for (place, step) in list(&case["steps"]).iter().enumerate() {
            let at = Time::from_micros(number(&step["at"]));
            let mut said = step.clone();
            match text(&step["op"]) {
                "admit" => said["admitted"] = it.admit(bits(step), at).into(),
                "record" => {
                    let accepted = step["accepted"].as_bool().unwrap();
                    (0..number(&step["times"])).for_each(|_| it.record(accepted, at));
                }
                "retune" => it.retune(throttle_settings(&step["settings"]), at),
                other => assert_eq!(other, "look"),
            }
            let (requests, accepts) = it.counts(at);
            (said["requests"], said["accepts"]) = (requests.into(), accepts.into());
            // A text in the vector, because readers of JSON may lose the last bit of a number.
            let p: f64 = text(&step["p"]).parse().unwrap();
            assert_eq!(
                it.probability(at).to_bits(),
                p.to_bits(),
                "step {place} of {}: {} for {step}",
                case["name"],
                it.probability(at)
            );
            assert_eq!(said, *step, "step {place} of {}", case["name"]);
            assert_eq!(it.is_fresh(at), requests == 0, "{step}");
            steps += 1;
        }
    }
    assert!(steps > 1_200, "{steps}");
}

#[test]
fn who_counts_what() {
    for (name, class) in CLASSES {
        let evidence = match Evidence::of(class) {
            Evidence::Success => "success",
            Evidence::Failure => "failure",
            Evidence::Neutral => "neutral",
        };
        let told = |family_name: &str| {
            let files = family(family_name);
            files.iter().find_map(|file| file["classes"].get(name).cloned()).unwrap()
        };
        assert_eq!(told("breaker"), evidence, "{name}");
        assert_eq!(told("throttle"), json!(AdaptiveThrottle::accepted(class)), "{name}");
    }
}

#[test]
fn the_published_probabilities() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/published/throttle.json");
    let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let now = Time::from_micros(0);
    let mut checked = 0;
    for case in list(&file["cases"]) {
        let settings = ThrottleSettings {
            k: file["k"].as_f64().unwrap(),
            max_reject: file["max_reject"].as_f64(),
            probe_interval: None,
            ..ThrottleSettings::default()
        };
        let mut it = AdaptiveThrottle::new(settings, now);
        let accepts = number(&case["accepts"]);
        (0..number(&case["requests"])).for_each(|n| it.record(n < accepts, now));
        let off = (it.probability(now) - case["p"].as_f64().unwrap()).abs();
        assert!(off <= file["tolerance"].as_f64().unwrap(), "{case}: off by {off}");
        checked += 1;
    }
    assert_eq!(checked, 3);
}
