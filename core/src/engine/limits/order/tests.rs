use super::*;
use proptest::prelude::*;

const ONE: Costs = [1, 0, 0, 0];

fn order(prioritized: bool, by_key: bool) -> Order {
    Order::new(&QueueOrder { prioritized, by_key, shares: Vec::new() })
}

/// One in which keys share, some of them with a share above 1.
fn shared(shares: &[(&str, u32)]) -> Order {
    let full = crate::full::Full::here().unwrap();
    let shares = shares.iter().map(|(key, share)| (crate::full::Name::new(key, full), *share)).collect();
    Order::new(&QueueOrder { prioritized: false, by_key: true, shares })
}

fn slot(number: usize) -> Slot {
    Slot::new(number as u32)
}

/// Serves the next waiter; which one it was.
fn serve(order: &mut Order, charge: u64) -> usize {
    let next = order.next().expect("one waits");
    order.serve(next, charge);
    order.remove(next, &ONE);
    next.index()
}

/// Semantics 3.10.3: keys share in turns, whatever the length of their queues; of equal starts the older one.
#[test]
fn keys_take_turns() {
    let mut order = order(false, true);
    for (at, key) in ["a", "a", "a", "b", "b", "c"].into_iter().enumerate() {
        order.enlist(slot(at), 2, key, &ONE);
    }
    let served: Vec<_> = (0..6).map(|_| serve(&mut order, 10)).collect();
    assert_eq!(served, [0, 3, 5, 1, 4, 2]);
    assert_eq!(order.next(), None);
}

/// Semantics 3.10.5: a key that did not wait begins where the others are, and saves nothing; one that has just been served
/// does not begin anew.
#[test]
fn idle_keys_save_nothing_and_a_return_is_no_new_beginning() {
    let mut order = order(false, true);
    (0..8).for_each(|at| order.enlist(slot(at), 2, "a", &ONE));
    (0..4).for_each(|at| assert_eq!(serve(&mut order, 10), at));
    order.enlist(slot(8), 2, "b", &ONE);
    order.enlist(slot(9), 2, "b", &ONE);
    assert_eq!(serve(&mut order, 10), 8, "the last start of a that was served is smaller than its next one");
    // Each call of b comes when the one before has been served.
    assert_eq!((serve(&mut order, 10), serve(&mut order, 10)), (4, 9));
    for at in 10..13 {
        order.enlist(slot(at), 2, "b", &ONE);
        assert_eq!((serve(&mut order, 10), serve(&mut order, 10)), (at - 5, at));
    }
    assert_eq!(order.next(), None);
}

/// Semantics 3.10.2.
#[test]
fn criticalities_share_64_to_16_to_4_to_1() {
    let mut order = order(true, false);
    let waiting = 100;
    for at in 0..4 * waiting {
        order.enlist(slot(at), (at % 4) as u16, "", &ONE);
    }
    let mut served = [0_u32; 4];
    (0..85).for_each(|_| served[serve(&mut order, 1_000) % 4] += 1);
    assert_eq!(served, [1, 4, 16, 64]);
}

/// Semantics 3.10.4: of equal starts the one that was set first, whether it is the higher criticality or the lower one.
#[test]
fn of_equal_starts_the_criticality_that_waits_for_longer_is_next() {
    for (first, second) in [(3, 1), (1, 3)] {
        let mut order = order(true, false);
        order.enlist(slot(0), first, "", &ONE);
        order.enlist(slot(1), second, "", &ONE);
        assert_eq!((serve(&mut order, 10), serve(&mut order, 10)), (0, 1));
    }
}

/// Semantics 3.10.8: where no other criticality waits, a new one begins at the largest start of all.
#[test]
fn a_criticality_begins_where_the_last_one_that_waited_has_ended() {
    let mut order = order(true, false);
    order.enlist(slot(0), 0, "", &ONE);
    assert_eq!(serve(&mut order, 10), 0);
    order.enlist(slot(1), 0, "", &ONE);
    order.enlist(slot(2), 3, "", &ONE);
    assert_eq!(order.next(), Some(slot(1)), "the starts are equal");
}

