// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Delays: the backoff, and what a server asks for.

use super::{Pairs, settings};
use crate::Invalid;
use parking_lot::Mutex;
use std::sync::Arc;
use tidegate::parts::Drawn;

/// The delay before retry n = 1, 2, …: growth, cap, jitter.
#[derive(uniffi::Object)]
pub struct Backoff(pub(super) Mutex<Drawn<tidegate::Backoff>>);

#[uniffi::export]
impl Backoff {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, seed: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(Drawn::new(settings(&pairs, |policy| Some(policy.backoff()))?, seed)))))
    }

    /// How long to wait before retry `n`, 1 to 255.
    pub fn delay(&self, n: u8, call: Option<u64>) -> u64 {
        self.0.lock().delay(n, call).as_micros()
    }

    /// How long before retry `n`, 1 to 255, without jitter.
    pub fn ceiling(&self, n: u8) -> u64 {
        self.0.lock().ceiling(n).as_micros()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Microseconds that a `Retry-After` value asks for, or None; `wall_us` is the Unix time.
#[uniffi::export]
pub fn parse_retry_after(value: Vec<u8>, wall_us: u64) -> Option<u64> {
    let wall = tidegate::WallTime::from_unix_micros(wall_us);
    tidegate::parse_retry_after(&value, wall).map(tidegate::Duration::as_micros)
}
