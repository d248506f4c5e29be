//! Loss and return of the store, for all or for one part of one route, and the effects on components.

use crate::engine::fleet::command::{Part, Pending, Subject};
use crate::engine::fleet::health::{Back, Down, Own, PROBED, Place};
use crate::engine::fleet::{FleetDesk, plain};
use crate::engine::place::PoolAt;
use crate::engine::record::RecordType;
use crate::engine::route::Routes;
use crate::engine::stage::missing;
use crate::fleet::{CommandId, Loss};
use crate::time::Time;

impl Routes {
    /// Routes and pools whose slots are the fleet's.
    fn fleet_slots(&self) -> Vec<PoolAt> {
        self.iter().filter(|(_, route)| route.slots.is_some()).map(|(slot, _)| slot.own()).collect()
    }

    /// Components with calls that wait for the store: rates first, then slots. Calls never wait for the others.
    fn fleet_parts(&self) -> Vec<(PoolAt, Part)> {
        let rates = self.fleet_rates().into_iter().map(|home| (home, Part::Rate));
        rates.chain(self.fleet_slots().into_iter().map(|home| (home, Part::Slots))).collect()
    }

    /// Counts a command as no longer out: it has been answered, or its answer is overdue.
    pub(in crate::engine::fleet) fn settled(&mut self, pending: &Pending) {
        let Some(home) = self.still_fleets(pending) else { return };
        match pending.subject {
            Subject::Window { link: plain::Link::Repair, .. }
            | Subject::Mark { link: plain::Link::Repair, .. } => {}
            Subject::Rate { .. } | Subject::Set(_) | Subject::Window { .. } => self.rate_settled(home.own()),
            Subject::Breaker { .. } | Subject::Mark { .. } => self.breaker_settled(home),
            Subject::Cooldown { .. } => self.cooldown_out(home, false),
            Subject::Slots { op, .. } => self.slots_settled(home.own(), op),
            Subject::Digest => self.digest_out(home.own(), false),
        }
    }
}