/// Semantics 3.10.5: a charge per share is rounded up.
#[test]
fn a_third_of_a_charge_is_rounded_up() {
    let mut order = shared(&[("three", 3)]);
    (0..2).for_each(|at| order.enlist(slot(at), 2, "one", &ONE));
    (2..8).for_each(|at| order.enlist(slot(at), 2, "three", &ONE));
    let served: Vec<_> = (0..5).map(|_| serve(&mut order, 10)).collect();
    assert_eq!(served, [0, 2, 3, 4, 1], "three thirds are a little more than a whole charge");
}

/// Semantics 3.10.4: of keys with equal starts the one whose start was set first is next, whichever was there first.
#[test]
fn of_equal_starts_the_key_whose_start_was_set_first_is_next() {
    let mut order = shared(&[("two", 2)]);
    (0..3).for_each(|at| order.enlist(slot(at), 2, "two", &ONE));
    (3..5).for_each(|at| order.enlist(slot(at), 2, "one", &ONE));
    let served: Vec<_> = (0..5).map(|_| serve(&mut order, 10)).collect();
    assert_eq!(served, [0, 3, 1, 4, 2], "both starts are 10 after three calls");
}

/// Semantics 3.10.6: the longest time that a limit takes, rounded up, at most 2^53 - 1 µs.
#[test]
fn a_charge_is_the_time_of_the_slowest_limit() {
    let charge = |limits: [&str; 2], costs| {
        let [one, other] = limits.map(|limit| ("rate_limit.limits", crate::Value::Text(limit)));
        let policy = crate::Policy::from_pairs("p", &[one, other]).unwrap();
        let set = policy.rate_limit.as_ref().unwrap().limits.as_ref().unwrap();
        crate::engine::limits::Limits::new(set, crate::Time::from_micros(0)).charge_of(&costs)
    };
    let limits = ["calls: permits=3 per=1s", "tokens: permits=1000 per=1s weight=tokens default=1"];
    assert_eq!(charge(limits, [1, 100, 0, 0]), 333_334);
    assert_eq!(charge(limits, [1, 500, 0, 0]), 500_000);
    assert_eq!(charge(limits, [0, 0, 0, 0]), 0);
    let slow = ["a: permits=1 per=8760h burst=1000000000", "b: permits=1 per=1s"];
    assert_eq!(charge(slow, [1_000_000_000, 1, 0, 0]), (1 << 53) - 1);
}

/// Semantics 3.10.11: waiters per share count.
#[test]
fn a_full_queue_gives_up_a_waiter_of_the_key_with_the_most_per_share() {
    // The waiters of two keys, the newcomer's key, and the place of the waiter that it displaces.
    let cases = [
        (("four", 4), ("one", 2), "four", Some(5)),
        (("four", 4), ("one", 1), "four", None),
        (("four", 9), ("one", 1), "one", Some(8)),
        (("four", 8), ("one", 1), "one", None),
        (("one", 1), ("four", 8), "one", None),
        (("two", 3), ("one", 1), "new", Some(2)),
        (("x", 2), ("y", 2), "new", Some(3)), // of equal keys the one whose start was set last
        (("four", 4), ("two", 2), "new", None),
    ];
    for (one, other, newcomer, expected) in cases {
        let mut order = shared(&[("two", 2), ("four", 4)]);
        let waiters = [one, other].into_iter().flat_map(|(key, len)| std::iter::repeat_n(key, len));
        let mut next = 0;
        for key in waiters.chain([newcomer]) {
            order.enlist(slot(next), 2, key, &ONE);
            next += 1;
        }
        let displaced = order.displaced_by(slot(next - 1)).map(Slot::index);
        assert_eq!(displaced, expected, "{one:?}, {other:?}: {newcomer}");
    }
}

