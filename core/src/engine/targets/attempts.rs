//! What attempts owe to their targets: outcomes, and permits. A call with targets has one pooled block for it.

use super::{Asked, Set};
use crate::action::AttemptSlot;
use crate::breaker::CircuitBreaker;
use crate::breaker::Ticket;
use crate::cooldown::{CooldownState, Place};
use crate::engine::arena::Arena;
use crate::engine::call_extra::{RunningAttempt, mark};
use crate::engine::desk::Desk;
use crate::engine::place::Slot;
use crate::engine::stage::{Context, Effect, Ended};
use crate::full::Full;
use crate::outcome::{Class, Kind};
use crate::rng::{self, Purpose};
use crate::time::{Duration, Time};

/// The targets of a call's attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct AttemptTargets {
    /// Targets that the call has tried since it last waited for one.
    tried: Set,
    /// By attempt slot: the target's number, and the number of its breaker's ticket.
    target: [u8; 8],
    ticket: [u16; 8],
    /// By attempt slot: the place in its target's cooldown.
    place: [u16; 8],
    /// By attempt slot: the target's own attempt timeout in µs, of at most an hour; 0 means that it has none.
    timeout: [u32; 8],
    /// The attempt slots whose ticket is a probe's, and those that hold a permit of their target.
    probes: u8,
    out: u8,
    /// Whether the call has a target for the attempt that starts next.
    pending: bool,
    /// The target, ticket, probe and place of the attempt that starts next.
    chosen: (u8, u16, bool, u16),
    next_timeout: u32,
    /// Targets that failures have opened to the call, and, if any, the only ones that it may go to.
    unlocked: Set,
    only: Set,
    /// While the call waits for a target: until when.
    patience: Time,
}

const _: () = assert!(
    size_of::<AttemptTargets>() <= 128,
    "a call with targets has one block more, of at most 128 bytes"
);

impl AttemptTargets {
    fn choose(&mut self, target: u8, (ticket, place): (Option<Ticket>, Place), timeout: Duration) {
        let ticket = ticket.unwrap_or(Ticket { number: 0, probe: false });
        self.chosen = (target, ticket.number, ticket.probe, place.number());
        self.tried |= 1 << target;
        self.pending = true;
        self.next_timeout = u32::try_from(timeout.as_micros()).unwrap_or(0);
    }

    /// Gives the chosen target to the attempt that starts.
    pub fn start(&mut self, attempt_slot: AttemptSlot) {
        let (place, bit) = (usize::from(attempt_slot.number()), attempt_slot.bit());
        let (target, ticket, probe, cooling) = self.chosen;
        (self.target[place], self.ticket[place], self.place[place]) = (target, ticket, cooling);
        self.timeout[place] = self.next_timeout;
        self.probes = self.probes & !bit | if probe { bit } else { 0 };
        self.out |= bit;
        self.pending = false;
    }

    /// Forgets the tickets, or the places, of attempts at a target whose breaker, or whose cooldown, is gone.
    pub fn forget_guards(&mut self, target: u8, [breaker, cooldown]: [bool; 2]) {
        for place in (0..8).filter(|place| self.target[*place] == target) {
            self.ticket[place] = if breaker { 0 } else { self.ticket[place] };
            self.place[place] = if cooldown { 0 } else { self.place[place] };
        }
        if self.pending && self.chosen.0 == target {
            self.chosen.1 = if breaker { 0 } else { self.chosen.1 };
            self.chosen.3 = if cooldown { 0 } else { self.chosen.3 };
        }
    }

    /// Takes the permits of attempts that have ended: their targets, and how many.
    pub fn take(&mut self, gone: u8) -> ([u8; 8], u8) {
        let (mut targets, mut count) = ([0; 8], 0);
        for place in (0..8_u8).filter(|place| self.out & gone & 1 << place != 0) {
            targets[usize::from(count)] = self.target[usize::from(place)];
            count += 1;
        }
        self.out &= !gone;
        (targets, count)
    }
}

impl Arena {
    /// Notes the target of a call's next attempt.
    pub(super) fn choose_target(
        &mut self,
        slot: Slot,
        target: u8,
        taken: (Option<Ticket>, Place),
        timeout: Duration,
    ) {
        let Some(full) = Full::here() else { return };
        let blocks = &mut self.more_of(slot, full).targets;
        if blocks.place(slot).is_none() {
            blocks.insert(slot, AttemptTargets::default());
        }
        blocks.known_mut(slot).choose(target, taken, timeout);
    }

