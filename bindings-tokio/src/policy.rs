//! Policies.

mod caller;
mod site;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tidegate::{Clash, Flags, Kind, Outcome, PolicyExplanation, Request, RouteView};

use crate::builder::Builder;
use crate::classify::{ByFailure, Classify};
use crate::engine::{Engine, Shared};
use crate::error::{BuildError, Error};
use crate::run::Attempt;
pub use caller::Caller;
use site::{DEFAULT, Inner, Known};
pub(crate) use site::{Handles, Site};

/// A named set of components around futures. Make it once and keep it; clones are the same policy.
///
/// While a policy, a clone, a caller or a layer of it exists, the same name with other settings is an error: use
/// [`Policy::retune`], or another name. Afterwards the engine keeps what the policy owes (spent tokens, an open
/// breaker), and the same name with other settings is a retune. Of policies that nobody holds it keeps 1,024; one
/// without a name is removed at once.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tidegate_tokio::settings::Preset;
/// use tidegate_tokio::Policy;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let policy = Policy::builder("shop").preset(Preset::Http).attempt_timeout(Duration::from_secs(1)).build().unwrap();
/// let answer = policy
///     .run(|attempt| async move {
///         if attempt.number < 3 {
///             return Err(io::Error::from(io::ErrorKind::ConnectionReset));
///         }
///         Ok(attempt.number)
///     })
///     .await;
/// assert_eq!(answer.unwrap(), 3);
/// # }
/// ```
#[derive(Clone)]
pub struct Policy {
    caller: Caller,
}

