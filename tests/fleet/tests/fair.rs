//! The fleet's bulkhead on a real server: several processes that want more slots than there are get equal shares.

use std::time::{Duration, Instant};

use tidegate::{Class, Value, Verdict};
use tidegate_fleet_tests::{Process, Server};

use Value::{Number, Text};

/// Calls that each process has started in `seconds`, where each wants twice the limit all the time. The first one has
/// all slots when the others come.
async fn started(limit: u32, processes: usize, seconds: u64) -> Vec<u64> {
    let server = Server::start(&[]);
    let zero = Instant::now();
    let pairs = [
        ("bulkhead.max_concurrency", Number(f64::from(limit))),
        ("bulkhead.max_queue", Number(f64::from(2 * limit))),
        ("bulkhead.acquire_timeout", Number(60e6)),
        ("bulkhead.store", Text("fleet")),
        // This test is not about a lost store, so a machine that is busy for 50 ms must not cause one.
        ("store_timeout", Number(2e6)),
    ];
    let all: Vec<Process> =
        (0..processes).map(|it| Process::new(it as u64 + 1, &pairs, server.address(), zero)).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for (number, process) in all.iter().enumerate() {
        for _ in 0..2 * limit {
            let process = process.clone();
            tasks.spawn(async move {
                tokio::time::sleep(Duration::from_millis(if number == 0 { 0 } else { 300 })).await;
                let until = zero + Duration::from_secs(seconds + 1);
                while Instant::now() < until {
                    assert_eq!(process.call(Class::Ok, Duration::from_millis(50)).await, Verdict::Ok);
                }
            });
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let count = |it: &Process| it.seen(|seen| seen.starts.len() as u64);
    let before: Vec<u64> = all.iter().map(count).collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let after: Vec<u64> = all.iter().map(count).collect();
    let end = async {
        while let Some(done) = tasks.join_next().await {
            done.expect("a call that ends well");
        }
    };
    tokio::time::timeout(Duration::from_secs(30), end).await.expect("every call ends (R1)");
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

#[tokio::test]
async fn processes_on_a_real_server_get_even_parts() {
    // Hand-off alone would leave all slots with the first process: 707 calls against 10.
    for (limit, processes) in [(4, 2), (20, 2), (4, 3)] {
        let counts = started(limit, processes, 5).await;
        let (least, most) = (*counts.iter().min().unwrap() as f64, *counts.iter().max().unwrap() as f64);
        println!("limit {limit}: {counts:?}");
        // The shares stay even on a busy machine, because a slow machine slows all processes alike.
        assert!(most <= 1.2 * least, "limit {limit}: {counts:?}");
    }
}
