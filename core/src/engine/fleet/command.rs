//! Writing commands and parsing replies.

mod again;

use crate::engine::fleet::FORGOTTEN;
use crate::engine::fleet::FleetStore;
use crate::engine::stage::missing;
use core::ops::Range;
use std::fmt::Write as _;

use super::set::Question;
use super::{Fleet, breaker, plain, slots};
use crate::action::{CallId, RouteId};
use crate::fleet::{CommandId, SLOTS, Script, StoreCommand};
use crate::time::{Duration, Time};

/// Integers in replies must be below this: a double holds them exactly.
const MOST: u64 = 1 << 53;

/// Index of the first fence in the `tail` of a command about slots: after the number of keys, the keys and six
/// arguments.
const FENCES: usize = 1 + SLOTS.keys.len() + 6;

/// Subject of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// Tokens of a rate: `want`, but at least `need`. In strict mode for this call alone.
    Rate {
        want: u32,
        need: u32,
        call: Option<CallId>,
    },
    /// Tokens of a set of limits.
    Set(Question),
    /// A breaker's state.
    Breaker {
        op: breaker::Op,
    },
    /// A cooldown's closing, of which so much is left; zero only reads.
    Cooldown {
        span: Duration,
    },
    /// `count` slots of a bulkhead.
    Slots {
        op: slots::Op,
        count: u32,
    },
    /// A window of a rate, in a store without scripts; [`Subject::Mark`] is the same for a breaker.
    Window {
        link: plain::Link,
        wanted: plain::Wanted,
    },
    Mark {
        link: plain::Link,
        op: breaker::Op,
        duration: Duration,
    },
    /// Latencies.
    Digest,
}

/// Part of a route that a command is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine) enum Part {
    Rate,
    Breaker,
    Cooldown,
    Slots,
    /// Maintenance; no call waits for it.
    Upkeep,
    Digest,
}

impl Subject {
    /// The integers of an answer; `None` for any other answer.
    pub fn read(self, bytes: &[u8]) -> Option<Vec<u64>> {
        let (least, most) = match self {
            Self::Window { link, wanted } => {
                let counted =
                    |it: &Vec<u64>| !link.counts() || it.iter().all(|all| *all >= u64::from(wanted.0));
                return link.read(bytes, integer).filter(counted);
            }
            Self::Mark { link, .. } => return link.read(bytes, integer),
            Self::Rate { .. } | Self::Cooldown { .. } => (3, 3),
            Self::Set(asked) => {
                let count = 3 + 2 * usize::from(asked.count);
                (count, count)
            }
            Self::Breaker { .. } => (4, 4),
            Self::Slots { op: slots::Op::Acquire, .. } => (5, 5),
            Self::Slots { op: slots::Op::Renew, count } => (2, 2 + count as usize),
            Self::Slots { op: slots::Op::Release | slots::Op::Reap, .. } | Self::Digest => (2, 2),
        };
        let numbers = integers(bytes)?;
        // Epochs and fences go back to the store, whose scripts accept no number above this: a larger one would cause
        // an error each time.
        let returns = matches!(self, Self::Breaker { .. } | Self::Slots { .. });
        let known = !matches!(self, Self::Breaker { .. }) || numbers.first().is_some_and(|state| *state <= 2);
        let fits = known && (!returns || numbers.iter().all(|number| *number <= MOST / 2));
        (fits && (least..=most).contains(&numbers.len())).then_some(numbers)
    }

    /// Of a command about tokens whether they are those of a set of limits.
    pub fn is_of_set(self) -> Option<bool> {
        match self {
            Self::Set(_) => Some(true),
            Self::Rate { .. } => Some(false),
            Self::Window { link, .. } => (link != plain::Link::Repair).then_some(false),
            Self::Breaker { .. }
            | Self::Cooldown { .. }
            | Self::Slots { .. }
            | Self::Mark { .. }
            | Self::Digest => None,
        }
    }

    pub fn part(self) -> Part {
        match self {
            Self::Window { link: plain::Link::Repair, .. } | Self::Mark { link: plain::Link::Repair, .. } => {
                Part::Upkeep
            }
            Self::Rate { .. } | Self::Set(_) | Self::Window { .. } => Part::Rate,
            Self::Breaker { .. } | Self::Mark { .. } => Part::Breaker,
            Self::Cooldown { .. } => Part::Cooldown,
            Self::Slots { .. } => Part::Slots,
            Self::Digest => Part::Digest,
        }
    }
}

/// Integers separated by single blanks.
fn integers(bytes: &[u8]) -> Option<Vec<u64>> {
    // Longer than any valid answer.
    if bytes.len() > 1 << 16 {
        return None;
    }
    bytes.split(|byte| *byte == b' ').map(integer).collect()
}

