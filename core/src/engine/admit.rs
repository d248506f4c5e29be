//! The stages that a call passes on its way to an attempt (`docs/spec.md`, "How the components meet"):
//! hold → rate limit → bulkhead → breaker or throttle → send rate → the attempt.
//!
//! A call passes all of them before its first attempt. Before a further attempt it passes those whose unit is the
//! attempt.

use super::Engine;
use super::arena::flag;
use super::automaton::State;
use super::call::{MAX_PARK, wait};
use super::call_extra::mark;
use super::place::Slot;
use super::queue::Permit;
use super::route::stage;
use super::stage::{Answer, Context, Stage as _};
use super::timer::{limit, span};
use super::whole;
use crate::action::{Action, Verdict, Wait};
use crate::breaker::CircuitBreaker;
use crate::engine::desk::Desk;
use crate::engine::fleet::FleetDesk;
use crate::policy::Unit;
use crate::step::Step;
use crate::throttle::AdaptiveThrottle;
use crate::time::Time;

/// The stages, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    Peek,
    Hold,
    Rate,
    Bulkhead,
    Guard,
    Send,
    Start,
}

/// Continues if a stage admits the call, and returns the stage's answer otherwise.
macro_rules! pass {
    ($answer:expr) => {
        let answer = $answer;
        if !matches!(answer, Answer::Pass) {
            return answer;
        }
    };
}

impl Desk {
    #[cfg_attr(not(tidegate_small), inline(always))]
    fn guard_here(&mut self, slot: Slot, now: Time) -> Answer {
        let call = &mut self.calls[slot];
        let route = &mut self.routes[call.route];
        let context = Context { policies: &self.policies, seed: self.seed, now };
        if let Some((from, answer)) = route.ask::<CircuitBreaker>(call, context) {
            // A history keeps no records of levels, so it alone does not count.
            if self.notes.heard() {
                self.note(move |it| CircuitBreaker::record_change(it, slot, from, now));
            }
            return answer;
        }
        if let Some((from, answer)) = route.ask::<AdaptiveThrottle>(call, context) {
            if self.notes.heard() {
                self.note(move |it| AdaptiveThrottle::record_change(it, slot, from, now));
            }
            return answer;
        }
        Answer::broken(Verdict::Throttled)
    }

    /// Starts the attempt of a call that has passed all stages.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn start(&mut self, slot: Slot, now: Time) -> Step {
        let call = &mut self.calls[slot];
        let stages = self.routes[call.route].stages;
        if call.attempts == 0 && stages & stage::BOOKS != 0 {
            self.routes.deposit(call.route, now);
        }
        let entry = &mut self.policies[usize::from(call.policy)];
        entry.counts.attempts += 1;
        entry.counts.retries += u64::from(call.attempts > 0);
        let (policy, is_timed) = (&entry.policy, entry.again & stage::TIMED != 0);
        let by_attempt = call.has(flag::HOLDS)
            && policy.bulkhead.as_ref().is_some_and(|bulkhead| bulkhead.unit == Unit::Attempt);
        let timeout = policy.attempt_timeout;
        call.attempts += 1;
        let bit = call.attempt_slot().bit();
        call.attempt_slots |= bit;
        call.stopped &= !bit;
        call.flags &= !(flag::RACING | flag::UNHEDGED | flag::TOKENS);
        if by_attempt {
            call.flags = call.flags & !flag::HOLDS | flag::PER_ATTEMPT;
        }
        call.start(now, limit(now, timeout));
        let (attempt, route, mut until) = (call.attempts, call.route, call.moment.min(call.deadline));
        let mut target = false;
        if call.has(flag::EXTRA) {
            let extra = self.calls.extra_mut(slot);
            extra.moment = 0;
            extra.says &= !(mark::INNER | mark::TOKENS);
            if extra.says & mark::MORE != 0 {
                target = self.calls.start_more(slot, attempt);
            }
            if target {
                until = self.policies.bound_at_target(&mut self.calls, slot, now);
            }
        }
        if self.notes.starts.is_on() {
            self.note(move |it| it.attempt_started(slot, false, now));
        }
        if is_timed {
            until = until.min(self.hedge_due(slot, now));
            if self.policies.of(&self.calls[slot]).stream.is_some() {
                until = until.min(self.policies.bound_stream(&mut self.calls, slot, now));
            }
        }
        if stages & stage::LEASED != 0 {
            until = self.routes.before_renewal(route, until, now);
        }
        Step::new(Action::Attempt { attempt, hedge: false }, span(until, now)).aimed(target)
    }
}

