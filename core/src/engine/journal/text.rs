//! Inputs as lines of text, for a file or a border: a word, then its arguments, separated by blanks.
//!
//! ```text
//! policy NAME PAIRS                     pairs are key=number or key="text", spans in microseconds
//! pool NOW KIND NAME PAIRS
//! route NOW POLICY KEY                  names, keys and paths stand in quotes
//! target NOW ROUTE PATH
//! begin NOW ROUTE FLAGS REMAINING PARENT TARGET     flags as in `wire`; - is none
//! weights MARK AMOUNT AMOUNT AMOUNT AMOUNT       of the call that the next line begins
//! settle NOW CALL ATTEMPT WEIGHT TOTAL
//! left NOW CALL REQUESTS TOKENS INPUT OUTPUT    of the service's quotas; - is unknown
//! wall NOW MICROSECONDS                 since 1970
//! on NOW CALL timer | poll | cancel | headers ATTEMPT | finished ATTEMPT KIND OPINION RETRY_AFTER |
//!                                       progress ATTEMPT AGE
//! retune NOW POLICY NAME PAIRS
//! release NOW POLICY 0|1                1 keeps what it has counted
//! retune_pool NOW KIND NAME PAIRS
//! force NOW POLICY ROUTE 0|1            - is all routes
//! force_target NOW GROUP TARGET 0|1
//! restore NOW ELAPSED SAVED
//! fork NOW SEED
//! wakes
//! link NOW ok|metered|offline
//! lift_budgets 0|1
//! dropped COUNT                         so many inputs are missing here; refused when it is read
//! ```
//!
//! All numbers are exact, unlike the words of `wire`, which round to milliseconds and saturate.

use core::fmt;
use core::str::FromStr;

use super::{Input, Weights};
use crate::action::{CallId, Event, Link, PathId, PolicyId, Request, RouteId};
use crate::fleet::{CommandId, KeptReply, StoreKind};
use crate::outcome::{Kind, Opinion, Outcome};
use crate::policy::{Policy, Pool, PoolKind, Value};
use crate::text::is_hidden;
use crate::time::{Duration, Time, WallTime};
use crate::wire;

/// Largest id.
const ID: u64 = (1 << 53) - 1;

/// Why a line cannot be parsed: the argument, its text, and the rule it breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputError {
    /// The argument, by its name in the table above.
    pub part: String,
    /// Its text; empty if the line ends too early.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.value.is_empty() { "(nothing)" } else { &self.value };
        write!(f, "{} = {value}: {}", self.part, self.rule)
    }
}

impl std::error::Error for InputError {}

fn error<T>(part: impl Into<String>, value: &str, rule: impl Into<String>) -> Result<T, InputError> {
    Err(InputError { part: part.into(), value: value.into(), rule: rule.into() })
}

/// A quoted text; control characters are escaped as numbers, so that it stays on one line.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\x{:02x}", u32::from(c))?,
                c if is_hidden(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Converts bytes to the characters of the same numbers.
fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// A number, or `-` for an absent one.
struct Or(Option<u64>);

impl fmt::Display for Or {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(n) => write!(f, "{n}"),
            None => f.write_str("-"),
        }
    }
}

struct Pairs<'a>(&'a str, Vec<(&'static str, Value<'a>)>);

