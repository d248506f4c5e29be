//! Hold: while a throttled call waits for its Retry-After, new calls to like paths wait too (semantics 2.19).
//!
//! A hold belongs to a path, or to a prefix of paths that has been throttled often enough. It is a queue whose limit
//! starts at 1 when the server's wait is over, and grows by 1 with each success.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::admit::Answer;
use super::arena::{State, flag};
use super::call::{MAX_PARK, wait};
use super::chores::Chore;
use super::queue::List;
use super::side::NO_GATE;
use super::{Engine, Input};
use crate::action::{RouteId, Step, TargetId, Verdict, Wait};
use crate::full::FULL;
use crate::map::Map;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};

/// Paths longer than this are cut.
const LONGEST_PATH: usize = 512;
/// Prefixes have up to this many segments; one of n is held from its (5 − n)th throttle.
const DEEPEST: usize = 4;
/// The most paths and prefixes that a route counts throttles of.
const MOST_COUNTED: usize = 1_024;
/// The most paths that an engine names at once.
const MOST_TARGETS: usize = u16::MAX as usize - 1;
/// How many idle names are looked at for one that can go.
const LOOKED_AT: usize = 64;

/// The paths that live calls go to, by number.
#[derive(Debug, Default)]
pub(super) struct Targets {
    entries: Vec<Target>,
    by_path: Map<Box<str>, u16>,
    cursor: usize,
    /// How often a path could not be named.
    pub overflows: u64,
}

#[derive(Debug)]
struct Target {
    path: Box<str>,
    generation: u64,
    calls: u32,
}

/// The bits of a target's place in its id; the rest is its generation.
const PLACE: u32 = 16;

impl Targets {
    fn intern(&mut self, path: &str) -> TargetId {
        if let Some(place) = self.by_path.get(path) {
            return self.id(*place);
        }
        let place = if self.entries.len() < MOST_TARGETS {
            self.entries.push(Target { path: path.into(), generation: 1, calls: 0 });
            self.entries.len() - 1
        } else {
            // One that no call goes to makes room; where there is none, the new path is not held.
            let seen = (0..LOOKED_AT).map(|n| (self.cursor + n) % self.entries.len());
            let Some(place) = seen.into_iter().find(|place| self.entries[*place].calls == 0) else {
                self.overflows += 1;
                return TargetId::NONE;
            };
            self.cursor = place + 1;
            let entry = &mut self.entries[place];
            self.by_path.remove(&entry.path);
            *entry = Target { path: path.into(), generation: entry.generation + 1, calls: 0 };
            place
        };
        self.by_path.insert(path.into(), place as u16);
        self.id(place as u16)
    }

    fn id(&self, place: u16) -> TargetId {
        TargetId::from_word(self.entries[usize::from(place)].generation << PLACE | u64::from(place))
    }

    /// The number that a call remembers, one more than the place; 0 for an id that names nothing any more.
    fn enter(&mut self, id: TargetId) -> u16 {
        let place = (id.to_word() & ((1 << PLACE) - 1)) as u16;
        match self.entries.get_mut(usize::from(place)) {
            Some(entry) if entry.generation == id.to_word() >> PLACE => {
                entry.calls += 1;
                place + 1
            }
            _ => 0,
        }
    }

    pub fn leave(&mut self, number: u16) {
        if let Some(entry) = usize::from(number).checked_sub(1).and_then(|place| self.entries.get_mut(place))
        {
            entry.calls = entry.calls.saturating_sub(1);
        }
    }

    fn path(&self, number: u16) -> &str {
        usize::from(number)
            .checked_sub(1)
            .and_then(|place| self.entries.get(place))
            .map_or("", |entry| &entry.path)
    }

    pub fn forget_calls(&mut self) {
        for entry in &mut self.entries {
            entry.calls = 0;
        }
    }
}

/// A path as holds compare it: without query and fragment, without empty segments.
fn normal(path: &str) -> String {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let mut end = end.min(LONGEST_PATH);
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    let mut normal = String::with_capacity(end + 1);
    for segment in path[..end].split('/').filter(|segment| !segment.is_empty()) {
        normal.push('/');
        normal.push_str(segment);
    }
    if normal.is_empty() { "/".into() } else { normal }
}

