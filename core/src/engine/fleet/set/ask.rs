//! How a set of limits asks the store for tokens, and handles the answers.

use super::{Charge, Empty, LEAST_WAIT, PAUSE, SetShare};
use crate::engine::fleet::command::{Part, Subject};
use crate::engine::fleet::rate::{MOST_PROCESSES, SEEN};
use crate::engine::fleet::{FleetDesk, Sender};
use crate::engine::limits::{Costs, Limits};
use crate::engine::place::PoolAt;
use crate::engine::route::Routes;
use crate::engine::sheets::WEIGHTS;
use crate::engine::stage::missing;
use crate::fleet::LIMITS;
use crate::time::{Duration, Time};

/// What a command about a set asks: tokens at best and at least, and the number of its charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine::fleet) struct Question {
    pub want: Costs,
    pub need: Costs,
    /// 0 for none.
    pub charge: u64,
    /// Number of limits, and the hash of their names.
    pub count: u8,
    pub names: u64,
}

impl Routes {
    /// The process's part of a set of the fleet.
    pub(in crate::engine) fn set_share_mut(&mut self, home: PoolAt) -> Option<&mut SetShare> {
        self.limits_mut(home)?.shared.as_deref_mut()
    }

    /// Whether the rate limit is a set of the fleet.
    pub(in crate::engine) fn shares_set(&self, home: PoolAt) -> bool {
        self.limits(home).is_some_and(|limits| limits.shared.is_some())
    }
}

impl SetShare {
    /// What to ask for, with these costs of the head and these tokens for all waiters; `None` if there is nothing to ask.
    fn question(
        &mut self,
        head: Option<Costs>,
        queued: &[u128; WEIGHTS],
        now: Time,
    ) -> Option<(Costs, Costs)> {
        self.expire(now);
        self.settle_alone(now);
        if self.asked > 0 {
            return None;
        }
        let costs = head.unwrap_or_default();
        let need = self.lacks(&costs);
        let low = self.low(now);
        if !self.up {
            // The command is to show whether the store is back.
            let want = if head.is_some() { need } else { [0; WEIGHTS] };
            return Some((want, need));
        }
        let recovering = self.is_recovering(now);
        let in_vain = recovering && self.own_turn(&costs, &[0; WEIGHTS], now).0 > Duration::ZERO;
        let idle = need == [0; WEIGHTS] && low.is_none();
        if idle || in_vain || self.is_empty_for(if head.is_some() { &need } else { low.as_ref()? }, now) {
            return None;
        }
        let sizes: Costs = core::array::from_fn(|at| self.list.get(at).map_or(0, |it| self.size(it, now)));
        let want = core::array::from_fn(|at| {
            let Some(lease) = self.list.get_mut(at) else { return 0 };
            let all = queued[at].saturating_add(sizes[at].into()).saturating_sub(lease.tokens.into());
            let all = u64::try_from(all).unwrap_or(u64::MAX);
            // Where the process's own share is a bound, do not ask for more than it allows.
            let there = lease.local.level(now).max(0).cast_unsigned().saturating_sub(lease.tokens);
            let room = if recovering { there } else { u64::MAX };
            all.min(room).min(lease.settings.burst).max(need[at])
        });
        (want != [0; WEIGHTS]).then_some((want, need))
    }
}

impl Sender<'_> {
    /// Notes whether the store can be reached for this set.
    pub(super) fn note_set_up(&mut self, home: PoolAt) -> bool {
        let up = self.store.is_up(self.routes, home, Part::Rate);
        if let Some(share) = self.routes.set_share_mut(home) {
            share.up = up;
        }
        up
    }

    /// Sends one command for tokens. It also returns unspent ones, and charges what was used beyond reservations.
    fn send_set(&mut self, home: PoolAt, (want, need): (Costs, Costs), now: Time) {
        let place = (self.routes.lasting_id(home.route()), Part::Rate);
        if !self.store.may_send(place, self.seed, now) {
            return;
        }
        let (process, number) = (self.store.process_name(), self.store.next_number());
        let Some(limits) = self.routes.limits_mut(home) else {
            return missing("the limits of a set of the fleet's");
        };
        let Some(share) = limits.shared.as_deref_mut() else {
            return missing("the fleet's share of a set");
        };
        if share.charge.is_none() && share.list.iter().any(|lease| lease.owed > 0) {
            let used = core::array::from_fn(|at| {
                share.list.get_mut(at).map_or(0, |lease| core::mem::take(&mut lease.owed))
            });
            share.charge = Some(Charge { number, used });
        }
        let unseen = share.seen.is_none_or(|seen| now.since(seen) >= SEEN);
        if unseen {
            share.seen = Some(now);
        }
        share.asked += 1;
        let (charge, within) = (share.charge, share.within);
        let charged = charge.map_or(0, |it| it.number);
        let mut head = process;
        head.extend(format!(" {} {charged}", u8::from(unseen)).into_bytes());
        let mut words = vec![head];
        for (at, (limit, lease)) in limits.list.iter().zip(&mut share.list).enumerate() {
            let (it, back) = (lease.settings, core::mem::take(&mut lease.back));
            let (per, used) = (it.per.as_micros().max(1), charge.map_or(0, |it| it.used[at]));
            let (name, permits, burst, debt) = (&*limit.name, it.permits, it.burst, it.max_debt);
            let (want, need) = (want[at], need[at]);
            words.push(
                format!("{name} {permits} {per} {burst} {debt} {want} {need} {back} {used}").into_bytes(),
            );
        }
        let (count, names) = (limits.list.len() as u8, share.names);
        let subject = Subject::Set(Question { want, need, charge: charged, count, names });
        self.store.send_words(
            &LIMITS,
            (self.routes.address(self.policies, home), subject),
            words,
            within,
            now,
        );
    }
}

