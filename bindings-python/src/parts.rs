//! Core's parts on their own, for `tidegate.parts`: conversions and nothing else, as in `lib.rs`.
//!
//! Settings come as the pairs of a policy and are checked by core as those of a policy, so that no range and no default
//! stands here. Times are seconds on a clock of the user's, whose origin does not matter.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate::rng::{self, Purpose};
use tidegate::{
    Class, Duration, ErrorInfo, Growth, Jitter, Policy, QuotaSettings, RatioSettings, RetryError, Rounding,
    ShareSettings, StrategySettings, Time, TokenSettings, Value, WallTime, WindowSettings,
};

use crate::{Given, checked};

type Pairs = Vec<(String, Given)>;

/// The origin of the user's clock on core's: times before it are times too.
const ORIGIN: i64 = 1 << 62;
/// Further from the origin a float is no longer exact to the microsecond, nearly: 31,000 years.
const FARTHEST: f64 = 1e12;

fn time(now: f64) -> PyResult<Time> {
    if now.abs() <= FARTHEST {
        Ok(Time::from_micros((ORIGIN + (now * 1e6).round() as i64).unsigned_abs()))
    } else {
        Err(PyValueError::new_err(format!(
            "now = {now}: must be a finite number of seconds from -1e12 to 1e12"
        )))
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
}

fn number(policy: &Policy, key: &str) -> f64 {
    match policy.value(key) {
        Some(Value::Number(number)) => number,
        _ => 0.0,
    }
}

fn whole(policy: &Policy, key: &str) -> u32 {
    number(policy, key) as u32
}

fn span(policy: &Policy, key: &str) -> Duration {
    Duration::from_micros(number(policy, key) as u64)
}

fn word<'a>(policy: &'a Policy, key: &str) -> &'a str {
    match policy.value(key) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

fn backoff(policy: &Policy) -> tidegate::Backoff {
    tidegate::Backoff {
        growth: match word(policy, "retry.backoff.kind") {
            "constant" => Growth::Constant,
            "linear" => Growth::Linear,
            "polynomial" => Growth::Polynomial(whole(policy, "retry.backoff.exponent") as u8),
            _ => Growth::Exponential(number(policy, "retry.backoff.multiplier")),
        },
        base: span(policy, "retry.backoff.base"),
        max: span(policy, "retry.backoff.max"),
        jitter: match word(policy, "retry.backoff.jitter") {
            "none" => Jitter::None,
            "full" => Jitter::Full,
            "equal" => Jitter::Equal,
            "decorrelated" => Jitter::Decorrelated,
            "bounded" => Jitter::Bounded(number(policy, "retry.backoff.jitter_ratio")),
            _ => Jitter::FullFloor,
        },
    }
}

fn quota(policy: &Policy) -> QuotaSettings {
    QuotaSettings {
        capacity: whole(policy, "retry.budget.capacity"),
        cost: whole(policy, "retry.budget.cost") as u16,
        timeout_cost: whole(policy, "retry.budget.timeout_cost") as u16,
        throttled_cost: whole(policy, "retry.budget.throttled_cost") as u16,
    }
}

/// Seconds that a `Retry-After` value asks for, or None; `wall_us` is the Unix time.
#[pyfunction]
pub fn parse_retry_after(value: &[u8], wall_us: u64) -> Option<f64> {
    tidegate::parse_retry_after(value, WallTime::from_unix_micros(wall_us)).map(seconds)
}

/// Delays between attempts.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Backoff {
    inner: tidegate::Backoff,
    seed: u64,
    /// The call that the next draw without a call of its own belongs to.
    next: Mutex<u64>,
}

#[pymethods]
impl Backoff {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", seed))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, seed: u64) -> PyResult<Self> {
        Ok(Self { inner: backoff(&checked("part", &pairs)?), seed, next: Mutex::new(0) })
    }

    /// Seconds before retry `n`.
    #[pyo3(signature = (n, call = None))]
    fn delay(&self, n: u8, call: Option<u64>) -> f64 {
        let call = call.unwrap_or_else(|| {
            let mut next = self.next.lock();
            *next = next.wrapping_add(1);
            next.wrapping_sub(1)
        });
        seconds(self.inner.nth_delay(u32::from(n), |i| rng::bits(self.seed, call, Purpose::Backoff, i as u8)))
    }

    /// Seconds before retry `n` without jitter.
    fn ceiling(&self, n: u8) -> f64 {
        seconds(self.inner.ceiling(u32::from(n)))
    }
}

/// The windowed budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryBudget(Mutex<tidegate::RetryBudget>);

