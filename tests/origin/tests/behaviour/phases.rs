//! Behaviour that changes with the script's clock.

use crate::client::{Client, End, asked, control, eventually, get, origin};
use serde_json::json;
use std::io;
use std::time::Duration;
use tidegate_origin::Script;

#[test]
fn refuse_closes_the_port_and_opens_it_again() {
    let origin = origin(&json!({}));
    let address = origin.address();
    let script = json!({"phases": [{"from": 0, "until": 0.4, "refuse": true}]});
    origin.play(Script::from_value(&script).expect("valid")).expect("in time");
    let refused = || Client::connect(address).err().map(|error| error.kind());
    assert_eq!(refused(), Some(io::ErrorKind::ConnectionRefused));
    assert_eq!(control(&origin, "GET", "/stats", "").0, 200, "control is not touched");
    eventually("it opens again", || refused().is_none());
    assert!(origin.stats().t >= 0.4);
    assert_eq!(get(&origin, "/").status, 200);
}

#[test]
fn refuse_begins_in_the_middle_and_resets_old_connections_when_they_are_used() {
    let origin = origin(&json!({"phases": [{"from": 0.3, "refuse": true}]}));
    let mut kept = asked(&origin, "/");
    assert_eq!(kept.reply().expect("an answer").status, 200);
    eventually("it closes", || Client::connect(origin.address()).is_err());
    assert!(origin.stats().t >= 0.3);
    kept.send("GET", "/", "", b"");
    assert_eq!(kept.rest(), (Vec::new(), End::Rst));
    assert_eq!(origin.stats().by_fault["refused"], 1);
    origin.play(Script::default()).expect("in time");
    assert_eq!(get(&origin, "/").status, 200, "open as soon as the new script is in force");
}

#[test]
fn an_error_rate_holds_in_its_phase_only() {
    let origin = origin(&json!({"phases": [{"from": 0.0, "until": 0.3, "error_rate": 1.0}]}));
    assert_eq!(get(&origin, "/").status, 500, "500 is the default error");
    eventually("the phase ends", || get(&origin, "/").status == 200);
    assert!(origin.stats().t >= 0.3);
}

#[test]
fn an_error_rate_is_a_share() {
    let origin = origin(&json!({"phases": [{"error_rate": 0.3, "error": {"status": 502}}]}));
    let mut client = Client::connect(origin.address()).expect("it listens");
    for _ in 0..500 {
        client.send("GET", "/", "", b"");
        client.reply().expect("an answer");
    }
    let errors = origin.stats().by_status[&502];
    assert!((110..190).contains(&errors), "{errors} of 500 at 0.3");
}

#[test]
fn later_phases_win_key_by_key() {
    let origin = origin(&json!({"phases": [
        {"error_rate": 1.0, "error": {"status": 502}}, {"error": {"status": 504}}]}));
    assert_eq!(get(&origin, "/").status, 504);
}

#[test]
fn workers_change_live() {
    let origin = origin(&json!({
        "capacity": {"workers": 3, "queue": 10, "service": 10},
        "phases": [{"from": 0, "until": 0.4, "workers": 0}]}));
    let mut clients: Vec<_> = (0..3).map(|_| asked(&origin, "/")).collect();
    eventually("all wait", || origin.stats().queued == 3);
    assert_eq!(origin.stats().in_service, 0);
    for client in &mut clients {
        assert_eq!(client.reply().expect("an answer").status, 200);
    }
    let stats = origin.stats();
    assert!(stats.t >= 0.4, "nobody worked before");
    assert_eq!(stats.max_in_service, 3, "all three workers came at once");
}

#[test]
fn a_short_phase_ends_too() {
    let origin = origin(&json!({
        "capacity": {"workers": 1, "service": 0}, "phases": [{"from": 0, "until": 0.05, "workers": 0}]}));
    assert_eq!(get(&origin, "/").status, 200);
    assert!(origin.stats().t >= 0.05);
}

#[test]
fn the_service_factor_slows_every_service() {
    let origin = origin(&json!({
        "capacity": {"workers": 1, "service": 20}, "phases": [{"service_factor": 6}]}));
    assert_eq!(get(&origin, "/").status, 200);
    let entry = &origin.log()[0];
    assert!(entry.answered_t.expect("answered") - entry.t >= 0.12);
}

#[test]
fn rules_have_windows() {
    let origin = origin(&json!({"rules": [{"from": 0.2, "until": 0.5, "respond": {"status": 429}}]}));
    assert_eq!(get(&origin, "/").status, 200);
    eventually("the window opens", || get(&origin, "/").status == 429);
    assert!(origin.stats().t >= 0.2);
    std::thread::sleep(Duration::from_millis(10));
    eventually("the window closes", || get(&origin, "/").status == 200);
    assert!(origin.stats().t >= 0.5);
}
