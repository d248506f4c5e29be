//! Groups of targets: the models, providers, regions or keys that an attempt can go to (semantics 17).

use super::check::{self, LONGEST, Pair, PolicyError, Value, quoted};
use super::domain::{self, Stored, is_name, is_short_name};
use super::keys::{self, Key};
use super::{Policy, TABLE};
use crate::full::Switch;
use crate::time::Duration;

/// The most targets in a group.
const MOST: usize = 16;

/// The greatest share of a target.
const MOST_SHARES: u32 = 1_000;

/// How a group's choice is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pick {
    /// The first target, in order, that admits the attempt.
    Ladder,
    /// The better of two that are drawn by their shares.
    Balanced,
}

impl Pick {
    const ALL: [(&'static str, Self); 2] = [("ladder", Self::Ladder), ("balanced", Self::Balanced)];

    /// The name in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Balanced => "balanced",
        }
    }
}

/// One target of a group.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Member {
    /// Its name within the group.
    pub(crate) name: String,
    /// How often it is drawn, relative to the others.
    pub(crate) share: u32,
    /// Classes and kinds of failure after one of which alone a call may go to it; empty where every call may.
    pub(crate) only_after: Vec<String>,
    /// Its components; its name is that of the group and its own.
    pub(crate) policy: Policy,
}

/// The settings of a group.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    pub(crate) pick: Pick,
    /// Calls that may wait for a target; 0 is no queue.
    pub(crate) max_queue: u32,
    /// How long each of them may wait.
    pub(crate) max_wait: Duration,
    pub(crate) members: Vec<Member>,
}

/// Keys of a group that belong to no component.
pub(super) const PICK: &str = "pick";
pub(super) const MEMBER: &str = "member";
pub(super) const SHARE: &str = "share";
pub(super) const ONLY_AFTER: &str = "only_after";

/// The keys of a group's queue.
pub(super) const QUEUE_KEYS: [Key; 2] = [
    keys::key(
        "max_queue",
        keys::count(0, 10_000_000),
        "0",
        "Calls that may wait until a member admits them; 0 is no queue.",
    ),
    keys::key("max_wait", keys::span(keys::MICRO), "1s", "max_queue: how long a call waits for a member."),
];
const MAX_QUEUE: usize = 0;
const MAX_WAIT: usize = 1;

