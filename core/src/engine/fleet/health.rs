//! Is the store there (semantics 10.4)? For the engine as a whole, and for one key of it.
//!
//! A key of a wrong type, or an answer that makes no sense, says something about that key. No answer, or an error of the
//! server's, says something about the server; unless others have been answered meanwhile, as where a cluster has lost one
//! shard of many. The first then takes only its own part of its own route to `on_loss`, the second all of them.
//!
//! What took all of them is a suspect until it has been answered itself: it tries the store on a schedule of its own, so that
//! it cannot take the turn of those whose shard is there, and when they have brought the store back, its next loss is its own.

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

/// While the store is down it is tried again after this, then twice that, at most [`RAREST`]; half more or less.
const PROBED: Duration = Duration::from_secs(1);
/// Often enough that a fleet is together again soon: until it is, all go by their own shares.
pub(super) const RAREST: Duration = Duration::from_secs(2);

/// The map of keys is looked through for routes that are gone when it has grown to this, and then to twice what is left.
const LOOKED_THROUGH: usize = 16;

/// A part of a route, or of a pool: what has a key of its own.
pub(super) type Place = (RouteId, Part);

/// A store that is gone.
#[derive(Clone, Copy, Debug)]
struct Down {
    /// Answers to this command and those before it say nothing about now.
    since: CommandId,
    probe_at: Time,
    interval: Duration,
}

/// A place that has lost the store.
#[derive(Clone, Copy, Debug)]
struct Own {
    down: Down,
    /// Is it gone for this place alone? Else the place is what took it down for all.
    alone: bool,
}

/// What is known of the store's health.
#[derive(Debug)]
pub(super) struct Health {
    /// Gone for all.
    all: Option<Down>,
    /// Gone for some, and suspects.
    some: BTreeMap<Place, Own>,
    look_through: usize,
    /// Whose command was answered last, and when; and the last of all others.
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

    /// Has anybody else been answered since?
    fn others_heard(&self, home: RouteId, since: Time) -> bool {
        self.heard.iter().flatten().any(|(other, at)| *other != home && *at > since)
    }

    /// Until when nobody sends at this place; none where anybody may.
    fn closed(&mut self, place: Place) -> Option<&mut Down> {
        let everywhere = self.all.is_some();
        match self.some.get_mut(&place).filter(|own| own.alone || everywhere) {
            Some(own) => Some(&mut own.down),
            None => self.all.as_mut(),
        }
    }
}

/// For whom an answer has brought the store back.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Back {
    all: bool,
    alone: bool,
}

impl FleetStore {
    /// Is the store there for this part of a route?
    #[inline]
    pub(in crate::engine) fn is_up(&self, routes: &Routes, home: PoolAt, part: Part) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.is_up(routes, home, part))
    }

    /// When a store that is down is tried again for it.
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

    /// May a command go out now? While the store is down, one that may is the probe.
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
        // A host that takes no commands: what is overdue need not be sent any more, and would else heap up.
        let pending = &fleet.pending;
        self.commands.retain(|command| pending.get(&command.id).is_some_and(|it| !it.overdue));
        true
    }

    /// Places of routes that are gone, now and then.
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
    /// The store, as people see it.
    pub fn view(&self) -> StoreView {
        let commands = self.pending.values().filter(|it| !it.overdue).count() as u32;
        StoreView { up: self.health.all.is_none(), commands }
    }

    /// Is the store there for this part of a route?
    #[inline]
    pub(super) fn is_up(&self, routes: &Routes, home: PoolAt, part: Part) -> bool {
        self.health.is_up((routes.lasting_id(home.route()), part))
    }
}
