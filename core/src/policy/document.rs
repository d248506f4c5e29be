//! Policy documents: named policies as text, in TOML or JSON (semantics 0.8).
//!
//! Each format is read into one tree ([`Item`]). The tree becomes the pairs of [`Policy::from_pairs`], which stays
//! the only validator. All mistakes of all policies are reported at once.

mod items;
mod json;
mod limits;
mod pools;
mod print;
mod targets;
mod toml;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use items::{by_line, first_of_each, shown_key, value, wrong};

use super::check::{self, Pair, quoted};
use super::suggest::{is_below, is_table, join, known_keys, nearest, unknown_key};
use super::{Domain, Key, Policy, PolicyError, Pool, PoolKind, TABLE, Value};
use crate::full::Switch;

/// The longest document, in bytes.
const LARGEST: usize = 256 * 1024;
/// The most policies in a document, and the most pools.
const MOST: usize = 1_000;

/// Named policies and the pools that they share, read from a text and checked.
///
/// ```
/// use tidegate::Document;
/// let document = Document::from_toml(r#"
///     [policy.payments]
///     preset = "http"
///     deadline = "10s"
///     retry = { max_attempts = 3, statuses = [429, 503], budget = { kind = "window", ttl = "10s" } }
///     bulkhead = { kind = "fixed", max_concurrency = 10, max_queue = 4 }
/// "#).unwrap();
/// assert_eq!(document.policy("payments").unwrap().name(), "payments");
/// assert_eq!(
///     document.policy("payment").unwrap_err().to_string(),
///     "policy = \"payment\": no such policy; did you mean payments? the policies are payments",
/// );
///
/// let errors = Document::from_toml("policy.payments.retry.max_attempts = 0").unwrap_err();
/// assert_eq!(
///     errors[0].to_string(),
///     "line 1: policy.payments.retry.max_attempts = 0: must be a whole number from 1 to 255",
/// );
/// ```
///
/// A pool is a table named by its kind (`bulkhead`, `rate_limit`, `budget`), with the keys that the component has in
/// a policy. The document must contain every pool that one of its policies names.
///
/// ```
/// use tidegate::{Document, PoolKind};
/// let document = Document::from_toml(r#"
///     [pool.db]
///     bulkhead = { max_concurrency = 10, max_queue = 50 }
///     [policy.reads]
///     bulkhead = { pool = "db", acquire_timeout = "100ms" }
///     [policy.writes]
///     bulkhead = { pool = "db" }
/// "#).unwrap();
/// assert_eq!(document.pools().next().unwrap().kind(), PoolKind::Bulkhead);
///
/// let errors = Document::from_toml(r#"policy.p.bulkhead.pool = "bd""#).unwrap_err();
/// assert_eq!(
///     errors[0].to_string(),
///     "line 1: policy.p.bulkhead.pool = \"bd\": no such pool; the document has no bulkhead pools",
/// );
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Document {
    policies: BTreeMap<String, Policy>,
    pools: BTreeMap<String, Pool>,
}

