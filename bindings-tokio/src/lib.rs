//! # Tidegate for tokio
//!
//! Policies around futures: retries with a budget, deadlines, rate limits, bulkheads, circuit breakers, hedges. The
//! crate [`tidegate`](mod@tidegate) makes the decisions, the same in every language; this crate waits, wakes and cancels.
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
//! - **Nothing is spawned.** A call is a future in its caller's task and contains its attempts and hedges. Dropping it
//!   cancels it at any moment: its slot passes to the next waiter in the same step, and nothing is counted.
//! - **Time is tokio's.** A test with `start_paused` drives every wait.
//! - **You get the result of the attempt that decided, unchanged.** Tidegate's own errors are for calls that were
//!   refused and for attempts that it stopped: [`Error`].
//!
//! Import names rather than `*`: the modules `reqwest` and `tower` have the names of the crates that they serve.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]

/// The guide; its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
mod guide {}

/// Recipes for clients; they are tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust/using-with.md")]
mod using_with {}

/// The guide to language models; its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust/language-models.md")]
mod language_models {}

/// For users of tower and backon; its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust/coming-from.md")]
mod coming_from {}

/// The tutorial; its program is a test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/tutorial/rust.md")]
mod tutorial {}

/// The README; its example is a test.
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
mod lock;
#[cfg(feature = "metrics")]
mod metered;
mod policy;
mod pools;
#[cfg(feature = "_bodies")]
mod refused;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod run;
mod scope;
#[rustfmt::skip] // as its generator writes it
pub mod settings;
#[cfg(feature = "_bodies")]
mod streams;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
mod traced;
#[cfg(feature = "_bodies")]
mod usage;
mod weights;

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
pub use run::{Attempt, Ended, OnRetry, Retrying};
pub use scope::{Bounds, Within, carry, target, time_left};
#[cfg(feature = "_bodies")]
pub use usage::Tokens;
pub use weights::Weights;

/// The engine's crate, under its own name: `core` would hide the language's from who imports everything.
pub use tidegate;
pub use tidegate::{
    Answer, CallExplanation, Clash, Class, Criticality, Kind, Link, Opinion, Options, Outcome, PolicyError,
    PolicyExplanation, Pool, PoolKind, RecordType, RestoreError, Restored, RouteView, Snapshot, Value,
    Verdict, Wait,
};
