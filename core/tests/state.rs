//! Saving and restoring: what an engine has learned goes on in another process, and nothing else does.

use crate::saved::{SECOND, WHOLE, at, call, engine, moved, view, whole};
use crate::world::{Op, World, op};
use Value::Number;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tidegate::{BreakerState, Class, Duration, RestoreError, Restored, Value, Verdict};

fn script() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..120)
}

/// The same for a host that never leaves a call alone for the 5 s of a lease: when the reaper comes to one that is
/// overdue depends on how many calls the engine has ever had at once (R9), and those are not saved.
fn prompt(ops: &[Op]) -> Vec<Op> {
    let mut left = 5 * SECOND - 1;
    let shorter = |op: &Op| match op {
        Op::Pass(span) => {
            let span = left.min(*span);
            left -= span;
            Op::Pass(span)
        }
        other => other.clone(),
    };
    ops.iter().map(shorter).collect()
}

/// A saved state with its routes in the order of their text: a route with nothing to remember is not saved, and so not
/// when it was last used.
fn sorted(saved: &str) -> serde_json::Value {
    let mut state: serde_json::Value = serde_json::from_str(saved).unwrap();
    if let Some(serde_json::Value::Array(routes)) = state.get_mut("routes") {
        routes.sort_by_key(ToString::to_string);
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 20_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    /// The same decisions as if nothing had happened, to the last bit, and the same state after them.
    #[test]
    fn a_restored_engine_goes_on_as_the_old_one_would(
        before in script(),
        after in prop::collection::vec((script(), 0u64..90 * SECOND), 1..4),
        seed: u64,
        elapsed in prop_oneof![Just(0), 0u64..3 * SECOND, 0u64..90 * SECOND],
        origin in prop_oneof![Just(0), 0u64..SECOND, Just(1u64 << 40)],
    ) {
        let world = || {
            let mut world = World::new(1 << 41, seed);
            world.script(&before);
            world.end_calls();
            world.end_swing();
            world
        };
        let (mut old, mut new) = (world(), world());
        old.sleep(elapsed);
        let restored = new.restart(seed, elapsed, origin);
        prop_assert_eq!((restored.left_out, &restored.dropped[..], &restored.unknown[..]), (0, &[][..], &[][..]));
        prop_assert_eq!(old.saved(), new.saved());
        for (ops, pause) in &after {
            let ops = prompt(ops);
            prop_assert_eq!(old.script(&ops), new.script(&ops));
            old.end_calls();
            new.end_calls();
            prop_assert_eq!(sorted(&old.saved()), sorted(&new.saved()));
            old.sleep(*pause);
            new.sleep(*pause);
        }
    }

    /// Whatever has become of the text: an error that changes nothing, or an engine that keeps every rule.
    #[test]
    fn damage_is_an_error_or_harmless(
        before in script(),
        after in script(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4, any::<u8>()), 1..4),
    ) {
        let mut world = World::new(SECOND, 7);
        world.script(&before);
        world.end_calls();
        let mut saved = world.saved().into_bytes();
        for (place, length, by) in damage {
            let place = place.index(saved.len());
            let end = (place + length).min(saved.len());
            let by = b"0123456789-,.[]{}\"e\\n:"[usize::from(by) % 22];
            saved.splice(place..end, (by != b':').then_some(by));
        }
        let saved = String::from_utf8_lossy(&saved);
        let mut fresh = World::new(SECOND, 7);
        let empty = fresh.saved();
        match fresh.engine.restore(&saved, Duration::ZERO, fresh.now()) {
            Ok(_) => {
                fresh.engine.check().unwrap();
                // Bounds seen from the host's side count from the engine's birth; its own books hold all the same.
                fresh.forget_bounds();
                fresh.script(&after);
                fresh.drain();
            }
            Err(error) => {
                prop_assert!(error.to_string().starts_with("saved state"), "{error}");
                prop_assert_eq!(fresh.saved(), empty);
            }
        }
    }
}

#[test]
fn moments_go_on_from_where_they_were_whatever_the_clock_says() {
    let pairs = [
        ("breaker.consecutive", Number(1.0)),
        ("breaker.break_duration", Number(5e6)),
        ("breaker.break_factor", Number(1.0)),
    ];
    let (mut old, id) = engine(&pairs);
    assert_eq!(call(&mut old, id, Class::Transient, 900 * SECOND, 900 * SECOND), Verdict::Attempts);
    for elapsed in [0, 3] {
        let (mut new, id, restored) = moved(&old, 901 * SECOND, &pairs, elapsed * SECOND, 0);
        assert_eq!(restored, Restored { routes: 1, ..Restored::default() });
        let left = (4 - elapsed) * SECOND;
        let breaker = view(&new, 0).breaker.unwrap();
        assert_eq!(
            (breaker.state, breaker.retry_in),
            (BreakerState::Open, Some(Duration::from_micros(left)))
        );
        assert_eq!(call(&mut new, id, Class::Ok, left - 1, left - 1), Verdict::BreakerOpen);
        assert_eq!(call(&mut new, id, Class::Ok, left, left), Verdict::Ok);
        assert_eq!(view(&new, left).breaker.unwrap().state, BreakerState::Closed);
    }
    let (new, ..) = moved(&old, 901 * SECOND, &pairs, u64::MAX, 5);
    assert_eq!(view(&new, 5).breaker.unwrap().retry_in, Some(Duration::ZERO));
}

