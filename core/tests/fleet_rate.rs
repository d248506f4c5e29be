//! The rate limit of a fleet (semantics 10.1, 10.4 to 10.6): many processes, one store, and a network that is none.
//!
//! A story that fails prints its seed; `FLEET_SEED=n` replays it alone.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Dice, Faults, Pairs, SECOND, Sim};
use Value::{Number, Text};
use tidegate::{RecordType, Value, Verdict};

fn rate(permits: f64, more: &[(&'static str, Value<'static>)]) -> Pairs {
    let base = [
        ("rate_limit.permits", Number(permits)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.store", Text("fleet")),
    ];
    [&base, more].concat()
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// The most that has been spent beyond rate · t in any window that begins with the fleet.
fn excess(sim: &Sim, permits: u64) -> u64 {
    let mut sum = 0;
    let over = sim.started().into_iter().map(|(at, cost)| {
        sum += cost;
        (sum * SECOND).saturating_sub(permits * at).div_ceil(SECOND)
    });
    over.max().unwrap_or(0)
}

#[test]
fn the_fleet_spends_the_declared_rate_and_no_more() {
    for (lease, name) in [(1_u32, "strict"), (20, "leased")] {
        for seed in seeds(3) {
            let pairs = rate(
                400.0,
                &[("rate_limit.lease", Number(f64::from(lease))), ("rate_limit.burst", Number(100.0))],
            );
            let mut sim = Sim::new(seed, 8, &pairs, Faults::none());
            sim.load((2_000, 12_000), (1, 1), 0);
            sim.run(10 * SECOND);
            let spent = sim.started().len() as u64;
            let over = excess(&sim, 400);
            assert!(over <= 100, "{name}, seed {seed}: {over} beyond the rate, of a burst of 100");
            // Demand is three times the rate, so nothing is left unspent but what is leased.
            let least = 400 * 10 + 100 - 8 * u64::from(lease) - 40;
            assert!(spent >= least, "{name}, seed {seed}: {spent} of {least}");
            for process in &sim.processes {
                assert_eq!(process.fallbacks(sim.now), 0);
                assert!(process.told(RecordType::StoreDegraded) == 0 && process.longest <= 50_000);
                let commands = process.commands as f64 / process.begun as f64;
                assert!(lease == 1 || commands < 0.35, "{name}, seed {seed}: {commands} commands a call");
            }
            let refused = sim.ended(Verdict::RateLimited);
            assert_eq!(
                sim.ended(Verdict::Ok) + refused,
                sim.processes.iter().map(|it| it.begun).sum::<u64>()
            );
        }
    }
}

/// A call that may not park is decided by the share of its process while the store is up. The store counts what it spends;
/// otherwise a fleet of such calls would spend the rate twice, once by leases and once by shares.
#[test]
fn calls_that_may_not_park_spend_the_declared_rate_too() {
    for (lease, name) in [(1.0, "strict"), (20.0, "leased")] {
        for seed in seeds(3) {
            let more = [("rate_limit.lease", Number(lease)), ("rate_limit.burst", Number(100.0))];
            let mut sim = Sim::new(seed, 8, &rate(400.0, &more), Faults::none());
            sim.parks = false;
            sim.load((2_000, 12_000), (1, 1), 0);
            sim.run(10 * SECOND);
            let over = excess(&sim, 400);
            assert!(
                over <= 2 * 100 + 8,
                "{name}, seed {seed}: {over} beyond the rate, of a burst of 100 and shares of it"
            );
            assert!(sim.started().len() >= 400 * 10 * 9 / 10, "{name}, seed {seed}: {}", sim.started().len());
        }
    }
}

#[test]
fn few_calls_touch_the_store_where_the_rate_is_not_used_up() {
    let mut sim = Sim::new(7, 2, &rate(2_000.0, &[]), Faults::none());
    sim.load((1_000, 3_000), (1, 1), 0);
    sim.run(10 * SECOND);
    for process in &sim.processes {
        let share = process.commands as f64 / process.begun as f64;
        assert!(share < 0.05, "{share} of the calls");
        assert_eq!(process.ended[&Verdict::Ok], process.begun);
        let waited = process.records.iter().filter(|record| record.what == RecordType::Queued).count();
        assert!(waited <= 3, "{waited} calls waited: the lease is asked for before it is used up");
    }
}

#[test]
fn calls_that_may_wait_get_their_tokens_in_turn_and_in_time() {
    for lease in [1.0, 10.0] {
        for seed in seeds(3) {
            let pairs = rate(
                200.0,
                &[
                    ("rate_limit.lease", Number(lease)),
                    ("rate_limit.burst", Number(20.0)),
                    ("rate_limit.wait", Number(1.0)),
                    ("rate_limit.max_wait", Number(400e3)),
                ],
            );
            let mut sim = Sim::new(seed, 4, &pairs, Faults::none());
            sim.load((8_000, 20_000), (1, 2), 0);
            sim.run(8 * SECOND);
            assert!(excess(&sim, 200) <= 20, "seed {seed}: {}", excess(&sim, 200));
            let spent: u64 = sim.started().iter().map(|it| it.1).sum();
            assert!(spent > 200 * 8 - 60, "lease {lease}, seed {seed}: {spent}");
            let longest = sim.processes.iter().map(|it| it.longest).max().unwrap();
            assert!(longest <= 400_000 && longest > 100_000, "{longest}");
        }
    }
}

/// Whatever the network does: calls end, wait no longer than they may, and spend no token that nobody granted.
#[test]
fn under_any_faults_nothing_is_spent_that_was_not_granted_or_decided_by_on_loss() {
    for seed in seeds(60) {
        let mut dice = Dice::new(seed);
        let waits = dice.hits(400);
        let lease = [1.0, 3.0, 15.0][dice.up_to(2) as usize];
        let on_loss = ["local", "open", "closed"][dice.up_to(2) as usize];
        let mut more = vec![
            ("rate_limit.lease", Number(lease)),
            ("rate_limit.burst", Number(30.0)),
            ("rate_limit.on_loss", Text(on_loss)),
        ];
        if waits {
            more.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(300e3))]);
        }
        let mut faults = Faults::all();
        faults.gone = vec![(SECOND, 3 * SECOND / 2), (4 * SECOND, 9 * SECOND / 2)];
        let mut sim = Sim::new(seed, 1 + dice.up_to(5) as usize, &rate(300.0, &more), faults);
        sim.load((1_000, 20_000), (1, 3), 100);
        sim.run(6 * SECOND);
        for process in &sim.processes {
            let spent: u64 = process.started.iter().map(|it| it.1).sum();
            let decided = process.fallbacks(sim.now) * 3;
            assert!(
                spent <= process.granted + decided,
                "seed {seed}: {spent} spent, {} granted, at most {decided} by on_loss",
                process.granted
            );
            let most = if waits { 300_000 } else { 50_000 };
            assert!(process.longest <= most, "seed {seed}: waited {}", process.longest);
            let closed = process.ended.get(&Verdict::StoreUnavailable).copied().unwrap_or(0);
            assert!(on_loss == "closed" || closed == 0, "seed {seed}");
            let (down, up) =
                (process.told(RecordType::StoreDegraded), process.told(RecordType::StoreRecovered));
            assert!(down >= 1 && (down == up || down == up + 1), "seed {seed}: {down} lost, {up} back");
        }
    }
}

/// In strict mode whoever asks first is served first. That is even where calls come at random moments; where every process calls
/// at a steady beat, the same ones come just after a token has flowed in, round after round (ADR 0012).
#[test]
fn strict_mode_is_even_where_calls_come_at_random_moments() {
    for seed in seeds(3) {
        let pairs = rate(400.0, &[("rate_limit.lease", Number(1.0)), ("rate_limit.burst", Number(100.0))]);
        let parts = |between: (u64, u64)| {
            let mut sim = Sim::new(seed, 8, &pairs, Faults::none());
            sim.load(between, (1, 1), 0);
            sim.run(20 * SECOND);
            let parts: Vec<usize> = sim.processes.iter().map(|it| it.started.len()).collect();
            let all: usize = parts.iter().sum();
            assert!((8_000..=8_100).contains(&all), "seed {seed}: {all} of 8,100");
            parts
        };
        let (random, steady) = (parts((1_000, 19_000)), parts((10_000, 10_000)));
        println!("seed {seed}: at random {random:?}, at a steady beat {steady:?}");
        assert!(random.iter().all(|part| (800..=1_220).contains(part)), "seed {seed}: {random:?}");
    }
}
