//! Why a call waits, or ended as it did, with the numbers used (semantics 12.2).

use crate::engine::desk::Desk;
use crate::engine::place::{RouteAt, Slot};
use core::fmt;

use crate::action::{CallId, Link, Verdict, Wait};
use crate::breaker::BreakerState;
use crate::engine::arena::flag;
use crate::engine::automaton::State;
use crate::engine::call::GRACE;
use crate::engine::journal::Journal;
use crate::engine::policies::Policies;
use crate::engine::record::{Record, RecordType};
use crate::engine::route::Routes;
use crate::engine::{Engine, view};
use crate::outcome::Kind;
use crate::time::Time;

/// State of a call, or how it ended. `Display` is the text for people.
#[derive(Clone, PartialEq, Debug)]
pub struct CallExplanation {
    /// The call.
    pub call: CallId,
    /// The name of its policy.
    pub policy: String,
    /// The key of its route.
    pub route: String,
    /// When it began, on the engine's clock.
    pub began: Time,
    /// The moment explained; for a live call, the last that the engine has seen.
    pub at: Time,
    /// Attempts started.
    pub attempts: u8,
    /// Its state, in words.
    pub standing: String,
    /// What it waits for.
    pub why: Option<Wait>,
    /// The latest end of the wait; absent if unbounded.
    pub until: Option<Time>,
    /// Its deadline.
    pub deadline: Option<Time>,
    /// How it ended, or the verdict that its owner will get.
    pub verdict: Option<Verdict>,
    /// The numbers of its route; for an ended call, just before the step that ended it.
    pub numbers: Vec<String>,
    /// The decisions about it, for an ended call.
    pub story: Vec<Record>,
}

impl Routes {
    /// The present numbers on which decisions on a route depend.
    fn numbers(&self, slot: RouteAt, policies: &Policies, now: Time) -> Vec<String> {
        let route = &self[slot];
        let mut numbers = Vec::new();
        if route.is_forced() {
            numbers.push("forced open by an operator".to_owned());
        }
        if let Some(rate) = view::tokens(&self[route.rate_at], now) {
            numbers.push(format!("rate limit: {} whole tokens there, {} waiting", rate.tokens, rate.waiting));
        }
        if let Some(pool) = view::permits(&self[route.pool_at]) {
            let most =
                if pool.max_queue == u32::MAX { "any number of".into() } else { pool.max_queue.to_string() };
            let (out, limit, waiting) = (pool.in_flight, pool.limit, pool.waiting);
            numbers.push(format!(
                "bulkhead: {out} of {limit} permits out, {waiting} of {most} places in the queue taken"
            ));
        }
        if let Some(breaker) = &route.breaker {
            let state = match breaker.state(now) {
                BreakerState::Closed => "closed",
                BreakerState::Open => "open",
                BreakerState::HalfOpen => "half-open",
            };
            let until =
                breaker.refuses(now).map_or(String::new(), |span| format!(", refuses for another {span}"));
            let policy = &policies[usize::from(route.policy)].policy;
            let counts = policy.breaker.as_ref().is_some_and(|it| it.settings.failure_ratio.is_some());
            let (failures, all) = (breaker.failures(now), breaker.throughput(now));
            let recent =
                if counts { format!(", {failures} of {all} recent results failed") } else { String::new() };
            numbers.push(format!("breaker: {state}{recent}{until}"));
        }
        if let Some(mut throttle) = route.throttle.clone() {
            let (all, accepted) = throttle.counts(now);
            let p = throttle.probability(now);
            numbers.push(format!(
                "throttle: {accepted} of {all} recent requests accepted, refuses with probability {p}"
            ));
        }
        if let Some(cooling) = route.cooldown.as_ref().filter(|it| !it.part.is_open()) {
            let (places, taken) = cooling.part.places();
            let standing = cooling.part.closed_for(now).map_or_else(
                || format!("reopening, {taken} of {places} places taken"),
                |left| format!("closed for another {left}"),
            );
            numbers.push(format!("cooldown: {standing}, {} waiting", cooling.waiting()));
        }
        if let Some(balance) = view::retries(&self[route.budget_at], now) {
            numbers.push(format!("retry budget: {balance} retries left"));
        }
        if let Some(holds) = route.holds.as_ref().filter(|holds| holds.open() > 0) {
            numbers.push(format!("holds: {} open, {} waiting", holds.open(), holds.waiting()));
        }
        numbers
    }
}

