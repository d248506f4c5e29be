//! Gradient2 (semantics 4.3; Netflix `concurrency-limits`): a limit that follows the ratio of a long-term latency to
//! the latest one, so that no threshold has to be configured.

mod steady;

use super::{Range, between};
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};
use steady::Steady;

/// Initial limit, if the range allows it.
const INITIAL: f64 = 20.0;
/// Number of samples whose plain mean is the first baseline.
const WARM_UP: u32 = 10;
/// Smallest factor of one decrease.
const DEEPEST: f64 = 0.5;
/// Fraction of an increase that is applied at once.
const SMOOTHING: f64 = 0.2;
/// A baseline more than `STALE` times the latest RTT shrinks by `DECAY`, so that it recovers from a slow period.
const STALE: f64 = 2.0;
const DECAY: f64 = 0.95;

/// Variant of Gradient2. All of them keep the limit while less than half of it is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gradient2Variant {
    /// Semantics 4.3: cuts to `limit · g`, once per round trip; grows by `0.2 · headroom` for each other sample; a drop is
    /// a gradient of 0.5.
    Guarded,
    /// One decision per round trip, from the mean of its samples. A cut goes below the knee, and the baseline ignores
    /// our own queueing. Settles near the knee, where `Guarded` can run away (`docs/adr`).
    Steady,
    /// The seed document: every sample moves the limit, decreases are direct; successes only, baseline weight `1/W`,
    /// no decay. It never falls below `2 · headroom`.
    Plain,
    /// The reference, sample for sample, except for RTTs of 0, which make it NaN for ever.
    Netflix,
}

/// The settings of a Gradient2 limit. A minimum above the maximum counts as the maximum, and neither is below 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gradient2Settings {
    /// Largest limit, in calls.
    pub max_concurrency: u32,
    /// Smallest limit, in calls; default 1.
    pub min_concurrency: u32,
    /// Number of samples in the baseline's average; at least 2, default 600.
    pub long_window: u32,
    /// Ratio to the baseline up to which latency is not congestion; at least 1, default 1.5.
    pub rtt_tolerance: f64,
    /// Calls by which the limit may exceed what latency shows to be free; at least 0, default 4.
    pub headroom: f64,
    /// Variant of the algorithm.
    pub variant: Gradient2Variant,
}

/// A concurrency limit that finds the knee of the latency curve by itself.
///
/// All RTTs are whole microseconds, taken as `f64` and at least 1. The order of operations is fixed, so that every
/// language computes the same limit to the last bit: an average is `long · (1 − a) + rtt · a` (`Plain`: `long · (1 −
/// 1/W) + rtt/W`), a gradient `tolerance · long / rtt` from the left, within 0.5 and 1, and the limit is bounded
/// last.
///
/// ```
/// use tidegate::{Duration, Gradient2, Gradient2Settings, Gradient2Variant, Time};
/// let mut limit = Gradient2::new(Gradient2Settings {
///     max_concurrency: 200, min_concurrency: 1, long_window: 600, rtt_tolerance: 1.5, headroom: 4.0,
///     variant: Gradient2Variant::Guarded,
/// });
/// let at = |millis: u64| Time::from_micros(millis * 1_000);
/// limit.on_latency(Duration::from_millis(100), at(0), 20, at(100));
/// assert_eq!(limit.exact(), 20.8, "as fast as ever: 0.2 · headroom more");
/// limit.on_latency(Duration::from_millis(900), at(0), 20, at(900));
/// assert_eq!(limit.limit(), 17, "slower than 1.5 times the mean of the two: limit · 750/900");
/// limit.on_drop(at(10), 20, at(1_000));
/// assert_eq!(limit.limit(), 17, "started before the last cut: that it was too much is known");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Gradient2 {
    settings: Gradient2Settings,
    range: Range,
    limit: f64,
    baseline: Baseline,
    last_cut: Option<Time>,
    steady: Steady,
}

/// The long-term RTT in µs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Baseline {
    long: f64,
    /// Number of samples (or means) so far, up to the end of the warm-up.
    count: u32,
    sum: f64,
}

impl Gradient2 {
    /// Creates a limit without history: 20, within its range.
    pub fn new(settings: Gradient2Settings) -> Self {
        let range = Range::new(settings.min_concurrency, settings.max_concurrency);
        Self {
            settings,
            range,
            limit: range.bound(INITIAL),
            baseline: Baseline::default(),
            last_cut: None,
            steady: Steady::default(),
        }
    }

    /// Calls that may be in flight.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// The limit with its internal fraction.
    pub fn exact(&self) -> f64 {
        self.limit
    }

    /// The settings in force.
    pub fn settings(&self) -> Gradient2Settings {
        self.settings
    }

    /// The baseline in µs; `None` before the first sample.
    pub fn baseline(&self) -> Option<f64> {
        (self.baseline.count > 0).then_some(self.baseline.long)
    }

