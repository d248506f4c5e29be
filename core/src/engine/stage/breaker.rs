//! The circuit breaker as a stage (semantics 5).

use super::{Context, Effect, Ended, Stage};
use crate::action::Verdict;
use crate::breaker::{BreakerState, CircuitBreaker, Evidence};
use crate::engine::arena::{Call, flag};
use crate::engine::place::Slot;
use crate::engine::route::{Route, stage};
use crate::engine::stage::Answer;
use crate::engine::telemetry::Telemetry;
use crate::outcome::{Class, Kind};
use crate::policy::{Breaker, Policy, Unit};
use crate::rng::{self, Purpose};
use crate::time::Time;

impl Breaker {
    /// Evidence of a kind of outcome about the downstream.
    pub(in crate::engine) fn evidence(&self, kind: Kind, class: Class) -> Evidence {
        let named = |set: u32| set >> kind.number() & 1 != 0;
        match class {
            _ if named(self.failure_on) => Evidence::Failure,
            _ if named(self.ignore_on) => Evidence::Neutral,
            Class::Ok | Class::Permanent => Evidence::Success,
            Class::Transient | Class::Timeout | Class::NeverSent => Evidence::Failure,
            Class::Throttled | Class::Conflict | Class::Ignored | Class::Cancelled => Evidence::Neutral,
        }
    }
}

impl Stage for CircuitBreaker {
    type Settings = Breaker;
    type Kept = Box<Self>;
    type Level = BreakerState;

    const BIT: u16 = stage::BREAKER;

    #[inline]
    fn settings(policy: &Policy) -> Option<&Breaker> {
        policy.breaker.as_ref()
    }

    #[inline]
    fn unit(settings: &Breaker) -> Unit {
        settings.unit
    }

    fn fresh(settings: &Breaker, _now: Time) -> Box<Self> {
        Box::new(Self::new(settings.settings))
    }

    #[inline]
    fn of(route: &mut Route) -> &mut Option<Box<Self>> {
        &mut route.breaker
    }

    #[inline]
    fn pass(&mut self, call: &mut Call, context: Context<'_>) -> Answer {
        match self.admit(context.now) {
            Ok(ticket) => {
                call.ticket = ticket.number;
                if ticket.probe != call.has(flag::PROBE) {
                    call.turn_probe();
                }
                Answer::Pass
            }
            Err(retry_in) => Answer::Refuse(Verdict::BreakerOpen, Some(retry_in)),
        }
    }

    #[inline(always)]
    fn learn(&mut self, policy: &Policy, ended: &Ended, context: Context<'_>) -> Option<Effect> {
        let evidence = policy.breaker.as_ref()?.evidence(ended.kind, ended.class);
        // Only a failure can open it, so only a failure needs bits for the jitter of the break.
        let bits = match evidence {
            Evidence::Failure => rng::bits(context.seed, ended.ordinal, Purpose::Break, ended.attempt),
            Evidence::Success | Evidence::Neutral => 0,
        };
        let change = self.record(ended.ticket, evidence, bits, context.now);
        Some(if change.is_some() { Effect::Changed } else { Effect::None })
    }

    #[inline]
    fn allows_hedge(&mut self, now: Time) -> bool {
        self.state(now) == BreakerState::Closed
    }

    #[inline]
    fn pass_hedge(&mut self, now: Time) -> u16 {
        self.admit(now).map_or(0, |ticket| ticket.number)
    }

    fn adopt(&mut self, to: &Breaker, now: Time) {
        self.retune(to.settings, now);
    }

    #[inline]
    fn level(&self, now: Time) -> BreakerState {
        self.state(now)
    }

    fn record_change(telemetry: &mut Telemetry<'_>, slot: Slot, from: BreakerState, now: Time) {
        telemetry.breaker_changed_by(slot, from, now);
    }
}

impl Route {
    /// The early check of a breaker: it counts no call.
    #[inline]
    pub(in crate::engine) fn peek_breaker(&self, now: Time) -> Answer {
        let Some(breaker) = &self.breaker else { return Answer::broken(Verdict::BreakerOpen) };
        match breaker.refuses(now) {
            Some(retry_in) => Answer::Refuse(Verdict::BreakerOpen, Some(retry_in)),
            None => Answer::Pass,
        }
    }
}