impl FleetDesk<'_> {
    /// Asks the store for the tokens of the queue, and for a new lease if one is nearly used up. Does nothing if a
    /// request is out, or while the store has said that it has no tokens.
    pub(super) fn ask_store_for_set(&mut self, home: PoolAt, now: Time) {
        self.sender().note_set_up(home);
        let head = self.desk.routes.rate_queue(home).1.map(|slot| self.desk.costs(slot, home));
        let queued = self.desk.routes.limits(home).map_or([0; WEIGHTS], Limits::queued);
        let asks = self.desk.routes.set_share_mut(home).and_then(|it| it.question(head, &queued, now));
        if let Some(asks) = asks {
            self.sender().send_set(home, asks, now);
        }
    }

    /// Handles an answer of the store.
    pub(in crate::engine::fleet) fn on_set_reply(
        &mut self,
        home: PoolAt,
        asked: Question,
        answer: &[u64],
        now: Time,
    ) {
        let [wait, late, processes, pairs @ ..] = answer else {
            return missing("a number in the answer about a set");
        };
        self.sender().note_set_up(home);
        let Some(limits) = self.desk.routes.limits_mut(home) else {
            return missing("the limits of a set of the fleet's");
        };
        let Some(share) = limits.shared.as_deref_mut() else {
            return missing("the fleet's share of a set");
        };
        if share.names != asked.names {
            return self.ask_store_for_set(home, now); // a retune has changed the limits since
        }
        if let Some(charge) = share.charge.filter(|it| it.number == asked.charge) {
            // The store has counted it, with this command or an earlier one.
            for (at, limit) in limits.list.iter_mut().enumerate() {
                let forgiven = pairs.get(2 * at + 1).copied().unwrap_or(0).min(charge.used[at]);
                limit.forgiven = limit.forgiven.saturating_add(forgiven);
            }
            share.charge = None;
        }
        // 0 means that the store does not know, because its data is new.
        let reported =
            if *processes == 0 { share.processes } else { (*processes).min(MOST_PROCESSES) as u32 };
        share.hear_processes(reported, now);
        let all = share.processes;
        // A store of ours never grants more than asked for, nor less than needed.
        let granted: Costs = core::array::from_fn(|at| {
            let offered = pairs.get(2 * at).copied().unwrap_or(0);
            if *wait > 0 { 0 } else { offered.min(asked.want[at]) }
        });
        for (lease, granted) in share.list.iter_mut().zip(granted) {
            lease.put(granted, now);
        }
        let below = |least: &Costs| (0..WEIGHTS).find(|at| granted[*at] < least[*at]);
        let refused = below(&asked.need);
        share.empty = if let Some(first) = refused {
            // No call waits for ever for a store that names no time, and none asks again at once.
            let named = (*late as usize).checked_sub(1).filter(|at| *at < usize::from(asked.count));
            let last = named.filter(|at| asked.need[*at] > 0).unwrap_or(first);
            let wait = Duration::from_micros(*wait).min(share.longest(last)).max(LEAST_WAIT);
            Some(Empty { need: asked.need, until: now.after(wait), last })
        } else {
            below(&asked.want).map(|last| Empty { need: [1; WEIGHTS], until: now.after(PAUSE), last })
        };
        if let Some(fleet) = self.store.fleet.as_mut() {
            fleet.processes = all;
        }
        self.desk.hand_out_set(home, false, now);
        if refused.is_some() {
            // Refuse what cannot be served; calls behind that lack less may be.
            self.set_refused(home, now);
            self.desk.hand_out_set(home, false, now);
        }
        self.ask_store_for_set(home, now);
        self.desk.wake_head(home);
    }
}
