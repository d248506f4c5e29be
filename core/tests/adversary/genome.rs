//! A scenario as bytes: any bytes are a scenario, so that it can be mutated, shrunk, printed and replayed.

use std::fmt::Write as _;

use tidegate::rng::{self, Purpose};

/// The engine and its pools.
pub const HEAD: usize = 16;
/// Bytes of one policy's settings; each of the [`POLICIES`] has [`VARIANTS`] of them, among which it is retuned.
pub const SETTINGS: usize = 12;
pub const POLICIES: usize = 2;
pub const VARIANTS: usize = 3;
/// Bytes of one event.
pub const EVENT: usize = 8;
/// Where the events begin.
pub const EVENTS: usize = HEAD + POLICIES * VARIANTS * SETTINGS;
const MOST_EVENTS: usize = 14;

/// Numbers from a seed.
pub struct Dice {
    seed: u64,
    drawn: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.drawn += 1;
        rng::uniform(rng::bits(self.seed, self.drawn, Purpose::Backoff, 0), 0, n as u64 - 1) as usize
    }

    pub fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}

/// The bytes of a scenario.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Genome(pub Vec<u8>);

impl Genome {
    /// Random settings and up to six random events. Most second and third settings differ from the first in little.
    pub fn random(dice: &mut Dice) -> Self {
        let events = 1 + dice.below(6);
        let mut bytes: Vec<u8> = (0..EVENTS + events * EVENT).map(|_| dice.byte()).collect();
        for policy in 0..POLICIES {
            let first = HEAD + policy * VARIANTS * SETTINGS;
            for variant in 1..VARIANTS {
                if dice.below(4) > 0 {
                    let at = first + variant * SETTINGS;
                    bytes.copy_within(first..first + SETTINGS, at);
                    // Most often in the budget's size, or in the rate.
                    let place = [1, 1, 7, dice.below(SETTINGS)][dice.below(4)];
                    bytes[at + place] = dice.byte();
                }
            }
        }
        Self(bytes)
    }

    /// This scenario with one to four changes; `other` lends some of its events.
    #[must_use]
    pub fn mutated(&self, other: &Self, dice: &mut Dice) -> Self {
        let mut bytes = self.0.clone();
        for _ in 0..=dice.below(4) {
            let events = (bytes.len() - EVENTS) / EVENT;
            let at = |n: usize| EVENTS + n * EVENT;
            match dice.below(10) {
                0 | 1 if events > 0 => {
                    let place = at(dice.below(events)) + dice.below(EVENT);
                    bytes[place] = dice.byte();
                }
                2 | 3 => {
                    let place = dice.below(EVENTS);
                    bytes[place] = dice.byte();
                }
                4 if events < MOST_EVENTS => {
                    let record: Vec<u8> = (0..EVENT).map(|_| dice.byte()).collect();
                    let place = at(dice.below(events + 1));
                    bytes.splice(place..place, record);
                }
                5 if events > 1 => {
                    let place = at(dice.below(events));
                    bytes.drain(place..place + EVENT);
                }
                6 if events > 0 && events < MOST_EVENTS => {
                    let from = at(dice.below(events));
                    let record = bytes[from..from + EVENT].to_vec();
                    let place = at(dice.below(events + 1));
                    bytes.splice(place..place, record);
                }
                7 if events < MOST_EVENTS => {
                    let theirs = (other.0.len() - EVENTS) / EVENT;
                    let from = at(dice.below(theirs.max(1))).min(other.0.len());
                    let to = (from + EVENT).min(other.0.len());
                    let place = at(dice.below(events + 1));
                    bytes.splice(place..place, other.0[from..to].iter().copied());
                }
                8 if events > 1 => {
                    let (one, two) = (at(dice.below(events)), at(dice.below(events)));
                    for byte in 0..EVENT {
                        bytes.swap(one + byte, two + byte);
                    }
                }
                _ => {
                    let place = EVENTS - dice.below(POLICIES * VARIANTS * SETTINGS) - 1;
                    bytes[place] = bytes[place].wrapping_add(1);
                }
            }
        }
        Self(bytes)
    }

    /// The smallest scenario of this one's parts that still `fails`: events leave, then bytes become 0.
    #[must_use]
    pub fn shrunk(&self, mut fails: impl FnMut(&Self) -> bool) -> Self {
        let mut best = self.clone();
        loop {
            let before = best.clone();
            let mut place = EVENTS;
            while place + EVENT <= best.0.len() {
                let mut less = best.clone();
                less.0.drain(place..place + EVENT);
                if fails(&less) {
                    best = less;
                } else {
                    place += EVENT;
                }
            }
            for place in 0..best.0.len() {
                for smaller in [0, best.0[place] / 2, best.0[place].saturating_sub(1)] {
                    let mut less = best.clone();
                    less.0[place] = smaller;
                    if smaller < best.0[place] && fails(&less) {
                        best = less;
                        break;
                    }
                }
            }
            if best == before {
                return best;
            }
        }
    }

    /// As text, for a file of regressions: hexadecimal, without the zeros at its end.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for byte in &self.0 {
            let _ = write!(text, "{byte:02x}"); // a String takes everything
        }
        while text.ends_with("00") && text.len() > 2 * EVENTS {
            text.truncate(text.len() - 2);
        }
        text
    }

    /// What [`Genome::to_text`] has written; `None` where it has not.
    pub fn from_text(text: &str) -> Option<Self> {
        let bytes: Option<Vec<u8>> =
            (0..text.len() / 2).map(|n| u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()).collect();
        let mut bytes = bytes.filter(|bytes| bytes.len() >= EVENTS && text.len().is_multiple_of(2))?;
        while !(bytes.len() - EVENTS).is_multiple_of(EVENT) {
            bytes.push(0);
        }
        Some(Self(bytes))
    }
}
