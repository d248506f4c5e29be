//! The section `targets` of a document: `[targets.x]` with `pick`, `default` and the list `members` (semantics 17.1).

use std::borrow::Cow;

use super::items::{by_line, first_of_each, shown_key, value, wrong};
use super::pools::Declared;
use super::{Item, Node, Pairs};
use crate::policy::check::{Pair, quoted};
use crate::policy::suggest::{join, nearest};
use crate::policy::targets::{Given, MEMBER, ONLY_AFTER, PICK, QUEUE_KEYS, SHARE};
use crate::policy::{Document, PolicyError, Pool, PoolKind, Value};

const KEYS: [&str; 5] = [PICK, QUEUE_KEYS[0].path, QUEUE_KEYS[1].path, "default", "members"];

type Entries<'t> = &'t [(Cow<'t, str>, Item<'t>)];

/// What one group's table says.
#[derive(Default)]
struct Read<'t> {
    given: Vec<Given<'t>>,
    errors: Vec<PolicyError>,
}

impl<'t> Declared<'t> {
    /// Reads `[targets.name]`.
    pub fn group(&mut self, name: &'t str, item: &'t Item<'t>) -> Result<Pool, Vec<PolicyError>> {
        let path = join("targets", &shown_key(name));
        if self.insert(name, PoolKind::Targets) {
            let rule = "there is a pool of this name; give the group another name";
            return Err(vec![wrong(&path, item, rule)]);
        }
        let Node::Table(entries) = &item.node else {
            return Err(vec![wrong(&path, item, "must be a table with pick and members")]);
        };
        let mut read = Read::default();
        let entries = first_of_each(entries, &path, &mut read.errors);
        let of = |key: &str| entries.iter().find(|(name, _)| *name == key).map(|(_, item)| *item);
        for (key, inner) in entries.iter().filter(|(key, _)| !KEYS.contains(key)) {
            let meant = nearest(key, KEYS).map_or(String::new(), |near| format!("did you mean {near}? "));
            let rule = format!("no such key; {meant}the keys of a group are {}", KEYS.join(", "));
            read.errors.push(wrong(&join(&path, &shown_key(key)), inner, &rule));
        }
        if let Some(pick) = of(PICK) {
            read.pair(PICK, &join(&path, PICK), pick);
        }
        for key in &QUEUE_KEYS {
            if let Some(item) = of(key.path) {
                let pair = Pair {
                    key: key.path,
                    value: value(key, &item.node),
                    written: Some(&item.written),
                    line: Some(item.line),
                };
                read.given.push(Given { pair, shown: join(&path, key.path) });
            }
        }
        match of("default").map(|item| (item, &item.node)) {
            None => {}
            Some((_, Node::Table(entries))) => read.components(&join(&path, "default"), entries, false),
            Some((item, _)) => {
                let rule =
                    "must be a table of share, attempt_timeout, rate_limit, bulkhead, breaker and cooldown";
                read.errors.push(wrong(&join(&path, "default"), item, rule));
            }
        }
        match of("members").map(|item| (item, &item.node)) {
            None => {}
            Some((_, Node::List(members))) => {
                for member in members {
                    read.member(&path, member);
                }
            }
            Some((item, _)) => {
                let rule = "must be a list, in the order of a ladder: of names, or of tables with a name";
                read.errors.push(wrong(&join(&path, "members"), item, rule));
            }
        }
        let Read { given, mut errors } = read;
        let built = Pool::group_of(name, given);
        for error in built.as_ref().err().into_iter().flatten() {
            // A member that could not be read is not reported as absent too.
            let whole = error.key == "members" && of("members").is_some() && !errors.is_empty();
            let key = match error.key.as_str() {
                "policy" => path.clone(),
                key if key.starts_with("targets.") => key.to_owned(),
                key => join(&path, key),
            };
            if !whole {
                errors.push(PolicyError { key, line: error.line.or(Some(item.line)), ..error.clone() });
            }
        }
        match built {
            Ok(group) if errors.is_empty() => Ok(group),
            _ => {
                by_line(&mut errors);
                Err(errors)
            }
        }
    }
}