impl Policy {
    /// A builder for a policy of this name: see [`Builder`].
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder::new(name.into())
    }

    /// A policy of settings that core has checked, in the engine of the process.
    ///
    /// # Errors
    /// The engine has a policy of this name with other settings, or lacks a pool that this one names.
    pub fn new(settings: tidegate::Policy) -> Result<Self, BuildError> {
        Self::new_in(Engine::shared(), settings)
    }

    /// A policy of settings that core has checked, in this engine.
    ///
    /// ```
    /// use tidegate_tokio::{Engine, Policy};
    /// let settings = tidegate_tokio::tidegate::Policy::from_pairs("p", &[("retry.max_attempts", tidegate_tokio::Value::Number(2.0))]);
    /// let policy = Policy::new_in(&Engine::new(7), settings.unwrap()).unwrap();
    /// assert_eq!(policy.explain().max_attempts, 2);
    /// ```
    ///
    /// # Errors
    /// As [`Policy::new`].
    pub fn new_in(engine: &Engine, settings: tidegate::Policy) -> Result<Self, BuildError> {
        let (name, known) = (settings.name().into(), Known::of(&settings));
        let made = |id| Inner::new(engine, id, name, known);
        // Under the lock, so that no retune comes in between.
        Ok(Self::of(engine.shared.look(|core, _| core.engine.policy(settings).map(made))?))
    }

    /// A policy that the engine has already, under this id and with these settings.
    #[cfg(feature = "documents")]
    pub(crate) fn taken(engine: &Engine, id: tidegate::PolicyId, settings: &tidegate::Policy) -> Self {
        Self::of(Inner::new(engine, id, settings.name().into(), Known::of(settings)))
    }

    fn of(policy: Arc<Inner>) -> Self {
        let site = Site {
            policy,
            key: DEFAULT.into(),
            named: false,
            route: AtomicU64::new(0),
            request: Request::default(),
            weights: None,
            own_criticality: false,
        };
        Self { caller: Caller { site: Arc::new(site), classify: ByFailure } }
    }

    /// Runs attempts under the policy, on the route `default`, until one decides.
    ///
    /// `work` makes the future of each attempt. Where the policy hedges, several attempts are polled side by side, all
    /// in this task. An attempt that is stopped is dropped. Dropping the returned future cancels the call: its attempts
    /// are dropped, its permit passes to the next waiter, and nothing is counted.
    ///
    /// # Errors
    /// The error of the attempt that decided, or Tidegate's own error if the call was refused or stopped: [`Error`].
    ///
    /// # Panics
    /// If a call has to wait outside a tokio runtime with time enabled.
    pub fn run<T, E, F, Fut>(&self, work: F) -> impl Future<Output = Result<T, Error<E>>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        ByFailure: Classify<T, E>,
    {
        self.caller.run(work)
    }

    /// A caller with its own settings for its calls. Make it once and keep it.
    pub fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// The policy's name in errors and telemetry.
    pub fn name(&self) -> &str {
        &self.inner().name
    }

    /// The engine that keeps the policy's state.
    pub fn engine(&self) -> &Engine {
        &self.inner().engine
    }

    /// The kind of this name: a class, or a kind that the policy declares.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        self.shared().look(|core, _| core.engine.policy_of(self.inner().id)?.kind_of(name))
    }

    /// The outcome of an HTTP answer: by its status and the policy's `retry.statuses`, and by its headers that say when
    /// to try again (`Retry-After` and its relatives). For classifiers of clients that have no adapter here.
    ///
    /// ```
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Class, Outcome, Policy, tidegate::Duration};
    /// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
    /// let headers = [(&b"retry-after"[..], &b"2"[..])];
    /// let busy = Outcome::of(Class::Throttled).retry_after(Duration::from_secs(2));
    /// assert_eq!(policy.outcome_of(429, headers), busy);
    /// ```
    pub fn outcome_of<'a>(
        &self,
        status: u16,
        headers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Outcome {
        self.caller.site.outcome_of(status, headers, b"")
    }

    /// Changes the policy's settings while it is in use. Calls in flight finish under the settings that they began
    /// with; limits and budgets, which calls share, change at once.
    ///
    /// # Errors
    /// The engine lacks a pool that the settings name, or the settings have another name. The policy is unchanged then.
    pub fn retune(&self, to: tidegate::Policy) -> Result<(), BuildError> {
        let (shared, id, known) = (self.shared(), self.inner().id, Known::of(&to));
        let mut used = Vec::new();
        let done = shared.with(|core, now| match core.engine.retune(id, to, now) {
            Ok(flags) => {
                shared.handles.note(id, known, &mut used);
                (Ok(()), flags)
            }
            Err(clash) => (Err(clash), Flags::default()),
        });
        Ok(done?)
    }

    /// Refuses all calls, or those of one route, before any other component decides, until it is called with `false`.
    /// Waiting calls are refused too; running calls finish without further attempts.
    pub fn force_open(&self, route: Option<&str>, on: bool) {
        self.shared().with(|core, now| {
            let route = route.map(|key| core.engine.route(self.inner().id, key, now));
            ((), core.engine.force_open(self.inner().id, route, on, now))
        });
    }

    /// Refuses all attempts at one of the policy's targets, for all policies with this group of targets, until it is called with
    /// `false`, which also resets the target's breaker. Running attempts finish, and calls go to the other targets.
    ///
    /// # Errors
    /// The policy has no target of this name.
    pub fn force_target(&self, target: &str, on: bool) -> Result<(), Clash> {
        self.shared().with(|core, now| {
            let group = match core.engine.setting(self.inner().id, "targets") {
                Some(tidegate::Value::Text(name)) => name.to_owned(),
                _ => String::new(),
            };
            match core.engine.force_target(&group, target, on, now) {
                Ok(flags) => (Ok(()), flags),
                Err(clash) => (Err(clash), Flags::default()),
            }
        })
    }

    /// Explains the policy: its components in their order, the longest wait and the highest cost of a call, and
    /// settings that may be mistakes. `Display` writes it as text.
    ///
    /// # Panics
    /// Never: an engine keeps a policy while somebody holds it.
    pub fn explain(&self) -> PolicyExplanation {
        let explained = self.shared().look(|core, _| core.engine.explain_policy(self.inner().id));
        explained.expect("an engine keeps a policy while somebody holds it")
    }

    /// The policy's routes at this moment.
    pub fn routes(&self) -> Vec<RouteView> {
        let mut routes = self.engine().snapshot().routes;
        routes.retain(|route| route.policy == self.name());
        routes
    }

    fn inner(&self) -> &Inner {
        &self.caller.site.policy
    }

    fn shared(&self) -> &Shared {
        self.caller.site.shared()
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Start of the names of policies that their users have not named.
const FRESH: &str = "policy-";

/// A policy name that is unused in this process.
pub(crate) fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    format!("{FRESH}{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether `fresh_name` can have made this name.
fn is_fresh_name(name: &str) -> bool {
    name.strip_prefix(FRESH)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit()))
}
