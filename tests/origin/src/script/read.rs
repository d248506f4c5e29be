//! Reads JSON so that every mistake is reported in one sentence: the key, its value, the rule.

use serde_json::{Map, Value};
use std::fmt;

/// The reason why a script was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The place in the script, such as `phases[0].error_rate`; empty for the script as a whole.
    pub key: String,
    /// The value there, as JSON, shortened.
    pub value: String,
    /// The allowed values.
    pub rule: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.key.is_empty() { "script" } else { &self.key };
        write!(f, "{key} = {}: {}", self.value, self.rule)
    }
}

impl std::error::Error for ScriptError {}

/// Names `key`, `value` and `rule` in an error.
pub(crate) fn refuse(key: &str, value: &Value, rule: impl Into<String>) -> ScriptError {
    const SHOWN: usize = 80;
    let mut shown = value.to_string();
    if shown.chars().count() > SHOWN {
        shown = shown.chars().take(SHOWN).collect::<String>() + "…";
    }
    ScriptError { key: key.to_owned(), value: shown, rule: rule.into() }
}

/// A value with its place in the script.
#[derive(Clone)]
pub(crate) struct Item<'a> {
    pub key: String,
    pub value: &'a Value,
}

impl<'a> Item<'a> {
    pub(crate) fn refuse(&self, rule: impl Into<String>) -> ScriptError {
        refuse(&self.key, self.value, rule)
    }

    /// This value as an object with no keys except `known`.
    pub(crate) fn object(&self, known: &[&str]) -> Result<Object<'a>, ScriptError> {
        let Value::Object(map) = self.value else { return Err(self.refuse("must be an object")) };
        let object = Object { key: self.key.clone(), map };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(refuse(
                &object.key_of(key),
                &map[key],
                format!("unknown key; known here: {}", known.join(", ")),
            )),
            None => Ok(object),
        }
    }

    /// This value as a list.
    pub(crate) fn list(&self) -> Result<Vec<Item<'a>>, ScriptError> {
        let Value::Array(list) = self.value else { return Err(self.refuse("must be a list")) };
        Ok(list
            .iter()
            .enumerate()
            .map(|(i, value)| Item { key: format!("{}[{i}]", self.key), value })
            .collect())
    }

    /// This value as a number in `from..=to`.
    pub(crate) fn number(&self, from: f64, to: f64) -> Result<f64, ScriptError> {
        self.value
            .as_f64()
            .filter(|n| (from..=to).contains(n))
            .ok_or_else(|| self.refuse(format!("must be a number from {from} to {to}")))
    }

    /// This value as a string.
    pub(crate) fn text(&self) -> Result<&'a str, ScriptError> {
        self.value.as_str().ok_or_else(|| self.refuse("must be a string"))
    }
}

/// An object with its place in the script. A key that is `null` counts as absent.
pub(crate) struct Object<'a> {
    key: String,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    pub(crate) fn item(&self, key: &str) -> Option<Item<'a>> {
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        Some(Item { key: self.key_of(key), value })
    }

    /// All entries, for objects whose keys are data (`sequences`, `headers`).
    pub(crate) fn items(map: &'a Map<String, Value>, key: &str) -> Vec<(&'a str, Item<'a>)> {
        map.iter()
            .map(|(name, value)| (name.as_str(), Item { key: format!("{key}[{name:?}]"), value }))
            .collect()
    }

    pub(crate) fn number(&self, key: &str, from: f64, to: f64) -> Result<Option<f64>, ScriptError> {
        self.item(key).map(|item| item.number(from, to)).transpose()
    }

    pub(crate) fn integer(&self, key: &str, from: u64, to: u64) -> Result<Option<u64>, ScriptError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let number = item.value.as_u64().filter(|n| (from..=to).contains(n));
        number.map(Some).ok_or_else(|| item.refuse(format!("must be a whole number from {from} to {to}")))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, ScriptError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        item.value.as_bool().map(Some).ok_or_else(|| item.refuse("must be true or false"))
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, ScriptError> {
        self.item(key).map(|item| item.text()).transpose()
    }

    pub(crate) fn list(&self, key: &str) -> Result<Vec<Item<'a>>, ScriptError> {
        self.item(key).map_or(Ok(Vec::new()), |item| item.list())
    }

    /// The span `from..until` in seconds of the script clock; without `until` it never ends.
    pub(crate) fn window(&self) -> Result<(f64, f64), ScriptError> {
        const LONGEST: f64 = 1e9;
        let from = self.number("from", 0.0, LONGEST)?.unwrap_or(0.0);
        let until = self.number("until", 0.0, LONGEST)?;
        match self.item("until") {
            Some(item) if until.is_some_and(|until| until <= from) => {
                Err(item.refuse(format!("must be later than from ({from})")))
            }
            _ => Ok((from, until.unwrap_or(f64::INFINITY))),
        }
    }

    fn key_of(&self, key: &str) -> String {
        if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) }
    }
}
