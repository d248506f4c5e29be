//! HTTP over tower: the layer for `http::Request`, with the rules that the layer for any service leaves to its user.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Response, StatusCode, response};
use http_body::Body;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tidegate::{Class, Opinion, Outcome, class_of_status};
use tower_layer::Layer;
use tower_service::Service;

use super::{Boxed, Cloned, Facts, Requests, Sending, Sent, unready};
use crate::BoxError;
use crate::classify::{Finding, Judge, Judgement};
use crate::drain::{Buffered, Draining};
use crate::error::Error;
use crate::http::{GuardedBody, Says, has_body, last, outcome_of, reads};
use crate::listed::found_in;
use crate::policy::{Caller, Policy, Site};
use crate::run::{Run, Tailed};

type Opine = dyn Fn(StatusCode, &HeaderMap) -> Option<Outcome> + Send + Sync;

/// Classifies errors of an HTTP client. Functions of `&E` implement it.
pub trait Errors<E> {
    /// The outcome of an attempt that ended with this error.
    fn outcome(&self, error: &E) -> Outcome;

    /// The finding about this error, which may leave the decision to the policy.
    #[doc(hidden)]
    fn finding(&self, error: &E) -> Finding {
        Finding::Outcome(self.outcome(error))
    }
}

impl<E, F: Fn(&E) -> Outcome> Errors<E> for F {
    fn outcome(&self, error: &E) -> Outcome {
        self(error)
    }
}

/// The default: classifies errors by the table that all languages share. An error that is not listed, by itself or by a
/// cause, is permanent, and the report's note says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByCauses;

impl<E: StdError + 'static> Errors<E> for ByCauses {
    fn outcome(&self, error: &E) -> Outcome {
        self.finding(error).under(|status, _| Outcome::of(class_of_status(status)))
    }

    fn finding(&self, error: &E) -> Finding {
        found_in(error)
    }
}

/// Puts services of `http::Request`, such as hyper's client, under a policy with the rules of every HTTP adapter.
///
/// - The caller gets the last response whatever its status; its extensions hold the [`Report`](crate::Report) if the
///   call made several attempts or suppressed a retry.
/// - A request is repeated if its method is idempotent, if it has an `Idempotency-Key`, or if nothing of it was sent.
///   Bodies are cloned; [`HttpLayer::requests`] changes that, for example with [`Once`](super::Once) for bodies that can
///   be sent only once.
/// - A failed response that may be repeated is read first if it is small (64 KiB), which keeps its connection; a large
///   one is closed.
/// - Slot and deadline last until the body has been read or dropped (`slot_until = "headers"` ends them before).
/// - Repeats carry `Retry-Attempt: n`. The route is the request's scheme and authority, unless the caller has a route.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tidegate_tokio::settings::Preset;
/// use tidegate_tokio::Policy;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let shop = Policy::builder("shop").preset(Preset::Http).build().unwrap();
/// // In the place of a client: an answer that is worth a repeat, and then a good one.
/// let client = service_fn(|request: Request<Full<Bytes>>| async move {
///     let status = if request.headers().contains_key("retry-attempt") { 200 } else { 503 };
///     Ok::<_, std::io::Error>(Response::builder().status(status).body(Full::<Bytes>::default()).unwrap())
/// });
/// let client = shop.http_layer().layer(client);
/// let response = client.oneshot(Request::get("http://shop.example/orders/7").body(Full::default()).unwrap()).await.unwrap();
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.extensions().get::<tidegate_tokio::Report>().unwrap().attempts, 2);
/// # }
/// ```
#[derive(Clone)]
pub struct HttpLayer<R = Cloned, C = ByCauses> {
    caller: Caller,
    says: Says,
    opine: Option<Arc<Opine>>,
    requests: R,
    errors: C,
    last: Arc<Mutex<Option<Last>>>,
}

impl Policy {
    /// This policy as a layer for HTTP clients: see [`HttpLayer`].
    pub fn http_layer(&self) -> HttpLayer {
        self.caller().http_layer()
    }
}

impl Caller {
    /// This caller as a layer for HTTP clients: see [`HttpLayer`]. The caller's route, if it has one, replaces the
    /// requests' origins.
    pub fn http_layer(&self) -> HttpLayer {
        HttpLayer {
            caller: self.clone(),
            says: Says::new(),
            opine: None,
            requests: Cloned,
            errors: ByCauses,
            last: Arc::default(),
        }
    }
}

