//! A fake provider of language models: the chat and responses interfaces of `OpenAI`, Anthropic's messages, Gemini's
//! `generateContent`; plain and streamed, metered, and as faulty as its plan wants it.

mod answer;
mod failure;
mod meter;
mod plan;
mod request;
mod stream;

pub(crate) use plan::{ProviderCommand, ProviderFault, ProviderPlan};
pub(crate) use request::Api;
pub(crate) use stream::{Ending, PacedBody, Piece};

use crate::script::unit;
use failure::{Failed, Kind};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use meter::Account;
use plan::{Limits, Symptom};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use request::Asked;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a key has used since the script began.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Used {
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that were answered with an error, by its kind.
    pub refused: BTreeMap<&'static str, u64>,
    /// Faults on the wire, and errors inside a stream, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Tokens of the prompts that were worked on.
    pub input_tokens: u64,
    /// Tokens that were sent.
    pub output_tokens: u64,
    /// The price of both, in microdollars.
    pub microdollars: f64,
}

/// One provider in one run of a script.
pub(crate) struct Provider {
    plan: ProviderPlan,
    books: Mutex<Books>,
}

struct Books {
    accounts: BTreeMap<String, Account>,
    used: BTreeMap<String, Used>,
    faults: Vec<ProviderFault>,
    answered_by_fault: Vec<u64>,
    /// Of keys that the plan does not name.
    limits: Limits,
}

/// An answer to one request: its head is due after `delay`.
pub(crate) struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub delay: Duration,
    pub pieces: Vec<Piece>,
    pub ending: Ending,
    /// The name of the fault that the answer is, if it is one on the wire.
    pub fault: Option<&'static str>,
    pub ping: Option<(Duration, Bytes)>,
    /// Whether to send no head at all.
    pub hangs: bool,
}

impl Provider {
    pub(crate) fn new(plan: ProviderPlan) -> Self {
        let faults = plan.faults.clone();
        let books = Books {
            accounts: BTreeMap::new(),
            used: BTreeMap::new(),
            answered_by_fault: vec![0; faults.len()],
            faults,
            limits: plan.limits.clone(),
        };
        Self { plan, books: Mutex::new(books) }
    }

    /// Replaces faults and limits from now on, as far as they are named; counts continue. New limits begin with full
    /// buckets.
    pub(crate) fn command(&self, command: ProviderCommand) {
        let mut books = self.books();
        if let Some(faults) = command.faults {
            books.answered_by_fault = vec![0; faults.len()];
            books.faults = faults;
        }
        if let Some(limits) = command.limits {
            books.limits = limits;
            books.accounts.clear();
        }
    }

    /// What each key has used.
    pub(crate) fn used(&self) -> BTreeMap<String, Used> {
        self.books().used.clone()
    }

    /// Counts tokens of output that were sent to a key.
    pub(crate) fn sent(&self, key: &str, tokens: u64) {
        let mut books = self.books();
        let used = books.used.entry(key.to_owned()).or_default();
        used.output_tokens += tokens;
        used.microdollars += tokens as f64 * self.plan.output_price;
    }

    /// Decides on a request at `t` seconds of the script's clock.
    pub(crate) fn decide(&self, t: f64, request: &ProviderRequest<'_>) -> (String, Reply) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(request.seed);
        let key = request::key_of(request.headers, request.query);
        let asked = Asked::read(request.api, request.path, request.query, request.body);
        let draws = Draws::new(&self.plan, &mut rng, &asked);
        let mut books = self.books();
        books.used.entry(key.clone()).or_default().requests += 1;
        let symptom = books.symptom(t, &mut rng);
        let reply = match self.failure(&mut books, t, &key, &asked, &draws, symptom.as_ref()) {
            Some(failed) => {
                let used = books.used.entry(key.clone()).or_default();
                *used.refused.entry(failed.kind.name()).or_default() += 1;
                let mut reply = failed.reply(&asked, &self.plan);
                if failed.kind == Kind::Throttled && failed.wait.is_some() {
                    self.quotas(&mut books, t, &key, &asked, &mut reply.headers);
                }
                reply
            }
            None => self.serve(&mut books, t, &key, &asked, &draws, symptom),
        };
        (key, reply)
    }

