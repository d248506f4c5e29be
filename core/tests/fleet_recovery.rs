//! The store is gone and comes back (semantics 10.4, 10.6): processes find it at different moments, and the fleet keeps to
//! its rate all the way.
//!
//! A story that fails prints its seed; `FLEET_SEED=n` replays it alone.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Dice, Faults, Pairs, SECOND, Sim};
use Value::{Number, Text};
use tidegate::fleet::StoreKind;
use tidegate::{RecordType, Value};

const RATE: u64 = 400;

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// A fleet whose store is gone from the third second on, for so long; with or without its data.
struct Story {
    sim: Sim,
    lost: u64,
    healed: u64,
    lease: u64,
    burst: u64,
}

fn story(kind: StoreKind, seed: u64, count: u64, burst: u64) -> Story {
    let mut dice = Dice::new(seed);
    let lease = [1, 5, 20][dice.up_to(2) as usize];
    let waits = dice.hits(300);
    let mut pairs: Pairs = vec![
        ("rate_limit.permits", Number(RATE as f64)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(burst as f64)),
        ("rate_limit.lease", Number(lease as f64)),
        ("rate_limit.store", Text("fleet")),
    ];
    if waits {
        pairs.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(200e3))]);
    }
    let lost = 3 * SECOND;
    let healed = lost + SECOND / 4 + dice.up_to(9 * SECOND);
    let mut faults = Faults::none();
    faults.gone = vec![(lost, healed)];
    let mut sim = Sim::of(kind, seed, count as usize, &pairs, faults);
    sim.check = count < 20;
    // Twice the rate, in all.
    let gap = count * SECOND / (2 * RATE);
    sim.load((gap / 2, gap * 3 / 2), (1, 1), 0);
    sim.until = healed + 9 * SECOND;
    sim.run_to(lost + (healed - lost) / 2);
    if dice.hits(500) {
        sim.store = tidegate::fleet::MemoryStore::new();
    }
    sim.run(healed + 9 * SECOND);
    Story { sim, lost, healed, lease, burst }
}

impl Story {
    fn worst(&self) -> (u64, u64, u64, u64) {
        let started = self.sim.started();
        let below = |moment: u64| started.partition_point(|it| it.0 < moment);
        let within = |at: u64| (below(at + SECOND) - below(at)) as u64;
        let at = (self.lost - SECOND..self.healed + 8 * SECOND)
            .step_by(20_000)
            .max_by_key(|at| within(*at))
            .unwrap();
        (at, within(at), self.lost, self.healed)
    }

    /// The most that any second between these moments has seen, and the least.
    fn seconds(&self, from: u64, to: u64) -> (u64, u64) {
        let started = self.sim.started();
        let within = |at: u64| {
            let below = |moment: u64| started.partition_point(|it| it.0 < moment);
            (below(at + SECOND) - below(at)) as u64
        };
        let moments = || (from..to - SECOND).step_by(20_000).map(within);
        (moments().max().unwrap(), moments().min().unwrap())
    }
}

#[test]
fn no_second_from_the_loss_to_long_after_the_recovery_sees_more_than_the_rate_and_a_burst() {
    let mut least = u64::MAX;
    for (count, many, steep) in [(8, 8, 12), (50, 1, 13)] {
        let mut worst = 0;
        for seed in seeds(many) {
            for burst in [100, RATE] {
                let it = story(StoreKind::Lua, seed, count, burst);
                let leases = count * it.lease;
                for process in &it.sim.processes {
                    let told =
                        (process.told(RecordType::StoreDegraded), process.told(RecordType::StoreRecovered));
                    assert_eq!(told, (1, 1), "seed {seed}");
                }
                // The leases that were out at the loss, and a share holds at least one token.
                let (most, _) = it.seconds(it.lost - SECOND, it.healed + 9 * SECOND);
                let bound = RATE + it.burst.max(count) + leases;
                assert!(
                    most <= bound,
                    "{count} processes, seed {seed}, burst {burst}: {most} in a second, of {bound}; {:?}",
                    it.worst()
                );
                // From the recovery on not even that: what was sent without the store counts.
                let (most, low) = it.seconds(it.healed, it.healed + 9 * SECOND);
                println!(
                    "{count} processes, seed {seed}, lease {}, burst {burst}, gone {} ms: {low} to {most}",
                    it.lease,
                    (it.healed - it.lost) / 1000
                );
                if burst == 100 {
                    worst = worst.max(most);
                }
                least = least.min(low);
            }
        }
        println!("{count} processes: at most {worst} a second, of {RATE} and a burst of 100");
        assert!(worst <= RATE * steep / 10, "{worst} in a second");
    }
    assert!(least >= RATE * 7 / 10, "{least} in a second: the rate is used");
}