impl Engine {
    /// Explains why a call waits and until when, or why an ended call ended as it did. `None` if this engine has no
    /// information about it. An ended call is explained from the journal, if nothing has been taken from it, by
    /// replaying the whole journal twice; or from the history ([`crate::Options::history`]), which holds calls with
    /// trouble. (To explain an ended call from a journal that was taken, replay the journal into an engine with a
    /// journal.)
    ///
    /// ```
    /// use tidegate::{Engine, Options, Policy, Request, Time, Value, Verdict, Wait};
    /// let mut engine = Engine::new(7, Options::default().journal(true));
    /// let pairs = [("bulkhead.max_concurrency", Value::Number(1.0)), ("bulkhead.max_queue", Value::Number(1.0))];
    /// let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
    /// let now = Time::from_micros(0);
    /// let route = engine.route(policy, "eu", now);
    /// let calls = [(); 3].map(|()| engine.begin(route, &Request::default(), now).0);
    ///
    /// let waits = engine.explain_call(calls[1]).unwrap();
    /// assert_eq!((waits.why, waits.until), (Some(Wait::Queue), Some(Time::from_micros(1_000_000))));
    /// let refused = engine.explain_call(calls[2]).unwrap();
    /// assert_eq!(refused.verdict, Some(Verdict::QueueFull));
    /// assert_eq!(refused.numbers, ["bulkhead: 1 of 1 permits out, 1 of 1 places in the queue taken"]);
    /// ```
    pub fn explain_call(&self, call: CallId) -> Option<CallExplanation> {
        let now = self.clock.now();
        match self.desk.calls.find(call) {
            Some(slot) if self.desk.calls[slot].state() != State::Ended => {
                Some(self.desk.explain_live(slot, now))
            }
            lingering => {
                let ended = match self.journal.all() {
                    Some(_) => explain_replayed(call, &self.journal, &self.desk.policies),
                    None => self.desk.explain_noted(call, now),
                };
                ended.or_else(|| lingering.map(|slot| self.desk.explain_live(slot, now)))
            }
        }
    }
}

impl Desk {
    /// Explains a call that is live or lingers.
    fn explain_live(&self, slot: Slot, now: Time) -> CallExplanation {
        let call = &self.calls[slot];
        let waits = |why: Wait, until: Time, words: &str| (Some(why), until, words.to_owned());
        let attempts = call.running().count_ones();
        let (why, until, standing) = match call.state() {
            State::Held if self.calls.cools(slot) && call.has(flag::TOKENS) => {
                waits(Wait::Cooldown, call.moment, "the cooldown lets it in; its owner is to poll")
            }
            State::Held if self.calls.cools(slot) => waits(
                Wait::Cooldown,
                call.deadline,
                "waits for the cooldown: the server has said that there are too many requests",
            ),
            State::Held if self.calls.has_target(slot) => waits(
                Wait::Target,
                call.moment,
                "has a target that its owner has not claimed; it is taken back then",
            ),
            State::Held if self.routes.aims(&self.calls[slot]) => waits(
                Wait::Target,
                self.calls.patience_for_target(slot),
                "waits until a target of its group admits it",
            ),
            State::Held if call.has(flag::TOKENS) => {
                waits(Wait::Hold, call.moment, "its hold is over; its owner is to poll")
            }
            State::Paced if call.has(flag::TOKENS) => {
                waits(Wait::Rate, call.moment, "its tokens are there; its owner is to poll")
            }
            State::Held => waits(
                Wait::Hold,
                call.deadline,
                "held: a call to a like path waits for the server's Retry-After",
            ),
            State::Paced if call.has(flag::SENDING) => {
                waits(Wait::Rate, call.moment.min(call.deadline), "waits for the send rate")
            }
            State::Paced => {
                waits(Wait::Rate, call.moment.min(call.deadline), "waits for tokens of the rate limit")
            }
            State::Queued => waits(Wait::Queue, self.patience(slot), "waits for a permit of the bulkhead"),
            State::Granted => waits(
                Wait::Queue,
                call.moment,
                "has a permit that its owner has not claimed; it is taken back then",
            ),
            State::Running if attempts > 1 => {
                waits(Wait::Running, self.next_moment(slot, now), "several attempts run")
            }
            State::Running => waits(Wait::Running, self.next_moment(slot, now), "an attempt runs"),
            State::Body => waits(Wait::Body, call.deadline, "its answer's body is being read"),
            State::Backoff if call.blocked() => {
                waits(Wait::Running, call.since().after(GRACE), "waits for stopped attempts to unwind")
            }
            State::Backoff if self.link == Link::Offline => waits(
                Wait::Backoff,
                call.moment,
                "waits before its next attempt, which waits for the link: the device is offline",
            ),
            State::Backoff => waits(Wait::Backoff, call.moment, "waits before its next attempt"),
            State::Refused => (None, call.moment, "refused; its owner is to poll".into()),
            State::Lost => (None, call.moment, "given up: its host did not report".into()),
            State::Free | State::Passing | State::Ended => {
                (None, call.moment, "has ended; attempts or calls within it are still out".into())
            }
        };
        CallExplanation {
            call: self.calls.id(slot),
            policy: self.policies.of(&self.calls[slot]).name().to_owned(),
            route: self.routes[call.route].key().to_owned(),
            began: call.started,
            at: now,
            attempts: call.attempts,
            standing,
            why,
            until: (until != Time::NEVER).then_some(until),
            deadline: (call.deadline != Time::NEVER).then_some(call.deadline),
            verdict: match call.state() {
                State::Refused => Some(call.refusal()),
                State::Lost => Some(Verdict::Lost),
                _ => None,
            },
            numbers: self.routes.numbers(call.route, &self.policies, now),
            story: Vec::new(),
        }
    }

