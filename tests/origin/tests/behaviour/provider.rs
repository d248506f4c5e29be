//! The fake provider of language models as its clients observe it.

use crate::client::{Client, End, control, origin};
use serde_json::{Value, json};
use tidegate_origin::Origin;

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const GEMINI: &str = "/v1beta/models/g:generateContent";
const GEMINI_STREAM: &str = "/v1beta/models/g:streamGenerateContent?alt=sse";

fn provider(plan: &Value) -> Origin {
    origin(&json!({"provider": plan}))
}

/// A request of each interface with a prompt of 40 letters, which are 10 tokens.
fn prompt(path: &str, stream: bool) -> Value {
    let text = "x".repeat(40);
    let turns = json!([{"role": "user", "content": text}]);
    match path {
        CHAT => {
            json!({"model": "m", "messages": turns, "stream": stream, "stream_options": {"include_usage": true}})
        }
        RESPONSES => json!({"model": "m", "input": text, "stream": stream}),
        MESSAGES => json!({"model": "m", "messages": turns, "stream": stream, "max_tokens": 100}),
        _ => json!({"contents": [{"role": "user", "parts": [{"text": text}]}]}),
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
    end: End,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The data of all events that are JSON.
    fn events(&self) -> Vec<Value> {
        self.body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
    }
}

fn send(origin: &Origin, path: &str, key: &str, body: &Value) -> Client {
    let mut client = Client::connect(origin.address()).expect("the origin listens");
    let extra = format!("authorization: Bearer {key}\r\nconnection: close\r\n");
    client.send("POST", path, &extra, body.to_string().as_bytes());
    client
}

fn ask(origin: &Origin, path: &str, stream: bool) -> Answer {
    answer(&mut send(origin, path, "k", &prompt(path, stream)))
}

fn answer(client: &mut Client) -> Answer {
    let (bytes, end) = client.rest();
    let text = String::from_utf8(bytes).expect("ASCII");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let chunked = head.contains("transfer-encoding: chunked");
    let body = if chunked { unchunked(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body, end }
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length of a chunk");
        let Some(piece) = rest.get(..length).filter(|piece| !piece.is_empty()) else { break };
        body += piece;
        text = rest[length..].trim_start_matches("\r\n");
    }
    body
}

#[test]
fn each_interface_answers_in_its_own_form_with_its_usage() {
    let origin = provider(&json!({"answer_tokens": 5, "cached_share": 0.5}));
    let words = |text: &Value| text.as_str().expect("a text").split(' ').count();
    let chat = ask(&origin, CHAT, false).json();
    assert_eq!(words(&chat["choices"][0]["message"]["content"]), 5);
    assert_eq!(
        (&chat["usage"]["prompt_tokens"], &chat["usage"]["completion_tokens"]),
        (&json!(10), &json!(5))
    );
    assert_eq!(chat["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
    let response = ask(&origin, RESPONSES, false).json();
    assert_eq!(words(&response["output"][0]["content"][0]["text"]), 5);
    assert_eq!(response["usage"]["output_tokens"], 5);
    let message = ask(&origin, MESSAGES, false).json();
    assert_eq!(words(&message["content"][0]["text"]), 5);
    assert_eq!(message["usage"]["input_tokens"], 5, "Anthropic counts what was cached apart");
    assert_eq!(message["usage"]["cache_read_input_tokens"], 5);
    let gemini = ask(&origin, GEMINI, false).json();
    assert_eq!(words(&gemini["candidates"][0]["content"]["parts"][0]["text"]), 5);
    assert_eq!(gemini["usageMetadata"]["totalTokenCount"], 15);
}

#[test]
fn each_interface_streams_word_by_word() {
    let origin = provider(&json!({"answer_tokens": 4}));
    let text = |path: &str, pointer: &str| {
        let answer = ask(&origin, path, true);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("text/event-stream; charset=utf-8"))
        );
        let events = answer.events();
        let parts: Vec<&str> = events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect();
        assert_eq!(parts.len(), 4, "{path}: {}", answer.body);
        assert_eq!(parts.concat().split(' ').count(), 4);
        (events, answer.body)
    };
    let (chat, body) = text(CHAT, "/choices/0/delta/content");
    assert!(body.ends_with("data: [DONE]\n\n"));
    assert_eq!(chat.last().expect("some")["usage"]["total_tokens"], 14);
    let (response, body) = text(RESPONSES, "/delta");
    assert!(body.starts_with("event: response.created\n") && body.contains("event: response.completed\n"));
    assert_eq!(response.last().expect("some")["response"]["usage"]["total_tokens"], 14);
    let (message, body) = text(MESSAGES, "/delta/text");
    assert!(body.starts_with("event: message_start\n") && body.contains("event: message_stop\n"));
    assert!(message.iter().any(|event| event["usage"]["output_tokens"] == 4));
    let (gemini, _) = text(GEMINI_STREAM, "/candidates/0/content/parts/0/text");
    assert_eq!(gemini.last().expect("some")["usageMetadata"]["candidatesTokenCount"], 4);
}

#[test]
fn a_key_is_metered_by_requests_and_by_tokens() {
    let limits = json!({"requests": 2, "tokens": 100, "per_s": 3600});
    let origin = provider(&json!({"answer_tokens": 5, "limits": limits}));
    let first = ask(&origin, CHAT, false);
    assert_eq!(first.header("x-ratelimit-limit-tokens"), Some("100"));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(ask(&origin, MESSAGES, false).header("anthropic-ratelimit-requests-remaining"), Some("0"));
    let throttled = ask(&origin, CHAT, false);
    assert_eq!(
        (throttled.status, throttled.json()["error"]["code"].clone()),
        (429, json!("rate_limit_exceeded"))
    );
    assert_eq!(throttled.header("x-ratelimit-remaining-requests"), Some("0"));
    let wait: u64 = throttled.header("retry-after").expect("seconds").parse().expect("a number");
    assert!((1790..=1800).contains(&wait), "{wait}");
    assert_eq!(answer(&mut send(&origin, CHAT, "another", &prompt(CHAT, false))).status, 200);
    let (_, used) = control(&origin, "GET", "/provider", "");
    assert_eq!(used["k"]["requests"], 3);
    assert_eq!((&used["k"]["refused"]["throttled"], &used["k"]["input_tokens"]), (&json!(1), &json!(20)));
    assert_eq!(used["k"]["output_tokens"], 10);
}

#[test]
fn tokens_run_out_before_requests_do() {
    let plan = json!({"answer_tokens": 5, "limits": {"requests": 90, "tokens": 20, "per_s": 3600}});
    let origin = provider(&plan);
    assert_eq!(ask(&origin, CHAT, false).status, 200);
    let throttled = ask(&origin, CHAT, false).json();
    assert_eq!(throttled["error"]["type"], "tokens");
    let large = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(100)}]});
    let refused = answer(&mut send(&origin, CHAT, "k", &large)).json();
    assert!(refused["error"]["message"].as_str().expect("a text").starts_with("Request too large for"));
}