    /// Counts a successful call: the deciding attempt took `rtt` and started at `started`; `in_flight` calls were in
    /// flight, including this one.
    #[inline]
    pub fn on_latency(&mut self, rtt: Duration, started: Time, in_flight: u32, now: Time) {
        let micros = rtt.as_micros().max(1);
        let rtt = micros as f64;
        match self.settings.variant {
            Gradient2Variant::Guarded => {
                let g = self.gradient(rtt);
                self.guarded(g, started, in_flight, now);
            }
            Gradient2Variant::Steady => self.steady(micros, started, in_flight, now),
            Gradient2Variant::Plain => self.plain(rtt, in_flight),
            Gradient2Variant::Netflix => {
                let g = self.gradient(rtt);
                if self.is_busy(in_flight) {
                    let new = self.limit * g + self.settings.headroom;
                    self.limit = self.range.bound(self.limit * (1.0 - SMOOTHING) + new * SMOOTHING);
                }
            }
        }
    }

    /// Counts a call that our attempt timeout cut, or that the server throttled. `Plain` and `Netflix` ignore drops.
    pub fn on_drop(&mut self, started: Time, in_flight: u32, now: Time) {
        match self.settings.variant {
            Gradient2Variant::Guarded => self.guarded(DEEPEST, started, in_flight, now),
            Gradient2Variant::Steady => self.steady_drop(started, in_flight, now),
            Gradient2Variant::Plain | Gradient2Variant::Netflix => {}
        }
    }

    /// Applies new settings: the limit stays, within the new range, and so do the learned values.
    pub fn retune(&mut self, to: Gradient2Settings) {
        self.range = Range::new(to.min_concurrency, to.max_concurrency);
        self.limit = self.range.bound(self.limit);
        self.settings = to;
    }

    /// Whether it is like a new one. Only before its first sample or drop, because learned values are worth keeping.
    pub fn is_fresh(&self) -> bool {
        *self == Self::new(self.settings)
    }

    pub(crate) fn save(&self, to: &mut Saver) {
        if !self.is_fresh() {
            to.real(self.limit);
            to.real(self.baseline.long);
            to.count(self.baseline.count);
            to.real(self.baseline.sum);
            to.maybe(self.last_cut);
            self.steady.save(to);
        }
    }

    /// Restores a saved limit, by the rules of a retune.
    pub(crate) fn load(from: &mut Loader<'_>, settings: Gradient2Settings) -> Result<Self, Damage> {
        let new = Self::new(settings);
        Ok(Self {
            limit: new.range.bound(from.positive()?),
            baseline: Baseline { long: from.positive()?, count: from.count()?, sum: from.positive()? },
            last_cut: from.maybe_past()?,
            steady: Steady::load(from)?,
            ..new
        })
    }

    /// Whether at least half the limit is in flight. Below that, latency says nothing about the limit.
    fn is_busy(&self, in_flight: u32) -> bool {
        f64::from(in_flight) >= self.limit / 2.0
    }

    /// Adds an RTT to the baseline, and returns their ratio as a gradient. The decay comes after.
    fn gradient(&mut self, rtt: f64) -> f64 {
        let weight = 2.0 / (f64::from(self.settings.long_window) + 1.0);
        let long = self.baseline.take(rtt, weight.min(1.0));
        self.baseline.decay(rtt);
        between(self.settings.rtt_tolerance * long / rtt, DEEPEST, 1.0)
    }

    fn guarded(&mut self, g: f64, started: Time, in_flight: u32, now: Time) {
        if !self.is_busy(in_flight) {
            return;
        }
        if g >= 1.0 {
            self.limit = self.range.bound(self.limit + SMOOTHING * self.settings.headroom);
        } else if self.last_cut.is_none_or(|cut| started > cut) {
            // Calls in flight at the last cut were slowed by the concurrency before it.
            self.last_cut = Some(now);
            self.limit = self.range.bound(self.limit * g);
        }
    }

    fn plain(&mut self, rtt: f64, in_flight: u32) {
        let window = f64::from(self.settings.long_window.max(1));
        let first = self.baseline.count == 0;
        let long = if first { rtt } else { self.baseline.long * (1.0 - 1.0 / window) + rtt / window };
        self.baseline = Baseline { long, count: 1, sum: 0.0 };
        if self.is_busy(in_flight) {
            let g = between(self.settings.rtt_tolerance * long / rtt, DEEPEST, 1.0);
            let new = self.limit * g + self.settings.headroom;
            let new = if new > self.limit { self.limit + SMOOTHING * (new - self.limit) } else { new };
            self.limit = self.range.bound(new);
        }
    }
}

impl Baseline {
    /// Adds a sample: a plain mean during the warm-up, then an average with this weight for the latest sample.
    fn take(&mut self, rtt: f64, weight: f64) -> f64 {
        if self.count < WARM_UP {
            self.count += 1;
            self.sum += rtt;
            self.long = self.sum / f64::from(self.count);
        } else {
            self.long = self.long * (1.0 - weight) + rtt * weight;
        }
        self.long
    }

    fn decay(&mut self, rtt: f64) {
        if self.long / rtt > STALE {
            self.long *= DECAY;
        }
    }
}

#[cfg(test)]
mod tests;
