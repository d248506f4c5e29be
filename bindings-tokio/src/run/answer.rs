//! What of a call's end its caller is answered.

use std::ops::Deref;

use super::{Ended, Tail};
use crate::error::{Error, Report};
use crate::policy::Site;

/// Makes the answer. A call makes it once, in the place where its caller looks for it: results may be large, and
/// each wrapper around one would be a copy.
pub(crate) trait Answer<T, E, P: Deref<Target = Site>> {
    type Output;

    fn of(result: Result<T, Error<E>>, report: Report, tail: Option<Tail<P>>) -> Self::Output;
}

/// The result alone.
pub(crate) enum Plain {}

impl<T, E, P: Deref<Target = Site>> Answer<T, E, P> for Plain {
    type Output = Result<T, Error<E>>;

    #[inline]
    fn of(result: Result<T, Error<E>>, _: Report, _: Option<Tail<P>>) -> Self::Output {
        result
    }
}

/// The result, and what became of the call.
pub(crate) enum Whole {}

impl<T, E, P: Deref<Target = Site>> Answer<T, E, P> for Whole {
    type Output = Ended<T, E>;

    #[inline]
    fn of(result: Result<T, Error<E>>, report: Report, _: Option<Tail<P>>) -> Self::Output {
        Ended { result, report }
    }
}

/// The same, and what goes on while a body is read.
#[cfg(feature = "_bodies")]
pub(crate) enum Tailed {}

#[cfg(feature = "_bodies")]
impl<T, E, P: Deref<Target = Site>> Answer<T, E, P> for Tailed {
    type Output = (Ended<T, E>, Option<Tail<P>>);

    #[inline]
    fn of(result: Result<T, Error<E>>, report: Report, tail: Option<Tail<P>>) -> Self::Output {
        (Ended { result, report }, tail)
    }
}
