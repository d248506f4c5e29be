//! `provider` in a script: what the provider sells, to whom, and how it fails.

use super::failure::Kind;
use super::request::{Api, Asked};
use super::{Ending, Piece, Reply};
use crate::script::Dist;
use crate::script::read::{Item, Object, ScriptError};
use hyper::body::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The validated settings of a provider. README.md documents the JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderPlan {
    pub keys: BTreeMap<String, Limits>,
    pub limits: Limits,
    pub context: u64,
    pub answer_tokens: (u64, u64),
    pub first_token: Dist,
    pub token_every: Dist,
    pub cached_share: f64,
    pub ping_every: Option<Duration>,
    pub retry_after: WaitForm,
    /// Whether answers tell what is left of the limits.
    pub quota_headers: bool,
    /// Microdollars per token, which is dollars per million tokens.
    pub input_price: f64,
    pub output_price: f64,
    pub faults: Vec<ProviderFault>,
}

/// What a key may use: requests and tokens in each `per_s` seconds, and tokens in all.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Limits {
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
    pub per_s: f64,
    pub quota: Option<u64>,
}

/// How a throttled answer names its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitForm {
    Seconds,
    Date,
    Milliseconds,
    /// In the body alone: a message, or Google's `RetryInfo`.
    Body,
    None,
}

/// One entry of `faults`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderFault {
    pub from: f64,
    pub until: f64,
    pub share: f64,
    pub first: u64,
    pub symptom: Symptom,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Symptom {
    /// An error instead of an answer, with the wait that it names, in seconds.
    Error(Kind, Option<f64>),
    /// No head, until the client leaves.
    Hang,
    /// Silence after so many bytes of the body; pings go on.
    Stall(usize),
    /// The connection is reset after so many bytes of the body.
    Break(usize),
    /// The connection ends after so many bytes of the body, without the end of the body.
    End(usize),
    /// An error inside a stream that began with 200, after so many tokens.
    ErrorEvent(Kind, usize),
}

impl Symptom {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Error(kind, _) => kind.name(),
            Self::Hang => "hang",
            Self::Stall(_) => "stall",
            Self::Break(_) => "break",
            Self::End(_) => "end",
            Self::ErrorEvent(..) => "error_event",
        }
    }

    /// Breaks a good answer.
    pub(crate) fn spoil(self, reply: &mut Reply, asked: &Asked) {
        let name = self.name();
        match self {
            Self::Error(..) => return,
            Self::Hang => reply.hangs = true,
            Self::Stall(at) => reply.cut(at, Ending::Stall),
            Self::Break(at) => reply.cut(at, Ending::Reset),
            Self::End(at) => reply.cut(at, Ending::Close),
            Self::ErrorEvent(kind, tokens) => {
                if !asked.stream {
                    return; // a plain answer has no events
                }
                let until = reply.pieces.iter().scan(0, |sent, piece| {
                    *sent += piece.tokens as usize;
                    Some(*sent)
                });
                let kept = until.take_while(|sent| *sent <= tokens).count();
                reply.pieces.truncate(kept);
                reply.pieces.push(Piece::plain(kind.event(asked.api)));
            }
        }
        reply.fault = Some(name);
    }

    fn read(item: &Item<'_>, object: &Object<'_>) -> Result<Self, ScriptError> {
        let name = object.text("fault")?.ok_or_else(|| item.refuse("a fault needs its name in fault"))?;
        let at = object.integer("at", 0, 1 << 30)?;
        let bytes = at.unwrap_or(0) as usize;
        let error = match object.item("error") {
            Some(item) => Some(
                Kind::named(item.text()?)
                    .ok_or_else(|| item.refuse(format!("must be one of {}", Kind::names())))?,
            ),
            None => None,
        };
        let wait = object.number("retry_after", 0.0, 1e6)?;
        let symptom = match name {
            "hang" => Self::Hang,
            "stall" => Self::Stall(bytes),
            "break" => Self::Break(bytes),
            "end" => Self::End(bytes),
            "error_event" => Self::ErrorEvent(error.unwrap_or(Kind::Overloaded), bytes),
            name => {
                let rule =
                    || format!("must be hang, stall, break, end, error_event, or one of {}", Kind::names());
                let named = object.item("fault").expect("it was read above");
                Self::Error(Kind::named(name).ok_or_else(|| named.refuse(rule()))?, wait)
            }
        };
        let place = matches!(symptom, Self::Stall(_) | Self::Break(_) | Self::End(_) | Self::ErrorEvent(..));
        for (key, allowed) in [
            ("at", place),
            ("error", matches!(symptom, Self::ErrorEvent(..))),
            ("retry_after", matches!(symptom, Self::Error(..))),
        ] {
            if let Some(item) = object.item(key).filter(|_| !allowed) {
                return Err(item.refuse(format!("the fault {name} has no {key}")));
            }
        }
        Ok(symptom)
    }
}

impl Reply {
    /// Ends the body after `at` bytes.
    fn cut(&mut self, at: usize, ending: Ending) {
        let mut left = at;
        let mut kept = Vec::new();
        for mut piece in self.pieces.drain(..) {
            if left == 0 {
                break;
            }
            if piece.bytes.len() > left {
                // The tokens of half a piece are none.
                piece = Piece { bytes: piece.bytes.slice(..left), tokens: 0, ..piece };
            }
            left -= piece.bytes.len();
            kept.push(piece);
        }
        self.pieces = kept;
        self.ending = ending;
    }
}