impl FleetDesk<'_> {
    /// Marks the store as lost, for all places or for this one, after a command without an answer or with an error.
    /// From now on no call waits for it there.
    pub(super) fn store_lost(&mut self, pending: &Pending, why: Loss, now: Time) {
        let (seed, place) = (self.desk.seed, (pending.home, pending.subject.part()));
        let there = self.desk.routes.find_lasting(pending.home);
        let Some(fleet) = self.store.fleet.as_deref_mut() else {
            return missing("the store of a component of the fleet's");
        };
        let known = fleet.health.some.get(&place).copied();
        if fleet.health.all.is_some() || known.is_some_and(|own| own.alone) {
            return;
        }
        let alone = why.is_of_key() || known.is_some() || fleet.health.others_heard(place.0, pending.sent);
        // No call waits for upkeep.
        let there = there.filter(|_| place.1 != Part::Upkeep);
        if alone && there.is_none() {
            return;
        }
        let probe_at = now.after(fleet.jittered(PROBED, seed));
        let down = Down { since: CommandId::new(fleet.last), probe_at, interval: PROBED };
        if there.is_some() {
            fleet.health.some.insert(place, Own { down, alone });
        }
        if alone {
            self.desk.note(move |it| it.store_changed(RecordType::StoreDegraded, there, Some(why), now));
            if let Some(home) = self.desk.routes.still_there(place) {
                self.part_lost(home.own(), place.1, now);
            }
        } else {
            let probe_at = now.after(fleet.jittered(PROBED, seed));
            fleet.health.all = Some(Down { probe_at, ..down });
            self.desk.note(move |it| it.store_changed(RecordType::StoreDegraded, None, Some(why), now));
            for (home, part) in self.desk.routes.fleet_parts() {
                let own = (self.desk.routes.lasting_id(home.route()), part);
                let known = self.store.fleet.as_ref().and_then(|fleet| fleet.health.some.get(&own));
                if known.is_none_or(|own| !own.alone) {
                    self.part_lost(home, part, now);
                }
            }
        }
        self.store.forget_places(&self.desk.routes);
    }

    /// Handles an answer; returns for which scope it brings the store back. An answer to a command sent before the
    /// loss does not.
    pub(in crate::engine::fleet) fn store_answered(
        &mut self,
        command: CommandId,
        place: Place,
        now: Time,
    ) -> Back {
        let Some(fleet) = self.store.fleet.as_deref_mut() else {
            missing("the store of a component of the fleet's");
            return Back::default();
        };
        fleet.health.hear(place.0, now);
        let newer = |own: &Own| command > own.down.since;
        let own = fleet.health.some.get(&place).copied().filter(newer);
        if own.is_some() {
            fleet.health.some.remove(&place);
        }
        let all = self.server_answered(command, now);
        let alone = own.is_some_and(|own| own.alone);
        let there = self.desk.routes.find_lasting(place.0);
        if alone {
            self.desk.note(move |it| it.store_changed(RecordType::StoreRecovered, there, None, now));
        }
        if let Some(home) = self.desk.routes.still_there(place).filter(|_| alone && place.1 == Part::Rate) {
            self.desk.routes.begin_rate_recovery(home.own(), now);
        }
        Back { all, alone }
    }

    /// Handles any answer of the server, even an error about a key's type. Returns whether it brings the server back.
    fn server_answered(&mut self, command: CommandId, now: Time) -> bool {
        let Some(fleet) = self.store.fleet.as_deref_mut() else {
            missing("the store of a component of the fleet's");
            return false;
        };
        if fleet.health.all.is_none_or(|down| command <= down.since) {
            return false;
        }
        fleet.health.all = None;
        self.desk.note(move |it| it.store_changed(RecordType::StoreRecovered, None, None, now));
        for home in self.desk.routes.fleet_rates() {
            if self.store.is_up(&self.desk.routes, home, Part::Rate) {
                self.desk.routes.begin_rate_recovery(home, now);
            }
        }
        true
    }

    /// Handles an error about a key's type, which also shows that its server works.
    pub(in crate::engine::fleet) fn store_objected(
        &mut self,
        command: CommandId,
        pending: &Pending,
        why: Loss,
        now: Time,
    ) {
        if why.is_of_server_there() {
            let all = self.server_answered(command, now);
            // The key's own loss first, so that its part does not wait in vain.
            self.store_lost(pending, why, now);
            self.store_is_back(Back { all, alone: false }, pending, now);
        } else if !pending.overdue {
            self.store_lost(pending, why, now);
        }
    }

    /// Restarts the components when the store is back and its first answer has been read.
    pub(in crate::engine::fleet) fn store_is_back(&mut self, back: Back, pending: &Pending, now: Time) {
        if back.all {
            for (home, part) in self.desk.routes.fleet_parts() {
                if self.store.is_up(&self.desk.routes, home, part) {
                    self.part_back(home, part, now);
                }
            }
        } else if back.alone
            && let part = pending.subject.part()
            && let Some(home) = self.desk.routes.still_there((pending.home, part))
            && self.store.is_up(&self.desk.routes, home.own(), part)
        {
            self.part_back(home.own(), part, now);
        }
    }

    fn part_lost(&mut self, home: PoolAt, part: Part, now: Time) {
        match part {
            Part::Rate if self.desk.routes.shares_set(home) => self.limits_without_store(home, now),
            Part::Rate => self.rate_without_store(home, now),
            Part::Slots => self.slots_without_store(home, now),
            Part::Breaker | Part::Cooldown | Part::Digest | Part::Upkeep => {}
        }
    }

    fn part_back(&mut self, home: PoolAt, part: Part, now: Time) {
        match part {
            Part::Rate if self.desk.routes.shares_set(home) => self.limits_with_store(home, now),
            Part::Rate => self.rate_with_store(home, now),
            Part::Slots => self.slots_with_store(home, now),
            Part::Breaker | Part::Cooldown | Part::Digest | Part::Upkeep => {}
        }
    }

    /// Checks for overdue answers. Every event that involves the store runs this, so no call waits longer than its
    /// timer says, whatever the host does.
    pub(in crate::engine) fn watch_store(&mut self, now: Time) {
        let Some(fleet) = self.store.fleet.as_deref_mut() else { return }; // no store is attached
        if now < fleet.first_due {
            return;
        }
        let mut late = Vec::new();
        fleet.first_due = Time::NEVER;
        for pending in fleet.pending.values_mut().filter(|it| !it.overdue) {
            if pending.due <= now {
                pending.overdue = true;
                late.push(pending.clone());
            } else {
                fleet.first_due = fleet.first_due.min(pending.due);
            }
        }
        for pending in &late {
            self.desk.routes.settled(pending);
        }
        for pending in &late {
            self.store_lost(pending, Loss::TIMEOUT, now);
        }
    }
}
