//! HTTP over tower: the layer for `http::Request`, with the rules that the layer for any service leaves to its user.

mod attempt;
mod judge;
mod site;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tidegate::Outcome;
use tidegate::answer::Usage;
use tower_layer::Layer;
use tower_service::Service;

use super::{Boxed, Cloned, Facts, Requests, Sending, Sent, unready};
use crate::BoxError;
use crate::drain::Buffered;
use crate::error::{Error, Report};
use crate::http::{GuardedBody, Says, last, rest};
use crate::policy::{Caller, Policy, Site};
use crate::run::{Answer, Begun, Run, Tail};
use crate::streams::Watch;
use crate::usage::{Meter, Used};
use crate::weights::Weights;
use attempt::{Answering, Numbered, Read, Reading, Spanned, Spans, spanned};
pub use judge::{ByCauses, Errors};
use judge::{HttpJudge, Opine};
use site::Last;

/// Puts services of `http::Request`, such as hyper's client, under a policy with the rules of every HTTP adapter.
///
/// - The caller gets the last response whatever its status; its extensions hold the [`Report`](crate::Report) if the
///   call made several attempts or suppressed a retry.
/// - A request is repeated if its method is idempotent, if it has an `Idempotency-Key`, or if nothing of it was sent.
///   Bodies are cloned; [`HttpLayer::requests`] changes that, for example with [`Once`](super::Once) for bodies that can
///   be sent only once.
/// - A failed response that may be repeated is read first if it is small (64 KiB), which keeps its connection; a large
///   one is closed.
/// - Slot and deadline last until the body has been read or dropped, of a failed response only the deadline
///   (`slot_until = "headers"` ends them before).
/// - A request's extension [`Weights`] is what it will use of the limits that count weights.
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
    used: Option<Arc<Used>>,
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
            used: None,
            last: Arc::default(),
        }
    }
}

impl<R, C> HttpLayer<R, C> {
    /// Changes how requests are repeated, and which facts they state on top of those that HTTP states.
    #[must_use]
    pub fn requests<Q>(self, requests: Q) -> HttpLayer<Q, C> {
        let Self { caller, says, opine, errors, used, last, .. } = self;
        HttpLayer { caller, says, opine, requests, errors, used, last }
    }