/// Semantics 3.10.11.
#[test]
fn a_full_queue_gives_up_the_last_of_the_longest_key_of_the_lowest_criticality() {
    let mut order = order(true, true);
    for (at, (criticality, key)) in [(2, "a"), (2, "a"), (1, "x"), (1, "y"), (1, "y")].into_iter().enumerate()
    {
        order.enlist(slot(at), criticality, key, &ONE);
    }
    let displaced = |order: &mut Order, criticality, key| {
        order.enlist(slot(9), criticality, key, &ONE);
        let displaced = order.displaced_by(slot(9)).map(Slot::index);
        order.remove(slot(9), &ONE);
        displaced
    };
    assert_eq!(displaced(&mut order, 2, "b"), Some(4), "the last of y");
    assert_eq!(displaced(&mut order, 1, "z"), Some(4), "a key without waiters");
    assert_eq!(displaced(&mut order, 1, "x"), None, "x would have as many as y");
    assert_eq!(displaced(&mut order, 1, "y"), None, "its own key is the longest");
    assert_eq!(displaced(&mut order, 0, "z"), None, "nobody is less critical");
}

/// Semantics 3.10.12.
#[test]
fn ten_thousand_keys_are_kept_and_the_rest_share_one() {
    let mut order = order(false, true);
    for at in 0..MOST_KEYS + 3 {
        order.enlist(slot(at), 2, &format!("k{at}"), &ONE);
    }
    assert_eq!((order.kept, order.flows.len()), (MOST_KEYS, MOST_KEYS + 1));
    let served: Vec<_> = (0..MOST_KEYS + 3).map(|_| serve(&mut order, 1)).collect();
    assert!(served.iter().copied().eq(0..MOST_KEYS + 3), "the first of the rest comes in the same round");
    for at in 0..MOST_KEYS * 3 {
        order.enlist(slot(0), 2, &format!("later{at}"), &ONE);
        assert_eq!(serve(&mut order, 1), 0);
    }
    assert!(order.kept <= 2, "{} keys without waiters are kept", order.kept);
    assert!(order.vacant.len() + 2 >= order.flows.len());
}

/// Semantics 3.10.12: only keys whose start is ahead are kept without waiters, in whatever criticality they are.
#[test]
fn keys_without_waiters_make_room_for_those_of_another_criticality() {
    let mut order = order(true, true);
    (0..MOST_KEYS).for_each(|at| order.enlist(slot(at), 0, &format!("k{at}"), &ONE));
    (0..MOST_KEYS).for_each(|at| assert_eq!(serve(&mut order, 1), at));
    (0..9).for_each(|at| order.enlist(slot(at), 3, &format!("k{at}"), &ONE));
    assert_eq!(order.tiers[3].by_key.len(), 9, "none of them shares the key of the rest");
}

/// One step of the property below.
#[derive(Clone, Debug)]
enum Op {
    Enlist(u16, usize),
    Serve(u64),
    Leave(prop::sample::Index),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0u16..4, 0usize..4).prop_map(|(criticality, key)| Op::Enlist(criticality, key)),
        4 => (0u64..50).prop_map(Op::Serve),
        1 => any::<prop::sample::Index>().prop_map(Op::Leave),
    ]
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// What is served to something while it and another one wait all the time, per share.
fn is_fair(served: &[(usize, u64)], waits: &[u64], shares: &[u32]) -> Result<(), TestCaseError> {
    let most = served.iter().map(|(_, charge)| *charge).max().unwrap_or(0);
    for one in 0..shares.len() {
        for other in 0..one {
            // The difference since the moment from which both wait, and its extremes.
            let (mut sum, mut least, mut largest) = (0.0, 0.0, 0.0);
            for (step, (who, charge)) in served.iter().enumerate() {
                if waits[step] >> one & 1 == 0 || waits[step] >> other & 1 == 0 {
                    (sum, least, largest) = (0.0, 0.0, 0.0);
                    continue;
                }
                let per = *charge as f64;
                sum += match who {
                    it if *it == one => per / f64::from(shares[one]),
                    it if *it == other => -per / f64::from(shares[other]),
                    _ => 0.0,
                };
                (least, largest) = (f64::min(least, sum), f64::max(largest, sum));
                let bound = most as f64 / f64::from(shares[one]) + most as f64 / f64::from(shares[other]);
                prop_assert!(
                    largest - least <= bound + 1e-6,
                    "{one}, {other}: {least} to {largest} of {bound}"
                );
            }
        }
    }
    Ok(())
}

