//! Latencies of the whole fleet (semantics 10.1): each process sends how many calls took how long since it last did, in the
//! buckets of a sketch, and is told the quantile of all. That stands in for the process's own estimate while it is fresh.

use std::collections::BTreeMap;

use super::super::Engine;
use super::command::{self, Subject};
use crate::fleet::{DIGEST, MOST_ITEMS};
use crate::full::Part;
use crate::limit::AimdSettings;
use crate::outcome::Class;
use crate::policy::{Bulkhead, LimitSettings};
use crate::quantile::{shared_bucket, shared_value};
use crate::time::{Duration, Time};

/// Fewer samples than this are no estimate, as with the process's own.
const WARM: u64 = 20;

/// An estimate is good for so many exchanges.
const FRESH: u64 = 3;

/// What a bulkhead's limit follows, where that is shared.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Digest {
    settings: AimdSettings,
    quantile: f64,
    /// Calls since the last exchange, by bucket.
    counts: BTreeMap<i32, u64>,
    asked_at: Option<Time>,
    out: bool,
    /// The fleet's quantile, in microseconds, and how long it is good for.
    estimate: Option<(f64, Time)>,
    every: Duration,
}

impl Digest {
    pub fn of(bulkhead: Option<&Bulkhead>) -> Option<Part<Self>> {
        let bulkhead = bulkhead.filter(|it| it.fleet_latency)?;
        let LimitSettings::Aimd(settings) = bulkhead.limit else { return None };
        let it = Self {
            settings: *settings,
            quantile: settings.latency_quantile?,
            counts: BTreeMap::new(),
            asked_at: None,
            out: false,
            estimate: None,
            every: Duration::ZERO,
        };
        Some(Part::new(it, settings.full()))
    }

    /// After a fork: what was counted is the parent's to tell.
    pub fn forget(&mut self) {
        self.counts.clear();
        self.out = false;
    }

    /// How long a slice of the store's is: what is older than two of them is forgotten. A cut has had its effect by then.
    fn slice(&self) -> Duration {
        self.settings.cooldown.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }
}

impl Engine {
    /// An attempt that says something about latency has ended: it is counted, and the limit is told what the fleet knows.
    #[inline(never)]
    pub(in crate::engine) fn share_latency(
        &mut self,
        slot: u32,
        home: u32,
        (class, started): (Class, Time),
        now: Time,
    ) {
        let (every, within) = (self.settings(slot).store_exchange, self.settings(slot).store_timeout);
        self.watch_store(now);
        let Some(digest) = &mut self.routes[home].digest else { return };
        digest.every = every;
        let latency = now.since(started);
        let counts = match class {
            Class::Ok => true,
            Class::Transient | Class::Permanent => latency > digest.settings.latency_threshold,
            _ => false,
        };
        if counts {
            *digest.counts.entry(shared_bucket(latency.as_micros() as f64)).or_default() += 1;
        }
        let due = digest.asked_at.is_none_or(|asked| now.since(asked) >= every) && !digest.out;
        let estimate = digest.estimate.filter(|(_, until)| now < *until).map(|it| it.0);
        if let Some(pool) = &mut self.routes[home].pool {
            pool.limiter.follow(estimate);
        }
        if !due || !self.may_send(home, command::Part::Digest, now) {
            return;
        }
        let Some(digest) = &mut self.routes[home].digest else { return };
        let ppm = (digest.quantile * 1e6) as u64;
        let mut args = vec![digest.slice().as_micros(), ppm];
        for _ in 0..MOST_ITEMS {
            let Some((bucket, count)) = digest.counts.pop_first() else { break };
            args.extend([u64::from(bucket.unsigned_abs()), count]);
        }
        (digest.asked_at, digest.out) = (Some(now), true);
        self.send(&DIGEST, (home, Subject::Digest), (None, &args), within, now);
    }

    pub(super) fn digest_out(&mut self, home: u32, out: bool) {
        if let Some(digest) = &mut self.routes[home].digest {
            digest.out = out;
        }
    }

    /// The store has told the fleet's quantile.
    pub(super) fn digest_told(&mut self, home: u32, answer: &[u64], now: Time) {
        let (Some(digest), &[count, bucket]) = (&mut self.routes[home].digest, answer) else { return };
        let until = now.after(Duration::from_micros(digest.every.as_micros().saturating_mul(FRESH)));
        let bucket = i32::try_from(bucket).ok().filter(|_| count >= WARM);
        digest.estimate = bucket.map(|bucket| (shared_value(bucket), until));
    }

    /// A bulkhead has other settings.
    pub(in crate::engine) fn retune_digest(&mut self, home: u32, to: Option<&Bulkhead>) {
        let it = &mut self.routes[home].digest;
        match (it.as_mut(), Digest::of(to)) {
            (Some(digest), Some(to)) => (digest.settings, digest.quantile) = (to.settings, to.quantile),
            (_, to) => *it = to,
        }
    }
}
