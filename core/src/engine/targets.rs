//! Targets: the models, providers, regions or keys that an attempt can go to (semantics 17).
//!
//! A target is a route without calls of its own, as a pool is, so it has breaker, rate limit and permits like any
//! other route (ADR 0048). A group lists its targets, and is stored in a route too. The choice is the last stage
//! before an attempt. A target never queues.

mod attempts;
mod queue;
mod settings;

use super::Engine;
use super::arena::{Arena, Call};
use super::chores::{Chore, Chores};
use super::desk::Desk;
use super::list::List;
use super::place::{PoolAt, RouteAt, Slot};
use super::pools::Pools;
use super::route::Routes;
use super::stage::Answer;
use crate::action::{AttemptSlot, CallId, Verdict};
use crate::outcome::{Opinion, Outcome};
use crate::policy::{Pick, Policy};
use crate::rng::{self, Purpose};
use crate::time::{Duration, Time};

pub(super) use attempts::AttemptTargets;

/// A set of targets of one group: a bit for each number.
type Set = u64;

/// A group of targets.
#[derive(Debug)]
pub(super) struct Group {
    pick: Pick,
    /// Calls that may wait, and for how long each of them.
    max_queue: u32,
    max_wait: Duration,
    /// The calls that wait until a target admits them.
    pub waiting: List,
    /// Number of the target that was added last.
    last_number: u8,
    /// In the order of the settings; then those that were removed and still have attempts.
    members: Vec<Member>,
}

/// A target of a group.
#[derive(Debug)]
pub(super) struct Member {
    /// Its number in the group, which stays the same while it exists; below 64.
    number: u8,
    pub name: Box<str>,
    share: u32,
    /// Failures after one of which alone a call may go to it.
    only_after: Box<[String]>,
    /// The route that stores its components.
    pub at: RouteAt,
    policy: Policy,
    /// Whether a retune has removed it. It goes when its last attempt has been reported.
    removed: bool,
    /// Attempts that have started and have not been reported.
    pub in_flight: u32,
    /// Moving average of the time to a delivery, in µs; 0 means that there is none yet.
    pub estimate: u64,
    /// Attempts that have started.
    pub attempts: u64,
    /// Choices in which it did not admit the attempt, by the reason.
    pub skipped: [u64; Skip::ALL.len()],
    /// Attempts that failed at it, after which the next one went to another target at once.
    pub failovers: u64,
}

impl Member {
    /// Its components.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    fn bit(&self) -> Set {
        1 << self.number
    }

    /// Enters the time of a good attempt, or a failure's (17.2).
    fn observe(&mut self, micros: u64) {
        let micros = micros.max(1);
        let mean = (u128::from(self.estimate) * 7 + u128::from(micros)) / 8;
        self.estimate = if self.estimate == 0 { micros } else { (mean as u64).max(1) };
    }
}

impl Group {
    /// The targets that may be chosen, in order.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.removed)
    }

    /// The target of this number.
    pub fn member(&self, number: u8) -> Option<&Member> {
        self.members.iter().find(|member| member.number == number)
    }

    fn member_mut(&mut self, number: u8) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number)
    }

    /// After a fork: no attempt of the parent's is out.
    pub fn forget_calls(&mut self) {
        self.waiting = List::default();
        for member in &mut self.members {
            member.in_flight = 0;
        }
    }

    /// The estimate of a target; the mean of the others while it has none, and 0 while nobody has one.
    fn estimate(&self, member: &Member) -> u64 {
        if member.estimate > 0 {
            return member.estimate;
        }
        let known = self.members().map(|other| other.estimate).filter(|estimate| *estimate > 0);
        let (sum, count) =
            known.fold((0_u128, 0), |(sum, count), estimate| (sum + u128::from(estimate), count + 1));
        sum.checked_div(count).map_or(0, |mean| mean as u64)
    }

    /// What a balanced choice compares: less is better.
    fn cost(&self, member: &Member) -> u128 {
        (u128::from(member.in_flight) + 1) * u128::from(self.estimate(member).max(1))
    }

    /// Targets that a call may go to.
    fn open_to(&self, asked: Asked) -> Set {
        let is_open = |member: &&Member| {
            if asked.only != 0 {
                return asked.only & member.bit() != 0;
            }
            member.only_after.is_empty() || asked.unlocked & member.bit() != 0
        };
        self.members().filter(is_open).fold(0, |set, member| set | member.bit())
    }

    /// Takes one of these targets.
    fn pick(&self, among: Set, seed: u64, ordinal: u64, attempt: u8) -> Option<u8> {
        let mut there = self.members().filter(|member| among & member.bit() != 0);
        if self.pick == Pick::Ladder {
            return there.next().map(|member| member.number);
        }
        let draw = |among: Set, purpose| {
            let there = || self.members().filter(move |member| among & member.bit() != 0);
            let shares: u64 = there().map(|member| u64::from(member.share)).sum();
            let mut at = rng::uniform(rng::bits(seed, ordinal, purpose, attempt), 0, shares.checked_sub(1)?);
            there().find(|member| {
                let is_here = at < u64::from(member.share);
                at = at.saturating_sub(u64::from(member.share));
                is_here
            })
        };
        let first = draw(among, Purpose::Target)?;
        let second = draw(among & !first.bit(), Purpose::OtherTarget);
        let better = second.filter(|second| self.cost(second) < self.cost(first));
        Some(better.unwrap_or(first).number)
    }
}

