// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

//! What a policy is made of: a builder for each component, and an enum for each choice.

use std::time::Duration;

use crate::builder::{Bound, Builder, Pairs, Setting};

/// A value of `preset`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Preset {
    /// `http`.
    Http,
    /// `httpware`.
    Httpware,
    /// `transient`.
    Transient,
    /// `occ`.
    Occ,
    /// `graph`.
    Graph,
    /// `aws_standard`.
    AwsStandard,
    /// `aws_2026`.
    Aws2026,
    /// `aws_adaptive`.
    AwsAdaptive,
    /// `grpc`.
    Grpc,
    /// `llm`.
    Llm,
}

impl Preset {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Httpware => "httpware",
            Self::Transient => "transient",
            Self::Occ => "occ",
            Self::Graph => "graph",
            Self::AwsStandard => "aws_standard",
            Self::Aws2026 => "aws_2026",
            Self::AwsAdaptive => "aws_adaptive",
            Self::Grpc => "grpc",
            Self::Llm => "llm",
        }
    }
}

impl From<Preset> for Setting {
    fn from(value: Preset) -> Self {
        value.word().into()
    }
}

/// A value of `slot_until`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SlotUntil {
    /// `body`.
    Body,
    /// `headers`.
    Headers,
}

impl SlotUntil {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Headers => "headers",
        }
    }
}

impl From<SlotUntil> for Setting {
    fn from(value: SlotUntil) -> Self {
        value.word().into()
    }
}

/// A value of `deadline_until`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DeadlineUntil {
    /// `body`.
    Body,
    /// `delivery`.
    Delivery,
}

impl DeadlineUntil {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Delivery => "delivery",
        }
    }
}

impl From<DeadlineUntil> for Setting {
    fn from(value: DeadlineUntil) -> Self {
        value.word().into()
    }
}

/// A value of `counts`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Counts {
    /// `bytes`.
    Bytes,
    /// `sse_data`.
    SseData,
}

impl Counts {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::SseData => "sse_data",
        }
    }
}

impl From<Counts> for Setting {
    fn from(value: Counts) -> Self {
        value.word().into()
    }
}

/// A value of `retry.retry_after`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RetryAfter {
    /// `floor`.
    Floor,
    /// `exact`.
    Exact,
    /// `clamp_5s`.
    Clamp5s,
    /// `ignore`.
    Ignore,
}

impl RetryAfter {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Exact => "exact",
            Self::Clamp5s => "clamp_5s",
            Self::Ignore => "ignore",
        }
    }
}

impl From<RetryAfter> for Setting {
    fn from(value: RetryAfter) -> Self {
        value.word().into()
    }
}

/// A value of `retry.send_rate`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SendRate {
    /// `none`.
    None,
    /// `cubic`.
    Cubic,
}

impl SendRate {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cubic => "cubic",
        }
    }
}

impl From<SendRate> for Setting {
    fn from(value: SendRate) -> Self {
        value.word().into()
    }
}

/// A value of `retry.backoff.jitter`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Jitter {
    /// `full_floor`.
    FullFloor,
    /// `none`.
    None,
    /// `full`.
    Full,
    /// `equal`.
    Equal,
    /// `decorrelated`.
    Decorrelated,
    /// `bounded`.
    Bounded,
}

impl Jitter {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FullFloor => "full_floor",
            Self::None => "none",
            Self::Full => "full",
            Self::Equal => "equal",
            Self::Decorrelated => "decorrelated",
            Self::Bounded => "bounded",
        }
    }
}

impl From<Jitter> for Setting {
    fn from(value: Jitter) -> Self {
        value.word().into()
    }
}

/// A value of `retry.budget.rounding`, `hedge.budget.rounding`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Rounding {
    /// `floor`.
    Floor,
    /// `ceil`.
    Ceil,
}

impl Rounding {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Ceil => "ceil",
        }
    }
}

impl From<Rounding> for Setting {
    fn from(value: Rounding) -> Self {
        value.word().into()
    }
}

/// A value of `cooldown.store`, `rate_limit.store`, `bulkhead.store`, `bulkhead.latency_store`, `breaker.store`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StateOf {
    /// `local`.
    Local,
    /// `fleet`.
    Fleet,
}

impl StateOf {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Fleet => "fleet",
        }
    }
}

impl From<StateOf> for Setting {
    fn from(value: StateOf) -> Self {
        value.word().into()
    }
}

/// A value of `rate_limit.unit`, `bulkhead.unit`, `breaker.unit`, `throttle.unit`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// `call`.
    Call,
    /// `attempt`.
    Attempt,
}

impl Unit {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Attempt => "attempt",
        }
    }
}

impl From<Unit> for Setting {
    fn from(value: Unit) -> Self {
        value.word().into()
    }
}

/// A value of `rate_limit.on_loss`, `bulkhead.on_loss`, `breaker.on_loss`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OnLoss {
    /// `local`.
    Local,
    /// `open`.
    Open,
    /// `closed`.
    Closed,
}

impl OnLoss {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl From<OnLoss> for Setting {
    fn from(value: OnLoss) -> Self {
        value.word().into()
    }
}

/// A value of `rate_limit.settle_unknown`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SettleUnknown {
    /// `reservation`.
    Reservation,
    /// `zero`.
    Zero,
}

impl SettleUnknown {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reservation => "reservation",
            Self::Zero => "zero",
        }
    }
}

impl From<SettleUnknown> for Setting {
    fn from(value: SettleUnknown) -> Self {
        value.word().into()
    }
}

/// A value of `rate_limit.learn`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Learn {
    /// `none`.
    None,
    /// `down`.
    Down,
}

impl Learn {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Down => "down",
        }
    }
}

impl From<Learn> for Setting {
    fn from(value: Learn) -> Self {
        value.word().into()
    }
}

/// A value of `rate_limit.fair_by`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FairBy {
    /// `none`.
    None,
    /// `key`.
    Key,
}

impl FairBy {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Key => "key",
        }
    }
}

impl From<FairBy> for Setting {
    fn from(value: FairBy) -> Self {
        value.word().into()
    }
}

/// A value of `bulkhead.signal`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Signal {
    /// `latency`.
    Latency,
    /// `loss`.
    Loss,
    /// `both`.
    Both,
}

impl Signal {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Loss => "loss",
            Self::Both => "both",
        }
    }
}

impl From<Signal> for Setting {
    fn from(value: Signal) -> Self {
        value.word().into()
    }
}

/// A value of `bulkhead.variant`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GradientVariant {
    /// `steady`.
    Steady,
    /// `guarded`.
    Guarded,
    /// `plain`.
    Plain,
    /// `netflix`.
    Netflix,
}

impl GradientVariant {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Guarded => "guarded",
            Self::Plain => "plain",
            Self::Netflix => "netflix",
        }
    }
}

impl From<GradientVariant> for Setting {
    fn from(value: GradientVariant) -> Self {
        value.word().into()
    }
}

/// A value of `bulkhead.codel`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CodelVariant {
    /// `facebook`.
    Facebook,
    /// `rfc8289`.
    Rfc8289,
}

