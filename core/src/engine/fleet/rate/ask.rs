//! How a rate of the fleet asks the store for tokens, and handles the answers.

use super::super::super::arena::flag;
use super::super::super::automaton::State;
use super::super::command::{Part, Subject};
use super::super::plain::{self, Link};
use super::super::{FleetDesk, Sender};
use super::{LEAST_WAIT, MOST_PROCESSES, SEEN, share_of};
use crate::action::{CallId, Verdict};
use crate::engine::desk::Desk;
use crate::engine::place::{PoolAt, Slot};
use crate::engine::route::Routes;
use crate::engine::stage::missing;
use crate::fleet::RATE;
use crate::limit::RateSettings;
use crate::time::{Duration, Time};

impl Desk {
    /// Refuses calls when the store has no tokens: those that do not wait, and those whose wait would be in vain.
    fn rate_refused(&mut self, home: PoolAt, (need, call): (u32, Option<CallId>), now: Time) {
        let Some(share) = self.routes.share_mut(home) else { return missing("the fleet's share of a rate") };
        let (strict, asked) = (share.strict(), share.asked);
        let (waiting, head, _) = self.routes.rate_queue(home);
        // In strict mode the answer belongs to the call that asked. If that call already got another call's token,
        // some other waiter has asked and been answered; the head of the queue takes that role.
        let waits_here = |slot: &Slot| {
            let call = &self.calls[*slot];
            call.state() == State::Paced && !call.has(flag::TOKENS) && !call.has(flag::SENDING)
        };
        let asked_by = call.and_then(|call| self.calls.find(call)).filter(waits_here);
        let asked_by = asked_by.or(head.filter(|_| waiting > asked));
        let alone = strict && call.is_some();
        let mut ahead = 0;
        let mut next = self.routes.rate_queue(home).1;
        while let Some(slot) = next {
            let call = &self.calls[slot];
            let after = call.links().1;
            next = (after != Slot::NONE).then_some(after);
            let (cost, give_up) = (call.cost(), call.moment.min(call.deadline));
            let waits =
                self.policies.of(&self.calls[slot]).rate_limit.as_ref().is_some_and(|limit| limit.wait);
            let Some(share) = self.routes.share_mut(home) else {
                return missing("the fleet's share of a rate");
            };
            let turn = share.turn(ahead + u64::from(cost), now);
            let concerned = if alone && !waits { asked_by == Some(slot) } else { cost >= need };
            if concerned && (!waits || now.after(turn) >= give_up) {
                self.turn_away_from(slot, Verdict::RateLimited, Some(turn), now);
            } else {
                ahead += u64::from(cost);
            }
        }
    }
}

impl Routes {
    /// Begins recovery when the store is back and its answer not yet read: from here on the process's own share is
    /// the bound.
    pub(in crate::engine::fleet) fn begin_rate_recovery(&mut self, home: PoolAt, now: Time) {
        if let Some(share) = self.set_share_mut(home) {
            return share.begin_recovery(now);
        }
        match self.share_mut(home) {
            Some(share) => share.begin_recovery(now),
            None => missing("the fleet's share of a rate"),
        }
    }
}

impl Sender<'_> {
    /// Sends one command for tokens, which also returns unwanted ones.
    pub(super) fn send_rate(
        &mut self,
        home: PoolAt,
        (want, need): (u32, u32),
        call: Option<CallId>,
        now: Time,
    ) {
        if !self.store.may_send((self.routes.lasting_id(home.route()), Part::Rate), self.seed, now) {
            return;
        }
        let Some(share) = self.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        share.expire(now);
        share.asked += 1;
        let back = core::mem::take(&mut share.back);
        let RateSettings { permits, per, burst } = share.settings;
        let within = share.within;
        if self.store.is_plain() {
            // A plain counter takes no tokens back: unwanted ones are lost until the window ends.
            let link = if want > 0 { Link::Begin } else { Link::Left };
            return self.send_window(home, (link, (want, need, call)), within, now);
        }
        let Some(share) = self.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        let unseen = share.seen.is_none_or(|seen| now.since(seen) >= SEEN);
        if unseen {
            share.seen = Some(now);
        }
        let per = per.as_micros().max(1);
        let asked = format!("{permits} {per} {burst} {want} {need} {back}").into_bytes();
        let args = if unseen { vec![asked, self.store.process_name()] } else { vec![asked] };
        self.store.send_words(
            &RATE,
            (self.routes.address(self.policies, home), Subject::Rate { want, need, call }),
            args,
            within,
            now,
        );
    }

    /// Returns tokens that no call took in strict mode, by a command of its own: strict mode keeps no lease.
    fn give_back_unasked(&mut self, home: PoolAt, now: Time) {
        let (waiting, ..) = self.routes.rate_queue(home);
        let plain = self.store.is_plain();
        let Some(share) = self.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        if !share.strict() || waiting > 0 {
            return;
        }
        while let Some((tokens, _)) = share.leased.pop_front() {
            share.give_back(tokens);
        }
        if plain {
            share.back = 0;
        }
        if share.back > 0 {
            self.send_rate(home, (0, 0), None, now);
        }
    }

    /// Reports the tokens spent without the store, once all processes are back.
    pub(super) fn pay_debt(&mut self, home: PoolAt, now: Time) {
        let Some(share) = self.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        let owes = share.alone > 0 || share.uncounted > 0;
        if !owes || now < share.count_at || share.is_recovering(now) {
            return;
        }
        let debt = share.take_debt(now);
        if debt > 0 {
            self.send_rate(home, (debt, 0), None, now);
        }
    }
}

