//! The scenarios that every language plays (`tests/README.md`), through the public interface on tokio's paused clock.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

mod support;

use serde_json::Value as Json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{ms, nothing_left};
use tidegate_tokio::core::Document;
use tidegate_tokio::{Class, Criticality, Engine, Error, Failure, Outcome, Policy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// The scripted end of an attempt.
struct Failed {
    class: Class,
    after: Option<Duration>,
}

impl Failure for Failed {
    fn outcome(&self) -> Outcome {
        let outcome = Outcome::of(self.class);
        self.after.map_or(outcome, |after| {
            outcome.retry_after(tidegate_tokio::core::Duration::from_micros(after.as_micros() as u64))
        })
    }
}

/// When the attempts of a call started, when it ended, and how.
struct Found {
    starts: Vec<u64>,
    ended: u64,
    end: String,
}

fn list(json: &Json) -> Vec<Json> {
    json.as_array().expect("a list").clone()
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("a whole number, not {json}"))
}

/// Does what the script says of this attempt. The last one of the script is every later one, too.
async fn attempt(script: Vec<Json>, number_of: usize) -> Result<(), Failed> {
    let ours = list(&script[number_of.min(script.len()) - 1]);
    sleep(ms(number(&ours[0]))).await;
    let class = match ours[1].as_str().expect("a class") {
        "ok" => return Ok(()),
        "transient" => Class::Transient,
        "throttled" => Class::Throttled,
        other => panic!("no scenario has the class {other}"),
    };
    Err(Failed { class, after: ours.get(2).map(|after| ms(number(after))) })
}

async fn call(policy: Policy, given: Json, start: Instant) -> Found {
    sleep_until(start + ms(number(&given["at"]))).await;
    let now = move || u64::try_from(start.elapsed().as_micros()).expect("it is short").div_ceil(1_000);
    let starts = Arc::new(Mutex::new(Vec::new()));
    let script = list(&given["attempts"]);
    let mut caller = policy.caller();
    if let Some(word) = given["criticality"].as_str() {
        caller = caller.criticality(match word {
            "critical" => Criticality::Critical,
            "best_effort" => Criticality::BestEffort,
            other => panic!("no scenario has the criticality {other}"),
        });
    }
    let work = |_| {
        let mut starts = starts.lock().expect("nobody panics with it");
        starts.push(now());
        attempt(script.clone(), starts.len())
    };
    let end = match caller.run(work).await {
        Ok(()) => "ok".to_owned(),
        Err(Error::Failed(..)) => "failure".to_owned(),
        Err(Error::Stopped(stopped, _)) => stopped.code.name().to_owned(),
    };
    let starts = starts.lock().expect("nobody panics with it").clone();
    Found { starts, ended: now(), end: if end == "deadline_exceeded" { "deadline".into() } else { end } }
}

#[tokio::test(start_paused = true)]
async fn every_scenario_is_played_as_the_model_says() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios/scenarios.json");
    let json: Json = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let scenarios = list(&json["scenarios"]);
    assert!(scenarios.len() >= 20);
    for scenario in scenarios {
        let engine = Engine::new(number(&scenario["seed"]));
        let document = Document::from_json(&scenario["document"].to_string()).expect("a valid document");
        let policies = engine.load(&document).expect("its names are free");
        let (start, mut tasks) = (Instant::now(), JoinSet::new());
        let calls = list(&scenario["calls"]);
        for (place, given) in calls.iter().cloned().enumerate() {
            let named = |policy: &&Policy| policy.name() == given["policy"].as_str().expect("a name");
            let policy = policies.iter().find(named).expect("it is declared").clone();
            tasks.spawn(async move { (place, call(policy, given, start).await) });
        }
        let tolerance = number(&scenario["tolerance"]);
        while let Some(done) = tasks.join_next().await {
            let (place, found) = done.expect("no call panics");
            let given = &calls[place];
            let moments: Vec<u64> =
                list(&given["starts"]).iter().chain([&given["ended"]]).map(number).collect();
            let Found { mut starts, ended, end } = found;
            starts.push(ended);
            let close = starts.iter().zip(&moments).all(|(at, due)| at.abs_diff(*due) <= tolerance);
            let same = starts.len() == moments.len() && close && given["end"] == end.as_str();
            assert!(same, "{}: {given}: found {starts:?}, {end}", scenario["name"]);
        }
        nothing_left(&engine);
    }
}