impl CodelVariant {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Facebook => "facebook",
            Self::Rfc8289 => "rfc8289",
        }
    }
}

impl From<CodelVariant> for Setting {
    fn from(value: CodelVariant) -> Self {
        value.word().into()
    }
}

/// A value of `breaker.window_kind`, `throttle.window_kind`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WindowKind {
    /// `sliding`.
    Sliding,
    /// `tumbling`.
    Tumbling,
}

impl WindowKind {
    /// Its word in a policy document.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sliding => "sliding",
            Self::Tumbling => "tumbling",
        }
    }
}

impl From<WindowKind> for Setting {
    fn from(value: WindowKind) -> Self {
        value.word().into()
    }
}

/// `retry`: When to try again.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Retry {
    pub(crate) pairs: Pairs,
}

impl Retry {
    /// The given settings, and defaults for the rest.
    pub const fn new() -> Self {
        Self { pairs: Pairs::new() }
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `retry.max_attempts`: Attempts in all; the first counts, 1 disables retries.
    ///
    /// A whole number from 1 to 255; default: `3`.
    pub fn max_attempts(self, value: u32) -> Self {
        self.set("retry.max_attempts", value)
    }

    /// `retry.retry_on`: Classes and kinds of failure that are retried; infrastructure is transient and `never_sent`, concurrency
    /// is conflict.
    ///
    /// One of transient, throttled, timeout, `never_sent`, conflict, infrastructure, concurrency, or a name declared in kinds;
    /// default: `transient` `throttled` `timeout` `never_sent` `conflict`.
    pub fn retry_on(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("retry.retry_on", value))
    }

    /// `retry.retry_time_limit`: Elapsed time plus the next wait must fit into this.
    ///
    /// A span from 0s to 365 days; default: off.
    pub fn retry_time_limit(self, value: Duration) -> Self {
        self.set("retry.retry_time_limit", value)
    }

    /// `retry.methods`: Methods that may be repeated without an idempotency key.
    ///
    /// One of GET, HEAD, OPTIONS, PUT, DELETE, QUERY, TRACE, POST, PATCH; default: `GET` `HEAD` `OPTIONS` `PUT` `DELETE`.
    pub fn methods(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("retry.methods", value))
    }

    /// `retry.statuses`: HTTP statuses that are retried.
    ///
    /// A status that can be retried: 408, 409, 429 or 500 to 599; default: `408` `429` `502` `503` `504`.
    pub fn statuses(self, values: impl IntoIterator<Item = u16>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("retry.statuses", value))
    }

    /// `retry.respect_retry_after`: Wait at least as long as the server's Retry-After says.
    ///
    /// True or false; default: `true`.
    pub fn respect_retry_after(self, value: bool) -> Self {
        self.set("retry.respect_retry_after", value)
    }

    /// `retry.retry_after`: What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits
    /// r, `clamp_5s` keeps it within 5 s above the backoff.
    ///
    /// One of floor, exact, `clamp_5s`, ignore; default: `floor`.
    pub fn retry_after(self, value: RetryAfter) -> Self {
        self.set("retry.retry_after", value)
    }

    /// `retry.max_retry_after`: A server that asks for a longer wait than this ends the call.
    ///
    /// A span from 0s to 365 days; default: that of `retry.backoff.max`.
    pub fn max_retry_after(self, value: Duration) -> Self {
        self.set("retry.max_retry_after", value)
    }

    /// `retry.throttled_statuses`: HTTP statuses by which the server asks for less load.
    ///
    /// A status that can be retried: 408, 409, 429 or 500 to 599; default: `429`.
    pub fn throttled_statuses(self, values: impl IntoIterator<Item = u16>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("retry.throttled_statuses", value))
    }

    /// `retry.read_errors`: Read why an answer failed, from its quota headers and up to 64 kB of its body, and wait for that at
    /// most 1 s; adds the kinds `quota_spent`, unauthorized, `too_long` and `content_refused`.
    ///
    /// True or false; default: `false`.
    pub fn read_errors(self, value: bool) -> Self {
        self.set("retry.read_errors", value)
    }

    /// `retry.hold`: While a throttled call waits, new calls to the same path, and to paths that begin alike, wait too.
    ///
    /// True or false; default: `false`.
    pub fn hold(self, value: bool) -> Self {
        self.set("retry.hold", value)
    }

    /// `retry.max_held`: hold: calls that may wait so, per route.
    ///
    /// A whole number from 1 to 1000000; default: `200`.
    pub fn max_held(self, value: u32) -> Self {
        self.set("retry.max_held", value)
    }

    /// `retry.send_rate`: cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs' adaptive
    /// mode.
    ///
    /// One of none, cubic; default: `none`.
    pub fn send_rate(self, value: SendRate) -> Self {
        self.set("retry.send_rate", value)
    }

    /// `retry.backoff`: How long to wait before a retry.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.pairs.within(backoff.pairs);
        self
    }

    /// `retry.budget`: What bounds the load that retries add, per route.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.pairs.within(budget.pairs);
        self
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

/// `retry.backoff`: How long to wait before a retry.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Backoff {
    pub(crate) pairs: Pairs,
}

