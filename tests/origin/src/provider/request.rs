//! What a request asks for, in each interface.

use hyper::HeaderMap;
use serde_json::Value;

/// The interfaces of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// `OpenAI`: `…/chat/completions`.
    Chat,
    /// `OpenAI`: `…/responses`.
    Responses,
    /// Anthropic: `…/messages`.
    Messages,
    /// Gemini: `…/models/NAME:generateContent` and `:streamGenerateContent`.
    Gemini,
}

impl Api {
    /// The interface that a POST to this path belongs to.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let last = path.rsplit('/').next().unwrap_or_default();
        Some(match last {
            "completions" if path.ends_with("/chat/completions") => Self::Chat,
            "responses" => Self::Responses,
            "messages" => Self::Messages,
            _ if last.ends_with(":generateContent") || last.ends_with(":streamGenerateContent") => {
                Self::Gemini
            }
            _ => return None,
        })
    }

    /// The header that names a request.
    pub(crate) fn request_id(self) -> &'static str {
        match self {
            Self::Messages => "request-id",
            Self::Chat | Self::Responses | Self::Gemini => "x-request-id",
        }
    }
}

/// One request, as far as it matters.
#[derive(Debug)]
pub(crate) struct Asked {
    pub api: Api,
    pub model: String,
    pub stream: bool,
    /// `OpenAI`: whether a last piece of the stream tells the usage.
    pub include_usage: bool,
    pub input_tokens: u64,
    pub max_tokens: u64,
    /// Whether the body is an object with a prompt.
    pub valid: bool,
}

impl Asked {
    pub(crate) fn read(api: Api, path: &str, query: &str, body: &[u8]) -> Self {
        let document: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let prompts: &[&str] = match api {
            Api::Chat => &["messages"],
            Api::Responses => &["input", "instructions"],
            Api::Messages => &["messages", "system"],
            Api::Gemini => &["contents", "systemInstruction"],
        };
        let length: usize = prompts.iter().map(|key| letters(&document[*key])).sum();
        let max_tokens = match api {
            Api::Chat => document["max_completion_tokens"].as_u64().or(document["max_tokens"].as_u64()),
            Api::Responses => document["max_output_tokens"].as_u64(),
            Api::Messages => document["max_tokens"].as_u64(),
            Api::Gemini => document["generationConfig"]["maxOutputTokens"].as_u64(),
        };
        let (model, stream) = match api {
            Api::Gemini => {
                let last = path.rsplit('/').next().unwrap_or_default();
                let (model, verb) = last.split_once(':').unwrap_or((last, ""));
                (
                    model.to_owned(),
                    verb == "streamGenerateContent" && query.split('&').any(|pair| pair == "alt=sse"),
                )
            }
            _ => (document["model"].as_str().unwrap_or("m").to_owned(), document["stream"] == true),
        };
        Self {
            api,
            model,
            stream,
            include_usage: document["stream_options"]["include_usage"] == true,
            input_tokens: (length as u64).div_ceil(4).max(1),
            max_tokens: max_tokens.unwrap_or(u64::MAX),
            valid: prompts.iter().any(|key| !document[*key].is_null()),
        }
    }

    pub(crate) fn content_type(&self) -> &'static str {
        if self.stream { "text/event-stream; charset=utf-8" } else { "application/json" }
    }
}

/// The number of characters of a prompt: all its texts but those that name a role or a type.
fn letters(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(list) => list.iter().map(letters).sum(),
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != "role" && *key != "type")
            .map(|(_, value)| letters(value))
            .sum(),
        _ => 0,
    }
}

/// The caller's key: a bearer, Anthropic's or Google's header, or Google's query.
pub(crate) fn key_of(headers: &HeaderMap, query: &str) -> String {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let queried = query.split('&').find_map(|pair| pair.strip_prefix("key="));
    bearer.or(header("x-api-key")).or(header("x-goog-api-key")).or(queried).unwrap_or_default().to_owned()
}
