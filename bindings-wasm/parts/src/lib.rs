//! Core's parts on their own as WebAssembly, for `tidegate/parts`: conversions and nothing else. No logic here.
//!
//! A module of its own, so that whoever wants one part does not load the engine, and whoever wants the engine no parts. Each
//! part is a handle. Settings come as the pairs of a policy and are checked by core as those of a policy, so that no range
//! and no default stands here. Times are milliseconds on a clock of the user's, whose origin does not matter; what there is
//! none of is NaN, −1 or 2, as each export says.

mod breaker;
mod budgets;
mod delay;
mod limit;
mod quantile;
mod rate;
mod slab;
mod store;
mod strategy;
mod texts;

use tidegate::{BreakerSettings, Class, Duration, Policy, Time, Value};

use texts::texts;

/// The origin of the user's clock on core's: times before it are times too.
const ORIGIN: i64 = 1 << 62;

/// A moment of the user's. The host has seen to it that it is one.
fn time(at: f64) -> Time {
    Time::from_micros(ORIGIN.saturating_add((at * 1e3).round() as i64).unsigned_abs())
}

/// A moment of core's on the user's clock.
fn reading(at: Time) -> f64 {
    at.as_micros().cast_signed().wrapping_sub(ORIGIN) as f64 / 1e3
}

/// A span that was measured: 0 or more, which the host has seen to.
fn span(ms: f64) -> Duration {
    Duration::from_micros((ms * 1e3).round() as u64)
}

fn millis(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

/// A wait; infinity where waiting does not help.
fn until(wait: Duration) -> f64 {
    if wait == Duration::MAX { f64::INFINITY } else { millis(wait) }
}

fn maybe(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

/// Puts what a part is made of, once its settings are in order, to this use: what comes of it, or −1 and the mistakes in
/// the output.
fn checked(work: &dyn Fn(&Policy) -> Option<u32>) -> f64 {
    let made = texts::staged(|pairs| Policy::from_pairs("part", pairs));
    match made {
        // A part without its own settings is a mistake of the JavaScript half, which stages a key that a part needs.
        Ok(policy) => work(&policy).map_or(-1.0, f64::from),
        Err(errors) => {
            texts(|it| it.output = texts::mistakes(&errors));
            -1.0
        }
    }
}

/// The settings of a breaker whose probes keep their place for so long; NaN for what follows from the other settings.
fn leased(mut settings: BreakerSettings, probe_lease: f64) -> BreakerSettings {
    if !probe_lease.is_nan() {
        settings.probe_lease = span(probe_lease);
    }
    settings
}

/// What a retry is paid for after: 0 transient, 1 timeout, 2 throttled.
fn paid_for(kind: u32) -> Class {
    match kind {
        1 => Class::Timeout,
        2 => Class::Throttled,
        _ => Class::Transient,
    }
}

fn whole(policy: &Policy, key: &str) -> u32 {
    match policy.value(key) {
        Some(Value::Number(number)) => number as u32,
        _ => 0,
    }
}

/// One of core's nine classes of outcome, by its number.
fn class(number: u32) -> Class {
    Class::ALL.get(number as usize).copied().unwrap_or(Class::Ignored)
}