/// Error: the document has no policy of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownPolicy {
    /// The requested name.
    pub name: String,
    /// The names in the document.
    pub known: Vec<String>,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy = {}: no such policy; ", quoted(&self.name))?;
        if let Some(meant) = nearest(&self.name, self.known.iter().map(String::as_str)) {
            write!(f, "did you mean {meant}? ")?;
        }
        match self.known[..] {
            [] => f.write_str("the document has none"),
            _ => write!(f, "the policies are {}", self.known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownPolicy {}

impl Document {
    /// Reads a document in TOML.
    ///
    /// # Errors
    /// All mistakes of all policies, each with its line, the full key, the value as written and the rule. For a text
    /// that is not TOML, one error with its position; the policies are not checked.
    pub fn from_toml(text: &str) -> Result<Self, Vec<PolicyError>> {
        read(text, toml::tree)
    }

    /// Reads a document in JSON: the same keys, nested.
    ///
    /// # Errors
    /// As [`Document::from_toml`].
    ///
    /// ```
    /// let text = r#"{"policy": {"payments": {"preset": "http", "deadline": "10s"}}}"#;
    /// assert!(tidegate::Document::from_json(text).is_ok());
    /// ```
    pub fn from_json(text: &str) -> Result<Self, Vec<PolicyError>> {
        read(text, json::tree)
    }

    /// The policy of this name.
    ///
    /// # Errors
    /// No policy has this name; the error lists the known names.
    pub fn policy(&self, name: &str) -> Result<&Policy, UnknownPolicy> {
        let unknown = || UnknownPolicy { name: name.into(), known: self.policies.keys().cloned().collect() };
        self.policies.get(name).ok_or_else(unknown)
    }

    /// All policies, by name.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    /// All pools, by name. Add them to an engine before the policies that name them.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.values()
    }

    /// Adds pools to the document; of two with one name the later stays.
    #[must_use]
    pub fn with_pools(mut self, pools: impl IntoIterator<Item = Pool>) -> Self {
        self.pools.extend(pools.into_iter().map(|pool| (pool.name().to_owned(), pool)));
        self
    }

    /// The document itself, for a host that cannot tell a call its target yet.
    ///
    /// # Errors
    /// Each group of targets in it: a group must not be ignored silently.
    ///
    /// ```
    /// use tidegate::Document;
    /// let text = "[targets.chat]\npick = 'ladder'\nmembers = ['a']";
    /// let errors = Document::from_toml(text).unwrap().without_targets().unwrap_err();
    /// assert_eq!(
    ///     errors[0].to_string(),
    ///     "targets.chat = (a group): this language cannot tell a call its target yet; leave the group out",
    /// );
    /// ```
    pub fn without_targets(self) -> Result<Self, Vec<PolicyError>> {
        let groups = self.pools.values().filter(|pool| pool.group().is_some());
        let rule = "this language cannot tell a call its target yet; leave the group out";
        let error =
            |pool: &Pool| PolicyError::new(join("targets", &shown_key(pool.name())), "(a group)", rule);
        let errors: Vec<_> = groups.map(error).collect();
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }

    /// Fingerprint of the document's content: equal for documents of equal content, whatever their format, their
    /// order and the spelling of values. It is the 64-bit FNV-1a hash of [`Document::to_json`], and does not protect
    /// against forgery.
    ///
    /// ```
    /// use tidegate::Document;
    /// let toml = Document::from_toml(r#"policy.a.deadline = "1s""#).unwrap();
    /// let json = Document::from_json(r#"{"policy": {"a": {"deadline": "1000ms"}}}"#).unwrap();
    /// assert_eq!(toml.digest(), json.digest());
    /// ```
    pub fn digest(&self) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.to_json().bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// Compares two versions of a document by content, pools first.
    ///
    /// ```
    /// use tidegate::Document;
    /// let old = Document::from_toml("policy.a.deadline = '1s'\npolicy.b.deadline = '1s'").unwrap();
    /// let new = Document::from_toml("policy.b.deadline = '2s'\npolicy.c.deadline = '1s'").unwrap();
    /// let changes = old.changes(&new);
    /// assert_eq!((&changes.added[..], &changes.changed[..]), (&["policy.c".into()][..], &["policy.b".into()][..]));
    /// assert_eq!(changes.removed, ["policy.a"]);
    /// ```
    pub fn changes(&self, to: &Self) -> Changes {
        let mut changes = Changes::default();
        let of = |it: &Self, groups: bool| -> BTreeMap<_, _> {
            let pools = it.pools.iter().filter(|(_, pool)| (pool.kind() == PoolKind::Targets) == groups);
            pools.map(|(name, pool)| (name.clone(), pool.clone())).collect()
        };
        changes.compare("pool", &of(self, false), &of(to, false));
        changes.compare("targets", &of(self, true), &of(to, true));
        changes.compare("policy", &self.policies, &to.policies);
        changes
    }

    /// The document in TOML: the given pairs of each policy, presets spelled out, one key per line.
    pub fn to_toml(&self) -> String {
        print::toml(self)
    }

    /// The same content in JSON.
    pub fn to_json(&self) -> String {
        print::json(self)
    }
}

/// The difference between two versions of a document. Names are as in the document: `policy.payments`, `pool.db`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Changes {
    /// Names that only the newer version has.
    pub added: Vec<String>,
    /// Names that both have, with different settings.
    pub changed: Vec<String>,
    /// Names that only the older version has.
    pub removed: Vec<String>,
}

