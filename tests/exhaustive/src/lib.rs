//! Exhaustively explored small worlds: two or three calls, one or two routes, limits and budgets of one or two, and
//! every interleaving of actions by host, server and operator, up to a depth. They use the real engine: it is replayed
//! from the path, and two paths meet if engine and host are equal in all their parts.

#![allow(missing_docs)] // test support

mod host;
mod world;

pub use world::{Act, How, Small, State, World};
