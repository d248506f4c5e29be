//! Numbers of a JSON text that comes in pieces, read without keeping it.

use super::fields::Word;

/// A larger number counts as this one: hosts hold integers below 2^53.
pub(super) const LARGEST: u64 = (1 << 53) - 1;

/// Decides where numbers are looked for, and takes them.
pub(super) trait Numbers {
    /// A kind of object.
    type Place: Copy;

    /// The object under `key` of a `place`, if it is looked into; `None` for the place is the top.
    fn enter(place: Option<Self::Place>, key: &Word) -> Option<Self::Place>;

    /// A whole number, not negative, in a place that is looked into.
    fn number(&mut self, place: Self::Place, key: &Word, value: u64);
}

/// How deep objects are looked into.
const MAX_DEPTH: usize = 4;

/// A number that is being read.
#[derive(Clone, Copy, Debug)]
enum Number {
    None,
    /// So far, and its digits.
    Whole(u64, u8),
    /// A fraction, an exponent, a sign or too many digits: it says nothing.
    Other,
}

/// A reader of one text. What is no JSON is passed over in some way, and never read twice.
#[derive(Clone, Debug)]
pub(super) struct Scan<P> {
    /// The open objects that are looked into.
    places: [Option<P>; MAX_DEPTH],
    depth: usize,
    /// Open brackets of what is not looked into.
    skipped: u64,
    in_string: bool,
    escaped: bool,
    /// Whether a string that begins now is a key.
    before_key: bool,
    key: Word,
    number: Number,
}

impl<P: Copy> Scan<P> {
    /// At the beginning of a text.
    pub(super) const NEW: Self = Self {
        places: [None; MAX_DEPTH],
        depth: 0,
        skipped: 0,
        in_string: false,
        escaped: false,
        before_key: false,
        key: Word::EMPTY,
        number: Number::None,
    };

    /// Reads the next piece.
    pub(super) fn read<N: Numbers<Place = P>>(&mut self, piece: &[u8], numbers: &mut N) {
        for byte in piece {
            if self.in_string {
                self.in_string(*byte);
            } else {
                self.outside(*byte, numbers);
            }
        }
    }

    /// The object that is looked into now.
    fn place(&self) -> Option<P> {
        if self.skipped > 0 { None } else { self.places[..self.depth].last().copied().flatten() }
    }

    fn in_string(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
        } else if byte == b'"' {
            self.in_string = false;
            return;
        } else {
            self.escaped = byte == b'\\';
        }
        if self.before_key {
            self.key.push(byte);
        }
    }

    fn outside<N: Numbers<Place = P>>(&mut self, byte: u8, numbers: &mut N) {
        if self.place().is_some() && !self.before_key && self.digit(byte) {
            return;
        }
        self.end_number(numbers);
        match byte {
            b'"' => {
                self.in_string = true;
                if self.before_key {
                    self.key = Word::EMPTY;
                }
            }
            b':' if self.skipped == 0 => self.before_key = false,
            b',' if self.skipped == 0 => self.before_key = self.depth > 0,
            b'{' | b'[' if self.skipped > 0 => self.skipped += 1,
            b'{' => {
                let inner = N::enter(self.place(), &self.key).filter(|_| self.depth < MAX_DEPTH);
                if let Some(inner) = inner {
                    self.places[self.depth] = Some(inner);
                    self.depth += 1;
                    self.before_key = true;
                } else {
                    self.skipped = 1;
                }
            }
            // The objects of a top array are top objects.
            b'[' if self.depth > 0 => self.skipped = 1,
            b'}' | b']' if self.skipped > 0 => self.skipped -= 1,
            b'}' => {
                self.depth = self.depth.saturating_sub(1);
                self.before_key = false;
            }
            _ => {}
        }
    }

    /// Takes a byte of a number; false for any other.
    fn digit(&mut self, byte: u8) -> bool {
        self.number = match (self.number, byte) {
            (Number::None, b'0'..=b'9') => Number::Whole(u64::from(byte - b'0'), 1),
            (Number::Whole(value, digits @ 0..16), b'0'..=b'9') => {
                Number::Whole(value * 10 + u64::from(byte - b'0'), digits + 1)
            }
            (_, b'0'..=b'9' | b'-' | b'+' | b'.') | (Number::Whole(..) | Number::Other, b'e' | b'E') => {
                Number::Other
            }
            _ => return false,
        };
        true
    }

    fn end_number<N: Numbers<Place = P>>(&mut self, numbers: &mut N) {
        if let (Number::Whole(value, _), Some(place)) = (self.number, self.place()) {
            numbers.number(place, &self.key, value.min(LARGEST));
        }
        self.number = Number::None;
    }
}
