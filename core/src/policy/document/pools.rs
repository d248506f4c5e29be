//! The section `pool` of a document: `[pool.x]` with one table, named by the pool's kind. The table's name gives the
//! kind, instead of a key `kind`, because bulkheads and budgets have a `kind` of their own.

use std::collections::BTreeMap;

use super::items::{first_of_each, shown_key, wrong};
use super::{Item, Node, Pairs};
use crate::policy::check::{Pair, quoted};
use crate::policy::suggest::{join, known_keys, nearest};
use crate::policy::{PolicyError, Pool, PoolKind, Value};

/// The pools that a document declares, including those with mistakes; the kind is unknown if it is the mistake.
#[derive(Default)]
pub(super) struct Declared<'t>(BTreeMap<&'t str, Option<PoolKind>>);

/// A pool that a policy names.
pub(super) struct Named {
    key: String,
    kind: PoolKind,
    name: String,
    line: Option<u32>,
}

impl Named {
    /// The pool that this pair names, if it names one.
    pub fn new(policy: &str, pair: &Pair<'_>) -> Option<Self> {
        let kind =
            PoolKind::ALL.into_iter().chain([PoolKind::Targets]).find(|kind| kind.pool_key() == pair.key)?;
        let Ok(Value::Text(name)) = pair.value else { return None };
        Some(Self { key: join(policy, pair.key), kind, name: name.into(), line: pair.line })
    }
}

impl<'t> Declared<'t> {
    /// Reads `[pool.name]`.
    pub fn pool(&mut self, name: &'t str, item: &Item<'_>) -> Result<Pool, Vec<PolicyError>> {
        let path = join("pool", &shown_key(name));
        if self.0.get(name) == Some(&Some(PoolKind::Targets)) {
            return Err(vec![wrong(
                &path,
                item,
                "there is a group of targets of this name; rename one of them",
            )]);
        }
        self.0.insert(name, None);
        let Node::Table(entries) = &item.node else {
            return Err(vec![wrong(&path, item, &format!("must be a table named by its kind: {}", kinds()))]);
        };
        let (mut errors, mut found) = (Vec::new(), Vec::new());
        for (key, inner) in first_of_each(entries, &path, &mut errors) {
            let kind = PoolKind::ALL.into_iter().find(|kind| kind.name() == key);
            match (kind, &inner.node) {
                (Some(kind), Node::Table(entries)) => found.push((kind, inner, entries)),
                (Some(kind), _) => {
                    let rule = format!("must be a table; {}", known_keys(kind.table()));
                    errors.push(wrong(&join(&path, key), inner, &rule));
                }
                (None, _) => {
                    let meant = nearest(key, PoolKind::ALL.map(PoolKind::name));
                    let meant = meant.map_or(String::new(), |near| format!("did you mean {near}? "));
                    let rule = format!("no such kind of pool; {meant}the kinds are {}", kinds());
                    errors.push(wrong(&join(&path, &shown_key(key)), inner, &rule));
                }
            }
        }
        let pool = match found[..] {
            [(kind, inner, entries)] => {
                self.0.insert(name, Some(kind));
                read(name, kind, inner, entries).map_err(|more| {
                    let inside = join(&path, kind.name());
                    let full = |key: &str| if key == "policy" { path.clone() } else { join(&inside, key) };
                    errors
                        .extend(more.into_iter().map(|error| PolicyError { key: full(&error.key), ..error }));
                })
            }
            [] => {
                if errors.is_empty() {
                    errors.push(wrong(
                        &path,
                        item,
                        &format!("must have a table named by its kind: {}", kinds()),
                    ));
                }
                Err(())
            }
            [_, (kind, inner, _), ..] => {
                let rule = "a pool is of one kind; give the other one a name of its own";
                errors.push(wrong(&join(&path, kind.name()), inner, rule));
                Err(())
            }
        };
        match pool {
            Ok(pool) if errors.is_empty() => Ok(pool),
            _ => Err(errors),
        }
    }

    /// Notes a name; true if it was there.
    pub fn insert(&mut self, name: &'t str, kind: PoolKind) -> bool {
        if self.0.contains_key(name) {
            return true;
        }
        self.0.insert(name, Some(kind));
        false
    }

    /// The mistake in a policy's reference to a pool, if there is one.
    pub fn mistake(&self, named: &Named) -> Option<PolicyError> {
        let kind = named.kind;
        let is_group = kind == PoolKind::Targets;
        let (one, many) = if is_group { ("group", "groups of targets") } else { ("pool", "pools") };
        let first = match self.0.get(named.name.as_str()) {
            Some(known) if known.is_none_or(|known| known == kind) => return None,
            Some(Some(PoolKind::Targets)) => "is a group of targets; ".to_owned(),
            Some(Some(other)) => format!("is a {other} pool; "),
            _ => format!("no such {one}; "),
        };
        let which = if is_group { String::new() } else { format!("{kind} ") };
        let known: Vec<_> =
            self.0.iter().filter(|(_, it)| **it == Some(kind)).map(|(name, _)| *name).collect();
        let meant = nearest(&named.name, known.iter().copied());
        let meant = meant.map_or(String::new(), |near| format!("did you mean {near}? "));
        let rest = match known[..] {
            [] => format!("the document has no {which}{many}"),
            _ => format!("the {which}{many} are {}", known.join(", ")),
        };
        let error =
            PolicyError::new(named.key.as_str(), quoted(&named.name), format!("{first}{meant}{rest}"));
        Some(PolicyError { line: named.line, ..error })
    }
}

/// Builds a pool of this kind; mistakes have the pool's own keys.
fn read(
    name: &str,
    kind: PoolKind,
    item: &Item<'_>,
    entries: &[(std::borrow::Cow<'_, str>, Item<'_>)],
) -> Result<Pool, Vec<PolicyError>> {
    let mut pairs = Pairs { preset: &[], found: Vec::new(), errors: Vec::new() };
    if entries.is_empty() {
        pairs.presence(kind.table(), item);
    }
    pairs.table(kind.table(), entries, &[]);
    let Pairs { found, errors, .. } = pairs;
    let lines: Vec<_> = found.iter().map(|pair| (kind.own(pair.key), pair.line)).collect();
    let built = Pool::build(name, kind, found.into_iter());
    if errors.is_empty() && built.is_ok() {
        return built;
    }
    let mut errors: Vec<_> = errors.into_iter().map(|error| kind.told_of_itself(error)).collect();
    let unread = !errors.is_empty();
    let more =
        built.err().unwrap_or_default().into_iter().filter(|error| !unread || error.value != "(empty)");
    errors.extend(more.map(|error| {
        let given = lines.iter().find(|(key, _)| *key == error.key).and_then(|(_, line)| *line);
        PolicyError { line: error.line.or(given).or(Some(item.line)), ..error }
    }));
    Err(errors)
}

/// The names of all kinds.
fn kinds() -> String {
    PoolKind::ALL.map(PoolKind::name).join(", ")
}