impl Backoff {
    /// One of kind `exponential`.
    pub fn exponential() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.backoff.kind", "exponential")
    }

    /// One of kind `constant`.
    pub fn constant() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.backoff.kind", "constant")
    }

    /// One of kind `linear`.
    pub fn linear() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.backoff.kind", "linear")
    }

    /// One of kind `polynomial`.
    pub fn polynomial(exponent: u32) -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.backoff.kind", "polynomial")
            .set("retry.backoff.exponent", exponent)
    }

    /// The preset's settings, or the defaults. Methods change them.
    pub const fn new() -> Self {
        Self { pairs: Pairs::new() }
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `retry.backoff.base`: The delay before the first retry, before jitter.
    ///
    /// A span from 0s to 365 days; default: `100ms`.
    pub fn base(self, value: Duration) -> Self {
        self.set("retry.backoff.base", value)
    }

    /// `retry.backoff.throttled_base`: The base after a throttled outcome.
    ///
    /// A span from 0s to 365 days; default: that of `retry.backoff.base`.
    pub fn throttled_base(self, value: Duration) -> Self {
        self.set("retry.backoff.throttled_base", value)
    }

    /// `retry.backoff.exponent`: The power of polynomial growth.
    ///
    /// A whole number from 1 to 8; default: required with `polynomial`.
    pub fn exponent(self, value: u32) -> Self {
        self.set("retry.backoff.exponent", value)
    }

    /// `retry.backoff.multiplier`: The growth from one retry to the next.
    ///
    /// A finite number from 1 to 1000; default: `2`.
    pub fn multiplier(self, value: f64) -> Self {
        self.set("retry.backoff.multiplier", value)
    }

    /// `retry.backoff.max`: The longest computed delay, before jitter.
    ///
    /// A span from 0s to 365 days; default: `5s`.
    pub fn max(self, value: Duration) -> Self {
        self.set("retry.backoff.max", value)
    }

    /// `retry.backoff.jitter`: How the delay d is spread: `full_floor` draws from \\[0.1·d, d], full from \\[0, d], equal from
    /// \\[d/2, d], decorrelated from \\[base, 3·previous], bounded from \\[(1−j)·d, (1+j)·d].
    ///
    /// One of `full_floor`, none, full, equal, decorrelated, bounded; default: `full_floor`.
    pub fn jitter(self, value: Jitter) -> Self {
        self.set("retry.backoff.jitter", value)
    }

    /// `retry.backoff.jitter_ratio`: The j of bounded jitter.
    ///
    /// A finite number from 0 to 1; default: required with `bounded`.
    pub fn jitter_ratio(self, value: f64) -> Self {
        self.set("retry.backoff.jitter_ratio", value)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// `retry.budget`: What bounds the load that retries add, per route.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Budget {
    pub(crate) pairs: Pairs,
}

impl Budget {
    /// One of kind `earned`.
    pub fn earned() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.kind", "earned")
    }

    /// One of kind `window`.
    pub fn window() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.kind", "window")
    }

    /// One of kind `ratio`.
    pub fn by_ratio(ratio: f64) -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.kind", "ratio")
            .set("retry.budget.ratio", ratio)
    }

    /// One of kind `share`.
    pub fn by_share() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.kind", "share")
    }

    /// One of kind `tokens`.
    pub fn tokens(ratio: f64, max: u32) -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.kind", "tokens")
            .set("retry.budget.ratio", ratio)
            .set("retry.budget.max", max)
    }

    /// One of kind `quota`.
    pub fn quota() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.kind", "quota")
    }

    /// One of kind `none`.
    pub fn none() -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.kind", "none")
    }

    /// A pool of the engine, which policies share, by its name.
    pub fn in_pool(pool: &str) -> Self {
        Self { pairs: Pairs::new() }
            .set("retry.budget.pool", pool)
    }

    /// The preset's settings, or the defaults. Methods change them.
    pub const fn new() -> Self {
        Self { pairs: Pairs::new() }
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `retry.budget.pool`: A shared budget that is declared as a pool; its own keys stand there.
    ///
    /// A name of 1 to 100 bytes without control characters; default: off.
    pub fn pool(self, value: &str) -> Self {
        self.set("retry.budget.pool", value)
    }

    /// `retry.budget.ttl`: How long a call or a retry counts.
    ///
    /// A span from 10us to 365 days; default: `10s`.
    pub fn ttl(self, value: Duration) -> Self {
        self.set("retry.budget.ttl", value)
    }

    /// `retry.budget.min_retries_per_sec`: Retries per second that are free of any ratio.
    ///
    /// A finite number from 0 to 1000000000; default: `10`.
    pub fn min_retries_per_sec(self, value: f64) -> Self {
        self.set("retry.budget.min_retries_per_sec", value)
    }

    /// `retry.budget.percent_can_retry`: Retries allowed per recent call, as a fraction.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn percent_can_retry(self, value: f64) -> Self {
        self.set("retry.budget.percent_can_retry", value)
    }

    /// `retry.budget.rounding`: How the share of calls is rounded.
    ///
    /// One of floor, ceil; default: `floor`.
    pub fn rounding(self, value: Rounding) -> Self {
        self.set("retry.budget.rounding", value)
    }

    /// `retry.budget.ratio`: earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a
    /// call earns. tokens: what a success gives back.
    ///
    /// A finite number from 0.000001 to 1; default: required with `ratio` and with `tokens`.
    pub fn ratio(self, value: f64) -> Self {
        self.set("retry.budget.ratio", value)
    }

    /// `retry.budget.start`: earned: retries that a new budget has; where absent `max_attempts` less 1, at most 4, and 2 in a
    /// pool.
    ///
    /// A whole number from 0 to 1000000000; default: off.
    pub fn start(self, value: u32) -> Self {
        self.set("retry.budget.start", value)
    }

    /// `retry.budget.min_throughput`: ratio: retries are free until this many calls have been made.
    ///
    /// A whole number from 0 to 1000000000; default: `0`.
    pub fn min_throughput(self, value: u32) -> Self {
        self.set("retry.budget.min_throughput", value)
    }

    /// `retry.budget.share`: share: retries in flight per call in flight.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn share(self, value: f64) -> Self {
        self.set("retry.budget.share", value)
    }

    /// `retry.budget.min_retries`: share: retries in flight that are always allowed.
    ///
    /// A whole number from 0 to 1000000000; default: `3`.
    pub fn min_retries(self, value: u32) -> Self {
        self.set("retry.budget.min_retries", value)
    }

    /// `retry.budget.max`: tokens: tokens when full; retries need more than half.
    ///
    /// A whole number from 1 to 1000; default: required with `tokens`.
    pub fn max(self, value: u32) -> Self {
        self.set("retry.budget.max", value)
    }

    /// `retry.budget.capacity`: quota: tokens when full.
    ///
    /// A whole number from 1 to 1000000000; default: `500`.
    pub fn capacity(self, value: u32) -> Self {
        self.set("retry.budget.capacity", value)
    }

    /// `retry.budget.cost`: quota: what a retry costs.
    ///
    /// A whole number from 1 to 65535; default: `5`.
    pub fn cost(self, value: u32) -> Self {
        self.set("retry.budget.cost", value)
    }

    /// `retry.budget.timeout_cost`: quota: what a retry after an attempt timeout costs.
    ///
    /// A whole number from 1 to 65535; default: `10`.
    pub fn timeout_cost(self, value: u32) -> Self {
        self.set("retry.budget.timeout_cost", value)
    }

    /// `retry.budget.throttled_cost`: quota: what a retry after a throttled outcome costs.
    ///
    /// A whole number from 1 to 65535; default: that of `retry.budget.cost`.
    pub fn throttled_cost(self, value: u32) -> Self {
        self.set("retry.budget.throttled_cost", value)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

/// `cooldown`: How long no attempt starts after one that was throttled, per route, and how few at first afterwards.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Cooldown {
    pub(crate) pairs: Pairs,
}

impl Cooldown {
    /// The given settings, and defaults for the rest.
    pub const fn new() -> Self {
        Self { pairs: Pairs::new() }
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `cooldown.base`: How long no attempt starts after a throttled one whose server names no time; doubled for each such
    /// closing in a row.
    ///
    /// A span from 1us to 365 days; default: `1s`.
    pub fn base(self, value: Duration) -> Self {
        self.set("cooldown.base", value)
    }

    /// `cooldown.max`: The longest that no attempt starts, whatever time the server names.
    ///
    /// A span from 1us to 365 days; default: that of `retry.max_retry_after`.
    pub fn max(self, value: Duration) -> Self {
        self.set("cooldown.max", value)
    }

    /// `cooldown.wait`: Wait for the end of a cooldown instead of being refused.
    ///
    /// True or false; default: `false`.
    pub fn wait(self, value: bool) -> Self {
        self.set("cooldown.wait", value)
    }

    /// `cooldown.max_wait`: wait: the longest wait; without it there must be a deadline.
    ///
    /// A span from 0s to 365 days; default: off.
    pub fn max_wait(self, value: Duration) -> Self {
        self.set("cooldown.max_wait", value)
    }

    /// `cooldown.max_waiters`: wait: calls that may wait.
    ///
    /// A whole number from 1 to 10000000; default: `200`.
    pub fn max_waiters(self, value: u32) -> Self {
        self.set("cooldown.max_waiters", value)
    }

    /// `cooldown.quota_wait`: How long no attempt starts after one whose quota is spent or whose key is not accepted (kinds
    /// `quota_spent` and unauthorized), unless the server names a time. Absent: such an attempt changes nothing; a target has 5
    /// minutes.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn quota_wait(self, value: Duration) -> Self {
        self.set("cooldown.quota_wait", value)
    }

