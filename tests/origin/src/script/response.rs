//! One scripted answer.

use super::read::{Item, Object, ScriptError};
use super::{Dist, Queued};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use serde_json::Value;

/// One scripted answer or fault. README.md documents the JSON it is read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) echo: bool,
    pub(crate) retry_after: Option<RetryAfter>,
    pub(crate) delay: Option<Dist>,
    pub(crate) uses_capacity: bool,
    pub(crate) fault: Option<Fault>,
}

/// A fault of an answer on the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// RST before any byte.
    Reset,
    /// FIN before any byte.
    Close,
    /// The head with its Content-Length, then RST.
    ResetAfterHeaders,
    /// A Content-Length is promised, half of it is sent, then FIN.
    Truncate,
    /// The whole body, a few bytes at a time.
    SlowBody {
        /// Bytes in each piece.
        chunk_bytes: usize,
        /// The pause before each piece.
        chunk_every: Dist,
    },
    /// Never answers; the connection stays open until the client leaves.
    Hang,
    /// Bytes that are not HTTP, then FIN.
    Garbage,
}

impl Fault {
    /// The name used in scripts, `/stats` and `/log`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Close => "close",
            Self::ResetAfterHeaders => "reset_after_headers",
            Self::Truncate => "truncate",
            Self::SlowBody { .. } => "slow_body",
            Self::Hang => "hang",
            Self::Garbage => "garbage",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RetryAfter {
    Verbatim(HeaderValue),
    /// An IMF-fixdate this many seconds from the moment of the answer.
    DateIn(f64),
}

const KEYS: [&str; 12] = [
    "status",
    "headers",
    "body",
    "body_bytes",
    "retry_after",
    "retry_after_date_in",
    "delay",
    "uses_capacity",
    "fault",
    "chunk_bytes",
    "chunk_every",
    "echo",
];

/// Ten years, which keeps every date inside the range of IMF-fixdate.
const FARTHEST_DATE_S: f64 = 315_360_000.0;

impl Response {
    /// A bare answer with the reason phrase as its body.
    pub(crate) fn plain(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("a literal status");
        Self {
            status,
            headers: Vec::new(),
            body: reason(status),
            echo: false,
            retry_after: None,
            delay: None,
            uses_capacity: false,
            fault: None,
        }
    }

    pub(crate) fn read(item: &Item<'_>, queued: Queued) -> Result<Self, ScriptError> {
        let object = item.object(&KEYS)?;
        let status = object.integer("status", 200, 599)?.unwrap_or(200);
        let status = StatusCode::from_u16(status as u16).expect("200 to 599 are statuses");
        let echo = object.flag("echo")?.unwrap_or(false);
        Ok(Self {
            status,
            headers: headers(&object)?,
            body: body(item, &object, status, echo)?,
            echo,
            retry_after: retry_after(item, &object)?,
            delay: object.item("delay").map(|item| Dist::read(&item)).transpose()?,
            uses_capacity: queued.read(&object)?,
            fault: fault(&object)?,
        })
    }
}

fn reason(status: StatusCode) -> Bytes {
    Bytes::from(format!("{}\n", status.canonical_reason().unwrap_or("answer")))
}

fn headers(object: &Object<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, ScriptError> {
    let Some(item) = object.item("headers") else { return Ok(Vec::new()) };
    match item.value {
        Value::Object(map) => {
            Object::items(map, &item.key).iter().map(|(name, item)| header(name, item)).collect()
        }
        Value::Array(_) => {
            let pair = |pair: &Item<'_>| match pair.list()?.as_slice() {
                [name, value] => header(name.text()?, value),
                _ => Err(pair.refuse("must be a pair [name, value]")),
            };
            item.list()?.iter().map(pair).collect()
        }
        _ => Err(item.refuse("must be an object or a list of pairs")),
    }
}

fn header(name: &str, item: &Item<'_>) -> Result<(HeaderName, HeaderValue), ScriptError> {
    let value = item.text()?;
    let name =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| item.refuse("its name must be a header name"))?;
    if name == header::CONTENT_LENGTH || name == header::TRANSFER_ENCODING {
        return Err(item.refuse("the origin frames bodies itself; a wrong length is fault truncate"));
    }
    Ok((name, header_value(value, item)?))
}

fn header_value(value: &str, item: &Item<'_>) -> Result<HeaderValue, ScriptError> {
    HeaderValue::from_str(value).map_err(|_| item.refuse("must be a header value: no control characters"))
}

fn body(item: &Item<'_>, object: &Object<'_>, status: StatusCode, echo: bool) -> Result<Bytes, ScriptError> {
    let text = object.text("body")?;
    let length = object.integer("body_bytes", 0, 64 * 1024 * 1024)?;
    if usize::from(text.is_some()) + usize::from(length.is_some()) + usize::from(echo) > 1 {
        return Err(item.refuse("body, body_bytes and echo exclude each other"));
    }
    Ok(match (text, length) {
        (Some(text), _) => Bytes::copy_from_slice(text.as_bytes()),
        (_, Some(length)) => Bytes::from(vec![b'x'; length as usize]),
        _ => reason(status),
    })
}

fn retry_after(item: &Item<'_>, object: &Object<'_>) -> Result<Option<RetryAfter>, ScriptError> {
    let date = object.number("retry_after_date_in", -FARTHEST_DATE_S, FARTHEST_DATE_S)?;
    match (object.item("retry_after"), date) {
        (Some(_), Some(_)) => Err(item.refuse("retry_after and retry_after_date_in exclude each other")),
        (None, date) => Ok(date.map(RetryAfter::DateIn)),
        (Some(item), None) => {
            let text = match item.value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return Err(item.refuse("must be a string or a number, sent verbatim")),
            };
            Ok(Some(RetryAfter::Verbatim(header_value(&text, &item)?)))
        }
    }
}

fn fault(object: &Object<'_>) -> Result<Option<Fault>, ScriptError> {
    let chunk_bytes = object.integer("chunk_bytes", 1, 1 << 20)?;
    let chunk_every = object.item("chunk_every").map(|item| Dist::read(&item)).transpose()?;
    let named = object.item("fault");
    let fault = match &named {
        None => None,
        Some(item) => Some(match item.text()? {
            "reset" => Fault::Reset,
            "close" => Fault::Close,
            "reset_after_headers" => Fault::ResetAfterHeaders,
            "truncate" => Fault::Truncate,
            "slow_body" => Fault::SlowBody {
                chunk_bytes: chunk_bytes.unwrap_or(16) as usize,
                chunk_every: chunk_every.unwrap_or(Dist::constant(100.0)),
            },
            "hang" => Fault::Hang,
            "garbage" => Fault::Garbage,
            _ => {
                return Err(item.refuse(
                    "must be null, reset, close, reset_after_headers, truncate, slow_body, hang or garbage",
                ));
            }
        }),
    };
    let slow = matches!(fault, Some(Fault::SlowBody { .. }));
    match object.item("chunk_bytes").or(object.item("chunk_every")) {
        Some(item) if !slow => Err(item.refuse("needs fault slow_body")),
        _ => Ok(fault),
    }
}
