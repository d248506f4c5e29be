//! Pools: one queue, one bucket or one budget for several policies and all their routes (semantics 0.4).

use super::chores::{Chore, Chores, LOOKED_AT};
use super::fleet::rule_against;
use super::place::{PoolAt, RouteAt};
use super::policies::Policies;
use super::record::RecordType;
use super::route::{Routes, SharedPools};
use super::{Clash, Engine, Input};
use crate::action::{Flags, PolicyId};
use crate::full::{Full, Part, Rare};
use crate::policy::{POOLS, Policy, Pool, PoolKind, Value};
use crate::time::Time;
use std::collections::BTreeMap as Map;

/// The most pools that are kept after the last policy that named them was removed.
const MOST_KEPT: usize = 1_024;

/// A pool added to the engine.
#[derive(Debug)]
pub(super) struct Shared {
    pub pool: Pool,
    /// Route in which it is stored.
    pub at: PoolAt,
    /// Number of pools that were added before it.
    order: u64,
    /// Number of policies that name it, removed ones included that are still in [`Policies::left`].
    users: u32,
    #[allow(dead_code)] // its presence proves that the engine is a full one
    full: Full,
}

/// The pools added to the engine, by name.
#[derive(Debug, Default)]
pub(super) struct Pools {
    by_name: Map<String, Shared>,
    /// The names, by the number of the slot.
    names: Map<u32, String>,
    /// The names of pools whose last user was removed, first ones added first.
    unused: Map<u64, String>,
    /// Number of pools ever added.
    added: u64,
}

impl core::ops::Deref for Pools {
    type Target = Map<String, Shared>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

impl core::ops::DerefMut for Pools {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.by_name
    }
}

impl Routes {
    /// Notes on the users of a pool, from slot `from` on, whether its permits are leases; later steps handle the
    /// rest.
    pub(super) fn mark_users_leased(&mut self, home: PoolAt, from: u32, chores: &mut Chores) {
        let end = from.saturating_add(LOOKED_AT).min(self.slots());
        for slot in (from..end).map(RouteAt::new) {
            let route = &self[slot];
            if route.pool_at == home && !route.is_pool() && !route.is_free() {
                self.set_leased(slot);
            }
        }
        if end < self.slots() {
            chores.leave(Chore::Leased { home, from: end });
        }
    }
}

impl Engine {
    /// Adds a pool; policies that name it may follow. The same name with the same settings is the same pool.
    ///
    /// # Errors
    /// The same name with other settings, or of another kind; a pool of the fleet while no store is attached; more
    /// than 262,144 pools and targets.
    pub fn pool(&mut self, pool: Pool, now: Time) -> Result<(), Clash> {
        self.journal.write(|| Input::Pool { pool: Box::new(pool.clone()), now });
        let now = self.clock.observe(now);
        if let Some(known) = self.pools.get(pool.name()) {
            let rule = "there is a pool of this name with other settings";
            let name = pool.name().to_owned();
            return if known.pool == pool { Ok(()) } else { Err(Clash { name, rule }) };
        }
        if let Some(rule) = rule_against(self.store.fleet.as_deref(), pool.policy()) {
            return Err(Clash { name: pool.name().to_owned(), rule });
        }
        if let Some(rule) = self.journal.options.rule_against_limits(None, pool.policy()) {
            return Err(Clash { name: pool.name().to_owned(), rule });
        }
        self.desk.look_for_windows(pool.policy());
        let name = pool.name().to_owned();
        let Some(full) = Full::here() else {
            return Err(Clash { name, rule: "a small engine has no pools" });
        };
        // A step that has left work may have left work for a pool.
        if self.desk.chores.is_empty() {
            self.pools.note_left(&mut self.desk.policies);
            self.pools.remove_unused(&mut self.desk.routes);
        }
        if let Some(rule) =
            self.desk.routes.rule_against_pools(1 + pool.group().map_or(0, |it| it.members.len()))
        {
            return Err(Clash { name, rule });
        }
        let at = self.desk.routes.pool(pool.policy(), now);
        if let Some(group) = pool.group() {
            let group = self.desk.routes.group(group, now);
            self.desk.routes[at].group = Some(Part::new(group, full));
        }
        let order = self.pools.added;
        self.pools.added += 1;
        self.pools.names.insert(at.route().number(), name.clone());
        self.pools.insert(name, Shared { pool, at, order, users: 0, full });
        Ok(())
    }