fn integer(word: &[u8]) -> Option<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let word = core::str::from_utf8(word).ok().filter(|_| digits)?;
    word.parse().ok().filter(|number| *number < MOST)
}

/// A command without an answer yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub subject: Subject,
    /// The route or the pool of the command.
    pub home: RouteId,
    /// When it was sent, and when its answer is overdue.
    pub sent: Time,
    pub due: Time,
    /// Whether it is overdue. If so, the store was marked as lost; a late answer is still processed.
    pub overdue: bool,
    /// Whether the command only names the script, so that the store may not know it.
    pub by_name: bool,
    /// `None` for a plain command.
    script: Option<&'static Script>,
    within: Duration,
    /// The command without its first two words; all words of a plain command.
    tail: Vec<Vec<u8>>,
}

/// Address of a command: its route or pool, and the name of that in keys.
pub(super) struct Address {
    pub home: RouteId,
    pub entity: String,
}

impl Pending {
    pub fn within(&self) -> Duration {
        self.within
    }

    /// The fences named in a command about slots.
    pub fn fences(&self) -> Vec<u64> {
        let words = self.tail.iter().skip(FENCES);
        words.filter_map(|word| core::str::from_utf8(word).ok()?.parse().ok()).collect()
    }

    /// Length of the leases that a command about slots requests or renews.
    pub fn lease(&self) -> Duration {
        let word = self.tail.get(FENCES - 3).and_then(|word| core::str::from_utf8(word).ok()?.parse().ok());
        Duration::from_micros(word.unwrap_or(0))
    }
}

impl FleetStore {
    /// This process's name in the store; empty without one.
    pub(super) fn process_name(&self) -> Vec<u8> {
        self.fleet.as_ref().map_or_else(Vec::new, |fleet| fleet.process.to_vec())
    }

    /// Forgets commands that the host will no longer answer.
    fn forget_commands(&mut self, now: Time) {
        while let Some(fleet) = self.fleet.as_mut()
            && let Some(oldest) = fleet.pending.first_entry()
            && oldest.get().overdue
            && oldest.get().due.after(FORGOTTEN) <= now
        {
            oldest.remove();
        }
    }

    /// Releases slots that a command has acquired, by the keys of that command, because its route may be gone.
    pub(super) fn send_release(&mut self, of: &Pending, fences: Range<u64>, now: Time) {
        let Some(fleet) = self.fleet.as_mut() else {
            return missing("the store of a component of the fleet's");
        };
        let (op, count) = (slots::Op::Release, (fences.end - fences.start) as u32);
        let number = |number: u64| number.to_string().into_bytes();
        let mut tail = of.tail.clone();
        tail.truncate(FENCES - 2);
        tail[FENCES - 6] = number(op as u64);
        tail.push(number(u64::from(count)));
        tail.push(number(0));
        tail.extend(fences.map(number));
        let subject = Subject::Slots { op, count };
        let due = now.after(of.within);
        let pending = Pending { subject, tail, sent: now, due, overdue: false, by_name: true, ..of.clone() };
        let command = fleet.command(pending);
        self.commands.push(command);
    }

    /// Sends a script by name, with the keys of the route or pool. The operation, if the script has several, precedes
    /// the process's name.
    pub(super) fn send(
        &mut self,
        script: &'static Script,
        (to, subject): (Address, Subject),
        (op, args): (Option<u64>, &[u64]),
        within: Duration,
        now: Time,
    ) {
        let number = |number: u64| number.to_string().into_bytes();
        let mut words = Vec::with_capacity(2 + args.len());
        words.extend(op.map(number));
        words.push(self.process_name());
        words.extend(args.iter().copied().map(number));
        self.send_words(script, (to, subject), words, within, now);
    }

    /// Sends a script by name, with these arguments after its keys.
    pub(super) fn send_words(
        &mut self,
        script: &'static Script,
        (to, subject): (Address, Subject),
        args: Vec<Vec<u8>>,
        within: Duration,
        now: Time,
    ) {
        let Address { home, entity } = to;
        let Some(fleet) = self.fleet.as_mut() else {
            return missing("the store of a component of the fleet's");
        };
        let mut tail = Vec::with_capacity(1 + script.keys.len() + args.len());
        tail.push(script.keys.len().to_string().into_bytes());
        for part in script.keys {
            // A key that ends so is the process's own.
            let own = if part.ends_with(':') { &fleet.process[..] } else { &[] };
            tail.push([format!("{}:{{{entity}}}{part}", fleet.namespace).as_bytes(), own].concat());
        }
        tail.extend(args);
        let pending = Pending {
            subject,
            home,
            sent: now,
            due: now.after(within),
            overdue: false,
            by_name: true,
            script: Some(script),
            within,
            tail,
        };
        let command = fleet.command(pending);
        self.commands.push(command);
        self.forget_commands(now);
    }

