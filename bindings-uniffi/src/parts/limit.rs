// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How much at once: the controllers of adaptive limits, and of a queue.

use super::{Pairs, settings, span, time};
use crate::Invalid;
use parking_lot::Mutex;
use std::sync::Arc;

/// A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.
#[derive(uniffi::Object)]
pub struct Aimd(pub(super) Mutex<tidegate::Aimd>);

#[uniffi::export]
impl Aimd {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::Aimd::new(settings(&pairs, tidegate::Policy::aimd)?)))))
    }

    /// Calls that may be in flight.
    pub fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with the fraction that it keeps inside.
    pub fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// A call has ended well, after `latency`: 0 or more.
    pub fn on_latency(&self, latency: u64, now: u64) {
        let latency = span(latency);
        let now = time(now);
        self.0.lock().on_latency(latency, now);
    }

    /// A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach.
    pub fn on_failure(&self, latency: u64, now: u64) {
        let latency = span(latency);
        let now = time(now);
        self.0.lock().on_failure(latency, now);
    }

    /// A call was stopped by its timeout, which is a breach whatever the quantile is.
    pub fn on_timeout(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_timeout(now);
    }

    /// Whether it is as new: at its maximum, with no recent cut and no estimate.
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Applies new settings.
    pub fn retune(&self, pairs: Pairs) -> Result<(), Invalid> {
        let to = settings(&pairs, tidegate::Policy::aimd)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).
#[derive(uniffi::Object)]
pub struct Gradient2(pub(super) Mutex<tidegate::Gradient2>);

#[uniffi::export]
impl Gradient2 {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::Gradient2::new(settings(
            &pairs,
            tidegate::Policy::gradient2,
        )?)))))
    }

    /// Calls that may be in flight.
    pub fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with the fraction that it keeps inside.
    pub fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// The long-term latency in seconds; `None` before the first sample.
    pub fn baseline(&self) -> Option<f64> {
        self.0.lock().baseline().map(|micros| micros / 1e6)
    }

    /// A call has ended well.
    pub fn on_latency(&self, rtt: u64, started: u64, in_flight: u32, now: u64) {
        let rtt = span(rtt);
        let started = time(started);
        let now = time(now);
        self.0.lock().on_latency(rtt, started, in_flight, now);
    }

    /// A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.
    pub fn on_drop(&self, started: u64, in_flight: u32, now: u64) {
        let started = time(started);
        let now = time(now);
        self.0.lock().on_drop(started, in_flight, now);
    }

    /// Whether it is as new: before its first sample or drop.
    pub fn is_fresh(&self) -> bool {
        self.0.lock().is_fresh()
    }

    /// Applies new settings.
    pub fn retune(&self, pairs: Pairs) -> Result<(), Invalid> {
        let to = settings(&pairs, tidegate::Policy::gradient2)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).
#[derive(uniffi::Object)]
pub struct CoDel(pub(super) Mutex<tidegate::CoDel>);

#[uniffi::export]
impl CoDel {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, now: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::CoDel::new(
            settings(&pairs, tidegate::Policy::codel)?,
            time(now),
        )))))
    }

    /// The queue is empty: before a waiter comes, or after the last one has left.
    pub fn on_empty(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_empty(now);
    }

    /// Whether to shed this waiter. Ask once for each waiter that is taken out.
    pub fn should_shed(&self, sojourn: u64, now: u64, scale: f64) -> bool {
        let sojourn = span(sojourn);
        let now = time(now);
        self.0.lock().should_shed(sojourn, scale, now)
    }

    /// Whether the queue has not been empty for a whole interval; then serve the newest waiter first.
    pub fn congested(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().congested(now)
    }

    /// How long that a waiter of scale 1 may have waited, under the law of `facebook`.
    pub fn allowance(&self, now: u64) -> u64 {
        let now = time(now);
        self.0.lock().allowance(now).as_micros()
    }

    /// Applies new settings.
    pub fn retune(&self, pairs: Pairs) -> Result<(), Invalid> {
        let to = settings(&pairs, tidegate::Policy::codel)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}