    /// The value in force of a policy's key, as [`Policy::value`]; from the pool, if the key belongs to the pool. With
    /// `own ` before the key (`own idle_timeout`) only what the policy itself gives counts, not its preset or the
    /// default ([`Policy::is_own`]).
    pub fn setting(&self, policy: PolicyId, path: &str) -> Option<Value<'_>> {
        let policy = self.desk.policies.find(policy)?;
        if Full::here().is_some()
            && let Some(own) = path.strip_prefix("own ")
        {
            return policy.value(own).filter(|_| policy.is_own(own));
        }
        let shared = POOLS.iter().copied().filter(|kind| kind.holds(path)).find_map(|kind| {
            match policy.value(kind.pool_key()) {
                Some(Value::Text(name)) => Some((kind, name)),
                _ => None,
            }
        });
        match shared {
            Some((kind, name)) => self.pool_of(name)?.value(kind.own(path)),
            None => policy.value(path),
        }
    }

    /// A pool with its present settings.
    pub fn pool_of(&self, name: &str) -> Option<&Pool> {
        self.pools.get(name).map(|shared| &shared.pool)
    }

    /// Gives a pool new settings. Counts are kept, running calls are not interrupted, and a limit that grows admits
    /// waiters in this step: drain the wakes.
    ///
    /// # Errors
    /// The pool does not exist, or is of another kind; more than 262,144 pools and targets.
    pub fn retune_pool(&mut self, to: Pool, now: Time) -> Result<Flags, Clash> {
        self.journal.write(|| Input::RetunePool { to: Box::new(to.clone()), now });
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        let name = to.name().to_owned();
        let unfit = rule_against(self.store.fleet.as_deref(), to.policy());
        let Some(known) = self.pools.get_mut(&name) else {
            return Err(Clash { name, rule: "there is no such pool in this engine" });
        };
        if known.pool.kind() != to.kind() {
            return Err(Clash { name, rule: "retune changes a pool's settings, not its kind" });
        }
        if let Some(rule) = unfit {
            return Err(Clash { name, rule });
        }
        if let Some(rule) = self.journal.options.rule_against_limits(Some(known.pool.policy()), to.policy()) {
            return Err(Clash { name, rule });
        }
        let at = known.at;
        let policy = to.policy().clone();
        if let Some(rule) = self.desk.routes.rule_against_group(at, to.group()) {
            return Err(Clash { name, rule });
        }
        if let Some(group) = to.group() {
            self.desk.routes.forget_guards_of(&mut self.desk.calls, at, group);
            self.desk.routes.retune_group(at, group, now);
        }
        known.pool = to;
        self.desk.look_for_windows(&policy);
        let before = self.desk.routes.levels(at.route());
        let wall = self.desk.routes.wall;
        let route = &mut self.desk.routes[at];
        if let (Some(pool), Some(bulkhead)) = (&mut route.pool, &policy.bulkhead) {
            pool.retune(bulkhead, now);
            pool.order_by(bulkhead.prioritized, &mut self.desk.calls);
        }
        if let (Some(queue), Some(limit)) = (&mut route.rate, &policy.rate_limit) {
            let moved = queue.bucket.retune(limit, wall, now);
            self.desk.routes.recount_rate(&self.store, at);
            self.desk.rate_retuned(at, moved, now);
        }
        self.fleet_desk().retune_slots(at, policy.bulkhead.as_ref(), now);
        self.desk.routes.retune_digest(at, policy.bulkhead.as_ref());
        self.desk.routes.mark_users_leased(at, 0, &mut self.desk.chores);
        if !self.desk.routes.retune_budget_of(at.route(), policy.retry.budget, now) {
            self.desk.forget_charges_of(|_, home| home == at);
        }
        self.desk.note(move |it| it.policy_changed(RecordType::PolicyRetuned, None, Some(at.route()), now));
        self.desk.note(move |it| it.levels_changed(at.route(), before, now));
        self.desk.hand_out(at, now);
        self.desk.hand_out_targets(at, now);
        Ok(self.flags())
    }
}

/// Numbers of the slots of pools.
fn places(shared_pools: SharedPools) -> impl Iterator<Item = u32> + use<> {
    let SharedPools { pool, rate, budget, targets } = shared_pools;
    let targets = targets.map_or(PoolAt::NONE, |at| *at);
    [pool, rate, budget, targets].into_iter().filter(|at| *at != PoolAt::NONE).map(|at| at.route().number())
}

/// What a policy's key breaks that names a pool which the engine does not have.
fn unknown(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Bulkhead => {
            "bulkhead.pool names a pool that this engine does not have; make the pool first, then the policy"
        }
        PoolKind::RateLimit => {
            "rate_limit.pool names a pool that this engine does not have; make the pool first, then the policy"
        }
        PoolKind::Budget => {
            "retry.budget.pool names a pool that this engine does not have; make the pool first, then the policy"
        }
        PoolKind::Targets => {
            "targets names a group that this engine does not have; load a document that has both the group and the policy"
        }
    }
}

/// What a policy's key breaks that names a pool of another component.
fn of_another_kind(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Bulkhead => {
            "bulkhead.pool names a pool that is of another kind; name one that is a bulkhead"
        }
        PoolKind::RateLimit => {
            "rate_limit.pool names a pool that is of another kind; name one that is a rate limit"
        }
        PoolKind::Budget => {
            "retry.budget.pool names a pool that is of another kind; name one that is a budget"
        }
        PoolKind::Targets => "targets names a pool; name a group of targets",
    }
}

