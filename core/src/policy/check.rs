//! The validator: takes pairs, and returns a policy or all mistakes.

use std::collections::BTreeMap as Map;
use std::fmt;

use super::components::TABLE;
use super::domain::{CLASSES, Stored, is_name, parse};
use super::keys::Domain;
use super::whole::{self, unknown_key};
use super::{Policy, presets};
use crate::classify::Methods;
use crate::full::{Name, Rare, Switch};
use crate::outcome::Class;
use crate::text;
use crate::time::Duration;

/// A value of a pair. Flags are the numbers 0 and 1, spans are microseconds, `none` is the text `none`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// A number.
    Number(f64),
    /// A word.
    Text(&'a str),
}

/// One mistake in a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    /// The key, dotted.
    pub key: String,
    /// The value, as the validator understood it.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
    /// Its line in the document, from 1; absent without a document.
    pub line: Option<u32>,
}

impl PolicyError {
    pub(super) fn new(key: impl Into<String>, value: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into(), rule: rule.into(), line: None }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{} = {}: {}", self.key, self.value, self.rule)
    }
}

impl std::error::Error for PolicyError {}

/// Longest word or name. A longer one is a mistake, and errors show only its beginning.
pub(super) const LONGEST: usize = 100;

/// A pair for the validator, from any source.
pub(super) struct Pair<'a> {
    pub key: &'a str,
    /// The value, or the rule that it broke before validation. A key with a wrong value still counts as given.
    pub value: Result<Value<'a>, String>,
    /// The value as written, if known.
    pub written: Option<&'a str>,
    pub line: Option<u32>,
}

pub(super) fn build(name: &str, pairs: &[(&str, Value<'_>)]) -> Result<Policy, Vec<PolicyError>> {
    let pairs = pairs.iter().map(|(key, value)| Pair { key, value: Ok(*value), written: None, line: None });
    build_written(name, Switch::default(), pairs)
}

/// Builds a policy from pairs that carry their spelling and line; `of_pool` if it is the one component of a pool.
pub(super) fn build_written<'a>(
    name: &str,
    of_pool: Switch,
    pairs: impl Iterator<Item = Pair<'a>>,
) -> Result<Policy, Vec<PolicyError>> {
    let mut errors = Vec::new();
    if !is_name(name) {
        let rule = ["a name has 1 to ", &text::whole(LONGEST as u64), " bytes and no control characters"];
        errors.push(PolicyError::new("policy", quoted(name), text::of(&rule)));
    }
    let (settings, mut more) = settings(of_pool, pairs);
    errors.append(&mut more);
    if errors.is_empty() { Ok(settings.policy(name)) } else { Err(errors) }
}

/// The checked settings of pairs, and the mistakes in them.
fn settings<'a>(of_pool: Switch, pairs: impl Iterator<Item = Pair<'a>>) -> (Settings, Vec<PolicyError>) {
    let pairs: Vec<_> = pairs.collect();
    let mut errors = Vec::new();
    let mut given = Settings { kinds: whole::declared(&pairs), ..Settings::default() };
    for pair in pairs {
        let added = match pair.value {
            Ok(value) => given.add(pair.key, value),
            Err(rule) => Err(given.add_wrong(pair.key, rule)),
        };
        if let Err(error) = added {
            let value = pair.written.map_or(error.value, clipped);
            errors.push(PolicyError { value, line: pair.line, ..error });
        }
    }
    let mut settings = Settings { kinds: given.kinds.clone(), of_pool, ..Settings::default() };
    if let Some(Stored::Word(preset)) = given.values.get("preset").and_then(|v| v.first()) {
        for (key, value) in presets::pairs(preset).iter().filter(|(key, _)| !whole::gives_way(key, &given)) {
            settings.add(key, *value).expect("presets are valid: a test builds each");
        }
    }
    // The keys of a named pool replace those of the preset.
    settings.values.retain(|key, _| given.pool_of(key).is_none());
    settings.preset = whole::of_preset(&settings, &given);
    for (key, values) in given.values {
        settings.values.insert(key, values);
    }
    // A key that is wrong by itself is not checked against others.
    let mut across = settings.across();
    // A policy with other mistakes is not reported as empty.
    let empty = |error: &PolicyError| error.key == "policy";
    across.retain(|error| errors.iter().all(|own| own.key != error.key && !empty(error)));
    errors.append(&mut across);
    (settings, errors)
}

/// Checked values by key; lists hold several.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) values: Map<&'static str, Vec<Stored>>,
    /// The names that `kinds` declares, then those that `retry.read_errors` adds.
    pub(super) kinds: Vec<Name>,
    /// The keys that come from the preset alone.
    pub(super) preset: Option<Rare<Vec<&'static str>>>,
    /// Whether they are those of a pool.
    pub(super) of_pool: Switch,
}

