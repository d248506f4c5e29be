//! Additive increase, multiplicative decrease (semantics 4.2): TCP's control of its window, driven by a latency
//! threshold, by throttled answers, or by both.

use super::Range;
use super::loss::Growth;
use crate::quantile::WindowedP2Quantile;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};

/// Number of samples behind `latency_quantile`.
const WINDOW: u32 = 100;
/// An estimate from fewer samples is still warming up: at p95 it would be the one outlier among them.
const WARM: u32 = 20;

/// The limit that one that follows loss begins with, within its range.
const FIRST: f64 = 20.0;

/// The settings of an AIMD limit. A minimum above the maximum counts as the maximum, and neither is below 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AimdSettings {
    /// What the limit follows; default latency.
    pub signal: LimitSignal,
    /// Largest limit, in calls. A limit that follows latency alone begins with it, others with at most 20.
    pub max_concurrency: u32,
    /// Smallest limit, in calls; default 1.
    pub min_concurrency: u32,
    /// A latency above it is a breach.
    pub latency_threshold: Duration,
    /// Increase of the limit, in calls, for `limit` completions within the threshold; above 0, default 1.
    pub increase_step: f64,
    /// Factor of the limit after a breach; between 0 and 1, default 0.9.
    pub backoff_ratio: f64,
    /// Shortest time between two cuts; default 1 s.
    pub cut_interval: Duration,
    /// If given, the signal is this quantile of the latest 50 to 100 latencies instead of each latency; between
    /// 0 and 1.
    pub latency_quantile: Option<f64>,
}

/// What cuts an AIMD limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LimitSignal {
    /// A latency above the threshold, and our timeouts.
    #[default]
    Latency,
    /// A throttled answer.
    Loss,
    /// Either of them.
    Both,
}

impl LimitSignal {
    /// Whether a throttled answer cuts the limit.
    #[inline]
    pub const fn follows_loss(self) -> bool {
        !matches!(self, Self::Latency)
    }

    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Loss => "loss",
            Self::Both => "both",
        }
    }
}

/// A concurrency limit that grows by one when as many calls as it allows stay within a latency, and shrinks by a
/// factor when they do not. Several such limits on one server share it evenly without communicating, as TCP flows
/// share a link.
///
/// The operations on the limit, an `f64`, are `limit + increase_step / limit` and `limit * backoff_ratio`, each then
/// bounded by the range.
///
/// ```
/// use tidegate::{Aimd, AimdSettings, Duration, LimitSignal, Time};
/// let ms = Duration::from_millis;
/// let mut limit = Aimd::new(AimdSettings {
///     signal: LimitSignal::Latency, max_concurrency: 20, min_concurrency: 1, latency_threshold: ms(300), increase_step: 1.0, backoff_ratio: 0.5,
///     cut_interval: ms(1_000), latency_quantile: None,
/// });
/// limit.on_latency(ms(301), Time::from_micros(0));
/// limit.on_latency(ms(900), Time::from_micros(1)); // of the same burst: once per interval
/// assert_eq!(limit.limit(), 10);
/// (0..11).for_each(|_| limit.on_latency(ms(300), Time::from_micros(2)));
/// assert_eq!(limit.limit(), 11);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Aimd {
    settings: AimdSettings,
    range: Range,
    limit: f64,
    last_cut: Option<Time>,
    recent: Option<WindowedP2Quantile>,
    /// Estimate that replaces `recent`.
    outside: Outside,
    /// How a limit that follows loss grows.
    growth: Growth,
}

/// Latencies known from outside this process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Outside {
    /// None: the own estimate applies.
    Own,
    /// Their quantile, in microseconds.
    Quantile(f64),
    /// No valid answer since the last cut: neither a breach nor a reason to grow.
    Unknown,
}

