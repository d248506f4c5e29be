//! The errors that a call can end with, and the report of its end.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate::errors::NOTE;
use tidegate::{
    CallExplanation, CallId, Clash, Class, InputError, Opinion, Outcome, PolicyError, Refusal, Verdict,
    WeightError,
};

use crate::Failure;
use crate::classify::Finding;

/// The reason why a call has no good result.
///
/// ```
/// use tidegate_tokio::settings::Preset;
/// use tidegate_tokio::{Class, Error, Outcome, Policy};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
/// let broken = policy
///     .caller()
///     .classify(|result: Result<&(), &&str>| Outcome::of(if result.is_ok() { Class::Ok } else { Class::Transient }));
/// match broken.run(|_| async { Err("out of stock") }).await {
///     Err(Error::Failed(error, report)) => {
///         assert_eq!(error, "out of stock");
///         assert_eq!(report.note().unwrap(), "gave up after 3 attempts");
///     }
///     other => panic!("{other:?}"),
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Error<E> {
    /// The error of the attempt that decided, unchanged; the report says why no further attempt followed.
    Failed(E, Report),
    /// Tidegate refused the call or stopped an attempt. The second part is the last error of the call's own work, if
    /// there was one. It is behind a pointer, so that results stay small.
    Stopped(Box<Stopped>, Option<E>),
}

impl<E> Error<E> {
    /// The error of the call's own work: of the attempt that decided, or the last one before an attempt was stopped.
    pub fn own(&self) -> Option<&E> {
        match self {
            Self::Failed(error, _) => Some(error),
            Self::Stopped(_, last) => last.as_ref(),
        }
    }

    /// Takes out the error of the call's own work.
    pub fn into_own(self) -> Option<E> {
        match self {
            Self::Failed(error, _) => Some(error),
            Self::Stopped(_, last) => last,
        }
    }

    /// The report of the call's end.
    pub fn report(&self) -> &Report {
        match self {
            Self::Failed(_, report) => report,
            Self::Stopped(stopped, _) => &stopped.report,
        }
    }

    /// Explains why the call ended as it did, with the numbers used, while its engine still knows the call: it keeps 512
    /// records about calls with trouble. See [`Engine::explain`](crate::Engine::explain).
    ///
    /// ```
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::Policy;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
    /// let work = |_| async { Err::<(), _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset)) };
    /// let error = policy.run(work).await.unwrap_err();
    /// let explained = error.explain().expect("the history has it").to_string();
    /// assert!(explained.contains("attempt 3"), "{explained}");
    /// # }
    /// ```
    pub fn explain(&self) -> Option<CallExplanation> {
        self.report().explain()
    }

    /// Tidegate's own error, if it refused the call or stopped an attempt.
    pub fn stopped(&self) -> Option<&Stopped> {
        match self {
            Self::Failed(..) => None,
            Self::Stopped(stopped, _) => Some(stopped),
        }
    }

    /// Whether the call was refused before any attempt: by a rate limit, a bulkhead, a breaker, a throttle, an
    /// operator, a hold or a lost store.
    pub fn is_rejected(&self) -> bool {
        self.stopped().is_some_and(|stopped| stopped.code.is_rejected())
    }

    /// Converts into a boxed error, as tower's own layers and `?` take it. The call's own error stays as it is, so `is`
    /// and `downcast` find its type. Tidegate's own error is found by [`stopped_in`](crate::stopped_in) and has the
    /// call's own last error as its cause.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{BoxError, Policy};
    /// let policy = Policy::builder("boxed").preset(Preset::Http).build().unwrap();
    /// let work = |_| async { Err::<(), BoxError>("out of stock".into()) };
    /// let boxed = policy.run(work).await.unwrap_err().into_boxed();
    /// assert_eq!(boxed.to_string(), "out of stock");
    /// # }
    /// ```
    pub fn into_boxed(self) -> BoxError
    where
        E: Into<BoxError>,
    {
        match self {
            Self::Failed(error, _) => error.into(),
            Self::Stopped(stopped, None) => stopped,
            Self::Stopped(stopped, Some(last)) => Box::new(Ended { stopped: *stopped, last: last.into() }),
        }
    }

    /// Converts the call's own error to another type.
    pub fn map<F>(self, to: impl FnOnce(E) -> F) -> Error<F> {
        match self {
            Self::Failed(error, report) => Error::Failed(to(error), report),
            Self::Stopped(stopped, last) => Error::Stopped(stopped, last.map(to)),
        }
    }
}