#[test]
fn each_form_of_a_wait_is_sent() {
    let told = |form: &str, path: &str| {
        let origin = provider(&json!({"retry_after": form, "limits": {"requests": 1, "per_s": 90}}));
        assert_eq!(ask(&origin, path, false).status, 200);
        ask(&origin, path, false)
    };
    assert_eq!(told("seconds", MESSAGES).header("retry-after"), Some("90"));
    assert!(told("date", CHAT).header("retry-after").expect("a date").ends_with(" GMT"));
    let ms: u64 = told("ms", CHAT).header("retry-after-ms").expect("ms").parse().expect("a number");
    assert!((80_000..=90_000).contains(&ms));
    let body = told("body", CHAT);
    assert!(body.header("retry-after").is_none() && body.body.contains("Please try again in 1m"));
    let google = told("body", GEMINI).json();
    let delay = google["error"]["details"][1]["retryDelay"].as_str().expect("RetryInfo").to_owned();
    assert!(delay.starts_with("1m") && delay.ends_with('s'), "{delay}");
    let none = told("none", CHAT);
    assert!(none.header("retry-after").is_none() && !none.body.contains("try again"));
}

#[test]
fn every_error_has_the_status_and_the_word_of_its_interface() {
    for (kind, chat, messages, gemini) in [
        ("throttled", (429, "rate_limit_exceeded"), (429, "rate_limit_error"), (429, "RESOURCE_EXHAUSTED")),
        ("overloaded", (503, "engine_overloaded"), (529, "overloaded_error"), (503, "UNAVAILABLE")),
        ("quota_spent", (429, "insufficient_quota"), (400, "credit balance is too low"), (429, "PerDay")),
        ("payment_required", (402, "Insufficient Balance"), (402, "billing_error"), (402, "Billing")),
        ("unauthorized", (401, "invalid_api_key"), (401, "authentication_error"), (400, "API key not valid")),
        (
            "too_long",
            (400, "context_length_exceeded"),
            (400, "prompt is too long"),
            (400, "maximum number of tokens"),
        ),
        ("content_refused", (400, "content_filter"), (400, "content filtering"), (200, "SAFETY")),
        ("server_error", (500, "server_error"), (500, "api_error"), (500, "INTERNAL")),
        ("unavailable", (503, "Service unavailable"), (503, "api_error"), (503, "UNAVAILABLE")),
    ] {
        let origin = provider(&json!({"faults": [{"fault": kind}]}));
        for (path, (status, word)) in
            [(CHAT, chat), (RESPONSES, chat), (MESSAGES, messages), (GEMINI, gemini)]
        {
            let answer = ask(&origin, path, true);
            assert_eq!(answer.status, status, "{kind} {path}");
            assert!(answer.body.contains(word), "{kind} {path}: {}", answer.body);
        }
        let (_, used) = control(&origin, "GET", "/provider", "");
        assert_eq!(used["k"]["refused"][kind], 4);
    }
}

