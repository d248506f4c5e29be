//! What the table says, put together; and what only the validator knows: which keys are required, and where.

use tidegate::{Domain, Key, Policy, TABLE, TABLES, Value};

/// The table that a key stands in; empty for the policy itself.
pub fn table_of(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(table, _)| table)
}

/// The last part of a path.
pub fn name_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The keys of a table, those of the tables within it left out.
pub fn keys_of(table: &str) -> impl Iterator<Item = &'static Key> {
    TABLE.iter().filter(move |key| table_of(key.path) == table)
}

/// The tables within a table, with what they are about.
pub fn tables_of(table: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    TABLES.iter().filter(move |(path, _)| table_of(path) == table)
}

/// The key that this one's default is taken from, if it is another's value.
pub fn default_key(key: &Key) -> Option<&'static Key> {
    TABLE.iter().find(|other| other.path == key.default)
}

/// The names of the presets.
pub fn presets() -> &'static [&'static str] {
    match TABLE.iter().find(|key| key.path == "preset").map(|key| key.domain) {
        Some(Domain::Choice(names)) => names,
        _ => &[],
    }
}

/// Does a preset set a key of this table, or this key?
pub fn preset_sets(path: &str) -> bool {
    let below = |key: &str| key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    presets().iter().any(|preset| Policy::preset(preset).iter().any(|(key, _)| below(key)))
}

/// A key that has to be given.
pub struct Required {
    pub path: &'static str,
    /// The choice that makes it so, as key and value; none where its table alone does.
    pub by: Option<(&'static str, &'static str)>,
}

/// All keys that have to be given, found by leaving them out and reading the errors.
pub fn required() -> Vec<Required> {
    let mut found: Vec<Required> = Vec::new();
    let mut ask = |pair: (&'static str, Value<'static>), by| {
        for error in Policy::from_pairs("p", &[pair]).err().unwrap_or_default() {
            let key = TABLE.iter().find(|key| key.path == error.key && error.value == "(absent)");
            if let Some(key) = key
                && found.iter().all(|other| (other.path, other.by.or(by)) != (key.path, by))
            {
                found.push(Required { path: key.path, by });
            }
        }
    };
    for (table, _) in TABLES {
        // Whatever key of the table is there, the table is.
        if let Some(key) = keys_of(table).find(|key| !key.default.is_empty()) {
            let value = key.default.parse().map_or(Value::Text(key.default), Value::Number);
            ask((key.path, value), None);
        }
    }
    for key in TABLE {
        if let Domain::Choice(choices) = key.domain {
            for choice in choices {
                ask((key.path, Value::Text(choice)), Some((key.path, *choice)));
            }
        }
    }
    found
}

/// What is so where the key is left out, for people: a default, `off`, or that it must not be.
pub fn when_absent(key: &Key, required: &[Required]) -> String {
    if let Some(other) = default_key(key) {
        return format!("that of `{}`", other.path);
    }
    if !key.default.is_empty() {
        let mono = |word: &str| format!("`{word}`");
        return key.default.split(' ').map(mono).collect::<Vec<_>>().join(", ");
    }
    let rules: Vec<_> = required.iter().filter(|rule| rule.path == key.path).collect();
    match rules[..] {
        [] if key.path == "preset" => "none".into(),
        [] => "off".into(),
        _ => {
            let mut words: Vec<_> = rules
                .iter()
                .map(|rule| match rule.by {
                    Some((_, choice)) => format!("with `{choice}`"),
                    None => String::new(),
                })
                .collect();
            words.dedup();
            format!("required {}", words.join(" and ")).trim_end().into()
        }
    }
}

/// The rule of a key without its "must be".
pub fn values(key: &Key) -> String {
    let rule = key.rule();
    rule.strip_prefix("must be ").map_or(rule.clone(), str::to_owned)
}
