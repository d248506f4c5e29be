//! State for stages. A stage gets the desk and never the engine, so it cannot decide about a call's attempts (ADR
//! 0024).

use super::Options;
use super::arena::Arena;
use super::chores::Chores;
use super::hold::Paths;
use super::policies::Policies;
use super::record::Notes;
use super::refusals::Refusals;
use super::route::Routes;
use super::weights::Weights;
use crate::action::{CallId, Link};

/// Calls, routes, and the stages' messages to the rest of the engine.
#[derive(Debug)]
pub(super) struct Desk {
    pub seed: u64,
    pub policies: Policies,
    pub routes: Routes,
    pub calls: Arena,
    pub paths: Paths,
    /// Calls that can continue now.
    pub wakes: Vec<CallId>,
    pub chores: Chores,
    pub notes: Notes,
    /// The device's link, as the host knows it.
    pub link: Link,
    /// Whether retries are granted without asking their budgets. For tests only.
    pub lifted: bool,
    /// Weights of the call that begins next.
    pub weighed: Option<Weights>,
    /// Which limits of sets refused calls.
    pub refusals: Refusals,
    /// Number of settlements that came after their attempts' end.
    pub late_settlements: u64,
    /// Whether a policy or a pool has limits that refill by the host's wall clock.
    pub windows: bool,
    /// Whether the engine has been restored from a saved state.
    pub restored: bool,
}

impl Desk {
    /// Creates a desk without calls or routes.
    pub fn new(seed: u64, options: Options) -> Self {
        Self {
            seed,
            policies: Policies::default(),
            routes: Routes::new(options.max_routes, seed),
            calls: Arena::default(),
            paths: Paths::default(),
            wakes: Vec::new(),
            chores: Chores::default(),
            notes: Notes::new(options.history),
            link: Link::Ok,
            lifted: false,
            weighed: None,
            refusals: Refusals::default(),
            late_settlements: 0,
            windows: false,
            restored: false,
        }
    }
}
