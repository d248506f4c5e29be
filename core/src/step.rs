//! The engine's answer to an event.
//!
//! A step is two numbers, because functions return two numbers in registers. As a structure of small fields it was written field
//! by field and copied in larger pieces, and the processor waited for each copy until the fields had left its store
//! buffer: a seventh of a whole call on a Zen 4 (ADR 0082).

#![allow(clippy::inline_always)] // each call makes and reads several

use std::fmt;

use crate::action::{Action, AttemptSlot, Flags, Verdict, Wait};
use crate::time::Duration;

const WAKES: u64 = 1 << 2;
const COMMANDS: u64 = 1 << 3;
const STOP: u32 = 4;
const DETAIL: u32 = 12;
const TARGET: u64 = 1 << (DETAIL + 9);
const DONE: u64 = 0;
const ATTEMPT: u64 = 1;
const WAIT: u64 = 2;
/// The bits in use.
const BITS: u64 = (1 << 22) - 1;

/// The engine's answer to an event: the action to take now, and when to ask again.
///
/// ```
/// use tidegate::{Action, Duration, Step, Wait};
/// let step = Step::new(Action::Wait { why: Wait::Backoff }, Some(Duration::from_secs(2)));
/// assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
/// assert_eq!(step.next(), Some(Duration::from_secs(2)));
/// assert_eq!(step.stop(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a step not carried out is a call lost"]
pub struct Step {
    /// The lower 22 bits of its word ([`crate::wire`]).
    bits: u64,
    /// In microseconds: `retry_in` if the call has ended, otherwise the timer. `u64::MAX` means none.
    span: u64,
}

#[inline(always)]
const fn pack(span: Option<Duration>) -> u64 {
    match span {
        Some(span) => span.as_micros(),
        None => u64::MAX,
    }
}

