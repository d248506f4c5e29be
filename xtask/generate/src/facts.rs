//! Facts derived from the table, and facts that only the validator knows: which keys are required, and where.

use tidegate::{Class, Domain, Key, Policy, Pool, PoolKind, TABLE, TABLES, Value};

/// The table to which a key belongs; empty for the policy itself.
pub fn table_of(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(table, _)| table)
}

/// The last part of a path.
pub fn name_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The keys of a table, without those of nested tables.
pub fn keys_of(table: &str) -> impl Iterator<Item = &'static Key> {
    TABLE.iter().filter(move |key| table_of(key.path) == table && !OF_DOCUMENTS.contains(&key.path))
}

/// The key that names a group of targets.
pub const TARGETS: &str = "targets";

/// Keys that mean something only beside a group. Groups are declared in documents, and so are the policies that name them:
/// typed options have no such key.
pub const OF_DOCUMENTS: [&str; 2] = [TARGETS, "retry.failover_on"];

/// The nested tables of a table, with their descriptions.
pub fn tables_of(table: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    TABLES.iter().filter(move |(path, _)| table_of(path) == table)
}

/// The key whose value is this key's default, if there is one.
pub fn default_key(key: &Key) -> Option<&'static Key> {
    TABLE.iter().find(|other| other.path == key.default)
}

/// The description of a table.
pub fn doc_of(table: &str) -> &'static str {
    TABLES.iter().find(|(path, _)| *path == table).map_or("", |(_, doc)| doc)
}

/// The words that a list of kinds may contain without declaring them.
pub fn words_for_kinds() -> &'static [&'static str] {
    let words = |key: &Key| match key.domain {
        Domain::KindWords(words) => Some(words),
        _ => None,
    };
    TABLE.iter().filter_map(words).max_by_key(|words| words.len()).unwrap_or_default()
}

/// The classes on which a declared kind can be based.
pub fn bases() -> Vec<&'static str> {
    let named = |word: &&&str| Class::ALL.iter().any(|class| class.name() == **word);
    words_for_kinds().iter().filter(named).copied().collect()
}

/// The names of the presets.
pub fn presets() -> &'static [&'static str] {
    match TABLE.iter().find(|key| key.path == "preset").map(|key| key.domain) {
        Some(Domain::Choice(names)) => names,
        _ => &[],
    }
}

/// Whether a preset sets this key, or a key of this table.
pub fn preset_sets(path: &str) -> bool {
    // What few presets set of these does not say that a policy with a preset has the component.
    if ["cooldown", "rate_limit"].contains(&path) {
        return false;
    }
    let below = |key: &str| key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    presets().iter().any(|preset| Policy::preset(preset).iter().any(|(key, _)| below(key)))
}

/// The tables in which presets set keys.
pub fn preset_tables() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(path, _)| *path).filter(|path| preset_sets(path))
}

/// The key that enables a component when all others are left out: its first key with a default of its own.
pub fn presence(table: &str) -> Option<(&'static str, Value<'static>)> {
    let below =
        TABLE.iter().filter(|key| key.path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')));
    let mut words_and_numbers = below.filter(|key| !matches!(key.domain, Domain::Span { .. } | Domain::Flag));
    words_and_numbers.find_map(|key| Some((key.path, key.default_pair()?)))
}

/// A valid value for the key.
pub fn sample(key: &Key) -> Value<'static> {
    if let Some(value) = key.default_pair() {
        return value;
    }
    match key.domain {
        Domain::Span { min, .. } => Value::Number(min.as_micros() as f64),
        Domain::Count { min, .. } => Value::Number(f64::from(min)),
        Domain::Real { min, .. } => Value::Number(min),
        Domain::Flag => Value::Number(0.0),
        Domain::Choice(words) | Domain::Words(words) | Domain::KindWords(words) => Value::Text(words[0]),
        Domain::Statuses => Value::Number(503.0),
        Domain::Kinds => Value::Text("x=transient"),
        Domain::Limits => Value::Text("x: permits=1 per=1s"),
        Domain::Shares => Value::Text("x=1"),
        Domain::Name => Value::Text("x"),
    }
}

/// A required key.
pub struct Required {
    pub path: &'static str,
    /// The reason why it is required; `None` if the presence of its table is the reason.
    pub by: Option<Reason>,
    /// The key that may be given instead.
    pub instead: Option<&'static str>,
    /// The key and its value with which it is not required.
    pub unless: Option<(&'static str, &'static str)>,
}

