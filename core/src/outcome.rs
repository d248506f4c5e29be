//! Outcomes of attempts: the classes by which every component decides (semantics 1.1, 1.2).

use crate::time::Duration;

/// Class of an attempt's end. All components decide by class; no component reads statuses or exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Class {
    /// Success.
    Ok = 0,
    /// A failure that may pass: a 5xx, a broken connection.
    Transient = 1,
    /// The server asked for less load: a 429.
    Throttled = 2,
    /// Our own attempt timeout ended the attempt.
    Timeout = 3,
    /// A failure before the request left: refused, no such host, no free connection in the pool.
    NeverSent = 4,
    /// A concurrency conflict; another try may win.
    Conflict = 5,
    /// The caller's fault; the downstream is healthy.
    Permanent = 6,
    /// Declared by the policy as no evidence of health or failure.
    Ignored = 7,
    /// The caller gave up.
    Cancelled = 8,
}

impl Class {
    /// All classes in wire order.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Transient,
        Self::Throttled,
        Self::Timeout,
        Self::NeverSent,
        Self::Conflict,
        Self::Permanent,
        Self::Ignored,
        Self::Cancelled,
    ];

    /// Its name in documents and telemetry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::NeverSent => "never_sent",
            Self::Conflict => "conflict",
            Self::Permanent => "permanent",
            Self::Ignored => "ignored",
            Self::Cancelled => "cancelled",
        }
    }

    /// The "retryable" column of semantics 1.2.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Transient | Self::Throttled | Self::Timeout | Self::NeverSent | Self::Conflict)
    }
}

/// A kind of outcome, 0 to 31: 0 to 8 are the classes in their order, 9 to 31 are declared by the policy, each with a
/// base class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind(u8);

impl Kind {
    /// The kind with this number; numbers above 31 do not exist.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 32 { Some(Self(number)) } else { None }
    }

    pub(crate) const CANCELLED: Self = Self(Class::Cancelled as u8);

    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its class, if it is one of the nine; `None` for kinds declared by a policy.
    pub const fn class(self) -> Option<Class> {
        if (self.0 as usize) < Class::ALL.len() { Some(Class::ALL[self.0 as usize]) } else { None }
    }
}

impl From<Class> for Kind {
    fn from(class: Class) -> Self {
        Self(class as u8)
    }
}

/// Opinion of the caller's predicate, or of the server's `x-should-retry`, about a retry.
///
/// It changes what is *retryable*, never what is safe: methods and one-shot bodies are judged by the request alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Opinion {
    /// No opinion: the class decides.
    #[default]
    None = 0,
    /// Retry, even if the class would not.
    Retry = 1,
    /// Do not retry, even if the class would.
    DoNot = 2,
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Kind of the end.
    pub kind: Kind,
    /// Opinion of the predicate or the server about a retry.
    pub opinion: Opinion,
    /// The wait that the server asked for.
    pub retry_after: Option<Duration>,
}

impl Outcome {
    /// An outcome of a plain class, without opinion or Retry-After.
    pub const fn of(class: Class) -> Self {
        Self { kind: Kind(class as u8), opinion: Opinion::None, retry_after: None }
    }

    /// The same outcome with the server's Retry-After.
    #[must_use]
    pub const fn retry_after(self, span: Duration) -> Self {
        Self { retry_after: Some(span), ..self }
    }
}

/// Importance of a call; only queues use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Criticality {
    /// May be dropped at any time.
    BestEffort = 0,
    /// Dropped before normal work.
    Degraded = 1,
    /// Default of a call.
    #[default]
    Normal = 2,
    /// Dropped last.
    Critical = 3,
}