#[test]
fn a_key_that_is_not_sold_and_a_prompt_that_does_not_fit_are_refused() {
    let origin = provider(&json!({"keys": {"k": {"quota": 40}}, "context": 30}));
    assert_eq!(answer(&mut send(&origin, CHAT, "other", &prompt(CHAT, false))).status, 401);
    let long = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(200)}]});
    assert_eq!(
        answer(&mut send(&origin, CHAT, "k", &long)).json()["error"]["code"],
        "context_length_exceeded"
    );
    assert_eq!((ask(&origin, CHAT, false).status, ask(&origin, CHAT, false).status), (200, 200));
    assert_eq!(ask(&origin, CHAT, false).json()["error"]["code"], "insufficient_quota");
    assert_eq!(answer(&mut send(&origin, CHAT, "k", &json!({}))).status, 400);
}

#[test]
fn a_stream_stalls_after_so_many_bytes_and_pings_go_on_between_events() {
    for (at, pings) in [(0, 3), (1, 0), (60, 0)] {
        let origin = provider(&json!({"ping_every": 0.02, "faults": [{"fault": "stall", "at": at}]}));
        let mut client = send(&origin, CHAT, "k", &prompt(CHAT, true));
        let mut come = String::new();
        // Whole pings behind what was sent, and no end; without pings, half a second of silence.
        for turn in 0..500 {
            let piece = client.whatever_comes_within(std::time::Duration::from_millis(10));
            come += &String::from_utf8(piece).expect("ASCII");
            if pings > 0 && come.matches(": ping").count() > pings
                || pings == 0 && turn > 50 && come.contains("\r\n\r\n")
            {
                break;
            }
        }
        let (head, body) = come.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"));
        let body = unchunked(body);
        let sent = body.split(": ping").next().expect("a piece");
        assert_eq!(sent.len(), at, "{body:?}");
        assert!(body.matches(": ping\n\n").count() >= pings, "{body:?}");
        assert_eq!(origin.stats().by_fault.get("stall"), Some(&1));
    }
}

#[test]
fn a_stream_breaks_or_ends_in_the_middle() {
    for (fault, end) in [("break", End::Rst), ("end", End::Fin)] {
        let origin = provider(&json!({"faults": [{"fault": fault, "at": 100}]}));
        let answer = ask(&origin, MESSAGES, true);
        assert_eq!((answer.status, answer.body.len(), answer.end), (200, 100, end));
        assert!(!answer.body.contains("message_stop"));
        assert_eq!(origin.stats().by_fault.get(fault), Some(&1));
    }
}