impl<R, C> HttpLayer<R, C> {
    /// Changes how requests are repeated, and which facts they state on top of those that HTTP states.
    #[must_use]
    pub fn requests<Q>(self, requests: Q) -> HttpLayer<Q, C> {
        let Self { caller, says, opine, errors, last, .. } = self;
        HttpLayer { caller, says, opine, requests, errors, last }
    }

    /// Changes how errors are classified. If the function panics, the error is permanent.
    #[must_use]
    pub fn errors<D>(self, errors: D) -> HttpLayer<R, D> {
        let Self { caller, says, opine, requests, last, .. } = self;
        HttpLayer { caller, says, opine, requests, errors, last }
    }

    /// The same layer with boxed errors ([`Error::into_boxed`]), as tower's own layers have them.
    #[must_use]
    pub fn boxed(self) -> Boxed<Self> {
        Boxed::new(self)
    }

    /// Says whether a repeat is harmless, whatever a request's method.
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.says.idempotent = Some(idempotent);
        self.last = Arc::default();
        self
    }

    /// Says whether repeats carry `Retry-Attempt: n`. The default is true.
    #[must_use]
    pub fn retry_header(mut self, retry_header: bool) -> Self {
        self.says.retry_header = retry_header;
        self
    }

    /// Says whether each request without an `Idempotency-Key` gets one of its own, the same on each attempt. The
    /// default is false.
    #[must_use]
    pub fn idempotency_key(mut self, idempotency_key: bool) -> Self {
        self.says.make_key = idempotency_key;
        self
    }

    /// Classifies responses before their status does; `None` leaves the decision to the status. A panic counts as
    /// `None`. The function may be called twice for one response.
    #[must_use]
    pub fn classify(
        mut self,
        opine: impl Fn(StatusCode, &HeaderMap) -> Option<Outcome> + Send + Sync + 'static,
    ) -> Self {
        self.opine = Some(Arc::new(opine));
        self
    }
}

impl<R, C> fmt::Debug for HttpLayer<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLayer").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl<S, R: Clone, C: Clone> Layer<S> for HttpLayer<R, C> {
    type Service = HttpService<S, R, C>;

    fn layer(&self, inner: S) -> Self::Service {
        HttpService { inner, layer: self.clone() }
    }
}

/// An HTTP client under a policy: see [`HttpLayer`].
#[derive(Clone)]
pub struct HttpService<S, R = Cloned, C = ByCauses> {
    inner: S,
    layer: HttpLayer<R, C>,
}

impl<S, R, C> fmt::Debug for HttpService<S, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("caller", &self.layer.caller).finish_non_exhaustive()
    }
}

impl<S, R, C, B, A> Service<Request<B>> for HttpService<S, R, C>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    R: Requests<Request<B>> + Clone,
    C: Errors<S::Error> + Clone,
    A: Body + Unpin,
    A::Error: Into<BoxError>,
{
    type Response = Response<GuardedBody<Buffered<A>>>;
    type Error = Error<S::Error>;
    type Future = HttpFuture<S, B, R, C, A>;

    /// Ready where the inner service is; nothing is reserved.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(unready)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let HttpLayer { says, opine, requests, errors, .. } = &self.layer;
        let site = self.layer.site(&mut request);
        let site = requests.facts(&request, Facts::new(&site)).site();
        let keep = if site.policy.repeats() { Some(requests.replay(&request)) } else { None };
        let replayable = !matches!(keep, Some(None));
        let judge = HttpJudge {
            repeats: replayable && site.request.idempotent && site.request.replayable,
            head: *request.method() == Method::HEAD,
            site: Arc::clone(&site),
            opine: opine.clone(),
            errors: errors.clone(),
        };
        let sending = Sending {
            service: Some(Answers { inner: self.inner.clone(), judge: judge.clone() }),
            first: None,
            keep: keep.flatten(),
            requests: Numbered { requests: requests.clone(), says: *says },
        };
        let mut run = Run::new(site, replayable, None, judge.clone(), sending);
        run.begin(request.uri().path_and_query().map(PathAndQuery::as_str));
        let first = |request| Sent::Called { future: Answering::new(self.inner.call(request), judge, 1) };
        if let Some(request) = run.start(request, first) {
            // The permit that the inner service has reserved goes to other calls meanwhile.
            let fresh = self.inner.clone();
            self.inner = fresh;
            run.work_mut().first = Some(Box::new(request));
        }
        HttpFuture { run }
    }
}

