//! The shell: carries out the steps of one call; waits, wakes, cancels. It decides nothing.
//!
//! A call is a future, and lives in its caller's task: its attempts are polled there, and nothing is spawned. Dropped at any
//! moment, it drops its attempts, and its guard tells the engine that the caller gave up.

mod answer;
mod tail;
mod work;

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tidegate::{Action, CallId, Class, Event, Lane, Outcome, Request, Verdict, Wait};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::classify::{Judge, Judgement};
use crate::clock;
use crate::engine::{Told, wakes};
use crate::error::{Error, Report, Stopped};
use crate::policy::Site;
use crate::scope::{self, Entered, Level};
pub(crate) use answer::{Plain, Whole};
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

/// The same, and what goes on while a body is read.
pub(crate) struct Over<T, E, P: Deref<Target = Site>> {
    pub ended: Ended<T, E>,
    #[cfg_attr(not(feature = "reqwest"), expect(dead_code, reason = "only adapters have bodies"))]
    pub tail: Option<Tail<P>>,
}

/// Tells the engine, when it is dropped, that the caller gave up.
struct Guard<P: Deref<Target = Site>> {
    site: P,
    call: Option<CallId>,
    /// Is a waker registered for it?
    parked: bool,
}

impl<P: Deref<Target = Site>> Drop for Guard<P> {
    #[inline]
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let shared = self.site.shared();
            let told = shared.tell(call, Event::Cancel, None, self.parked);
            if told.others {
                shared.tend();
            }
        }
    }
}

/// An attempt beside the one that is kept in place.
struct Racer<Fut> {
    number: u8,
    future: Pin<Box<Fut>>,
}

/// How an attempt ended.
enum Ending<T, E> {
    Own(Result<T, E>),
    /// We stopped it.
    Stopped,
}

/// Where the call stands.
enum Phase {
    /// It has not begun.
    Fresh,
    /// It has begun, and its first step is still to be carried out.
    #[cfg(feature = "tower")]
    Begun(Told),
    Live,
    Over,
}

/// What a first attempt has come to.
enum First<T, E, P: Deref<Target = Site>> {
    Over(Over<T, E, P>),
    Told(Told),
    Pending,
}

pin_project! {
    /// One call. The order of the fields is the order in which they are dropped: attempts first, then the guard.
    pub(crate) struct Run<P: Deref<Target = Site>, F, Fut, J, T, E> {
        work: F,
        judge: J,
        path: Option<Box<str>>,
        request: Request,
        phase: Phase,
        #[pin]
        lane: Option<Fut>,
        number: u8,
        racers: Vec<Racer<Fut>>,
        attempts: u8,
        // The attempt whose head was good, while its body is being read.
        winner: u8,
        // The last attempt that ended, and in a race those before it.
        held: Option<(u8, Ending<T, E>)>,
        earlier: Vec<(u8, Ending<T, E>)>,
        due: Option<Instant>,
        #[pin]
        sleep: Option<Sleep>,
        guard: Guard<P>,
    }
}

impl<P, F, Fut, J, T, E> Run<P, F, Fut, J, T, E>
where
    P: Deref<Target = Site>,
{
    pub fn new(site: P, request: Request, path: Option<Box<str>>, judge: J, work: F) -> Self {
        Self {
            work,
            judge,
            path,
            request,
            phase: Phase::Fresh,
            lane: None,
            number: 0,
            racers: Vec::new(),
            attempts: 0,
            winner: 0,
            held: None,
            earlier: Vec::new(),
            due: None,
            sleep: None,
            guard: Guard { site, call: None, parked: false },
        }
    }

    /// Begins before it is first polled. Does its first attempt start at once?
    #[cfg(feature = "tower")]
    pub fn begin(&mut self) -> bool {
        let (call, told) = begin(&self.guard.site, self.request, self.path.as_deref());
        self.guard.call = Some(call);
        self.phase = Phase::Begun(told);
        matches!(told.step.action, Action::Attempt { .. })
    }

    #[cfg(feature = "tower")]
    pub fn work_mut(&mut self) -> &mut F {
        &mut self.work
    }
}

#[inline]
fn begin(site: &Site, mut request: Request, path: Option<&str>) -> (CallId, Told) {
    let inherited = scope::inherited(site.shared().number);
    request.parent = inherited.parent;
    if let (Some(criticality), false) = (inherited.criticality, site.own_criticality) {
        request.criticality = criticality;
    }
    site.shared().begin(&site.route, (site.policy.id, &site.key), request, (path, inherited.ends))
}

