//! The steady variant; `docs/adr` explains the design. In short: `Guarded` grows by a step for each sample, which is
//! four fifths of the limit per round trip, and its baseline averages the queueing that this causes. So under a load
//! that uses any limit fully, the baseline follows the limit up to the maximum.

use super::{DECAY, DEEPEST, Gradient2, SMOOTHING, STALE};
use crate::limit::between;
use crate::state::{Damage, Loader, Saver};
use crate::time::Time;

/// Least number of samples for a decision: one slow call is an outlier, and the mean of ten is a signal.
const LEAST: u32 = 10;
/// A cut goes to this fraction of the concurrency at which the baseline would have been kept, so that later samples
/// are free of our own queueing. At 1 the baseline would only ever confirm itself.
const BELOW_THE_KNEE: f64 = 0.9;
/// If calls are slow even then, the cause is not our concurrency: the baseline rises, by a twentieth at most.
const RISE: f64 = 1.05;
/// The limit grows by one part in this many if that is more than a step. So a large limit is reached in as many
/// decisions as a small one, and it recovers from occasional cuts due to noise.
const PART: f64 = 32.0;
/// While calls stay slower than before the first cut, the limit grows to at most this many times its value at that
/// cut. Otherwise a latency that does not follow the limit (an open loop) would raise first the baseline and then the
/// limit to its maximum. Below 2, the promise of semantics 4.3, because the epoch of the first cut comes late.
const MOST: f64 = 1.5;

/// The present epoch: calls that started after the last decision.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Steady {
    began: Option<Time>,
    count: u32,
    sum: u64,
    busiest: u32,
    after_cut: bool,
    slow: Option<Slow>,
}

/// State before calls became slow: the baseline, and the limit that it had justified.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Slow {
    baseline: f64,
    limit: f64,
}

impl Steady {
    pub(super) fn save(&self, to: &mut Saver) {
        to.maybe(self.began);
        to.count(self.count);
        to.whole(self.sum);
        to.count(self.busiest);
        to.flag(self.after_cut);
        if let Some(slow) = self.slow {
            to.real(slow.baseline);
            to.real(slow.limit);
        }
    }

    pub(super) fn load(from: &mut Loader<'_>) -> Result<Self, Damage> {
        Ok(Self {
            began: from.maybe_past()?,
            count: from.count()?,
            sum: from.whole()?,
            busiest: from.count()?,
            after_cut: from.flag()?,
            slow: if from.has_more() {
                Some(Slow { baseline: from.positive()?, limit: from.positive()? })
            } else {
                None
            },
        })
    }
}

impl Gradient2 {
    /// Adds one sample, of at least 1 µs. Decides once there are at least ten samples and at least half the limit.
    pub(super) fn steady(&mut self, micros: u64, started: Time, in_flight: u32, now: Time) {
        let epoch = &mut self.steady;
        if epoch.began.is_some_and(|began| started <= began) {
            return;
        }
        epoch.count = epoch.count.saturating_add(1);
        epoch.sum = epoch.sum.saturating_add(micros);
        epoch.busiest = epoch.busiest.max(in_flight);
        let Steady { count, sum, busiest, after_cut, slow, .. } = *epoch;
        if count < LEAST || f64::from(count) < self.limit / 2.0 {
            return;
        }
        let mean = sum as f64 / f64::from(count);
        let busy = self.is_busy(busiest);
        // As fast as before, or slow with little in flight: then our concurrency is not the cause, and growth is
        // safe.
        let mut slow = slow.filter(|slow| busy && mean > slow.baseline * RISE);
        self.learn(mean, count, busy, after_cut);
        let long = self.baseline.long;
        let cut = busy && self.settings.rtt_tolerance * long < mean;
        if cut {
            slow = slow.or(Some(Slow { baseline: long, limit: self.limit }));
            let g = between(BELOW_THE_KNEE * long / mean, DEEPEST, 1.0);
            self.limit = self.range.bound(self.limit * g);
        } else if busy {
            let step = (SMOOTHING * self.settings.headroom).max(self.limit / PART);
            let most = slow.map_or(f64::INFINITY, |slow| self.limit.max(slow.limit * MOST));
            self.limit = self.range.bound(between(self.limit + step, 0.0, most));
        }
        self.steady = Steady { began: Some(now), after_cut: cut, slow, ..Steady::default() };
    }

    /// Handles a drop: halves the limit at once, without a mean, at most once per epoch.
    pub(super) fn steady_drop(&mut self, started: Time, in_flight: u32, now: Time) {
        if self.steady.began.is_none_or(|began| started > began) && self.is_busy(in_flight) {
            let slow = Slow { baseline: self.baseline.long, limit: self.limit };
            let slow = self.steady.slow.or((self.baseline.count > 0).then_some(slow));
            self.limit = self.range.bound(self.limit * DEEPEST);
            self.steady = Steady { began: Some(now), after_cut: true, slow, ..Steady::default() };
        }
    }

    /// Moves the baseline by the mean of an epoch: always down; up only while we are not the cause, or right after a
    /// cut.
    fn learn(&mut self, mean: f64, count: u32, busy: bool, after_cut: bool) {
        let base = &mut self.baseline;
        if base.count == 0 {
            (base.count, base.long) = (1, mean);
        }
        if mean < base.long || !busy {
            let weight = 2.0 * f64::from(count) / (f64::from(self.settings.long_window) + 1.0);
            base.long += (mean - base.long) * weight.min(1.0);
        } else if after_cut {
            base.long = mean.min(base.long * RISE);
        }
        if base.long / mean > STALE {
            base.long *= DECAY;
        }
    }
}
