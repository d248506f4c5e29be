//! Policies whose components are the fleet's: what they must say, and what the engine must have for them.

use Value::{Number, Text};
use tidegate::fleet::{CommandId, Reply, StoreKind};
use tidegate::{Engine, Flags, Options, Policy, Pool, PoolKind, Time, Value};

type Pairs = Vec<(&'static str, Value<'static>)>;

fn rate(more: &[(&'static str, Value<'static>)]) -> Pairs {
    let rate = [("rate_limit.permits", Number(100.0)), ("rate_limit.per", Number(1e6))];
    [&rate, more].concat()
}

fn errors(pairs: &[(&str, Value<'_>)]) -> Vec<String> {
    Policy::from_pairs("p", pairs).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn keys_of_the_fleet_mean_nothing_where_a_component_is_local() {
    for (key, value, table) in [
        ("rate_limit.lease", Number(5.0), "rate_limit"),
        ("rate_limit.on_loss", Text("open"), "rate_limit"),
        ("breaker.quorum", Number(2.0), "breaker"),
        ("breaker.on_loss", Text("closed"), "breaker"),
        ("bulkhead.lease_ttl", Number(5e6), "bulkhead"),
        ("bulkhead.on_loss", Text("local"), "bulkhead"),
    ] {
        let base = rate(&[
            ("breaker.consecutive", Number(3.0)),
            ("breaker.break_duration", Number(1e6)),
            ("bulkhead.max_concurrency", Number(5.0)),
            (key, value),
        ]);
        let found = errors(&base);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("{key} = ")), "{found:?}");
        assert!(
            found[0].ends_with(&format!("means something only where {table}.store is fleet")),
            "{found:?}"
        );
        let store = match table {
            "rate_limit" => "rate_limit.store",
            "breaker" => "breaker.store",
            _ => "bulkhead.store",
        };
        assert!(Policy::from_pairs("p", &[&base[..], &[(store, Text("fleet"))]].concat()).is_ok(), "{key}");
    }
    let found = errors(&[("store_timeout", Number(1e5)), ("deadline", Number(1e6))]);
    assert_eq!(
        found,
        ["store_timeout = 100ms: means something only where a component is the fleet's: cooldown.store, \
          rate_limit.store, bulkhead.store, bulkhead.latency_store, breaker.store"]
    );
    let pooled = [("store_exchange", Number(1e5)), ("rate_limit.pool", Text("api"))];
    assert!(Policy::from_pairs("p", &pooled).is_ok(), "the pool may be the fleet's");
}

#[test]
fn a_rate_of_the_fleet_fits_the_stores_integers_and_a_lease_the_burst() {
    let fleet = ("rate_limit.store", Text("fleet"));
    let lease = |n| [fleet, ("rate_limit.lease", Number(n))];
    assert!(Policy::from_pairs("p", &rate(&lease(100.0))).is_ok());
    assert_eq!(
        errors(&rate(&lease(101.0))),
        ["rate_limit.lease = 101: must be at most rate_limit.permits (100)"]
    );
    let a_day = |burst| {
        vec![
            ("rate_limit.permits", Number(10.0)),
            ("rate_limit.per", Number(86_400e6)),
            ("rate_limit.burst", Number(burst)),
            fleet,
        ]
    };
    let most = (1u64 << 52) / 86_400_000_000;
    assert!(Policy::from_pairs("p", &a_day(most as f64)).is_ok());
    assert_eq!(
        errors(&a_day(most as f64 + 1.0)),
        [format!(
            "rate_limit.burst = {}: must be at most {most} with this rate_limit.per where rate_limit.store is fleet",
            most + 1
        )]
    );
}

#[test]
fn latencies_are_shared_where_a_quantile_of_them_is_compared() {
    let aimd = |more: &[(&'static str, Value<'static>)]| {
        let aimd = [
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(9.0)),
            ("bulkhead.latency_threshold", Number(1e5)),
            ("bulkhead.latency_store", Text("fleet")),
        ];
        [&aimd, more].concat()
    };
    assert!(Policy::from_pairs("p", &aimd(&[("bulkhead.latency_quantile", Number(0.9))])).is_ok());
    let expected = "bulkhead.latency_store = fleet: needs bulkhead.kind = aimd and bulkhead.latency_quantile";
    assert_eq!(errors(&aimd(&[])), [expected]);
}

#[test]
fn a_component_of_the_fleet_needs_a_store_and_says_so() {
    let now = Time::from_micros(0);
    let mut engine = Engine::new(1, Options::default());
    let policy = || Policy::from_pairs("p", &rate(&[("rate_limit.store", Text("fleet"))])).unwrap();
    assert_eq!(
        engine.policy(policy()).unwrap_err().to_string(),
        "policy = \"p\": rate_limit.store = fleet needs a store: attach one to the engine first"
    );
    let pool = [("permits", Number(1.0)), ("per", Number(1e6)), ("store", Text("fleet"))];
    let pool = Pool::from_pairs("api", PoolKind::RateLimit, &pool).unwrap();
    assert!(engine.pool(pool, now).unwrap_err().rule.contains("needs a store"));
    let local = Policy::from_pairs("p", &rate(&[])).unwrap();
    let id = engine.policy(local).unwrap();
    assert!(engine.retune(id, policy(), now).unwrap_err().rule.contains("needs a store"));
    assert_eq!(engine.setting(id, "rate_limit.store"), Some(Text("local")), "nothing has changed");
}

#[test]
fn answers_to_commands_that_nobody_gave_change_nothing() {
    let now = Time::from_micros(5);
    let mut engine = Engine::new(1, Options::default());
    for reply in [Reply::Bytes(b"1 0 1"), Reply::Error(b"NOSCRIPT"), Reply::Lost] {
        assert_eq!(engine.on_reply(CommandId::from_word(1), reply, now), Flags::default());
    }
    assert_eq!(engine.attach_store(StoreKind::Lua, "", 1, now), Flags::default());
    for reply in [Reply::Bytes(b"1 0 1"), Reply::Error(b"NOSCRIPT"), Reply::Lost] {
        assert_eq!(engine.on_reply(CommandId::from_word(u64::MAX), reply, now), Flags::default());
    }
    let mut commands = Vec::new();
    engine.take_commands(&mut commands);
    assert_eq!(commands, []);
    engine.check().unwrap();
}
