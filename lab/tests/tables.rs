//! The tables with few seeds, so that every change is checked; `cargo xtask deep` runs them with many.

use tidegate::{Action, Class, Engine, Event, Options, Outcome, Request, Time, Verdict};
use tidegate_lab::experiments::{
    cap, cost, e1, e2, e3, e4, e5, e6, e7, e10, e15, harm, lone, recovery, slow,
};
use tidegate_lab::recovery::{Cell, Trigger};
use tidegate_lab::rules;
use tidegate_lab::table::Table;

#[test]
fn e1_retry_strategies() {
    e1(1).check();
}

#[test]
fn e2_number_of_clients() {
    e2(5).check();
}

#[test]
fn e3_backoff_is_not_a_budget() {
    e3(1).check();
}

#[test]
fn e4_jitter_under_contention() {
    e4(100).check();
}

#[test]
fn e5_simple_collapse() {
    e5(10).check();
}

#[test]
fn e6_vulnerability_map() {
    e6(3).check();
}

#[test]
fn e7_full_queue() {
    e7(5).check();
}

#[test]
fn e10_a_database_with_little_room() {
    e10(2).check();
}

#[test]
fn e15_layers() {
    e15(1).check();
}

/// Promise 4 on the whole grid with one seed in each cell; a hundred seeds are run by hand
/// (`docs/explanation/experiments.md`).
#[test]
fn the_default_recovers() {
    let http = rules::preset("http");
    recovery(&http, 1, true).check();
    slow(&http, 1, true).check();
}

/// Shows that the lab can fail: the previous default (a window with ten free retries per second per process) stays dead
/// in most runs.
#[test]
fn the_window_with_its_floor_does_not() {
    let window = rules::timed(rules::window(), 3.0);
    let dead = Cell::safe(&window, 10, 66.7, Trigger::Pulse(20)).runs(3);
    assert_eq!((dead.runs, dead.dead), (3, 3));
}

#[test]
fn a_lone_client_gets_its_retries() {
    lone(4).check();
}

/// 503, 503, 200: the first thing that a new user tries.
#[test]
fn the_first_call_of_a_fresh_process_may_use_its_attempts() {
    let mut engine = Engine::new(1, Options::default());
    let policy = engine.policy(rules::preset("http").policy()).unwrap();
    let mut now = Time::from_micros(0);
    let route = engine.route(policy, "new", now);
    let (call, mut step) = engine.begin(route, &Request::default(), now);
    for (attempt, class) in [(1, Class::Transient), (2, Class::Transient), (3, Class::Ok)] {
        assert_eq!(step.action(), Action::Attempt { attempt, hedge: false });
        step = engine.on(call, Event::Finished { attempt, outcome: Outcome::of(class) }, now);
        if let Some(span) = step.next() {
            now = now.after(span);
            step = engine.on(call, Event::Timer, now);
        }
    }
    assert!(matches!(step.action(), Action::Done { verdict: Verdict::Ok, .. }), "{step:?}");
}

#[test]
fn what_the_default_costs() {
    cost(2).check();
}

#[test]
fn promise_5_no_harm() {
    let table: Table = harm(1_000_000);
    table.check();
    assert_eq!(table.rows.len(), 14, "all presets, and components beside them");
}

/// Specification 4.6: within a fifth (or 1) of the cap, and fewer than 2 % refused.
#[test]
fn a_hidden_cap_is_found() {
    cap(1).check();
}

#[test]
fn a_run_repeats_itself() {
    let cell = Cell::safe(&rules::timed(rules::attempts(3), 3.0), 10, 20.0, Trigger::Cut);
    assert_eq!(cell.run(7), cell.run(7));
    assert_ne!(cell.run(7), cell.run(8));
}
