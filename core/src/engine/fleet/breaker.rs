//! A breaker of the fleet (semantics 10.1, 10.7). Each process has its own breaker, which decides; the processes
//! exchange the decisions through the store. An opening is written at once. Otherwise traffic triggers a read of the
//! store's state now and then. Each process sends its own probes, and the first process whose probes close its
//! breaker closes it for all.
//!
//! The store gives each break an epoch. `theirs` means that the present break is the fleet's, and ends when the
//! fleet's ends. Without `theirs` the break is the process's alone, because there was no quorum or no store.

mod stage;

use super::command::{self, Subject};
use super::{FleetDesk, Sender};
use crate::breaker::BreakerState;
use crate::engine::place::RouteAt;
use crate::engine::route::Routes;
use crate::engine::stage::missing;
use crate::fleet::{BREAKER, CommandId};
use crate::full::Part;
use crate::policy::{Breaker, FleetBreaker};
use crate::time::{Duration, Time};

/// Operation of the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Op {
    Read = 0,
    Open = 1,
    Close = 2,
}

/// What a route's breaker knows of the fleet's breaker.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Guard {
    settings: FleetBreaker,
    /// The fleet's last break that this process knows of; 0 means no break.
    epoch: u64,
    /// Whether the present break of this breaker is the fleet's.
    theirs: bool,
    /// Whether the store knows of this process's own break.
    reported: bool,
    /// The break that the probes of this process have closed.
    closed: u64,
    /// Whether a probe of this process has failed in a break of the fleet.
    failed: bool,
    /// When the state was last read.
    asked_at: Option<Time>,
    /// Number of commands without an answer.
    out: u32,
    /// The newest answered command; answers to older ones are ignored.
    heard: CommandId,
}

impl Guard {
    /// Creates the state for a breaker of the fleet; `None` for any other.
    pub fn of(breaker: Option<&Breaker>) -> Option<Part<Self>> {
        let settings = breaker?.fleet?;
        let it = Self {
            settings: *settings,
            epoch: 0,
            theirs: false,
            reported: false,
            closed: 0,
            failed: false,
            asked_at: None,
            out: 0,
            heard: CommandId::from_word(0),
        };
        Some(Part::new(it, settings.full()))
    }

    /// Applies new settings.
    pub fn retune(it: &mut Option<Part<Self>>, to: Option<&Breaker>) {
        match (it.as_mut(), to.and_then(|to| to.fleet)) {
            (Some(guard), Some(settings)) => guard.settings = *settings,
            _ => *it = Self::of(to),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns whether a probe has failed, and clears that.
    pub(super) fn take_failed(&mut self) -> bool {
        core::mem::take(&mut self.failed)
    }

    /// After a fork: the commands belong to the parent.
    pub fn forget(&mut self) {
        self.out = 0;
    }
}

impl Routes {
    pub(super) fn breaker_settled(&mut self, route: RouteAt) {
        match &mut self[route].guard {
            Some(guard) => guard.out = guard.out.saturating_sub(1),
            None => missing("what a breaker knows of the fleet's"),
        }
    }

    pub(super) fn breaker_sent(&mut self, route: RouteAt) {
        match &mut self[route].guard {
            Some(guard) => guard.out += 1,
            None => missing("what a breaker knows of the fleet's"),
        }
    }
}

impl Sender<'_> {
    fn send_breaker(&mut self, route: RouteAt, op: Op, now: Time) {
        if !self.store.may_send((self.routes.lasting_id(route), command::Part::Breaker), self.seed, now) {
            return;
        }
        let it = &mut self.routes[route];
        let policy = &self.policies[usize::from(it.policy)].policy;
        let (Some(guard), Some(settings)) = (&mut it.guard, &policy.breaker) else {
            return missing("what a breaker knows of the fleet's");
        };
        let left = it.breaker.as_ref().and_then(|breaker| breaker.refuses(now));
        let duration = left.unwrap_or(settings.settings.break_duration).as_micros().max(1);
        let args = [
            guard.epoch,
            duration,
            u64::from(guard.settings.quorum),
            guard.settings.within.as_micros().max(1),
        ];
        let within = policy.store_timeout;
        guard.asked_at = Some(now);
        guard.out += 1;
        if self.store.is_plain() {
            return self.send_mark(route, op, Duration::from_micros(duration), within, now);
        }
        self.store.send(
            &BREAKER,
            (self.routes.address(self.policies, route.own()), Subject::Breaker { op }),
            (Some(op as u64), &args),
            within,
            now,
        );
    }
}

impl FleetDesk<'_> {
    /// Applies the fleet's state from the reply to a command sent at `sent`. The remaining time of a break counts
    /// from `sent`. So a late answer never prolongs a break, and a command sent at the break's end reaches the store
    /// after that end, because this command took time to reach the store too.
    pub(super) fn on_breaker_reply(
        &mut self,
        route: RouteAt,
        (command, op, sent): (CommandId, Op, Time),
        answer: &[u64],
        now: Time,
    ) {
        let &[state, remaining, epoch, _votes] = answer else {
            return missing("a number in the answer about a breaker");
        };
        // Limit a break to the policy's longest, whatever the store answers.
        let longest =
            self.desk.routes[route].breaker.as_ref().map_or(Duration::ZERO, |it| it.longest_break());
        let remaining = remaining.min(longest.as_micros()).saturating_sub(now.since(sent).as_micros());
        let state = if state == 1 && remaining == 0 { 2 } else { state };
        let before = self.desk.routes.levels(route);
        let it = &mut self.desk.routes[route];
        let (Some(guard), Some(breaker)) = (&mut it.guard, &mut it.breaker) else {
            return missing("what a breaker knows of the fleet's");
        };
        if command < guard.heard {
            return;
        }
        guard.heard = command;
        guard.reported |= op == Op::Open;
        let own = breaker.state(now);
        // Whether to report an own break that the fleet does not know. A break that is already over is not reported.
        let opens = own == BreakerState::Open && !guard.reported && breaker.refuses(now).is_some();
        let mut again = None;
        match state {
            1 if epoch != guard.epoch || own == BreakerState::Closed && guard.closed != epoch => {
                breaker.open_for(Duration::from_micros(remaining), now);
                (guard.epoch, guard.theirs) = (epoch, true);
            }
            2 if epoch != guard.epoch || guard.theirs && own == BreakerState::Open => {
                // The break is over, and no process's probe has succeeded yet. A closed breaker has not seen the
                // break, so it probes too. So does a breaker that expected a longer break.
                if own == BreakerState::Closed || guard.theirs && own == BreakerState::Open {
                    breaker.open_for(Duration::ZERO, now);
                }
                (guard.epoch, guard.theirs) = (epoch, true);
            }
            // Not after a close: a store that by then knows of no break would get the command for ever.
            2 if own == BreakerState::Closed && guard.closed == epoch && op != Op::Close => {
                again = Some(Op::Close);
            }
            2 if opens && !guard.theirs => again = Some(Op::Open),
            0 if guard.theirs && own != BreakerState::Closed => {
                breaker.reset();
                (guard.epoch, guard.theirs) = (epoch, false);
            }
            0 if opens => again = Some(Op::Open),
            _ => {}
        }
        self.desk.note(move |it| it.levels_changed(route, before, now));
        if let Some(op) = again {
            self.sender().send_breaker(route, op, now);
        }
    }
}
