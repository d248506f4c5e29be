//! The numeric border: steps, events and requests as integers below 2^53.
//!
//! Five languages depend on this layout; `tests/vectors/wire` pins it. Low bits come first.
//!
//! | word | bits |
//! |---|---|
//! | step | 0–1 action (0 Done, 1 Attempt, 2 Wait) · 2 wakes · 3 commands · 4–11 stop · 12–21 detail · 22–52 span |
//! | … detail of Done | 12–17 verdict · 18–21 result: 0 none, else 8 \| attempt slot |
//! | … detail of Attempt | 12–19 number · 20 hedge · 21 it goes to a target: read `target_of` |
//! | … detail of Wait | 12–15 why |
//! | event | 0–2 tag · 3–10 attempt · 11–15 kind · 16–17 opinion · 18–48 Retry-After in ms |
//! | … Progress | 0–2 tag · 3–10 attempt · 11–52 age in µs, saturating |
//! | request flags | 0–1 criticality · 2 replayable · 3 idempotent · 4 abortable · 5 may park · 6 slot until body · 7–22 cost · 23 solo · 24 stream |
//!
//! A span is 0 for none, else 1 + d, saturating in its 31 bits: microseconds for Attempt and Wait (35 minutes; longer
//! waits chain), milliseconds rounded up for `retry_in` and Retry-After (24.8 days).

use crate::action::{Action, CallId, Event, PathId, Request};
use crate::outcome::{Criticality, Kind, Opinion, Outcome};
use crate::policy::{Domain, Key, TABLE};
use crate::step::Step;
use crate::time::Duration;

const SPAN: u64 = (1 << 31) - 1;

/// The longest age in a Progress word, in µs: 50 days.
const LONGEST_AGE: u64 = (1 << 42) - 1;

/// A span in 31 bits: 0 for none, else 1 + d, saturating.
fn pack_span(units: Option<u64>) -> u64 {
    units.map_or(0, |d| d.saturating_add(1).min(SPAN))
}

fn unpack_span(bits: u64) -> Option<u64> {
    (bits & SPAN).checked_sub(1)
}

/// The word of a step.
///
/// ```
/// use tidegate::{Action, Duration, Step, wire};
/// let step = Step::new(Action::Attempt { attempt: 1, hedge: false }, Some(Duration::from_millis(1)));
/// assert_eq!(wire::pack_step(step), 1 | 1 << 12 | 1001 << 22);
/// assert_eq!(wire::unpack_step(wire::pack_step(step)), Some(step));
/// ```
#[inline]
pub fn pack_step(step: Step) -> u64 {
    let units = match step.action() {
        Action::Done { retry_in, .. } => retry_in.map(Duration::as_millis_ceil),
        _ => step.next().map(Duration::as_micros),
    };
    step.bits() | pack_span(units) << 22
}

/// The step of a word; `None` for an invalid word.
pub fn unpack_step(word: u64) -> Option<Step> {
    if word >> 53 != 0 {
        return None;
    }
    let span = unpack_span(word >> 22);
    let of = |unit: fn(u64) -> Duration| Step::of_bits(word, span.map(unit));
    if Step::ends(word) { of(Duration::from_millis) } else { of(Duration::from_micros) }
}

/// The word of an event.
pub fn pack_event(event: Event) -> u64 {
    match event {
        Event::Timer => 0,
        Event::Poll => 1,
        Event::Cancel => 2,
        Event::Headers { attempt } => 3 | u64::from(attempt) << 3,
        Event::Finished { attempt, outcome } => 4 | u64::from(attempt) << 3 | pack_outcome(outcome),
        Event::Progress { attempt, age } => {
            5 | u64::from(attempt) << 3 | age.as_micros().min(LONGEST_AGE) << 11
        }
    }
}

/// The event of a word; `None` for an invalid word.
#[inline]
pub fn unpack_event(word: u64) -> Option<Event> {
    let attempt = (word >> 3) as u8;
    let event = match word & 7 {
        0 => Event::Timer,
        1 => Event::Poll,
        2 => Event::Cancel,
        3 => Event::Headers { attempt },
        4 => return Some(Event::Finished { attempt, outcome: unpack_outcome(word)? }),
        5 if word >> 53 == 0 => {
            return Some(Event::Progress { attempt, age: Duration::from_micros(word >> 11) });
        }
        _ => return None,
    };
    let known = if word & 7 == 3 { 0x7ff } else { 7 };
    (word & !known == 0).then_some(event)
}

