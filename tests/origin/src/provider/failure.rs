//! Errors, as each interface writes them.

use super::meter::go_duration;
use super::plan::{ProviderPlan, WaitForm};
use super::request::{Api, Asked};
use super::{Ending, Piece, Reply};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::{HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// Why a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Too many requests or tokens for now.
    Throttled,
    /// The provider has too much load.
    Overloaded,
    /// The key's quota is used up.
    QuotaSpent,
    /// No money is left: 402.
    PaymentRequired,
    /// The key is unknown.
    Unauthorized,
    /// The prompt and its answer do not fit the model.
    TooLong,
    /// The request alone is above this many tokens, a limit per time.
    TooLarge(u64),
    /// The provider's rules forbid this content.
    ContentRefused,
    /// The request is not one.
    Invalid,
    /// 500.
    ServerError,
    /// 503.
    Unavailable,
}

const NAMED: [(&str, Kind); 9] = [
    ("throttled", Kind::Throttled),
    ("overloaded", Kind::Overloaded),
    ("quota_spent", Kind::QuotaSpent),
    ("payment_required", Kind::PaymentRequired),
    ("unauthorized", Kind::Unauthorized),
    ("too_long", Kind::TooLong),
    ("content_refused", Kind::ContentRefused),
    ("server_error", Kind::ServerError),
    ("unavailable", Kind::Unavailable),
];

impl Kind {
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// All names, for errors.
    pub(crate) fn names() -> String {
        NAMED.map(|(name, _)| name).join(", ")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::Invalid => "invalid",
            named => NAMED.iter().find(|(_, kind)| *kind == named).map_or("error", |(name, _)| name),
        }
    }

    /// The error as an event inside a stream.
    pub(crate) fn event(self, api: Api) -> Bytes {
        let (_, body) = Failed::new(self, None).written(api, "m", true);
        Bytes::from(match api {
            Api::Chat | Api::Gemini => format!("data: {body}\n\n"),
            Api::Messages => format!("event: error\ndata: {body}\n\n"),
            Api::Responses => {
                let error = json!({"code": body["error"]["code"], "message": body["error"]["message"]});
                let response = json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [],
                    "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "status": "failed", "error": error});
                let data = json!({"type": "response.failed", "sequence_number": 99, "response": response});
                format!("event: response.failed\ndata: {data}\n\n")
            }
        })
    }
}

/// A request that fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Failed {
    pub kind: Kind,
    /// Seconds after which it may be repeated.
    pub wait: Option<f64>,
    /// What there was too much of.
    pub measure: &'static str,
}

impl Failed {
    pub(crate) fn new(kind: Kind, wait: Option<f64>) -> Self {
        Self { kind, wait, measure: "requests" }
    }

    /// The whole answer.
    pub(crate) fn reply(self, asked: &Asked, plan: &ProviderPlan) -> Reply {
        let in_body = plan.retry_after != WaitForm::None;
        let (status, body) = self.written(asked.api, &asked.model, in_body);
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        if let Some(wait) = self.wait {
            let said = match plan.retry_after {
                // Rounded up: a repeat after the named time must find its tokens.
                WaitForm::Seconds => Some((RETRY_AFTER, format!("{}", wait.ceil() as u64))),
                WaitForm::Date => {
                    let moment = SystemTime::now() + Duration::from_secs_f64(wait.ceil() + 1.0);
                    Some((RETRY_AFTER, httpdate::fmt_http_date(moment)))
                }
                WaitForm::Milliseconds => Some((
                    hyper::header::HeaderName::from_static("retry-after-ms"),
                    format!("{}", (wait * 1e3).ceil() as u64),
                )),
                WaitForm::Body | WaitForm::None => None,
            };
            if let Some((name, value)) = said {
                headers.insert(name, HeaderValue::try_from(value).expect("a time is ASCII"));
            }
        }
        Reply {
            status,
            headers,
            delay: Duration::ZERO,
            pieces: vec![Piece::plain(Bytes::from(body.to_string()))],
            ending: Ending::Whole,
            fault: None,
            ping: None,
            hangs: false,
        }
    }

    /// The status and the body.
    fn written(self, api: Api, model: &str, names_wait: bool) -> (u16, Value) {
        let wait = self.wait.filter(|_| names_wait).map(go_duration);
        match api {
            Api::Chat | Api::Responses => self.openai(model, wait.as_deref()),
            Api::Messages => self.anthropic(),
            Api::Gemini => self.google(wait.as_deref()),
        }
    }

