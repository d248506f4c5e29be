//! The given pairs of a policy, kept so that it can be printed.

use super::check::{Settings, Value};
use super::components::TABLE;
use super::domain::Stored;
use super::keys::Key;
use crate::full::Rare;
use crate::time::Duration;

/// The given pairs of a policy. Spelling is no part of a policy's identity, so all of these compare equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pairs: Vec<(&'static str, Vec<Stored>)>,
    /// The keys that come from the preset alone.
    preset: Option<Rare<Vec<&'static str>>>,
}

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Written {
    /// Stores the given pairs, including a preset's: the policy in full.
    pub(super) fn new(settings: &Settings) -> Self {
        let pairs = settings.values.iter().filter(|(key, _)| **key != "preset");
        let pairs = pairs.map(|(key, values)| (*key, values.clone())).collect();
        Self { pairs, preset: settings.preset.clone() }
    }

    /// Whether the policy's author gave this key.
    pub fn is_own(&self, path: &str) -> bool {
        let of_preset = self.preset.as_ref().is_some_and(|keys| keys.contains(&path));
        !of_preset && self.pairs.iter().any(|(key, _)| *key == path)
    }

    /// The pairs, in the order of the table; lists repeat their key.
    pub fn pairs(&self) -> Vec<(&'static str, Value<'_>)> {
        let given = |key: &Key| self.pairs.iter().find(|(path, _)| *path == key.path);
        let pairs = TABLE
            .iter()
            .filter_map(given)
            .flat_map(|(key, values)| values.iter().map(|value| (*key, value.plain())));
        pairs.collect()
    }

    /// The value in force of a key: the given one, else its default, which may be another key's value.
    pub fn value(&self, path: &str) -> Option<Value<'_>> {
        if let Some((_, values)) = self.pairs.iter().find(|(key, _)| *key == path) {
            return values.first().map(Stored::plain);
        }
        let key = TABLE.iter().find(|key| key.path == path)?;
        let component = path.split_once('.').map(|(component, _)| component);
        if component.is_some_and(|component| !self.pairs.iter().any(|(key, _)| key.starts_with(component))) {
            return None;
        }
        if TABLE.iter().any(|other| other.path == key.default) {
            return self.value(key.default);
        }
        key.default_pair()
    }
}

impl Stored {
    /// The value as in a pair.
    fn plain(&self) -> Value<'_> {
        match self {
            Self::Name(name) => Value::Text(name),
            value => value.clone().settled().unwrap_or(Value::Text("")),
        }
    }

    /// The same for a value other than a name, which needs no borrow.
    pub(super) fn settled(self) -> Option<Value<'static>> {
        Some(match self {
            Self::Span(Duration::MAX) | Self::Whole(u32::MAX) => Value::Text("none"),
            Self::Span(span) => Value::Number(span.as_micros() as f64),
            Self::Whole(n) => Value::Number(f64::from(n)),
            Self::Real(x) if x.is_infinite() => Value::Text("none"),
            Self::Real(x) => Value::Number(x),
            Self::Flag(on) => Value::Number(f64::from(u8::from(on))),
            Self::Word(word) => Value::Text(word),
            Self::Name(_) => return None,
        })
    }
}
