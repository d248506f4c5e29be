//! A store that runs no scripts (semantics 10.2): what one script does at once is here a chain of plain commands, each sent
//! when the one before it has been answered. No two of them are one decision, so that less is promised:
//!
//! * A rate is a counter for a window of time. `SET NX` begins a window, `INCRBY` counts the tokens wanted, and what lies
//!   below the window's limit is granted. A window's limit can be spent at its end and the next one's at its beginning.
//!   What is counted and not granted or not spent is lost until the window ends, because no command gives it back safely.
//! * A break is a key that lives for as long as the break and a tail, in which it is half-open. Its value is drawn by chance,
//!   so that breaks are distinguished. A process that opens while another closes may win or lose; its next read shows which.
//!
//! A key that has lost its end (the server evicted it between two commands) is given one by whoever finds it so.

mod reply;

use super::FleetDesk;
use super::breaker::Op;
use super::command::Subject;
use super::rate::MOST_PROCESSES;
use crate::action::CallId;
use crate::engine::fleet::FleetStore;
use crate::engine::place::{PoolAt, RouteAt};
use crate::engine::stage::missing;
use crate::limit::RateSettings;
use crate::rng::{self, Purpose};
use crate::time::{Duration, Time};

/// A window is no shorter, so that what it allows can be had before it is over.
const SHORTEST: u64 = 100_000;

/// How long after its end a break is remembered, in milliseconds: as long it is half-open.
const TAIL: u64 = 60_000;

/// What a window counts in, and what holds a break.
const WINDOW: &str = ":rw";
const MARK: &str = ":bm";

/// Where a chain is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Link {
    /// `SET NX`: begins a window where there is none.
    Begin,
    /// `INCRBY`: counts tokens, in a window that was begun then, if it was this process that did.
    Count { begun: Option<Time> },
    /// `PTTL`: how long it lasts.
    Left,
    /// `SET`: a break with this name.
    Name { epoch: u64 },
    /// `GET`: the name of the break that was found, with its state and how long that lasts.
    Named { state: u64, remaining: u64 },
    /// `DEL`: no break.
    Clear,
    /// `PEXPIRE`: an end for a key without one. Nobody waits for the answer.
    Repair,
}

impl Link {
    /// Is its answer a sum that holds what was just added?
    pub fn counts(self) -> bool {
        matches!(self, Self::Count { .. })
    }

    /// The numbers that an answer says; `None` where it says none that this command has.
    pub fn read(self, bytes: &[u8], number: impl FnOnce(&[u8]) -> Option<u64>) -> Option<Vec<u64>> {
        let small = |most: u64| move |it: &u64| *it <= most;
        Some(match (self, bytes) {
            (Self::Begin | Self::Name { .. }, b"OK") => vec![1],
            (Self::Begin | Self::Name { .. }, b"") => vec![0],
            (Self::Begin | Self::Name { .. }, _) => return None,
            (Self::Left, b"-2") | (Self::Named { .. }, b"") => vec![0, 0],
            (Self::Left, b"-1") => vec![1, 0],
            (Self::Left, _) => vec![2, number(bytes)?],
            (Self::Named { .. }, _) => vec![1, number(bytes)?],
            (Self::Count { .. }, _) => vec![number(bytes)?],
            (Self::Clear | Self::Repair, _) => vec![number(bytes).filter(small(1))?],
        })
    }
}

/// Tokens that are wanted: at best, at least, and for which call.
pub(super) type Wanted = (u32, u32, Option<CallId>);

/// A rate as a counter has it: so many tokens in a window of so many microseconds, a burst and the time in which it flows.
/// Where that is too short a time for a store, as many as flow in the shortest.
pub(super) fn window(settings: RateSettings) -> (u64, Duration) {
    let (permits, per) = (u64::from(settings.permits.max(1)), settings.per.as_micros().max(1));
    let burst = u64::from(settings.burst.max(1));
    let span = |tokens: u64| u128::from(tokens) * u128::from(per) / u128::from(permits);
    let least = u128::from(SHORTEST) * u128::from(permits) / u128::from(per);
    let limit = burst.max(u64::try_from(least).unwrap_or(u64::MAX)).min(u64::from(u32::MAX));
    // In whole milliseconds, rounded up: the rate is never more than was said.
    let span = u64::try_from(span(limit).div_ceil(1_000)).unwrap_or(u64::MAX).clamp(1, 1 << 43);
    (limit, Duration::from_millis(span))
}

