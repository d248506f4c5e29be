//! A saved state that has been read and checked, before it is applied to the engine.

use super::Restored;
use super::parts::Parts;
use crate::engine::desk::Desk;
use crate::engine::place::PoolAt;
use crate::engine::policies::Policies;
use crate::engine::pools::Pools;
use crate::engine::route::{Operated, Routes, SharedPools};
use crate::state::{Damage, Loader, Moments, Value};
use crate::text::quoted;
use crate::time::Time;
use std::collections::BTreeMap as Map;

/// Damaged place in a saved state, and the rule that it breaks.
type Damaged = (String, &'static str);

/// A policy that the saved state names.
pub(super) struct Named<'a> {
    /// Its number in the saved state.
    pub saved: u32,
    name: &'a str,
    forced: bool,
    /// Its number in this engine, if the engine has it.
    pub number: Option<u16>,
}

/// A saved route of a policy that this engine has. Without a key it is the policy's `overflow` route.
pub(super) struct Staged<'a> {
    pub number: u16,
    pub key: Option<&'a str>,
    pub parts: Parts,
}

/// Reads each item of a list; each item is a list itself.
fn each<'a>(
    list: &'a Value,
    of: &'a Moments,
    mut read: impl FnMut(&mut Loader<'a>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let mut from = Loader::new(list, of)?;
    while from.has_more() {
        from.list(&mut read)?;
    }
    Ok(())
}

impl Policies {
    /// Forces open the policies that were forced open as a whole.
    pub(super) fn force_again(&mut self, named: &[Named<'_>], routes: &mut Routes) {
        let forced = named.iter().filter(|policy| policy.forced);
        for number in forced.filter_map(|policy| policy.number) {
            let entry = &mut self[usize::from(number)];
            entry.forced = true;
            let here = routes.iter().filter(|(_, route)| route.policy == number && !route.is_pool());
            for slot in here.map(|(slot, _)| slot).collect::<Vec<_>>() {
                routes[slot].set_stages(&entry.policy, true);
            }
        }
    }
}

impl Desk {
    /// Adds saved routes, the least recently used ones first, as far as there is room. Routes that an eviction would
    /// spare have priority. The debts of routes without room are remembered, as for evicted ones.
    pub(super) fn place(&mut self, routes: Vec<Staged<'_>>, restored: &mut Restored, now: Time) {
        let is_new = |staged: &Staged<'_>| {
            staged.key.is_some() && self.routes.of_key(staged.number, staged.key).is_none()
        };
        let new = |pinned: bool| {
            routes.iter().filter(|staged| is_new(staged) && staged.parts.is_pinned(now) == pinned).count()
        };
        let (pinned, others) = (new(true), new(false));
        let room = self.routes.room();
        let mut too_many = [others.saturating_sub(room.saturating_sub(pinned)), pinned.saturating_sub(room)];
        for Staged { number, key, mut parts } in routes {
            let too_many = &mut too_many[usize::from(parts.is_pinned(now))];
            let is_new = self.routes.of_key(number, key).is_none();
            if let (true, Some(key)) = (*too_many > 0 && is_new, key) {
                *too_many -= 1;
                restored.left_out += 1;
                self.routes.remember(number, key, &parts.owed(self.routes.wall, now), now);
                continue;
            }
            let entry = &self.policies[usize::from(number)];
            let operated = Operated { forced: entry.forced, changes: entry.changes.last };
            let slot = self.routes.place(number, (&entry.policy, entry.shared_pools, operated), key, now);
            let wall = self.routes.wall;
            let route = &mut self.routes[slot];
            // A new route copies this from its policy; the saved state says whether it was forced by itself.
            route.forced &= !is_new;
            route.go_on_from(parts, wall);
            route.without_guards();
            route.set_stages(&entry.policy, entry.forced);
            restored.routes += 1;
        }
    }
}

