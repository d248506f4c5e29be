//! The tests in one program, because each program of its own is linked by itself, with tokio, reqwest and redis in it.
//!
//! A file of tests is a module of its own name: `cargo test -p tidegate-tokio --test suite run::`. `telemetry` is a program
//! of its own, because what a process logs and measures goes to one place. Tests that open sockets run one at a time (`counted`).
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
mod errors;
mod examples;
mod fleet;
mod grpc;
mod hostile_stores;
mod http;
mod http_late;
mod http_more;
mod reload;
mod run;
mod scenarios;
mod schedules;
mod tower;
mod traces;
mod wakers;
