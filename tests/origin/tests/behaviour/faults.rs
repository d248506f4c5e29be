//! Each fault as a client observes it.

use crate::client::{Client, End, asked, eventually, get, origin};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tidegate_origin::Origin;

fn faulty(fault: &Value) -> Origin {
    origin(&json!({"rules": [{"first": 1, "respond": fault}]}))
}

fn counted(origin: &Origin, fault: &str, status: Option<u16>) {
    let stats = origin.stats();
    assert_eq!(stats.by_fault.get(fault), Some(&1));
    assert!(stats.by_status.is_empty() && stats.abandoned == 0 && stats.in_flight == 0);
    let log = origin.log();
    assert_eq!((log[0].fault, log[0].status), (Some(fault), status));
    assert_eq!(get(origin, "/").status, 200, "only that connection ends");
}

#[test]
fn reset_is_an_rst_before_any_byte() {
    let origin = faulty(&json!({"fault": "reset"}));
    assert_eq!(asked(&origin, "/").rest(), (Vec::new(), End::Rst));
    counted(&origin, "reset", None);
}

#[test]
fn close_is_a_fin_before_any_byte() {
    let origin = faulty(&json!({"fault": "close"}));
    assert_eq!(asked(&origin, "/").rest(), (Vec::new(), End::Fin));
    counted(&origin, "close", None);
}

#[test]
fn close_stays_a_fin_after_a_large_request_body() {
    let origin = faulty(&json!({"fault": "close"}));
    let mut client = Client::connect(origin.address()).expect("it listens");
    client.send("POST", "/", "", &vec![b'y'; 300_000]);
    assert_eq!(client.rest(), (Vec::new(), End::Fin));
    assert_eq!(origin.stats().body_bytes, 300_000);
}

#[test]
fn close_stays_a_fin_over_bytes_that_nobody_reads() {
    let origin = faulty(&json!({"fault": "close", "delay": 100}));
    let mut client = asked(&origin, "/");
    client.send("POST", "/pipelined", "", &vec![b'y'; 100_000]);
    assert_eq!(client.rest(), (Vec::new(), End::Fin));
    assert!(client.afterwards().is_none(), "no RST behind the FIN");
    assert_eq!(origin.stats().requests, 1);
}

#[test]
fn garbage_is_not_http() {
    let origin = faulty(&json!({"fault": "garbage"}));
    let (bytes, end) = asked(&origin, "/").rest();
    assert!(!bytes.is_empty() && !bytes.starts_with(b"HTTP/"));
    assert_eq!(end, End::Fin);
    counted(&origin, "garbage", None);
}

#[test]
fn reset_after_headers_sends_the_head_first() {
    let fault =
        json!({"status": 201, "headers": {"x-a": "b"}, "body_bytes": 50, "fault": "reset_after_headers"});
    let origin = faulty(&fault);
    let (bytes, end) = asked(&origin, "/").rest();
    let head = String::from_utf8(bytes).expect("a head is text");
    assert!(head.starts_with("HTTP/1.1 201 Created\r\ncontent-length: 50\r\n"), "{head}");
    assert!(head.contains("x-a: b\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(end, End::Rst);
    counted(&origin, "reset_after_headers", Some(201));
}

#[test]
fn truncate_sends_half_of_what_it_promised() {
    let origin = faulty(&json!({"body_bytes": 1_000_000, "retry_after": "9", "fault": "truncate"}));
    let (bytes, end) = asked(&origin, "/").rest();
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
    let head = String::from_utf8_lossy(&bytes[..at]);
    assert!(head.contains("content-length: 1000000\r\n") && head.contains("retry-after: 9\r\n"), "{head}");
    assert_eq!((bytes.len() - at, end), (500_000, End::Fin));
    counted(&origin, "truncate", Some(200));
}

#[test]
fn slow_body_arrives_whole_and_slowly() {
    let origin =
        faulty(&json!({"body": "0123456789", "fault": "slow_body", "chunk_bytes": 4, "chunk_every": 30}));
    let begin = Instant::now();
    let mut client = asked(&origin, "/");
    let reply = client.reply().expect("a whole answer");
    assert_eq!(reply.body, b"0123456789");
    assert!(begin.elapsed() >= Duration::from_millis(90), "three pieces, a pause before each");
    counted(&origin, "slow_body", Some(200));
    client.send("GET", "/", "", b"");
    assert_eq!(client.reply().expect("the connection is kept").status, 200);
}

#[test]
fn slow_body_shows_its_head_at_once() {
    let origin = faulty(&json!({"body_bytes": 10, "fault": "slow_body", "chunk_every": 60_000}));
    let mut client = asked(&origin, "/");
    eventually("the head is counted", || origin.stats().by_fault.contains_key("slow_body"));
    let patience = Duration::from_secs(1);
    let head = client.whatever_comes_within(patience);
    assert!(
        head.ends_with(b"\r\n\r\n"),
        "the head and nothing of the body: {:?}",
        String::from_utf8_lossy(&head)
    );
}

#[test]
fn hang_never_answers_and_is_abandoned_when_the_client_leaves() {
    let origin = faulty(&json!({"fault": "hang"}));
    let mut client = asked(&origin, "/");
    eventually("it hangs", || origin.stats().by_fault.contains_key("hang"));
    assert!(client.whatever_comes_within(Duration::from_millis(150)).is_empty());
    let stats = origin.stats();
    assert_eq!((stats.by_fault["hang"], stats.in_flight, stats.abandoned), (1, 1, 0));
    drop(client);
    eventually("the hang is abandoned", || origin.stats().abandoned == 1);
    assert_eq!(origin.stats().in_flight, 0);
    assert!(origin.log()[0].abandoned);
}

#[test]
fn a_fault_comes_after_its_delay() {
    let origin = faulty(&json!({"fault": "reset", "delay": 80}));
    let begin = Instant::now();
    assert_eq!(asked(&origin, "/").rest().1, End::Rst);
    assert!(begin.elapsed() >= Duration::from_millis(80));
}

#[test]
fn a_client_that_breaks_off_its_body_is_abandoned() {
    let origin = origin(&json!({}));
    let mut client = Client::connect(origin.address()).expect("it listens");
    client.write("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nonly this");
    eventually("the head has arrived", || origin.stats().requests == 1);
    drop(client);
    eventually("it is abandoned", || origin.stats().abandoned == 1);
    assert!(origin.stats().by_status.is_empty());
}
