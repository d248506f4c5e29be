//! What requests to language models are going to use, and what their answers have used (semantics 15.6 and 15.7). This file only
//! converts.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::answer::{Estimate, Factors, Usage, UsageReader as Core};

/// What a request is going to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, uniffi::Record)]
pub struct RequestEstimate {
    /// Tokens of the prompt.
    pub input: u64,
    /// The most tokens that the answer may have; nothing if the request does not say so.
    pub output: Option<u64>,
    /// Whether the answer is going to be a stream.
    pub stream: bool,
}

/// What an answer says that it has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, uniffi::Record)]
pub struct AnswerUsage {
    /// Tokens of the whole prompt.
    pub input: Option<u64>,
    /// Of these, tokens that were read from a cache.
    pub cached: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
}

/// How much a token counts, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, uniffi::Record)]
pub struct TokenFactors {
    /// A token of the prompt that was not cached.
    pub input: u32,
    /// A token of the prompt that was read from a cache.
    pub cached: u32,
    /// A token of the answer.
    pub output: u32,
}

/// Reads a request by its path and its body.
#[uniffi::export]
pub fn read_estimate(path: &str, body: Vec<u8>) -> RequestEstimate {
    let Estimate { input, output, stream } = Estimate::read(path.as_bytes(), &body);
    RequestEstimate { input, output, stream }
}

/// Weight of these tokens; nothing where neither those of the prompt nor those of the answer are known.
#[uniffi::export]
pub fn tokens_weight(usage: AnswerUsage, factors: TokenFactors) -> Option<u64> {
    let AnswerUsage { input, cached, output } = usage;
    let factors = Factors { input: factors.input, cached: factors.cached, output: factors.output };
    Usage { input, cached, output }.weight(factors)
}

/// Reader of what one answer has used, plain or streamed.
#[derive(uniffi::Object)]
pub struct UsageReader {
    reader: Mutex<Core>,
}

#[uniffi::export]
impl UsageReader {
    /// A reader at the beginning of an answer.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { reader: Mutex::new(Core::new()) })
    }

    /// Reads the next piece.
    pub fn read(&self, piece: Vec<u8>) {
        self.reader.lock().read(&piece);
    }

    /// What has been read so far.
    pub fn usage(&self) -> AnswerUsage {
        let Usage { input, cached, output } = self.reader.lock().usage();
        AnswerUsage { input, cached, output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Semantics 15.6.10 and 15.7.5.
    #[test]
    fn a_request_is_estimated_and_its_answer_is_weighed() {
        let body = br#"{"max_tokens": 300, "stream": true, "messages": [{"content": "12345678"}]}"#;
        let estimate = read_estimate("/v1/chat/completions", body.to_vec());
        assert_eq!(estimate, RequestEstimate { input: 2, output: Some(300), stream: true });
        let reader = UsageReader::new();
        assert_eq!(tokens_weight(reader.usage(), TokenFactors { input: 1, cached: 1, output: 1 }), None);
        for piece in [&br#"{"usage": {"prompt_to"#[..], br#"kens": 10, "completion_tokens": 5}}"#] {
            reader.read(piece.to_vec());
        }
        let factors = TokenFactors { input: 1000, cached: 1000, output: 2500 };
        assert_eq!(tokens_weight(reader.usage(), factors), Some(23));
    }
}
