//! A call under way: polls its attempts, reports their outcomes to the engine, and carries out the engine's steps.

use std::any::type_name;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate::{Action, AttemptSlot, Class, Event, Outcome, Verdict, Wait};
use tokio::time::{Instant, sleep_until};

use super::retrying::announce;
use super::state::{Ending, Live, Place, PlaceProjection, Race, Racer, Turn};
use super::{Answer, Attempt, Running, Tail, Work};
use crate::classify::{Judge, Judgement};
use crate::clock;
use crate::engine::{Reply, wakes};
use crate::error::{Error, Stopped};
use crate::policy::Site;
#[cfg(feature = "_bodies")]
use crate::refused;
use crate::scope::Aimed;

/// After so many polls without an event the clock is read, whatever the timer says.
const LOOKS: u8 = 16;

/// A call under way and the parts from which its attempts are made.
pub(super) struct Call<'a, P, F, Fut, J, T, E, A> {
    site: &'a P,
    work: &'a mut F,
    judge: &'a J,
    live: Pin<&'a mut Live<Fut, T, E>>,
    answer: PhantomData<fn() -> A>,
}

/// The result of one round of a call.
///
/// An answer is made from it where the call's caller reads it: results may be large.
enum Next<T, E> {
    /// The call is over, with this result.
    Over(Result<T, E>),
    /// The caller gets this head of an answer, and the call lives until its body has been read.
    Head { attempt: u8, value: T, due: Option<Instant> },
    /// The engine has processed an event; this is its next step.
    Reply(Reply),
    /// The call has to wait.
    Pending,
}

