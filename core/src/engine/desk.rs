//! State for stages. A stage gets the desk and never the engine, so it cannot decide about a call's attempts (ADR
//! 0024).

use super::Options;
use super::arena::Arena;
use super::chores::Chores;
use super::hold::Targets;
use super::policies::Policies;
use super::record::Notes;
use super::route::Routes;
use crate::action::CallId;

/// Calls, routes, and the stages' messages to the rest of the engine.
#[derive(Debug)]
pub(super) struct Desk {
    pub seed: u64,
    pub policies: Policies,
    pub routes: Routes,
    pub calls: Arena,
    pub targets: Targets,
    /// Calls that can continue now.
    pub wakes: Vec<CallId>,
    pub chores: Chores,
    pub notes: Notes,
    /// Whether retries are granted without asking their budgets. For tests only.
    pub lifted: bool,
}

impl Desk {
    /// Creates a desk without calls or routes.
    pub fn new(seed: u64, options: Options) -> Self {
        Self {
            seed,
            policies: Policies::default(),
            routes: Routes::new(options.max_routes, seed),
            calls: Arena::default(),
            targets: Targets::default(),
            wakes: Vec::new(),
            chores: Chores::default(),
            notes: Notes::new(options.history),
            lifted: false,
        }
    }
}