/// The site of the last request's call. Most clients talk to one origin, with one or two methods.
struct Last {
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    method: Method,
    settings: u32,
    site: Arc<Site>,
}

impl Last {
    /// Whether this request's call belongs to the same site.
    fn fits<B>(&self, request: &Request<B>, settings: u32) -> bool {
        let uri = request.uri();
        self.method == *request.method()
            && same(self.authority.as_ref(), uri.authority())
            && self.scheme.as_ref() == uri.scheme()
            && self.settings == settings
    }
}

/// Whether two authorities are equal. Most are to the letter, which is faster to see than equality without regard to case.
fn same(one: Option<&Authority>, other: Option<&Authority>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.as_str() == other.as_str() || one == other,
        (one, other) => one == other,
    }
}

impl<R, C> HttpLayer<R, C> {
    /// Finds the site of a request's call, and gives the request its idempotency key if it needs one.
    fn site<B>(&self, request: &mut Request<B>) -> Arc<Site> {
        let settings = self.caller.site.policy.settings();
        // An idempotency key belongs to one request, so such a site is not remembered.
        let plain = !self.says.keyed(request.headers());
        if plain
            && let Some(last) = self.last.try_lock()
            && let Some(last) = last.as_ref().filter(|last| last.fits(request, settings))
        {
            return Arc::clone(&last.site);
        }
        let method = request.method().clone();
        let mut site = self.says.site(&self.caller.site, &method, request.headers_mut());
        if let (false, Some(authority)) = (self.caller.has_route(), request.uri().authority()) {
            let scheme = request.uri().scheme_str().unwrap_or("http");
            site.aim(format!("{scheme}://{authority}").into());
        }
        let site = Arc::new(site);
        if plain && let Some(mut last) = self.last.try_lock() {
            let (scheme, authority) = (request.uri().scheme().cloned(), request.uri().authority().cloned());
            *last = Some(Last { scheme, authority, method, settings, site: Arc::clone(&site) });
        }
        site
    }
}

/// Numbers the repeats of requests.
struct Numbered<R> {
    requests: R,
    says: Says,
}

/// The number of a repeat's attempt, for its tracing span.
#[derive(Clone, Copy)]
struct Number(u8);

impl<B, R: Requests<Request<B>>> Requests<Request<B>> for Numbered<R> {
    fn replay(&self, request: &Request<B>) -> Option<Request<B>> {
        self.requests.replay(request)
    }

    fn repeat(&self, request: &mut Request<B>, attempt: u8) {
        self.says.number(request.headers_mut(), attempt);
        request.extensions_mut().insert(Number(attempt));
        self.requests.repeat(request, attempt);
    }
}

/// Classifies responses by their status, and errors by the error classifier.
#[derive(Clone)]
struct HttpJudge<C> {
    site: Arc<Site>,
    opine: Option<Arc<Opine>>,
    errors: C,
    head: bool,
    /// Whether another attempt may follow a failed response.
    repeats: bool,
}

