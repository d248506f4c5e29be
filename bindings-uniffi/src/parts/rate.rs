//! How fast: rate limits, and the cubic send rate.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{Duration, RateSettings};

use super::{Pairs, missing, time, until};
use crate::{Invalid, checked};

/// The settings of a rate limit.
fn rate(pairs: &Pairs) -> Result<RateSettings, Invalid> {
    checked("part", pairs)?.rate().ok_or_else(missing)
}

/// The token bucket.
#[derive(uniffi::Object)]
pub struct TokenBucket(Mutex<tidegate::TokenBucket>);

#[uniffi::export]
impl TokenBucket {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, now: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::TokenBucket::new(rate(&pairs)?, time(now))))))
    }

    /// Takes tokens: 0, or the microseconds until there are enough.
    pub fn acquire(&self, now: u64, cost: u32) -> u64 {
        let now = time(now);
        self.0.lock().try_take(cost, now).err().map_or(0, until)
    }

    /// Takes tokens, if there are enough.
    pub fn try_take(&self, now: u64, cost: u32) -> bool {
        let now = time(now);
        self.0.lock().try_take(cost, now).is_ok()
    }

    /// Microseconds until tokens in all will have flowed in beyond what is used.
    pub fn wait_for(&self, now: u64, tokens: u64) -> u64 {
        let now = time(now);
        until(self.0.lock().wait_for(tokens, now))
    }

    /// Whole tokens that are there now.
    pub fn level(&self, now: u64) -> u32 {
        let now = time(now);
        self.0.lock().level(now)
    }

    /// Is it full, as a new one is?
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Goes on with other settings.
    pub fn retune(&self, pairs: Pairs, now: u64) -> Result<(), Invalid> {
        let (to, now) = (rate(&pairs)?, time(now));
        self.0.lock().retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// The generic cell rate algorithm.
#[derive(uniffi::Object)]
pub struct Gcra(Mutex<tidegate::Gcra>);

#[uniffi::export]
impl Gcra {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::Gcra::new(rate(&pairs)?)))))
    }

    /// Takes tokens: 0, or the microseconds until there are enough.
    pub fn acquire(&self, now: u64, cost: u32) -> u64 {
        let now = time(now);
        self.0.lock().try_take(cost, now).err().map_or(0, until)
    }

    /// Takes tokens, if there are enough.
    pub fn try_take(&self, now: u64, cost: u32) -> bool {
        let now = time(now);
        self.0.lock().try_take(cost, now).is_ok()
    }

    /// Is it full, as a new one is?
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(*self.0.lock())))
    }
}

/// The cubic send rate.
#[derive(uniffi::Object)]
pub struct CubicRate(Mutex<tidegate::CubicRate>);

#[uniffi::export]
impl CubicRate {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(now: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::CubicRate::new(time(now))))))
    }

    /// Takes one send: 0, or the microseconds until there is one.
    pub fn acquire(&self, now: u64) -> u64 {
        let now = time(now);
        self.0.lock().acquire(now).err().map_or(0, Duration::as_micros)
    }

    /// Counts an answer and moves the rate.
    pub fn on_response(&self, throttled: bool, now: u64) {
        let now = time(now);
        self.0.lock().on_response(throttled, now);
    }

    /// Sends per second that are allowed, once there has been a throttle.
    pub fn rate(&self) -> Option<f64> {
        self.0.lock().rate()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(*self.0.lock())))
    }
}
