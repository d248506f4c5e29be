//! A policy's settings, one by one.

use std::time::Duration;

use tidegate::{TABLE, Value};

use crate::clock;
use crate::engine::Engine;
use crate::error::BuildError;
use crate::policy::Policy;

/// A value of a setting: a span, a number, a word or a flag. A bound that may be absent is `"none"`.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// A number; of a span, microseconds.
    Number(f64),
    /// A word.
    Word(String),
}

impl From<Duration> for Setting {
    fn from(span: Duration) -> Self {
        Self::Number(clock::span(span).as_micros() as f64)
    }
}

impl From<&str> for Setting {
    fn from(word: &str) -> Self {
        Self::Word(word.into())
    }
}

impl From<String> for Setting {
    fn from(word: String) -> Self {
        Self::Word(word)
    }
}

impl From<bool> for Setting {
    fn from(flag: bool) -> Self {
        Self::Number(f64::from(u8::from(flag)))
    }
}

macro_rules! numbers {
    ($($kind:ty),*) => { $(impl From<$kind> for Setting {
        fn from(number: $kind) -> Self {
            Self::Number(f64::from(number))
        }
    })* };
}
numbers!(u8, u16, u32, i32, f32, f64);

/// A bound that may be absent: a value, or `None` for no bound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound<T>(Option<T>);

impl<T> From<T> for Bound<T> {
    fn from(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> From<Option<T>> for Bound<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

impl<T: Into<Setting>> From<Bound<T>> for Setting {
    fn from(bound: Bound<T>) -> Self {
        bound.0.map_or_else(|| "none".into(), Into::into)
    }
}

/// A policy that is being made. Its keys are those of `docs/reference.md`; each has a method of its own, and [`Builder::set`] takes any.
/// Nothing has a default here: what is left out is left to core.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tokio::Policy;
///
/// let policy = Policy::builder("payments")
///     .preset("http")
///     .deadline(Duration::from_secs(10))
///     .retry_max_attempts(4)
///     .bulkhead_max_concurrency(20)
///     .set("breaker.consecutive", 5)
///     .set("breaker.break_duration", Duration::from_secs(5))
///     .build()
///     .unwrap();
/// assert_eq!(policy.explain().max_attempts, 4);
///
/// let error = Policy::builder("wrong").retry_max_attempts(0).set("retrys", 1).build().unwrap_err().to_string();
/// assert!(error.starts_with("retry.max_attempts = 0: must be a whole number from 1 to 255; retrys = 1: "));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build`"]
pub struct Builder {
    name: String,
    pairs: Vec<(String, Setting)>,
    engine: Option<Engine>,
}

impl Builder {
    pub(crate) fn new(name: String) -> Self {
        Self { name, pairs: Vec::new(), engine: None }
    }

    /// Sets a key; what is said later counts. A key that takes a list is set once for each of its values.
    pub fn set(mut self, key: &str, value: impl Into<Setting>) -> Self {
        if !TABLE.iter().any(|known| known.path == key && known.domain.is_list()) {
            self.pairs.retain(|(other, _)| other != key);
        }
        self.pairs.push((key.into(), value.into()));
        self
    }

    /// The engine that keeps the policy's state; [`Engine::shared`] if nothing is said.
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// The settings, checked: for [`Policy::retune`].
    ///
    /// # Errors
    /// Every mistake there is: the key, the value and the rule.
    pub fn settings(&self) -> Result<tidegate::Policy, BuildError> {
        let pairs = self.pairs.iter().map(|(key, value)| {
            let value = match value {
                Setting::Number(number) => Value::Number(*number),
                Setting::Word(word) => Value::Text(word),
            };
            (key.as_str(), value)
        });
        let name = if self.name.is_empty() { crate::policy::fresh_name() } else { self.name.clone() };
        Ok(tidegate::Policy::from_pairs(&name, &pairs.collect::<Vec<_>>())?)
    }

    /// Makes the policy.
    ///
    /// # Errors
    /// Every mistake there is, or a clash with what the engine has already.
    pub fn build(self) -> Result<Policy, BuildError> {
        let settings = self.settings()?;
        Policy::new_in(self.engine.as_ref().unwrap_or(Engine::shared()), settings)
    }
}
