//! The shell: carries out the engine's steps for one call. It waits, wakes and cancels, and decides nothing.
//!
//! A call is a future in its caller's task: its attempts are polled there, and nothing is spawned. Its state is one
//! [`State`]; only the state of a live call holds an id, attempts, results and a timer. Dropping a live call drops its
//! attempts and reports the cancellation to the engine.

mod answer;
mod begin;
mod live;
mod retrying;
mod state;
mod tail;
mod work;

use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
#[cfg(feature = "tower")]
use tidegate::Action;

#[cfg(feature = "tower")]
use crate::engine::Reply;

use crate::classify::Judge;
use crate::clock;
use crate::error::{Error, Report};
use crate::policy::Site;
#[cfg(any(feature = "grpc", feature = "reqwest"))]
pub(crate) use answer::Tailed;
pub(crate) use answer::{Answer, Plain, Whole};
#[cfg(feature = "tower")]
pub(crate) use begin::Begun;
use begin::{Cancel, begin};
use live::Call;
pub use retrying::{OnRetry, Retrying};
#[cfg(feature = "tower")]
use state::{Live, Place};
use state::{State, StateProjection, Turn};
pub(crate) use tail::Tail;
pub use work::Attempt;
#[cfg(any(feature = "grpc", feature = "reqwest"))]
pub(crate) use work::Optional;
pub(crate) use work::{Running, Work, target_of};

/// A call's result and its report.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Ended<T, E> {
    /// The result of the attempt that decided, or the reason why there is none.
    pub result: Result<T, Error<E>>,
    /// How many attempts were made, and why no more.
    pub report: Report,
}

pin_project! {
    /// One call.
    ///
    /// The future is moved a few times before its first poll, so the parts that few calls need are behind a pointer.
    pub(crate) struct Run<P: Deref<Target = Site>, F, Fut, J, T, E, A> {
        site: P,
        work: F,
        judge: J,
        path: Option<Box<str>>,
        replayable: bool,
        #[pin]
        state: State<Fut, T, E>,
        answer: PhantomData<fn() -> A>,
    }

    impl<P: Deref<Target = Site>, F, Fut, J, T, E, A> PinnedDrop for Run<P, F, Fut, J, T, E, A> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let StateProjection::Live { live } = this.state.as_mut().project()
                && !live.is_over()
            {
                // Dropped last, so that the engine gets the cancellation even if dropping an attempt panics.
                let _cancel = Cancel { site: this.site, call: live.call, parked: live.is_parked() };
                this.state.set(State::Over);
            }
        }
    }
}

impl<P, F, Fut, J, T, E, A> Run<P, F, Fut, J, T, E, A>
where
    P: Deref<Target = Site>,
{
    /// A call of this site's policy and route. If it is not `replayable`, it makes one attempt, whatever its site says.
    #[inline]
    pub fn new(site: P, replayable: bool, path: Option<Box<str>>, judge: J, work: F) -> Self {
        Self { site, work, judge, path, replayable, state: State::Fresh, answer: PhantomData }
    }

    /// A call that has begun before its first poll, with its first attempt.
    #[cfg(feature = "tower")]
    #[inline]
    pub fn started(begun: Begun, site: P, judge: J, work: F, first: Fut) -> Self {
        let Begun { call, reply: Reply { step, at, .. }, replayable } = begun;
        let turn = Turn::Begun { at, next: step.next() };
        let live =
            Live { attempts: 1, place: Place::Taken { number: 1, future: first }, ..Live::new(call, turn) };
        Self { site, work, judge, path: None, replayable, state: State::Live { live }, answer: PhantomData }
    }

    /// A call that has begun before its first poll, and has to wait or was refused.
    #[cfg(feature = "tower")]
    pub fn waiting(begun: Begun, site: P, judge: J, work: F) -> Self {
        let Begun { call, reply, replayable } = begun;
        let state = match reply.step.action() {
            Action::Done { verdict, retry_in, .. } => State::Refused { call, verdict, retry_in },
            _ => State::live(call, Turn::Waits),
        };
        Self { site, work, judge, path: None, replayable, state, answer: PhantomData }
    }

    #[cfg(feature = "tower")]
    pub fn work_mut(&mut self) -> &mut F {
        &mut self.work
    }
}

impl<P, F, Fut, J, T, E, A> Future for Run<P, F, Fut, J, T, E, A>
where
    P: Deref<Target = Site> + Clone,
    F: Work<Fut>,
    Fut: Running<J, T, E>,
    J: Judge<T, E>,
    A: Answer<T, E, P, J>,
{
    type Output = A::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut begun = None;
        if matches!(*this.state, State::Fresh) {
            let (call, reply) = begin(this.site, *this.replayable, this.path.as_deref());
            this.state.set(State::live(call, Turn::Runs));
            begun = Some(reply);
        }
        match this.state.as_mut().project() {
            StateProjection::Live { mut live } if !live.is_over() => {
                let call = Call::<_, _, _, _, _, _, A>::new(this.site, this.work, this.judge, live.as_mut());
                let polled = match begun {
                    Some(reply) => call.begun(reply, cx),
                    None => call.poll(cx),
                };
                if polled.is_ready() {
                    live.finish();
                }
                polled
            }
            StateProjection::Refused { call, verdict, retry_in } => {
                let report = this.site.report(Some(*call), 0, *verdict, retry_in.map(clock::std));
                let stopped = this.site.stopped(report);
                let report = stopped.report;
                this.state.set(State::Over);
                Poll::Ready(A::of(
                    this.site,
                    this.judge,
                    Err(Error::Stopped(Box::new(stopped), None)),
                    report,
                ))
            }
            _ => panic!("a call was polled after its end"),
        }
    }
}
