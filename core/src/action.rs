//! The engine's interface: requests, events, steps.

use crate::outcome::{Criticality, Outcome};
use crate::time::Duration;

/// Id of a call: slot (24 bits) and generation (29 bits, from 1 on). A stale id never matches a live call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(u64);

/// Id of a route: slot (20 bits) and generation (33 bits, from 1 on).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouteId(u64);

/// Id of a path within a route, for `hold`; [`PathId::NONE`] for no path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathId(u64);

/// Id of a policy within its engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PolicyId(pub(crate) u32);

macro_rules! word {
    ($name:ident, $slot_bits:literal, $generation_bits:literal) => {
        impl $name {
            #[allow(dead_code)] // the arena bounds its slots by it; routes are bounded far below
            pub(crate) const SLOT_BITS: u32 = $slot_bits;
            pub(crate) const GENERATIONS: u64 = (1 << $generation_bits) - 1;

            pub(crate) const fn new(slot: u32, generation: u64) -> Self {
                Self(generation << $slot_bits | slot as u64)
            }

            pub(crate) const fn slot(self) -> u32 {
                (self.0 & ((1 << $slot_bits) - 1)) as u32
            }

            pub(crate) const fn generation(self) -> u64 {
                self.0 >> $slot_bits
            }

            /// The id as a number below 2^53.
            pub const fn to_word(self) -> u64 {
                self.0
            }

            /// The id for a host's number. Any number is safe: one that names no call or route is answered as stale.
            pub const fn from_word(word: u64) -> Self {
                Self(word & ((1 << 53) - 1))
            }
        }
    };
}
word!(CallId, 24, 29);
word!(RouteId, 20, 33);

impl PathId {
    /// No target.
    pub const NONE: Self = Self(0);

    /// The id as a number below 2^53.
    pub const fn to_word(self) -> u64 {
        self.0
    }

    /// The id for a host's number.
    pub const fn from_word(word: u64) -> Self {
        Self(word & ((1 << 53) - 1))
    }
}

impl PolicyId {
    /// The id of a policy's number; the generation distinguishes policies that have used the same number.
    pub(crate) const fn new(number: u16, generation: u16) -> Self {
        Self((generation as u32) << 16 | number as u32)
    }

    pub(crate) const fn number(self) -> u16 {
        self.0 as u16
    }

    pub(crate) const fn generation(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The id as a number.
    pub const fn to_word(self) -> u32 {
        self.0
    }

    /// The id for a host's number; one that names no policy is answered as an error.
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }
}

/// Properties of a call, given before its first attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools)] // one flags word on the wire: they are independent facts about the request
pub struct Request {
    /// Remaining time of the caller's own deadline.
    pub remaining: Option<Duration>,
    /// The enclosing call: the new call shares its slot, and does not multiply its retries.
    pub parent: Option<CallId>,
    /// Path of the request, if the policy holds by path.
    pub path: PathId,
    /// Importance of the call.
    pub criticality: Criticality,
    /// Whether its body can be sent again.
    pub replayable: bool,
    /// Whether a repeat is harmless: an idempotent method, or an idempotency key.
    pub idempotent: bool,
    /// Whether the host can stop a running attempt.
    pub abortable: bool,
    /// Whether this call may wait in a queue here.
    pub may_park: bool,
    /// Whether it keeps slot and deadline until the body has been read.
    pub slot_until_body: bool,
    /// Whether its attempts must never run at the same time. Such a call is retried but not hedged: its host makes
    /// attempts in one place (a loop of the user's), or sends the body again by rewinding it.
    pub solo: bool,
    /// Whether its answer is a stream, so that `first_byte_timeout` applies (semantics 7.7).
    pub stream: bool,
    /// Its cost in tokens of a rate limit.
    pub cost: u16,
}

impl Default for Request {
    /// A request that may be repeated, stopped and parked, and whose answer is complete when it arrives.
    fn default() -> Self {
        Self {
            remaining: None,
            parent: None,
            path: PathId::NONE,
            criticality: Criticality::Normal,
            replayable: true,
            idempotent: true,
            abortable: true,
            may_park: true,
            slot_until_body: false,
            solo: false,
            stream: false,
            cost: 1,
        }
    }
}

/// Event of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Its timer fired (early and late firings are both fine).
    Timer,
    /// Its owner asks for the current step.
    Poll,
    /// Its caller gave up.
    Cancel,
    /// An answer of class `ok` is delivered (semantics 7.7): its head has arrived, or the first piece of its stream. The
    /// attempt wins, and its body may follow.
    Headers {
        /// Number of the attempt.
        attempt: u8,
    },
    /// An attempt ended.
    Finished {
        /// Number of the attempt.
        attempt: u8,
        /// Outcome of the attempt.
        outcome: Outcome,
    },
    /// The timer of a call with `idle_timeout` fired: how long ago the last piece of this attempt's body came, for as
    /// long as somebody reads.
    Progress {
        /// Number of the attempt.
        attempt: u8,
        /// Time without a piece that counts.
        age: Duration,
    },
}

/// Effects of a step besides its action.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// Other calls can continue: see `Engine::take_wakes`.
    pub wakes: bool,
    /// Commands for a store are waiting.
    pub commands: bool,
    /// The attempt that starts goes to a target: see `Engine::target_of`.
    pub target: bool,
}

