//! What became of an attempt: results and errors as outcomes (semantics 1.4).

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate::{Class, Outcome};

/// What an error means to a policy. Implement it for the error type of your attempts, or say it at the policy:
/// [`Caller::classify`](crate::Caller::classify).
///
/// ```
/// use tidegate_tokio::{Class, Failure, Outcome};
///
/// enum ShopError {
///     Busy,
///     NoSuchOrder,
/// }
///
/// impl Failure for ShopError {
///     fn outcome(&self) -> Outcome {
///         match self {
///             Self::Busy => Outcome::of(Class::Throttled),
///             Self::NoSuchOrder => Outcome::of(Class::Permanent),
///         }
///     }
/// }
/// assert!(ShopError::Busy.outcome().kind != ShopError::NoSuchOrder.outcome().kind);
/// ```
pub trait Failure {
    /// The outcome of an attempt that ended with this error.
    fn outcome(&self) -> Outcome;
}

/// Says what became of an attempt by its result. Functions of `Result<&T, &E>` are.
///
/// One that panics is taken for having no opinion: what is `Ok` has worked, and an error is permanent.
pub trait Classify<T, E> {
    /// The outcome of an attempt with this result.
    fn outcome(&self, result: Result<&T, &E>) -> Outcome;

    /// Does it judge errors alone? Then whatever is `Ok` has worked, and it is not asked about that.
    #[inline]
    fn errors_alone(&self) -> bool {
        false
    }
}

impl<T, E, F: Fn(Result<&T, &E>) -> Outcome> Classify<T, E> for F {
    fn outcome(&self, result: Result<&T, &E>) -> Outcome {
        self(result)
    }
}

/// The default: what is `Ok` has worked, and an error says itself what it is ([`Failure`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByFailure;

impl<T, E: Failure> Classify<T, E> for ByFailure {
    fn outcome(&self, result: Result<&T, &E>) -> Outcome {
        match result {
            Ok(_) => Outcome::of(Class::Ok),
            Err(error) => error.outcome(),
        }
    }

    #[inline]
    fn errors_alone(&self) -> bool {
        true
    }
}

/// How the shell judges what an attempt has brought.
pub(crate) enum Judgement {
    Outcome(Outcome),
    /// The head of a good answer, whose body follows.
    #[cfg_attr(not(feature = "_bodies"), expect(dead_code, reason = "only adapters have bodies"))]
    Head,
}

/// A classifier as the shell needs it; adapters know more of their results than users say.
pub(crate) trait Judge<T, E> {
    fn judge(&self, result: &Result<T, E>) -> Judgement;

    /// The call goes on after this result: what is kept of it, in case that nothing better comes.
    fn release(&self, result: Result<T, E>) -> Option<Result<T, E>> {
        Some(result)
    }
}

/// The user's classifier, which may not break a call.
#[derive(Clone, Copy, Debug)]
pub struct Guarded<C>(pub(crate) C);

impl<T, E, C: Classify<T, E>> Judge<T, E> for Guarded<&C> {
    fn judge(&self, result: &Result<T, E>) -> Judgement {
        Judgement::Outcome(ask(self.0, result.as_ref()))
    }
}

/// The same, owned.
#[cfg(feature = "tower")]
#[derive(Clone, Copy, Debug)]
pub struct Owned<C>(pub(crate) C);

#[cfg(feature = "tower")]
impl<T, E, C: Classify<T, E>> Judge<T, E> for Owned<C> {
    fn judge(&self, result: &Result<T, E>) -> Judgement {
        Judgement::Outcome(ask(&self.0, result.as_ref()))
    }
}

/// What the classifier says; where it panics, what is `Ok` has worked, and an error is permanent.
#[inline]
pub(crate) fn ask<T, E>(classify: &impl Classify<T, E>, result: Result<&T, &E>) -> Outcome {
    if result.is_ok() && classify.errors_alone() {
        return Outcome::of(Class::Ok);
    }
    catch_unwind(AssertUnwindSafe(|| classify.outcome(result)))
        .unwrap_or_else(|_| Outcome::of(if result.is_ok() { Class::Ok } else { Class::Permanent }))
}

impl Failure for io::Error {
    /// Errors that prove that nothing was sent, and those of a connection or of time, which may pass; others are permanent.
    fn outcome(&self) -> Outcome {
        Outcome::of(match self.kind() {
            ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown => Class::NeverSent,
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::BrokenPipe
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::UnexpectedEof
            | ErrorKind::ResourceBusy
            | ErrorKind::WriteZero => Class::Transient,
            _ => Class::Permanent,
        })
    }
}

impl Failure for tokio::time::error::Elapsed {
    fn outcome(&self) -> Outcome {
        Outcome::of(Class::Transient)
    }
}

impl Failure for Infallible {
    fn outcome(&self) -> Outcome {
        match *self {}
    }
}

impl<E: Failure + ?Sized> Failure for Box<E> {
    fn outcome(&self) -> Outcome {
        (**self).outcome()
    }
}

impl<E: Failure + ?Sized> Failure for Arc<E> {
    fn outcome(&self) -> Outcome {
        (**self).outcome()
    }
}

impl Failure for dyn StdError + Send + Sync {
    fn outcome(&self) -> Outcome {
        of_chain(self)
    }
}

impl Failure for dyn StdError + Send {
    fn outcome(&self) -> Outcome {
        of_chain(self)
    }
}

impl Failure for dyn StdError {
    fn outcome(&self) -> Outcome {
        of_chain(self)
    }
}

/// The first error of a chain of causes that we know; permanent where there is none.
pub(crate) fn of_chain(error: &(dyn StdError + 'static)) -> Outcome {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(known) = error.downcast_ref::<io::Error>() {
            // One that only wraps another is judged by that one.
            match known.get_ref() {
                Some(inner) if known.kind() == ErrorKind::Other => {
                    next = Some(inner);
                    continue;
                }
                _ => return known.outcome(),
            }
        }
        if let Some(known) = error.downcast_ref::<tokio::time::error::Elapsed>() {
            return known.outcome();
        }
        if let Some(known) = error.downcast_ref::<crate::Stopped>() {
            return known.outcome();
        }
        if let Some(mark) = error.downcast_ref::<crate::error::Mark>() {
            return mark.0.outcome();
        }
        next = error.source();
    }
    Outcome::of(Class::Permanent)
}