impl Policies {
    pub(super) fn staged_routes<'a>(
        &self,
        saved: &'a Value,
        policies: &[Named<'_>],
        of: &'a Moments,
        restored: &mut Restored,
    ) -> Result<Vec<Staged<'a>>, Damaged> {
        let mut routes = Vec::new();
        let mut place = "routes".to_owned();
        let read = each(saved, of, |from| {
            let (saved, key, parts) = (from.count()?, from.any()?, from.any()?);
            let key = match key {
                Value::Text(key) => Some(key.as_str()),
                Value::Null => None,
                _ => return Err(Damage("must have a key")),
            };
            let known = policies.iter().find(|policy| policy.saved == saved);
            let policy = known.ok_or(Damage("must be of a policy that is named"))?;
            let Some(number) = policy.number else { return Ok(()) };
            let entry = &self[usize::from(number)];
            let loaded = Parts::load(parts, (&entry.policy, entry.shared_pools), of);
            let parts = loaded.map_err(|(part, damage)| {
                place = format!(
                    "policy {}, route {}, {part}",
                    quoted(policy.name),
                    quoted(key.unwrap_or("overflow"))
                );
                damage
            })?;
            restored.note_dropped("policy", policy.name, &parts);
            routes.push(Staged { number, key, parts });
            Ok(())
        });
        read.map_err(|damage| (place, damage.0))?;
        Ok(routes)
    }
}

impl Pools {
    pub(super) fn staged_pools(
        &self,
        saved: &Value,
        of: &Moments,
        restored: &mut Restored,
    ) -> Result<Vec<(PoolAt, Parts)>, Damaged> {
        let mut pools = Vec::new();
        let mut place = "pools".to_owned();
        let read = each(saved, of, |from| {
            let (name, parts) = (from.text()?, from.any()?);
            let Some(shared) = self.get(name) else {
                restored.unknown.push(("pool", name.to_owned()));
                return Ok(());
            };
            let loaded = Parts::load(parts, (shared.pool.policy(), SharedPools::OWN), of);
            let parts = loaded.map_err(|(part, damage)| {
                place = format!("pool {}, {part}", quoted(name));
                damage
            })?;
            restored.note_dropped("pool", name, &parts);
            pools.push((shared.at, parts));
            Ok(())
        });
        read.map_err(|damage| (place, damage.0))?;
        Ok(pools)
    }

    /// Reads the targets of groups, which are saved by the names of group and target.
    pub(super) fn staged_targets(
        &self,
        routes: &Routes,
        saved: &Value,
        of: &Moments,
        restored: &mut Restored,
    ) -> Result<Vec<(PoolAt, Parts)>, Damaged> {
        let mut targets = Vec::new();
        let mut place = "targets".to_owned();
        let read = each(saved, of, |from| {
            let (group, name, parts) = (from.text()?, from.text()?, from.any()?);
            let full = || format!("{group}/{name}");
            let known = self.targets(routes).find(|(known, member)| *known == group && *member.name == *name);
            let Some((_, member)) = known else {
                restored.unknown.push(("target", full()));
                return Ok(());
            };
            let loaded = Parts::load(parts, (member.policy(), SharedPools::OWN), of);
            let parts = loaded.map_err(|(part, damage)| {
                place = format!("target {}, {part}", quoted(&full()));
                damage
            })?;
            restored.note_dropped("target", &full(), &parts);
            targets.push((member.at.own(), parts));
            Ok(())
        });
        read.map_err(|damage| (place, damage.0))?;
        Ok(targets)
    }
}

impl Restored {
    fn note_dropped(&mut self, what: &'static str, name: &str, parts: &Parts) {
        for part in &parts.dropped {
            let entry = (what, name.to_owned(), *part);
            if !self.dropped.contains(&entry) {
                self.dropped.push(entry);
            }
        }
    }
}

pub(super) fn saved_policies<'a>(
    by_name: &Map<String, u16>,
    saved: &'a Value,
    of: &'a Moments,
    restored: &mut Restored,
) -> Result<Vec<Named<'a>>, Damaged> {
    let mut policies = Vec::new();
    let read = each(saved, of, |from| {
        let (saved, name, forced) = (from.count()?, from.any()?, from.flag()?);
        let name = match name {
            Value::Text(name) => name.as_str(),
            Value::Null => {
                // It had left when the state was saved, and what it knew goes with it.
                policies.push(Named { saved, name: "", forced: false, number: None });
                return Ok(());
            }
            _ => return Err(Damage("must have a name")),
        };
        let number = by_name.get(name).copied();
        if number.is_none() {
            restored.unknown.push(("policy", name.to_owned()));
        }
        policies.push(Named { saved, name, forced, number });
        Ok(())
    });
    read.map_err(|damage| ("policies".to_owned(), damage.0))?;
    Ok(policies)
}
