//! Which ends of a call a fallback stands in for, and which policies may do a call twice (semantics 7.4): every verdict
//! and every class, against a table written by hand.

use tidegate::{Class, Engine, Kind, Options, Policy, Value, Verdict};

fn policy(pairs: &[(&str, Value<'_>)]) -> Policy {
    Policy::from_pairs("p", pairs).unwrap()
}

#[test]
fn a_fallback_stands_in_for_outages_and_refusals_and_hides_no_bug() {
    let policy = policy(&[("preset", Value::Text("http")), ("kinds", Value::Text("gone=conflict"))]);
    let declared = policy.kind_of("gone").unwrap();
    for verdict in Verdict::ALL {
        let nothing_to_hide = matches!(
            verdict,
            Verdict::Ok | Verdict::Stale | Verdict::StaleRoute | Verdict::Cancelled | Verdict::CostAboveBurst
        );
        assert_eq!(policy.falls_back(*verdict, None, false), !nothing_to_hide, "{}", verdict.name());
    }
    for class in Class::ALL {
        let kind = Some(Kind::from(class));
        let outage = matches!(
            class,
            Class::Transient | Class::Throttled | Class::Timeout | Class::NeverSent | Class::Conflict
        );
        assert_eq!(policy.falls_back(Verdict::Attempts, kind, false), outage, "{}", class.name());
        let judged = outage || class == Class::Permanent;
        assert_eq!(policy.falls_back(Verdict::NotRetryable, kind, true), judged, "{}", class.name());
        assert!(!policy.falls_back(Verdict::Cancelled, kind, true), "{}", class.name());
    }
    assert!(policy.falls_back(Verdict::Attempts, Some(declared), false));
    assert!(
        !policy.falls_back(Verdict::Attempts, Kind::new(31), false),
        "a number that nobody declared is a bug"
    );
}

#[test]
fn what_may_be_done_twice() {
    let may = |pairs: &[(&str, Value<'_>)]| policy(pairs).may_do_twice();
    let (retry, hedge) = (("retry.max_attempts", Value::Number(2.0)), ("hedge.delay", Value::Number(1e5)));
    let on = |kind| ("retry.retry_on", Value::Text(kind));
    assert!(may(&[retry]));
    assert!(!may(&[("retry.max_attempts", Value::Number(1.0))]));
    assert!(!may(&[retry, on("never_sent"), on("throttled"), on("conflict")]));
    assert!(may(&[retry, on("never_sent"), on("timeout")]));
    assert!(may(&[retry, on("never_sent"), hedge]), "a hedge is a repeat that waits for nothing");
    assert!(!may(&[retry, on("lost"), ("kinds", Value::Text("lost=never_sent"))]));
    assert!(may(&[retry, on("lost"), ("kinds", Value::Text("lost=transient"))]));
}

#[test]
fn the_engine_answers_for_its_policies() {
    let mut engine = Engine::new(1, Options::default());
    let known = engine.policy(policy(&[("preset", Value::Text("http"))])).unwrap();
    assert!(engine.falls_back(known, Verdict::BreakerOpen, None, false));
    let unknown = tidegate::PolicyId::from_word(7);
    assert!(!engine.falls_back(unknown, Verdict::BreakerOpen, None, false));
}
