//! The control port: scripts, their mistakes, and the counts.

use crate::client::{Client, asked, control, eventually, get, origin};
use serde_json::{Value, json};
use tidegate_origin::Script;

#[test]
fn a_script_replaces_behaviour_counters_and_clock() {
    let origin = origin(&json!({"sequences": {"/": [{"status": 500}, {"status": 200}]}}));
    get(&origin, "/");
    let script = r#"{"sequences": {"/": [{"status": 502}, {"status": 200}]}}"#;
    assert_eq!(control(&origin, "PUT", "/script", script), (200, json!({"ok": true})));
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.connections_accepted, stats.by_path.len()), (0, 0, 0));
    assert!(stats.t < 2.0 && origin.log().is_empty());
    assert_eq!(get(&origin, "/").status, 502);
}

#[test]
fn a_reset_keeps_the_script_and_begins_it_again() {
    let origin = origin(&json!({"sequences": {"/": [{"status": 500}, {"status": 200}]}}));
    assert_eq!((get(&origin, "/").status, get(&origin, "/").status), (500, 200));
    assert_eq!(control(&origin, "POST", "/reset", ""), (200, json!({"ok": true})));
    assert_eq!(origin.stats().requests, 0);
    assert_eq!(get(&origin, "/").status, 500);
}

#[test]
fn a_request_ends_in_the_run_it_began_in() {
    let origin = origin(&json!({"default": {"delay": 100}}));
    let mut old = asked(&origin, "/");
    eventually("it is in flight", || origin.stats().in_flight == 1);
    origin.play(Script::default()).expect("in time");
    assert_eq!(old.reply().expect("an answer").status, 200);
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.in_flight, stats.by_status.len()), (0, 0, 0));
}

#[test]
fn every_mistake_is_named_by_key_value_and_rule() {
    let respond = |answer: Value| json!({"default": answer});
    let cases = [
        (json!([]), "script = []: must be an object"),
        (json!({"phasess": 1}), "phasess = 1: unknown key; known here: seed, capacity"),
        (json!({"seed": -1}), "seed = -1: must be a whole number"),
        (
            json!({"phases": [{}, {"error_rate": 1.5}]}),
            "phases[1].error_rate = 1.5: must be a number from 0 to 1",
        ),
        (json!({"phases": [{"from": 5, "until": 5}]}), "phases[0].until = 5: must be later than from (5)"),
        (json!({"phases": [{"workers": 1}]}), "phases[0].workers = 1: needs capacity"),
        (json!({"phases": {}}), "phases = {}: must be a list"),
        (json!({"capacity": {"workers": 0}}), "capacity.workers = 0: must be a whole number from 1"),
        (json!({"capacity": {"service": "5"}}), "capacity.service = \"5\": must be milliseconds or"),
        (
            json!({"capacity": {"when_full": {"uses_capacity": true}}}),
            "capacity.when_full.uses_capacity = true",
        ),
        (json!({"rules": [{"match": {"paht": "/"}}]}), "rules[0] = "),
        (
            json!({"rules": [{"match": {"paht": "/"}, "respond": {}}]}),
            "rules[0].match.paht = \"/\": unknown key",
        ),
        (
            json!({"rules": [{"match": {"path": "x"}, "respond": {}}]}),
            "rules[0].match.path = \"x\": a path begins",
        ),
        (json!({"rules": [{"match": {"method": "G T"}, "respond": {}}]}), "rules[0].match.method = \"G T\""),
        (json!({"sequences": {"/a": []}}), "sequences[\"/a\"] = []: must have at least one"),
        (
            json!({"sequences": {"/a": [{"status": 99}]}}),
            "sequences[\"/a\"][0].status = 99: must be a whole number",
        ),
        (respond(json!({"status": 600})), "default.status = 600: must be a whole number from 200 to 599"),
        (respond(json!({"fault": "explode"})), "default.fault = \"explode\": must be null, reset"),
        (respond(json!({"body": "a", "echo": true})), "exclude each other"),
        (respond(json!({"headers": {"content-length": "3"}})), "the origin frames bodies itself"),
        (
            respond(json!({"headers": {"a": "b\nc"}})),
            "default.headers[\"a\"] = \"b\\nc\": must be a header value",
        ),
        (respond(json!({"headers": [["a"]]})), "default.headers[0] = [\"a\"]: must be a pair"),
        (respond(json!({"retry_after": true})), "default.retry_after = true: must be a string or a number"),
        (respond(json!({"uses_capacity": true})), "default.uses_capacity = true: needs capacity"),
        (respond(json!({"chunk_bytes": 3})), "default.chunk_bytes = 3: needs fault slow_body"),
        (respond(json!({"delay": {"kind": "gauss"}})), "default.delay.kind = \"gauss\": must be constant"),
        (respond(json!({"delay": {"kind": "pareto"}})), "kind pareto needs alpha"),
        (respond(json!({"delay": -1})), "default.delay = -1: must be a number from 0"),
    ];
    let origin = origin(&json!({"default": {"status": 202}}));
    for (script, message) in cases {
        let (status, answer) = control(&origin, "PUT", "/script", &script.to_string());
        let error = answer["error"].as_str().expect("an error");
        assert!(status == 400 && error.contains(message), "{script}: {status} {error}, not {message}");
    }
    let (status, answer) = control(&origin, "PUT", "/script", "{\"seed\": }");
    assert!(
        status == 400 && answer["error"].as_str().expect("an error").contains("must be JSON: expected value")
    );
    assert_eq!(get(&origin, "/").status, 202, "the script before goes on");
}

