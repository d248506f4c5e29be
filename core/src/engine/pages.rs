//! Reading the engine in pages: a host releases the lock between two pages (ADR 0022).
//!
//! Each call and each route is consistent in itself, as of its page; two of them may be some steps apart.

use super::place::RouteAt;
use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use super::automaton::State;
use super::policies::Policies;
use super::pools::Pools;
use super::route::Routes;
use super::state::debts::DebtPages;
use super::state::parts;
use super::view::{RouteView, Snapshot};
use crate::state::{Saver, VERSION};
use crate::time::Time;

/// Slots of calls, and of routes, that one page visits; routes that one page of a saved state writes, at about ten
/// microseconds each; routes that one part of the finished text copies.
const CALLS: u32 = 4_096;
const ROUTES: u32 = 128;
const SAVED: u32 = 12;
const COPIED: usize = 64;

/// The next page's contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Calls(u32),
    Routes(u32),
    Debts,
    Rest,
    Done,
}

/// A snapshot in progress, taken page by page ([`Engine::snapshot_page`]).
///
/// ```
/// use tidegate::{Engine, Options, SnapshotPages, Time};
/// let engine = std::sync::Mutex::new(Engine::new(7, Options::default()));
/// let mut pages = SnapshotPages::default();
/// while engine.lock().unwrap().snapshot_page(&mut pages, Time::from_micros(5)) {
///     // The lock is free here.
/// }
/// assert_eq!(pages.finish().live, 0);
/// ```
#[derive(Clone, Debug)]
pub struct SnapshotPages {
    view: Snapshot,
    stage: Stage,
}

impl Default for SnapshotPages {
    /// A snapshot without pages.
    fn default() -> Self {
        Self { view: Snapshot::default(), stage: Stage::Calls(0) }
    }
}

impl SnapshotPages {
    /// Number of routes in the pages so far; tests count work instead of time.
    #[doc(hidden)]
    pub fn routes(&self) -> usize {
        self.view.routes.len()
    }

    /// Takes out the routes of the pages so far, for hosts that forward them page by page; `finish` returns the later
    /// ones.
    pub fn take_routes(&mut self) -> Vec<RouteView> {
        core::mem::take(&mut self.view.routes)
    }

    /// The snapshot of all pages so far.
    pub fn finish(self) -> Snapshot {
        self.view
    }
}

/// A saved state in progress, written page by page ([`Engine::save_page`]).
#[derive(Clone, Debug)]
pub struct SavePages {
    /// By policy and key: when the route was last used. A key that moves while it is saved occurs once.
    routes: BTreeMap<(u16, Option<String>), Used>,
    /// Texts of these routes, in the order of their last use. All keys differ, because each slot is saved once.
    texts: BTreeMap<Used, String>,
    /// The generation of each policy with such a route: another policy may have its number by the last page.
    generations: BTreeMap<u16, u16>,
    pub(super) debts: DebtPages,
    oldest: u64,
    rest: String,
    stage: Stage,
}

/// Sorts routes by their last use: idle ones, pinned ones without calls, those with calls; then by moment, then by slot.
pub(super) type Used = (bool, bool, i64, RouteAt);

impl Default for SavePages {
    /// A saved state without pages.
    fn default() -> Self {
        let (debts, rest) = (DebtPages::default(), String::new());
        let (routes, texts, generations) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { routes, texts, generations, debts, oldest: 0, rest, stage: Stage::Routes(0) }
    }
}

impl SavePages {
    /// Number of routes in the pages so far, for tests.
    #[doc(hidden)]
    pub fn routes(&self) -> usize {
        self.routes.len()
    }

    /// Notes the generation of a policy whose routes are saved. Routes of an earlier policy with its number are dropped:
    /// that policy has been removed, with all that it had.
    fn note_generation(&mut self, policy: u16, generation: u16) {
        if self.generations.insert(policy, generation).is_none_or(|was| was == generation) {
            return;
        }
        let Self { routes, texts, .. } = self;
        routes.retain(|(of, _), used| {
            if *of == policy {
                texts.remove(used);
            }
            *of != policy
        });
    }

