//! Domains of keys: checks a value against its key's domain, and returns the rule that it breaks.

use super::check::{LONGEST, Value};
use super::components::limit;
use super::keys::{Domain, Key};
use super::{span, whole};
use crate::full::{Full, Name};
use crate::outcome::Class;
use crate::text;
use crate::time::Duration;

/// The largest share of a key.
const MOST_SHARE: u32 = 1_000;

/// A value that its key's domain accepts.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Stored {
    Span(Duration),
    Whole(u32),
    Real(f64),
    Flag(bool),
    Word(&'static str),
    /// A name that the policy's author chose.
    Name(Name),
}

/// The most kinds of failure that a policy can declare: numbers 9 to 31 on the wire.
pub(super) const MOST_KINDS: usize = 23;

/// A kind of failure that a policy declares: its name and its base class.
pub(super) fn kind(text: &str) -> Option<(&str, Class)> {
    let (name, class) = text.split_once('=')?;
    let class = BASES.iter().find(|base| base.0 == class)?.1;
    (is_short_name(name) && ALL_CLASS_NAMES.iter().chain(&["ok", "cancelled"]).all(|word| *word != name))
        .then_some((name, class))
}

/// Whether this can be the name of a kind, a limit or a weight.
pub(super) fn is_short_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 50
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

impl Key {
    /// The rule of the key's domain, as an error shows it: "must be …".
    pub fn rule(&self) -> String {
        parse(self, Value::Text(""), &[]).err().unwrap_or_default()
    }

    /// Its default as the value of a pair; `None` if the default comes from another key, or is a list.
    ///
    /// ```
    /// use tidegate::{TABLE, Value};
    /// let default = |path| TABLE.iter().find(|key| key.path == path).unwrap().default_pair();
    /// assert_eq!(default("retry.max_attempts"), Some(Value::Number(3.0)));
    /// assert_eq!(default("rate_limit.unit"), Some(Value::Text("call")));
    /// assert_eq!(default("rate_limit.burst"), None, "that of rate_limit.permits");
    /// assert_eq!(default("deadline"), None);
    /// ```
    pub fn default_pair(&self) -> Option<Value<'static>> {
        self.default_value().and_then(Stored::settled)
    }

    /// Its default; `None` if it comes from another key, or is a list.
    pub(super) fn default_value(&self) -> Option<Stored> {
        let value = match self.domain {
            Domain::Span { .. } => Value::Number(span::parse(self.default).ok()? as f64),
            Domain::Flag => Value::Number(f64::from(u8::from(self.default == "true"))),
            Domain::Count { .. } | Domain::Real { .. } => Value::Number(text::decimal(self.default)?),
            _ => Value::Text(self.default),
        };
        parse(self, value, &[]).ok()
    }
}

/// Checks a value against its key's domain; `kinds` holds the names that the policy declares. The error is the rule.
#[allow(clippy::float_cmp)] // whole numbers are exactly whole, flags exactly 0 or 1
pub(super) fn parse(key: &Key, value: Value<'_>, kinds: &[Name]) -> Result<Stored, String> {
    match key.domain {
        Domain::Span { min, max, none } => match value {
            Value::Text("none") if none => Ok(Stored::Span(Duration::MAX)),
            Value::Number(n) if n >= min.as_micros() as f64 && n <= max.as_micros() as f64 => {
                Ok(Stored::Span(Duration::from_micros(n as u64)))
            }
            _ => {
                let days = text::whole(max.as_micros() / 86_400_000_000) + " days";
                Err(between("must be a span from ", &min.text(), &days, none))
            }
        },
        Domain::Count { min, max, none } => match value {
            Value::Text("none") if none => Ok(Stored::Whole(u32::MAX)),
            Value::Number(n) if n >= f64::from(min) && n <= f64::from(max) && n.fract() == 0.0 => {
                Ok(Stored::Whole(n as u32))
            }
            _ => {
                let (min, max) = (text::whole(min.into()), text::whole(max.into()));
                Err(between("must be a whole number from ", &min, &max, none))
            }
        },
        Domain::Real { min, max, none } => match value {
            Value::Text("none") if none => Ok(Stored::Real(f64::INFINITY)),
            Value::Number(n) if n >= min && n <= max => Ok(Stored::Real(n)),
            _ => {
                let (min, max) = (text::real(min), text::real(max));
                Err(between("must be a finite number from ", &min, &max, none))
            }
        },
        Domain::Flag => match value {
            Value::Number(n) if n == 0.0 || n == 1.0 => Ok(Stored::Flag(n == 1.0)),
            _ => Err("must be true or false".into()),
        },
        Domain::Choice(words) => one_of(words, value)
            .ok_or_else(|| text::of(&["must be one of ", &text::joined(words, ", "), whole::MAYBE_MORE])),
        Domain::Words(words) => {
            one_of(words, value).ok_or_else(|| text::of(&["must be one of ", &text::joined(words, ", ")]))
        }
        Domain::KindWords(words) => {
            let stored = one_of(words, value).or_else(|| match value {
                Value::Text(name) => {
                    kinds.iter().find(|kind| ***kind == *name).map(|kind| Stored::Name(kind.clone()))
                }
                Value::Number(_) => None,
            });
            stored.ok_or_else(|| {
                let mut names = words.to_vec();
                names.extend(kinds.iter().map(|kind| &**kind));
                text::of(&["must be one of ", &text::joined(&names, ", "), whole::or_declared(kinds)])
            })
        }
        Domain::Statuses => match value {
            Value::Number(n) if whole::is_retriable(n) => Ok(Stored::Whole(n as u32)),
            _ => Err(whole::STATUSES.into()),
        },
        Domain::Kinds => match (value, Full::here()) {
            (Value::Text(text), Some(full)) if kind(text).is_some() => {
                Ok(Stored::Name(Name::new(text, full)))
            }
            (_, None) => Err(String::new()), // a small engine has no such keys
            _ => {
                let classes: Vec<_> = BASES.iter().map(|base| base.0).collect();
                let rule =
                    "must be name=class: a name of a to z, 0 to 9 and _ that no class has, and one of ";
                Err(text::of(&[rule, &text::joined(&classes, ", ")]))
            }
        },
        Domain::Limits => match (value, Full::here()) {
            (_, None) => Err(String::new()),
            (Value::Text(text), Some(full)) => {
                limit(text).map(|it| Stored::Name(Name::new(&it.text(), full)))
            }
            _ => limit("").map(|_| Stored::Flag(false)),
        },
        Domain::Shares => match (value, Full::here()) {
            (_, None) => Err(String::new()),
            (Value::Text(text), Some(full)) => share(text).map(|(key, share)| {
                let text = text::of(&[key, "=", &text::whole(share.into())]);
                Stored::Name(Name::new(&text, full))
            }),
            _ => share("").map(|_| Stored::Flag(false)),
        },
        Domain::Name => match (value, Full::here()) {
            (Value::Text(text), Some(full)) if is_name(text) => Ok(Stored::Name(Name::new(text, full))),
            (_, None) => Err(String::new()),
            _ => {
                let longest = text::whole(LONGEST as u64);
                Err(text::of(&["must be a name of 1 to ", &longest, " bytes without control characters"]))
            }
        },
    }
}

