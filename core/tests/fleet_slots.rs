//! The bulkhead of a fleet (semantics 10.1): slots are leases, renewed by those who hold them.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Faults, Pairs, SECOND, Sim};
use Value::{Number, Text};
use tidegate::{RecordType, Time, Value, Verdict};

fn slots(limit: f64, more: &[(&'static str, Value<'static>)]) -> Pairs {
    let base = [("bulkhead.max_concurrency", Number(limit)), ("bulkhead.store", Text("fleet"))];
    [&base, more].concat()
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

#[test]
fn the_fleet_runs_as_many_as_the_limit_and_no_more() {
    for seed in seeds(5) {
        let mut sim =
            Sim::new(seed, 4, &slots(10.0, &[("bulkhead.max_queue", Number(50.0))]), Faults::none());
        sim.service = (20_000, 60_000);
        sim.load((5_000, 25_000), (1, 1), 50);
        sim.run(6 * SECOND);
        assert_eq!(sim.peak, 10, "seed {seed}");
        // About 270 calls a second are wanted, 250 fit at 40 ms each.
        assert!(sim.ended(Verdict::Ok) > 1_000, "seed {seed}: {}", sim.ended(Verdict::Ok));
        for process in &sim.processes {
            assert_eq!(process.told(RecordType::StoreDegraded) + process.told(RecordType::LeaseReclaimed), 0);
            assert!(process.longest <= SECOND + 50_000, "{}", process.longest);
        }
        let mut left = sim.store.clone();
        // A fresh process gets all of the limit: nothing is left leased when nobody runs.
        let mut other = Sim::new(seed + 100, 1, &slots(10.0, &[]), Faults::none());
        std::mem::swap(&mut other.store, &mut left);
        other.now = sim.now + 20_000;
        other.service = (50_000, 50_000);
        for _ in 0..10 {
            other.begin(0, 1);
        }
        let until = other.now + SECOND;
        other.run(until);
        assert_eq!((other.peak, other.ended(Verdict::Ok)), (10, 10), "seed {seed}");
    }
}

#[test]
fn without_a_queue_a_full_fleet_refuses_at_once() {
    let mut sim = Sim::new(4, 3, &slots(4.0, &[]), Faults::none());
    sim.service = (20_000, 40_000);
    sim.load((4_000, 12_000), (1, 1), 0);
    sim.run(4 * SECOND);
    assert_eq!(sim.peak, 4);
    assert!(sim.ended(Verdict::QueueFull) > 100 && sim.ended(Verdict::Ok) > 300);
    let longest = sim.processes.iter().map(|it| it.longest).max().unwrap();
    assert!(longest <= 50_000, "no longer than the store's answer takes: {longest}");
}

#[test]
fn a_lease_is_renewed_while_its_call_runs_and_ends_with_its_process() {
    let patient = slots(
        2.0,
        &[
            ("bulkhead.lease_ttl", Number(3e6)),
            ("bulkhead.max_queue", Number(5.0)),
            ("bulkhead.acquire_timeout", Number(5e6)),
        ],
    );
    let pairs = slots(2.0, &[("bulkhead.lease_ttl", Number(3e6)), ("bulkhead.max_queue", Number(5.0))]);
    let mut sim = Sim::new(8, 2, &patient, Faults::none());
    sim.service = (10 * SECOND, 10 * SECOND);
    sim.begin(0, 1);
    sim.begin(0, 1);
    sim.run_to(9 * SECOND);
    sim.service = (1_000, 1_000);
    sim.begin(1, 1);
    sim.run_to(9 * SECOND + 500_000);
    assert_eq!(sim.processes[1].started.len(), 0, "both slots are taken: they were renewed");
    assert!(sim.processes[0].commands >= 8, "{} commands", sim.processes[0].commands);
    sim.run(12 * SECOND);
    assert_eq!(sim.ended(Verdict::Ok), 3, "the queue got a slot, given back by the first to end");
    // A process that dies gives nothing back: after the lease its slots are free.
    let mut dead = Sim::new(9, 1, &pairs, Faults::none());
    dead.service = (60 * SECOND, 60 * SECOND);
    dead.begin(0, 1);
    dead.begin(0, 1);
    dead.run_to(SECOND);
    let mut alive = Sim::new(10, 1, &pairs, Faults::none());
    alive.store = dead.store.clone();
    alive.now = SECOND;
    let waits = alive.begin(0, 1);
    alive.run(2 * SECOND);
    assert_eq!(alive.ended(Verdict::AcquireTimeout), 1, "{waits:?}");
    alive.now = 5 * SECOND;
    alive.begin(0, 1);
    alive.run(6 * SECOND);
    assert_eq!(alive.ended(Verdict::Ok), 1, "reaped by the next who asks");
}

#[test]
fn a_slot_that_the_store_has_lost_is_not_handed_on() {
    let pairs = slots(
        2.0,
        &[
            ("bulkhead.lease_ttl", Number(3e6)),
            ("bulkhead.max_queue", Number(5.0)),
            ("bulkhead.acquire_timeout", Number(5e6)),
        ],
    );
    let mut sim = Sim::new(8, 1, &pairs, Faults::none());
    sim.service = (5 * SECOND, 5 * SECOND);
    sim.begin(0, 1);
    sim.begin(0, 1);
    sim.run_to(SECOND / 2);
    sim.store.execute(&[b"FLUSHALL".to_vec()], crate::fleet::STORE_CLOCK + sim.now).unwrap();
    sim.run_to(3 * SECOND);
    assert_eq!(sim.processes[0].told(RecordType::LeaseReclaimed), 1, "the renewal says so");
    // They run on, and ask for slots of their own again, which now exist.
    sim.service = (1_000, 1_000);
    sim.begin(0, 1);
    sim.run(9 * SECOND);
    assert_eq!((sim.peak, sim.ended(Verdict::Ok)), (2, 3));
}

#[test]
fn without_the_store_on_loss_says_how_many() {
    for (on_loss, most) in [("local", 8), ("open", 16), ("closed", 8)] {
        let mut faults = Faults::none();
        faults.gone = vec![(2 * SECOND, 60 * SECOND)];
        let pairs = slots(8.0, &[("bulkhead.on_loss", Text(on_loss)), ("bulkhead.max_queue", Number(20.0))]);
        let mut sim = Sim::new(6, 2, &pairs, faults);
        sim.service = (20_000, 60_000);
        sim.load((2_000, 8_000), (1, 1), 0);
        sim.run(5 * SECOND);
        // What was leased at the loss is each process's share.
        assert!(sim.peak <= most, "{on_loss}: {}", sim.peak);
        let refused = sim.ended(Verdict::StoreUnavailable);
        assert_eq!(refused > 50, on_loss == "closed", "{on_loss}: {refused}");
        let last = sim.started().last().unwrap().0;
        assert_eq!(last > 4 * SECOND, on_loss != "closed", "{on_loss}: {last}");
        assert!(sim.processes.iter().all(|it| it.fallbacks(sim.now) > 0));
    }
}

#[test]
fn an_outage_longer_than_a_lease_leaves_what_was_held() {
    let mut faults = Faults::none();
    faults.gone = vec![(2 * SECOND, 60 * SECOND)];
    let pairs = slots(8.0, &[("bulkhead.lease_ttl", Number(1e6)), ("bulkhead.max_queue", Number(20.0))]);
    let mut sim = Sim::new(6, 2, &pairs, faults);
    sim.service = (20_000, 60_000);
    sim.load((2_000, 8_000), (1, 1), 0);
    sim.run_to(5 * SECOND);
    sim.peak = 0;
    sim.load((2_000, 8_000), (1, 1), 0);
    sim.run(8 * SECOND);
    assert!((6..=8).contains(&sim.peak), "{}", sim.peak);
}

/// Whatever the network does: calls end and wait no longer than they may, and when all is well again and every lease of
/// before has ended, the fleet keeps to its limit.
#[test]
fn under_any_faults_calls_end_and_the_limit_holds_again_afterwards() {
    for seed in seeds(25) {
        let on_loss = ["local", "open", "closed"][(seed % 3) as usize];
        let mut faults = Faults::all();
        faults.gone = vec![(2 * SECOND, 3 * SECOND)];
        let pairs = slots(
            6.0,
            &[
                ("bulkhead.on_loss", Text(on_loss)),
                ("bulkhead.max_queue", Number(5.0)),
                ("bulkhead.lease_ttl", Number(1e6)),
                ("bulkhead.acquire_timeout", Number(300e3)),
            ],
        );
        let mut sim = Sim::new(seed, 4, &pairs, faults);
        sim.service = (5_000, 90_000);
        sim.load((4_000, 40_000), (1, 1), 100);
        sim.run_to(6 * SECOND);
        sim.faults = Faults::none();
        sim.run_to(13 * SECOND);
        sim.peak = 0;
        sim.run(16 * SECOND);
        assert_eq!(sim.peak, 6, "seed {seed}");
        for process in &sim.processes {
            assert!(process.longest <= 300_000, "seed {seed}: waited {}", process.longest);
            let snapshot = process.engine.snapshot(Time::from_micros(sim.now));
            assert!(snapshot.store.unwrap().up, "seed {seed}");
        }
    }
}

/// One process that sees nothing but fast answers cuts its limit all the same, because the fleet's answers are slow.
#[test]
fn a_limit_follows_the_latencies_of_the_whole_fleet() {
    let pairs = |store| {
        vec![
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(20.0)),
            ("bulkhead.latency_threshold", Number(30e3)),
            ("bulkhead.latency_quantile", Number(0.5)),
            ("bulkhead.latency_store", Text(store)),
        ]
    };
    let limit = |sim: &Sim| {
        let snapshot = sim.processes[0].engine.snapshot(Time::from_micros(sim.now));
        snapshot.routes[0].pool.unwrap().limit
    };
    for (store, cuts) in [("local", false), ("fleet", true)] {
        let mut sim = Sim::new(3, 5, &pairs(store), Faults::none());
        for slow in &mut sim.processes[1..] {
            slow.service = Some((60_000, 80_000));
        }
        sim.service = (5_000, 10_000);
        sim.load((10_000, 20_000), (1, 1), 0);
        sim.run_to(6 * SECOND);
        assert_eq!(limit(&sim) < 20, cuts, "{store}: {}", limit(&sim));
        // Well again, or with the store gone, its own latencies count, and the limit grows back.
        sim.faults.gone = vec![(sim.now, u64::MAX)];
        let low = limit(&sim);
        sim.run(12 * SECOND);
        assert_eq!(limit(&sim) > low, cuts, "{store}: from {low} to {}", limit(&sim));
    }
}
