//! Policies, and the callers through which calls are made.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{
    CallId, Class, Criticality, Flags, HttpFailure, Kind, Outcome, PolicyExplanation, PolicyId, Request,
    RouteView, Value, Verdict,
};

use crate::builder::Builder;
use crate::classify::{ByFailure, Classify, Finding, Guarded};
use crate::clock;
use crate::engine::{Engine, Shared};
use crate::error::{BuildError, Error, Report};
use crate::run::{Attempt, Ended, Plain, Run, Whole};

/// State that all callers of one policy share.
pub(crate) struct Inner {
    pub engine: Engine,
    pub id: PolicyId,
    pub name: Arc<str>,
    /// Whether the user has named the policy, so that it can be made again.
    named: bool,
    hedges: AtomicBool,
    repeats: AtomicBool,
    slot_until_body: AtomicBool,
    reads_errors: AtomicBool,
    /// Counts the times at which settings were applied.
    settings: AtomicU32,
}

impl Inner {
    /// Whether attempts may be hedged.
    #[inline]
    pub fn hedges(&self) -> bool {
        // Relaxed: a call in flight may see the value of the settings before.
        self.hedges.load(Ordering::Relaxed)
    }

    /// Whether a call may make more than one attempt.
    #[inline]
    pub fn repeats(&self) -> bool {
        self.repeats.load(Ordering::Relaxed)
    }

    /// Whether the policy reads why an answer failed.
    #[cfg(feature = "_bodies")]
    pub fn reads_errors(&self) -> bool {
        self.reads_errors.load(Ordering::Relaxed)
    }

    /// Whether permit and deadline last until the body has been read.
    #[cfg(feature = "_bodies")]
    pub fn slot_until_body(&self) -> bool {
        self.slot_until_body.load(Ordering::Relaxed)
    }

    /// A version number of the settings: it changes with each retune.
    #[cfg(feature = "http")]
    pub fn settings(&self) -> u32 {
        self.settings.load(Ordering::Acquire)
    }

    /// Stores the facts about settings that the shell uses.
    fn note(&self, known: &Known) {
        self.hedges.store(known.hedges, Ordering::Relaxed);
        self.repeats.store(known.repeats, Ordering::Relaxed);
        self.slot_until_body.store(known.slot_until_body, Ordering::Relaxed);
        self.reads_errors.store(known.reads_errors, Ordering::Relaxed);
        self.settings.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Inner {
    /// Ends this owner of the policy (semantics 0.9). A policy with a name keeps what it owes, in case it is made again.
    fn drop(&mut self) {
        self.engine.shared.look(|core, now| core.engine.release_policy(self.id, self.named, now));
    }
}

/// The facts about settings that the shell uses.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
struct Known {
    hedges: bool,
    repeats: bool,
    slot_until_body: bool,
    reads_errors: bool,
}

impl Known {
    fn of(settings: &tidegate::Policy) -> Self {
        Self {
            hedges: settings.value("hedge.delay").is_some(),
            repeats: settings.may_repeat(),
            slot_until_body: settings.slot_until_body(),
            reads_errors: settings.reads_errors(),
        }
    }
}

/// The route of calls that name none.
const DEFAULT: &str = "default";

/// A policy, a route, and the facts about calls made there.
pub(crate) struct Site {
    pub policy: Arc<Inner>,
    pub key: Arc<str>,
    /// The id of the route in the engine; 0 until it is known.
    pub route: AtomicU64,
    pub request: Request,
    /// Whether the caller sets a criticality, which overrides the scope's.
    pub own_criticality: bool,
}

impl Site {
    #[inline]
    pub fn shared(&self) -> &Shared {
        &self.policy.engine.shared
    }

    /// Moves the site to another route.
    pub fn aim(&mut self, key: Arc<str>) {
        self.key = key;
        self.route = AtomicU64::new(0);
    }

    /// Whether a request of this HTTP method may be repeated without an idempotency key.
    #[cfg(any(feature = "_bodies", feature = "tower"))]
    pub fn retries_method(&self, method: &str) -> bool {
        self.shared().look(|core, _| core.engine.retries_method(self.policy.id, method))
    }

    /// The outcome of an HTTP answer, by its status, by its headers that say when to try again, and by what has been read of
    /// its body.
    pub fn outcome_of<'a>(
        &self,
        status: u16,
        headers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        body: &[u8],
    ) -> Outcome {
        if status < 400 {
            return Outcome::of(Class::Ok);
        }
        let headers: Vec<_> = headers.into_iter().collect();
        let failure = HttpFailure { status, headers: &headers };
        let wall = clock::wall();
        self.shared().look(|core, _| core.engine.classify_read(self.policy.id, &failure, body, wall))
    }

    /// The outcome of a finding about an attempt, under this policy.
    pub fn outcome_in(&self, finding: Finding) -> Outcome {
        finding.under(|status, headers| {
            self.outcome_of(status, headers.iter().map(|(name, value)| (name.as_bytes(), &value[..])), b"")
        })
    }

    /// The error of a call whose first attempt could not be made.
    #[cfg(feature = "reqwest")]
    pub fn unsent<E>(&self, error: E) -> Error<E> {
        Error::Failed(error, self.report(None, 0, Verdict::NotRetryable, None))
    }

    #[inline]
    pub fn report(
        &self,
        call: Option<CallId>,
        attempts: u8,
        reason: Verdict,
        retry_in: Option<Duration>,
    ) -> Report {
        let max_retry_after = match reason {
            Verdict::RetryAfterTooLong => self.max_retry_after(),
            _ => None,
        };
        Report {
            attempts,
            reason,
            retry_in,
            max_retry_after,
            unlisted: None,
            call: call.map(|call| (self.shared().number, call)),
        }
    }

    #[cold]
    fn max_retry_after(&self) -> Option<Duration> {
        let number = |value: Value<'_>| match value {
            Value::Number(micros) => Some(Duration::from_micros(micros as u64)),
            Value::Text(_) => None,
        };
        self.shared()
            .look(|core, _| core.engine.setting(self.policy.id, "retry.max_retry_after").and_then(number))
    }
}