/// An outcome at its position in a Finished word (bits 11 to 48); a host adds tag and attempt.
pub fn pack_outcome(outcome: Outcome) -> u64 {
    u64::from(outcome.kind.number()) << 11
        | (outcome.opinion as u64) << 16
        | pack_span(outcome.retry_after.map(Duration::as_millis_ceil)) << 18
}

#[inline]
fn unpack_outcome(word: u64) -> Option<Outcome> {
    if word >> 49 != 0 {
        return None;
    }
    Some(Outcome {
        kind: Kind::new((word >> 11 & 31) as u8)?,
        opinion: match word >> 16 & 3 {
            0 => Opinion::None,
            1 => Opinion::Retry,
            2 => Opinion::DoNot,
            _ => return None,
        },
        retry_after: unpack_span(word >> 18).map(Duration::from_millis),
    })
}

/// The four numbers of a request: flags, remaining microseconds (0 for none, else 1 + d), parent (0 for none),
/// path.
pub fn pack_request(request: &Request) -> [u64; 4] {
    let flags = request.criticality as u64
        | u64::from(request.replayable) << 2
        | u64::from(request.idempotent) << 3
        | u64::from(request.abortable) << 4
        | u64::from(request.may_park) << 5
        | u64::from(request.slot_until_body) << 6
        | u64::from(request.cost) << 7
        | u64::from(request.solo) << 23
        | u64::from(request.stream) << 24;
    let remaining = request.remaining.map_or(0, |d| d.as_micros().saturating_add(1).min((1 << 53) - 1));
    [flags, remaining, request.parent.map_or(0, CallId::to_word), request.path.to_word()]
}

/// The request of four numbers; `None` if the flags have undefined bits.
#[inline]
pub fn unpack_request(flags: u64, remaining: u64, parent: u64, path: u64) -> Option<Request> {
    if flags >> 25 != 0 {
        return None;
    }
    Some(Request {
        remaining: remaining.checked_sub(1).map(Duration::from_micros),
        parent: (parent != 0).then(|| CallId::from_word(parent)),
        path: PathId::from_word(path),
        criticality: match flags & 3 {
            0 => Criticality::BestEffort,
            1 => Criticality::Degraded,
            2 => Criticality::Normal,
            _ => Criticality::Critical,
        },
        replayable: flags >> 2 & 1 == 1,
        idempotent: flags >> 3 & 1 == 1,
        abortable: flags >> 4 & 1 == 1,
        may_park: flags >> 5 & 1 == 1,
        slot_until_body: flags >> 6 & 1 == 1,
        solo: flags >> 23 & 1 == 1,
        stream: flags >> 24 & 1 == 1,
        cost: (flags >> 7) as u16,
    })
}

/// What a text means to hosts that write policies in another spelling and other units: 0 nothing; 1 the first or the
/// last word of a key's path; or a key: 2 with words and numbers as values, 3 spans, 4 `true` and `false`, 5 words or
/// numbers in a list.
///
/// ```
/// use tidegate::wire::about;
/// assert_eq!(["retry.max_attempts", "max_attempts", "max_attempt", "deadline"].map(about), [2, 1, 0, 3]);
/// assert_eq!(["rate_limit.wait", "rate_limit", "retry.statuses", "attempts"].map(about), [4, 1, 5, 0]);
/// # #[cfg(not(tidegate_small))] // the small module has no sets of limits
/// assert_eq!(about("rate_limit.limits"), 5);
/// ```
pub fn about(text: &str) -> u32 {
    let of = |key: &Key| match (key.path.strip_suffix(text), key.domain) {
        (Some(""), Domain::Span { .. }) => 3,
        (Some(""), Domain::Flag) => 4,
        (
            Some(""),
            Domain::Statuses | Domain::Words(_) | Domain::KindWords(_) | Domain::Limits | Domain::Shares,
        ) => 5,
        (Some(""), _) => 2,
        (before, _) => {
            let last = before.is_some_and(|before| before.ends_with('.'));
            (last || key.path.strip_prefix(text).is_some_and(|after| after.starts_with('.'))).into()
        }
    };
    TABLE.iter().map(of).max().unwrap_or(0)
}
