//! Good answers, as each interface writes them.

use super::request::{Api, Asked};
use super::{Draws, Piece};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

/// The pieces of an answer: one of a plain answer, one for each event of a stream.
pub(crate) fn pieces(asked: &Asked, draws: &Draws, cached_share: f64) -> Vec<Piece> {
    let cached = (asked.input_tokens as f64 * cached_share) as u64;
    let writer = Writer { asked, draws, cached };
    if asked.stream {
        return writer.stream();
    }
    let body = Bytes::from(writer.plain().to_string());
    vec![Piece { bytes: body, pause: Duration::ZERO, tokens: draws.tokens }]
}

struct Writer<'a> {
    asked: &'a Asked,
    draws: &'a Draws,
    cached: u64,
}

impl Writer<'_> {
    fn usage(&self, output: u64) -> Value {
        let (input, cached) = (self.asked.input_tokens, self.cached);
        match self.asked.api {
            Api::Chat => {
                json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": {"reasoning_tokens": 0}})
            }
            Api::Responses => {
                json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": cached},
                "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + output})
            }
            Api::Messages => json!({"input_tokens": input - cached, "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": 0, "output_tokens": output}),
            Api::Gemini => json!({"promptTokenCount": input, "cachedContentTokenCount": cached,
                "candidatesTokenCount": output, "totalTokenCount": input + output}),
        }
    }

    fn plain(&self) -> Value {
        let (id, model, text) = (&self.draws.id, &self.asked.model, self.draws.text());
        let usage = self.usage(self.draws.tokens);
        match self.asked.api {
            Api::Chat => {
                json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": 1, "model": model,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text, "refusal": null},
                    "logprobs": null, "finish_reason": "stop"}], "usage": usage})
            }
            Api::Responses => self.response("completed", Some(&usage)),
            Api::Messages => {
                json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model,
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": usage})
            }
            Api::Gemini => {
                json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]},
                "finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": model, "responseId": id})
            }
        }
    }

    /// The object `response`; whole with its usage, empty without.
    fn response(&self, status: &str, usage: Option<&Value>) -> Value {
        let output = if usage.is_some() { json!([self.message(true)]) } else { json!([]) };
        json!({"id": format!("resp_{}", self.draws.id), "object": "response", "created_at": 1, "status": status,
            "model": self.asked.model, "output": output, "parallel_tool_calls": true, "tool_choice": "auto",
            "tools": [], "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
            "temperature": 1.0, "top_p": 1.0, "usage": usage})
    }

    /// The one item of a response's output.
    fn message(&self, whole: bool) -> Value {
        let content = if whole { json!([self.part(true)]) } else { json!([]) };
        let status = if whole { "completed" } else { "in_progress" };
        json!({"id": format!("msg_{}", self.draws.id), "type": "message", "role": "assistant", "status": status,
            "content": content})
    }

    fn part(&self, whole: bool) -> Value {
        let text = if whole { self.draws.text() } else { String::new() };
        json!({"type": "output_text", "text": text, "annotations": []})
    }

    /// Each word with its pause; all but the first begin with a blank.
    fn words(&self) -> impl Iterator<Item = (Duration, String)> {
        self.draws.words.iter().enumerate().map(|(at, word)| match at {
            0 => (self.draws.first, (*word).to_owned()),
            _ => (self.draws.pauses[at - 1], format!(" {word}")),
        })
    }

    fn stream(&self) -> Vec<Piece> {
        match self.asked.api {
            Api::Chat => self.chat(),
            Api::Responses => self.responses(),
            Api::Messages => self.messages(),
            Api::Gemini => self.gemini(),
        }
    }

    fn chat(&self) -> Vec<Piece> {
        let chunk = |choices: Value, usage: Option<Value>| {
            let mut chunk = json!({"id": format!("chatcmpl-{}", self.draws.id), "object": "chat.completion.chunk",
                "created": 1, "model": self.asked.model, "choices": choices});
            if self.asked.include_usage {
                chunk["usage"] = usage.unwrap_or(Value::Null);
            }
            Bytes::from(format!("data: {chunk}\n\n"))
        };
        let choice =
            |delta: Value, end: Option<&str>| json!([{"index": 0, "delta": delta, "finish_reason": end}]);
        let mut pieces = Vec::new();
        for (at, (pause, word)) in self.words().enumerate() {
            let delta = if at == 0 {
                json!({"role": "assistant", "content": word})
            } else {
                json!({"content": word})
            };
            pieces.push(Piece { bytes: chunk(choice(delta, None), None), pause, tokens: 1 });
        }
        pieces.push(Piece::plain(chunk(choice(json!({}), Some("stop")), None)));
        if self.asked.include_usage {
            pieces.push(Piece::plain(chunk(json!([]), Some(self.usage(self.draws.tokens)))));
        }
        pieces.push(Piece::plain(Bytes::from_static(b"data: [DONE]\n\n")));
        pieces
    }

    fn responses(&self) -> Vec<Piece> {
        let item = format!("msg_{}", self.draws.id);
        let usage = self.usage(self.draws.tokens);
        let place = |mut data: Value| {
            for (key, value) in
                [("item_id", json!(item)), ("output_index", json!(0)), ("content_index", json!(0))]
            {
                data[key] = value;
            }
            data
        };
        let still = Duration::ZERO;
        let mut events = vec![
            (still, "response.created", json!({"response": self.response("in_progress", None)}), 0),
            (still, "response.in_progress", json!({"response": self.response("in_progress", None)}), 0),
        ];
        for (at, (pause, word)) in self.words().enumerate() {
            let mut pause = pause;
            if at == 0 {
                // The model's first sign of life is the item that it begins.
                let added = json!({"output_index": 0, "item": self.message(false)});
                events.push((pause, "response.output_item.added", added, 0));
                events.push((
                    still,
                    "response.content_part.added",
                    place(json!({"part": self.part(false)})),
                    0,
                ));
                pause = still;
            }
            events.push((
                pause,
                "response.output_text.delta",
                place(json!({"delta": word, "logprobs": []})),
                1,
            ));
        }
        events.push((
            still,
            "response.output_text.done",
            place(json!({"text": self.draws.text(), "logprobs": []})),
            0,
        ));
        events.push((still, "response.content_part.done", place(json!({"part": self.part(true)})), 0));
        events.push((
            still,
            "response.output_item.done",
            json!({"output_index": 0, "item": self.message(true)}),
            0,
        ));
        events.push((
            still,
            "response.completed",
            json!({"response": self.response("completed", Some(&usage))}),
            0,
        ));
        events
            .into_iter()
            .enumerate()
            .map(|(number, (pause, name, mut data, tokens))| {
                data["type"] = json!(name);
                data["sequence_number"] = json!(number);
                Piece { bytes: Bytes::from(format!("event: {name}\ndata: {data}\n\n")), pause, tokens }
            })
            .collect()
    }

    fn messages(&self) -> Vec<Piece> {
        let event = |name: &str, mut data: Value| {
            data["type"] = json!(name);
            Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
        };
        let message = json!({"id": format!("msg_{}", self.draws.id), "type": "message", "role": "assistant",
            "model": self.asked.model, "content": [], "stop_reason": null, "stop_sequence": null, "usage": self.usage(1)});
        let mut pieces = vec![Piece::plain(event("message_start", json!({"message": message})))];
        for (at, (pause, word)) in self.words().enumerate() {
            let mut pause = pause;
            if at == 0 {
                let block = json!({"index": 0, "content_block": {"type": "text", "text": ""}});
                pieces.push(Piece { bytes: event("content_block_start", block), pause, tokens: 0 });
                pause = Duration::ZERO;
            }
            let delta = json!({"index": 0, "delta": {"type": "text_delta", "text": word}});
            pieces.push(Piece { bytes: event("content_block_delta", delta), pause, tokens: 1 });
        }
        pieces.push(Piece::plain(event("content_block_stop", json!({"index": 0}))));
        let end = json!({"delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": self.draws.tokens}});
        pieces.push(Piece::plain(event("message_delta", end)));
        pieces.push(Piece::plain(event("message_stop", json!({}))));
        pieces
    }

    fn gemini(&self) -> Vec<Piece> {
        let last = self.draws.words.len() - 1;
        let piece = |(at, (pause, word)): (usize, (Duration, String))| {
            let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [{"text": word}]}});
            if at == last {
                candidate["finishReason"] = json!("STOP");
            }
            let data = json!({"candidates": [candidate], "usageMetadata": self.usage(at as u64 + 1),
                "modelVersion": self.asked.model, "responseId": self.draws.id});
            Piece { bytes: Bytes::from(format!("data: {data}\r\n\r\n")), pause, tokens: 1 }
        };
        self.words().enumerate().map(piece).collect()
    }
}
