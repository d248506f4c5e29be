//! Groups as they are declared, and new settings for a group in use (semantics 17.1).

use super::{Group, Member, Skip};
use crate::engine::arena::Arena;
use crate::engine::cooldown::Cooling;
use crate::engine::list::List;
use crate::engine::place::{PoolAt, RouteAt, Slot};
use crate::engine::queue::Pool;
use crate::engine::rate_queue::{Bucket, RateQueue};
use crate::engine::route::Routes;
use crate::full::Part;
use crate::policy;
use crate::time::{Time, Wall};

/// Numbers of targets: those that a group has, and those that were removed and still have attempts.
const NUMBERS: u8 = 64;

impl Group {
    /// Whether there are numbers for the targets of these settings, beside those that have attempts.
    fn fits(&self, to: &policy::Group) -> bool {
        let stays =
            |member: &&Member| member.in_flight > 0 || to.members.iter().any(|it| *it.name == *member.name);
        let kept = self.members.iter().filter(stays).count();
        kept + self.fresh(to) <= usize::from(NUMBERS)
    }

    /// How many targets of these settings are new.
    fn fresh(&self, to: &policy::Group) -> usize {
        to.members.iter().filter(|it| self.members.iter().all(|known| *it.name != *known.name)).count()
    }
}

impl Routes {
    /// The rule that other settings of a group break because too many of its removed targets still have attempts, or
    /// because the engine has no room for more.
    pub(in crate::engine) fn rule_against_group(
        &self,
        home: PoolAt,
        to: Option<&policy::Group>,
    ) -> Option<&'static str> {
        let (group, to) = self[home].group.as_ref().zip(to)?;
        if !group.fits(to) {
            return Some(
                "too many targets that were removed still have attempts; try again once they have ended",
            );
        }
        self.rule_against_pools(group.fresh(to))
    }

    /// Creates the targets of a group.
    pub(in crate::engine) fn group(&mut self, settings: &policy::Group, now: Time) -> Group {
        let members = (0..).zip(&settings.members).map(|(number, it)| self.target(number, it, now));
        Group {
            pick: settings.pick,
            max_queue: settings.max_queue,
            max_wait: settings.max_wait,
            waiting: List::default(),
            last_number: (settings.members.len() as u8).saturating_sub(1),
            members: members.collect(),
        }
    }

    fn target(&mut self, number: u8, settings: &policy::Member, now: Time) -> Member {
        Member {
            number,
            name: settings.name.as_str().into(),
            share: settings.share,
            only_after: settings.only_after.clone().into(),
            at: self.pool(&settings.policy, now).route(),
            policy: settings.policy.clone(),
            removed: false,
            in_flight: 0,
            estimate: 0,
            attempts: 0,
            skipped: [0; Skip::ALL.len()],
            failovers: 0,
        }
    }

    /// Gives a group new settings, which fit ([`Routes::rule_against_group`]). Targets of the same name keep their state.
    /// One that is removed goes when its last attempt has ended.
    pub(in crate::engine) fn retune_group(&mut self, home: PoolAt, to: &policy::Group, now: Time) {
        let Some(mut group) = self[home].group.take() else { return };
        (group.pick, group.max_queue, group.max_wait) = (to.pick, to.max_queue, to.max_wait);
        let mut old = core::mem::take(&mut group.members);
        for it in &to.members {
            let known = old.iter().position(|known| *known.name == *it.name);
            let member = if let Some(place) = known {
                let mut member = old.remove(place);
                self.retune_target(&member, it, now);
                (member.share, member.removed) = (it.share, false);
                member.policy = it.policy.clone();
                member.only_after = it.only_after.clone().into();
                member
            } else {
                // Calls name targets by their numbers, so the number of one that is gone is used again as late as
                // possible.
                let free = |number: &u8| group.members.iter().chain(&old).all(|it| it.number != *number);
                let mut next = (1..=NUMBERS).map(|step| (group.last_number + step) % NUMBERS);
                group.last_number = next.find(free).unwrap_or_default();
                self.target(group.last_number, it, now)
            };
            group.members.push(member);
        }
        for mut member in old {
            if member.in_flight > 0 {
                member.removed = true;
                group.members.push(member);
            } else {
                self.remove_pool(member.at.own());
            }
        }
        self[home].group = Some(group);
    }

    fn retune_target(&mut self, member: &Member, to: &policy::Member, now: Time) {
        let target = &mut self[member.at];
        target.retune_stages(&to.policy, now);
        match (&mut target.cooldown, &to.policy.cooldown) {
            (Some(cooling), Some(to)) => cooling.retune(to, now),
            (cooldown, to) => {
                *cooldown = to.as_ref().map(|it| Part::new(Cooling::new(it), it.full()));
            }
        }
        match (&mut target.rate, &to.policy.rate_limit) {
            (Some(queue), Some(limit)) => {
                // A single rate has no windows, and it neither joins nor leaves a fleet.
                let _ = queue.bucket.retune(limit, Wall::default(), now);
            }
            (rate, limit) => {
                *rate = limit.as_ref().map(|limit| Box::new(RateQueue::new(Bucket::of(limit, now))));
            }
        }
        match (&mut target.pool, &to.policy.bulkhead) {
            (Some(pool), Some(bulkhead)) => pool.retune(bulkhead, now),
            (pool, bulkhead) => {
                *pool = bulkhead.as_ref().map(|bulkhead| Pool::new(bulkhead, now));
                if let Some(pool) = pool {
                    pool.in_flight = member.in_flight;
                    pool.set_limit(pool.limit);
                }
            }
        }
    }

    /// Removes the targets of a group that no policy names, if a pool is one.
    pub(in crate::engine) fn remove_group(&mut self, home: PoolAt) {
        let members = self[home].group.take().map(|mut group| core::mem::take(&mut group.members));
        for member in members.into_iter().flatten() {
            self.remove_pool(member.at.own());
        }
    }

    /// Removes a target whose last attempt has ended.
    pub(super) fn remove_target(&mut self, home: PoolAt, number: u8) {
        let Some(group) = &mut self[home].group else { return };
        let Some(place) = group.members.iter().position(|member| member.number == number) else { return };
        let at: RouteAt = group.members.remove(place).at;
        self.remove_pool(at.own());
    }
}

impl Routes {
    /// Forgets the tickets and the places of attempts at targets that lose their breaker, or their cooldown, by other
    /// settings of their group: one that comes back counts from 1 again, and would take these for its own.
    pub(in crate::engine) fn forget_guards_of(&self, calls: &mut Arena, home: PoolAt, to: &policy::Group) {
        let Some(group) = &self[home].group else { return };
        let lost = |member: &Member| {
            let to = &to.members.iter().find(|it| *it.name == *member.name)?.policy;
            let target = &self[member.at];
            let breaker = target.breaker.is_some() && to.breaker.is_none();
            let cooldown = target.cooldown.is_some() && to.cooldown.is_none();
            (breaker || cooldown).then_some((member.number, [breaker, cooldown]))
        };
        let lost: Vec<_> = group.members().filter_map(lost).collect();
        if lost.is_empty() {
            return;
        }
        let there = calls.iter().filter(|(_, call)| self.targets_of(call) == Some(home));
        for slot in there.map(|(slot, _)| slot).collect::<Vec<Slot>>() {
            let Some(block) = calls.targets_mut(slot) else { continue };
            for (target, guards) in &lost {
                block.forget_guards(*target, *guards);
            }
        }
    }
}
