//! What an answer of a language model has used: tokens of its prompt, of its cache and of its output (semantics 15.6).

use super::fields::{Field, Fields, Sink, Word};
use super::scan::{LARGEST, Numbers, Scan};

/// The tokens that an answer has used, as far as it tells.
///
/// ```
/// use tidegate::answer::{Factors, Usage};
/// let body = br#"{"choices": [], "usage": {"prompt_tokens": 1200, "completion_tokens": 300,
///                 "prompt_tokens_details": {"cached_tokens": 1000}}}"#;
/// let usage = Usage::read(body);
/// assert_eq!((usage.input, usage.cached, usage.output), (Some(1200), Some(1000), Some(300)));
/// assert_eq!(usage.weight(Factors::TOKENS), Some(1500));
/// // In microdollars, at 2.50, 1.25 and 10 dollars per million tokens.
/// let price = Factors { input: 2_500, cached: 1_250, output: 10_000 };
/// assert_eq!(usage.weight(price), Some(500 + 1250 + 3000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Tokens of the whole prompt, with those that were cached.
    pub input: Option<u64>,
    /// Tokens of the prompt that were read from a cache.
    pub cached: Option<u64>,
    /// Tokens of the answer, with those of the model's thoughts.
    pub output: Option<u64>,
}

/// How much a token counts, in thousandths of a limit's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factors {
    /// A token of the prompt that was not cached.
    pub input: u32,
    /// A token of the prompt that was read from a cache.
    pub cached: u32,
    /// A token of the answer.
    pub output: u32,
}

impl Factors {
    /// Every token counts 1.
    pub const TOKENS: Self = Self { input: 1000, cached: 1000, output: 1000 };
}

impl Usage {
    /// Reads a whole answer, plain or streamed.
    pub fn read(body: &[u8]) -> Self {
        let mut reader = UsageReader::new();
        reader.read(body);
        reader.usage()
    }

    /// What the usage counts against a limit, rounded up; `None` if the answer tells neither input nor output.
    pub fn weight(self, factors: Factors) -> Option<u64> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        let input = self.input.unwrap_or(0);
        let cached = self.cached.unwrap_or(0).min(input);
        let parts = [
            (input - cached, factors.input),
            (cached, factors.cached),
            (self.output.unwrap_or(0), factors.output),
        ];
        let thousandths: u128 =
            parts.iter().map(|(tokens, factor)| u128::from(*tokens) * u128::from(*factor)).sum();
        Some(u64::try_from(thousandths.div_ceil(1000)).map_or(LARGEST, |weight| weight.min(LARGEST)))
    }
}

/// Reads the usage of an answer as its bytes come: a JSON text, a stream of server-sent events, or Amazon's event stream.
///
/// The first byte says which. The reader keeps a few hundred bytes, whatever the length of the answer.
///
/// ```
/// use tidegate::answer::UsageReader;
/// let mut reader = UsageReader::new();
/// reader.read(b"event: message_start\ndata: {\"message\": {\"usage\": {\"input_tokens\": 25, \"output_tokens\": 1}}}\n\n");
/// reader.read(b"event: message_delta\ndata: {\"usage\": {\"output_");
/// reader.read(b"tokens\": 15}}\n\n");
/// assert_eq!((reader.usage().input, reader.usage().output), (Some(25), Some(15)));
/// ```
#[derive(Clone, Debug)]
pub struct UsageReader {
    form: Form,
    text: Text,
}

/// How the answer is written.
#[derive(Clone, Debug)]
enum Form {
    /// Nothing has come but blanks.
    Unknown,
    Json,
    Events(Fields),
    /// Amazon's frames.
    Frames(Frame),
    /// Not to be read any further.
    Lost,
}

/// The frame that is being read: its length, the length of its headers, and how much of it has come.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    length: u32,
    headers: u32,
    read: u32,
}

