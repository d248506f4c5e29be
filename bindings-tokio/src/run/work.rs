//! The source of a call's attempts, and what each attempt knows of itself.

use std::time::Duration;

/// Facts about one attempt, given to the function that makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The attempt's number, from 1 on.
    pub number: u8,
    /// Whether it is a hedge, started beside a slow attempt.
    pub hedge: bool,
    /// Time left from the attempt's start until its attempt timeout or the call's deadline, whichever comes first;
    /// `None` if it has neither. The attempt is stopped then even if it ignores this.
    pub remaining: Option<Duration>,
}

/// Makes a call's attempts.
pub(crate) trait Work<Fut> {
    /// Makes the next attempt; `None` where no further one can be made.
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut>;
}

impl<Fut, F: FnMut(Attempt) -> Fut> Work<Fut> for F {
    #[inline]
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut> {
        Some(self(attempt))
    }
}

/// Makes attempts until the function returns `None`.
#[cfg(any(feature = "grpc", feature = "reqwest"))]
pub(crate) struct Optional<F>(pub F);

#[cfg(any(feature = "grpc", feature = "reqwest"))]
impl<Fut, F: FnMut(Attempt) -> Option<Fut>> Work<Fut> for Optional<F> {
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut> {
        (self.0)(attempt)
    }
}
