//! What makes attempts, and what each is told.

use std::time::Duration;

/// What an attempt knows of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number, from 1 on.
    pub number: u8,
    /// Did it start beside another one that is slow?
    pub hedge: bool,
    /// Time that it has, from its start: until its attempt timeout or the call's deadline, whichever comes first. `None`
    /// without end. It is stopped then, whether or not it looks at this.
    pub remaining: Option<Duration>,
}

/// What makes a call's attempts.
pub(crate) trait Work<Fut> {
    /// The next one; `None` where there is nothing to make it of any more.
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut>;
}

impl<Fut, F: FnMut(Attempt) -> Fut> Work<Fut> for F {
    #[inline]
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut> {
        Some(self(attempt))
    }
}

/// Makes attempts as long as there is something to make them of.
#[cfg(any(feature = "grpc", feature = "reqwest"))]
pub(crate) struct Optional<F>(pub F);

#[cfg(any(feature = "grpc", feature = "reqwest"))]
impl<Fut, F: FnMut(Attempt) -> Option<Fut>> Work<Fut> for Optional<F> {
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut> {
        (self.0)(attempt)
    }
}