/// Why a target does not admit an attempt: the first of its parts that refuses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skip {
    /// An operator refuses every attempt at it.
    Operator,
    /// The attempt costs more than its burst.
    Weight,
    /// Its circuit breaker is open.
    Breaker,
    /// Its rate limit has too few tokens.
    RateLimit,
    /// All permits of its bulkhead are in use.
    Bulkhead,
    /// It is closed after a throttled answer, or has no free place.
    Cooldown,
}

impl Skip {
    /// All reasons; a reason's number is its index.
    pub const ALL: &'static [Self] =
        &[Self::Operator, Self::Weight, Self::Breaker, Self::RateLimit, Self::Bulkhead, Self::Cooldown];

    /// The name in views and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Weight => "weight",
            Self::Breaker => "breaker",
            Self::RateLimit => "rate_limit",
            Self::Bulkhead => "bulkhead",
            Self::Cooldown => "cooldown",
        }
    }
}

/// Why and for how long a target does not admit an attempt.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    skip: Skip,
    /// When it may admit it, if that is known: a permit and a place have no time.
    after: Option<Duration>,
    /// Whether nothing but tokens, or the end or a place of its cooldown, is missing.
    limited: bool,
}

/// Which targets of a group admit an attempt now.
#[derive(Clone, Copy, Debug, Default)]
struct Survey {
    admit: Set,
    /// The others, by the reason.
    skips: [Set; Skip::ALL.len()],
    /// When the first of the others may admit it, if that is known.
    earliest: Option<Duration>,
    /// Whether some of the others may admit it later, some of them at an unknown time, and some of them lack more than
    /// tokens or a place.
    later: bool,
    unknown: bool,
    blocked: bool,
}

impl Survey {
    fn add(&mut self, target: Set, Refusal { skip, after, limited }: Refusal) {
        self.skips[skip as usize] |= target;
        if matches!(skip, Skip::Operator | Skip::Weight) {
            return; // it will not admit it, however long the call waits
        }
        self.later = true;
        self.unknown |= after.is_none();
        self.blocked |= !limited;
        self.earliest = match (self.earliest, after) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// The verdict for a call that no target admits, or that must not pass others.
    fn verdict(&self) -> Verdict {
        let limited = self.admit == 0 && self.later && !self.blocked;
        if limited { Verdict::TargetsLimited } else { Verdict::NoTarget }
    }

    /// When another try makes sense, if that is known.
    fn retry_in(&self) -> Option<Duration> {
        if self.admit == 0 { self.earliest } else { Some(Duration::ZERO) }
    }

    fn refuse(&self) -> Answer {
        Answer::Refuse(self.verdict(), self.retry_in())
    }
}

impl Routes {
    /// Counts a failover from a target of a group.
    pub(super) fn count_failover(&mut self, home: PoolAt, number: u8) {
        if let Some(member) = self[home].group.as_mut().and_then(|group| group.member_mut(number)) {
            member.failovers += 1;
        }
    }