    /// The attempt timeout of an attempt's target, if it has one of its own.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn timeout_at_target(&self, slot: Slot, attempt: u8) -> Option<Duration> {
        let timeout = self.targets(slot)?.timeout[usize::from(AttemptSlot::of(attempt).number())];
        (timeout != 0).then_some(Duration::from_micros(timeout.into()))
    }

    /// The target that a call has for its next attempt.
    pub(super) fn target_ahead(&self, slot: Slot) -> Option<u8> {
        self.targets(slot).filter(|block| block.pending).map(|block| block.chosen.0)
    }

    /// Takes from a call the target of its next attempt, with its ticket and its place.
    pub(super) fn unchoose(&mut self, slot: Slot) -> Option<(u8, Ticket, Place)> {
        let block = self.targets_mut(slot).filter(|block| block.pending)?;
        block.pending = false;
        let (target, number, probe, place) = block.chosen;
        Some((target, Ticket { number, probe }, Place::of(place)))
    }

    /// Sets until when a call waits for a target.
    pub(super) fn set_patience_for_target(&mut self, slot: Slot, until: Time) {
        let Some(full) = Full::here() else { return };
        let blocks = &mut self.more_of(slot, full).targets;
        if blocks.place(slot).is_none() {
            blocks.insert(slot, AttemptTargets::default());
        }
        blocks.known_mut(slot).patience = until;
    }

    /// Until when a call waits for a target.
    pub(in crate::engine) fn patience_for_target(&self, slot: Slot) -> Time {
        self.targets(slot).map_or(Time::NEVER, |block| block.patience).min(self[slot].deadline)
    }

    /// Attempts of a call that hold a permit of this target, for consistency checks.
    pub(super) fn out_at(&self, slot: Slot, number: u8) -> usize {
        let Some(block) = self.targets(slot) else { return 0 };
        let out = (0..8).filter(|place| block.out >> place & 1 != 0 && block.target[*place] == number);
        out.count() + usize::from(block.pending && block.chosen.0 == number)
    }

    /// What a call asks of the targets.
    pub(super) fn asked(&self, slot: Slot) -> Asked {
        let (unlocked, only) = self.targets(slot).map_or((0, 0), |block| (block.unlocked, block.only));
        Asked { cost: self[slot].cost(), unlocked, only }
    }

    /// Opens targets to a call.
    pub(super) fn unlock(&mut self, slot: Slot, targets: Set) {
        if let Some(block) = self.targets_mut(slot) {
            block.unlocked |= targets;
        }
    }

    /// Lets a call go to these targets alone.
    pub(super) fn restrict(&mut self, slot: Slot, targets: Set) {
        if let Some(block) = self.targets_mut(slot) {
            block.only = targets;
        }
    }

    /// The targets that a call has tried.
    pub(super) fn tried(&self, slot: Slot) -> Set {
        self.targets(slot).map_or(0, |block| block.tried)
    }

    /// All targets count as untried again.
    pub(in crate::engine) fn forget_tried(&mut self, slot: Slot) {
        if let Some(block) = self.targets_mut(slot) {
            block.tried = 0;
        }
    }

    /// The place of an attempt in its target's cooldown.
    pub(in crate::engine) fn place_at_target(&self, slot: Slot, attempt_slot: AttemptSlot) -> Place {
        self.targets(slot)
            .map_or(Place::NONE, |block| Place::of(block.place[usize::from(attempt_slot.number())]))
    }

    /// The target of the attempt in an attempt slot.
    pub(in crate::engine) fn target_in(&self, slot: Slot, attempt_slot: AttemptSlot) -> Option<u8> {
        let block = self.targets(slot).filter(|_| self[slot].attempts > 0)?;
        Some(block.target[usize::from(attempt_slot.number())])
    }
}

