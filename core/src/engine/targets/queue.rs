//! The queue of a group: calls that wait until a target admits them (semantics 17.6).
//!
//! A target that frees is granted inside the step that freed it, at that step's end: the first waiter gets its tokens, permit, ticket
//! and place, and claims them with its next event. A grant is a lease, as a permit's is (`queue.rs`). Breaks,
//! tokens and cooldowns end by time alone, so the first waiter's timer is set to the earliest of them.

use super::Survey;
use crate::action::{Flags, Verdict, Wait};
use crate::breaker::Evidence;
use crate::engine::arena::{Arena, Call, flag};
use crate::engine::automaton::State;
use crate::engine::call::{MAX_PARK, wait};
use crate::engine::chores::Chore;
use crate::engine::desk::Desk;
use crate::engine::place::{PoolAt, RouteAt, Slot};
use crate::engine::queue::CLAIM;
use crate::engine::record::RecordType;
use crate::engine::route::Routes;
use crate::engine::stage::{Answer, missing};
use crate::engine::{Clash, Engine, Input};
use crate::step::Step;
use crate::time::Time;

impl Routes {
    /// Number of calls that wait for a target of a group.
    pub(in crate::engine) fn waiting_for_target(&self, home: PoolAt) -> u32 {
        self[home].group.as_ref().map_or(0, |group| group.waiting.len())
    }
}

impl Arena {
    /// Whether a held call has been granted a target that its owner has not claimed.
    pub(in crate::engine) fn has_target(&self, slot: Slot) -> bool {
        self[slot].has(flag::TOKENS) && self.target_ahead(slot).is_some()
    }
}

