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
use tidegate::{Duration, Policy, Time, parts};

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

/// The settings of a part, out of the pairs of a policy that has nothing else.
#[allow(clippy::needless_pass_by_value)] // they come from Python and end here
fn settings<S>(pairs: Pairs, of: impl FnOnce(&Policy) -> Option<S>) -> PyResult<S> {
    // The Python half must pass only pairs of this part.
    let missing = || PyValueError::new_err("these are not the settings of this part");
    of(&checked("part", &pairs)?).ok_or_else(missing)
}

/// The one of these with this name.
fn named<T: Copy>(key: &str, value: &str, all: &[T], name: fn(T) -> &'static str) -> PyResult<T> {
    parts::named(key, value, all, name).map_err(PyValueError::new_err)
}
