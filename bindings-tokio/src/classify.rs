//! Classification of attempts: from results and errors to outcomes (semantics 1.5).

use std::any::{Any, type_name};
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate::{CallId, Class, Opinion, Outcome, class_of_status};

use crate::listed::{chain, found_in, viewed};
use crate::policy::{Caller, Policy, Site};
use crate::run::Retrying;

/// Classifies an error. Implement it for the error type of your attempts. Alternatively
/// [`Caller::on`](crate::Caller::on) names errors to repeat, and [`Caller::classify`](crate::Caller::classify) decides
/// about each result.
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
#[diagnostic::on_unimplemented(
    message = "Tidegate does not know which errors of type `{Self}` may pass",
    note = "name it, to repeat it: `policy.on::<{Self}>().run(…)`",
    note = "or decide about each result: `policy.caller().classify(|result: Result<&T, &E>| …)`",
    note = "or implement `tidegate_tokio::Failure` for it; errors of libraries have it behind features (`anyhow`, `http`, `reqwest`, `redis`, `grpc`)"
)]
pub trait Failure {
    /// The outcome of an attempt that ended with this error.
    fn outcome(&self) -> Outcome;

    /// The finding about this error, which may leave the decision to the policy.
    #[doc(hidden)]
    fn finding(&self) -> Finding {
        Finding::Outcome(self.outcome())
    }
}

/// A finding about an error.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// The outcome is known.
    Outcome(Outcome),
    /// The error is about a response with this HTTP status and these headers; the policy's statuses decide.
    Status(u16, Vec<(String, Vec<u8>)>),
    /// No classifier knows the error: it is permanent, and the note says so.
    Unlisted,
    /// `on` names the error: it is repeated, whatever else is found.
    Named(Box<Finding>),
    /// A policy inside did not repeat it, because a repeat might do harm.
    Forbidden(Box<Finding>),
}

impl Finding {
    /// The outcome without a policy.
    fn plain(self) -> Outcome {
        self.under(|status, _| Outcome::of(class_of_status(status)))
    }

    /// The outcome if `judge` decides about statuses.
    pub(crate) fn under(self, judge: impl FnOnce(u16, &[(String, Vec<u8>)]) -> Outcome) -> Outcome {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Status(status, headers) => judge(status, &headers),
            Self::Unlisted => Outcome::of(Class::Permanent),
            Self::Forbidden(inner) => Outcome { opinion: Opinion::DoNot, ..inner.under(judge) },
            Self::Named(inner) => {
                // Only `on` boxes a finding, and it names an error at most once.
                let inner = match *inner {
                    Self::Named(inner) => *inner,
                    inner => inner,
                };
                let found = match inner {
                    Self::Outcome(outcome) => outcome,
                    Self::Status(status, headers) => judge(status, &headers),
                    Self::Forbidden(inner) => inner.under(judge),
                    Self::Unlisted | Self::Named(_) => Outcome::of(Class::Permanent),
                };
                let passes = found.kind.class().is_none_or(Class::retryable);
                let kind = if passes { found.kind } else { Class::Transient.into() };
                let opinion = if found.opinion == Opinion::DoNot { Opinion::None } else { found.opinion };
                Outcome { kind, opinion, ..found }
            }
        }
    }
}

/// Classifies the result of an attempt. Functions of `Result<&T, &E>` implement it.
///
/// If it panics, `Ok` counts as success and an error as permanent.
pub trait Classify<T, E> {
    /// The outcome of an attempt with this result.
    fn outcome(&self, result: Result<&T, &E>) -> Outcome;

    /// The finding about this result, which may leave the decision to the policy.
    #[doc(hidden)]
    fn finding(&self, result: Result<&T, &E>) -> Finding {
        Finding::Outcome(self.outcome(result))
    }

    /// Whether it judges errors only. Then each `Ok` counts as success without a call of `outcome`.
    #[inline]
    fn errors_alone(&self) -> bool {
        false
    }

    /// Whether [`retrying`](Self::retrying) does anything.
    #[doc(hidden)]
    #[inline]
    fn hears_retries(&self) -> bool {
        false
    }

    /// Called before each retry.
    #[doc(hidden)]
    fn retrying(&self, retry: Retrying<'_, E>) {
        let _ = retry;
    }
}

impl<T, E, F: Fn(Result<&T, &E>) -> Outcome> Classify<T, E> for F {
    fn outcome(&self, result: Result<&T, &E>) -> Outcome {
        self(result)
    }
}

/// The default: `Ok` is success, and an error classifies itself ([`Failure`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByFailure;

impl<T, E: Failure> Classify<T, E> for ByFailure {
    fn outcome(&self, result: Result<&T, &E>) -> Outcome {
        match result {
            Ok(_) => Outcome::of(Class::Ok),
            Err(error) => error.outcome(),
        }
    }

