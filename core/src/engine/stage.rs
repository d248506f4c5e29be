//! The interface between the engine and a stage: a component that lets calls or attempts through and learns from their
//! outcomes. Each stage is a file below this one. Calls are dispatched statically (ADR 0023).

mod breaker;
mod throttle;

use core::ops::DerefMut;

use super::arena::Call;
use super::place::Slot;
use super::policies::Policies;
use super::route::{Route, stage};
use super::telemetry::Telemetry;
use crate::action::Verdict;
use crate::breaker::Ticket;
use crate::outcome::{Class, Kind};
use crate::policy::{Policy, Unit};
use crate::step::Step;
use crate::time::{Duration, Time};

/// Decision of a stage.
pub(super) enum Answer {
    /// The call may pass.
    Pass,
    /// The call waits here.
    Wait(Step),
    /// Refused, and when another try would make sense.
    Refuse(Verdict, Option<Duration>),
}

impl Answer {
    /// Answer of a stage whose component is missing although the route has that stage, which is our bug. It refuses,
    /// because a broken invariant must not switch a limit off.
    #[cold]
    pub fn broken(verdict: Verdict) -> Self {
        debug_assert!(false, "the component of a stage is missing ({verdict:?})");
        Self::Refuse(verdict, None)
    }
}

/// Reports a missing component that a call has passed or waits for, which is our bug. A debug build panics. Any other
/// build continues with the remaining components, because one route's fault must not stop the others.
#[cold]
pub(super) fn missing(component: &str) {
    debug_assert!(false, "{component} is missing");
}

/// Data that a stage may read besides its own state and the call.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub policies: &'a Policies,
    pub seed: u64,
    pub now: Time,
}

/// The outcome of a call or an attempt that a stage has let through.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    /// Ticket that the stage gave the call.
    pub ticket: Ticket,
    pub kind: Kind,
    pub class: Class,
    /// Number of the attempt, from 1.
    pub attempt: u8,
    /// Ordinal of the call; random draws depend on it.
    pub ordinal: u64,
}

/// Effect of an outcome on a stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// No effect: the stage does not count the outcome, or counts it without a change that listeners may see.
    None,
    /// The level may have changed.
    Changed,
}

/// A component that a call passes before an attempt.
pub(super) trait Stage: Sized {
    type Settings;
    /// How a route stores it.
    type Kept: DerefMut<Target = Self>;
    /// Level that a record reports when it changes.
    type Level: Copy;

    /// Its bit in [`super::route::stage`].
    const BIT: u16;

    /// Settings of the stage in a policy, if it has the stage.
    fn settings(policy: &Policy) -> Option<&Self::Settings>;
    /// Unit that it counts: calls or attempts.
    fn unit(settings: &Self::Settings) -> Unit;
    /// Creates a stage without history.
    fn fresh(settings: &Self::Settings, now: Time) -> Self::Kept;
    /// Place in a route.
    fn of(route: &mut Route) -> &mut Option<Self::Kept>;

    /// Decides about a call's next attempt. Writes into the call what the call needs to report its outcome.
    fn pass(&mut self, call: &mut Call, context: Context<'_>) -> Answer;
    /// Counts an outcome. `None` if the outcome does not concern this stage: `policy`, which is the call's own and
    /// may be older than the route's, has no such stage.
    fn learn(&mut self, policy: &Policy, ended: &Ended, context: Context<'_>) -> Option<Effect>;
    /// Whether a hedge may start now. A hedge never waits, and never probes.
    fn allows_hedge(&mut self, now: Time) -> bool;
    /// Admits an allowed hedge, and returns the number of its ticket.
    fn pass_hedge(&mut self, now: Time) -> u16;
    /// Applies new settings.
    fn adopt(&mut self, to: &Self::Settings, now: Time);

    fn level(&self, now: Time) -> Self::Level;
    /// Makes a record if the level has changed.
    fn record_change(telemetry: &mut Telemetry<'_>, slot: Slot, from: Self::Level, now: Time);
}

/// Runs `$body` for each stage behind the interface, in the order in which calls pass them; `$stage` is its type. A
/// new stage is one more line here.
macro_rules! each_stage {
    ($stage:ident => $body:expr) => {{
        {
            type $stage = $crate::breaker::CircuitBreaker;
            $body;
        }
        {
            type $stage = $crate::throttle::AdaptiveThrottle;
            $body;
        }
    }};
}

impl Route {
    /// Asks a stage to admit a call. Returns its level before, for listeners, and its answer; `None` if the route has
    /// no such stage.
    #[inline(always)]
    pub fn ask<S: Stage>(&mut self, call: &mut Call, context: Context<'_>) -> Option<(S::Level, Answer)> {
        let stage = S::of(self).as_mut()?;
        Some((stage.level(context.now), stage.pass(call, context)))
    }

    /// Passes an outcome to a stage. Returns its level before, and the effect; `None` if the outcome concerns no such
    /// stage here.
    #[inline(always)]
    pub fn teach<S: Stage>(
        &mut self,
        policy: &Policy,
        ended: &Ended,
        context: Context<'_>,
    ) -> Option<(S::Level, Effect)> {
        let stage = S::of(self).as_mut()?;
        Some((stage.level(context.now), stage.learn(policy, ended, context)?))
    }

    /// Applies the settings of a policy to each stage: new stages begin without history, removed ones are dropped.
    pub fn retune_stages(&mut self, policy: &Policy, now: Time) {
        each_stage!(It => self.retune_stage::<It>(policy, now));
    }

    fn retune_stage<S: Stage>(&mut self, policy: &Policy, now: Time) {
        match (S::of(self), S::settings(policy)) {
            (Some(stage), Some(to)) => stage.adopt(to, now),
            (place, to) => *place = to.map(|to| S::fresh(to, now)),
        }
    }

    /// Drops the stages that would refuse one key's calls because of another's failures.
    pub fn forget_stages(&mut self) {
        each_stage!(It => *It::of(self) = None);
    }

    /// Whether all stages allow a hedge.
    #[inline]
    pub fn stages_allow_hedge(&mut self, now: Time) -> bool {
        if self.stages & stage::GUARDS == 0 {
            return true;
        }
        let mut all = true;
        each_stage!(It => all = all && It::of(self).as_mut().is_none_or(|it| it.allows_hedge(now)));
        all
    }

    /// Admits a hedge at each of these stages, and returns the number of its ticket; 0 means no ticket.
    #[inline]
    pub fn pass_hedge(&mut self, stages: u16, now: Time) -> u16 {
        let mut ticket = 0;
        if stages == 0 {
            return ticket;
        }
        each_stage!(It => if let Some(it) = It::of(self).as_mut().filter(|_| stages & It::BIT != 0) {
            ticket = it.pass_hedge(now);
        });
        ticket
    }
}

/// The stages of a policy that count attempts.
#[inline]
pub(super) fn by_attempt(policy: &Policy) -> u16 {
    let mut stages = 0;
    each_stage!(It => if It::settings(policy).is_some_and(|it| It::unit(it) == Unit::Attempt) {
        stages |= It::BIT;
    });
    stages
}
