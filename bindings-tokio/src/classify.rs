//! What became of an attempt: results and errors as outcomes (semantics 1.5).

use std::any::{Any, type_name};
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate::{Class, Opinion, Outcome, class_of_status};

use crate::listed::{chain, found_in, viewed};
use crate::policy::{Caller, Policy, Site};

/// What an error means to a policy. Implement it for the error type of your attempts, or say it at the policy: [`Caller::on`](crate::Caller::on) names
/// errors to repeat, [`Caller::classify`](crate::Caller::classify) decides about each result.
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

    /// The same, and what only a policy can decide.
    #[doc(hidden)]
    fn finding(&self) -> Finding {
        Finding::Outcome(self.outcome())
    }
}

/// What is found out about an error.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// What it means.
    Outcome(Outcome),
    /// It is about an answer of this HTTP status with these headers; the policy's statuses decide.
    Status(u16, Vec<(String, Vec<u8>)>),
    /// Nothing that may pass: it is permanent, and the note says so.
    Unlisted,
    /// `on` names it: it is repeated, whatever else is found.
    Named(Box<Finding>),
}

impl Finding {
    /// What it means without a policy.
    fn plain(self) -> Outcome {
        self.under(|status, _| Outcome::of(class_of_status(status)))
    }

    /// What it means where statuses are judged like this.
    pub(crate) fn under(self, judge: impl FnOnce(u16, &[(String, Vec<u8>)]) -> Outcome) -> Outcome {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Status(status, headers) => judge(status, &headers),
            Self::Unlisted => Outcome::of(Class::Permanent),
            Self::Named(inner) => {
                // Boxed only here, and `on` names an error once.
                let inner = match *inner {
                    Self::Named(inner) => *inner,
                    inner => inner,
                };
                let found = match inner {
                    Self::Outcome(outcome) => outcome,
                    Self::Status(status, headers) => judge(status, &headers),
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

/// Says what became of an attempt by its result. Functions of `Result<&T, &E>` are.
///
/// One that panics is taken for having no opinion: what is `Ok` has worked, and an error is permanent.
pub trait Classify<T, E> {
    /// The outcome of an attempt with this result.
    fn outcome(&self, result: Result<&T, &E>) -> Outcome;

    /// The same, and what only a policy can decide.
    #[doc(hidden)]
    fn finding(&self, result: Result<&T, &E>) -> Finding {
        Finding::Outcome(self.outcome(result))
    }

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

/// Errors by the table that all languages share, whether or not their type implements [`Failure`]: what [`On`] does not name.
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

/// Errors of type `X` are repeated, also where they are among the causes of another; others are judged by `C`. See
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
        let named = (error as &dyn Any).is::<X>()
            || viewed(error).is_some_and(|error| chain(error).any(<dyn StdError>::is::<X>));
        if named { Finding::Named(Box::new(found)) } else { found }
    }

    fn errors_alone(&self) -> bool {
        self.rest.errors_alone()
    }
}

impl Policy {
    /// A caller that repeats errors of this type: see [`Caller::on`].
    pub fn on<X: StdError + 'static>(&self) -> Caller<On<X>> {
        self.caller().on()
    }
}

impl Caller {
    /// Repeats errors of this type, also where one is among the causes of another. What it does not name is judged by the table that all languages
    /// share (`docs/errors.md`), and not by [`Failure`](crate::Failure). Name several one after another.
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

/// How the shell judges what an attempt has brought.
pub(crate) enum Judgement {
    Outcome(Outcome),
    /// The head of a good answer, whose body follows.
    #[cfg_attr(not(feature = "_bodies"), expect(dead_code, reason = "only adapters have bodies"))]
    Head,
}

/// A classifier as the shell needs it; adapters know more of their results than users say.
pub(crate) trait Judge<T, E> {
    fn judge(&self, site: &Site, result: &Result<T, E>) -> Judgement;

    /// The call goes on after this result: what is kept of it, in case that nothing better comes.
    fn release(&self, result: Result<T, E>) -> Option<Result<T, E>> {
        Some(result)
    }

    /// Is this an error that is permanent only because nothing knows it?
    fn unlisted(&self, error: &E) -> bool;
}

/// The user's classifier, which may not break a call.
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
}

/// The same, owned.
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
}

/// What the classifier says; where it panics, what is `Ok` has worked, and an error is permanent.
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