/// A path as the engine keeps it: a number in the place of each segment. Paths carry secrets (tokens of bots, signed links), and journals and
/// saved states leave the process; holds only ask which paths begin alike. What lies deeper than prefixes go is one segment. A path
/// of a journal is veiled already and stays as it is.
fn veiled(path: &str) -> String {
    let is_number = |text: &str| text.len() == 17 && text.starts_with('#');
    if path.starts_with("/#") && path[1..].split('/').all(is_number) {
        return path.to_owned();
    }
    let path = normal(path);
    let mut veiled = String::new();
    for segment in path[1..].splitn(DEEPEST + 2, '/').filter(|segment| !segment.is_empty()) {
        let _ = write!(veiled, "/#{:016x}", number_of(segment)); // a String takes all that is written
    }
    if veiled.is_empty() { path } else { veiled }
}

/// 64 bits of a segment (FNV-1a, finished as `SplitMix64` does). The same in every process: saved states are restored elsewhere.
fn number_of(segment: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut z = segment.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a path is like, longest first: itself, then its prefixes of 4 segments down to 1; and the throttles from which
/// each is held. A throttle counts for prefixes that are `shorter` than the path; a hold of the whole of it as a prefix
/// of others is looked for all the same.
fn keys(path: &str, shorter: bool) -> impl Iterator<Item = (String, u32)> + '_ {
    let mut ends: Vec<_> = path.match_indices('/').map(|(at, _)| at).skip(1).collect();
    if !shorter && path.len() > 1 {
        ends.push(path.len());
    }
    let prefixes = (1..=ends.len().min(DEEPEST)).rev();
    let whole = std::iter::once((format!("={path}"), 1));
    whole.chain(prefixes.map(move |n| (format!("{n}{}", &path[..ends[n - 1]]), (DEEPEST + 1 - n) as u32)))
}

/// The holds of a route.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    /// By path or prefix.
    like: BTreeMap<String, Like>,
    gates: Vec<Gate>,
    /// Gates that exist.
    open: u32,
    /// The first moment at which one of them may be over.
    ends: Time,
    /// Calls that wait.
    held: u32,
}

#[derive(Clone, Copy, Debug)]
struct Like {
    throttles: u32,
    gate: u16,
}

/// A queue in front of a path.
#[derive(Clone, Debug)]
struct Gate {
    key: Option<String>,
    until: Time,
    limit: u32,
    taken: u32,
    waiting: List,
}

impl Gate {
    /// Has it done its duty?
    fn is_over(&self, now: Time) -> bool {
        self.until <= now && self.taken == 0 && self.waiting.len() == 0
    }
}

impl Holds {
    /// The longest hold that a path matches; those that are over go.
    fn find(&mut self, path: &str, now: Time) -> Option<u16> {
        self.sweep(now);
        if self.open == 0 {
            return None;
        }
        let found =
            keys(path, false).find_map(|(key, _)| self.like.get(&key).filter(|it| it.gate != NO_GATE));
        found.map(|like| like.gate)
    }

    /// Holds that have done their duty go, and with the last of them all counts.
    fn sweep(&mut self, now: Time) {
        if self.open == 0 || self.ends > now {
            return;
        }
        self.ends = Time::NEVER;
        for gate in &mut self.gates {
            match &gate.key {
                Some(key) if gate.is_over(now) => {
                    self.like.remove(key);
                    gate.key = None;
                    self.open -= 1;
                }
                Some(_) => self.ends = self.ends.min(gate.until),
                None => {}
            }
        }
        if self.open == 0 {
            self.like.clear();
            self.gates.clear();
        }
    }

    /// A throttle of a path: it counts for whatever it is like, and holds what has been throttled often enough.
    fn throttled(&mut self, path: &str, until: Time, now: Time) {
        self.sweep(now);
        for (key, enough) in keys(path, true) {
            if self.like.len() >= MOST_COUNTED && !self.like.contains_key(&key) {
                continue;
            }
            let like = self.like.entry(key.clone()).or_insert(Like { throttles: 0, gate: NO_GATE });
            like.throttles = like.throttles.saturating_add(1);
            if like.gate == NO_GATE && like.throttles >= enough {
                let gate = Gate { key: Some(key), until, limit: 1, taken: 0, waiting: List::default() };
                let place = self.gates.iter().position(|gate| gate.key.is_none());
                let place = place.unwrap_or(self.gates.len());
                like.gate = place as u16;
                self.open += 1;
                self.ends = self.ends.min(until);
                match self.gates.get_mut(place) {
                    Some(free) => *free = gate,
                    None => self.gates.push(gate),
                }
            } else if let Some(gate) = self.gates.get_mut(usize::from(like.gate)) {
                gate.until = gate.until.max(until);
                gate.limit = 1;
            }
        }
    }