impl Desk {
    /// The early look: whether any target would admit an attempt. It takes nothing.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn peek_targets(&mut self, slot: Slot, now: Time) -> Answer {
        let Some(home) = self.routes.targets_of(&self.calls[slot]) else { return Answer::Pass };
        let (survey, free) = self.survey_in_turn(slot, home, now);
        if free || self.routes.may_wait_for_target(&self.calls, slot, home, survey, now).is_some() {
            Answer::Pass
        } else {
            survey.refuse()
        }
    }

    /// The choice: takes a target for a call's next attempt (17.2).
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn ask_targets(&mut self, slot: Slot, home: PoolAt, now: Time) -> Answer {
        let (survey, free) = self.survey_in_turn(slot, home, now);
        if free && let Some(number) = self.choose_any(slot, home, survey) {
            self.take_target(slot, home, number, now);
            return Answer::Pass;
        }
        if survey.admit == 0 {
            self.choose(slot, home, survey, 0); // counts those that did not admit it
        }
        match self.routes.may_wait_for_target(&self.calls, slot, home, survey, now) {
            Some(patience) => self.wait_for_target(slot, home, patience, now),
            None => survey.refuse(),
        }
    }

    /// Serves the calls that wait, then asks all targets. Also returns whether the call may take one: one admits it, and no call waits.
    fn survey_in_turn(&mut self, slot: Slot, home: PoolAt, now: Time) -> (Survey, bool) {
        if self.routes.first_for_target(home).is_some() {
            self.hand_out_targets(home, now);
        }
        let asked = self.calls.asked(slot);
        let survey = self.routes.survey(home, asked, now);
        (survey, survey.admit != 0 && self.routes.is_in_turn(home, asked))
    }

    /// Makes a call wait at the end of the queue.
    fn wait_for_target(&mut self, slot: Slot, home: PoolAt, patience: Time, now: Time) -> Answer {
        self.calls.set_patience_for_target(slot, patience);
        self.calls.note_charged(slot);
        self.calls[slot].hold();
        let Some(group) = &mut self.routes[home].group else { return Answer::broken(Verdict::NoTarget) };
        group.waiting.push(&mut self.calls, slot);
        self.note_course(move |it| it.queued(slot, Wait::Target, patience, now));
        Answer::Wait(self.routes.park_for_target(&mut self.calls, slot, home, now))
    }

    /// Checks a waiter: passes if it has a target, which it claims.
    pub(in crate::engine) fn still_for_target(&mut self, slot: Slot, now: Time) -> Answer {
        let Some(home) = self.routes.targets_of(&self.calls[slot]) else {
            return Answer::broken(Verdict::NoTarget);
        };
        if self.calls[slot].has(flag::TOKENS) {
            if self.routes.keeps_target(&self.calls, slot, home, now) {
                return Answer::Pass;
            }
            // Its target has closed since: the call goes back to the head of the queue.
            self.give_target_back(slot, now);
            self.calls[slot].flags &= !flag::TOKENS;
            self.calls.note_charged(slot);
            let Some(group) = &mut self.routes[home].group else {
                return Answer::broken(Verdict::NoTarget);
            };
            group.waiting.insert(&mut self.calls, slot, Slot::NONE);
        }
        self.hand_out_targets(home, now);
        self.calls.forget_wake(slot, &mut self.wakes);
        if let Some(answer) = self.calls.decided(slot, now) {
            return answer;
        }
        if self.calls.patience_for_target(slot) <= now {
            return self.routes.survey(home, self.calls.asked(slot), now).refuse();
        }
        Answer::Wait(self.routes.park_for_target(&mut self.calls, slot, home, now))
    }

    /// Grants targets to the calls that wait first, while targets admit them. Refuses those whose time is over, and those that no
    /// target can ever admit. Wakes the first of those that remain if a target may admit it before its timer.
    #[inline(never)]
    pub(in crate::engine) fn hand_out_targets(&mut self, home: PoolAt, now: Time) {
        while let Some(slot) = self.routes.first_for_target(home) {
            let survey = self.routes.survey(home, self.calls.asked(slot), now);
            let is_late = self.calls.patience_for_target(slot) <= now;
            let waits = survey.admit == 0 && survey.later && !is_late;
            if waits {
                if survey.earliest.is_some_and(|earliest| now.after(earliest) < self.calls[slot].moment) {
                    self.wakes.push(self.calls.id(slot)); // its next event sets its timer
                }
                return;
            }
            if !self.chores.one_more(Chore::Targets(home)) {
                self.wakes.push(self.calls.id(slot)); // its next event resumes this loop
                return;
            }
            self.unlist(slot);
            if is_late || survey.admit == 0 {
                let out = self.calls[slot].deadline <= now;
                self.turn_away(slot, if out { Verdict::DeadlineQueued } else { survey.verdict() }, now);
                self.calls.set_again(slot, survey.retry_in(), now);
                continue;
            }
            let Some(number) = self.choose_any(slot, home, survey) else {
                return missing("a target that admits an attempt");
            };
            self.take_target(slot, home, number, now);
            let call = &mut self.calls[slot];
            call.flags |= flag::TOKENS;
            call.moment = now.after(CLAIM);
            self.note_course(move |it| it.granted(slot, Wait::Target, None, now));
            self.wakes.push(self.calls.id(slot));
        }
    }

    /// A waiter has left the queue: others may be served now.
    pub(in crate::engine) fn left_target_queue(&mut self, route: RouteAt, now: Time) {
        if let Some(home) = self.routes[route].targets_at {
            self.hand_out_targets(*home, now);
        }
    }

    /// Gives back the target of an attempt that will not start. Its tokens are spent.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn give_target_back(&mut self, slot: Slot, now: Time) {
        let Some((number, ticket, place)) = self.calls.unchoose(slot) else { return };
        let route = self.calls[slot].route;
        let Some(home) = self.routes.targets_of(&self.calls[slot]) else {
            return missing("the group of a target");
        };
        if let Some(member) = self.routes[home].group.as_mut().and_then(|group| group.member_mut(number)) {
            member.attempts = member.attempts.saturating_sub(1);
            let at = member.at;
            let target = &mut self.routes[at];
            if let Some(cooling) = &mut target.cooldown {
                cooling.part.free(place);
            }
            if let Some(breaker) = target.breaker.as_mut().filter(|_| ticket.number != 0) {
                let from = breaker.state(now);
                breaker.record(ticket, Evidence::Neutral, 0, now);
                self.note(move |it| it.breaker_changed(Some(slot), at, from, now));
            }
        }
        self.release_targets(route, &[number]);
    }
}