impl Pools {
    /// Removes pools that no policy names any more, the first ones added first, until [`MOST_KEPT`] of them are left.
    fn remove_unused(&mut self, routes: &mut Routes) {
        while self.unused.len() > MOST_KEPT
            && let Some((_, name)) = self.unused.pop_first()
        {
            if let Some(shared) = self.remove(&name) {
                self.names.remove(&shared.at.route().number());
                routes.remove_group(shared.at);
                routes.remove_pool(shared.at);
            }
        }
    }

    /// Notes that a new policy names the pools at these places.
    pub(super) fn note_user(&mut self, shared_pools: SharedPools, policies: &mut Policies) {
        if shared_pools == SharedPools::OWN {
            return;
        }
        self.note_left(policies);
        for place in places(shared_pools) {
            if let Some(shared) = self.names.get(&place).and_then(|name| self.by_name.get_mut(name)) {
                shared.users += 1;
                self.unused.remove(&shared.order);
            }
        }
    }

    /// Notes that policies have been removed.
    fn note_left(&mut self, policies: &mut Policies) {
        for place in policies.take_left().into_iter().flat_map(places) {
            let Some(name) = self.names.get(&place) else { continue };
            if let Some(shared) = self.by_name.get_mut(name) {
                shared.users = shared.users.saturating_sub(1);
                if shared.users == 0 {
                    self.unused.insert(shared.order, name.clone());
                }
            }
        }
    }

    /// Checks that each pool's users are the policies that name it, and that those without are known as unused.
    pub(super) fn check(&self, policies: &Policies) -> Result<(), String> {
        let there =
            policies.iter().enumerate().filter(|(at, entry)| usize::from(entry.of) == *at && !entry.vacant);
        let there = there.map(|(_, entry)| entry.shared_pools);
        let mut users: Map<u32, u32> = Map::new();
        for place in there.chain(policies.left().iter().copied()).flat_map(places) {
            *users.entry(place).or_default() += 1;
        }
        for (name, shared) in &self.by_name {
            let place = shared.at.route().number();
            let counted = users.get(&place).copied().unwrap_or(0);
            if shared.users != counted || self.names.get(&place) != Some(name) {
                return Err(format!("pool {name}: {} users noted, {counted} policies name it", shared.users));
            }
            if shared.users > 0 && self.unused.contains_key(&shared.order) {
                return Err(format!("pool {name}: unused, and named by {counted} policies"));
            }
        }
        if self.names.len() != self.by_name.len() || self.unused.values().any(|name| !self.contains_key(name))
        {
            return Err(String::from("a pool is known that was removed"));
        }
        Ok(())
    }

    /// Places of the pools that a policy names.
    pub(super) fn shared_pools_of(&self, policy: &Policy) -> Result<SharedPools, &'static str> {
        let find = |name: Option<&crate::full::Name>, kind| match name {
            None => Ok(PoolAt::NONE),
            Some(name) => match self.get(&**name) {
                Some(shared) if shared.pool.kind() == kind => Ok(shared.at),
                Some(_) => Err(of_another_kind(kind)),
                None => Err(unknown(kind)),
            },
        };
        Ok(SharedPools {
            pool: find(policy.bulkhead.as_ref().and_then(|it| it.pool.as_ref()), PoolKind::Bulkhead)?,
            rate: find(policy.rate_limit.as_ref().and_then(|it| it.pool.as_ref()), PoolKind::RateLimit)?,
            budget: find(policy.retry.budget_pool.as_ref(), PoolKind::Budget)?,
            targets: match policy.targets.as_ref().zip(Full::here()) {
                Some((name, full)) => Some(Rare::new(find(Some(name), PoolKind::Targets)?, full)),
                None => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Options;
    use Value::{Number, Text};

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn group(name: &str, members: &[&str]) -> Pool {
        let members = members.iter().map(|name| ("member", Text(name)));
        let pairs: Vec<_> = [("pick", Text("ladder"))].into_iter().chain(members).collect();
        Pool::from_pairs(name, PoolKind::Targets, &pairs).unwrap()
    }

    #[test]
    fn pools_and_targets_beyond_what_an_id_can_name_are_refused_0_4_11() {
        let mut engine = Engine::new(7, Options::default());
        engine.pool(group("first", &["a", "b"]), at(0)).unwrap();
        let full = engine.desk.routes.fill_up(2);
        let clash = engine.pool(group("second", &["a", "b"]), at(0)).unwrap_err();
        assert!(clash.rule.contains("262,144"), "{}", clash.rule);
        engine.pool(group("second", &["a"]), at(0)).expect("a group and its target fit");
        let bulkhead =
            Pool::from_pairs("slots", PoolKind::Bulkhead, &[("max_concurrency", Number(1.0))]).unwrap();
        assert!(engine.pool(bulkhead, at(0)).is_err(), "one more");
        assert!(engine.retune_pool(group("first", &["a", "b", "c"]), at(0)).is_err(), "a third target");
        engine.retune_pool(group("first", &["a"]), at(0)).expect("fewer");
        engine.retune_pool(group("first", &["a", "c"]), at(0)).expect("the room of the one that went");
        engine.desk.routes.empty(full);
        engine.check().unwrap();
    }
}