    /// Cells of evicted routes' debts that the pages have visited, for tests.
    #[doc(hidden)]
    pub fn cells(&self) -> usize {
        self.debts.looked_at
    }

    /// The state, as [`Engine::save`] writes it.
    pub fn finish(self) -> String {
        let mut text = self.head();
        for (n, route) in self.texts.values().enumerate() {
            text.push_str(if n == 0 { ",\"routes\":[" } else { "," });
            text.push_str(route);
        }
        text.push_str(if self.texts.is_empty() { "," } else { "]," });
        text.push_str(&self.debts.finish());
        text.push_str(&self.rest);
        text.push('}');
        text
    }

    /// Takes out the next part of the state, after the last page: lists of at most 64 routes, and finally an object
    /// with everything else. The state of [`SavePages::finish`] is that object with all the routes as its field
    /// `routes`, if there are any. `None` when all parts have been taken.
    pub fn take_part(&mut self) -> Option<SavedPart> {
        if !self.texts.is_empty() {
            let mut text = String::new();
            for _ in 0..COPIED {
                let Some((_, route)) = self.texts.pop_first() else { break };
                text.push(if text.is_empty() { '[' } else { ',' });
                text.push_str(&route);
            }
            text.push(']');
            return Some(SavedPart::Routes(text));
        }
        let rest = core::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let debts = core::mem::take(&mut self.debts).finish();
        Some(SavedPart::Rest(format!("{},{debts}{rest}}}", self.head())))
    }

    fn head(&self) -> String {
        format!("{{\"tidegate\":{VERSION},\"oldest\":{}", self.oldest)
    }
}

/// A part of a saved state ([`SavePages::take_part`]): JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SavedPart {
    /// A list of routes.
    Routes(String),
    /// An object with everything else.
    Rest(String),
}

impl Engine {
    /// Takes the next page of a snapshot: 4,096 calls or 128 routes; false after the last page. Changes nothing in
    /// the engine. All pages of one snapshot must come from the same engine.
    pub fn snapshot_page(&self, pages: &mut SnapshotPages, now: Time) -> bool {
        let now = self.clock.peek(now);
        match pages.stage {
            Stage::Calls(from) => {
                for (_, call) in self.desk.calls.page(from, CALLS) {
                    let waits = call.is_waiting() || call.state() == State::Refused;
                    pages.view.live += u32::from(!matches!(call.state(), State::Ended | State::Lost));
                    pages.view.lingering += u32::from(call.state() == State::Ended);
                    pages.view.lost += u32::from(call.state() == State::Lost);
                    pages.view.waiting += u32::from(waits);
                }
                let next = from.saturating_add(CALLS);
                pages.stage =
                    if next < self.desk.calls.slots() { Stage::Calls(next) } else { Stage::Routes(0) };
            }
            Stage::Routes(from) => {
                let routes = self.desk.routes.page(from, ROUTES).filter(|(_, route)| !route.is_pool());
                let views = routes.map(|(at, route)| {
                    let life = self.desk.routes.lasting_id(at).to_word();
                    self.desk.policies.view(life, route, now)
                });
                pages.view.routes.extend(views);
                let next = from + ROUTES;
                pages.stage = if next < self.desk.routes.slots() { Stage::Routes(next) } else { Stage::Rest };
            }
            Stage::Rest => {
                let (desk, view) = (&self.desk, &mut pages.view);
                view.route_overflows = desk.routes.overflows;
                view.route_evictions = desk.routes.evictions;
                view.late_settlements = desk.late_settlements;
                view.path_overflows = desk.paths.overflows;
                view.store = self.store.fleet.as_ref().map(|fleet| fleet.view());
                view.policies = desk.policies.counts();
                view.targets = self.pools.view_targets(&desk.routes, now);
                view.pools = self.pools.view(&desk.routes, now);
                pages.stage = Stage::Done;
            }
            Stage::Debts | Stage::Done => {}
        }
        pages.stage != Stage::Done
    }