impl<C> HttpJudge<C> {
    fn of(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Outcome {
        // Called twice for a failed response: before its body is read, and when the attempt's outcome is reported.
        let opine =
            |opine: &Arc<Opine>| catch_unwind(AssertUnwindSafe(|| opine(status, headers))).ok().flatten();
        let said = self.opine.as_ref().and_then(opine);
        said.unwrap_or_else(|| outcome_of(&self.site, status.as_u16(), headers, body))
    }
}

impl<A: Body, E, C: Errors<E>> Judge<Response<Buffered<A>>, E> for HttpJudge<C>
where
    Buffered<A>: Body,
{
    fn judge(&self, site: &Site, result: &Result<Response<Buffered<A>>, E>) -> Judgement {
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                let said = catch_unwind(AssertUnwindSafe(|| self.errors.finding(error)));
                let permanent = |_| Outcome::of(Class::Permanent);
                return Judgement::Outcome(said.map_or_else(permanent, |finding| site.outcome_in(finding)));
            }
        };
        let read = reads(&self.site, response.status()).then(|| response.body().beginning());
        let outcome = self.of(response.status(), response.headers(), &read.unwrap_or_default());
        let follows = !self.head && has_body(response.status(), response.body().size_hint().exact());
        if outcome.kind == Class::Ok.into() && follows && self.site.request.slot_until_body {
            Judgement::Head
        } else {
            Judgement::Outcome(outcome)
        }
    }

    fn unlisted(&self, error: &E) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.errors.finding(error))).is_ok_and(|it| it == Finding::Unlisted)
    }

    /// Keeps a small response, whose body has been read; drops a large one, which closes it before the next attempt.
    fn release(&self, result: Result<Response<Buffered<A>>, E>) -> Option<Result<Response<Buffered<A>>, E>> {
        match result {
            Ok(response) if !response.body().is_whole() => None,
            kept => Some(kept),
        }
    }
}

/// Marks a failed response of whose body the beginning has been read, for its outcome.
#[derive(Clone, Copy)]
struct Read;

/// The client. It reads small failed responses before the policy gets them.
#[derive(Clone)]
struct Answers<S, C> {
    inner: S,
    judge: HttpJudge<C>,
}

impl<S, B, A, C> Service<Request<B>> for Answers<S, C>
where
    S: Service<Request<B>, Response = Response<A>>,
    A: Body + Unpin,
    A::Error: Into<BoxError>,
    C: Clone,
{
    type Response = Response<Buffered<A>>;
    type Error = S::Error;
    type Future = Answering<S::Future, A, C>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let number = request.extensions().get().map_or(1, |Number(number)| *number);
        Answering::new(self.inner.call(request), self.judge.clone(), number)
    }
}

pin_project! {
    /// The future of one attempt.
    struct Answering<F, A: Body, C> {
        #[pin]
        stage: Stage<F, A>,
        judge: HttpJudge<C>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, A: Body> {
        Sending { #[pin] future: Spanned<F> },
        Draining { rest: Pin<Box<Rest<A>>> },
    }
}

pin_project! {
    /// A failed response whose body is being read.
    struct Rest<A: Body> {
        parts: Option<response::Parts>,
        #[pin]
        body: Draining<A>,
    }
}

/// A future inside the tracing span of a repeat.
#[cfg(feature = "tracing")]
type Spanned<F> = tracing::instrument::Instrumented<F>;
#[cfg(not(feature = "tracing"))]
type Spanned<F> = F;

#[cfg(feature = "tracing")]
fn spanned<F>(future: F, number: u8) -> Spanned<F> {
    tracing::Instrument::instrument(future, crate::http::repeat_span(number))
}

#[cfg(not(feature = "tracing"))]
fn spanned<F>(future: F, _: u8) -> Spanned<F> {
    future
}

impl<F, A: Body, C> Answering<F, A, C> {
    fn new(future: F, judge: HttpJudge<C>, number: u8) -> Self {
        Self { stage: Stage::Sending { future: spanned(future, number) }, judge }
    }
}

impl<F, A, C, E> Future for Answering<F, A, C>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: Body + Unpin,
    A::Error: Into<BoxError>,
{
    type Output = Result<Response<Buffered<A>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.stage.as_mut().project() {
                StageProjection::Sending { future } => {
                    let response = match ready!(future.poll(cx)) {
                        Ok(response) => response,
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                    if reads(&this.judge.site, response.status()) {
                        let (mut parts, body) = response.into_parts();
                        parts.extensions.insert(Read);
                        let rest = Rest { parts: Some(parts), body: Draining::beginning(body) };
                        this.stage.set(Stage::Draining { rest: Box::pin(rest) });
                        continue;
                    }
                    let outcome = this.judge.of(response.status(), response.headers(), b"");
                    let fails = outcome.kind != Class::Ok.into() && outcome.opinion != Opinion::DoNot;
                    if !this.judge.repeats || !fails {
                        return Poll::Ready(Ok(response.map(Buffered::new)));
                    }
                    let (parts, body) = response.into_parts();
                    let rest = Rest { parts: Some(parts), body: Draining::new(body) };
                    this.stage.set(Stage::Draining { rest: Box::pin(rest) });
                }
                StageProjection::Draining { rest } => {
                    let rest = rest.as_mut().project();
                    let body = ready!(rest.body.poll(cx));
                    let Some(parts) = rest.parts.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(Response::from_parts(parts, body)));
                }
            }
        }
    }
}

