//! Forced open: an operator refuses every call of a policy, or of one of its routes (semantics 0.6). Also notes from
//! hosts about a route.

use super::place::RouteAt;
use crate::engine::fleet::FleetDesk;
use std::collections::BTreeMap;

use super::arena::{Call, flag};
use super::automaton::State;
use super::chores::{Chore, LOOKED_AT};
use super::record::RecordType;
use super::route::stage;
use super::{Engine, Input};
use crate::action::{Flags, PolicyId, RouteId, Verdict};
use crate::time::Time;

impl Engine {
    /// Refuses every call of a policy, or of one of its routes, from now on; `on = false` ends that.
    ///
    /// Calls that wait for their first attempt are refused at once (drain the wakes); started ones finish without
    /// retries. A forced route is never evicted. Clearing a policy clears all its routes, and clearing resets the
    /// circuit breaker. Clearing one route does nothing while its policy is forced. For an unknown policy or route
    /// nothing changes.
    pub fn force_open(&mut self, policy: PolicyId, route: Option<RouteId>, on: bool, now: Time) -> Flags {
        self.journal.write(|| Input::Force { policy, route, on, now });
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        if let Some(number) = self.desk.policies.number_of(policy) {
            let one = route.map(|route| self.desk.routes.find(route));
            let what = if on { RecordType::ForcedOpen } else { RecordType::ForcedCleared };
            if one != Some(None) {
                self.desk.note(move |it| it.policy_changed(what, Some(number), one.flatten(), now));
            }
            match one {
                None => {
                    let entry = &mut self.desk.policies[usize::from(number)];
                    entry.forced = on;
                    entry.changes.force(on);
                    self.desk.chores.clear_changed(number);
                    self.fleet_desk().change_routes(number, 0, &mut BTreeMap::new(), now);
                }
                Some(Some(slot)) if self.desk.routes[slot].policy == number => {
                    self.fleet_desk().force_route(slot, on, now);
                }
                Some(_) => {}
            }
            let route = one.map_or(RouteAt::NONE, |one| one.unwrap_or(RouteAt::NONE));
            if !on {
                self.desk.chores.clear_forced(number, route);
            } else if one != Some(None) {
                self.fleet_desk().refuse_waiting(number, route, 0, now);
            }
        }
        self.flags()
    }

    /// Notes that a host used a fallback for an error of a call on this route; `ok` says whether it worked (semantics
    /// 7.4). Fallbacks run outside all components: the engine counts them and makes a record for subscribers, but no
    /// decision depends on them.
    pub fn note_fallback(&mut self, route: RouteId, ok: bool, now: Time) {
        self.journal.write(|| Input::Fallback { route, ok, now });
        let now = self.clock.observe(now);
        if let Some(route) = self.desk.routes.find(route) {
            let counts = &mut self.desk.policies[usize::from(self.desk.routes[route].policy)].counts;
            *if ok { &mut counts.fallbacks } else { &mut counts.fallback_failures } += 1;
            self.desk.note(move |it| it.fell_back(route, ok, now));
        }
    }
}

impl FleetDesk<'_> {
    /// Refuses the calls of a policy, or of one of its routes, that wait for their first attempt, from slot `from`
    /// on; later steps handle the rest. A call whose owner sends an event first is refused by that event.
    pub(super) fn refuse_waiting(&mut self, policy: u16, route: RouteAt, from: u32, now: Time) {
        let here = |call: &Call| {
            let at = &self.desk.routes[call.route];
            at.policy == policy && (route == RouteAt::NONE || call.route == route)
        };
        let page = self.desk.calls.page(from, LOOKED_AT);
        let waiting = page.filter(|(_, call)| call.is_waiting() && call.attempts == 0 && here(call));
        let mut waiting: Vec<_> = waiting.map(|(slot, call)| (call.ordinal(), slot)).collect();
        waiting.sort_unstable();
        // A call with a grant is woken; its owner's event releases the grant, which then changes owner as always.
        let (mut left, mut groups) = (Vec::new(), Vec::new());
        let mut next = from.saturating_add(LOOKED_AT);
        for (_, slot) in waiting {
            if !self.desk.chores.one_more(Chore::Forced { policy, route, from }) {
                self.desk.wakes.push(self.desk.calls.id(slot)); // its next event resumes this loop
                next = u32::MAX;
                break;
            }
            let call = &self.desk.calls[slot];
            let (listed, route, sending) = (call.listed(), call.route, call.has(flag::SENDING));
            if listed && call.state() == State::Paced {
                // A pool's queue is one, whatever the routes of its waiters.
                let queue = if sending { route } else { self.desk.routes[route].rate_at.route() };
                left.push((queue, sending));
            } else if listed && call.state() == State::Held {
                let home =
                    self.desk.routes.targets_of(&self.desk.calls[slot]).filter(|home| !groups.contains(home));
                groups.extend(home);
            }
            self.desk.unlist(slot);
            self.desk.turn_away(slot, Verdict::ForcedOpen, now);
        }
        if next < self.desk.calls.slots() {
            // Waiters of those slots report within `MAX_PARK`, if no other event comes first.
            self.desk.chores.leave(Chore::Forced { policy, route, from: next });
        }
        left.sort_unstable();
        left.dedup();
        for (route, sending) in left {
            self.left_rate_queue(route, sending, now);
        }
        for home in groups {
            self.desk.hand_out_targets(home, now);
        }
    }

    /// Refuses every call of one route from now on, or ends that.
    fn force_route(&mut self, slot: RouteAt, on: bool, now: Time) {
        self.catch_up(slot, now);
        let before = self.desk.routes.levels(slot);
        let route = &mut self.desk.routes[slot];
        route.forced = on;
        let forced = on || self.desk.policies[usize::from(route.policy)].forced;
        route.stages = route.stages & !stage::FORCED | if forced { stage::FORCED } else { 0 };
        if let Some(breaker) = route.breaker.as_mut().filter(|_| !forced) {
            breaker.reset();
        }
        self.desk.note(move |it| it.levels_changed(slot, before, now));
    }
}