    /// `cooldown.store`: fleet: a closing in one process closes all, through the store that the engine is attached to; each
    /// process reopens with one attempt.
    ///
    /// One of local, fleet; default: `local`.
    pub fn store(self, value: StateOf) -> Self {
        self.set("cooldown.store", value)
    }
}

impl Default for Cooldown {
    fn default() -> Self {
        Self::new()
    }
}

/// `rate_limit`: How many calls may start per span, per route.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct RateLimit {
    pub(crate) pairs: Pairs,
}

impl RateLimit {
    /// The given settings, and defaults for the rest.
    pub fn new(permits: u32, per: Duration) -> Self {
        Self { pairs: Pairs::new() }
            .set("rate_limit.permits", permits)
            .set("rate_limit.per", per)
    }

    /// A pool of the engine, which policies share, by its name.
    pub fn in_pool(pool: &str) -> Self {
        Self { pairs: Pairs::new() }
            .set("rate_limit.pool", pool)
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `rate_limit.permits`: Calls that may start per span.
    ///
    /// A whole number from 1 to 1000000000; default: required unless there is `pool`.
    pub fn permits(self, value: u32) -> Self {
        self.set("rate_limit.permits", value)
    }

    /// `rate_limit.per`: The span.
    ///
    /// A span from 1us to 365 days; default: required unless there is `pool`.
    pub fn per(self, value: Duration) -> Self {
        self.set("rate_limit.per", value)
    }

    /// `rate_limit.burst`: Calls that may start at once after a quiet time.
    ///
    /// A whole number from 1 to 1000000000; default: that of `rate_limit.permits`.
    pub fn burst(self, value: u32) -> Self {
        self.set("rate_limit.burst", value)
    }

    /// `rate_limit.unit`: What takes a token: the call, or each of its attempts.
    ///
    /// One of call, attempt; default: `call`.
    pub fn unit(self, value: Unit) -> Self {
        self.set("rate_limit.unit", value)
    }

    /// `rate_limit.wait`: Wait for a token instead of being refused.
    ///
    /// True or false; default: `false`.
    pub fn wait(self, value: bool) -> Self {
        self.set("rate_limit.wait", value)
    }

    /// `rate_limit.max_wait`: wait: the longest wait; without it there must be a deadline.
    ///
    /// A span from 0s to 365 days; default: off.
    pub fn max_wait(self, value: Duration) -> Self {
        self.set("rate_limit.max_wait", value)
    }

    /// `rate_limit.max_waiters`: wait: calls that may wait.
    ///
    /// A whole number from 1 to 10000000; default: `1000`.
    pub fn max_waiters(self, value: u32) -> Self {
        self.set("rate_limit.max_waiters", value)
    }

    /// `rate_limit.pool`: A shared rate limit that is declared as a pool; permits, per and burst stand there.
    ///
    /// A name of 1 to 100 bytes without control characters; default: off.
    pub fn pool(self, value: &str) -> Self {
        self.set("rate_limit.pool", value)
    }

    /// `rate_limit.store`: Whose rate it is: each process's own, or the whole fleet's through the store that the engine is
    /// attached to.
    ///
    /// One of local, fleet; default: `local`.
    pub fn store(self, value: StateOf) -> Self {
        self.set("rate_limit.store", value)
    }

    /// `rate_limit.lease`: fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent: what 50 ms
    /// of the rate bring, at least 1, which is so below 40 a second.
    ///
    /// A whole number from 1 to 1000000000; default: off.
    pub fn lease(self, value: u32) -> Self {
        self.set("rate_limit.lease", value)
    }

    /// `rate_limit.on_loss`: fleet: what holds while the store is gone: local is the process's share of the rate, open lets all
    /// calls pass, closed refuses them.
    ///
    /// One of local, open, closed; default: `local`.
    pub fn on_loss(self, value: OnLoss) -> Self {
        self.set("rate_limit.on_loss", value)
    }

    /// `rate_limit.limits`: Several limits by name, at most 4, that a call takes all at once or none: instead of permits, per and
    /// burst. A limit with a weight counts the amount that each call names, such as tokens.
    ///
    /// Texts such as `tpm: permits=200000 per=1m weight=tokens`, perhaps with burst, default and `max_debt`, or `usd:
    /// permits=5000000 per=24h weight=usd max_debt=none refill=window anchor=8h`, whose permits come back at once; a document has
    /// a table for each; default: required with `estimate_quantile`.
    pub fn limits(self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("rate_limit.limits", Setting::Word(value.into())))
    }

    /// `rate_limit.settle_unknown`: limits: what an attempt counts that may have been served and of which no amount was settled:
    /// what it had reserved, or nothing.
    ///
    /// One of reservation, zero; default: `reservation`.
    pub fn settle_unknown(self, value: SettleUnknown) -> Self {
        self.set("rate_limit.settle_unknown", value)
    }

    /// `rate_limit.learn`: limits: what an answer's headers say is left of the service's own quota: down lowers a limit to it and
    /// never raises one, none ignores it.
    ///
    /// One of none, down; default: `none`.
    pub fn learn(self, value: Learn) -> Self {
        self.set("rate_limit.learn", value)
    }

    /// `rate_limit.estimate_quantile`: limits: from 20 settled attempts on, what a call names of a weight is scaled by this
    /// quantile of what attempts have used of it, between a 16th and 16 times.
    ///
    /// A finite number from 0.001 to 0.999; default: off.
    pub fn estimate_quantile(self, value: f64) -> Self {
        self.set("rate_limit.estimate_quantile", value)
    }

    /// `rate_limit.prioritized`: limits: the queue serves critical, normal, degraded and best-effort calls 64 to 16 to 4 to 1,
    /// and a full one gives the place of a less critical call to a more critical one.
    ///
    /// True or false; default: `false`.
    pub fn prioritized(self, value: bool) -> Self {
        self.set("rate_limit.prioritized", value)
    }

    /// `rate_limit.fair_by`: limits, in a pool: key shares the limits among the route keys that wait, instead of serving calls in
    /// the order in which they came.
    ///
    /// One of none, key; default: `none`.
    pub fn fair_by(self, value: FairBy) -> Self {
        self.set("rate_limit.fair_by", value)
    }