/// R10.12: the clock was set back and has returned to its line, 30 s below its highest reading.
#[test]
fn a_restored_engine_does_not_wait_until_the_old_ones_clock_has_caught_up() {
    let pairs = [("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(1e6))];
    let (mut old, id) = engine(&pairs);
    assert_eq!(call(&mut old, id, Class::Ok, 100 * SECOND, 100 * SECOND), Verdict::Ok);
    assert_eq!(call(&mut old, id, Class::Ok, 31 * SECOND, 31 * SECOND), Verdict::RateLimited);
    let (mut new, id_again, _) = moved(&old, 70 * SECOND, &pairs, 0, 70 * SECOND);
    assert_eq!(call(&mut old, id, Class::Ok, 71 * SECOND, 71 * SECOND), Verdict::RateLimited);
    assert_eq!(call(&mut new, id_again, Class::Ok, 71 * SECOND, 71 * SECOND), Verdict::Ok);
}

#[test]
fn elapsed_time_fills_buckets_and_ages_windows() {
    let pairs = [
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(4.0)),
        ("throttle.window", Number(10e6)),
    ];
    let (mut old, id) = engine(&pairs);
    for _ in 0..4 {
        assert_eq!(call(&mut old, id, Class::Ok, SECOND, SECOND), Verdict::Ok);
    }
    for (elapsed, tokens, requests) in [(0, 0, 4), (2_500_000, 2, 4), (10 * SECOND, 4, 0)] {
        let (new, ..) = moved(&old, SECOND, &pairs, elapsed, 7);
        let view = view(&new, 7);
        assert_eq!((view.rate.unwrap().tokens, view.throttle.unwrap().requests), (tokens, requests));
    }
}

/// The form that version 1 was.
const VERSION_1: &str = concat!(
    r#"{"tidegate":1,"oldest":2300000,"routes":[[0,"r",{"budget":["window",10000000,-2300000,5,0,3,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"#,
    r#""rate":[7000000,3,6900000],"#,
    r#""send":[-300000,0,"3.2960000000000003","2.3072","2.3072",0,"3.2960000000000003",-200000,-200000],"#,
    r#""limit":["aimd",[0,9,-2150000,["0.5",[7,80001,80002,80003,80005,80007,2,3,5],[0]]]],"#,
    r#""breaker":["closed",0,0,[10000000,0,-2150000,0,0,0,0,0,0,0,0,0,0,0,0,0,0,6,1,2,0,0,0]],"#,
    r#""hedge":["0.9",[7,80001,80002,80004,80006,80007,2,4,6],[0]],"#,
    r#""hedge_budget":["ratio",9,1000000],"#,
    r#""holds":[["0662b7b62a798bb2d53e67cad9778e12e",1,748671,1],["16a50dc8584134c7de537c0052ff6d236",1]]}]],"#,
    r#""policies":[[0,"p",0]],"calls":9}"#,
);

/// The form that version 2 is: the same state, with what is missing in the bucket and what is used of the floor.
fn version_2() -> String {
    let budget = VERSION_1.replacen(":1,", ":2,", 1).replacen("-2300000,5,", "-2300000,0,0,5,", 1);
    budget.replacen("\"rate\":[7000000,3,6900000]", "\"rate\":[7000000,8,100000]", 1)
}

#[test]
fn the_form_of_version_2_stays_as_it_is_and_that_of_version_1_is_read() {
    let version_2 = version_2();
    assert_eq!(whole().save(at(2_300_000)), version_2);
    for saved in [VERSION_1, &version_2] {
        let (mut again, _) = engine(WHOLE);
        let restored = again.restore(saved, Duration::ZERO, at(0)).unwrap();
        assert_eq!(restored, Restored { routes: 1, ..Restored::default() });
        assert_eq!(again.save(at(0)), version_2);
        // In any order of names and with any blanks, as a database may hand it back.
        let tree: serde_json::Value = serde_json::from_str(saved).unwrap();
        let (mut sorted, _) = engine(WHOLE);
        sorted.restore(&serde_json::to_string_pretty(&tree).unwrap(), Duration::ZERO, at(3)).unwrap();
        assert_eq!(sorted.save(at(3)), version_2);
    }
    // Before paths were hashed, holds stood under them.
    let holds = VERSION_1.find("[[\"06").unwrap()..VERSION_1.find("}]],\"policies").unwrap();
    let mut old = VERSION_1.to_owned();
    old.replace_range(holds, r#"[["1/a",1],["=/a/b",1,748671,1]]"#);
    let (mut hashed, _) = engine(WHOLE);
    hashed.restore(&old, Duration::ZERO, at(3)).unwrap();
    assert_eq!(hashed.save(at(3)), version_2);
}

/// Of a saved state that was changed: what it says when it is restored, and that it changes nothing.
fn refused(saved: &str, now: u64) -> RestoreError {
    let (mut fresh, _) = engine(WHOLE);
    let error = fresh.restore(saved, Duration::ZERO, at(now)).expect_err(saved);
    assert_eq!(fresh.save(at(now)), engine(WHOLE).0.save(at(now)));
    assert!(fresh.snapshot(at(now)).routes.is_empty());
    error
}

#[test]
fn a_text_that_is_not_a_state_is_one_clear_error_and_changes_nothing() {
    let says = |saved: &str| refused(saved, 5).to_string();
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "{\"tidegate\":\"1\"}",
        "{\"tidegate\":1,",
        VERSION_1.strip_suffix('}').unwrap(),
    ] {
        assert!(says(text).starts_with("saved state, the whole: must "), "{text}");
    }
    let newer = VERSION_1.replacen(":1,", ":3,", 1);
    assert_eq!(refused(&newer, 5), RestoreError::Version(3));
    assert_eq!(says(&newer), "saved state: version 3; this engine reads versions 1 to 2");
    for (old, new, error) in [
        ("\"oldest\":", "\"older\":", "the whole: must say how old it is and how many calls had begun"),
        ("[\"window\"", "[\"windows\"", "policy \"p\", route \"r\", budget: must be a kind of budget"),
        (
            "\"rate\":[7000000,3,",
            "\"rate\":[7000000,-3,",
            "policy \"p\", route \"r\", rate: must not be below zero",
        ),
        (
            "\"rate\":[7000000,3,",
            "\"rate\":[0,3,",
            "policy \"p\", route \"r\", rate: must be less than a whole token",
        ),
        ("\"closed\"", "\"shut\"", "policy \"p\", route \"r\", breaker: must be closed, open or half_open"),
        ("\"hedge\":[", "\"hedges\":[", "policy \"p\", route \"r\", parts: must be parts that a route has"),
        (
            "\"hedge\":[\"0.9\",[7",
            "\"hedge\":[\"0.9\",[999",
            "policy \"p\", route \"r\", hedge: must hold as many",
        ),
        (
            "\"hedge\":[\"0.9\",[7",
            "\"hedge\":[\"0.9\",7,[7",
            "policy \"p\", route \"r\", hedge: must be a list",
        ),
        ("[[0,\"r\"", "[[1,\"r\"", "routes: must be of a policy that is named"),
        ("[[0,\"r\"", "[[0,7", "routes: must have a key"),
        ("[[0,\"p\",0]]", "[[0,\"p\",2]]", "policies: must be 0 or 1"),
        ("[[0,\"p\",0]]", "[[0,\"p\",0,0]]", "policies: has items too many"),
        ("\"oldest\":2", "\"oldest\":1", "budget: is older than the oldest moment"),
    ] {
        assert!(VERSION_1.contains(old), "{old}");
        let damaged = says(&VERSION_1.replacen(old, new, 1));
        assert!(damaged.starts_with("saved state, ") && damaged.contains(error), "{damaged}");
    }
    // Moments that lie ahead where they cannot, windows that began too early, sums that do not fit, markers out of order.
    let old = VERSION_1.replacen("\"oldest\":2300000", "\"oldest\":99999999", 1);
    assert_eq!(engine(WHOLE).0.restore(&old, Duration::ZERO, at(5)).map(|restored| restored.routes), Ok(1));
    for (part, new) in [
        ("\"window\",10000000,-2300000", "\"window\",10000000,2300000"),
        ("\"window\",10000000,-2300000", "\"window\",10000000,-10000000"),
        ("[10000000,0,-21", "[10000000,0,21"),
        ("[10000000,0,-21", "[10000000,0,-120"),
        ("0,0,0,0],", "0,0,4294967295,0],"),
        ("6,1,2,0,0,0]]", "6,7,2,0,0,0]]"),
        ("80001,80002", "80003,80002"),
        ("[7,80001", "[5,80001"),
        ("[\"16a50dc8584134c7de537c0052ff6d236\",1]", "[\"0662b7b62a798bb2d53e67cad9778e12e\",1]"),
        ("\"send\":[-3", "\"send\":[3"),
    ] {
        assert!(old.contains(part), "{part} {old}");
        let damaged = says(&old.replacen(part, new, 1));
        assert!(damaged.starts_with("saved state, policy \"p\", route \"r\", "), "{part} {damaged}");
    }
}

#[test]
fn a_state_is_restored_before_the_first_call_and_once() {
    let (mut other, id) = engine(WHOLE);
    assert_eq!(call(&mut other, id, Class::Ok, 0, 1), Verdict::Ok);
    let before = other.save(at(2));
    assert_eq!(other.restore(VERSION_1, Duration::ZERO, at(2)), Err(RestoreError::InUse));
    assert_eq!(other.save(at(2)), before);
    let (mut fresh, _) = engine(WHOLE);
    assert!(fresh.restore(VERSION_1, Duration::ZERO, at(2)).is_ok());
    assert_eq!(fresh.restore(VERSION_1, Duration::ZERO, at(2)), Err(RestoreError::InUse));
}
