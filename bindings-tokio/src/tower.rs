//! A policy as a layer of tower.
//!
//! ```
//! use std::io;
//! use tidegate_tokio::settings::{Bulkhead, Preset};
//! use tidegate_tokio::Policy;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let policy = Policy::builder("shop").preset(Preset::Http).bulkhead(Bulkhead::fixed(20)).build().unwrap();
//! let service = ServiceBuilder::new()
//!     .layer(policy.layer())
//!     .service(service_fn(|order: u32| async move { Ok::<_, io::Error>(order + 1) }));
//! assert_eq!(service.oneshot(7).await.unwrap(), 8);
//! # }
//! ```
//!
//! **What `poll_ready` means here.** The layer is ready when the inner service is ready. It reserves no permit, no
//! token and no place in a queue, because a caller that is ready and never calls would keep them from all others (this
//! is how idle clones of a concurrency limit lock each other out). The policy decides when the call is made: the call
//! starts, waits inside its future (under its deadline and its `acquire_timeout`), or is refused with an error that
//! says when to retry. So tower's `LoadShed` finds nothing to shed around this layer; a bulkhead without a queue sheds
//! by itself.
//!
//! A call that is admitted at once uses the service that is ready. If the call has to wait for the policy first, the
//! permit that the inner service reserved in *its* `poll_ready` is released: a fresh clone replaces the service, and
//! another one is made ready when the attempt starts. Each further attempt, and each hedge, gets a clone of the service
//! and waits until it is ready; this wait is part of the attempt, so the attempt timeout covers it.

mod boxed;
#[cfg(feature = "http")]
mod http;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tidegate::{Criticality, Verdict};
use tower_layer::Layer;
use tower_service::Service;

use crate::classify::{ByFailure, Classify, Owned};
use crate::clock;
use crate::error::{Error, Report};
use crate::policy::{Caller, Policy, Site};
use crate::run::{Attempt, Begun, Plain, Run, Work};
use crate::weights::Weights;
pub use boxed::{Boxed, BoxedFuture, BoxedService};
#[cfg(feature = "http")]
pub use http::{ByCauses, Errors, HttpFuture, HttpLayer, HttpService};

/// The facts that a layer needs about its requests.
pub trait Requests<Req> {
    /// The same request once more, or `None` if it can be sent only once. It is called before the first attempt: a
    /// request that cannot be repeated is sent once, and the report names that as the reason why no retry followed.
    fn replay(&self, request: &Req) -> Option<Req>;

    /// Marks a repeat with the number of its attempt, from 2 on.
    fn repeat(&self, request: &mut Req, attempt: u8) {
        let _ = (request, attempt);
    }

    /// Adds the facts that the request states.
    fn facts<'a>(&self, request: &Req, facts: Facts<'a>) -> Facts<'a> {
        let _ = request;
        facts
    }
}

/// Requests that can be cloned and repeated without harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cloned;

impl<Req: Clone> Requests<Req> for Cloned {
    fn replay(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }
}

/// Requests that are sent once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Once;

impl<Req> Requests<Req> for Once {
    fn replay(&self, _: &Req) -> Option<Req> {
        None
    }
}

/// Facts about one request, on top of the settings of the layer's [`Caller`].
#[must_use]
pub struct Facts<'a> {
    site: &'a Site,
    changed: Option<Site>,
}

impl<'a> Facts<'a> {
    fn new(site: &'a Site) -> Self {
        Self { site, changed: None }
    }

    fn with(mut self, change: impl FnOnce(&mut Site)) -> Self {
        let site = self.changed.get_or_insert_with(|| self.site.clone());
        change(site);
        self
    }

    /// Sets the key that state is kept under.
    pub fn route(self, key: &str) -> Self {
        if *self.changed.as_ref().unwrap_or(self.site).key == *key {
            return self;
        }
        self.with(|site| site.aim(key.into()))
    }

    /// Says whether a repeat is harmless.
    pub fn idempotent(self, idempotent: bool) -> Self {
        self.with(|site| site.request.idempotent = idempotent)
    }

    /// Sets the HTTP method: a repeat is harmless if the policy's `retry.methods` list it.
    pub fn method(self, method: &str) -> Self {
        let idempotent = self.site.retries_method(method);
        if self.changed.as_ref().unwrap_or(self.site).request.idempotent == idempotent {
            return self;
        }
        self.idempotent(idempotent)
    }