    /// `rate_limit.shares`: `fair_by`: how much some keys get, 1 to 1,000, where every other key gets 1.
    ///
    /// Texts such as `acme=4`, a route key and its share from 1 to 1,000; a document may have a table; default: off.
    pub fn shares(self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("rate_limit.shares", Setting::Word(value.into())))
    }
}

/// `bulkhead`: How many calls may be in flight at once, per route.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Bulkhead {
    pub(crate) pairs: Pairs,
}

impl Bulkhead {
    /// One of kind `fixed`.
    pub fn fixed(max_concurrency: u32) -> Self {
        Self { pairs: Pairs::new() }
            .set("bulkhead.kind", "fixed")
            .set("bulkhead.max_concurrency", max_concurrency)
    }

    /// One of kind `aimd`.
    pub fn aimd(max_concurrency: u32) -> Self {
        Self { pairs: Pairs::new() }
            .set("bulkhead.kind", "aimd")
            .set("bulkhead.max_concurrency", max_concurrency)
    }

    /// One of kind `gradient2`.
    pub fn gradient2(max_concurrency: u32) -> Self {
        Self { pairs: Pairs::new() }
            .set("bulkhead.kind", "gradient2")
            .set("bulkhead.max_concurrency", max_concurrency)
    }

    /// A pool of the engine, which policies share, by its name.
    pub fn in_pool(pool: &str) -> Self {
        Self { pairs: Pairs::new() }
            .set("bulkhead.pool", pool)
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `bulkhead.max_concurrency`: Calls in flight at once; for aimd and gradient2 the highest limit.
    ///
    /// A whole number from 1 to 1000000000; default: required unless there is `pool`.
    pub fn max_concurrency(self, value: u32) -> Self {
        self.set("bulkhead.max_concurrency", value)
    }

    /// `bulkhead.max_queue`: Calls that may wait for a slot; 0 is no queue, none is unbounded.
    ///
    /// A whole number from 0 to 10000000, or none; default: `0`.
    pub fn max_queue(self, value: impl Into<Bound<u32>>) -> Self {
        let value: Bound<u32> = value.into();
        self.set("bulkhead.max_queue", value)
    }

    /// `bulkhead.acquire_timeout`: How long a call waits for a slot; 0 fails fast, none waits for ever.
    ///
    /// A span from 0s to 365 days, or none; default: `1s`.
    pub fn acquire_timeout(self, value: impl Into<Bound<Duration>>) -> Self {
        let value: Bound<Duration> = value.into();
        self.set("bulkhead.acquire_timeout", value)
    }

    /// `bulkhead.unit`: What takes a slot: the call, or each of its attempts, which gives it back during backoff.
    ///
    /// One of call, attempt; default: `call`.
    pub fn unit(self, value: Unit) -> Self {
        self.set("bulkhead.unit", value)
    }

    /// `bulkhead.min_concurrency`: aimd, gradient2: the lowest limit.
    ///
    /// A whole number from 1 to 1000000000; default: `1`.
    pub fn min_concurrency(self, value: u32) -> Self {
        self.set("bulkhead.min_concurrency", value)
    }

    /// `bulkhead.signal`: aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer
    /// requests), or both.
    ///
    /// One of latency, loss, both; default: `latency`.
    pub fn signal(self, value: Signal) -> Self {
        self.set("bulkhead.signal", value)
    }

    /// `bulkhead.latency_threshold`: aimd that follows latency: a completion within it raises the limit, one over it cuts it.
    ///
    /// A span from 1us to 365 days; default: required with `aimd`, unless `signal` is `loss`.
    pub fn latency_threshold(self, value: Duration) -> Self {
        self.set("bulkhead.latency_threshold", value)
    }

    /// `bulkhead.increase_step`: aimd: what a good completion adds, divided by the limit.
    ///
    /// A finite number from 0.000001 to 1000000; default: `1`.
    pub fn increase_step(self, value: f64) -> Self {
        self.set("bulkhead.increase_step", value)
    }

    /// `bulkhead.backoff_ratio`: aimd: what a cut multiplies the limit by.
    ///
    /// A finite number from 0.01 to 0.999; default: `0.9`.
    pub fn backoff_ratio(self, value: f64) -> Self {
        self.set("bulkhead.backoff_ratio", value)
    }

    /// `bulkhead.cut_interval`: aimd: at most one cut per interval.
    ///
    /// A span from 0s to 365 days; default: `1s`.
    pub fn cut_interval(self, value: Duration) -> Self {
        self.set("bulkhead.cut_interval", value)
    }

    /// `bulkhead.latency_quantile`: aimd: compare this quantile of recent latencies with the threshold, instead of each one.
    ///
    /// A finite number from 0.001 to 0.999; default: off.
    pub fn latency_quantile(self, value: f64) -> Self {
        self.set("bulkhead.latency_quantile", value)
    }

    /// `bulkhead.long_window`: gradient2: completions that the long-term latency looks back on.
    ///
    /// A whole number from 2 to 1000000; default: `600`.
    pub fn long_window(self, value: u32) -> Self {
        self.set("bulkhead.long_window", value)
    }

    /// `bulkhead.rtt_tolerance`: gradient2: how much longer than the long-term latency is still good.
    ///
    /// A finite number from 1 to 100; default: `1.5`.
    pub fn rtt_tolerance(self, value: f64) -> Self {
        self.set("bulkhead.rtt_tolerance", value)
    }

    /// `bulkhead.headroom`: gradient2: how many more than now the limit reaches for.
    ///
    /// A finite number from 0 to 1000000; default: `4`.
    pub fn headroom(self, value: f64) -> Self {
        self.set("bulkhead.headroom", value)
    }

    /// `bulkhead.variant`: gradient2: steady decides once per round trip and comes back to what the server can take; guarded,
    /// plain and netflix are older rules.
    ///
    /// One of steady, guarded, plain, netflix; default: `steady`.
    pub fn variant(self, value: GradientVariant) -> Self {
        self.set("bulkhead.variant", value)
    }

    /// `bulkhead.queue_target`: Under sustained congestion a call waits no longer than this (`CoDel`); needs `max_queue`.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn queue_target(self, value: Duration) -> Self {
        self.set("bulkhead.queue_target", value)
    }

    /// `bulkhead.queue_interval`: How long a queue that never empties is not yet congested.
    ///
    /// A span from 1us to 365 days; default: `100ms`.
    pub fn queue_interval(self, value: Duration) -> Self {
        self.set("bulkhead.queue_interval", value)
    }

    /// `bulkhead.codel`: The control law behind `queue_target`.
    ///
    /// One of facebook, rfc8289; default: `facebook`.
    pub fn codel(self, value: CodelVariant) -> Self {
        self.set("bulkhead.codel", value)
    }

    /// `bulkhead.queue_adaptive_lifo`: While congested, the newest waiter goes first; needs `max_queue`.
    ///
    /// True or false; default: `false`.
    pub fn queue_adaptive_lifo(self, value: bool) -> Self {
        self.set("bulkhead.queue_adaptive_lifo", value)
    }

