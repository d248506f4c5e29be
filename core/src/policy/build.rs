//! From checked settings to a policy.

use super::check::Settings;
use super::written::Written;
use super::{
    Breaker, Bulkhead, FleetBreaker, FleetRate, FleetSlots, Hedge, HedgeBudget, LimitSettings, OnLoss,
    Policy, RateLimit, Retry, Throttle, Unit,
};
use crate::breaker::BreakerSettings;
use crate::codel::{CodelLaw, CodelSettings};
use crate::full::{FULL, Full, Rare};
use crate::limit::{AimdSettings, Gradient2Settings, Gradient2Variant, RateSettings};
use crate::retry::{
    Backoff, BudgetSettings, EarnedSettings, Growth, Jitter, QuotaSettings, RatioSettings, RetryAfterMode,
    Rounding, ShareSettings, TokenSettings, WindowSettings,
};
use crate::text;
use crate::throttle::ThrottleSettings;
use crate::time::Duration;
use crate::window::WindowKind;

/// Breaks grow to this many times the first, unless the policy says otherwise (semantics 5.2).
const LONGEST_BREAK: u64 = 10;

/// How late a host may report an attempt that has timed out, before another call takes the place of a probe.
const LATE: Duration = Duration::from_secs(1);

/// What 50 ms of a rate bring, so that at 420 calls a second and more at most one in twenty touches the store; at least
/// 1, and at most the burst.
fn lease_of(rate: RateSettings) -> u32 {
    let tokens = u128::from(rate.permits) * 50_000 / u128::from(rate.per.as_micros().max(1));
    u32::try_from(tokens).unwrap_or(u32::MAX).clamp(1, rate.burst.max(1))
}

impl Settings {
    /// The policy of checked settings.
    pub(super) fn policy(&self, name: &str) -> Policy {
        Policy {
            name: name.into(),
            written: Written::new(&self.values),
            deadline: self.span_or_none("deadline"),
            attempt_timeout: self.span_or_none("attempt_timeout"),
            slot_until_body: self.word("slot_until") == "body",
            store_timeout: self.span("store_timeout"),
            store_exchange: self.span("store_exchange"),
            kinds: self.kinds(),
            retry: self.retry(),
            rate_limit: self.uses("rate_limit.").then(|| self.rate_limit()),
            bulkhead: self.uses("bulkhead.").then(|| self.bulkhead()),
            breaker: self.uses("breaker.").then(|| self.breaker()),
            throttle: Full::here()
                .filter(|_| self.uses("throttle."))
                .map(|full| Rare::new(self.throttle(), full)),
            hedge: Full::here().filter(|_| self.uses("hedge.")).map(|full| Rare::new(self.hedge(), full)),
        }
    }