    /// Sets how important the request is to queues.
    pub fn criticality(self, criticality: Criticality) -> Self {
        self.with(|site| {
            site.own_criticality = true;
            site.request.criticality = criticality;
        })
    }

    /// Limits the time of the whole call. The earliest of this, the caller's deadline, the policy's and the scope's wins.
    pub fn deadline(self, deadline: Duration) -> Self {
        let own = clock::span(deadline);
        self.with(|site| {
            site.request.remaining = Some(site.request.remaining.map_or(own, |said| said.min(own)));
        })
    }

    /// Says whether the answer is a stream, to which `first_byte_timeout` applies.
    #[cfg(feature = "http")]
    pub fn stream(self, stream: bool) -> Self {
        self.with(|site| site.request.stream = stream && site.policy.bounds_first_byte())
    }

    /// Sets how many tokens of a rate limit the request takes.
    pub fn cost(self, cost: u16) -> Self {
        self.with(|site| site.request.cost = cost)
    }

    /// Sets what the request will use of the limits that count a weight.
    pub fn weights(self, weights: impl Into<Weights>) -> Self {
        self.with(|site| site.weights = Some(weights.into()))
    }
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").finish_non_exhaustive()
    }
}

/// Puts services under a policy: see the [module](self).
#[derive(Clone, Debug)]
pub struct PolicyLayer<R = Cloned, C = ByFailure> {
    caller: Caller<C>,
    requests: R,
}

impl<R, C> PolicyLayer<R, C> {
    /// Changes how requests are repeated, and which facts they state.
    ///
    /// ```
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::tower::{Facts, Requests};
    /// #[derive(Clone)]
    /// struct Orders;
    /// impl Requests<(u32, String)> for Orders {
    ///     fn replay(&self, request: &(u32, String)) -> Option<(u32, String)> {
    ///         Some(request.clone())
    ///     }
    ///     fn facts<'a>(&self, request: &(u32, String), facts: Facts<'a>) -> Facts<'a> {
    ///         facts.route(&request.1).idempotent(request.0 != 0)
    ///     }
    /// }
    /// let policy = tidegate_tokio::Policy::builder("orders").preset(Preset::Http).build().unwrap();
    /// let layer = policy.layer().requests(Orders);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn requests<Q>(self, requests: Q) -> PolicyLayer<Q, C> {
        PolicyLayer { caller: self.caller, requests }
    }

    /// The same layer with boxed errors ([`Error::into_boxed`]), as tower's own layers have them: `Timeout`, `Buffer`
    /// and `LoadShed` then fit below and above.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_tokio::Policy;
    /// use tidegate_tokio::settings::Preset;
    /// use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let policy = Policy::builder("orders").preset(Preset::Http).build().unwrap();
    /// let service = ServiceBuilder::new()
    ///     .buffer(8)
    ///     .layer(policy.layer().boxed())
    ///     .timeout(Duration::from_secs(1))
    ///     .service(service_fn(|order: u32| async move { Ok::<_, std::io::Error>(order + 1) }));
    /// assert_eq!(service.oneshot(7).await.unwrap(), 8);
    /// # }
    /// ```
    #[must_use]
    pub fn boxed(self) -> Boxed<Self> {
        Boxed::new(self)
    }
}

impl Policy {
    /// This policy as a layer of tower, for requests that can be cloned and errors that implement `Failure`. For others
    /// use [`Caller::layer`] and [`PolicyLayer::requests`].
    pub fn layer(&self) -> PolicyLayer {
        self.caller().layer()
    }
}

impl<C: Clone> Caller<C> {
    /// This caller as a layer of tower.
    pub fn layer(&self) -> PolicyLayer<Cloned, C> {
        PolicyLayer { caller: self.clone(), requests: Cloned }
    }
}

impl<S, R: Clone, C: Clone> Layer<S> for PolicyLayer<R, C> {
    type Service = PolicyService<S, R, C>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyService { inner, caller: self.caller.clone(), requests: self.requests.clone() }
    }
}

/// A service under a policy: see the [module](self).
#[derive(Clone, Debug)]
pub struct PolicyService<S, R = Cloned, C = ByFailure> {
    inner: S,
    caller: Caller<C>,
    requests: R,
}

