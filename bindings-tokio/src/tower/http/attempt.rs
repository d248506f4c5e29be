//! One attempt of a request: sends it, and reads a small failed response before the policy gets it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response, response};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate::{Class, Opinion};
use tower_service::Service;

use super::judge::HttpJudge;
use crate::BoxError;
use crate::drain::{Buffered, Draining};
use crate::http::{Says, reads};
use crate::streams::{Holding, is_held};
use crate::tower::Requests;

/// Numbers the repeats of requests.
pub(super) struct Numbered<R> {
    pub requests: R,
    pub says: Says,
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

/// Marks a failed response of whose body the beginning has been read, for its outcome.
#[derive(Clone, Copy)]
pub(super) struct Read;

/// The client. It reads small failed responses before the policy gets them.
#[derive(Clone)]
pub(super) struct Answers<S, C> {
    pub inner: S,
    pub judge: HttpJudge<C>,
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
    pub(super) struct Answering<F, A: Body, C> {
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
        Holding { rest: Box<(Option<response::Parts>, Holding<A>)> },
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
    pub fn new(future: F, judge: HttpJudge<C>, number: u8) -> Self {
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
                    let outcome =
                        this.judge.of(response.status(), (response.headers(), response.extensions()), b"");
                    if this.judge.holds && is_held(response.status(), outcome) {
                        let (parts, body) = response.into_parts();
                        let holding = Holding::new(&this.judge.site, &parts.headers, body);
                        this.stage.set(Stage::Holding { rest: Box::new((Some(parts), holding)) });
                        continue;
                    }
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
                StageProjection::Holding { rest } => {
                    let (body, held) = ready!(Pin::new(&mut rest.1).poll(cx));
                    let Some(mut parts) = rest.0.take() else { return Poll::Pending };
                    parts.extensions.insert(held);
                    return Poll::Ready(Ok(Response::from_parts(parts, body)));
                }
            }
        }
    }
}