/// Why a key is required.
#[derive(Clone, Copy, PartialEq)]
pub enum Reason {
    /// This key has this value.
    Choice(&'static str, &'static str),
    /// This other key is present.
    Beside(&'static str),
}

/// The key of this path that is a choice, and the word among its choices.
fn choice_of(path: &str, word: &str) -> Option<(&'static str, &'static str)> {
    let key = TABLE.iter().find(|key| key.path == path)?;
    let Domain::Choice(choices) = key.domain else { return None };
    choices.iter().find(|choice| **choice == word).map(|choice| (key.path, *choice))
}

/// All required keys, found by leaving them out and reading the errors.
pub fn required() -> Vec<Required> {
    let mut found: Vec<Required> = Vec::new();
    let mut ask = |pair: (&'static str, Value<'static>), by: Option<Reason>| {
        for error in Policy::from_pairs("p", &[pair]).err().unwrap_or_default() {
            let key = |path: &str| TABLE.iter().find(|key| key.path == path).map(|key| key.path);
            let (rule, exception) = match error.rule.split_once(", unless ") {
                Some((rule, exception)) => (rule, exception.split_once(" is ")),
                None => (error.rule.as_str(), None),
            };
            let instead = rule.rsplit_once(", or ").and_then(|(_, path)| key(path));
            let unless = exception.and_then(|(path, word)| choice_of(path, word));
            let Some(path) = key(&error.key).filter(|_| error.value == "(absent)") else { continue };
            let says_so = match by {
                None => rule.contains("where there is a "),
                Some(Reason::Choice(key, choice)) => rule.ends_with(&format!("where {key} is {choice}")),
                Some(Reason::Beside(key)) => rule.ends_with(&format!("where there is {key}")),
            };
            if says_so && found.iter().all(|other| (other.path, other.by) != (path, by)) {
                found.push(Required { path, by, instead, unless });
            }
        }
    };
    for (table, _) in TABLES {
        // Any key of the table makes the table present.
        if let Some(pair) = presence(table) {
            ask(pair, None);
        }
    }
    for key in TABLE {
        match key.domain {
            Domain::Choice(choices) => {
                for choice in choices {
                    ask((key.path, Value::Text(choice)), Some(Reason::Choice(key.path, choice)));
                }
            }
            _ => ask((key.path, sample(key)), Some(Reason::Beside(key.path))),
        }
    }
    found
}

/// A kind of pool: its table in a policy, the key that names the pool there, and the keys of the table that stay the policy's own
/// beside that key.
pub struct PoolFacts {
    pub kind: PoolKind,
    pub table: &'static str,
    pub name: &'static str,
    pub beside: Vec<&'static str>,
}

/// All kinds of pools, found by asking which keys a pool refuses.
pub fn pools() -> Vec<PoolFacts> {
    let of = |kind: PoolKind| {
        let names = TABLE.iter().filter(|key| matches!(key.domain, Domain::Name)).map(|key| key.path);
        let name = names.into_iter().find(|path| name_of(table_of(path)) == kind.name());
        let name = name.expect("each kind of pool has a key that names it");
        let table = table_of(name);
        let refuses = |key: &&Key| {
            let pairs = [(name_of(key.path), sample(key))];
            let errors = Pool::from_pairs("x", kind, &pairs).err().unwrap_or_default();
            errors.iter().any(|error| error.rule.starts_with("belongs to the policies"))
        };
        let beside = keys_of(table).filter(refuses).map(|key| key.path).collect();
        PoolFacts { kind, table, name, beside }
    };
    PoolKind::ALL.into_iter().map(of).collect()
}

/// The keys of a table with each of which a key is not required that is required by the presence of its table.
pub fn alternatives(rule: &Required) -> Vec<&'static str> {
    let asks = |pairs: &[(&'static str, Value<'static>)]| {
        let errors = Policy::from_pairs("p", pairs).err().unwrap_or_default();
        errors.iter().any(|error| error.key == rule.path && error.value == "(absent)")
    };
    let presence = presence(table_of(rule.path));
    let others = keys_of(table_of(rule.path)).filter(|key| key.path != rule.path);
    others
        .filter(|key| {
            let pairs: Vec<_> = presence.into_iter().chain([(key.path, sample(key))]).collect();
            !asks(&pairs)
        })
        .map(|key| key.path)
        .collect()
}

/// The kinds of a policy that reads why an answer failed.
pub fn kinds_that_are_read() -> Vec<String> {
    let reads = Policy::from_pairs("p", &[("retry.read_errors", Value::Number(1.0))]);
    reads.map(|policy| policy.kinds().map(str::to_owned).collect()).unwrap_or_default()
}

/// Says what applies if the key is left out: a default, `off`, or that it is required.
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
                .map(|rule| match (rule.by, rule.instead) {
                    (Some(Reason::Choice(_, choice)), _) => match rule.unless {
                        Some((key, word)) => {
                            format!("with `{choice}`, unless `{}` is `{word}`", name_of(key))
                        }
                        None => format!("with `{choice}`"),
                    },
                    (Some(Reason::Beside(key)), _) => format!("with `{}`", name_of(key)),
                    (None, Some(instead)) => format!("unless there is `{}`", name_of(instead)),
                    (None, None) => String::new(),
                })
                .collect();
            words.dedup();
            format!("required {}", words.join(" and ")).trim_end().into()
        }
    }
}

/// The key's rule without "must be".
pub fn values(key: &Key) -> String {
    // A document writes kinds in another way than a pair does.
    if matches!(key.domain, Domain::Kinds) {
        return "names of a to z, 0 to 9 and _, each with its class".into();
    }
    if matches!(key.domain, Domain::Limits) {
        return "texts such as `tpm: permits=200000 per=1m weight=tokens`, perhaps with burst, default and max_debt, or `usd: permits=5000000 per=24h weight=usd max_debt=none refill=window anchor=8h`, whose permits come back at once; a document has a table for each".into();
    }
    if matches!(key.domain, Domain::Shares) {
        return "texts such as `acme=4`, a route key and its share from 1 to 1,000; a document may have a table".into();
    }
    let rule = key.rule();
    rule.strip_prefix("must be ").map_or(rule.clone(), str::to_owned)
}
