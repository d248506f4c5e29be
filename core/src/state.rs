//! State as text: the parts write it when an engine is saved, and read it when it is restored.
//!
//! The text is one JSON value of texts, lists, maps and integers below 2^53. A number with a fraction is a text whose
//! digits give back the same bits. So the state survives any store and any language's JSON. Moments are whole
//! microseconds before (negative) or after the moment of saving, because a clock's origin does not outlive its
//! process.

mod json;

use core::cell::Cell;
use core::fmt::Write as _;

pub(crate) use json::{Value, parse};

use crate::time::{Duration, Time};

/// The largest integer that is exact in a JSON number everywhere.
const MOST: u64 = (1 << 53) - 1;

/// Version of the format that this engine writes. It reads this one and earlier ones. Version 1 has no debts of
/// evicted routes, its `rate` holds the available tokens instead of the missing ones, and its `budget` holds less of
/// the past.
pub(crate) const VERSION: u64 = 2;

/// Writes a state.
#[derive(Debug)]
pub(crate) struct Saver {
    text: String,
    now: Time,
    oldest: u64,
}

impl Saver {
    pub(crate) fn new(now: Time) -> Self {
        Self { text: String::new(), now, oldest: 0 }
    }

    /// The written text, and the age of its oldest moment, in µs.
    pub(crate) fn finish(self) -> (String, u64) {
        (self.text, self.oldest)
    }

    /// The moment of saving.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Writes the separator before the next item.
    fn separate(&mut self) {
        if self.text.as_bytes().last().is_some_and(|last| !b"[{:".contains(last)) {
            self.text.push(',');
        }
    }

    /// Writes an integer; saturates at 2^53 − 1.
    pub(crate) fn whole(&mut self, n: u64) {
        self.separate();
        let _ = write!(self.text, "{}", n.min(MOST));
    }

    pub(crate) fn count(&mut self, n: u32) {
        self.whole(u64::from(n));
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.whole(u64::from(flag));
    }

    /// Writes a number exactly. One with a fraction becomes a text, because some JSON libraries read a decimal a bit
    /// too high or low. No part keeps a number that is not finite; it would become 0.
    pub(crate) fn real(&mut self, x: f64) {
        let x = if x.is_finite() { x } else { 0.0 };
        let n = x.max(0.0).min(MOST as f64) as u64;
        if x.to_bits() == (n as f64).to_bits() {
            return self.whole(n);
        }
        self.separate();
        // Not by `Debug`, which the WebAssembly modules are built without.
        let _ = write!(self.text, "\"{x}\"");
    }

    pub(crate) fn moment(&mut self, moment: Time) {
        let age = self.now.since(moment).as_micros().min(MOST);
        if age == 0 {
            self.whole(moment.since(self.now).as_micros());
        } else {
            self.oldest = self.oldest.max(age);
            self.separate();
            let _ = write!(self.text, "-{age}");
        }
    }

    /// Writes a moment that may be absent.
    pub(crate) fn maybe(&mut self, moment: Option<Time>) {
        match moment {
            Some(moment) => self.moment(moment),
            None => self.null(),
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        json::quote(&mut self.text, text);
    }

    /// Writes a text, or null.
    pub(crate) fn key(&mut self, key: Option<&str>) {
        match key {
            Some(key) => self.text(key),
            None => self.null(),
        }
    }

    fn null(&mut self) {
        self.separate();
        self.text.push_str("null");
    }

    /// Writes a name, and its value by `write`.
    pub(crate) fn named(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.text(name);
        self.text.push(':');
        write(self);
    }

    pub(crate) fn list(&mut self, write: impl FnOnce(&mut Self)) {
        self.separate();
        self.text.push('[');
        write(self);
        self.text.push(']');
    }

    pub(crate) fn map(&mut self, write: impl FnOnce(&mut Self)) {
        self.separate();
        self.text.push('{');
        write(self);
        self.text.push('}');
    }

    /// Writes a list under a name; writes nothing if the list would be empty.
    pub(crate) fn part(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        let start = self.text.len();
        self.named(name, |to| to.list(write));
        if self.text.ends_with("[]") {
            self.text.truncate(start);
        }
    }

    /// Writes an item, or removes it again if `write` returns false.
    pub(crate) fn optional(&mut self, write: impl FnOnce(&mut Self) -> bool) -> bool {
        let (start, oldest) = (self.text.len(), self.oldest);
        let there = write(self);
        if !there {
            self.text.truncate(start);
            self.oldest = oldest;
        }
        there
    }

    /// Whether the written text ends like this.
    pub(crate) fn ends_with(&self, end: &str) -> bool {
        self.text.ends_with(end)
    }
}

/// Why a saved state is damaged: the rule that it breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damage(pub(crate) &'static str);

/// Converts saved moments into moments of the restored engine, and notes what was dropped.
#[derive(Debug)]
pub(crate) struct Moments {
    now: Time,
    then: Time,
    oldest: u64,
    version: u64,
    dropped: Cell<bool>,
}

impl Moments {
    /// Restores at `now`, `elapsed` after the state was saved. `now` is at least `elapsed` and `oldest` after 0.
    pub(crate) fn new(now: Time, elapsed: Duration, oldest: u64, version: u64) -> Self {
        let then = Time::from_micros(now.as_micros().saturating_sub(elapsed.as_micros()));
        Self { now, then, oldest, version, dropped: Cell::new(false) }
    }

