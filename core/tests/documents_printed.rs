//! Policy documents over the whole table of keys: what they print reads back as the same, and any damage gets an answer.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use tidegate::{Class, Document, Domain, Duration, Policy, PolicyError, Pool, PoolKind, TABLE, Value};

/// A value that owns its text, or the place of a declared kind among them all.
#[derive(Clone, Debug)]
enum Owned {
    Number(f64),
    Text(String),
    Kind(prop::sample::Index),
}

impl Owned {
    fn plain(&self) -> Value<'_> {
        match self {
            Self::Number(n) => Value::Number(*n),
            Self::Text(text) => Value::Text(text),
            Self::Kind(_) => Value::Text("(a kind)"),
        }
    }
}

/// The classes that a kind can be based on.
const BASES: &[&str] =
    &["transient", "throttled", "timeout", "never_sent", "conflict", "permanent", "ignored"];

type Pairs = Vec<(&'static str, Owned)>;

/// Values that a key may have.
fn values(domain: Domain) -> BoxedStrategy<Vec<Owned>> {
    let or_none = |numbers: BoxedStrategy<f64>, none: bool| {
        let number = numbers.prop_map(|n| vec![Owned::Number(n)]);
        if none {
            prop_oneof![9 => number, 1 => Just(vec![Owned::Text("none".into())])].boxed()
        } else {
            number.boxed()
        }
    };
    let word =
        |words: &'static [&'static str]| prop::sample::select(words).prop_map(|it| Owned::Text(it.into()));
    match domain {
        Domain::Span { min, max, none } => {
            let (min, max) = (min.as_micros(), max.as_micros());
            let near = max.min(min + 10_000_000);
            or_none(prop_oneof![min..=max, min..=near].prop_map(|n| n as f64).boxed(), none)
        }
        Domain::Count { min, max, none } => {
            or_none(prop_oneof![min..=max, min..=max.min(min + 9)].prop_map(f64::from).boxed(), none)
        }
        Domain::Real { min, max, none } => {
            or_none(prop_oneof![min..=max, Just(min), Just(max), min..=max.min(min + 1.0)].boxed(), none)
        }
        Domain::Flag => prop_oneof![Just(0.0), Just(1.0)].prop_map(|n| vec![Owned::Number(n)]).boxed(),
        Domain::Choice(words) => word(words).prop_map(|word| vec![word]).boxed(),
        Domain::Statuses => {
            let status =
                prop_oneof![Just(408.0), Just(409.0), Just(429.0), (500u16..600).prop_map(f64::from)];
            prop::collection::vec(status.prop_map(Owned::Number), 1..5).boxed()
        }
        Domain::Words(words) => prop::collection::vec(word(words), 1..5).boxed(),
        Domain::KindWords(words) => {
            let own = any::<prop::sample::Index>().prop_map(Owned::Kind);
            prop::collection::vec(prop_oneof![2 => word(words), 1 => own], 1..5).boxed()
        }
        Domain::Kinds => {
            let kind = ("[a-z][a-z0-9_]{0,8}", prop::sample::select(BASES));
            prop::collection::vec(kind.prop_map(|(name, class)| Owned::Text(format!("{name}={class}"))), 1..6)
                .boxed()
        }
        Domain::Limits => {
            let rest = prop::sample::select(
                &["", " burst=7", " weight=a", " burst=9 weight=a default=3 max_debt=none"][..],
            );
            let limit = (1u64..1 << 53, 1u64..100_000_000, rest);
            prop::collection::vec(limit, 1..5)
                .prop_map(|limits| {
                    let text = |(at, (permits, per, rest)): (usize, (u64, u64, &str))| {
                        Owned::Text(format!("l{at}: permits={permits} per={per}us{rest}"))
                    };
                    limits.into_iter().enumerate().map(text).collect()
                })
                .boxed()
        }
        Domain::Shares => {
            let share = ("[a-z][a-z0-9.=_-]{0,8}", 1u32..=1_000);
            prop::collection::btree_map(share.0, share.1, 1..4)
                .prop_map(|shares| {
                    shares.iter().map(|(key, share)| Owned::Text(format!("{key}={share}"))).collect()
                })
                .boxed()
        }
        Domain::Name => "[a-zA-Z0-9_. \"'\\\\é-]{1,9}".prop_map(|name| vec![Owned::Text(name)]).boxed(),
    }
}

