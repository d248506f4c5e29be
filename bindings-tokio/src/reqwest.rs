//! Requests of reqwest under a policy.
//!
//! ```no_run
//! use tidegate_tokio::settings::{Bulkhead, Preset};
//! use tidegate_tokio::Policy;
//! use tidegate_tokio::reqwest::{Guard, SendWith};
//!
//! # async fn order() -> Result<(), Box<dyn std::error::Error>> {
//! let shop = Guard::new(&Policy::builder("shop").preset(Preset::Http).bulkhead(Bulkhead::fixed(20)).build()?);
//! let client = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
//! let response = client.get("https://shop.example/orders/7").send_with(&shop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - The last answer is yours whatever its status; `response.extensions().get::<Report>()` says what became of the call where it was
//!   not answered at once.
//! - A request is repeated where its method is idempotent, where it has an `Idempotency-Key`, or where nothing of it was sent. Bodies of
//!   bytes are sent again; a stream is sent once, and the report says so; [`Guard::body`] makes a stream anew.
//! - `Retry-After` is never cut short. Beyond `retry.max_retry_after` or the deadline the call ends at once.
//! - A failed answer that may be repeated is read first where it is small (64 KiB), which keeps its connection; a large one is closed.
//! - Slot and deadline last until the body has been read or dropped (`slot_until = "headers"` ends them before).
//! - Repeats carry `Retry-Attempt: n`. The route is the request's origin.
//! - reqwest repeats what a server refused unprocessed by itself; `retry(reqwest::retry::never())` leaves that to the policy.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::CONTENT_LENGTH;
use reqwest::{Body, Request, RequestBuilder, Response, ResponseBuilderExt};
use tidegate::{Class, Criticality, Opinion, Outcome};

use crate::Failure;
use crate::classify::{Finding, Judge, Judgement};
use crate::drain::Draining;
use crate::error::Error;
use crate::http::{GuardedBody, Says, has_body, outcome_of};
use crate::policy::{Caller, Policy, Site};
use crate::run::{Attempt, Optional, Run, Tailed};

type Opine = dyn Fn(&Response) -> Option<Outcome> + Send + Sync;
type Make = dyn Fn() -> Body + Send + Sync;

/// A policy around requests, with what is said of them. Cheap to clone; a clone with other settings is for one request.
#[derive(Clone)]
pub struct Guard {
    caller: Caller,
    own_route: bool,
    says: Says,
    opine: Option<Arc<Opine>>,
    make: Option<Arc<Make>>,
}

impl Guard {
    /// A guard of this policy.
    pub fn new(policy: &Policy) -> Self {
        Self { caller: policy.caller(), own_route: false, says: Says::new(), opine: None, make: None }
    }

    /// The key that state is kept under; the request's origin if nothing is said.
    #[must_use]
    pub fn route(mut self, key: &str) -> Self {
        self.own_route = true;
        self.with(|caller| caller.route(key))
    }