/// One of these words.
fn one_of(words: &[&'static str], value: Value<'_>) -> Option<Stored> {
    let Value::Text(text) = value else { return None };
    words.iter().find(|word| **word == text).map(|word| Stored::Word(word))
}

/// Whether this can be the name of a policy or a pool.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)
}

/// Reads the share of a key, `key=share`; the error is the rule that it breaks.
pub(super) fn share(text: &str) -> Result<(&str, u32), String> {
    let rule = "must be key=share: a route key of 1 to 100 bytes without control characters, and a whole number from 1 to ";
    let rule = || text::of(&[rule, &text::whole(MOST_SHARE.into())]);
    // A key may have the sign too.
    let (key, share) = text.rsplit_once('=').ok_or_else(rule)?;
    let digits = share.bytes().all(|c| c.is_ascii_digit());
    match share.parse() {
        Ok(share) if digits && is_name(key) && (1..=MOST_SHARE).contains(&share) => Ok((key, share)),
        _ => Err(rule()),
    }
}

/// The rule of a range.
fn between(must: &str, min: &str, max: &str, none: bool) -> String {
    text::of(&[must, min, " to ", max, if none { ", or none" } else { "" }])
}

/// The words of `retry_on`: without classes that can never be retried.
pub(super) const CLASS_NAMES: &[&str] =
    &["transient", "throttled", "timeout", "never_sent", "conflict", "infrastructure", "concurrency"];

/// The words of `failure_on` and `ignore_on`.
pub(super) const ALL_CLASS_NAMES: &[&str] = &[
    "transient",
    "throttled",
    "timeout",
    "never_sent",
    "conflict",
    "permanent",
    "ignored",
    "infrastructure",
    "concurrency",
];

/// The classes on which a declared kind can be based.
const BASES: &[(&str, Class)] = &[
    ("transient", Class::Transient),
    ("throttled", Class::Throttled),
    ("timeout", Class::Timeout),
    ("never_sent", Class::NeverSent),
    ("conflict", Class::Conflict),
    ("permanent", Class::Permanent),
    ("ignored", Class::Ignored),
];

/// The classes that each word includes.
pub(super) const CLASSES: &[(&str, &[Class])] = &[
    ("transient", &[Class::Transient]),
    ("throttled", &[Class::Throttled]),
    ("timeout", &[Class::Timeout]),
    ("never_sent", &[Class::NeverSent]),
    ("conflict", &[Class::Conflict]),
    ("infrastructure", &[Class::Transient, Class::NeverSent]),
    ("concurrency", &[Class::Conflict]),
    ("permanent", &[Class::Permanent]),
    ("ignored", &[Class::Ignored]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_retry_on_stands_for_classes_that_can_be_retried() {
        let known = |name: &&str| CLASSES.iter().find(|known| known.0 == *name).unwrap().1;
        assert!(CLASS_NAMES.iter().flat_map(known).all(|class| class.retryable()));
        assert_eq!(ALL_CLASS_NAMES.iter().flat_map(known).count(), 10);
    }
}