#[inline(always)]
const fn least(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

impl Step {
    /// A step that stops no attempt and has no further effects. The end of a call has no timer: `next` is ignored.
    #[inline(always)]
    pub const fn new(action: Action, next: Option<Duration>) -> Self {
        let (tag, detail, span) = match action {
            Action::Done { verdict, result, retry_in } => {
                let attempt_slot = match result {
                    Some(attempt_slot) => 8 | attempt_slot.number() as u64,
                    None => 0,
                };
                (DONE, verdict as u64 | attempt_slot << 6, pack(retry_in))
            }
            Action::Attempt { attempt, hedge } => (ATTEMPT, attempt as u64 | (hedge as u64) << 8, pack(next)),
            Action::Wait { why } => (WAIT, why as u64, pack(next)),
        };
        Self { bits: tag | detail << DETAIL, span }
    }

    /// A call's end without a result.
    #[inline(always)]
    pub(crate) const fn done(verdict: Verdict) -> Self {
        Self::new(Action::Done { verdict, result: None, retry_in: None }, None)
    }

    /// This step, which also stops these attempts: bit (n − 1) mod 8 for attempt n.
    #[inline(always)]
    pub const fn stopping(self, attempts: u8) -> Self {
        Self { bits: self.bits | (attempts as u64) << STOP, ..self }
    }

    /// This step with these further effects. Only an attempt goes to a target.
    #[inline(always)]
    pub const fn with_flags(self, flags: Flags) -> Self {
        let Flags { wakes, commands, target } = flags;
        let kept = self.bits & !(WAKES | COMMANDS);
        let step = Self { bits: kept | (wakes as u64) << 2 | (commands as u64) << 3, ..self };
        if self.bits & 3 == ATTEMPT { step.aimed(target) } else { step }
    }

    /// This step with these flags set, where the engine has set neither of them yet.
    #[inline(always)]
    pub(crate) const fn leaving(self, wakes: bool, commands: bool) -> Self {
        Self { bits: self.bits | (wakes as u64) << 2 | (commands as u64) << 3, ..self }
    }

    /// This step, which lets other calls continue or does not.
    #[inline(always)]
    pub const fn with_wakes(self, wakes: bool) -> Self {
        Self { bits: self.bits & !WAKES | (wakes as u64) << 2, ..self }
    }

    /// This step with another timer. The step must be an attempt or a wait.
    pub(crate) const fn again_after(self, next: Duration) -> Self {
        Self { span: next.as_micros(), ..self }
    }

    /// This attempt, which goes to a target or does not.
    #[inline(always)]
    pub(crate) const fn aimed(self, target: bool) -> Self {
        Self { bits: self.bits & !TARGET | (target as u64) << (DETAIL + 9), ..self }
    }

    /// Action to take.
    #[inline(always)]
    pub const fn action(self) -> Action {
        let detail = (self.bits >> DETAIL) as u16;
        match self.bits & 3 {
            ATTEMPT => Action::Attempt { attempt: detail as u8, hedge: detail >> 8 & 1 != 0 },
            WAIT => Action::Wait { why: Wait::ALL[least((detail & 15) as usize, Wait::ALL.len() - 1)] },
            _ => Action::Done {
                verdict: Verdict::ALL[least((detail & 63) as usize, Verdict::ALL.len() - 1)],
                result: match detail >> 6 & 15 {
                    0 => None,
                    attempt_slot => Some(AttemptSlot::of((attempt_slot & 7) as u8 + 1)),
                },
                retry_in: self.unpacked(),
            },
        }
    }

    #[inline(always)]
    const fn unpacked(self) -> Option<Duration> {
        if self.span == u64::MAX { None } else { Some(Duration::from_micros(self.span)) }
    }

    /// The call's only timer, from `now`; it replaces the previous one.
    #[inline(always)]
    pub const fn next(self) -> Option<Duration> {
        if self.bits & 3 == DONE { None } else { self.unpacked() }
    }

    /// Attempts to stop now: bit (n − 1) mod 8 for attempt n.
    #[inline(always)]
    pub const fn stop(self) -> u8 {
        (self.bits >> STOP) as u8
    }

    /// Further effects of this step.
    #[inline(always)]
    pub const fn flags(self) -> Flags {
        Flags {
            wakes: self.bits & WAKES != 0,
            commands: self.bits & COMMANDS != 0,
            target: self.bits & 3 == ATTEMPT && self.bits & TARGET != 0,
        }
    }

    /// Whether the call has ended well with this attempt's answer, and no other attempt is to be stopped.
    #[inline(always)]
    pub const fn is_ok_of(self, attempt: u8) -> bool {
        let result = Some(AttemptSlot::of(attempt));
        let ok = Self::new(Action::Done { verdict: Verdict::Ok, result, retry_in: None }, None);
        self.bits & !(WAKES | COMMANDS) == ok.bits
    }

    /// Whether the call has ended with this verdict.
    #[inline(always)]
    pub const fn ends_with(self, verdict: Verdict) -> bool {
        self.bits & (63 << DETAIL | 3) == DONE | (verdict as u64) << DETAIL
    }

    /// The bits below the span in the step's word.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.bits
    }

    /// Whether a word is that of a call's end.
    #[inline(always)]
    pub(crate) const fn ends(word: u64) -> bool {
        matches!(word & 3, DONE)
    }

    /// The step of these bits of a word; `None` if they are not valid.
    pub(crate) fn of_bits(word: u64, span: Option<Duration>) -> Option<Self> {
        let detail = word >> DETAIL & 0x3ff;
        let valid = match word & 3 {
            DONE => (detail & 63) < Verdict::ALL.len() as u64 && matches!(detail >> 6, 0 | 8..),
            ATTEMPT => true,
            WAIT => detail < Wait::ALL.len() as u64,
            _ => false,
        };
        valid.then_some(Self { bits: word & BITS, span: pack(span) })
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("stop", &self.stop())
            .field("action", &self.action())
            .field("next", &self.next())
            .field("flags", &self.flags())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_a_step_is_what_its_action_says() {
        for verdict in Verdict::ALL {
            for attempt in [None, Some(1), Some(4), Some(9)] {
                for (stop, flags) in [(0, Flags::default()), (2, Flags { wakes: true, ..Flags::default() })] {
                    let result = attempt.map(AttemptSlot::of);
                    let action = Action::Done { verdict: *verdict, result, retry_in: None };
                    let step =
                        Step::new(action, Some(Duration::from_secs(1))).stopping(stop).with_flags(flags);
                    assert_eq!((step.action(), step.next()), (action, None));
                    assert_eq!((step.stop(), step.flags()), (stop, flags));
                    for asked in Verdict::ALL {
                        assert_eq!(step.ends_with(*asked), asked == verdict);
                    }
                    let is_ok = *verdict == Verdict::Ok && stop == 0 && matches!(attempt, Some(1 | 9));
                    assert_eq!(step.is_ok_of(1), is_ok, "{step:?}");
                }
            }
        }
    }

    #[test]
    fn only_an_attempt_goes_to_a_target() {
        let target = Flags { wakes: true, commands: true, target: true };
        let attempt = Step::new(Action::Attempt { attempt: 255, hedge: true }, None).with_flags(target);
        assert_eq!(attempt.action(), Action::Attempt { attempt: 255, hedge: true });
        assert_eq!(attempt.flags(), target);
        let others = Flags { target: false, ..target };
        for action in Wait::ALL.map(|why| Action::Wait { why }) {
            let step = Step::new(action, Some(Duration::ZERO)).with_flags(target);
            assert_eq!((step.action(), step.next(), step.flags()), (action, Some(Duration::ZERO), others));
            assert_eq!(step.with_wakes(false).flags(), Flags { wakes: false, ..others });
            assert!(!step.ends_with(Verdict::Ok) && !step.is_ok_of(1));
        }
    }
}