impl fmt::Display for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(self.0))?;
        for (key, value) in &self.1 {
            match value {
                Value::Number(n) => write!(f, " {key}={n}")?,
                Value::Text(text) => write!(f, " {key}={}", Quoted(text))?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy_in_words = |policy| Pairs(Policy::name(policy), policy.to_pairs());
        let pool_in_words = |pool| Pairs(Pool::name(pool), pool.to_pairs());
        match self {
            Self::Policy { policy } => write!(f, "policy {}", policy_in_words(policy)),
            Self::Pool { pool, now } => {
                write!(f, "pool {} {} {}", now.as_micros(), pool.kind(), pool_in_words(pool))
            }
            Self::Route { policy, key, now } => {
                write!(f, "route {} {} {}", now.as_micros(), policy.to_word(), Quoted(key))
            }
            Self::Path { route, path, now } => {
                write!(f, "target {} {} {}", now.as_micros(), route.to_word(), Quoted(path))
            }
            Self::Begin { route, request, now } => {
                let [flags, _, _, path] = wire::pack_request(request);
                let remaining = Or(request.remaining.map(Duration::as_micros));
                let parent = Or(request.parent.map(CallId::to_word));
                let (now, route) = (now.as_micros(), route.to_word());
                write!(f, "begin {now} {route} {flags} {remaining} {parent} {path}")
            }
            Self::Weights { weights } => {
                write!(f, "weights {}", weights.mark)?;
                weights.amounts.iter().try_for_each(|amount| write!(f, " {amount}"))
            }
            Self::Settle { call, attempt, name, total, now } => {
                let (now, call) = (now.as_micros(), call.to_word());
                write!(f, "settle {now} {call} {attempt} {} {total}", Quoted(name))
            }
            Self::Wall { wall, now } => write!(f, "wall {} {}", now.as_micros(), wall.as_unix_micros()),
            Self::Left { call, left, now } => {
                write!(f, "left {} {}", now.as_micros(), call.to_word())?;
                left.iter().try_for_each(|left| write!(f, " {}", Or(*left)))
            }
            Self::On { call, event, now } => {
                write!(f, "on {} {} ", now.as_micros(), call.to_word())?;
                match event {
                    Event::Timer => f.write_str("timer"),
                    Event::Poll => f.write_str("poll"),
                    Event::Cancel => f.write_str("cancel"),
                    Event::Headers { attempt } => write!(f, "headers {attempt}"),
                    Event::Progress { attempt, age } => write!(f, "progress {attempt} {}", age.as_micros()),
                    Event::Finished { attempt, outcome } => {
                        let (kind, opinion) = (outcome.kind.number(), outcome.opinion as u8);
                        let asked = Or(outcome.retry_after.map(Duration::as_micros));
                        write!(f, "finished {attempt} {kind} {opinion} {asked}")
                    }
                }
            }
            Self::Retune { policy, to, now } => {
                write!(f, "retune {} {} {}", now.as_micros(), policy.to_word(), policy_in_words(to))
            }
            Self::Release { policy, keep, now } => {
                write!(f, "release {} {} {}", now.as_micros(), policy.to_word(), u8::from(*keep))
            }
            Self::RetunePool { to, now } => {
                write!(f, "retune_pool {} {} {}", now.as_micros(), to.kind(), pool_in_words(to))
            }
            Self::Force { policy, route, on, now } => {
                let route = Or(route.map(RouteId::to_word));
                write!(f, "force {} {} {route} {}", now.as_micros(), policy.to_word(), u8::from(*on))
            }
            Self::ForceTarget { group, target, on, now } => {
                let (now, on) = (now.as_micros(), u8::from(*on));
                write!(f, "force_target {now} {} {} {on}", Quoted(group), Quoted(target))
            }
            Self::Fallback { route, ok, now } => {
                write!(f, "fallback {} {} {}", now.as_micros(), route.to_word(), u8::from(*ok))
            }
            Self::Restore { saved, elapsed, now } => {
                write!(f, "restore {} {} {}", now.as_micros(), elapsed.as_micros(), Quoted(saved))
            }
            Self::Fork { seed, now } => write!(f, "fork {} {seed}", now.as_micros()),
            Self::Wakes => f.write_str("wakes"),
            Self::Store { kind, namespace, process, now } => {
                write!(f, "store {} {} {process} {}", now.as_micros(), kind.name(), Quoted(namespace))
            }
            Self::Reply { command, reply, now } => {
                write!(f, "reply {} {} ", now.as_micros(), command.to_word())?;
                match reply {
                    KeptReply::Bytes(bytes) => write!(f, "bytes {}", Quoted(&text_of(bytes))),
                    KeptReply::Error(text) => write!(f, "error {}", Quoted(&text_of(text))),
                    KeptReply::Lost => f.write_str("lost"),
                }
            }
            Self::Commands => f.write_str("commands"),
            Self::Link { link, now } => write!(f, "link {} {}", now.as_micros(), link.name()),
            Self::LiftBudgets { on } => write!(f, "lift_budgets {}", u8::from(*on)),
            Self::Dropped { count } => write!(f, "dropped {count}"),
        }
    }
}

/// A value of a pair, as written in its line.
enum Plain {
    Number(f64),
    Text(String),
}

/// The rest of a line.
struct Line<'a>(&'a str);

