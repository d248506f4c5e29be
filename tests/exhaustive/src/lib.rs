//! Small worlds, explored whole: two or three calls, one or two routes, limits and budgets of one or two, and every
//! interleaving of what their host, server and operator can do, up to a depth. On the real engine: it is replayed from
//! the path, and two paths meet where engine and host are the same in all their parts.

#![allow(missing_docs)] // test support

mod host;
mod world;

pub use world::{Act, How, Small, State, World};