impl Clone for Site {
    fn clone(&self) -> Self {
        Self {
            policy: Arc::clone(&self.policy),
            key: Arc::clone(&self.key),
            route: AtomicU64::new(self.route.load(Ordering::Relaxed)),
            request: self.request,
            own_criticality: self.own_criticality,
        }
    }
}

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
    /// let settings = tidegate_tokio::core::Policy::from_pairs("p", &[("retry.max_attempts", tidegate_tokio::Value::Number(2.0))]);
    /// let policy = Policy::new_in(&Engine::new(7), settings.unwrap()).unwrap();
    /// assert_eq!(policy.explain().max_attempts, 2);
    /// ```
    ///
    /// # Errors
    /// As [`Policy::new`].
    pub fn new_in(engine: &Engine, settings: tidegate::Policy) -> Result<Self, BuildError> {
        let (name, known) = (settings.name().into(), Known::of(&settings));
        let id = engine.shared.look(|core, _| core.engine.policy(settings))?;
        Ok(Self::of(engine, id, name, &known))
    }

    /// A policy that the engine has already, under this id and with these settings.
    #[cfg(feature = "documents")]
    pub(crate) fn taken(engine: &Engine, id: PolicyId, settings: &tidegate::Policy) -> Self {
        Self::of(engine, id, settings.name().into(), &Known::of(settings))
    }

    /// Stores the facts about settings that the engine has just applied.
    #[cfg(feature = "documents")]
    pub(crate) fn renew(&self, settings: &tidegate::Policy) {
        self.inner().note(&Known::of(settings));
    }

    fn of(engine: &Engine, id: PolicyId, name: Arc<str>, known: &Known) -> Self {
        let site = Site {
            policy: Arc::new(Inner {
                engine: engine.clone(),
                id,
                named: !is_fresh_name(&name),
                name,
                hedges: known.hedges.into(),
                repeats: known.repeats.into(),
                slot_until_body: known.slot_until_body.into(),
                reads_errors: known.reads_errors.into(),
                settings: AtomicU32::new(0),
            }),
            key: DEFAULT.into(),
            route: AtomicU64::new(0),
            request: Request::default(),
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
    /// use tidegate_tokio::{Class, Outcome, Policy, core::Duration};
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
        let known = Known::of(&to);
        let done = self.shared().with(|core, now| match core.engine.retune(self.inner().id, to, now) {
            Ok(flags) => (Ok(()), flags),
            Err(clash) => (Err(clash), Flags::default()),
        });
        if done.is_ok() {
            self.inner().note(&known);
        }
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

/// A policy with settings for its calls: their route, deadline, criticality, cost and how they may be repeated.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tokio::settings::Preset;
/// use tidegate_tokio::{Class, Criticality, Outcome, Policy};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
/// let eu = policy.caller().route("eu").deadline(Duration::from_secs(2)).criticality(Criticality::Critical);
/// let busy = eu.classify(|result: Result<&u8, &&str>| {
///     Outcome::of(match result {
///         Err(&"busy") => Class::Throttled,
///         Err(_) => Class::Permanent,
///         Ok(_) => Class::Ok,
///     })
/// });
/// let ended = busy.ended(|attempt| async move { if attempt.number == 1 { Err("busy") } else { Ok(attempt.number) } }).await;
/// assert_eq!((ended.result.unwrap(), ended.report.attempts), (2, 2));
/// # }
/// ```
#[derive(Clone)]
pub struct Caller<C = ByFailure> {
    pub(crate) site: Arc<Site>,
    pub(crate) classify: C,
}

impl<C> Caller<C> {
    /// Whether the caller names a route.
    #[cfg(feature = "http")]
    pub(crate) fn has_route(&self) -> bool {
        *self.site.key != *DEFAULT
    }

    /// Sets the key that state is kept under: an origin, an endpoint, a tenant. The default is `default`.
    #[must_use]
    pub fn route(mut self, key: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.site).aim(key.into());
        self
    }

    /// Limits the time of the whole call. The earliest of this, the policy's deadline and the scope's deadline wins.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.says(|request| request.remaining = Some(clock::span(deadline)))
    }

    /// Sets how important the calls are to queues, whatever the scope says. The default is normal.
    #[must_use]
    pub fn criticality(mut self, criticality: Criticality) -> Self {
        Arc::make_mut(&mut self.site).own_criticality = true;
        self.says(|request| request.criticality = criticality)
    }

    /// Says whether a repeat is harmless. If not, only attempts that provably never left are repeated, and none is
    /// hedged. The default is true.
    #[must_use]
    pub fn idempotent(self, idempotent: bool) -> Self {
        self.says(|request| request.idempotent = idempotent)
    }

    /// Says whether the calls can be made a second time at all. The default is true.
    #[must_use]
    pub fn replayable(self, replayable: bool) -> Self {
        self.says(|request| request.replayable = replayable)
    }

    /// Says whether attempts must never run side by side. If so, calls are retried but not hedged.
    #[must_use]
    pub fn solo(self, solo: bool) -> Self {
        self.says(|request| request.solo = solo)
    }

    /// Sets how many tokens of a rate limit each call takes. The default is 1.
    #[must_use]
    pub fn cost(self, cost: u16) -> Self {
        self.says(|request| request.cost = cost)
    }

    /// Classifies results by this function in place of [`Failure`](crate::Failure).
    #[must_use]
    pub fn classify<D>(self, classify: D) -> Caller<D> {
        Caller { site: self.site, classify }
    }

    fn says(mut self, what: impl FnOnce(&mut Request)) -> Self {
        what(&mut Arc::make_mut(&mut self.site).request);
        self
    }

    /// Runs attempts as [`Policy::run`] does.
    ///
    /// # Errors
    /// As [`Policy::run`].
    pub fn run<T, E, F, Fut>(&self, work: F) -> impl Future<Output = Result<T, Error<E>>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        Run::<_, _, _, _, _, _, Plain>::new(&*self.site, true, None, Guarded(&self.classify), work)
    }

    /// Runs attempts as [`run`](Self::run) does, and returns the call's report beside its result.
    pub fn ended<T, E, F, Fut>(&self, work: F) -> impl Future<Output = Ended<T, E>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        Run::<_, _, _, _, _, _, Whole>::new(&*self.site, true, None, Guarded(&self.classify), work)
    }

    /// Runs attempts as [`run`](Self::run) does, and calls `fallback` if the call fails for good. The fallback gets the
    /// final error and runs outside all components. The caller gets its result, or its error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Error, Policy};
    /// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
    /// let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
    /// let price = policy
    ///     .caller()
    ///     .run_or_else(|_| async { Err::<u32, _>(gone()) }, async |error: Error<std::io::Error>| match error.own() {
    ///         Some(_) => Ok(0),
    ///         None => Err(error),
    ///     })
    ///     .await;
    /// assert_eq!(price.unwrap(), 0);
    /// # }
    /// ```
    ///
    /// # Errors
    /// The fallback's error.
    pub async fn run_or_else<T, E, G, F, Fut>(
        &self,
        work: F,
        fallback: impl AsyncFnOnce(Error<E>) -> Result<T, G>,
    ) -> Result<T, G>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        match self.run(work).await {
            Ok(value) => Ok(value),
            Err(error) => {
                let stood_in = fallback(error).await;
                let (shared, ok) = (self.site.shared(), stood_in.is_ok());
                shared.with(|core, now| {
                    let route = tidegate::RouteId::from_word(self.site.route.load(Ordering::Relaxed));
                    core.engine.note_fallback(route, ok, now);
                    ((), Flags::default())
                });
                stood_in
            }
        }
    }
}

impl<C> fmt::Debug for Caller<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (policy, route) = (&self.site.policy.name, &self.site.key);
        f.debug_struct("Caller").field("policy", policy).field("route", route).finish_non_exhaustive()
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
