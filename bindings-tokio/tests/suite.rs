//! All tests in one program, because each separate program would be linked with tokio, reqwest and redis again.
//!
//! Each file of tests is a module: `cargo test -p tidegate-tokio --test suite run::`. `telemetry` is a separate
//! program, because a process has only one global logger and one recorder. Tests that open sockets run one at a time
//! (`counted`).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

#[macro_use]
mod support;
#[macro_use]
mod world;

mod drops;
mod error_vectors;
mod errors;
mod examples;
mod fair;
mod fleet;
mod glob;
mod grpc;
mod hostile_stores;
mod http;
mod http_late;
mod http_more;
mod http_read;
mod learn;
mod owners;
mod reload;
mod run;
mod scenarios;
mod schedules;
mod streams;
mod streams_paused;
mod targets;
mod tower;
mod traces;
mod usage;
mod wakers;
mod weights;
