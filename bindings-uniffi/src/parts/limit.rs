//! How much at once: the controllers of adaptive limits, and of a queue.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{AimdSettings, CodelSettings, Gradient2Settings};

use super::{Pairs, missing, span, time};
use crate::{Invalid, checked};

fn aimd(pairs: &Pairs) -> Result<AimdSettings, Invalid> {
    checked("part", pairs)?.aimd().ok_or_else(missing)
}

fn gradient2(pairs: &Pairs) -> Result<Gradient2Settings, Invalid> {
    checked("part", pairs)?.gradient2().ok_or_else(missing)
}

fn codel(pairs: &Pairs) -> Result<CodelSettings, Invalid> {
    checked("part", pairs)?.codel().ok_or_else(missing)
}

/// Additive increase, multiplicative decrease.
#[derive(uniffi::Object)]
pub struct Aimd(Mutex<tidegate::Aimd>);

#[uniffi::export]
impl Aimd {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::Aimd::new(aimd(&pairs)?)))))
    }

    /// Calls that may be in flight.
    pub fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with its fraction.
    pub fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// A call has ended well.
    pub fn on_latency(&self, latency: u64, now: u64) {
        let (latency, now) = (span(latency), time(now));
        self.0.lock().on_latency(latency, now);
    }

    /// A call has failed.
    pub fn on_failure(&self, latency: u64, now: u64) {
        let (latency, now) = (span(latency), time(now));
        self.0.lock().on_failure(latency, now);
    }

    /// A call was cut by a timeout.
    pub fn on_timeout(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_timeout(now);
    }

    /// Is it as if new?
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Goes on with other settings.
    pub fn retune(&self, pairs: Pairs) -> Result<(), Invalid> {
        let to = aimd(&pairs)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// The gradient of latency.
#[derive(uniffi::Object)]
pub struct Gradient2(Mutex<tidegate::Gradient2>);

#[uniffi::export]
impl Gradient2 {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::Gradient2::new(gradient2(&pairs)?)))))
    }

    /// Calls that may be in flight.
    pub fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with its fraction.
    pub fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// The long-term latency in seconds, once there has been a sample.
    pub fn baseline(&self) -> Option<f64> {
        self.0.lock().baseline().map(|micros| micros / 1e6)
    }

    /// A call has ended well.
    pub fn on_latency(&self, rtt: u64, started: u64, in_flight: u32, now: u64) {
        let (rtt, started, now) = (span(rtt), time(started), time(now));
        self.0.lock().on_latency(rtt, started, in_flight, now);
    }

    /// A call was cut by a timeout, or throttled.
    pub fn on_drop(&self, started: u64, in_flight: u32, now: u64) {
        let (started, now) = (time(started), time(now));
        self.0.lock().on_drop(started, in_flight, now);
    }

    /// Is it as if new?
    pub fn is_fresh(&self) -> bool {
        self.0.lock().is_fresh()
    }

    /// Goes on with other settings.
    pub fn retune(&self, pairs: Pairs) -> Result<(), Invalid> {
        let to = gradient2(&pairs)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// Controlled delay.
#[derive(uniffi::Object)]
pub struct CoDel(Mutex<tidegate::CoDel>);

#[uniffi::export]
impl CoDel {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, now: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::CoDel::new(codel(&pairs)?, time(now))))))
    }

    /// The queue has just been seen empty.
    pub fn on_empty(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_empty(now);
    }

    /// Has the queue not been empty for a whole interval?
    pub fn congested(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().congested(now)
    }

    /// Microseconds that a waiter of scale 1 may have waited.
    pub fn allowance(&self, now: u64) -> u64 {
        let now = time(now);
        self.0.lock().allowance(now).as_micros()
    }

    /// Is the waiter at hand shed?
    pub fn should_shed(&self, sojourn: u64, scale: f64, now: u64) -> bool {
        let (sojourn, now) = (span(sojourn), time(now));
        self.0.lock().should_shed(sojourn, scale, now)
    }

    /// Goes on with other settings.
    pub fn retune(&self, pairs: Pairs) -> Result<(), Invalid> {
        let to = codel(&pairs)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}
