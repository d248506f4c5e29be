//! Nothing allocates per call in steady state: hedges, queues, retries and tripped breakers included.

use tidegate::Value;
use tidegate_bench_core::counting::{Counting, Tally, tally};
use tidegate_bench_core::growth::{Crowd, KINDS, Many};
use tidegate_bench_core::memory;
use tidegate_bench_core::scenarios::{SCENARIOS, World};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Rounds until all memory has been reserved, and rounds that are counted.
const WARM: u64 = 1_000;
const COUNTED: u64 = 10_000;

#[test]
fn no_round_of_any_scenario_allocates() {
    for scenario in SCENARIOS {
        let mut world = World::new(scenario.pairs);
        for n in 0..WARM {
            world.round(scenario.round, n * scenario.every);
        }
        let before = tally();
        for n in WARM..WARM + COUNTED {
            world.round(scenario.round, n * scenario.every);
        }
        assert_eq!(tally().since(before), Tally::default(), "{}", scenario.name);
    }
}

#[test]
fn nothing_allocates_in_a_crowd() {
    // A new route allocates, and gives back what the oldest had; the trees of keys that take turns split and merge.
    let allocates = |kind: &(_, Many, _)| matches!(kind.1, Many::Replaced | Many::Keys);
    for (name, many, _) in KINDS.into_iter().filter(|kind| !allocates(kind)) {
        let mut crowd = Crowd::new(many, 1_000);
        for _ in 0..WARM {
            crowd.step();
        }
        let before = tally();
        for _ in 0..COUNTED {
            crowd.step();
        }
        assert_eq!(tally().since(before), Tally::default(), "{name}");
    }
}

#[test]
fn what_allocates_is_seen() {
    let before = tally();
    let kept = std::hint::black_box(vec![0_u8; 100]);
    assert_eq!(tally().since(before), Tally { times: 1, bytes: 100 });
    drop(kept);
    assert_eq!(tally().since(before).bytes, 0);
}

#[test]
fn a_call_takes_64_bytes_and_a_racing_one_a_block_more() {
    let (alone, racing) = memory::per_call();
    assert!((63.9..=64.1).contains(&alone), "{alone} bytes per call");
    // The block of 64 bytes, and 4 bytes for its index.
    assert!((racing - alone - 68.0).abs() < 0.1, "{} bytes per race", racing - alone);
}

/// R7: routes that are visited at random cost what the processor's cache does not hold of them.
#[test]
fn a_route_with_a_rate_limit_and_a_retry_budget_takes_at_most_760_bytes() {
    let pairs = [
        ("preset", Value::Text("http")),
        ("rate_limit.permits", Value::Number(1e6)),
        ("rate_limit.per", Value::Number(1e6)),
    ];
    let bytes = memory::one_shape(&pairs);
    assert!(bytes <= 760.0, "{bytes} bytes per route");
}
