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
//! - You get the last response whatever its status; `response.extensions().get::<Report>()` is the call's report
//!   if it made several attempts or suppressed a retry.
//! - A request is repeated if its method is idempotent, if it has an `Idempotency-Key`, or if nothing of it was sent.
//!   Bodies of bytes are sent again. A stream is sent once, and the report says so; [`Guard::body`] makes a new stream
//!   for each attempt.
//! - `Retry-After` is never cut short. If it exceeds `retry.max_retry_after` or the deadline, the call ends at once.
//! - A failed response that may be repeated is read first if it is small (64 KiB), which keeps its connection; a large
//!   one is closed.
//! - Slot and deadline last until the body has been read or dropped, of a failed response only the deadline
//!   (`slot_until = "headers"` ends them before).
//! - Repeats carry `Retry-Attempt: n`. The route is the request's origin.
//! - reqwest by itself repeats requests that a server refused unprocessed; `retry(reqwest::retry::never())` leaves that
//!   to the policy.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Method;
use http::header::CONTENT_LENGTH;
use pin_project_lite::pin_project;
use reqwest::{Body, Request, RequestBuilder, Response, ResponseBuilderExt};
use tidegate::answer::{Estimate, Usage};
use tidegate::{CallId, Class, Criticality, Opinion, Outcome};

use crate::Failure;
use crate::classify::{Finding, Judge, Judgement};
use crate::drain::{Buffered, Draining};
use crate::error::{BoxError, Error, Stopped};
use crate::http::{
    GuardedBody, Says, bound, has_body, judged_inside, last, note_quotas, outcome_of, reads, rest,
};
use crate::policy::{Caller, Policy, Site};
use crate::run::{Attempt, Optional, Run, Tailed};
use crate::streams::{Held, Holding, Watch, is_held};
use crate::usage::{Meter, Tokens, Used, Weigh};
use crate::weights::Weights;

type Opine = dyn Fn(&Response) -> Option<Outcome> + Send + Sync;
type Make = dyn Fn() -> Body + Send + Sync;

/// A policy around requests, with settings for them. Cheap to clone; give a clone other settings for a single request.
#[derive(Clone)]
pub struct Guard {
    caller: Caller,
    own_route: bool,
    says: Says,
    opine: Option<Arc<Opine>>,
    make: Option<Arc<Make>>,
    weigh: Option<Arc<Weigh>>,
    used: Option<Arc<Used>>,
}

impl Guard {
    /// A guard of this policy.
    pub fn new(policy: &Policy) -> Self {
        Self {
            caller: policy.caller(),
            own_route: false,
            says: Says::new(),
            opine: None,
            make: None,
            weigh: None,
            used: None,
        }
    }

    /// Sets the key that state is kept under. The default is the request's origin.
    #[must_use]
    pub fn route(mut self, key: &str) -> Self {
        self.own_route = true;
        self.with(|caller| caller.route(key))
    }

