//! Settings of policies and pools as pairs, and the mistakes in them. Conversions and nothing else.

use tidegate::{Clash, Policy, PolicyError, Pool, PoolKind, Value as CoreValue};

/// A value of a setting.
#[derive(Clone, PartialEq, Debug, uniffi::Enum)]
pub enum Value {
    /// A number; spans are in microseconds.
    Number {
        /// The number.
        value: f64,
    },
    /// A word.
    Word {
        /// The word.
        value: String,
    },
}

impl Value {
    pub(crate) fn of(value: CoreValue<'_>) -> Self {
        match value {
            CoreValue::Number(value) => Self::Number { value },
            CoreValue::Text(word) => Self::Word { value: word.to_owned() },
        }
    }

    fn plain(&self) -> CoreValue<'_> {
        match self {
            Self::Number { value } => CoreValue::Number(*value),
            Self::Word { value } => CoreValue::Text(value),
        }
    }
}

/// A dotted key and its value.
#[derive(Clone, PartialEq, Debug, uniffi::Record)]
pub struct Pair {
    /// The key's path, dotted.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// One mistake in a policy: the key, the value and the rule that it breaks.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct Mistake {
    /// The key's path, dotted.
    pub key: String,
    /// What was given.
    pub value: String,
    /// What the key takes.
    pub rule: String,
}

/// What an engine does not take in.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Error)]
pub enum Invalid {
    /// A policy, a pool or a document, with every mistake there is.
    Settings {
        /// The mistakes.
        mistakes: Vec<Mistake>,
    },
    /// A saved state, or the words of a sketch, that are none.
    State {
        /// Why not.
        reason: String,
    },
    /// A number or a word that is out of its range.
    Argument {
        /// Which, what it is, and what it must be.
        reason: String,
    },
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Settings { mistakes } => {
                let lines = mistakes.iter().map(|it| format!("{} = {}: {}", it.key, it.value, it.rule));
                f.write_str(&lines.collect::<Vec<_>>().join("; "))
            }
            Self::State { reason } | Self::Argument { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for Invalid {}

impl Invalid {
    pub(crate) fn settings(errors: &[PolicyError]) -> Self {
        let mistake = |error: &PolicyError| Mistake {
            key: error.key.clone(),
            value: error.value.clone(),
            rule: match error.line {
                Some(line) => format!("{} (line {line})", error.rule),
                None => error.rule.clone(),
            },
        };
        Self::Settings { mistakes: errors.iter().map(mistake).collect() }
    }

    pub(crate) fn clash(what: &str, clash: &Clash) -> Self {
        let mistake =
            Mistake { key: what.to_owned(), value: format!("{:?}", clash.name), rule: clash.rule.to_owned() };
        Self::Settings { mistakes: vec![mistake] }
    }
}

fn plain(pairs: &[Pair]) -> Vec<(&str, CoreValue<'_>)> {
    pairs.iter().map(|pair| (pair.key.as_str(), pair.value.plain())).collect()
}

pub(crate) fn pairs(of: Vec<(&str, CoreValue<'_>)>) -> Vec<Pair> {
    of.into_iter().map(|(key, value)| Pair { key: key.to_owned(), value: Value::of(value) }).collect()
}

pub(crate) fn checked(name: &str, given: &[Pair]) -> Result<Policy, Invalid> {
    Policy::from_pairs(name, &plain(given)).map_err(|errors| Invalid::settings(&errors))
}

pub(crate) fn checked_pool(name: &str, kind: &str, given: &[Pair]) -> Result<Pool, Invalid> {
    let kinds = PoolKind::ALL;
    let Some(kind) = kinds.into_iter().find(|known| known.name() == kind) else {
        let names = kinds.map(PoolKind::name).join(", ");
        return Err(Invalid::Argument { reason: format!("kind = {kind:?}: must be one of {names}") });
    };
    Pool::from_pairs(name, kind, &plain(given)).map_err(|errors| Invalid::settings(&errors))
}