/// The prelude of a frame, and the checksum behind it.
const PRELUDE: u32 = 12;
/// The checksum at the end of a frame.
const CHECKSUM: u32 = 4;

impl Default for UsageReader {
    fn default() -> Self {
        Self::new()
    }
}

impl UsageReader {
    /// A reader at the beginning of an answer.
    pub const fn new() -> Self {
        Self { form: Form::Unknown, text: Text { scan: Scan::NEW, counts: Counts::NONE, lines: false } }
    }

    /// Reads the next piece.
    pub fn read(&mut self, piece: &[u8]) {
        let mut rest = piece;
        if let Form::Unknown = self.form {
            let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf);
            let begin = rest.iter().position(|byte| !blank(byte)).unwrap_or(rest.len());
            rest = &rest[begin..];
            self.form = match rest.first() {
                None => return,
                Some(b'{' | b'[') => Form::Json,
                Some(0) => Form::Frames(Frame::default()),
                Some(_) => Form::Events(Fields::NEW),
            };
        }
        match &mut self.form {
            Form::Unknown | Form::Lost => {}
            Form::Json => self.text.scan.read(rest, &mut self.text.counts),
            Form::Events(fields) => fields.read(rest, &mut self.text),
            Form::Frames(frame) => {
                if frame.read(rest, &mut self.text).is_none() {
                    self.form = Form::Lost;
                }
            }
        }
    }

    /// What has been read so far.
    pub fn usage(&self) -> Usage {
        self.text.counts.usage()
    }
}

impl Frame {
    /// Reads the next piece; `None` if it is no frame.
    fn read(&mut self, piece: &[u8], text: &mut Text) -> Option<()> {
        let mut rest = piece;
        while let Some((byte, after)) = rest.split_first() {
            let payload = PRELUDE.saturating_add(self.headers);
            let end = self.length.saturating_sub(CHECKSUM);
            if self.read >= PRELUDE && (payload..end).contains(&self.read) {
                let left = usize::try_from(end - self.read).unwrap_or(usize::MAX).min(rest.len());
                text.scan.read(&rest[..left], &mut text.counts);
                rest = &rest[left..];
                self.read += u32::try_from(left).unwrap_or(0);
                continue;
            }
            match self.read {
                0..4 => self.length = self.length << 8 | u32::from(*byte),
                4..8 => self.headers = self.headers << 8 | u32::from(*byte),
                _ => {}
            }
            self.read += 1;
            rest = after;
            if self.read == PRELUDE
                && self.length < PRELUDE.checked_add(self.headers)?.checked_add(CHECKSUM)?
            {
                return None;
            }
            if self.read >= PRELUDE && self.read == self.length {
                *self = Self::default();
                text.scan = Scan::NEW;
            }
        }
        Some(())
    }
}

/// The JSON texts of an answer, one after the other.
#[derive(Clone, Debug)]
struct Text {
    scan: Scan<Place>,
    counts: Counts,
    /// Whether the event at hand has a line of data already.
    lines: bool,
}

impl Sink for Text {
    fn begin(&mut self, field: Field) {
        if field == Field::Data {
            if self.lines {
                self.scan.read(b"\n", &mut self.counts);
            }
            self.lines = true;
        }
    }

    fn value(&mut self, field: Field, value: &[u8]) {
        if field == Field::Data {
            self.scan.read(value, &mut self.counts);
        }
    }

    fn end_of_event(&mut self) {
        self.scan = Scan::NEW;
        self.lines = false;
    }
}

/// The objects that are looked into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The answer, or an event of it.
    Top,
    /// What an event is about: Anthropic's `message`, `OpenAI`'s `response`.
    Carrier,
    /// The usage.
    Usage,
    /// Its details.
    Details,
}