impl Routes {
    /// Until when a call that gets no target may wait for one; `None` if it must not wait.
    fn may_wait_for_target(
        &self,
        calls: &Arena,
        slot: Slot,
        home: PoolAt,
        survey: Survey,
        now: Time,
    ) -> Option<Time> {
        let (call, group) = (&calls[slot], self[home].group.as_ref()?);
        let patience = now.after(group.max_wait).min(call.deadline);
        let earliest = survey.earliest.filter(|_| survey.admit == 0 && !survey.unknown);
        let in_vain = earliest.is_some_and(|earliest| now.after(earliest) >= patience);
        let has_room =
            calls.asked(slot).only == 0 && call.has(flag::MAY_PARK) && group.waiting.len() < group.max_queue;
        (has_room && (survey.admit != 0 || survey.later) && !in_vain).then_some(patience)
    }

    /// The wait of a call in the queue. The first one is to ask when a target may admit it.
    fn park_for_target(&mut self, calls: &mut Arena, slot: Slot, home: PoolAt, now: Time) -> Step {
        let mut next = now.after(MAX_PARK).min(calls.patience_for_target(slot));
        if self.first_for_target(home) == Some(slot) {
            let survey = self.survey(home, calls.asked(slot), now);
            next = survey.earliest.map_or(next, |earliest| next.min(now.after(earliest)));
        }
        calls[slot].moment = next; // the reaper counts from the last moment that the host was given
        wait(Wait::Target, next, now)
    }

    /// Whether the target that a call has been granted is still one that attempts may go to.
    fn keeps_target(&self, calls: &Arena, slot: Slot, home: PoolAt, now: Time) -> bool {
        let number = calls.target_ahead(slot);
        let group = self[home].group.as_ref();
        let member = group.zip(number).and_then(|(group, number)| group.member(number));
        let Some(at) = member.filter(|member| !member.removed).map(|member| member.at) else { return false };
        let target = &self[at];
        let is_broken = target
            .breaker
            .as_ref()
            .is_some_and(|breaker| breaker.open_until().is_some_and(|until| until > now));
        let is_closed = target.cooldown.as_ref().is_some_and(|it| it.part.closed_for(now).is_some());
        !target.forced && !is_broken && !is_closed
    }

    /// Checks that a group's queue holds the calls that wait for its targets.
    pub(in crate::engine) fn check_target_queue(&self, home: PoolAt, calls: &Arena) -> Result<(), String> {
        let waits =
            |call: &Call| call.state() == State::Held && call.listed() && self.targets_of(call) == Some(home);
        let count = calls.iter().filter(|(_, call)| waits(call)).count() as u32;
        if self.waiting_for_target(home) == count {
            return Ok(());
        }
        Err(format!("group {}: its queue does not hold the {count} calls that wait", home.route()))
    }
}

impl Engine {
    /// Refuses every attempt at a target from now on; `on = false` ends that and resets its circuit breaker and its cooldown. Running
    /// attempts finish. Calls go to the other targets of the group.
    ///
    /// # Errors
    /// The engine has no such group, or the group no such target.
    pub fn force_target(&mut self, group: &str, target: &str, on: bool, now: Time) -> Result<Flags, Clash> {
        self.journal.write(|| Input::ForceTarget { group: group.into(), target: target.into(), on, now });
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        let known = self
            .pools
            .targets(&self.desk.routes)
            .find(|(name, member)| *name == group && *member.name == *target);
        let Some(at) = known.map(|(_, member)| member.at) else {
            let name = format!("{group}/{target}");
            return Err(Clash { name, rule: "there is no such target in this engine" });
        };
        let home = self.pools.get(group).map(|shared| shared.at);
        let before = self.desk.routes.levels(at);
        let route = &mut self.desk.routes[at];
        route.forced = on;
        if let Some(breaker) = route.breaker.as_mut().filter(|_| !on) {
            breaker.reset();
        }
        if let Some(cooling) = route.cooldown.as_mut().filter(|_| !on) {
            cooling.part.reset(now);
        }
        let what = if on { RecordType::ForcedOpen } else { RecordType::ForcedCleared };
        self.desk.note(move |it| it.policy_changed(what, None, Some(at), now));
        self.desk.note(move |it| it.levels_changed(at, before, now));
        if let Some(home) = home {
            self.desk.hand_out_targets(home, now);
        }
        Ok(self.flags())
    }
}
