//! Layers with boxed errors, as tower's own layers have them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::BoxError;
use crate::error::Error;

/// A policy's layer whose services have boxed errors: see [`PolicyLayer::boxed`](super::PolicyLayer::boxed).
#[derive(Clone, Copy, Debug)]
pub struct Boxed<L> {
    layer: L,
}

impl<L> Boxed<L> {
    pub(super) const fn new(layer: L) -> Self {
        Self { layer }
    }
}

impl<S, L: Layer<S>> Layer<S> for Boxed<L> {
    type Service = BoxedService<L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        BoxedService { inner: self.layer.layer(inner) }
    }
}

/// A service under a policy whose errors are boxed.
#[derive(Clone, Copy, Debug)]
pub struct BoxedService<S> {
    inner: S,
}

impl<S, Req, E> Service<Req> for BoxedService<S>
where
    S: Service<Req, Error = Error<E>>,
    E: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Error::into_boxed)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        BoxedFuture { future: self.inner.call(request) }
    }
}

pin_project! {
    /// The future of a [`BoxedService`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct BoxedFuture<F> {
        #[pin]
        future: F,
    }
}

impl<T, E: Into<BoxError>, F: Future<Output = Result<T, Error<E>>>> Future for BoxedFuture<F> {
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map_err(Error::into_boxed)
    }
}
