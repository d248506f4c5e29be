//! Hold: while a throttled call waits for its Retry-After, new calls to similar paths wait too (semantics 2.19).
//!
//! A hold belongs to a path, or to a prefix of paths, that has been throttled often enough. It is a queue whose limit
//! is 1 when the server's wait is over, and grows by 1 with each success.

mod paths;

use super::place::{RouteAt, Slot};
use std::collections::BTreeMap;

use super::arena::{Arena, flag};
use super::call::{MAX_PARK, wait};
use super::call_extra::{NO_GATE, mark};
use super::chores::Chore;
use super::desk::Desk;
use super::list::List;
use super::stage::Answer;
use super::{Engine, Input};
use crate::action::{PathId, RouteId, Verdict, Wait};
use crate::state::{Damage, Loader, Saver};
use crate::step::Step;
use crate::time::{Duration, Time};
use paths::{Key, key_of, key_text};

pub(super) use paths::{PathHash, Paths};

/// The most paths and prefixes per route whose throttles are counted.
const MOST_COUNTED: usize = 1_024;

/// The holds of a route.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    /// By path or prefix.
    like: BTreeMap<Key, Like>,
    gates: Vec<Gate>,
    /// Number of gates.
    open: u32,
    /// The earliest moment at which one of them may be over.
    ends: Time,
    /// Number of waiting calls.
    held: u32,
}

#[derive(Clone, Copy, Debug)]
struct Like {
    throttles: u32,
    gate: u16,
}

/// A queue in front of a path.
#[derive(Clone, Debug)]
struct Gate {
    key: Option<Key>,
    until: Time,
    limit: u32,
    taken: u32,
    waiting: List,
}

impl Gate {
    /// Whether it can be removed: its time is over, and no call waits or has a place.
    fn is_over(&self, now: Time) -> bool {
        self.until <= now && self.taken == 0 && self.waiting.len() == 0
    }
}

impl Holds {
    /// The hold of the longest matching prefix of a path. Removes holds that are over.
    fn find(&mut self, path: &PathHash, now: Time) -> Option<u16> {
        self.sweep(now);
        if self.open == 0 {
            return None;
        }
        let found = path.keys(false).find_map(|(key, _)| self.like.get(&key).filter(|it| it.gate != NO_GATE));
        found.map(|like| like.gate)
    }

    /// Removes holds that are over, and with the last of them all counts.
    fn sweep(&mut self, now: Time) {
        if self.open == 0 || self.ends > now {
            return;
        }
        self.ends = Time::NEVER;
        for gate in &mut self.gates {
            match &gate.key {
                Some(key) if gate.is_over(now) => {
                    self.like.remove(key);
                    gate.key = None;
                    self.open -= 1;
                }
                Some(_) => self.ends = self.ends.min(gate.until),
                None => {}
            }
        }
        if self.open == 0 {
            self.like.clear();
            self.gates.clear();
        }
    }

    /// Counts a throttle for a path and its prefixes, and begins or prolongs the holds of those that have been
    /// throttled often enough.
    fn throttled(&mut self, path: &PathHash, until: Time, now: Time) {
        self.sweep(now);
        for (key, enough) in path.keys(true) {
            if self.like.len() >= MOST_COUNTED && !self.like.contains_key(&key) {
                continue;
            }
            let like = self.like.entry(key).or_insert(Like { throttles: 0, gate: NO_GATE });
            like.throttles = like.throttles.saturating_add(1);
            if like.gate == NO_GATE && like.throttles >= enough {
                let gate = Gate { key: Some(key), until, limit: 1, taken: 0, waiting: List::default() };
                let place = self.gates.iter().position(|gate| gate.key.is_none());
                let place = place.unwrap_or(self.gates.len());
                like.gate = place as u16;
                self.open += 1;
                self.ends = self.ends.min(until);
                match self.gates.get_mut(place) {
                    Some(free) => *free = gate,
                    None => self.gates.push(gate),
                }
            } else if let Some(gate) = self.gates.get_mut(usize::from(like.gate)) {
                gate.until = gate.until.max(until);
                gate.limit = 1;
            }
        }
    }

    /// Removes a waiting call from its queue.
    pub fn delist(&mut self, calls: &mut Arena, slot: Slot, gate: u16) {
        self.held -= 1;
        self.gates[usize::from(gate)].waiting.remove(calls, slot);
    }

    pub fn waiting(&self) -> u32 {
        self.held
    }

    /// Number of holds.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Number of waiters by the lists, for consistency checks.
    pub fn listed(&self) -> u32 {
        self.gates.iter().map(|gate| gate.waiting.len()).sum()
    }