    /// The error that answers a request, if one does.
    fn failure(
        &self,
        books: &mut Books,
        t: f64,
        key: &str,
        asked: &Asked,
        draws: &Draws,
        symptom: Option<&Symptom>,
    ) -> Option<Failed> {
        if let Some(Symptom::Error(kind, wait)) = symptom {
            return Some(Failed::new(*kind, *wait));
        }
        if !self.plan.keys.is_empty() && !self.plan.keys.contains_key(key) {
            return Some(Failed::new(Kind::Unauthorized, None));
        }
        if !asked.valid {
            return Some(Failed::new(Kind::Invalid, None));
        }
        if asked.input_tokens + draws.tokens > self.plan.context {
            return Some(Failed::new(Kind::TooLong, None));
        }
        let limits = self.plan.keys.get(key).unwrap_or(&books.limits);
        let account = books.accounts.entry(key.to_owned()).or_insert_with(|| Account::new(limits, t));
        account.take(t, asked.input_tokens, draws.tokens).err()
    }

    /// The good answer, with the fault that breaks it.
    fn serve(
        &self,
        books: &mut Books,
        t: f64,
        key: &str,
        asked: &Asked,
        draws: &Draws,
        symptom: Option<Symptom>,
    ) -> Reply {
        let used = books.used.entry(key.to_owned()).or_default();
        used.input_tokens += asked.input_tokens;
        used.microdollars += asked.input_tokens as f64 * self.plan.input_price;
        if let Some(symptom) = &symptom {
            *used.faults.entry(symptom.name()).or_default() += 1;
        }
        let mut headers = HeaderMap::new();
        self.quotas(books, t, key, asked, &mut headers);
        let id = HeaderValue::from_str(&draws.id).expect("an id is ASCII");
        headers.insert(asked.api.request_id(), id);
        headers.insert("content-type", HeaderValue::from_static(asked.content_type()));
        let mut reply = Reply {
            status: 200,
            headers,
            delay: draws.first,
            pieces: answer::pieces(asked, draws, self.plan.cached_share),
            ending: Ending::Whole,
            fault: None,
            ping: self.plan.ping_every.map(|every| (every, asked.api.ping())),
            hangs: false,
        };
        if asked.stream {
            // A stream's head comes at once; its first token is what takes time.
            reply.delay = Duration::ZERO;
        } else {
            reply.delay += draws.pauses.iter().sum::<Duration>();
            reply.ping = None;
        }
        if let Some(symptom) = symptom {
            symptom.spoil(&mut reply, asked);
        }
        reply
    }

    /// Adds the headers that tell what is left.
    fn quotas(&self, books: &mut Books, t: f64, key: &str, asked: &Asked, headers: &mut HeaderMap) {
        let account = books.accounts.get_mut(key).filter(|_| self.plan.quota_headers);
        if let Some(account) = account {
            account.headers(t, asked.api, headers);
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// The first fault whose time it is and whose share this request falls into.
    fn symptom(&mut self, t: f64, rng: &mut Xoshiro256PlusPlus) -> Option<Symptom> {
        for (fault, answered) in self.faults.iter().zip(&mut self.answered_by_fault) {
            let drawn = unit(rng); // drawn for each fault, so that another fault's time shifts no draws
            if fault.from <= t && t < fault.until && *answered < fault.first && drawn <= fault.share {
                *answered += 1;
                return Some(fault.symptom.clone());
            }
        }
        None
    }
}

/// What arrived.
pub(crate) struct ProviderRequest<'a> {
    pub api: Api,
    pub path: &'a str,
    pub query: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    pub seed: u64,
}

/// The random part of an answer, all drawn at the arrival.
pub(crate) struct Draws {
    pub id: String,
    pub tokens: u64,
    /// Until the first token.
    pub first: Duration,
    /// Before each token but the first.
    pub pauses: Vec<Duration>,
    pub words: Vec<&'static str>,
}

const WORDS: [&str; 16] = [
    "the", "tide", "comes", "in", "slowly", "and", "a", "gate", "opens", "for", "boats", "that", "wait",
    "until", "evening", "light",
];

impl Draws {
    fn new(plan: &ProviderPlan, rng: &mut Xoshiro256PlusPlus, asked: &Asked) -> Self {
        let (least, most) = plan.answer_tokens;
        let drawn = least + rng.next_u64() % (most - least + 1);
        let tokens = drawn.min(asked.max_tokens).max(1);
        Self {
            id: format!("{:016x}", rng.next_u64()),
            tokens,
            first: plan.first_token.draw(rng),
            pauses: (1..tokens).map(|_| plan.token_every.draw(rng)).collect(),
            words: (0..tokens).map(|_| WORDS[(rng.next_u64() % WORDS.len() as u64) as usize]).collect(),
        }
    }

    /// The answer's text.
    pub(crate) fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// Where a body counts the tokens that it sends.
pub(crate) struct Till {
    pub provider: Arc<Provider>,
    pub key: String,
}

impl Till {
    pub(crate) fn sent(&self, tokens: u64) {
        if tokens > 0 {
            self.provider.sent(&self.key, tokens);
        }
    }
}