#[pymethods]
impl RetryBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let policy = checked("part", &pairs)?;
        let settings = WindowSettings {
            ttl: span(&policy, "retry.budget.ttl"),
            min_retries_per_sec: number(&policy, "retry.budget.min_retries_per_sec"),
            percent_can_retry: number(&policy, "retry.budget.percent_can_retry"),
            rounding: match word(&policy, "retry.budget.rounding") {
                "ceil" => Rounding::Ceil,
                _ => Rounding::Floor,
            },
        };
        Ok(Self(Mutex::new(tidegate::RetryBudget::new(settings))))
    }

    /// Counts one call.
    fn deposit(&self, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().deposit(now);
        Ok(())
    }

    /// Takes one retry, if there is one to take.
    fn try_withdraw(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().try_withdraw(now))
    }

    /// Gives back a retry that was withdrawn at `charged` and never started.
    fn refund(&self, charged: f64, now: f64) -> PyResult<()> {
        let (charged, now) = (time(charged)?, time(now)?);
        self.0.lock().refund(charged, now);
        Ok(())
    }

    /// Retries that could be taken now.
    fn balance(&self, now: f64) -> PyResult<u64> {
        let now = time(now)?;
        Ok(self.0.lock().balance(now))
    }
}

/// The ratio budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RatioBudget(Mutex<tidegate::RatioBudget>);

#[pymethods]
impl RatioBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let policy = checked("part", &pairs)?;
        let settings = RatioSettings {
            ratio: number(&policy, "retry.budget.ratio"),
            min_throughput: whole(&policy, "retry.budget.min_throughput"),
        };
        Ok(Self(Mutex::new(tidegate::RatioBudget::new(settings))))
    }

    /// Counts one call.
    fn on_call(&self) {
        self.0.lock().on_call();
    }

    /// Takes one retry, if it is free or there is one to take.
    fn try_withdraw(&self) -> bool {
        self.0.lock().try_withdraw()
    }

    /// Would a retry be free now?
    fn is_free(&self) -> bool {
        self.0.lock().is_free()
    }

    /// Gives back a retry that was paid for and never started.
    fn refund(&self) {
        self.0.lock().refund();
    }

    /// Whole retries that could be taken now.
    fn balance(&self) -> u64 {
        self.0.lock().balance()
    }
}

/// The share budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct ShareBudget(Mutex<tidegate::ShareBudget>);

#[pymethods]
impl ShareBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let policy = checked("part", &pairs)?;
        let settings = ShareSettings {
            share: number(&policy, "retry.budget.share"),
            min_retries: whole(&policy, "retry.budget.min_retries"),
        };
        Ok(Self(Mutex::new(tidegate::ShareBudget::new(settings))))
    }

    /// Takes one retry, while `calls` are in flight.
    fn try_acquire(&self, calls: u32) -> bool {
        self.0.lock().try_acquire(calls)
    }

    /// A retry has ended, or will not start.
    fn on_end(&self) {
        self.0.lock().on_end(true);
    }

    /// Retries that could be taken now, while `calls` are in flight.
    fn balance(&self, calls: u32) -> u64 {
        self.0.lock().balance(calls)
    }

    /// Retries in flight.
    fn in_flight(&self) -> u32 {
        self.0.lock().in_flight()
    }
}

/// The token budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct TokenBudget(Mutex<tidegate::TokenBudget>);

#[pymethods]
impl TokenBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let policy = checked("part", &pairs)?;
        let settings = TokenSettings {
            max: whole(&policy, "retry.budget.max"),
            ratio: number(&policy, "retry.budget.ratio"),
        };
        Ok(Self(Mutex::new(tidegate::TokenBudget::new(settings))))
    }

    /// A retryable failure.
    fn on_failure(&self) {
        self.0.lock().on_failure();
    }

    /// A success.
    fn on_success(&self) {
        self.0.lock().on_success();
    }

    /// May there be a retry now?
    fn allows(&self) -> bool {
        self.0.lock().allows()
    }

    /// Failures that would still leave retries allowed.
    fn balance(&self) -> u64 {
        self.0.lock().balance()
    }
}

/// What a retry is paid for after: `transient`, `timeout`, `throttled`.
fn class(kind: &str) -> PyResult<Class> {
    Ok(match kind {
        "transient" => Class::Transient,
        "timeout" => Class::Timeout,
        "throttled" => Class::Throttled,
        _ => {
            let rule = "must be one of transient, timeout, throttled";
            return Err(PyValueError::new_err(format!("kind = {kind:?}: {rule}")));
        }
    })
}

