//! What answers of metered services say, against the vectors that every language shares (`tests/README.md`).
#![allow(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::path::PathBuf;

use serde_json::Value as Json;
use tidegate::answer::{
    Estimate, EventStream, Factors, Failure, Measure, Quota, Quotas, Usage, UsageReader, parse_go_duration,
    parse_rfc3339,
};
use tidegate::{Duration, WallTime};

fn file() -> Json {
    named("services.json")
}

fn named(name: &str) -> Json {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/answer").join(name);
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn headers(case: &Json) -> Vec<(&[u8], &[u8])> {
    let pairs = case["headers"].as_array().unwrap();
    pairs
        .iter()
        .map(|pair| (pair[0].as_str().unwrap().as_bytes(), pair[1].as_str().unwrap().as_bytes()))
        .collect()
}

#[test]
fn spans_and_moments_are_read_as_the_model_reads_them() {
    let file = file();
    let texts = |list: &str| file[list].as_array().unwrap().clone();
    let (spans, moments) = (texts("go_durations"), texts("moments"));
    assert!(spans.len() >= 40 && moments.len() >= 27);
    for case in spans {
        let found = parse_go_duration(case["value"].as_str().unwrap().as_bytes());
        assert_eq!(found.map(Duration::as_micros), case["us"].as_u64(), "{case}");
    }
    for case in moments {
        let found = parse_rfc3339(case["value"].as_str().unwrap().as_bytes());
        assert_eq!(found.map(WallTime::as_unix_micros), case["unix_us"].as_u64(), "{case}");
    }
}

#[test]
fn quotas_are_read_as_the_model_reads_them() {
    let file = file();
    let wall = WallTime::from_unix_micros(file["wall_us"].as_u64().unwrap());
    let cases = file["quotas"].as_array().unwrap();
    assert!(cases.len() >= 17);
    for case in cases {
        let quotas = Quotas::read(&headers(case), wall);
        for measure in Measure::ALL {
            let expected = &case["quotas"][measure.name()];
            let found = Quota {
                limit: expected["limit"].as_u64(),
                remaining: expected["remaining"].as_u64(),
                reset: expected["reset"].as_u64().map(Duration::from_micros),
            };
            assert_eq!(quotas.get(measure), found, "{} of {case}", measure.name());
        }
        assert_eq!(quotas.wait().map(Duration::as_micros), case["wait_us"].as_u64(), "{case}");
    }
}

#[test]
fn failures_mean_what_a_hand_wrote_beside_them() {
    let file = file();
    let cases = file["failures"].as_array().unwrap();
    assert!(cases.len() >= 88);
    for case in cases {
        let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
        let failure = Failure::read(status, &headers(case), case["body"].as_str().unwrap().as_bytes());
        assert_eq!(failure.map(|failure| failure.meaning.name()), case["meaning"].as_str(), "{case}");
        let wait = failure.and_then(|failure| failure.retry_after);
        assert_eq!(wait.map(Duration::as_micros), case["retry_after_us"].as_u64(), "{case}");
    }
}

/// An answer that is cut anywhere is a failure all the same, and never a less patient one for a shorter text.
#[test]
fn a_body_that_is_cut_still_means_a_failure() {
    let file = file();
    for case in file["failures"].as_array().unwrap() {
        let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
        let body = case["body"].as_str().unwrap().as_bytes();
        for end in 0..body.len() {
            let failure = Failure::read(status, &headers(case), &body[..end]);
            assert!(status < 400 || failure.is_some(), "{case} cut at {end}");
        }
    }
}

#[test]
fn streams_are_read_as_the_model_reads_them() {
    let file = file();
    let cases = file["streams"].as_array().unwrap();
    assert!(cases.len() >= 20);
    for case in cases {
        let names: Vec<_> =
            case["uncounted"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let mut stream = EventStream::new(&names);
        for (place, piece) in case["pieces"].as_array().unwrap().iter().enumerate() {
            let found = stream.read(piece["bytes"].as_str().unwrap().as_bytes());
            assert_eq!(Some(found.counts), piece["counts"].as_bool(), "piece {place} of {case}");
            let meaning = found.failure.map(|failure| failure.meaning.name());
            assert_eq!(meaning, piece["meaning"].as_str(), "piece {place} of {case}");
        }
    }
}

fn factors(file: &Json) -> Vec<Factors> {
    let factor = |list: &Json, place: usize| u32::try_from(list[place].as_u64().unwrap()).unwrap();
    let lists = file["factors"].as_array().unwrap();
    lists
        .iter()
        .map(|list| Factors { input: factor(list, 0), cached: factor(list, 1), output: factor(list, 2) })
        .collect()
}

/// Spec 15.6, in whole and in pieces of any size.
#[test]
fn usages_are_read_as_the_model_reads_them() {
    let file = named("usage.json");
    let cases = file["usages"].as_array().unwrap();
    assert!(cases.len() >= 34);
    for case in cases {
        let body = match case["hex"].as_str() {
            Some(hex) => (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect(),
            None => case["text"].as_str().unwrap().as_bytes().to_vec(),
        };
        let usage = Usage::read(&body);
        let found = [usage.input, usage.cached, usage.output];
        assert_eq!(found, ["input", "cached", "output"].map(|part| case[part].as_u64()), "{case}");
        let weights: Vec<_> = factors(&file).into_iter().map(|factors| usage.weight(factors)).collect();
        let expected: Vec<_> = case["weights"].as_array().unwrap().iter().map(Json::as_u64).collect();
        assert_eq!(weights, expected, "{case}");
        for size in [1, 2, 3, 5, 17, 64] {
            let mut reader = UsageReader::new();
            for piece in body.chunks(size) {
                reader.read(piece);
            }
            assert_eq!(reader.usage(), usage, "in pieces of {size}: {case}");
        }
    }
}

/// Spec 15.7.
#[test]
fn estimates_are_what_the_model_says() {
    let file = named("usage.json");
    let output = file["default_output"].as_u64().unwrap();
    let cases = file["estimates"].as_array().unwrap();
    assert!(cases.len() >= 12);
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap().as_bytes();
        let estimate = Estimate::read(text("path"), text("body"));
        assert_eq!(Some(estimate.input), case["input"].as_u64(), "{case}");
        assert_eq!(
            (estimate.output, Some(estimate.stream)),
            (case["output"].as_u64(), case["stream"].as_bool()),
            "{case}"
        );
        for (place, factors) in factors(&file).into_iter().enumerate() {
            assert_eq!(Some(estimate.weight(output, factors)), case["weights"][place].as_u64(), "{case}");
        }
    }
}