#[test]
fn stats_count_requests_connections_paths_and_bodies() {
    let origin = origin(&json!({"rules": [{"match": {"path": "/e"}, "respond": {"status": 503}}]}));
    get(&origin, "/a?x=1");
    get(&origin, "/a");
    get(&origin, "/e");
    let mut client = Client::connect(origin.address()).expect("it listens");
    client.send("POST", "/b", "", b"12345");
    client.reply().expect("an answer");
    eventually("three connections are closed", || origin.stats().connections_open == 1);
    let (_, stats) = control(&origin, "GET", "/stats", "");
    assert_eq!(stats["requests"], 4);
    assert_eq!(stats["by_status"], json!({"200": 3, "503": 1}));
    assert_eq!(stats["by_path"], json!({"/a": 2, "/b": 1, "/e": 1}));
    assert_eq!(stats["by_fault"], json!({}));
    assert_eq!((&stats["connections_accepted"], &stats["body_bytes"]), (&json!(4), &json!(5)));
    let zeros = ["in_flight", "in_service", "queued", "max_in_service", "max_queued", "abandoned"];
    assert!(zeros.iter().all(|key| stats[key] == 0), "{stats}");
}

#[test]
fn the_log_shows_each_request_as_it_came() {
    let origin = origin(&json!({}));
    let mut client = Client::connect(origin.address()).expect("it listens");
    client.send(
        "PATCH",
        "/p?q=%20",
        "X-Twice: 1\r\nx-twice: 2\r\n",
        &[b"h\xffi".as_slice(), &[b'z'; 5000]].concat(),
    );
    client.reply().expect("an answer");
    let (_, log) = control(&origin, "GET", "/log", "");
    let entry = &log[0];
    assert_eq!((&entry["seq"], &entry["method"]), (&json!(0), &json!("PATCH")));
    assert_eq!((&entry["path"], &entry["status"]), (&json!("/p?q=%20"), &json!(200)));
    assert_eq!((&entry["fault"], &entry["body_length"]), (&Value::Null, &json!(5003)));
    let headers = entry["headers"].as_array().expect("pairs");
    let twice: Vec<_> = headers.iter().filter(|pair| pair[0] == "x-twice").map(|pair| &pair[1]).collect();
    assert_eq!(twice, [&json!("1"), &json!("2")]);
    let body = entry["body"].as_str().expect("a text");
    assert!(body.starts_with("h\u{fffd}iz") && body.chars().count() == 4096);
    assert!(entry["t"].as_f64() <= entry["answered_t"].as_f64() && entry["connection"].as_u64() == Some(1));
}

#[test]
fn the_series_has_a_place_for_everything() {
    let origin = origin(&json!({
        "capacity": {"workers": 1, "queue": 1, "service": 250},
        "rules": [{"match": {"path": "/reset"}, "respond": {"fault": "reset"}}]}));
    let mut first = asked(&origin, "/");
    eventually("it is served", || origin.stats().in_service == 1);
    let second = asked(&origin, "/");
    eventually("it waits", || origin.stats().queued == 1);
    get(&origin, "/");
    asked(&origin, "/reset").rest();
    drop(second);
    eventually("it has left", || origin.stats().abandoned == 1);
    first.reply().expect("an answer");
    let (status, series) = control(&origin, "GET", "/series?bucket=60", "");
    assert_eq!((status, &series["bucket"]), (200, &json!(60.0)));
    let bucket = json!({"t": 0.0, "arrivals": 4, "ok": 1, "errors": {"503": 1}, "faults": {"reset": 1},
                        "max_in_service": 1, "max_queued": 1, "abandoned": 1});
    assert_eq!(series["buckets"], json!([bucket]));
    let (_, fine) = control(&origin, "GET", "/series?bucket=0.1", "");
    let buckets = fine["buckets"].as_array().expect("a list");
    assert!(buckets.len() >= 3, "at least 250 ms have passed");
    assert_eq!(buckets.iter().map(|bucket| bucket["arrivals"].as_u64().expect("a count")).sum::<u64>(), 4);
}

#[test]
fn wrong_turns_on_the_control_port_say_where_to_go() {
    let origin = origin(&json!({}));
    let (status, answer) = control(&origin, "GET", "/nothing", "");
    assert_eq!(
        (status, answer["error"].as_str().is_some_and(|why| why.contains("PUT /script"))),
        (404, true)
    );
    assert_eq!(control(&origin, "POST", "/script", "{}").0, 405);
    assert_eq!(control(&origin, "GET", "/series?bucket=-1", "").0, 400);
    assert_eq!(origin.stats().requests, 0, "control is not counted");
}
