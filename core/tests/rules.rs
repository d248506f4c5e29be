//! Rules R1 to R12 as properties over random scripts of events (architecture, "Rules").
//!
//! A failing script shrinks, is printed, and is kept in `rules.proptest-regressions`, which replays first.
//! `PROPTEST_CASES=100000 cargo test -p tidegate --release --test rules` looks harder.

mod clock;
mod world;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use world::{Op, World, op};

fn script() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..200)
}

/// The words of all steps of a script.
fn words(ops: &[Op], origin: u64, seed: u64) -> Vec<u64> {
    let mut world = World::new(origin, seed);
    for op in ops {
        world.run(op);
    }
    world.words
}

/// The first property until a million steps are behind us: `cargo xtask deep` runs it optimised, with the checks of a
/// debug build. A failure is shrunk and kept like any other.
#[test]
#[ignore = "long where it is not optimised"]
fn a_million_steps_of_the_state_machine() {
    let (steps, scripts) = (Cell::new(0), Cell::new(0));
    while steps.get() < 1_000_000 {
        let config = ProptestConfig { cases: 500, ..config() };
        let run = TestRunner::new(config).run(&(script(), any::<u64>()), |(ops, seed)| {
            let mut world = World::new(1_000_000, seed);
            for op in &ops {
                world.run(op);
            }
            world.drain();
            steps.set(steps.get() + world.words.len());
            scripts.set(scripts.get() + 1);
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{} steps in {} scripts", steps.get(), scripts.get());
}

fn config() -> ProptestConfig {
    ProptestConfig {
        max_shrink_iters: 20_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// Every rule at every step; and when the faults stop, every call ends and nothing is left behind.
    #[test]
    fn every_rule_holds_at_every_step(ops in script(), seed: u64) {
        let mut world = World::new(1_000_000, seed);
        for op in &ops {
            world.run(op);
        }
        world.drain();
    }

    /// The end that most calls have takes a short way through the engine (`engine/plain.rs`). With a listener to every
    /// record each end takes the long way: steps, counts, and what the engine has learned are the same.
    #[test]
    fn a_listener_changes_no_step_and_no_count(ops in script(), seed: u64) {
        let (mut short, mut long) = (World::new(1_000_000, seed), World::new(1_000_000, seed));
        long.engine.subscribe(true);
        for op in &ops {
            short.run(op);
            long.run(op);
        }
        let now = short.now();
        prop_assert_eq!(&short.words, &long.words);
        prop_assert_eq!(format!("{:?}", short.engine.snapshot(now)), format!("{:?}", long.engine.snapshot(now)));
        prop_assert_eq!(short.engine.save(now), long.engine.save(now));
    }

    /// Same policy, same events, same seed: the same steps. And the clock's origin changes nothing (I16).
    #[test]
    fn the_same_script_gives_the_same_words_at_any_origin(ops in script(), seed: u64, shift in 0u64..1 << 62) {
        let words_here = words(&ops, 1 << 40, seed);
        prop_assert_eq!(&words_here, &words(&ops, 1 << 40, seed));
        prop_assert_eq!(&words_here, &words(&ops, (1 << 40) + shift, seed));
    }
}