impl<'a> Line<'a> {
    /// The next word; empty at the end.
    fn word(&mut self) -> &'a str {
        let line = self.0.trim_start_matches(' ');
        let end = line.find(' ').unwrap_or(line.len());
        self.0 = &line[end..];
        &line[..end]
    }

    /// Four of a kind.
    fn four<T: Copy + Default>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, InputError>,
    ) -> Result<[T; 4], InputError> {
        let mut all = [T::default(); 4];
        for it in &mut all {
            *it = one(self)?;
        }
        Ok(all)
    }

    /// An integer up to `most`.
    fn number(&mut self, part: &str, most: u64) -> Result<u64, InputError> {
        let word = self.word();
        self::number(part, word, most)
    }

    /// An integer up to `most`, or `-`.
    fn optional(&mut self, part: &str, most: u64) -> Result<Option<u64>, InputError> {
        match self.word() {
            "-" => Ok(None),
            word => number(part, word, most).map(Some).map_err(|error| {
                let rule = format!("{}, or - for none", error.rule);
                InputError { rule, ..error }
            }),
        }
    }

    fn now(&mut self) -> Result<Time, InputError> {
        self.number("now", u64::MAX).map(Time::from_micros)
    }

    fn policy_id(&mut self) -> Result<PolicyId, InputError> {
        self.number("policy", u64::from(u32::MAX)).map(|word| PolicyId::from_word(word as u32))
    }

    /// A quoted text.
    fn text(&mut self, part: &str) -> Result<String, InputError> {
        let line = self.0.trim_start_matches(' ');
        let rule = r#"must be a text in quotes, with \" \\ and \xNN in it for " \ and control characters"#;
        let mut text = String::new();
        let mut rest = line.strip_prefix('"').map_or("".chars(), str::chars);
        loop {
            match rest.next() {
                Some('"') => break,
                Some('\\') => match rest.next() {
                    Some(c @ ('"' | '\\')) => text.push(c),
                    Some('x') => {
                        let digits = rest.as_str().get(..2).unwrap_or("");
                        let Ok(code) = u8::from_str_radix(digits, 16) else { return error(part, line, rule) };
                        text.push(char::from(code));
                        rest = rest.as_str()[2..].chars();
                    }
                    Some('u') => {
                        let digits = rest.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'));
                        let code = digits.and_then(|(digits, _)| u32::from_str_radix(digits, 16).ok());
                        let (Some((_, after)), Some(c)) = (digits, code.and_then(char::from_u32)) else {
                            return error(part, line, rule);
                        };
                        text.push(c);
                        rest = after.chars();
                    }
                    _ => return error(part, line, rule),
                },
                Some(c) => text.push(c),
                None => return error(part, line, rule),
            }
        }
        self.0 = rest.as_str();
        if self.0.is_empty() || self.0.starts_with(' ') { Ok(text) } else { error(part, line, rule) }
    }

    /// Bytes, each written as the character of its number.
    fn bytes(&mut self, part: &str) -> Result<Box<[u8]>, InputError> {
        let line = self.0;
        let bytes = self.text(part)?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<_>>();
        bytes.map_or_else(|| error(part, line.trim_start_matches(' '), "must be characters up to ÿ"), Ok)
    }

    /// The pairs to the end of the line.
    fn pairs(&mut self) -> Result<Vec<(String, Plain)>, InputError> {
        let mut pairs = Vec::new();
        while !self.0.trim_start_matches(' ').is_empty() {
            let line = self.0.trim_start_matches(' ');
            let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.contains([' ', '"'])) else {
                return error("pair", line, r#"must be key=number or key="text""#);
            };
            self.0 = value;
            let value = if value.starts_with('"') {
                Plain::Text(self.text(key)?)
            } else {
                let word = self.word();
                let Ok(number) = word.parse() else {
                    return error(key, word, "must be a number, or a text in quotes");
                };
                Plain::Number(number)
            };
            pairs.push((key.to_owned(), value));
        }
        Ok(pairs)
    }

    fn policy(&mut self) -> Result<Box<Policy>, InputError> {
        let (name, pairs) = (self.text("name")?, self.pairs()?);
        built(Policy::from_pairs(&name, &plain(&pairs)))
    }

    fn pool(&mut self) -> Result<(Time, Box<Pool>), InputError> {
        let (now, kind) = (self.now()?, self.word());
        let Some(kind) = PoolKind::of_name(kind) else {
            return error("kind", kind, "must be one of bulkhead, rate_limit, budget, targets");
        };
        let (name, pairs) = (self.text("name")?, self.pairs()?);
        Ok((now, built(Pool::from_pairs(&name, kind, &plain(&pairs)))?))
    }

    /// Reads what a host reports of metered services.
    fn metered(&mut self, word: &str) -> Result<Input, InputError> {
        Ok(match word {
            "weights" => {
                let mark = self.number("mark", u64::MAX)?;
                let amounts = self.four(|line| line.number("amount", ID))?;
                Input::Weights { weights: Weights { amounts, mark } }
            }
            "settle" => {
                let (now, call) = (self.now()?, CallId::from_word(self.number("call", ID)?));
                let attempt = self.number("attempt", 255)? as u8;
                let name = self.text("weight")?.into();
                Input::Settle { call, attempt, name, total: self.number("total", u64::MAX)?, now }
            }
            "wall" => {
                let now = self.now()?;
                Input::Wall { wall: WallTime::from_unix_micros(self.number("wall", u64::MAX)?), now }
            }
            _ => {
                let (now, call) = (self.now()?, CallId::from_word(self.number("call", ID)?));
                Input::Left { call, left: self.four(|line| line.optional("left", u64::MAX))?, now }
            }
        })
    }

    fn link(&mut self) -> Result<Link, InputError> {
        let word = self.word();
        let link = Link::ALL.into_iter().find(|it| it.name() == word);
        link.map_or_else(|| error("link", word, "must be one of ok, metered, offline"), Ok)
    }

    fn store_kind(&mut self) -> Result<StoreKind, InputError> {
        let word = self.word();
        let kind = StoreKind::ALL.into_iter().find(|it| it.name() == word);
        kind.map_or_else(|| error("kind", word, "must be one of lua, plain"), Ok)
    }

    fn reply(&mut self) -> Result<KeptReply, InputError> {
        match self.word() {
            "bytes" => self.bytes("bytes").map(KeptReply::Bytes),
            "error" => self.bytes("error").map(KeptReply::Error),
            "lost" => Ok(KeptReply::Lost),
            word => error("reply", word, "must be one of bytes, error, lost"),
        }
    }

    fn request(&mut self) -> Result<Request, InputError> {
        let flags = self.number("flags", (1 << 25) - 1)?;
        let remaining = self.optional("remaining", u64::MAX)?.map(Duration::from_micros);
        let parent = self.optional("parent", ID)?.map(CallId::from_word);
        let path = PathId::from_word(self.number("target", ID)?);
        // All flags below 2^25 belong to a request.
        let request = wire::unpack_request(flags, 0, 0, 0).unwrap_or_default();
        Ok(Request { remaining, parent, path, ..request })
    }

    fn event(&mut self) -> Result<Event, InputError> {
        let attempt = |line: &mut Self| line.number("attempt", 255).map(|n| n as u8);
        Ok(match self.word() {
            "timer" => Event::Timer,
            "poll" => Event::Poll,
            "cancel" => Event::Cancel,
            "headers" => Event::Headers { attempt: attempt(self)? },
            "finished" => {
                let attempt = attempt(self)?;
                let kind = Kind::new(self.number("kind", 31)? as u8).unwrap_or(Kind::CANCELLED);
                let opinion = match self.number("opinion", 2)? {
                    0 => Opinion::None,
                    1 => Opinion::Retry,
                    _ => Opinion::DoNot,
                };
                let retry_after = self.optional("retry_after", u64::MAX)?.map(Duration::from_micros);
                Event::Finished { attempt, outcome: Outcome { kind, opinion, retry_after } }
            }
            "progress" => {
                let attempt = attempt(self)?;
                Event::Progress { attempt, age: Duration::from_micros(self.number("age", u64::MAX)?) }
            }
            word => {
                return error(
                    "event",
                    word,
                    "must be one of timer, poll, cancel, headers, finished, progress",
                );
            }
        })
    }
}