    /// `bulkhead.prioritized`: A full queue admits a call of higher criticality in place of the lowest; needs `max_queue`.
    ///
    /// True or false; default: `false`.
    pub fn prioritized(self, value: bool) -> Self {
        self.set("bulkhead.prioritized", value)
    }

    /// `bulkhead.pool`: A shared bulkhead that is declared as a pool; limit, queue and order stand there.
    ///
    /// A name of 1 to 100 bytes without control characters; default: off.
    pub fn pool(self, value: &str) -> Self {
        self.set("bulkhead.pool", value)
    }

    /// `bulkhead.store`: Whose slots they are: each process's own, or the whole fleet's through the store that the engine is
    /// attached to.
    ///
    /// One of local, fleet; default: `local`.
    pub fn store(self, value: StateOf) -> Self {
        self.set("bulkhead.store", value)
    }

    /// `bulkhead.lease_ttl`: fleet: how long a slot stays taken whose process does not renew it.
    ///
    /// A span from 1s to 365 days; default: `30s`.
    pub fn lease_ttl(self, value: Duration) -> Self {
        self.set("bulkhead.lease_ttl", value)
    }

    /// `bulkhead.on_loss`: fleet: what holds while the store is gone: local is the process's share of the slots, open is
    /// `max_concurrency` in each process, closed refuses calls.
    ///
    /// One of local, open, closed; default: `local`.
    pub fn on_loss(self, value: OnLoss) -> Self {
        self.set("bulkhead.on_loss", value)
    }

    /// `bulkhead.latency_store`: aimd with `latency_quantile`: fleet compares the quantile of all processes' latencies with the
    /// threshold.
    ///
    /// One of local, fleet; default: `local`.
    pub fn latency_store(self, value: StateOf) -> Self {
        self.set("bulkhead.latency_store", value)
    }
}

/// `breaker`: When to stop calling what fails.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Breaker {
    pub(crate) pairs: Pairs,
}

impl Breaker {
    /// One that `failure_ratio` triggers.
    pub fn by_failure_ratio(failure_ratio: f64, window: Duration, min_throughput: u32, break_duration: Duration) -> Self {
        Self { pairs: Pairs::new() }
            .set("breaker.failure_ratio", failure_ratio)
            .set("breaker.window", window)
            .set("breaker.min_throughput", min_throughput)
            .set("breaker.break_duration", break_duration)
    }

    /// One that `consecutive` triggers.
    pub fn by_consecutive(consecutive: u32, break_duration: Duration) -> Self {
        Self { pairs: Pairs::new() }
            .set("breaker.consecutive", consecutive)
            .set("breaker.break_duration", break_duration)
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `breaker.failure_ratio`: Failures among recent calls that open it, as a fraction.
    ///
    /// A finite number from 0.000001 to 1; default: required unless there is `consecutive`.
    pub fn failure_ratio(self, value: f64) -> Self {
        self.set("breaker.failure_ratio", value)
    }

    /// `breaker.window`: How long a call counts as recent.
    ///
    /// A span from 10us to 365 days; default: required with `failure_ratio`.
    pub fn window(self, value: Duration) -> Self {
        self.set("breaker.window", value)
    }

    /// `breaker.min_throughput`: Calls that the window must hold before the ratio counts.
    ///
    /// A whole number from 1 to 1000000000; default: required with `failure_ratio`.
    pub fn min_throughput(self, value: u32) -> Self {
        self.set("breaker.min_throughput", value)
    }

    /// `breaker.window_kind`: sliding forgets by tenths of the window, tumbling all at once.
    ///
    /// One of sliding, tumbling; default: `sliding`.
    pub fn window_kind(self, value: WindowKind) -> Self {
        self.set("breaker.window_kind", value)
    }

    /// `breaker.consecutive`: Failures in a row that open it; instead of the ratio, or beside it.
    ///
    /// A whole number from 1 to 1000000; default: off.
    pub fn consecutive(self, value: u32) -> Self {
        self.set("breaker.consecutive", value)
    }

    /// `breaker.break_duration`: How long it stays open.
    ///
    /// A span from 1ms to 365 days; default: required.
    pub fn break_duration(self, value: Duration) -> Self {
        self.set("breaker.break_duration", value)
    }

    /// `breaker.break_factor`: How much longer it stays open after each failed probe; 1 is neither growth nor jitter.
    ///
    /// A finite number from 1 to 100; default: `2`.
    pub fn break_factor(self, value: f64) -> Self {
        self.set("breaker.break_factor", value)
    }

    /// `breaker.max_break_duration`: The longest break; ten times `break_duration` where absent.
    ///
    /// A span from 1ms to 365 days; default: off.
    pub fn max_break_duration(self, value: Duration) -> Self {
        self.set("breaker.max_break_duration", value)
    }

    /// `breaker.half_open_max_calls`: Probes at once when a break has ended.
    ///
    /// A whole number from 1 to 1000; default: `1`.
    pub fn half_open_max_calls(self, value: u32) -> Self {
        self.set("breaker.half_open_max_calls", value)
    }

    /// `breaker.successes_to_close`: Good probes that close it.
    ///
    /// A whole number from 1 to 1000000; default: `1`.
    pub fn successes_to_close(self, value: u32) -> Self {
        self.set("breaker.successes_to_close", value)
    }

    /// `breaker.failure_on`: Classes and kinds that count as failures, besides transient, timeout and `never_sent`.
    ///
    /// One of transient, throttled, timeout, `never_sent`, conflict, permanent, ignored, infrastructure, concurrency, or a name
    /// declared in kinds; default: off.
    pub fn failure_on(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("breaker.failure_on", value))
    }

    /// `breaker.ignore_on`: Classes and kinds that count neither way.
    ///
    /// One of transient, throttled, timeout, `never_sent`, conflict, permanent, ignored, infrastructure, concurrency, or a name
    /// declared in kinds; default: off.
    pub fn ignore_on(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("breaker.ignore_on", value))
    }

    /// `breaker.unit`: What is counted: the call, or each of its attempts.
    ///
    /// One of call, attempt; default: `call`.
    pub fn unit(self, value: Unit) -> Self {
        self.set("breaker.unit", value)
    }

    /// `breaker.store`: fleet: one process that trips opens the breaker for all, through the store that the engine is attached
    /// to.
    ///
    /// One of local, fleet; default: `local`.
    pub fn store(self, value: StateOf) -> Self {
        self.set("breaker.store", value)
    }

    /// `breaker.quorum`: fleet: processes that must trip within the window, or within `break_duration` where there is none,
    /// before it opens for all.
    ///
    /// A whole number from 1 to 10000; default: `1`.
    pub fn quorum(self, value: u32) -> Self {
        self.set("breaker.quorum", value)
    }

    /// `breaker.on_loss`: fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls
    /// pass, closed refuses them.
    ///
    /// One of local, open, closed; default: `local`.
    pub fn on_loss(self, value: OnLoss) -> Self {
        self.set("breaker.on_loss", value)
    }
}

/// `throttle`: Which part of the calls to refuse while a part of them fails.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Throttle {
    pub(crate) pairs: Pairs,
}