    /// Limits the time of the whole call, including reading the body. The earliest of this, the policy's deadline and
    /// the scope's deadline wins.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|caller| caller.deadline(deadline))
    }

    /// Sets how important the request is to queues.
    #[must_use]
    pub fn criticality(self, criticality: Criticality) -> Self {
        self.with(|caller| caller.criticality(criticality))
    }

    /// Sets how many tokens of a rate limit the request takes.
    #[must_use]
    pub fn cost(self, cost: u16) -> Self {
        self.with(|caller| caller.cost(cost))
    }

    /// Sets what the request will use of the limits that count a weight, such as `[("tokens", 1_800)]`.
    #[must_use]
    pub fn weights(self, weights: impl Into<Weights>) -> Self {
        self.with(|caller| caller.weights(weights))
    }

    /// Sets [`weigh`](Self::weigh) and [`usage`](Self::usage) for a limit that counts tokens: a request reserves what its body tells,
    /// and settles what its answer says. They read `OpenAI`, Anthropic, Gemini, Bedrock, and services that speak like one of them.
    ///
    /// ```
    /// use tidegate_tokio::reqwest::Guard;
    /// use tidegate_tokio::settings::{Preset, RateLimit};
    /// use tidegate_tokio::{Policy, Tokens};
    /// let limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens"];
    /// let chats = Policy::builder("chats").preset(Preset::Llm).rate_limit(RateLimit::of_limits(limits)).build().unwrap();
    /// let chats = Guard::new(&chats).tokens(Tokens::new().output(800));
    /// ```
    #[must_use]
    pub fn tokens(self, tokens: Tokens) -> Self {
        let totals = tokens.clone();
        self.weigh(move |request| Some(tokens.weights(request))).usage(move |answer| totals.totals(answer))
    }

    /// Sets the function that makes the weights of a request from what its body says, where the guard has no
    /// [`weights`](Self::weights) of its own. A request without a body uses nothing; of one whose body is a stream nothing is known,
    /// and the limits' defaults hold, as after `None` and after a panic.
    #[must_use]
    pub fn weigh(mut self, weigh: impl Fn(Estimate) -> Option<Weights> + Send + Sync + 'static) -> Self {
        self.weigh = Some(Arc::new(weigh));
        self
    }

    /// Sets the function that makes the totals which an attempt settles from what its answer says that it has used, plain or
    /// streamed. An answer that is not read to its end, says nothing, or has a content coding that the client does not decode counts
    /// what it has reserved. A panic settles nothing.
    #[must_use]
    pub fn usage(mut self, used: impl Fn(Usage) -> Option<Weights> + Send + Sync + 'static) -> Self {
        self.used = Some(Arc::new(used));
        self
    }

    /// Says whether a repeat is harmless, whatever the request's method.
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.says.idempotent = Some(idempotent);
        self
    }

    /// Says whether responses are streams, to which `first_byte_timeout` applies. The default is that those are that answer
    /// requests with `Accept: text/event-stream`, and POSTs whose body asks a language model for a stream.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> Self {
        self.says.stream = Some(stream);
        self
    }

    /// Says whether repeats carry `Retry-Attempt: n`. The default is true.
    #[must_use]
    pub fn retry_header(mut self, retry_header: bool) -> Self {
        self.says.retry_header = retry_header;
        self
    }

    /// Says whether each request without an `Idempotency-Key` gets one of its own, the same on each attempt.
    #[must_use]
    pub fn idempotency_key(mut self, idempotency_key: bool) -> Self {
        self.says.make_key = idempotency_key;
        self
    }

    /// Classifies responses before their status does; `None` leaves the decision to the status. A panic counts as
    /// `None`. The function may be called twice for one response.
    #[must_use]
    pub fn classify(mut self, opine: impl Fn(&Response) -> Option<Outcome> + Send + Sync + 'static) -> Self {
        self.opine = Some(Arc::new(opine));
        self
    }

    /// Makes a new body for each attempt, so that requests with one-shot bodies can be repeated.
    #[must_use]
    pub fn body(mut self, make: impl Fn() -> Body + Send + Sync + 'static) -> Self {
        self.make = Some(Arc::new(make));
        self
    }

    fn with(self, what: impl FnOnce(Caller) -> Caller) -> Self {
        Self { caller: what(self.caller), ..self }
    }

    /// Sends a request with `send`, once for each attempt.
    async fn run<E, S, Fut>(&self, mut request: Request, send: S) -> Result<Response, Error<E>>
    where
        E: Failure,
        S: Fn(Request) -> Fut,
        Fut: Future<Output = Result<Response, E>>,
    {
        let site = self.site(&mut request);
        let head = *request.method() == Method::HEAD;
        let holds = site.request.stream && *request.method() != Method::CONNECT;
        let url = request.url();
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let judge = HttpJudge { site: &site, opine: self.opine.as_deref(), head };
        let keep = if self.make.is_some() { bodiless(&mut request) } else { request.try_clone() };
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
                if reads(judge.site, response.status()) {
                    return Ok(begun(judge.site, response).await);
                }
                let outcome = judge.of(&response);
                if holds && is_held(response.status(), outcome) {
                    return Ok(held(judge.site, response).await);
                }
                let again = repeats && outcome.opinion != Opinion::DoNot && outcome.kind != Class::Ok.into();
                if again {
                    return Ok(drained(judge.site, response).await);
                }
                let mut response = response;
                if outcome.kind != Class::Ok.into() {
                    bound(judge.site, response.extensions_mut());
                }
                Ok(response)
            })
        };
        let path = Some(path.into_boxed_str());
        let run =
            Run::<_, _, _, _, _, _, Tailed>::new(Arc::clone(&site), replayable, path, &judge, Optional(work));
        let (ended, tail) = run.await;
        let mut response = ended.result?;
        response.extensions_mut().remove::<Begun>();
        let status = response.status();
        last(reads(&site, status), &ended.report, status, response.headers_mut());
        let rest = rest(&site, &ended.report, response.extensions_mut());
        if ended.report.attempts > 1 || ended.report.note().is_some() {
            response.extensions_mut().insert(ended.report);
        }
        if tail.is_none() && rest.is_none() {
            return Ok(response);
        }
        let (mut parts, body) = parted(response);
        let (tail, watch) = match tail {
            Some(mut tail) => {
                tail.meter = Meter::of(self.used.as_ref(), &parts.headers);
                let watch = Watch::of(tail.site(), &parts.headers, &mut parts.extensions);
                (Some(tail), watch)
            }
            None => (rest, None),
        };
        let body = Timely { body: GuardedBody::watched(body, tail, watch) };
        Ok(http::Response::from_parts(parts, Body::wrap(body)).into())
    }

    /// Finds the site of the request's call, and gives the request its idempotency key if it needs one.
    fn site(&self, request: &mut Request) -> Arc<Site> {
        let method = request.method().clone();
        let mut site = self.says.site(&self.caller.site, &method, request.headers_mut());
        if !self.own_route {
            site.aim(request.url().origin().ascii_serialization().into());
        }
        let weigh = self.weigh.as_ref().filter(|_| site.weights.is_none());
        if (weigh.is_some() || self.says.may_ask(&site, &method))
            && let Some(body) = request.body().map_or(Some(&b""[..]), Body::as_bytes)
        {
            let nothing = Estimate { input: 0, output: Some(0), stream: false };
            let read = || Estimate::read(request.url().path().as_bytes(), body);
            let estimate = if body.is_empty() { nothing } else { read() };
            if self.says.may_ask(&site, &method) {
                site.request.stream |= estimate.stream;
            }
            if let Some(weigh) = weigh {
                site.weights = catch_unwind(AssertUnwindSafe(|| weigh(estimate))).ok().flatten();
            }
        }
        Arc::new(site)
    }

    /// Makes the request for another attempt.
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
    /// The client's error from the attempt that decided, or Tidegate's own error if the call was refused or stopped.
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