/// Whose part of the last window was how large: what a process's own share is while the store is gone.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Part {
    mine: u64,
    all: u64,
}

impl Part {
    /// Tokens have been counted, and these are now all. In a new window: as how many processes of its own size the last
    /// one's demand came from.
    pub(super) fn count(&mut self, wanted: u64, all: u64) -> Option<u32> {
        let is_new = all < self.mine + wanted || all == wanted;
        let before = core::mem::replace(self, if is_new { Self::default() } else { *self });
        (self.mine, self.all) = (self.mine + wanted, all);
        let parts = before.all.checked_div(before.mine).filter(|_| is_new)?;
        Some(u32::try_from(parts.min(MOST_PROCESSES)).unwrap_or(1).max(1))
    }
}

impl FleetDesk<'_> {
    /// One command about a rate's window: the first of a chain, or the next, whose answer is due when the first one's would
    /// have been. It is the caller that counts it as out.
    pub(super) fn send_window(
        &mut self,
        home: PoolAt,
        (link, wanted): (Link, Wanted),
        within: Duration,
        now: Time,
    ) {
        let Some(share) = self.desk.routes.share_mut(home) else {
            return missing("the fleet's share of a rate");
        };
        let (_, span) = window(share.settings());
        let millis = (span.as_micros() / 1_000).to_string();
        let want = wanted.0.to_string();
        let (name, args): (_, &[&str]) = match link {
            Link::Begin => ("SET", &["0", "PX", &millis, "NX"]),
            Link::Count { .. } => ("INCRBY", &[&want]),
            Link::Repair => ("PEXPIRE", &[&millis]),
            _ => ("PTTL", &[]),
        };
        self.store.send_plain(
            (self.desk.routes.address(&self.desk.policies, home), Subject::Window { link, wanted }),
            (name, WINDOW, args),
            within,
            now,
        );
    }

    /// One command about a breaker's mark, with how long a break lasts where one begins. It is the caller that counts it.
    pub(super) fn send_mark(
        &mut self,
        route: RouteAt,
        op: Op,
        duration: Duration,
        within: Duration,
        now: Time,
    ) {
        let Some(guard) = &mut self.desk.routes[route].guard else {
            return missing("what a breaker knows of the fleet's");
        };
        let again = op == Op::Open && guard.take_failed();
        let link = match op {
            Op::Read => Link::Left,
            Op::Close => Link::Clear,
            Op::Open => Link::Name { epoch: self.store.draw_epoch() },
        };
        let until = duration.as_micros().div_ceil(1_000).saturating_add(TAIL).to_string();
        let epoch = if let Link::Name { epoch } = link { epoch.to_string() } else { String::new() };
        let (name, args): (_, &[&str]) = match op {
            Op::Read => ("PTTL", &[]),
            Op::Close => ("DEL", &[]),
            // Whose probe has failed knows the break that it replaces; whoever else opens replaces none.
            Op::Open if again => ("SET", &[&epoch, "PX", &until]),
            Op::Open => ("SET", &[&epoch, "PX", &until, "NX"]),
        };
        self.store.send_plain(
            (
                self.desk.routes.address(&self.desk.policies, route.own()),
                Subject::Mark { link, op, duration },
            ),
            (name, MARK, args),
            within,
            now,
        );
    }
}

impl FleetStore {
    /// A name that no break has had, as far as chance goes.
    fn draw_epoch(&mut self) -> u64 {
        self.fleet.as_mut().map_or(1, |fleet| {
            fleet.draws += 1;
            rng::bits(fleet.entropy, fleet.draws, Purpose::Probe, 1) >> 12 | 1
        })
    }
}