    /// Explains an ended call from the history, with the present state of its route.
    fn explain_noted(&self, call: CallId, now: Time) -> Option<CallExplanation> {
        let story = self.notes.of_call(call);
        let last = *story.last()?;
        let end = story.iter().rfind(|record| record.what == RecordType::CallDone);
        let verdict = end.map_or(Verdict::Ok, |end| end.verdict.unwrap_or(Verdict::Ok));
        let elapsed = last.elapsed.unwrap_or_default();
        let route = last.route.and_then(|route| self.routes.find(route));
        let policy = last.policy.and_then(|policy| self.policies.find(policy));
        let numbers = route.map_or(Vec::new(), |route| self.routes.numbers(route, &self.policies, now));
        Some(CallExplanation {
            call,
            policy: policy.map_or("(removed)", |policy| policy.name()).to_owned(),
            route: route.map_or("(evicted)", |route| self.routes[route].key()).to_owned(),
            began: Time::from_micros(last.at.as_micros().saturating_sub(elapsed.as_micros())),
            at: last.at,
            attempts: last.attempt,
            standing: format!("ended as {}: {}", verdict.name(), verdict.meaning()),
            why: None,
            until: end.and_then(|end| end.wait).map(|wait| last.at.after(wait)),
            deadline: None,
            verdict: Some(verdict),
            numbers: numbers.into_iter().map(|number| format!("now: {number}")).collect(),
            story,
        })
    }
}

/// Explains an ended call from the whole journal: one replay to find the input that ended it, a second to see the state
/// before it.
fn explain_replayed(call: CallId, journal: &Journal, policies: &Policies) -> Option<CallExplanation> {
    let fresh = || Engine::new(journal.seed, journal.options.journal(false));
    let (mut again, mut recorded, mut story) = (fresh(), Vec::new(), Vec::new());
    again.subscribe(true);
    let of_it = |record: &&Record| record.call == Some(call);
    let last = journal.all()?.position(|input| {
        again.apply(input.clone());
        again.take_records(&mut recorded);
        story.extend(recorded.iter().filter(of_it).copied());
        recorded.drain(..).any(|record| record.call == Some(call) && record.what == RecordType::CallDone)
    })?;
    let end = *story.iter().rfind(|record| record.what == RecordType::CallDone)?;
    let mut before = fresh();
    before.replay(journal.all()?.take(last).cloned());
    let slot = before.desk.routes.find(end.route?)?;
    let elapsed = end.elapsed.unwrap_or_default();
    let reason = end.verdict.map_or("", Verdict::name);
    let deadline = before.desk.calls.find(call).map(|slot| before.desk.calls[slot].deadline);
    Some(CallExplanation {
        call,
        policy: policies.find(end.policy?)?.name().to_owned(),
        route: before.desk.routes[slot].key().to_owned(),
        began: Time::from_micros(end.at.as_micros().saturating_sub(elapsed.as_micros())),
        at: end.at,
        attempts: end.attempt,
        standing: format!("ended as {reason}: {}", end.verdict.map_or("", Verdict::meaning)),
        why: None,
        until: end.wait.map(|wait| end.at.after(wait)),
        deadline: deadline.filter(|deadline| *deadline != Time::NEVER),
        verdict: end.verdict,
        numbers: before.desk.routes.numbers(slot, &before.desk.policies, end.at),
        story,
    })
}

impl fmt::Display for CallExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "call {} of policy {} on route {}", self.call.to_word(), self.policy, self.route)?;
        writeln!(f, "  {}", self.standing)?;
        let age = self.at.since(self.began);
        writeln!(f, "  {} attempts in {age}", self.attempts)?;
        let ahead = |moment: Time| moment.since(self.at);
        if let Some(until) = self.until {
            let ended = self.story.last().is_some();
            let words = if ended { "another try makes sense in" } else { "for at most another" };
            writeln!(f, "  {words} {}", ahead(until))?;
        }
        if let Some(deadline) = self.deadline {
            writeln!(f, "  deadline in {}", ahead(deadline))?;
        }
        if let (Some(verdict), []) = (self.verdict, &self.story[..]) {
            writeln!(f, "  to be told: {}", verdict.name())?;
        }
        for number in &self.numbers {
            writeln!(f, "  {number}")?;
        }
        for record in &self.story {
            let since = record.at.since(self.began);
            write!(f, "  at {since}: {}", record.what)?;
            if record.attempt > 0 {
                write!(f, ", attempt {}", record.attempt)?;
            }
            if let Some(class) = record.kind.and_then(Kind::class) {
                write!(f, ", {}", class.name())?;
            }
            if let Some(verdict) = record.verdict {
                write!(f, ", {}", verdict.name())?;
            }
            if let Some(wait) = record.wait {
                write!(f, ", wait {wait}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
