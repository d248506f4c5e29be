//! A call as its caller awaits it: what of its end it answers.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Ended, Over};
use crate::error::Error;
use crate::policy::Site;

pin_project! {
    /// A call that answers its result alone. By hand: an `async` block would keep the call twice.
    pub(crate) struct Plain<R> {
        #[pin]
        pub run: R,
    }
}

impl<T, E, P: Deref<Target = Site>, R: Future<Output = Over<T, E, P>>> Future for Plain<R> {
    type Output = Result<T, Error<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().run.poll(cx).map(|over| over.ended.result)
    }
}

pin_project! {
    /// A call that answers its result and what became of it.
    pub(crate) struct Whole<R> {
        #[pin]
        pub run: R,
    }
}

impl<T, E, P: Deref<Target = Site>, R: Future<Output = Over<T, E, P>>> Future for Whole<R> {
    type Output = Ended<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().run.poll(cx).map(|over| over.ended)
    }
}
