//! A cooldown of the fleet (semantics 16.7). Each process has its own cooldown, which decides; the store only says until
//! when no attempt starts. A closing is written at once. Otherwise traffic triggers a read now and then. When the closing
//! is over, each process reopens by itself, with one attempt.
//!
//! The store gives each closing an epoch, so that a process adopts it once. An answer counts from its arrival, and at most
//! from the moment when it was due: the server has named a time before which no attempt is to start.

use super::closing::Closing;
use super::command::{self, Subject};
use super::{FleetDesk, Sender};
use crate::engine::place::{RouteAt, Slot};
use crate::engine::route::Routes;
use crate::engine::stage::{Answer, missing};
use crate::fleet::{COOLDOWN, CommandId};
use crate::time::{Duration, Time};

impl Routes {
    /// Whether a route's cooldown is the fleet's.
    #[inline]
    fn cools_in_fleet(&self, route: RouteAt) -> bool {
        self[route].cooldown.as_ref().is_some_and(|it| it.fleet.is_some())
    }

    fn closing_mut(&mut self, route: RouteAt) -> Option<&mut Closing> {
        self[route].cooldown.as_mut()?.fleet.as_deref_mut()
    }

    /// Counts a command as out, or as no longer out.
    pub(super) fn cooldown_out(&mut self, route: RouteAt, out: bool) {
        match self.closing_mut(route) {
            Some(closing) if out => closing.out += 1,
            Some(closing) => closing.out = closing.out.saturating_sub(1),
            None => missing("what a cooldown knows of the fleet's"),
        }
    }
}

impl Sender<'_> {
    /// Sends what is left of the process's own closing; zero only reads.
    fn send_cooldown(&mut self, route: RouteAt, span: Duration, now: Time) {
        let place = (self.routes.lasting_id(route), command::Part::Cooldown);
        if !self.store.may_send(place, self.seed, now) {
            return;
        }
        let it = &mut self.routes[route];
        let within = self.policies[usize::from(it.policy)].policy.store_timeout;
        let Some(cooling) = &mut it.cooldown else { return missing("what a cooldown knows of the fleet's") };
        let row = cooling.part.row();
        let Some(closing) = &mut cooling.fleet else {
            return missing("what a cooldown knows of the fleet's");
        };
        closing.asked_at = Some(now);
        closing.out += 1;
        let asked = format!("{} {row}", span.as_micros()).into_bytes();
        self.store.send_words(
            &COOLDOWN,
            (self.routes.address(self.policies, route.own()), Subject::Cooldown { span }),
            vec![asked],
            within,
            now,
        );
    }
}

impl FleetDesk<'_> {
    /// Asks the cooldown at its stage, and the store from time to time.
    #[inline]
    pub(in crate::engine) fn ask_cooldown(&mut self, slot: Slot, now: Time) -> Answer {
        self.exchange_cooldown(self.desk.calls[slot].route, now);
        self.desk.ask_cooldown(slot, now)
    }

    /// Checks a waiter of a cooldown.
    pub(in crate::engine) fn still_cooling(&mut self, slot: Slot, now: Time) -> Answer {
        self.exchange_cooldown(self.desk.calls[slot].route, now);
        self.desk.still_cooling(slot, now)
    }

    /// Closes the route, or the target, after an attempt, and writes a closing of the route to the store.
    #[cold]
    pub(in crate::engine) fn cool_down(
        &mut self,
        slot: Slot,
        started: (Time, u8),
        asked: (Option<Duration>, bool),
        now: Time,
    ) {
        let route = self.desk.calls[slot].route;
        if !self.desk.cool_down(slot, started, asked, now) || !self.desk.routes.cools_in_fleet(route) {
            return;
        }
        self.watch_store(now);
        let left = self.desk.routes[route].cooldown.as_ref().and_then(|it| it.part.closed_for(now));
        if let Some(left) = left {
            self.sender().send_cooldown(route, left, now);
        }
    }

    /// Reads the fleet's state if a read is due. No call waits for the answer.
    #[inline]
    fn exchange_cooldown(&mut self, route: RouteAt, now: Time) {
        if self.desk.routes.cools_in_fleet(route) {
            self.read_cooldown(route, now);
        }
    }

    #[inline(never)]
    fn read_cooldown(&mut self, route: RouteAt, now: Time) {
        self.watch_store(now);
        let every = self.desk.policies[usize::from(self.desk.routes[route].policy)].policy.store_exchange;
        let Some(closing) = self.desk.routes.closing_mut(route) else { return };
        if closing.out == 0 && closing.asked_at.is_none_or(|asked| now.since(asked) >= every) {
            self.sender().send_cooldown(route, Duration::ZERO, now);
        }
    }

    /// Applies the fleet's state from the reply to a command sent at `sent`, which reported a closing of this `span`.
    pub(super) fn on_cooldown_reply(
        &mut self,
        route: RouteAt,
        (command, span, sent): (CommandId, Duration, Time),
        answer: &[u64],
        now: Time,
    ) {
        let &[left, epoch, row] = answer else { return missing("a number in the answer about a cooldown") };
        let active = self.desk.routes[route].active;
        let it = &mut self.desk.routes[route];
        let policy = &self.desk.policies[usize::from(it.policy)].policy;
        let (Some(settings), Some(cooling)) = (&policy.cooldown, &mut it.cooldown) else {
            return missing("what a cooldown knows of the fleet's");
        };
        let Some(closing) = &mut cooling.fleet else {
            return missing("what a cooldown knows of the fleet's");
        };
        if command < closing.heard {
            return;
        }
        closing.heard = command;
        closing.known_until = closing.known_until.max(sent.after(span));
        // Limit a closing to the policy's longest, whatever the store answers.
        let left = Duration::from_micros(left);
        let is_new = left > Duration::ZERO && epoch != closing.epoch;
        if is_new {
            closing.epoch = epoch;
        }
        let from = cooling.part.state(now);
        // The store's closing may be the one that this process has reported.
        let adopted = is_new && left != span && {
            let since = now.min(sent.after(policy.store_timeout));
            let rest = since.after(left.min(settings.longest())).since(now);
            let in_flight = active.saturating_sub(cooling.waiting()).max(1);
            cooling.part.on_shared_closing(rest, u32::try_from(row).unwrap_or(u32::MAX), in_flight, now)
        };
        let own = cooling.part.closed_for(now);
        let Some(closing) = &mut cooling.fleet else {
            return missing("what a cooldown knows of the fleet's");
        };
        if adopted {
            closing.known_until = closing.known_until.max(own.map_or(now, |own| now.after(own)));
            self.desk.note(move |it| it.cooldown_changed(None, route, from, now));
        }
        // The command that reported the closing was lost, or the store has lost its data. Not after a report: a store
        // that forgets at once would get it for ever.
        let Some(closing) = self.desk.routes.closing_mut(route) else { return };
        let unknown = own.filter(|own| *own > left && (epoch == 0 || now.after(*own) > closing.known_until));
        if let Some(own) = unknown.filter(|_| span == Duration::ZERO) {
            self.sender().send_cooldown(route, own, now);
        }
    }
}
