//! Eight separate processes and one store: the declared rate, and one breaker.

use std::time::Duration;

use tidegate_fleet_tests::crew::{Crew, Work, breaker, numbers, starts};
use tidegate_fleet_tests::{Server, Word};

const SETUP: Duration = Duration::from_secs(2);

fn run(work: Work) -> Vec<serde_json::Value> {
    let server = Server::start(&[]);
    // These tests are not about a lost store, so a machine that is busy for 50 ms must not cause one.
    let worker = [env!("CARGO_BIN_EXE_fleet-worker"), "--store-timeout", "2000"].map(str::to_owned).to_vec();
    let lines = Crew::start(&vec![worker; 8], server.address(), work, SETUP).join();
    let Word::List(keys) = server.connect().ok("KEYS *") else { panic!("a list") };
    assert!(keys.len() <= 4, "one bucket, one breaker: {keys:?}");
    lines
}

fn sum(lines: &[serde_json::Value], name: &str) -> u64 {
    lines.iter().map(|line| line[name].as_u64().unwrap()).sum()
}

#[test]
fn eight_processes_are_granted_the_declared_rate() {
    for lease in [1, 20] {
        let work =
            Work { rate: 400, burst: 100, lease, load: 100, seconds: 5, breaker: false, failing: None };
        let lines = run(work);
        let granted: u64 = starts(&lines).iter().sum();
        let due = u64::from(work.rate * work.seconds + work.burst);
        println!("lease {lease}: {granted} granted of {due}; {} commands", sum(&lines, "commands"));
        assert!(
            lines.iter().all(|line| numbers(line, "degraded").is_empty()),
            "the store was there all the time"
        );
        // The upper bound is the promise. The lower one has slack, because a busy machine may ask too late for tokens
        // that flow in.
        let slack = due / 10 + 8 * u64::from(lease);
        assert!((due - slack..=due + due / 100).contains(&granted), "lease {lease}: {granted} of {due}");
    }
}

#[test]
fn few_calls_touch_the_store_by_default() {
    // 5 % at 420/s: a lease of the tokens that flow in within 50 ms.
    let work = Work { rate: 420, burst: 420, lease: 21, load: 50, seconds: 5, breaker: false, failing: None };
    let lines = run(work);
    let (calls, commands) = (sum(&lines, "begun"), sum(&lines, "commands"));
    println!("{commands} commands for {calls} calls");
    // Each process sends two more commands at first: the server does not know its script's name yet, so it sends the
    // source.
    assert!(commands <= calls * 5 / 100 + 8 * 2, "{commands} commands for {calls} calls");
}

#[test]
fn one_process_that_trips_opens_the_breaker_of_all() {
    let work = Work {
        rate: 4_000,
        burst: 4_000,
        lease: 200,
        load: 100,
        seconds: 4,
        breaker: true,
        failing: Some(1_000),
    };
    let lines = run(work);
    let opened: Vec<u64> = lines
        .iter()
        .map(|line| {
            breaker(line).iter().find(|(_, to)| *to == 1).unwrap_or_else(|| panic!("never open: {line}")).0
        })
        .collect();
    let first = *opened.iter().min().unwrap();
    let last = *opened.iter().max().unwrap();
    println!("open at {opened:?} µs: the last {} ms after the first", (last - first) / 1_000);
    assert!((1_000_000..2_000_000).contains(&first), "the one whose upstream fails trips: {first}");
    // One exchange (250 ms), one round trip, and the delay of a machine four times slower. The break lasts more than a
    // second, so each process has learned of this break from the store and not of the next.
    assert!(last - first < 250_000 + 750_000, "{opened:?}");
    for line in &lines {
        assert_eq!(breaker(line).last().map(|(_, to)| *to), Some(0), "closed again: {line}");
    }
}
