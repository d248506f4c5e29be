//! How a call's end becomes the answer that its caller gets.

use std::ops::Deref;

use super::{Ended, Tail};
use crate::error::{Error, Report};
use crate::policy::Site;

/// Makes the answer. A call makes it once, at the place from which its caller reads it: results may be large, and each
/// wrapper around one would be a copy.
pub(crate) trait Answer<T, E, P: Deref<Target = Site>, J> {
    type Output;

    fn of(site: &P, judge: &J, result: Result<T, Error<E>>, report: Report) -> Self::Output;

    /// The answer of a call that stays live while its body is read.
    fn headed(judge: &J, value: T, report: Report, tail: Tail<P>) -> Self::Output;
}

/// The result alone.
pub(crate) enum Plain {}

impl<T, E, P: Deref<Target = Site>, J> Answer<T, E, P, J> for Plain {
    type Output = Result<T, Error<E>>;

    #[inline]
    fn of(_: &P, _: &J, result: Result<T, Error<E>>, _: Report) -> Self::Output {
        result
    }

    fn headed(_: &J, value: T, _: Report, _: Tail<P>) -> Self::Output {
        Ok(value)
    }
}

/// The result and the call's report.
pub(crate) enum Whole {}

impl<T, E, P: Deref<Target = Site>, J> Answer<T, E, P, J> for Whole {
    type Output = Ended<T, E>;

    #[inline]
    fn of(_: &P, _: &J, result: Result<T, Error<E>>, report: Report) -> Self::Output {
        Ended { result, report }
    }

    fn headed(_: &J, value: T, report: Report, _: Tail<P>) -> Self::Output {
        Ended { result: Ok(value), report }
    }
}

/// The result, the report, and the part of the call that lives on while a body is read.
#[cfg(any(feature = "grpc", feature = "reqwest"))]
pub(crate) enum Tailed {}

#[cfg(any(feature = "grpc", feature = "reqwest"))]
impl<T, E, P: Deref<Target = Site>, J> Answer<T, E, P, J> for Tailed {
    type Output = (Ended<T, E>, Option<Tail<P>>);

    #[inline]
    fn of(_: &P, _: &J, result: Result<T, Error<E>>, report: Report) -> Self::Output {
        (Ended { result, report }, None)
    }

    fn headed(_: &J, value: T, report: Report, tail: Tail<P>) -> Self::Output {
        (Ended { result: Ok(value), report }, Some(tail))
    }
}
