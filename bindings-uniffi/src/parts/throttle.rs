//! The adaptive throttle.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::ThrottleSettings;
use tidegate::rng::{self, Purpose};

use super::{Pairs, class, missing, time};
use crate::{Invalid, checked};

fn throttle(pairs: &Pairs) -> Result<ThrottleSettings, Invalid> {
    checked("part", pairs)?.throttle().ok_or_else(missing)
}

/// Was a call of this class accepted? Neither yes nor no where it does not count.
#[uniffi::export]
pub fn accepted(kind: &str) -> Result<Option<bool>, Invalid> {
    Ok(tidegate::AdaptiveThrottle::accepted(class(kind)?))
}

/// What is in the window of a throttle.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct ThrottleCounts {
    /// Requests.
    pub requests: u32,
    /// Those that were accepted.
    pub accepts: u32,
}

/// The adaptive throttle.
#[derive(uniffi::Object)]
pub struct AdaptiveThrottle {
    seed: u64,
    inner: Mutex<Inner>,
}

#[derive(Clone)]
struct Inner {
    part: tidegate::AdaptiveThrottle,
    /// The call that the next draw belongs to.
    next: u64,
}

#[uniffi::export]
impl AdaptiveThrottle {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, seed: u64, now: u64) -> Result<Arc<Self>, Invalid> {
        let part = tidegate::AdaptiveThrottle::new(throttle(&pairs)?, time(now));
        Ok(Arc::new(Self { seed, inner: Mutex::new(Inner { part, next: 0 }) }))
    }

    /// The probability that a call is refused now.
    pub fn probability(&self, now: u64) -> f64 {
        let now = time(now);
        self.inner.lock().part.probability(now)
    }

    /// May a call go through?
    pub fn admit(&self, now: u64, bits: Option<u64>) -> bool {
        let now = time(now);
        let mut it = self.inner.lock();
        let bits = bits.unwrap_or_else(|| {
            it.next = it.next.wrapping_add(1);
            rng::bits(self.seed, it.next.wrapping_sub(1), Purpose::Throttle, 0)
        });
        it.part.admit(bits, now)
    }

    /// A call that was let through has ended.
    pub fn record(&self, accepted: bool, now: u64) {
        let now = time(now);
        self.inner.lock().part.record(accepted, now);
    }

    /// Requests and accepts in the window.
    pub fn counts(&self, now: u64) -> ThrottleCounts {
        let now = time(now);
        let (requests, accepts) = self.inner.lock().part.counts(now);
        ThrottleCounts { requests, accepts }
    }

    /// Is nothing in the window?
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.inner.lock().part.is_fresh(now)
    }

    /// Goes on with other settings.
    pub fn retune(&self, pairs: Pairs, now: u64) -> Result<(), Invalid> {
        let (to, now) = (throttle(&pairs)?, time(now));
        self.inner.lock().part.retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self { seed: self.seed, inner: Mutex::new(self.inner.lock().clone()) })
    }
}
