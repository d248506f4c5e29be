//! Latencies of the whole fleet (semantics 10.1): each process sends how many calls took how long since it last did, in the
//! buckets of a sketch, and gets the quantile of all. That stands in for the process's own estimate while it is fresh.
//!
//! A slowness is cut for once. Whatever was measured before a cut has left the store after [`Digest::memory`]: until then no
//! answer counts, and the limit neither shrinks nor grows by one.

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

/// Fewer samples than this are no estimate, as with the process's own.
const WARM: u64 = 20;

/// The longest latency that a fleet's quantile can be.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

/// An estimate is good for so many exchanges.
const FRESH: u64 = 3;

/// Latencies that have waited for more exchanges than this to be sent are not sent as new.
const KEPT: u64 = 2;

/// What a bulkhead's limit follows, where that is shared.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Digest {
    settings: AimdSettings,
    quantile: f64,
    /// Calls since the last exchange, by bucket, and when the first of them ended.
    counts: BTreeMap<i32, u64>,
    since: Time,
    asked_at: Option<Time>,
    out: bool,
    /// The fleet's quantile, in microseconds, and how long it is good for.
    estimate: Option<(f64, Time)>,
    /// The limit's last cut that is known here. Where the fleet's quantile has made it, nothing is known until an answer
    /// without what was before it comes, or this long.
    cut: Option<Time>,
    unknown_until: Time,
    /// `store_exchange` and `store_timeout`, as the last call's policy has them.
    every: Duration,
    within: Duration,
}

impl Digest {
    pub fn of(bulkhead: Option<&Bulkhead>) -> Option<Part<Self>> {
        let bulkhead = bulkhead.filter(|it| it.fleet_latency)?;
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

    /// After a fork: what was counted is the parent's to tell.
    pub fn forget(&mut self) {
        self.counts.clear();
        self.out = false;
    }

    /// How long a slice of the store's is: what is older than two of them is forgotten.
    fn slice(&self) -> Duration {
        let half = Duration::from_micros(self.settings.cooldown.as_micros() / 2);
        half.clamp(Duration::from_millis(500), Duration::from_secs(60))
    }

    fn exchanges(&self, count: u64) -> Duration {
        Duration::from_micros(self.every.as_micros().saturating_mul(count))
    }

    /// So long after a moment the store tells nothing that was measured before it: two slices after the last process has
    /// sent it, and that command has arrived.
    fn memory(&self) -> Duration {
        let slices = Duration::from_micros(self.slice().as_micros() * 2);
        slices.plus(self.exchanges(KEPT)).plus(self.within)
    }

    /// Counts a call, where it says something about latency. What was measured while the store was gone, or has waited for
    /// long, says nothing about now and is dropped.
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

    /// What the limit follows, where its last cut was at `cut`.
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

    /// Takes the fleet's quantile from the reply to a command of `sent`.
    pub(super) fn on_digest_reply(&mut self, home: PoolAt, sent: Time, answer: &[u64], now: Time) {
        let it = &mut self[home];
        let (Some(digest), &[count, bucket]) = (&mut it.digest, answer) else {
            return missing("the latencies of a pool of the fleet's");
        };
        let cut = it.pool.as_ref().and_then(|pool| pool.limiter.last_cut());
        if cut.is_some_and(|cut| sent < cut.after(digest.memory())) {
            return; // it may count calls of before the cut
        }
        let until = sent.after(digest.exchanges(FRESH));
        digest.unknown_until = now;
        let bucket = i32::try_from(bucket).ok().filter(|_| count >= WARM);
        // No latency is below a microsecond or beyond the longest span that a policy knows.
        let value = |bucket| shared_value(bucket).clamp(1.0, LONGEST.as_micros() as f64);
        digest.estimate = bucket.map(|bucket| (value(bucket), until));
    }

    /// A bulkhead has other settings.
    pub(in crate::engine) fn retune_digest(&mut self, home: PoolAt, to: Option<&Bulkhead>) {
        let it = &mut self[home].digest;
        match (it.as_mut(), Digest::of(to)) {
            (Some(digest), Some(to)) => (digest.settings, digest.quantile) = (to.settings, to.quantile),
            (_, to) => *it = to,
        }
    }
}