/// Classifies responses by their status, and errors by their type.
struct HttpJudge<'a> {
    site: &'a Arc<Site>,
    opine: Option<&'a Opine>,
    head: bool,
}

impl HttpJudge<'_> {
    fn of(&self, response: &Response) -> Outcome {
        // Called twice for a failed response: before its body is read, and when the attempt's outcome is reported.
        if let Some(failure) = response.extensions().get().and_then(|held: &Held| held.failure) {
            return judged_inside(failure, response.extensions());
        }
        let said =
            self.opine.and_then(|opine| catch_unwind(AssertUnwindSafe(|| opine(response))).ok().flatten());
        let read = response.extensions().get().map_or(&b""[..], |Begun(read)| read);
        said.unwrap_or_else(|| {
            let outcome = outcome_of(self.site, response.status().as_u16(), response.headers(), read);
            judged_inside(outcome, response.extensions())
        })
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

    fn note_quotas(&self, site: &Site, call: CallId, result: &Result<Response, E>) {
        if let Ok(response) = result {
            note_quotas(site, call, response.headers());
        }
    }

    fn unlisted(&self, error: &E) -> bool {
        error.finding() == Finding::Unlisted
    }

    /// Keeps a small response, whose body has been read; drops a large one, which closes it before the next attempt.
    fn release(&self, result: Result<Response, E>) -> Option<Result<Response, E>> {
        match result {
            Ok(response) if response.extensions().get::<Whole>().is_none() => None,
            kept => Some(kept),
        }
    }
}

/// Marks a response whose body has been read completely.
#[derive(Clone, Copy)]
struct Whole;

/// What has been read of a failed response, for its outcome.
#[derive(Clone)]
struct Begun(Vec<u8>);

/// The request without its body, which only another request can take.
fn bodiless(request: &mut Request) -> Option<Request> {
    let body = request.body_mut().take();
    // Not made anew: what extensions it has is known to reqwest only.
    let bare = request.try_clone();
    *request.body_mut() = body;
    bare.map(|mut bare| {
        bare.headers_mut().remove(CONTENT_LENGTH);
        bare
    })
}

/// Splits the response into head and body; the head keeps the URL.
fn parted(response: Response) -> (http::response::Parts, Body) {
    let url = response.url().clone();
    let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
    // reqwest keeps the URL in an extension that only its builder makes.
    if let Ok(made) = http::Response::builder().url(url).body(()) {
        parts.extensions.extend(made.into_parts().0.extensions);
    }
    (parts, body)
}

/// Reads the body of the response to its end if it is small.
async fn drained(site: &Site, response: Response) -> Response {
    let (mut parts, body) = parted(response);
    let body = Draining::new(body).await;
    close(site, &mut parts, &body);
    http::Response::from_parts(parts, Body::wrap(body)).into()
}

/// Reads the beginning of a failed response. The reader of its body gets it too.
async fn begun(site: &Site, response: Response) -> Response {
    let (mut parts, body) = parted(response);
    let body = Draining::beginning(body).await;
    parts.extensions.insert(Begun(body.beginning()));
    close(site, &mut parts, &body);
    http::Response::from_parts(parts, Body::wrap(body)).into()
}