impl Throttle {
    /// The given settings, and defaults for the rest.
    pub const fn new() -> Self {
        Self { pairs: Pairs::new() }
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `throttle.k`: Requests per accepted one that are let through.
    ///
    /// A finite number from 1 to 1000000; default: `2`.
    pub fn k(self, value: f64) -> Self {
        self.set("throttle.k", value)
    }

    /// `throttle.window`: How long a call counts.
    ///
    /// A span from 10us to 365 days; default: `2m`.
    pub fn window(self, value: Duration) -> Self {
        self.set("throttle.window", value)
    }

    /// `throttle.window_kind`: sliding forgets by tenths of the window, tumbling all at once.
    ///
    /// One of sliding, tumbling; default: `sliding`.
    pub fn window_kind(self, value: WindowKind) -> Self {
        self.set("throttle.window_kind", value)
    }

    /// `throttle.min_throughput`: Calls that the window must hold before any is refused.
    ///
    /// A whole number from 1 to 1000000000; default: `10`.
    pub fn min_throughput(self, value: u32) -> Self {
        self.set("throttle.min_throughput", value)
    }

    /// `throttle.max_reject`: The highest probability of a refusal.
    ///
    /// A finite number from 0 to 1, or none; default: `0.9`.
    pub fn max_reject(self, value: impl Into<Bound<f64>>) -> Self {
        let value: Bound<f64> = value.into();
        self.set("throttle.max_reject", value)
    }

    /// `throttle.probe_interval`: At least one call is let through per interval.
    ///
    /// A span from 1us to 365 days, or none; default: `1s`.
    pub fn probe_interval(self, value: impl Into<Bound<Duration>>) -> Self {
        let value: Bound<Duration> = value.into();
        self.set("throttle.probe_interval", value)
    }

    /// `throttle.prioritized`: Calls of higher criticality are refused later: k times 0.625, 0.75, 1 and 2, at least 1.1.
    ///
    /// True or false; default: `false`.
    pub fn prioritized(self, value: bool) -> Self {
        self.set("throttle.prioritized", value)
    }

    /// `throttle.unit`: What is counted and refused: the call, or each of its attempts.
    ///
    /// One of call, attempt; default: `call`.
    pub fn unit(self, value: Unit) -> Self {
        self.set("throttle.unit", value)
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new()
    }
}

/// `hedge`: When to send a second attempt beside a slow one.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct Hedge {
    pub(crate) pairs: Pairs,
}

impl Hedge {
    /// The given settings, and defaults for the rest.
    pub fn new(delay: Duration) -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.delay", delay)
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `hedge.delay`: How long an answer may take before another attempt starts beside it.
    ///
    /// A span from 0s to 365 days; default: required.
    pub fn delay(self, value: Duration) -> Self {
        self.set("hedge.delay", value)
    }

    /// `hedge.max_attempts`: Attempts of one call that may run at once.
    ///
    /// A whole number from 2 to 4; default: `2`.
    pub fn max_attempts(self, value: u32) -> Self {
        self.set("hedge.max_attempts", value)
    }

    /// `hedge.adaptive_delay_quantile`: The delay is this quantile of recent latencies, once there are five.
    ///
    /// A finite number from 0.001 to 0.999; default: required with `delay_min` and with `delay_max`.
    pub fn adaptive_delay_quantile(self, value: f64) -> Self {
        self.set("hedge.adaptive_delay_quantile", value)
    }

    /// `hedge.delay_min`: The shortest adaptive delay.
    ///
    /// A span from 0s to 365 days; default: off.
    pub fn delay_min(self, value: Duration) -> Self {
        self.set("hedge.delay_min", value)
    }

    /// `hedge.delay_max`: The longest adaptive delay.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn delay_max(self, value: Duration) -> Self {
        self.set("hedge.delay_max", value)
    }

    /// `hedge.budget`: What bounds the load that hedges add, per route.
    pub fn budget(mut self, budget: HedgeBudget) -> Self {
        self.pairs.within(budget.pairs);
        self
    }
}

/// `hedge.budget`: What bounds the load that hedges add, per route.
#[derive(Clone, PartialEq, Debug)]
#[must_use = "it does nothing until a policy's builder has it"]
pub struct HedgeBudget {
    pub(crate) pairs: Pairs,
}

impl HedgeBudget {
    /// One of kind `shared`.
    pub fn shared() -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "shared")
    }

    /// One of kind `earned`.
    pub fn earned() -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "earned")
    }

    /// One of kind `window`.
    pub fn window() -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "window")
    }

    /// One of kind `ratio`.
    pub fn by_ratio(ratio: f64) -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "ratio")
            .set("hedge.budget.ratio", ratio)
    }

    /// One of kind `share`.
    pub fn by_share() -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "share")
    }

    /// One of kind `tokens`.
    pub fn tokens(ratio: f64, max: u32) -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "tokens")
            .set("hedge.budget.ratio", ratio)
            .set("hedge.budget.max", max)
    }

    /// One of kind `quota`.
    pub fn quota() -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "quota")
    }

    /// One of kind `none`.
    pub fn none() -> Self {
        Self { pairs: Pairs::new() }
            .set("hedge.budget.kind", "none")
    }

    /// The preset's settings, or the defaults. Methods change them.
    pub const fn new() -> Self {
        Self { pairs: Pairs::new() }
    }

    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key, value);
        self
    }

    /// `hedge.budget.ttl`: How long a call or a retry counts.
    ///
    /// A span from 10us to 365 days; default: `10s`.
    pub fn ttl(self, value: Duration) -> Self {
        self.set("hedge.budget.ttl", value)
    }

    /// `hedge.budget.min_retries_per_sec`: Retries per second that are free of any ratio.
    ///
    /// A finite number from 0 to 1000000000; default: `10`.
    pub fn min_retries_per_sec(self, value: f64) -> Self {
        self.set("hedge.budget.min_retries_per_sec", value)
    }

    /// `hedge.budget.percent_can_retry`: Retries allowed per recent call, as a fraction.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn percent_can_retry(self, value: f64) -> Self {
        self.set("hedge.budget.percent_can_retry", value)
    }

    /// `hedge.budget.rounding`: How the share of calls is rounded.
    ///
    /// One of floor, ceil; default: `floor`.
    pub fn rounding(self, value: Rounding) -> Self {
        self.set("hedge.budget.rounding", value)
    }

    /// `hedge.budget.ratio`: earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a
    /// call earns. tokens: what a success gives back.
    ///
    /// A finite number from 0.000001 to 1; default: required with `ratio` and with `tokens`.
    pub fn ratio(self, value: f64) -> Self {
        self.set("hedge.budget.ratio", value)
    }

    /// `hedge.budget.start`: earned: retries that a new budget has; where absent `max_attempts` less 1, at most 4, and 2 in a
    /// pool.
    ///
    /// A whole number from 0 to 1000000000; default: off.
    pub fn start(self, value: u32) -> Self {
        self.set("hedge.budget.start", value)
    }

    /// `hedge.budget.min_throughput`: ratio: retries are free until this many calls have been made.
    ///
    /// A whole number from 0 to 1000000000; default: `0`.
    pub fn min_throughput(self, value: u32) -> Self {
        self.set("hedge.budget.min_throughput", value)
    }

    /// `hedge.budget.share`: share: retries in flight per call in flight.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn share(self, value: f64) -> Self {
        self.set("hedge.budget.share", value)
    }

    /// `hedge.budget.min_retries`: share: retries in flight that are always allowed.
    ///
    /// A whole number from 0 to 1000000000; default: `3`.
    pub fn min_retries(self, value: u32) -> Self {
        self.set("hedge.budget.min_retries", value)
    }

    /// `hedge.budget.max`: tokens: tokens when full; retries need more than half.
    ///
    /// A whole number from 1 to 1000; default: required with `tokens`.
    pub fn max(self, value: u32) -> Self {
        self.set("hedge.budget.max", value)
    }

    /// `hedge.budget.capacity`: quota: tokens when full.
    ///
    /// A whole number from 1 to 1000000000; default: `500`.
    pub fn capacity(self, value: u32) -> Self {
        self.set("hedge.budget.capacity", value)
    }

    /// `hedge.budget.cost`: quota: what a retry costs.
    ///
    /// A whole number from 1 to 65535; default: `5`.
    pub fn cost(self, value: u32) -> Self {
        self.set("hedge.budget.cost", value)
    }

    /// `hedge.budget.timeout_cost`: quota: what a retry after an attempt timeout costs.
    ///
    /// A whole number from 1 to 65535; default: `10`.
    pub fn timeout_cost(self, value: u32) -> Self {
        self.set("hedge.budget.timeout_cost", value)
    }

    /// `hedge.budget.throttled_cost`: quota: what a retry after a throttled outcome costs.
    ///
    /// A whole number from 1 to 65535; default: that of `hedge.budget.cost`.
    pub fn throttled_cost(self, value: u32) -> Self {
        self.set("hedge.budget.throttled_cost", value)
    }
}

