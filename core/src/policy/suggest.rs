//! Help for an unknown name: the likely intended name, and the known ones.

use super::components::TABLE;
use crate::text;

/// Names from other libraries, with their names here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("timeout", "deadline (for the whole call) or attempt_timeout (for one attempt)"),
    ("total_timeout", "deadline"),
    ("attempts", "retry.max_attempts"),
    ("retries", "retry.max_attempts, which counts the first attempt too"),
    ("max_retries", "retry.max_attempts, which counts the first attempt too"),
    ("concurrency", "bulkhead.max_concurrency"),
    ("circuit_breaker", "breaker"),
    ("rate", "rate_limit"),
    ("delay", "retry.backoff.base"),
    ("max_delay", "retry.backoff.max"),
];

/// Keys that had another name before.
const RENAMED: &[(&str, &str)] = &[("bulkhead.cooldown", "bulkhead.cut_interval")];

/// The rule that an unknown key breaks: names the nearest known key, and the keys of its table.
pub(super) fn unknown_key(path: &str) -> String {
    if let Some(above) = TABLE.iter().find(|key| is_below(path, key.path)) {
        return text::of(&["no such key; ", above.path, " is a value, not a table"]);
    }
    // The innermost existing table, and the unknown name in it.
    let table = path.rmatch_indices('.').map(|(dot, _)| &path[..dot]).find(|table| is_table(table));
    let table = table.unwrap_or_default();
    let name = if table.is_empty() { path } else { &path[table.len() + 1..] };
    let name = name.split('.').next().unwrap_or_default();
    let known = RENAMED.iter().find(|(before, _)| *before == path);
    let known = known.or_else(|| ELSEWHERE.iter().find(|(theirs, _)| *theirs == name));
    let mut meant = known.map(|(_, ours)| (*ours).to_owned());
    meant = meant.or_else(|| nearest(name, keys_of(table)).map(|near| join(table, near)));
    if meant.is_none() {
        // The right key in the wrong table, as in `max_attempts` next to `retry`.
        let last = path.rsplit('.').next().unwrap_or_default();
        let elsewhere = TABLE.iter().find(|key| key.path.rsplit('.').next() == Some(last));
        meant = elsewhere.map(|key| key.path.to_owned());
    }
    let meant = meant.map_or(String::new(), |meant| text::of(&["did you mean ", &meant, "? "]));
    text::of(&["no such key; ", &meant, &known_keys(table)])
}

/// “the keys of retry are …”; the table without a name is the policy itself.
pub(super) fn known_keys(table: &str) -> String {
    let of = if table.is_empty() { "" } else { " of " };
    text::of(&["the keys", of, table, " are ", &text::joined(&keys_of(table), ", ")])
}

/// Whether this is the path of a table of keys.
pub(super) fn is_table(path: &str) -> bool {
    TABLE.iter().any(|key| is_below(key.path, path))
}

/// Whether the path lies below the table.
pub(super) fn is_below(path: &str, table: &str) -> bool {
    path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'))
}

pub(super) fn join(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { text::of(&[table, ".", key]) }
}

/// The keys of a table, without duplicates, including its inner tables.
fn keys_of(table: &str) -> Vec<&'static str> {
    let mut keys: Vec<&'static str> = Vec::new();
    for key in TABLE {
        let rest = if table.is_empty() {
            key.path
        } else if is_below(key.path, table) {
            &key.path[table.len() + 1..]
        } else {
            continue;
        };
        let name = rest.split('.').next().unwrap_or(rest);
        if !keys.contains(&name) {
            keys.push(name);
        }
    }
    keys
}

/// The known name nearest to a mistyped one, if any is near.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A long name is a mistake of another kind, and the distance costs the product of the lengths.
    if name.len() > 64 {
        return None;
    }
    let allowed = 1 + name.chars().count() / 4;
    let near = known.into_iter().map(|known| (distance(name, known), known));
    near.filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Number of letters to insert, delete, replace or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_key_is_told_what_was_meant_and_what_there_is() {
        for (path, meant) in [
            ("retry.max_atempts", "retry.max_attempts"),
            ("retry.budget.tll", "retry.budget.ttl"),
            ("retrys", "retry"),
            ("bulkheads.max_queue", "bulkhead"),
            ("max_attempts", "retry.max_attempts"),
            ("retry.ttl", "retry.budget.ttl"),
            ("timeout", "deadline (for the whole call) or attempt_timeout (for one attempt)"),
            ("retry.attempts", "retry.max_attempts"),
        ] {
            let rule = unknown_key(path);
            assert!(
                rule.starts_with(&format!("no such key; did you mean {meant}? the keys ")),
                "{path}: {rule}"
            );
        }
        assert!(unknown_key("retry.budget.x").contains("the keys of retry.budget are kind, pool, ttl, "));
        assert!(unknown_key("no.such").starts_with("no such key; the keys are preset, deadline, "));
        assert_eq!(unknown_key("deadline.x"), "no such key; deadline is a value, not a table");
    }

    #[test]
    fn a_renamed_key_is_named_anew() {
        // Specification 4.2.11: the key `cooldown` of a bulkhead is another component's name now.
        let rule = unknown_key("bulkhead.cooldown");
        assert!(
            rule.starts_with("no such key; did you mean bulkhead.cut_interval? the keys of bulkhead are ")
        );
    }

    #[test]
    fn nothing_is_suggested_for_what_is_far_from_everything() {
        assert_eq!(nearest("zzz", ["ttl", "kind"]), None);
        assert_eq!(nearest("", ["ttl", "kind"]), None);
        assert_eq!(nearest(&"x".repeat(100_000), ["ttl"]), None);
    }
}
