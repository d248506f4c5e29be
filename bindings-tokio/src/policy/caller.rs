//! Callers: a policy with settings for the calls that are made through them.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate::{Criticality, Flags, Request};

use super::site::Site;
use crate::classify::{ByFailure, Classify, Guarded};
use crate::clock;
use crate::error::Error;
use crate::run::{Attempt, Ended, Plain, Run, Whole};
use crate::weights::Weights;

/// A policy with settings for its calls: their route, deadline, criticality, cost and how they may be repeated.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tokio::settings::Preset;
/// use tidegate_tokio::{Class, Criticality, Outcome, Policy};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
/// let eu = policy.caller().route("eu").deadline(Duration::from_secs(2)).criticality(Criticality::Critical);
/// let busy = eu.classify(|result: Result<&u8, &&str>| {
///     Outcome::of(match result {
///         Err(&"busy") => Class::Throttled,
///         Err(_) => Class::Permanent,
///         Ok(_) => Class::Ok,
///     })
/// });
/// let ended = busy.ended(|attempt| async move { if attempt.number == 1 { Err("busy") } else { Ok(attempt.number) } }).await;
/// assert_eq!((ended.result.unwrap(), ended.report.attempts), (2, 2));
/// # }
/// ```
#[derive(Clone)]
pub struct Caller<C = ByFailure> {
    pub(crate) site: Arc<Site>,
    pub(crate) classify: C,
}

impl<C> Caller<C> {
    /// Whether the caller names a route.
    #[cfg(feature = "http")]
    pub(crate) fn has_route(&self) -> bool {
        self.site.named
    }

    /// Sets the key that state is kept under: an origin, an endpoint, a tenant. The default is `default`.
    #[must_use]
    pub fn route(mut self, key: impl Into<Arc<str>>) -> Self {
        let site = Arc::make_mut(&mut self.site);
        site.named = true;
        site.aim(key.into());
        self
    }

    /// Limits the time of the whole call. The earliest of this, the policy's deadline and the scope's deadline wins.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.says(|request| request.remaining = Some(clock::span(deadline)))
    }

    /// Sets how important the calls are to queues, whatever the scope says. The default is normal.
    #[must_use]
    pub fn criticality(mut self, criticality: Criticality) -> Self {
        Arc::make_mut(&mut self.site).own_criticality = true;
        self.says(|request| request.criticality = criticality)
    }

    /// Says whether a repeat is harmless. If not, only attempts that provably never left are repeated, and none is
    /// hedged. The default is true.
    #[must_use]
    pub fn idempotent(self, idempotent: bool) -> Self {
        self.says(|request| request.idempotent = idempotent)
    }

    /// Says whether the calls can be made a second time at all. The default is true.
    #[must_use]
    pub fn replayable(self, replayable: bool) -> Self {
        self.says(|request| request.replayable = replayable)
    }

    /// Says whether attempts must never run side by side. If so, calls are retried but not hedged.
    #[must_use]
    pub fn solo(self, solo: bool) -> Self {
        self.says(|request| request.solo = solo)
    }

    /// Sets how many tokens of a rate limit each call takes. The default is 1.
    #[must_use]
    pub fn cost(self, cost: u16) -> Self {
        self.says(|request| request.cost = cost)
    }

    /// Sets what each call will use of the limits that count a weight: whole numbers below 2^53, by the names of the weights. Each
    /// attempt reserves it; [`Attempt::settle`] reports what was used. The default of a weight is its limit's.
    ///
    /// ```
    /// use tidegate_tokio::settings::RateLimit;
    /// use tidegate_tokio::{Engine, Policy};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let engine = Engine::new(7);
    /// let limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens"];
    /// let chat = Policy::builder("chat").engine(&engine).rate_limit(RateLimit::of_limits(limits)).build().unwrap();
    /// let long = chat.caller().weights([("tokens", 4_000)]);
    /// let answer = long.run(|attempt| async move {
    ///     attempt.settle("tokens", 1_200); // what the answer says that it has used
    ///     Ok::<_, std::io::Error>("an answer")
    /// });
    /// assert_eq!(answer.await.unwrap(), "an answer");
    /// assert_eq!(engine.snapshot().routes[0].limits[1].tokens, 198_800);
    /// # }
    /// ```
    #[must_use]
    pub fn weights(mut self, weights: impl Into<Weights>) -> Self {
        Arc::make_mut(&mut self.site).weights = Some(weights.into());
        self
    }

    fn says(mut self, what: impl FnOnce(&mut Request)) -> Self {
        what(&mut Arc::make_mut(&mut self.site).request);
        self
    }

    /// Runs attempts as [`Policy::run`](crate::Policy::run) does.
    ///
    /// # Errors
    /// As [`Policy::run`](crate::Policy::run).
    pub fn run<T, E, F, Fut>(&self, work: F) -> impl Future<Output = Result<T, Error<E>>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        Run::<_, _, _, _, _, _, Plain>::new(&*self.site, true, None, Guarded(&self.classify), work)
    }

    /// Runs attempts as [`run`](Self::run) does, and returns the call's report beside its result.
    pub fn ended<T, E, F, Fut>(&self, work: F) -> impl Future<Output = Ended<T, E>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        Run::<_, _, _, _, _, _, Whole>::new(&*self.site, true, None, Guarded(&self.classify), work)
    }

    /// Runs attempts as [`run`](Self::run) does, and calls `fallback` if the call fails for good. The fallback gets the
    /// final error and runs outside all components. The caller gets its result, or its error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Error, Policy};
    /// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
    /// let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
    /// let price = policy
    ///     .caller()
    ///     .run_or_else(|_| async { Err::<u32, _>(gone()) }, async |error: Error<std::io::Error>| match error.own() {
    ///         Some(_) => Ok(0),
    ///         None => Err(error),
    ///     })
    ///     .await;
    /// assert_eq!(price.unwrap(), 0);
    /// # }
    /// ```
    ///
    /// # Errors
    /// The fallback's error.
    pub async fn run_or_else<T, E, G, F, Fut>(
        &self,
        work: F,
        fallback: impl AsyncFnOnce(Error<E>) -> Result<T, G>,
    ) -> Result<T, G>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        match self.run(work).await {
            Ok(value) => Ok(value),
            Err(error) => {
                let stood_in = fallback(error).await;
                let (shared, ok) = (self.site.shared(), stood_in.is_ok());
                shared.with(|core, now| {
                    let route = tidegate::RouteId::from_word(self.site.route.load(Ordering::Relaxed));
                    core.engine.note_fallback(route, ok, now);
                    ((), Flags::default())
                });
                stood_in
            }
        }
    }
}

impl Caller {
    /// Classifies results by this function in place of [`Failure`](crate::Failure).
    #[must_use]
    pub fn classify<D>(self, classify: D) -> Caller<D> {
        Caller { site: self.site, classify }
    }
}

impl<C> fmt::Debug for Caller<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (policy, route) = (&self.site.policy.name, &self.site.key);
        f.debug_struct("Caller").field("policy", policy).field("route", route).finish_non_exhaustive()
    }
}