/// Action for the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Start this attempt, once.
    Attempt {
        /// Its number, from 1 on.
        attempt: u8,
        /// Whether it is a hedge of a running attempt.
        hedge: bool,
    },
    /// Wait until `next`, or until the engine wakes the call.
    Wait {
        /// Reason of the wait.
        why: Wait,
    },
    /// The call has ended; its id is stale from now on.
    Done {
        /// Why the call ended.
        verdict: Verdict,
        /// The attempt whose answer or failure the caller gets.
        result: Option<AttemptSlot>,
        /// When another try would make sense.
        retry_in: Option<Duration>,
    },
}

/// The device's link to its networks, as the host knows it ([`crate::Engine::set_link`]). The order is the wire's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Link {
    /// Nothing stands against retries and hedges.
    #[default]
    Ok = 0,
    /// Traffic costs money: no hedges start.
    Metered,
    /// There is no network: retries and hedges wait.
    Offline,
}

impl Link {
    /// All states in wire order.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Metered, Self::Offline];

    /// The name in journals and hosts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Metered => "metered",
            Self::Offline => "offline",
        }
    }
}

/// Reason of a wait. The order is the wire's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the vocabulary of `docs/architecture.md`
pub enum Wait {
    Running = 0,
    Backoff,
    Hold,
    Rate,
    Queue,
    Store,
    Body,
    Cooldown,
    Target,
}

impl Wait {
    /// All reasons in wire order.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Backoff,
        Self::Hold,
        Self::Rate,
        Self::Queue,
        Self::Store,
        Self::Body,
        Self::Cooldown,
        Self::Target,
    ];

    /// The name in telemetry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Backoff => "backoff",
            Self::Hold => "hold",
            Self::Rate => "rate",
            Self::Queue => "queue",
            Self::Store => "store",
            Self::Body => "body",
            Self::Cooldown => "cooldown",
            Self::Target => "target",
        }
    }
}

/// Slot of an attempt in wire words: (n − 1) mod 8. At most four attempts run at once, and attempt n does not start
/// while n − 8 still runs (R11), so a slot is never ambiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptSlot(u8);

impl AttemptSlot {
    /// The attempt slot of attempt `attempt` (numbered from 1).
    pub const fn of(attempt: u8) -> Self {
        Self(attempt.wrapping_sub(1) & 7)
    }

    /// Its number, 0 to 7.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its bit in a stop word.
    pub const fn bit(self) -> u8 {
        1 << self.0
    }
}

macro_rules! verdicts {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// Why a call ended as it did. The order is the wire's.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Verdict { $(#[doc = $doc] $name),* }

        impl Verdict {
            /// All verdicts in wire order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in telemetry and in errors.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Meaning, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc),* }
            }
        }
    };
}
verdicts! {
    Ok = "ok", "It worked.";
    NotRetryable = "not_retryable", "The failure is of a class that is not retried.";
    Attempts = "attempts", "All attempts are used up.";
    Method = "method", "A repeat could happen twice: the method is not idempotent and there is no key.";
    OneShotBody = "one_shot_body", "The body cannot be sent again.";
    Opinion = "opinion", "The caller's predicate, the policy's statuses or the server said not to.";
    Nested = "nested", "A call around this one retries already.";
    RetryAfterTooLong = "retry_after_too_long", "The server asked for a longer wait than `max_retry_after`.";
    WouldOutliveDeadline = "would_outlive_deadline", "The wait before the next attempt ends after the deadline.";
    TimeLimit = "time_limit", "Elapsed time and the next wait exceed `retry_time_limit`.";
    Budget = "budget", "The retry budget is spent.";
    Readmission = "readmission", "The next attempt was refused a slot.";
    ForcedOpen = "forced_open", "An operator refuses all calls.";
    BreakerOpen = "breaker_open", "The circuit breaker is open.";
    Throttled = "throttled", "The adaptive throttle refused it.";
    RateLimited = "rate_limited", "The rate limit is used up.";
    QueueFull = "queue_full", "The bulkhead is full, and so is its queue.";
    AcquireTimeout = "acquire_timeout", "No slot came free within `acquire_timeout`.";
    QueueShed = "queue_shed", "The queue's delay was over target.";
    Displaced = "displaced", "A call of higher criticality took its place.";
    HoldFull = "hold_full", "Too many calls are held already.";
    StoreUnavailable = "store_unavailable", "The shared store is gone and the policy says to refuse.";
    DeadlineBefore = "deadline_before", "The deadline had passed before the call began.";
    DeadlineQueued = "deadline_queued", "The deadline passed while the call was waiting.";
    CostAboveBurst = "cost_above_burst", "The call costs more than the rate limit can ever hold.";
    Deadline = "deadline", "The deadline passed during an attempt.";
    Cancelled = "cancelled", "The caller gave up.";
    Lost = "lost", "The host had not reported for so long that the call was given up.";
    Stale = "stale", "The call has ended before; deliver the outcome at hand.";
    StaleRoute = "stale_route", "The route has been evicted; ask for it again.";
    StreamStalled = "stream_stalled", "No piece of the body came for `idle_timeout`.";
    NoTarget = "no_target", "No target of its group admits it.";
    Offline = "offline", "The device was offline for longer than a retry may wait.";
    Cooldown = "cooldown", "An answer has said that there are too many requests, and no attempt starts until the time that it named.";
    TargetsLimited = "targets_limited", "Each target of its group has used up its rate limit, or cools down.";
}
