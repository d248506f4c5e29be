//! The scenarios that every language runs (`tests/README.md`), with the public API on tokio's paused clock.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use crate::support::{ms, nothing_left};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use serde_json::Value as Json;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_tokio::fleet::{Answer, MemoryStore, Store, StoreKind};
use tidegate_tokio::tidegate::Document;
use tidegate_tokio::{Caller, Class, Criticality, Engine, Error, Failure, Outcome, Policy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tower::{Layer, ServiceExt, service_fn};

/// The scripted failure of an attempt.
struct Failed {
    class: Class,
    after: Option<Duration>,
}

impl Failure for Failed {
    fn outcome(&self) -> Outcome {
        let outcome = Outcome::of(self.class);
        self.after.map_or(outcome, |after| {
            outcome.retry_after(tidegate_tokio::tidegate::Duration::from_micros(after.as_micros() as u64))
        })
    }
}

/// A store that several processes share and that replies at once.
#[derive(Clone)]
struct Twin {
    store: Arc<Mutex<MemoryStore>>,
    start: Instant,
}

impl Store for Twin {
    async fn execute(&self, words: Vec<Vec<u8>>, _: usize) -> Answer {
        let now = 1_000_000_000 + self.start.elapsed().as_micros() as u64;
        match self.store.lock().expect("nobody panics with it").execute(&words, now) {
            Ok(bytes) => Answer::Bytes(bytes),
            Err(text) => Answer::Error(text.into_bytes()),
        }
    }
}

/// The moments at which a call's attempts started, and the moment and kind of its end.
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

/// Carries out the script for this attempt. Attempts beyond the script repeat its last entry.
async fn scripted(script: Vec<Json>, number_of: usize) -> Vec<Json> {
    let ours = list(&script[number_of.min(script.len()) - 1]);
    sleep(ms(number(&ours[0]))).await;
    ours
}

async fn attempt(script: Vec<Json>, number_of: usize) -> Result<(), Failed> {
    let ours = scripted(script, number_of).await;
    let class = match ours[1].as_str().expect("a class") {
        "ok" => return Ok(()),
        "transient" => Class::Transient,
        "throttled" => Class::Throttled,
        other => panic!("no scenario has the class {other}"),
    };
    Err(Failed { class, after: ours.get(2).map(|after| ms(number(after))) })
}

/// Sends a request through the layer for HTTP clients. Returns the status of the response.
async fn request(
    caller: &Caller,
    path: &str,
    script: Vec<Json>,
    start: impl Fn() -> usize + Clone + Send + 'static,
) -> Result<u16, Error<Infallible>> {
    let service = service_fn(move |_: Request<Empty<Bytes>>| {
        let (script, number_of) = (script.clone(), start());
        async move {
            let ours = scripted(script, number_of).await;
            let status = if ours[1] == "ok" { 200 } else { 429 };
            let answer = Response::builder().status(status);
            let answer = match ours.get(2) {
                Some(after) => answer.header("Retry-After", number(after) / 1_000),
                None => answer,
            };
            Ok::<_, Infallible>(answer.body(Empty::<Bytes>::new()).expect("an answer"))
        }
    });
    let request =
        Request::get(format!("http://service.example{path}")).body(Empty::new()).expect("a request");
    let answer = caller.http_layer().layer(service).oneshot(request).await?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await.expect("its body is empty");
    Ok(status)
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
    let note = {
        let starts = Arc::clone(&starts);
        move || {
            let mut starts = starts.lock().expect("nobody panics with it");
            starts.push(now());
            starts.len()
        }
    };
    let ended = match given["path"].as_str() {
        Some(path) => match request(&caller, path, script, note).await {
            Ok(200) => Ok(()),
            Ok(_) => Err(None),
            Err(error) => Err(error.stopped().map(|stopped| stopped.code)),
        },
        None => match caller.run(|_| attempt(script.clone(), note())).await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.stopped().map(|stopped| stopped.code)),
        },
    };
    let end = match ended {
        Ok(()) => "ok".to_owned(),
        Err(None) => "failure".to_owned(),
        Err(Some(code)) => code.name().to_owned(),
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
        let document = Document::from_json(&scenario["document"].to_string()).expect("a valid document");
        let processes = scenario.get("processes");
        let store = Twin { store: Arc::default(), start: Instant::now() };
        let engine = |process| {
            let engine = Engine::new(number(&scenario["seed"]) + process);
            if processes.is_some() {
                engine.attach_store(store.clone(), StoreKind::Lua, "");
            }
            let policies = engine.load(&document).expect("its names are free");
            (engine, policies)
        };
        let fleet: Vec<_> = (0..processes.map_or(1, number)).map(engine).collect();
        let (start, mut tasks) = (Instant::now(), JoinSet::new());
        let calls = list(&scenario["calls"]);
        for (place, given) in calls.iter().cloned().enumerate() {
            let named = |policy: &&Policy| policy.name() == given["policy"].as_str().expect("a name");
            let process =
                given["process"].as_u64().map_or(0, |process| usize::try_from(process).expect("a few"));
            let policy = fleet[process].1.iter().find(named).expect("it is declared").clone();
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
        for (engine, _) in &fleet {
            nothing_left(engine);
        }
    }
}
