//! Latencies of the whole fleet (semantics 10.1). Each process sends how many calls had which latency since its last
//! message, in the buckets of a sketch, and gets the quantile of all processes. While fresh, that replaces the
//! process's own estimate.
//!
//! One period of high latency must cut the limit only once. After [`Digest::memory`], the store has dropped all
//! samples from before a cut. Until then no answer counts, and the limit neither shrinks nor grows because of one.

mod stage;

use crate::engine::place::PoolAt;
use crate::engine::route::Routes;
use crate::engine::stage::missing;
use std::collections::BTreeMap;

use crate::full::Part;
use crate::limit::{AimdSettings, Outside};
use crate::policy::{Bulkhead, LimitSettings};
use crate::quantile::{shared_bucket, shared_value};
use crate::time::{Duration, Time};

/// Fewer samples than this give no estimate, as for the process's own.
const WARM: u64 = 20;

/// The longest latency that a fleet's quantile may have.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

/// An estimate is valid for this many exchanges.
const FRESH: u64 = 3;

/// Latencies that have waited to be sent for more exchanges than this are dropped.
const KEPT: u64 = 2;

/// State of a bulkhead's limit that follows the fleet's latencies.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Digest {
    settings: AimdSettings,
    quantile: f64,
    /// Counts of calls since the last exchange, by bucket, and when the first of them ended.
    counts: BTreeMap<i32, u64>,
    since: Time,
    asked_at: Option<Time>,
    out: bool,
    /// The fleet's quantile, in microseconds, and until when it is valid.
    estimate: Option<(f64, Time)>,
    /// The limit's last cut known here. If the fleet's quantile caused it, the quantile is unknown until an answer
    /// without earlier samples arrives, or until `unknown_until`.
    cut: Option<Time>,
    unknown_until: Time,
    /// `store_exchange` and `store_timeout` from the policy of the last call.
    every: Duration,
    within: Duration,
}

impl Digest {
    pub fn of(bulkhead: Option<&Bulkhead>) -> Option<Part<Self>> {
        let bulkhead = bulkhead.filter(|it| it.fleet_latency.is_on())?;
        let LimitSettings::Aimd(settings) = bulkhead.limit else { return None };
        let it = Self {
            settings: *settings,
            quantile: settings.latency_quantile?,
            counts: BTreeMap::new(),
            since: Time::default(),
            asked_at: None,
            out: false,
            estimate: None,
            cut: None,
            unknown_until: Time::default(),
            every: Duration::ZERO,
            within: Duration::ZERO,
        };
        Some(Part::new(it, settings.full()))
    }

    /// After a fork: the parent reports what was counted.
    pub fn forget(&mut self) {
        self.counts.clear();
        self.out = false;
    }

    /// Length of a slice in the store, which forgets samples older than two slices.
    fn slice(&self) -> Duration {
        let half = Duration::from_micros(self.settings.cut_interval.as_micros() / 2);
        half.clamp(Duration::from_millis(500), Duration::from_secs(60))
    }

    fn exchanges(&self, count: u64) -> Duration {
        Duration::from_micros(self.every.as_micros().saturating_mul(count))
    }

    /// Time after which the store's answers contain no sample from before a given moment: two slices after the last
    /// process has sent its samples, and that command has arrived.
    fn memory(&self) -> Duration {
        let slices = Duration::from_micros(self.slice().as_micros() * 2);
        slices.plus(self.exchanges(KEPT)).plus(self.within)
    }

    /// Counts a call whose latency is a valid sample. Drops samples taken while the store was lost, or that have
    /// waited for long, because they say nothing about the present.
    fn count(&mut self, latency: Option<Duration>, up: bool, now: Time) {
        if !up || now.since(self.since) > self.exchanges(KEPT) {
            self.counts.clear();
        }
        let Some(latency) = latency.filter(|_| up) else { return };
        if self.counts.is_empty() {
            self.since = now;
        }
        *self.counts.entry(shared_bucket(latency.as_micros() as f64)).or_default() += 1;
    }

    /// The outside estimate that the limit follows, given that its last cut was at `cut`.
    fn outside(&mut self, cut: Option<Time>, up: bool, now: Time) -> Outside {
        if cut != self.cut {
            self.cut = cut;
            let until = self.estimate.take().map_or(self.unknown_until, |(_, until)| until);
            if cut.is_some_and(|cut| cut < until) {
                self.unknown_until = now.after(self.memory()).after(self.exchanges(FRESH));
            }
        }
        match self.estimate.filter(|(_, until)| now < *until) {
            Some((quantile, _)) => Outside::Quantile(quantile),
            None if up && now < self.unknown_until => Outside::Unknown,
            None => Outside::Own,
        }
    }
}

impl Routes {
    pub(super) fn digest_out(&mut self, home: PoolAt, out: bool) {
        match &mut self[home].digest {
            Some(digest) => digest.out = out,
            None => missing("the latencies of a pool of the fleet's"),
        }
    }

    /// Applies the fleet's quantile from the reply to a command sent at `sent`.
    pub(super) fn on_digest_reply(&mut self, home: PoolAt, sent: Time, answer: &[u64], now: Time) {
        let it = &mut self[home];
        let (Some(digest), &[count, bucket]) = (&mut it.digest, answer) else {
            return missing("the latencies of a pool of the fleet's");
        };
        let cut = it.pool.as_ref().and_then(|pool| pool.limiter.last_cut());
        if cut.is_some_and(|cut| sent < cut.after(digest.memory())) {
            return; // it may count calls from before the cut
        }
        let until = sent.after(digest.exchanges(FRESH));
        digest.unknown_until = now;
        let bucket = i32::try_from(bucket).ok().filter(|_| count >= WARM);
        // No latency is below a microsecond or beyond the longest span that a policy allows.
        let value = |bucket| shared_value(bucket).clamp(1.0, LONGEST.as_micros() as f64);
        digest.estimate = bucket.map(|bucket| (value(bucket), until));
    }

    /// Applies new settings of a bulkhead.
    pub(in crate::engine) fn retune_digest(&mut self, home: PoolAt, to: Option<&Bulkhead>) {
        let it = &mut self[home].digest;
        match (it.as_mut(), Digest::of(to)) {
            (Some(digest), Some(to)) => (digest.settings, digest.quantile) = (to.settings, to.quantile),
            (_, to) => *it = to,
        }
    }
}