type HttpRun<S, B, R, C, A> = Run<
    Arc<Site>,
    Sending<Answers<S, C>, Request<B>, Numbered<R>>,
    Sent<Answers<S, C>, Request<B>, Answering<<S as Service<Request<B>>>::Future, A, C>>,
    HttpJudge<C>,
    Response<Buffered<A>>,
    <S as Service<Request<B>>>::Error,
    Tailed,
>;

pin_project! {
    /// The future of an [`HttpService`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct HttpFuture<S: Service<Request<B>>, B, R, C, A: Body> {
        #[pin]
        run: HttpRun<S, B, R, C, A>,
    }
}

impl<S, B, R, C, A> Future for HttpFuture<S, B, R, C, A>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    R: Requests<Request<B>>,
    C: Errors<S::Error> + Clone,
    A: Body + Unpin,
    A::Error: Into<BoxError>,
{
    type Output = Result<Response<GuardedBody<Buffered<A>>>, Error<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (ended, tail) = ready!(self.project().run.poll(cx));
        Poll::Ready(ended.result.map(|mut response| {
            if response.status().as_u16() >= 400 {
                last(response.extensions_mut().remove::<Read>().is_some(), response.headers_mut());
            }
            if ended.report.attempts > 1 || ended.report.note().is_some() {
                response.extensions_mut().insert(ended.report);
            }
            response.map(|body| GuardedBody::new(body, tail))
        }))
    }
}

impl<S: Service<Request<B>>, B, R, C, A: Body> fmt::Debug for HttpFuture<S, B, R, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::settings::{Preset, Retry};

    fn request(method: Method, uri: &str) -> Request<()> {
        let uri = uri.parse().unwrap();
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.method, parts.uri) = (method, uri);
        Request::from_parts(parts, ())
    }

    /// R6: a request like the last one needs no formatting and no allocation, and any other request gets its own site.
    #[test]
    fn a_request_like_the_last_one_is_made_at_the_same_place() {
        let engine = Engine::new(1);
        let policy = Policy::builder("shop").engine(&engine).preset(Preset::Http).build().unwrap();
        let layer = policy.http_layer();
        let site = |method, uri| layer.site(&mut request(method, uri));
        let first = site(Method::GET, "http://shop.example/orders/7");
        assert_eq!((&*first.key, first.request.idempotent), ("http://shop.example", true));
        assert!(Arc::ptr_eq(&first, &site(Method::GET, "http://shop.example/orders/8")));
        // Clones of the layer share the remembered site.
        assert!(Arc::ptr_eq(&first, &layer.clone().site(&mut request(Method::GET, "http://SHOP.example/"))));
        for (method, uri, key, idempotent) in [
            (Method::POST, "http://shop.example/", "http://shop.example", false),
            (Method::GET, "https://shop.example/", "https://shop.example", true),
            (Method::GET, "https://shop.example:8443/", "https://shop.example:8443", true),
        ] {
            let other = site(method, uri);
            assert_eq!((&*other.key, other.request.idempotent), (key, idempotent));
        }
        // A request with an idempotency key is not remembered.
        let mut keyed = request(Method::POST, "http://shop.example/");
        keyed.headers_mut().insert("idempotency-key", http::HeaderValue::from_static("7"));
        assert!(layer.site(&mut keyed).request.idempotent);
        assert!(!site(Method::POST, "http://shop.example/").request.idempotent);
        // Other settings and other methods give other sites; a layer with other options remembers its own.
        let retuned = Policy::builder("shop").preset(Preset::Http).retry(Retry::new().methods(["POST"]));
        policy.retune(retuned.settings().unwrap()).unwrap();
        assert!(site(Method::POST, "http://shop.example/").request.idempotent);
        let never = layer.clone().idempotent(false);
        assert!(!never.site(&mut request(Method::POST, "http://shop.example/")).request.idempotent);
        assert!(site(Method::POST, "http://shop.example/").request.idempotent);
    }
}
