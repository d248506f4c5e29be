//! Changes while calls are in flight: of settings, of policies, of the process.

use std::collections::BTreeMap;

use tidegate::{CallId, Duration, Engine, Request, RouteId, Step, WallTime};

use super::clock::Clock;
use super::host::{Bound, Host};
use super::{call, settings, wide};
use crate::input::Input;

/// Carries out one change; false if it is something that the target `engine` does as well.
pub fn act(host: &mut Host, input: &mut Input<'_>) -> bool {
    match input.below(36) {
        0 | 1 => host.retune(input.below(8), input),
        2 => host.retune_pool(input),
        3 => host.flap(input.below(8), input),
        4 if input.chance(90) => host.restart(input),
        4 => host.replace(input.below(8), input.chance(128), input),
        5 => {
            let target = input.of(&["a", "b", "c", "d"]);
            let _ = host.engine.force_target("targets", target, input.chance(100), host.now());
        }
        6 => host.weight = input.of(&[3, 1, 0, 10, 40, 1_000]),
        7 => {
            if let Some(n) = call(host, input) {
                let (id, attempt) = (host.calls[n].id, host.calls[n].attempts);
                let weight = input.of(&["tokens", "usd"]);
                let total = input.of(&[1, 0, 5, 20, 200, u64::MAX]);
                let _ = host.engine.settle_weight(id, attempt, weight, total, host.now());
            }
        }
        8 => {
            if let Some(n) = call(host, input) {
                let left = [Some(input.of(&[1, 0, 3])), Some(input.of(&[1, 0, 30])), None, None];
                host.engine.note_quotas(host.calls[n].id, left, host.now());
            }
        }
        9 => {
            host.wall = input.of(&[0, 1_000_000, 500_000, 1 << 50]);
            host.note_wall();
        }
        _ => return false,
    }
    true
}

impl Host {
    /// Begins a call, with its weights where its route has some.
    pub(super) fn begun(&mut self, route: RouteId, request: &Request) -> (CallId, Step) {
        let now = self.now();
        if self.engine.needs_wall() {
            self.note_wall();
        }
        if !self.wide {
            return self.engine.begin(route, request, now);
        }
        for named in [&["tokens", "usd"][..], &["tokens"], &["usd"]] {
            let named = named.iter().map(|name| (*name, self.weight));
            if let Ok(weights) = self.engine.weights(route, named) {
                return self.engine.begin_weighted(route, request, weights, now);
            }
        }
        self.engine.begin(route, request, now)
    }

    fn note_wall(&mut self) {
        let wall = WallTime::from_unix_micros(self.time.saturating_add(self.wall));
        self.engine.note_wall(wall, self.now());
    }

    /// Other settings, and the old ones again at once.
    fn flap(&mut self, policy: usize, input: &mut Input<'_>) {
        let n = policy % self.policies.len();
        let before = self.engine.policy_of(self.policies[n]).expect("it was taken in").clone();
        self.retune(n, input);
        let back = self.engine.retune(self.policies[n], before, self.now());
        assert!(back.is_ok(), "its pools are the same");
    }

    /// The only owner of a policy leaves, and another one comes with other settings.
    fn replace(&mut self, policy: usize, keep: bool, input: &mut Input<'_>) {
        let n = policy % self.policies.len();
        self.engine.release_policy(self.policies[n], keep, self.now());
        let to = settings::policy(input, &format!("p{n}"), &self.named[n], true);
        let before = keep.then(|| self.engine.policy_of(self.policies[n]).expect("it is kept").clone());
        let taken = self.engine.policy(to).or_else(|clash| match before {
            Some(before) => self.engine.policy(before), // it names other pools
            None => Err(clash),
        });
        self.policies[n] = taken.expect("its name is free");
        self.bounds[n] = Bound::default();
        self.replaced = true;
    }

    /// The process ends, and another one goes on from what this one saved, under these settings or others.
    fn restart(&mut self, input: &mut Input<'_>) {
        if self.edge {
            return;
        }
        if self.engine.needs_wall() {
            self.note_wall();
        }
        let saved = self.engine.save(self.now());
        let elapsed = input.of(&[0, 0, 100_000, 1_000_000, 61_000_000]);
        let other = input.chance(80);
        let options = wide::options(true).max_routes(if self.few_routes { 1 } else { 10_000 });
        let mut engine = Engine::new(input.word(), options);
        self.reading = input.of(&[1 << 40, 5, 1 << 50]);
        let now = self.now();
        for kind in self.pools.clone() {
            let pool = self.engine.pool_of(kind.name()).expect("it was taken in").clone();
            engine
                .pool(if other { settings::pool(input, kind, true) } else { pool }, now)
                .expect("the first");
        }
        for (n, id) in self.policies.iter_mut().enumerate() {
            let same = self.engine.policy_of(*id).expect("it was taken in").clone();
            let policy = match other {
                true => settings::policy(input, &format!("p{n}"), &self.named[n], true),
                false => same.clone(),
            };
            *id = engine.policy(policy).expect("the first of its name");
        }
        let wall = self.time + self.wall + elapsed;
        if engine.needs_wall() {
            engine.note_wall(WallTime::from_unix_micros(wall), now);
        }
        if let Err(why) = engine.restore(&saved, Duration::from_micros(elapsed), now) {
            panic!("{why}: {saved}");
        }
        if elapsed == 0 && !other && !self.replaced && !engine.needs_wall() {
            same(&saved, &engine.save(now));
        }
        self.engine = engine;
        self.calls.clear();
        self.by_id.clear();
        self.seen = (0, 0, 0);
        self.taken = BTreeMap::new();
        self.bounds.iter_mut().for_each(|bound| *bound = Bound::default());
        self.forked = false;
        self.replaced = false;
        self.clock = Clock::new(self.reading);
        self.time = self.clock.now();
        self.born = self.time;
        self.wall = wall.saturating_sub(self.time);
        self.look();
    }
}

/// What was restored is what was saved, but for the order of routes.
fn same(saved: &str, again: &str) {
    let mut texts = [saved, again].map(|text| text.bytes().collect::<Vec<_>>());
    texts.iter_mut().for_each(|text| text.sort_unstable());
    assert!(texts[0] == texts[1], "saved {saved}\nagain {again}");
}