/// An error of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Tidegate's own error with the call's own last error, boxed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stopped: Stopped,
    last: BoxError,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stopped.fmt(f)
    }
}

impl StdError for Ended {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.last)
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error, _) => error.fmt(f),
            Self::Stopped(stopped, _) => stopped.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for Error<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Failed(error, _) => error.source(),
            // Tidegate's own text is this error's text already, so a chain of causes must not repeat it.
            Self::Stopped(_, Some(last)) => Some(last),
            Self::Stopped(stopped, None) => stopped.mark.as_deref().map(|mark| mark as _),
        }
    }
}

impl<E: Failure> Failure for Error<E> {
    /// An inner policy's refusal is retryable, and is no evidence about the upstream. A failure that the inner policy must not
    /// repeat is not repeated by an outer one either.
    fn outcome(&self) -> Outcome {
        match self {
            Self::Failed(error, report) => report.judged(error.outcome()),
            Self::Stopped(stopped, _) => stopped.outcome(),
        }
    }

    fn finding(&self) -> Finding {
        match self {
            Self::Failed(error, report) => report.found(|| error.finding()),
            Self::Stopped(stopped, _) => Finding::Outcome(stopped.outcome()),
        }
    }
}

/// Finds Tidegate's own error in a chain of causes, such as that of a client's error after the body of a call was
/// stopped. An [`Error`](crate::Error) with an error of the call's own has that error as its cause; use
/// [`Error::stopped`](crate::Error::stopped) on it.
///
/// ```
/// use tidegate_tokio::settings::RateLimit;
/// use tidegate_tokio::{BoxError, Code, Error, Policy, stopped_in};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let once = RateLimit::new(1, std::time::Duration::from_secs(3600));
/// let policy = Policy::builder("once").rate_limit(once).build().unwrap();
/// let work = |_| async { Ok::<_, std::io::Error>(()) };
/// policy.run(work).await.unwrap();
/// let Err(Error::Stopped(refused, None)) = policy.run(work).await else { panic!("it is refused") };
/// let boxed: BoxError = refused.into();
/// assert_eq!(stopped_in(&*boxed).unwrap().code, Code::RateLimited);
/// # }
/// ```
pub fn stopped_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Stopped> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(stopped) = error.downcast_ref::<Stopped>() {
            return Some(stopped);
        }
        // As `Error::Stopped` holds it, boxed once more by `?` or `into`.
        if let Some(stopped) = error.downcast_ref::<Box<Stopped>>() {
            return Some(stopped);
        }
        if let Some(ended) = error.downcast_ref::<Ended>() {
            return Some(&ended.stopped);
        }
        if let Some(mark) = error.downcast_ref::<Mark>() {
            return Some(&mark.0);
        }
        next = error.source();
    }
    None
}

/// The code of one of Tidegate's own errors, the same in every language.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Code {
    /// The rate limit is used up.
    RateLimited,
    /// No permit was free, or none became free in time.
    BulkheadFull,
    /// The circuit breaker is open.
    BreakerOpen,
    /// The adaptive throttle refused the call.
    Throttled,
    /// An operator refuses all calls.
    ForcedOpen,
    /// Too many calls are held already.
    HoldFull,
    /// The server has said that there are too many requests; no attempt starts until the time that it named.
    CoolingDown,
    /// The shared store is lost, and the policy refuses calls then.
    StoreUnavailable,
    /// No target of its group admits the call's attempt: each is open, out of tokens or full.
    NoTarget,
    /// No target of its group admits the call's attempt: each has used up its rate limit, or cools down.
    TargetsLimited,
    /// The call costs more than the rate limit can ever hold.
    CostAboveBurst,
    /// The call was abandoned, because the engine got no event of it for too long.
    CallLost,
    /// The last attempt ran past `attempt_timeout`, and Tidegate stopped it.
    AttemptTimeout,
    /// No piece of the response's body came for `idle_timeout`, after the response was delivered.
    StreamStalled,
    /// The deadline passed: before the call, while it waited, or during an attempt.
    DeadlineExceeded,
}

