//! What bytes say of events.

use tidegate::{Class, Criticality, Duration, Kind, Opinion, Outcome, Request};

use super::genome::EVENT;
use super::settings::of;
use super::store::{FATES, Fate};

/// Which key a call goes by: one of four, or one after the other of as many as there are routes and one more.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    Fixed(usize),
    InTurn,
}

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub policy: usize,
    pub key: Key,
    /// How its attempts end, in turn; those beyond as the last one.
    pub ends: [Outcome; 4],
    /// Its host waits for the call's timer before it reports an attempt, so that hedges start.
    pub slow: bool,
    /// Its host reports the oldest attempt first, not the newest.
    pub oldest_first: bool,
    pub request: Request,
    /// It is made within the youngest call that lives.
    pub nested: bool,
}

/// One thing that happens. Live calls are named by how young they are.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A call from its begin to its end, with whatever waits are needed.
    Call(Call),
    /// A call begins, and its attempts run.
    Begin(Call),
    Finish {
        call: usize,
        outcome: Outcome,
        oldest: bool,
    },
    Head(usize),
    /// The clock goes on to the call's timer, which fires.
    Due(usize),
    Poll(usize),
    Cancel(usize),
    Pass(u64),
    Retune {
        policy: usize,
        to: usize,
    },
    /// Other settings, and back again at once.
    Flap {
        policy: usize,
        to: usize,
    },
    RetunePool {
        rate: bool,
        to: usize,
    },
    Force {
        policy: usize,
        key: Option<usize>,
        on: bool,
    },
    /// Its process ends; another one goes on from what was saved, so many µs later.
    Restart(u64),
    Fork,
    /// The clock is set: back, or to and fro.
    Clock(Clock),
    /// The store answers otherwise from now on.
    Store(Fate),
}

#[derive(Clone, Copy, Debug)]
pub enum Clock {
    Back(u64),
    Swing(u64),
}

pub const SPANS: [u64; 8] = [0, 1_000, 50_000, 100_000, 1_000_000, 10_000_000, 61_000_000, 5_000_000];

fn outcome(nibble: u8, wait: u8) -> Outcome {
    let (class, opinion) = match nibble & 15 {
        0 | 2 => (Class::Transient, Opinion::None),
        1 | 8 => (Class::Ok, Opinion::None),
        3 => (Class::Timeout, Opinion::None),
        4 => (Class::Throttled, Opinion::None),
        5 => (Class::Permanent, Opinion::None),
        6 => (Class::Permanent, Opinion::Retry),
        7 => (Class::Transient, Opinion::DoNot),
        9 => (Class::NeverSent, Opinion::None),
        10 => (Class::Conflict, Opinion::None),
        11 => (Class::Ignored, Opinion::Retry),
        12 => (Class::Conflict, Opinion::Retry),
        13 => (Class::Throttled, Opinion::Retry),
        14 => (Class::Ignored, Opinion::None),
        _ => (Class::Cancelled, Opinion::None),
    };
    let retry_after = (wait & 7 == 7).then(|| Duration::from_micros(of(wait >> 3, &[0, 1_000, 100_000])));
    Outcome { kind: Kind::from(class), opinion, retry_after }
}

fn call(it: &[u8]) -> Call {
    let opts = it[4];
    let request = Request {
        abortable: opts >> 2 & 3 != 3,
        slot_until_body: opts >> 4 & 3 == 3,
        may_park: opts >> 6 != 3,
        cost: of(it[6] >> 4, &[1, 1, 2, 1, 0, 5]),
        remaining: (it[6] & 15 == 15).then(|| Duration::from_micros(50_000)),
        criticality: of(it[6], &[Criticality::Normal, Criticality::Critical, Criticality::BestEffort]),
        ..Request::default()
    };
    let ends = [it[2], it[2] >> 4, it[3], it[3] >> 4].map(|nibble| outcome(nibble, it[5]));
    Call {
        policy: usize::from(it[1] & 1),
        key: match it[1] >> 1 & 7 {
            7 | 6 => Key::InTurn,
            n => Key::Fixed(usize::from(n.saturating_sub(2))),
        },
        ends,
        slow: opts & 1 == 1,
        oldest_first: opts & 2 == 2,
        request,
        nested: it[1] >> 4 & 7 == 7,
    }
}

/// The event of a record, and how often it happens in a row.
pub fn decode(it: &[u8]) -> (Event, usize) {
    debug_assert_eq!(it.len(), EVENT);
    let young = usize::from(it[1] % 5);
    let event = match it[0] % 28 {
        _ if it[0] >= 244 => Event::Store(of(it[2], &FATES)),
        0..=7 => Event::Call(call(it)),
        8 | 9 => Event::Begin(call(it)),
        10..=12 => Event::Finish { call: young, outcome: outcome(it[2], it[5]), oldest: it[4] & 1 == 1 },
        13 => Event::Head(young),
        14 | 15 => Event::Due(young),
        16 => Event::Poll(young),
        17 => Event::Cancel(young),
        18 => Event::Pass(of(it[2], &SPANS)),
        19 | 25 => {
            Event::Retune { policy: usize::from(it[1] & 1), to: usize::from(it[2]) % super::genome::VARIANTS }
        }
        26 => {
            Event::Flap { policy: usize::from(it[1] & 1), to: usize::from(it[2]) % super::genome::VARIANTS }
        }
        20 | 27 => {
            Event::RetunePool { rate: it[1] & 1 == 1, to: usize::from(it[2]) % super::genome::VARIANTS }
        }
        21 => Event::Force {
            policy: usize::from(it[1] & 1),
            key: (it[1] & 2 != 0).then_some(usize::from(it[2]) % 4),
            on: it[4] & 1 == 1,
        },
        22 => Event::Restart(of(it[2], &SPANS)),
        23 => Event::Fork,
        _ if it[2] & 1 == 0 => Event::Clock(Clock::Back(of(it[3], &[5_000, 11_000_000, 3_600_000_000]))),
        _ => Event::Clock(Clock::Swing(of(it[3], &[5_000, 11_000_000, 11_000, 3_600_000_000]))),
    };
    (event, of(it[7], &[1, 1, 1, 2, 5, 20]))
}