    /// Time for the whole call, the reading of the body included; the earlier of this, the policy's and what is around the call wins.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|caller| caller.deadline(deadline))
    }

    /// How much it matters to queues.
    #[must_use]
    pub fn criticality(self, criticality: Criticality) -> Self {
        self.with(|caller| caller.criticality(criticality))
    }

    /// Tokens of a rate limit that it takes.
    #[must_use]
    pub fn cost(self, cost: u16) -> Self {
        self.with(|caller| caller.cost(cost))
    }

    /// Is a repeat harmless, whatever its method?
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.says.idempotent = Some(idempotent);
        self
    }

    /// Do repeats carry `Retry-Attempt: n`? True if nothing is said.
    #[must_use]
    pub fn retry_header(mut self, retry_header: bool) -> Self {
        self.says.retry_header = retry_header;
        self
    }

    /// Is every request without one given an `Idempotency-Key` of its own, the same on each attempt?
    #[must_use]
    pub fn idempotency_key(mut self, idempotency_key: bool) -> Self {
        self.says.make_key = idempotency_key;
        self
    }

    /// Says what an answer means, where its status does not; `None` for no opinion. One that panics has none. It may be asked twice of
    /// one answer.
    #[must_use]
    pub fn classify(mut self, opine: impl Fn(&Response) -> Option<Outcome> + Send + Sync + 'static) -> Self {
        self.opine = Some(Arc::new(opine));
        self
    }

    /// Makes the request's body anew for each attempt, which makes one that can be read once repeatable.
    #[must_use]
    pub fn body(mut self, make: impl Fn() -> Body + Send + Sync + 'static) -> Self {
        self.make = Some(Arc::new(make));
        self
    }

    fn with(self, what: impl FnOnce(Caller) -> Caller) -> Self {
        Self { caller: what(self.caller), ..self }
    }

    /// Sends a request by `send`, once for each attempt.
    async fn run<E, S, Fut>(&self, mut request: Request, send: S) -> Result<Response, Error<E>>
    where
        E: Failure,
        S: Fn(Request) -> Fut,
        Fut: Future<Output = Result<Response, E>>,
    {
        let site = self.site(&mut request);
        let head = *request.method() == Method::HEAD;
        let url = request.url();
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let judge = HttpJudge { site: &site, opine: self.opine.as_deref(), head };
        let keep = if self.make.is_some() { Some(bodiless(&request)) } else { request.try_clone() };
        let replayable = keep.is_some();
        let repeats = replayable && site.request.replayable && site.request.idempotent;
        if let (Some(make), None) = (&self.make, request.body()) {
            *request.body_mut() = Some(make());
        }
        let mut first = Some(request);
        let work = |attempt: Attempt| {
            let mut request = first.take().or_else(|| self.again(keep.as_ref()?))?;
            self.says.number(request.headers_mut(), attempt.number);
            let (sent, judge) = (send(request), &judge);
            #[cfg(feature = "tracing")]
            let sent = tracing::Instrument::instrument(sent, crate::http::repeat_span(attempt.number));
            Some(async move {
                let response = sent.await?;
                let outcome = judge.of(&response);
                let again = repeats && outcome.opinion != Opinion::DoNot && outcome.kind != Class::Ok.into();
                Ok(if again { drained(response).await } else { response })
            })
        };
        let path = Some(path.into_boxed_str());
        let run =
            Run::<_, _, _, _, _, _, Tailed>::new(Arc::clone(&site), replayable, path, &judge, Optional(work));
        let (ended, tail) = run.await;
        let mut response = ended.result?;
        if ended.report.attempts > 1 || ended.report.note().is_some() {
            response.extensions_mut().insert(ended.report);
        }
        Ok(match tail {
            Some(tail) => rebodied(response, |body| Body::wrap(GuardedBody::new(body, Some(tail)))),
            None => response,
        })
    }

    /// Where the request's call is made; the request has its key then.
    fn site(&self, request: &mut Request) -> Arc<Site> {
        let method = request.method().clone();
        let mut site = self.says.site(&self.caller.site, &method, request.headers_mut());
        if !self.own_route {
            site.aim(request.url().origin().ascii_serialization().into());
        }
        Arc::new(site)
    }

    /// The request once more.
    fn again(&self, keep: &Request) -> Option<Request> {
        let mut request = keep.try_clone()?;
        if let Some(make) = &self.make {
            *request.body_mut() = Some(make());
        }
        Some(request)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// `send_with` for reqwest's requests.
pub trait SendWith {
    /// Sends the request under a guard's policy.
    ///
    /// # Errors
    /// The client's error of the attempt that decided, or ours where the call was refused or stopped.
    fn send_with(self, guard: &Guard)
    -> impl Future<Output = Result<Response, Error<reqwest::Error>>> + Send;
}

impl SendWith for RequestBuilder {
    async fn send_with(self, guard: &Guard) -> Result<Response, Error<reqwest::Error>> {
        let (client, request) = self.build_split();
        let request = request.map_err(|error| guard.caller.site.unsent(error))?;
        guard.run(request, |request| client.execute(request)).await
    }
}

/// Judges answers by their status, and errors by what they are.
struct HttpJudge<'a> {
    site: &'a Arc<Site>,
    opine: Option<&'a Opine>,
    head: bool,
}

impl HttpJudge<'_> {
    fn of(&self, response: &Response) -> Outcome {
        // Asked twice of a failed answer: before it is read, and when it is told.
        let said =
            self.opine.and_then(|opine| catch_unwind(AssertUnwindSafe(|| opine(response))).ok().flatten());
        said.unwrap_or_else(|| outcome_of(self.site, response.status().as_u16(), response.headers()))
    }
}