    /// Whether a call waits in one of the holds, or has a place.
    pub fn in_use(&self) -> bool {
        self.gates.iter().any(|gate| gate.taken > 0 || gate.waiting.len() > 0)
    }

    /// Number of holds that are not over at this moment.
    pub fn open_at(&self, now: Time) -> u32 {
        let there = |gate: &&Gate| gate.key.is_some();
        self.gates.iter().filter(there).filter(|gate| !gate.is_over(now)).count() as u32
    }

    /// Writes the counts and the holds. Waiters and places belong to calls, so they are not written.
    pub fn save(&self, to: &mut Saver) {
        for (key, like) in &self.like {
            to.list(|to| {
                to.text(&key_text(*key));
                to.count(like.throttles);
                if let Some(gate) = self.gates.get(usize::from(like.gate)) {
                    to.moment(gate.until);
                    to.count(gate.limit);
                }
            });
        }
    }

    pub fn load(from: &mut Loader<'_>) -> Result<Self, Damage> {
        let mut it = Self::default();
        while from.has_more() {
            let (key, throttles, gate) = from.list(|entry| {
                let key = key_of(entry.text()?).ok_or(Damage("must be hashes of paths"))?;
                let throttles = entry.count()?;
                let gate = if entry.has_more() { Some((entry.moment()?, entry.count()?)) } else { None };
                Ok((key, throttles, gate))
            })?;
            let mut like = Like { throttles, gate: NO_GATE };
            if let Some((until, limit)) = gate {
                like.gate = it.gates.len() as u16;
                let (key, limit) = (Some(key), limit.max(1));
                it.gates.push(Gate { key, until, limit, taken: 0, waiting: List::default() });
                it.open += 1;
                it.ends = it.ends.min(until);
            }
            let twice = it.like.insert(key, like).is_some();
            if twice || it.like.len() > MOST_COUNTED {
                return Err(Damage("must be different paths, and not too many"));
            }
        }
        Ok(it)
    }
}

impl Desk {
    /// Makes a call wait if calls to similar paths are held.
    pub(super) fn ask_hold(&mut self, slot: Slot, now: Time) -> Answer {
        let call = &self.calls[slot];
        let (route, deadline, may_park) = (call.route, call.deadline, call.has(flag::MAY_PARK));
        let Some(path) = self.calls.extra(slot).map(|extra| extra.path).filter(|path| *path != 0) else {
            return Answer::Pass;
        };
        let most =
            self.policies[usize::from(self.calls[slot].policy)].policy.retry.hold.map_or(0, |most| *most);
        let Some(path) = self.paths.path(path) else { return Answer::Pass };
        let Some(holds) = &mut self.routes[route].holds else { return Answer::broken(Verdict::HoldFull) };
        let open = holds.open;
        let found = holds.find(path, now);
        self.note(move |it| it.holds_changed(Some(slot), route, open, now));
        let Some(number) = found else { return Answer::Pass };
        self.let_through(route, number, now);
        let Some(holds) = self.routes[route].holds.as_deref_mut() else {
            return Answer::broken(Verdict::HoldFull);
        };
        let gate = &mut holds.gates[usize::from(number)];
        if gate.until <= now && gate.waiting.len() == 0 && gate.taken < gate.limit {
            gate.taken += 1;
            let extra = self.calls.extra_mut(slot);
            (extra.gate, extra.placed) = (number, true);
            return Answer::Pass;
        }
        if !may_park || holds.held >= most || gate.until >= deadline {
            return Answer::Refuse(Verdict::HoldFull, Some(gate.until.since(now)));
        }
        holds.held += 1;
        let until = gate.until;
        self.calls.extra_mut(slot).gate = number;
        self.calls[slot].hold();
        gate.waiting.push(&mut self.calls, slot);
        self.note_course(move |it| it.queued(slot, Wait::Hold, deadline, now));
        Answer::Wait(self.calls.wait_held(slot, until, now))
    }

    /// Checks a waiter: `None` when it has a place.
    pub(super) fn still_held(&mut self, slot: Slot, now: Time) -> Option<Step> {
        let route = self.calls[slot].route;
        let gate = self.calls.gate_of(slot);
        if !self.calls[slot].has(flag::TOKENS) {
            self.let_through(route, gate, now);
            self.calls.forget_wake(slot, &mut self.wakes);
        }
        if self.calls[slot].has(flag::TOKENS) {
            return None;
        }
        let gates = self.routes[route].holds.as_ref().map(|holds| &holds.gates);
        let until = gates.and_then(|gates| gates.get(usize::from(gate))).map_or(now, |gate| gate.until);
        Some(self.calls.wait_held(slot, until, now))
    }