impl Engine {
    /// Takes a new call to its first attempt. Stages that can refuse without a permit are asked before any queue
    /// (R2).
    #[inline]
    pub(super) fn admit(&mut self, slot: Slot, now: Time) -> Step {
        let call = &self.desk.calls[slot];
        let stages = self.desk.routes[call.route].stages;
        if stages & stage::FORCED != 0 {
            return self.refuse(slot, Verdict::ForcedOpen, None, now);
        }
        if call.deadline <= now {
            return self.refuse(slot, Verdict::DeadlineBefore, None, now);
        }
        if stages & stage::GATES == 0 {
            return self.desk.start(slot, now);
        }
        if stages & stage::RATE != 0 {
            let home = self.desk.routes[call.route].rate_at;
            if !self.desk.routes.fits_rate(call.cost(), home) && !self.desk.weigh(slot, home) {
                return self.refuse(slot, Verdict::CostAboveBurst, None, now);
            }
        }
        self.proceed(slot, Stage::Peek, now)
    }

    /// Takes a call through the stages from `from` on.
    pub(super) fn proceed(&mut self, slot: Slot, from: Stage, now: Time) -> Step {
        match self.pass(slot, from, now) {
            Answer::Pass => self.desk.start(slot, now),
            Answer::Wait(step) => step,
            Answer::Refuse(verdict, retry_in) => self.refuse(slot, verdict, retry_in, now),
        }
    }

    /// Returns the answer of the first stage that does not admit the call.
    #[cfg_attr(not(tidegate_small), inline(always))]
    fn pass(&mut self, slot: Slot, from: Stage, now: Time) -> Answer {
        let call = &self.desk.calls[slot];
        let mut stages = self.desk.routes[call.route].stages;
        if call.attempts > 0 {
            stages &= self.desk.policies[usize::from(call.policy)].again;
        }
        let meets = |stage: Stage, bits: u16| from <= stage && stages & bits != 0;
        if meets(Stage::Peek, stage::BREAKER | stage::SEND) {
            if stages & stage::BREAKER != 0 {
                pass!(self.fleet_desk().peek_breaker(slot, now));
            }
            if stages & stage::SEND != 0 {
                pass!(self.desk.peek_targets(slot, now));
            }
        }
        if meets(Stage::Hold, stage::HOLD) {
            pass!(self.fleet_desk().ask_cooldown(slot, now));
            if self.desk.policies.of(&self.desk.calls[slot]).retry.hold.is_some() {
                pass!(self.desk.ask_hold(slot, now));
            }
        }
        if meets(Stage::Rate, stage::RATE) {
            pass!(self.fleet_desk().ask_rate(slot, false, now));
        }
        if meets(Stage::Bulkhead, stage::POOL) {
            // A permit of the fleet always requires a check of the store's state.
            let permit = if stages & stage::LEASED == 0 {
                self.acquire(slot, now)
            } else {
                self.acquire_after_others(slot, self.desk.routes[self.desk.calls[slot].route].pool_at, now)
            };
            match permit {
                Ok(Permit::Held) => {}
                Ok(Permit::Awaited) if stages & stage::LEASED != 0 => {
                    return Answer::Wait(self.fleet_desk().wait_for_slot(slot, now));
                }
                Ok(Permit::Awaited) => {
                    let until = self.desk.patience(slot).min(now.after(MAX_PARK));
                    return Answer::Wait(wait(Wait::Queue, until, now));
                }
                Err(verdict) => return Answer::Refuse(verdict, None),
            }
        }
        if meets(Stage::Guard, stage::HOLD | stage::GUARDS) {
            if stages & stage::HOLD != 0 {
                pass!(self.ask_cooldown_again(slot, now));
            }
            if stages & stage::GUARDS != 0 {
                pass!(self.fleet_desk().guard(slot, now));
            }
        }
        if meets(Stage::Send, stage::SEND) {
            let targets = self.desk.routes[self.desk.calls[slot].route].targets_at;
            pass!(match targets {
                Some(home) => self.desk.ask_targets(slot, *home, now),
                None => self.fleet_desk().ask_rate(slot, true, now),
            });
        }
        Answer::Pass
    }

