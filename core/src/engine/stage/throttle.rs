//! The adaptive throttle as a stage (semantics 6).

use super::{Context, Effect, Ended, Stage};
use crate::action::Verdict;
use crate::engine::arena::{Call, flag};
use crate::engine::place::Slot;
use crate::engine::route::{Route, stage};
use crate::engine::stage::Answer;
use crate::engine::telemetry::Telemetry;
use crate::full::{Part, Rare};
use crate::policy::{Policy, Throttle, Unit};
use crate::rng::{self, Purpose};
use crate::throttle::AdaptiveThrottle;
use crate::time::Time;

/// Ticket of an admitted call: distinguishes it from calls that the throttle has not admitted.
const ADMITTED: u16 = 1;

impl Stage for AdaptiveThrottle {
    type Settings = Rare<Throttle>;
    type Kept = Part<Self>;
    /// No level: telemetry stores the last reported probability itself.
    type Level = ();

    const BIT: u16 = stage::THROTTLE;

    #[inline]
    fn settings(policy: &Policy) -> Option<&Rare<Throttle>> {
        policy.throttle.as_ref()
    }

    #[inline]
    fn unit(settings: &Rare<Throttle>) -> Unit {
        settings.unit
    }

    fn fresh(settings: &Rare<Throttle>, now: Time) -> Part<Self> {
        Part::new(Self::new(settings.settings, now), settings.full())
    }

    #[inline]
    fn of(route: &mut Route) -> &mut Option<Part<Self>> {
        &mut route.throttle
    }

    #[inline]
    fn pass(&mut self, call: &mut Call, context: Context<'_>) -> Answer {
        let bits = rng::bits(context.seed, call.ordinal(), Purpose::Throttle, call.attempts + 1);
        let throttle = context.policies.of(call).throttle.as_ref();
        let admitted = if throttle.is_some_and(|it| it.prioritized) {
            self.admit_prioritized((call.flags & flag::CRITICALITY) as u8, bits, context.now)
        } else {
            self.admit(bits, context.now)
        };
        if admitted {
            call.ticket = ADMITTED; // its end counts
            return Answer::Pass;
        }
        Answer::Refuse(Verdict::Throttled, throttle.and_then(|it| it.settings.probe_interval))
    }

    fn learn(&mut self, _policy: &Policy, ended: &Ended, context: Context<'_>) -> Option<Effect> {
        let Some(accepted) = Self::accepted(ended.class) else { return Some(Effect::None) };
        self.record(accepted, context.now);
        Some(Effect::Changed)
    }

    #[inline]
    fn allows_hedge(&mut self, now: Time) -> bool {
        self.probability(now) <= 0.0
    }

    #[inline]
    fn pass_hedge(&mut self, now: Time) -> u16 {
        self.admit(u64::MAX, now); // its probability is zero: it only records the admission
        ADMITTED
    }

    fn adopt(&mut self, to: &Rare<Throttle>, now: Time) {
        self.retune(to.settings, now);
    }

    #[inline]
    fn level(&self, _now: Time) {}

    fn record_change(telemetry: &mut Telemetry<'_>, slot: Slot, _from: (), now: Time) {
        telemetry.throttle_changed(slot, now);
    }
}
