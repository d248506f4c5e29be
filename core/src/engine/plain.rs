//! The end that most calls have: their only attempt has succeeded, or its body has been read, and nothing waits for it but a
//! permit's next owner. And the head before such a body.
//!
//! `decide.rs` handles every end of an attempt. Each of its steps acts on the whole desk and looks up the call, its
//! route and its policy for itself. This file takes the same steps for a call of which one look shows that the others
//! have nothing to do, and looks up each once. With a listener to every record, each end takes the
//! long way: `core/tests/rules.rs` compares the two.

use super::arena::{Call, flag};
use super::automaton::State;
use super::call::wait;
use super::desk::Desk;
use super::place::{RouteAt, Slot};
use super::policies::Policies;
use super::route::{Route, Routes, stage};
use crate::action::{Action, AttemptSlot, Verdict, Wait};
use crate::breaker::{Evidence, Ticket};
use crate::outcome::{Class, Kind};
use crate::step::Step;
use crate::time::Time;

/// Calls with one of these have more to give back than a permit.
const MORE_OF_CALL: u16 =
    flag::RACING | flag::PER_ATTEMPT | flag::EXTRA | flag::NESTED | flag::SHARES | flag::PROBE;

/// Stages to which a success is a count, or nothing.
const COUNTING: u16 = stage::RATE | stage::POOL | stage::BREAKER | stage::FORCED | stage::BOOKS;

impl Desk {
    /// Ends a call whose attempt has succeeded, or whose body has been read. Changes nothing and returns `None` if there is more to do than this.
    #[inline(always)]
    pub(super) fn end_plainly(&mut self, slot: Slot, attempt: u8, now: Time) -> Option<Step> {
        let attempt_slot = AttemptSlot::of(attempt);
        let call = &self.calls[slot];
        let (at, holds, policy) = (call.route, call.has(flag::HOLDS), call.policy);
        let is_read = call.state() == State::Body; // its success was counted with its head
        if !self.routes.only_count(call, attempt_slot)
            || !(is_read || call.state() == State::Running)
            || self.notes.course.is_on()
        {
            return None;
        }
        let route = &mut self.routes[at];
        if call.ticket != 0 {
            route.count_success(call, &self.policies, now)?;
        }
        if route.stages & stage::BOOKS != 0 && !is_read {
            self.routes.book_success(at, call, now);
        }
        self.policies.count_end(policy, Verdict::Ok);
        self.calls[slot].leave();
        self.calls.remove(slot);
        if holds {
            let home = self.routes[at].pool_at;
            if let Some(pool) = &mut self.routes[home].pool
                && pool.release(1) > 0
            {
                self.hand_out(home, now);
            }
        }
        self.routes.leave(at, now);
        let result = Some(attempt_slot);
        Some(Step::new(Action::Done { verdict: Verdict::Ok, result, retry_in: None }, None))
    }
}

impl Routes {
    /// Takes the head of a call's only answer, of which the body is still to be read. Changes nothing and returns `None` if there is
    /// more to do than to count it.
    #[inline(never)]
    pub(super) fn head_plainly(
        &mut self,
        call: &mut Call,
        attempt: u8,
        policies: &Policies,
        now: Time,
    ) -> Option<Step> {
        let until_body = call.state() == State::Running && call.has(flag::UNTIL_BODY);
        if !until_body || call.deadline <= now || !self.only_count(call, AttemptSlot::of(attempt)) {
            return None;
        }
        let route = &mut self[call.route];
        if call.ticket != 0 {
            route.count_success(call, policies, now)?;
        }
        if route.stages & stage::BOOKS != 0 {
            self.book_success(call.route, call, now);
        }
        call.charge = 0; // a success leaves nothing to give back
        call.read(call.since());
        policies.deliver(call, now);
        Some(wait(Wait::Body, policies.body_until(call, now), now))
    }

    /// Whether the attempt in this slot is the call's only one, and all that its success does is count.
    #[inline(always)]
    fn only_count(&self, call: &Call, attempt: AttemptSlot) -> bool {
        !(call.has(MORE_OF_CALL)
            || call.attempt_slots != attempt.bit()
            || call.children != 0
            || call.parent() != Slot::NONE
            || self[call.route].stages & !COUNTING != 0
            || call.has(flag::HOLDS) && !self.has_plain_pool(call.route))
    }

    /// Whether a route's permits come from this process, and their number learns nothing.
    #[inline(always)]
    fn has_plain_pool(&self, route: RouteAt) -> bool {
        let home = &self[self[route].pool_at];
        home.slots.is_none() && home.pool.as_ref().is_some_and(|pool| pool.limiter.is_fixed())
    }

    /// Counts the answer of a call's only attempt in the budgets, and its latency for hedges.
    #[inline(always)]
    fn book_success(&mut self, route: RouteAt, call: &Call, now: Time) {
        let route = &mut self[route];
        let home = route.budget_at;
        if let Some(hedger) = &mut route.hedger {
            hedger.observe(now.since(call.since()));
            if let Some(budget) = &mut hedger.budget {
                budget.on_success(0, now);
            }
        }
        if let Some(budget) = &mut self[home].budget {
            budget.on_success(call.charge, now);
        }
    }
}

impl Route {
    /// Counts the answer of a call's only attempt in the breaker that has given it a ticket. Changes nothing and returns
    /// `None` if the answer is not a success to the call's policy, or the route has no breaker.
    #[inline(always)]
    fn count_success(&mut self, call: &Call, policies: &Policies, now: Time) -> Option<()> {
        let (ok, breaker) = (Kind::from(Class::Ok), self.breaker.as_mut()?);
        let evidence = policies.of(call).breaker.as_ref()?.evidence(ok, Class::Ok);
        if evidence == Evidence::Failure {
            return None;
        }
        if call.state() == State::Body {
            return Some(());
        }
        // Closed, it stays closed, and a ticket of an earlier generation changes nothing.
        breaker.record(Ticket { number: call.ticket, probe: false }, evidence, 0, now);
        Some(())
    }
}