impl ProviderPlan {
    pub(crate) fn read(item: &Item<'_>) -> Result<Self, ScriptError> {
        let object = item.object(&[
            "keys",
            "limits",
            "context",
            "answer_tokens",
            "first_token",
            "token_every",
            "cached_share",
            "ping_every",
            "retry_after",
            "quota_headers",
            "price",
            "faults",
        ])?;
        let span = |key: &str, default: f64| {
            object.item(key).map_or_else(|| Ok(Dist::constant(default)), |item| Dist::read(&item))
        };
        let price = object.item("price").map(|item| item.object(&["input", "output"])).transpose()?;
        let price = |key: &str| match &price {
            Some(price) => Ok(price.number(key, 0.0, 1e6)?.unwrap_or(0.0)),
            None => Ok(0.0),
        };
        Ok(Self {
            keys: keys(&object)?,
            limits: object
                .item("limits")
                .map_or_else(|| Ok(Limits::default()), |item| Limits::read(&item))?,
            context: object.integer("context", 1, 1 << 40)?.unwrap_or(128_000),
            answer_tokens: answer_tokens(&object)?,
            first_token: span("first_token", 0.0)?,
            token_every: span("token_every", 0.0)?,
            cached_share: object.number("cached_share", 0.0, 1.0)?.unwrap_or(0.0),
            ping_every: object.number("ping_every", 0.005, 3600.0)?.map(Duration::from_secs_f64),
            retry_after: wait_form(&object)?,
            quota_headers: object.flag("quota_headers")?.unwrap_or(true),
            input_price: price("input")?,
            output_price: price("output")?,
            faults: faults(&object.list("faults")?)?,
        })
    }
}

/// The body of `PUT /provider`: what is replaced.
pub(crate) struct ProviderCommand {
    pub faults: Option<Vec<ProviderFault>>,
    pub limits: Option<Limits>,
}

impl ProviderCommand {
    pub(crate) fn parse(text: &str) -> Result<Self, ScriptError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ScriptError {
            key: String::new(),
            value: format!("{} bytes", text.len()),
            rule: format!("must be JSON: {error}"),
        })?;
        let root = Item { key: String::new(), value: &value };
        let object = root.object(&["faults", "limits"])?;
        Ok(Self {
            faults: object.item("faults").map(|item| faults(&item.list()?)).transpose()?,
            limits: object.item("limits").map(|item| Limits::read(&item)).transpose()?,
        })
    }
}

fn faults(list: &[Item<'_>]) -> Result<Vec<ProviderFault>, ScriptError> {
    list.iter()
        .map(|item| {
            let object =
                item.object(&["from", "until", "share", "first", "fault", "at", "error", "retry_after"])?;
            let (from, until) = object.window()?;
            Ok(ProviderFault {
                from,
                until,
                share: object.number("share", 0.0, 1.0)?.unwrap_or(1.0),
                first: object.integer("first", 0, u64::MAX)?.unwrap_or(u64::MAX),
                symptom: Symptom::read(item, &object)?,
            })
        })
        .collect()
}

fn keys(object: &Object<'_>) -> Result<BTreeMap<String, Limits>, ScriptError> {
    let Some(item) = object.item("keys") else { return Ok(BTreeMap::new()) };
    let Value::Object(map) = item.value else { return Err(item.refuse("must be an object of key: limits")) };
    Object::items(map, &item.key)
        .iter()
        .map(|(key, item)| Ok(((*key).to_owned(), Limits::read(item)?)))
        .collect()
}

fn answer_tokens(object: &Object<'_>) -> Result<(u64, u64), ScriptError> {
    let Some(item) = object.item("answer_tokens") else { return Ok((8, 8)) };
    let rule = "must be a number of tokens from 1 to 100000, or a list of the least and the most";
    let list = match item.value {
        Value::Array(_) => item.list()?.iter().map(|item| item.value.as_u64()).collect::<Option<Vec<_>>>(),
        value => value.as_u64().map(|tokens| vec![tokens, tokens]),
    };
    match list.as_deref() {
        Some([least, most]) if 1 <= *least && least <= most && *most <= 100_000 => Ok((*least, *most)),
        _ => Err(item.refuse(rule)),
    }
}

fn wait_form(object: &Object<'_>) -> Result<WaitForm, ScriptError> {
    Ok(match object.text("retry_after")? {
        None | Some("seconds") => WaitForm::Seconds,
        Some("date") => WaitForm::Date,
        Some("ms") => WaitForm::Milliseconds,
        Some("body") => WaitForm::Body,
        Some("none") => WaitForm::None,
        Some(_) => {
            let item = object.item("retry_after").expect("it was read above");
            return Err(item.refuse("must be seconds, date, ms, body or none"));
        }
    })
}

impl Limits {
    fn read(item: &Item<'_>) -> Result<Self, ScriptError> {
        let object = item.object(&["requests", "tokens", "per_s", "quota"])?;
        let count = |key: &str| object.integer(key, 1, 1 << 50);
        Ok(Self {
            requests: count("requests")?,
            tokens: count("tokens")?,
            per_s: object.number("per_s", 0.01, 1e6)?.unwrap_or(60.0),
            quota: count("quota")?,
        })
    }
}

impl Api {
    /// Something that keeps a connection alive and says nothing.
    pub(crate) fn ping(self) -> Bytes {
        match self {
            Self::Messages => Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n"),
            _ => Bytes::from_static(b": ping\n\n"),
        }
    }
}