impl<E: Failure> Judge<Response, E> for &HttpJudge<'_> {
    fn judge(&self, site: &Site, result: &Result<Response, E>) -> Judgement {
        match result {
            Err(error) => Judgement::Outcome(site.outcome_in(error.finding())),
            Ok(response) => match self.of(response) {
                outcome
                    if outcome.kind == Class::Ok.into()
                        && self.site.policy.slot_until_body()
                        && !self.head
                        && has_body(response.status(), response.content_length()) =>
                {
                    Judgement::Head
                }
                outcome => Judgement::Outcome(outcome),
            },
        }
    }

    fn unlisted(&self, error: &E) -> bool {
        error.finding() == Finding::Unlisted
    }

    /// A small answer has been read, and is kept; a large one is closed before the next attempt.
    fn release(&self, result: Result<Response, E>) -> Option<Result<Response, E>> {
        match result {
            Ok(response) if response.extensions().get::<Whole>().is_none() => None,
            kept => Some(kept),
        }
    }
}

/// Marks an answer whose body is all here.
#[derive(Clone, Copy)]
struct Whole;

/// The request without its body.
fn bodiless(request: &Request) -> Request {
    let mut bare = Request::new(request.method().clone(), request.url().clone());
    *bare.headers_mut() = request.headers().clone();
    bare.headers_mut().remove(CONTENT_LENGTH);
    *bare.timeout_mut() = request.timeout().copied();
    *bare.version_mut() = request.version();
    bare
}

/// The response with another body.
fn rebodied(response: Response, body: impl FnOnce(Body) -> Body) -> Response {
    let (parts, inner) = parted(response);
    http::Response::from_parts(parts, body(inner)).into()
}

/// The response as its head and its body; the head knows its URL.
fn parted(response: Response) -> (http::response::Parts, Body) {
    let url = response.url().clone();
    let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
    // What `Response` keeps its URL in is made by the builder alone.
    if let Ok(made) = http::Response::builder().url(url).body(()) {
        parts.extensions.extend(made.into_parts().0.extensions);
    }
    (parts, body)
}

/// The answer with its body read to its end, where that is small.
async fn drained(response: Response) -> Response {
    let (mut parts, body) = parted(response);
    let body = Draining::new(body).await;
    if body.is_whole() {
        parts.extensions.insert(Whole);
    }
    http::Response::from_parts(parts, Body::wrap(body)).into()
}

#[cfg(feature = "reqwest-middleware")]
mod middleware {
    use http::Extensions;
    use reqwest::{Request, Response};
    use reqwest_middleware::{Error as ClientError, Middleware, Next};
    use tidegate::Outcome;

    use super::Guard;
    use crate::Failure;
    use crate::classify::Finding;
    use crate::error::Error;
    use crate::listed::found_in;

    impl Failure for ClientError {
        fn outcome(&self) -> Outcome {
            match self {
                Self::Reqwest(error) => error.outcome(),
                Self::Middleware(error) => {
                    let error: &(dyn std::error::Error + Send + Sync) = error.as_ref();
                    error.outcome()
                }
            }
        }

        fn finding(&self) -> Finding {
            match self {
                Self::Reqwest(error) => found_in(error),
                Self::Middleware(error) => found_in(error.as_ref()),
            }
        }
    }

    /// As a middleware of `reqwest-middleware`. A `Guard` among a request's extensions stands for this one.
    ///
    /// What comes after it in the chain sees each attempt, what comes before it one call. Errors of ours are
    /// `Error::Middleware`; [`stopped_in`](crate::stopped_in) finds them.
    #[async_trait::async_trait]
    impl Middleware for Guard {
        async fn handle(
            &self,
            request: Request,
            extensions: &mut Extensions,
            next: Next<'_>,
        ) -> reqwest_middleware::Result<Response> {
            let own = extensions.get::<Self>().cloned();
            let extensions = &*extensions;
            let sent = own.as_ref().unwrap_or(self).run(request, |request| {
                // Each attempt has extensions of its own, as hedges run beside each other.
                let (next, mut extensions) = (next.clone(), extensions.clone());
                async move { next.run(request, &mut extensions).await }
            });
            sent.await.map_err(|error| match error {
                Error::Failed(error, _) => error,
                Error::Stopped(stopped, _) => ClientError::middleware(stopped),
            })
        }
    }
}