    /// Checks a waiter whose turn may have come, for a place of a hold or for tokens.
    pub(super) fn evaluate_waiting(&mut self, slot: Slot, now: Time) -> Step {
        let call = &self.desk.calls[slot];
        let (state, held, sending) = (call.state(), whole::is_held(call.state()), call.has(flag::SENDING));
        if self.desk.calls[slot].deadline <= now {
            return self.refuse(slot, Verdict::DeadlineQueued, None, now);
        }
        let (still, next) = match state {
            _ if held && self.desk.calls.cools(slot) => match self.fleet_desk().still_cooling(slot, now) {
                Answer::Pass => (None, self.desk.calls.left_cooldown(slot)),
                Answer::Wait(step) => return step,
                Answer::Refuse(verdict, retry_in) => return self.refuse(slot, verdict, retry_in, now),
            },
            _ if held && self.desk.routes.aims(&self.desk.calls[slot]) => {
                match self.desk.still_for_target(slot, now) {
                    Answer::Pass => (None, Stage::Start),
                    Answer::Wait(step) => return step,
                    Answer::Refuse(verdict, retry_in) => return self.refuse(slot, verdict, retry_in, now),
                }
            }
            _ if held => (self.desk.still_held(slot, now), Stage::Rate),
            State::Paced if !sending && self.desk.routes.in_fleet(self.desk.calls[slot].route) => {
                match self.fleet_desk().still_in_fleet(slot, now) {
                    Answer::Pass => (None, Stage::Bulkhead),
                    Answer::Wait(step) => return step,
                    Answer::Refuse(verdict, retry_in) => return self.refuse(slot, verdict, retry_in, now),
                }
            }
            State::Paced if !sending && self.desk.routes.in_set(self.desk.calls[slot].route) => {
                match self.fleet_desk().still_in_limits(slot, now) {
                    Answer::Pass => (None, Stage::Bulkhead),
                    Answer::Wait(step) => return step,
                    Answer::Refuse(verdict, retry_in) => return self.refuse(slot, verdict, retry_in, now),
                }
            }
            _ if sending => (self.desk.still_in_rate_queue(slot, now), Stage::Start),
            _ => (self.desk.still_in_rate_queue(slot, now), Stage::Bulkhead),
        };
        if let Some(step) = still {
            return step;
        }
        let call = &mut self.desk.calls[slot];
        call.flags &= !(flag::TOKENS | flag::SENDING);
        if call.state() != State::Passing {
            call.pass_on();
        }
        if next == Stage::Start {
            // The route may have closed while the call waited for the send rate.
            match self.ask_cooldown_again(slot, now) {
                Answer::Pass => {}
                Answer::Wait(step) => return step,
                Answer::Refuse(verdict, retry_in) => return self.refuse(slot, verdict, retry_in, now),
            }
        }
        self.proceed(slot, next, now)
    }

    /// Checks a waiter in the queue of permits.
    pub(super) fn still_queued(&mut self, slot: Slot, now: Time) -> Step {
        if self.desk.patience(slot) <= now {
            let verdict = self.desk.impatience(slot);
            return self.refuse(slot, verdict, None, now);
        }
        if self.desk.share(slot) {
            // An enclosing call has got a permit. To wait for another would be to wait for itself.
            self.fleet_desk().leave_queue(slot, now);
            self.desk.calls[slot].share();
            return self.proceed(slot, Stage::Guard, now);
        }
        if self.desk.routes[self.desk.calls[slot].route].stages & stage::LEASED != 0 {
            return match self.fleet_desk().still_for_slot(slot, now) {
                Answer::Pass => self.claim(slot, now),
                Answer::Wait(step) => step,
                Answer::Refuse(verdict, retry_in) => self.refuse(slot, verdict, retry_in, now),
            };
        }
        wait(Wait::Queue, self.desk.patience(slot).min(now.after(MAX_PARK)), now)
    }