impl Desk {
    /// Feeds the outcome of an attempt to its target: breaker, limit, and the estimate of its time.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn target_over(
        &mut self,
        slot: Slot,
        running_attempt: &RunningAttempt,
        kind: Kind,
        now: Time,
    ) {
        let call = &self.calls[slot];
        let class = self.policies.of(call).class_of(kind);
        let (attempt, ordinal) = (running_attempt.attempt, call.ordinal());
        let attempt_slot = AttemptSlot::of(attempt);
        let (place, bit) = (usize::from(attempt_slot.number()), attempt_slot.bit());
        let Some(home) = self.routes.targets_of(&self.calls[slot]) else { return };
        let Some(block) = self.calls.targets(slot) else { return };
        let number = block.target[place];
        let ticket = Ticket { number: block.ticket[place], probe: block.probes & bit != 0 };
        let cooled = Place::of(block.place[place]);
        let fails_over = self.policies.of(call).fails_over(kind);
        let Some(mut group) = self.routes[home].group.take() else { return };
        let mean = group.member(number).map_or(0, |member| group.estimate(member));
        if let Some(member) = group.member_mut(number) {
            let at = member.at;
            // A kind that the call's policy declares is none of the target's: its class counts.
            let ended = Ended { ticket, kind: class.into(), class, attempt, ordinal };
            let context = Context { policies: &self.policies, seed: self.seed, now };
            let target = &mut self.routes[at];
            let mut changed = None;
            if ticket.number != 0
                && let Some((from, Effect::Changed)) =
                    target.teach::<CircuitBreaker>(&member.policy, &ended, context)
            {
                changed = Some(from);
            }
            let mut limit = None;
            let heard = class != Class::Throttled || !self.calls.marked(slot, mark::INNER);
            if let Some(pool) = target.pool.as_mut().filter(|pool| heard && !pool.limiter.is_fixed()) {
                let from = pool.limit;
                pool.limiter.feed(class, running_attempt.since, pool.in_flight, now);
                pool.set_limit(pool.limiter.limit());
                limit = Some(from);
            }
            let mut cooling = None;
            if let Some(it) = target.cooldown.as_mut().filter(|_| class != Class::Throttled) {
                let from = it.part.state(now);
                if class == Class::Ok {
                    let limit = target.pool.as_ref().map(|pool| pool.limit).filter(|it| *it != u32::MAX);
                    let most = limit.unwrap_or(it.part.in_flight());
                    it.part.on_good(running_attempt.since, cooled, most, now);
                } else {
                    it.part.free(cooled);
                }
                cooling = Some(from).filter(|from| *from != CooldownState::Open);
            }
            let took = now.since(running_attempt.since).as_micros().min((1 << 53) - 1);
            match class {
                Class::Ok => member.observe(took),
                Class::Permanent if !fails_over => member.observe(took),
                Class::Cancelled | Class::Ignored => {}
                // Without any estimate there is nothing that a fast error could be measured by.
                _ if mean == 0 => {}
                _ => member.observe(mean.saturating_mul(2)),
            }
            if let Some(from) = changed {
                self.note(move |it| it.breaker_changed(Some(slot), at, from, now));
            }
            if let Some(from) = cooling {
                self.note(move |it| it.cooldown_changed(Some(slot), at, from, now));
            }
            if let Some(from) = limit {
                self.note(move |it| it.limit_changed(Some(slot), at.own(), from, now));
            }
        }
        self.routes[home].group = Some(group);
        self.routes.note_freed(home, &mut self.chores);
    }

    /// Records the failed body of an answer at its target, as a further failure.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn target_body_failed(&mut self, slot: Slot, attempt: u8, kind: Kind, now: Time) {
        let call = &self.calls[slot];
        let class = self.policies.of(call).class_of(kind);
        let bits = rng::bits(self.seed, call.ordinal(), Purpose::Break, attempt);
        let attempt_slot = AttemptSlot::of(attempt);
        let Some((home, block)) = self.routes.targets_of(&self.calls[slot]).zip(self.calls.targets(slot))
        else {
            return;
        };
        let place = usize::from(attempt_slot.number());
        let ticket = Ticket { number: block.ticket[place], probe: block.probes & attempt_slot.bit() != 0 };
        let Some(member) =
            self.routes[home].group.as_ref().and_then(|group| group.member(block.target[place]))
        else {
            return;
        };
        let failure = crate::breaker::Evidence::Failure;
        let is_failure =
            member.policy.breaker.as_ref().is_some_and(|it| it.evidence(class.into(), class) == failure);
        let at = member.at;
        if let Some(breaker) = self.routes[at].breaker.as_mut().filter(|_| is_failure && ticket.number != 0) {
            let from = breaker.state(now);
            let _ = breaker.on_body_failure(ticket, bits, now);
            self.note(move |it| it.breaker_changed(Some(slot), at, from, now));
        }
    }
}
