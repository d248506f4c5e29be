//! Rules that involve several keys.

use super::check::{PolicyError, Settings};
use super::components::call;
use super::domain::Stored;
use super::pool::PoolKind;
use super::whole::{self, COMPONENTS};
use crate::text;

impl Settings {
    /// The rules across keys that these settings break.
    pub(super) fn across(&self) -> Vec<PolicyError> {
        let mut errors = Vec::new();
        self.check_presence(&mut errors);
        self.check_order(&mut errors);
        self.check_company(&mut errors);
        whole::check_pooled(self, &mut errors);
        for component in COMPONENTS {
            (component.check)(self, &mut errors);
        }
        whole::check_fleet(self, &mut errors);
        errors
    }

    /// The key that names the pool of this key's component; `None` if the key is the policy's own.
    pub(super) fn pool_of(&self, key: &str) -> Option<&'static str> {
        let named = |kind: &PoolKind| kind.holds(key) && self.given(kind.pool_key());
        whole::POOLS.iter().copied().find(named).map(PoolKind::pool_key)
    }

    /// Checks for missing keys.
    fn check_presence(&self, errors: &mut Vec<PolicyError>) {
        let mut absent = |key: &str, why: &[&str]| {
            let rule = text::of(&["is required where ", &text::of(why)]);
            errors.push(PolicyError::new(key, "(absent)", rule));
        };
        for (chooser, choice, needed) in COMPONENTS.iter().flat_map(|component| component.needed) {
            if self.word(chooser) == *choice && !self.given(needed) {
                absent(needed, &[chooser, " is ", choice]);
            }
        }
        for component in COMPONENTS {
            for (there, needed, instead) in component.required {
                if component.table == "rate_limit" && self.given("rate_limit.limits") {
                    continue; // each limit of the set has its own
                }
                if self.uses(component.table) && !self.given(needed) && !self.given(instead) {
                    let or = if instead.is_empty() { "" } else { ", or " };
                    absent(needed, &[there, or, instead]);
                }
            }
        }
        for (key, beside) in COMPONENTS.iter().flat_map(|component| component.beside) {
            if self.given(key) && !self.given(beside) {
                absent(beside, &["there is ", key]);
            }
        }
    }

    /// Checks values that bound each other.
    fn check_order(&self, errors: &mut Vec<PolicyError>) {
        for (low, high) in COMPONENTS.iter().flat_map(|component| component.ordered) {
            let in_order = match (self.stored(low), self.stored(high)) {
                (Some(Stored::Span(low)), Some(Stored::Span(high))) => low <= high,
                (Some(Stored::Whole(low)), Some(Stored::Whole(high))) => low <= high,
                _ => true,
            };
            if !in_order {
                let rule = text::of(&["must be at least ", low, " (", &self.shown_value(low), ")"]);
                errors.push(PolicyError::new(*high, self.shown_value(high), rule));
            }
        }
    }

    /// Checks keys that require or exclude each other.
    fn check_company(&self, errors: &mut Vec<PolicyError>) {
        let mut fail = |key: &str, value: String, rule: String| {
            errors.push(PolicyError::new(key, value, rule));
        };
        let meaningful = self.values.keys().any(|key| !call::NO_COMPONENTS.contains(key));
        if !meaningful && !self.given(call::PRESET) {
            let rule = "an empty policy does nothing; give it at least one component";
            fail("policy", "(empty)".into(), rule.into());
        }
    }

    /// Checks that no key is given that belongs to a pool.
    pub(super) fn check_pooled(&self, errors: &mut Vec<PolicyError>) {
        for key in self.values.keys() {
            if let Some(pool) = self.pool_of(key) {
                let rule = text::of(&["belongs to the pool that ", pool, " names"]);
                errors.push(PolicyError::new(*key, self.shown_value(key), rule));
            }
        }
    }

    /// Checks the fleet's components, and keys that need one.
    pub(super) fn check_fleet(&self, errors: &mut Vec<PolicyError>) {
        let mut fail =
            |key: &str, rule: String| errors.push(PolicyError::new(key, self.shown_value(key), rule));
        for component in COMPONENTS {
            let Some(store) = component.stores.first() else { continue };
            for key in component.of_fleet {
                if self.given(key) && !self.in_fleet(store) {
                    fail(key, format!("means something only where {store} is fleet"));
                }
            }
        }
        let stores = || COMPONENTS.iter().flat_map(|component| component.stores).copied();
        let pooled = PoolKind::ALL.iter().any(|kind| self.given(kind.pool_key()));
        let shared = pooled || stores().any(|store| self.in_fleet(store));
        for key in [call::STORE_TIMEOUT, call::STORE_EXCHANGE] {
            if self.given(key) && !shared {
                let stores = stores().collect::<Vec<_>>().join(", ");
                fail(key, format!("means something only where a component is the fleet's: {stores}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::{Policy, Value};
    use Value::{Number, Text};

    fn errors(pairs: &[(&str, Value<'_>)]) -> Vec<String> {
        Policy::from_pairs("p", pairs).unwrap_err().iter().map(ToString::to_string).collect()
    }

    fn builds(pairs: &[(&str, Value<'_>)]) -> bool {
        Policy::from_pairs("p", pairs).is_ok()
    }

    #[test]
    fn an_empty_policy_an_order_and_a_key_given_twice() {
        assert_eq!(
            errors(&[]),
            ["policy = (empty): an empty policy does nothing; give it at least one component"]
        );
        assert_eq!(
            errors(&[("retry.backoff.base", Value::Number(6e6))]),
            ["retry.backoff.max = 5s: must be at least retry.backoff.base (6s)"]
        );
        assert_eq!(
            errors(&[("deadline", Value::Number(1e6)), ("deadline", Value::Number(1e6))]),
            ["deadline = 1s: is given more than once"]
        );
    }

    #[test]
    fn keys_that_a_choice_needs_and_limits_of_a_preset() {
        assert_eq!(
            errors(&[
                ("retry.backoff.kind", Value::Text("polynomial")),
                ("retry.budget.kind", Value::Text("tokens"))
            ]),
            [
                "retry.backoff.exponent = (absent): is required where retry.backoff.kind is polynomial",
                "retry.budget.ratio = (absent): is required where retry.budget.kind is tokens",
                "retry.budget.max = (absent): is required where retry.budget.kind is tokens",
            ]
        );
        assert_eq!(
            errors(&[("preset", Value::Text("grpc")), ("retry.max_attempts", Value::Number(6.0))]),
            ["retry.max_attempts = 6: gRPC allows at most 5 attempts"]
        );
    }

    #[test]
    fn components_need_their_keys_or_what_stands_instead() {
        assert_eq!(
            errors(&[("rate_limit.burst", Number(5.0))]),
            [
                "rate_limit.permits = (absent): is required where there is a rate limit, or rate_limit.pool",
                "rate_limit.per = (absent): is required where there is a rate limit, or rate_limit.pool",
            ]
        );
        assert_eq!(
            errors(&[("breaker.unit", Text("call"))]),
            [
                "breaker.failure_ratio = (absent): is required where there is a breaker, or breaker.consecutive",
                "breaker.break_duration = (absent): is required where there is a breaker",
            ]
        );
        assert_eq!(
            errors(&[("hedge.max_attempts", Number(2.0))]),
            ["hedge.delay = (absent): is required where there is a hedge"]
        );
        assert_eq!(
            errors(&[("bulkhead.kind", Text("aimd")), ("bulkhead.max_concurrency", Number(9.0))]),
            [
                "bulkhead.latency_threshold = (absent): is required where bulkhead.kind is aimd, unless bulkhead.signal is loss"
            ]
        );
        assert_eq!(
            errors(&[("hedge.delay", Number(0.0)), ("hedge.budget.kind", Text("tokens"))]),
            [
                "hedge.budget.ratio = (absent): is required where hedge.budget.kind is tokens",
                "hedge.budget.max = (absent): is required where hedge.budget.kind is tokens",
            ]
        );
        assert!(builds(&[("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(1.0))]));
        assert!(builds(&[("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(1e6))]));
        assert!(builds(&[("hedge.delay", Number(0.0))]));
        assert!(builds(&[("throttle.k", Number(2.0))]), "all its keys have defaults");
    }

    #[test]
    fn keys_that_mean_something_only_beside_another() {
        let ratio = [("breaker.failure_ratio", Number(0.5)), ("breaker.break_duration", Number(1e6))];
        assert_eq!(
            errors(&ratio),
            [
                "breaker.window = (absent): is required where there is breaker.failure_ratio",
                "breaker.min_throughput = (absent): is required where there is breaker.failure_ratio",
            ]
        );
        let whole = [("breaker.window", Number(1e6)), ("breaker.min_throughput", Number(5.0))];
        assert!(builds(&[ratio, whole].concat()));
        for bound in ["hedge.delay_min", "hedge.delay_max"] {
            let pairs = [("hedge.delay", Number(1.0)), (bound, Number(1.0))];
            let rule = format!("is required where there is {bound}");
            assert_eq!(errors(&pairs), [format!("hedge.adaptive_delay_quantile = (absent): {rule}")]);
            assert!(builds(&[pairs[0], pairs[1], ("hedge.adaptive_delay_quantile", Number(0.9))]));
        }
    }

    #[test]
    fn bounds_are_in_order_and_may_be_equal() {
        let breaker = ("breaker.consecutive", Number(1.0));
        let adaptive = ("hedge.adaptive_delay_quantile", Number(0.9));
        for (low, high, beside) in [
            ("breaker.break_duration", "breaker.max_break_duration", &[breaker][..]),
            ("hedge.delay_min", "hedge.delay_max", &[adaptive, ("hedge.delay", Number(0.0))][..]),
            ("bulkhead.min_concurrency", "bulkhead.max_concurrency", &[][..]),
            ("retry.backoff.base", "retry.backoff.max", &[][..]),
        ] {
            let with = |a: f64, b: f64| [beside, &[(low, Number(a)), (high, Number(b))]].concat();
            assert!(builds(&with(2_000.0, 2_000.0)), "{low} = {high}");
            let found = errors(&with(2_001.0, 2_000.0));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("{high} = ")) && found[0].contains("must be at least"));
        }
    }

    #[test]
    fn a_breaker_and_a_throttle_exclude_each_other() {
        let pairs = [
            ("breaker.consecutive", Number(3.0)),
            ("breaker.break_duration", Number(1e6)),
            ("throttle.k", Number(2.0)),
        ];
        let expected = "throttle = (given): a breaker and a throttle exclude each other; choose one";
        assert_eq!(errors(&pairs), [expected]);
    }

    #[test]
    fn waiting_for_a_token_needs_a_bound() {
        let limit = [
            ("rate_limit.permits", Number(1.0)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.wait", Number(1.0)),
        ];
        let expected = "rate_limit.wait = true: needs a bound: rate_limit.max_wait or deadline";
        assert_eq!(errors(&limit), [expected]);
        for bound in ["rate_limit.max_wait", "deadline"] {
            assert!(builds(&[&limit[..], &[(bound, Number(1e6))]].concat()), "{bound}");
        }
        assert!(builds(&[&limit[..], &[("preset", Text("http"))]].concat()), "it has a deadline");
        assert!(builds(&[limit[0], limit[1], ("rate_limit.wait", Number(0.0))]));
    }

    #[test]
    fn what_watches_a_queue_needs_one() {
        let one = ("bulkhead.max_concurrency", Number(1.0));
        for control in [
            ("bulkhead.queue_target", Number(5e3)),
            ("bulkhead.queue_adaptive_lifo", Number(1.0)),
            ("bulkhead.prioritized", Number(1.0)),
        ] {
            let found = errors(&[one, control]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].ends_with("needs a queue: bulkhead.max_queue of at least 1"), "{found:?}");
            for queue in [Number(1.0), Text("none")] {
                assert!(builds(&[one, control, ("bulkhead.max_queue", queue)]));
            }
        }
        let off = [("bulkhead.queue_adaptive_lifo", Number(0.0)), ("bulkhead.prioritized", Number(0.0))];
        assert!(builds(&[one, off[0], off[1]]), "what is off needs nothing");
    }

    #[test]
    fn the_target_of_a_queue_is_below_its_interval() {
        let queue = [("bulkhead.max_concurrency", Number(1.0)), ("bulkhead.max_queue", Number(1.0))];
        let with = |target: f64, more: &[(&'static str, Value<'static>)]| {
            [&queue[..], &[("bulkhead.queue_target", Number(target))], more].concat()
        };
        assert!(builds(&with(99_999.0, &[])));
        assert_eq!(
            errors(&with(100_000.0, &[])),
            ["bulkhead.queue_target = 100ms: must be less than bulkhead.queue_interval (100ms)"]
        );
        assert!(builds(&with(100_000.0, &[("bulkhead.queue_interval", Number(100_001.0))])));
    }

    #[test]
    fn declared_kinds_are_few_unlike_and_named_where_they_make_sense() {
        let kind = |text| ("kinds", Text(text));
        let many: Vec<_> = (0..24).map(|n| format!("k{n}=transient")).collect();
        let many: Vec<_> = many.iter().map(|text| ("kinds", Text(text))).collect();
        let deadline = [("deadline", Number(1e6))];
        assert!(builds(&[&many[..23], &deadline].concat()));
        let found = errors(&[&many[..], &deadline].concat());
        assert_eq!(found, ["kinds = (24 kinds): at most 23 kinds can be declared"]);
        assert_eq!(
            errors(&[
                kind("a=transient"),
                kind("b=conflict"),
                kind("a=throttled"),
                kind("a=timeout"),
                deadline[0]
            ]),
            ["kinds = \"a\": is declared more than once"]
        );
        assert_eq!(
            errors(&[kind("bad=permanent"), kind("odd=ignored"), ("retry.retry_on", Text("bad"))]),
            ["retry.retry_on = \"bad\": is based on permanent, which can never be retried"]
        );
        let rule = "must be name=class: a name of a to z, 0 to 9 and _ that no class has, and one of";
        for wrong in [
            "busy",
            "busy=",
            "=transient",
            "Busy=transient",
            "9a=transient",
            "busy=ok",
            "timeout=transient",
            "cancelled=transient",
            "a b=transient",
            "busy=cancelled",
        ] {
            let found = errors(&[kind(wrong), deadline[0]]);
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].contains(rule), "{found:?}");
        }
        let found = errors(&[kind("busy=throttled"), ("retry.retry_on", Text("busi"))]);
        assert!(found[0].starts_with("retry.retry_on = \"busi\": must be one of transient, "), "{found:?}");
        assert!(found[0].ends_with("concurrency, busy"), "{found:?}");
        assert!(builds(&[("retry.retry_on", Text("busy")), kind("busy=throttled")]), "whatever their order");
        assert_eq!(
            errors(&[kind("busy=throttled")]),
            ["policy = (empty): an empty policy does nothing; give it at least one component"]
        );
    }

    #[test]
    fn a_failure_is_not_ignored_too() {
        let breaker = [
            ("breaker.consecutive", Number(1.0)),
            ("breaker.break_duration", Number(1e6)),
            ("kinds", Text("busy=throttled")),
        ];
        let with = |failure, ignore| {
            let lists = [("breaker.failure_on", Text(failure)), ("breaker.ignore_on", Text(ignore))];
            [&breaker[..], &lists].concat()
        };
        let expected = "breaker.ignore_on = (given): shares classes or kinds with breaker.failure_on";
        assert_eq!(errors(&with("busy", "busy")), [expected]);
        assert_eq!(errors(&with("infrastructure", "never_sent")), [expected]);
        assert!(builds(&with("busy", "throttled")), "a kind goes by its own name before its base");
        assert!(builds(&with("transient", "never_sent")));
    }

    #[test]
    fn what_stands_in_a_pool_does_not_stand_in_the_policy_too() {
        assert_eq!(
            errors(&[
                ("bulkhead.pool", Text("db")),
                ("bulkhead.max_queue", Text("none")),
                ("bulkhead.prioritized", Number(1.0)),
                ("bulkhead.unit", Text("attempt")),
            ]),
            [
                "bulkhead.max_queue = none: belongs to the pool that bulkhead.pool names",
                "bulkhead.prioritized = true: belongs to the pool that bulkhead.pool names",
            ]
        );
        assert_eq!(
            errors(&[("rate_limit.pool", Text("api")), ("rate_limit.per", Number(1e6))]),
            ["rate_limit.per = 1s: belongs to the pool that rate_limit.pool names"]
        );
        assert_eq!(
            errors(&[("retry.budget.pool", Text("all")), ("retry.budget.kind", Text("none"))]),
            ["retry.budget.kind = none: belongs to the pool that retry.budget.pool names"]
        );
        assert!(builds(&[
            ("bulkhead.pool", Text("db")),
            ("bulkhead.acquire_timeout", Text("none")),
            ("bulkhead.unit", Text("attempt")),
            ("rate_limit.pool", Text("api")),
            ("rate_limit.wait", Number(1.0)),
            ("rate_limit.max_wait", Number(1e6)),
            ("rate_limit.max_waiters", Number(5.0)),
            ("rate_limit.unit", Text("attempt")),
            ("retry.budget.pool", Text("all")),
        ]));
    }

    #[test]
    fn a_pool_overrides_what_a_preset_has_of_it() {
        let pairs = [("preset", Text("aws_standard")), ("retry.budget.pool", Text("all"))];
        let policy = Policy::from_pairs("p", &pairs).unwrap();
        let pairs = policy.to_pairs();
        let budget: Vec<_> = pairs.iter().filter(|(key, _)| key.starts_with("retry.budget")).collect();
        assert_eq!(budget, [&("retry.budget.pool", Text("all"))]);
        assert!(pairs.contains(&("retry.max_attempts", Number(3.0))), "the rest of the preset stays");
    }
}