/// Makes a policy of a target's components count as one that has something, also where a target has none.
const ALONE: (&str, Value<'static>) = ("retry.max_attempts", Value::Number(1.0));

/// What the cooldown of a target has that does not give it: a policy takes the first from its retries, and has no other.
const COOLDOWN: [(&str, Value<'static>); 2] =
    [("cooldown.max", Value::Number(60e6)), ("cooldown.quota_wait", Value::Number(300e6))];

/// The key of its attempts' timeout, in place of the policies', and the longest one, in µs.
const TIMEOUT: &str = "attempt_timeout";
const LONGEST_TIMEOUT: f64 = 3.6e9;

/// Keys of these components that no target has: it counts attempts, never queues, and belongs to its process.
const FOREIGN: [&str; 17] = [
    "bulkhead.max_queue",
    "bulkhead.acquire_timeout",
    "bulkhead.unit",
    "bulkhead.queue_target",
    "bulkhead.queue_interval",
    "bulkhead.codel",
    "bulkhead.queue_adaptive_lifo",
    "bulkhead.prioritized",
    "bulkhead.pool",
    "bulkhead.store",
    "bulkhead.lease_ttl",
    "bulkhead.on_loss",
    "bulkhead.latency_store",
    "breaker.unit",
    "breaker.store",
    "breaker.quorum",
    "breaker.on_loss",
];

/// Whether a target may have this key of a policy.
fn owns(key: &str) -> bool {
    let rate = ["rate_limit.permits", "rate_limit.per", "rate_limit.burst"].contains(&key);
    let other = key.starts_with("bulkhead.") || key.starts_with("breaker.");
    let cooldown = ["cooldown.base", COOLDOWN[0].0, COOLDOWN[1].0].contains(&key);
    rate || cooldown || key == TIMEOUT || other && !FOREIGN.contains(&key)
}

/// A pair of a group, in the order in which it was written: what is before the first `member` is the default of all.
pub(super) struct Given<'a> {
    pub pair: Pair<'a>,
    /// The key as errors show it, such as `members.gpt.breaker.consecutive`.
    pub shown: String,
}

/// The pairs of one target.
#[derive(Default)]
struct MemberPairs<'a> {
    name: String,
    share: Option<u32>,
    only_after: Vec<String>,
    own: Vec<Given<'a>>,
}

/// The pairs of a group, sorted by what they are about, and the mistakes in them.
#[derive(Default)]
struct GroupPairs<'a> {
    /// Bytes of the group's name.
    name_length: usize,
    pick: Option<Pick>,
    /// Number of pairs that name a `pick`, right or wrong.
    picks: u32,
    /// What each key of the queue is given as.
    queue: [Option<(Stored, Given<'a>)>; 2],
    default_share: Option<u32>,
    defaults: Vec<Given<'a>>,
    members: Vec<MemberPairs<'a>>,
    errors: Vec<PolicyError>,
}

impl<'a> GroupPairs<'a> {
    fn fail(&mut self, given: &Given<'_>, value: String, rule: impl Into<Box<str>>) {
        let value = given.pair.written.map_or(value, check::clipped);
        let error = PolicyError::new(&*given.shown, value, String::from(rule.into()));
        self.errors.push(PolicyError { line: given.pair.line, ..error });
    }

    fn take(&mut self, given: Given<'a>) {
        self.picks += u32::from(given.pair.key == PICK);
        let value = match &given.pair.value {
            Ok(value) => *value,
            Err(rule) => return self.fail(&given, String::new(), &**rule),
        };
        let shown = check::shown(value, false);
        match given.pair.key {
            PICK => self.take_pick(&given, value, shown),
            MEMBER => self.take_member(&given, value, shown),
            SHARE => match value {
                Value::Number(n) if n >= 1.0 && n <= f64::from(MOST_SHARES) && n.fract() == 0.0 => {
                    let share = Some(n as u32);
                    match self.members.last_mut() {
                        Some(member) => member.share = share,
                        None => self.default_share = share,
                    }
                }
                _ => self.fail(&given, shown, format!("must be a whole number from 1 to {MOST_SHARES}")),
            },
            ONLY_AFTER => self.take_only_after(&given, value, shown),
            key if let Some(place) = QUEUE_KEYS.iter().position(|own| own.path == key) => {
                match domain::parse(&QUEUE_KEYS[place], value, &[]) {
                    Ok(_) if self.queue[place].is_some() => {
                        self.fail(&given, shown, "is given more than once");
                    }
                    Ok(stored) => self.queue[place] = Some((stored, given)),
                    Err(rule) => self.fail(&given, shown, rule),
                }
            }
            key if !owns(key) => {
                let rule = if TABLE.iter().any(|known| known.path == key) {
                    "a target has attempt_timeout, rate_limit (permits, per, burst), bulkhead without a queue, breaker, and cooldown (base, max, \
                     quota_wait); all else belongs to the policies that name the group"
                } else {
                    "no such key; a group has pick, max_queue and max_wait, a target share, only_after, attempt_timeout, rate_limit, bulkhead, breaker and cooldown"
                };
                self.fail(&given, shown, rule);
            }
            TIMEOUT if matches!(value, Value::Number(n) if n > LONGEST_TIMEOUT) => {
                self.fail(&given, check::shown(value, true), "must be at most 1h for a target");
            }
            _ => match self.members.last_mut() {
                Some(member) => member.own.push(given),
                None => self.defaults.push(given),
            },
        }
    }

    fn take_pick(&mut self, given: &Given<'_>, value: Value<'_>, shown: String) {
        match (Pick::ALL.iter().find(|(word, _)| Value::Text(word) == value), self.pick) {
            (_, Some(_)) => self.fail(given, shown, "is given more than once"),
            (Some((_, word)), None) => self.pick = Some(*word),
            (None, None) => self.fail(given, shown, "must be one of ladder, balanced"),
        }
    }

    /// Begins a target.
    fn take_member(&mut self, given: &Given<'_>, value: Value<'_>, shown: String) {
        match value {
            Value::Text(member) if is_name(member) && self.name_length + member.len() < LONGEST => {
                if self.members.iter().any(|known| known.name == member) {
                    self.fail(given, shown, "is the name of another target of this group");
                }
                self.members.push(MemberPairs { name: member.to_owned(), ..MemberPairs::default() });
            }
            _ => {
                let rule = format!(
                    "must be a name without control characters, and with the group's name of at most {} bytes",
                    LONGEST - 1
                );
                self.fail(given, shown, rule);
                self.members.push(MemberPairs::default());
            }
        }
    }

    fn take_only_after(&mut self, given: &Given<'_>, value: Value<'_>, shown: String) {
        match (value, self.members.last_mut()) {
            (_, None) => {
                let rule = "belongs to a member: a call's first attempt needs one that is open to all";
                self.fail(given, shown, rule);
            }
            (Value::Text(kind), Some(member))
                if is_short_name(kind) && !["ok", "cancelled"].contains(&kind) =>
            {
                member.only_after.push(kind.to_owned());
            }
            _ => {
                self.fail(
                    given,
                    shown,
                    "must be a class or a kind of failure, such as throttled or too_long",
                );
            }
        }
    }

    /// The length of the queue and how long a call may wait in it, as given or by default.
    fn queue(&mut self) -> (u32, Duration) {
        let [length, wait] = [MAX_QUEUE, MAX_WAIT].map(|place| {
            let given = self.queue[place].as_ref().map(|(stored, _)| stored.clone());
            given.or(QUEUE_KEYS[place].default_value())
        });
        let max_queue = if let Some(Stored::Whole(count)) = length { count } else { 0 };
        let max_wait = if let Some(Stored::Span(span)) = wait { span } else { Duration::ZERO };
        if max_queue == 0
            && let Some((_, given)) = self.queue[MAX_WAIT].take()
        {
            let shown = check::shown(Value::Number(max_wait.as_micros() as f64), true);
            self.fail(&given, shown, "needs a queue: max_queue of at least 1");
        }
        (max_queue, max_wait)
    }

    /// Checks the list of targets as a whole.
    fn check_members(&mut self) {
        let members = &self.members;
        let (value, rule) = if members.is_empty() {
            ("(absent)".into(), "is required: a list of the group's targets, in the order of a ladder".into())
        } else if members.len() > MOST {
            (format!("({} targets)", members.len()), format!("a group has at most {MOST} targets"))
        } else if members.iter().all(|member| !member.only_after.is_empty()) {
            let rule = "one of them must have no only_after, because first attempts need a target";
            ("(all have only_after)".into(), rule.into())
        } else {
            return;
        };
        self.errors.push(PolicyError::new("members", value, rule));
    }
}

/// The settings of one target, from its own pairs and the group's default.
fn target_of(
    group: &str,
    (member, own): (&str, &[Given<'_>]),
    defaults: &[Given<'_>],
) -> Result<Policy, Vec<PolicyError>> {
    let full = format!("{group}/{member}");
    // A list of the target replaces the default's list, like any other key.
    let replaced = |key: &str| own.iter().any(|given| given.pair.key == key);
    let inherited = defaults.iter().filter(|given| !replaced(given.pair.key));
    let all: Vec<_> = inherited.chain(own).collect();
    let pairs = all.iter().map(|given| given.pair.again());
    let cools = all.iter().any(|given| given.pair.key.starts_with("cooldown."));
    let absent = |key: &str| cools && all.iter().all(|given| given.pair.key != key);
    let more = [ALONE].into_iter().chain(COOLDOWN.into_iter().filter(|(key, _)| absent(key)));
    let more = more.map(|(key, value)| Pair { key, value: Ok(value), written: None, line: None });
    check::build_written(&full, Switch::default(), more.chain(pairs)).map_err(|errors| {
        let named = |error: PolicyError| {
            let given = all.iter().find(|given| given.pair.key == error.key);
            let key = given.map_or_else(
                || format!("members.{}.{}", quoted_if_needed(member), error.key),
                |given| given.shown.clone(),
            );
            let line = error.line.or(given.and_then(|given| given.pair.line));
            PolicyError { key, line, ..error }
        };
        errors.into_iter().map(named).collect()
    })
}

/// Removes the errors that are there before.
fn leave_once(errors: &mut Vec<PolicyError>) {
    let mut seen: Vec<PolicyError> = Vec::new();
    errors.retain(|error| {
        let is_new = !seen.contains(error);
        seen.push(error.clone());
        is_new
    });
}

impl Group {
    /// Builds a group from its pairs; errors name the key as the group's author wrote it.
    pub(super) fn build(name: &str, given: Vec<Given<'_>>) -> Result<Self, Vec<PolicyError>> {
        let mut read = GroupPairs { name_length: name.len(), ..GroupPairs::default() };
        for pair in given {
            read.take(pair);
        }
        let (max_queue, max_wait) = read.queue();
        read.check_members();
        let GroupPairs { pick, picks, default_share, defaults, members, mut errors, .. } = read;
        let mut built = Vec::new();
        for member in members {
            match target_of(name, (&member.name, &member.own), &defaults) {
                Ok(policy) => {
                    let share = member.share.or(default_share).unwrap_or(1);
                    let MemberPairs { name, only_after, .. } = member;
                    built.push(Member { name, share, only_after, policy });
                }
                Err(_) if member.name.is_empty() => {}
                Err(more) => errors.extend(more),
            }
        }
        // A mistake in the default is reported once, not for each target.
        leave_once(&mut errors);
        match pick {
            Some(pick) if errors.is_empty() => return Ok(Self { pick, max_queue, max_wait, members: built }),
            None if picks == 0 => {
                let rule = "is required: ladder (the first that admits) or balanced (the better of two)";
                errors.push(PolicyError::new(PICK, "(absent)", rule));
            }
            _ => {}
        }
        Err(errors)
    }

    /// The pairs that make this group, in an order that [`Group::build`] reads; defaults are spelled out.
    pub(super) fn pairs(&self) -> Vec<(&'static str, Value<'_>)> {
        let mut pairs = vec![(PICK, Value::Text(self.pick.name()))];
        pairs.extend(self.queue_pairs().map(|(key, value)| (key.path, value)));
        for member in &self.members {
            pairs.push((MEMBER, Value::Text(&member.name)));
            if member.share != 1 {
                pairs.push((SHARE, Value::Number(member.share.into())));
            }
            pairs.extend(member.only_after.iter().map(|kind| (ONLY_AFTER, Value::Text(kind))));
            pairs.extend(member.pairs());
        }
        pairs
    }
}

impl Group {
    /// The pairs of its queue.
    pub(super) fn queue_pairs(&self) -> impl Iterator<Item = (Key, Value<'static>)> {
        let values = [f64::from(self.max_queue), self.max_wait.as_micros() as f64];
        let pairs = QUEUE_KEYS.into_iter().zip(values.map(Value::Number));
        pairs.filter(|_| self.max_queue > 0)
    }
}

impl Member {
    /// The pairs of its components.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        self.policy.to_pairs().into_iter().filter(|(key, _)| *key != ALONE.0)
    }
}

impl<'a> Pair<'a> {
    /// The same pair once more, for another target.
    fn again(&self) -> Pair<'a> {
        Pair { key: self.key, value: self.value.clone(), written: self.written, line: self.line }
    }
}

fn quoted_if_needed(name: &str) -> String {
    let bare = name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
    if bare { name.to_owned() } else { quoted(name) }
}