    /// Changes how errors are classified. If the function panics, the error is permanent.
    #[must_use]
    pub fn errors<D>(self, errors: D) -> HttpLayer<R, D> {
        let Self { caller, says, opine, requests, used, last, .. } = self;
        HttpLayer { caller, says, opine, requests, errors, used, last }
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

    /// Says whether responses are streams, to which `first_byte_timeout` applies. The default is that those are that answer
    /// requests with `Accept: text/event-stream`.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> Self {
        self.says.stream = Some(stream);
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

    /// Sets the function that makes the totals which an attempt settles from what its answer says that it has used, plain or
    /// streamed: [`Tokens::totals`](crate::Tokens::totals) of the limit's weight, or a function of one's own. An answer that is not
    /// read to its end, says nothing, or has a content coding counts what it has reserved. A panic settles nothing. The requests
    /// have their [`Weights`] as an extension, because their bodies cannot be read beforehand.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::{BodyExt, Full};
    /// use tidegate_tokio::settings::RateLimit;
    /// use tidegate_tokio::{Engine, Policy, Tokens, Weights};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let engine = Engine::new(7);
    /// let limits = RateLimit::of_limits(["tpm: permits=200000 per=1m weight=tokens"]);
    /// let chat = Policy::builder("chat").engine(&engine).rate_limit(limits).build().unwrap();
    /// let client = service_fn(|_| async {
    ///     let answer = r#"{"usage": {"prompt_tokens": 100, "completion_tokens": 20}}"#;
    ///     Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::from(answer)))
    /// });
    /// let tokens = Tokens::new();
    /// let client = chat.http_layer().usage(move |answer| tokens.totals(answer)).layer(client);
    /// let request = Request::post("http://model.example/").extension(Weights::new([("tokens", 1_800)]));
    /// let answer = client.oneshot(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    /// answer.collect().await.unwrap();
    /// assert_eq!(engine.snapshot().routes[0].limits[0].settled, 120);
    /// # }
    /// ```
    #[must_use]
    pub fn usage(mut self, used: impl Fn(Usage) -> Option<Weights> + Send + Sync + 'static) -> Self {
        self.used = Some(Arc::new(used));
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
        let HttpLayer { says, opine, requests, errors, used, .. } = &self.layer;
        let site = self.layer.site(&mut request);
        let mut facts = Facts::new(&site);
        if let Some(weights) = request.extensions().get::<Weights>() {
            facts = facts.weights(weights.clone());
        }
        let changed = requests.facts(&request, facts).changed;
        let site = changed.map_or(site, Arc::new);
        let repeats = site.policy.repeats();
        let keep = if repeats { requests.replay(&request) } else { None };
        let replayable = !repeats || keep.is_some();
        let judge = HttpJudge {
            repeats: replayable && site.request.idempotent && site.request.replayable,
            head: *request.method() == Method::HEAD,
            holds: site.request.stream && *request.method() != Method::CONNECT,
            opine: opine.clone(),
            errors: errors.clone(),
            used: used.clone(),
        };
        let sending = Sending {
            service: repeats.then(|| Spans(self.inner.clone())),
            first: None,
            keep,
            requests: Numbered { requests: requests.clone(), says: *says },
        };
        let begun = Begun::of(&site, replayable, request.uri().path_and_query().map(PathAndQuery::as_str));
        if begun.starts() {
            let send = || Answering::new(Sent::Called { future: spanned(self.inner.call(request), 1) });
            let first = begun.first(&site, send);
            return HttpFuture { run: Run::started(begun, site, judge, Reading(sending), first) };
        }
        let mut run = Run::waiting(begun, site, judge, Reading(sending));
        // The permit that the inner service has reserved goes to other calls meanwhile.
        let fresh = self.inner.clone();
        self.inner = fresh;
        let sending = &mut run.work_mut().0;
        sending.first = Some(Box::new(request));
        sending.service.get_or_insert_with(|| Spans(self.inner.clone()));
        HttpFuture { run }
    }
}

type HttpRun<S, B, R, C, A> = Run<
    Arc<Site>,
    Reading<Sending<Spans<S>, Request<B>, Numbered<R>>>,
    Answering<Sent<Spans<S>, Request<B>, Spanned<<S as Service<Request<B>>>::Future>>, A>,
    HttpJudge<C>,
    Response<Buffered<A>>,
    <S as Service<Request<B>>>::Error,
    Bodied,
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
        self.project().run.poll(cx)
    }
}

/// The response, with the body that keeps its call live.
enum Bodied {}

impl<A: Body, E, C> Answer<Response<Buffered<A>>, E, Arc<Site>, HttpJudge<C>> for Bodied {
    type Output = Result<Response<GuardedBody<Buffered<A>>>, Error<E>>;

    fn of(
        site: &Arc<Site>,
        _: &HttpJudge<C>,
        result: Result<Response<Buffered<A>>, Error<E>>,
        report: Report,
    ) -> Self::Output {
        let mut response = result?;
        let rest = rest(site, &report, response.extensions_mut());
        note(&mut response, report);
        Ok(response.map(|body| GuardedBody::watched(body, rest, None)))
    }

    #[inline]
    fn headed(
        judge: &HttpJudge<C>,
        mut response: Response<Buffered<A>>,
        report: Report,
        mut tail: Tail<Arc<Site>>,
    ) -> Self::Output {
        note(&mut response, report);
        let (mut parts, body) = response.into_parts();
        tail.meter = Meter::of(judge.used.as_ref(), &parts.headers);
        let watch = Watch::of(tail.site(), &parts.headers, &mut parts.extensions);
        Ok(Response::from_parts(parts, GuardedBody::watched(body, Some(tail), watch)))
    }
}

/// Marks a failed response that nobody should repeat, and puts the report of a call with trouble into its response.
#[inline]
fn note<A: Body>(response: &mut Response<Buffered<A>>, report: Report) {
    let status = response.status();
    if status.as_u16() >= 400 {
        let read = response.extensions_mut().remove::<Read>().is_some();
        last(read, &report, status, response.headers_mut());
    }
    if report.attempts > 1 || report.note().is_some() {
        response.extensions_mut().insert(report);
    }
}

impl<S: Service<Request<B>>, B, R, C, A: Body> fmt::Debug for HttpFuture<S, B, R, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFuture").finish_non_exhaustive()
    }
}