impl Code {
    /// The code's name, the same in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::BulkheadFull => "bulkhead_full",
            Self::BreakerOpen => "breaker_open",
            Self::Throttled => "throttled",
            Self::ForcedOpen => "forced_open",
            Self::HoldFull => "hold_full",
            Self::CoolingDown => "cooling_down",
            Self::StoreUnavailable => "store_unavailable",
            Self::NoTarget => "no_target",
            Self::TargetsLimited => "targets_limited",
            Self::CostAboveBurst => "cost_above_burst",
            Self::CallLost => "call_lost",
            Self::AttemptTimeout => "attempt_timeout",
            Self::StreamStalled => "stream_stalled",
            Self::DeadlineExceeded => "deadline_exceeded",
        }
    }

    /// Whether the code means that a component refused the call.
    pub const fn is_rejected(self) -> bool {
        !matches!(self, Self::CostAboveBurst | Self::CallLost) && !self.is_timeout()
    }

    /// Whether the code means that time was up: an attempt's, a stream's, or the call's.
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::AttemptTimeout | Self::StreamStalled | Self::DeadlineExceeded)
    }

    /// The HTTP status with which a server should answer its own caller.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::RateLimited | Self::Throttled | Self::CoolingDown | Self::TargetsLimited => 429,
            _ if self.is_timeout() => 504,
            _ => 503,
        }
    }

    /// The code and the text for a verdict that leaves a call without a result of its own.
    fn of(verdict: Verdict) -> (Self, &'static str) {
        match verdict {
            Verdict::ForcedOpen => (Self::ForcedOpen, "an operator refuses all calls"),
            Verdict::BreakerOpen => (Self::BreakerOpen, "the circuit breaker is open"),
            Verdict::Throttled => (Self::Throttled, "the adaptive throttle refused the call"),
            Verdict::RateLimited => (Self::RateLimited, "the rate limit is used up"),
            Verdict::QueueFull => (Self::BulkheadFull, "all slots are taken, and so is the queue"),
            Verdict::AcquireTimeout => (Self::BulkheadFull, "no slot came free within acquire_timeout"),
            Verdict::QueueShed => (Self::BulkheadFull, "the queue's delay was over target"),
            Verdict::Displaced => {
                (Self::BulkheadFull, "a call of higher criticality took its place in the queue")
            }
            Verdict::HoldFull => (Self::HoldFull, "too many calls are held already"),
            Verdict::Cooldown => (Self::CoolingDown, "too many requests: no attempt may start yet"),
            Verdict::StoreUnavailable => (Self::StoreUnavailable, "the shared store is gone"),
            Verdict::NoTarget => (Self::NoTarget, "no target of its group admits it"),
            Verdict::TargetsLimited => {
                (Self::TargetsLimited, "each target of its group has used up its rate limit, or cools down")
            }
            Verdict::DeadlineBefore => {
                (Self::DeadlineExceeded, "the deadline had passed before the call began")
            }
            Verdict::DeadlineQueued => {
                (Self::DeadlineExceeded, "the deadline passed while the call was waiting")
            }
            Verdict::Deadline | Verdict::WouldOutliveDeadline => {
                (Self::DeadlineExceeded, "the deadline passed")
            }
            Verdict::StreamStalled => (Self::StreamStalled, "no piece of the body came for idle_timeout"),
            Verdict::CostAboveBurst => {
                (Self::CostAboveBurst, "the call costs more than the rate limit can ever hold")
            }
            _ => (Self::CallLost, "the call was given up: nothing was heard of it for too long"),
        }
    }
}

/// One of Tidegate's own errors: a call was refused, or an attempt was stopped.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Stopped {
    /// The error's code.
    pub code: Code,
    /// The engine's verdict, finer than `code`: a bulkhead refuses with `queue_full` or `acquire_timeout`.
    pub reason: Verdict,
    /// Time after which another try makes sense, from when the error was made.
    pub retry_in: Option<Duration>,
    /// The policy's name.
    pub policy: Arc<str>,
    /// The route's key.
    pub route: Arc<str>,
    /// The report of the call's end.
    pub report: Report,
    text: Cow<'static, str>,
    /// The limit of a set that refused the call.
    by: Option<Arc<Refused>>,
    /// The cause that represents this error in a chain of causes.
    mark: Option<Arc<Mark>>,
}

/// The limit of a set that refused a call: [`tidegate::Refusal`] with its own texts.
#[derive(PartialEq, Eq, Debug)]
struct Refused {
    limit: String,
    weight: Option<(String, u64)>,
    text: String,
}

/// The cause of an [`Error::Stopped`] without an error of the call's own. Through it `stopped_in` finds Tidegate's
/// error behind any type. Its text is the code, so that the chain does not repeat the message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mark(pub(crate) Stopped);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.code.name())
    }
}

