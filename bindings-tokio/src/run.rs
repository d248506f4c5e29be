//! The shell: carries out the steps of one call; waits, wakes, cancels. It decides nothing.
//!
//! A call is a future, and lives in its caller's task: its attempts are polled there, and nothing is spawned. Dropped at any
//! moment, it drops its attempts, and its guard tells the engine that the caller gave up.

mod answer;
mod guard;
mod tail;
mod work;

use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tidegate::{Action, CallId, Class, Event, Lane, Outcome, Step, Verdict, Wait};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::classify::{Judge, Judgement};
use crate::clock;
use crate::engine::{Told, wakes};
use crate::error::{Error, Report, Stopped};
use crate::policy::Site;
#[cfg(feature = "_bodies")]
pub(crate) use answer::Tailed;
pub(crate) use answer::{Answer, Plain, Whole};
use guard::Guard;
pub(crate) use tail::Tail;
pub use work::Attempt;
#[cfg(feature = "reqwest")]
pub(crate) use work::Optional;
pub(crate) use work::Work;

/// A call's result, and what became of it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Ended<T, E> {
    /// What the attempt that decided has brought, or why there is nothing.
    pub result: Result<T, Error<E>>,
    /// How many attempts there were, and why there were no more.
    pub report: Report,
}

/// An attempt beside the one that is kept in place.
struct Racer<Fut> {
    number: u8,
    future: Pin<Box<Fut>>,
}

/// How an attempt ended.
enum Ending<T, E> {
    Own(Result<T, E>),
    /// We stopped it. The error of the attempt before it stays the call's last one.
    Stopped(Option<E>),
}

impl<T, E> Ending<T, E> {
    /// The call's own last error.
    fn error(self) -> Option<E> {
        match self {
            Self::Own(Ok(_)) => None,
            Self::Own(Err(error)) => Some(error),
            Self::Stopped(last) => last,
        }
    }
}

/// Where the call stands.
enum Phase {
    /// It has not begun.
    Fresh,
    /// It has begun before it is first polled, and was refused.
    #[cfg(feature = "tower")]
    Refused(Verdict, Option<tidegate::Duration>),
    /// The same, and it waits: the engine is asked again, with a waker this time.
    #[cfg(feature = "tower")]
    Waits,
    /// The same, and its first attempt has been made; this long after this moment the engine is to be asked.
    #[cfg(feature = "tower")]
    Begun(Instant, Option<tidegate::Duration>),
    Live,
    Over,
}

/// What has happened to a call.
enum Next<O> {
    /// It is over.
    Over(O),
    /// The engine was told, and this is its step.
    Told(Told),
    /// It is to wait.
    Pending,
}

/// Attempts beside the one that is kept in place, and what those of them have brought that ended first.
struct Race<Fut, T, E> {
    racers: Vec<Racer<Fut>>,
    earlier: Vec<(u8, Ending<T, E>)>,
}

pin_project! {
    /// One call. The order of the fields is the order in which they are dropped: attempts first, then the guard.
    ///
    /// It is moved a few times before it is first polled, so what few calls need is behind a pointer.
    pub(crate) struct Run<P: Deref<Target = Site>, F, Fut, J, T, E, A> {
        work: F,
        judge: J,
        path: Option<Box<str>>,
        replayable: bool,
        phase: Phase,
        #[pin]
        lane: Option<Fut>,
        number: u8,
        attempts: u8,
        // The attempt whose head was good, while its body is being read.
        winner: u8,
        race: Option<Box<Race<Fut, T, E>>>,
        // The last attempt that ended.
        held: Option<(u8, Ending<T, E>)>,
        due: Option<Instant>,
        #[pin]
        sleep: Option<Sleep>,
        guard: Guard<P>,
        answer: PhantomData<fn() -> A>,
    }
}

