//! What operators, and the machine beneath, do to a process: other settings, a restart, a clock that is set.

use tidegate::fleet::StoreKind;
use tidegate::{Action, CallId, Duration, Engine, Event, Options, Pool, PoolKind, Time, Verdict};

use super::bound::identity;
use super::events::Clock;
use super::host::{Host, owned};
use super::settings::{self, Pairs, number};

impl Host {
    pub(super) fn set_clock(&mut self, clock: Clock) {
        let see = |host: &mut Self| {
            let step = host.engine.on(CallId::from_word(0), Event::Poll, host.now());
            assert!(matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. }), "{step:?}");
        };
        let (Clock::Back(span) | Clock::Swing(span)) = clock;
        let before = self.reading;
        self.reading = self.reading.saturating_sub(span);
        // More than 30 s below the highest reading the clock has been set, and may gain what it was set back by (R10).
        let back = self.highest.saturating_sub(self.reading);
        if back > 30_000_000 {
            self.passed += back;
            self.highest = self.reading;
        }
        see(self);
        // Threads that read one clock: it never was behind. And a clock that swings comes back.
        if span <= 10_000 || matches!(clock, Clock::Swing(_)) && !self.spared.clocks {
            self.reading = before;
            self.highest = self.highest.max(before);
            see(self);
        }
    }

    pub(super) fn retune(&mut self, policy: usize, to: usize) {
        if to == self.variants[policy] {
            return;
        }
        let pairs = self.settings(policy, to);
        let settings = Self::built(policy, &pairs);
        let Ok(_) = self.engine.retune(self.policies[policy], settings, self.now()) else { return };
        (self.retuned, self.variants[policy]) = (true, to);
        self.events[0] += 1;
        let before = std::mem::replace(&mut self.pairs[policy], pairs);
        let load = self.load(policy);
        let pairs = &self.pairs[policy];
        let retries = |pairs: &Pairs| number(pairs, "retry.max_attempts").is_some_and(|n| n > 1.0);
        let hedges = |pairs: &Pairs| number(pairs, "hedge.delay").is_some();
        let budgets = |pairs: &Pairs| {
            let hedge = identity(pairs, "hedge.budget.");
            (identity(pairs, "retry.budget."), retries(pairs) || hedges(pairs), hedge, hedges(pairs))
        };
        let allowed = &mut self.allowed[policy];
        if budgets(&before) != budgets(pairs) {
            allowed.fresh += load.burst;
        }
        let paced = |pairs: &Pairs| number(pairs, "rate_limit.permits").is_some();
        if paced(pairs) && !paced(&before) {
            let permits = number(pairs, "rate_limit.permits").unwrap_or(0.0);
            allowed.fresh_tokens += number(pairs, "rate_limit.burst").unwrap_or(permits);
        }
        self.learn_bounds();
        self.wake();
    }

    /// Other settings, and back again at once.
    pub(super) fn flap(&mut self, policy: usize, to: usize) {
        let before = self.variants[policy];
        self.retune(policy, to);
        self.retune(policy, before);
    }

    pub(super) fn retune_pool(&mut self, rate: bool, to: usize) {
        let (n, kind) = if rate { (1, PoolKind::RateLimit) } else { (0, PoolKind::Budget) };
        if !(if rate { self.shape.rate_pool } else { self.shape.budget_pool }) {
            return self.flap(usize::from(rate), to); // there is no such pool
        }
        let pool = settings::pool(&self.genome, kind, to);
        let text = |pool: &Pool| {
            let pairs: Pairs = pool.to_pairs().iter().map(|it| (it.0.to_owned(), owned(it.1))).collect();
            identity(&pairs, "")
        };
        let same = text(&self.pools[n]) == text(&pool);
        let _ = self.engine.retune_pool(pool.clone(), self.now()).expect("a pool of this kind is there");
        self.pools[n] = pool;
        self.events[0] += 1;
        self.retuned |= self.shape.rate_pool || self.shape.budget_pool;
        if !same && !rate {
            for policy in 0..super::genome::POLICIES {
                let load = self.load(policy);
                self.allowed[policy].fresh += load.burst;
            }
        }
        self.learn_bounds();
        self.wake();
    }

    /// A process ends; the next goes on from what this one saved, with the same settings.
    pub(super) fn restart(&mut self, elapsed: u64) {
        self.events[1] += 1;
        let saved = self.engine.save(self.now());
        self.serial += 1;
        let mut engine = Engine::new(self.serial, Options::default().max_routes(self.max_routes as u32));
        self.reading += elapsed;
        self.passed += elapsed;
        self.highest = self.reading;
        if let Some(store) = &mut self.store {
            store.hang_up();
            // A saved state has no rates of the fleet's. So while the store is gone, the new process has a full share.
            for allowed in self.allowed.iter_mut().chain([&mut self.rate_pool]) {
                allowed.fresh_tokens += allowed.tokens;
            }
            let _ = engine.attach_store(StoreKind::Lua, "", self.serial, Time::from_micros(self.reading));
        }
        for pool in self.pools.clone() {
            engine.pool(pool, self.now()).expect("the first of its name");
        }
        for (policy, pairs) in self.pairs.iter().enumerate() {
            let id = engine.policy(Self::built(policy, pairs)).expect("its pools are there");
            assert_eq!(id, self.policies[policy]);
        }
        let restored = engine.restore(&saved, Duration::from_micros(elapsed), self.now());
        restored.unwrap_or_else(|why| panic!("{why}: {saved}"));
        self.engine = engine;
        self.live.clear();
    }
}