impl StdError for Mark {}

impl Stopped {
    pub(crate) fn new(policy: Arc<str>, route: Arc<str>, report: Report) -> Self {
        let (code, text) = Code::of(report.reason);
        let (reason, retry_in) = (report.reason, report.retry_in);
        Self { code, reason, retry_in, policy, route, report, text: text.into(), by: None, mark: None }
            .marked()
    }

    /// A limit of a set has refused the call.
    pub(crate) fn by(self, refusal: Refusal<'_>) -> Self {
        let weight = refusal.weight.map(|(name, amount)| (name.to_owned(), amount));
        let refused = Refused { limit: refusal.limit.to_owned(), weight, text: refusal.to_string() };
        Self { by: Some(Arc::new(refused)), ..self }.marked()
    }

    /// The name of the limit that refused the call: of several that lack tokens the one that frees last, and of a call above
    /// a burst the one that never holds so much. `None` for other errors, and for a rate limit without `limits`.
    pub fn limit(&self) -> Option<&str> {
        self.by.as_ref().map(|by| &*by.limit)
    }

    /// The weight that this limit counts; `None` for a limit that counts calls.
    pub fn weight(&self) -> Option<&str> {
        self.by.as_ref()?.weight.as_ref().map(|(name, _)| &**name)
    }

    /// The call's amount of that weight; `None` without a weight.
    pub fn amount(&self) -> Option<u64> {
        self.by.as_ref()?.weight.as_ref().map(|(_, amount)| *amount)
    }

    fn marked(self) -> Self {
        let mark = Some(Arc::new(Mark(Self { mark: None, ..self.clone() })));
        Self { mark, ..self }
    }

    /// The call did not begin, because its weights are not those of its route.
    pub(crate) fn unbegun(self, wrong: &WeightError) -> Self {
        let report = Report { call: None, ..self.report };
        Self { text: wrong.to_string().into(), report, ..self }.marked()
    }

    /// The last attempt ran past its timeout.
    pub(crate) fn attempt_timeout(policy: Arc<str>, route: Arc<str>, report: Report) -> Self {
        let stopped = Self::new(policy, route, report);
        Self { code: Code::AttemptTimeout, text: "the attempt ran out of attempt_timeout".into(), ..stopped }
            .marked()
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (policy {:?}, route {:?}", self.text, self.policy, self.route)?;
        if let Some(by) = &self.by {
            write!(f, ", {}", by.text)?;
        }
        f.write_str(")")
    }
}

impl StdError for Stopped {}

impl Failure for Stopped {
    fn outcome(&self) -> Outcome {
        match self.code {
            Code::RateLimited | Code::Throttled | Code::CoolingDown | Code::TargetsLimited => Outcome {
                retry_after: self.retry_in.map(crate::clock::span),
                ..Outcome::of(Class::Throttled)
            },
            code if code.is_timeout() => Outcome::of(Class::Timeout),
            Code::CostAboveBurst | Code::CallLost => Outcome::of(Class::Permanent),
            _ => Outcome::of(Class::Conflict),
        }
    }
}

/// The report of a call's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Number of attempts that the call made.
    pub attempts: u8,
    /// Why the call ended as it did.
    pub reason: Verdict,
    /// Time after which another try makes sense, from the call's end.
    pub retry_in: Option<Duration>,
    pub(crate) max_retry_after: Option<Duration>,
    /// The type of an error that was not repeated because no classifier knows it.
    pub(crate) unlisted: Option<&'static str>,
    /// The class of the failure that the call leaves to the one around it to repeat (semantics 1.6.2).
    pub(crate) left: Option<Class>,
    /// The number of the call's engine, and the call.
    pub(crate) call: Option<(u64, CallId)>,
}

impl Report {
    /// The call's id in events and in [`Engine::explain`](crate::Engine::explain). `None` if no call was made.
    pub fn call(&self) -> Option<CallId> {
        self.call.map(|(_, call)| call)
    }

    /// Explains why the call ended as it did, with the numbers used, while its engine still knows the call: see
    /// [`Engine::explain`](crate::Engine::explain).
    pub fn explain(&self) -> Option<CallExplanation> {
        let (engine, call) = self.call?;
        crate::engine::numbered(engine)?.look(|core, _| core.engine.explain_call(call))
    }

