//! An adversary: whatever a server, a host, a store's reader and an operator can do to one engine, in combination, and
//! how far that takes attempts beyond the printed bound (semantics 2.17), and tokens beyond rate · t + burst.
//!
//! [`genome`] holds a scenario as bytes, [`settings`] and [`events`] say what these mean, [`host`], `operator` and [`store`] play them, [`bound`]
//! counts, [`judge`] compares, and [`hunt`] looks for the worst.

#![allow(missing_docs, dead_code)] // test support, not all of it used by each test

pub mod bound;
pub mod events;
pub mod genome;
pub mod host;
pub mod hunt;
pub mod judge;
mod operator;
pub mod settings;
pub mod store;
