//! The order of a set's queue (semantics 3.10): shares of criticalities and keys, and what becomes of a full queue.

use crate::host::{SECOND, at, of, verdict};
use crate::metered::{TPM, WAIT, mistakes};
use Value::{Number, Text};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidegate::{
    Action, CallId, Class, Criticality, Document, Engine, Event, Options, Policy, PolicyId, Pool, PoolKind,
    Request, Step, Value, Verdict, Wait,
};

/// A thousand tokens a second.
const SET: (&str, Value<'static>) =
    ("limits", Text("tpm: permits=60000 per=1m burst=1000 weight=tokens default=1000"));
const BY_KEY: (&str, Value<'static>) = ("fair_by", Text("key"));
const PRIORITIZED: (&str, Value<'static>) = ("prioritized", Number(1.0));

/// Least critical first.
const ALL: [Criticality; 4] =
    [Criticality::BestEffort, Criticality::Degraded, Criticality::Normal, Criticality::Critical];

/// Tenants of one pool.
struct Tenants {
    engine: Engine,
    policies: Vec<PolicyId>,
    waiting: Vec<CallId>,
}

impl Tenants {
    fn new(pool: &[(&str, Value<'_>)], policy: &[(&str, Value<'_>)]) -> Self {
        Self::with(pool, policy, Options::default().weights(true))
    }

    fn with(pool: &[(&str, Value<'_>)], policy: &[(&str, Value<'_>)], options: Options) -> Self {
        let mut engine = Engine::new(7, options);
        engine.pool(Pool::from_pairs("shared", PoolKind::RateLimit, pool).unwrap(), at(0)).unwrap();
        let named = [
            ("rate_limit.pool", Text("shared")),
            ("rate_limit.wait", Number(1.0)),
            ("rate_limit.unit", Text("attempt")),
        ];
        let policies = ["chat", "embed"].map(|name| {
            engine.policy(Policy::from_pairs(name, &[&named[..], policy].concat()).unwrap()).unwrap()
        });
        Self { engine, policies: policies.into(), waiting: Vec::new() }
    }

    /// Begins a call of a policy, a key and a criticality.
    fn call(
        &mut self,
        (policy, key): (usize, &str),
        who: Criticality,
        tokens: u64,
        now: u64,
    ) -> (CallId, Step) {
        let route = self.engine.route(self.policies[policy], key, at(now));
        let weights = self.engine.weights(route, [("tokens", tokens)]).unwrap();
        let request = Request { criticality: who, ..Request::default() };
        let (call, step) = self.engine.begin_weighted(route, &request, weights, at(now));
        self.engine.check().unwrap();
        if let Action::Wait { why } = step.action() {
            assert_eq!(why, Wait::Rate);
            self.waiting.push(call);
        }
        (call, step)
    }

    fn begin(&mut self, key: &str, tokens: u64, now: u64) -> (CallId, Step) {
        self.call((0, key), Criticality::Normal, tokens, now)
    }

    /// Begins a call that waits.
    fn park(&mut self, key: &str, tokens: u64, now: u64) -> CallId {
        let (call, step) = self.begin(key, tokens, now);
        assert!(matches!(step.action(), Action::Wait { .. }), "{step:?}");
        call
    }

    /// Polls all that wait: those that start their attempt, and those that are refused.
    fn poll(&mut self, now: u64) -> (Vec<CallId>, Vec<(CallId, Step)>) {
        let (mut started, mut refused) = (Vec::new(), Vec::new());
        for call in std::mem::take(&mut self.waiting) {
            let step = self.engine.on(call, Event::Poll, at(now));
            self.engine.check().unwrap();
            match step.action() {
                Action::Attempt { .. } => started.push(call),
                Action::Done { .. } => refused.push((call, step)),
                Action::Wait { .. } => self.waiting.push(call),
            }
        }
        (started, refused)
    }

    /// The calls that start in this many seconds, each with the next thousand tokens.
    fn starts(&mut self, from: u64, seconds: u64) -> Vec<CallId> {
        (1..=seconds).flat_map(|n| self.poll(from + n * SECOND).0).collect()
    }

    fn wakes(&mut self) -> Vec<CallId> {
        let mut wakes = Vec::new();
        self.engine.take_wakes(&mut wakes);
        wakes
    }
}

fn waits(seconds: f64) -> [(&'static str, Value<'static>); 2] {
    [("rate_limit.max_wait", Number(seconds * 1e6)), ("rate_limit.max_waiters", Number(1_000.0))]
}

fn retry_in(step: Step) -> Option<u64> {
    match step.action() {
        Action::Done { retry_in, .. } => retry_in.map(tidegate::Duration::as_micros),
        _ => None,
    }
}

/// Semantics 3.10.1 and 3.10.3: one call of a tenant does not wait for all of another's, unless the order is that of arrival.
#[test]
fn a_tenant_with_many_calls_does_not_keep_the_others_waiting() {
    for (pool, place) in [(&[SET][..], 10), (&[SET, BY_KEY][..], 1)] {
        let mut tenants = Tenants::new(pool, &waits(60.0));
        assert!(matches!(tenants.begin("bulk", 1_000, 0).1.action(), Action::Attempt { .. }));
        for _ in 0..10 {
            tenants.park("bulk", 1_000, 0);
        }
        let small = tenants.park("small", 1_000, 0);
        let started = tenants.starts(0, 11);
        assert_eq!((started.len(), started.iter().position(|call| *call == small)), (11, Some(place)));
    }
}

/// Semantics 3.10.3: a key is one tenant in all policies of the pool, and shares count.
#[test]
fn a_key_has_one_share_whatever_its_policies() {
    let mut tenants = Tenants::new(&[SET, BY_KEY, ("shares", Text("big=3"))], &waits(60.0));
    let _ = tenants.begin("x", 1_000, 0);
    let mut keys = BTreeMap::new();
    for (policy, key) in [(0, "two"), (1, "two"), (0, "one"), (0, "big")] {
        for _ in 0..10 {
            let (call, _) = tenants.call((policy, key), Criticality::Normal, 1_000, 0);
            keys.insert(call, key);
        }
    }
    let started = tenants.starts(0, 10);
    let count = |key| started.iter().filter(|call| keys[call] == key).count();
    assert_eq!((count("two"), count("one"), count("big")), (2, 2, 6));
}

/// Semantics 3.10.2: criticalities share, and none of them starves.
#[test]
fn critical_calls_come_first_and_best_effort_gets_its_share() {
    let mut tenants = Tenants::new(&[SET, PRIORITIZED], &waits(3_600.0));
    let _ = tenants.begin("x", 1_000, 0);
    let mut who = BTreeMap::new();
    for number in 0..400 {
        let criticality = ALL[number % 4];
        let (call, step) = tenants.call((0, "k"), criticality, 1_000, 0);
        assert!(matches!(step.action(), Action::Wait { .. }));
        who.insert(call, number % 4);
    }
    let mut counts = [0; 4];
    for call in tenants.starts(0, 85) {
        counts[who[&call]] += 1;
    }
    assert_eq!(counts, [1, 4, 16, 64]);
}

/// Semantics 3.10.5 and 3.10.6: a charge is the time that the slowest limit takes, so large calls count as much as small ones.
#[test]
fn tokens_count_and_not_calls() {
    let rpm = ("limits", Text("rpm: permits=6000 per=1m burst=100"));
    let mut tenants = Tenants::new(&[SET, rpm, BY_KEY], &waits(60.0));
    let _ = tenants.begin("x", 1_000, 0);
    let mut tokens = BTreeMap::new();
    for _ in 0..5 {
        tokens.insert(tenants.park("large", 1_000, 0), ("large", 1_000));
    }
    for _ in 0..50 {
        tokens.insert(tenants.park("small", 100, 0), ("small", 100));
    }
    let mut sums = BTreeMap::from([("large", 0_u64), ("small", 0)]);
    for tenth in 1..=60 {
        for call in tenants.poll(tenth * SECOND / 10).0 {
            let (key, tokens) = tokens[&call];
            *sums.get_mut(key).unwrap() += tokens;
        }
        assert!(sums["large"].abs_diff(sums["small"]) <= 1_000 + 100, "{sums:?}");
    }
    assert_eq!(sums.values().sum::<u64>(), 6_000);
}

/// Semantics 3.10.4 and 3.4.4: no call passes a large one that is next. Semantics 3.10.9: a newcomer that is next does not wait.
#[test]
fn a_newcomer_that_is_next_takes_its_tokens_and_no_other_passes_the_head() {
    let mut tenants = Tenants::new(&[SET, BY_KEY], &waits(60.0));
    let _ = tenants.begin("a", 1_000, 0);
    tenants.park("a", 1_000, 0);
    let large = tenants.park("a", 1_000, 0);
    assert_eq!(tenants.starts(0, 1).len(), 1, "a has been charged a second");
    // Half of the large call's tokens are there. The start of b is before that of a.
    let now = 1_500_000;
    assert!(matches!(tenants.begin("b", 300, now).1.action(), Action::Attempt { .. }));
    let (behind, step) = tenants.begin("b", 800, now);
    assert!(matches!(step.action(), Action::Wait { .. }), "b is still before a, and lacks tokens");
    tenants.park("a", 1, now);
    assert_eq!(step.next().unwrap().as_micros(), 600_000);
    assert_eq!(tenants.poll(2_100_000).0, [behind]);
    assert_eq!(tenants.poll(3_099_999).0, []);
    assert_eq!(tenants.poll(3_100_000).0, [large]);
}

/// Semantics 3.10.5: a newcomer that takes its tokens at once is charged, so the next one of its key is behind.
#[test]
fn a_newcomer_that_does_not_wait_is_charged() {
    let mut tenants = Tenants::new(&[SET, BY_KEY], &waits(60.0));
    let _ = tenants.begin("a", 1_000, 0);
    let (small, large) = (tenants.park("a", 200, 0), tenants.park("a", 1_000, 0));
    assert_eq!(tenants.poll(200_000).0, [small], "a has been charged 0.2 s");
    assert!(matches!(tenants.begin("b", 300, 700_000).1.action(), Action::Attempt { .. }), "and b 0.3 s");
    let behind = tenants.park("b", 100, 700_000);
    assert_eq!(tenants.poll(1_499_999).0, []);
    assert_eq!((tenants.poll(1_500_000).0, tenants.poll(1_600_000).0), (vec![large], vec![behind]));
}

/// Semantics 3.10.8: who did not wait has saved nothing.
#[test]
fn an_idle_tenant_saves_nothing() {
    let mut tenants = Tenants::new(&[SET, BY_KEY], &waits(60.0));
    let _ = tenants.begin("a", 1_000, 0);
    let of_a: Vec<_> = (0..20).map(|_| tenants.park("a", 1_000, 0)).collect();
    assert_eq!(tenants.starts(0, 10), of_a[..10]);
    let of_b: Vec<_> = (0..10).map(|_| tenants.park("b", 1_000, 10 * SECOND)).collect();
    let started = tenants.starts(10 * SECOND, 10);
    let of = |calls: &[CallId]| started.iter().filter(|call| calls.contains(call)).count();
    assert_eq!((of(&of_a), of(&of_b)), (5, 5));
}

/// Semantics 3.10.10.
#[test]
fn only_a_keys_own_waiters_make_a_wait_vain_and_max_wait_bounds_the_true_one() {
    let mut tenants = Tenants::new(&[SET, BY_KEY], &waits(5.0));
    let _ = tenants.begin("a", 1_000, 0);
    for _ in 0..5 {
        tenants.park("a", 1_000, 0);
    }
    let (_, step) = tenants.begin("a", 1_000, 0);
    assert_eq!((verdict(step), retry_in(step)), (Verdict::RateLimited, Some(6 * SECOND)));
    for key in ["b", "c", "d", "e"] {
        for _ in 0..3 {
            tenants.park(key, 1_000, 0);
        }
    }
    let mut started = tenants.starts(0, 4);
    let (last, refused) = tenants.poll(5 * SECOND);
    started.extend(last);
    assert_eq!((started.len(), refused.len(), tenants.waiting.len()), (5, 12, 0));
    assert!(refused.iter().all(|(_, step)| verdict(*step) == Verdict::RateLimited));
}

/// Semantics 3.10.10: a wait that would end with the deadline is in vain.
#[test]
fn a_call_whose_tokens_come_at_its_deadline_is_refused_at_once() {
    for (remaining, waits_for_it) in [(SECOND, false), (SECOND + 1, true)] {
        let mut tenants = Tenants::new(&[SET, BY_KEY], &waits(60.0));
        let _ = tenants.begin("a", 1_000, 0);
        let route = tenants.engine.route(tenants.policies[0], "b", at(0));
        let remaining = Some(tidegate::Duration::from_micros(remaining));
        let (_, step) = tenants.engine.begin(route, &Request { remaining, ..Request::default() }, at(0));
        assert_eq!(matches!(step.action(), Action::Wait { .. }), waits_for_it, "{step:?}");
    }
}

/// Semantics 3.10.11.
#[test]
fn a_full_queue_gives_a_place_of_the_longest_key_to_another_one() {
    let pairs = [("rate_limit.max_wait", Number(60e6)), ("rate_limit.max_waiters", Number(4.0))];
    let mut tenants = Tenants::new(&[SET, BY_KEY], &pairs);
    let _ = tenants.begin("a", 1_000, 0);
    let of_a: Vec<_> = (0..4).map(|_| tenants.park("a", 1_000, 0)).collect();
    let (refused, step) = tenants.begin("a", 1_000, 0);
    assert_eq!(verdict(step), Verdict::RateLimited, "its own key is the longest");
    assert_eq!(tenants.engine.refusal_of(refused).unwrap().to_string(), "limit tpm, 1000 tokens");
    assert_eq!(tenants.wakes(), []);
    let of_b: Vec<_> = (0..2).map(|_| tenants.park("b", 1_000, 0)).collect();
    assert_eq!(
        tenants.wakes(),
        [of_a[3], of_a[0], of_a[2], of_a[0]],
        "the head too, whose timer may be late"
    );
    assert_eq!(verdict(tenants.begin("b", 1_000, 0).1), Verdict::RateLimited, "it would have as many as a");
    let (started, refused) = tenants.poll(0);
    assert_eq!(started, []);
    let refused: Vec<_> =
        refused.into_iter().map(|(call, step)| (call, verdict(step), retry_in(step))).collect();
    let after = Some(4 * SECOND);
    assert_eq!(refused, [(of_a[2], Verdict::RateLimited, after), (of_a[3], Verdict::RateLimited, after)]);
    assert_eq!(tenants.engine.last_refusal().map(|it| it.limit), Some("tpm"));
    assert_eq!(tenants.engine.last_refusal().and_then(|it| it.weight), Some(("tokens", 1_000)));
    assert_eq!(tenants.starts(0, 4), [of_a[0], of_b[0], of_a[1], of_b[1]]);
}

/// Semantics 3.10.11: criticality counts before the length of keys, and no call displaces a more critical one.
#[test]
fn a_critical_call_displaces_a_less_critical_one() {
    let pairs = [("rate_limit.max_wait", Number(60e6)), ("rate_limit.max_waiters", Number(3.0))];
    let mut tenants = Tenants::new(&[SET, BY_KEY, PRIORITIZED], &pairs);
    let _ = tenants.begin("a", 1_000, 0);
    let (low, _) = tenants.call((0, "low"), Criticality::BestEffort, 1_000, 0);
    for _ in 0..2 {
        tenants.park("a", 1_000, 0);
    }
    assert_eq!(verdict(tenants.call((0, "z"), Criticality::BestEffort, 1_000, 0).1), Verdict::RateLimited);
    let (critical, step) = tenants.call((0, "a"), Criticality::Critical, 1_000, 0);
    assert!(matches!(step.action(), Action::Wait { .. }));
    let (_, refused) = tenants.poll(0);
    assert_eq!(refused.iter().map(|(call, _)| *call).collect::<Vec<_>>(), [low]);
    assert_eq!(tenants.waiting.len(), 3);
    // A call that may not park, or that would wait in vain, displaces no other.
    let route = tenants.engine.route(tenants.policies[0], "new", at(0));
    let hasty = Request { may_park: false, criticality: Criticality::Critical, ..Request::default() };
    assert_eq!(verdict(tenants.engine.begin(route, &hasty, at(0)).1), Verdict::RateLimited);
    assert!(tenants.poll(0).1.is_empty());
    assert!(tenants.starts(0, 3).contains(&critical));
}

/// Semantics 3.10.11 and 3.4.6: a newcomer that displaces the only waiter is the head, and is not woken by itself. The
/// refusal names the limit that frees last.
#[test]
fn a_newcomer_in_place_of_the_head_wakes_the_head_alone() {
    let pairs = [("rate_limit.max_wait", Number(60e6)), ("rate_limit.max_waiters", Number(1.0))];
    let calls = ("limits", Text("calls: permits=1 per=800ms"));
    let mut tenants = Tenants::new(&[SET, calls, PRIORITIZED], &pairs);
    let _ = tenants.begin("a", 1_000, 0);
    let (low, _) = tenants.call((0, "a"), Criticality::BestEffort, 500, 0);
    assert_eq!(tenants.wakes(), []);
    let (_, step) = tenants.call((0, "a"), Criticality::Critical, 500, 0);
    assert_eq!((step.next(), tenants.wakes()), (Some(tidegate::Duration::from_micros(800_000)), vec![low]));
    assert_eq!(tenants.poll(0).1.len(), 1);
    assert_eq!(tenants.engine.refusal_of(low).unwrap().to_string(), "limit calls");
}

/// Semantics 3.4.6 and 3.5.4: a call above a burst that has shrunk names the limit, whether it waits or asks for its next
/// attempt, and whatever the order of the queue.
#[test]
fn a_call_above_a_burst_that_has_shrunk_names_the_limit() {
    for order in [&[][..], &[BY_KEY]] {
        let repeats = [("retry.max_attempts", Number(2.0)), ("retry.backoff.base", Number(0.0))];
        let pool = [&[SET][..], order].concat();
        let mut tenants = Tenants::new(&pool, &[&waits(60.0)[..], &repeats].concat());
        let (running, waiting) = (tenants.begin("a", 800, 0).0, tenants.park("b", 800, 0));
        let smaller = ("limits", Text("tpm: permits=60000 per=1m burst=500 weight=tokens default=400"));
        let to = Pool::from_pairs("shared", PoolKind::RateLimit, &[&[smaller][..], order].concat()).unwrap();
        let _ = tenants.engine.retune_pool(to, at(0)).unwrap();
        let (_, refused) = tenants.poll(0);
        assert_eq!(refused.iter().map(|it| verdict(it.1)).collect::<Vec<_>>(), [Verdict::CostAboveBurst]);
        let failed = Event::Finished { attempt: 1, outcome: of(Class::Transient) };
        let mut step = tenants.engine.on(running, failed, at(9 * SECOND));
        if let Action::Wait { .. } = step.action() {
            step = tenants.engine.on(running, Event::Timer, at(10 * SECOND));
        }
        assert_eq!((verdict(step), retry_in(step)), (Verdict::Readmission, None));
        for call in [waiting, running] {
            let refusal = tenants.engine.refusal_of(call).map(|it| it.to_string());
            assert_eq!(refusal.as_deref(), Some("limit tpm, 800 tokens"), "{order:?}");
        }
    }
}

/// Semantics 3.10.5: a waiter that leaves changes no start.
#[test]
fn a_cancelled_waiter_costs_its_key_nothing() {
    let mut tenants = Tenants::new(&[SET, BY_KEY], &waits(60.0));
    let _ = tenants.begin("x", 1_000, 0);
    let of_a: Vec<_> = (0..3).map(|_| tenants.park("a", 1_000, 0)).collect();
    let b = tenants.park("b", 1_000, 0);
    assert_eq!(verdict(tenants.engine.on(of_a[0], Event::Cancel, at(0))), Verdict::Cancelled);
    assert_eq!(tenants.wakes(), [of_a[1]], "the new head is woken");
    tenants.waiting.retain(|call| *call != of_a[0]);
    tenants.engine.check().unwrap();
    assert_eq!(tenants.starts(0, 3), [of_a[1], b, of_a[2]]);
}

/// Semantics 3.10.12: calls of overflow routes share one key.
#[test]
fn overflow_routes_are_one_key() {
    let options = Options::default().weights(true).max_routes(2);
    let mut tenants = Tenants::with(&[SET, BY_KEY], &waits(60.0), options);
    let _ = tenants.begin("a", 1_000, 0);
    let mut keys = BTreeMap::new();
    for key in ["a", "b", "c", "d"] {
        for _ in 0..4 {
            keys.insert(tenants.park(key, 1_000, 0), key);
        }
    }
    let started = tenants.starts(0, 6);
    let count = |key| started.iter().filter(|call| keys[call] == key).count();
    assert_eq!((count("a"), count("b"), count("c") + count("d")), (2, 2, 2));
}

/// Semantics 3.10.14: a retune keeps the waiters, in the order in which they came.
#[test]
fn a_retune_changes_the_order_of_those_that_wait() {
    let mut tenants = Tenants::new(&[SET], &waits(60.0));
    let _ = tenants.begin("a", 1_000, 0);
    let of_a: Vec<_> = (0..4).map(|_| tenants.park("a", 1_000, 0)).collect();
    let b = tenants.park("b", 1_000, 0);
    let retune = |tenants: &mut Tenants, pairs: &[(&str, Value<'_>)], now| {
        let to = Pool::from_pairs("shared", PoolKind::RateLimit, pairs).unwrap();
        let _ = tenants.engine.retune_pool(to, at(now)).unwrap();
        tenants.engine.check().unwrap();
    };
    retune(&mut tenants, &[SET, BY_KEY], 0);
    assert_eq!(tenants.wakes(), [of_a[0]]);
    assert_eq!(tenants.starts(0, 2), [of_a[0], b]);
    let b = tenants.park("b", 1_000, 2 * SECOND);
    retune(&mut tenants, &[SET], 2 * SECOND);
    assert_eq!(tenants.starts(2 * SECOND, 4), [of_a[1], of_a[2], of_a[3], b]);
    // After a fork no call waits, and the order is empty.
    retune(&mut tenants, &[SET, BY_KEY], 6 * SECOND);
    tenants.park("a", 1_000, 6 * SECOND);
    let _ = tenants.engine.after_fork(8, at(6 * SECOND));
    tenants.engine.check().unwrap();
}

/// Semantics 3.10.13.
#[test]
fn mistakes_say_what_to_write_instead() {
    let of_pool = |pairs: &[(&str, Value<'_>)]| -> Vec<String> {
        let errors = Pool::from_pairs("x", PoolKind::RateLimit, pairs).unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    };
    let rate = [("permits", Number(5.0)), ("per", Number(1e6))];
    let example = r#"needs limits, which may have one limit: { calls = { permits = 10, per = "1s" } }"#;
    assert_eq!(of_pool(&[rate[0], rate[1], BY_KEY]), [format!("fair_by = key: {example}")]);
    assert_eq!(of_pool(&[rate[0], rate[1], PRIORITIZED]), [format!("prioritized = true: {example}")]);
    assert_eq!(
        of_pool(&[SET, BY_KEY, ("store", Text("fleet"))]),
        [
            "fair_by = key: has no meaning where store is fleet, because each process orders only its own calls: leave it out, or keep the limits local"
        ]
    );
    let own = [TPM, WAIT[0], WAIT[1]];
    assert_eq!(
        mistakes(&[&own[..], &[("rate_limit.fair_by", Text("key"))]].concat()),
        [
            "rate_limit.fair_by = key: belongs to a pool, because each key has limits of its own here: declare the limits as a pool, and name it in rate_limit.pool"
        ]
    );
    assert_eq!(
        mistakes(&[TPM, ("rate_limit.prioritized", Number(1.0))]),
        ["rate_limit.prioritized = true: needs a queue: rate_limit.wait"]
    );
    assert!(
        Policy::from_pairs("p", &[&own[..], &[("rate_limit.prioritized", Number(1.0))]].concat()).is_ok()
    );
    assert!(
        Policy::from_pairs("p", &[TPM, ("rate_limit.prioritized", Number(0.0))]).is_ok(),
        "off needs nothing"
    );
    assert_eq!(
        mistakes(&[("rate_limit.pool", Text("x")), ("rate_limit.fair_by", Text("key"))]),
        ["rate_limit.fair_by = key: belongs to the pool that rate_limit.pool names"]
    );
    let share = |text: &'static str| of_pool(&[SET, BY_KEY, ("shares", Text(text))]).concat();
    for wrong in ["acme", "acme=0", "acme=1001", "=4", "acme=+4", "acme=x"] {
        assert!(
            share(wrong).contains("must be key=share: a route key of 1 to 100 bytes"),
            "{}",
            share(wrong)
        );
    }
    let twice = [SET, BY_KEY, ("shares", Text("a=1")), ("shares", Text("a=01"))];
    assert_eq!(of_pool(&twice), [r#"shares = "a": is given more than once"#]);
    assert_eq!(
        of_pool(&[SET, ("shares", Text("a=1"))]),
        ["shares = a=1: means something only where fair_by is key"]
    );
}

/// Semantics 3.10.13: a document has a table of shares, and prints a list, because keys may have dots.
#[test]
fn a_document_has_a_table_of_shares() {
    let table = r#"
        [pool.chat.rate_limit]
        fair_by = "key"
        limits.tpm = { permits = 1000, per = "1m", weight = "tokens" }
        shares = { "api.acme.com" = 4, b = 1 }
    "#;
    let document = Document::from_toml(table).unwrap();
    let list = table.replace(r#"{ "api.acme.com" = 4, b = 1 }"#, r#"["api.acme.com=4", "b=1"]"#);
    let again = Document::from_toml(&list).unwrap();
    assert_eq!(document.digest(), again.digest());
    assert!(document.to_toml().contains(r#"shares = ["api.acme.com=4","b=1"]"#), "{}", document.to_toml());
    assert_eq!(Document::from_toml(&document.to_toml()).unwrap().digest(), document.digest());
    for (wrong, key) in [("= 4, b", "= 0, b"), ("b = 1 }", "b = \"x\" }"), ("b = 1 }", "b = 1.5 }")] {
        let errors = Document::from_toml(&table.replace(wrong, key)).unwrap_err();
        let text = errors[0].to_string();
        assert!(
            text.starts_with("line 5: pool.chat.rate_limit.shares = ") && text.contains("key=share"),
            "{text}"
        );
    }
}

/// Semantics 3.10.15.
#[test]
fn an_explanation_tells_the_order() {
    let tenants = Tenants::new(&[SET, BY_KEY, PRIORITIZED, ("shares", Text("acme=4"))], &waits(60.0));
    let text = tenants.engine.explain_policy(tenants.policies[0]).unwrap().to_string();
    assert!(text.contains("prioritized true, fair_by key, shares acme=4"), "{text}");
    let own = [&[TPM, ("rate_limit.prioritized", Number(1.0))][..], &WAIT].concat();
    let mut engine = Engine::new(1, Options::default().weights(true));
    let policy = engine.policy(Policy::from_pairs("p", &own).unwrap()).unwrap();
    let text = engine.explain_policy(policy).unwrap().to_string();
    assert!(text.contains("prioritized true, fair_by none"), "{text}");
}

proptest! {
    /// Semantics 3.10.7, 3.10.10 and 3.4.3: whatever comes, leaves and settles, nobody starves: a waiter has its tokens or
    /// its refusal when its `max_wait` is over. No limit gives more than its rate and burst.
    #[test]
    fn nobody_starves_and_nothing_is_given_twice(
        prioritized: bool, by_key: bool, burst in 100u64..400, most in 1u32..12,
        ops in prop::collection::vec((0u64..300_000, 0u8..10, 0usize..4, 1u64..100, any::<prop::sample::Index>()), 1..150),
    ) {
        let limits = [
            format!("a: permits=500 per=1s burst={burst} weight=tokens default=1"),
            "b: permits=20 per=1s burst=5".to_owned(),
        ];
        let mut pairs: Vec<_> = limits.iter().map(|text| ("limits", Text(text))).collect();
        pairs.push(("prioritized", Number(f64::from(u8::from(prioritized)))));
        pairs.push(("fair_by", Text(if by_key { "key" } else { "none" })));
        let policy = [("rate_limit.max_wait", Number(2e6)), ("rate_limit.max_waiters", Number(f64::from(most)))];
        let mut tenants = Tenants::new(&pairs, &policy);
        let (mut now, mut begun, mut running) = (0, BTreeMap::new(), Vec::new());
        let mut granted: Vec<(u64, u64)> = Vec::new();
        let all = ALL;
        for (gap, op, which, tokens, index) in ops {
            now += gap;
            if op < 7 {
                let (call, step) = tenants.call((which % 2, ["w", "x", "y", "z"][which]), all[tokens as usize % 4], tokens, now);
                begun.insert(call, (now, tokens));
                if let Action::Attempt { .. } = step.action() {
                    granted.push((now, tokens));
                    running.push(call);
                }
            } else if op == 7 && !tenants.waiting.is_empty() {
                let call = tenants.waiting.remove(index.index(tenants.waiting.len()));
                let _ = tenants.engine.on(call, Event::Cancel, at(now));
            } else if !running.is_empty() {
                let call = running.remove(index.index(running.len()));
                let _ = tenants.engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(now));
            }
            tenants.engine.check().unwrap();
            let (started, refused) = tenants.poll(now);
            for call in started {
                granted.push((now, begun[&call].1));
                running.push(call);
            }
            for (_, step) in refused {
                prop_assert_eq!(verdict(step), Verdict::RateLimited);
            }
            for call in &tenants.waiting {
                prop_assert!(now < begun[call].0 + 2_000_000, "{call:?} waits beyond its max_wait");
            }
            prop_assert!(tenants.waiting.len() <= most as usize);
        }
        for from in 0..granted.len() {
            let span = granted.last().unwrap().0 - granted[from].0;
            let sum: u64 = granted[from..].iter().map(|it| it.1).sum();
            prop_assert!(sum <= burst + span * 500 / 1_000_000 + 1, "{sum} tokens in {span} us");
            prop_assert!((granted.len() - from) as u64 <= 5 + span * 20 / 1_000_000 + 1);
        }
    }

    /// Semantics 3.10.7: with a queue that is never full, a best-effort call gets its tokens after at most 85 charges of
    /// the others and one of its own key's waiters before it, whoever else comes.
    #[test]
    fn the_least_critical_call_is_served_under_a_flood(tokens in 1u64..=1_000, keys in 1usize..4) {
        let mut tenants = Tenants::new(&[SET, BY_KEY, PRIORITIZED], &waits(3_600.0));
        let _ = tenants.begin("x", 1_000, 0);
        let (low, _) = tenants.call((0, "low"), Criticality::BestEffort, 1_000, 0);
        let (mut second, mut served) = (0, None);
        while served.is_none() {
            for key in 0..keys {
                let criticality = [Criticality::Critical, Criticality::Normal, Criticality::Degraded][key % 3];
                let _ = tenants.call((0, &format!("k{second}")), criticality, tokens, second * SECOND);
                let _ = tenants.call((0, "flood"), criticality, 1_000, second * SECOND);
            }
            second += 1;
            served = tenants.poll(second * SECOND).0.into_iter().find(|call| *call == low);
            prop_assert!(second <= 2 * 86, "not served in {second} s");
        }
    }
}