impl FleetDesk<'_> {
    /// Asks the store for the queue's tokens, and for a new lease if the last is nearly used up. Does nothing if a
    /// request is out, or while the store has said that it has no tokens. In strict mode it asks for this call alone,
    /// or for the whole queue if calls wait.
    pub(super) fn ask_store(&mut self, home: PoolAt, call: Option<CallId>, now: Time) {
        let (waiting, head, queued) = self.desk.routes.rate_queue(home);
        let of = call.and_then(|call| self.desk.calls.find(call)).or(head);
        let cost = of.map_or(1, |slot| self.desk.calls[slot].cost());
        let up = self.store.is_up(&self.desk.routes, home, Part::Rate);
        if up {
            self.sender().pay_debt(home, now);
        }
        let Some(share) = self.desk.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        let strict = share.strict();
        let alone = if strict && up { call } else { None };
        if alone.is_none() && share.asked > 0 {
            return;
        }
        // Without waiters, ask for a lease when a quarter of the last is left, and ask a lost store to see whether it
        // is back.
        let at_once = share.lease(now);
        let low = !strict && u64::from(share.tokens(now)) * 4 < u64::from(at_once);
        let idle = waiting == 0 && !low;
        if up && alone.is_none() && (idle || share.empty_for(cost, now).is_some()) {
            return;
        }
        if strict && waiting == 0 && alone.is_none() {
            // Only to see whether the store is back.
            return self.sender().send_rate(home, (0, 0), None, now);
        }
        let lease = if strict { 0 } else { u64::from(at_once) };
        let all = if alone.is_some() { u64::from(cost) } else { queued + lease };
        let burst = share.settings.burst;
        let need = cost.clamp(1, burst.max(1));
        let room = share.room(now);
        // Where the process's own share is a bound, do not ask for more than it allows.
        let in_vain = !share.allows(cost, now) || room == 0 && waiting == 0 && alone.is_none();
        if up && in_vain {
            return;
        }
        let want = u32::try_from(all).unwrap_or(u32::MAX).min(room).clamp(need, burst.max(need));
        self.sender().send_rate(home, (want, need), alone, now);
    }

    /// Handles an answer of the store.
    pub(in crate::engine::fleet) fn on_rate_reply(
        &mut self,
        home: PoolAt,
        (want, need, call): (u32, u32, Option<CallId>),
        answer: &[u64],
        now: Time,
    ) {
        let &[granted, wait, processes] = answer else {
            return missing("a number in the answer about a rate");
        };
        // Our scripts never grant more than asked for. To keep a surplus would create tokens.
        let granted = u32::try_from(granted).unwrap_or(u32::MAX).min(want);
        let Some(share) = self.desk.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        // 0 means that the store does not know, because its data is new.
        let reported = if processes == 0 { share.processes } else { processes.min(MOST_PROCESSES) as u32 };
        let processes = share.sharers(reported, now);
        if let Some(fleet) = self.store.fleet.as_mut() {
            fleet.processes = processes;
        }
        let Some(share) = self.desk.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        if processes != share.processes {
            share.processes = processes;
            let own = share_of(share.settings, processes);
            share.local.retune(own, now);
        }
        let pause = now.after(share.pause());
        if need == 0 {
            // The store has counted the tokens spent without it, or the command only tested the connection.
            if granted < want {
                share.keep_debt(want - granted, now);
            }
        } else if granted > 0 {
            share.put(granted, now);
            share.empty = (granted < want && !share.strict()).then_some((1, pause));
        } else {
            // No correct answer names a wait longer than a burst takes to refill; after that time ask again. A wait
            // is at least a millisecond, because "no tokens, ask again at once" would loop for ever.
            let wait = Duration::from_micros(wait).min(plain::window(share.settings).1).max(LEAST_WAIT);
            share.empty = Some((need, now.after(wait).max(pause)));
        }
        self.lease_out(home, now);
        if granted < want && need > 0 {
            // Refuse what cannot be served; cheaper calls behind may use the rest.
            let need = if granted == 0 { need } else { 1 };
            self.desk.rate_refused(home, (need, call), now);
            self.lease_out(home, now);
        }
        self.sender().give_back_unasked(home, now);
        self.ask_store(home, None, now);
        self.desk.wake_head(home);
    }

    /// Asks the store, now that it is back, on behalf of calls that have waited for the process's share.
    pub(in crate::engine::fleet) fn rate_with_store(&mut self, home: PoolAt, now: Time) {
        if self.desk.routes.rate_queue(home).0 > 0 {
            self.ask_store(home, None, now);
            self.desk.wake_head(home);
        }
    }
}
