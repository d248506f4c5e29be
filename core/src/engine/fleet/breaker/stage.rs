//! The circuit breaker's stage, for a breaker of the fleet.

use crate::action::Verdict;
use crate::breaker::BreakerState;
use crate::engine::fleet::breaker::Op;
use crate::engine::fleet::{FleetDesk, command};
use crate::engine::place::RouteAt;
use crate::engine::stage::Answer;
use crate::policy::OnLoss;
use crate::time::Time;

impl FleetDesk<'_> {
    /// Prepares an admission: reads the fleet's state if a read is due, and applies `on_loss` while the store is
    /// lost. `None` leaves the decision to the process's own breaker. The early check (`early`) does not count a call
    /// that passes.
    #[inline(never)]
    pub(in crate::engine) fn consult_fleet(
        &mut self,
        route: RouteAt,
        early: bool,
        now: Time,
    ) -> Option<Answer> {
        self.watch_store(now);
        let it = &self.desk.routes[route];
        let every = self.desk.policies[usize::from(it.policy)].policy.store_exchange;
        let Some(guard) = &it.guard else { return Some(Answer::broken(Verdict::BreakerOpen)) };
        let due = guard.asked_at.is_none_or(|asked| now.since(asked) >= every);
        if due && guard.out == 0 {
            self.sender().send_breaker(route, Op::Read, now); // the last answer is old
        }
        if self.store.is_up(&self.desk.routes, route.own(), command::Part::Breaker) {
            return None;
        }
        let back = self.store.back_in(&self.desk.routes, route.own(), command::Part::Breaker, now);
        let it = &self.desk.routes[route];
        let Some(guard) = &it.guard else { return Some(Answer::broken(Verdict::BreakerOpen)) };
        let (policy, on_loss) = (it.policy, guard.settings.on_loss);
        let answer = match on_loss {
            OnLoss::Local => return None,
            OnLoss::Open => Answer::Pass,
            OnLoss::Closed => Answer::Refuse(Verdict::StoreUnavailable, back),
        };
        if !early || on_loss == OnLoss::Closed {
            self.desk.policies.count_fallback(policy);
        }
        Some(answer)
    }

    /// Reports a transition of the process's own breaker to the fleet.
    #[inline(never)]
    pub(in crate::engine) fn report_to_fleet(&mut self, route: RouteAt, to: BreakerState, now: Time) {
        self.watch_store(now);
        let Some(guard) = &mut self.desk.routes[route].guard else { return }; // the breaker is the process's own
        let theirs = core::mem::take(&mut guard.theirs);
        match to {
            BreakerState::Open => {
                (guard.reported, guard.failed) = (false, theirs);
                self.sender().send_breaker(route, Op::Open, now);
            }
            BreakerState::Closed if theirs => {
                guard.closed = guard.epoch;
                self.sender().send_breaker(route, Op::Close, now);
            }
            BreakerState::Closed | BreakerState::HalfOpen => {}
        }
    }
}
