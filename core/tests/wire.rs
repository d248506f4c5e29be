//! The words of the border against the vectors that every language shares.

use serde_json::Value as Json;
use tidegate::{
    Action, AttemptSlot, CallId, Criticality, Duration, Event, Flags, Kind, Opinion, Outcome, PathId,
    Request, Step, Verdict, Wait, wire,
};

fn vectors(family: &str) -> Vec<Json> {
    let text = include_str!("../../tests/vectors/wire/words.json");
    let all: Json = serde_json::from_str(text).unwrap();
    all[family].as_array().unwrap().clone()
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("a number, not {json}"))
}

fn micros(json: &Json) -> Option<Duration> {
    json.as_u64().map(Duration::from_micros)
}

fn lane(json: &Json) -> Option<AttemptSlot> {
    json.as_u64().map(|lane| AttemptSlot::of(lane as u8 + 1))
}

fn step(json: &Json) -> Step {
    let action = match json["action"].as_str().unwrap() {
        "done" => Action::Done {
            verdict: *Verdict::ALL.iter().find(|v| v.name() == json["verdict"]).unwrap(),
            result: lane(&json["result"]),
            retry_in: micros(&json["retry_in_us"]),
        },
        "attempt" => Action::Attempt { attempt: number(&json["attempt"]) as u8, hedge: json["hedge"] == 1 },
        _ => {
            let name = json["why"].as_str().unwrap();
            Action::Wait {
                why: Wait::ALL.into_iter().find(|w| format!("{w:?}").to_lowercase() == name).unwrap(),
            }
        }
    };
    let flags =
        Flags { wakes: json["wakes"] == 1, commands: json["commands"] == 1, target: json["target"] == 1 };
    Step::new(action, micros(&json["next_us"])).stopping(number(&json["stop"]) as u8).with_flags(flags)
}

fn event(json: &Json) -> Event {
    let attempt = json["attempt"].as_u64().unwrap_or(0) as u8;
    match json["event"].as_str().unwrap() {
        "timer" => Event::Timer,
        "poll" => Event::Poll,
        "cancel" => Event::Cancel,
        "headers" => Event::Headers { attempt },
        "progress" => {
            Event::Progress { attempt, age: Duration::from_micros(json["age_us"].as_u64().unwrap()) }
        }
        _ => Event::Finished {
            attempt,
            outcome: Outcome {
                kind: Kind::new(number(&json["kind"]) as u8).unwrap(),
                opinion: match json["opinion"].as_str().unwrap() {
                    "retry" => Opinion::Retry,
                    "do_not" => Opinion::DoNot,
                    _ => Opinion::None,
                },
                retry_after: micros(&json["retry_after_us"]),
            },
        },
    }
}

#[test]
fn steps_pack_as_the_model_packs_them_and_come_back() {
    let cases = vectors("steps");
    assert!(cases.len() > 600);
    for case in &cases {
        let (word, step) = (number(&case["word"]), step(&case["step"]));
        assert_eq!(wire::pack_step(step), word, "{case}");
        let back = wire::unpack_step(word).unwrap();
        assert_eq!(wire::pack_step(back), word, "{case}");
        assert_eq!((back.stop(), back.flags()), (step.stop(), step.flags()), "{case}");
        let without_timer =
            step.next().is_none() && !matches!(step.action(), Action::Done { retry_in: Some(_), .. });
        assert_eq!(word < 1 << 22, without_timer, "{case}");
    }
}

#[test]
fn events_pack_as_the_model_packs_them_and_come_back() {
    let cases = vectors("events");
    assert!(cases.len() > 600);
    for case in &cases {
        let word = number(&case["word"]);
        assert_eq!(wire::pack_event(event(&case["event"])), word, "{case}");
        let back = wire::unpack_event(word).unwrap();
        assert_eq!(wire::pack_event(back), word, "{case}");
    }
}

#[test]
fn requests_pack_as_the_model_packs_them_and_come_back() {
    let cases = vectors("requests");
    assert!(cases.len() > 15);
    for case in &cases {
        let json = &case["request"];
        let request = Request {
            remaining: micros(&json["remaining_us"]),
            parent: Some(number(&json["parent"])).filter(|id| *id != 0).map(CallId::from_word),
            path: PathId::from_word(number(&json["target"])),
            criticality: match json["criticality"].as_str().unwrap() {
                "best_effort" => Criticality::BestEffort,
                "degraded" => Criticality::Degraded,
                "normal" => Criticality::Normal,
                _ => Criticality::Critical,
            },
            replayable: json["replayable"] == 1,
            idempotent: json["idempotent"] == 1,
            abortable: json["abortable"] == 1,
            may_park: json["may_park"] == 1,
            slot_until_body: json["slot_until_body"] == 1,
            solo: json["solo"] == 1,
            stream: json["stream"] == 1,
            cost: number(&json["cost"]) as u16,
        };
        let words: Vec<u64> = case["words"].as_array().unwrap().iter().map(number).collect();
        assert_eq!(wire::pack_request(&request).as_slice(), words, "{case}");
        assert_eq!(wire::unpack_request(words[0], words[1], words[2], words[3]), Some(request), "{case}");
    }
}

mod any_word {
    use super::wire;
    use proptest::prelude::*;

    proptest! {
        /// A word is either refused or is exactly the word of what it was read as.
        #[test]
        fn reads_back_or_is_refused(word in prop_oneof![any::<u64>(), 0u64..1 << 53, 0u64..1 << 22]) {
            if let Some(step) = wire::unpack_step(word) {
                prop_assert_eq!(wire::unpack_step(wire::pack_step(step)), Some(step));
            }
            if let Some(event) = wire::unpack_event(word) {
                prop_assert_eq!(wire::pack_event(event), word);
            }
            if let Some(request) = wire::unpack_request(word, 0, 0, 0) {
                prop_assert_eq!(wire::pack_request(&request)[0], word);
            }
        }
    }
}
