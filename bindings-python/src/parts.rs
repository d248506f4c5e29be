//! Core's single parts, for `tidegate.parts`: conversions only.
//!
//! Settings arrive as the pairs of a policy, and core validates them like those of a policy, so that ranges and defaults
//! are not repeated here. Times are seconds on a clock of the user with any origin.

pub mod breaker;
pub mod budgets;
pub mod delay;
pub mod limit;
pub mod quantile;
pub mod rate;
pub mod strategy;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate::rng::{self, Purpose};
use tidegate::{BreakerSettings, Class, Duration, Policy, Time, Value};

use crate::pairs::{Given, checked};

type Pairs = Vec<(String, Given)>;

/// The origin of the user's clock on core's: times before it are times too.
const ORIGIN: i64 = 1 << 62;
/// Further from the origin a float is no longer exact to the microsecond, nearly: 31,000 years.
const FARTHEST: f64 = 1e12;

fn moment(key: &str, at: f64) -> PyResult<Time> {
    if at.abs() <= FARTHEST {
        Ok(Time::from_micros((ORIGIN + (at * 1e6).round() as i64).unsigned_abs()))
    } else {
        Err(PyValueError::new_err(format!(
            "{key} = {at}: must be a finite number of seconds from -1e12 to 1e12"
        )))
    }
}

/// A moment of core's on the user's clock.
fn reading(at: Time) -> f64 {
    (at.as_micros() as i64 - ORIGIN) as f64 / 1e6
}

fn seconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
}

/// A wait in seconds; infinity where waiting does not help.
fn until(wait: Duration) -> f64 {
    if wait == Duration::MAX { f64::INFINITY } else { seconds(wait) }
}

/// A span that was measured.
fn span(key: &str, seconds: f64) -> PyResult<Duration> {
    if seconds >= 0.0 {
        Ok(Duration::from_micros((seconds * 1e6).round() as u64))
    } else {
        Err(PyValueError::new_err(format!("{key} = {seconds}: must be a number of seconds, 0 or more")))
    }
}

fn whole(policy: &Policy, key: &str) -> u32 {
    match policy.value(key) {
        Some(Value::Number(number)) => number as u32,
        _ => 0,
    }
}

/// The settings of a part, out of the pairs of a policy that has nothing else.
fn settings<S>(pairs: &Pairs, of: impl FnOnce(&Policy) -> Option<S>) -> PyResult<S> {
    // The Python half must pass only pairs of this part.
    let missing = || PyValueError::new_err("these are not the settings of this part");
    of(&checked("part", pairs)?).ok_or_else(missing)
}

/// The settings of a breaker whose probes keep their place for so long.
fn leased(mut settings: BreakerSettings, probe_lease: Option<u64>) -> BreakerSettings {
    if let Some(lease) = probe_lease {
        settings.probe_lease = Duration::from_micros(lease);
    }
    settings
}

/// A part with the draws that it makes: the seed, and the number of the next one.
#[derive(Clone)]
pub struct Drawn<P> {
    part: P,
    seed: u64,
    next: u64,
}

impl<P> Drawn<P> {
    fn new(part: P, seed: u64) -> Self {
        Self { part, seed, next: 0 }
    }

    /// The number of a draw.
    fn draw(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next.wrapping_sub(1)
    }

    /// The bits of a draw: the caller's own, or the next of the seed's.
    fn bits(&mut self, own: Option<u64>, purpose: Purpose) -> u64 {
        own.unwrap_or_else(|| rng::bits(self.seed, self.draw(), purpose, 0))
    }
}

/// What a retry is paid for after: `transient`, `timeout`, `throttled`.
fn paid_for(kind: &str) -> PyResult<Class> {
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

/// One of core's nine classes of outcome, by its name.
fn class(name: &str) -> PyResult<Class> {
    Class::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| {
        let names = Class::ALL.map(Class::name).join(", ");
        PyValueError::new_err(format!("kind = {name:?}: must be one of {names}"))
    })
}