    fn finding(&self, result: Result<&T, &E>) -> Finding {
        match result {
            Ok(_) => Finding::Outcome(Outcome::of(Class::Ok)),
            Err(error) => error.finding(),
        }
    }

    #[inline]
    fn errors_alone(&self) -> bool {
        true
    }
}

/// Classifies errors by the table that all languages share, whether or not their type implements [`Failure`]. Used for
/// errors that [`On`] does not name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByTable;

impl<T, E: 'static> Classify<T, E> for ByTable {
    fn outcome(&self, result: Result<&T, &E>) -> Outcome {
        Classify::<T, E>::finding(self, result).plain()
    }

    fn finding(&self, result: Result<&T, &E>) -> Finding {
        match result {
            Ok(_) => Finding::Outcome(Outcome::of(Class::Ok)),
            Err(error) => viewed(error).map_or(Finding::Unlisted, found_in),
        }
    }

    #[inline]
    fn errors_alone(&self) -> bool {
        true
    }
}

/// Repeats errors of type `X`, also where one is among the causes of another error; `C` judges the others. See
/// [`Caller::on`](crate::Caller::on).
pub struct On<X, C = ByTable> {
    rest: C,
    named: PhantomData<fn() -> X>,
}

impl<X, C> On<X, C> {
    pub(crate) const fn new(rest: C) -> Self {
        Self { rest, named: PhantomData }
    }
}

impl<X, C: Clone> Clone for On<X, C> {
    fn clone(&self) -> Self {
        Self::new(self.rest.clone())
    }
}

impl<X, C> fmt::Debug for On<X, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("On").field(&type_name::<X>()).finish()
    }
}

impl<T, E: 'static, X: StdError + 'static, C: Classify<T, E>> Classify<T, E> for On<X, C> {
    fn outcome(&self, result: Result<&T, &E>) -> Outcome {
        self.finding(result).plain()
    }

    fn finding(&self, result: Result<&T, &E>) -> Finding {
        let found = self.rest.finding(result);
        let Err(error) = result else { return found };
        // The error of a call of a policy inside counts as that of its attempt.
        let inside = |it: Option<&crate::Error<X>>| matches!(it, Some(crate::Error::Failed(..)));
        let value: &dyn Any = error;
        let named = value.is::<X>()
            || inside(value.downcast_ref())
            || viewed(error)
                .is_some_and(|error| chain(error).any(|it| it.is::<X>() || inside(it.downcast_ref())));
        if named { Finding::Named(Box::new(found)) } else { found }
    }

    fn errors_alone(&self) -> bool {
        self.rest.errors_alone()
    }

    fn hears_retries(&self) -> bool {
        self.rest.hears_retries()
    }

    fn retrying(&self, retry: Retrying<'_, E>) {
        self.rest.retrying(retry);
    }
}

impl Policy {
    /// A caller that repeats errors of this type: see [`Caller::on`].
    pub fn on<X: StdError + 'static>(&self) -> Caller<On<X>> {
        self.caller().on()
    }
}

impl Caller {
    /// Repeats errors of this type, also where one is among the causes of another error. Other errors are judged by the
    /// table that all languages share (`docs/errors.md`), and not by [`Failure`](crate::Failure). Call it again to name
    /// several types.
    ///
    /// ```
    /// use tidegate_tokio::Policy;
    /// use tidegate_tokio::settings::Preset;
    ///
    /// #[derive(Debug)]
    /// struct Busy;
    /// impl std::fmt::Display for Busy {
    ///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    ///         f.write_str("busy")
    ///     }
    /// }
    /// impl std::error::Error for Busy {}
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
    /// let answer = policy.on::<Busy>().run(|attempt| async move { if attempt.number == 1 { Err(Busy) } else { Ok(7) } }).await;
    /// assert_eq!(answer.unwrap(), 7);
    /// # }
    /// ```
    #[must_use]
    pub fn on<X: StdError + 'static>(self) -> Caller<On<X>> {
        self.classify(On::new(ByTable))
    }
}

impl<Y, C> Caller<On<Y, C>> {
    /// Repeats errors of this type as well.
    #[must_use]
    pub fn on<X: StdError + 'static>(self) -> Caller<On<X, On<Y, C>>> {
        let Self { site, classify } = self;
        Caller { site, classify: On::new(classify) }
    }
}

/// The shell's judgement of an attempt's result.
pub(crate) enum Judgement {
    Outcome(Outcome),
    /// The head of a good response, whose body follows.
    #[cfg_attr(not(feature = "_bodies"), expect(dead_code, reason = "only adapters have bodies"))]
    Head,
}

/// A classifier in the form that the shell needs. Adapters find out more about their results than a user's classifier
/// can say.
pub(crate) trait Judge<T, E> {
    fn judge(&self, site: &Site, result: &Result<T, E>) -> Judgement;

