//! What callers put into paths comes out nowhere: not in a journal, a saved state, a view, a record, an explanation or a metric.

use crate::host::{SECOND, at};
use Value::{Number, Text};
use tidegate::{
    Action, Answer, Class, Duration, Engine, Event, Input, Meter, Options, Outcome, Policy, Record, Request,
    Value, Wait,
};

/// A bot's token as a segment of the path, a key in the query, another in the fragment.
const SECRETS: [&str; 3] =
    ["bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "key-CANARY-in-query", "CANARY-fragment"];
const NAMES: [&str; 4] = ["zebras", "walruses", "ibexes", "okapis"];

fn path() -> String {
    format!("/{}/{}?api_key={}&x=1#{}", SECRETS[0], NAMES.join("/"), SECRETS[1], SECRETS[2])
}

fn engine() -> Engine {
    Engine::new(5, Options::default().journal(true))
}

/// A throttled call to a secret path, one that is held behind it, and all that the engine says meanwhile.
fn story() -> (Engine, String) {
    let mut engine = engine();
    engine.subscribe(true);
    let mut meter = Meter::new(10);
    let pairs = [
        ("retry.hold", Number(1.0)),
        ("retry.max_held", Number(3.0)),
        ("retry.backoff.jitter", Text("none")),
        ("retry.retry_after", Text("exact")),
        ("breaker.consecutive", Number(3.0)),
        ("breaker.break_duration", Number(1e6)),
    ];
    let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
    let route = engine.route(policy, "api", at(0));
    let request = |engine: &mut Engine, now| Request {
        path: engine.path_id(route, &path(), at(now)),
        ..Request::default()
    };
    let throttled = Outcome { retry_after: Some(Duration::from_secs(2)), ..Outcome::of(Class::Throttled) };
    let mut calls = Vec::new();
    for now in 0..5 {
        let first = request(&mut engine, now);
        let (call, step) = engine.begin(route, &first, at(now));
        calls.push(call);
        if let Action::Attempt { attempt, .. } = step.action() {
            let _ = engine.on(call, Event::Finished { attempt, outcome: throttled }, at(now));
        } else {
            assert!(
                now > 0 && matches!(step.action(), Action::Wait { why: Wait::Hold } | Action::Done { .. })
            );
        }
    }
    let mut said = Vec::new();
    said.push(engine.save(at(10)));
    said.push(format!("{:?}", engine.snapshot(at(10))));
    said.push(format!("{engine:?}"));
    for call in &calls {
        said.push(format!("{:?}", engine.explain_call(*call)));
        let _ = engine.on(*call, Event::Cancel, at(SECOND));
    }
    said.push(format!("{:?}", engine.explain_policy(policy)));
    let mut records: Vec<Record> = Vec::new();
    engine.take_records(&mut records);
    for record in &records {
        said.push(format!("{record} {record:?}"));
        meter.add(&engine, record);
    }
    said.push(format!("{:?}", meter.read(&engine, at(SECOND))));
    let damaged = engine.save(at(10)).replace("\"holds\":[[", "\"holds\":[[7,");
    said.push(format!("{:?}", self::engine().restore(&damaged, Duration::ZERO, at(0))));
    said.extend(engine.journal().map(|input| format!("{input} {input:?}")));
    assert!(said.iter().any(|text| text.contains("holds")) && records.len() > 5);
    let all = said.join("\n");
    (engine, all)
}

#[test]
fn no_path_stands_in_anything_that_an_engine_says() {
    let (_, said) = story();
    for secret in SECRETS.iter().chain(&NAMES) {
        assert!(!said.contains(secret), "{secret} stands in what was said");
    }
    // Nor half of one.
    assert!(!said.contains("AAHdqTcv") && !said.contains("CANARY"));
}

#[test]
fn a_journal_without_paths_replays_to_the_same_answers() {
    let (first, _) = story();
    let lines: Vec<_> = first.journal().map(ToString::to_string).collect();
    let mut again = engine();
    let answers = again.replay(lines.iter().map(|line| line.parse::<Input>().unwrap()));
    assert!(answers.iter().any(|it| matches!(it, Answer::Step(step) | Answer::Begin(_, step)
        if matches!(step.action(), Action::Wait { why: Wait::Hold }))));
    assert!(again.journal().eq(first.journal()));
    assert_eq!(again.save(at(2 * SECOND)), first.save(at(2 * SECOND)));
}