/// The largest number of each kind.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// The prompt with what was cached: `OpenAI`'s chats, Gemini.
    prompt: Option<u64>,
    /// The prompt, without what was cached, where the answer counts that by itself: `OpenAI`'s responses, Anthropic, Bedrock.
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    /// Gemini's prompt of a tool's use, beside the prompt.
    tools: Option<u64>,
    cached: Option<u64>,
    output: Option<u64>,
    /// Gemini's thoughts, beside the output.
    thoughts: Option<u64>,
}

impl Counts {
    const NONE: Self = Self {
        prompt: None,
        input: None,
        cache_read: None,
        cache_write: None,
        tools: None,
        cached: None,
        output: None,
        thoughts: None,
    };

    fn usage(&self) -> Usage {
        let input = match self.prompt {
            Some(_) => sum(&[self.prompt, self.tools]),
            None => sum(&[self.input, self.cache_read, self.cache_write]),
        };
        Usage { input, cached: self.cached.max(self.cache_read), output: sum(&[self.output, self.thoughts]) }
    }
}

/// The sum of the numbers that are there.
fn sum(numbers: &[Option<u64>]) -> Option<u64> {
    let total = |sum: Option<u64>, number: &u64| Some(sum.unwrap_or(0).saturating_add(*number).min(LARGEST));
    numbers.iter().flatten().fold(None, total)
}

impl Numbers for Counts {
    type Place = Place;

    fn enter(place: Option<Place>, key: &Word) -> Option<Place> {
        let is = |names: &[&[u8]]| names.iter().any(|name| key.is(name));
        match place {
            None => Some(Place::Top),
            Some(Place::Top | Place::Carrier) if is(&[b"usage", b"usageMetadata"]) => Some(Place::Usage),
            Some(Place::Top) if is(&[b"message", b"response"]) => Some(Place::Carrier),
            Some(Place::Usage) if is(&[b"prompt_tokens_details", b"input_tokens_details"]) => {
                Some(Place::Details)
            }
            Some(_) => None,
        }
    }

    fn number(&mut self, place: Place, key: &Word, value: u64) {
        let kind = NAMES.iter().find(|(name, of, _)| *of == place && key.is(name.as_bytes()));
        if let Some((.., kind)) = kind {
            let count = kind(self);
            *count = (*count).max(Some(value));
        }
    }
}

/// A name of a number, where it stands, and what it counts.
type Name = (&'static str, Place, fn(&mut Counts) -> &mut Option<u64>);

const NAMES: [Name; 17] = [
    // OpenAI's chats, and services that follow it.
    ("prompt_tokens", Place::Usage, |counts| &mut counts.prompt),
    ("completion_tokens", Place::Usage, |counts| &mut counts.output),
    ("cached_tokens", Place::Details, |counts| &mut counts.cached),
    ("prompt_cache_hit_tokens", Place::Usage, |counts| &mut counts.cached), // DeepSeek
    // OpenAI's responses and Anthropic.
    ("input_tokens", Place::Usage, |counts| &mut counts.input),
    ("output_tokens", Place::Usage, |counts| &mut counts.output),
    ("cache_read_input_tokens", Place::Usage, |counts| &mut counts.cache_read),
    ("cache_creation_input_tokens", Place::Usage, |counts| &mut counts.cache_write),
    // Bedrock.
    ("inputTokens", Place::Usage, |counts| &mut counts.input),
    ("outputTokens", Place::Usage, |counts| &mut counts.output),
    ("cacheReadInputTokens", Place::Usage, |counts| &mut counts.cache_read),
    ("cacheWriteInputTokens", Place::Usage, |counts| &mut counts.cache_write),
    // Gemini.
    ("promptTokenCount", Place::Usage, |counts| &mut counts.prompt),
    ("toolUsePromptTokenCount", Place::Usage, |counts| &mut counts.tools),
    ("candidatesTokenCount", Place::Usage, |counts| &mut counts.output),
    ("cachedContentTokenCount", Place::Usage, |counts| &mut counts.cached),
    ("thoughtsTokenCount", Place::Usage, |counts| &mut counts.thoughts),
];
