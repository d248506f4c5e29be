//! # Tidegate: one resilience engine, as a pure state machine
//!
//! Core decides; the host does the I/O. An [`Engine`] has no clock, no source of randomness, no threads and no
//! callbacks: `now` is always an argument, randomness is a seed. A host reports what happened ([`Event`]) and carries
//! out the returned [`Step`]. Same policy, same events, same seed: the same decisions, in every language.
//!
//! ```
//! use tidegate::{Action, Class, Engine, Event, Options, Outcome, Policy, Request, Time, Value, Verdict};
//!
//! let mut engine = Engine::new(7, Options::default());
//! let policy = Policy::from_pairs("payments", &[("preset", Value::Text("http"))]).unwrap();
//! let policy = engine.policy(policy).unwrap();
//! let now = Time::from_micros(0);
//! let route = engine.route(policy, "https://api.example", now);
//!
//! let (call, step) = engine.begin(route, &Request::default(), now);
//! assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
//! // … the host makes the attempt; it works …
//! let step = engine.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) }, now);
//! assert!(matches!(step.action(), Action::Done { verdict: Verdict::Ok, .. }));
//! ```
//!
//! The main parts: [`Policy`] (the settings), [`Engine`] (the decisions), [`wire`] (the encoding at a language
//! border), and separate components ([`RetryBudget`], [`Backoff`], [`parse_retry_after`]) for use on their own.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
// The small build leaves unused code; allow these lints there.
#![cfg_attr(
    tidegate_small,
    allow(
        dead_code,
        unreachable_code,
        clippy::inline_always,
        clippy::trivially_copy_pass_by_ref,
        clippy::unused_self
    )
)]

/// The guide to telemetry; its examples run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/telemetry.md")]
mod telemetry {}

/// The README; its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod action;
pub mod answer;
mod breaker;
mod classify;
mod codel;
mod cooldown;
mod debt;
mod engine;
pub mod errors;
pub mod fleet;
mod full;
mod hash;
mod limit;
mod meter;
mod outcome;
pub mod parts;
mod policy;
mod quantile;
mod retry;
pub mod rng;
mod state;
mod step;
mod text;
mod throttle;
mod time;
mod wide;
mod window;
pub mod wire;

pub use action::{
    Action, AttemptSlot, CallId, Event, Flags, Link, PathId, PolicyId, Request, RouteId, Verdict, Wait,
};
pub use breaker::{BreakerSettings, BreakerState, CircuitBreaker, Evidence, Ticket};
pub use classify::{HttpFailure, METHODS, class_of_status};
pub use codel::{CoDel, CodelLaw, CodelSettings};
pub use cooldown::{Cooldown, CooldownSettings, CooldownState, Place};
pub use engine::{
    Answer, BreakerView, CallExplanation, Clash, Component, CooldownView, Counts, EDGES, Engine,
    FleetRateView, HedgeView, HoldView, Input, InputError, LimitKind, LimitView, Load, Options,
    PolicyExplanation, PoolView, RateView, Record, RecordType, Refusal, RestoreError, Restored, RouteView,
    SavePages, SavedPart, SendView, SharedView, Skip, Snapshot, SnapshotPages, StoreView, TargetView,
    ThrottleView, TimeLeft, WeightError, Weights,
};
pub use limit::{
    Aimd, AimdSettings, Gcra, Gradient2, Gradient2Settings, Gradient2Variant, LimitSignal, RateSettings,
    TokenBucket,
};
pub use meter::{Family, Instrument, Meter, ReadPages, Reading, Series, Timed};
pub use outcome::{Class, Criticality, Kind, Opinion, Outcome};
#[cfg(feature = "documents")]
pub use policy::{Changes, Document, UnknownPolicy};
pub use policy::{Domain, Key, Policy, PolicyError, Pool, PoolKind, TABLE, TABLES, Value};
pub use quantile::{DDSketch, MergeError, P2Quantile, WindowedP2Quantile, WordsError};
pub use retry::{
    Backoff, BudgetSettings, CubicRate, EarnedBudget, EarnedSettings, ErrorInfo, Growth, Hints, Jitter,
    QuotaSettings, RatioBudget, RatioSettings, RetryBudget, RetryError, RetryQuota, RetryStrategy,
    RetryToken, Rounding, ShareBudget, ShareSettings, StrategySettings, TokenBudget, TokenSettings,
    WindowSettings, parse_retry_after,
};
pub use step::Step;
pub use throttle::{AdaptiveThrottle, ThrottleSettings};
pub use time::{Duration, Time, WallTime};
pub use window::WindowKind;

/// Vectors from published sources, for unit tests.
#[cfg(test)]
mod published {
    use std::path::Path;

    /// Reads a file of `tests/vectors/published`. It is read when the test runs, so that the tests of the published crate,
    /// which has no vectors, compile.
    #[expect(clippy::disallowed_methods, reason = "a test may read files")]
    pub(crate) fn vector(name: &str) -> serde_json::Value {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/published").join(name);
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}: the repository has it", file.display()));
        serde_json::from_str(&text).unwrap()
    }
}
