// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How fast: rate limits, and the cubic send rate.

use super::{Pairs, settings, time, until};
use crate::Invalid;
use parking_lot::Mutex;
use std::sync::Arc;

/// A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).
#[derive(uniffi::Object)]
pub struct TokenBucket(pub(super) Mutex<tidegate::TokenBucket>);

#[uniffi::export]
impl TokenBucket {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, now: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::TokenBucket::new(
            settings(&pairs, tidegate::Policy::rate)?,
            time(now),
        )))))
    }

    /// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
    pub fn try_take(&self, now: u64, cost: u32) -> bool {
        let now = time(now);
        self.0.lock().try_take(cost, now).is_ok()
    }

    /// Takes `cost` tokens, or takes none and says when to come back.
    pub fn acquire(&self, now: u64, cost: u32) -> u64 {
        let now = time(now);
        self.0.lock().try_take(cost, now).err().map_or(0, until)
    }

    /// How long until `tokens` in all (0 to 2^64 − 1) will have flowed in beyond what is used; takes none.
    pub fn wait_for(&self, now: u64, tokens: u64) -> u64 {
        let now = time(now);
        until(self.0.lock().wait_for(tokens, now))
    }

    /// Whole tokens that are available now.
    pub fn level(&self, now: u64) -> u32 {
        let now = time(now);
        self.0.lock().level(now)
    }

    /// Whether it is full, as a new one is.
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Applies new settings.
    pub fn retune(&self, pairs: Pairs, now: u64) -> Result<(), Invalid> {
        let to = settings(&pairs, tidegate::Policy::rate)?;
        let now = time(now);
        self.0.lock().retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).
#[derive(uniffi::Object)]
pub struct Gcra(pub(super) Mutex<tidegate::Gcra>);

#[uniffi::export]
impl Gcra {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::Gcra::new(settings(&pairs, tidegate::Policy::rate)?)))))
    }

    /// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
    pub fn try_take(&self, now: u64, cost: u32) -> bool {
        let now = time(now);
        self.0.lock().try_take(cost, now).is_ok()
    }

    /// Takes `cost` tokens, or takes none and says when to come back.
    pub fn acquire(&self, now: u64, cost: u32) -> u64 {
        let now = time(now);
        self.0.lock().try_take(cost, now).err().map_or(0, until)
    }

    /// Whether it is full, as a new one is.
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).
#[derive(uniffi::Object)]
pub struct CubicRate(pub(super) Mutex<tidegate::CubicRate>);

#[uniffi::export]
impl CubicRate {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(now: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::CubicRate::new(time(now))))))
    }

    /// Takes one send: 0, or the time to wait before asking again.
    pub fn acquire(&self, now: u64) -> u64 {
        let now = time(now);
        self.0.lock().acquire(now).err().map_or(0, until)
    }

    /// Counts an answer: a throttled one cuts the rate, any other lets it grow.
    pub fn on_response(&self, throttled: bool, now: u64) {
        let now = time(now);
        self.0.lock().on_response(throttled, now);
    }

    /// Sends per second that are allowed; `None` before the first throttle.
    pub fn rate(&self) -> Option<f64> {
        self.0.lock().rate()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}