impl<P, F, Fut, J, T, E> Future for Run<P, F, Fut, J, T, E>
where
    P: Deref<Target = Site> + Clone,
    F: Work<Fut>,
    Fut: Future<Output = Result<T, E>>,
    J: Judge<T, E>,
{
    type Output = Over<T, E, P>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        let mut told = match std::mem::replace(this.phase, Phase::Live) {
            Phase::Fresh => {
                let (call, told) = begin(&this.guard.site, *this.request, this.path.as_deref());
                this.guard.call = Some(call);
                match told.step.action {
                    Action::Attempt { .. } if !told.others => match self.as_mut().first(told, cx) {
                        First::Over(over) => {
                            *self.project().phase = Phase::Over;
                            return Poll::Ready(over);
                        }
                        First::Told(told) => told,
                        First::Pending => return Poll::Pending,
                    },
                    _ => told.waiting(call, this.guard, cx),
                }
            }
            #[cfg(feature = "tower")]
            Phase::Begun(told) => match this.guard.call {
                Some(call) => told.waiting(call, this.guard, cx),
                None => told,
            },
            // Woken or not: the engine knows.
            Phase::Live if this.guard.parked => self.as_mut().tell(Event::Poll, cx),
            Phase::Live => match self.as_mut().next_event(cx) {
                Some(told) => told,
                None => return Poll::Pending,
            },
            Phase::Over => panic!("a call was polled after its end"),
        };
        loop {
            if let Some(over) = self.as_mut().carry(told, cx) {
                *self.as_mut().project().phase = Phase::Over;
                return Poll::Ready(over);
            }
            match self.as_mut().next_event(cx) {
                Some(next) => told = next,
                None => return Poll::Pending,
            }
        }
    }
}

impl Told {
    /// A first step that is to wait: its owner registers first, and asks again then (R3).
    #[inline]
    fn waiting<P: Deref<Target = Site>>(self, call: CallId, guard: &mut Guard<P>, cx: &Context<'_>) -> Self {
        match self.step.action {
            Action::Wait { why } if wakes(why) => {
                let told = guard.site.shared().tell(call, Event::Poll, Some(cx.waker()), false);
                guard.parked = matches!(told.step.action, Action::Wait { why } if wakes(why));
                Self { others: self.others | told.others, ..told }
            }
            _ => self,
        }
    }
}

