//! A callback before each retry.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Action, Kind, Step, Wait};

use crate::classify::{Classify, Finding, Judge};
use crate::clock;
use crate::policy::{Caller, Policy, Site};
use crate::{ByFailure, Outcome};

/// A retry that is about to happen: the argument of the callback of [`Caller::on_retry`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Retrying<'a, E> {
    /// The error of the failed attempt; `None` if the attempt timed out, or if it returned a value that was classified
    /// as a failure.
    pub error: Option<&'a E>,
    /// The number of the failed attempt, from 1 on.
    pub attempt: u8,
    /// Time until the next attempt is due. It may have to wait for a permit or for tokens besides.
    pub wait: Duration,
    /// Why the attempt counts as failed: the name of a class (`transient`), or of a kind that the policy declares.
    pub reason: Arc<str>,
}

impl<E> Clone for Retrying<'_, E> {
    fn clone(&self) -> Self {
        Self { reason: Arc::clone(&self.reason), ..*self }
    }
}

/// A classifier with a callback before each retry: see [`Caller::on_retry`].
#[derive(Clone)]
pub struct OnRetry<H, C = ByFailure> {
    classify: C,
    hook: H,
}

impl<H, C: fmt::Debug> fmt::Debug for OnRetry<H, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnRetry").field(&self.classify).finish()
    }
}

impl<T, E, H: Fn(Retrying<'_, E>), C: Classify<T, E>> Classify<T, E> for OnRetry<H, C> {
    fn outcome(&self, result: Result<&T, &E>) -> Outcome {
        self.classify.outcome(result)
    }

    fn finding(&self, result: Result<&T, &E>) -> Finding {
        self.classify.finding(result)
    }

    fn errors_alone(&self) -> bool {
        self.classify.errors_alone()
    }

    fn hears_retries(&self) -> bool {
        true
    }

    fn retrying(&self, retry: Retrying<'_, E>) {
        if self.classify.hears_retries() {
            // A panic of one callback keeps no other from being called.
            let _ = catch_unwind(AssertUnwindSafe(|| self.classify.retrying(retry.clone())));
        }
        (self.hook)(retry);
    }
}

impl<C> Caller<C> {
    /// Calls `hook` before the wait for each further attempt. Hedges are no retries. The hook runs in the call's task,
    /// and a panic in it changes nothing. To hear the retries of all calls, use
    /// [`Engine::listen`](crate::Engine::listen).
    ///
    /// ```
    /// use std::io;
    /// use std::sync::Mutex;
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Policy, Retrying};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
    /// let seen = Mutex::new(Vec::new());
    /// let answer = policy
    ///     .on_retry(|retry: Retrying<'_, io::Error>| {
    ///         seen.lock().unwrap().push(format!("{} in {:?}: {:?}", retry.reason, retry.wait, retry.error));
    ///     })
    ///     .run(|attempt| async move {
    ///         if attempt.number == 1 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(7) }
    ///     })
    ///     .await;
    /// assert_eq!(answer.unwrap(), 7);
    /// assert!(seen.into_inner().unwrap()[0].starts_with("transient in "));
    /// # }
    /// ```
    #[must_use]
    pub fn on_retry<H>(self, hook: H) -> Caller<OnRetry<H, C>> {
        let Self { site, classify } = self;
        Caller { site, classify: OnRetry { classify, hook } }
    }
}

impl<H> Caller<OnRetry<H>> {
    /// Classifies results by this function in place of [`Failure`](crate::Failure).
    #[must_use]
    pub fn classify<D>(self, classify: D) -> Caller<OnRetry<H, D>> {
        let Self { site, classify: OnRetry { hook, .. } } = self;
        Caller { site, classify: OnRetry { classify, hook } }
    }
}

impl Policy {
    /// A caller that calls `hook` before each retry: see [`Caller::on_retry`].
    pub fn on_retry<H>(&self, hook: H) -> Caller<OnRetry<H>> {
        self.caller().on_retry(hook)
    }
}

/// Calls the hook if the step that answers a failed attempt is a retry.
#[cold]
pub(super) fn announce<T, E>(
    judge: &impl Judge<T, E>,
    site: &Site,
    (attempt, kind): (u8, Kind),
    error: Option<&E>,
    step: Step,
) {
    let wait = match step.action() {
        Action::Wait { why: Wait::Backoff } => step.next().map(clock::std).unwrap_or_default(),
        // The retry is decided: it starts at once, or waits for a permit, tokens or a target as a first attempt does.
        Action::Attempt { hedge: false, .. } => Duration::ZERO,
        Action::Wait { why } if !matches!(why, Wait::Running | Wait::Body) => Duration::ZERO,
        _ => return,
    };
    let own = |core: &mut crate::engine::Core| {
        let policy = core.engine.policy_of(site.policy.id)?;
        policy.name_of(kind).map(Arc::from)
    };
    let reason = match kind.class() {
        Some(class) => class.name().into(),
        None => site.shared().look(|core, _| own(core)).unwrap_or_else(|| "".into()),
    };
    let retry = Retrying { error, attempt, wait, reason };
    // A callback cannot break a call.
    let _ = catch_unwind(AssertUnwindSafe(|| judge.retrying(retry)));
}
