//! Delays: the backoff, and what a server asks for.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::rng::{self, Purpose};
use tidegate::{Duration, WallTime};

use super::Pairs;
use crate::{Invalid, checked};

/// Microseconds that a `Retry-After` value asks for, or None; `wall_us` is the Unix time.
#[uniffi::export]
pub fn parse_retry_after(value: Vec<u8>, wall_us: u64) -> Option<u64> {
    tidegate::parse_retry_after(&value, WallTime::from_unix_micros(wall_us)).map(Duration::as_micros)
}

/// Delays between attempts.
#[derive(uniffi::Object)]
pub struct Backoff {
    pub(super) inner: tidegate::Backoff,
    seed: u64,
    /// The call that the next draw without a call of its own belongs to.
    next: Mutex<u64>,
}

#[uniffi::export]
impl Backoff {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, seed: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self { inner: checked("part", &pairs)?.backoff(), seed, next: Mutex::new(0) }))
    }

    /// Microseconds before retry `n`.
    pub fn delay(&self, n: u8, call: Option<u64>) -> u64 {
        let call = call.unwrap_or_else(|| {
            let mut next = self.next.lock();
            *next = next.wrapping_add(1);
            next.wrapping_sub(1)
        });
        let draw = |i| rng::bits(self.seed, call, Purpose::Backoff, i as u8);
        self.inner.nth_delay(u32::from(n), draw).as_micros()
    }

    /// Microseconds before retry `n` without jitter.
    pub fn ceiling(&self, n: u8) -> u64 {
        self.inner.ceiling(u32::from(n)).as_micros()
    }

    /// Another that draws the same delays from here on.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self { inner: self.inner, seed: self.seed, next: Mutex::new(*self.next.lock()) })
    }
}
