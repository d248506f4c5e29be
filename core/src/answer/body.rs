//! Why a metered service failed, from its status, headers and body (semantics 15.3).

use super::json::{self, Scalar, Visitor};
use super::moment::{decimal_seconds, leading_go_duration, leading_seconds, parse_go_duration};
use super::words::{PER_DAY, PHRASES, WAITS, WORDS};
use crate::outcome::Class;
use crate::time::Duration;

/// How much of a body is looked at, in bytes. What follows says nothing.
pub const READ_AT_MOST: usize = 64 * 1024;

/// Why a metered service failed. If an answer says several things, the first of this list counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Meaning {
    /// Money or a day's quota is used up: another try is in vain until it is there again.
    QuotaSpent = 0,
    /// The key is unknown, or may not do this.
    Unauthorized = 1,
    /// The request is longer than the model takes.
    TooLong = 2,
    /// The service refuses this content.
    ContentRefused = 3,
    /// Too many requests or tokens in a short time.
    Throttled = 4,
    /// The service has more load than it can carry, whoever asks.
    Overloaded = 5,
    /// A failure that may pass.
    Transient = 6,
    /// The request is wrong.
    Permanent = 7,
}

impl Meaning {
    /// All meanings, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::QuotaSpent,
        Self::Unauthorized,
        Self::TooLong,
        Self::ContentRefused,
        Self::Throttled,
        Self::Overloaded,
        Self::Transient,
        Self::Permanent,
    ];

    /// Its name: `quota_spent`, `unauthorized`, `too_long`, `content_refused`, `throttled`, `overloaded`, `transient`,
    /// `permanent`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QuotaSpent => "quota_spent",
            Self::Unauthorized => "unauthorized",
            Self::TooLong => "too_long",
            Self::ContentRefused => "content_refused",
            Self::Throttled => "throttled",
            Self::Overloaded => "overloaded",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
        }
    }

    /// The class of a failure of this meaning.
    pub const fn class(self) -> Class {
        match self {
            Self::QuotaSpent
            | Self::Unauthorized
            | Self::TooLong
            | Self::ContentRefused
            | Self::Permanent => Class::Permanent,
            Self::Throttled | Self::Overloaded => Class::Throttled,
            Self::Transient => Class::Transient,
        }
    }

    /// What a status says by itself; `None` for those that are no failure.
    pub(crate) const fn of_status(status: u16) -> Option<Self> {
        Some(match status {
            0..=399 => return None,
            401 | 403 => Self::Unauthorized,
            402 => Self::QuotaSpent,
            413 => Self::TooLong,
            429 => Self::Throttled,
            529 => Self::Overloaded,
            408 | 500.. => Self::Transient,
            _ => Self::Permanent,
        })
    }
}

/// Why a metered service failed, and how long it asks to wait.
///
/// ```
/// use tidegate::Duration;
/// use tidegate::answer::{Failure, Meaning};
/// let body = br#"{"error": {"message": "Rate limit reached. Please try again in 1.5s.",
///                           "type": "tokens", "code": "rate_limit_exceeded"}}"#;
/// let failure = Failure::read(429, &[], body).unwrap();
/// assert_eq!(failure.meaning, Meaning::Throttled);
/// assert_eq!(failure.retry_after, Some(Duration::from_millis(1500)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Why it failed.
    pub meaning: Meaning,
    /// The wait that the body names; the headers are read by [`Hints`](crate::Hints).
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of which nothing is known; it may pass.
    pub(super) const UNKNOWN: Self = Self { meaning: Meaning::Transient, retry_after: None };

    /// Reads a failed answer of a service of language models: OpenAI, Anthropic, Google, Amazon Bedrock, Mistral, and
    /// services that speak like one of them.
    ///
    /// The body goes before the status: services answer 400 for a key that they do not know, and 429 for a spent quota.
    /// Of the body at most [`READ_AT_MOST`] bytes are looked at; it may be cut off, or no JSON.
    /// A status below 400 is read for an error in a stream that began well; `None` if nothing says that it failed.
    pub fn read(status: u16, headers: &[(&[u8], &[u8])], body: &[u8]) -> Option<Self> {
        let mut reading = Reading::default();
        for (name, value) in headers {
            if name.eq_ignore_ascii_case(b"x-amzn-errortype") {
                reading.word(value);
            }
        }
        json::read(&body[..body.len().min(READ_AT_MOST)], &mut reading);
        let by_status = Meaning::of_status(status);
        let mut meaning = reading.meaning();
        // A word of the body that says only "wrong request" does not undo what the status says.
        if meaning.is_none_or(|meaning| meaning == Meaning::Permanent) {
            meaning = by_status.or(reading.number).or(meaning);
        }
        Some(Self { meaning: meaning?, retry_after: reading.retry_info.or(reading.message_wait) })
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    /// The most telling word or phrase.
    word: Option<Meaning>,
    /// A status in the body (`"code": 429`).
    number: Option<Meaning>,
    /// A message names a daily quota.
    per_day: bool,
    /// An identifier names a daily quota; waits in the same answer then belong to other quotas.
    daily_quota: bool,
    /// `retryDelay` or `retry_after`.
    retry_info: Option<Duration>,
    /// The wait in a message.
    message_wait: Option<Duration>,
}

