//! A scriptable faulty HTTP/1.1 server.
//!
//! It can simulate capacity that queues, slows down and overflows; latency, errors, outages, bad `Retry-After`, refused
//! and reset connections, truncated and slow bodies; and it counts everything that arrived. One JSON script defines the
//! behaviour over time; README.md documents it. Tests in Rust embed an [`Origin`]; every other language runs the binary
//! `tidegate-origin` and uses its control port.
//!
//! ```
//! use tidegate_origin::{Options, Origin, Script};
//!
//! let script = Script::parse(r#"{"sequences": {"/": [{"status": 503, "retry_after": "1"}, {"status": 200}]}}"#)?;
//! let origin = Origin::start(Options { script, ..Options::default() })?;
//! // … send requests to origin.url() …
//! assert_eq!(origin.stats().requests, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod capacity;
mod control;
mod fault;
mod origin;
mod provider;
mod respond;
mod run;
mod script;
mod series;
mod server;
mod stats;

pub use origin::{Options, Origin};
pub use script::{Dist, Fault, Response, Script, ScriptError};
pub use series::Bucket;
pub use stats::{Entry, Stats};
