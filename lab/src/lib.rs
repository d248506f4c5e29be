//! The lab: simulated clients and servers around the real engine, and the published experiments as tables.
//!
//! A [`world::World`] is a discrete-event simulation. Each client owns an [`tidegate::Engine`] and drives it as a host
//! does, so the tables show the decisions that production makes. Time is simulated, one seed determines a run, and only
//! operations with the same result on every platform are used.
//!
//! ```
//! use tidegate_lab::recovery::{Cell, Trigger};
//! use tidegate_lab::rules;
//!
//! // Ten clients with three attempts and no budget, at a server that serves 50 attempts a second.
//! let naive = rules::timed(rules::attempts(3), 3.0);
//! let run = Cell::safe(&naive, 10, 50.0, Trigger::Pulse(20)).run(1);
//! assert!(run.goodput < 0.1, "it stays dead after the pulse");
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod dice;
pub mod experiments;
pub mod recovery;
pub mod rules;
pub mod server;
pub mod table;
pub mod world;