impl Changes {
    fn compare<T: PartialEq>(&mut self, table: &str, from: &BTreeMap<String, T>, to: &BTreeMap<String, T>) {
        for (name, new) in to {
            match from.get(name) {
                None => self.added.push(join(table, name)),
                Some(old) if old != new => self.changed.push(join(table, name)),
                Some(_) => {}
            }
        }
        let gone = from.keys().filter(|name| !to.contains_key(*name));
        self.removed.extend(gone.map(|name| join(table, name)));
    }
}

impl FromIterator<Policy> for Document {
    /// A document of these policies; of two with one name the later stays.
    fn from_iter<I: IntoIterator<Item = Policy>>(policies: I) -> Self {
        let policies = policies.into_iter().map(|policy| (policy.name().to_owned(), policy)).collect();
        Self { policies, pools: BTreeMap::new() }
    }
}

/// A value and its line.
struct Item<'a> {
    node: Node<'a>,
    /// The value as written; for a table, a placeholder.
    written: Cow<'a, str>,
    line: u32,
}

enum Node<'a> {
    /// Keys and values in the order of the text; a key may occur twice.
    Table(Vec<(Cow<'a, str>, Item<'a>)>),
    List(Vec<Item<'a>>),
    Text(Cow<'a, str>),
    Number(f64),
    Flag(bool),
    /// A value that no key accepts: a date, null.
    Other,
}

type Reader = fn(&str) -> Result<Item<'_>, Vec<PolicyError>>;

/// Positions of the line ends of a text.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(place, _)| place).collect())
    }

    /// The line of a position, from 1.
    fn at(&self, place: usize) -> u32 {
        1 + self.0.partition_point(|newline| *newline < place) as u32
    }
}