impl<P, F, Fut, J, T, E, A> Run<P, F, Fut, J, T, E, A>
where
    P: Deref<Target = Site>,
{
    /// A call at this site. One that is not `replayable` makes one attempt, whatever its site says.
    #[inline]
    pub fn new(site: P, replayable: bool, path: Option<Box<str>>, judge: J, work: F) -> Self {
        Self {
            work,
            judge,
            path,
            replayable,
            phase: Phase::Fresh,
            lane: None,
            number: 0,
            attempts: 0,
            winner: 0,
            race: None,
            held: None,
            due: None,
            sleep: None,
            guard: Guard { site, call: None, parked: false },
            answer: PhantomData,
        }
    }

    /// Begins before it is first polled. Is its first attempt to be started at once?
    #[cfg(feature = "tower")]
    #[inline]
    pub fn begin(&mut self) -> bool {
        let (_, Told { step, at, others }) = self.guard.begin(self.replayable, self.path.as_deref());
        if others {
            self.guard.site.shared().tend();
        }
        self.phase = match step.action {
            Action::Attempt { .. } => Phase::Begun(at, step.next),
            Action::Wait { .. } => Phase::Waits,
            Action::Done { verdict, retry_in, .. } => {
                self.guard.call = None;
                Phase::Refused(verdict, retry_in)
            }
        };
        matches!(self.phase, Phase::Begun(..))
    }

    /// Makes the first attempt before the call is first polled.
    #[cfg(feature = "tower")]
    #[inline]
    pub fn start_first(&mut self, make: impl FnOnce() -> Fut) {
        (self.attempts, self.number) = (1, 1);
        let _inside = self.guard.inside();
        self.lane = Some(make());
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
    Fut: Future<Output = Result<T, E>>,
    J: Judge<T, E>,
    A: Answer<T, E, P>,
{
    type Output = A::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        let mut next = match std::mem::replace(this.phase, Phase::Live) {
            Phase::Fresh => {
                let (call, told) = this.guard.begin(*this.replayable, this.path.as_deref());
                match told.step.action {
                    Action::Attempt { .. } if !told.others => self.as_mut().first(told, cx),
                    _ => Next::Told(this.guard.register(call, told, cx)),
                }
            }
            #[cfg(feature = "tower")]
            Phase::Refused(verdict, retry_in) => {
                Next::Over(self.as_mut().end(verdict, None, retry_in.map(clock::std)))
            }
            #[cfg(feature = "tower")]
            Phase::Begun(at, next) => {
                let polled = {
                    let _inside = this.guard.inside();
                    this.lane.as_pin_mut().map(|lane| lane.poll(cx))
                };
                self.as_mut().polled(polled.unwrap_or(Poll::Pending), (at, next), cx)
            }
            #[cfg(feature = "tower")]
            Phase::Waits => Next::Told(self.as_mut().tell(Event::Poll, cx)),
            // Woken or not: the engine knows.
            Phase::Live if this.guard.parked => Next::Told(self.as_mut().tell(Event::Poll, cx)),
            Phase::Live => self.as_mut().next_event(cx),
            Phase::Over => panic!("a call was polled after its end"),
        };
        loop {
            match next {
                Next::Told(told) => match self.as_mut().carry(told, cx) {
                    Some(answer) => next = Next::Over(answer),
                    None => next = self.as_mut().next_event(cx),
                },
                Next::Over(answer) => {
                    *self.project().phase = Phase::Over;
                    return Poll::Ready(answer);
                }
                Next::Pending => return Poll::Pending,
            }
        }
    }
}

impl<P, F, Fut, J, T, E, A> Run<P, F, Fut, J, T, E, A>
where
    P: Deref<Target = Site> + Clone,
    F: Work<Fut>,
    Fut: Future<Output = Result<T, E>>,
    J: Judge<T, E>,
    A: Answer<T, E, P>,
{
    #[inline]
    fn tell(self: Pin<&mut Self>, event: Event, cx: &Context<'_>) -> Told {
        let guard = self.project().guard;
        let call = guard.call.unwrap_or(CallId::from_word(0));
        let told = guard.site.shared().tell(call, event, Some(cx.waker()), guard.parked);
        guard.parked = matches!(told.step.action, Action::Wait { why } if wakes(why));
        told
    }

    /// A first attempt that starts at once, as most do.
    #[inline]
    fn first(mut self: Pin<&mut Self>, told: Told, cx: &mut Context<'_>) -> Next<A::Output> {
        let mut this = self.as_mut().project();
        (*this.attempts, *this.number) = (1, 1);
        let remaining = this.guard.remaining(told.step.next);
        let polled = {
            let _inside = this.guard.inside();
            let Some(future) = this.work.attempt(Attempt { number: 1, hedge: false, remaining }) else {
                let outcome = Outcome::of(Class::Permanent);
                return Next::Told(self.tell(Event::Finished { attempt: 1, outcome }, cx));
            };
            this.lane.set(Some(future));
            match this.lane.as_mut().as_pin_mut() {
                Some(lane) => lane.poll(cx),
                None => Poll::Pending,
            }
        };
        self.polled(polled, (told.at, told.step.next), cx)
    }

    /// A first attempt has been polled once. Its timer is armed only now that it is pending.
    #[inline]
    fn polled(
        mut self: Pin<&mut Self>,
        polled: Poll<Result<T, E>>,
        (at, next): (Instant, Option<tidegate::Duration>),
        cx: &mut Context<'_>,
    ) -> Next<A::Output> {
        let mut this = self.as_mut().project();
        if let Poll::Ready(result) = polled {
            this.lane.set(None);
            return self.settle(1, result, cx);
        }
        *this.due = next.map(|span| clock::after(at, span));
        self.timer(cx)
    }

    /// What happens to the call now: an attempt has ended, or its moment has come.
    #[inline]
    fn next_event(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next<A::Output> {
        match self.as_mut().poll_attempts(cx) {
            Some((number, result)) => self.settle(number, result, cx),
            None => self.timer(cx),
        }
    }

    /// Has the call's moment come?
    fn timer(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next<A::Output> {
        let mut this = self.as_mut().project();
        let Some(due) = *this.due else { return Next::Pending };
        match this.sleep.as_mut().as_pin_mut() {
            None => this.sleep.set(Some(sleep_until(due))),
            Some(sleep) if sleep.deadline() != due => sleep.reset(due),
            Some(_) => {}
        }
        match this.sleep.as_pin_mut().map(|sleep| sleep.poll(cx)) {
            Some(Poll::Ready(())) => Next::Told(self.tell(Event::Timer, cx)),
            _ => Next::Pending,
        }
    }

    /// Polls the attempts that run. One that ends is dropped before the engine hears of it.
    fn poll_attempts(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<(u8, Result<T, E>)> {
        let mut this = self.project();
        if this.lane.is_none() && this.race.is_none() {
            return None;
        }
        let _inside = this.guard.inside();
        if let Some(lane) = this.lane.as_mut().as_pin_mut()
            && let Poll::Ready(result) = lane.poll(cx)
        {
            this.lane.set(None);
            return Some((*this.number, result));
        }
        let racers = &mut this.race.as_mut()?.racers;
        for place in 0..racers.len() {
            if let Poll::Ready(result) = racers[place].future.as_mut().poll(cx) {
                return Some((racers.swap_remove(place).number, result));
            }
        }
        None
    }

    /// An attempt has come to its end.
    #[inline]
    fn settle(
        mut self: Pin<&mut Self>,
        number: u8,
        result: Result<T, E>,
        cx: &Context<'_>,
    ) -> Next<A::Output> {
        let event = match self.judge.judge(&result) {
            Judgement::Outcome(outcome) => Event::Finished { attempt: number, outcome },
            Judgement::Head => Event::Headers { attempt: number },
        };
        let head = matches!(event, Event::Headers { .. });
        let told = match self.guard.call {
            Some(call) if !self.guard.parked => self.guard.site.shared().say(call, event),
            _ => self.as_mut().tell(event, cx),
        };
        // As most calls end: with this result, and nobody else has to hear of it.
        if let Step { action: Action::Done { verdict: Verdict::Ok, result: Some(lane), .. }, stop: 0, .. } =
            told.step
            && lane == Lane::of(number)
            && !told.others
        {
            let this = self.project();
            this.guard.call = None;
            let report = this.guard.site.report(*this.attempts, Verdict::Ok, None);
            return Next::Over(A::of(result.map_err(|error| Error::Failed(error, report)), report, None));
        }
        self.as_mut().keep(number, result, &told, head);
        let this = self.project();
        Next::Told(match (this.guard.call, told.step.action) {
            (Some(call), Action::Wait { .. }) if !this.guard.parked => this.guard.register(call, told, cx),
            _ => told,
        })
    }

    /// Keeps what an attempt has brought, for the step that says whose the caller gets.
    fn keep(mut self: Pin<&mut Self>, number: u8, result: Result<T, E>, told: &Told, head: bool) {
        let goes_on = !head && !matches!(told.step.action, Action::Done { .. });
        let this = self.as_mut().project();
        if head {
            *this.winner = number;
        }
        let kept = if goes_on { this.judge.release(result) } else { Some(result) };
        if let Some(kept) = kept {
            self.hold(number, Ending::Own(kept));
        }
    }

    fn hold(self: Pin<&mut Self>, number: u8, ending: Ending<T, E>) {
        let this = self.project();
        match (this.held.take(), this.race) {
            (Some(before), Some(race)) => {
                race.earlier.push(before);
                *this.held = Some((number, ending));
            }
            (Some((_, before)), None) if matches!(ending, Ending::Stopped(_)) => {
                *this.held = Some((number, Ending::Stopped(before.error())));
            }
            _ => *this.held = Some((number, ending)),
        }
    }

    /// Carries out a step, and those that follow from it at once.
    #[inline(never)]
    fn carry(mut self: Pin<&mut Self>, first: Told, cx: &Context<'_>) -> Option<A::Output> {
        let mut told = first;
        // Attempts that were stopped, for the engine to be told of once they have unwound.
        let mut unwound = 0_u8;
        let mut polls = 0;
        loop {
            let Told { step, at, others } = told;
            if step.stop != 0 {
                unwound |= step.stop;
                self.as_mut().stop(step.stop);
            }
            if others {
                self.guard.site.shared().tend();
            }
            let due = step.next.map(|span| clock::after(at, span));
            match step.action {
                Action::Done { verdict, result, retry_in } => {
                    return Some(self.end(verdict, result, retry_in.map(clock::std)));
                }
                Action::Attempt { attempt, hedge } => {
                    if !self.as_mut().start(attempt, hedge, (step.next, due)) {
                        let outcome = Outcome::of(Class::Permanent);
                        told = self.as_mut().tell(Event::Finished { attempt, outcome }, cx);
                        continue;
                    }
                }
                Action::Wait { why } => {
                    let this = self.as_mut().project();
                    *this.due = due;
                    if why == Wait::Body && unwound == 0 {
                        return self.body();
                    }
                }
            }
            if unwound != 0 {
                let lane = unwound.trailing_zeros() as u8;
                unwound &= unwound - 1;
                let attempt = attempt_in(lane, self.attempts);
                let outcome = Outcome::of(Class::Timeout);
                told = self.as_mut().tell(Event::Finished { attempt, outcome }, cx);
            } else if matches!(step.action, Action::Wait { .. }) && due.is_some_and(|due| due <= at) {
                // A wait of nothing is no wait. Were it to last, a millisecond is better than a spin.
                if polls == 3 {
                    *self.as_mut().project().due = Some(at + Duration::from_millis(1));
                    return None;
                }
                polls += 1;
                told = self.as_mut().tell(Event::Poll, cx);
            } else {
                return None;
            }
        }
    }

    /// Starts an attempt; true unless there is nothing to make it of.
    fn start(
        self: Pin<&mut Self>,
        number: u8,
        hedge: bool,
        (next, due): (Option<tidegate::Duration>, Option<Instant>),
    ) -> bool {
        let mut this = self.project();
        (*this.due, *this.attempts) = (due, number);
        let remaining = this.guard.remaining(next);
        let _inside = this.guard.inside();
        let Some(future) = this.work.attempt(Attempt { number, hedge, remaining }) else { return false };
        if this.lane.is_none() {
            this.lane.set(Some(future));
            *this.number = number;
        } else {
            let race =
                this.race.get_or_insert_with(|| Box::new(Race { racers: Vec::new(), earlier: Vec::new() }));
            race.racers.push(Racer { number, future: Box::pin(future) });
        }
        true
    }

    /// Drops attempts. What the caller gets of one, if it was the last, is that its time was up.
    fn stop(mut self: Pin<&mut Self>, lanes: u8) {
        let mut this = self.as_mut().project();
        let stopped = |number: u8| Lane::of(number).bit() & lanes != 0;
        let mut numbers = Vec::new();
        if this.lane.is_some() && stopped(*this.number) {
            this.lane.set(None);
            numbers.push(*this.number);
        }
        if let Some(race) = this.race {
            numbers
                .extend(race.racers.extract_if(.., |racer| stopped(racer.number)).map(|racer| racer.number));
        }
        for number in numbers {
            self.as_mut().hold(number, Ending::Stopped(None));
        }
    }

    /// The end of the call.
    fn end(
        self: Pin<&mut Self>,
        verdict: Verdict,
        result: Option<Lane>,
        retry_in: Option<Duration>,
    ) -> A::Output {
        let this = self.project();
        this.guard.call = None;
        let site = &this.guard.site;
        let report = site.report(*this.attempts, verdict, retry_in);
        let mut held: Vec<_> = Vec::new();
        let mut last = this.held.take();
        let decided = match result {
            Some(lane) if last.as_ref().is_some_and(|(number, _)| Lane::of(*number) == lane) => last.take(),
            Some(lane) => {
                if let Some(race) = this.race {
                    held.append(&mut race.earlier);
                }
                let place = held.iter().rposition(|(number, _)| Lane::of(*number) == lane);
                // Of an attempt that could not be made there is nothing; what came before it is the last answer then.
                place.map(|place| held.swap_remove(place)).or_else(|| last.take())
            }
            None if matches!(verdict, Verdict::Stale | Verdict::Lost) => last.take(),
            None => None,
        };
        let result = match decided {
            Some((_, Ending::Own(result))) => result.map_err(|error| Error::Failed(error, report)),
            other => {
                let stopped_one = other.is_some();
                let own = [other, last].into_iter().flatten().find_map(|(_, ending)| ending.error());
                let (policy, route) = (site.policy.name.clone(), site.key.clone());
                let stopped = if stopped_one {
                    Stopped::attempt_timeout(policy, route, report)
                } else {
                    Stopped::new(policy, route, report)
                };
                Err(Error::Stopped(stopped, own))
            }
        };
        A::of(result, report, None)
    }

    /// The head of a good answer is here; the call goes on until its body has been read.
    fn body(self: Pin<&mut Self>) -> Option<A::Output> {
        let this = self.project();
        // Losers that were stopped for it stand behind it.
        let earlier = this.race.as_mut().map(|race| std::mem::take(&mut race.earlier));
        let all = this.held.take().into_iter().chain(earlier.into_iter().flatten());
        let mut good = all.filter_map(|(number, ending)| match ending {
            Ending::Own(Ok(value)) if number == *this.winner => Some((number, value)),
            _ => None,
        });
        let (attempt, value) = good.next()?;
        let call = this.guard.call.take()?;
        let report = this.guard.site.report(*this.attempts, Verdict::Ok, None);
        let tail = Tail { site: this.guard.site.clone(), call: Some(call), attempt, due: *this.due };
        Some(A::of(Ok(value), report, Some(tail)))
    }
}

/// The attempt whose lane this is, of those that have been started.
const fn attempt_in(lane: u8, attempts: u8) -> u8 {
    // At most eight lie between two attempts of one lane (R11), so it is the newest.
    attempts - (attempts.wrapping_sub(1).wrapping_sub(lane) & 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_names_the_newest_attempt_that_it_had() {
        for attempts in 1..=u8::MAX {
            for back in 0..8.min(attempts) {
                let attempt = attempts - back;
                assert_eq!(attempt_in(Lane::of(attempt).number(), attempts), attempt, "of {attempts}");
            }
        }
    }
}
