//! The fields of a stream of server-sent events, as their bytes come (semantics 15.4.1). Source: WHATWG HTML, 9.2.6.

/// Longest word that is recognised.
const LONGEST_WORD: usize = 64;

/// Where in the stream the next byte is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// At the beginning of all, so many bytes of a byte order mark behind.
    Mark(u8),
    /// At the beginning of a line.
    Line,
    /// There, behind a CR: a LF belongs to it.
    Break,
    /// In the name of a field.
    Name,
    /// Behind the colon of a field.
    Colon(Field),
    /// In the value of a field.
    Value(Field),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Data,
    Event,
    Other,
}

/// A short word that grows byte by byte; a long one is only known to be long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    bytes: [u8; LONGEST_WORD],
    length: u8,
}

impl Word {
    pub(super) const EMPTY: Self = Self { bytes: [0; LONGEST_WORD], length: 0 };

    pub(super) fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)) {
            *place = byte;
        }
        self.length = self.length.saturating_add(1);
    }

    /// Nothing is equal to a word that was too long.
    pub(super) fn is(&self, word: &[u8]) -> bool {
        self.bytes.get(..usize::from(self.length)) == Some(word)
    }
}

/// What is done with the fields of a stream.
pub(super) trait Sink {
    /// A field begins; its value comes in any number of parts.
    fn begin(&mut self, field: Field);

    /// The next part of its value.
    fn value(&mut self, field: Field, value: &[u8]);

    /// A blank line.
    fn end_of_event(&mut self);
}

/// Splits a stream into its fields, however its bytes are cut into pieces.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    at: At,
    /// The name of the field whose name is being read, as far as it may be one of those that matter.
    field: Word,
}

impl Fields {
    /// At the beginning of a stream.
    pub(super) const NEW: Self = Self { at: At::Mark(0), field: Word::EMPTY };

    /// Reads the next piece.
    pub(super) fn read(&mut self, piece: &[u8], sink: &mut impl Sink) {
        let mut rest = piece;
        while let Some(byte) = rest.first() {
            if let At::Value(field) = self.at {
                let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
                let (value, after) = rest.split_at(end);
                sink.value(field, value);
                rest = after;
                if let Some((end, after)) = rest.split_first() {
                    self.at = if *end == b'\r' { At::Break } else { At::Line };
                    rest = after;
                }
            } else {
                self.byte(*byte, sink);
                rest = &rest[1..];
            }
        }
    }

    /// A byte outside a value.
    fn byte(&mut self, byte: u8, sink: &mut impl Sink) {
        match (self.at, byte) {
            (At::Mark(0), 0xef) | (At::Mark(1), 0xbb) => {
                let At::Mark(read) = self.at else { return };
                self.at = At::Mark(read + 1);
            }
            // The end of the byte order mark, and the LF of a CRLF.
            (At::Mark(2), 0xbf) | (At::Break, b'\n') => self.at = At::Line,
            (At::Mark(read), _) => {
                // No mark: what looked like one begins a field.
                self.at = if read == 0 { At::Line } else { At::Name };
                self.field = Word::EMPTY;
                for _ in 0..read {
                    self.field.push(0xef);
                }
                self.byte(byte, sink);
            }
            (At::Line | At::Break, b'\n' | b'\r') => {
                self.at = if byte == b'\r' { At::Break } else { At::Line };
                sink.end_of_event();
            }
            (At::Line | At::Break, _) => {
                self.field = Word::EMPTY;
                self.at = At::Name;
                self.byte(byte, sink);
            }
            (At::Name, b':') => self.at = At::Colon(self.known_field()),
            (At::Name | At::Colon(_), b'\n' | b'\r') => {
                // A field without a colon, or with nothing behind it, has an empty value.
                let field = if let At::Colon(field) = self.at { field } else { self.known_field() };
                sink.begin(field);
                self.at = if byte == b'\r' { At::Break } else { At::Line };
            }
            (At::Name, _) => self.field.push(byte),
            (At::Colon(field), _) => {
                sink.begin(field);
                self.at = At::Value(field);
                if byte != b' ' {
                    sink.value(field, &[byte]);
                }
            }
            (At::Value(_), _) => {}
        }
    }

    fn known_field(&self) -> Field {
        if self.field.is(b"data") {
            Field::Data
        } else if self.field.is(b"event") {
            Field::Event
        } else {
            Field::Other
        }
    }
}