fn read(text: &str, tree: Reader) -> Result<Document, Vec<PolicyError>> {
    if text.len() > LARGEST {
        let rule = format!("a document has at most {LARGEST} bytes");
        return Err(vec![PolicyError::new("document", format!("({} bytes)", text.len()), rule)]);
    }
    let mut root = tree(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    list_kinds(&mut root);
    limits::list_limits(&mut root);
    let mut errors = Vec::new();
    let mut document = Document::default();
    let (mut declared, mut named) = (pools::Declared::default(), Vec::new());
    let Node::Table(sections) = &root.node else {
        return Err(vec![wrong("document", &root, "must be a table with the section policy")]);
    };
    for (name, section) in first_of_each(sections, "", &mut errors) {
        match (name, &section.node) {
            ("policy" | "pool" | "targets", Node::Table(entries)) if entries.len() > MOST => {
                let plural = match name {
                    "policy" => "policies",
                    "pool" => "pools",
                    _ => "groups of targets",
                };
                let rule = format!("a document has at most {MOST} {plural}");
                let count = format!("({} {plural})", entries.len());
                errors.push(PolicyError { line: Some(section.line), ..PolicyError::new(name, count, rule) });
            }
            ("policy", Node::Table(policies)) => {
                for (name, item) in first_of_each(policies, "policy", &mut errors) {
                    match policy(name, item, &mut named) {
                        Ok(policy) => drop(document.policies.insert(name.into(), policy)),
                        Err(mut more) => errors.append(&mut more),
                    }
                }
            }
            ("pool", Node::Table(pools)) => {
                for (name, item) in first_of_each(pools, "pool", &mut errors) {
                    match declared.pool(name, item) {
                        Ok(pool) => drop(document.pools.insert(name.into(), pool)),
                        Err(mut more) => errors.append(&mut more),
                    }
                }
            }
            ("targets", Node::Table(groups)) => {
                for (name, item) in first_of_each(groups, "targets", &mut errors) {
                    match declared.group(name, item) {
                        Ok(group) => drop(document.pools.insert(name.into(), group)),
                        Err(mut more) => errors.append(&mut more),
                    }
                }
            }
            ("policy", _) => errors.push(wrong("policy", section, "must be a table of named policies")),
            ("targets", _) => {
                errors.push(wrong("targets", section, "must be a table of named groups of targets"));
            }
            ("pool", _) => errors.push(wrong("pool", section, "must be a table of named pools")),
            _ => {
                let meant = nearest(name, ["policy", "pool", "targets"]);
                let meant = meant.map_or(String::new(), |near| format!("did you mean {near}? "));
                let rule = format!("no such section; {meant}the sections are policy, pool and targets");
                errors.push(wrong(&shown_key(name), section, &rule));
            }
        }
    }
    errors.extend(named.iter().filter_map(|named| declared.mistake(named)));
    errors.extend(targets::unknown_kinds(&document));
    by_line(&mut errors);
    if errors.is_empty() { Ok(document) } else { Err(errors) }
}

/// Turns the table `kinds` of names and classes into a list of `name=class` pairs. Any other value becomes invalid.
fn list_kinds(root: &mut Item<'_>) {
    let Node::Table(sections) = &mut root.node else { return };
    let policies = sections.iter_mut().filter(|(name, _)| name == "policy");
    for (_, policies) in policies {
        let Node::Table(policies) = &mut policies.node else { continue };
        let keys = policies.iter_mut().filter_map(|(_, policy)| match &mut policy.node {
            Node::Table(keys) => Some(keys),
            _ => None,
        });
        for (_, kinds) in keys.flatten().filter(|(key, _)| key == "kinds") {
            let node = std::mem::replace(&mut kinds.node, Node::Other);
            if let Node::Table(entries) = node {
                kinds.node = Node::List(entries.into_iter().map(kind).collect());
            }
        }
    }
}

fn kind<'a>((name, item): (Cow<'a, str>, Item<'a>)) -> Item<'a> {
    let node = match item.node {
        Node::Text(class) => Node::Text(format!("{name}={class}").into()),
        _ => Node::Other,
    };
    Item { node, written: format!("{} = {}", shown_key(&name), item.written).into(), line: item.line }
}

/// Reads one policy: its tree as pairs, its mistakes with full keys.
fn policy(name: &str, item: &Item<'_>, named: &mut Vec<pools::Named>) -> Result<Policy, Vec<PolicyError>> {
    let path = join("policy", &shown_key(name));
    let Node::Table(entries) = &item.node else {
        return Err(vec![wrong(&path, item, "must be a table of components")]);
    };
    let mut pairs = Pairs { preset: &[], found: Vec::new(), errors: Vec::new() };
    if let Some((_, Item { node: Node::Text(preset), .. })) = entries.iter().find(|(key, _)| key == "preset")
    {
        pairs.preset = Policy::preset(preset);
    }
    pairs.table("", entries, &[]);
    let Pairs { found, mut errors, .. } = pairs;
    named.extend(found.iter().filter_map(|pair| pools::Named::new(&path, pair)));
    let lines: Vec<_> = found.iter().map(|pair| (pair.key, pair.line)).collect();
    let built = check::build_written(name, Switch::default(), found.into_iter());
    let checked = built.as_ref().err().into_iter().flatten().cloned();
    errors.extend(checked.map(|error| {
        let given = lines.iter().find(|(key, _)| *key == error.key).and_then(|(_, line)| *line);
        PolicyError { line: error.line.or(given).or(Some(item.line)), ..error }
    }));
    if errors.len() > 1 {
        // A policy with other mistakes is not reported as empty.
        errors.retain(|error| error.key != "policy" || error.value != "(empty)");
    }
    match built {
        Ok(policy) if errors.is_empty() => Ok(policy),
        _ => {
            by_line(&mut errors);
            let full = |error: &PolicyError| match error.key.as_str() {
                "policy" => path.clone(),
                key => join(&path, key),
            };
            Err(errors
                .into_iter()
                .map(|error| PolicyError { key: full(&error), ..error }.of_a_kind())
                .collect())
        }
    }
}

impl PolicyError {
    /// Attributes a mistake in one kind to that kind's key, instead of to all kinds.
    fn of_a_kind(self) -> Self {
        match self.value.split_once(" = ") {
            Some((name, value)) if matches!(self.key.rsplit('.').next(), Some("kinds" | "limits")) => {
                Self { key: join(&self.key, name), value: value.into(), ..self }
            }
            _ => self,
        }
    }
}

/// The pairs of one policy.
struct Pairs<'t> {
    preset: &'static [(&'static str, Value<'static>)],
    found: Vec<Pair<'t>>,
    /// Mistakes outside the pairs: an unknown key, a table in place of a value.
    errors: Vec<PolicyError>,
}