    /// Claims a granted permit for its owner; the later stages run now (R2).
    pub(super) fn claim(&mut self, slot: Slot, now: Time) -> Step {
        if self.desk.calls[slot].deadline <= now {
            return self.refuse(slot, Verdict::DeadlineQueued, None, now);
        }
        self.desk.unlist(slot);
        self.desk.calls[slot].claim();
        self.proceed(slot, Stage::Guard, now)
    }
}

impl FleetDesk<'_> {
    /// Checks the breaker early. The check takes nothing, and can save a queue and a token.
    fn peek_breaker(&mut self, slot: Slot, now: Time) -> Answer {
        let route = &self.desk.routes[self.desk.calls[slot].route];
        if route.guard.is_some() {
            return self.peek_breaker_in_fleet(slot, now);
        }
        route.peek_breaker(now)
    }

    /// Asks the breaker or the throttle.
    fn guard(&mut self, slot: Slot, now: Time) -> Answer {
        if self.desk.routes[self.desk.calls[slot].route].guard.is_some() {
            return self.guard_in_fleet(slot, now);
        }
        self.desk.guard_here(slot, now)
    }

    /// The same for a breaker of the fleet.
    #[cold]
    fn guard_in_fleet(&mut self, slot: Slot, now: Time) -> Answer {
        let route = self.desk.calls[slot].route;
        let fleet = self.consult_fleet(route, false, now);
        fleet.unwrap_or_else(|| self.desk.guard_here(slot, now))
    }

    /// The same for a breaker of the fleet.
    #[cold]
    fn peek_breaker_in_fleet(&mut self, slot: Slot, now: Time) -> Answer {
        let route = self.desk.calls[slot].route;
        if let Some(answer) = self.consult_fleet(route, true, now) {
            return answer;
        }
        self.desk.routes[route].peek_breaker(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::RouteAt;
    use super::*;
    use crate::action::{Action, Request};
    use crate::engine::Options;
    use crate::policy::Policy;
    use crate::policy::Value::Number;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    type Breaking = fn(&mut Engine, RouteAt);

    /// A stage without its component: a debug build panics, any other refuses.
    #[test]
    fn a_broken_invariant_switches_no_limit_off() {
        let pairs = [
            ("rate_limit.permits", Number(5.0)),
            ("rate_limit.per", Number(1e6)),
            ("bulkhead.max_concurrency", Number(1.0)),
            ("throttle.k", Number(2.0)),
        ];
        let cases: [(Breaking, Verdict); 3] = [
            (|engine, route| engine.desk.routes[route].rate = None, Verdict::RateLimited),
            (|engine, route| engine.desk.routes[route].pool = None, Verdict::QueueFull),
            (|engine, route| engine.desk.routes[route].throttle = None, Verdict::Throttled),
        ];
        for (damage, expected) in cases {
            let mut engine = Engine::new(1, Options::default());
            let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
            let now = Time::from_micros(0);
            let route = engine.route(policy, "r", now);
            let at = engine.desk.routes.find(route).expect("it has just begun");
            damage(&mut engine, at);
            let begun = catch_unwind(AssertUnwindSafe(|| engine.begin(route, &Request::default(), now).1));
            // A debug build asserts, a release build refuses.
            let asserts = cfg!(debug_assertions);
            assert_eq!(begun.is_err(), asserts);
            let is_refused =
                |step: &Step| matches!(step.action(), Action::Done { verdict, .. } if verdict == expected);
            assert!(begun.iter().all(is_refused), "{begun:?}");
        }
    }
}
