//! The validator: pairs in, a policy or all mistakes out.

use std::collections::BTreeMap;
use std::fmt;

use super::domain::{CLASSES, Stored, parse};
use super::suggest::unknown_key;
use super::table::{Domain, TABLE};
use super::written::Written;
use super::{Bulkhead, Policy, Retry, presets};
use crate::classify::Methods;
use crate::retry::{
    Backoff, BudgetSettings, Growth, Jitter, QuotaSettings, RatioSettings, RetryAfterMode, Rounding,
    ShareSettings, TokenSettings, WindowSettings,
};
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
    /// The value, as it was understood.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
    /// The line of the document it stands in, from 1, if it comes from one.
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

/// Words and names longer than this are a mistake, and are not echoed whole.
pub(super) const LONGEST: usize = 100;

/// A pair on its way to the validator, by whatever road.
pub(super) struct Pair<'a> {
    pub key: &'a str,
    /// The value, or the rule that it broke on its way: a key whose value is wrong counts as given all the same.
    pub value: Result<Value<'a>, String>,
    /// The value as its writer wrote it, where that is known.
    pub written: Option<&'a str>,
    pub line: Option<u32>,
}

pub(super) fn build(name: &str, pairs: &[(&str, Value<'_>)]) -> Result<Policy, Vec<PolicyError>> {
    let pairs = pairs.iter().map(|(key, value)| Pair { key, value: Ok(*value), written: None, line: None });
    build_written(name, pairs)
}

/// The same for pairs that remember how and where they were written.
pub(super) fn build_written<'a>(
    name: &str,
    pairs: impl Iterator<Item = Pair<'a>>,
) -> Result<Policy, Vec<PolicyError>> {
    let mut errors = Vec::new();
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        let rule = format!("a name has 1 to {LONGEST} bytes and no control characters");
        errors.push(PolicyError::new("policy", quoted(name), rule));
    }
    let mut given = Settings::default();
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
    let mut settings = Settings::default();
    if let Some(Stored::Word(preset)) = given.0.get("preset").and_then(|v| v.first()) {
        for (key, value) in presets::pairs(preset) {
            settings.add(key, *value).expect("presets are valid: a test builds each");
        }
    }
    settings.0.append(&mut given.0);
    // A key that is wrong by itself says nothing about its relation to others.
    let mut across = Vec::new();
    settings.check_across(&mut across);
    across.retain(|error| errors.iter().all(|own| own.key != error.key));
    errors.append(&mut across);
    if errors.is_empty() { Ok(settings.policy(name)) } else { Err(errors) }
}

/// Keys without a default that a choice needs: where the first key has the second's value, the third must stand.
const NEEDED: &[(&str, &str, &str)] = &[
    ("retry.backoff.kind", "polynomial", "retry.backoff.exponent"),
    ("retry.backoff.jitter", "bounded", "retry.backoff.jitter_ratio"),
    ("retry.budget.kind", "ratio", "retry.budget.ratio"),
    ("retry.budget.kind", "tokens", "retry.budget.ratio"),
    ("retry.budget.kind", "tokens", "retry.budget.max"),
];

