//! Whether the store can be reached (semantics 10.4): for the engine as a whole, and for each part of a route.
//!
//! A key of a wrong type, or an answer without sense, concerns that key: it takes only its own part of its own route
//! to `on_loss`. No answer, or a server error, concerns the server and takes all parts to `on_loss`. The exception is
//! a loss while other commands have been answered, as when a cluster has lost one shard of many: it counts as the
//! first kind.
//!
//! The place whose loss took down all parts is a suspect until it has been answered itself. It probes the store on a
//! schedule of its own, so that it does not use up the probes of places whose shard works. Once those have brought
//! the store back, the suspect's next loss takes down only itself.

mod loss;

use crate::engine::fleet::FleetStore;
use crate::engine::place::PoolAt;
use std::collections::BTreeMap;

use super::super::route::Routes;
use super::super::stage::missing;
use super::super::view::StoreView;
use super::Fleet;
use super::command::Part;
use crate::action::RouteId;
use crate::fleet::CommandId;
use crate::time::{Duration, Time};

/// First delay before a probe of a lost store. It doubles up to [`RAREST`]; each delay is jittered by half.
const PROBED: Duration = Duration::from_secs(1);
/// Short enough that a fleet soon shares its state again; until then each process uses its own share.
pub(super) const RAREST: Duration = Duration::from_secs(2);

/// Size of the map of keys at which routes that are gone are removed from it; afterwards at twice the remaining size.
const LOOKED_THROUGH: usize = 16;

/// A part of a route or of a pool, which has a key of its own.
pub(super) type Place = (RouteId, Part);

/// State of a lost store.
#[derive(Clone, Copy, Debug)]
struct Down {
    /// Answers to this command and earlier ones say nothing about the present.
    since: CommandId,
    probe_at: Time,
    interval: Duration,
}

/// State of a place that has lost the store.
#[derive(Clone, Copy, Debug)]
struct Own {
    down: Down,
    /// Whether only this place has lost the store. Otherwise the place's loss took it down for all.
    alone: bool,
}

/// Known state of the store's health.
#[derive(Debug)]
pub(super) struct Health {
    /// The loss for all places, if there is one.
    all: Option<Down>,
    /// Places with a loss of their own, and suspects.
    some: BTreeMap<Place, Own>,
    look_through: usize,
    /// Route and time of the last answer, and of the last answer to any other route.
    heard: [Option<(RouteId, Time)>; 2],
}

impl Default for Health {
    fn default() -> Self {
        Self { all: None, some: BTreeMap::new(), look_through: LOOKED_THROUGH, heard: [None; 2] }
    }
}

impl Health {
    fn is_up(&self, place: Place) -> bool {
        self.all.is_none() && (self.some.is_empty() || self.some.get(&place).is_none_or(|own| !own.alone))
    }

    fn hear(&mut self, home: RouteId, now: Time) {
        if self.heard[0].is_none_or(|last| last.0 != home) {
            self.heard[1] = self.heard[0];
        }
        self.heard[0] = Some((home, now));
    }

    /// Whether a command of another route has been answered since.
    fn others_heard(&self, home: RouteId, since: Time) -> bool {
        self.heard.iter().flatten().any(|(other, at)| *other != home && *at > since)
    }

    /// The loss that stops commands of this place, if there is one.
    fn closed(&mut self, place: Place) -> Option<&mut Down> {
        let everywhere = self.all.is_some();
        match self.some.get_mut(&place).filter(|own| own.alone || everywhere) {
            Some(own) => Some(&mut own.down),
            None => self.all.as_mut(),
        }
    }
}

/// The scope for which an answer has brought the store back.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Back {
    all: bool,
    alone: bool,
}

impl FleetStore {
    /// Whether the store can be reached for this part of a route.
    #[inline]
    pub(in crate::engine) fn is_up(&self, routes: &Routes, home: PoolAt, part: Part) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.is_up(routes, home, part))
    }

    /// Time until the next probe of a lost store for this part.
    pub(super) fn back_in(
        &mut self,
        routes: &Routes,
        home: PoolAt,
        part: Part,
        now: Time,
    ) -> Option<Duration> {
        let place = (routes.lasting_id(home.route()), part);
        self.fleet.as_mut()?.health.closed(place).map(|down| down.probe_at.since(now))
    }

    /// Whether a command may be sent now. While the store is lost, the command that may is the probe.
    pub(super) fn may_send(&mut self, (home, part): Place, seed: u64, now: Time) -> bool {
        let place = (home, part);
        let Some(fleet) = self.fleet.as_deref_mut() else {
            missing("the store of a component of the fleet's");
            return false; // `on_loss` decides
        };
        let Some(down) = fleet.health.closed(place).copied() else { return true };
        if now < down.probe_at {
            return false;
        }
        let interval = Duration::from_micros(down.interval.as_micros() * 2).min(RAREST);
        let probe_at = now.after(fleet.jittered(interval, seed));
        if let Some(it) = fleet.health.closed(place) {
            *it = Down { probe_at, interval, ..down };
        }
        // If the host takes no commands, drop overdue ones: they need not be sent any more, and would pile up.
        let pending = &fleet.pending;
        self.commands.retain(|command| pending.get(&command.id).is_some_and(|it| !it.overdue));
        true
    }

    /// Removes the places of evicted routes, now and then.
    fn forget_places(&mut self, routes: &Routes) {
        let Some(fleet) = self.fleet.as_deref_mut() else {
            return missing("the store of a component of the fleet's");
        };
        let health = &mut fleet.health;
        if health.some.len() >= health.look_through {
            health.some.retain(|place, _| routes.find_lasting(place.0).is_some());
            health.look_through = (2 * health.some.len()).max(LOOKED_THROUGH);
        }
    }
}

impl Fleet {
    /// The store's state as shown to people.
    pub fn view(&self) -> StoreView {
        let commands = self.pending.values().filter(|it| !it.overdue).count() as u32;
        StoreView { up: self.health.all.is_none(), commands }
    }

    /// Whether the store can be reached for this part of a route.
    #[inline]
    pub(super) fn is_up(&self, routes: &Routes, home: PoolAt, part: Part) -> bool {
        self.health.is_up((routes.lasting_id(home.route()), part))
    }
}
