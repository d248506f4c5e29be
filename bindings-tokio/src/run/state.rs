//! The state of a call, from before its first poll to its end.

use std::pin::Pin;

use pin_project_lite::pin_project;
use tidegate::{AttemptSlot, CallId, Class, Kind, Verdict};
use tokio::time::{Instant, Sleep};

use crate::policy::Site;
use crate::scope::{Aimed, Inside};

pin_project! {
    /// The state of a call.
    #[project = StateProjection]
    pub(super) enum State<Fut, T, E> {
        /// Not begun: the first poll begins the call.
        Fresh,
        /// Refused before its first poll, which returns the refusal.
        Refused { call: CallId, verdict: Verdict, retry_in: Option<tidegate::Duration> },
        /// Known to the engine.
        Live { #[pin] live: Live<Fut, T, E> },
        /// Over: the result has been returned.
        Over,
    }
}

/// The first thing that the next poll of a live call does.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// Polls the first attempt, which was made before the call was polled. The engine's step was made at `at` and asks
    /// for a timer after `next`.
    #[cfg_attr(not(feature = "tower"), expect(dead_code, reason = "layers begin before they are polled"))]
    Begun { at: Instant, next: Option<tidegate::Duration> },
    /// Asks the engine: the call waits for another call's event, and no waker is registered yet.
    #[cfg_attr(not(feature = "tower"), expect(dead_code, reason = "layers begin before they are polled"))]
    Waits,
    /// Asks the engine: the call waits for another call's event, and its waker is registered.
    Parked,
    /// Polls the attempts and the timer.
    Runs,
    /// Nothing: the result has been returned. What is left of the call is dropped with it.
    Over,
}

pin_project! {
    /// The attempt that is stored inside the call's future.
    #[project = PlaceProjection]
    pub(super) enum Place<Fut> {
        Free,
        Taken { number: u8, #[pin] future: Fut },
    }
}

/// A further attempt, boxed, that runs beside the one inside the call's future.
pub(super) struct Racer<Fut> {
    pub number: u8,
    pub future: Pin<Box<Fut>>,
}

/// Boxed attempts that run beside the one inside the call's future, and the endings of attempts that ended earlier.
pub(super) struct Race<Fut, T, E> {
    pub racers: Vec<Racer<Fut>>,
    pub earlier: Vec<(u8, Ending<T, E>)>,
}

/// How an attempt ended.
pub(super) enum Ending<T, E> {
    Own(Result<T, E>),
    /// The head of a good answer whose body is still to be read.
    Head(T),
    /// The shell stopped the attempt. The error of the attempt before it stays the call's last error.
    Stopped(Option<E>),
}

impl<T, E> Ending<T, E> {
    /// The last error of the call's own work.
    pub fn error(self) -> Option<E> {
        match self {
            Self::Own(Ok(_)) | Self::Head(_) => None,
            Self::Own(Err(error)) => Some(error),
            Self::Stopped(last) => last,
        }
    }
}

pin_project! {
    /// A call that the engine knows.
    #[project = LiveProjection]
    pub(super) struct Live<Fut, T, E> {
        pub call: CallId,
        pub turn: Turn,
        // Attempts started so far.
        pub attempts: u8,
        // The kind of the last failure.
        pub failure: Kind,
        // Polls of the timer that was not due, modulo 256.
        pub polls: u8,
        #[pin]
        pub place: Place<Fut>,
        pub race: Option<Box<Race<Fut, T, E>>>,
        // The last attempt that ended and did not decide. Behind a pointer, because the call's future is moved.
        pub held: Option<Box<(u8, Ending<T, E>)>>,
        pub due: Option<Instant>,
        #[pin]
        pub sleep: Option<Sleep>,
    }
}

impl<Fut, T, E> State<Fut, T, E> {
    /// A call that has just begun.
    #[inline]
    pub fn live(call: CallId, turn: Turn) -> Self {
        Self::Live { live: Live::new(call, turn) }
    }
}

impl<Fut, T, E> Live<Fut, T, E> {
    /// A call that has just begun.
    #[inline]
    pub fn new(call: CallId, turn: Turn) -> Self {
        Self {
            call,
            turn,
            attempts: 0,
            failure: Class::Ok.into(),
            polls: 0,
            place: Place::Free,
            race: None,
            held: None,
            due: None,
            sleep: None,
        }
    }

    /// Whether a waker is registered for the call.
    #[inline]
    pub const fn is_parked(&self) -> bool {
        matches!(self.turn, Turn::Parked)
    }

    /// Whether the call's result has been returned.
    #[inline]
    pub const fn is_over(&self) -> bool {
        matches!(self.turn, Turn::Over)
    }

    /// Notes that the call's result is returned. Its last parts are dropped with the call's future, which its owner drops next.
    #[inline]
    pub fn finish(self: Pin<&mut Self>) {
        *self.project().turn = Turn::Over;
    }

    /// Makes this call the parent of calls that its attempts make while they are polled.
    #[inline]
    pub fn inside(&self, site: &Site) -> Inside {
        Inside::new(site.shared().number, self.call)
    }

    /// Makes this attempt, if it goes to a target, the one of which [`target`](crate::target) tells while it is polled.
    #[inline]
    pub fn aim(&self, site: &Site, attempt: u8) -> Option<Aimed> {
        site.policy.has_targets().then(|| Aimed::new(site.shared().number, self.call, attempt))
    }

    /// Keeps an attempt's ending. In a race earlier endings are kept too; otherwise the new one replaces the one
    /// before.
    pub fn hold(self: Pin<&mut Self>, number: u8, ending: Ending<T, E>) {
        let this = self.project();
        match (this.held.take(), this.race) {
            (Some(before), Some(race)) => {
                race.earlier.push(*before);
                *this.held = Some(Box::new((number, ending)));
            }
            (Some(before), None) if matches!(ending, Ending::Stopped(_)) => {
                *this.held = Some(Box::new((number, Ending::Stopped(before.1.error()))));
            }
            _ => *this.held = Some(Box::new((number, ending))),
        }
    }

    /// Drops the attempts in these slots. If one of them was the last, the call ends with an attempt timeout.
    pub fn stop(mut self: Pin<&mut Self>, lanes: u8) {
        let mut this = self.as_mut().project();
        let stopped = |number: u8| AttemptSlot::of(number).bit() & lanes != 0;
        let mut numbers = Vec::new();
        let placed = match this.place.as_mut().project() {
            PlaceProjection::Taken { number, .. } => Some(*number),
            PlaceProjection::Free => None,
        };
        if let Some(number) = placed.filter(|number| stopped(*number)) {
            this.place.set(Place::Free);
            numbers.push(number);
        }
        if let Some(race) = this.race {
            numbers
                .extend(race.racers.extract_if(.., |racer| stopped(racer.number)).map(|racer| racer.number));
        }
        for number in numbers {
            self.as_mut().hold(number, Ending::Stopped(None));
        }
    }
}