/// The retry quota.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryQuota {
    settings: QuotaSettings,
    inner: Mutex<tidegate::RetryQuota>,
}

#[pymethods]
impl RetryQuota {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let settings = quota(&checked("part", &pairs)?);
        Ok(Self { settings, inner: Mutex::new(tidegate::RetryQuota::new(settings)) })
    }

    /// Pays for a retry after a failure of this kind; the cost, if there was enough.
    fn try_acquire(&self, kind: &str) -> PyResult<Option<u16>> {
        let class = class(kind)?;
        Ok(self.inner.lock().try_acquire(class))
    }

    /// A call has succeeded, whose last retry cost `cost`.
    fn on_success(&self, cost: u16) {
        self.inner.lock().on_success(cost);
    }

    /// Gives a charge back.
    fn refund(&self, cost: u16) {
        self.inner.lock().refund(cost);
    }

    /// Tokens left.
    fn available(&self) -> u32 {
        self.inner.lock().available()
    }
}

/// The cubic send rate.
#[pyclass(frozen, module = "tidegate._native")]
pub struct CubicRate(Mutex<tidegate::CubicRate>);

#[pymethods]
impl CubicRate {
    #[new]
    fn new(now: f64) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::CubicRate::new(time(now)?))))
    }

    /// Takes one send: 0, or the seconds until there is one.
    fn acquire(&self, now: f64) -> PyResult<f64> {
        let now = time(now)?;
        Ok(self.0.lock().acquire(now).err().map_or(0.0, seconds))
    }

    /// Counts an answer and moves the rate.
    fn on_response(&self, throttled: bool, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().on_response(throttled, now);
        Ok(())
    }

    /// Sends per second that are allowed, once there has been a throttle.
    fn rate(&self) -> Option<f64> {
        self.0.lock().rate()
    }
}

/// What a strategy hands out for an attempt.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryToken(tidegate::RetryToken);

#[pymethods]
impl RetryToken {
    /// Attempts made so far, the first one aside.
    #[getter]
    fn retry_count(&self) -> u32 {
        self.0.retry_count
    }

    /// Seconds to wait before the attempt.
    #[getter]
    fn retry_delay(&self) -> f64 {
        seconds(self.0.retry_delay)
    }
}

/// Retry tokens, each scope with a quota of its own.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryStrategy(Mutex<tidegate::RetryStrategy>);

#[pymethods]
impl RetryStrategy {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", seed, backoff, quota, retry_unknown))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(
        pairs: Pairs,
        seed: u64,
        backoff: &Backoff,
        quota: Option<&RetryQuota>,
        retry_unknown: bool,
    ) -> PyResult<Self> {
        let settings = StrategySettings {
            max_attempts: whole(&checked("part", &pairs)?, "retry.max_attempts"),
            backoff: backoff.inner,
            quota: quota.map(|quota| quota.settings),
            retry_unknown,
        };
        Ok(Self(Mutex::new(tidegate::RetryStrategy::new(seed, settings))))
    }

    /// The token of a call's first attempt.
    fn acquire(&self, scope: &str) -> RetryToken {
        RetryToken(self.0.lock().acquire_initial(scope))
    }

    /// The token of the next attempt, or why there is none, with the wait there would have been.
    #[pyo3(signature = (token, safe, retry_after, throttling, timeout) -> "RetryToken | tuple[str, float | None]")]
    fn refresh<'py>(
        &self,
        py: Python<'py>,
        token: &RetryToken,
        safe: Option<bool>,
        retry_after: Option<u64>,
        throttling: bool,
        timeout: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let error = ErrorInfo {
            is_retry_safe: safe,
            retry_after: retry_after.map(Duration::from_micros),
            is_throttling_error: throttling,
            is_timeout_error: timeout,
        };
        let next = self.0.lock().refresh(token.0, error);
        let (why, wait) = match next {
            Ok(token) => return Ok(RetryToken(token).into_pyobject(py)?.into_any()),
            Err(RetryError::Attempts) => ("attempts", None),
            Err(RetryError::NotSafe) => ("not_safe", None),
            Err(RetryError::Quota(wait)) => ("quota", Some(seconds(wait))),
        };
        Ok((why, wait).into_pyobject(py)?.into_any())
    }

    /// A call has succeeded with this token.
    fn record_success(&self, token: &RetryToken) {
        self.0.lock().record_success(token.0);
    }

    /// Tokens left in a scope's quota, if there are quotas.
    fn available(&self, scope: &str) -> Option<u32> {
        self.0.lock().available(scope)
    }
}
