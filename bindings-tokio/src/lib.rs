//! # Tidegate for tokio
//!
//! Policies around futures: retries with a budget, deadlines, rate limits, bulkheads, circuit breakers, hedges. The decisions are
//! those of the crate [`tidegate`](core), the same in every language; here is what waits, wakes and cancels.
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//! use tidegate_tokio::settings::{Bulkhead, Preset};
//! use tidegate_tokio::Policy;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::builder("shop").preset(Preset::Http).bulkhead(Bulkhead::fixed(20)).build()?;
//! let answer = policy.run(|_attempt| async { Ok::<_, io::Error>("an order") }).await?;
//! assert_eq!(answer, "an order");
//! # Ok(())
//! # }
//! ```
//!
//! - **Nothing is spawned.** A call is a future and lives in its caller's task, its attempts and hedges in it. Dropped at any
//!   moment it is cancelled: its slot goes on to the next in the same step, and nothing is counted.
//! - **Time is tokio's.** A test with `start_paused` drives every wait.
//! - **What the attempt that decided has brought is yours, as it is.** Errors of ours are for calls that were refused and for attempts
//!   that we stopped: [`Error`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// The guide; its examples run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
mod guide {}

/// The first page; its example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod builder;
mod classify;
mod clock;
#[cfg(feature = "documents")]
mod documents;
#[cfg(feature = "_bodies")]
mod drain;
mod engine;
mod error;
mod events;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "_bodies")]
mod http;
mod listed;
#[cfg(feature = "metrics")]
mod metered;
mod policy;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod run;
mod scope;
#[rustfmt::skip] // as its generator writes it
pub mod settings;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
mod traced;

pub use builder::{Bound, Builder, Setting};
#[doc(hidden)]
pub use classify::Finding;
pub use classify::{ByFailure, ByTable, Classify, Failure, On};
#[cfg(feature = "documents")]
pub use documents::Policies;
#[cfg(feature = "_bodies")]
pub use drain::Buffered;
pub use engine::{Engine, Journal};
pub use error::{BoxError, BuildError, Code, Error, JournalError, Report, Stopped, stopped_in};
pub use events::{Event, Events, Subscription};
#[cfg(feature = "_bodies")]
pub use http::GuardedBody;
#[cfg(feature = "metrics")]
pub use metered::Metrics;
pub use policy::{Caller, Policy};
pub use run::{Attempt, Ended};
pub use scope::{Bounds, Within, carry, time_left};

/// The engine itself.
pub use tidegate as core;
pub use tidegate::{
    Answer, CallExplanation, Clash, Class, Criticality, Kind, Opinion, Options, Outcome, PolicyError,
    PolicyExplanation, Pool, PoolKind, RecordType, RestoreError, Restored, RouteView, Snapshot, Value,
    Verdict, Wait,
};
