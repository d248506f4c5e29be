//! What values a key takes: a value that is checked against its key's domain, or the rule that it breaks.

use std::fmt;

use super::check::Value;
use super::span;
use super::table::{Domain, Key};
use crate::outcome::Class;
use crate::time::Duration;

/// A value that has passed its key's domain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Stored {
    Span(Duration),
    Whole(u32),
    Real(f64),
    Flag(bool),
    Word(&'static str),
}

impl Key {
    /// The rule of the key's domain, as an error tells it: "must be …".
    pub fn rule(&self) -> String {
        parse(self, Value::Text("")).err().unwrap_or_default()
    }

    /// Its default, where it has one of its own and is no list.
    pub(super) fn default_value(&self) -> Option<Stored> {
        let value = match self.domain {
            Domain::Span { .. } => Value::Number(span::parse(self.default).ok()? as f64),
            Domain::Flag => Value::Number(f64::from(u8::from(self.default == "true"))),
            Domain::Count { .. } | Domain::Real { .. } => Value::Number(self.default.parse().ok()?),
            _ => Value::Text(self.default),
        };
        parse(self, value).ok()
    }
}

/// A value checked against its key's domain; the error is the rule.
#[allow(clippy::float_cmp)] // whole numbers are exactly whole, flags exactly 0 or 1
pub(super) fn parse(key: &Key, value: Value<'_>) -> Result<Stored, String> {
    match key.domain {
        Domain::Span { min, max, none } => match value {
            Value::Text("none") if none => Ok(Stored::Span(Duration::MAX)),
            Value::Number(n) if n >= min.as_micros() as f64 && n <= max.as_micros() as f64 => {
                Ok(Stored::Span(Duration::from_micros(n as u64)))
            }
            _ => Err(format!(
                "must be a span from {min} to {}{}",
                Days(max),
                if none { ", or none" } else { "" }
            )),
        },
        Domain::Count { min, max, none } => match value {
            Value::Text("none") if none => Ok(Stored::Whole(u32::MAX)),
            Value::Number(n) if n >= f64::from(min) && n <= f64::from(max) && n.fract() == 0.0 => {
                Ok(Stored::Whole(n as u32))
            }
            _ => Err(format!(
                "must be a whole number from {min} to {max}{}",
                if none { ", or none" } else { "" }
            )),
        },
        Domain::Real { min, max } => match value {
            Value::Number(n) if n >= min && n <= max => Ok(Stored::Real(n)),
            _ => Err(format!("must be a finite number from {min} to {max}")),
        },
        Domain::Flag => match value {
            Value::Number(n) if n == 0.0 || n == 1.0 => Ok(Stored::Flag(n == 1.0)),
            _ => Err("must be true or false".into()),
        },
        Domain::Choice(words) => match value {
            Value::Text(text) => words.iter().find(|word| **word == text).map(|word| Stored::Word(word)),
            Value::Number(_) => None,
        }
        .ok_or_else(|| format!("must be one of {}", words.join(", "))),
        Domain::Statuses => match value {
            Value::Number(n) if (500.0..=599.0).contains(&n) && n.fract() == 0.0 => {
                Ok(Stored::Whole(n as u32))
            }
            Value::Number(n) if n == 408.0 || n == 429.0 => Ok(Stored::Whole(n as u32)),
            _ => Err("must be a status that can be retried: 408, 429 or 500 to 599".into()),
        },
        Domain::Words(words) => match value {
            Value::Text(text) => words.iter().find(|word| **word == text).map(|word| Stored::Word(word)),
            Value::Number(_) => None,
        }
        .ok_or_else(|| format!("must be one of {}", words.join(", "))),
    }
}

/// Whole days, for bounds.
struct Days(Duration);

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} days", self.0.as_micros() / 86_400_000_000)
    }
}

/// The words of `retry_on`: what can never be retried is not among them.
pub(super) const CLASS_NAMES: &[&str] =
    &["transient", "throttled", "timeout", "never_sent", "conflict", "infrastructure", "concurrency"];

/// The classes that each of them stands for.
pub(super) const CLASSES: &[(&str, &[Class])] = &[
    ("transient", &[Class::Transient]),
    ("throttled", &[Class::Throttled]),
    ("timeout", &[Class::Timeout]),
    ("never_sent", &[Class::NeverSent]),
    ("conflict", &[Class::Conflict]),
    ("infrastructure", &[Class::Transient, Class::NeverSent]),
    ("concurrency", &[Class::Conflict]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_retry_on_stands_for_classes_that_can_be_retried() {
        assert_eq!(CLASS_NAMES, CLASSES.iter().map(|known| known.0).collect::<Vec<_>>());
        assert!(CLASSES.iter().flat_map(|known| known.1).all(|class| class.retryable()));
    }
}
