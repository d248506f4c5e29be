//! What a request to a language model is going to use, before it is sent (semantics 15.7).

use super::json::{self, Scalar, Visitor};
use super::scan::LARGEST;
use super::usage::{Factors, Usage};

/// What a request is going to use.
///
/// ```
/// use tidegate::answer::{Estimate, Factors};
/// let body = br#"{"model": "m", "stream": true, "max_tokens": 500,
///                 "messages": [{"role": "user", "content": "How high is the tide at noon?"}]}"#;
/// let estimate = Estimate::read(b"/v1/chat/completions", body);
/// assert_eq!((estimate.input, estimate.output, estimate.stream), (8, Some(500), true));
/// assert_eq!(estimate.weight(1000, Factors::TOKENS), 508);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Tokens of the prompt: one for each four bytes of its texts.
    pub input: u64,
    /// The most tokens that the answer may have, if the request says so.
    pub output: Option<u64>,
    /// The answer is going to be a stream.
    pub stream: bool,
}

impl Estimate {
    /// Reads a request of `OpenAI`, Anthropic, Gemini or Bedrock, or of a service that speaks like one of them. The path may
    /// have a query.
    pub fn read(path: &[u8], body: &[u8]) -> Self {
        let mut reading = Reading::default();
        json::read(body, &mut reading);
        let path = path.split(|byte| *byte == b'?').next().unwrap_or(path);
        let streams = [&b":streamGenerateContent"[..], b"/converse-stream", b"/invoke-with-response-stream"];
        Self {
            input: reading.bytes.div_ceil(4).max(1),
            output: reading.output,
            stream: reading.stream || streams.iter().any(|end| path.ends_with(end)),
        }
    }

    /// What the request is going to count against a limit; `output` where it does not say how long its answer may be.
    pub fn weight(self, output: u64, factors: Factors) -> u64 {
        let output = Some(self.output.unwrap_or(output).min(LARGEST));
        Usage { input: Some(self.input), cached: None, output }.weight(factors).unwrap_or(LARGEST)
    }
}

#[derive(Default)]
struct Reading {
    bytes: u64,
    output: Option<u64>,
    stream: bool,
}

impl Visitor for Reading {
    fn enters(&mut self, key: &[u8]) -> bool {
        // Prompts, and where the length of the answer is set. Images and files are inside other members.
        [
            &b"messages"[..],
            b"content",
            b"input",
            b"system",
            b"contents",
            b"parts",
            b"systemInstruction",
            b"system_instruction",
            b"prompt",
            b"generationConfig",
            b"generation_config",
            b"inferenceConfig",
        ]
        .contains(&key)
    }

    fn scalar(&mut self, key: &[u8], value: Scalar<'_>) {
        match (key, value) {
            (
                b"content" | b"text" | b"input" | b"instructions" | b"system" | b"prompt",
                Scalar::Text(text),
            ) => {
                self.bytes = self.bytes.saturating_add(text.len() as u64);
            }
            (
                b"max_tokens"
                | b"max_completion_tokens"
                | b"max_output_tokens"
                | b"maxOutputTokens"
                | b"maxTokens",
                Scalar::Number(text),
            ) => {
                let number = core::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
                self.output = self.output.max(number.map(|number| number.min(LARGEST)));
            }
            (b"stream", Scalar::True) => self.stream = true,
            _ => {}
        }
    }
}