    /// Sends a plain command: its name, the suffix of its key, and the arguments after the key.
    pub(super) fn send_plain(
        &mut self,
        (to, subject): (Address, Subject),
        (name, part, args): (&str, &str, &[&str]),
        within: Duration,
        now: Time,
    ) {
        let Address { home, entity } = to;
        let Some(fleet) = self.fleet.as_mut() else {
            return missing("the store of a component of the fleet's");
        };
        let key = format!("{}:{{{entity}}}{part}", fleet.namespace);
        let words = [name, &key].into_iter().chain(args.iter().copied());
        let pending = Pending {
            subject,
            home,
            sent: now,
            due: now.after(within),
            overdue: false,
            by_name: false,
            script: None,
            within,
            tail: words.map(|word| word.as_bytes().to_vec()).collect(),
        };
        let command = fleet.command(pending);
        self.commands.push(command);
        self.forget_commands(now);
    }
}

impl Fleet {
    /// Registers a command and returns it for the host.
    fn command(&mut self, pending: Pending) -> StoreCommand {
        self.last += 1;
        let id = CommandId::new(self.last);
        let mut words = Vec::with_capacity(2 + pending.tail.len());
        if let Some(script) = pending.script {
            let (verb, text) =
                if pending.by_name { ("EVALSHA", script.sha) } else { ("EVAL", script.source) };
            words.extend([verb.as_bytes().to_vec(), text.as_bytes().to_vec()]);
        }
        let key = if pending.script.is_some() { 3 } else { 1 };
        words.extend(pending.tail.iter().cloned());
        self.first_due = self.first_due.min(pending.due);
        let within = pending.within;
        self.pending.insert(id, pending);
        StoreCommand { id, words, key, within }
    }

    /// Unanswered commands about a part of a route.
    fn about(&self, home: RouteId, part: Part) -> impl Iterator<Item = &Pending> {
        self.pending.values().filter(move |it| it.home == home && !it.overdue && it.subject.part() == part)
    }

    /// When the first answer about it is overdue.
    pub(super) fn due(&self, home: RouteId, part: Part) -> Option<Time> {
        self.about(home, part).map(|it| it.due).min()
    }

    /// Number of unanswered commands about tokens: those of a set of limits, or of a single rate.
    pub(super) fn out_for_tokens(&self, home: RouteId, of_set: bool) -> usize {
        self.about(home, Part::Rate).filter(|it| it.subject.is_of_set() == Some(of_set)).count()
    }

    /// Number of unanswered commands.
    pub(super) fn out(&self, home: RouteId, part: Part) -> usize {
        self.about(home, part).count()
    }
}

/// A name as a part of a key. Separators, braces (which select the key's place in a cluster) and control characters
/// are replaced by their numbers.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '%' | '{' | '}' | '|') || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(text, "%{byte:02x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_closes_the_braces_and_no_two_names_share_a_key() {
        let names = ["a", "a|b", "a%7cb", "{a}", "a}", "%", "a\u{0}", "é", "\u{85}"];
        let escaped: Vec<_> = names.iter().map(|name| escaped(name)).collect();
        assert_eq!(escaped[1..5], ["a%7cb", "a%257cb", "%7ba%7d", "a%7d"]);
        assert_eq!(escaped[8], "%c2%85");
        let mut all = escaped.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), names.len());
        assert!(escaped.iter().all(|name| !name.contains(['{', '}', '|'])));
    }

    #[test]
    fn an_answer_is_whole_numbers_of_the_right_count_or_none() {
        let rate = Subject::Rate { want: 1, need: 1, call: None };
        assert_eq!(rate.read(b"1 0 12"), Some(vec![1, 0, 12]));
        assert_eq!(rate.read(b"9007199254740991 0 1"), Some(vec![MOST - 1, 0, 1]));
        for wrong in [
            &b""[..],
            b"1",
            b"1 0",
            b"1 0 1 1",
            b"1  1",
            b" 1 0 1",
            b"1 0 1 ",
            b"1 0 -1",
            b"1 0 +1",
            b"1 0 1.0",
            b"1 0 9007199254740992",
            b"1 0 99999999999999999999",
            b"1 0 x",
            b"1 0 \xff",
            b"nil",
            b"OK",
        ] {
            assert_eq!(rate.read(wrong), None, "{wrong:?}");
        }
        assert_eq!(rate.read("1".repeat(1 << 17).as_bytes()), None);
    }
}
