//! A policy's settings, one by one.

use std::borrow::Cow;
use std::time::Duration;

use tidegate::{TABLE, Value};

use crate::clock;
use crate::engine::Engine;
use crate::error::BuildError;
use crate::policy::Policy;
use crate::settings::{PRESENT, Present};

/// A value of a setting: a span, a number, a word or a flag. For a bound that is absent it is `"none"`.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// A number; a span is in microseconds.
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

/// Settings by key, in the order in which they were made.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Pairs(Vec<(Cow<'static, str>, Setting)>);

impl Pairs {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets a key; the last value counts. A key that takes a list is set once for each of its values.
    pub(crate) fn set(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Setting>) {
        let key = key.into();
        if !TABLE.iter().any(|known| known.path == key && known.domain.is_list()) {
            self.0.retain(|(other, _)| *other != key);
        }
        self.0.push((key, value.into()));
    }

    /// Adds the settings of a part.
    pub(crate) fn within(&mut self, part: Self) {
        for (key, value) in part.0 {
            self.set(key, value);
        }
    }

    /// The settings as core takes them.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.0.iter().map(|(key, value)| {
            let value = match value {
                Setting::Number(number) => Value::Number(*number),
                Setting::Word(word) => Value::Text(word),
            };
            (key.as_ref(), value)
        })
    }

    /// Whether a key of this component is set.
    fn have(&self, component: &str) -> bool {
        self.0.iter().any(|(key, _)| is_within(key, component))
    }
}

fn is_within(key: &str, component: &str) -> bool {
    key.strip_prefix(component).is_some_and(|rest| rest.starts_with('.'))
}

/// Builds a policy from the components in [`settings`](crate::settings). Their keys are those of `docs/reference.md`.
/// The builder has no defaults: core supplies them for keys that are not set.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tokio::Policy;
/// use tidegate_tokio::settings::{Breaker, Bulkhead, Preset, Retry};
///
/// let policy = Policy::builder("payments")
///     .preset(Preset::Http)
///     .deadline(Duration::from_secs(10))
///     .retry(Retry::new().max_attempts(4))
///     .bulkhead(Bulkhead::fixed(20))
///     .breaker(Breaker::by_consecutive(5, Duration::from_secs(5)))
///     .build()
///     .unwrap();
/// assert_eq!(policy.explain().max_attempts, 4);
///
/// let wrong = Policy::builder("wrong").retry(Retry::new().max_attempts(0)).set("retrys", 1);
/// let error = wrong.build().unwrap_err().to_string();
/// assert!(error.starts_with("retry.max_attempts = 0: must be a whole number from 1 to 255; retrys = 1: "));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build`"]
pub struct Builder {
    name: String,
    pairs: Pairs,
    /// Components that were named, possibly without any key.
    components: Vec<&'static str>,
    engine: Option<Engine>,
}

impl Builder {
    pub(crate) const fn new(name: String) -> Self {
        Self { name, pairs: Pairs::new(), components: Vec::new(), engine: None }
    }

    /// Sets a key by its path in a policy document, such as `retry.max_attempts`; the last value counts. A key that takes a list is
    /// set once for each of its values.
    pub fn set(mut self, key: &str, value: impl Into<Setting>) -> Self {
        self.pairs.set(key.to_owned(), value);
        self
    }

    /// Adds settings to those that the component has already.
    pub(crate) fn component(mut self, name: &'static str, pairs: Pairs) -> Self {
        self.components.push(name);
        self.pairs.within(pairs);
        self
    }

    /// Sets the engine that keeps the policy's state. The default is [`Engine::shared`].
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Checks the settings and returns them, for [`Policy::retune`].
    ///
    /// # Errors
    /// All mistakes in the settings, each with its key, its value and the rule.
    pub fn settings(&self) -> Result<tidegate::Policy, BuildError> {
        let mut pairs: Vec<(&str, Value<'_>)> = self.pairs.values().collect();
        for pair in self.present() {
            pairs.push(pair);
        }
        let name = if self.name.is_empty() { crate::policy::fresh_name() } else { self.name.clone() };
        Ok(tidegate::Policy::from_pairs(&name, &pairs)?)
    }

    /// The key and value that enable each component that was named without a key, unless the preset has that component.
    fn present(&self) -> impl Iterator<Item = (&'static str, Value<'static>)> {
        let preset = self.pairs.0.iter().find_map(|(key, value)| match value {
            Setting::Word(word) if key == "preset" => Some(tidegate::Policy::preset(word)),
            _ => None,
        });
        let preset = preset.unwrap_or_default();
        let bare = |component: &str| {
            self.components.contains(&component)
                && !self.pairs.have(component)
                && !preset.iter().any(|(key, _)| is_within(key, component))
        };
        PRESENT.iter().filter(move |it| bare(it.0)).map(|(_, key, value)| match value {
            Present::Number(number) => (*key, Value::Number(*number)),
            Present::Word(word) => (*key, Value::Text(word)),
        })
    }

    /// Makes the policy.
    ///
    /// # Errors
    /// All mistakes in the settings, or a clash with a policy or pool that the engine has already.
    pub fn build(self) -> Result<Policy, BuildError> {
        let settings = self.settings()?;
        Policy::new_in(self.engine.as_ref().unwrap_or(Engine::shared()), settings)
    }
}