    pub fn waiting(&self) -> u32 {
        self.held
    }

    /// How many there are.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// The lists' own count, for the books.
    pub fn listed(&self) -> u32 {
        self.gates.iter().map(|gate| gate.waiting.len()).sum()
    }

    /// Does a call wait in one of them, or have a place?
    pub fn in_use(&self) -> bool {
        self.gates.iter().any(|gate| gate.taken > 0 || gate.waiting.len() > 0)
    }

    /// Holds that are not over at this moment.
    pub fn open_at(&self, now: Time) -> u32 {
        let there = |gate: &&Gate| gate.key.is_some();
        self.gates.iter().filter(there).filter(|gate| !gate.is_over(now)).count() as u32
    }

    /// Writes the counts and the holds down. Who waits in them or has a place is a call, and none of it.
    pub fn save(&self, to: &mut Saver) {
        for (key, like) in &self.like {
            to.list(|to| {
                to.text(key);
                to.count(like.throttles);
                if let Some(gate) = self.gates.get(usize::from(like.gate)) {
                    to.moment(gate.until);
                    to.count(gate.limit);
                }
            });
        }
    }

    pub fn load(from: &mut Loader<'_>) -> Result<Self, Damage> {
        let mut it = Self::default();
        while from.has_more() {
            let (key, throttles, gate) = from.list(|entry| {
                let (key, throttles) = (entry.text()?.to_owned(), entry.count()?);
                let gate = if entry.has_more() { Some((entry.moment()?, entry.count()?)) } else { None };
                Ok((key, throttles, gate))
            })?;
            let mut like = Like { throttles, gate: NO_GATE };
            if let Some((until, limit)) = gate {
                like.gate = it.gates.len() as u16;
                let (key, limit) = (Some(key.clone()), limit.max(1));
                it.gates.push(Gate { key, until, limit, taken: 0, waiting: List::default() });
                it.open += 1;
                it.ends = it.ends.min(until);
            }
            let twice = it.like.insert(key.clone(), like).is_some();
            if twice || it.like.len() > MOST_COUNTED || key.len() > LONGEST_PATH + 2 {
                return Err(Damage("must be different paths, and not too many"));
            }
        }
        Ok(it)
    }
}

impl Engine {
    /// The name of a path, for [`Request::target`](crate::Request::target). Only policies that hold need it: for others,
    /// and where too many paths are in use, it is [`TargetId::NONE`], and the call is not held.
    pub fn target(&mut self, route: RouteId, path: &str, now: Time) -> TargetId {
        let path = veiled(path);
        self.write(|| Input::Target { route, path: path.as_str().into(), now });
        self.clock.observe(now);
        let holds = self.routes.find(route).is_some_and(|route| self.routes[route].holds.is_some());
        if holds { self.targets.intern(&path) } else { TargetId::NONE }
    }

    /// A call remembers the path it goes to.
    pub(super) fn aim(&mut self, slot: u32, target: TargetId) {
        if target != TargetId::NONE && self.routes[self.calls[slot].route].holds.is_some() {
            let number = self.targets.enter(target);
            self.calls.side_mut(slot).target = number;
        }
    }

    /// Asks whether calls to like paths are held.
    pub(super) fn ask_hold(&mut self, slot: u32, now: Time) -> Answer {
        let call = &self.calls[slot];
        let (route, deadline, may_park) = (call.route, call.deadline, call.has(flag::MAY_PARK));
        let Some(target) = self.calls.side(slot).map(|side| side.target).filter(|target| *target != 0) else {
            return Answer::Pass;
        };
        let most = self.policies[usize::from(self.calls[slot].policy)].policy.retry.hold.unwrap_or(0);
        let path = self.targets.path(target);
        let Some(holds) = &mut self.routes[route].holds else { return Answer::broken(Verdict::HoldFull) };
        let open = holds.open;
        let found = holds.find(path, now);
        self.note(move |it| it.tell_holds(Some(slot), route, open, now));
        let Some(number) = found else { return Answer::Pass };
        self.let_through(route, number, now);
        let Some(holds) = self.routes[route].holds.as_deref_mut() else {
            return Answer::broken(Verdict::HoldFull);
        };
        let gate = &mut holds.gates[usize::from(number)];
        if gate.until <= now && gate.waiting.len() == 0 && gate.taken < gate.limit {
            gate.taken += 1;
            let side = self.calls.side_mut(slot);
            (side.gate, side.placed) = (number, true);
            return Answer::Pass;
        }
        if !may_park || holds.held >= most || gate.until >= deadline {
            return Answer::Refuse(Verdict::HoldFull, Some(gate.until.since(now)));
        }
        holds.held += 1;
        let (until, mut list) = (gate.until, gate.waiting);
        let side = self.calls.side_mut(slot);
        side.gate = number;
        let call = &mut self.calls[slot];
        call.flags &= !flag::TOKENS;
        call.go(State::Held);
        list.push(&mut self.calls, slot);
        self.set_waiting(route, number, list);
        self.note_course(move |it| it.tell_queued(slot, Wait::Hold, deadline, now));
        Answer::Wait(self.wait_held(slot, until, now))
    }

