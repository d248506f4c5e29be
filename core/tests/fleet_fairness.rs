//! A bulkhead of the fleet's is shared fairly (R2, semantics 10.10): a process that holds more than the fair level gives
//! a freed slot back while others want one.

use crate::fleet::{Faults, Pairs, SECOND, Sim};
use Value::{Number, Text};
use tidegate::Value;

fn slots(limit: u32) -> Pairs {
    vec![
        ("bulkhead.max_concurrency", Number(f64::from(limit))),
        ("bulkhead.store", Text("fleet")),
        ("bulkhead.max_queue", Number(f64::from(2 * limit))),
        ("bulkhead.acquire_timeout", Number(2e6)),
    ]
}

/// Calls that each process started in ten seconds, where each wants twice the limit; and how many fit.
fn started(limit: u32, processes: usize, service: u64, seed: u64) -> (Vec<usize>, f64) {
    let mut sim = Sim::new(seed, processes, &slots(limit), Faults::none());
    sim.check = false; // other tests look at the books; this one is about ten seconds
    sim.service = (service * 4 / 5, service * 6 / 5);
    // Arrivals are so frequent that twice the limit would run.
    let between = service / (2 * u64::from(limit));
    // The first process has all slots when the others come.
    sim.load((between * 4 / 5, between * 6 / 5), (1, 1), 0);
    sim.run_to(SECOND);
    let before: Vec<usize> = sim.processes.iter().map(|it| it.started.len()).collect();
    sim.run_to(11 * SECOND);
    assert!(sim.peak <= limit as usize, "no more than the limit: {}", sim.peak);
    let counts = sim.processes.iter().zip(before).map(|(it, before)| it.started.len() - before).collect();
    (counts, f64::from(limit) * 10e6 / service as f64)
}

#[test]
fn processes_that_want_more_than_there_is_get_even_parts() {
    let worlds = [
        (4, 2, 20_000),
        (4, 2, 60_000),
        (20, 2, 60_000),
        (5, 2, 60_000),
        (4, 3, 60_000),
        (20, 3, 60_000),
        (20, 8, 60_000),
        (4, 8, 60_000),
    ];
    for (limit, processes, service) in worlds {
        let (counts, fit) = started(limit, processes, service, 7);
        let (least, most) = (*counts.iter().min().unwrap() as f64, *counts.iter().max().unwrap() as f64);
        let sum: usize = counts.iter().sum();
        let here =
            format!("limit {limit}, {processes} processes, {service} us: {counts:?}, {sum} of {fit:.0}");
        assert!(most <= 1.2 * least, "{here}");
        assert!(sum as f64 >= 0.9 * fit, "{here}");
    }
}

#[test]
fn a_process_alone_loses_nothing_by_it() {
    for limit in [1, 4, 20] {
        let (counts, fit) = started(limit, 1, 20_000, 3);
        assert!(counts[0] as f64 >= 0.98 * fit, "limit {limit}: {counts:?} of {fit}");
    }
}

/// One process wants everything, another a slot now and then: the first gives back what the other wants, no more.
#[test]
fn who_wants_little_takes_little_from_who_wants_much() {
    let mut sim = Sim::new(5, 2, &slots(10), Faults::none());
    sim.check = false;
    sim.service = (40_000, 60_000);
    sim.load((2_000, 3_000), (1, 1), 0);
    // One call at a time in the second process, ten a second.
    sim.load_of(1, (90_000, 110_000));
    sim.run_to(SECOND);
    let before = [sim.processes[0].started.len(), sim.processes[1].started.len()];
    sim.run_to(11 * SECOND);
    let counts = [sim.processes[0].started.len() - before[0], sim.processes[1].started.len() - before[1]];
    assert!(counts[1] >= 90, "{counts:?}");
    assert!(counts[0] + counts[1] >= 1_750, "{counts:?} of 2,000");
}