impl<'t> Pairs<'t> {
    /// Reads a table, but for the keys in `but`, which another reader has.
    fn table(&mut self, table: &str, entries: &'t [(Cow<'_, str>, Item<'_>)], but: &[&str]) {
        for (name, item) in first_of_each(entries, table, &mut self.errors) {
            if but.contains(&name) {
                continue;
            }
            // A quoted key with a dot is not a path: "retry.max_attempts" in quotes is an unknown name.
            let path = join(table, &if name.contains('.') { shown_key(name) } else { name.into() });
            match (TABLE.iter().find(|key| key.path == path), &item.node) {
                (Some(key), Node::List(items)) if key.domain.is_list() => self.list(key, item, items),
                (Some(key), _) if key.domain.is_list() => {
                    self.pair(key, item, Err(format!("must be {}", sample(key))));
                }
                (Some(key), node) => self.pair(key, item, value(key, node)),
                (None, Node::Table(entries)) if is_table(&path) => {
                    if entries.is_empty() {
                        self.presence(&path, item);
                    }
                    self.table(&path, entries, &[]);
                }
                (None, _) if is_table(&path) => {
                    self.errors.push(wrong(&path, item, &format!("must be a table; {}", known_keys(&path))));
                }
                (None, _) => {
                    let key = join(table, &shown_key(name));
                    self.errors.push(wrong(&key, item, &unknown_key(&path)));
                }
            }
        }
    }

    fn list(&mut self, key: &'static Key, whole: &'t Item<'_>, items: &'t [Item<'_>]) {
        if items.is_empty() {
            let rule = "must have at least one value; leave the key out for the default";
            self.pair(key, whole, Err(rule.into()));
        }
        for item in items {
            self.pair(key, item, value(key, &item.node));
        }
    }

    fn pair(&mut self, key: &'static Key, item: &'t Item<'_>, value: Result<Value<'t>, String>) {
        self.found.push(Pair { key: key.path, value, written: Some(&item.written), line: Some(item.line) });
    }

    /// Adds the first key of an empty table with its default: an empty table is a component with all defaults.
    fn presence(&mut self, table: &str, item: &'t Item<'_>) {
        let in_preset = self.preset.iter().any(|(key, _)| is_below(key, table));
        let mut below = TABLE.iter().filter(|key| is_below(key.path, table));
        let first = below.find_map(|key| Some((key.path, key.default_pair()?)));
        if let (false, Some((key, value))) = (in_preset, first) {
            self.found.push(Pair { key, value: Ok(value), written: None, line: Some(item.line) });
        }
    }
}

/// Example of a key with several values in a document.
fn sample(key: &Key) -> String {
    let words = match key.domain {
        Domain::Kinds => return r#"a table of names and classes, such as { busy = "throttled" }"#.into(),
        Domain::Limits => return r#"a table of named limits, such as { tpm = { permits = 200000, per = "1m", weight = "tokens" } }"#.into(),
        Domain::Shares => return "a table of route keys and whole numbers, such as { acme = 4 }".into(),
        Domain::KindWords(words) if key.default.is_empty() => words.join(" "),
        _ => key.default.to_owned(),
    };
    let words = words.split(' ').take(2);
    let words = words.map(|word| if word.parse::<u16>().is_ok() { word.into() } else { quoted(word) });
    format!("a list, such as [{}]", words.collect::<Vec<_>>().join(", "))
}
