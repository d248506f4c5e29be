//! Core's parts on their own as WebAssembly, for `tidegate/parts`. The crate only converts; it has no logic of its own.
//!
//! A separate module, so that users of one part do not load the engine, and users of the engine no parts. Each part is a handle.
//! Settings are the pairs of a policy, and core checks them as such, so that this crate has no ranges and no defaults. Times are
//! milliseconds on the user's clock, whose origin does not matter. A missing value is NaN, −1 or 2, as each export says.

mod breaker;
mod budgets;
mod delay;
mod handles;
mod limit;
mod quantile;
mod rate;
#[path = "../../src/slab.rs"]
mod slab;
mod store;
mod strategy;
#[path = "../../src/texts.rs"]
mod texts;

use tidegate::{Duration, Policy, Time};

use texts::{answer, mistakes, staged};

/// The origin of the user's clock on core's clock. It is far from 0, because the user's times may be negative.
const ORIGIN: i64 = 1 << 62;

/// Converts a moment of the user's clock, which the host has checked.
fn time(at: f64) -> Time {
    Time::from_micros(ORIGIN.saturating_add((at * 1e3).round() as i64).unsigned_abs())
}

/// Converts a moment of core's clock to the user's.
fn reading(at: Time) -> f64 {
    at.as_micros().cast_signed().wrapping_sub(ORIGIN) as f64 / 1e3
}

/// Converts a measured span, 0 or more, which the host has checked.
fn span(ms: f64) -> Duration {
    Duration::from_micros((ms * 1e3).round() as u64)
}

/// Microseconds that a server asked to wait, if it did.
fn asked(ms: f64) -> Option<u64> {
    (!ms.is_nan()).then(|| span(ms).as_micros())
}

fn millis(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

/// A wait; infinity if waiting does not help.
fn until(wait: Duration) -> f64 {
    if wait == Duration::MAX { f64::INFINITY } else { millis(wait) }
}

fn maybe(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

/// Calls `work` with the staged settings once they have been checked. Returns its result, or −1 with the mistakes in the output.
fn checked(work: &dyn Fn(&Policy) -> Option<u32>) -> f64 {
    let policy = staged(Policy::from_pairs).map_err(|errors| mistakes(&errors));
    // `None` means missing settings, a bug of the JavaScript half: it says a key that a part needs.
    answer(policy.map(|policy| work(&policy).map_or(-1.0, f64::from)))
}

/// The one of these with this number, which the host has checked.
fn numbered<T: Copy>(number: u32, all: &[T]) -> T {
    all[(number as usize).min(all.len() - 1)]
}
