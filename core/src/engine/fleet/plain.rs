//! A store that runs no scripts (semantics 10.2). A chain of plain commands replaces each script; each command is
//! sent when the previous one has been answered. Two commands are never atomic together, so the guarantees are
//! weaker:
//!
//! * A rate is a counter for a window of time. `SET NX` begins a window, `INCRBY` counts the tokens wanted, and the
//!   tokens below the window's limit are granted. A window's limit can be spent at its end and the next one's at its
//!   beginning. Tokens that are counted but not granted or spent are lost until the window ends, because no command
//!   safely returns them.
//! * A break is a key that lives for the length of the break and a tail, in which the breaker is half-open. Its value
//!   is random, to distinguish breaks. A process that opens while another closes may win or lose; its next read shows
//!   which.
//!
//! If the server evicted a key between two commands, the key can lose its expiry. The process that finds it so sets a
//! new one.

mod reply;

use super::Sender;
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

/// The shortest window, in microseconds: its tokens must be obtainable before it is over.
const SHORTEST: u64 = 100_000;

/// Length of a break's half-open tail, in milliseconds.
const TAIL: u64 = 60_000;

/// Suffixes of the keys: the counter of a window, and the mark of a break.
const WINDOW: &str = ":rw";
const MARK: &str = ":bm";

/// Position in a chain of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Link {
    /// `SET NX`: begins a window unless there is one.
    Begin,
    /// `INCRBY`: counts tokens; `begun` is when this process began the window, if it did.
    Count { begun: Option<Time> },
    /// `PTTL`: reads the remaining time of the window.
    Left,
    /// `SET`: writes a break with this name.
    Name { epoch: u64 },
    /// `GET`: reads the name of the break that was found, with its state and the state's remaining time.
    Named { state: u64, remaining: u64 },
    /// `DEL`: removes the break.
    Clear,
    /// `PEXPIRE`: sets the expiry of a key without one. No call waits for the answer.
    Repair,
}

impl Link {
    /// Whether its answer is a sum that includes the amount just added.
    pub fn counts(self) -> bool {
        matches!(self, Self::Count { .. })
    }

    /// Parses the numbers of an answer; `None` if the answer does not fit this command.
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

/// Wanted tokens: at best, at least, and for which call.
pub(super) type Wanted = (u32, u32, Option<CallId>);

/// A rate as a counter: the tokens of a window, and its length. A window holds a burst and lasts as long as the burst
/// takes to refill. If that is shorter than the shortest window, it holds the tokens of the shortest one.
pub(super) fn window(settings: RateSettings) -> (u64, Duration) {
    let (permits, per) = (u64::from(settings.permits.max(1)), settings.per.as_micros().max(1));
    let burst = u64::from(settings.burst.max(1));
    let span = |tokens: u64| u128::from(tokens) * u128::from(per) / u128::from(permits);
    let least = u128::from(SHORTEST) * u128::from(permits) / u128::from(per);
    let limit = burst.max(u64::try_from(least).unwrap_or(u64::MAX)).min(u64::from(u32::MAX));
    // In whole milliseconds, rounded up: the actual rate never exceeds the configured one.
    let span = u64::try_from(span(limit).div_ceil(1_000)).unwrap_or(u64::MAX).clamp(1, 1 << 43);
    (limit, Duration::from_millis(span))
}

/// This process's part of the last window's tokens. It determines the process's own share while the store is gone.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Part {
    mine: u64,
    all: u64,
}

impl Part {
    /// Counts `wanted` tokens; `all` is the window's new total. When a new window begins, returns how many processes
    /// of this one's size would have made the last window's demand.
    pub(super) fn count(&mut self, wanted: u64, all: u64) -> Option<u32> {
        let is_new = all < self.mine + wanted || all == wanted;
        let before = core::mem::replace(self, if is_new { Self::default() } else { *self });
        (self.mine, self.all) = (self.mine + wanted, all);
        let parts = before.all.checked_div(before.mine).filter(|_| is_new)?;
        Some(u32::try_from(parts.min(MOST_PROCESSES)).unwrap_or(1).max(1))
    }
}

impl Sender<'_> {
    /// Sends one command about a rate's window: the first of a chain, or the next, whose answer is due when the first
    /// one's would have been. The caller counts it as sent.
    pub(super) fn send_window(
        &mut self,
        home: PoolAt,
        (link, wanted): (Link, Wanted),
        within: Duration,
        now: Time,
    ) {
        let Some(share) = self.routes.share_mut(home) else {
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
            (self.routes.address(self.policies, home), Subject::Window { link, wanted }),
            (name, WINDOW, args),
            within,
            now,
        );
    }

    /// Sends one command about a breaker's mark; a new break lasts for the given time. The caller counts it as sent.
    pub(super) fn send_mark(
        &mut self,
        route: RouteAt,
        op: Op,
        duration: Duration,
        within: Duration,
        now: Time,
    ) {
        let Some(guard) = &mut self.routes[route].guard else {
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
            // A process whose probe failed knows the break that it replaces; any other opening replaces no break.
            Op::Open if again => ("SET", &[&epoch, "PX", &until]),
            Op::Open => ("SET", &[&epoch, "PX", &until, "NX"]),
        };
        self.store.send_plain(
            (self.routes.address(self.policies, route.own()), Subject::Mark { link, op, duration }),
            (name, MARK, args),
            within,
            now,
        );
    }
}

impl FleetStore {
    /// Draws a name that no break has had, except with negligible probability.
    fn draw_epoch(&mut self) -> u64 {
        self.fleet.as_mut().map_or(1, |fleet| {
            fleet.draws += 1;
            rng::bits(fleet.entropy, fleet.draws, Purpose::Probe, 1) >> 12 | 1
        })
    }
}