impl<'a, P, F, Fut, J, T, E, A> Call<'a, P, F, Fut, J, T, E, A>
where
    P: Deref<Target = Site> + Clone,
    F: Work<Fut>,
    Fut: Running<J, T, E>,
    J: Judge<T, E>,
    A: Answer<T, E, P, J>,
{
    #[inline]
    pub fn new(site: &'a P, work: &'a mut F, judge: &'a J, live: Pin<&'a mut Live<Fut, T, E>>) -> Self {
        Self { site, work, judge, live, answer: PhantomData }
    }

    /// Drives a call that has just begun from the engine's first step, until it is over or pending.
    #[inline]
    pub fn begun(mut self, reply: Reply, cx: &mut Context<'_>) -> Poll<A::Output> {
        let next = match reply.step.action() {
            Action::Attempt { .. } if !reply.others => self.first(reply, cx),
            _ => Next::Reply(self.register(reply, cx)),
        };
        self.follow(next, cx)
    }

    /// Drives a call that was pending, until it is over or pending again.
    #[inline]
    pub fn poll(mut self, cx: &mut Context<'_>) -> Poll<A::Output> {
        let next = match self.live.turn {
            Turn::Begun { at, next } => {
                *self.live.as_mut().project().turn = Turn::Runs;
                let polled = {
                    let _inside = self.live.inside(self.site);
                    let _aimed = self.live.aim(self.site, 1);
                    match self.live.as_mut().project().place.project() {
                        PlaceProjection::Taken { future, .. } => future.poll_in(self.site, self.judge, cx),
                        PlaceProjection::Free => Poll::Pending,
                    }
                };
                self.polled(polled, (at, next), cx)
            }
            // The task may have been woken for this call or for another reason; the engine decides which.
            Turn::Waits | Turn::Parked => Next::Reply(self.advance(Event::Poll, cx)),
            Turn::Runs | Turn::Over => self.next_event(cx),
        };
        self.follow(next, cx)
    }

    /// Carries out the steps that follow an event. Most calls are over, or pending, after their first event.
    #[inline]
    fn follow(&mut self, next: Next<T, E>, cx: &mut Context<'_>) -> Poll<A::Output> {
        match next {
            Next::Over(result) => Poll::Ready(self.over(result)),
            Next::Head { attempt, value, due } => Poll::Ready(self.headed(attempt, value, due)),
            Next::Pending => Poll::Pending,
            Next::Reply(reply) => self.go_on(reply, cx),
        }
    }

    #[inline(never)]
    fn go_on(&mut self, mut reply: Reply, cx: &mut Context<'_>) -> Poll<A::Output> {
        loop {
            if let Some(answer) = self.carry(reply, cx) {
                return Poll::Ready(answer);
            }
            match self.next_event(cx) {
                Next::Reply(next) => reply = next,
                Next::Over(result) => return Poll::Ready(self.over(result)),
                Next::Head { attempt, value, due } => return Poll::Ready(self.headed(attempt, value, due)),
                Next::Pending => return Poll::Pending,
            }
        }
    }

    #[inline]
    fn advance(&mut self, event: Event, cx: &Context<'_>) -> Reply {
        let (call, parked) = (self.live.call, self.live.is_parked());
        let reply = self.site.shared().advance(call, event, Some(cx.waker()), parked);
        let waits = matches!(reply.step.action(), Action::Wait { why } if wakes(why));
        *self.live.as_mut().project().turn = if waits { Turn::Parked } else { Turn::Runs };
        reply
    }

    /// Registers the waker of a call that has to wait for other calls, then asks the engine again, so that no wake is
    /// lost (R3).
    #[inline]
    fn register(&mut self, reply: Reply, cx: &Context<'_>) -> Reply {
        match reply.step.action() {
            Action::Wait { why } if wakes(why) => {
                let again = self.advance(Event::Poll, cx);
                // Attempts that the first step stopped still have to be dropped.
                let step = again.step.stopping(reply.step.stop());
                Reply { step, others: reply.others | again.others, ..again }
            }
            _ => reply,
        }
    }

    /// Starts and polls a first attempt that the engine admits at once, as it does for most calls.
    #[inline]
    fn first(&mut self, reply: Reply, cx: &mut Context<'_>) -> Next<T, E> {
        let remaining = self.remaining(reply.step.next());
        let polled = {
            let _inside = self.live.inside(self.site);
            let _aimed = self.live.aim(self.site, 1);
            let mut live = self.live.as_mut().project();
            let call = (self.site.shared().number, *live.call);
            *live.attempts = 1;
            let Some(future) = self.work.attempt(Attempt { number: 1, hedge: false, remaining, call }) else {
                let outcome = Outcome::of(Class::Permanent);
                return Next::Reply(self.advance(Event::Finished { attempt: 1, outcome }, cx));
            };
            live.place.set(Place::Taken { number: 1, future });
            match live.place.project() {
                PlaceProjection::Taken { future, .. } => future.poll_in(self.site, self.judge, cx),
                PlaceProjection::Free => Poll::Pending,
            }
        };
        self.polled(polled, (reply.at, reply.step.next()), cx)
    }

    /// Handles the first poll of a first attempt. The timer is armed only now, because most attempts that end at once
    /// need none.
    #[inline]
    fn polled(
        &mut self,
        polled: Poll<Result<T, E>>,
        (at, next): (Instant, Option<tidegate::Duration>),
        cx: &mut Context<'_>,
    ) -> Next<T, E> {
        let mut live = self.live.as_mut().project();
        if let Poll::Ready(result) = polled {
            live.place.set(Place::Free);
            return self.settle(1, result, cx);
        }
        *live.due = next.map(|span| clock::after(at, span));
        self.timer(cx)
    }

    /// Polls for the next event of the call: the end of an attempt, or its timer.
    #[inline]
    fn next_event(&mut self, cx: &mut Context<'_>) -> Next<T, E> {
        match self.poll_attempts(cx) {
            Some((number, result)) => self.settle(number, result, cx),
            None => self.timer(cx),
        }
    }

    /// Polls the call's timer.
    fn timer(&mut self, cx: &mut Context<'_>) -> Next<T, E> {
        let mut live = self.live.as_mut().project();
        let Some(due) = *live.due else { return Next::Pending };
        match live.sleep.as_mut().as_pin_mut() {
            None => live.sleep.set(Some(sleep_until(due))),
            Some(sleep) if sleep.deadline() != due => sleep.reset(due),
            Some(_) => {}
        }
        let mut is_due = live.sleep.as_pin_mut().is_some_and(|sleep| sleep.poll(cx).is_ready());
        if !is_due {
            // An attempt that can always go on uses up what tokio lets a task do in one poll, and no timer is ever due then.
            *live.polls = live.polls.wrapping_add(1);
            is_due = live.polls.is_multiple_of(LOOKS) && Instant::now() >= due;
        }
        if is_due { Next::Reply(self.advance(Event::Timer, cx)) } else { Next::Pending }
    }

    /// Polls the running attempts. An attempt that ends is dropped before the engine gets its outcome.
    fn poll_attempts(&mut self, cx: &mut Context<'_>) -> Option<(u8, Result<T, E>)> {
        let idle = matches!(self.live.place, Place::Free) && self.live.race.is_none();
        if idle {
            return None;
        }
        let site = self.site;
        let _inside = self.live.inside(site);
        let aim = {
            let (targets, engine, call) = (site.policy.has_targets(), site.shared().number, self.live.call);
            move |attempt| targets.then(|| Aimed::new(engine, call, attempt))
        };
        let mut live = self.live.as_mut().project();
        if let PlaceProjection::Taken { number, future } = live.place.as_mut().project() {
            let number = *number;
            let aimed = aim(number);
            if let Poll::Ready(result) = future.poll_in(site, self.judge, cx) {
                drop(aimed);
                live.place.set(Place::Free);
                return Some((number, result));
            }
        }
        let racers = &mut live.race.as_mut()?.racers;
        for place in 0..racers.len() {
            let _aimed = aim(racers[place].number);
            if let Poll::Ready(result) = racers[place].future.as_mut().poll_in(site, self.judge, cx) {
                return Some((racers.swap_remove(place).number, result));
            }
        }
        None
    }

    /// Reports an attempt's end to the engine.
    #[inline]
    fn settle(&mut self, number: u8, result: Result<T, E>, cx: &Context<'_>) -> Next<T, E> {
        self.judge.note_quotas(self.site, self.live.call, &result);
        let event = match self.judgement(&result) {
            Judgement::Outcome(outcome) => Event::Finished { attempt: number, outcome },
            Judgement::Head => Event::Headers { attempt: number },
        };
        let head = matches!(event, Event::Headers { .. });
        let reply = if self.live.is_parked() {
            self.advance(event, cx)
        } else {
            self.site.shared().say(self.live.call, event)
        };
        // The common end: this result decides, and no other call or listener is affected.
        if reply.step.is_ok_of(number) && !reply.others {
            return Next::Over(result);
        }
        // The common head of an answer with a body: nothing is stopped for it, and nobody else is affected.
        if head
            && reply.step.stop() == 0
            && matches!(reply.step.action(), Action::Wait { why: Wait::Body })
            && !reply.others
            && let Ok(value) = result
        {
            let due = reply.step.next().map(|span| clock::after(reply.at, span));
            return Next::Head { attempt: number, value, due };
        }
        if let Event::Finished { outcome, .. } = event {
            *self.live.as_mut().project().failure = outcome.kind;
        }
        // A step that stops other attempts is announced when these have unwound.
        if let (true, 0, Event::Finished { outcome, .. }) =
            (self.judge.hears_retries(), reply.step.stop(), event)
        {
            announce(self.judge, self.site, (number, outcome.kind), result.as_ref().err(), reply.step);
        }
        self.keep(number, result, &reply, head);
        Next::Reply(match reply.step.action() {
            Action::Wait { .. } if !self.live.is_parked() => self.register(reply, cx),
            _ => reply,
        })
    }

    #[inline]
    fn judgement(&self, result: &Result<T, E>) -> Judgement {
        // A status that a call inside has left for this one is found by the innermost call around.
        #[cfg(feature = "_bodies")]
        let _inside = refused::any().then(|| self.live.inside(self.site));
        self.judge.judge(self.site, result)
    }

    /// Keeps an attempt's result until a step says which result the caller gets.
    fn keep(&mut self, number: u8, result: Result<T, E>, reply: &Reply, head: bool) {
        let kept = match result {
            Ok(value) if head => Some(Ending::Head(value)),
            result if matches!(reply.step.action(), Action::Done { .. }) => Some(Ending::Own(result)),
            result => self.judge.release(result).map(Ending::Own),
        };
        if let Some(kept) = kept {
            self.live.as_mut().hold(number, kept);
        }
    }

    /// Carries out a step, and the steps that follow from it at once.
    fn carry(&mut self, first: Reply, cx: &Context<'_>) -> Option<A::Output> {
        let mut reply = first;
        // Slots of stopped attempts. The engine gets their outcome once their futures have been dropped.
        let (mut unwound, mut newest) = (0_u8, 0_u8);
        let mut polls = 0;
        loop {
            let Reply { step, at, others } = reply;
            if step.stop() != 0 {
                let stopped = (0..8_u8).filter(|lane| step.stop() >> lane & 1 != 0);
                newest = stopped.map(|lane| attempt_in(lane, self.live.attempts)).fold(newest, u8::max);
                unwound |= step.stop();
                self.live.as_mut().stop(step.stop());
            }
            if others {
                self.site.shared().tend();
            }
            let due = step.next().map(|span| clock::after(at, span));
            match step.action() {
                Action::Done { verdict, result, retry_in } => {
                    return Some(self.end(verdict, result, retry_in.map(clock::std)));
                }
                Action::Attempt { attempt, hedge } => {
                    if !self.start(attempt, hedge, (step.next(), due)) {
                        let outcome = Outcome::of(Class::Permanent);
                        reply = self.advance(Event::Finished { attempt, outcome }, cx);
                        continue;
                    }
                }
                Action::Wait { why } => {
                    *self.live.as_mut().project().due = due;
                    if why == Wait::Body && unwound == 0 {
                        return self.body();
                    }
                }
            }
            if unwound != 0 {
                let lane = unwound.trailing_zeros() as u8;
                unwound &= unwound - 1;
                let attempt = attempt_in(lane, self.live.attempts);
                let outcome = Outcome::of(Class::Timeout);
                *self.live.as_mut().project().failure = outcome.kind;
                reply = self.advance(Event::Finished { attempt, outcome }, cx);
                // Attempts that ran out of time together are one failure. The next attempt may start before all have unwound.
                let said = unwound == 0 || matches!(reply.step.action(), Action::Attempt { .. });
                if self.judge.hears_retries() && said {
                    announce(self.judge, self.site, (newest, outcome.kind), None, reply.step);
                }
            } else if matches!(step.action(), Action::Wait { .. }) && due.is_some_and(|due| due <= at) {
                // The engine asks for a wait that is already over, so ask it again. After three rounds wait 1 ms rather
                // than spin.
                if polls == 3 {
                    *self.live.as_mut().project().due = Some(at + Duration::from_millis(1));
                    return None;
                }
                polls += 1;
                reply = self.advance(Event::Poll, cx);
            } else {
                return None;
            }
        }
    }

    /// Time left for an attempt that starts now.
    #[inline]
    fn remaining(&self, next: Option<tidegate::Duration>) -> Option<Duration> {
        // The timer may be due for a hedge, or to look for silence, before the attempt's own end.
        if self.site.policy.looks_early() { self.left() } else { next.map(clock::std) }
    }

    #[cold]
    fn left(&self) -> Option<Duration> {
        let left = self.site.shared().look(|core, now| core.engine.time_left(self.live.call, now).attempt);
        left.map(clock::std)
    }

    /// Starts an attempt. Returns false where no further attempt can be made.
    fn start(
        &mut self,
        number: u8,
        hedge: bool,
        (next, due): (Option<tidegate::Duration>, Option<Instant>),
    ) -> bool {
        let remaining = self.remaining(next);
        let _inside = self.live.inside(self.site);
        let _aimed = self.live.aim(self.site, number);
        let mut live = self.live.as_mut().project();
        (*live.due, *live.attempts) = (due, number);
        let call = (self.site.shared().number, *live.call);
        let Some(future) = self.work.attempt(Attempt { number, hedge, remaining, call }) else {
            return false;
        };
        if matches!(*live.place, Place::Free) {
            live.place.set(Place::Taken { number, future });
        } else {
            let race =
                live.race.get_or_insert_with(|| Box::new(Race { racers: Vec::new(), earlier: Vec::new() }));
            race.racers.push(Racer { number, future: Box::pin(future) });
        }
        true
    }

    /// Ends the call: builds its report and its answer.
    fn end(
        &mut self,
        verdict: Verdict,
        result: Option<AttemptSlot>,
        retry_in: Option<Duration>,
    ) -> A::Output {
        let live = self.live.as_mut().project();
        let mut report = self.site.report(Some(*live.call), *live.attempts, verdict, retry_in);
        if verdict == Verdict::Nested {
            report.left = Some(self.site.class_of(*live.failure));
        }
        let mut held: Vec<_> = Vec::new();
        let mut last = live.held.take().map(|held| *held);
        let decided = match result {
            Some(lane) if last.as_ref().is_some_and(|(number, _)| AttemptSlot::of(*number) == lane) => {
                last.take()
            }
            Some(lane) => {
                if let Some(race) = live.race {
                    held.append(&mut race.earlier);
                }
                let place = held.iter().rposition(|(number, _)| AttemptSlot::of(*number) == lane);
                // An attempt that could not be made has no result; the result before it is the call's last one then.
                place.map(|place| held.swap_remove(place)).or_else(|| last.take())
            }
            None if matches!(verdict, Verdict::Stale | Verdict::Lost) => last.take(),
            None => None,
        };
        let result = match decided {
            Some((_, Ending::Own(Err(error)))) => {
                // The note names the type only where a retry was possible (semantics 1.5.16).
                let may = verdict == Verdict::NotRetryable && self.site.policy.repeats();
                if may && self.judge.unlisted(&error) {
                    report.unlisted = Some(type_name::<E>());
                }
                Err(Error::Failed(error, report))
            }
            Some((_, Ending::Own(Ok(value)) | Ending::Head(value))) => Ok(value),
            other => {
                let stopped_one = other.is_some();
                let own = [other, last].into_iter().flatten().find_map(|(_, ending)| ending.error());
                let stopped = if stopped_one {
                    let (policy, route) = (self.site.policy.name.clone(), self.site.key.clone());
                    Stopped::attempt_timeout(policy, route, report)
                } else {
                    self.site.stopped(report)
                };
                report = stopped.report;
                Err(Error::Stopped(Box::new(stopped), own))
            }
        };
        A::of(self.site, self.judge, result, report)
    }

    /// Hands out the head of a good answer. The call stays live until its body has been read.
    fn body(&mut self) -> Option<A::Output> {
        let live = self.live.as_mut().project();
        // Losing attempts are stopped after the head has arrived, so the head may be among the earlier endings.
        let earlier = live.race.as_mut().map(|race| std::mem::take(&mut race.earlier));
        let all = live.held.take().map(|held| *held).into_iter().chain(earlier.into_iter().flatten().rev());
        let mut heads = all.filter_map(|(number, ending)| match ending {
            Ending::Head(value) => Some((number, value)),
            _ => None,
        });
        let (attempt, value) = heads.next()?;
        let due = *live.due;
        Some(self.headed(attempt, value, due))
    }

    /// The answer of a call whose only attempt decides.
    #[inline]
    fn over(&self, result: Result<T, E>) -> A::Output {
        let report = self.site.report(Some(self.live.call), self.live.attempts, Verdict::Ok, None);
        A::of(self.site, self.judge, result.map_err(|error| Error::Failed(error, report)), report)
    }

    /// The answer whose body is still to be read.
    #[inline]
    fn headed(&self, attempt: u8, value: T, due: Option<Instant>) -> A::Output {
        let report = self.site.report(Some(self.live.call), self.live.attempts, Verdict::Ok, None);
        let tail = Tail {
            site: self.site.clone(),
            call: self.live.call,
            attempt,
            attempts: self.live.attempts,
            over: false,
            due,
            #[cfg(feature = "_bodies")]
            meter: None,
        };
        A::headed(self.judge, value, report, tail)
    }
}

/// The newest started attempt that uses this slot.
const fn attempt_in(lane: u8, attempts: u8) -> u8 {
    // Attempts that share a slot are at least eight apart (R11), so exactly one of the last eight fits.
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
                assert_eq!(attempt_in(AttemptSlot::of(attempt).number(), attempts), attempt, "of {attempts}");
            }
        }
    }
}