    /// Whether a target admits an attempt now.
    fn asks_target(&mut self, at: RouteAt, cost: u32, now: Time) -> Result<(), Refusal> {
        let never = |skip| Err(Refusal { skip, after: None, limited: false });
        let target = &mut self[at];
        if target.forced {
            return never(Skip::Operator);
        }
        let mut wait = target.breaker.as_ref().and_then(|breaker| breaker.refuses(now));
        let mut skip = wait.map(|_| Skip::Breaker);
        let limited = skip.is_none();
        if let Some(rate) = &mut target.rate
            && !rate.has(cost, now)
        {
            if rate.burst().is_some_and(|burst| cost > burst) {
                return never(Skip::Weight);
            }
            wait = wait.max(Some(rate.bucket.wait_for(u64::from(cost), now)));
            skip = skip.or(Some(Skip::RateLimit));
        }
        if target.pool.as_ref().is_some_and(|pool| pool.in_flight >= pool.limit) {
            return never(skip.unwrap_or(Skip::Bulkhead));
        }
        if let Some(cooling) = &mut target.cooldown
            && let Err(left) = cooling.part.asks(now)
        {
            skip = skip.or(Some(Skip::Cooldown));
            if left.is_none() {
                return Err(Refusal { skip: skip.unwrap_or(Skip::Cooldown), after: None, limited });
            }
            wait = wait.max(left);
        }
        skip.map_or(Ok(()), |skip| Err(Refusal { skip, after: wait, limited }))
    }

    /// The call that waits first for a target of a group.
    pub(super) fn first_for_target(&self, home: PoolAt) -> Option<Slot> {
        self[home].group.as_ref().and_then(|group| group.waiting.head())
    }

    /// Whether a call may take a target: no call waits, or it may go to none but those that are for calls that have failed as
    /// it has.
    fn is_in_turn(&self, home: PoolAt, asked: Asked) -> bool {
        asked.only != 0 || self.first_for_target(home).is_none()
    }

    /// Asks the targets of a group that a call may go to.
    fn survey(&mut self, home: PoolAt, asked: Asked, now: Time) -> Survey {
        let mut survey = Survey::default();
        let Some(group) = self[home].group.take() else { return survey };
        let open = group.open_to(asked);
        for member in group.members().filter(|member| open & member.bit() != 0) {
            match self.asks_target(member.at, asked.cost, now) {
                Ok(()) => survey.admit |= member.bit(),
                Err(refusal) => survey.add(member.bit(), refusal),
            }
        }
        self[home].group = Some(group);
        survey
    }
}

/// What a call asks of the targets.
#[derive(Clone, Copy, Debug)]
struct Asked {
    cost: u32,
    /// Targets with `only_after` that one of its failures has opened to it.
    unlocked: Set,
    /// If any, the only targets that it may go to.
    only: Set,
}

/// When the next attempt of a call can start, besides its backoff.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Elsewhere {
    /// At once: a target that the call has not tried admits it now.
    Now,
    /// After this: until a target may admit it, or until a cooldown ends.
    After(Duration),
}

impl Elsewhere {
    /// Of a route without targets and without a cooldown.
    pub const HERE: Self = Self::After(Duration::ZERO);
}

impl Routes {
    /// Where the targets of a call's policy are.
    pub(super) fn targets_of(&self, call: &Call) -> Option<PoolAt> {
        self[call.route].targets_at.map(|at| *at)
    }

    /// Whether a held call waits for a target, or has been granted one. A policy with targets has neither a hold nor a cooldown.
    pub(super) fn aims(&self, call: &Call) -> bool {
        self[call.route].targets_at.is_some()
    }

    /// Leaves it to the end of the step to hand targets out, if calls wait.
    fn note_freed(&self, home: PoolAt, chores: &mut Chores) {
        if self.first_for_target(home).is_some() {
            chores.leave(Chore::Targets(home));
        }
    }

    /// Attempts that calls have out at a target; for consistency checks.
    pub(super) fn attempts_at(&self, at: RouteAt, calls: &Arena) -> u32 {
        let out = calls.iter().filter_map(|(slot, call)| {
            let home = self.targets_of(call)?;
            let group = self[home].group.as_ref()?;
            let member = group.members.iter().find(|member| member.at == at)?;
            Some(calls.out_at(slot, member.number) as u32)
        });
        out.sum()
    }
}

