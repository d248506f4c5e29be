//! Statuses, headers, bodies, `Retry-After`, sequences and rules.

use crate::client::{Client, get, origin};
use serde_json::json;
use std::time::{Duration, Instant, SystemTime};

fn statuses(origin: &tidegate_origin::Origin, path: &str, n: usize) -> Vec<u16> {
    (0..n).map(|_| get(origin, path).status).collect()
}

#[test]
fn the_empty_script_answers_200_at_once() {
    let origin = origin(&json!({}));
    let reply = get(&origin, "/any");
    assert_eq!((reply.status, reply.body.as_slice()), (200, b"OK\n".as_slice()));
    assert!(origin.stats().max_in_service == 0, "no capacity, no service");
}

#[test]
fn a_connection_is_kept_and_reused() {
    let origin = origin(&json!({}));
    let mut client = Client::connect(origin.address()).expect("it listens");
    for _ in 0..3 {
        client.send("GET", "/", "", b"");
        assert_eq!(client.reply().expect("an answer").status, 200);
    }
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.connections_accepted, stats.connections_open), (3, 1, 1));
    let log = origin.log();
    assert!(log.iter().all(|entry| entry.connection == log[0].connection));
}

#[test]
fn headers_may_repeat_and_bodies_have_the_length_asked_for() {
    let origin = origin(&json!({"default": {
        "status": 418, "headers": [["set-cookie", "a=1"], ["set-cookie", "b=2"]], "body_bytes": 70_000}}));
    let reply = get(&origin, "/");
    assert_eq!(reply.status, 418);
    assert_eq!(reply.header("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(reply.body.len(), 70_000);
}

#[test]
fn headers_may_be_an_object_and_the_body_a_text() {
    let origin = origin(&json!({"default": {"headers": {"x-a": "ä"}, "body": "grüß"}}));
    let reply = get(&origin, "/");
    assert_eq!(reply.body, "grüß".as_bytes());
    assert_eq!(reply.header("x-a"), ["ä"]);
}

#[test]
fn retry_after_is_sent_verbatim() {
    let values = ["7", "99999999999999999999", "soon", "-3", "1.5", "", "Wed, 21 Oct 2015 07:28:00 GMT"];
    let answers: Vec<_> = values.iter().map(|value| json!({"status": 503, "retry_after": value})).collect();
    let origin = origin(&json!({"sequences": {"/": answers}}));
    for value in values {
        assert_eq!(get(&origin, "/").header("retry-after"), [value]);
    }
}

#[test]
fn retry_after_as_a_date_is_counted_from_now() {
    let origin = origin(&json!({"sequences": {"/": [
        {"status": 429, "retry_after_date_in": 100}, {"status": 429, "retry_after_date_in": -100}]}}));
    for seconds in [100.0, -100.0] {
        let reply = get(&origin, "/");
        let date = httpdate::parse_http_date(reply.header("retry-after")[0]).expect("an HTTP date");
        let distance = match date.duration_since(SystemTime::now()) {
            Ok(ahead) => ahead.as_secs_f64(),
            Err(behind) => -behind.duration().as_secs_f64(),
        };
        assert!((distance - seconds).abs() < 3.0, "{distance} is not about {seconds}");
    }
}

#[test]
fn echo_sends_the_request_body_back() {
    let origin = origin(&json!({"default": {"echo": true}}));
    let body: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    let mut client = Client::connect(origin.address()).expect("it listens");
    client.send("POST", "/", "content-type: application/x-thing\r\n", &body);
    let reply = client.reply().expect("an answer");
    assert!(reply.body == body, "the same 200,000 bytes");
    assert_eq!(reply.header("content-type"), ["application/x-thing"]);
    assert_eq!(origin.stats().body_bytes, 200_000);
}

#[test]
fn a_delay_delays() {
    let origin = origin(&json!({"default": {"delay": {"kind": "uniform", "min_ms": 60, "max_ms": 70}}}));
    let begin = Instant::now();
    assert_eq!(get(&origin, "/").status, 200);
    assert!(begin.elapsed() >= Duration::from_millis(60));
}

#[test]
fn a_sequence_is_played_in_order_and_its_last_answer_repeats() {
    let origin = origin(&json!({"sequences": {"/s": [{"status": 503}, {"status": 429}, {"status": 201}]}}));
    assert_eq!(get(&origin, "/other").status, 200);
    assert_eq!(statuses(&origin, "/s?q=1", 5), [503, 429, 201, 201, 201]);
}

#[test]
fn rules_match_by_method_path_and_prefix_in_order() {
    let origin = origin(&json!({"rules": [
        {"match": {"method": "POST", "path": "/a"}, "respond": {"status": 501}},
        {"match": {"path_prefix": "/a"}, "respond": {"status": 502}},
        {"match": {"path": "/b"}, "first": 2, "respond": {"status": 503}},
        {"match": {"method": "GET", "path": "/b"}, "respond": {"status": 504}}]}));
    let mut client = Client::connect(origin.address()).expect("it listens");
    client.send("POST", "/a", "", b"");
    assert_eq!(client.reply().expect("an answer").status, 501);
    assert_eq!(get(&origin, "/a").status, 502);
    assert_eq!(get(&origin, "/abc").status, 502);
    assert_eq!(statuses(&origin, "/b", 3), [503, 503, 504]);
    assert_eq!(get(&origin, "/c").status, 200);
}

#[test]
fn a_sequence_comes_before_a_rule_and_a_rule_before_the_error_rate() {
    let origin = origin(&json!({
        "sequences": {"/s": [{"status": 201}]},
        "rules": [{"match": {"path": "/s"}, "respond": {"status": 202}},
                  {"match": {"path": "/r"}, "respond": {"status": 203}}],
        "phases": [{"error_rate": 1, "error": {"status": 502}}]}));
    assert_eq!(get(&origin, "/s").status, 201);
    assert_eq!(get(&origin, "/r").status, 203);
    assert_eq!(get(&origin, "/").status, 502);
}

#[test]
fn probability_follows_the_seed() {
    let script =
        |seed: u64| json!({"seed": seed, "rules": [{"probability": 0.5, "respond": {"status": 503}}]});
    let one = origin(&script(1));
    let first = statuses(&one, "/", 60);
    let failures = first.iter().filter(|status| **status == 503).count();
    assert!((15..45).contains(&failures), "{failures} of 60 at one half");
    one.reset().expect("in time");
    assert_eq!(statuses(&one, "/", 60), first, "a reset reseeds");
    assert_ne!(statuses(&origin(&script(2)), "/", 60), first, "another seed, other draws");
}