/// Values over the whole table, some of the keys left out. A list that names kinds names those that are declared.
fn pairs() -> impl Strategy<Value = Pairs> {
    // A group of targets is declared elsewhere, and excludes other keys: `targets.rs` has documents with groups.
    let keys: Vec<_> = TABLE
        .iter()
        .filter(|key| !["targets", "retry.failover_on"].contains(&key.path))
        .map(|key| {
            // A rate of the fleet's has less room (its burst times its span), and most rates are modest.
            let values = match key.domain {
                Domain::Span { min, .. } if key.path == "rate_limit.per" => {
                    values(Domain::Span { min, max: Duration::from_secs(10), none: false })
                }
                Domain::Count { .. } if key.path == "rate_limit.lease" => {
                    values(Domain::Count { min: 1, max: 5, none: false })
                }
                domain => values(domain),
            };
            let often = match key.path.rsplit('.').next() {
                Some("store") => 0.8,
                Some("limits") => 0.2, // they take the place of permits, and of the fleet's keys
                _ => 0.35,
            };
            prop::option::weighted(often, values).prop_map(|values| (key.path, values))
        })
        .collect();
    (keys, any::<bool>()).prop_map(|(keys, breaks)| {
        // The two exclude each other.
        let other = if breaks { "throttle." } else { "breaker." };
        let pairs = keys.into_iter().filter(|(path, _)| !path.starts_with(other));
        let pairs: Pairs = pairs
            .flat_map(|(path, values)| values.unwrap_or_default().into_iter().map(move |value| (path, value)))
            .collect();
        let mut pairs = pairs;
        let is_set = pairs.iter().any(|(path, _)| path.ends_with(".limits"));
        pairs.retain(|(path, _)| is_set || !path.ends_with(".settle_unknown"));
        let name = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
        let kinds: Vec<_> = pairs
            .iter()
            .filter_map(|pair| match pair {
                ("kinds", Owned::Text(text)) => Some(name(text)),
                _ => None,
            })
            .collect();
        let named = pairs.into_iter().filter_map(|(path, value)| match value {
            Owned::Kind(_) if kinds.is_empty() => None,
            Owned::Kind(at) => Some((path, Owned::Text(at.get(&kinds).clone()))),
            value => Some((path, value)),
        });
        named.collect()
    })
}

