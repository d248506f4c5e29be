//! One run of a script: its clock, its randomness, its counters, and its decisions about answers.

use crate::capacity::Capacity;
use crate::provider::{Api, Provider};
use crate::script::{Dist, Response, Script, unit};
use crate::stats::{Ledger, Pending};
use hyper::{Method, Request};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A script being played. A new script, or a reset, begins a new run. Requests end in the run in which they arrived, so
/// requests left over from one test are not counted in the next.
pub(crate) struct Run {
    pub id: u64,
    pub script: Arc<Script>,
    pub ledger: Arc<Ledger>,
    pub capacity: Option<Arc<Capacity>>,
    pub provider: Option<Arc<Provider>>,
    dice: Mutex<Dice>,
}

struct Dice {
    rng: Xoshiro256PlusPlus,
    sequence_at: HashMap<String, usize>,
    answered_by_rule: Vec<u64>,
}

/// The decision about one request.
pub(crate) enum Decision {
    /// The origin is down; the request came on an old connection.
    Refuse,
    /// The provider answers; the seed of its draws.
    Provide(Api, u64),
    Answer(Plan),
}

/// An answer with its random draws. All draws of a request are made together when it arrives, so a script's faults
/// depend only on the order of arrivals, not on how requests interleave later.
pub(crate) struct Plan {
    pub response: Arc<Response>,
    pub delay: Duration,
    /// The service time before the phase's factor, which is read when service begins.
    pub service: Duration,
    pub when_full_delay: Duration,
    /// Seeds the pauses of a slow body.
    pub seed: u64,
}

impl Run {
    pub(crate) fn new(id: u64, script: Arc<Script>) -> Self {
        let ledger = Arc::new(Ledger::new());
        let capacity = script
            .capacity
            .as_ref()
            .map(|plan| Arc::new(Capacity::new(script.at(0.0).workers, plan.queue, ledger.clone())));
        let dice = Dice {
            rng: Xoshiro256PlusPlus::seed_from_u64(script.seed),
            sequence_at: HashMap::new(),
            answered_by_rule: vec![0; script.rules.len()],
        };
        let provider = script.provider.clone().map(|plan| Arc::new(Provider::new(plan)));
        Self { id, script, ledger, capacity, provider, dice: Mutex::new(dice) }
    }

    /// Enters a request into the ledger and decides on it, both under one lock, so that the log has the order of the
    /// draws.
    pub(crate) fn arrive<B>(&self, request: &Request<B>, connection: u64) -> (Pending, Decision) {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let method = request.method();
        let uri = request.uri();
        let whole = uri.path_and_query().map_or(uri.path(), |both| both.as_str());
        let pending = self.ledger.received(method.as_str(), whole, request.headers(), connection);
        (pending, self.decide(&mut dice, method, uri.path()))
    }

    /// The factor by which service is slower now.
    pub(crate) fn service_factor(&self) -> f64 {
        self.script.at(self.ledger.t()).service_factor
    }

    fn decide(&self, dice: &mut Dice, method: &Method, path: &str) -> Decision {
        let t = self.ledger.t();
        let now = self.script.at(t);
        if now.refuse {
            return Decision::Refuse;
        }
        let exception = dice
            .next_in_sequence(&self.script, path)
            .or_else(|| dice.first_rule(&self.script, method, path, t))
            .or_else(|| (now.error_rate > 0.0 && unit(&mut dice.rng) <= now.error_rate).then_some(now.error));
        let api = Api::of(path).filter(|_| self.provider.is_some() && *method == Method::POST);
        if let (None, Some(api)) = (&exception, api) {
            return Decision::Provide(api, dice.rng.next_u64());
        }
        let response = exception.unwrap_or_else(|| self.script.default.clone());
        let capacity = self.script.capacity.as_ref().filter(|_| response.uses_capacity);
        Decision::Answer(Plan {
            delay: dice.span(response.delay.as_ref()),
            service: dice.span(capacity.map(|plan| &plan.service)),
            when_full_delay: dice.span(capacity.and_then(|plan| plan.when_full.delay.as_ref())),
            seed: dice.rng.next_u64(),
            response,
        })
    }
}

impl Dice {
    fn next_in_sequence(&mut self, script: &Script, path: &str) -> Option<Arc<Response>> {
        let answers = script.sequences.get(path)?;
        let at = self.sequence_at.entry(path.to_owned()).or_default();
        let answer = answers[(*at).min(answers.len() - 1)].clone();
        *at += 1;
        Some(answer)
    }

    fn first_rule(&mut self, script: &Script, method: &Method, path: &str, t: f64) -> Option<Arc<Response>> {
        for (rule, answered) in script.rules.iter().zip(&mut self.answered_by_rule) {
            if *answered < rule.first
                && rule.matches(method, path, t)
                && (rule.probability >= 1.0 || unit(&mut self.rng) <= rule.probability)
            {
                *answered += 1;
                return Some(rule.respond.clone());
            }
        }
        None
    }

    fn span(&mut self, dist: Option<&Dist>) -> Duration {
        dist.map_or(Duration::ZERO, |dist| dist.draw(&mut self.rng))
    }
}