impl Reading {
    /// The meaning of all that has been read.
    fn meaning(&self) -> Option<Meaning> {
        // A daily quota with a wait in its message is a rolling window: a call can wait for it.
        if self.daily_quota || self.per_day && self.message_wait.is_none() {
            return Some(Meaning::QuotaSpent);
        }
        self.word
    }

    fn note(&mut self, meaning: Meaning) {
        self.word = Some(self.word.map_or(meaning, |had| had.min(meaning)));
    }

    /// Notes a word of an error: `ThrottlingException:http://…` and `com.amazon…#ThrottlingException` are one.
    fn word(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        let text = text.split(|byte| *byte == b':').next().unwrap_or(text);
        let text = text.rsplit(|byte| *byte == b'#').next().unwrap_or(text);
        if let Some((_, meaning)) = WORDS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word.as_bytes()))
        {
            self.note(*meaning);
        }
    }

    /// Notes the phrases and the wait in a message.
    fn message(&mut self, text: &[u8]) {
        for (phrase, meaning) in PHRASES {
            if position(text, phrase).is_some() {
                self.note(*meaning);
            }
        }
        self.per_day |= PER_DAY.iter().any(|word| position(text, word).is_some());
        for before in WAITS {
            let Some(at) = position(text, before) else { continue };
            let rest = &text[at + before.len()..];
            let span = leading_go_duration(rest).or_else(|| {
                let (span, after) = leading_seconds(rest)?;
                starts_with(after, " second").then_some(span)
            });
            self.message_wait = self.message_wait.max(span);
        }
    }
}

impl Visitor for Reading {
    fn enters(&mut self, key: &[u8]) -> bool {
        [&b"error"[..], b"response", b"errors", b"details", b"violations", b"innererror", b"metadata"]
            .contains(&key)
    }

    fn scalar(&mut self, key: &[u8], value: Scalar<'_>) {
        match (key, value) {
            (b"type" | b"code" | b"status" | b"reason" | b"__type", Scalar::Text(text)) => self.word(text),
            (b"code" | b"status", Scalar::Number(text)) => {
                let status = core::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                self.number = self.number.or_else(|| Meaning::of_status(status?));
            }
            (b"message" | b"Message", Scalar::Text(text)) => self.message(text),
            (b"quotaId" | b"quotaMetric", Scalar::Text(text)) => {
                self.daily_quota |= PER_DAY.iter().any(|word| position(text, word).is_some());
            }
            (b"retryDelay", Scalar::Text(text)) => {
                self.retry_info = self.retry_info.max(parse_go_duration(text));
            }
            (b"retry_after", Scalar::Number(text)) => {
                self.retry_info = self.retry_info.max(decimal_seconds(text));
            }
            _ => {}
        }
    }
}

/// Where an ASCII phrase begins in a text, without regard to case.
fn position(text: &[u8], phrase: &str) -> Option<usize> {
    text.windows(phrase.len()).position(|window| window.eq_ignore_ascii_case(phrase.as_bytes()))
}

fn starts_with(text: &[u8], phrase: &str) -> bool {
    text.get(..phrase.len()).is_some_and(|start| start.eq_ignore_ascii_case(phrase.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_numbers_go_together() {
        for (number, meaning) in Meaning::ALL.into_iter().enumerate() {
            assert_eq!(meaning as usize, number);
            assert!(Meaning::ALL.iter().filter(|other| other.name() == meaning.name()).count() == 1);
        }
    }

    #[test]
    fn each_word_is_found_in_its_table() {
        for (word, meaning) in WORDS {
            let body = format!(r#"{{"error": {{"code": "{}"}}}}"#, word.to_uppercase());
            assert_eq!(
                Failure::read(200, &[], body.as_bytes()).map(|failure| failure.meaning),
                Some(*meaning)
            );
        }
        for (phrase, meaning) in PHRASES {
            let body = format!(r#"{{"message": "So: {phrase}!"}}"#);
            assert_eq!(
                Failure::read(400, &[], body.as_bytes()).map(|failure| failure.meaning),
                Some(*meaning)
            );
        }
    }

    #[test]
    fn bytes_beyond_the_limit_are_ignored() {
        let body = |blanks: usize| format!("{}{{\"code\": \"insufficient_quota\"}}", " ".repeat(blanks));
        let meaning = |body: String| Failure::read(429, &[], body.as_bytes()).unwrap().meaning;
        assert_eq!(meaning(body(READ_AT_MOST - 30)), Meaning::QuotaSpent);
        assert_eq!(meaning(body(READ_AT_MOST)), Meaning::Throttled);
    }

    #[test]
    fn an_echoed_request_is_ignored() {
        let body =
            br#"{"message": "{\"code\": \"insufficient_quota\"}", "input": {"code": "insufficient_quota"}}"#;
        assert_eq!(Failure::read(429, &[], body).unwrap().meaning, Meaning::Throttled);
    }

    proptest! {
        #[test]
        fn any_answer(status: u16, value in prop::collection::vec(any::<u8>(), 0..60), body in prop::collection::vec(any::<u8>(), 0..200)) {
            let failure = Failure::read(status, &[(b"X-Amzn-ErrorType", &value)], &body);
            prop_assert!(status < 400 || failure.is_some());
            prop_assert!(failure.is_none_or(|failure| failure.retry_after.is_none_or(|span| span.as_micros() < 1 << 53)));
        }
    }
}
