//! What the engine promises, and what it was seen to do: counted by the host, from steps alone.

use std::collections::BTreeMap;

use tidegate::Load;

use super::settings::{Pairs, number, word};

/// Calls and attempts by key, and tokens taken.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    /// Calls that started an attempt.
    pub calls: u64,
    pub attempts: u64,
    pub tokens: u64,
}

/// The most that the settings of one policy, or of one pool, have allowed so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    pub per_call: f64,
    pub per_second: f64,
    pub burst: f64,
    /// Tokens per second and at once.
    pub rate: f64,
    pub tokens: f64,
    /// Budgets and buckets that began anew because a retune gave them another meaning: one burst each.
    pub fresh: f64,
    pub fresh_tokens: f64,
}

impl Allowed {
    pub fn load(&mut self, load: &Load) {
        self.per_call = self.per_call.max(load.per_call);
        self.per_second = self.per_second.max(load.per_second);
        self.burst = self.burst.max(load.burst);
    }

    /// Takes in the rate limit whose keys begin with `prefix`.
    pub fn rate(&mut self, pairs: &Pairs, prefix: &str) {
        let Some(permits) = number(pairs, &format!("{prefix}permits")) else { return };
        let per = number(pairs, &format!("{prefix}per")).unwrap_or(1.0);
        self.rate = self.rate.max(permits * 1e6 / per);
        self.tokens = self.tokens.max(number(pairs, &format!("{prefix}burst")).unwrap_or(permits));
    }

    /// The most attempts of so many calls in so many seconds, by so many budgets.
    pub fn attempts(&self, calls: u64, seconds: f64, budgets: f64) -> f64 {
        self.per_call * calls as f64 + budgets * (self.per_second * seconds + self.burst + self.fresh)
    }

    pub fn tokens(&self, seconds: f64, buckets: f64) -> f64 {
        buckets * (self.rate * seconds + self.tokens + self.fresh_tokens)
    }
}

/// What makes a budget one that a retune can carry on: its kind.
pub fn identity(pairs: &Pairs, prefix: &str) -> Option<&'static str> {
    word(pairs, &format!("{prefix}kind"))
}

/// Counts of one policy by key.
pub type ByKey = BTreeMap<usize, Seen>;

/// The sums over all keys.
pub fn sum(by_key: &ByKey) -> Seen {
    by_key.values().fold(Seen::default(), |sum, it| Seen {
        calls: sum.calls + it.calls,
        attempts: sum.attempts + it.attempts,
        tokens: sum.tokens + it.tokens,
    })
}