/// Checked values by key; lists hold several.
#[derive(Default)]
struct Settings(BTreeMap<&'static str, Vec<Stored>>);

impl Settings {
    fn add(&mut self, path: &str, value: Value<'_>) -> Result<(), PolicyError> {
        let Some(key) = TABLE.iter().find(|key| key.path == path) else {
            return Err(PolicyError::new(clipped(path), shown(value, false), unknown_key(path)));
        };
        let is_span = matches!(key.domain, Domain::Span { .. });
        let fail = |rule: String| PolicyError::new(path, shown(value, is_span), rule);
        // A key whose value is wrong still counts as given: it must not be reported as absent too.
        let values = self.0.entry(key.path).or_default();
        let stored = parse(key, value).map_err(fail)?;
        if !values.is_empty() && !key.domain.is_list() {
            return Err(fail("is given more than once".into()));
        }
        values.push(stored);
        Ok(())
    }

    /// A value that was found wrong before it came here: its key counts as given too.
    fn add_wrong(&mut self, path: &str, rule: String) -> PolicyError {
        if let Some(key) = TABLE.iter().find(|key| key.path == path) {
            self.0.entry(key.path).or_default();
        }
        PolicyError::new(clipped(path), "", rule)
    }

    fn uses(&self, component: &str) -> bool {
        self.0.keys().any(|key| key.starts_with(component))
    }

    /// Rules that join several keys.
    fn check_across(&self, errors: &mut Vec<PolicyError>) {
        let mut fail = |key: &str, value: String, rule: &str| {
            errors.push(PolicyError::new(key, value, rule));
        };
        let meaningful = self.0.keys().any(|key| !matches!(*key, "preset" | "slot_until"));
        if !meaningful && !self.0.contains_key("preset") {
            fail("policy", "(empty)".into(), "an empty policy does nothing; give it at least one component");
        }
        let (base, max) = (self.span("retry.backoff.base"), self.span("retry.backoff.max"));
        if max < base {
            fail(
                "retry.backoff.max",
                max.to_string(),
                &format!("must be at least retry.backoff.base ({base})"),
            );
        }
        if self.word("preset") == "grpc" && self.whole("retry.max_attempts") > 5 {
            let attempts = self.whole("retry.max_attempts").to_string();
            fail("retry.max_attempts", attempts, "gRPC allows at most 5 attempts");
        }
        for (chooser, choice, needed) in NEEDED {
            if self.word(chooser) == *choice && !self.0.contains_key(needed) {
                fail(needed, "(absent)".into(), &format!("is required where {chooser} is {choice}"));
            }
        }
        if self.uses("bulkhead.") && !self.0.contains_key("bulkhead.max_concurrency") {
            fail("bulkhead.max_concurrency", "(absent)".into(), "is required where there is a bulkhead");
        }
    }

    /// The policy of checked settings.
    fn policy(&self, name: &str) -> Policy {
        let retry = Retry {
            max_attempts: if self.uses("retry.") { self.whole("retry.max_attempts") as u8 } else { 1 },
            time_limit: self.span_or_none("retry.retry_time_limit"),
            methods: self.methods("retry.methods"),
            statuses: self.statuses("retry.statuses"),
            classes: self.classes("retry.retry_on"),
            mode: match self.word("retry.retry_after") {
                _ if !self.flag("retry.respect_retry_after") => RetryAfterMode::Ignore,
                "exact" => RetryAfterMode::Exact,
                "clamp_5s" => RetryAfterMode::Clamp,
                "ignore" => RetryAfterMode::Ignore,
                _ => RetryAfterMode::Floor,
            },
            max_retry_after: self.span(if self.0.contains_key("retry.max_retry_after") {
                "retry.max_retry_after"
            } else {
                "retry.backoff.max"
            }),
            backoff: self.backoff(),
            throttled_base: self.span(if self.0.contains_key("retry.backoff.throttled_base") {
                "retry.backoff.throttled_base"
            } else {
                "retry.backoff.base"
            }),
            // A policy that makes one attempt keeps no books on retries.
            budget: if self.uses("retry.") && self.whole("retry.max_attempts") > 1 {
                self.budget()
            } else {
                None
            },
        };
        Policy {
            name: name.into(),
            written: Written::new(&self.0),
            deadline: self.span_or_none("deadline"),
            attempt_timeout: self.span_or_none("attempt_timeout"),
            slot_until_body: self.word("slot_until") == "body",
            retry,
            bulkhead: self.uses("bulkhead.").then(|| Bulkhead {
                max_concurrency: self.whole("bulkhead.max_concurrency"),
                max_queue: self.whole("bulkhead.max_queue"),
                acquire_timeout: self.span("bulkhead.acquire_timeout"),
            }),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff {
            growth: match self.word("retry.backoff.kind") {
                "constant" => Growth::Constant,
                "linear" => Growth::Linear,
                "polynomial" => Growth::Polynomial(self.whole("retry.backoff.exponent") as u8),
                _ => Growth::Exponential(self.real("retry.backoff.multiplier")),
            },
            base: self.span("retry.backoff.base"),
            max: self.span("retry.backoff.max"),
            jitter: match self.word("retry.backoff.jitter") {
                "none" => Jitter::None,
                "full" => Jitter::Full,
                "equal" => Jitter::Equal,
                "decorrelated" => Jitter::Decorrelated,
                "bounded" => Jitter::Bounded(self.real("retry.backoff.jitter_ratio")),
                _ => Jitter::FullFloor,
            },
        }
    }

    fn budget(&self) -> Option<BudgetSettings> {
        let throttled = if self.0.contains_key("retry.budget.throttled_cost") {
            "retry.budget.throttled_cost"
        } else {
            "retry.budget.cost"
        };
        Some(match self.word("retry.budget.kind") {
            "window" => BudgetSettings::Window(WindowSettings {
                ttl: self.span("retry.budget.ttl"),
                min_retries_per_sec: self.real("retry.budget.min_retries_per_sec"),
                percent_can_retry: self.real("retry.budget.percent_can_retry"),
                rounding: match self.word("retry.budget.rounding") {
                    "ceil" => Rounding::Ceil,
                    _ => Rounding::Floor,
                },
            }),
            "ratio" => BudgetSettings::Ratio(RatioSettings {
                ratio: self.real("retry.budget.ratio"),
                min_throughput: self.whole("retry.budget.min_throughput"),
            }),
            "share" => BudgetSettings::Share(ShareSettings {
                share: self.real("retry.budget.share"),
                min_retries: self.whole("retry.budget.min_retries"),
            }),
            "tokens" => BudgetSettings::Tokens(TokenSettings {
                max: self.whole("retry.budget.max"),
                ratio: self.real("retry.budget.ratio"),
            }),
            "quota" => BudgetSettings::Quota(QuotaSettings {
                capacity: self.whole("retry.budget.capacity"),
                cost: self.whole("retry.budget.cost") as u16,
                timeout_cost: self.whole("retry.budget.timeout_cost") as u16,
                throttled_cost: self.whole(throttled) as u16,
            }),
            _ => return None,
        })
    }

    /// The value of a key, or its default, which is written as a document would write it.
    fn stored(&self, path: &str) -> Option<Stored> {
        if let Some(value) = self.0.get(path).and_then(|values| values.first()) {
            return Some(*value);
        }
        TABLE.iter().find(|key| key.path == path)?.default_value()
    }

    fn span(&self, path: &str) -> Duration {
        match self.stored(path) {
            Some(Stored::Span(span)) => span,
            _ => Duration::ZERO,
        }
    }

    fn span_or_none(&self, path: &str) -> Duration {
        if self.0.contains_key(path) { self.span(path) } else { Duration::MAX }
    }

    fn whole(&self, path: &str) -> u32 {
        match self.stored(path) {
            Some(Stored::Whole(n)) => n,
            _ => 0,
        }
    }

    fn real(&self, path: &str) -> f64 {
        match self.stored(path) {
            Some(Stored::Real(x)) => x,
            _ => 0.0,
        }
    }

    fn flag(&self, path: &str) -> bool {
        matches!(self.stored(path), Some(Stored::Flag(true)))
    }

    fn word(&self, path: &str) -> &'static str {
        match self.stored(path) {
            Some(Stored::Word(word)) => word,
            _ => "",
        }
    }

    /// A list's values, or those of its default, whose words stand apart by blanks.
    fn list(&self, path: &str) -> Vec<Stored> {
        if let Some(values) = self.0.get(path) {
            return values.clone();
        }
        let Some(key) = TABLE.iter().find(|key| key.path == path) else { return Vec::new() };
        let words = key.default.split(' ').map(|word| word.parse().map_or(Value::Text(word), Value::Number));
        words.filter_map(|value| parse(key, value).ok()).collect()
    }

    fn methods(&self, path: &str) -> Methods {
        let words =
            self.list(path).into_iter().filter_map(|v| if let Stored::Word(w) = v { Some(w) } else { None });
        words.fold(Methods::default(), Methods::with)
    }

    /// A set of classes, a bit each.
    fn classes(&self, path: &str) -> u16 {
        let words =
            self.list(path).into_iter().filter_map(|v| if let Stored::Word(w) = v { Some(w) } else { None });
        let known = words.flat_map(|word| CLASSES.iter().filter(move |known| known.0 == word));
        known.flat_map(|known| known.1).fold(0, |set, class| set | 1 << *class as u16)
    }

    fn statuses(&self, path: &str) -> Vec<u16> {
        let numbers = self.list(path).into_iter();
        let mut all: Vec<_> =
            numbers.filter_map(|v| if let Stored::Whole(n) = v { Some(n as u16) } else { None }).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A value as its writer would know it again.
fn shown(value: Value<'_>, is_span: bool) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Number(n) if is_span => format!("{}s", n / 1e6),
        Value::Number(n) => n.to_string(),
    }
}

pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", clipped(text))
}

pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(pairs: &[(&str, Value<'_>)]) -> Vec<String> {
        build("p", pairs).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_default_in_the_table_passes_its_own_domain() {
        for key in TABLE.iter().filter(|key| !key.default.is_empty() && !key.default.starts_with("retry.")) {
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
        assert_eq!(found[5], "bulkhead.max_concurrency = (absent): is required where there is a bulkhead");
    }

    #[test]
    fn rules_across_keys() {
        assert_eq!(
            errors(&[]),
            ["policy = (empty): an empty policy does nothing; give it at least one component"]
        );
        assert_eq!(
            errors(&[("retry.backoff.base", Value::Number(6e6))]),
            ["retry.backoff.max = 5s: must be at least retry.backoff.base (6s)"]
        );
        assert_eq!(
            errors(&[("deadline", Value::Number(1e6)), ("deadline", Value::Number(1e6))]),
            ["deadline = 1s: is given more than once"]
        );
    }

    #[test]
    fn keys_that_a_choice_needs_and_limits_of_a_preset() {
        assert_eq!(
            errors(&[
                ("retry.backoff.kind", Value::Text("polynomial")),
                ("retry.budget.kind", Value::Text("tokens"))
            ]),
            [
                "retry.backoff.exponent = (absent): is required where retry.backoff.kind is polynomial",
                "retry.budget.ratio = (absent): is required where retry.budget.kind is tokens",
                "retry.budget.max = (absent): is required where retry.budget.kind is tokens",
            ]
        );
        assert_eq!(
            errors(&[("preset", Value::Text("grpc")), ("retry.max_attempts", Value::Number(6.0))]),
            ["retry.max_attempts = 6: gRPC allows at most 5 attempts"]
        );
    }

    #[test]
    fn what_can_never_be_retried_is_no_class_to_retry_on() {
        let found = errors(&[("retry.retry_on", Value::Text("permanent"))]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("retry.retry_on = \"permanent\": must be one of transient, throttled"));
    }

    #[test]
    fn a_policy_without_retry_makes_one_attempt() {
        let policy = build("p", &[("deadline", Value::Number(1e6))]).unwrap();
        assert_eq!(policy.retry.max_attempts, 1);
    }
}
