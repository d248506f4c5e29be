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
use crate::http::{Says, bound, reads};
use crate::policy::Site;
use crate::run::{Attempt, Running, Work};
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

/// The client, whose repeats have a tracing span each.
#[derive(Clone)]
pub(super) struct Spans<S>(pub S);

impl<S: Service<Request<B>>, B> Service<Request<B>> for Spans<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = Spanned<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let number = request.extensions().get().map_or(1, |Number(number)| *number);
        spanned(self.0.call(request), number)
    }
}

/// Makes attempts that read small failed responses.
pub(super) struct Reading<W>(pub W);

impl<F, A: Body, W: Work<F>> Work<Answering<F, A>> for Reading<W> {
    fn attempt(&mut self, attempt: Attempt) -> Option<Answering<F, A>> {
        self.0.attempt(attempt).map(Answering::new)
    }
}

pin_project! {
    /// One attempt: sends the request, and reads a small failed response before the policy gets it.
    #[project = AnsweringProjection]
    pub(super) enum Answering<F, A: Body> {
        Sending { #[pin] future: F },
        Draining { rest: Pin<Box<Rest<A>>> },
        Holding { rest: Box<(Option<response::Parts>, Holding<A>)> },
    }
}

pin_project! {
    /// A failed response whose body is being read.
    pub(super) struct Rest<A: Body> {
        parts: Option<response::Parts>,
        #[pin]
        body: Draining<A>,
    }
}

/// A future inside the tracing span of a repeat.
#[cfg(feature = "tracing")]
pub(super) type Spanned<F> = tracing::instrument::Instrumented<F>;
#[cfg(not(feature = "tracing"))]
pub(super) type Spanned<F> = F;

#[cfg(feature = "tracing")]
pub(super) fn spanned<F>(future: F, number: u8) -> Spanned<F> {
    tracing::Instrument::instrument(future, crate::http::repeat_span(number))
}

#[cfg(not(feature = "tracing"))]
pub(super) fn spanned<F>(future: F, _: u8) -> Spanned<F> {
    future
}

impl<F, A: Body> Answering<F, A> {
    pub fn new(future: F) -> Self {
        Self::Sending { future }
    }
}

impl<F, A, C, E> Running<HttpJudge<C>, Response<Buffered<A>>, E> for Answering<F, A>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: Body + Unpin,
    A::Error: Into<BoxError>,
{
    fn poll_in(
        mut self: Pin<&mut Self>,
        site: &Site,
        judge: &HttpJudge<C>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<Buffered<A>>, E>> {
        loop {
            match self.as_mut().project() {
                AnsweringProjection::Sending { future } => {
                    let response = match ready!(future.poll(cx)) {
                        Ok(response) => response,
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                    if reads(site, response.status()) {
                        let (mut parts, body) = response.into_parts();
                        parts.extensions.insert(Read);
                        let rest = Rest { parts: Some(parts), body: Draining::beginning(body) };
                        self.set(Self::Draining { rest: Box::pin(rest) });
                        continue;
                    }
                    let said = (response.headers(), response.extensions());
                    let outcome = judge.of(site, response.status(), said, b"");
                    if judge.holds && is_held(response.status(), outcome) {
                        let (parts, body) = response.into_parts();
                        let holding = Holding::new(site, &parts.headers, body);
                        self.set(Self::Holding { rest: Box::new((Some(parts), holding)) });
                        continue;
                    }
                    let fails = outcome.kind != Class::Ok.into() && outcome.opinion != Opinion::DoNot;
                    if !judge.repeats || !fails {
                        let mut response = response.map(Buffered::new);
                        if outcome.kind != Class::Ok.into() {
                            bound(site, response.extensions_mut());
                        }
                        return Poll::Ready(Ok(response));
                    }
                    let (parts, body) = response.into_parts();
                    let rest = Rest { parts: Some(parts), body: Draining::new(body) };
                    self.set(Self::Draining { rest: Box::pin(rest) });
                }
                AnsweringProjection::Draining { rest } => {
                    let rest = rest.as_mut().project();
                    let body = ready!(rest.body.poll(cx));
                    let Some(mut parts) = rest.parts.take() else { return Poll::Pending };
                    if !body.is_whole() {
                        bound(site, &mut parts.extensions);
                    }
                    return Poll::Ready(Ok(Response::from_parts(parts, body)));
                }
                AnsweringProjection::Holding { rest } => {
                    let (body, held) = ready!(Pin::new(&mut rest.1).poll(cx));
                    let Some(mut parts) = rest.0.take() else { return Poll::Pending };
                    if held.failure.is_some() && !body.is_whole() {
                        bound(site, &mut parts.extensions);
                    }
                    parts.extensions.insert(held);
                    return Poll::Ready(Ok(Response::from_parts(parts, body)));
                }
            }
        }
    }
}