proptest! {
    /// Semantics 3.10.7: of two criticalities, and of two keys within one, that both wait, service per share differs by at
    /// most one largest charge per share of each; whoever comes and leaves meanwhile.
    #[test]
    fn service_per_share_differs_by_at_most_a_charge_of_each(
        prioritized: bool, by_key: bool, shares in prop::collection::vec(1u32..=20, 4),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let named = KEYS.iter().zip(&shares).map(|(key, share)| {
            (crate::full::Name::new(key, crate::full::Full::here().unwrap()), *share)
        });
        let mut order = Order::new(&QueueOrder { prioritized, by_key, shares: named.collect() });
        let mut waiting: Vec<(usize, u16, usize)> = Vec::new();
        // Who was served and who waited: criticalities, and keys of each criticality.
        let (mut tiers, mut tiers_wait) = (Vec::new(), Vec::new());
        let mut keys = vec![(Vec::new(), Vec::new()); 4];
        for (number, op) in ops.into_iter().enumerate() {
            match op {
                Op::Enlist(criticality, key) => {
                    order.enlist(slot(number), criticality, KEYS[key], &ONE);
                    waiting.push((number, if prioritized { criticality } else { 0 }, if by_key { key } else { 0 }));
                }
                Op::Leave(which) if !waiting.is_empty() => {
                    let (number, ..) = waiting.remove(which.index(waiting.len()));
                    order.remove(slot(number), &ONE);
                }
                Op::Serve(charge) if !waiting.is_empty() => {
                    let before = waiting.iter().fold(0u64, |bits, it| bits | 1 << it.1);
                    let next = order.next().unwrap();
                    let (_, tier, key) = *waiting.iter().find(|it| it.0 == next.index()).unwrap();
                    tiers_wait.push(before);
                    tiers.push((usize::from(tier), charge));
                    let (served, waits) = &mut keys[usize::from(tier)];
                    waits.push(waiting.iter().filter(|it| it.1 == tier).fold(0, |bits, it| bits | 1 << it.2));
                    served.push((key, charge));
                    order.serve(next, charge);
                    order.remove(next, &ONE);
                    waiting.retain(|it| it.0 != next.index());
                }
                Op::Serve(_) | Op::Leave(_) => {}
            }
            // Where none is left, a new stretch begins.
            if waiting.is_empty() {
                tiers.push((usize::MAX, 0));
                tiers_wait.push(0);
            }
            for (tier, (served, waits)) in keys.iter_mut().enumerate() {
                if waiting.iter().all(|it| usize::from(it.1) != tier) {
                    served.push((usize::MAX, 0));
                    waits.push(0);
                }
            }
            let all: Vec<_> = waiting.iter().map(|it| (slot(it.0), ONE)).collect();
            prop_assert_eq!(order.check(&all), Ok(()));
            prop_assert_eq!(order.next().is_some(), !waiting.is_empty());
        }
        if prioritized {
            is_fair(&tiers, &tiers_wait, &TIER_SHARES)?;
        }
        for (served, waits) in keys.iter().filter(|_| by_key) {
            is_fair(served, waits, &shares)?;
        }
    }
}