    fn set_waiting(&mut self, route: u32, gate: u16, list: List) {
        if let Some(holds) = &mut self.routes[route].holds {
            holds.gates[usize::from(gate)].waiting = list;
        }
    }

    fn wait_held(&mut self, slot: u32, until: Time, now: Time) -> Step {
        let next = if until > now { until.min(now.after(MAX_PARK)) } else { now.after(MAX_PARK) };
        let call = &mut self.calls[slot];
        call.moment = next.min(call.deadline); // it is overdue by what it was told last
        wait(Wait::Hold, call.moment, now)
    }

    /// A waiter's own look: `None` when it has a place.
    pub(super) fn still_held(&mut self, slot: u32, now: Time) -> Option<Step> {
        let route = self.calls[slot].route;
        let gate = self.calls.side(slot).map_or(NO_GATE, |side| side.gate);
        if !self.calls[slot].has(flag::TOKENS) {
            self.let_through(route, gate, now);
            let own = self.calls.id(slot);
            self.wakes.retain(|woken| *woken != own); // it is here
        }
        if self.calls[slot].has(flag::TOKENS) {
            return None;
        }
        let gates = self.routes[route].holds.as_ref().map(|holds| &holds.gates);
        let until = gates.and_then(|gates| gates.get(usize::from(gate))).map_or(now, |gate| gate.until);
        Some(self.wait_held(slot, until, now))
    }

    /// Gives free places to the heads of a hold whose moment has come.
    pub(super) fn let_through(&mut self, route: u32, number: u16, now: Time) {
        loop {
            let Some(holds) = &mut self.routes[route].holds else { return };
            let Some(gate) = holds.gates.get(usize::from(number)) else { return };
            let Some(slot) = gate.waiting.head() else { return };
            if gate.until > now || gate.taken >= gate.limit {
                return;
            }
            if !self.chores.one_more(Chore::Places(route, number)) {
                self.wakes.push(self.calls.id(slot)); // its event goes on here
                return;
            }
            if self.calls[slot].deadline <= now {
                self.unlist(slot); // a waiter whose deadline has passed is failed, not granted
                self.turn_away(slot, Verdict::DeadlineQueued, now);
                continue;
            }
            let Some(holds) = &mut self.routes[route].holds else { return };
            holds.gates[usize::from(number)].taken += 1;
            self.unlist(slot);
            self.calls[slot].flags |= flag::TOKENS;
            self.calls.side_mut(slot).placed = true;
            self.note_course(move |it| it.tell_granted(slot, Wait::Hold, None, now));
            self.wakes.push(self.calls.id(slot));
        }
    }

    pub(super) fn unlist_held(&mut self, slot: u32) {
        let route = self.calls[slot].route;
        let number = self.calls.side(slot).map_or(NO_GATE, |side| side.gate);
        let Some(holds) = &mut self.routes[route].holds else { return };
        holds.held -= 1;
        let mut list = holds.gates[usize::from(number)].waiting;
        list.remove(&mut self.calls, slot);
        self.set_waiting(route, number, list);
    }

    /// A waiter has gone without a place: others may have its turn.
    pub(super) fn left_hold(&mut self, slot: u32, now: Time) {
        let route = self.calls[slot].route;
        let gate = self.calls.side(slot).map_or(NO_GATE, |side| side.gate);
        self.let_through(route, gate, now);
    }

    /// A call ends: it gives its place back, after a success to two.
    #[inline]
    pub(super) fn give_place_back(&mut self, slot: u32, well: bool, now: Time) {
        if FULL && self.calls[slot].has(flag::SIDE) {
            self.give_place(slot, well, now);
        }
    }