/// What these pairs build; where a rule joins several keys, the keys it names are dropped until it holds.
fn built<T>(
    mut pairs: Pairs,
    build: impl Fn(&[(&str, Value<'_>)]) -> Result<T, Vec<PolicyError>>,
) -> Option<T> {
    loop {
        let plain: Vec<_> = pairs.iter().map(|(path, value)| (*path, value.plain())).collect();
        let errors = match build(&plain) {
            Ok(whole) => return Some(whole),
            Err(errors) => errors,
        };
        let before = pairs.len();
        let blamed = |path: &str, error: &PolicyError| match error.key.rsplit_once('.') {
            Some((above, _)) if error.value == "(absent)" => path.starts_with(above),
            _ => path == error.key || path.starts_with(&format!("{}.", error.key)),
        };
        pairs.retain(|(path, _)| !errors.iter().any(|error| blamed(path, error)));
        if pairs.len() == before {
            return None;
        }
    }
}

const NAME: &str = "[a-zA-Z0-9_. \"'\\\\é-]{1,12}";

/// Valid settings over the whole table.
fn policy() -> impl Strategy<Value = Policy> {
    (NAME, pairs()).prop_filter_map("rules across keys", |(name, pairs)| {
        built(pairs, |pairs| Policy::from_pairs(&name, pairs))
    })
}

/// A valid pool of this kind.
fn pool(kind: PoolKind) -> impl Strategy<Value = Pool> {
    let table = match kind {
        PoolKind::Budget => "retry.budget.",
        PoolKind::Bulkhead => "bulkhead.",
        PoolKind::RateLimit => "rate_limit.",
        PoolKind::Targets => unreachable!("tests/targets.rs prints groups"),
    };
    let required = match kind {
        PoolKind::Bulkhead => vec![("max_concurrency", Owned::Number(7.0))],
        PoolKind::RateLimit => vec![("permits", Owned::Number(7.0)), ("per", Owned::Number(1e6))],
        PoolKind::Budget | PoolKind::Targets => vec![("kind", Owned::Text("share".into()))],
    };
    pairs().prop_filter_map("rules across keys", move |pairs| {
        let mut own: Pairs =
            pairs.into_iter().filter_map(|(path, value)| Some((path.strip_prefix(table)?, value))).collect();
        own.retain(|(path, _)| required.iter().all(|(needed, _)| needed != path));
        own.extend(required.clone());
        built(own, |pairs| Pool::from_pairs("x", kind, pairs))
    })
}

/// The same pool under another name.
fn renamed(pool: &Pool, name: &str) -> Pool {
    Pool::from_pairs(name, pool.kind(), &pool.to_pairs()).unwrap()
}

/// Policies, and a pool for each name that they have. Two policies that give one name to pools of two kinds cannot
/// stand in one document: the later is left out.
fn document() -> impl Strategy<Value = Document> {
    let kinds = PoolKind::ALL.map(|kind| pool(kind).boxed());
    (prop::collection::vec(policy(), 0..4), kinds).prop_map(|(policies, pools)| {
        let mut named: Vec<(String, PoolKind)> = Vec::new();
        let mut kept = Vec::new();
        for policy in policies {
            let own = |kind: PoolKind| {
                let key = match kind {
                    PoolKind::Bulkhead => "bulkhead.pool",
                    PoolKind::RateLimit => "rate_limit.pool",
                    PoolKind::Budget => "retry.budget.pool",
                    PoolKind::Targets => "targets",
                };
                let pairs = policy.to_pairs();
                let found = pairs.into_iter().find(|(path, _)| *path == key);
                found.and_then(|(_, value)| match value {
                    Value::Text(name) => Some((name.to_owned(), kind)),
                    Value::Number(_) => None,
                })
            };
            let own: Vec<_> = PoolKind::ALL.into_iter().filter_map(own).collect();
            let mut all = named.clone();
            all.extend(own);
            if all.iter().all(|(name, kind)| all.iter().all(|(other, it)| other != name || it == kind)) {
                named = all;
                kept.push(policy);
            }
        }
        let of = |kind| pools.iter().find(|pool| pool.kind() == kind).unwrap();
        let pools: Vec<_> = named.iter().map(|(name, kind)| renamed(of(*kind), name)).collect();
        kept.into_iter().collect::<Document>().with_pools(pools)
    })
}

#[test]
fn the_policies_drawn_here_reach_every_sort_of_key() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut seen, mut named_kinds) = (std::collections::BTreeSet::new(), 0);
    for _ in 0..1_600 {
        let policy = policy().new_tree(&mut runner).unwrap().current();
        let kinds: Vec<_> = policy.kinds().map(str::to_owned).collect();
        for (path, value) in policy.to_pairs() {
            seen.insert(path);
            let list = path == "retry.retry_on" || path == "breaker.failure_on";
            named_kinds += usize::from(list && kinds.iter().any(|kind| value == Value::Text(kind)));
        }
    }
    let missed: Vec<_> = TABLE
        .iter()
        .map(|key| key.path)
        // Shares are a pool's.
        .filter(|path| !["preset", "targets", "retry.failover_on", "rate_limit.shares"].contains(path))
        .filter(|path| !seen.contains(path))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert!(named_kinds > 10, "{named_kinds}");
}

proptest! {
    /// What a document prints reads back as the same, in both forms; and the pairs make the same policy.
    #[test]
    fn printed_documents_read_back_as_the_same(document in document()) {
        for policy in document.policies() {
            prop_assert_eq!(&Policy::from_pairs(policy.name(), &policy.to_pairs()).unwrap(), policy);
            for kind in policy.kinds() {
                prop_assert!(policy.kind_of(kind).is_some_and(|it| policy.class_of(it) != Class::Ok));
            }
        }
        for (text, again) in [
            (document.to_toml(), Document::from_toml(&document.to_toml())),
            (document.to_json(), Document::from_json(&document.to_json())),
        ] {
            let again = again.map_err(|errors| TestCaseError::fail(format!("{errors:#?}\n{text}")))?;
            prop_assert_eq!(&again, &document, "{}", text);
            for policy in document.policies() {
                // Equal by meaning, and equal to the letter.
                prop_assert_eq!(again.policy(policy.name()).unwrap().to_pairs(), policy.to_pairs());
            }
            for (one, other) in document.pools().zip(again.pools()) {
                prop_assert_eq!(one.to_pairs(), other.to_pairs());
            }
        }
    }

    /// Whatever the text: an answer, never a panic; and a mistake names its place.
    #[test]
    fn any_text_gets_an_answer(text in "\\PC{0,200}") {
        for errors in [Document::from_toml(&text), Document::from_json(&text)].into_iter().filter_map(Result::err) {
            prop_assert!(!errors.is_empty() && errors.iter().all(|error| error.line.is_some()));
        }
    }

    /// The same for texts that are nearly right.
    #[test]
    fn any_damage_to_a_document_gets_an_answer(
        document in document(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), "[\\]\\[{}\"'.,:=# \n0-9a-z]{0,3}"), 1..6),
    ) {
        for (text, read) in [
            (document.to_toml(), Document::from_toml as fn(&str) -> Result<Document, Vec<PolicyError>>),
            (document.to_json(), Document::from_json),
        ] {
            let mut letters: Vec<char> = text.chars().collect();
            for (place, put) in &cuts {
                if letters.is_empty() { break; }
                let at = place.index(letters.len());
                letters.splice(at..=at, put.chars());
            }
            let text: String = letters.into_iter().collect();
            if let Err(errors) = read(&text) {
                prop_assert!(!errors.is_empty() && errors.iter().all(|error| error.line.is_some()), "{}", text);
            }
        }
    }
}
