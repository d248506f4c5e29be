//! Many connections at once, with every request counted.

use crate::client::{Client, asked, origin};
use serde_json::json;
use std::time::Instant;

#[test]
fn a_thousand_connections_wait_at_once() {
    let origin = origin(&json!({"capacity": {"workers": 1000, "queue": 1000, "service": 500}}));
    let mut clients: Vec<Client> = (0..1000).map(|_| asked(&origin, "/")).collect();
    for client in &mut clients {
        assert_eq!(client.reply().expect("an answer").status, 200);
    }
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.by_status[&200], stats.connections_open), (1000, 1000, 1000));
    assert!(stats.max_in_service > 100, "many at once, not one by one: {}", stats.max_in_service);
}

#[test]
fn nothing_is_lost_under_load_and_the_log_is_bounded() {
    let origin = origin(&json!({}));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::connect(origin.address()).expect("it listens");
                for _ in 0..1500 {
                    client.send("GET", "/", "", b"");
                    client.reply().expect("an answer");
                }
            });
        }
    });
    let rate = 12_000.0 / begin.elapsed().as_secs_f64();
    println!("{rate:.0} requests/s, client and server together, as this profile builds them");
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.by_status[&200], stats.in_flight), (12_000, 12_000, 0));
    let log = origin.log();
    assert_eq!((log.len(), log[0].seq, log[9_999].seq), (10_000, 2_000, 11_999));
}