impl<P, F, Fut, J, T, E> Run<P, F, Fut, J, T, E>
where
    P: Deref<Target = Site> + Clone,
    F: Work<Fut>,
    Fut: Future<Output = Result<T, E>>,
    J: Judge<T, E>,
{
    #[inline]
    fn tell(self: Pin<&mut Self>, event: Event, cx: &Context<'_>) -> Told {
        let guard = self.project().guard;
        let call = guard.call.unwrap_or(CallId::from_word(0));
        let told = guard.site.shared().tell(call, event, Some(cx.waker()), guard.parked);
        guard.parked = matches!(told.step.action, Action::Wait { why } if wakes(why));
        told
    }

    /// The way of most calls, without what only others need: a first attempt that starts at once, and whose answer ends the call.
    #[inline]
    fn first(mut self: Pin<&mut Self>, told: Told, cx: &mut Context<'_>) -> First<T, E, P> {
        let mut this = self.as_mut().project();
        (*this.attempts, *this.number) = (1, 1);
        let remaining = this.guard.remaining(told.step.next);
        let polled = {
            let _inside = this.guard.inside();
            let Some(future) = this.work.attempt(Attempt { number: 1, hedge: false, remaining }) else {
                let outcome = Outcome::of(Class::Permanent);
                return First::Told(self.tell(Event::Finished { attempt: 1, outcome }, cx));
            };
            this.lane.set(Some(future));
            match this.lane.as_mut().as_pin_mut() {
                Some(lane) => lane.poll(cx),
                None => Poll::Pending,
            }
        };
        let Poll::Ready(result) = polled else {
            *this.due = told.step.next.map(|span| clock::after(told.at, span));
            return match self.timer(cx) {
                Some(told) => First::Told(told),
                None => First::Pending,
            };
        };
        this.lane.set(None);
        let outcome = match this.judge.judge(&result) {
            Judgement::Outcome(outcome) if result.is_ok() => outcome,
            _ => return First::Told(self.settle(1, result, cx)),
        };
        let told = self.as_mut().tell(Event::Finished { attempt: 1, outcome }, cx);
        match told.step.action {
            Action::Done { verdict: Verdict::Ok, result: Some(_), .. } if !told.others => {
                let this = self.project();
                this.guard.call = None;
                let report = this.guard.site.report(1, Verdict::Ok, None);
                let result = result.map_err(|error| Error::Failed(error, report));
                First::Over(Over { ended: Ended { result, report }, tail: None })
            }
            _ => {
                self.keep(1, result, &told, false);
                First::Told(told)
            }
        }
    }

    /// What happens to the call now: an attempt has ended, or its moment has come. Nothing, where it is to wait.
    fn next_event(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Told> {
        if let Some((number, result)) = self.as_mut().poll_attempts(cx) {
            return Some(self.settle(number, result, cx));
        }
        self.timer(cx)
    }

    /// Has the call's moment come?
    fn timer(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Told> {
        let mut this = self.as_mut().project();
        let due = (*this.due)?;
        match this.sleep.as_mut().as_pin_mut() {
            None => this.sleep.set(Some(sleep_until(due))),
            Some(sleep) if sleep.deadline() != due => sleep.reset(due),
            Some(_) => {}
        }
        match this.sleep.as_pin_mut()?.poll(cx) {
            Poll::Ready(()) => Some(self.tell(Event::Timer, cx)),
            Poll::Pending => None,
        }
    }

    /// Polls the attempts that run. One that ends is dropped before the engine hears of it.
    fn poll_attempts(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<(u8, Result<T, E>)> {
        let mut this = self.project();
        if this.lane.is_none() && this.racers.is_empty() {
            return None;
        }
        let _inside = this.guard.inside();
        if let Some(lane) = this.lane.as_mut().as_pin_mut()
            && let Poll::Ready(result) = lane.poll(cx)
        {
            this.lane.set(None);
            return Some((*this.number, result));
        }
        for place in 0..this.racers.len() {
            if let Poll::Ready(result) = this.racers[place].future.as_mut().poll(cx) {
                return Some((this.racers.swap_remove(place).number, result));
            }
        }
        None
    }

    /// An attempt has come to its end.
    fn settle(mut self: Pin<&mut Self>, number: u8, result: Result<T, E>, cx: &Context<'_>) -> Told {
        let event = match self.judge.judge(&result) {
            Judgement::Outcome(outcome) => Event::Finished { attempt: number, outcome },
            Judgement::Head => Event::Headers { attempt: number },
        };
        let head = matches!(event, Event::Headers { .. });
        let told = self.as_mut().tell(event, cx);
        self.keep(number, result, &told, head);
        told
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
        if let Some(before) = this.held.replace((number, ending))
            && this.racers.capacity() > 0
        {
            this.earlier.push(before);
        }
    }

    /// Carries out a step, and those that follow from it at once.
    #[inline(never)]
    fn carry(mut self: Pin<&mut Self>, first: Told, cx: &Context<'_>) -> Option<Over<T, E, P>> {
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
            this.racers.push(Racer { number, future: Box::pin(future) });
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
        for racer in this.racers.extract_if(.., |racer| stopped(racer.number)) {
            numbers.push(racer.number);
        }
        for number in numbers {
            self.as_mut().hold(number, Ending::Stopped);
        }
    }

    /// The end of the call.
    fn end(
        self: Pin<&mut Self>,
        verdict: Verdict,
        result: Option<Lane>,
        retry_in: Option<Duration>,
    ) -> Over<T, E, P> {
        let this = self.project();
        this.guard.call = None;
        let site = &this.guard.site;
        let report = site.report(*this.attempts, verdict, retry_in);
        let mut held: Vec<_> = Vec::new();
        let mut last = this.held.take();
        let decided = match result {
            Some(lane) if last.as_ref().is_some_and(|(number, _)| Lane::of(*number) == lane) => last.take(),
            Some(lane) => {
                held.append(this.earlier);
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
                let own = match last {
                    Some((_, Ending::Own(Err(error)))) => Some(error),
                    _ => None,
                };
                let (policy, route) = (site.policy.name.clone(), site.key.clone());
                let stopped = if other.is_some() {
                    Stopped::attempt_timeout(policy, route, report)
                } else {
                    Stopped::new(policy, route, report)
                };
                Err(Error::Stopped(stopped, own))
            }
        };
        Over { ended: Ended { result, report }, tail: None }
    }

    /// The head of a good answer is here; the call goes on until its body has been read.
    fn body(self: Pin<&mut Self>) -> Option<Over<T, E, P>> {
        let this = self.project();
        // Losers that were stopped for it stand behind it.
        let all = this.held.take().into_iter().chain(this.earlier.drain(..));
        let mut good = all.filter_map(|(number, ending)| match ending {
            Ending::Own(Ok(value)) if number == *this.winner => Some((number, value)),
            _ => None,
        });
        let (attempt, value) = good.next()?;
        let call = this.guard.call.take()?;
        let report = this.guard.site.report(*this.attempts, Verdict::Ok, None);
        let tail = Tail { site: this.guard.site.clone(), call: Some(call), attempt, due: *this.due };
        Some(Over { ended: Ended { result: Ok(value), report }, tail: Some(tail) })
    }
}

impl<P: Deref<Target = Site>> Guard<P> {
    /// Time that an attempt has which starts now.
    #[inline]
    fn remaining(&self, next: Option<tidegate::Duration>) -> Option<Duration> {
        match self.call {
            // The timer may be due for a hedge before that.
            Some(call) if self.site.policy.hedges() => {
                let left = self.site.shared().look(|core, now| core.engine.time_left(call, now));
                left.map(clock::std)
            }
            _ => next.map(clock::std),
        }
    }

    /// What is around the attempts.
    #[inline]
    fn inside(&self) -> Entered {
        let call = self.call.map(|call| (self.site.shared().number, call));
        Entered::new(Level { call, ends: None, criticality: None })
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