impl Aimd {
    /// Creates a limit at its maximum; one that follows loss begins with at most 20.
    pub fn new(settings: AimdSettings) -> Self {
        let range = Range::new(settings.min_concurrency, settings.max_concurrency);
        let recent = settings.latency_quantile.map(|p| WindowedP2Quantile::new(p, WINDOW));
        let limit = if settings.signal.follows_loss() { range.bound(FIRST) } else { range.max };
        let growth = Growth::default();
        Self { settings, range, limit, last_cut: None, recent, outside: Outside::Own, growth }
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
    pub fn settings(&self) -> AimdSettings {
        self.settings
    }

    /// Counts a successful call while the limit is in full use; `latency` is the deciding attempt's own time.
    #[inline]
    pub fn on_latency(&mut self, latency: Duration, now: Time) {
        self.on_good(latency, u32::MAX, now);
    }

    /// Counts a successful call; `in_flight` is the number of calls, this one included. A limit that follows loss does
    /// not grow while less than half of it is in use.
    pub fn on_good(&mut self, latency: Duration, in_flight: u32, now: Time) {
        let signal = self.settings.signal;
        let breached = if signal == LimitSignal::Loss { Some(false) } else { self.breached(latency) };
        match breached {
            Some(true) => self.cut(now),
            Some(false) => {
                let step = self.settings.increase_step;
                let grown = if signal.follows_loss() {
                    self.growth.after_good(self.limit, step, in_flight)
                } else {
                    self.limit + step / self.limit
                };
                self.limit = self.range.bound(grown);
            }
            None => {}
        }
    }

    /// Counts a throttled attempt that started at `started`. Cuts a limit that follows loss, unless the attempt started
    /// before the last cut: that cut was the answer to it.
    pub fn on_throttled(&mut self, started: Time, now: Time) {
        if self.settings.signal.follows_loss() && self.last_cut.is_none_or(|cut| started > cut) {
            self.growth.on_refusal(self.limit);
            self.shrink(self.limit.floor(), now);
        }
    }

    /// Counts a failed call, transient or permanent. It counts only if it took longer than the threshold, and never
    /// makes the limit grow: fast failures are the breaker's signal, and concurrency costs least when failures are
    /// fast.
    pub fn on_failure(&mut self, latency: Duration, now: Time) {
        if self.settings.signal != LimitSignal::Loss
            && latency > self.settings.latency_threshold
            && self.breached(latency) == Some(true)
        {
            self.cut(now);
        }
    }

    /// Counts a call cut by our attempt timeout: a breach, whatever the quantile is. The call's full latency is
    /// unknown, so it is not a sample for the estimate. A limit that follows loss alone ignores it.
    pub fn on_timeout(&mut self, now: Time) {
        if self.settings.signal != LimitSignal::Loss {
            self.cut(now);
        }
    }

    /// Sets the outside estimate, which replaces the own one.
    pub(crate) fn follow(&mut self, outside: Outside) {
        self.outside = outside;
    }

    /// When it last shrank.
    pub(crate) fn last_cut(&self) -> Option<Time> {
        self.last_cut
    }

    /// Applies new settings. A limit at its maximum has met no other bound, so it moves with the maximum; any other
    /// stays, within the new range, and so does one that follows loss. The estimate begins anew if the quantile
    /// changes, and the limit if the signal changes.
    pub fn retune(&mut self, to: AimdSettings) {
        let mut new = Self::new(to);
        if self.settings.signal != to.signal {
            *self = new;
            return;
        }
        if to.signal.follows_loss() || self.limit < self.range.max {
            new.limit = new.range.bound(self.limit);
        }
        new.last_cut = self.last_cut;
        new.growth = self.growth;
        if self.settings.latency_quantile == to.latency_quantile {
            new.recent = self.recent.take();
        }
        *self = new;
    }

    /// Whether it is like a new one: at its first limit, with no cut whose interval still runs, and without an estimate.
    pub fn is_fresh(&self, now: Time) -> bool {
        let cooling = self.last_cut.is_some_and(|cut| now.since(cut) < self.settings.cut_interval);
        let first = if self.settings.signal.follows_loss() {
            self.limit.to_bits() == self.range.bound(FIRST).to_bits() && self.growth == Growth::default()
        } else {
            self.limit >= self.range.max
        };
        first && !cooling && self.recent.as_ref().is_none_or(|recent| recent.count() == 0)
    }

    pub(crate) fn save(&self, to: &mut Saver) {
        if *self != Self::new(self.settings) {
            to.flag(self.limit >= self.range.max);
            to.real(self.limit);
            to.maybe(self.last_cut);
            if self.settings.signal.follows_loss() {
                self.growth.save(to);
            }
            if let Some(recent) = self.recent.as_ref().filter(|recent| recent.count() > 0) {
                to.list(|to| recent.save(to));
            }
        }
    }

    /// Restores a saved limit, by the rules of a retune.
    pub(crate) fn load(from: &mut Loader<'_>, settings: AimdSettings) -> Result<Self, Damage> {
        let mut it = Self::new(settings);
        let (at_most, limit) = (from.flag()?, from.positive()?);
        if !at_most || settings.signal.follows_loss() {
            it.limit = it.range.bound(limit);
        }
        it.last_cut = from.maybe_past()?;
        if settings.signal.follows_loss() {
            it.growth = Growth::load(from)?;
        }
        match &mut it.recent {
            _ if !from.has_more() => {}
            Some(recent) => *recent = from.list(|from| recent.load(from))?,
            None => return Ok(from.dropped(it)),
        }
        Ok(it)
    }

    /// Whether the signal is above the threshold. `None` while it is warming up: neither a breach nor a reason to
    /// grow.
    fn breached(&mut self, latency: Duration) -> Option<bool> {
        let Some(recent) = &mut self.recent else {
            return Some(latency > self.settings.latency_threshold);
        };
        recent.observe(latency.as_micros() as f64);
        let threshold = self.settings.latency_threshold.as_micros() as f64;
        match self.outside {
            Outside::Own => {}
            Outside::Quantile(outside) => return Some(outside > threshold),
            Outside::Unknown => return None,
        }
        recent.estimate().filter(|_| recent.count() >= WARM).map(|estimate| estimate > threshold)
    }

    /// Shrinks the limit, at most once per interval. Drops the samples, because latencies at the old concurrency say
    /// nothing about the new one.
    fn cut(&mut self, now: Time) {
        if self.last_cut.is_none_or(|cut| now.since(cut) >= self.settings.cut_interval) {
            self.growth.on_cut();
            self.shrink(self.limit, now);
        }
    }

    fn shrink(&mut self, from: f64, now: Time) {
        self.last_cut = Some(now);
        self.limit = self.range.bound(from * self.settings.backoff_ratio);
        if let Some(recent) = &mut self.recent {
            recent.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn settings() -> AimdSettings {
        AimdSettings {
            signal: LimitSignal::Latency,
            max_concurrency: 10,
            min_concurrency: 1,
            latency_threshold: ms(100),
            increase_step: 1.0,
            backoff_ratio: 0.5,
            cut_interval: ms(1_000),
            latency_quantile: None,
        }
    }

    /// The cases that the seed's own tests pin (`research/seeds.md` 2.4).
    #[test]
    fn halves_once_per_interval_and_recovers_about_one_per_round() {
        let mut limit = Aimd::new(AimdSettings { max_concurrency: 8, ..settings() });
        for (now, expected) in
            [(100_000, 4), (100_100, 4), (100_999, 4), (101_000, 2), (102_000, 1), (103_000, 1)]
        {
            limit.on_latency(ms(101), at(now));
            assert_eq!(limit.limit(), expected, "{now}");
        }
        let mut limit = Aimd::new(settings());
        limit.on_latency(ms(101), at(0));
        (0..5).for_each(|_| limit.on_latency(ms(100), at(1)));
        assert!((5.9..6.1).contains(&limit.exact()));
    }

    #[test]
    fn fast_failures_change_nothing_and_slow_ones_never_let_it_grow() {
        let mut limit = Aimd::new(settings());
        limit.on_timeout(at(0));
        let before = limit.clone();
        limit.on_failure(ms(100), at(5_000));
        assert_eq!(limit, before);
        limit.on_failure(ms(101), at(5_000));
        assert_eq!(limit.limit(), 2);
    }

    #[test]
    fn a_quantile_is_deaf_to_outliers_and_to_what_came_before_a_cut() {
        let mut limit = Aimd::new(AimdSettings { latency_quantile: Some(0.9), ..settings() });
        let mut tell = |millis: u64, count: usize, now: u64| {
            (0..count).for_each(|_| limit.on_latency(ms(millis), at(now)));
            limit.limit()
        };
        assert_eq!(tell(500, 19, 0), 10, "warming");
        assert_eq!(tell(500, 1, 0), 5);
        // A fresh estimate, and no growth before it has warmed up.
        assert_eq!(tell(500, 19, 9_000), 5);
        assert_eq!(tell(500, 1, 9_000), 2);
        assert_eq!(tell(10, 19, 20_000), 2);
        assert_eq!(tell(10, 10, 20_000), 5);
        assert_eq!(tell(10_000, 1, 20_000), 5, "one of thirty");
        assert_eq!(tell(10_000, 9, 20_000), 2, "more than a tenth");

        let mut limit = Aimd::new(AimdSettings { latency_quantile: Some(0.9), ..settings() });
        limit.on_timeout(at(0));
        (0..40).for_each(|_| limit.on_latency(ms(100), at(5_000)));
        assert_eq!(limit.limit(), 8, "at the threshold is within it");
    }

    #[test]
    fn a_slow_failure_is_a_sample_and_a_timeout_needs_no_estimate() {
        let mut limit = Aimd::new(AimdSettings { latency_quantile: Some(0.5), ..settings() });
        for _ in 0..30 {
            limit.on_failure(ms(1), at(0));
        }
        assert!(limit.is_fresh(at(0)));
        for _ in 0..19 {
            limit.on_failure(ms(101), at(0));
        }
        assert_eq!(limit.limit(), 10);
        limit.on_failure(ms(101), at(0));
        assert_eq!(limit.limit(), 5);
        limit.on_timeout(at(1_000));
        assert_eq!(limit.limit(), 2);
    }

    #[test]
    fn a_retune_keeps_what_still_has_a_meaning() {
        let mut limit = Aimd::new(settings());
        limit.retune(AimdSettings { max_concurrency: 30, ..settings() });
        assert!(limit.limit() == 30 && limit.is_fresh(at(0)));
        limit.on_timeout(at(10));
        limit.retune(AimdSettings { max_concurrency: 40, min_concurrency: 2, ..settings() });
        assert_eq!(limit.limit(), 15);
        limit.on_timeout(at(1_009));
        assert_eq!(limit.limit(), 15, "the interval goes on");
        limit.retune(AimdSettings { max_concurrency: 8, min_concurrency: 2, ..settings() });
        assert!(limit.limit() == 8 && !limit.is_fresh(at(1_009)) && limit.is_fresh(at(1_010)));
    }

    proptest! {
        #[test]
        fn the_limit_stays_within_its_range(
            range in (0u32..50, 0u32..50),
            numbers in (any::<f64>(), any::<f64>(), prop::option::of(any::<f64>())),
            spans in (prop::sample::select(vec![0, 1, u64::MAX]), prop::sample::select(vec![0, 1_000, u64::MAX])),
            signal in prop::sample::select(vec![LimitSignal::Latency, LimitSignal::Loss, LimitSignal::Both]),
            steps in prop::collection::vec((0u8..4, prop::sample::select(vec![0, 1, 1 << 40, u64::MAX]), any::<u64>()), 1..80),
        ) {
            let settings = AimdSettings {
                signal, min_concurrency: range.0, max_concurrency: range.1,
                increase_step: numbers.0, backoff_ratio: numbers.1, latency_quantile: numbers.2,
                latency_threshold: Duration::from_micros(spans.0), cut_interval: Duration::from_micros(spans.1),
            };
            let mut limit = Aimd::new(settings);
            let (least, most) = (range.0.clamp(1, range.1.max(1)), range.1.max(1));
            for (op, latency, now) in steps {
                let (latency, now) = (Duration::from_micros(latency), Time::from_micros(now));
                match op {
                    0 => limit.on_latency(latency, now),
                    1 => limit.on_failure(latency, now),
                    2 => limit.on_throttled(Time::from_micros(latency.as_micros()), now),
                    _ => limit.on_timeout(now),
                }
                prop_assert!((f64::from(least)..=f64::from(most)).contains(&limit.exact()));
                prop_assert!((least..=most).contains(&limit.limit()));
            }
        }
    }
}