    /// Gives free places to the heads of a hold whose time is over.
    pub(super) fn let_through(&mut self, route: RouteAt, number: u16, now: Time) {
        loop {
            let Some(holds) = &mut self.routes[route].holds else { return };
            let Some(gate) = holds.gates.get_mut(usize::from(number)) else { return };
            let Some(slot) = gate.waiting.head() else { return };
            if gate.until > now || gate.taken >= gate.limit {
                return;
            }
            if !self.chores.one_more(Chore::Places(route, number)) {
                self.wakes.push(self.calls.id(slot)); // its next event resumes this loop
                return;
            }
            let late = self.calls[slot].deadline <= now;
            gate.taken += u32::from(!late);
            self.unlist(slot);
            if late {
                self.turn_away(slot, Verdict::DeadlineQueued, now); // failed, not granted
                continue;
            }
            self.calls[slot].flags |= flag::TOKENS;
            self.calls.extra_mut(slot).placed = true;
            self.note_course(move |it| it.granted(slot, Wait::Hold, None, now));
            self.wakes.push(self.calls.id(slot));
        }
    }

    /// Releases the place of a call that ends; a success lets two waiters through.
    #[inline]
    pub(super) fn give_place_back(&mut self, slot: Slot, well: bool, now: Time) {
        if self.calls[slot].has(flag::EXTRA) {
            self.give_place(slot, well, now);
        }
    }

    #[inline(never)]
    fn give_place(&mut self, slot: Slot, well: bool, now: Time) {
        let route = self.calls[slot].route;
        if self.calls.marked(slot, mark::PLACED) {
            self.free_cooldown_place(slot, now);
        }
        let Some(holds) = &mut self.routes[route].holds else { return };
        let extra = self.calls.extra_mut(slot);
        let (number, placed) = (extra.gate, core::mem::take(&mut extra.placed));
        if !placed {
            return;
        }
        let Some(gate) = holds.gates.get_mut(usize::from(number)) else { return };
        gate.taken -= 1;
        if well {
            gate.limit = gate.limit.saturating_add(1);
        }
        self.let_through(route, number, now);
    }

    /// Holds calls to similar paths for as long as a throttled attempt waits for its retry.
    pub(super) fn hold_like(&mut self, slot: Slot, delay: Duration, now: Time) {
        let Some(path) = self.calls.extra(slot).map(|extra| extra.path).filter(|path| *path != 0) else {
            return;
        };
        let Some(path) = self.paths.path(path) else { return };
        let route = self.calls[slot].route;
        if let Some(holds) = &mut self.routes[route].holds {
            let open = holds.open;
            holds.throttled(path, now.after(delay), now);
            self.note(move |it| it.holds_changed(Some(slot), route, open, now));
        }
    }
}

impl Arena {
    fn wait_held(&mut self, slot: Slot, until: Time, now: Time) -> Step {
        let next = if until > now { until.min(now.after(MAX_PARK)) } else { now.after(MAX_PARK) };
        let call = &mut self[slot];
        call.moment = next.min(call.deadline); // the reaper counts from the last moment that the host was given
        wait(Wait::Hold, call.moment, now)
    }

    /// The hold in which a call waits or has a place.
    pub(super) fn gate_of(&self, slot: Slot) -> u16 {
        self.extra(slot).map_or(NO_GATE, |extra| extra.gate)
    }
}

impl Engine {
    /// The name of a path, for [`Request::path`](crate::Request::path). Only policies with holds need it. For
    /// others, and when too many paths are in use, it is [`PathId::NONE`], and the call is not held. Memory, saved
    /// states and journals contain only hashes of a path, because it may hold a secret.
    pub fn path_id(&mut self, route: RouteId, path: &str, now: Time) -> PathId {
        self.name_path(route, || PathHash::of(path), now)
    }

    /// The same for the hash of a path, which is taken where it is needed.
    pub(super) fn name_path(&mut self, route: RouteId, path: impl Fn() -> PathHash, now: Time) -> PathId {
        self.journal.write(|| Input::Path { route, path: path().label().into(), now });
        self.clock.observe(now);
        let holds = self.desk.routes.find(route).is_some_and(|route| self.desk.routes[route].holds.is_some());
        if holds { self.desk.paths.intern(path()) } else { PathId::NONE }
    }
}

/// Changes of call lists: after a fork, and when the lists of a route are rebuilt.
impl Holds {
    pub fn forget_calls(&mut self) {
        *self = Self::default();
    }
}
