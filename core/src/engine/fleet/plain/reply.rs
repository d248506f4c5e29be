//! Answers of a store that runs no scripts: each leads to the next command of a chain, or to what a script would have
//! answered.

use crate::engine::fleet::breaker::Op;
use crate::engine::fleet::command::{Part as Place, Pending, Subject};
use crate::engine::fleet::plain::{Link, MARK, TAIL, Wanted, window};
use crate::engine::fleet::{FleetDesk, Sender};
use crate::engine::place::{PoolAt, RouteAt};
use crate::engine::stage::missing;
use crate::time::{Duration, Time};

impl Sender<'_> {
    fn send_link(&mut self, route: RouteAt, (link, op): (Link, Op), of: &Pending, now: Time) {
        let millis = TAIL.to_string();
        let (name, args): (_, &[&str]) = match link {
            Link::Named { .. } => ("GET", &[]),
            Link::Repair => ("PEXPIRE", &[&millis]),
            _ => ("PTTL", &[]),
        };
        if link != Link::Repair {
            self.routes.breaker_sent(route);
        }
        let subject = Subject::Mark { link, op, duration: Duration::ZERO };
        self.store.send_plain(
            (self.routes.address(self.policies, route.own()), subject),
            (name, MARK, args),
            of.within(),
            now,
        );
    }
}

impl FleetDesk<'_> {
    /// Handles an answer about a window.
    pub(in crate::engine::fleet) fn on_window_reply(
        &mut self,
        home: PoolAt,
        (link, wanted): (Link, Wanted),
        pending: &Pending,
        answer: &[u64],
        now: Time,
    ) {
        let goes_on = self.store.is_up(&self.desk.routes, home, Place::Rate) && !pending.overdue;
        let left = pending.due.since(now);
        let Some(share) = self.desk.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        let ((limit, span), within) = (window(share.settings()), share.within());
        let (want, need, _) = wanted;
        match (link, answer) {
            (Link::Begin, [is_new]) if goes_on => {
                let begun = (*is_new == 1).then_some(pending.sent);
                self.desk.routes.rate_sent(home);
                self.sender().send_window(home, (Link::Count { begun }, wanted), left, now);
            }
            (Link::Count { begun }, &[all]) => {
                let before = all.saturating_sub(u64::from(want));
                let granted = limit.saturating_sub(before).min(u64::from(want));
                let processes = share.counted(u64::from(want), all);
                // The window ended between the two commands, so this command created a counter without an expiry.
                let endless = before == 0 && begun.is_none_or(|begun| now.since(begun) >= span);
                if endless {
                    self.sender().send_window(home, (Link::Repair, wanted), within, now);
                }
                if granted >= u64::from(need) {
                    self.on_rate_reply(home, wanted, &[granted, 0, u64::from(processes)], now);
                } else if goes_on {
                    self.desk.routes.rate_sent(home);
                    self.sender().send_window(home, (Link::Left, wanted), left, now);
                }
            }
            (Link::Left, &[kind, left]) => {
                if kind == 1 {
                    self.sender().send_window(home, (Link::Repair, wanted), within, now);
                }
                let wait = match kind {
                    0 => 0,
                    1 => span.as_micros(),
                    _ => left.saturating_mul(1_000).min(span.as_micros()),
                };
                let Some(share) = self.desk.routes.share_mut(home) else {
                    return missing("the fleet's share of a rate");
                };
                let processes = u64::from(share.processes());
                self.on_rate_reply(home, wanted, &[0, wait, processes], now);
            }
            _ => {}
        }
    }

    /// Handles an answer about a breaker's mark.
    pub(in crate::engine::fleet) fn on_mark_reply(
        &mut self,
        route: RouteAt,
        (link, op, duration): (Link, Op, Duration),
        of: (crate::fleet::CommandId, &Pending),
        answer: &[u64],
        now: Time,
    ) {
        let (command, pending) = of;
        let goes_on = self.store.is_up(&self.desk.routes, route.own(), Place::Breaker) && !pending.overdue;
        let Some(guard) = &self.desk.routes[route].guard else {
            return missing("what a breaker knows of the fleet's");
        };
        let known = guard.epoch();
        let reported = match (link, answer) {
            (Link::Name { epoch }, [1]) => [1, duration.as_micros(), epoch, 0],
            // There is a break already.
            (Link::Name { .. }, _) if goes_on => {
                return self.sender().send_link(route, (Link::Left, op), pending, now);
            }
            (Link::Left, [2, left]) if goes_on => {
                let (state, remaining) = match left.checked_sub(TAIL) {
                    Some(remaining) if remaining > 0 => (1, remaining.saturating_mul(1_000)),
                    _ => (2, 0),
                };
                return self.sender().send_link(route, (Link::Named { state, remaining }, op), pending, now);
            }
            (Link::Left, [kind, _]) if *kind < 2 => {
                if *kind == 1 {
                    self.sender().send_link(route, (Link::Repair, op), pending, now);
                }
                [0, 0, known, 0]
            }
            (Link::Named { state, remaining }, &[1, epoch]) => [state, remaining, epoch, 0],
            (Link::Named { .. }, [0, _]) | (Link::Clear, _) => [0, 0, known, 0],
            _ => return,
        };
        self.on_breaker_reply(route, (command, op, pending.sent), &reported, now);
    }
}