    #[inline(never)]
    fn give_place(&mut self, slot: u32, well: bool, now: Time) {
        let route = self.calls[slot].route;
        let side = self.calls.side_mut(slot);
        let (number, placed) = (side.gate, core::mem::take(&mut side.placed));
        let Some(holds) = self.routes[route].holds.as_mut().filter(|_| placed) else { return };
        let Some(gate) = holds.gates.get_mut(usize::from(number)) else { return };
        gate.taken -= 1;
        if well {
            gate.limit = gate.limit.saturating_add(1);
        }
        self.let_through(route, number, now);
    }

    /// A throttled attempt will be tried again after a wait: calls to like paths wait as long.
    pub(super) fn hold_like(&mut self, slot: u32, delay: Duration, now: Time) {
        let Some(target) = self.calls.side(slot).map(|side| side.target).filter(|target| *target != 0) else {
            return;
        };
        let path = self.targets.path(target);
        let route = self.calls[slot].route;
        if let Some(holds) = &mut self.routes[route].holds {
            let open = holds.open;
            holds.throttled(path, now.after(delay), now);
            self.note(move |it| it.tell_holds(Some(slot), route, open, now));
        }
    }
}

/// After a fork, and where the lists of a route are made anew.
impl Holds {
    pub fn forget_calls(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_counted_under_itself_and_its_prefixes() {
        let all: Vec<_> = keys(&normal("/v1//users/7/mail/3/body?x=1#y"), true).collect();
        let expected = [
            ("=/v1/users/7/mail/3/body", 1),
            ("4/v1/users/7/mail", 1),
            ("3/v1/users/7", 2),
            ("2/v1/users", 3),
            ("1/v1", 4),
        ];
        assert_eq!(all, expected.map(|(key, enough)| (key.to_owned(), enough)));
        assert_eq!(keys(&normal(""), false).collect::<Vec<_>>(), [("=/".to_owned(), 1)]);
        assert_eq!(keys("/a", true).count(), 1, "a throttle counts for what is shorter than its path");
        let looked: Vec<_> = keys("/a/b", false).map(|(key, _)| key).collect();
        assert_eq!(looked, ["=/a/b", "2/a/b", "1/a"], "a path lies under a hold of all that begins like it");
    }

    #[test]
    fn a_path_is_kept_without_its_words_and_begins_like_others_all_the_same() {
        let of = |path: &str| veiled(path);
        let words = "/bot1:secret/sendMessage";
        assert!(!of(words).contains("secret") && of(words).len() == 36, "{}", of(words));
        assert_eq!(of(words), of("/bot1:secret//sendMessage?chat=1#x"));
        assert_eq!(of(&of(words)), of(words), "a journal's path is what was written");
        let shares = |one: &str, other: &str| {
            of(one).bytes().zip(of(other).bytes()).take_while(|(a, b)| a == b).count() / 18
        };
        assert_eq!([shares("/a/b/c", "/a/b/d"), shares("/a/b", "/b/a"), shares("/a/b", "/a/b/c")], [2, 0, 2]);
        let deep = "/1/2/3/4/5/6/7";
        assert_eq!((of(deep).len(), shares(deep, "/1/2/3/4/5/6/8")), (18 * 6, 5));
        let counted = |path: &str| keys(&of(path), true).map(|(_, enough)| enough).collect::<Vec<_>>();
        for path in ["/", "/a", "/a/b", "/a/b/c/d", "/a/b/c/d/e", "/a/b/c/d/e/f", deep] {
            assert_eq!(
                counted(path),
                keys(&normal(path), true).map(|(_, enough)| enough).collect::<Vec<_>>(),
                "{path}"
            );
        }
        assert_eq!([of("/"), of(""), of("/#")], ["/", "/", "/"].map(str::to_owned));
    }

    #[test]
    #[cfg_attr(miri, ignore = "65,000 names: a quarter of an hour under an interpreter")]
    fn names_are_bounded_and_never_confused() {
        let mut targets = Targets::default();
        let first = targets.intern("/0");
        let number = targets.enter(first);
        assert_eq!(targets.path(number), "/0");
        for n in 1..=MOST_TARGETS + 10 {
            targets.intern(&format!("/{n}"));
        }
        assert_eq!(targets.entries.len(), MOST_TARGETS);
        assert_eq!(targets.path(number), "/0", "one that a call goes to stays");
        assert_eq!(targets.enter(TargetId::from_word(1 << PLACE | 1)), 0, "its place is another's now");
        assert_eq!(targets.enter(TargetId::from_word(u64::MAX)), 0);
    }
}