    /// Writes the next page of a saved state: 12 routes, or up to 8,192 cells of evicted routes' debts; false after
    /// the last page. Changes nothing in the engine. Moments are relative to their page's moment. A restored state
    /// counts from the end of the last page, so nothing appears older than it was.
    pub fn save_page(&self, pages: &mut SavePages, now: Time) -> bool {
        let now = self.clock.peek(now);
        match pages.stage {
            Stage::Routes(from) => {
                for (slot, route) in self.desk.routes.page(from, SAVED).filter(|(_, route)| !route.is_pool())
                {
                    let forced = self.desk.policies[usize::from(route.policy)].forced;
                    let key = (!route.is_overflow()).then(|| route.raw_key());
                    let mut to = Saver::new(now);
                    to.list(|to| {
                        to.count(u32::from(route.policy));
                        to.key(key);
                        to.map(|to| parts::save(route, forced, to));
                    });
                    if !to.ends_with("{}]") {
                        let (text, oldest) = to.finish();
                        pages.oldest = pages.oldest.max(oldest);
                        let generation = self.desk.policies[usize::from(route.policy)].generation;
                        pages.note_generation(route.policy, generation);
                        let (of, used) = ((route.policy, key.map(ToOwned::to_owned)), route.used(slot));
                        if let Some(elsewhere) = pages.routes.insert(of, used) {
                            pages.texts.remove(&elsewhere);
                        }
                        pages.texts.insert(used, text);
                    }
                }
                let next = from + SAVED;
                pages.stage =
                    if next < self.desk.routes.slots() { Stage::Routes(next) } else { Stage::Debts };
            }
            // After all routes: a route evicted while they are saved is in one or the other.
            Stage::Debts => {
                if !self.desk.policies.save_debts_page(&self.desk.routes, pages, now) {
                    pages.stage = Stage::Rest;
                }
            }
            Stage::Rest => {
                if pages.debts.is_outdated(&self.desk.routes.debts) {
                    pages.stage = Stage::Debts; // what they belong to may have been removed
                    return true;
                }
                for policy in pages.generations.keys().copied().collect::<Vec<_>>() {
                    pages.note_generation(policy, self.desk.policies[usize::from(policy)].generation);
                }
                let mut to = Saver::new(now);
                let mut used: BTreeSet<u16> = pages.routes.keys().map(|(policy, _)| *policy).collect();
                used.extend(self.desk.routes.debts.sketches.keys().map(|(policy, _)| *policy));
                self.pools.save(&self.desk.routes, &mut to);
                self.desk.policies.save(&used, &mut to);
                to.named("calls", |to| to.whole(self.ordinal));
                let (rest, oldest) = to.finish();
                (pages.rest, pages.oldest) = (rest, pages.oldest.max(oldest));
                pages.stage = Stage::Done;
            }
            Stage::Calls(_) | Stage::Done => {}
        }
        pages.stage != Stage::Done
    }
}

impl Pools {
    /// Writes what pools, and the targets of groups, have learned.
    fn save(&self, routes: &Routes, to: &mut Saver) {
        to.part("pools", |to| {
            for (name, shared) in self.iter() {
                to.optional(|to| {
                    to.list(|to| {
                        to.text(name);
                        to.map(|to| parts::save(&routes[shared.at], false, to));
                    });
                    !to.ends_with("{}]")
                });
            }
        });
        to.part("targets", |to| {
            for (name, member) in self.targets(routes) {
                to.optional(|to| {
                    to.list(|to| {
                        to.text(name);
                        to.text(&member.name);
                        to.map(|to| parts::save(&routes[member.at], false, to));
                    });
                    !to.ends_with("{}]")
                });
            }
        });
    }
}

impl Policies {
    /// Writes the policies whose routes are saved, or that are forced open.
    fn save(&self, used: &BTreeSet<u16>, to: &mut Saver) {
        to.part("policies", |to| {
            for (number, entry) in (0..=u16::MAX).zip(self.iter()) {
                let has_left = entry.vacant || self.is_leaving(number);
                if used.contains(&number) || entry.forced && !has_left {
                    to.list(|to| {
                        to.count(u32::from(number));
                        // The name of a policy that has left may be that of another one by now.
                        to.key((!has_left).then(|| entry.policy.name()));
                        to.flag(entry.forced);
                    });
                }
            }
        });
    }
}