    /// Whether anything has been dropped since the last call of this method.
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped.take()
    }
}

/// Reads the items of a list in order.
#[derive(Debug)]
pub(crate) struct Loader<'a> {
    items: core::slice::Iter<'a, Value>,
    of: &'a Moments,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(value: &'a Value, of: &'a Moments) -> Result<Self, Damage> {
        match value {
            Value::List(items) => Ok(Self { items: items.iter(), of }),
            _ => Err(Damage("must be a list")),
        }
    }

    /// The moment of restoring.
    pub(crate) fn now(&self) -> Time {
        self.of.now
    }

    /// The moment of saving.
    pub(crate) fn then(&self) -> Time {
        self.of.then
    }

    /// Version of the saved format.
    pub(crate) fn version(&self) -> u64 {
        self.of.version
    }

    /// Notes that a saved part has no meaning under the present settings, and returns `fresh` in its place.
    pub(crate) fn dropped<T>(&mut self, fresh: T) -> T {
        self.items = [].iter();
        self.of.dropped.set(true);
        fresh
    }

    pub(crate) fn has_more(&self) -> bool {
        self.items.len() > 0
    }

    fn next(&mut self) -> Result<&'a Value, Damage> {
        self.items.next().ok_or(Damage("has too few items"))
    }

    /// Any finite number.
    pub(crate) fn real(&mut self) -> Result<f64, Damage> {
        let x = match self.next()? {
            Value::Number(x) => Some(*x),
            Value::Text(digits) => digits.parse().ok(),
            _ => None,
        };
        x.filter(|x: &f64| x.is_finite()).ok_or(Damage("must be a finite number"))
    }

    /// A finite number that is not negative.
    pub(crate) fn positive(&mut self) -> Result<f64, Damage> {
        let x = self.real()?;
        if x >= 0.0 { Ok(x) } else { Err(Damage("must not be below zero")) }
    }

    fn signed(&mut self) -> Result<i64, Damage> {
        let x = self.real()?;
        // Within ±(2^53 − 1) the conversion is exact for numbers without a fraction.
        if x.abs() <= MOST as f64 && x.trunc().total_cmp(&x).is_eq() {
            Ok(x as i64)
        } else {
            Err(Damage("must be a whole number below 2^53"))
        }
    }

    pub(crate) fn whole(&mut self) -> Result<u64, Damage> {
        u64::try_from(self.signed()?).map_err(|_| Damage("must not be below zero"))
    }

    pub(crate) fn count(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.whole()?).map_err(|_| Damage("must be below 2^32"))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Damage> {
        match self.whole()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damage("must be 0 or 1")),
        }
    }

    pub(crate) fn moment(&mut self) -> Result<Time, Damage> {
        let then = self.of.then;
        match self.signed()? {
            ahead @ 0.. => Ok(then.after(Duration::from_micros(ahead.unsigned_abs()))),
            behind if behind.unsigned_abs() <= self.of.oldest => {
                Ok(Time::from_micros(then.as_micros().saturating_sub(behind.unsigned_abs())))
            }
            _ => Err(Damage("is older than the oldest moment")),
        }
    }

    /// A moment that was not in the future when the state was saved.
    pub(crate) fn past(&mut self) -> Result<Time, Damage> {
        let moment = self.moment()?;
        if moment <= self.of.then { Ok(moment) } else { Err(Damage("must not lie ahead")) }
    }

    pub(crate) fn maybe(&mut self) -> Result<Option<Time>, Damage> {
        if let Some(Value::Null) = self.items.as_slice().first() {
            self.next()?;
            return Ok(None);
        }
        self.moment().map(Some)
    }

    pub(crate) fn maybe_past(&mut self) -> Result<Option<Time>, Damage> {
        if let Some(Value::Null) = self.items.as_slice().first() {
            self.next()?;
            return Ok(None);
        }
        self.past().map(Some)
    }

    /// The next item, if it is a text.
    pub(crate) fn peek(&self) -> Option<&'a str> {
        match self.items.as_slice().first() {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Damage> {
        match self.next()? {
            Value::Text(text) => Ok(text),
            _ => Err(Damage("must be a text")),
        }
    }

    /// Reads the next item, which must be a list, to its end.
    pub(crate) fn list<T>(&mut self, load: impl FnOnce(&mut Self) -> Result<T, Damage>) -> Result<T, Damage> {
        let mut list = Self::new(self.next()?, self.of)?;
        let it = load(&mut list)?;
        if list.has_more() { Err(Damage("has items too many")) } else { Ok(it) }
    }

    /// The next item, of any type.
    pub(crate) fn any(&mut self) -> Result<&'a Value, Damage> {
        self.next()
    }
}

