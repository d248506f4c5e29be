//! Native half of the Python package. It converts arguments and results, and makes no decisions. Modules, lowest first:
//!
//! - `ffi`, `lock`, `pairs`: the interpreter's C API, the lock, settings;
//! - `transport`, `inside`, `scope`: requests of httpx, and a call's context;
//! - `listeners`, `state`, `testing`, `engine`: core's engine behind its lock;
//! - `document`, `fleet`, `snapshot`, `telemetry`, `parts`, `streams`: documents, the store, snapshots, records and metrics, parts, events;
//! - `runner`, `again`, `call`, `awaitable`, `method`, `decorated`: the happy path of a call, for threads and for event loops.
//!
//! There are no cyclic dependencies between modules: `tidegate-house` checks that.

#![deny(unsafe_code)]
#![allow(clippy::inline_always)] // the wheel is built for size, all but the way of a call that works
#![allow(clippy::cast_possible_wrap)] // sizes and offsets of small structs, as the interpreter's C takes them

mod again;
#[allow(unsafe_code)] // slots by hand; each use says why it is sound, here and below
mod awaitable;
mod call;
#[allow(unsafe_code)] // an object with slots by hand
mod decorated;
mod document;
mod engine;
#[allow(unsafe_code)]
mod ffi;
mod fleet;
#[allow(unsafe_code)]
mod inside;
mod listeners;
#[allow(unsafe_code)]
mod lock;
#[allow(unsafe_code)]
mod method;
mod pairs;
mod parts;
mod runner;
mod scope;
mod snapshot;
mod state;
mod streams;
mod telemetry;
mod testing;
mod transport;

use pyo3::prelude::*;

/// Tidegate's core, for the Python half. No part of the public API.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::again::left_answers;
    #[pymodule_export]
    use super::awaitable::awaitable_type;
    #[pymodule_export]
    use super::decorated::decorated;
    #[pymodule_export]
    use super::document::Document;
    #[pymodule_export]
    use super::engine::{Engine, keys, monotonic_us};
    #[pymodule_export]
    use super::fleet::{Fleet, MemoryStore};
    #[pymodule_export]
    use super::method::native_method;
    #[pymodule_export]
    use super::parts::breaker::{AdaptiveThrottle, CircuitBreaker, Ticket};
    #[pymodule_export]
    use super::parts::budgets::{
        EarnedBudget, RatioBudget, RetryBudget, RetryQuota, ShareBudget, TokenBudget,
    };
    #[pymodule_export]
    use super::parts::delay::{Backoff, parse_retry_after};
    #[pymodule_export]
    use super::parts::limit::{Aimd, CoDel, Gradient2};
    #[pymodule_export]
    use super::parts::quantile::{DDSketch, P2Quantile, WindowedP2Quantile};
    #[pymodule_export]
    use super::parts::rate::{CubicRate, Gcra, TokenBucket};
    #[pymodule_export]
    use super::parts::strategy::{RetryStrategy, RetryToken};
    #[pymodule_export]
    use super::runner::Runner;
    #[pymodule_export]
    use super::scope::{scope, scope_variable, within};
    #[pymodule_export]
    use super::streams::{Events, Frames, UsageReader, asks_for_stream, estimate_of, weight_of};
    #[pymodule_export]
    const HELD_AT_MOST: usize = tidegate::answer::HELD_AT_MOST;
    #[pymodule_export]
    const READ_AT_MOST: usize = tidegate::answer::READ_AT_MOST;
    #[pymodule_export]
    const READ_FOR: u64 = tidegate::answer::READ_FOR.as_micros();
    #[pymodule_export]
    use super::telemetry::{Inspector, bounds, families, record_types, timed, verdicts};
    #[pymodule_export]
    use super::transport::Sender;
}