impl<'t> Read<'t> {
    /// A key of the group or of a target, which is no component's.
    fn pair(&mut self, key: &'static str, shown: &str, item: &'t Item<'t>) {
        let value = match &item.node {
            Node::Text(text) => Ok(Value::Text(text)),
            Node::Number(number) => Ok(Value::Number(*number)),
            _ => Err(if key == SHARE { "must be a whole number" } else { "must be a text" }.to_owned()),
        };
        let pair = Pair { key, value, written: Some(&item.written), line: Some(item.line) };
        self.given.push(Given { pair, shown: shown.to_owned() });
    }

    /// A member: its name, or a table with a name.
    fn member(&mut self, path: &str, item: &'t Item<'t>) {
        let members = join(path, "members");
        let entries = match &item.node {
            Node::Text(_) => return self.pair(MEMBER, &members, item),
            Node::Table(entries) => entries,
            _ => return self.errors.push(wrong(&members, item, "must be a name, or a table with a name")),
        };
        let Some((_, name)) = entries.iter().find(|(key, _)| key == "name") else {
            return self.errors.push(wrong(&members, item, "must have a name"));
        };
        let shown = match &name.node {
            Node::Text(text) => join(&members, &shown_key(text)),
            _ => return self.errors.push(wrong(&join(&members, "name"), name, "must be a text")),
        };
        self.pair(MEMBER, &join(&shown, "name"), name);
        let after = entries.iter().filter(|(key, _)| key == ONLY_AFTER).map(|(_, item)| item);
        for item in after {
            let path = join(&shown, ONLY_AFTER);
            match &item.node {
                Node::List(kinds) if !kinds.is_empty() => {
                    for kind in kinds {
                        self.pair(ONLY_AFTER, &path, kind);
                    }
                }
                _ => {
                    let rule = "must be a list of classes and kinds of failure, such as [\"too_long\"]";
                    self.errors.push(wrong(&path, item, rule));
                }
            }
        }
        self.components(&shown, entries, true);
    }

    /// The share and the components of a target, or of all.
    fn components(&mut self, path: &str, entries: Entries<'t>, is_member: bool) {
        let mut pairs = Pairs { preset: &[], found: Vec::new(), errors: Vec::new() };
        if let Some((_, share)) = entries.iter().find(|(key, _)| key == SHARE) {
            self.pair(SHARE, &join(path, SHARE), share);
        }
        pairs.table("", entries, if is_member { &["name", SHARE, ONLY_AFTER] } else { &[SHARE] });
        let Pairs { found, errors, .. } = pairs;
        let full = |key: &str| join(path, key);
        self.errors.extend(errors.into_iter().map(|error| {
            let rule = if error.rule.starts_with("no such key") && !error.key.contains('.') {
                format!(
                    "no such key; a target has share, only_after, attempt_timeout, rate_limit, bulkhead, breaker and cooldown, not {}",
                    quoted(&error.key)
                )
            } else {
                error.rule
            };
            PolicyError { key: full(&error.key), rule, ..error }
        }));
        self.given.extend(found.into_iter().map(|pair| Given { shown: full(pair.key), pair }));
    }
}

/// Mistakes in `only_after`: kinds that no policy with the group's targets has.
pub(super) fn unknown_kinds(document: &Document) -> impl Iterator<Item = PolicyError> + '_ {
    let groups = document.pools().filter_map(|pool| Some((pool.name(), pool.group()?)));
    groups.flat_map(move |(name, group)| {
        let users: Vec<_> = document
            .policies()
            .filter(|policy| policy.targets.as_ref().is_some_and(|used| **used == *name))
            .collect();
        group.members.iter().flat_map(move |member| {
            let users = users.clone();
            let path = join(&join(&join("targets", &shown_key(name)), "members"), &shown_key(&member.name));
            let unknown = move |kind: &&String| {
                !users.is_empty() && users.iter().all(|policy| policy.kind_of(kind).is_none())
            };
            let rule = "no policy with these targets has such a kind: it must be a class, or a kind that one of them declares or retry.read_errors adds";
            member
                .only_after
                .iter()
                .filter(unknown)
                .map(move |kind| PolicyError::new(join(&path, ONLY_AFTER), quoted(kind), rule))
                .collect::<Vec<_>>()
        })
    })
}