/// Marks a response of whose body a part has been read, or all.
fn close(site: &Site, parts: &mut http::response::Parts, body: &Buffered<Body>) {
    if body.is_whole() {
        parts.extensions.insert(Whole);
    } else if parts.extensions.get::<Held>().is_none_or(|held| held.failure.is_some()) {
        bound(site, &mut parts.extensions);
    }
}

/// Reads a stream up to its first piece that counts. The reader of its body gets what has been read too.
async fn held(site: &Site, response: Response) -> Response {
    let (mut parts, body) = parted(response);
    let (body, held) = Holding::new(site, &parts.headers, body).await;
    parts.extensions.insert(held);
    close(site, &mut parts, &body);
    http::Response::from_parts(parts, Body::wrap(body)).into()
}

pin_project! {
    /// A guarded body whose timeouts are timeouts to reqwest too.
    struct Timely {
        #[pin]
        body: GuardedBody<Body>,
    }
}

impl http_body::Body for Timely {
    type Data = bytes::Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, BoxError>>> {
        let polled = self.project().body.poll_frame(cx);
        polled.map_err(|error| match error.downcast::<Stopped>() {
            Ok(stopped) if stopped.code.is_timeout() => {
                Box::new(io::Error::new(io::ErrorKind::TimedOut, Late(*stopped)))
            }
            Ok(stopped) => stopped as BoxError,
            Err(error) => error,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// Tidegate's own error inside an `io::Error`, by which reqwest knows a timeout. Its text is the code, so that a chain of causes
/// does not repeat the message.
#[derive(Debug)]
struct Late(Stopped);

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.code.name())
    }
}

impl std::error::Error for Late {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
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
    use crate::error::{Error, Report};
    use crate::listed::found_in;
    use crate::weights::Weights;

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

    /// The report of a guard's call that has failed, in the extensions of the guard around it: the error itself stays the client's.
    #[derive(Clone, Copy)]
    struct Left(Report);

    /// An error of the rest of the chain, with what a guard there has left.
    struct Passed(ClientError, Option<Left>);

    impl Failure for Passed {
        fn outcome(&self) -> Outcome {
            let own = self.0.outcome();
            self.1.map_or(own, |Left(report)| report.judged(own))
        }

        fn finding(&self) -> Finding {
            match &self.1 {
                Some(Left(report)) => report.found(|| self.0.finding()),
                None => self.0.finding(),
            }
        }
    }

    /// A guard as a middleware of `reqwest-middleware`. A `Guard` in a request's extensions replaces this one, and
    /// [`Weights`] there are the request's.
    ///
    /// Middlewares after it in the chain see each attempt; those before it see one call. Tidegate's own errors are
    /// `Error::Middleware`; [`stopped_in`](crate::stopped_in) finds them.
    #[async_trait::async_trait]
    impl Middleware for Guard {
        async fn handle(
            &self,
            request: Request,
            extensions: &mut Extensions,
            next: Next<'_>,
        ) -> reqwest_middleware::Result<Response> {
            let mut own = extensions.get::<Self>().cloned();
            if let Some(weights) = extensions.get::<Weights>() {
                own = Some(own.unwrap_or_else(|| self.clone()).weights(weights.clone()));
            }
            extensions.remove::<Left>();
            let given = &*extensions;
            let sent = own.as_ref().unwrap_or(self).run(request, |request| {
                // Each attempt has its own extensions, because hedges run side by side.
                let (next, mut extensions) = (next.clone(), given.clone());
                async move {
                    let sent = next.run(request, &mut extensions).await;
                    sent.map_err(|error| Passed(error, extensions.remove()))
                }
            });
            sent.await.map_err(|error| match error {
                Error::Failed(Passed(error, _), report) => {
                    extensions.insert(Left(report));
                    error
                }
                Error::Stopped(stopped, _) => ClientError::middleware(*stopped),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_its_body_keeps_everything_else() {
        let made = http::Request::post("http://shop.example/").header(CONTENT_LENGTH, 1).extension(7_u8);
        let mut request = Request::try_from(made.body("x").unwrap()).unwrap();
        *request.timeout_mut() = Some(Duration::from_secs(1));
        let bare = bodiless(&mut request).unwrap();
        assert!(request.body().is_some() && request.headers().contains_key(CONTENT_LENGTH));
        assert!(bare.body().is_none() && !bare.headers().contains_key(CONTENT_LENGTH));
        assert_eq!((bare.method(), bare.timeout()), (&Method::POST, Some(&Duration::from_secs(1))));
        let bare = http::Request::<Body>::try_from(bare).unwrap();
        assert_eq!(bare.extensions().get(), Some(&7_u8));
    }
}