#[cfg(test)]
mod parts;
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    proptest! {
        /// Every number and text survives exactly; and once more through another JSON library.
        #[test]
        fn what_is_written_is_read(
            reals in prop::collection::vec(any::<f64>().prop_filter("finite", |x| x.is_finite()), 0..9),
            wholes in prop::collection::vec(0..=MOST, 0..9),
            texts in prop::collection::vec(any::<String>(), 0..9),
            moments in prop::collection::vec((any::<bool>(), 0..=MOST), 0..9),
        ) {
            let now = at(1 << 60);
            let moments: Vec<_> = moments.into_iter().map(|(ahead, span)| {
                if ahead { now.after(Duration::from_micros(span)) } else { at(now.as_micros() - span) }
            }).collect();
            let mut to = Saver::new(now);
            to.list(|to| {
                for x in &reals { to.real(*x); }
                for n in &wholes { to.whole(*n); }
                for text in &texts { to.text(text); }
                for moment in &moments { to.moment(*moment); }
            });
            let (text, oldest) = to.finish();
            let again: serde_json::Value = serde_json::from_str(&text).unwrap();
            let elapsed = Duration::from_micros(77);
            for text in [text, serde_json::to_string_pretty(&again).unwrap()] {
                let value = parse(&text).unwrap();
                let of = Moments::new(at(77 + oldest), elapsed, oldest, VERSION);
                let mut from = Loader::new(&value, &of).unwrap();
                for x in &reals {
                    prop_assert_eq!(from.real().unwrap().to_bits(), x.to_bits());
                }
                for n in &wholes {
                    prop_assert_eq!(from.whole().unwrap(), *n);
                }
                for text in &texts {
                    prop_assert_eq!(from.text().unwrap(), text);
                }
                for moment in &moments {
                    let back = from.moment().unwrap();
                    let (behind, ahead) = (now.since(*moment), moment.since(now));
                    prop_assert_eq!((at(oldest).since(back), back.since(at(oldest))), (behind, ahead));
                }
                prop_assert!(!from.has_more());
            }
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let of = Moments::new(at(100), Duration::ZERO, 10, VERSION);
        let read = |text: &str| parse(text).unwrap();
        let value = read(
            "[-1, 0.5, 9007199254740992, 4294967296, 2, -11, 1, 1e999, null, -1, \"inf\", \"x\", \"1e3\"]",
        );
        let mut from = Loader::new(&value, &of).unwrap();
        assert!(from.whole().is_err() && from.whole().is_err() && from.whole().is_err());
        assert!(from.count().is_err() && from.flag().is_err());
        assert!(from.moment().is_err() && from.past().is_err() && from.real().is_err());
        assert_eq!(from.maybe_past(), Ok(None));
        assert!(from.positive().is_err() && from.real().is_err() && from.real().is_err());
        assert!(from.real() == Ok(1000.0) && !from.has_more() && from.whole().is_err());
        assert!(Loader::new(&read("{}"), &of).is_err());
        let all = read("[-10, 9007199254740991]");
        let mut from = Loader::new(&all, &of).unwrap();
        assert_eq!((from.past(), from.whole()), (Ok(at(90)), Ok(MOST)));
    }
}