impl Desk {
    /// Where a further attempt of a call could go (17.4), and when, by its cooldown (16.3).
    #[cold]
    #[inline(never)]
    pub(super) fn elsewhere(&mut self, slot: Slot, now: Time) -> Elsewhere {
        let Some(home) = self.routes.targets_of(&self.calls[slot]) else {
            let cooldown = &self.routes[self.calls[slot].route].cooldown;
            let closed = cooldown.as_ref().and_then(|it| it.part.closed_for(now));
            return Elsewhere::After(closed.unwrap_or(Duration::ZERO));
        };
        let asked = self.calls.asked(slot);
        let survey = self.routes.survey(home, asked, now);
        if survey.admit & !self.calls.tried(slot) != 0 && self.routes.is_in_turn(home, asked) {
            return Elsewhere::Now;
        }
        self.calls.forget_tried(slot); // the call starts another attempt after a wait, or ends
        let wait = if survey.admit == 0 { survey.earliest } else { None };
        Elsewhere::After(wait.unwrap_or(Duration::ZERO))
    }

    /// Picks one of the targets that admit the attempt; those that the call has not tried come first.
    fn choose_any(&mut self, slot: Slot, home: PoolAt, survey: Survey) -> Option<u8> {
        let untried = survey.admit & !self.calls.tried(slot);
        self.choose(slot, home, survey, if untried == 0 { survey.admit } else { untried })
    }

    /// Whether another target is tried at once after a failure that is not retried (17.4.8, 17.7): one that `failover_on` lists, or
    /// one that opens a target to the call.
    #[cold]
    #[inline(never)]
    pub(super) fn fails_over(&mut self, slot: Slot, outcome: Outcome, listed: bool, now: Time) -> bool {
        let policy = self.policies.of(&self.calls[slot]);
        let (own, class) = (policy.name_of(outcome.kind), policy.class_of(outcome.kind).name());
        let is_retried = policy.retry.kinds >> outcome.kind.number() & 1 == 1;
        let is_alone = policy.retry.max_attempts == 1;
        let Some(group) =
            self.routes.targets_of(&self.calls[slot]).and_then(|home| self.routes[home].group.as_ref())
        else {
            return false;
        };
        let lists = |kinds: &[String]| kinds.iter().any(|kind| kind == class || Some(&**kind) == own);
        let rungs = group.members().filter(|member| lists(&member.only_after));
        let rungs = rungs.fold(0, |set, member| set | member.bit());
        if rungs != 0 {
            self.calls.unlock(slot, rungs);
        }
        if outcome.opinion != Opinion::None || is_retried || is_alone || !listed && rungs == 0 {
            return false;
        }
        if !listed {
            self.calls.restrict(slot, rungs);
        }
        self.elsewhere(slot, now) == Elsewhere::Now
    }

    /// The target for a hedge, which the call has not tried. Takes nothing; `None` if the hedge must not start.
    #[cold]
    #[inline(never)]
    pub(super) fn target_of_hedge(&mut self, slot: Slot, home: PoolAt, now: Time) -> Option<u8> {
        let asked = self.calls.asked(slot);
        if !self.routes.is_in_turn(home, asked) {
            return None; // a hedge passes no call that waits
        }
        let survey = self.routes.survey(home, asked, now);
        let untried = survey.admit & !self.calls.tried(slot);
        self.choose(slot, home, survey, untried)
    }

    /// Picks a target, and counts those that did not admit the attempt.
    fn choose(&mut self, slot: Slot, home: PoolAt, survey: Survey, among: Set) -> Option<u8> {
        let (seed, call) = (self.seed, &self.calls[slot]);
        let (ordinal, attempt) = (call.ordinal(), call.attempts.saturating_add(1));
        let group = self.routes[home].group.as_mut()?;
        let picked = group.pick(among, seed, ordinal, attempt);
        let is_ladder = group.pick == Pick::Ladder;
        for member in group.members.iter_mut().filter(|member| !member.removed) {
            if is_ladder && Some(member.number) == picked {
                break;
            }
            let bit = member.bit();
            for (count, skips) in member.skipped.iter_mut().zip(survey.skips) {
                *count += u64::from(skips & bit != 0);
            }
        }
        picked
    }