    /// Reports what an answer says is left of the service's quotas, where the policy learns from it.
    #[inline]
    fn note_quotas(&self, site: &Site, call: CallId, result: &Result<T, E>) {
        let _ = (site, call, result);
    }

    /// Called when the call continues after this result. Returns what to keep of it in case no better result follows.
    fn release(&self, result: Result<T, E>) -> Option<Result<T, E>> {
        Some(result)
    }

    /// Whether the error is permanent only because no classifier knows it.
    fn unlisted(&self, error: &E) -> bool;

    /// Whether [`retrying`](Self::retrying) does anything.
    #[inline]
    fn hears_retries(&self) -> bool {
        false
    }

    /// Called before each retry.
    fn retrying(&self, retry: Retrying<'_, E>) {
        let _ = retry;
    }
}

/// The user's classifier behind a guard: its panics do not break a call.
#[derive(Clone, Copy, Debug)]
pub struct Guarded<C>(pub(crate) C);

impl<T, E, C: Classify<T, E>> Judge<T, E> for Guarded<&C> {
    #[inline]
    fn judge(&self, site: &Site, result: &Result<T, E>) -> Judgement {
        Judgement::Outcome(ask(self.0, site, result.as_ref()))
    }

    fn unlisted(&self, error: &E) -> bool {
        is_unlisted::<T, E>(self.0, error)
    }

    #[inline]
    fn hears_retries(&self) -> bool {
        self.0.hears_retries()
    }

    fn retrying(&self, retry: Retrying<'_, E>) {
        self.0.retrying(retry);
    }
}

/// An owned classifier behind the same guard.
#[cfg(feature = "tower")]
#[derive(Clone, Copy, Debug)]
pub struct Owned<C>(pub(crate) C);

#[cfg(feature = "tower")]
impl<T, E, C: Classify<T, E>> Judge<T, E> for Owned<C> {
    #[inline]
    fn judge(&self, site: &Site, result: &Result<T, E>) -> Judgement {
        Judgement::Outcome(ask(&self.0, site, result.as_ref()))
    }

    fn unlisted(&self, error: &E) -> bool {
        is_unlisted::<T, E>(&self.0, error)
    }

    #[inline]
    fn hears_retries(&self) -> bool {
        self.0.hears_retries()
    }

    fn retrying(&self, retry: Retrying<'_, E>) {
        self.0.retrying(retry);
    }
}

/// Runs the classifier. If it panics, `Ok` counts as success and an error as permanent.
#[inline]
fn ask<T, E>(classify: &impl Classify<T, E>, site: &Site, result: Result<&T, &E>) -> Outcome {
    if result.is_ok() && classify.errors_alone() {
        return Outcome::of(Class::Ok);
    }
    let worked = result.is_ok();
    match catch_unwind(AssertUnwindSafe(|| classify.finding(result))) {
        Ok(finding) => site.outcome_in(finding),
        Err(_) => Outcome::of(if worked { Class::Ok } else { Class::Permanent }),
    }
}

#[cold]
fn is_unlisted<T, E>(classify: &impl Classify<T, E>, error: &E) -> bool {
    let finding = catch_unwind(AssertUnwindSafe(|| classify.finding(Err(error))));
    finding.is_ok_and(|finding| finding == Finding::Unlisted)
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

    fn finding(&self) -> Finding {
        (**self).finding()
    }
}

impl<E: Failure + ?Sized> Failure for Arc<E> {
    fn outcome(&self) -> Outcome {
        (**self).outcome()
    }

    fn finding(&self) -> Finding {
        (**self).finding()
    }
}

/// Errors of libraries, judged by the table.
macro_rules! listed {
    ($($(#[$gate:meta])* $error:ty),* $(,)?) => { $(
        $(#[$gate])*
        impl Failure for $error {
            fn outcome(&self) -> Outcome {
                self.finding().plain()
            }

            fn finding(&self) -> Finding {
                found_in(self)
            }
        }
    )* };
}
listed!(
    io::Error,
    tokio::time::error::Elapsed,
    dyn StdError + Send + Sync,
    dyn StdError + Send,
    dyn StdError,
    #[cfg(feature = "grpc")]
    tonic::Status,
    #[cfg(feature = "http")]
    hyper::Error,
    #[cfg(feature = "http")]
    hyper_util::client::legacy::Error,
    #[cfg(feature = "redis")]
    redis::RedisError,
    #[cfg(feature = "reqwest")]
    reqwest::Error,
    #[cfg(feature = "tower")]
    tower::timeout::error::Elapsed,
    #[cfg(feature = "tower")]
    tower::load_shed::error::Overloaded,
);

#[cfg(feature = "anyhow")]
impl Failure for anyhow::Error {
    fn outcome(&self) -> Outcome {
        self.finding().plain()
    }

    fn finding(&self) -> Finding {
        found_in(self.as_ref())
    }
}
