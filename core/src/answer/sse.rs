//! Incremental reader of server-sent events: whether a piece counts against the stream's timeouts, and whether it
//! reports a failure (semantics 15.4).

use super::body::{Failure, READ_AT_MOST};
use super::fields::{Field, Fields, Sink, Word};
use super::json::{self, Scalar, Visitor};

/// Events that only keep the connection alive or announce the start of work: Anthropic's `ping` and `message_start`,
/// `OpenAI`'s `response.created` and `response.in_progress`.
pub const UNCOUNTED: &[&str] = &["ping", "message_start", "response.created", "response.in_progress"];

/// What one piece of a stream says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// The piece has at least one byte of data of a counted event.
    pub counts: bool,
    /// The failure that the last failed event of the piece reports.
    pub failure: Option<Failure>,
}

/// A reader of a stream of server-sent events (`text/event-stream`), however its bytes are cut into pieces.
///
/// A stream that stalls still sends comments and pings, and an error may come in a stream that began with 200. The reader
/// keeps the last 64 kB of the event that has not ended, and nothing else. Source: WHATWG HTML, 9.2.6.
///
/// ```
/// use tidegate::answer::{EventStream, Meaning, UNCOUNTED};
/// let mut stream = EventStream::new(UNCOUNTED);
/// assert!(!stream.read(b": keep-alive\n\nevent: ping\ndata: {}\n\n").counts);
/// assert!(stream.read(b"data: {\"delta\": \"He").counts);
/// let piece = stream.read(b"llo\"}\n\nevent: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\"}}\n\n");
/// assert_eq!(piece.failure.unwrap().meaning, Meaning::Overloaded);
/// ```
#[derive(Clone, Debug)]
pub struct EventStream {
    fields: Fields,
    open: OpenEvent,
}

/// The event that has not ended.
#[derive(Clone, Debug)]
struct OpenEvent {
    uncounted: Vec<Box<str>>,
    /// Its name.
    event: Word,
    /// Its data, up to [`READ_AT_MOST`].
    data: Vec<u8>,
    /// Whether it has a line of data already; the next one is put behind a line break.
    lines: bool,
    /// What the piece at hand says.
    says: Piece,
}

impl EventStream {
    /// A reader at the beginning of a stream. The data of events with the names `uncounted` do not count.
    pub fn new(uncounted: &[&str]) -> Self {
        let open = OpenEvent {
            uncounted: uncounted.iter().map(|name| (*name).into()).collect(),
            event: Word::EMPTY,
            data: Vec::new(),
            lines: false,
            says: Piece::default(),
        };
        Self { fields: Fields::NEW, open }
    }

    /// Reads the next piece.
    pub fn read(&mut self, piece: &[u8]) -> Piece {
        self.open.says = Piece::default();
        self.fields.read(piece, &mut self.open);
        self.open.says
    }
}

impl OpenEvent {
    fn keep(&mut self, data: &[u8]) {
        let room = READ_AT_MOST - self.data.len();
        self.data.extend_from_slice(&data[..data.len().min(room)]);
    }
}

impl Sink for OpenEvent {
    fn begin(&mut self, field: Field) {
        match field {
            Field::Data => {
                if self.lines {
                    self.keep(b"\n");
                }
                self.lines = true;
            }
            Field::Event => self.event = Word::EMPTY,
            Field::Other => {}
        }
    }

    fn value(&mut self, field: Field, value: &[u8]) {
        match field {
            Field::Data => {
                self.says.counts |=
                    !value.is_empty() && !self.uncounted.iter().any(|name| self.event.is(name.as_bytes()));
                self.keep(value);
            }
            Field::Event => {
                for byte in value {
                    self.event.push(*byte);
                }
            }
            Field::Other => {}
        }
    }

    fn end_of_event(&mut self) {
        let named = [&b"error"[..], b"response.failed"].iter().any(|name| self.event.is(name));
        if self.lines && (named || says_error(&self.data)) {
            let failure = Failure::read(200, &[], &self.data);
            // An error without a word that is known may pass.
            self.says.failure = Some(failure.unwrap_or(Failure::UNKNOWN));
        }
        self.event = Word::EMPTY;
        self.data.clear();
        self.lines = false;
    }
}

