//! Judges a scenario: how far each promise was exceeded, and what sort of schedule it was.

use super::bound::{Allowed, Seen, sum};
use super::genome::{HEAD, POLICIES};
use super::host::Host;
use super::settings::word;

/// What a scenario came to.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Attempts or tokens beyond what was promised; at most 0 where the promise was kept.
    pub excess: f64,
    /// Which promise, and its numbers.
    pub what: String,
    /// What sort of schedule it was, by what happened in it.
    pub sort: u64,
}

impl Host {
    /// How far the worst of all promises is exceeded.
    pub(super) fn excess(&self) -> Judgement {
        let seconds = self.passed as f64 / 1e6;
        let mut worst = Judgement { excess: f64::NEG_INFINITY, what: String::new(), sort: 0 };
        let mut is = |what: String, seen: u64, bound: f64| {
            let excess = seen as f64 - bound;
            if excess > worst.excess {
                let what = format!("{what}: {seen} where {bound} are allowed");
                worst = Judgement { excess, what, sort: 0 };
            }
        };
        // Keys without room share one more budget, whose deposits are everybody's (lemma 8), and one more bucket of the store.
        let more = f64::from(u8::from(self.named.len() > self.max_routes));
        // While the store is gone, `on_loss = open` limits nothing.
        let unlimited = self.shape.store && self.shape.on_loss == "open";
        for policy in 0..POLICIES {
            let (allowed, by_key) = (&self.allowed[policy], &self.seen[policy]);
            let all = sum(by_key);
            let keys = by_key.len() as f64;
            if all.calls == 0 {
                continue;
            }
            if !self.shape.budget_pool {
                let bound = allowed.attempts(all.calls, seconds, keys + more);
                is(format!("attempts of {} calls of p{policy}", all.calls), all.attempts, bound);
            }
            if allowed.tokens > 0.0 && !self.shape.rate_pool && !unlimited {
                let buckets = keys + if self.shape.store { more } else { 0.0 };
                is(format!("tokens of p{policy}"), all.tokens, allowed.tokens(seconds, buckets));
            }
            for (key, seen) in by_key {
                if !self.shape.budget_pool && more == 0.0 {
                    let bound = allowed.attempts(seen.calls, seconds, 1.0);
                    is(format!("attempts of {} calls of p{policy}/k{key}", seen.calls), seen.attempts, bound);
                }
                if allowed.tokens > 0.0 && !self.shape.rate_pool && !unlimited {
                    let buckets = if self.shape.store { 1.0 + more } else { 1.0 };
                    let bound = allowed.tokens(seconds, buckets);
                    is(format!("tokens of p{policy}/k{key}"), seen.tokens, bound);
                }
            }
        }
        let all: Vec<Seen> = self.seen.iter().map(sum).collect();
        if self.shape.budget_pool {
            // One budget for all; hedges with a budget of their own have one by key.
            let own = self.pairs.iter().any(|it| word(it, "hedge.budget.kind").is_some());
            let keys = if own || self.retuned { self.named.len() as f64 + 1.0 } else { 1.0 };
            let most = |of: fn(&Allowed) -> f64| self.allowed.iter().map(of).fold(0.0, f64::max);
            // Calls of a policy that makes one attempt earn for the others.
            let calls = most(|it| it.per_call) * all.iter().map(|it| it.calls).sum::<u64>() as f64;
            // Hedges with a budget of their own, or with none, come on top.
            let apart = |policy: usize| word(&self.pairs[policy], "hedge.budget.kind").is_some();
            let hedges = (0..POLICIES).filter(|policy| apart(*policy) || self.retuned);
            let hedges: f64 = hedges.map(|it| self.allowed[it].per_call * all[it].calls as f64).sum();
            let calls = calls + hedges;
            let once = most(|it| it.burst + it.fresh) + most(|it| it.per_second) * seconds;
            let attempts = all.iter().map(|it| it.attempts).sum();
            is("attempts on one budget".into(), attempts, calls + keys * once);
        }
        if self.shape.rate_pool {
            let tokens = all.iter().map(|it| it.tokens).sum();
            is("tokens of one bucket".into(), tokens, self.rate_pool.tokens(seconds, 1.0));
        }
        worst
    }

    /// What happened, roughly: the kind and size of budget, and which of the rarer things.
    pub(super) fn sort(&self) -> u64 {
        let burst = self.allowed.iter().map(|it| it.burst).fold(0.0, f64::max) as u64;
        let size = u64::BITS - burst.leading_zeros();
        let kind = u64::from(self.genome[HEAD] % 7);
        let shape = u64::from(self.shape.budget_pool) | u64::from(self.shape.rate_pool) << 1;
        let full = u64::from(self.named.len() > self.max_routes);
        let [retunes, restarts, forces, hedges, refused, nested] =
            self.events.map(|count| u64::from(u32::BITS - count.leading_zeros()).min(2));
        let rare = retunes | restarts << 2 | forces << 4 | hedges << 6 | refused << 8 | nested << 10;
        rare << 16 | u64::from(size) << 8 | kind << 4 | shape << 2 | full
    }

    /// I2, from outside: no fixed bulkhead has more permits out than it has.
    pub(super) fn permits_are_kept(&self) {
        if self.retuned || self.shape.store {
            return; // a fleet's slot ends with its lease while its call may still run
        }
        for route in self.engine.snapshot(self.now()).routes {
            if let Some(pool) = route.pool {
                assert!(pool.in_flight <= pool.limit, "permits: {pool:?}");
            }
        }
    }
}
