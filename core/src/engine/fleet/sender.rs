//! What commands to the store are written from.

use super::{FleetDesk, FleetStore};
use crate::engine::desk::Desk;
use crate::engine::policies::Policies;
use crate::engine::route::Routes;

/// The store, and the routes and policies that commands name. It sees no call.
pub(super) struct Sender<'a> {
    pub store: &'a mut FleetStore,
    pub routes: &'a mut Routes,
    pub policies: &'a Policies,
    pub seed: u64,
}

impl FleetDesk<'_> {
    /// State that commands are written from.
    pub(super) fn sender(&mut self) -> Sender<'_> {
        let Desk { routes, policies, seed, .. } = &mut *self.desk;
        Sender { store: self.store, routes, policies, seed: *seed }
    }
}