/// Whether data of an event without a telling name are an error: they have an `error` that is not null, or the `type` of one.
fn says_error(data: &[u8]) -> bool {
    /// Looks at the top members alone.
    #[derive(Default)]
    struct Top(bool);

    impl Visitor for Top {
        fn enters(&mut self, key: &[u8]) -> bool {
            self.0 |= key == b"error";
            false
        }

        fn scalar(&mut self, key: &[u8], value: Scalar<'_>) {
            self.0 |= match value {
                Scalar::Text(text) => {
                    key == b"error" || key == b"type" && matches!(text, b"error" | b"response.failed")
                }
                Scalar::Number(_) | Scalar::True => false,
            };
        }
    }

    // One pass over the text before it is parsed: most events have neither word between quotes.
    let telling = |text: &[u8]| text == b"error" || text == b"response.failed";
    let object = data.trim_ascii_start().starts_with(b"{");
    if !object || !data.split(|byte| *byte == b'"').any(telling) {
        return false;
    }
    let mut top = Top::default();
    json::read(data, &mut top);
    top.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Meaning;
    use proptest::prelude::*;

    /// All pieces of a stream that is cut after every `size` bytes: which of them count, and the failures.
    fn read(text: &[u8], size: usize) -> (bool, Vec<Meaning>) {
        let mut stream = EventStream::new(UNCOUNTED);
        let pieces: Vec<_> = text.chunks(size).map(|piece| stream.read(piece)).collect();
        let failures =
            pieces.iter().filter_map(|piece| piece.failure).map(|failure| failure.meaning).collect();
        (pieces.iter().any(|piece| piece.counts), failures)
    }

    #[test]
    fn only_data_of_counted_events_count() {
        for (text, counts) in [
            ("", false),
            (": comment\n\n:\n", false),
            ("event: ping\ndata: {\"type\": \"ping\"}\n\n", false),
            ("event:ping\r\ndata:{}\r\n\r\n", false),
            ("event: message_start\rdata: {}\r\r", false),
            ("id: 7\nretry: 10\n\n", false),
            ("data\n\ndata:\n\ndata: \n\n", false),
            ("dat: a\n\ndatas: a\n\n data: a\n\n", false),
            ("data: a", true),
            ("data:a", true),
            ("data:  ", true),
            ("\u{feff}data: a\n\n", true),
            ("event: pings\ndata: a\n\n", true),
            ("event: ping\n\ndata: a\n\n", true),
            ("event: ping\nevent: delta\ndata: a\n\n", true),
            ("data: [DONE]\n\n", true),
        ] {
            for size in [1, 2, 3, 1_000] {
                assert_eq!(read(text.as_bytes(), size).0, counts, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_error_in_a_stream_is_a_failure_of_its_words_meaning() {
        for (text, meaning) in [
            (
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
                Meaning::Overloaded,
            ),
            ("data: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n", Meaning::Throttled),
            (
                "data: {\"id\":\"1\",\"error\":{\"code\":502,\"message\":\"\"},\"choices\":[]}\n\n",
                Meaning::Transient,
            ),
            (
                "event: response.failed\ndata: {\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n",
                Meaning::Transient,
            ),
            (
                "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"insufficient_quota\"}}}\n\n",
                Meaning::QuotaSpent,
            ),
            ("event: error\ndata: it broke\n\n", Meaning::Transient),
            ("data: {\"error\":\"it broke\"}\n\n", Meaning::Transient),
            ("data: {\"error\":\ndata: {\"type\":\"api_error\"}}\n\n", Meaning::Transient),
        ] {
            for size in [1, 7, 1_000] {
                assert_eq!(read(text.as_bytes(), size).1, [meaning], "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn data_that_mention_errors_are_no_failure() {
        for text in [
            "data: {\"error\":null,\"delta\":\"an error\"}\n\n",
            "data: {\"delta\":{\"text\":\"{\\\"error\\\": {}}\"}}\n\n",
            "data: {\"choices\":[{\"error\":{\"code\":500}}]}\n\n",
            "data: {\"error\":{\"code\":500}}",
            "data: [{\"error\":{\"code\":500}}]\n\n",
            "event: error\n\n",
        ] {
            assert_eq!(read(text.as_bytes(), 5).1, [], "{text:?}");
        }
    }

    #[test]
    fn an_endless_event_is_kept_up_to_its_limit() {
        let mut stream = EventStream::new(&[]);
        stream.read(b"data: ");
        for _ in 0..100 {
            stream.read(&[b'a'; 10_000]);
        }
        assert!(stream.open.data.len() == READ_AT_MOST && stream.open.data.capacity() <= 2 * READ_AT_MOST);
    }

    proptest! {
        /// The result is the same for each cut into pieces.
        #[test]
        fn the_cut_into_pieces_does_not_matter(
            lines in prop::collection::vec(prop_oneof![
                Just("event: ping"), Just("event: error"), Just("data: {\"error\": 1}"), Just("data: {\"error\": \"x\"}"),
                Just("data: a"), Just("data:"), Just("data"), Just(": c"), Just(""), Just("event"), Just("x: \u{feff}"),
            ], 0..12),
            ends in prop::collection::vec(prop_oneof![Just("\n"), Just("\r"), Just("\r\n")], 12),
            mark: bool, size in 1_usize..9,
        ) {
            let mut text = String::from(if mark { "\u{feff}" } else { "" });
            for (line, end) in lines.iter().zip(&ends) {
                text += line;
                text += end;
            }
            let whole = {
                let mut stream = EventStream::new(UNCOUNTED);
                stream.read(text.as_bytes())
            };
            let (counts, failures) = read(text.as_bytes(), size);
            prop_assert_eq!(counts, whole.counts);
            prop_assert_eq!(failures.last().copied(), whole.failure.map(|failure| failure.meaning));
        }

        #[test]
        fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..300), size in 1_usize..50) {
            let _ = read(&text, size);
        }
    }
}