impl<S, R, C, Req> Service<Req> for PolicyService<S, R, C>
where
    S: Service<Req> + Clone,
    R: Requests<Req> + Clone,
    C: Classify<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = ResponseFuture<S, Req, R, C>;

    /// Ready where the inner service is; nothing is reserved.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(unready)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let changed = self.requests.facts(&request, Facts::new(&self.caller.site)).changed;
        let site = changed.map_or_else(|| Arc::clone(&self.caller.site), Arc::new);
        // A policy without retries needs neither a copy of the request nor a clone of the service.
        let repeats = site.policy.repeats();
        let keep = if repeats { self.requests.replay(&request) } else { None };
        let replayable = !repeats || keep.is_some();
        let sending = Sending {
            service: repeats.then(|| self.inner.clone()),
            first: None,
            keep,
            requests: self.requests.clone(),
        };
        let judge = Owned(self.caller.classify.clone());
        let begun = Begun::of(&site, replayable, None);
        // The service is ready, so a call that starts at once uses it directly.
        if begun.starts() {
            let first = begun.first(&site, || Sent::Called { future: self.inner.call(request) });
            return ResponseFuture { run: Run::started(begun, site, judge, sending, first) };
        }
        let mut run = Run::waiting(begun, site, judge, sending);
        // The call has to wait or was refused, so the permit that the inner service has reserved goes to other calls.
        let fresh = self.inner.clone();
        self.inner = fresh;
        let sending = run.work_mut();
        sending.first = Some(Box::new(request));
        sending.service.get_or_insert_with(|| self.inner.clone());
        ResponseFuture { run }
    }
}

/// The inner service reports that it will never be ready.
fn unready<E>(error: E) -> Error<E> {
    Error::Failed(error, refused())
}

/// The report of a request that became no call.
pub(crate) const fn refused() -> Report {
    Report {
        attempts: 0,
        reason: Verdict::NotRetryable,
        retry_in: None,
        max_retry_after: None,
        unlisted: None,
        left: None,
        call: None,
    }
}

/// Makes attempts of a request.
struct Sending<S, Req, R> {
    /// The service that further attempts clone; `None` where there are none.
    service: Option<S>,
    /// The request of a first attempt that has to wait. Behind a pointer, because the call's future is moved.
    first: Option<Box<Req>>,
    keep: Option<Req>,
    requests: R,
}

impl<S, Req, R> Work<Sent<S, Req, S::Future>> for Sending<S, Req, R>
where
    S: Service<Req> + Clone,
    R: Requests<Req>,
{
    fn attempt(&mut self, attempt: Attempt) -> Option<Sent<S, Req, S::Future>> {
        let replay = || self.requests.replay(self.keep.as_ref()?).map(Box::new);
        let mut request = self.first.take().or_else(replay)?;
        if attempt.number > 1 {
            self.requests.repeat(&mut request, attempt.number);
        }
        Some(Sent::Waiting { service: self.service.clone()?, request: Some(request) })
    }
}

pin_project! {
    /// An attempt: waits until its clone of the service is ready, then calls it.
    #[project = SentProjection]
    enum Sent<S, Req, F> {
        Waiting { service: S, request: Option<Box<Req>> },
        Called { #[pin] future: F },
    }
}

impl<S: Service<Req>, Req> Future for Sent<S, Req, S::Future> {
    type Output = Result<S::Response, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.as_mut().project() {
                SentProjection::Called { future } => return future.poll(cx),
                SentProjection::Waiting { service, request } => {
                    match service.poll_ready(cx) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Ready(Ok(())) => {}
                    }
                    // The request is taken once: afterwards the attempt is in another state.
                    let Some(request) = request.take() else { return Poll::Pending };
                    let future = service.call(*request);
                    self.set(Sent::Called { future });
                }
            }
        }
    }
}

pin_project! {
    /// The future of a [`PolicyService`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<S: Service<Req>, Req, R, C> {
        #[pin]
        run: Run<Arc<Site>, Sending<S, Req, R>, Sent<S, Req, S::Future>, Owned<C>, S::Response, S::Error, Plain>,
    }
}

impl<S, Req, R, C> Future for ResponseFuture<S, Req, R, C>
where
    S: Service<Req> + Clone,
    R: Requests<Req>,
    C: Classify<S::Response, S::Error>,
{
    type Output = Result<S::Response, Error<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().run.poll(cx)
    }
}

impl<S: Service<Req>, Req, R, C> fmt::Debug for ResponseFuture<S, Req, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
