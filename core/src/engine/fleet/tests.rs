//! R16: a component that has left the fleet is a legal state; a missing one is a bug, which debug builds report.

use crate::Request;
use crate::action::{Action, RouteId};
use crate::engine::rate_queue::Bucket;
use crate::engine::{Engine, Options};
use crate::fleet::{CommandId, Reply, StoreCommand, StoreKind};
use crate::limit::TokenBucket;
use crate::policy::{Policy, Value};
use crate::time::Time;

const NOW: Time = Time::from_micros(0);

fn engine(pairs: &[(&str, Value<'_>)]) -> (Engine, RouteId) {
    let mut engine = Engine::new(7, Options::default());
    let _ = engine.attach_store(StoreKind::Lua, "", 1, NOW);
    let policy = engine.policy(Policy::from_pairs("partner", pairs).unwrap()).unwrap();
    let route = engine.route(policy, "api", NOW);
    (engine, route)
}

fn fleet_rate() -> (Engine, RouteId) {
    engine(&[
        ("rate_limit.permits", Value::Number(500.0)),
        ("rate_limit.per", Value::Number(1e6)),
        ("rate_limit.store", Value::Text("fleet")),
    ])
}

fn commands(engine: &mut Engine) -> Vec<StoreCommand> {
    let mut commands = Vec::new();
    engine.take_commands(&mut commands);
    commands
}

/// Begins a call that asks the store for a token.
fn ask(engine: &mut Engine, route: RouteId) -> CommandId {
    let (_, step) = engine.begin(route, &Request::default(), NOW);
    assert!(matches!(step.action(), Action::Wait { .. }), "{step:?}");
    commands(engine)[0].id
}

/// Makes the rate the process's own, as a retune does.
fn disown(engine: &mut Engine, route: RouteId) {
    let at = engine.desk.routes.find(route).unwrap();
    let rate = engine.desk.routes[at].rate.as_mut().unwrap();
    let Bucket::Fleet(share) = &rate.bucket else { panic!("the rate is the fleet's") };
    rate.bucket = Bucket::Tokens(TokenBucket::new(share.settings(), NOW));
}

#[test]
fn a_reply_to_a_component_that_is_no_longer_the_fleets_changes_nothing() {
    for reply in [Reply::Bytes(b"1 0 1"), Reply::Lost, Reply::Error(b"NOSCRIPT"), Reply::Error(b"WRONGTYPE")]
    {
        let (mut engine, route) = fleet_rate();
        let command = ask(&mut engine, route);
        disown(&mut engine, route);
        let flags = engine.on_reply(command, reply, NOW);
        assert!(!flags.wakes, "{reply:?}");
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the fleet's share of a rate is missing")]
fn a_missing_share_is_reported() {
    let (mut engine, route) = fleet_rate();
    let at = engine.desk.routes.find(route).unwrap();
    disown(&mut engine, route);
    engine.desk.routes.rate_settled(at.own());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the store of a component of the fleet's is missing")]
fn a_missing_store_is_reported() {
    let (mut engine, route) = fleet_rate();
    engine.store.fleet = None;
    let _ = engine.begin(route, &Request::default(), NOW);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "the component of a stage is missing (BreakerOpen)"))]
fn a_missing_breaker_refuses() {
    let (mut engine, route) = engine(&[
        ("breaker.consecutive", Value::Number(3.0)),
        ("breaker.break_duration", Value::Number(1e6)),
    ]);
    let at = engine.desk.routes.find(route).unwrap();
    engine.desk.routes[at].breaker = None;
    let (_, step) = engine.begin(route, &Request::default(), NOW);
    assert!(!matches!(step.action(), Action::Attempt { .. }), "{step:?}");
}
