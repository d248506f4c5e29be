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
use crate::action::{Step, Verdict};
use crate::breaker::Ticket;
use crate::outcome::{Class, Kind};
use crate::policy::{Policy, Unit};
use crate::time::{Duration, Time};

/// What a stage says.
pub(super) enum Answer {
    /// Go on.
    Pass,
    /// Wait here.
    Wait(Step),
    /// No, and when another try would make sense.
    Refuse(Verdict, Option<Duration>),
}

impl Answer {
    /// The answer of a stage whose component is not there, though the route has that stage: a bug of ours. It refuses, because
    /// a broken invariant must not switch a limit off.
    #[cold]
    pub fn broken(verdict: Verdict) -> Self {
        debug_assert!(false, "the component of a stage is missing ({verdict:?})");
        Self::Refuse(verdict, None)
    }
}

/// A component that a call has passed or waits for is not there: a bug of ours. A debug build says so; any other goes on with
/// what is there, because one route's fault must not stop the others.
#[cold]
pub(super) fn missing(component: &str) {
    debug_assert!(false, "{component} is missing");
}

/// What a stage may look at besides its own state and the call.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub policies: &'a Policies,
    pub seed: u64,
    pub now: Time,
}

/// The outcome of a call or an attempt that a stage has let through.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    /// What the stage gave the call.
    pub ticket: Ticket,
    pub kind: Kind,
    pub class: Class,
    /// Number of the attempt, from 1.
    pub attempt: u8,
    /// Ordinal of the call, on which random draws depend.
    pub ordinal: u64,
}

/// What an outcome has done to a stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: the stage does not count the outcome, or counts it without a change that listeners may see.
    None,
    /// The level may have changed.
    Changed,
}

/// A component that a call passes before an attempt.
pub(super) trait Stage: Sized {
    type Settings;
    /// How a route keeps it.
    type Kept: DerefMut<Target = Self>;
    /// What a record reports when it changes.
    type Level: Copy;

    /// Its bit among [`super::route::stage`].
    const BIT: u8;

    /// The settings of a policy that has this stage.
    fn settings(policy: &Policy) -> Option<&Self::Settings>;
    /// What it counts: calls or attempts.
    fn unit(settings: &Self::Settings) -> Unit;
    /// A stage that has seen nothing.
    fn fresh(settings: &Self::Settings, now: Time) -> Self::Kept;
    /// Where a route keeps it.
    fn of(route: &mut Route) -> &mut Option<Self::Kept>;

    /// Decides about a call's next attempt. What the call needs to report its outcome is written into the call.
    fn pass(&mut self, call: &mut Call, context: Context<'_>) -> Answer;
    /// Takes an outcome. `None` where the outcome does not concern this stage: `policy`, which is the call's own and may
    /// be older than the route's, has no such stage.
    fn learn(&mut self, policy: &Policy, ended: &Ended, context: Context<'_>) -> Option<Effect>;
    /// May a hedge start now? A hedge never waits, and never probes.
    fn allows_hedge(&mut self, now: Time) -> bool;
    /// Lets a hedge through that is allowed, and returns the number of its ticket.
    fn pass_hedge(&mut self, now: Time) -> u16;
    /// Goes on with other settings.
    fn adopt(&mut self, to: &Self::Settings, now: Time);

    fn level(&self, now: Time) -> Self::Level;
    /// Makes a record where the level is not what it was.
    fn record_change(telemetry: &mut Telemetry<'_>, slot: Slot, from: Self::Level, now: Time);
}

/// Does something for each stage behind the interface, in the order in which they are asked: in `$body`, `$stage` is its
/// type. A new stage is a line here.
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
    /// Asks a stage to let a call through: what it was before, for listeners, and its answer. `None` where there is no such
    /// stage here.
    #[inline(always)]
    pub fn ask<S: Stage>(&mut self, call: &mut Call, context: Context<'_>) -> Option<(S::Level, Answer)> {
        let stage = S::of(self).as_mut()?;
        Some((stage.level(context.now), stage.pass(call, context)))
    }

    /// Hands an outcome to a stage: what it was before, and the effect. `None` where the outcome concerns no such stage here.
    #[inline]
    pub fn teach<S: Stage>(
        &mut self,
        policy: &Policy,
        ended: &Ended,
        context: Context<'_>,
    ) -> Option<(S::Level, Effect)> {
        let stage = S::of(self).as_mut()?;
        Some((stage.level(context.now), stage.learn(policy, ended, context)?))
    }

    /// Takes over the settings of a policy for each stage: what is new begins fresh, what is gone is forgotten.
    pub fn retune_stages(&mut self, policy: &Policy, now: Time) {
        each_stage!(It => self.retune_stage::<It>(policy, now));
    }

    fn retune_stage<S: Stage>(&mut self, policy: &Policy, now: Time) {
        match (S::of(self), S::settings(policy)) {
            (Some(stage), Some(to)) => stage.adopt(to, now),
            (place, to) => *place = to.map(|to| S::fresh(to, now)),
        }
    }

    /// Forgets the stages that would refuse one key's calls because of what happened to another's.
    pub fn forget_stages(&mut self) {
        each_stage!(It => *It::of(self) = None);
    }

    /// Do all stages allow a hedge?
    #[inline]
    pub fn stages_allow_hedge(&mut self, now: Time) -> bool {
        if self.stages & (stage::BREAKER | stage::THROTTLE) == 0 {
            return true;
        }
        let mut all = true;
        each_stage!(It => all = all && It::of(self).as_mut().is_none_or(|it| it.allows_hedge(now)));
        all
    }

    /// Lets a hedge through each of these stages, and returns the number of its ticket; 0 is none.
    #[inline]
    pub fn pass_hedge(&mut self, stages: u8, now: Time) -> u16 {
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
pub(super) fn by_attempt(policy: &Policy) -> u8 {
    let mut stages = 0;
    each_stage!(It => if It::settings(policy).is_some_and(|it| It::unit(it) == Unit::Attempt) {
        stages |= It::BIT;
    });
    stages
}