#[test]
fn an_error_comes_inside_a_stream_that_began_well() {
    let fault = json!([{"fault": "error_event", "at": 3, "error": "overloaded"}]);
    let origin = provider(&json!({"answer_tokens": 8, "faults": fault}));
    for (path, words, event) in [
        (CHAT, "/choices/0/delta/content", "data: {\"error\":"),
        (RESPONSES, "/delta", "event: response.failed\n"),
        (MESSAGES, "/delta/text", "event: error\n"),
        (GEMINI_STREAM, "/candidates/0/content/parts/0/text", "data: {\"error\":"),
    ] {
        let answer = ask(&origin, path, true);
        let text = answer.events().iter().filter_map(|event| event.pointer(words).cloned()).count();
        assert_eq!((answer.status, text, answer.end), (200, 3, End::Fin), "{}", answer.body);
        let last = answer.body.trim_end().rsplit("\n\n").next().expect("an event");
        assert!(last.contains(event.trim_end()), "{path}: {last}");
    }
    assert_eq!(ask(&origin, CHAT, false).status, 200, "a plain answer has no events");
}

#[test]
fn an_outage_begins_and_ends_by_command() {
    let origin = provider(&json!({}));
    assert_eq!(ask(&origin, CHAT, false).status, 200);
    assert_eq!(control(&origin, "PUT", "/provider", r#"{"faults": [{"fault": "unavailable"}]}"#).0, 200);
    assert_eq!(ask(&origin, CHAT, false).status, 503);
    assert_eq!(control(&origin, "PUT", "/provider", r#"{"faults": []}"#).0, 200);
    assert_eq!(ask(&origin, CHAT, false).status, 200);
    assert_eq!(origin.stats().requests, 3, "counts go on");
    assert_eq!(control(&origin, "PUT", "/provider", r#"{"limits": {"requests": 1, "per_s": 600}}"#).0, 200);
    assert_eq!((ask(&origin, CHAT, false).status, ask(&origin, CHAT, false).status), (200, 429));
    let (status, why) = control(&origin, "PUT", "/provider", r#"{"faults": [{"fault": "flood"}]}"#);
    assert_eq!(status, 400);
    assert!(
        why["error"]
            .as_str()
            .expect("a text")
            .starts_with("faults[0].fault = \"flood\": must be hang, stall")
    );
    let (status, why) = control(&super::client::origin(&json!({})), "GET", "/provider", "");
    assert_eq!((status, why["error"].as_str()), (409, Some("provider: the script in force has none")));
}

#[test]
fn the_same_seed_draws_the_same_answers_and_faults() {
    let run = |seed: u64| {
        let plan = json!({"answer_tokens": [1, 30], "faults": [{"share": 0.4, "fault": "overloaded"}]});
        let origin = origin(&json!({"seed": seed, "provider": plan}));
        (0..12)
            .map(|_| ask(&origin, MESSAGES, false))
            .map(|answer| (answer.status, answer.body))
            .collect::<Vec<_>>()
    };
    let first = run(7);
    assert!(first.iter().any(|(status, _)| *status == 529) && first.iter().any(|(status, _)| *status == 200));
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

#[test]
fn mistakes_in_a_plan_are_named() {
    for (plan, why) in [
        (json!({"keyz": {}}), "provider.keyz = {}: unknown key"),
        (json!({"answer_tokens": [5, 2]}), "provider.answer_tokens = [5,2]: must be a number of tokens"),
        (
            json!({"retry_after": "later"}),
            "provider.retry_after = \"later\": must be seconds, date, ms, body or none",
        ),
        (
            json!({"faults": [{"share": 1}]}),
            "provider.faults[0] = {\"share\":1}: a fault needs its name in fault",
        ),
        (
            json!({"faults": [{"fault": "hang", "at": 1}]}),
            "provider.faults[0].at = 1: the fault hang has no at",
        ),
        (json!({"limits": {"requests": 0}}), "provider.limits.requests = 0: must be a whole number from 1"),
    ] {
        let error = tidegate_origin::Script::from_value(&json!({"provider": plan})).expect_err(why);
        assert!(error.to_string().starts_with(why), "{error}");
    }
}