impl Default for HedgeBudget {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// `preset`: The built-in policy to start from.
    ///
    /// One of http, httpware, transient, occ, graph, `aws_standard`, `aws_2026`, `aws_adaptive`, grpc, llm; default: none.
    pub fn preset(self, value: Preset) -> Self {
        self.set("preset", value)
    }

    /// `deadline`: Time for the whole call: queueing, backoff, attempts and reading the body.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn deadline(self, value: Duration) -> Self {
        self.set("deadline", value)
    }

    /// `attempt_timeout`: Time for one attempt; running out of it is retryable.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn attempt_timeout(self, value: Duration) -> Self {
        self.set("attempt_timeout", value)
    }

    /// `slot_until`: How long a streamed answer keeps its slot and its deadline.
    ///
    /// One of body, headers; default: `body`.
    pub fn slot_until(self, value: SlotUntil) -> Self {
        self.set("slot_until", value)
    }

    /// `kinds`: Kinds of failure of your own, each with the class that it is based on, at most 23; `retry_on`, `failure_on` and
    /// `ignore_on` may name them.
    ///
    /// Names of a to z, 0 to 9 and _, each with its class; default: off.
    pub fn kinds(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |it, value| it.set("kinds", value))
    }

    /// `store_timeout`: Where a component is fleet-wide: how long a call waits for the store's answer, and the engine for any;
    /// then `on_loss` holds.
    ///
    /// A span from 1ms to 365 days; default: `50ms`.
    pub fn store_timeout(self, value: Duration) -> Self {
        self.set("store_timeout", value)
    }

    /// `store_exchange`: Where breaker or latencies are fleet-wide: how often they are exchanged, at most; an opening is written
    /// at once.
    ///
    /// A span from 1ms to 365 days; default: `250ms`.
    pub fn store_exchange(self, value: Duration) -> Self {
        self.set("store_exchange", value)
    }

    /// `first_byte_timeout`: Streams: time from an attempt's start to the first piece of its body that counts (a model's first
    /// token); running out of it is retryable.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn first_byte_timeout(self, value: Duration) -> Self {
        self.set("first_byte_timeout", value)
    }

    /// `idle_timeout`: Time without a piece of the body that counts; once the answer is delivered, running out of it ends the
    /// call.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn idle_timeout(self, value: Duration) -> Self {
        self.set("idle_timeout", value)
    }

    /// `deadline_until`: Where the deadline ends: with the body, or where the answer is handed to the caller.
    ///
    /// One of body, delivery; default: `body`.
    pub fn deadline_until(self, value: DeadlineUntil) -> Self {
        self.set("deadline_until", value)
    }

    /// `counts`: Which pieces of a body count: all bytes, or data of server-sent events, without comments and pings.
    ///
    /// One of bytes, `sse_data`; default: `bytes`.
    pub fn counts(self, value: Counts) -> Self {
        self.set("counts", value)
    }

    /// `retry`: When to try again.
    pub fn retry(self, retry: Retry) -> Self {
        self.component("retry", retry.pairs)
    }

    /// `cooldown`: How long no attempt starts after one that was throttled, per route, and how few at first afterwards.
    pub fn cooldown(self, cooldown: Cooldown) -> Self {
        self.component("cooldown", cooldown.pairs)
    }

    /// `rate_limit`: How many calls may start per span, per route.
    pub fn rate_limit(self, rate_limit: RateLimit) -> Self {
        self.component("rate_limit", rate_limit.pairs)
    }

    /// `bulkhead`: How many calls may be in flight at once, per route.
    pub fn bulkhead(self, bulkhead: Bulkhead) -> Self {
        self.component("bulkhead", bulkhead.pairs)
    }

    /// `breaker`: When to stop calling what fails.
    pub fn breaker(self, breaker: Breaker) -> Self {
        self.component("breaker", breaker.pairs)
    }

    /// `throttle`: Which part of the calls to refuse while a part of them fails.
    pub fn throttle(self, throttle: Throttle) -> Self {
        self.component("throttle", throttle.pairs)
    }

    /// `hedge`: When to send a second attempt beside a slow one.
    pub fn hedge(self, hedge: Hedge) -> Self {
        self.component("hedge", hedge.pairs)
    }
}

/// By component: the pair that enables it where no other key of it is set.
pub(crate) const PRESENT: &[(&str, &str, Present)] = &[
    ("retry", "retry.max_attempts", Present::Number(3.0)),
    ("retry.backoff", "retry.backoff.kind", Present::Word("exponential")),
    ("retry.budget", "retry.budget.kind", Present::Word("earned")),
    ("cooldown", "cooldown.max_waiters", Present::Number(200.0)),
    ("rate_limit", "rate_limit.unit", Present::Word("call")),
    ("bulkhead", "bulkhead.kind", Present::Word("fixed")),
    ("breaker", "breaker.window_kind", Present::Word("sliding")),
    ("throttle", "throttle.k", Present::Number(2.0)),
    ("hedge", "hedge.max_attempts", Present::Number(2.0)),
    ("hedge.budget", "hedge.budget.kind", Present::Word("shared")),
];

/// The value of such a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Present {
    Number(f64),
    Word(&'static str),
}