    fn openai(self, model: &str, wait: Option<&str>) -> (u16, Value) {
        let again = wait.map_or_else(String::new, |wait| format!(" Please try again in {wait}."));
        let measure = self.measure;
        let (status, kind, code, message) = match self.kind {
            Kind::Throttled => (
                429,
                measure,
                Some("rate_limit_exceeded"),
                format!("Rate limit reached for {model} on {measure} per min.{again}"),
            ),
            Kind::Overloaded => (
                503,
                "server_error",
                Some("engine_overloaded"),
                "The engine is currently overloaded.".to_owned(),
            ),
            Kind::QuotaSpent => (
                429,
                "insufficient_quota",
                Some("insufficient_quota"),
                "You exceeded your current quota, please check your plan and billing details.".to_owned(),
            ),
            Kind::PaymentRequired => (402, "unknown_error", None, "Insufficient Balance".to_owned()),
            Kind::Unauthorized => (
                401,
                "invalid_request_error",
                Some("invalid_api_key"),
                "Incorrect API key provided.".to_owned(),
            ),
            Kind::TooLong => (
                400,
                "invalid_request_error",
                Some("context_length_exceeded"),
                "This model's maximum context length is exceeded.".to_owned(),
            ),
            Kind::TooLarge(limit) => (
                429,
                "tokens",
                Some("rate_limit_exceeded"),
                format!("Request too large for {model} on tokens per min: Limit {limit}."),
            ),
            Kind::ContentRefused => {
                (400, "invalid_request_error", Some("content_filter"), "The content was refused.".to_owned())
            }
            Kind::Invalid => (400, "invalid_request_error", None, "The request has no prompt.".to_owned()),
            Kind::ServerError => {
                (500, "server_error", Some("server_error"), "The server had an error.".to_owned())
            }
            Kind::Unavailable => (503, "server_error", None, "Service unavailable.".to_owned()),
        };
        (status, json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))
    }

    fn anthropic(self) -> (u16, Value) {
        let (status, kind, message) = match self.kind {
            Kind::Throttled => (429, "rate_limit_error", "This request would exceed your rate limit."),
            Kind::Overloaded => (529, "overloaded_error", "Overloaded"),
            Kind::QuotaSpent => (
                400,
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            ),
            Kind::PaymentRequired => (402, "billing_error", "There is a problem with your billing."),
            Kind::Unauthorized => (401, "authentication_error", "invalid x-api-key"),
            Kind::TooLong => (400, "invalid_request_error", "prompt is too long"),
            Kind::TooLarge(_) => {
                (429, "rate_limit_error", "This request alone would exceed your rate limit.")
            }
            Kind::ContentRefused => {
                (400, "invalid_request_error", "Output blocked by content filtering policy")
            }
            Kind::Invalid => (400, "invalid_request_error", "messages: Field required"),
            Kind::ServerError => (500, "api_error", "Internal server error"),
            Kind::Unavailable => (503, "api_error", "Service unavailable"),
        };
        (status, json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}))
    }

    fn google(self, wait: Option<&str>) -> (u16, Value) {
        let quota = |id: &str| {
            json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests", "quotaId": id}]})
        };
        let mut details = Vec::new();
        let (status, word, message) = match self.kind {
            Kind::Throttled | Kind::TooLarge(_) => {
                details.push(quota("GenerateRequestsPerMinutePerProjectPerModel"));
                if let Some(wait) = wait {
                    details.push(
                        json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait}),
                    );
                }
                (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.")
            }
            Kind::QuotaSpent => {
                details.push(quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"));
                (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.")
            }
            Kind::Overloaded | Kind::Unavailable => (503, "UNAVAILABLE", "The model is overloaded."),
            Kind::PaymentRequired => (402, "FAILED_PRECONDITION", "Billing is not enabled."),
            Kind::Unauthorized => {
                (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")
            }
            Kind::TooLong => (
                400,
                "INVALID_ARGUMENT",
                "The input token count exceeds the maximum number of tokens allowed.",
            ),
            Kind::ContentRefused => return (200, json!({"promptFeedback": {"blockReason": "SAFETY"}})),
            Kind::Invalid => (400, "INVALID_ARGUMENT", "contents is not specified"),
            Kind::ServerError => (500, "INTERNAL", "An internal error has occurred."),
        };
        let mut error = json!({"code": status, "message": message, "status": word});
        if !details.is_empty() {
            error["details"] = Value::Array(details);
        }
        (status, json!({"error": error}))
    }
}