    /// Whether the call was not repeated because a repeat might do harm (semantics 1.6.4).
    pub(crate) const fn forbids(&self) -> bool {
        matches!(self.reason, Verdict::Method | Verdict::OneShotBody | Verdict::Opinion)
    }

    /// The judgement that the call has left about its failure, which has this outcome by itself.
    pub(crate) fn judged(&self, own: Outcome) -> Outcome {
        match self.left {
            Some(class) => Outcome {
                kind: class.into(),
                opinion: Opinion::Retry,
                retry_after: self.retry_in.map(crate::clock::span),
            },
            None if self.forbids() => Outcome { opinion: Opinion::DoNot, ..own },
            None => own,
        }
    }

    /// The finding that the call has left about its error, which is found to be this by itself.
    pub(crate) fn found(&self, own: impl FnOnce() -> Finding) -> Finding {
        match self.left {
            Some(class) => Finding::Outcome(self.judged(Outcome::of(class))),
            None if self.forbids() => Finding::Forbidden(Box::new(own())),
            None => own(),
        }
    }

    /// Says in words why no further attempt followed; `None` if no attempt was suppressed.
    pub fn note(&self) -> Option<String> {
        let plain = match self.reason {
            Verdict::Attempts if self.attempts > 1 => {
                return Some(format!("gave up after {} attempts", self.attempts));
            }
            Verdict::NotRetryable => return self.unlisted.map(unlisted),
            Verdict::Method => {
                "not retried: a repeat could happen twice (not idempotent, and no idempotency key)"
            }
            Verdict::OneShotBody => "body cannot be replayed",
            Verdict::Opinion => "not retried: the policy's statuses, its predicate or the server said not to",
            Verdict::Nested => "not retried: a call around this one retries already",
            Verdict::RetryAfterTooLong => {
                let bound =
                    self.max_retry_after.map(|most| format!(" {}", seconds(most))).unwrap_or_default();
                let asked = seconds(self.retry_in.unwrap_or_default());
                return Some(format!("Retry-After {asked} exceeds max_retry_after{bound}"));
            }
            Verdict::WouldOutliveDeadline => {
                let asked = self.retry_in.map(|span| format!(" (Retry-After {})", seconds(span)));
                let asked = asked.unwrap_or_default();
                return Some(format!("not retried: the next wait{asked} would outlive the deadline"));
            }
            Verdict::TimeLimit => "not retried: the next wait would exceed retry_time_limit",
            Verdict::Budget => "retry budget exhausted",
            Verdict::Readmission => "not retried: the next attempt was refused a slot",
            Verdict::Offline => "not retried: the device was offline for longer than a retry may wait",
            Verdict::Deadline => "the deadline passed while waiting for the next attempt",
            _ => return None,
        };
        Some(plain.into())
    }
}

/// The note about an error that no classifier knows, with the name of its type.
fn unlisted(name: &'static str) -> String {
    // For a type without parameters the last segment of its name is enough. The last segment of a `dyn` type means
    // nothing.
    let plain = !name.contains(['<', ' ', '&', '(', '[']);
    let short = name.rsplit("::").next().filter(|word| *word != "Error").unwrap_or(name);
    let (error, on) = if plain { (short, short) } else { ("the error", "MyError") };
    NOTE.replace("{error}", error).replace("{on}", &format!("policy.on::<{on}>()"))
}

/// Writes a span as people do: `120 s`, `0.25 s`.
fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs_f64())
}

/// The reason why a policy cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// All mistakes in the settings, each with its key, its value and the rule.
    Mistakes(Vec<PolicyError>),
    /// The engine has another policy or pool of this name, or lacks a pool that the policy names.
    Clash(Clash),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mistakes(mistakes) => {
                for (n, mistake) in mistakes.iter().enumerate() {
                    write!(f, "{}{mistake}", if n == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Clash(clash) => clash.fmt(f),
        }
    }
}

impl StdError for BuildError {}

impl From<Vec<PolicyError>> for BuildError {
    fn from(mistakes: Vec<PolicyError>) -> Self {
        Self::Mistakes(mistakes)
    }
}

impl From<Clash> for BuildError {
    fn from(clash: Clash) -> Self {
        Self::Clash(clash)
    }
}

/// A line that is not a journal line: see [`Engine::replay`](crate::Engine::replay).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct JournalError {
    /// The line's number, from 1 on.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The argument that is wrong, and the rule that it breaks.
    pub error: InputError,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "journal, line {}: {}: {}", self.line, self.error, self.text)
    }
}

impl StdError for JournalError {}