    fn retry(&self) -> Retry {
        let retries = self.uses("retry.") && self.whole("retry.max_attempts") > 1;
        Retry {
            max_attempts: if self.uses("retry.") { self.whole("retry.max_attempts") as u8 } else { 1 },
            time_limit: self.span_or_none("retry.retry_time_limit"),
            methods: self.methods("retry.methods"),
            statuses: self.statuses("retry.statuses"),
            kinds: self.mask("retry.retry_on", true),
            mode: match self.word("retry.retry_after") {
                _ if !self.flag("retry.respect_retry_after") => RetryAfterMode::Ignore,
                "exact" => RetryAfterMode::Exact,
                "clamp_5s" => RetryAfterMode::Clamp,
                "ignore" => RetryAfterMode::Ignore,
                _ => RetryAfterMode::Floor,
            },
            max_retry_after: self.span(self.or("retry.max_retry_after", "retry.backoff.max")),
            backoff: self.backoff(),
            throttled_base: self.span(self.or("retry.backoff.throttled_base", "retry.backoff.base")),
            // A policy that makes one attempt needs a budget only for hedges that draw on it.
            budget: if retries || self.hedges_share() { self.budget("retry.budget") } else { None },
            // A pool has the books of all calls of all who name it.
            budget_pool: self.pool("retry.budget.pool"),
            hold: (FULL && self.flag("retry.hold")).then(|| self.whole("retry.max_held")),
            send_rate: FULL && self.word("retry.send_rate") == "cubic",
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff {
            growth: match self.word("retry.backoff.kind") {
                "constant" => Growth::Constant,
                "linear" => Growth::Linear,
                "polynomial" => Growth::Polynomial(self.whole("retry.backoff.exponent") as u8),
                _ => Growth::Exponential(self.real("retry.backoff.multiplier")),
            },
            base: self.span("retry.backoff.base"),
            max: self.span("retry.backoff.max"),
            jitter: match self.word("retry.backoff.jitter") {
                "none" => Jitter::None,
                "full" => Jitter::Full,
                "equal" => Jitter::Equal,
                "decorrelated" => Jitter::Decorrelated,
                "bounded" => Jitter::Bounded(self.real("retry.backoff.jitter_ratio")),
                _ => Jitter::FullFloor,
            },
        }
    }

    /// The budget whose keys stand in this table.
    fn budget(&self, table: &str) -> Option<BudgetSettings> {
        let key = |name: &str| text::of(&[table, ".", name]);
        let (whole, real) = (|name: &str| self.whole(&key(name)), |name: &str| self.real(&key(name)));
        let throttled = if self.given(&key("throttled_cost")) { "throttled_cost" } else { "cost" };
        Some(match self.budget_kind(table) {
            "earned" => BudgetSettings::Earned(EarnedSettings {
                ratio: if self.given(&key("ratio")) {
                    real("ratio")
                } else {
                    EarnedSettings::default().ratio
                },
                start: if self.given(&key("start")) { whole("start") } else { self.start(table) },
            }),
            "window" => BudgetSettings::Window(WindowSettings {
                ttl: self.span(&key("ttl")),
                min_retries_per_sec: real("min_retries_per_sec"),
                percent_can_retry: real("percent_can_retry"),
                rounding: match self.word(&key("rounding")) {
                    "ceil" => Rounding::Ceil,
                    _ => Rounding::Floor,
                },
            }),
            _ if !FULL => return None,
            "ratio" => BudgetSettings::Ratio(RatioSettings {
                ratio: real("ratio"),
                min_throughput: whole("min_throughput"),
            }),
            "share" => BudgetSettings::Share(ShareSettings {
                share: real("share"),
                min_retries: whole("min_retries"),
            }),
            "tokens" => BudgetSettings::Tokens(TokenSettings { max: whole("max"), ratio: real("ratio") }),
            "quota" => BudgetSettings::Quota(QuotaSettings {
                capacity: whole("capacity"),
                cost: whole("cost") as u16,
                timeout_cost: whole("timeout_cost") as u16,
                throttled_cost: whole(throttled) as u16,
            }),
            _ => return None,
        })
    }

    /// Retries that an earned budget has at the start: as many as one call may need, at most 4.
    fn start(&self, table: &str) -> u32 {
        let retries = self.uses("retry.") && self.whole("retry.max_attempts") > 1;
        let most =
            if retries && table == "retry.budget" { "retry.max_attempts" } else { "hedge.max_attempts" };
        self.whole(most).saturating_sub(1).min(4)
    }

    fn rate_limit(&self) -> RateLimit {
        let bucket = RateSettings {
            permits: self.whole("rate_limit.permits"),
            per: self.span("rate_limit.per"),
            burst: self.whole(self.or("rate_limit.burst", "rate_limit.permits")),
        };
        RateLimit {
            bucket,
            fleet: Full::here().filter(|_| self.in_fleet("rate_limit.store")).map(|full| {
                let lease = if self.given("rate_limit.lease") {
                    self.whole("rate_limit.lease")
                } else {
                    lease_of(bucket)
                };
                Rare::new(FleetRate { lease, on_loss: self.on_loss("rate_limit.on_loss") }, full)
            }),
            unit: self.unit("rate_limit.unit"),
            wait: self.flag("rate_limit.wait"),
            max_wait: self.span_or_none("rate_limit.max_wait"),
            max_waiters: self.whole("rate_limit.max_waiters"),
            pool: self.pool("rate_limit.pool"),
        }
    }

    fn bulkhead(&self) -> Bulkhead {
        let max_concurrency = self.whole("bulkhead.max_concurrency");
        let min_concurrency = if FULL { self.whole("bulkhead.min_concurrency") } else { 1 };
        let shed = FULL && self.given("bulkhead.queue_target");
        let lifo = FULL && self.flag("bulkhead.queue_adaptive_lifo");
        let interval = if FULL { self.span("bulkhead.queue_interval") } else { Duration::MAX };
        Bulkhead {
            limit: match (self.word("bulkhead.kind"), Full::here()) {
                ("aimd", Some(full)) => LimitSettings::Aimd(Rare::new(
                    AimdSettings {
                        max_concurrency,
                        min_concurrency,
                        latency_threshold: self.span("bulkhead.latency_threshold"),
                        increase_step: self.real("bulkhead.increase_step"),
                        backoff_ratio: self.real("bulkhead.backoff_ratio"),
                        cooldown: self.span("bulkhead.cooldown"),
                        latency_quantile: self
                            .given("bulkhead.latency_quantile")
                            .then(|| self.real("bulkhead.latency_quantile")),
                    },
                    full,
                )),
                ("gradient2", Some(full)) => LimitSettings::Gradient2(Rare::new(
                    Gradient2Settings {
                        max_concurrency,
                        min_concurrency,
                        long_window: self.whole("bulkhead.long_window"),
                        rtt_tolerance: self.real("bulkhead.rtt_tolerance"),
                        headroom: self.real("bulkhead.headroom"),
                        variant: match self.word("bulkhead.variant") {
                            "plain" => Gradient2Variant::Plain,
                            "netflix" => Gradient2Variant::Netflix,
                            "guarded" => Gradient2Variant::Guarded,
                            _ => Gradient2Variant::Steady,
                        },
                    },
                    full,
                )),
                _ => LimitSettings::Fixed(max_concurrency),
            },
            max_queue: self.whole("bulkhead.max_queue"),
            acquire_timeout: self.span("bulkhead.acquire_timeout"),
            unit: self.unit("bulkhead.unit"),
            codel: (shed || lifo).then(|| CodelSettings {
                target: if shed { self.span("bulkhead.queue_target") } else { interval },
                interval,
                law: match self.word("bulkhead.codel") {
                    "rfc8289" => CodelLaw::Rfc8289,
                    _ => CodelLaw::Facebook,
                },
            }),
            shed,
            lifo,
            prioritized: FULL && self.flag("bulkhead.prioritized"),
            fleet: Full::here().filter(|_| self.in_fleet("bulkhead.store")).map(|full| {
                let ttl = self.span("bulkhead.lease_ttl");
                Rare::new(FleetSlots { ttl, on_loss: self.on_loss("bulkhead.on_loss") }, full)
            }),
            fleet_latency: FULL && self.in_fleet("bulkhead.latency_store"),
            pool: self.pool("bulkhead.pool"),
        }
    }

    fn breaker(&self) -> Breaker {
        let break_duration = self.span("breaker.break_duration");
        let longest = Duration::from_micros(break_duration.as_micros().saturating_mul(LONGEST_BREAK));
        Breaker {
            settings: BreakerSettings {
                failure_ratio: self
                    .given("breaker.failure_ratio")
                    .then(|| self.real("breaker.failure_ratio")),
                window: self.span("breaker.window"),
                min_throughput: self.whole("breaker.min_throughput"),
                window_kind: self.window_kind("breaker.window_kind"),
                consecutive: self.given("breaker.consecutive").then(|| self.whole("breaker.consecutive")),
                break_duration,
                break_factor: self.real("breaker.break_factor"),
                max_break_duration: if self.given("breaker.max_break_duration") {
                    self.span("breaker.max_break_duration")
                } else {
                    longest
                },
                half_open_max_calls: self.whole("breaker.half_open_max_calls"),
                successes_to_close: self.whole("breaker.successes_to_close"),
                probe_lease: if self.given("attempt_timeout") {
                    self.span("attempt_timeout").plus(LATE)
                } else {
                    break_duration
                },
            },
            failure_on: self.counted("breaker.failure_on", "breaker.ignore_on"),
            ignore_on: self.counted("breaker.ignore_on", "breaker.failure_on"),
            unit: self.unit("breaker.unit"),
            fleet: Full::here().filter(|_| self.in_fleet("breaker.store")).map(|full| {
                let windowed = self.given("breaker.window");
                let it = FleetBreaker {
                    quorum: self.whole("breaker.quorum"),
                    within: if windowed { self.span("breaker.window") } else { break_duration },
                    on_loss: self.on_loss("breaker.on_loss"),
                };
                Rare::new(it, full)
            }),
        }
    }

    fn throttle(&self) -> Throttle {
        let max_reject = self.real("throttle.max_reject");
        let probe_interval = self.span("throttle.probe_interval");
        Throttle {
            settings: ThrottleSettings {
                k: self.real("throttle.k"),
                window: self.span("throttle.window"),
                window_kind: self.window_kind("throttle.window_kind"),
                min_throughput: self.whole("throttle.min_throughput"),
                max_reject: max_reject.is_finite().then_some(max_reject),
                probe_interval: (probe_interval != Duration::MAX).then_some(probe_interval),
            },
            unit: self.unit("throttle.unit"),
        }
    }

    fn hedge(&self) -> Hedge {
        let quantile = "hedge.adaptive_delay_quantile";
        Hedge {
            delay: self.span("hedge.delay"),
            max_attempts: self.whole("hedge.max_attempts") as u8,
            quantile: self.given(quantile).then(|| self.real(quantile)),
            delay_min: self.span("hedge.delay_min"),
            delay_max: self.span_or_none("hedge.delay_max"),
            budget: if self.hedges_share() {
                HedgeBudget::Shared
            } else {
                HedgeBudget::Own(self.budget("hedge.budget"))
            },
        }
    }

    /// Do hedges draw on the retry budget?
    fn hedges_share(&self) -> bool {
        FULL && self.uses("hedge.") && self.budget_kind("hedge.budget") == "shared"
    }

    /// The kind of a budget. Keys that only a window has make it one where no kind is given.
    fn budget_kind(&self, table: &str) -> &'static str {
        let given = |key: &str| self.given(&text::of(&[table, ".", key]));
        let own = ["ttl", "min_retries_per_sec", "percent_can_retry", "rounding"];
        if !given("kind") && own.into_iter().any(given) {
            return "window";
        }
        self.word(&text::of(&[table, ".kind"]))
    }

    /// The kinds that a list counts: those it names, and those based on a class that it names, unless the other list
    /// names them.
    fn counted(&self, path: &str, other: &str) -> u32 {
        self.mask(path, false) | self.mask(path, true) & !self.mask(other, false)
    }

    /// The first of two keys where it is given, else the second.
    fn or(&self, path: &'static str, other: &'static str) -> &'static str {
        if self.given(path) { path } else { other }
    }

    pub(super) fn in_fleet(&self, path: &str) -> bool {
        FULL && self.word(path) == "fleet"
    }

    fn on_loss(&self, path: &str) -> OnLoss {
        match self.word(path) {
            "open" => OnLoss::Open,
            "closed" => OnLoss::Closed,
            _ => OnLoss::Local,
        }
    }

    fn unit(&self, path: &str) -> Unit {
        if self.word(path) == "attempt" { Unit::Attempt } else { Unit::Call }
    }

    fn window_kind(&self, path: &str) -> WindowKind {
        if self.word(path) == "tumbling" { WindowKind::Tumbling } else { WindowKind::Sliding }
    }
}
