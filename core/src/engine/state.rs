//! Saving what an engine has learned, and restoring it in another process (serverless, a restart).
//!
//! Calls, permits, waiters and probes do not survive, because they belong to the process. Everything else continues,
//! with moments relative to the moment of saving. A component whose state has another meaning under the present
//! settings starts fresh, by the rules of `retune.rs`, and the result names it.

pub(super) mod debts;
pub(super) mod parts;
mod stage;

use std::fmt;

use super::desk::Desk;
use super::pages::SavePages;
use super::{Engine, Input};
use crate::state::{Loader, Moments, VERSION, Value, parse};
use crate::time::{Duration, Time};

/// The longest span between saving and restoring; longer ones count as this one, which is 285 years.
const LONGEST: Duration = Duration::from_micros((1 << 53) - 1);

/// Result of a restore.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Number of restored routes.
    pub routes: u32,
    /// Routes for which there was no room within `max_routes`: the least recently used ones.
    pub left_out: u32,
    /// Policies and pools of the saved state that this engine does not have, by kind and name. Their saved state is
    /// lost. Add policies and pools first, then restore.
    pub unknown: Vec<(&'static str, String)>,
    /// Components that have started fresh because their settings have changed: policy or pool, its name, and the
    /// component (`budget`, `rate`, `send`, `breaker`, `throttle`, `limit`, `hedge`, `hedge_budget`, `holds`).
    pub dropped: Vec<(&'static str, String, &'static str)>,
}

/// Error: a saved state cannot be restored. Nothing has been changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestoreError {
    /// The text was not written by [`Engine::save`].
    Damaged {
        /// The damaged place: the whole text, or a policy or pool, a route, and a component.
        place: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// Another version of Tidegate wrote it, in the format of this number.
    Version(u64),
    /// This engine has begun calls.
    InUse,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { place, rule } => write!(f, "saved state, {place}: {rule}"),
            Self::Version(version) => {
                write!(f, "saved state: version {version}; this engine reads versions 1 to {VERSION}")
            }
            Self::InUse => f.write_str("a state is restored before an engine's first call"),
        }
    }
}

impl std::error::Error for RestoreError {}

impl Engine {
    /// The learned state, as text: retry budgets, rate limits and send rates, limits with their estimates, circuit
    /// breakers and throttles with their windows, hedge latencies, holds, forced openings, and the number of calls
    /// begun (on which random draws depend). Calls are not in it, and neither are the counts of [`Engine::snapshot`].
    ///
    /// The text is JSON, so it can be stored as it is or as a value within another document. Changes nothing; costs
    /// one pass over the routes and some 100 to 2,000 bytes for each route with state. A host that shares the engine
    /// between threads takes it in pages: [`Engine::save_page`].
    ///
    /// ```
    /// use tidegate::{Class, Duration, Engine, Event, Options, Outcome, Policy, Request, Time, Value::Number};
    /// let policy = || Policy::from_pairs("p", &[
    ///     ("breaker.consecutive", Number(1.0)),
    ///     ("breaker.break_duration", Number(5e6)),
    /// ]).unwrap();
    /// let (mut old, now) = (Engine::new(7, Options::default()), Time::from_micros(9_000_000));
    /// let id = old.policy(policy()).unwrap();
    /// let route = old.route(id, "api", now);
    /// let (call, _) = old.begin(route, &Request::default(), now);
    /// let _ = old.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Transient) }, now);
    /// let saved = old.save(now);
    ///
    /// // Two seconds later, in another process with a clock of its own.
    /// let (mut new, now) = (Engine::new(8, Options::default()), Time::from_micros(0));
    /// let id = new.policy(policy()).unwrap();
    /// let restored = new.restore(&saved, Duration::from_secs(2), now).unwrap();
    /// assert_eq!((restored.routes, restored.dropped.len()), (1, 0));
    /// let breaker = new.snapshot(now).routes[0].breaker.unwrap();
    /// assert!(breaker.retry_in.unwrap() > Duration::from_secs(2));
    /// ```
    pub fn save(&self, now: Time) -> String {
        let mut pages = SavePages::default();
        while self.save_page(&mut pages, now) {}
        pages.finish()
    }