    /// Takes what an attempt needs of its target: tokens, a permit, and a ticket of its breaker.
    #[cold]
    #[inline(never)]
    pub(super) fn take_target(&mut self, slot: Slot, home: PoolAt, number: u8, now: Time) {
        let cost = self.calls[slot].cost();
        let Some(member) = self.routes[home].group.as_mut().and_then(|group| group.member_mut(number)) else {
            return super::stage::missing("the target that was chosen");
        };
        member.in_flight += 1;
        member.attempts += 1;
        let (at, timeout) = (member.at, member.policy.attempt_timeout);
        let target = &mut self.routes[at];
        if let Some(rate) = &mut target.rate {
            rate.take(cost, now);
        }
        if let Some(pool) = &mut target.pool {
            pool.in_flight += 1;
        }
        let before = target.breaker.as_ref().map(|breaker| breaker.state(now));
        let ticket = target.breaker.as_mut().and_then(|breaker| breaker.admit(now).ok());
        let place = target.cooldown.as_mut().and_then(|cooling| cooling.part.admit(now).ok());
        self.calls.choose_target(slot, number, (ticket, place.unwrap_or_default()), timeout);
        if let Some(from) = before {
            self.note(move |it| it.breaker_changed(Some(slot), at, from, now));
        }
    }

    /// Releases the permits that attempts had of their targets. A target that was removed goes with its last one.
    #[cold]
    #[inline(never)]
    pub(super) fn release_targets(&mut self, route: RouteAt, numbers: &[u8]) {
        let Some(home) = self.routes[route].targets_at.map(|at| *at) else {
            return super::stage::missing("the group of an attempt's target");
        };
        for number in numbers {
            let Some(member) = self.routes[home].group.as_mut().and_then(|group| group.member_mut(*number))
            else {
                continue;
            };
            member.in_flight = member.in_flight.saturating_sub(1);
            let (at, goes) = (member.at, member.removed && member.in_flight == 0);
            if let Some(pool) = &mut self.routes[at].pool {
                pool.in_flight = pool.in_flight.saturating_sub(1);
                pool.over = pool.over.saturating_sub(1);
            }
            if goes {
                self.routes.remove_target(home, *number);
            }
        }
        self.routes.note_freed(home, &mut self.chores);
    }
}

impl Pools {
    /// All targets, with the names of their groups.
    pub(super) fn targets<'a>(&'a self, routes: &'a Routes) -> impl Iterator<Item = (&'a str, &'a Member)> {
        self.iter().flat_map(|(name, shared)| {
            let group = routes[shared.at].group.iter();
            group.flat_map(|group| group.members()).map(move |member| (name.as_str(), member))
        })
    }
}

impl Engine {
    /// The name of the target that an attempt of a call goes to; `None` for an attempt without one. `attempt` is the number of one
    /// of the last eight attempts, for a host whose attempts run side by side; `None` means the newest, which a host reads when the
    /// step's flag `target` is set.
    ///
    /// ```
    /// use tidegate::{Document, Engine, Options, Request, Time};
    /// let document = Document::from_toml(r#"
    ///     [targets.chat]
    ///     pick = "ladder"
    ///     members = ["large", "small"]
    ///     [policy.chat]
    ///     targets = "chat"
    ///     retry = { max_attempts = 3 }
    /// "#)?;
    /// let (mut engine, now) = (Engine::new(7, Options::default()), Time::from_micros(0));
    /// for group in document.pools() {
    ///     engine.pool(group.clone(), now).unwrap();
    /// }
    /// let policy = engine.policy(document.policy("chat").unwrap().clone()).unwrap();
    /// let route = engine.route(policy, "", now);
    /// let (call, step) = engine.begin(route, &Request::default(), now);
    /// assert!(step.flags().target);
    /// assert_eq!(engine.target_of(call, None), Some("large"));
    /// assert_eq!((engine.target_of(call, Some(1)), engine.target_of(call, Some(2))), (Some("large"), None));
    /// # Ok::<(), Vec<tidegate::PolicyError>>(())
    /// ```
    pub fn target_of(&self, call: CallId, attempt: Option<u8>) -> Option<&str> {
        let slot = self.desk.calls.find(call)?;
        let call = &self.desk.calls[slot];
        let attempt_slot = match attempt {
            Some(number) if call.started_as(number) == 0 => return None,
            Some(number) => AttemptSlot::of(number),
            None => call.attempt_slot(),
        };
        let number = self.desk.calls.target_in(slot, attempt_slot)?;
        let home = self.desk.routes.targets_of(&self.desk.calls[slot])?;
        let member = self.desk.routes[home].group.as_ref()?.member(number)?;
        Some(&member.name)
    }
}