fn number(part: &str, word: &str, most: u64) -> Result<u64, InputError> {
    let digits = !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit());
    match word.parse() {
        Ok(n) if digits && n <= most => Ok(n),
        _ => error(part, word, format!("must be a whole number up to {most}")),
    }
}

fn plain(pairs: &[(String, Plain)]) -> Vec<(&str, Value<'_>)> {
    pairs
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Plain::Number(number) => Value::Number(*number),
                Plain::Text(text) => Value::Text(text),
            };
            (key.as_str(), value)
        })
        .collect()
}

/// The first mistake in the pairs.
fn built<T>(built: Result<T, Vec<crate::policy::PolicyError>>) -> Result<Box<T>, InputError> {
    built.map(Box::new).map_err(|errors| {
        let first = errors.into_iter().next();
        first.map_or_else(
            || InputError { part: "pairs".into(), value: String::new(), rule: "are wrong".into() },
            |error| InputError { part: error.key, value: error.value, rule: error.rule },
        )
    })
}

impl FromStr for Input {
    type Err = InputError;

    fn from_str(line: &str) -> Result<Self, InputError> {
        let mut line = Line(line);
        let input = match line.word() {
            "policy" => Self::Policy { policy: line.policy()? },
            "pool" => {
                let (now, pool) = line.pool()?;
                Self::Pool { pool, now }
            }
            "route" => {
                let (now, policy) = (line.now()?, line.policy_id()?);
                Self::Route { policy, key: line.text("key")?.into(), now }
            }
            "target" => {
                let (now, route) = (line.now()?, RouteId::from_word(line.number("route", ID)?));
                Self::Path { route, path: line.text("path")?.into(), now }
            }
            "begin" => {
                let (now, route) = (line.now()?, RouteId::from_word(line.number("route", ID)?));
                Self::Begin { route, request: line.request()?, now }
            }
            word @ ("weights" | "settle" | "wall" | "left") => line.metered(word)?,
            "on" => {
                let (now, call) = (line.now()?, CallId::from_word(line.number("call", ID)?));
                Self::On { call, event: line.event()?, now }
            }
            "retune" => {
                let (now, policy) = (line.now()?, line.policy_id()?);
                Self::Retune { policy, to: line.policy()?, now }
            }
            "release" => {
                let (now, policy) = (line.now()?, line.policy_id()?);
                Self::Release { policy, keep: line.number("keep", 1)? == 1, now }
            }
            "retune_pool" => {
                let (now, to) = line.pool()?;
                Self::RetunePool { to, now }
            }
            "force" => {
                let (now, policy) = (line.now()?, line.policy_id()?);
                let route = line.optional("route", ID)?.map(RouteId::from_word);
                Self::Force { policy, route, on: line.number("on", 1)? == 1, now }
            }
            "force_target" => {
                let (now, group) = (line.now()?, line.text("group")?.into());
                let target = line.text("target")?.into();
                Self::ForceTarget { group, target, on: line.number("on", 1)? == 1, now }
            }
            "fallback" => {
                let (now, route) = (line.now()?, RouteId::from_word(line.number("route", ID)?));
                Self::Fallback { route, ok: line.number("ok", 1)? == 1, now }
            }
            "restore" => {
                let (now, elapsed) = (line.now()?, line.number("elapsed", u64::MAX)?);
                let saved = line.text("saved")?.into();
                Self::Restore { saved, elapsed: Duration::from_micros(elapsed), now }
            }
            "fork" => Self::Fork { now: line.now()?, seed: line.number("seed", u64::MAX)? },
            "wakes" => Self::Wakes,
            "store" => {
                let (now, kind) = (line.now()?, line.store_kind()?);
                let process = line.number("process", u64::MAX)?;
                Self::Store { kind, namespace: line.text("namespace")?.into(), process, now }
            }
            "reply" => {
                let (now, command) = (line.now()?, CommandId::from_word(line.number("command", ID)?));
                Self::Reply { command, reply: line.reply()?, now }
            }
            "commands" => Self::Commands,
            "link" => Self::Link { now: line.now()?, link: line.link()? },
            "lift_budgets" => Self::LiftBudgets { on: line.number("on", 1)? == 1 },
            "dropped" => {
                let rule = "so many inputs before this line are missing, and what follows cannot be replayed: take the \
                            journal more often";
                return error("dropped", line.word(), rule);
            }
            word => {
                let words = "policy, pool, route, target, begin, weights, settle, wall, left, on, retune, release, retune_pool, force, force_target, fallback, restore, fork, wakes, \
                             store, reply, commands, link, lift_budgets";
                return error("input", word, format!("must be one of {words}"));
            }
        };
        match line.word() {
            "" => Ok(input),
            word => error("end", word, "must be the end of the line"),
        }
    }
}
