//! Source of a pool's limit, behind one interface: fixed, AIMD, or Gradient2.

use super::view::LimitKind;
use crate::full::{Full, Part};
use crate::limit::{Aimd, Gradient2, LimitSignal, Outside};
use crate::outcome::Class;
use crate::policy::LimitSettings;
use crate::state::{Damage, Loader, Saver};
use crate::time::Time;

/// The controller of a pool's limit.
#[derive(Clone, Debug)]
pub(super) enum Limiter {
    Fixed(u32),
    Aimd(Part<Aimd>),
    Gradient2(Part<Gradient2>),
}

impl Limiter {
    pub fn new(settings: &LimitSettings) -> Self {
        match settings {
            LimitSettings::Fixed(limit) => Self::Fixed(*limit),
            LimitSettings::Aimd(to) => Self::Aimd(Part::new(Aimd::new(**to), to.full())),
            LimitSettings::Gradient2(to) => Self::Gradient2(Part::new(Gradient2::new(**to), to.full())),
        }
    }

    pub fn limit(&self) -> u32 {
        match self {
            Self::Fixed(limit) => *limit,
            Self::Aimd(aimd) => aimd.limit(),
            Self::Gradient2(gradient) => gradient.limit(),
        }
    }

    /// Whether the limit is fixed.
    #[inline]
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    pub fn kind(&self) -> LimitKind {
        match self {
            Self::Fixed(_) => LimitKind::Fixed,
            Self::Aimd(_) => LimitKind::Aimd,
            Self::Gradient2(_) => LimitKind::Gradient2,
        }
    }

    /// Whether throttled attempts cut it, those that are retried included.
    #[inline]
    pub fn follows_loss(&self) -> bool {
        matches!(self, Self::Aimd(aimd) if aimd.settings().signal.follows_loss())
    }

    /// Whether the end of a throttled attempt means something to it.
    pub fn hears_throttles(&self) -> bool {
        self.follows_loss() || matches!(self, Self::Gradient2(_))
    }

    /// Applies new settings. Another kind starts anew; the same kind keeps its state.
    pub fn retune(&mut self, to: &LimitSettings) {
        match (&mut *self, to) {
            (Self::Aimd(aimd), LimitSettings::Aimd(to)) => aimd.retune(**to),
            (Self::Gradient2(gradient), LimitSettings::Gradient2(to)) => gradient.retune(**to),
            _ => *self = Self::new(to),
        }
    }

    /// Writes the learned state, if any.
    pub fn save(&self, to: &mut Saver) {
        to.optional(|to| {
            match self {
                Self::Fixed(_) => return false,
                Self::Aimd(aimd) => {
                    to.text(saved_kind(aimd.settings().signal));
                    to.list(|to| aimd.save(to));
                }
                Self::Gradient2(gradient) => {
                    to.text("gradient2");
                    to.list(|to| gradient.save(to));
                }
            }
            !to.ends_with("[]")
        });
    }

    /// Restores a saved controller of the same kind.
    pub fn load(from: &mut Loader<'_>, settings: &LimitSettings) -> Result<Self, Damage> {
        let kind = from.text()?;
        let full = Full::here().ok_or(Damage("must be a full engine's"))?;
        from.list(|from| {
            Ok(match (kind, settings) {
                (saved, LimitSettings::Aimd(to)) if saved == saved_kind(to.signal) => {
                    Self::Aimd(Part::new(Aimd::load(from, **to)?, full))
                }
                ("gradient2", LimitSettings::Gradient2(to)) => {
                    Self::Gradient2(Part::new(Gradient2::load(from, **to)?, full))
                }
                ("aimd" | "aimd_loss" | "aimd_both" | "gradient2", _) => from.dropped(Self::new(settings)),
                _ => return Err(Damage("must be a kind of limit")),
            })
        })
    }

    /// Sets the estimate that replaces its own estimate of latency, if there is one.
    pub fn follow(&mut self, outside: Outside) {
        if let Self::Aimd(aimd) = self {
            aimd.follow(outside);
        }
    }

    /// When it last shrank; AIMD only.
    pub fn last_cut(&self) -> Option<Time> {
        if let Self::Aimd(aimd) = self { aimd.last_cut() } else { None }
    }

    /// Feeds the end of an attempt that decided something (semantics 1.2).
    pub fn feed(&mut self, class: Class, started: Time, in_flight: u32, now: Time) {
        let latency = now.since(started);
        match (self, class) {
            (Self::Aimd(aimd), Class::Ok) => aimd.on_good(latency, in_flight, now),
            (Self::Aimd(aimd), Class::Throttled) => aimd.on_throttled(started, now),
            (Self::Aimd(aimd), Class::Transient | Class::Permanent) => aimd.on_failure(latency, now),
            (Self::Aimd(aimd), Class::Timeout) => aimd.on_timeout(now),
            (Self::Gradient2(gradient), Class::Ok) => gradient.on_latency(latency, started, in_flight, now),
            (Self::Gradient2(gradient), Class::Timeout | Class::Throttled) => {
                gradient.on_drop(started, in_flight, now);
            }
            _ => {}
        }
    }
}

/// The word for a saved AIMD limit: what it has learned means something for the same signal only.
const fn saved_kind(signal: LimitSignal) -> &'static str {
    match signal {
        LimitSignal::Latency => "aimd",
        LimitSignal::Loss => "aimd_loss",
        LimitSignal::Both => "aimd_both",
    }
}