impl Settings {
    fn add(&mut self, path: &str, value: Value<'_>) -> Result<(), PolicyError> {
        let Some(key) = TABLE.iter().find(|key| key.path == path) else {
            return Err(PolicyError::new(clipped(path), shown(value, false), unknown_key(path)));
        };
        let is_span = matches!(key.domain, Domain::Span { .. });
        let fail = |rule: String| PolicyError::new(path, shown(value, is_span), rule);
        // A key whose value is wrong still counts as given: it must not be reported as absent too.
        let stored = parse(key, value, &self.kinds);
        let values = self.slot(key.path);
        let stored = stored.map_err(fail)?;
        if !values.is_empty() && !key.domain.is_list() {
            return Err(fail("is given more than once".into()));
        }
        values.push(stored);
        Ok(())
    }

    /// Where the values of a key go.
    fn slot(&mut self, path: &'static str) -> &mut Vec<Stored> {
        if !self.values.contains_key(path) {
            self.values.insert(path, Vec::new());
        }
        self.values.get_mut(path).expect("it has just been put in")
    }

    /// Records a value that was found wrong before validation; its key counts as given.
    fn add_wrong(&mut self, path: &str, rule: String) -> PolicyError {
        if let Some(key) = TABLE.iter().find(|key| key.path == path) {
            self.slot(key.path);
        }
        PolicyError::new(clipped(path), "", rule)
    }

    pub(super) fn uses(&self, component: &str) -> bool {
        self.values.keys().any(|key| key.starts_with(component))
    }

    pub(super) fn given(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    /// The value of a key as an error shows it.
    pub(super) fn shown_value(&self, path: &str) -> String {
        match self.stored(path) {
            Some(Stored::Span(Duration::MAX) | Stored::Whole(u32::MAX)) => "none".into(),
            Some(Stored::Span(span)) => span.text(),
            Some(Stored::Whole(n)) => text::whole(n.into()),
            Some(Stored::Real(x)) => text::real(x),
            Some(Stored::Flag(on)) => if on { "true" } else { "false" }.into(),
            Some(Stored::Word(word)) => word.into(),
            Some(Stored::Name(name)) => String::from(&*name),
            None => "(absent)".into(),
        }
    }

    /// A set of kinds as a bit mask by their numbers on the wire. With `based`, a class includes the kinds based on
    /// it.
    pub(super) fn mask(&self, path: &str, based: bool) -> u32 {
        let mut set = 0_u32;
        for value in self.list(path) {
            let Stored::Word(word) = value else { continue };
            for class in CLASSES.iter().filter(|known| known.0 == word).flat_map(|known| known.1) {
                set |= 1 << *class as u32;
            }
        }
        let (kinds, classes) = (self.kinds(), set);
        for number in Class::ALL.len()..32 {
            // An undeclared number is permanent.
            let class = kinds.get(number - Class::ALL.len()).map_or(Class::Permanent, |kind| kind.1);
            if based && classes >> class as u32 & 1 != 0 {
                set |= 1 << number;
            }
        }
        for (name, _) in self.named(path) {
            let place = kinds.iter().position(|kind| kind.0 == name);
            set |= place.map_or(0, |place| 1 << (Class::ALL.len() + place));
        }
        set
    }

    /// The texts of a list of names.
    pub(super) fn texts(&self, path: &str) -> Vec<Name> {
        let values = self.values.get(path).map_or(&[][..], Vec::as_slice);
        let text = |value: &Stored| if let Stored::Name(text) = value { Some(text.clone()) } else { None };
        values.iter().filter_map(text).collect()
    }

    /// The value of a key, or its default, spelled as in a document.
    pub(super) fn stored(&self, path: &str) -> Option<Stored> {
        if let Some(value) = self.values.get(path).and_then(|values| values.first()) {
            return Some(value.clone());
        }
        TABLE.iter().find(|key| key.path == path)?.default_value()
    }

    pub(super) fn span(&self, path: &str) -> Duration {
        match self.stored(path) {
            Some(Stored::Span(span)) => span,
            _ => Duration::ZERO,
        }
    }

    pub(super) fn span_or_none(&self, path: &str) -> Duration {
        if self.given(path) { self.span(path) } else { Duration::MAX }
    }

    pub(super) fn whole(&self, path: &str) -> u32 {
        match self.stored(path) {
            Some(Stored::Whole(n)) => n,
            _ => 0,
        }
    }

    pub(super) fn real(&self, path: &str) -> f64 {
        match self.stored(path) {
            Some(Stored::Real(x)) => x,
            _ => 0.0,
        }
    }

    pub(super) fn flag(&self, path: &str) -> bool {
        matches!(self.stored(path), Some(Stored::Flag(true)))
    }

    pub(super) fn word(&self, path: &str) -> &'static str {
        match self.stored(path) {
            Some(Stored::Word(word)) => word,
            _ => "",
        }
    }