    /// Restores a saved state, `elapsed` after it was saved: windows and breaks age by that time, and buckets fill.
    /// Pass zero if the time is unknown; then nothing appears older than it was.
    ///
    /// Call this after adding policies and pools and before the first call. A component whose state has another
    /// meaning under the policy's present settings starts fresh, as with [`Engine::retune`]; the result names it. If
    /// the seed is the same too, every decision is the one that the saved engine would have made.
    ///
    /// # Errors
    /// A text that [`Engine::save`] has not written, or of another version; or the engine has begun calls. Nothing
    /// has been changed then.
    pub fn restore(&mut self, saved: &str, elapsed: Duration, now: Time) -> Result<Restored, RestoreError> {
        self.journal.write(|| Input::Restore { saved: saved.into(), elapsed, now });
        if self.ordinal > 0 {
            return Err(RestoreError::InUse);
        }
        if !self.desk.chores.is_empty() {
            let now = self.clock.peek(now);
            self.fleet_desk().catch_up_all(now);
        }
        let damaged = |rule| RestoreError::Damaged { place: "the whole".into(), rule };
        let saved = parse(saved).ok_or_else(|| damaged("must be JSON that an engine has saved"))?;
        let none = Value::List(Vec::new());
        let field = |name| saved.get(name).unwrap_or(&none);
        // Read the numbers of the head first: other moments are read relative to them.
        let whole = |name| {
            let head = Value::List(vec![field(name).clone()]);
            let of = Moments::new(Time::default(), Duration::ZERO, 0, VERSION);
            Loader::new(&head, &of).and_then(|mut from| from.whole())
        };
        let version = match whole("tidegate") {
            Ok(version @ 1..=VERSION) => version,
            Ok(version) => return Err(RestoreError::Version(version)),
            Err(_) => return Err(damaged("must have the number of its version")),
        };
        let (Ok(oldest), Ok(ordinal)) = (whole("oldest"), whole("calls")) else {
            return Err(damaged("must say how old it is and how many calls had begun"));
        };
        // Every saved moment must lie after 0, whatever the origin of the clock is now.
        let reading = self.clock.peek(now);
        let elapsed = elapsed.min(LONGEST);
        let needed = Time::from_micros(oldest).after(elapsed);
        let skipped = needed.since(reading);
        let now_then = reading.after(skipped);
        let of = Moments::new(now_then, elapsed, oldest, version);

        let mut restored = Restored::default();
        let damaged = |(place, rule)| RestoreError::Damaged { place, rule };
        let policies =
            stage::saved_policies(&self.by_name, field("policies"), &of, &mut restored).map_err(damaged)?;
        let pools = self.pools.staged_pools(field("pools"), &of, &mut restored).map_err(damaged)?;
        let targets = self
            .pools
            .staged_targets(&self.desk.routes, field("targets"), &of, &mut restored)
            .map_err(damaged)?;
        let routes = self
            .desk
            .policies
            .staged_routes(field("routes"), &policies, &of, &mut restored)
            .map_err(damaged)?;

        let debts = Desk::staged_debts((saved.get("hash"), field("debts")), &policies, &of);
        let debts = debts.map_err(|damage| damaged(("debts".into(), damage.0)))?;

        // Nothing can fail from here on.
        self.clock.observe(now);
        self.clock.skip(skipped);
        self.desk.routes.wall.skip(skipped);
        self.ordinal = ordinal;
        self.desk.restored = true;
        for (at, parts) in pools.into_iter().chain(targets) {
            let wall = self.desk.routes.wall;
            self.desk.routes[at].go_on_from(parts, wall);
        }
        self.desk.policies.force_again(&policies, &mut self.desk.routes);
        self.desk.routes.go_on_from_debts(debts, &routes, &self.desk.policies, now_then);
        self.desk.place(routes, &mut restored, now_then);
        Ok(restored)
    }
}