    /// The values of a list, or of its default, whose words are separated by blanks.
    fn list(&self, path: &str) -> Vec<Stored> {
        if let Some(values) = self.values.get(path) {
            return values.clone();
        }
        let Some(key) = TABLE.iter().find(|key| key.path == path) else { return Vec::new() };
        let (mut list, mut rest) = (Vec::new(), key.default);
        while !rest.is_empty() {
            let end = rest.bytes().position(|c| c == b' ').unwrap_or(rest.len());
            let word = &rest[..end];
            let value = text::decimal(word).map_or(Value::Text(word), Value::Number);
            list.extend(parse(key, value, &[]));
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        list
    }

    pub(super) fn methods(&self, path: &str) -> Methods {
        let mut methods = Methods::default();
        for value in self.list(path) {
            if let Stored::Word(word) = value {
                methods = methods.with(word);
            }
        }
        methods
    }

    /// The statuses of a list, in order, without duplicates.
    pub(super) fn statuses(&self, path: &str) -> Vec<u16> {
        let mut all = Vec::new();
        for value in self.list(path) {
            if let Stored::Whole(status) = value
                && let Err(place) = all.binary_search(&(status as u16))
            {
                all.insert(place, status as u16);
            }
        }
        all
    }
}

/// A value in its writer's spelling.
pub(super) fn shown(value: Value<'_>, is_span: bool) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Number(n) if is_span => text::real(n / 1e6) + "s",
        Value::Number(n) => text::real(n),
    }
}

pub(super) fn quoted(text: &str) -> String {
    text::quoted(&clipped(text))
}

pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => text::of(&[&text[..end], "…"]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Key;

    fn errors(pairs: &[(&str, Value<'_>)]) -> Vec<String> {
        build("p", pairs).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_default_in_the_table_passes_its_own_domain() {
        let of_its_own = |key: &&Key| TABLE.iter().all(|other| other.path != key.default);
        for key in TABLE.iter().filter(|key| !key.default.is_empty()).filter(of_its_own) {
            let found = if key.domain.is_list() {
                !Settings::default().list(key.path).is_empty()
            } else {
                Settings::default().stored(key.path).is_some()
            };
            assert!(found, "{} = {}", key.path, key.default);
        }
    }

    #[test]
    fn every_preset_builds() {
        for name in presets::NAMES {
            let policy = build(name, &[("preset", Value::Text(name))]).unwrap();
            assert_eq!(policy.name(), *name);
        }
    }

    #[test]
    fn pairs_override_a_preset_whatever_their_order() {
        let policy =
            build("p", &[("deadline", Value::Number(1e6)), ("preset", Value::Text("http"))]).unwrap();
        assert_eq!(policy.deadline, Duration::from_secs(1));
        assert_eq!(policy.retry.max_retry_after, Duration::from_secs(60));
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let found = errors(&[
            ("retry.max_attempts", Value::Number(256.0)),
            ("retry.backoff.base", Value::Number(-1.0)),
            ("retry.budget.ttl", Value::Number(f64::NAN)),
            ("bulkhead.max_queue", Value::Text("lots")),
            ("no.such", Value::Number(1.0)),
        ]);
        assert_eq!(found.len(), 6, "{found:#?}");
        assert_eq!(found[0], "retry.max_attempts = 256: must be a whole number from 1 to 255");
        assert_eq!(found[1], "retry.backoff.base = -0.000001s: must be a span from 0s to 365 days");
        assert!(found[2].starts_with("retry.budget.ttl = NaNs: must be a span from 10us"));
        assert_eq!(
            found[3],
            "bulkhead.max_queue = \"lots\": must be a whole number from 0 to 10000000, or none"
        );
        assert!(found[4].starts_with("no.such = 1: no such key; the keys are preset, deadline"));
        assert_eq!(
            found[5],
            "bulkhead.max_concurrency = (absent): is required where there is a bulkhead, or bulkhead.pool"
        );
    }

    #[test]
    fn what_can_never_be_retried_is_no_class_to_retry_on() {
        let found = errors(&[("retry.retry_on", Value::Text("permanent"))]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("retry.retry_on = \"permanent\": must be one of transient, throttled"));
    }

    #[test]
    fn a_default_that_is_another_keys_value_names_a_key_of_the_same_sort() {
        for key in TABLE {
            let Some(other) = TABLE.iter().find(|other| other.path == key.default) else { continue };
            assert_eq!(
                std::mem::discriminant(&key.domain),
                std::mem::discriminant(&other.domain),
                "{} = {}",
                key.path,
                key.default
            );
        }
    }

    #[test]
    fn a_policy_without_retry_makes_one_attempt() {
        let policy = build("p", &[("deadline", Value::Number(1e6))]).unwrap();
        assert_eq!(policy.retry.max_attempts, 1);
    }
}
